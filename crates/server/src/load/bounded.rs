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

    fn announce(&mut self, records: &[Record<'_>]) {
        self.filling.iter_mut().for_each(|filling| filling.announce(records));
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config;
    use crate::host::TestHost;
    use crate::load::{Shape, log_options};
    use base::{DbId, DbIndex, ObjectId, RecordKind, SegmentId};
    use env_sim::{Faults, SimClock, SimDisk, SimEntropy};
    use redo::Replay;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};

    /// A host whose memory is full for so many looks.
    fn full_host(looks: u64) -> TestHost {
        let looks = AtomicU64::new(looks);
        TestHost::new(move || {
            looks
                .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |looks| looks.checked_sub(1))
                .unwrap_or(0)
        })
    }

    const RECORDS: u32 = 3 * 1024;

    fn filling() -> Filling {
        let words = ["--maxmemory", "1mb", "--maxmemory-policy", "cold-lfu"];
        let config = config::load(None, &words.map(str::to_owned)).unwrap();
        let disk = Arc::new(SimDisk::new(1, Faults::default()));
        let env = redo::Env {
            disk,
            clock: Arc::new(SimClock::new(0)),
            entropy: Box::new(SimEntropy::new(1)),
            waker: Arc::new(|| {}),
        };
        let options = config.options();
        let recovery = redo::Recovery::open(env, log_options(&options, "/data".into())).unwrap();
        Filling::new(&recovery, Shape::new(&options, 0))
    }

    /// Reads a log of [`RECORDS`] keys into memory that is full for so many looks; how often it was said that it
    /// is, and what is left.
    fn read(
        looks: u64,
        gives_up: bool,
        last: &Record<'_>,
    ) -> (u32, Option<Keyspace<NoJournal>>, Option<(RecordAddr, String)>) {
        let mut said = 0;
        let mut when_full = || {
            said += 1;
            gives_up
        };
        let host = Box::new(full_host(looks));
        let room = Room { host, bytes_max: 0, when_full: &mut when_full };
        let mut bounded = Bounded::new(filling(), room);
        let mut retired = Vec::new();
        for number in 0..RECORDS {
            let (key, value) = (format!("key:{number}"), format!("a value, number {number}"));
            let (key, value) = (key.as_bytes(), value.as_bytes());
            let record = Record::whole(RecordKind::String, DbId(0), key, value, None);
            let addr = RecordAddr::new(SegmentId(1), number);
            bounded.announce(&[record]);
            bounded.apply(&record, addr, Lsn(u64::from(number) + 1), &mut retired);
        }
        bounded.apply(last, RecordAddr::new(SegmentId(1), RECORDS), Lsn(1 << 40), &mut retired);
        bounded.finish(&mut retired);
        let rejected = bounded.rejected();
        let keyspace = bounded.into_keyspace();
        (said, keyspace, rejected)
    }

    fn good() -> Record<'static> {
        Record::whole(RecordKind::String, DbId(0), b"last", b"value", None)
    }

    #[test]
    fn a_keyspace_from_which_nothing_more_can_leave_is_given_up() {
        let (said, keyspace, rejected) = read(u64::MAX, true, &good());
        assert_eq!((said, keyspace.is_none(), rejected), (1, true, None));
    }

    #[test]
    fn what_is_read_after_a_keyspace_was_given_up_is_checked_all_the_same() {
        let at = RecordAddr::new(SegmentId(1), RECORDS);
        let bad = Record::element_deleted(ObjectId(0), b"");
        assert_eq!(read(u64::MAX, true, &bad).2.expect("it makes no sense").0, at);
        // A database that no map has ever given an id to.
        let unmapped = Record { db: DbId(1 << 40), ..good() };
        assert_eq!(read(u64::MAX, true, &unmapped).2.expect("it makes no sense").0, at);
    }

    #[test]
    fn a_keyspace_that_is_not_to_be_given_up_has_all_keys() {
        let (said, keyspace, rejected) = read(u64::MAX, false, &good());
        let keyspace = keyspace.expect("it is kept");
        assert_eq!((said, rejected), (1, None));
        assert_eq!(keyspace.size(DbIndex::FIRST).0, RECORDS as usize + 1);
    }

    #[test]
    fn values_leave_memory_before_a_keyspace_is_given_up() {
        let (said, keyspace, rejected) = read(20, true, &good());
        let keyspace = keyspace.expect("that is enough");
        assert_eq!((said, rejected), (0, None));
        assert!(keyspace.bare_values() > 0);
    }
}
