//! The spill file when its disk fails, when the program crashes, and next to other dumps.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use base::DbId;
use dump::{Dumper, Error, Figures, SpillOptions, remove_leftovers};
use env::{Access, Disk, File, Lock};
use env_sim::{Faults, SimDisk};
use keyspace::Keyspace;
use keyspace::set::Set;

use crate::commands::DATABASES;
use crate::journal::{MemoryLog, addr};
use crate::kept::{All, Kept, contents};

const DIRECTORY: &str = "/dumps";

/// So little that 60 members are many runs, which are merged twice.
const MEMORY_BYTES: usize = 100;

/// A log with a set in 60 records.
struct Logged {
    log: MemoryLog,
    databases: Vec<DbId>,
    all: All,
}

impl Logged {
    fn new() -> Self {
        let log = MemoryLog::default();
        let mut keyspace = Keyspace::new(log.clone(), [7; 16], DATABASES);
        keyspace.begin_command(0);
        let db = keyspace.database(0).unwrap();
        let _ = keyspace.update::<Set, _>(db, b"set", true, |set| {
            (0..60_u32).for_each(|number| _ = set.add(format!("member {number}").as_bytes()));
            set.add(&[b'm'; 40_000]);
        });
        let databases = keyspace.databases().map(|db| keyspace.database_id(db)).collect();
        let all = contents(&keyspace);
        Self { log, databases, all }
    }

    fn dumper(&self, disk: Arc<dyn Disk>) -> Dumper<Kept> {
        let directory = PathBuf::from(DIRECTORY);
        let options = SpillOptions { disk, directory, memory_bytes: MEMORY_BYTES, kept_bytes: 0 };
        Dumper::new(&self.databases, Kept::default(), options)
    }

    /// Takes the records, every `count`-th from `first` on.
    fn read(&self, dumper: &mut Dumper<Kept>, first: usize, count: usize) -> Result<(), Error> {
        let records = self.log.records();
        let valid = (0..records.len()).filter(|at| records[*at].is_valid());
        for at in valid.skip(first).step_by(count) {
            dumper.record(addr(at), &records[at].record())?;
        }
        Ok(())
    }

    fn dump(&self, disk: Arc<dyn Disk>) -> Result<(All, Figures), Error> {
        let mut dumper = self.dumper(disk);
        self.read(&mut dumper, 0, 1)?;
        dumper.finish_records()?;
        while !dumper.merge_step()? {}
        let figures = dumper.figures();
        Ok((dumper.into_target().all, figures))
    }
}

fn disk() -> SimDisk {
    let disk = SimDisk::new(1, Faults::default());
    disk.create_dir_all(Path::new(DIRECTORY)).unwrap();
    disk
}

fn names(disk: &SimDisk) -> Vec<OsString> {
    disk.list(Path::new(DIRECTORY)).unwrap()
}

#[test]
fn a_file_that_cannot_be_read_ends_the_dump() {
    let logged = Logged::new();
    let mut refused = 0;
    for read in 1.. {
        let disk = disk();
        let error_at_read = Some(disk.read_count() + read);
        disk.set_faults(Faults { error_at_read, ..Faults::default() });
        match logged.dump(Arc::new(disk.clone())) {
            Ok((all, _)) => {
                assert!(all == logged.all);
                break;
            }
            Err(error) => {
                assert!(matches!(error, Error::Spill(_)), "{error}");
                assert!(error.to_string().contains(DIRECTORY), "{error}");
                assert!(names(&disk).is_empty());
                refused += 1;
            }
        }
    }
    assert!(refused > 60, "{refused}");
}

/// At each call that changes the disk it fails, or is full.
#[test]
fn a_disk_that_fails_ends_the_dump_and_nothing_stays() {
    let logged = Logged::new();
    for is_full in [false, true] {
        let mut refused = 0;
        for io in 1.. {
            let disk = disk();
            let at = Some(disk.io_count() + io);
            let faults = Faults::default();
            disk.set_faults(match is_full {
                true => Faults { full_at_io: at, ..faults },
                false => Faults { error_at_io: at, ..faults },
            });
            match logged.dump(Arc::new(disk.clone())) {
                Ok((all, _)) => {
                    assert!(all == logged.all);
                    break;
                }
                Err(Error::Spill(error)) => {
                    assert_eq!(error.is_storage_full(), is_full, "{error}");
                    assert!(error.to_string().contains("dump.spill.0"), "{error}");
                    refused += 1;
                }
                Err(error) => panic!("{error}"),
            }
            // Only a file whose removal has failed is there, and only until the next dump.
            assert_eq!(names(&disk).len(), usize::from(io == 2), "{io}");
            assert!(logged.dump(Arc::new(disk.clone())).unwrap().0 == logged.all);
            assert!(names(&disk).is_empty(), "{io}");
        }
        assert!(refused > 20, "{refused}");
    }
}

#[test]
fn what_a_crash_leaves_is_removed() {
    let logged = Logged::new();
    let (mut left, mut removed) = (0, 0);
    for io in 1..8 {
        for is_after in [false, true] {
            for is_by_dump in [false, true] {
                let disk = disk();
                let others =
                    ["dump.rdb", "dump.spill", "dump.spill.", "dump.spill.1x", "x.dump.spill.1"];
                for other in others {
                    disk.create(&Path::new(DIRECTORY).join(other)).unwrap();
                }
                disk.crash_at(io, is_after);
                assert!(logged.dump(Arc::new(disk.clone())).is_err());
                disk.kill();
                let more = names(&disk).len() - others.len();
                left += more;
                if is_by_dump {
                    assert!(logged.dump(Arc::new(disk.clone())).unwrap().0 == logged.all);
                } else {
                    assert_eq!(remove_leftovers(&disk, Path::new(DIRECTORY)).unwrap(), more);
                    removed += more;
                }
                let mut expected = others.map(OsString::from);
                expected.sort();
                assert_eq!(names(&disk), expected, "what is another's stays");
            }
        }
    }
    // After the file was created, or before it was removed.
    assert_eq!((left, removed), (4, 2));
    assert_eq!(remove_leftovers(&disk(), Path::new("/nowhere")).unwrap(), 0);
}

#[test]
fn two_dumps_in_one_directory_do_not_meet() {
    let (logged, disk) = (Logged::new(), disk());
    let mut dumpers: Vec<_> = (0..3).map(|_| logged.dumper(Arc::new(disk.clone()))).collect();
    for first in 0..5 {
        for dumper in &mut dumpers {
            logged.read(dumper, first, 5).unwrap();
        }
    }
    dumpers.iter_mut().for_each(|dumper| dumper.finish_records().unwrap());
    assert!(names(&disk).is_empty());
    let mut is_done = [false; 3];
    while is_done != [true; 3] {
        for (dumper, is_done) in dumpers.iter_mut().zip(&mut is_done) {
            *is_done = dumper.merge_step().unwrap();
        }
    }
    for dumper in dumpers {
        assert!(dumper.into_target().all == logged.all);
    }
}

/// A disk on which other dumps do something whenever a file was created: their files have the names
/// that are tried first, or they take a new file for a leftover and its name for theirs.
struct Crowded {
    disk: SimDisk,
    taken: usize,
    steals: bool,
}

impl Disk for Crowded {
    fn create(&self, path: &Path) -> io::Result<Box<dyn File>> {
        for number in 0..self.taken {
            let path = Path::new(DIRECTORY).join(format!("dump.spill.{number}"));
            if !self.disk.exists(&path)? {
                self.disk.create(&path)?;
            }
        }
        let file = self.disk.create(path)?;
        if self.steals {
            remove_leftovers(&self.disk, Path::new(DIRECTORY)).unwrap();
        }
        Ok(file)
    }

    fn create_dir_all(&self, path: &Path) -> io::Result<()> {
        self.disk.create_dir_all(path)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<OsString>> {
        self.disk.list(dir)
    }

    fn open(&self, path: &Path, access: Access) -> io::Result<Box<dyn File>> {
        self.disk.open(path, access)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.disk.rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.disk.remove(path)
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
}

#[test]
fn names_may_be_taken_and_removed_by_others() {
    let logged = Logged::new();
    for (taken, steals, is_possible) in
        [(0, true, true), (7, false, true), (7, true, true), (1000, false, false)]
    {
        let crowded = Crowded { disk: disk(), taken, steals };
        match logged.dump(Arc::new(crowded)) {
            Ok((all, _)) => assert!(is_possible && all == logged.all),
            Err(error) => assert!(!is_possible, "{error}"),
        }
    }
}
