//! When history gives way, and when it does not: by what a disk says, what it does not say, and what has
//! another name.

use std::io;
use std::path::Path;
use std::sync::Arc;

use base::Lsn;
use env::Disk;
use env_sim::{Faults, SimDisk};
use redo::manifest::Manifest;
use redo::{CompactionOptions, DeviceState, Error, Health, HistoryOptions, RestorePoint};

use crate::bounded_history::{fill_disk, kept, link_as_reader, quiet_options, step_compactor};
use crate::crowded::{Call, Crowded, fill, is_segment, open_with};
use crate::harness::{Counter, Database, key, options};
use crate::history::{World, copy, stored};
use crate::restoring::request;

/// On a disk of which each directory at the top is one of its own.
fn crowded(error: io::ErrorKind, history: HistoryOptions) -> (Crowded, Database) {
    let mut disk = Crowded::new(SimDisk::new(2, Faults::default()));
    disk.error = error;
    let mut database = open_with(&disk, &["/disk0"], history).unwrap();
    for _ in 0..4 {
        // Not all of it is replaced at the same time.
        fill(&mut database, 0, 60);
        database.log.compact_all();
        database.settle();
    }
    let compaction = CompactionOptions { enabled: false, ..CompactionOptions::default() };
    database.log.set_compaction_options(compaction);
    assert!(database.log.history().files > 3, "{:?}", database.log.history());
    (disk, database)
}

fn is_kept(name: &std::ffi::OsString) -> bool {
    is_segment(Path::new(name))
}

/// Writes new keys until the device is full.
fn write_until_full(database: &mut Database) {
    let mut number = 100;
    while database.log.stats().devices[0].state != DeviceState::Full {
        fill(database, number, number + 1);
        number += 1;
        assert!(number < 1000, "new segments need something");
    }
}

#[test]
fn the_point_before_everything_went_stays_however_large_the_log_was() {
    let mut options = quiet_options();
    options.segment_bytes = 8000;
    options.history =
        HistoryOptions { seconds: 3600, bytes_min: 1, percentage: 100, ..HistoryOptions::OFF };
    let compaction = options.compaction;
    let mut world = World::new(2, options);
    for number in 0..200 {
        world.database.set(&key(number), &[b'v'; 90]);
        world.database.flush();
        world.ledger.note(&world.database);
    }
    // Nothing has ever been replaced, and the window is looked at.
    step_compactor(&mut world.database, 3);
    assert_eq!(world.database.log.history().files, 0);
    world.clear();
    // All but the segment that takes the log is compacted, and that one goes on.
    let compaction = CompactionOptions { enabled: true, rate_bytes_per_s: 0, ..compaction };
    world.database.log.set_compaction_options(compaction);
    world.database.settle();
    for number in 0..40 {
        world.database.set(&key(1000 + number % 4), &[b'w'; 90]);
        world.database.flush();
        world.ledger.note(&world.database);
    }
    world.database.log.compact_all();
    world.database.settle();
    step_compactor(&mut world.database, 5);
    world.ledger.note(&world.database);
    let (point, reach) = (Lsn(world.points[0]), stored(&copy(&world.disk)).reach());
    let is_told = reach.floor <= point || reach.points.iter().any(|it| it.lsn == point);
    assert!(is_told && world.database.log.history().files > 2, "{reach:?}");
    assert!(world.check(1) > 0);
}

#[test]
fn what_a_living_reader_has_linked_is_not_given_up_in_vain() {
    let mut world = kept(6, &quiet_options());
    step_compactor(&mut world.database, 1);
    world.clear();
    world.database.settle();
    let reader = link_as_reader(&world.disk, 78);
    let lock = world.disk.lock(&reader.join("lock")).unwrap();
    world.database.log.compact_all();
    world.database.settle();
    let before = world.database.log.history();
    fill_disk(&world.disk);
    step_compactor(&mut world.database, 20);
    let after = world.database.log.history();
    assert!(before.files - after.files < 3, "only what is newer: {before:?}, {after:?}");
    let point = |world: &World| {
        let reach = stored(&copy(&world.disk)).reach();
        reach.points.iter().any(|it| it.lsn.0 == world.points[0])
    };
    assert!(point(&world), "what it may be restoring");
    world.check(3);
    drop(lock);
    step_compactor(&mut world.database, 20);
    assert!(!world.disk.exists(&reader).unwrap());
    let after = world.database.log.history();
    assert!(after.given_up > 0 && after.files < before.files, "{before:?}, {after:?}");
    world.check(3);
}

/// More files go than fit a batch, and the disk is looked at between batches.
#[test]
fn the_same_room_is_not_made_twice() {
    let mut options = quiet_options();
    options.segment_bytes = 1500;
    let mut world = World::new(3, options);
    let database = &mut world.database;
    let mut number = 0;
    while database.log.history().files < 200 {
        for _ in 0..100 {
            number += 1;
            database.set(&key(number % 40), &[b'v'; 90]);
            database.flush();
        }
        database.log.compact_all();
        database.settle();
    }
    let before = database.log.history();
    let (used_bytes, short_bytes) = (world.disk.used_bytes(), before.bytes / 3);
    let capacity_bytes = Some((used_bytes - short_bytes) * 10 / 9);
    world.disk.set_faults(Faults { capacity_bytes, ..Faults::default() });
    for _ in 0..2000 {
        database.clock.advance_us(1_000_000);
        database.compactor.step();
    }
    let after = database.log.history();
    assert!(after.files < before.files, "{before:?}, {after:?}");
    assert!(after.bytes > before.bytes / 2, "{before:?}, {after:?}");
}

#[test]
fn a_start_that_lacks_room_in_a_way_that_no_disk_tells_gives_up_all_of_it() {
    for error in [io::ErrorKind::StorageFull, io::ErrorKind::QuotaExceeded] {
        let (disk, database) = crowded(error, HistoryOptions::ALL);
        let contents = database.keyspace.contents();
        let last = database.log.durable_lsn();
        drop(database);
        disk.disk.kill();
        disk.disk.restart();
        let sim = disk.disk.clone();
        disk.refuse(move |call, path| {
            let history = sim.list(Path::new("/disk0/history")).unwrap_or_default();
            call == Call::Create && path.starts_with("/data") && history.iter().any(is_kept)
        });
        let database = open_with(&disk, &["/disk0"], HistoryOptions::ALL).unwrap();
        let history = database.log.history();
        assert_eq!((history.files, database.keyspace.contents()), (0, contents));
        assert!(history.from_lsn > Lsn::ZERO && history.from_lsn <= last, "{history:?}");
        let listed = Manifest::read(&disk.disk, Path::new("/data")).unwrap().unwrap();
        assert!(listed.history.is_empty() && listed.history_floor == history.from_lsn);
    }
}

#[test]
fn no_start_fails_for_want_of_a_directory_for_history() {
    let dir = tempfile::tempdir().unwrap();
    let mut options = options(dir.path());
    options.history = HistoryOptions::ALL;
    let mut database = Database::open(options.clone()).unwrap();
    database.set(b"a", b"b");
    database.flush();
    database.close();
    let history = dir.path().join("redo/history");
    std::fs::remove_dir(&history).unwrap();
    std::os::unix::fs::symlink(dir.path().join("unmounted/history"), &history).unwrap();
    let mut database = Database::open(options).unwrap();
    let events = database.log.drain_events();
    assert!(events.iter().any(|it| it.contains("no history is kept there")), "{events:?}");
    assert_eq!(database.close().contents().len(), 1);
}

/// For want of a descriptor, or of room for the manifest on another disk.
#[test]
fn a_device_that_is_full_while_its_disk_has_room_gives_up_nothing() {
    for is_for_manifest in [true, false] {
        let (disk, mut database) = crowded(io::ErrorKind::StorageFull, HistoryOptions::ALL);
        let before = database.log.history();
        if is_for_manifest {
            disk.refuse(|call, path| call == Call::Create && path.starts_with("/data"));
        } else {
            let faults = Faults { lack_per_million: 1_000_000, ..Faults::default() };
            disk.disk.set_faults(faults);
        }
        write_until_full(&mut database);
        step_compactor(&mut database, 5);
        let after = database.log.history();
        assert_eq!((after.files, after.given_up), (before.files, before.given_up));
        disk.refuse(|_, _| false);
        disk.disk.set_faults(Faults::default());
        database.settle();
        assert_eq!(database.log.health(), Health::Writable);
        let after = database.log.history();
        assert_eq!((after.files, after.given_up), (before.files, before.given_up));
    }
}

#[test]
fn a_limit_that_no_disk_tells_is_met_once() {
    let (disk, mut database) = crowded(io::ErrorKind::QuotaExceeded, HistoryOptions::ALL);
    let before = database.log.history();
    let (sim, most) = (disk.disk.clone(), before.files * 3 / 4);
    disk.refuse(move |call, path| {
        let history = sim.list(Path::new("/disk0/history")).unwrap_or_default();
        let is_over = history.into_iter().filter(is_kept).count() > most;
        call == Call::Create && path.starts_with("/disk0") && is_segment(path) && is_over
    });
    write_until_full(&mut database);
    for _ in 0..30 {
        step_compactor(&mut database, 1);
        database.flush();
    }
    let after = database.log.history();
    assert_eq!(database.log.health(), Health::Writable);
    assert!(after.files > 0 && after.bytes <= before.bytes / 2, "{before:?}, {after:?}");
    assert_eq!(after.limit_bytes, Some(before.bytes / 2), "once is enough");
    let events = database.log.drain_events();
    assert_eq!(events.iter().filter(|event| event.contains("as under a quota")).count(), 1);
    for _ in 0..4 {
        fill(&mut database, 0, 60);
        database.log.compact_all();
        database.settle();
    }
    step_compactor(&mut database, 20);
    let after = database.log.history();
    assert_eq!(after.limit_bytes, Some(before.bytes / 2), "nor is it met again");
    assert_eq!(database.log.stats().devices[0].state, DeviceState::Healthy);
    assert!(after.bytes <= before.bytes / 2, "{before:?}, {after:?}");
}

#[test]
fn links_without_a_lock_are_those_of_a_reader_that_has_died() {
    let mut world = kept(6, &quiet_options());
    step_compactor(&mut world.database, 1);
    let left = link_as_reader(&world.disk, 77);
    world.disk.remove(&left.join("lock")).unwrap();
    // One that is about to lock it.
    let begun = left.with_file_name("reader.78");
    world.disk.create_dir_all(&begun).unwrap();
    step_compactor(&mut world.database, 90);
    assert!(!world.disk.exists(&left).unwrap(), "{:?}", world.disk.list(&left));
    assert!(world.disk.exists(&begun).unwrap());
    assert_eq!(world.database.log.history().readers, 0);
}

/// In another container another process may have the same number.
#[test]
fn a_reader_that_is_ended_takes_nothing_of_another_one() {
    let dir = tempfile::tempdir().unwrap();
    let mut options = options(dir.path());
    options.history = HistoryOptions::ALL;
    let mut database = Database::open(options).unwrap();
    database.set(b"a", b"b");
    database.flush();
    let device = dir.path().join("redo");
    let reader = device.join("history/reader.5");
    std::fs::create_dir_all(&reader).unwrap();
    let _lock = env_os::OsDisk.lock(&reader.join("lock")).unwrap();
    let names = std::fs::read_dir(&device).unwrap().map(|entry| entry.unwrap().path());
    let file = names.into_iter().find(|path| is_segment(path)).unwrap();
    let link = reader.join(file.file_name().unwrap());
    std::fs::hard_link(&file, &link).unwrap();
    drop(redo::abandon_reader(&env_os::OsDisk, dir.path(), &[], 5));
    assert!(link.exists() && reader.join("lock").exists());
}

#[test]
fn links_that_cannot_be_removed_keep_no_history() {
    let (disk, mut database) = crowded(io::ErrorKind::Other, HistoryOptions::ALL);
    let names = disk.disk.list(Path::new("/disk0")).unwrap();
    let file = Path::new("/disk0").join(names.iter().find(|name| is_kept(name)).unwrap());
    let reader = Path::new("/disk0/history/reader.77");
    disk.disk.create_dir_all(reader).unwrap();
    drop(disk.disk.create(&reader.join("lock")).unwrap());
    for number in 0..50 {
        Disk::link(&disk.disk, &file, &reader.join(format!("{number}.redo"))).unwrap();
    }
    disk.refuse(move |call, path| call == Call::Remove && path.starts_with(reader));
    let before = database.log.history();
    fill_disk(&disk.disk);
    step_compactor(&mut database, 20);
    let after = database.log.history();
    assert!(after.files < before.files, "{before:?}, {after:?}");
    disk.refuse(|_, _| false);
    step_compactor(&mut database, 90);
    assert!(!disk.disk.exists(reader).unwrap(), "they go when they can");
}

#[test]
fn a_restore_next_to_a_server_leaves_its_disk_what_that_must_have() {
    let world = kept(4, &quiet_options());
    let disk: Arc<dyn Disk> = Arc::new(world.disk.clone());
    let restore = |request: &redo::RestoreRequest<'_>| {
        redo::restore(&disk, request, &mut Counter(7), &mut |_| {})
    };
    let dry = redo::RestoreRequest { into: None, ..request(RestorePoint::Latest) };
    let bytes = restore(&dry).unwrap().unwrap().bytes;
    let used_bytes = world.disk.used_bytes();
    let limit = |free_bytes: u64| {
        let capacity_bytes = Some(used_bytes + free_bytes);
        world.disk.set_faults(Faults { capacity_bytes, ..Faults::default() });
    };
    limit(bytes + bytes / 20);
    let asked = redo::RestoreRequest { room_in: Some(Path::new("/restored")), ..dry.clone() };
    let room = restore(&asked).unwrap().unwrap().room.unwrap();
    assert!(!room.fits() && room.left_bytes > 0, "asked before, it says the same: {room:?}");
    let error = restore(&request(RestorePoint::Latest)).unwrap_err();
    assert!(
        matches!(error, Error::NoRoom { needed_bytes, free_bytes, .. } if needed_bytes > free_bytes),
        "{error}"
    );
    limit(2 * (bytes + used_bytes));
    restore(&request(RestorePoint::Latest)).unwrap();
}

/// A segment sets aside more than is free, which is more than a disk must have left: that is no quota.
#[test]
fn a_disk_without_room_for_a_segment_is_short_and_no_more() {
    let (disk, mut database) = crowded(io::ErrorKind::StorageFull, HistoryOptions::ALL);
    let before = database.log.history();
    let capacity_bytes = disk.disk.used_bytes() + 2000;
    disk.disk.set_faults(Faults { capacity_bytes: Some(capacity_bytes), ..Faults::default() });
    write_until_full(&mut database);
    for _ in 0..30 {
        step_compactor(&mut database, 1);
        database.flush();
    }
    let after = database.log.history();
    assert_eq!(database.log.health(), Health::Writable);
    assert!(after.limit_bytes.is_none() && after.files < before.files, "{before:?}, {after:?}");
}
