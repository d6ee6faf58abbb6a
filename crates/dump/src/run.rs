//! Sorted runs in the spill file: groups of items, one an object, ascending.
//!
//! ```text
//!   group:  object varint │ weight varint │ items varint │ item …
//!   item:   tag u8 │ of an element: order key varint │ length varint │ payload
//!                                                    │ put aside: place varint │ length varint
//! ```
//!
//! The items of a group ascend: its root, then elements by their order keys. A payload has at most
//! [`FRAME_BYTES`]; a larger one was put aside, and a reader has no more than two frames in memory.

use std::ops::Range;

use base::{ObjectId, varint};

use crate::error::Result;
use crate::spill::{Aside, FRAME_BYTES, Spill};

/// A root, or an element of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Item<'a> {
    /// `None` of a root.
    pub(crate) order: Option<u64>,
    pub(crate) payload: Payload<'a>,
}

/// The bytes of an item, or where they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Payload<'a> {
    Here(&'a [u8]),
    Aside(Aside),
}

impl Payload<'_> {
    /// How much of it is in memory.
    pub(crate) const fn bytes(&self) -> usize {
        match self {
            Self::Here(bytes) => bytes.len(),
            Self::Aside(_) => 0,
        }
    }
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

/// Bits of a tag.
const ELEMENT: u8 = 1;
const ASIDE: u8 = 2;

/// The most that a group or an item has before its payload.
const HEAD_BYTES_MAX: usize = 1 + 3 * varint::LEN_MAX;

/// Memory of a [`RunReader`]: what is left of a frame, and the next one.
pub(crate) const READER_BYTES: usize = 2 * FRAME_BYTES;

/// Writes a run.
pub(crate) struct RunWriter {
    from: u64,
    frame: Vec<u8>,
}

impl RunWriter {
    /// Begins a run at the end of the file.
    pub(crate) const fn new(spill: &Spill) -> Self {
        Self { from: spill.len(), frame: Vec::new() }
    }

    pub(crate) fn begin_group(&mut self, group: &Group, spill: &mut Spill) -> Result<()> {
        for number in [group.object.0, group.weight, group.items] {
            varint::put(&mut self.frame, number);
        }
        self.flush_full(spill)
    }

    pub(crate) fn item(&mut self, item: &Item<'_>, spill: &mut Spill) -> Result<()> {
        let element = if item.order.is_some() { ELEMENT } else { 0 };
        let aside = if matches!(item.payload, Payload::Aside(_)) { ASIDE } else { 0 };
        self.frame.push(element | aside);
        if let Some(order) = item.order {
            varint::put(&mut self.frame, order);
        }
        match item.payload {
            Payload::Here(bytes) => varint::put_bytes(&mut self.frame, bytes),
            Payload::Aside(Aside { at, len }) => {
                varint::put(&mut self.frame, at);
                varint::put(&mut self.frame, len);
            }
        }
        self.flush_full(spill)
    }

    /// Ends the run, which can then be read. Returns where it is.
    pub(crate) fn finish(self, spill: &mut Spill) -> Result<Range<u64>> {
        if !self.frame.is_empty() {
            spill.append(&self.frame)?;
        }
        spill.flush()?;
        Ok(self.from..spill.len())
    }

    /// Writes whole frames.
    fn flush_full(&mut self, spill: &mut Spill) -> Result<()> {
        while let Some((frame, _)) = self.frame.split_at_checked(FRAME_BYTES) {
            spill.append(frame)?;
            self.frame.drain(..FRAME_BYTES);
        }
        Ok(())
    }
}

/// Reads a run.
pub(crate) struct RunReader {
    /// What is left of it in the file.
    left: Range<u64>,
    buffer: Vec<u8>,
    /// What is behind the current item in the buffer.
    at: usize,
    /// The current item.
    order: Option<u64>,
    payload: Held,
}

/// As [`Payload`].
enum Held {
    Here(Range<usize>),
    Aside(Aside),
}

impl RunReader {
    pub(crate) fn new(run: Range<u64>) -> Self {
        let buffer = Vec::with_capacity(READER_BYTES);
        Self { left: run, buffer, at: 0, order: None, payload: Held::Here(0..0) }
    }

    /// Reads what is before the next group; `None` at the end of the run.
    pub(crate) fn group(&mut self, spill: &Spill) -> Result<Option<Group>> {
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
        let Some(group) = group.filter(|group| group.items > 0) else {
            return Err(self.malformed(spill));
        };
        self.at = self.buffer.len() - rest.len();
        Ok(Some(group))
    }

    /// Reads the next item of a group.
    pub(crate) fn advance(&mut self, spill: &Spill) -> Result<()> {
        self.fill(spill, HEAD_BYTES_MAX)?;
        let mut rest = &self.buffer[self.at..];
        let head = (|| {
            let (tag, behind) = rest.split_first()?;
            rest = behind;
            let order = if tag & ELEMENT == 0 { None } else { Some(varint::take(&mut rest)?) };
            let number = varint::take(&mut rest)?;
            if tag & ASIDE == 0 {
                return Some((order, usize::try_from(number).ok()?, None));
            }
            Some((order, 0, Some(Aside { at: number, len: varint::take(&mut rest)? })))
        })();
        let Some((order, len, aside)) = head.filter(|(_, len, _)| *len <= FRAME_BYTES) else {
            return Err(self.malformed(spill));
        };
        self.at = self.buffer.len() - rest.len();
        self.fill(spill, len)?;
        if self.buffer.len() - self.at < len {
            return Err(self.malformed(spill));
        }
        self.order = order;
        self.payload = aside.map_or(Held::Here(self.at..self.at + len), Held::Aside);
        self.at += len;
        Ok(())
    }

    /// The order key of the current item.
    pub(crate) const fn order(&self) -> Option<u64> {
        self.order
    }

    /// The current item: the last one that was read.
    pub(crate) fn item(&self) -> Item<'_> {
        let payload = match &self.payload {
            Held::Here(range) => Payload::Here(&self.buffer[range.clone()]),
            Held::Aside(aside) => Payload::Aside(*aside),
        };
        Item { order: self.order, payload }
    }

    /// Reads until this many bytes are in the buffer, or all that is left.
    fn fill(&mut self, spill: &Spill, bytes: usize) -> Result<()> {
        while self.buffer.len() - self.at < bytes && !self.left.is_empty() {
            self.buffer.drain(..self.at);
            self.at = 0;
            spill.read(&mut self.left, &mut self.buffer)?;
        }
        debug_assert!(self.buffer.capacity() <= READER_BYTES, "as was said");
        Ok(())
    }

    fn malformed(&self, spill: &Spill) -> crate::Error {
        spill.corrupt(self.left.start, "a run has something else than items")
    }
}
