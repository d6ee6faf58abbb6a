//! Sorted runs: groups of items, one an object.
//!
//! ```text
//!   group:  object varint │ weight varint │ items varint │ item …
//!   item:   0 for a root, else 1 and the order key varint │ length varint │ payload
//! ```

use std::ops::Range;

use base::{ObjectId, varint};

use crate::error::Result;
use crate::spill::{FRAME_BYTES, Spill};

/// What was pushed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Item<'a> {
    /// `None` of a root.
    pub(crate) order: Option<u64>,
    pub(crate) payload: &'a [u8],
}

/// What a run has of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Group {
    pub(crate) object: ObjectId,
    /// How many elements.
    pub(crate) weight: u64,
    /// In how many items, a root among them.
    pub(crate) items: u64,
}

/// Where a run is.
#[derive(Debug)]
pub(crate) enum Run {
    InMemory(Vec<u8>),
    InFile(Range<u64>),
}

/// Writes a run.
pub(crate) struct RunWriter<'a> {
    to: To<'a>,
}

enum To<'a> {
    Memory(&'a mut Vec<u8>),
    File { spill: &'a mut Spill, frame: Vec<u8> },
}

impl<'a> RunWriter<'a> {
    pub(crate) const fn to_memory(bytes: &'a mut Vec<u8>) -> Self {
        Self { to: To::Memory(bytes) }
    }

    pub(crate) const fn to_file(spill: &'a mut Spill) -> Self {
        Self { to: To::File { spill, frame: Vec::new() } }
    }

    const fn out(&mut self) -> &mut Vec<u8> {
        match &mut self.to {
            To::Memory(bytes) => bytes,
            To::File { frame, .. } => frame,
        }
    }

    pub(crate) fn begin_group(&mut self, object: ObjectId, weight: u64, items: u64) -> Result<()> {
        for number in [object.0, weight, items] {
            varint::put(self.out(), number);
        }
        self.flush_full()
    }

    pub(crate) fn item(&mut self, item: &Item<'_>) -> Result<()> {
        match item.order {
            None => self.out().push(0),
            Some(order) => {
                self.out().push(1);
                varint::put(self.out(), order);
            }
        }
        varint::put_bytes(self.out(), item.payload);
        self.flush_full()
    }

    pub(crate) fn finish(&mut self) -> Result<()> {
        match &mut self.to {
            To::File { spill, frame } if !frame.is_empty() => {
                spill.append(frame)?;
                frame.clear();
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Writes whole frames.
    fn flush_full(&mut self) -> Result<()> {
        if let To::File { spill, frame } = &mut self.to
            && frame.len() >= FRAME_BYTES
        {
            for bytes in frame.chunks(FRAME_BYTES) {
                spill.append(bytes)?;
            }
            frame.clear();
        }
        Ok(())
    }
}

/// Reads a run.
pub(crate) struct RunReader {
    /// What is left of it in the file.
    left: Range<u64>,
    buffer: Vec<u8>,
    at: usize,
}

/// The three numbers before a group, or what is before a payload, at the longest.
const HEAD_BYTES_MAX: usize = 32;

impl RunReader {
    pub(crate) fn new(run: Run) -> Self {
        match run {
            Run::InMemory(buffer) => Self { left: 0..0, buffer, at: 0 },
            Run::InFile(left) => Self { left, buffer: Vec::new(), at: 0 },
        }
    }

    /// The next group; `None` at the end.
    pub(crate) fn group(&mut self, spill: Option<&Spill>) -> Result<Option<Group>> {
        self.fill(spill, HEAD_BYTES_MAX)?;
        if self.at == self.buffer.len() {
            return Ok(None);
        }
        let mut rest = &self.buffer[self.at..];
        let mut number = || varint::take(&mut rest);
        let group = (|| {
            let (object, weight, items) = (ObjectId(number()?), number()?, number()?);
            Some(Group { object, weight, items })
        })();
        self.at = self.buffer.len() - rest.len();
        group.map(Some).ok_or_else(|| self.cut_short(spill))
    }

    /// The next item.
    pub(crate) fn item(&mut self, spill: Option<&Spill>) -> Result<Item<'_>> {
        self.fill(spill, HEAD_BYTES_MAX)?;
        let mut rest = &self.buffer[self.at..];
        let head = (|| {
            let (first, behind) = rest.split_first()?;
            rest = behind;
            let order = if *first == 0 { None } else { Some(varint::take(&mut rest)?) };
            Some((order, usize::try_from(varint::take(&mut rest)?).ok()?))
        })();
        let Some((order, len)) = head else { return Err(self.cut_short(spill)) };
        self.at = self.buffer.len() - rest.len();
        self.fill(spill, len)?;
        if self.buffer.len() - self.at < len {
            return Err(self.cut_short(spill));
        }
        let begin = self.at;
        self.at += len;
        Ok(Item { order, payload: &self.buffer[begin..self.at] })
    }

    /// Reads on until so many bytes are there, or all that is left.
    fn fill(&mut self, spill: Option<&Spill>, bytes: usize) -> Result<()> {
        let Some(spill) = spill else { return Ok(()) };
        if self.buffer.len() - self.at >= bytes || self.left.is_empty() {
            return Ok(());
        }
        self.buffer.drain(..self.at);
        self.at = 0;
        self.buffer.shrink_to(2 * FRAME_BYTES);
        while self.buffer.len() < bytes && !self.left.is_empty() {
            spill.read(&mut self.left, &mut self.buffer)?;
        }
        Ok(())
    }

    fn cut_short(&self, spill: Option<&Spill>) -> crate::Error {
        let spill = spill.expect("what is in memory is whole");
        spill.corrupt(self.left.start, "a run ends within an item")
    }
}
