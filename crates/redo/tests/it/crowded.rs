//! One place is full, and the others are not: the data directory, or a directory at the wrong moment.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use base::Lsn;
use env::{Access, Disk, File, Lock};
use env_sim::{Faults, SimDisk};
use redo::{DeviceState, Error, FileError, Health, HistoryOptions, StoredLog};

use crate::harness::{Database, key, options, value};

/// What is asked of a disk, as far as it may be refused.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Call {
    Create,
    Link,
    Remove,
}

type Refuses = dyn Fn(Call, &Path) -> bool + Send;

/// A disk that says of some calls that there is no room, or something else.
#[derive(Clone)]
pub(crate) struct Crowded {
    pub(crate) disk: SimDisk,
    refuses: Arc<Mutex<Box<Refuses>>>,
    pub(crate) error: io::ErrorKind,
}

impl Crowded {
    pub(crate) fn new(disk: SimDisk) -> Self {
        Self {
            disk,
            refuses: Arc::new(Mutex::new(Box::new(|_, _| false))),
            error: io::ErrorKind::StorageFull,
        }
    }

    pub(crate) fn refuse(&self, refuses: impl Fn(Call, &Path) -> bool + Send + 'static) {
        *self.refuses.lock().unwrap() = Box::new(refuses);
    }

    fn check(&self, call: Call, path: &Path) -> io::Result<()> {
        let is_refused = (*self.refuses.lock().unwrap())(call, path);
        if is_refused { Err(self.error.into()) } else { Ok(()) }
    }
}

impl Disk for Crowded {
    fn create_dir_all(&self, path: &Path) -> io::Result<()> {
        self.disk.create_dir_all(path)
    }
    fn list(&self, dir: &Path) -> io::Result<Vec<OsString>> {
        self.disk.list(dir)
    }
    fn create(&self, path: &Path) -> io::Result<Box<dyn File>> {
        self.check(Call::Create, path)?;
        self.disk.create(path)
    }
    fn open(&self, path: &Path, access: Access) -> io::Result<Box<dyn File>> {
        self.disk.open(path, access)
    }
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.disk.rename(from, to)
    }
    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.check(Call::Link, to)?;
        Disk::link(&self.disk, from, to)
    }
    fn remove(&self, path: &Path) -> io::Result<()> {
        self.check(Call::Remove, path)?;
        self.disk.remove(path)
    }
    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        self.disk.remove_dir(path)
    }
    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.disk.sync_dir(dir)
    }
    fn exists(&self, path: &Path) -> io::Result<bool> {
        self.disk.exists(path)
    }
    fn lock(&self, path: &Path) -> io::Result<Box<dyn Lock>> {
        self.disk.lock(path)
    }
    fn available_bytes(&self, dir: &Path) -> io::Result<u64> {
        self.disk.available_bytes(dir)
    }
    fn has_other_names(&self, path: &Path) -> io::Result<bool> {
        self.disk.has_other_names(path)
    }
    fn file_system(&self, path: &Path) -> Option<u64> {
        // Each directory at the top is a disk.
        let top = path.components().nth(1)?;
        Some(top.as_os_str().as_encoded_bytes().iter().map(|byte| u64::from(*byte)).sum())
    }
    fn capacity_bytes(&self, dir: &Path) -> io::Result<u64> {
        self.disk.capacity_bytes(dir)
    }
}

fn open(disk: &Crowded, devices: &[&str]) -> redo::Result<Database> {
    open_with(disk, devices, HistoryOptions::OFF)
}

pub(crate) fn open_with(
    disk: &Crowded,
    devices: &[&str],
    history: HistoryOptions,
) -> redo::Result<Database> {
    let mut options = options(Path::new("/data"));
    options.devices = devices.iter().map(PathBuf::from).collect();
    options.segment_bytes = 4000;
    options.reserve_bytes = 1000;
    options.history = history;
    Database::open_on(Arc::new(disk.clone()), options)
}

pub(crate) fn fill(database: &mut Database, from: usize, to: usize) {
    for number in from..to {
        database.set(&key(number), &value(number));
        database.flush();
    }
}

#[test]
fn a_full_data_directory_condemns_no_device() {
    let disk = Crowded::new(SimDisk::new(1, Faults::default()));
    let mut database = open(&disk, &["/a", "/b", "/c"]).unwrap();
    fill(&mut database, 0, 30);
    disk.refuse(|call, path| call == Call::Create && path.starts_with("/data"));
    let mut number = 30;
    while database.log.health() == Health::Writable {
        fill(&mut database, number, number + 1);
        number += 1;
        assert!(number < 1000, "new segments need the manifest");
    }
    for _ in 0..20 {
        database.clock.advance_us(200_000);
        database.log.tick();
        database.flush();
    }
    disk.refuse(|_, _| false);
    database.settle();
    assert_eq!(database.log.health(), Health::Writable);
    let states: Vec<_> = database.log.stats().devices.into_iter().map(|d| d.state).collect();
    assert_eq!(states, [DeviceState::Healthy; 3], "all of them take blocks again");
    let contents = database.close().contents();
    assert_eq!(contents.len(), number);
    assert_eq!(open(&disk, &["/a", "/b", "/c"]).unwrap().keyspace.contents(), contents);
}

#[test]
fn a_manifest_that_finds_no_room_gets_what_the_device_has_kept() {
    let disk = Crowded::new(SimDisk::new(3, Faults::default()));
    let mut database = open(&disk, &["/data/redo"]).unwrap();
    // The segment's file is made, and the last block of the disk is gone before the manifest lists it.
    let (sim, is_refused) = (disk.disk.clone(), Arc::new(AtomicBool::new(false)));
    let refused = is_refused.clone();
    disk.refuse(move |call, path| {
        let is_manifest = call == Call::Create && !path.starts_with("/data/redo");
        let is_full = is_manifest && sim.exists(Path::new("/data/redo/reserve")).unwrap();
        refused.fetch_or(is_full, Ordering::Relaxed);
        is_full
    });
    database.set(b"accepted", b"before anybody knew");
    database.flush();
    assert!(is_refused.load(Ordering::Relaxed));
    let last = Lsn(database.log.open_lsn().0 - 1);
    assert_eq!(database.log.durable_lsn(), last, "its writer waits for room that is there");
}

/// A log whose compactor has put a new file in place and cannot remove the old ones.
fn replaced(disk: &Crowded) -> Database {
    // Small segments, which are gathered in one file when there are eight of them.
    for restart in 0..8 {
        let mut database = open(disk, &["/a"]).unwrap();
        database.set(&key(restart), b"value");
        database.set(&key(100 + restart), b"value");
        database.close();
    }
    let database = open(disk, &["/a"]).unwrap();
    disk.refuse(|call, path| call == Call::Remove && path.starts_with("/a") && is_segment(path));
    database
}

fn gather(database: &mut Database) {
    let mut settings = redo::CompactionOptions { gathered_min: 4, ..Default::default() };
    settings.rate_bytes_per_s = 0;
    database.log.set_compaction_options(settings);
}

fn step(database: &mut Database) -> redo::Stats {
    database.clock.advance_us(200_000);
    database.log.tick();
    database.compactor.step();
    database.log.poll();
    database.log.stats()
}

/// The log is killed, and has everything when it is opened again.
fn check_after_kill(disk: &Crowded, database: Database) {
    let contents = database.keyspace.contents();
    drop(database);
    disk.disk.kill();
    match open(disk, &["/a"]) {
        Ok(database) => assert_eq!(database.keyspace.contents(), contents),
        Err(error @ Error::File(FileError::Corrupt { .. })) => {
            panic!("a healthy log is refused: {error}")
        }
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn a_compaction_that_fails_after_its_rename_is_not_tried_again_as_if_nothing_had_happened() {
    let mut disk = Crowded::new(SimDisk::new(2, Faults::default()));
    disk.error = io::ErrorKind::Other;
    let mut database = replaced(&disk);
    gather(&mut database);
    while step(&mut database).compactions_failed == 0 {}
    assert_eq!(database.log.stats().compactions_failed, 1, "{:?}", database.log.stats());
    disk.refuse(|_, _| false);
    // Now one of them alone would be worth it.
    database.delete(&key(6));
    database.flush();
    for _ in 0..200 {
        if step(&mut database).compactions > 0 {
            break;
        }
    }
    check_after_kill(&disk, database);
}

#[test]
fn a_compaction_without_room_after_its_rename_goes_on_when_there_is_some() {
    for is_killed_in_between in [true, false] {
        let disk = Crowded::new(SimDisk::new(2, Faults::default()));
        let mut database = replaced(&disk);
        gather(&mut database);
        for _ in 0..100 {
            let stats = step(&mut database);
            assert_eq!((stats.compactions, stats.compactions_failed), (0, 0), "{stats:?}");
        }
        assert!(database.log.stats().compacting.is_some());
        database.delete(&key(6));
        database.flush();
        disk.refuse(|_, _| false);
        if !is_killed_in_between {
            while step(&mut database).compactions == 0 {}
            let stats = database.log.stats();
            assert_eq!((stats.compactions_failed, stats.files), (0, 2), "{stats:?}");
        }
        check_after_kill(&disk, database);
    }
}

pub(crate) fn is_segment(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "redo")
}

/// Another program has taken all the room that there was for a manifest.
#[test]
fn history_is_let_go_of_where_no_manifest_can_be_written() {
    for is_killed in [true, false] {
        let disk = Crowded::new(SimDisk::new(2, Faults::default()));
        let mut database = open_with(&disk, &["/a"], HistoryOptions::ALL).unwrap();
        for _ in 0..4 {
            fill(&mut database, 0, 60);
        }
        database.log.compact_all();
        database.settle();
        let (before, used_bytes) = (database.log.history(), disk.disk.used_bytes());
        assert!(before.files > 3, "{before:?}");
        disk.refuse(|call, path| call == Call::Create && path.starts_with("/data"));
        disk.disk.set_faults(Faults { capacity_bytes: Some(used_bytes), ..Faults::default() });
        for _ in 0..100 {
            database.clock.advance_us(100_000);
            database.compactor.step();
        }
        let after = database.log.history();
        assert!(after.files < before.files && after.from_lsn > Lsn::ZERO, "{after:?}");
        assert!(disk.disk.used_bytes() < used_bytes, "and the room is there");
        let reach = |disk: &Crowded| {
            let log = StoredLog::open(Arc::new(disk.disk.clone()), Path::new("/data"), &[]);
            log.unwrap().unwrap().reach()
        };
        disk.disk.set_faults(Faults::default());
        disk.refuse(|_, _| false);
        if is_killed {
            let contents = database.keyspace.contents();
            drop(database);
            disk.disk.kill();
            disk.disk.restart();
            assert_eq!(reach(&disk).floor, after.from_lsn, "what is missing says so");
            let database = open_with(&disk, &["/a"], HistoryOptions::ALL).unwrap();
            assert_eq!(database.keyspace.contents(), contents);
            assert_eq!(database.log.history().from_lsn, after.from_lsn);
        } else {
            fill(&mut database, 0, 60);
            database.log.compact_all();
            database.settle();
            let manifest = redo::manifest::Manifest::read(&disk.disk, Path::new("/data"));
            let listed = manifest.unwrap().unwrap().history;
            assert_eq!(
                listed.len(),
                database.log.history().files,
                "and the next one does not list it"
            );
        }
    }
}
