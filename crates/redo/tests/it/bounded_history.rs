//! History gives way: to a disk that is full, to compactions, and what readers that have died have left of it.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use base::Lsn;
use env::Disk;
use env_sim::{Faults, SimDisk};
use redo::manifest::Manifest;
use redo::{
    CompactionOptions, Error, FileError, HistoryOptions, Options, RestorePoint, SyncPolicy,
};

use crate::harness::{Counter, Database, index, key, options};
use crate::history::{World, churned, copy, stored, world_options};
use crate::restoring::{INTO, request};

/// One device, and nothing that is compacted unless it is asked for.
pub(crate) fn quiet_options() -> Options {
    let mut options = world_options(2);
    options.devices.truncate(1);
    options.compaction.enabled = false;
    options.policy = SyncPolicy::Always;
    options
}

/// A log with history.
pub(crate) fn kept(seed: u64, options: &Options) -> World {
    let mut world = churned(seed, options);
    world.database.log.compact_all();
    world.database.settle();
    assert!(world.database.log.history().files > 4, "{:?}", world.database.log.history());
    world
}

/// From now on the disk of the world has no room but for a share of what it has.
pub(crate) fn fill_disk(disk: &SimDisk) {
    let used_bytes = disk.used_bytes();
    // A tenth of it is to be free.
    let capacity_bytes = Some(used_bytes + used_bytes / 12);
    disk.set_faults(Faults { capacity_bytes, ..Faults::default() });
}

/// Steps the compactor for some seconds.
pub(crate) fn step_compactor(database: &mut Database, seconds: u64) {
    for _ in 0..seconds * 10 {
        database.clock.advance_us(100_000);
        database.compactor.step();
    }
}

/// Whether it waits for a block to be durable or for its rate makes no difference.
#[test]
fn history_is_given_up_while_a_compaction_waits() {
    for rate_bytes_per_s in [0, 1] {
        let mut world = kept(5, &quiet_options());
        let database = &mut world.database;
        let compaction =
            CompactionOptions { rate_bytes_per_s, enabled: false, ..CompactionOptions::default() };
        database.log.set_compaction_options(compaction);
        (0..20).for_each(|number| database.set(&key(number), b"garbage elsewhere"));
        // None of it is durable, so nothing is renamed.
        database.log.seal();
        let compactions = database.log.stats().compactions;
        database.log.compact_all();
        database.clock.advance_us(200_000);
        database.log.tick();
        step_compactor(database, 3);
        let before = database.log.history();
        fill_disk(&world.disk);
        step_compactor(database, 20);
        database.log.poll();
        let (after, stats) = (database.log.history(), database.log.stats());
        assert!(stats.compacting.is_some() && stats.compactions == compactions, "{stats:?}");
        assert!(after.files < before.files && after.given_up > 0, "{before:?}, {after:?}");
        world.ledger.note(&world.database);
        world.check(3);
    }
}

#[test]
fn a_start_on_a_full_disk_gives_up_the_oldest_of_it_and_no_more() {
    for missing_bytes in [1, 3000, 1 << 20] {
        let mut options = quiet_options();
        options.reserve_bytes = 16_000;
        let mut world = World::new(8, options.clone());
        // Not all of it is replaced at the same time.
        for _ in 0..6 {
            for number in 0..30 {
                world.database.set(&key(number), &[b'a'; 90]);
                world.database.flush();
                world.ledger.note(&world.database);
            }
            world.database.log.compact_all();
            world.database.settle();
        }
        let before = world.database.log.history();
        world.disk.kill();
        world.disk.restart();
        let used_bytes = world.disk.used_bytes();
        let capacity_bytes =
            Some((used_bytes + options.reserve_bytes).saturating_sub(missing_bytes));
        world.disk.set_faults(Faults { capacity_bytes, ..Faults::default() });
        if missing_bytes > used_bytes {
            world.disk.set_faults(Faults { capacity_bytes: Some(used_bytes), ..Faults::default() });
        }
        world.restart(options.clone());
        let after = world.database.log.history();
        assert!(after.files < before.files, "{missing_bytes}: {before:?}, {after:?}");
        assert!(after.files > 0, "{missing_bytes}: {after:?}");
        assert!(after.from_lsn > Lsn::ZERO);
        assert!(world.disk.exists(Path::new("/disk0/reserve")).unwrap(), "{missing_bytes}");
        let found = stored(&copy(&world.disk)).reach();
        assert_eq!(found.floor, after.from_lsn);
        world.check(1);
    }
}

/// What is let go of needs descriptors and a manifest: in batches, and a compaction has its turns.
#[test]
fn a_long_history_is_let_go_of_in_batches_and_compactions_go_on() {
    let mut options = quiet_options();
    options.segment_bytes = 1500;
    let mut world = World::new(3, options);
    let database = &mut world.database;
    let mut number = 0;
    while database.log.history().files < 600 {
        for _ in 0..200 {
            number += 1;
            database.set(&key(number % 40), &[b'v'; 90]);
            database.flush();
        }
        database.log.compact_all();
        database.settle();
    }
    (0..20).for_each(|number| database.set(&key(number), b"garbage elsewhere"));
    database.flush();
    database.log.compact_all();
    database.clock.advance_us(200_000);
    database.log.tick();
    assert!(database.log.stats().compacting.is_some());
    let compactions = database.log.stats().compactions;
    database.log.set_history(HistoryOptions::OFF);
    let (mut files, mut compacted_between) = (database.log.history().files, false);
    let manifest = || Manifest::read(&world.disk, Path::new("/data")).unwrap().unwrap();
    let mut batches = 0;
    while files > 0 {
        database.clock.advance_us(1000);
        database.compactor.step();
        database.log.poll();
        let left = database.log.history().files;
        assert!(files - left <= 16, "{files} are {left}");
        batches += usize::from(left < files);
        files = left;
        compacted_between |= files > 0 && database.log.stats().compactions > compactions;
    }
    assert!(batches > 2 && compacted_between, "{batches}");
    assert!(manifest().history.is_empty());
}

/// Makes links as a reader does, with its lock.
pub(crate) fn link_as_reader(disk: &SimDisk, number: u32) -> PathBuf {
    let device = Path::new("/disk0");
    let reader = device.join(format!("history/reader.{number}"));
    disk.create_dir_all(&reader.join("history")).unwrap();
    drop(disk.create(&reader.join("lock")).unwrap());
    let links = |from: &Path, to: &Path| {
        for name in disk.list(from).unwrap() {
            if name.to_string_lossy().ends_with(".redo") {
                Disk::link(disk, &from.join(&name), &to.join(&name)).unwrap();
            }
        }
    };
    links(device, &reader);
    links(&device.join("history"), &reader.join("history"));
    reader
}

#[test]
fn what_a_reader_that_died_has_left_goes_soon_and_sooner_on_a_full_disk() {
    for is_full in [false, true] {
        let mut world = kept(6, &quiet_options());
        step_compactor(&mut world.database, 1);
        let dead = link_as_reader(&world.disk, 77);
        let living = link_as_reader(&world.disk, 78);
        let lock = world.disk.lock(&living.join("lock")).unwrap();
        // Everything that they hold loses its other names.
        world.database.log.set_history(HistoryOptions::OFF);
        (0..31).for_each(|number| world.database.set(&key(number), b"new"));
        world.database.flush();
        world.database.log.compact_all();
        for _ in 0..30 {
            world.database.clock.advance_us(10_000);
            world.database.log.tick();
            world.database.compactor.step();
            world.database.log.poll();
        }
        let (names, used_bytes) = (world.disk.list(&dead).unwrap(), world.disk.used_bytes());
        assert!(names.len() > 2, "{names:?}");
        if is_full {
            let capacity_bytes = Some(used_bytes);
            world.disk.set_faults(Faults { capacity_bytes, ..Faults::default() });
        }
        step_compactor(&mut world.database, if is_full { 20 } else { 90 });
        assert!(!world.disk.exists(&dead).unwrap(), "{:?}", world.disk.list(&dead));
        assert!(world.disk.list(&living).unwrap().len() > 2, "that one lives");
        step_compactor(&mut world.database, 90);
        let history = world.database.log.history();
        assert_eq!(history.readers, 1);
        assert!(history.reader_bytes > 1000, "{history:?}");
        drop(lock);
        step_compactor(&mut world.database, 90);
        world.database.settle();
        assert!(!world.disk.exists(&living).unwrap());
        let history = world.database.log.history();
        assert_eq!((history.readers, history.reader_bytes), (0, 0));
        assert!(world.disk.used_bytes() + 1000 < used_bytes, "it is given back");
    }
}

/// A compaction right behind another one: no block needs what the first has made.
#[test]
fn what_two_compactions_in_a_row_have_made_and_replaced_is_not_kept() {
    let mut options = quiet_options();
    options.segment_bytes = 8000;
    let mut world = World::new(1, options);
    for number in 0..500_u64 {
        world.database.set(&key(index(number % 13)), &[(number % 251) as u8; 90]);
        if number % 50 == 4 {
            // Of each segment a little stays.
            world.database.set(&key(index(100 + number)), b"stays");
        }
        world.database.flush();
        world.ledger.note(&world.database);
    }
    world.database.log.note_point();
    world.database.log.compact_all();
    world.database.settle();
    let first = world.database.log.stats().compactions;
    let kept =
        |world: &World| Manifest::read(&world.disk, Path::new("/data")).unwrap().unwrap().history;
    let before = kept(&world);
    assert!(first > 2 && !before.is_empty());
    let compaction = CompactionOptions { gathered_min: 2, ..CompactionOptions::default() };
    world.database.log.set_compaction_options(compaction);
    world.database.settle();
    let second = world.database.log.stats().compactions;
    assert!(second > first, "nothing is gathered");
    let last = world.database.log.durable_lsn();
    let after = kept(&world);
    assert!(after.iter().all(|file| file.generation == 0 || file.until < last), "{after:?}");
    assert_eq!(world.database.log.history().given_up, 0);
    let reach = stored(&copy(&world.disk)).reach();
    assert_eq!((reach.floor, reach.points[0].lsn), (Lsn::ZERO, last));
    assert_eq!(world.check(1), world.ledger.len());
    // And behind it.
    world.database.set(b"later", b"on");
    world.database.flush();
    world.ledger.note(&world.database);
    world.database.log.compact_all();
    world.database.settle();
    assert_eq!(world.check(1), world.ledger.len());
}

#[test]
fn two_restores_into_one_directory_are_one_too_many() {
    let world = kept(4, &quiet_options());
    let disk = copy(&world.disk);
    let shared: Arc<dyn Disk> = Arc::new(disk.clone());
    let mut refused = 0;
    let restored =
        redo::restore(&shared, &request(RestorePoint::Latest), &mut Counter(7), &mut |_| {
            let is_begun = disk.exists(&Path::new(INTO).join("restore-tmp")).unwrap();
            if !is_begun {
                return;
            }
            // The source is locked: another one has the same.
            let source = copy(&world.disk);
            source.create_dir_all(Path::new("/other")).unwrap();
            let error = Database::open_on(shared.clone(), options(Path::new(INTO))).err().unwrap();
            assert!(matches!(error, Error::File(FileError::InUse { .. })), "{error}");
            refused += 1;
        });
    restored.unwrap();
    assert!(refused > 1);
    // Of a log that is open any number may read.
    let mut refused = 0;
    let shared: Arc<dyn Disk> = Arc::new(world.disk.clone());
    let restored =
        redo::restore(&shared, &request(RestorePoint::Latest), &mut Counter(7), &mut |_| {
            if !world.disk.exists(&Path::new(INTO).join("restore-tmp")).unwrap() {
                return;
            }
            let second = redo::RestoreRequest { reader: 2, ..request(RestorePoint::Latest) };
            let error = redo::restore(&shared, &second, &mut Counter(9), &mut |_| {}).unwrap_err();
            assert!(matches!(error, Error::File(FileError::InUse { .. })), "{error}");
            refused += 1;
        });
    assert!(restored.unwrap().unwrap().is_running && refused > 1, "{refused}");
    Database::open_on(shared, options(Path::new(INTO))).unwrap();
}

#[test]
fn a_restore_that_does_not_fit_is_refused_before_it_begins() {
    let world = kept(4, &quiet_options());
    let disk = copy(&world.disk);
    let dry = redo::RestoreRequest { into: None, ..request(RestorePoint::Latest) };
    let shared: Arc<dyn Disk> = Arc::new(disk.clone());
    let restore = |request: &redo::RestoreRequest<'_>| {
        redo::restore(&shared, request, &mut Counter(7), &mut |_| {})
    };
    let bytes = restore(&dry).unwrap().unwrap().bytes;
    let limit = |free_bytes: u64| {
        let capacity_bytes = Some(disk.used_bytes() + free_bytes);
        disk.set_faults(Faults { capacity_bytes, ..Faults::default() });
    };
    limit(bytes / 2);
    let asked = redo::RestoreRequest { room_in: Some(Path::new("/a/b/c")), ..dry.clone() };
    let room = restore(&asked).unwrap().unwrap().room.unwrap();
    assert!(!room.fits() && room.free_bytes == bytes / 2 && room.left_bytes == 0, "{room:?}");
    assert!(!disk.exists(Path::new("/a")).unwrap());
    let error = restore(&request(RestorePoint::Latest)).unwrap_err();
    assert!(
        matches!(error, Error::NoRoom { needed_bytes, free_bytes, .. } if needed_bytes <= bytes && free_bytes == bytes / 2),
        "{error}"
    );
    assert!(!disk.exists(Path::new(INTO)).unwrap(), "nothing is made");
    restore(&dry).unwrap();
    limit(bytes * 2);
    assert!(restore(&asked).unwrap().unwrap().room.unwrap().fits());
    restore(&request(RestorePoint::Latest)).unwrap();
}

/// A reader may be root, and the server is not: what the reader makes is the server's.
#[test]
fn a_reader_makes_nothing_that_the_server_cannot_use() {
    let (source, target) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    for keeps_history in [true, false] {
        let mut options = options(&source.path().join(keeps_history.to_string()));
        if keeps_history {
            options.history = HistoryOptions::ALL;
        }
        let dir = options.dir.clone();
        let mut database = Database::open(options).unwrap();
        database.set(b"a", b"b");
        database.flush();
        let device = dir.join("redo");
        assert_eq!(
            device.join("history").exists(),
            keeps_history,
            "the server makes it if it needs it"
        );
        // Only root may give files away.
        let is_root = device.metadata().unwrap().uid() == 0;
        if is_root {
            for path in [Some(device.clone()), keeps_history.then(|| device.join("history"))] {
                path.iter().for_each(|path| {
                    std::os::unix::fs::chown(path, Some(4321), Some(1234)).unwrap();
                });
            }
        }
        let owner = |path: &Path| {
            let metadata = path.metadata().unwrap();
            (metadata.uid(), metadata.gid())
        };
        let (wanted, mut looked) = (owner(&device), 0);
        let into = target.path().join(keeps_history.to_string());
        let request = redo::RestoreRequest {
            source: &dir,
            into: Some(&into),
            room_in: None,
            ..request(RestorePoint::Latest)
        };
        let disk: Arc<dyn Disk> = Arc::new(env_os::OsDisk);
        redo::restore(&disk, &request, &mut Counter(7), &mut |_| {
            let history = device.join("history");
            let reader = history.join("reader.1");
            let paths = [&history, &reader, &reader.join("history"), &reader.join("lock")];
            paths.iter().for_each(|path| assert_eq!(owner(path), wanted, "{path:?}"));
            looked += 1;
        })
        .unwrap();
        assert!(looked > 0 && !device.join("history/reader.1").exists());
        // One that is ended leaves nothing either.
        redo::restore(
            &disk,
            &redo::RestoreRequest { into: None, ..request },
            &mut Counter(7),
            &mut |_| {
                drop(redo::abandon_reader(&env_os::OsDisk, &dir, &[], 1));
                assert!(!device.join("history/reader.1").exists());
            },
        )
        .unwrap();
    }
}
