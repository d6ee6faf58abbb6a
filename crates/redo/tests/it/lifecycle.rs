//! Opening, writing, closing, dying, opening again.

use std::path::Path;
use std::sync::Arc;

use base::Lsn;
use env::Disk;
use env_sim::sweep::crash_everywhere;
use env_sim::{Faults, SimDisk};

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

/// A start does not change a segment that has another name, a backup's: it changes a copy. What a
/// crash leaves of that is gone after the next start, which finds no other name any more.
#[test]
fn a_crash_while_a_linked_segment_is_copied_leaves_no_stray_file() {
    let (log, linked) = (Path::new("/data/redo"), Path::new("/backup/0000000001.redo"));
    let disk = SimDisk::new(7, Faults::default());
    let open =
        |disk: &SimDisk| Database::open_on(Arc::new(disk.clone()), options(Path::new("/data")));
    let mut database = open(&disk).unwrap();
    for number in 0..20 {
        database.set(&key(number), &value(number));
        database.flush();
    }
    let expected = database.keyspace.contents();
    drop(database);
    disk.kill();
    assert!(disk.link(&log.join("0000000001.redo"), linked));
    let strays = |disk: &SimDisk| {
        let known = ["device", "reserve", "reserve.start", "history"];
        let mut names = disk.list(log).unwrap();
        names.retain(|name| {
            let name = name.to_str().unwrap();
            !name.ends_with(".redo") && !known.contains(&name)
        });
        names
    };
    let mut left_count = 0;
    let ios = crash_everywhere(
        &disk,
        |disk| drop(open(disk)),
        |disk, ()| {
            assert_eq!(disk.take_trespass(), None, "the backup is as it was");
            disk.unlink(linked);
            left_count += usize::from(!strays(disk).is_empty());
            let database = open(disk).unwrap();
            assert_eq!(database.keyspace.contents(), expected);
            assert!(strays(disk).is_empty(), "{:?}", strays(disk));
        },
    );
    assert!(left_count > 0, "none of {ios} I/Os is the one between copy and rename");
}
