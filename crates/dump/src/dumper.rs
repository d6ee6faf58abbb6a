//! From records to keys with their values.

use std::collections::BTreeMap;

use base::{DbId, Record, RecordAddr, RecordKind, varint};
use keyspace::plain;
use keyspace::stream::StreamRecord;

use crate::error::{Error, Result};
use crate::objects::Objects;
use crate::order::Order;
use crate::passing::{EXPIRES, Passing, Root, put_address};
use crate::sorter::Sorter;
use crate::source::Sorted;
use crate::spill::SpillOptions;
use crate::target::Target;

/// What is passed on in one step of merging, in bytes, about.
pub(crate) const STEP_BYTES: usize = 256 << 10;

/// What an item counts in a step in addition to its bytes: small ones cost a call, too.
pub(crate) const ITEM_BYTES: usize = 64;

/// What was dumped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Figures {
    /// Keys that the target has taken.
    pub keys: u64,
    /// Keys whose values are lost: they are in no dump.
    pub lost_keys: u64,
    /// Elements that belong to nothing any more and wait to be freed.
    pub orphans: u64,
    /// How much was spilled, in bytes.
    pub spilled_bytes: u64,
}

/// Takes records in any order, and passes keys on. See the crate's essay.
pub struct Dumper<T> {
    /// The indexes of the databases that count.
    databases: BTreeMap<DbId, u32>,
    stage: Stage,
    passing: Passing<T>,
    /// The front of an item that is pushed.
    head: Vec<u8>,
}

enum Stage {
    Sorting(Sorter),
    /// Runs are merged into fewer.
    Reducing(Sorted),
    Merging(Objects),
    /// Merging could not begin, or has ended.
    Over,
}

impl<T: Target> Dumper<T> {
    /// Begins a dump of `databases`, the ids by the index that clients name them by.
    pub fn new(databases: &[DbId], target: T, options: SpillOptions) -> Self {
        let indexes = (0_u32..).zip(databases).map(|(index, id)| (*id, index));
        let passing = Passing::new(target);
        let stage = Stage::Sorting(Sorter::new(options));
        Self { databases: indexes.collect(), stage, passing, head: Vec::new() }
    }

    /// Lets roots of collections that have no elements count as nothing, as a start does: a log that
    /// was repaired may have some. Otherwise they are an error.
    #[must_use]
    pub const fn taking_empty(mut self) -> Self {
        self.passing.takes_empty = true;
        self
    }

    /// What was dumped until now.
    #[must_use]
    pub fn figures(&self) -> Figures {
        let figures = self.passing.figures;
        let spilled_bytes = match &self.stage {
            Stage::Sorting(sorter) => sorter.spilled_bytes(),
            Stage::Reducing(sorted) => sorted.spilled_bytes(),
            Stage::Merging(_) | Stage::Over => figures.spilled_bytes,
        };
        Figures { spilled_bytes, ..figures }
    }

    /// The target, with all that it was given.
    pub fn into_target(self) -> T {
        self.passing.target
    }

    /// Takes a record.
    ///
    /// # Errors
    /// When it is malformed, or the target or the spill file fails.
    ///
    /// # Panics
    /// After [`Dumper::finish_records`].
    pub fn record(&mut self, addr: RecordAddr, record: &Record<'_>) -> Result<()> {
        plain::check(record).map_err(|bad| Error::Record { addr, bad })?;
        let Stage::Sorting(sorter) = &mut self.stage else { panic!("all records have come") };
        let (address, address_bytes) = put_address::<T>(addr);
        let address = &address[..address_bytes];
        match record.kind {
            // What has libraries asks for them before the first record.
            RecordKind::Library
            | RecordKind::LibraryDeleted
            | RecordKind::Databases
            | RecordKind::Note
            | RecordKind::KeyDeleted
            | RecordKind::ElementDeleted => Ok(()),
            RecordKind::ListNode => {
                let order = record.sub.try_into().map(u64::from_be_bytes).unwrap_or_default();
                let count = plain::elements(record).map_or(0, Iterator::count);
                let kind = [record.kind as u8];
                sorter.push(
                    record.object,
                    Some(Order::of(order)),
                    count as u64,
                    &[address, &kind, record.value],
                )
            }
            RecordKind::StringChunk => {
                let order = record.sub.try_into().map(u32::from_be_bytes).unwrap_or_default();
                let kind = [record.kind as u8];
                let order = Some(Order::of(order.into()));
                sorter.push(record.object, order, 1, &[address, &kind, record.value])
            }
            RecordKind::HashField
            | RecordKind::SetMember
            | RecordKind::ZSetMember
            | RecordKind::StreamNode
            | RecordKind::StreamGroup
            | RecordKind::StreamConsumer
            | RecordKind::StreamPending
            | RecordKind::StreamProducer => {
                let (order, weight) = place_of(record);
                self.head.clear();
                match record.expires_at_ms {
                    None => self.head.push(record.kind as u8),
                    Some(at_ms) => {
                        self.head.push(record.kind as u8 | EXPIRES);
                        self.head.extend_from_slice(&at_ms.to_le_bytes());
                    }
                }
                varint::put(&mut self.head, record.sub.len() as u64);
                let parts = [address, &self.head, record.sub, record.value];
                sorter.push(record.object, Some(order), weight, &parts)
            }
            _ => {
                let Some(&database) = self.databases.get(&record.db) else { return Ok(()) };
                if matches!(record.kind, RecordKind::ValueLost | RecordKind::KeyLost) {
                    self.passing.lost(addr, record.db)
                } else if record.kind.is_root() {
                    let root = Root::of(record, database);
                    let value = root.kept_value(record);
                    let parts = [address, &root.head(), value, record.key];
                    sorter.push(record.object, None, 0, &parts)
                } else {
                    self.passing.whole(addr, record, database)
                }
            }
        }
    }

    /// All records have come.
    ///
    /// # Errors
    /// When the spill file fails.
    pub fn finish_records(&mut self) -> Result<()> {
        if let Stage::Sorting(sorter) = std::mem::replace(&mut self.stage, Stage::Over) {
            self.stage = Stage::Reducing(sorter.finish()?);
        }
        Ok(())
    }

    /// All records have come. Returns what consists of several ones, and what has the target.
    ///
    /// # Panics
    /// After [`Dumper::finish_records`].
    pub(crate) fn into_sorted(self) -> Result<(Sorted, Passing<T>)> {
        let Stage::Sorting(sorter) = self.stage else { panic!("all records have come") };
        Ok((sorter.finish()?, self.passing))
    }

    /// Passes on some of what consists of several records. Returns whether that was all.
    ///
    /// # Errors
    /// When the spill file or the target fails, or the log does not have all of a value.
    pub fn merge_step(&mut self) -> Result<bool> {
        let mut bytes = 0;
        while bytes < STEP_BYTES {
            match &mut self.stage {
                Stage::Sorting(_) | Stage::Over => return Ok(true),
                Stage::Reducing(sorted) => match sorted.step()? {
                    Some(merged) => bytes += ITEM_BYTES + merged,
                    None => self.end_reducing()?,
                },
                Stage::Merging(objects) => {
                    bytes += ITEM_BYTES;
                    let goes_on = objects.step(&mut |merged| {
                        bytes += merged.bytes();
                        self.passing.merged(&merged)
                    })?;
                    if !goes_on {
                        self.stage = Stage::Over;
                    }
                }
            }
        }
        Ok(false)
    }

    /// The runs that are left can be merged at a time.
    fn end_reducing(&mut self) -> Result<()> {
        if let Stage::Reducing(sorted) = std::mem::replace(&mut self.stage, Stage::Over) {
            let objects = Objects::of(sorted.into_source()?);
            self.passing.figures.spilled_bytes = objects.spilled_bytes();
            self.stage = Stage::Merging(objects);
        }
        Ok(())
    }
}

/// The place of an element with a name, and how many it counts for. Of a stream, only nodes have an order, and units
/// count.
fn place_of(record: &Record<'_>) -> (Order, u64) {
    if record.kind == RecordKind::StreamNode
        && let Some(StreamRecord::Node { id, is_first, .. }) =
            StreamRecord::read(record.sub, record.value)
    {
        return (Order { major: id.ms, minor: id.seq }, is_first.into());
    }
    match record.kind {
        RecordKind::HashField | RecordKind::SetMember | RecordKind::ZSetMember => {
            (Order::default(), 1)
        }
        _ => (Order::LAST, 0),
    }
}
