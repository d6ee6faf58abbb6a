//! The companion of a dump: of which records its keys are, and where they lie in its file.
//!
//! ```text
//!   dump        head │ DATABASE SIZES │ key key key … │ DATABASE │ times form name │ count │ element element … │ END sum
//!   companion          database 0       key key key …   database   object ─────────┘         part    part    …   end
//!
//!   entry:   tag u8, and varints
//!     DATABASE   index │ bytes                          so many bytes say that what follows is in it
//!     KEY        address │ bytes                        a key that is one record
//!     LOST       address │ id of the database           a key whose value is lost: no bytes
//!     OBJECT     address │ object │ type │ head bytes │ count │ parts
//!       of a string:      address of each chunk, in their order │ bytes of the value
//!       of others, each:  address │ order, less the one before │ elements │ bytes
//!     END
//!   address: segment and ordinal, less those of the address before, folded so that small negative ones are short
//! ```
//!
//! With the validity bitmaps of a later mark it says which bytes of the dump are still right: those of records that
//! are valid there. It names records by address, which is good for one life of the log, so it lives in a file without a
//! name, in frames with a checksum each, and goes with the process.
//!
//! Keys that are one record come first, then objects by their numbers: a later dump merges them with those that have
//! changed.

use std::ops::Range;
use std::sync::Arc;

use base::{DbId, ObjectId, RecordAddr, SegmentId, varint};
use keyspace::Type;

use crate::error::Result;
use crate::frames::{FrameReader, FrameWriter};
use crate::spill::{Spill, SpillOptions};

/// A companion that is complete.
pub(crate) struct Companion {
    spill: Spill,
    extent: Range<u64>,
}

/// An entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Entry {
    Database {
        index: u32,
        bytes: u64,
    },
    Key {
        addr: RecordAddr,
        bytes: u64,
    },
    Lost {
        addr: RecordAddr,
        db: DbId,
    },
    /// Its parts follow.
    Object(Head),
    End,
}

/// What is noted of an object before its parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Head {
    /// Its root.
    pub(crate) addr: RecordAddr,
    pub(crate) object: ObjectId,
    pub(crate) value_type: Type,
    /// What times, form and name take in the file.
    pub(crate) bytes: u64,
    /// How many elements it has; of a string, how many bytes.
    pub(crate) count: u64,
    /// How many parts there are.
    pub(crate) parts: u64,
}

/// An element, or a node of a list; of a chunk of a string only address and order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) addr: RecordAddr,
    pub(crate) order: u64,
    /// How many elements it is.
    pub(crate) elements: u64,
    /// What they take in the file.
    pub(crate) bytes: u64,
}

const END: u8 = 0;
const DATABASE: u8 = 1;
const KEY: u8 = 2;
const LOST: u8 = 3;
const OBJECT: u8 = 4;

/// The most that an entry, or a part, takes.
const ENTRY_BYTES_MAX: usize = 1 + 7 * varint::LEN_MAX;

const TYPES: [Type; 6] =
    [Type::String, Type::List, Type::Hash, Type::Set, Type::ZSet, Type::Stream];

/// The address before.
#[derive(Debug, Clone, Copy, Default)]
struct Before {
    segment: u32,
    ordinal: u32,
}

fn fold(from: u32, to: u32) -> u64 {
    let difference = i64::from(to) - i64::from(from);
    ((difference << 1) ^ (difference >> 63)).cast_unsigned()
}

fn unfold(from: u32, folded: u64) -> Option<u32> {
    let difference = (folded >> 1).cast_signed() ^ -((folded & 1).cast_signed());
    u32::try_from(i64::from(from).checked_add(difference)?).ok()
}

/// Writes a companion.
pub(crate) struct CompanionWriter {
    spill: Spill,
    frames: FrameWriter,
    before: Before,
    /// The order of the part before.
    order: u64,
}

impl CompanionWriter {
    pub(crate) fn create(options: &SpillOptions) -> Result<Self> {
        let spill = Spill::create(options)?;
        let frames = FrameWriter::new(&spill);
        Ok(Self { spill, frames, before: Before::default(), order: 0 })
    }

    /// How many bytes it has so far.
    pub(crate) const fn bytes(&self) -> u64 {
        self.spill.len() + self.frames.bytes.len() as u64
    }

    fn put(&mut self, numbers: &[u64]) -> Result<()> {
        numbers.iter().for_each(|number| varint::put(&mut self.frames.bytes, *number));
        self.frames.flush_full(&mut self.spill)
    }

    fn put_addr(&mut self, addr: RecordAddr) {
        let (segment, ordinal) = (addr.segment().0, addr.ordinal());
        let Before { segment: last_segment, ordinal: last_ordinal } = self.before;
        varint::put(&mut self.frames.bytes, fold(last_segment, segment));
        varint::put(&mut self.frames.bytes, fold(last_ordinal, ordinal));
        self.before = Before { segment, ordinal };
    }

    pub(crate) fn entry(&mut self, entry: &Entry) -> Result<()> {
        let tag = match entry {
            Entry::End => END,
            Entry::Database { .. } => DATABASE,
            Entry::Key { .. } => KEY,
            Entry::Lost { .. } => LOST,
            Entry::Object(_) => OBJECT,
        };
        self.frames.bytes.push(tag);
        match *entry {
            Entry::End => Ok(()),
            Entry::Database { index, bytes } => self.put(&[index.into(), bytes]),
            Entry::Key { addr, bytes } => {
                self.put_addr(addr);
                self.put(&[bytes])
            }
            Entry::Lost { addr, db } => {
                self.put_addr(addr);
                self.put(&[db.0])
            }
            Entry::Object(head) => {
                self.put_addr(head.addr);
                self.order = 0;
                let number = TYPES.iter().position(|of| *of == head.value_type);
                let number = number.expect("all are listed") as u64;
                self.put(&[head.object.0, number, head.bytes, head.count, head.parts])
            }
        }
    }

    /// A part of the object.
    pub(crate) fn part(&mut self, part: &Part) -> Result<()> {
        self.put_addr(part.addr);
        let order = part.order.wrapping_sub(std::mem::replace(&mut self.order, part.order));
        self.put(&[order, part.elements, part.bytes])
    }

    /// A chunk of the string.
    pub(crate) fn chunk(&mut self, addr: RecordAddr) -> Result<()> {
        self.put_addr(addr);
        self.put(&[])
    }

    /// All chunks have come; the value takes so many bytes.
    pub(crate) fn end_string(&mut self, bytes: u64) -> Result<()> {
        self.put(&[bytes])
    }

    pub(crate) fn finish(mut self) -> Result<Arc<Companion>> {
        self.entry(&Entry::End)?;
        let extent = self.frames.finish(&mut self.spill)?;
        Ok(Arc::new(Companion { spill: self.spill, extent }))
    }
}

/// Reads a companion. A clone reads ahead.
#[derive(Clone)]
pub(crate) struct CompanionReader {
    companion: Arc<Companion>,
    frames: FrameReader,
    before: Before,
    order: u64,
    /// The next chunk.
    chunk: u64,
}

/// Takes what an entry has.
struct Taking<'a> {
    rest: &'a [u8],
    before: Before,
}

impl Taking<'_> {
    fn number(&mut self) -> Option<u64> {
        varint::take(&mut self.rest)
    }

    fn addr(&mut self) -> Option<RecordAddr> {
        let (segment, ordinal) = (self.number()?, self.number()?);
        let segment = unfold(self.before.segment, segment).filter(|number| *number > 0)?;
        let ordinal = unfold(self.before.ordinal, ordinal)?;
        self.before = Before { segment, ordinal };
        (segment <= SegmentId::MAX.0).then(|| RecordAddr::new(SegmentId(segment), ordinal))
    }

    fn entry(&mut self) -> Option<Entry> {
        let (tag, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(match *tag {
            END => Entry::End,
            DATABASE => Entry::Database {
                index: u32::try_from(self.number()?).ok()?,
                bytes: self.number()?,
            },
            KEY => Entry::Key { addr: self.addr()?, bytes: self.number()? },
            LOST => Entry::Lost { addr: self.addr()?, db: DbId(self.number()?) },
            OBJECT => Entry::Object(Head {
                addr: self.addr()?,
                object: ObjectId(self.number()?),
                value_type: *TYPES.get(usize::try_from(self.number()?).ok()?)?,
                bytes: self.number()?,
                count: self.number()?,
                parts: self.number()?,
            }),
            _ => return None,
        })
    }
}

impl CompanionReader {
    pub(crate) fn new(companion: Arc<Companion>) -> Self {
        let frames = FrameReader::new(companion.extent.clone());
        Self { companion, frames, before: Before::default(), order: 0, chunk: 0 }
    }

    fn take<T>(&mut self, take: impl FnOnce(&mut Taking<'_>) -> Option<T>) -> Result<T> {
        self.frames.fill(&self.companion.spill, ENTRY_BYTES_MAX)?;
        let mut taking = Taking { rest: self.frames.rest(), before: self.before };
        let taken = take(&mut taking);
        let (rest_bytes, before) = (taking.rest.len(), taking.before);
        let Some(taken) = taken else {
            let what = "it has something else than a companion has";
            return Err(self.frames.malformed(&self.companion.spill, what));
        };
        self.frames.pass_to(rest_bytes);
        self.before = before;
        Ok(taken)
    }

    /// The next entry. REQUIRES: the parts of the object before were read.
    pub(crate) fn entry(&mut self) -> Result<Entry> {
        (self.order, self.chunk) = (0, 0);
        self.take(|taking| taking.entry())
    }

    /// The next part of the object.
    pub(crate) fn part(&mut self) -> Result<Part> {
        let before = self.order;
        let part = self.take(|taking| {
            let (addr, order) = (taking.addr()?, before.wrapping_add(taking.number()?));
            Some(Part { addr, order, elements: taking.number()?, bytes: taking.number()? })
        })?;
        self.order = part.order;
        Ok(part)
    }

    /// The next chunk of the string.
    pub(crate) fn chunk(&mut self) -> Result<Part> {
        let addr = self.take(|taking| taking.addr())?;
        let order = self.chunk;
        self.chunk += 1;
        Ok(Part { addr, order, elements: 0, bytes: 0 })
    }

    /// How many bytes the string's value takes. REQUIRES: its chunks were read.
    pub(crate) fn end_string(&mut self) -> Result<u64> {
        self.take(|taking| taking.number())
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use env::Disk;
    use env_sim::{Faults, SimDisk};
    use proptest::prelude::*;

    use super::*;

    fn addr() -> impl Strategy<Value = RecordAddr> {
        let segment = prop_oneof![1..4_u32, 1..=SegmentId::MAX.0];
        let ordinal = prop_oneof![0..300_u32, any::<u32>()];
        (segment, ordinal)
            .prop_map(|(segment, ordinal)| RecordAddr::new(SegmentId(segment), ordinal))
    }

    #[derive(Debug, Clone)]
    enum Item {
        Entry(Entry),
        Collection(Head, Vec<Part>),
        String(Head, Vec<RecordAddr>, u64),
    }

    fn head() -> impl Strategy<Value = Head> {
        let numbers = (any::<u64>(), any::<u64>(), any::<u64>());
        (addr(), 1..5_usize, numbers).prop_map(|(addr, of, (object, bytes, count))| Head {
            addr,
            object: ObjectId(object),
            value_type: TYPES[of],
            bytes,
            count,
            parts: 0,
        })
    }

    fn item() -> impl Strategy<Value = Item> {
        let part = (addr(), any::<u64>(), any::<u64>(), any::<u64>())
            .prop_map(|(addr, order, elements, bytes)| Part { addr, order, elements, bytes });
        prop_oneof![
            (any::<u32>(), any::<u64>())
                .prop_map(|(index, bytes)| Item::Entry(Entry::Database { index, bytes })),
            (addr(), any::<u64>())
                .prop_map(|(addr, bytes)| Item::Entry(Entry::Key { addr, bytes })),
            (addr(), any::<u64>())
                .prop_map(|(addr, db)| Item::Entry(Entry::Lost { addr, db: DbId(db) })),
            (head(), prop::collection::vec(part, 0..20)).prop_map(|(head, parts)| {
                Item::Collection(Head { parts: parts.len() as u64, ..head }, parts)
            }),
            (head(), prop::collection::vec(addr(), 0..20), any::<u64>()).prop_map(
                |(head, chunks, bytes)| {
                    let parts = chunks.len() as u64;
                    Item::String(Head { parts, value_type: Type::String, ..head }, chunks, bytes)
                }
            ),
        ]
    }

    proptest! {
        #[test]
        fn what_was_noted_is_read(items in prop::collection::vec(item(), 0..60)) {
            let disk = SimDisk::new(1, Faults::default());
            let directory = PathBuf::from("/dumps");
            disk.create_dir_all(&directory).unwrap();
            let options = SpillOptions {
                disk: Arc::new(disk), directory, memory_bytes: 1, kept_bytes: 0,
            };
            let mut writer = CompanionWriter::create(&options).unwrap();
            for item in &items {
                match item {
                    Item::Entry(entry) => writer.entry(entry).unwrap(),
                    Item::Collection(head, parts) => {
                        writer.entry(&Entry::Object(*head)).unwrap();
                        parts.iter().for_each(|part| writer.part(part).unwrap());
                    }
                    Item::String(head, chunks, bytes) => {
                        writer.entry(&Entry::Object(*head)).unwrap();
                        chunks.iter().for_each(|addr| writer.chunk(*addr).unwrap());
                        writer.end_string(*bytes).unwrap();
                    }
                }
            }
            let mut reader = CompanionReader::new(writer.finish().unwrap());
            for item in &items {
                match item {
                    Item::Entry(entry) => prop_assert_eq!(reader.entry().unwrap(), *entry),
                    Item::Collection(head, parts) => {
                        prop_assert_eq!(reader.entry().unwrap(), Entry::Object(*head));
                        let mut ahead = reader.clone();
                        for part in parts {
                            prop_assert_eq!(ahead.part().unwrap(), *part);
                        }
                        for part in parts {
                            prop_assert_eq!(reader.part().unwrap(), *part);
                        }
                    }
                    Item::String(head, chunks, bytes) => {
                        prop_assert_eq!(reader.entry().unwrap(), Entry::Object(*head));
                        for (order, addr) in (0..).zip(chunks) {
                            let part = reader.chunk().unwrap();
                            prop_assert_eq!((part.addr, part.order), (*addr, order));
                        }
                        prop_assert_eq!(reader.end_string().unwrap(), *bytes);
                    }
                }
            }
            prop_assert_eq!(reader.entry().unwrap(), Entry::End);
        }
    }
}
