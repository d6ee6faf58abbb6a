//! What replies and reads have to wait for, and for how long.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use base::{DbId, Lsn, Record, RecordKind};
use env_os::{OsClock, OsDisk, OsEntropy};
use env_sim::{Faults, SimDisk};
use redo::{Env, Health, Opened, Recovery, Step, SyncPolicy, Turn};

use crate::harness::{Database, Keyspace, key, options};

fn simulated(policy: SyncPolicy) -> (SimDisk, Database) {
    let disk = SimDisk::new(1, Faults::default());
    let mut options = options(Path::new("/data"));
    options.policy = policy;
    (disk.clone(), Database::open_on(Arc::new(disk), options).unwrap())
}

#[test]
fn a_strict_read_waits_for_the_block_of_what_it_read() {
    let (_, mut database) = simulated(SyncPolicy::Always);
    let addr_of = |database: &Database, key: &[u8]| database.keyspace.entries[key].1;
    database.set(b"old", b"1");
    database.flush();
    database.set(b"a", b"1");
    database.log.seal();
    database.set(b"b", b"1");
    database.set(b"c", b"1");
    database.log.seal();
    database.set(b"open", b"1");
    for (key, lsn) in [("old", None), ("a", Some(2)), ("b", Some(3)), ("c", Some(3))] {
        let addr = addr_of(&database, key.as_bytes());
        assert_eq!(database.log.undurable_lsn_of(addr), lsn.map(Lsn), "{key}");
    }
    let open = addr_of(&database, b"open");
    assert_eq!(database.log.undurable_lsn_of(open), Some(Lsn(4)));
    database.flush();
    assert_eq!(database.log.durable_lsn(), Lsn(4));
    for key in ["old", "a", "b", "c", "open"] {
        let addr = addr_of(&database, key.as_bytes());
        assert_eq!(database.log.undurable_lsn_of(addr), None, "{key}");
    }
}

#[test]
fn a_sync_that_is_under_way_is_seen_by_others() {
    let (_, mut database) = simulated(SyncPolicy::Always);
    database.clock.advance_us(1_000_000);
    database.set(b"a", b"1");
    database.log.seal();
    let device = |database: &Database| database.log.stats().devices.remove(0);
    let sync = loop {
        match database.flushers[0].turn() {
            Turn::Sync(sync) => break sync,
            Turn::Step(step) => assert_eq!(step, Step::Worked),
        }
    };
    assert_eq!(device(&database).busy_us, 0);
    database.clock.advance_us(20_000_000);
    assert_eq!(device(&database).busy_us, 20_000_000);
    let result = sync.run();
    database.flushers[0].synced(&sync, result);
    let after = device(&database);
    assert_eq!((after.busy_us, after.sync_latency.count), (0, 1));
    let last = after.sync_latency.up_to_us.last().copied();
    assert_eq!(last, Some((1 << 24, 0)), "it took longer than the last bound");
    assert_eq!(database.flushers[0].step(), Step::Idle);
    database.clock.advance_us(5_000_000);
    assert_eq!(device(&database).busy_us, 0, "it does nothing");
}

#[test]
fn under_everysec_a_device_that_syncs_too_late_makes_writers_wait() {
    let (_, mut database) = simulated(SyncPolicy::EverySec);
    // A block each half second; the flusher takes no step, as if it hung in a sync.
    for number in 0..5 {
        database.set(&key(number), b"1");
        database.log.seal();
        database.log.tick();
        assert!(!database.log.is_congested(), "after {number} half seconds");
        database.clock.advance_us(500_000);
    }
    database.log.tick();
    assert!(database.log.is_congested(), "the first block is older than two seconds");
    database.flush();
    database.log.tick();
    assert!(!database.log.is_congested());
}

#[test]
fn everysec_syncs_each_second_and_when_asked() {
    let (_, mut database) = simulated(SyncPolicy::EverySec);
    database.set(b"a", b"1");
    database.flush();
    database.clock.advance_us(999_999);
    database.log.tick();
    database.flush();
    assert_eq!(database.log.durable_lsn(), Lsn(0));
    database.clock.advance_us(1);
    database.log.tick();
    database.flush();
    assert_eq!(database.log.durable_lsn(), Lsn(1));
    database.set(b"b", b"1");
    let lsn = database.log.open_lsn();
    database.log.request_sync(lsn);
    database.flush();
    assert_eq!(database.log.durable_lsn(), Lsn(2), "a client that wants more gets it");
    database.set(b"c", b"1");
    database.flush();
    assert_eq!(database.log.durable_lsn(), Lsn(2));
    database.log.set_policy(SyncPolicy::Always);
    database.flush();
    assert_eq!(database.log.durable_lsn(), Lsn(3));
}

#[test]
fn too_much_in_flight_is_congestion() {
    let disk = SimDisk::new(1, Faults::default());
    let mut options = options(Path::new("/data"));
    options.in_flight_bytes_max = 10_000;
    let mut database = Database::open_on(Arc::new(disk), options).unwrap();
    for number in 0..20 {
        database.set(&key(number), &[7; 1000]);
        database.log.seal();
    }
    assert!(database.log.is_congested());
    database.flush();
    assert!(!database.log.is_congested());
    assert_eq!(database.log.stats().in_flight_bytes, 0);
}

#[test]
fn too_much_behind_the_index_is_congestion() {
    let disk = SimDisk::new(1, Faults::default());
    let mut options = options(Path::new("/data"));
    options.index_lag_bytes_max = 10_000;
    let mut database = Database::open_on(Arc::new(disk), options).unwrap();
    let bound = database.log.reader().index_bound();
    bound.set(Lsn(0));
    bound.set_believed(true);
    for number in 0..20 {
        database.set(&key(number), &[7; 1000]);
        database.flush();
    }
    assert!(database.log.is_congested());
    assert!(database.log.index_stats().lag_bytes > 20_000);
    assert!(bound.wanted() > Lsn(0), "a cut is asked for");
    // A keyspace that is logged anew has no other way to come to its end.
    database.log.set_frozen(true);
    assert!(!database.log.is_congested());
    database.log.set_frozen(false);
    bound.set_believed(false);
    database.log.poll();
    assert!(!database.log.is_congested(), "the index is not built yet, or cannot be kept");
    bound.set_believed(true);
    bound.set(Lsn(15));
    database.log.poll();
    assert!(!database.log.is_congested(), "the index has caught up");
    bound.set(Lsn(0));
    bound.lift();
    database.log.poll();
    assert!(!database.log.is_congested(), "it was removed");
    assert_eq!(database.log.index_stats().lag_bytes, 0);
}

#[test]
fn a_block_much_larger_than_a_segment_is_one_block() {
    let (disk, mut database) = simulated(SyncPolicy::Always);
    let large = vec![9; 5 << 20];
    database.set(b"large", &large);
    database.set(b"small", b"1");
    database.flush();
    database.set(b"next", b"1");
    database.flush();
    database.set(b"small", b"2");
    database.log.compact_all();
    database.settle();
    let expected = database.keyspace.contents();
    drop(database);
    disk.crash();
    let database = Database::open_on(Arc::new(disk), options(Path::new("/data"))).unwrap();
    assert!(database.keyspace.contents() == expected, "and compaction copies it");
}

/// The threads of the real server, on a real disk.
#[test]
fn threads_make_everything_durable_and_wake_the_executor() {
    let dir = tempfile::tempdir().unwrap();
    let mut options = options(dir.path());
    options.devices = ["a", "b", "c"].map(|name| dir.path().join(name)).to_vec();
    options.parallel_loaders = true;
    let wakes = Arc::new(AtomicUsize::new(0));
    let mut expected = BTreeMap::new();
    for round in 0..3u8 {
        let counter = wakes.clone();
        let env = Env {
            disk: Arc::new(OsDisk),
            clock: Arc::new(OsClock::default()),
            entropy: Box::new(OsEntropy),
            waker: Arc::new(move || {
                counter.fetch_add(1, Ordering::Relaxed);
            }),
        };
        let recovery = Recovery::open(env, options.clone()).unwrap();
        let mut keyspace = Keyspace::default();
        let Opened { mut log, flushers, mut compactor, .. } =
            recovery.run(&mut keyspace, &mut |_| {}).unwrap();
        assert_eq!(keyspace.contents(), expected);
        let mut threads = Vec::new();
        for mut flusher in flushers {
            threads.push(std::thread::spawn(move || {
                loop {
                    match flusher.step() {
                        Step::Worked => {}
                        Step::Idle => flusher.bell().wait(Duration::from_millis(100)),
                        Step::Finished => return,
                    }
                }
            }));
        }
        threads.push(std::thread::spawn(move || {
            loop {
                match compactor.step() {
                    Step::Worked => {}
                    Step::Idle => compactor.wait(Duration::from_millis(100)),
                    Step::Finished => return,
                }
            }
        }));
        for number in 0..3000 {
            let (key, value) = (key(number % 70), vec![round; number % 300]);
            let record = Record::whole(RecordKind::String, DbId(0), &key, &value, None);
            let addr = log.append(&record);
            if let Some((_, old)) = keyspace.entries.insert(key.clone(), (value.clone(), addr)) {
                log.retire(old);
            }
            expected.insert(key, value);
            log.seal();
            log.poll();
            log.tick();
        }
        log.shutdown();
        for thread in threads {
            thread.join().unwrap();
        }
        log.poll();
        assert_eq!(log.durable_lsn().next(), log.open_lsn());
        assert_eq!(log.health(), Health::Writable);
    }
    assert!(wakes.load(Ordering::Relaxed) > 0);
}

#[test]
fn the_end_does_not_wait_for_a_full_disk() {
    let disk = SimDisk::new(4, Faults::default());
    let full = Faults { capacity_bytes: Some(100 << 10), ..Faults::default() };
    disk.set_faults(full.clone());
    let mut options = options(Path::new("/data"));
    options.compaction.enabled = false;
    let mut database = Database::open_on(Arc::new(disk.clone()), options.clone()).unwrap();
    for number in 0..300 {
        database.set(&key(number), &[7; 500]);
        database.log.seal();
    }
    database.log.shutdown();
    let mut steps = 0;
    while database.flushers[0].step() != Step::Finished {
        steps += 1;
        assert!(steps < 1000, "it ends");
    }
    database.log.poll();
    let durable = database.log.durable_lsn();
    assert!(durable < Lsn(300));
    assert!(matches!(database.log.health(), Health::ReadOnly { .. }), "and it says so");
    drop(database);
    disk.set_faults(Faults::default());
    let database = Database::open_on(Arc::new(disk), options).unwrap();
    assert!(database.summary.last_lsn >= durable);
}
