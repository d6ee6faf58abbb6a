//! Devices that fail and disks that are full.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use base::Lsn;
use env_sim::{Faults, SimDisk};
use redo::{DeviceState, Health, Options, Step, SyncPolicy};

use crate::harness::{Database, key, options, value};

fn two_devices() -> Options {
    let mut options = options(Path::new("/data"));
    options.devices = vec![PathBuf::from("/a"), PathBuf::from("/b")];
    options
}

fn write_some(database: &mut Database, from: usize, count: usize) {
    for number in from..from + count {
        database.set(&key(number % 40), &value(number));
        database.flush();
    }
}

#[test]
fn blocks_of_a_failing_device_are_acknowledged_by_another_and_found_again() {
    let disk = SimDisk::new(1, Faults::default());
    let mut database = Database::open_on(Arc::new(disk.clone()), two_devices()).unwrap();
    write_some(&mut database, 0, 30);
    disk.break_dir(Path::new("/a"));
    write_some(&mut database, 30, 30);
    assert_eq!(database.log.durable_lsn(), Lsn(60), "acknowledgements still come");
    assert_eq!(database.log.health(), Health::Writable);
    let stats = database.log.stats();
    assert_eq!(stats.devices[0].state, DeviceState::Poisoned);
    assert!(stats.devices[0].last_error.as_ref().is_some_and(|error| error.contains("/a/")));
    let expected = database.keyspace.contents();
    drop(database);
    disk.crash();
    disk.mend_dir(Path::new("/a"));
    let mut database = Database::open_on(Arc::new(disk.clone()), two_devices()).unwrap();
    assert_eq!(database.keyspace.contents(), expected);
    // The moved segment is compacted into one file again.
    write_some(&mut database, 60, 400);
    database.log.compact_all();
    database.settle();
    let expected = database.keyspace.contents();
    drop(database);
    disk.crash();
    let names = env::Disk::list(&disk, Path::new("/b")).unwrap();
    assert!(!names.iter().any(|name| name.to_string_lossy().contains(".p")), "{names:?}");
    let database = Database::open_on(Arc::new(disk), two_devices()).unwrap();
    assert_eq!(database.keyspace.contents(), expected);
}

#[test]
fn everysec_keeps_what_is_not_synced_for_the_other_device() {
    let disk = SimDisk::new(2, Faults::default());
    let mut options = two_devices();
    options.policy = SyncPolicy::EverySec;
    let mut database = Database::open_on(Arc::new(disk.clone()), options.clone()).unwrap();
    write_some(&mut database, 0, 20);
    assert_eq!(database.log.durable_lsn(), Lsn::ZERO);
    disk.break_dir(Path::new("/b"));
    database.clock.advance_us(1_000_000);
    database.log.tick();
    database.flush();
    assert_eq!(database.log.durable_lsn(), Lsn(20));
    let expected = database.keyspace.contents();
    drop(database);
    disk.crash();
    disk.mend_dir(Path::new("/b"));
    let database = Database::open_on(Arc::new(disk), options).unwrap();
    assert_eq!(database.keyspace.contents(), expected);
}

#[test]
fn without_another_device_the_log_is_read_only_and_says_why() {
    let disk = SimDisk::new(3, Faults::default());
    let options = options(Path::new("/data"));
    let mut database = Database::open_on(Arc::new(disk.clone()), options.clone()).unwrap();
    write_some(&mut database, 0, 10);
    let expected = database.keyspace.contents();
    disk.break_dir(Path::new("/data/redo"));
    database.set(b"in", b"doubt");
    database.flush();
    let Health::ReadOnly { reason } = database.log.health() else { panic!("it goes on") };
    assert!(reason.contains("/data/redo") && reason.contains("restart"), "{reason}");
    assert_eq!(database.log.durable_lsn(), Lsn(10), "nothing is acknowledged any more");
    disk.mend_dir(Path::new("/data/redo"));
    database.set(b"still", b"nothing");
    database.flush();
    assert_eq!(database.log.durable_lsn(), Lsn(10), "a sync that now works means nothing");
    drop(database);
    disk.crash();
    let database = Database::open_on(Arc::new(disk), options).unwrap();
    let mut found = database.keyspace.contents();
    found.remove(&b"in"[..]);
    assert_eq!(found, expected);
}

#[test]
fn a_full_disk_refuses_writes_loses_nothing_and_recovers_by_itself() {
    const CAPACITY: u64 = 400 << 10;
    let disk = SimDisk::new(4, Faults::default());
    let full = Faults { capacity_bytes: Some(CAPACITY), ..Faults::default() };
    disk.set_faults(full.clone());
    let mut options = options(Path::new("/data"));
    options.compaction.enabled = false;
    let mut database = Database::open_on(Arc::new(disk.clone()), options.clone()).unwrap();
    let mut number = 0;
    while database.log.health() == Health::Writable {
        database.set(&key(number), &[7; 500]);
        database.flush();
        number += 1;
        assert!(number < 10_000, "the disk is full at some time");
    }
    let Health::DiskFull { reason } = database.log.health() else { panic!("not full") };
    assert!(reason.contains("/data/redo"), "{reason}");
    for _ in 0..5 {
        database.clock.advance_us(200_000);
        database.log.tick();
        database.flush();
    }
    let last = Lsn(database.log.open_lsn().0 - 1);
    assert_eq!(database.log.durable_lsn(), last, "the reserve takes what was accepted");
    disk.set_faults(Faults { capacity_bytes: Some(CAPACITY * 4), ..full });
    for _ in 0..5 {
        database.clock.advance_us(200_000);
        database.log.tick();
        database.flush();
    }
    assert_eq!(database.log.health(), Health::Writable, "there is room again");
    database.set(b"after", b"all");
    database.flush();
    let expected = database.close().contents();
    disk.crash();
    let database = Database::open_on(Arc::new(disk), options).unwrap();
    assert_eq!(database.keyspace.contents(), expected);
}

#[test]
fn a_log_is_opened_on_a_full_disk_again_and_again() {
    let disk = SimDisk::new(8, Faults::default());
    let options = options(Path::new("/data"));
    let mut database = Database::open_on(Arc::new(disk.clone()), options.clone()).unwrap();
    write_some(&mut database, 0, 200);
    let expected = database.keyspace.contents();
    drop(database);
    disk.kill();
    for start in 0..4 {
        // Another program takes what this start has not used.
        let capacity_bytes = Some(disk.used_bytes());
        disk.set_faults(Faults { capacity_bytes, ..Faults::default() });
        let opened = Database::open_on(Arc::new(disk.clone()), options.clone());
        let database = opened.unwrap_or_else(|error| panic!("start {start}: {error}"));
        assert_eq!(database.keyspace.contents(), expected);
        drop(database);
        disk.kill();
    }
    disk.set_faults(Faults::default());
    let mut database = Database::open_on(Arc::new(disk), options).unwrap();
    write_some(&mut database, 0, 10);
    assert_eq!(database.log.health(), Health::Writable);
}

#[test]
fn a_full_disk_is_made_room_on_by_compaction() {
    let disk = SimDisk::new(5, Faults::default());
    disk.set_faults(Faults { capacity_bytes: Some(400 << 10), ..Faults::default() });
    let mut options = options(Path::new("/data"));
    options.compaction.enabled = false;
    let mut database = Database::open_on(Arc::new(disk), options).unwrap();
    for number in 0..10_000 {
        if database.log.health() != Health::Writable {
            break;
        }
        database.set(&key(number % 10), &[7; 500]);
        database.flush();
    }
    assert_ne!(database.log.health(), Health::Writable);
    database.log.compact_all();
    database.settle();
    database.settle();
    assert_eq!(database.log.health(), Health::Writable, "{:?}", database.log.stats());
}

#[test]
fn a_full_disk_holds_up_no_reads() {
    let disk = SimDisk::new(6, Faults::default());
    let mut options = options(Path::new("/data"));
    options.reserve_bytes = 0;
    options.in_flight_bytes_max = 10_000;
    let mut database = Database::open_on(Arc::new(disk.clone()), options).unwrap();
    write_some(&mut database, 0, 10);
    disk.set_faults(Faults { capacity_bytes: Some(disk.used_bytes()), ..Faults::default() });
    for number in 0..40 {
        database.set(&key(number), &[7; 1000]);
        database.log.seal();
    }
    database.log.poll();
    assert!(database.log.is_congested(), "writers wait for the device");
    database.flush();
    assert!(matches!(database.log.health(), Health::DiskFull { .. }));
    assert!(!database.log.is_congested(), "writes are refused instead, and reads go on");
    disk.set_faults(Faults::default());
    database.settle();
    assert_eq!(database.log.health(), Health::Writable);
    assert_eq!(database.log.durable_lsn(), Lsn(50));
}

#[test]
fn blocks_that_a_full_device_keeps_are_a_reason_to_refuse_writes() {
    let disk = SimDisk::new(7, Faults::default());
    let mut options = two_devices();
    options.reserve_bytes = 0;
    let mut database = Database::open_on(Arc::new(disk.clone()), options).unwrap();
    write_some(&mut database, 0, 10);
    disk.set_faults(Faults { capacity_bytes: Some(disk.used_bytes()), ..Faults::default() });
    for number in 0..40 {
        database.set(&key(number), &[7; 1000]);
        database.log.seal();
    }
    while database.flushers[0].step() == Step::Worked {}
    let state =
        |database: &Database| database.log.stats().devices.iter().map(|d| d.state).collect();
    let states: Vec<DeviceState> = state(&database);
    assert_eq!(states, [DeviceState::Full, DeviceState::Healthy]);
    assert!(matches!(database.log.health(), Health::DiskFull { .. }), "its blocks hold up all");
    disk.set_faults(Faults::default());
    database.settle();
    assert_eq!(database.log.health(), Health::Writable);
    assert_eq!(database.log.durable_lsn(), Lsn(50));
}
