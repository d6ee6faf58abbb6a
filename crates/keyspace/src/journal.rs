//! Where the keyspace's changes go: the trait that connects it to a log.

use base::{Lsn, Record, RecordAddr, RecordKind};

/// The log as the keyspace sees it. `server` implements it on the redo log; [`NoJournal`] is
/// `appendonly no`.
pub trait Journal: Send {
    /// Appends a record to the open block. `None` when nothing is logged.
    fn append(&mut self, record: &Record<'_>) -> Option<RecordAddr>;
    /// Records of this kind follow, which an older program may not know: a log says so before the first one.
    /// Only between commands.
    fn declare(&mut self, _kind: RecordKind) {}
    /// Whether records of this kind may follow, or are there; `None` when nothing is logged.
    fn has_declared(&self, _kind: RecordKind) -> Option<bool> {
        None
    }
    /// The record at `addr` is no longer needed to restore anything.
    fn retire(&mut self, addr: RecordAddr);
    /// The LSN that the open block will get: what a write depends on.
    fn open_lsn(&self) -> Lsn;
    /// The LSN of the newest block that has a record: the open one, or the one before it.
    fn last_lsn(&self) -> Lsn;
    /// Everything up to this LSN survives a crash.
    fn durable_lsn(&self) -> Lsn;
    /// The LSN of the block that has this record, when it is not durable yet.
    fn undurable_lsn_of(&self, addr: RecordAddr) -> Option<Lsn>;
    /// Whether [`Journal::retire`] was called for this record, in this life or before. A journal that
    /// nothing can be brought back from need not know.
    fn is_retired(&self, _addr: RecordAddr) -> bool {
        false
    }
    /// A block that is not older than the one that has this record; `None` if that cannot be told.
    fn lsn_bound_of(&self, _addr: RecordAddr) -> Option<Lsn> {
        None
    }
    /// The block up to which an index durably knows every record; `None` if there is no such index.
    fn indexed_lsn(&self) -> Option<Lsn> {
        None
    }
}

/// A journal that does nothing: the database is a cache.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoJournal;

impl Journal for NoJournal {
    fn append(&mut self, _record: &Record<'_>) -> Option<RecordAddr> {
        None
    }

    fn retire(&mut self, _addr: RecordAddr) {}

    fn open_lsn(&self) -> Lsn {
        Lsn::ZERO
    }

    fn last_lsn(&self) -> Lsn {
        Lsn::ZERO
    }

    fn durable_lsn(&self) -> Lsn {
        // Nothing will ever be more durable than it is: no reply waits, whatever was noted
        // while there was a log.
        Lsn(u64::MAX)
    }

    fn undurable_lsn_of(&self, _addr: RecordAddr) -> Option<Lsn> {
        None
    }
}

impl<T: Journal + ?Sized> Journal for Box<T> {
    fn append(&mut self, record: &Record<'_>) -> Option<RecordAddr> {
        (**self).append(record)
    }

    fn declare(&mut self, kind: RecordKind) {
        (**self).declare(kind);
    }

    fn has_declared(&self, kind: RecordKind) -> Option<bool> {
        (**self).has_declared(kind)
    }

    fn retire(&mut self, addr: RecordAddr) {
        (**self).retire(addr);
    }

    fn open_lsn(&self) -> Lsn {
        (**self).open_lsn()
    }

    fn last_lsn(&self) -> Lsn {
        (**self).last_lsn()
    }

    fn durable_lsn(&self) -> Lsn {
        (**self).durable_lsn()
    }

    fn undurable_lsn_of(&self, addr: RecordAddr) -> Option<Lsn> {
        (**self).undurable_lsn_of(addr)
    }

    fn is_retired(&self, addr: RecordAddr) -> bool {
        (**self).is_retired(addr)
    }

    fn lsn_bound_of(&self, addr: RecordAddr) -> Option<Lsn> {
        (**self).lsn_bound_of(addr)
    }

    fn indexed_lsn(&self) -> Option<Lsn> {
        (**self).indexed_lsn()
    }
}
