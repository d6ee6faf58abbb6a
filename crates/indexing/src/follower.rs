//! From durable blocks to entries, and where to cut.

use base::{Lsn, RecordKind};
use logindex::{Batch, Cut, Delta, Entry};
use redo::{Blocks, LogBlock, Reader};

use crate::error::Result;
use crate::known::Known;
use crate::namer::Namer;

/// What a step has found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Followed {
    /// Blocks; there may be more.
    Some,
    /// Nothing that was not known: all that is durable was read.
    All,
}

/// Reads a log from the block behind a cut on, as it becomes durable.
pub struct Follower {
    reader: Reader,
    blocks: Option<Blocks>,
    namer: Namer,
    known: Known,
    /// What was durable at the start; `None` once all of that was read.
    started_at: Option<Lsn>,
    delta: Delta,
    /// Of the block that is being read.
    entries: Vec<Entry>,
    /// The last block that was read, or behind which nothing is missing.
    last: Lsn,
    last_cut: Lsn,
    /// How many bytes of the log the delta stands for.
    bytes: u64,
    step_bytes: u64,
}

impl Follower {
    /// Goes on behind `cut`, or begins with the first block. `None` if a newer program has cut.
    /// `started_at` is the last block that was logged before this start; a step reads about `step_bytes`.
    #[must_use]
    pub fn new(
        reader: Reader,
        namer: Namer,
        cut: Option<&Cut>,
        started_at: Lsn,
        step_bytes: u64,
    ) -> Option<Self> {
        let (known, last) = Known::at(cut)?;
        Some(Self {
            reader,
            blocks: None,
            namer,
            known,
            started_at: Some(started_at),
            delta: Delta::new(),
            entries: Vec::new(),
            last,
            last_cut: last,
            bytes: 0,
            step_bytes,
        })
    }

    /// Reads some blocks.
    ///
    /// # Errors
    /// When the log cannot be read. The next step goes on behind the last block that was.
    pub fn step(&mut self) -> Result<Followed> {
        let followed = self.read();
        self.note_start(self.last.next());
        followed
    }

    /// Blocks from `next` on are read next.
    fn note_start(&mut self, next: Lsn) {
        if self.started_at.take_if(|end| *end < next).is_some() {
            self.known.note_start();
        }
    }

    fn read(&mut self) -> Result<Followed> {
        let Self { blocks, reader, last, .. } = self;
        let mut blocks = blocks.take().unwrap_or_else(|| reader.blocks(last.next()));
        if blocks.end() <= self.last {
            return Ok(Followed::All);
        }
        let begun_bytes = self.bytes;
        while self.bytes - begun_bytes < self.step_bytes {
            match blocks.next() {
                Ok(Some(block)) => self.note(&block)?,
                Ok(None) => {
                    // What is missing up to the end is empty.
                    self.last = blocks.end();
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

    fn note(&mut self, block: &LogBlock) -> Result<()> {
        self.note_start(block.lsn());
        // A cut has whole blocks, and is judged by what they say: nothing of one that turns out to be
        // bad is taken over.
        self.entries.clear();
        let mut mapped = None;
        for record in block.records() {
            let (addr, record) = record?;
            if record.kind == RecordKind::Databases {
                mapped.get_or_insert_with(|| self.known.clone()).note(&record)?;
            } else {
                mapped.as_mut().unwrap_or(&mut self.known).note(&record)?;
            }
            self.entries.extend(self.namer.entry(&record, addr));
            // At least one a record: a block of records without bytes must end a step, too.
            self.bytes += 1 + (record.key.len() + record.sub.len() + record.value.len()) as u64;
        }
        self.known = mapped.unwrap_or_else(|| std::mem::take(&mut self.known));
        self.entries.drain(..).for_each(|entry| self.delta.push(entry));
        self.last = block.lsn();
        Ok(())
    }

    /// The last block that was read.
    #[must_use]
    pub const fn last(&self) -> Lsn {
        self.last
    }

    /// The last cut.
    #[must_use]
    pub const fn last_cut(&self) -> Lsn {
        self.last_cut
    }

    /// Whether files of the log are being read: the next step is cheap.
    #[must_use]
    pub const fn is_reading(&self) -> bool {
        self.blocks.is_some()
    }

    /// What is known as of the last block that was read.
    #[must_use]
    pub const fn known(&self) -> &Known {
        &self.known
    }

    /// The bytes of the log that were read since the last cut, and the entries.
    #[must_use]
    pub fn pending(&self) -> (u64, usize) {
        (self.bytes, self.delta.len())
    }

    /// Cuts behind the last block that was read; `None` if that is where the last cut is.
    pub fn cut(&mut self) -> Option<Batch> {
        if self.last == self.last_cut {
            return None;
        }
        self.last_cut = self.last;
        self.bytes = 0;
        Some(self.delta.cut(self.last, self.known.encode(), self.known.judge()))
    }
}
