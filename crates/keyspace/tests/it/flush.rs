//! Emptied databases in the log.

use keyspace::Expiry;

use crate::journal::MemoryLog;

#[test]
fn what_is_set_after_a_flush_that_found_only_an_expired_watched_key_is_found_again() {
    let log = MemoryLog::default();
    let mut keyspace = log.keyspace();
    keyspace.begin_command(1000);
    keyspace.set_string(0, b"watched", b"1", Expiry::At(2000));
    keyspace.watch(0, b"watched");
    keyspace.begin_command(3000);
    assert_eq!(keyspace.flush(0..4), 0);
    keyspace.set_string(0, b"a", b"2", Expiry::Clear);
    while keyspace.free_step(100) {}

    let mut replayed = log.replay(|_| true);
    assert!(replayed.exists(0, b"a", false), "in the same database as before");
    assert_eq!(replayed.database_count(), 4);
}
