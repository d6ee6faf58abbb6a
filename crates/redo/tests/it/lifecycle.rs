//! Opening, writing, closing, dying, opening again.

use base::Lsn;

use crate::harness::{Database, key, options, value};

#[test]
fn what_was_written_is_there_after_a_clean_stop() {
    let dir = tempfile::tempdir().unwrap();
    let mut database = Database::open(options(dir.path())).unwrap();
    assert_eq!((database.summary.epoch, database.summary.records), (1, 0));
    for number in 0..1000 {
        database.set(&key(number), &value(number));
        if number % 7 == 0 {
            database.flush();
        }
    }
    database.delete(&key(3));
    let expected = database.close().contents();
    let database = Database::open(options(dir.path())).unwrap();
    assert_eq!(database.keyspace.contents(), expected);
    assert_eq!(database.summary.cut_bytes, 0);
    assert_eq!(database.summary.records, 1001);
    assert!(database.summary.segments > 3, "segments are rolled");
}

#[test]
fn what_was_durable_is_there_after_dying() {
    let dir = tempfile::tempdir().unwrap();
    let mut database = Database::open(options(dir.path())).unwrap();
    for number in 0..500 {
        database.set(&key(number % 50), &value(number));
        database.flush();
    }
    assert_eq!(database.log.durable_lsn(), Lsn(500));
    let expected = database.keyspace.contents();
    database.set(b"never", b"acknowledged");
    drop(database);
    let database = Database::open(options(dir.path())).unwrap();
    assert_eq!(database.keyspace.contents(), expected);
    assert_eq!(database.summary.last_lsn, Lsn(500));
}

#[test]
fn garbage_is_compacted_and_nothing_else() {
    let dir = tempfile::tempdir().unwrap();
    let mut database = Database::open(options(dir.path())).unwrap();
    for round in 0..60 {
        for number in 0..100 {
            if (number + round) % 11 == 0 {
                database.delete(&key(number));
            } else {
                database.set(&key(number), &value(number + round));
            }
        }
        database.settle();
    }
    let stats = database.log.stats();
    assert!(stats.compactions > 10, "{stats:?}");
    assert!(stats.bytes < 64 << 10, "{stats:?}");
    let expected = database.keyspace.contents();
    drop(database);
    let database = Database::open(options(dir.path())).unwrap();
    assert_eq!(database.keyspace.contents(), expected);
}
