//! Reading a log without believing what it says: what a new beginning in it must know.
//!
//! When the journal is connected to a keyspace that has lived without one, the log in the directory
//! may hold an older state. That state stays what a crash brings back until the new one is complete
//! (see [`crate::FullRewrite`]), so nothing of it may be retired before, and no id that it uses may be
//! used again. Nor is anything known of what was retired in it: also what is obsolete counts as there.

use std::collections::BTreeMap;

use base::{DbId, ObjectId, Record, RecordAddr, RecordKind};

use crate::database_map::{DatabaseMap, database_ids, has_id, no_database};
use crate::record_check::{self, BadRecord};

/// Whether the records of a log make sense, one by one and together, in bounded memory.
#[derive(Default)]
pub struct LogCheck {
    map: Option<DatabaseMap>,
    /// The largest database that a record names, and the record.
    last_db: Option<(DbId, RecordAddr)>,
}

impl LogCheck {
    /// Looks at the next record.
    ///
    /// # Errors
    /// [`BadRecord`] when the record is not one that a keyspace logs.
    pub fn note(&mut self, record: &Record<'_>, addr: RecordAddr) -> Result<(), BadRecord> {
        record_check::check(record).map_err(|what| BadRecord { kind: record.kind, what })?;
        if record.kind == RecordKind::Databases {
            self.map = Some(DatabaseMap::read(record)?);
        } else if !record.kind.is_delete()
            && !record.kind.is_element()
            && !record.kind.is_of_no_database()
            && self.last_db.is_none_or(|(last, _)| last < record.db)
        {
            self.last_db = Some((record.db, addr));
        }
        Ok(())
    }

    /// Whether the records make sense together.
    ///
    /// # Errors
    /// A record of a database that nothing has ever given an id to, and where it is.
    pub fn finish(&self) -> Result<(), (BadRecord, RecordAddr)> {
        match self.last_db {
            Some((id, addr)) if !has_id(self.map.as_ref(), id) => Err((no_database(), addr)),
            _ => Ok(()),
        }
    }
}

/// Consecutive records of one segment.
struct Run {
    first: RecordAddr,
    count: u32,
}

/// The libraries of functions that a log has had.
#[derive(Default)]
pub(crate) struct SurveyedLibraries {
    /// Each name that a record has, and whether there is one of it at the end.
    pub(crate) names: BTreeMap<Box<[u8]>, bool>,
    /// Where they are, also those that are obsolete.
    pub(crate) addrs: Vec<RecordAddr>,
}

/// What is in a log: see the file's top.
#[derive(Default)]
pub struct Survey {
    /// Every record that may be retired but those of libraries, in runs, so that a block is one.
    runs: Vec<Run>,
    check: LogCheck,
    pub(crate) libraries: SurveyedLibraries,
    /// Above every object that a record names.
    pub(crate) next_object: u64,
}

impl Survey {
    /// Nothing is noted yet but that objects below `object_floor` may have been used.
    #[must_use]
    pub fn new(object_floor: ObjectId) -> Self {
        Self { next_object: object_floor.0, ..Self::default() }
    }

    /// Takes note of one record.
    ///
    /// # Errors
    /// [`BadRecord`] when the record is not one that a keyspace logs.
    pub fn apply(&mut self, record: &Record<'_>, addr: RecordAddr) -> Result<(), BadRecord> {
        self.check.note(record, addr)?;
        self.next_object = self.next_object.max(record.object.0 + 1);
        if record.kind.is_library() {
            let is_there = record.kind == RecordKind::Library;
            self.libraries.names.insert(record.key.into(), is_there);
            self.libraries.addrs.extend(is_there.then_some(addr));
            return Ok(());
        }
        if record.kind.is_delete() {
            return Ok(());
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

    /// Whether the records make sense together.
    ///
    /// # Errors
    /// A record of a database that nothing has ever given an id to, and where it is.
    pub fn check(&self) -> Result<(), (BadRecord, RecordAddr)> {
        self.check.finish()
    }

    /// The ids that the log's databases have, by index, when the configuration has `count`, and
    /// one above every id that it uses.
    pub(crate) fn databases(&self, count: usize) -> (Vec<DbId>, u64) {
        let LogCheck { map, last_db } = &self.check;
        let seen = last_db.map_or(0, |(id, _)| id.0 + 1);
        database_ids(map.as_ref(), count, seen)
    }

    /// Every record that was seen and may be retired, but those of libraries.
    pub(crate) fn into_addrs(self) -> impl Iterator<Item = RecordAddr> + Send {
        self.runs.into_iter().flat_map(|Run { first, count }| {
            (0..count).map(move |step| RecordAddr::new(first.segment(), first.ordinal() + step))
        })
    }
}
