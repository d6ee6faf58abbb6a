//! Files that are kept for marks, and what goes wrong meanwhile.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use base::{Lsn, SegmentId};
use env::Disk;
use env_sim::{Faults, SimDisk};
use redo::Mark;
use redo::manifest::Manifest;

use crate::harness::{Counter, Database, key, options};
use crate::marks::{Entries, check_history, history, marked, read_mark};
use crate::racing::Busy;

/// A log whose compaction of a segment had kept the file when there was no room for the manifest, so
/// that it can be repeated.
struct Interrupted {
    database: Database,
    segment: SegmentId,
    mark: Mark,
    entries: Entries,
}

impl Interrupted {
    /// `None` if it has not come to that with no room at the n-th I/O.
    fn at(disk: &SimDisk, n: u64) -> Option<Self> {
        let (mut database, mark, entries) = marked(disk);
        database.flush();
        database.log.compact_all();
        disk.set_faults(Faults { full_at_io: Some(disk.io_count() + n), ..Faults::default() });
        let mut segment = None;
        while database.log.stats().compactions + database.log.stats().compactions_failed == 0 {
            database.clock.advance_us(1000);
            database.log.tick();
            segment = database.log.stats().compacting.or(segment);
            database.compactor.step();
            database.log.poll();
        }
        disk.set_faults(Faults::default());
        let stats = database.log.stats();
        let is_interrupted = stats.compactions_failed == 1 && stats.marks.kept_files == 1;
        let segment = segment.filter(|_| is_interrupted)?;
        Some(Self { database, segment, mark, entries })
    }

    /// Compacts everything; the compaction of that segment is repeated with these faults. Whether it
    /// is: not if it may have come as far as its rename, or a sync has failed.
    fn repeat(&mut self, disk: &SimDisk, faults: &Faults) -> bool {
        self.database.set(&key(1), b"later");
        self.database.flush();
        self.database.log.compact_all();
        let mut is_repeated = false;
        for _ in 0..400 {
            self.database.clock.advance_us(200_000);
            self.database.log.tick();
            let is_it = self.database.log.stats().compacting == Some(self.segment);
            is_repeated |= is_it;
            disk.set_faults(if is_it { faults.clone() } else { Faults::default() });
            self.database.compactor.step();
            self.database.flushers.iter_mut().for_each(|flusher| _ = flusher.step());
            self.database.log.poll();
        }
        disk.set_faults(Faults::default());
        is_repeated
    }
}

#[test]
fn a_repeated_compaction_keeps_what_is_kept_even_where_nothing_can_be_linked() {
    let mut repeated = 0;
    for n in 1..20 {
        let disk = SimDisk::new(n, Faults::default());
        let Some(mut interrupted) = Interrupted::at(&disk, n) else { continue };
        let late = interrupted.database.log.mark().unwrap();
        let late_entries: Entries =
            interrupted.database.keyspace.entries.clone().into_iter().collect();
        if !interrupted.repeat(&disk, &Faults { link_error: Some(28), ..Faults::default() }) {
            continue;
        }
        assert_eq!(read_mark(interrupted.mark).unwrap(), interrupted.entries, "no room at {n}");
        assert_eq!(read_mark(late).unwrap(), late_entries, "no room at {n}");
        repeated += 1;
    }
    assert!(repeated > 0, "no compaction is repeated");
}

#[test]
fn a_repeated_compaction_lists_what_it_has_kept_before() {
    let mut repeated = 0;
    for n in 1..20 {
        let disk = SimDisk::new(n, Faults::default());
        let Some(mut interrupted) = Interrupted::at(&disk, n) else { continue };
        if !interrupted.repeat(&disk, &Faults::default()) {
            continue;
        }
        check_history(&disk);
        let manifest = Manifest::read(&disk, Path::new("/data")).unwrap().unwrap();
        assert_eq!(manifest.history.len(), history(&disk), "no room at {n}");
        assert_eq!(manifest.history_floor, Lsn::ZERO, "everything is there still");
        assert_eq!(read_mark(interrupted.mark).unwrap(), interrupted.entries, "no room at {n}");
        repeated += 1;
    }
    assert!(repeated > 0, "no compaction is repeated");
}

#[test]
fn a_drained_device_is_ours_until_what_was_kept_there_is_removed() {
    let disk = Busy::new(12);
    let mut options = options(Path::new("/data"));
    options.devices = vec![PathBuf::from("/a"), PathBuf::from("/b")];
    options.segment_bytes = 2000;
    let mut database = Database::open_on(Arc::new(disk.clone()), options).unwrap();
    for number in 0..100 {
        database.set(&key(number), &[7; 80]);
        if number % 5 == 0 {
            database.flush();
        }
    }
    database.flush();
    let mark = database.log.mark().unwrap();
    (0..50).for_each(|number| database.set(&key(number), &[8; 80]));
    database.log.set_devices(&[PathBuf::from("/b")], &mut Counter(9)).unwrap();
    (0..20).for_each(|_| database.settle());
    assert!(!disk.disk.list(Path::new("/a/history")).unwrap().is_empty());
    drop(mark);
    let Database { log, flushers, mut compactor, clock, .. } = database;
    let others = Arc::new(Mutex::new((log, flushers)));
    let run_others = {
        let others = Arc::clone(&others);
        move || {
            let (log, flushers) = &mut *others.lock().unwrap();
            for _ in 0..4 {
                clock.advance_us(200_000);
                log.poll();
                log.tick();
                flushers.iter_mut().for_each(|flusher| _ = flusher.step());
            }
        }
    };
    let mark_of_a = Path::new("/a/device");
    let removed = Arc::new(Mutex::new(0));
    disk.before_removals({
        let (disk, removed, run_others) = (disk.disk.clone(), removed.clone(), run_others.clone());
        move |path| {
            if path.starts_with("/a/history") {
                run_others();
                assert!(disk.exists(mark_of_a).unwrap(), "{path:?} is of no device of ours");
                *removed.lock().unwrap() += 1;
            }
        }
    });
    for _ in 0..2000 {
        compactor.step();
        run_others();
    }
    assert!(*removed.lock().unwrap() > 2);
    assert!(!disk.disk.exists(mark_of_a).unwrap(), "nothing is left there");
}

#[test]
fn what_cannot_be_removed_from_history_is_told_and_stops_no_start() {
    let dir = tempfile::tempdir().unwrap();
    let mut database = Database::open(options(dir.path())).unwrap();
    database.set(b"a", b"1");
    database.flush();
    database.close();
    let foreign = dir.path().join("redo/history/0000000001.g0.redo");
    std::fs::create_dir_all(foreign.join("of mine")).unwrap();
    let mut database = Database::open(options(dir.path())).unwrap();
    assert_eq!(database.keyspace.contents()[&b"a"[..]], b"1");
    let told = database.log.drain_events();
    assert!(told.len() == 1 && told[0].contains("0000000001.g0.redo"), "{told:?}");
    assert!(foreign.join("of mine").exists());
}
