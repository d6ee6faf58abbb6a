//! Sorted runs in the spill file: groups of items, one an object, ascending.
//!
//! ```text
//!   group:  object varint │ weight varint │ items varint │ item …
//!   item:   tag u8 │ of an element: order key, two varints │ length varint │ payload
//!                                                    │ put aside: place varint │ length varint
//! ```
//!
//! The items of a group ascend: its root, then elements by their order keys. A payload has at most
//! [`FRAME_BYTES`]; a larger one was put aside, and a reader has no more than two frames in memory.

use std::ops::Range;

use base::{ObjectId, varint};

use crate::error::Result;
use crate::frames::{FrameReader, FrameWriter};
use crate::order::Order;
use crate::spill::{Aside, FRAME_BYTES, Spill};

/// A root, or an element of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Item<'a> {
    /// `None` of a root.
    pub(crate) order: Option<Order>,
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
const HEAD_BYTES_MAX: usize = 1 + 4 * varint::LEN_MAX;

/// Writes a run.
pub(crate) struct RunWriter {
    frames: FrameWriter,
}

impl RunWriter {
    /// Begins a run at the end of the file.
    pub(crate) const fn new(spill: &Spill) -> Self {
        Self { frames: FrameWriter::new(spill) }
    }

    pub(crate) fn begin_group(&mut self, group: &Group, spill: &mut Spill) -> Result<()> {
        for number in [group.object.0, group.weight, group.items] {
            varint::put(&mut self.frames.bytes, number);
        }
        self.frames.flush_full(spill)
    }

    pub(crate) fn item(&mut self, item: &Item<'_>, spill: &mut Spill) -> Result<()> {
        let element = if item.order.is_some() { ELEMENT } else { 0 };
        let aside = if matches!(item.payload, Payload::Aside(_)) { ASIDE } else { 0 };
        self.frames.bytes.push(element | aside);
        if let Some(order) = item.order {
            varint::put(&mut self.frames.bytes, order.major);
            varint::put(&mut self.frames.bytes, order.minor);
        }
        match item.payload {
            Payload::Here(bytes) => varint::put_bytes(&mut self.frames.bytes, bytes),
            Payload::Aside(Aside { at, len }) => {
                varint::put(&mut self.frames.bytes, at);
                varint::put(&mut self.frames.bytes, len);
            }
        }
        self.frames.flush_full(spill)
    }

    /// Ends the run, which can then be read. Returns where it is.
    pub(crate) fn finish(self, spill: &mut Spill) -> Result<Range<u64>> {
        self.frames.finish(spill)
    }
}

/// Reads a run.
pub(crate) struct RunReader {
    frames: FrameReader,
    /// The current item.
    order: Option<Order>,
    payload: Held,
}

/// As [`Payload`].
enum Held {
    Here(Range<usize>),
    Aside(Aside),
}

impl RunReader {
    pub(crate) fn new(run: Range<u64>) -> Self {
        Self { frames: FrameReader::new(run), order: None, payload: Held::Here(0..0) }
    }

    /// Reads what is before the next group; `None` at the end of the run.
    pub(crate) fn group(&mut self, spill: &Spill) -> Result<Option<Group>> {
        self.frames.fill(spill, HEAD_BYTES_MAX)?;
        if self.frames.rest().is_empty() {
            return Ok(None);
        }
        let mut rest = self.frames.rest();
        let mut number = || varint::take(&mut rest);
        let group = (|| {
            let (object, weight, items) = (ObjectId(number()?), number()?, number()?);
            Some(Group { object, weight, items })
        })();
        let Some(group) = group.filter(|group| group.items > 0) else {
            return Err(self.malformed(spill));
        };
        let rest_bytes = rest.len();
        self.frames.pass_to(rest_bytes);
        Ok(Some(group))
    }

    /// Reads the next item of a group.
    pub(crate) fn advance(&mut self, spill: &Spill) -> Result<()> {
        self.frames.fill(spill, HEAD_BYTES_MAX)?;
        let mut rest = self.frames.rest();
        let head = (|| {
            let (tag, behind) = rest.split_first()?;
            rest = behind;
            let order = if tag & ELEMENT == 0 {
                None
            } else {
                let (major, minor) = (varint::take(&mut rest)?, varint::take(&mut rest)?);
                Some(Order { major, minor })
            };
            let number = varint::take(&mut rest)?;
            if tag & ASIDE == 0 {
                return Some((order, usize::try_from(number).ok()?, None));
            }
            Some((order, 0, Some(Aside { at: number, len: varint::take(&mut rest)? })))
        })();
        let Some((order, len, aside)) = head.filter(|(_, len, _)| *len <= FRAME_BYTES) else {
            return Err(self.malformed(spill));
        };
        let rest_bytes = rest.len();
        self.frames.pass_to(rest_bytes);
        self.frames.fill(spill, len)?;
        if self.frames.rest().len() < len {
            return Err(self.malformed(spill));
        }
        self.order = order;
        let at = self.frames.at;
        self.payload = aside.map_or(Held::Here(at..at + len), Held::Aside);
        self.frames.at += len;
        Ok(())
    }

    /// The order key of the current item.
    pub(crate) const fn order(&self) -> Option<Order> {
        self.order
    }

    /// The current item: the last one that was read.
    pub(crate) fn item(&self) -> Item<'_> {
        let payload = match &self.payload {
            Held::Here(range) => Payload::Here(&self.frames.buffer[range.clone()]),
            Held::Aside(aside) => Payload::Aside(*aside),
        };
        Item { order: self.order, payload }
    }

    fn malformed(&self, spill: &Spill) -> crate::Error {
        self.frames.malformed(spill, "a run has something else than items")
    }
}
