//! Emptied databases in the log.

use base::{DbId, DbIndex, Record, RecordKind, varint};
use keyspace::{Expiry, Journal};

use crate::journal::MemoryLog;
use crate::{DB0, DB1, DB3};

#[test]
fn what_is_set_after_a_flush_that_found_only_an_expired_watched_key_is_found_again() {
    let log = MemoryLog::default();
    let mut keyspace = log.keyspace();
    keyspace.begin_command(1000);
    keyspace.set_string(DB0, b"watched", b"1", Expiry::At(2000));
    keyspace.watch(DB0, b"watched");
    keyspace.begin_command(3000);
    assert_eq!(keyspace.flush(DbIndex::all(4)), 0);
    keyspace.set_string(DB0, b"a", b"2", Expiry::Clear);
    while keyspace.free_step(100) {}

    let mut replayed = log.replay(|_| true);
    assert!(replayed.exists(DB0, b"a", false), "in the same database as before");
    assert_eq!(replayed.database_count(), 4);
}

/// What a log holds after so many flushes that the next database is the one with this id.
fn log_before(next: u64) -> MemoryLog {
    let mut log = MemoryLog::default();
    let mut map = Vec::new();
    [next, 0, 1, 2, next - 1].into_iter().for_each(|id| varint::put(&mut map, id));
    log.append(&Record::whole(RecordKind::Databases, DbId(0), &[], &map, None));
    log
}

#[test]
fn flushes_go_on_beyond_thirty_two_bits() {
    let border = u64::from(u32::MAX);
    for next in [border - (1 << 24), border - 2, border, border + 1, 1 << 60] {
        let mut log = log_before(next);
        for round in 0..5_u64 {
            let mut keyspace = log.replay(|_| true);
            keyspace.begin_command(1000);
            keyspace.set_string(DB3, b"before", b"1", Expiry::Clear);
            assert!(keyspace.flush([DB3]) > 0, "round {round} from {next}");
            keyspace.set_string(DB3, b"after", b"2", Expiry::Clear);
            while keyspace.free_step(100) {}
            assert_eq!(keyspace.database_id(DB3), DbId(next + round), "an id of its own");
            log = log.snapshot();
        }
        let mut keyspace = log.replay(|_| false);
        assert!(keyspace.exists(DB3, b"after", false) && !keyspace.exists(DB3, b"before", false));
    }
}

#[test]
fn the_log_is_begun_anew_beyond_thirty_two_bits() {
    let next = u64::from(u32::MAX) - 3;
    let log = log_before(next);
    let mut keyspace = MemoryLog::default().keyspace();
    keyspace.begin_command(1000);
    keyspace.set_string(DB1, b"a", b"1", Expiry::Clear);
    let journal: Box<dyn Journal> = Box::new(log.clone());
    let mut rewrite = keyspace.begin_full_rewrite(journal, log.survey());
    while !keyspace.full_rewrite_step(&mut rewrite, 100) {}
    let (journal, rewritten) = rewrite.finish();
    keyspace.set_journal(journal);
    let survey = keyspace.finish_full_rewrite(rewritten);
    keyspace.retire_surveyed(survey);
    while keyspace.free_step(100) {}
    assert_eq!(keyspace.database_id(DB3), DbId(next + 3));
    let mut replayed = log.replay(|_| false);
    assert!(replayed.exists(DB1, b"a", false));
}
