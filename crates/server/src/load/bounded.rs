//! A log read into as much memory as there is: when that is not enough, the reading goes on without a keyspace.
//!
//! ```text
//!   records ─┬─► Filling ── memory is short: small values leave it ─┬─► all read: Some(Keyspace)
//!            │                                                      └─► nothing more can leave: dropped
//!            └─► Scan: every record is checked ───────────────────────► all read: judged, None
//! ```
//!
//! The log is read once, whatever comes: every byte is checked and its end is judged as by every start.
//!
//! # Invariants
//! 1. What is read is bounded: by the memory that there is, or, where the filling is not given up, by nothing,
//!    as in Redis.
//! 2. What was retired by a filling that was given up is garbage, but not all that is: such a log is
//!    frozen, and is opened again by an index before it is used.

use base::{Lsn, Record, RecordAddr};
use keyspace::{BadRecord, Keyspace, LogCheck, NoJournal};

use super::Filling;
use crate::host::Host;

/// After so many records it is seen whether memory is short.
const RECORDS_PER_LOOK: u64 = 1024;

/// So many pages of values may leave it then, if it cannot be told that nothing more will.
const PAGES_PER_LOOK: u32 = 64;

/// The memory that a log is read into.
pub struct Room<'a> {
    /// Says how much of it is used.
    pub host: Box<dyn Host>,
    /// So many bytes may be used before values leave memory.
    pub bytes_max: u64,
    /// Called once, when nothing more can leave: whether the filling is given up.
    pub when_full: &'a mut dyn FnMut() -> bool,
}

/// What memory still has to give.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Supply {
    /// Values can leave it.
    Values,
    /// The keys alone take all of it.
    Exhausted,
}

/// See the file's top.
pub(super) struct Bounded<'a> {
    filling: Option<Filling>,
    scan: Scan,
    room: Room<'a>,
    supply: Supply,
    records: u64,
}

impl<'a> Bounded<'a> {
    pub(super) fn new(filling: Filling, room: Room<'a>) -> Self {
        let (scan, supply) = (Scan::default(), Supply::Values);
        Self { filling: Some(filling), scan, room, supply, records: 0 }
    }

    /// The keyspace, unless that was given up.
    pub(super) fn into_keyspace(self) -> Option<Keyspace<NoJournal>> {
        self.filling.map(Filling::into_keyspace)
    }

    /// Lets values leave memory, if it is short.
    fn look(&mut self) {
        let Some(filling) = &mut self.filling else { return };
        let mut pages = 0;
        while self.room.host.used_bytes() > self.room.bytes_max {
            // Keys leave memory when an index knows them.
            let cooled = filling.keyspace.cool_step(None);
            pages += 1;
            match self.supply {
                Supply::Exhausted if pages == PAGES_PER_LOOK => break,
                Supply::Values
                    if cooled.round.is_some_and(|round| round.gone == 0 && round.was_desperate) =>
                {
                    self.supply = Supply::Exhausted;
                    if (self.room.when_full)() {
                        self.filling = None;
                        self.room.host.purge();
                    }
                    break;
                }
                _ => {}
            }
        }
    }
}

impl redo::Replay for Bounded<'_> {
    fn apply(
        &mut self,
        record: &Record<'_>,
        addr: RecordAddr,
        lsn: Lsn,
        retired: &mut Vec<RecordAddr>,
    ) {
        self.scan.apply(record, addr, lsn, retired);
        let Some(filling) = &mut self.filling else { return };
        filling.apply(record, addr, lsn, retired);
        self.records += 1;
        if self.records.is_multiple_of(RECORDS_PER_LOOK) {
            self.look();
        }
    }

    fn announce(&mut self, record: &Record<'_>) {
        self.filling.iter_mut().for_each(|filling| filling.announce(record));
    }

    fn wants_announcements(&self) -> bool {
        self.filling.as_ref().is_some_and(Filling::wants_announcements)
    }

    fn finish(&mut self, retired: &mut Vec<RecordAddr>) {
        match &mut self.filling {
            Some(filling) => filling.finish(retired),
            None => self.scan.finish(retired),
        }
    }

    fn rejected(&self) -> Option<(RecordAddr, String)> {
        let filling = self.filling.as_ref().and_then(Filling::rejected);
        filling.or_else(|| self.scan.rejected())
    }
}

/// A log that is read and judged, into nothing.
#[derive(Default)]
pub(super) struct Scan {
    check: LogCheck,
    error: Option<(BadRecord, RecordAddr)>,
}

impl redo::Replay for Scan {
    fn apply(
        &mut self,
        record: &Record<'_>,
        addr: RecordAddr,
        _lsn: Lsn,
        _retired: &mut Vec<RecordAddr>,
    ) {
        if let Err(error) = self.check.note(record, addr) {
            self.error.get_or_insert((error, addr));
        }
    }

    fn finish(&mut self, _retired: &mut Vec<RecordAddr>) {
        if let Err(error) = self.check.finish() {
            self.error.get_or_insert(error);
        }
    }

    fn rejected(&self) -> Option<(RecordAddr, String)> {
        self.error.as_ref().map(|(error, addr)| (*addr, error.to_string()))
    }
}
