//! From durable blocks to entries.

use base::Lsn;
use redo::{Blocks, Reader};

use crate::error::Result;
use crate::tail::Tail;

/// What a step has found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Followed {
    /// Blocks; there may be more.
    Some,
    /// Nothing that was not known: all that is durable was read.
    All,
}

/// What is not followed as it is written, but was there before.
#[derive(Debug, Clone, Copy, Default)]
pub struct Before {
    /// What was durable at the start; `None` once all of that was read.
    pub start: Option<Lsn>,
    /// What was durable when the index was begun, unless it was built by then.
    pub build: Option<Lsn>,
}

/// Reads a log from the block behind a cut on, as it becomes durable.
pub struct Follower {
    reader: Reader,
    blocks: Option<Blocks>,
    tail: Tail,
    before: Before,
    step_bytes: u64,
}

impl Follower {
    /// Goes on behind `tail`; what is there `before` is not in it. A step reads about `step_bytes`.
    #[must_use]
    pub const fn new(reader: Reader, tail: Tail, before: Before, step_bytes: u64) -> Self {
        Self { reader, blocks: None, tail, before, step_bytes }
    }

    /// Reads some blocks.
    ///
    /// # Errors
    /// When the log cannot be read. The next step goes on behind the last block that was.
    pub fn step(&mut self) -> Result<Followed> {
        let followed = self.read();
        self.note_next(self.tail.last().next());
        followed
    }

    /// Blocks from `next` on are read next.
    fn note_next(&mut self, next: Lsn) {
        if self.before.start.take_if(|end| *end < next).is_some() {
            self.tail.note_start();
        }
        if self.before.build.take_if(|end| *end < next).is_some() {
            self.tail.note_built();
        }
    }

    fn begin(&self) -> Blocks {
        let next = self.tail.last().next();
        // A build that goes on after a start comes to blocks from which deletions were dropped
        // before it began: see the crate's top.
        let blocks = match self.tail.known().building() {
            Some(_) => self.reader.blocks_of_index(next),
            None => self.reader.blocks(next),
        };
        blocks.up_to(self.reader.index_bound().indexable())
    }

    fn read(&mut self) -> Result<Followed> {
        // Blocks that were read to their end say nothing of what has become durable since they were begun.
        let begun = self.blocks.take().filter(|blocks| blocks.end() > self.tail.last());
        let mut blocks = begun.unwrap_or_else(|| self.begin());
        if blocks.end() <= self.tail.last() {
            return Ok(Followed::All);
        }
        let (begun_bytes, _) = self.tail.pending();
        while self.tail.pending().0 - begun_bytes < self.step_bytes {
            match blocks.next() {
                Ok(Some(block)) => {
                    self.note_next(block.lsn());
                    self.tail.note_block(&block)?;
                }
                Ok(None) => {
                    // What is missing up to the end is empty.
                    self.tail.note_end(blocks.end());
                    return Ok(Followed::Some);
                }
                Err(error) => {
                    // They know what they have seen from the first block on: they are asked again.
                    self.blocks = Some(blocks);
                    return Err(error.into());
                }
            }
        }
        self.blocks = Some(blocks);
        Ok(Followed::Some)
    }

    /// Whether files of the log are being read: the next step is cheap.
    #[must_use]
    pub const fn is_reading(&self) -> bool {
        self.blocks.is_some()
    }

    /// What was read since the last cut.
    #[must_use]
    pub const fn tail(&self) -> &Tail {
        &self.tail
    }

    pub(crate) const fn tail_mut(&mut self) -> &mut Tail {
        &mut self.tail
    }
}
