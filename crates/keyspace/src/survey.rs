//! Reading a log without believing what it says: what a new beginning in it must know.
//!
//! When the journal is connected to a keyspace that has lived without one, the log in the directory
//! may hold an older state. That state stays what a crash brings back until the new one is complete
//! (see [`crate::Relog`]), so nothing of it may be retired before, and no id that it uses may be
//! used again.

use base::{DbId, Record, RecordAddr, RecordKind};

use crate::record_check;
use crate::replay::{BadRecord, DatabaseMap, database_ids};

/// Consecutive records of one segment.
struct Run {
    first: RecordAddr,
    count: u32,
}

/// What is in a log: see the file's top.
#[derive(Default)]
pub struct Survey {
    /// Every record that may be retired, in runs, so that a block is one.
    runs: Vec<Run>,
    map: Option<DatabaseMap>,
    /// Above every database that a record names.
    databases_seen: u32,
    /// Above every object that a record names.
    pub(crate) next_object: u64,
}

impl Survey {
    /// Takes note of one record.
    ///
    /// # Errors
    /// [`BadRecord`] when the record is not one that a keyspace logs.
    pub fn apply(&mut self, record: &Record<'_>, addr: RecordAddr) -> Result<(), BadRecord> {
        record_check::check(record).map_err(|what| BadRecord { kind: record.kind, what })?;
        self.next_object = self.next_object.max(record.object.0 + 1);
        if record.kind.is_delete() {
            return Ok(());
        }
        if record.kind == RecordKind::Databases {
            self.map = Some(DatabaseMap::read(record, addr)?);
        } else if !record.kind.is_element() {
            self.databases_seen = self.databases_seen.max(record.db.0 + 1);
        }
        match self.runs.last_mut() {
            Some(Run { first, count })
                if first.segment() == addr.segment()
                    && first.ordinal() + *count == addr.ordinal() =>
            {
                *count += 1;
            }
            _ => self.runs.push(Run { first: addr, count: 1 }),
        }
        Ok(())
    }

    /// The ids that the log's databases have, by index, when the configuration has `count`, and
    /// one above every id that it uses.
    pub(crate) fn databases(&self, count: usize) -> (Vec<DbId>, u32) {
        database_ids(self.map.as_ref(), count, self.databases_seen)
    }

    /// Every record that was seen and may be retired.
    pub(crate) fn into_addrs(self) -> impl Iterator<Item = RecordAddr> + Send {
        self.runs.into_iter().flat_map(|Run { first, count }| {
            (0..count).map(move |step| RecordAddr::new(first.segment(), first.ordinal() + step))
        })
    }
}
