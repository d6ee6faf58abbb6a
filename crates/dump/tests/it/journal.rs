//! A log in memory: every record, and which are valid.

use std::sync::{Arc, Mutex, MutexGuard};

use base::{DbId, Lsn, ObjectId, Record, RecordAddr, RecordKind, SegmentId};
use keyspace::Journal;

/// A record that is kept.
#[derive(Debug, Clone)]
pub(crate) struct Logged {
    kind: RecordKind,
    db: DbId,
    key: Vec<u8>,
    object: ObjectId,
    sub: Vec<u8>,
    value: Vec<u8>,
    expires_at_ms: Option<i64>,
    is_retired: bool,
}

impl Logged {
    pub(crate) fn record(&self) -> Record<'_> {
        Record {
            kind: self.kind,
            db: self.db,
            key: &self.key,
            object: self.object,
            sub: &self.sub,
            value: &self.value,
            expires_at_ms: self.expires_at_ms,
            is_new: false,
        }
    }

    /// Whether it belongs to a mark that is made now.
    pub(crate) fn is_valid(&self) -> bool {
        !self.is_retired && !self.kind.is_delete()
    }
}

/// A handle of the log; clones share it.
#[derive(Debug, Clone, Default)]
pub(crate) struct MemoryLog(Arc<Mutex<Vec<Logged>>>);

impl MemoryLog {
    pub(crate) fn records(&self) -> MutexGuard<'_, Vec<Logged>> {
        self.0.lock().unwrap()
    }
}

pub(crate) fn addr(at: usize) -> RecordAddr {
    RecordAddr::new(SegmentId(1), u32::try_from(at).unwrap())
}

impl Journal for MemoryLog {
    fn append(&mut self, record: &Record<'_>) -> Option<RecordAddr> {
        let mut records = self.records();
        let Record { kind, db, object, expires_at_ms, .. } = *record;
        let [key, sub, value] = [record.key, record.sub, record.value].map(<[u8]>::to_vec);
        let is_retired = false;
        records.push(Logged { kind, db, key, object, sub, value, expires_at_ms, is_retired });
        Some(addr(records.len() - 1))
    }

    fn retire(&mut self, addr: RecordAddr) {
        self.records()[addr.ordinal() as usize].is_retired = true;
    }

    fn open_lsn(&self) -> Lsn {
        Lsn(1)
    }

    fn last_lsn(&self) -> Lsn {
        Lsn(1)
    }

    fn durable_lsn(&self) -> Lsn {
        Lsn(1)
    }

    fn undurable_lsn_of(&self, _addr: RecordAddr) -> Option<Lsn> {
        None
    }
}
