//! Compaction: little disk, nothing lost, nothing back from the dead.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use base::Lsn;
use env_sim::{Faults, SimDisk, SimEntropy};
use redo::{Step, SyncPolicy};

use crate::harness::{Database, index, key, options};

#[test]
fn the_disk_stays_below_twice_the_live_data_under_updates_only() {
    let disk = SimDisk::new(1, Faults::default());
    let mut options = options(Path::new("/data"));
    options.compaction = redo::CompactionOptions { rate_bytes_per_s: 0, ..Default::default() };
    options.segment_bytes = 256 << 10;
    options.reserve_bytes = 0;
    let mut database = Database::open_on(Arc::new(disk), options).unwrap();
    const KEYS: u64 = 20_000;
    let mut rng = SimEntropy::new(7);
    let mut worst = 0;
    for number in 0..200_000u64 {
        let key_number = if number < KEYS { number } else { rng.below(KEYS) };
        database.set(&key(index(key_number)), &[7; 100]);
        if number % 100 == 99 {
            database.settle();
            if number > KEYS {
                worst = worst.max(database.log.stats().bytes);
            }
        }
    }
    let entries = &database.keyspace.entries;
    let live: usize = entries.iter().map(|(key, (value, _))| key.len() + value.len() + 5).sum();
    assert!(worst < 2 * live as u64, "{worst} bytes for {live} live ones");
    let stats = database.log.stats();
    assert!(stats.bitmap_bytes < live as u64 / 50, "bitmaps are small: {stats:?}");
}

#[test]
fn writers_wait_for_a_compactor_that_gets_no_turn() {
    let disk = SimDisk::new(5, Faults::default());
    let mut database = Database::open_on(Arc::new(disk), options(Path::new("/data"))).unwrap();
    const KEYS: u64 = 1000;
    for number in 0..KEYS {
        database.set(&key(index(number)), &[7; 400]);
        if number % 10 == 9 {
            database.flush();
        }
    }
    database.settle();
    let live = database.log.stats().bytes;
    let mut rng = SimEntropy::new(7);
    let mut written = 0;
    while !database.log.is_congested() {
        assert!(written < 2 * KEYS, "nobody waits");
        for _ in 0..10 {
            database.set(&key(index(rng.below(KEYS))), &[8; 400]);
        }
        written += 10;
        database.flush();
        database.clock.advance_us(20_000);
        database.log.tick();
    }
    let bytes = database.log.stats().bytes;
    assert!((live * 17 / 10..live * 21 / 10).contains(&bytes), "{bytes} bytes for {live}");
    database.settle();
    assert!(!database.log.is_congested());
    assert!(database.log.stats().bytes < live * 17 / 10, "{:?}", database.log.stats());
}

#[test]
fn little_data_does_not_fill_large_segments() {
    let disk = SimDisk::new(9, Faults::default());
    let mut options = redo::Options::new("/data");
    options.compaction.rate_bytes_per_s = 0;
    options.parallel_loaders = false;
    let mut database = Database::open_on(Arc::new(disk), options).unwrap();
    const KEYS: u64 = 2_000;
    let mut rng = SimEntropy::new(7);
    let mut worst = 0;
    for number in 0..12_000u64 {
        let key_number = if number < KEYS { number } else { rng.below(KEYS) };
        database.set(&key(index(key_number)), &[7; 10_000]);
        if number % 20 == 19 {
            database.settle();
            if number > KEYS {
                worst = worst.max(database.log.stats().bytes);
            }
        }
    }
    let live = KEYS * 10_000;
    assert!(worst < 2 * live, "{worst} bytes for {live} live ones");
}

#[test]
fn deletes_are_dropped_once_nothing_needs_them() {
    let disk = SimDisk::new(2, Faults::default());
    let options = options(Path::new("/data"));
    let mut database = Database::open_on(Arc::new(disk.clone()), options.clone()).unwrap();
    for number in 0..2000 {
        database.set(&key(number), &[7; 50]);
        if number % 10 == 9 {
            database.settle();
        }
    }
    for number in 0..2000 {
        database.delete(&key(number));
        if number % 10 == 9 {
            database.settle();
        }
    }
    assert!(database.log.stats().delete_records > 0);
    for _ in 0..4 {
        database.log.compact_all();
        database.settle();
    }
    let stats = database.log.stats();
    assert_eq!((stats.records, stats.segments), (0, 0), "nothing is left of nothing: {stats:?}");
    drop(database);
    disk.crash();
    let database = Database::open_on(Arc::new(disk), options).unwrap();
    assert!(database.keyspace.entries.is_empty());
    assert_eq!(database.summary.last_lsn, Lsn(400), "numbers are not used twice");
}

#[test]
fn cold_data_holds_no_deletes_hostage() {
    let mut options = options(Path::new("/data"));
    options.segment_bytes = 4 << 10;
    let disk = SimDisk::new(3, Faults::default());
    let mut database = Database::open_on(Arc::new(disk), options).unwrap();
    for number in 0..200 {
        database.set(&key(number), &[7; 100]);
        database.flush();
    }
    // From here on only other keys come and go.
    for round in 0..50 {
        for number in 1000..1020 {
            database.set(&key(number), &[7; 100]);
        }
        database.settle();
        for number in 1000..1020 {
            database.delete(&key(number));
        }
        database.settle();
        if round % 10 == 0 {
            database.log.compact_all();
            database.settle();
        }
    }
    database.log.compact_all();
    database.settle();
    database.log.compact_all();
    database.settle();
    let stats = database.log.stats();
    assert!(stats.delete_records <= 40, "{stats:?}");
}

#[test]
fn a_bit_in_cold_data_does_not_keep_deletes_for_ever() {
    let mut options = options(Path::new("/data"));
    options.segment_bytes = 8 << 10;
    let disk = SimDisk::new(6, Faults::default());
    let mut database = Database::open_on(Arc::new(disk), options).unwrap();
    for number in 0..1000 {
        database.set(&key(number), &[7; 100]);
        database.flush();
    }
    // One record in each cold segment becomes garbage.
    for number in (0..1000).step_by(50) {
        database.set(&key(number), &[8; 100]);
        database.flush();
    }
    // A queue: what comes in goes out again.
    for number in 10_000..40_000 {
        database.set(&key(number), &[7; 20]);
        database.delete(&key(number - 20));
        if number % 20 == 0 {
            database.settle();
        }
    }
    let stats = database.log.stats();
    assert!(stats.delete_records < 1000, "{stats:?}");
    assert!(stats.bytes < 400_000, "{stats:?}");
}

/// The old record must not go before the new one is durable, or a crash loses both.
#[test]
fn a_segment_is_not_replaced_before_what_superseded_it_is_durable() {
    let disk = SimDisk::new(4, Faults::default());
    let mut options = options(Path::new("/data"));
    options.devices = vec![PathBuf::from("/a"), PathBuf::from("/b")];
    options.policy = SyncPolicy::EverySec;
    let mut database = Database::open_on(Arc::new(disk.clone()), options.clone()).unwrap();
    for number in 0..100 {
        database.set(&key(number), &[1; 100]);
    }
    database.log.seal();
    database.log.compact_all();
    database.log.request_sync(Lsn(1));
    database.flush();
    let durable = database.keyspace.contents();
    assert_eq!(database.log.durable_lsn(), Lsn(1));
    for number in 0..100 {
        database.set(&key(number), &[2; 100]);
    }
    database.log.seal();
    database.log.poll();
    database.log.tick();
    assert!(database.log.stats().compacting.is_some());
    for _ in 0..50 {
        database.compactor.step();
    }
    disk.crash();
    drop(database);
    let database = Database::open_on(Arc::new(disk), options).unwrap();
    assert_eq!(database.keyspace.contents(), durable, "the old state, as the new one was lost");
}

#[test]
fn a_large_block_of_many_records_is_compacted_piece_by_piece() {
    let disk = SimDisk::new(8, Faults::default());
    let mut options = options(Path::new("/data"));
    options.segment_bytes = 1 << 20;
    let mut database = Database::open_on(Arc::new(disk.clone()), options.clone()).unwrap();
    let mut rng = SimEntropy::new(9);
    for number in 0..30_000 {
        database.set(&key(number), &vec![7; index(rng.below(300))]);
    }
    database.set(b"huge", &vec![8; 1 << 20]);
    database.flush();
    for round in 0..3 {
        for number in (0..30_000).filter(|number| (number + round) % 4 == 0) {
            if number % 5 == 0 {
                database.delete(&key(number));
            } else {
                database.set(&key(number), &vec![6; index(rng.below(300))]);
            }
        }
        database.log.seal();
        database.log.compact_all();
        database.settle();
    }
    assert!(database.log.stats().compactions >= 3);
    let expected = database.close().contents();
    let shared: Arc<dyn env::Disk> = Arc::new(disk.clone());
    let report = redo::verify(&shared, Path::new("/data"), &[]).unwrap();
    assert!(report.is_good(), "{report}");
    let database = Database::open_on(Arc::new(disk), options).unwrap();
    assert!(database.keyspace.contents() == expected, "nothing is lost, nothing is back");
}

#[test]
fn compaction_keeps_to_its_rate() {
    let disk = SimDisk::new(5, Faults::default());
    let mut options = options(Path::new("/data"));
    options.segment_bytes = 4 << 20;
    options.compaction.enabled = false;
    options.compaction.rate_bytes_per_s = 1 << 20;
    let mut database = Database::open_on(Arc::new(disk), options).unwrap();
    for number in 0..4000 {
        database.set(&key(number % 3000), &[7; 1000]);
        database.flush();
    }
    let bytes = database.log.stats().bytes;
    database.log.compact_all();
    database.flush();
    database.log.tick();
    let mut waited_ms = 0;
    while database.log.stats().compactions == 0 {
        if database.compactor.step() == Step::Idle {
            database.clock.advance_us(1000);
            waited_ms += 1;
        }
        database.log.poll();
        assert!(waited_ms < 100_000, "it comes to an end");
    }
    assert!(waited_ms > 3000, "{bytes} bytes were read in {waited_ms} ms");
}

/// A log of many small segments: a restart after every few keys.
fn log_of_many_restarts(disk: &SimDisk, restarts: usize) -> redo::Options {
    let mut options = options(Path::new("/data"));
    options.compaction.gathered_min = usize::MAX / 8;
    for restart in 0..restarts {
        let mut database = Database::open_on(Arc::new(disk.clone()), options.clone()).unwrap();
        for number in 0..10 {
            database.set(&key(restart * 10 + number), &[1; 20]);
        }
        database.settle();
        database.close();
    }
    options.compaction.gathered_min = 4;
    options
}

#[test]
fn restarts_do_not_leave_a_file_each() {
    let disk = SimDisk::new(11, Faults::default());
    let options = log_of_many_restarts(&disk, 40);
    let mut database = Database::open_on(Arc::new(disk.clone()), options.clone()).unwrap();
    assert_eq!(database.log.stats().files, 40);
    database.settle();
    let stats = database.log.stats();
    assert_eq!(stats.segments, 40);
    assert!(stats.files <= 4, "{stats:?}");
    // The first segments of the file lose everything, and the file is named after another.
    (0..150).for_each(|number| database.delete(&key(number)));
    database.settle();
    let contents = database.close().contents();
    let shared: Arc<dyn env::Disk> = Arc::new(disk.clone());
    let report = redo::verify(&shared, Path::new("/data"), &[]).unwrap();
    assert!(report.is_good() && report.notes.is_empty(), "{report}");
    let database = Database::open_on(Arc::new(disk), options).unwrap();
    assert_eq!(database.keyspace.contents(), contents);
    assert_eq!(contents.len(), 250);
    assert!(database.log.stats().files <= 5, "{:?}", database.log.stats());
}

#[test]
fn a_crash_while_small_segments_are_gathered_loses_nothing() {
    let mut at = 1;
    loop {
        let disk = SimDisk::new(at, Faults::default());
        let options = log_of_many_restarts(&disk, 6);
        let mut database = Database::open_on(Arc::new(disk.clone()), options.clone()).unwrap();
        disk.crash_after(at);
        // All of the first segment, and half of the third.
        (0..10).chain(20..25).for_each(|number| database.delete(&key(number)));
        database.flush();
        let is_acknowledged = database.log.durable_lsn().next() == database.log.open_lsn();
        for _ in 0..30 {
            database.clock.advance_us(200_000);
            database.log.poll();
            database.log.tick();
            database.compactor.step();
        }
        let is_over = !disk.is_crashed();
        assert!(!is_over || database.log.stats().files < 4, "they were gathered");
        drop(database);
        disk.restart();
        let database = Database::open_on(Arc::new(disk.clone()), options.clone()).unwrap();
        let count = database.keyspace.entries.len();
        assert!(count == 45 || (count == 60 && !is_acknowledged), "{count} keys after {at} I/Os");
        drop(database.close());
        let shared: Arc<dyn env::Disk> = Arc::new(disk);
        let report = redo::verify(&shared, Path::new("/data"), &[]).unwrap();
        assert!(report.is_good(), "after {at} I/Os: {report}");
        if is_over {
            assert!(at > 15, "only {at} I/Os");
            break;
        }
        at += 1;
    }
}

/// The process dies between a rename and the sync of its directory, or that sync fails: the next start
/// sees a name that no disk has, and a crash in the middle of it must not lose more than that name.
#[test]
fn a_rename_that_was_seen_and_not_synced_is_settled_before_anything_is_removed() {
    let mut seen = 0;
    for error_at in 1..40 {
        for crash_at in 1..12 {
            let disk = SimDisk::new(error_at * 100 + crash_at, Faults::default());
            let options = log_of_many_restarts(&disk, 5);
            let mut database = Database::open_on(Arc::new(disk.clone()), options.clone()).unwrap();
            let error_at_io = Some(disk.io_count() + error_at);
            disk.set_faults(Faults { error_at_io, ..Faults::default() });
            for _ in 0..20 {
                database.clock.advance_us(200_000);
                database.log.tick();
                database.compactor.step();
                database.log.poll();
            }
            seen += database.log.stats().compactions_failed;
            drop(database);
            disk.set_faults(Faults::default());
            disk.kill();
            disk.crash_after(crash_at);
            drop(Database::open_on(Arc::new(disk.clone()), options.clone()));
            disk.restart();
            let reopened = Database::open_on(Arc::new(disk), options);
            let database = reopened.unwrap_or_else(|error| {
                panic!("error at I/O {error_at}, crash at I/O {crash_at}: {error}")
            });
            assert_eq!(database.keyspace.entries.len(), 50, "{error_at}, {crash_at}");
        }
    }
    assert!(seen > 50, "compactions failed: {seen}");
}
