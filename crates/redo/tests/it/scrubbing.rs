//! Damage at rest while the database runs: found, written again elsewhere, put aside.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use base::{Lsn, SegmentId};
use env::{Access, Disk};
use env_sim::{Faults, SimDisk};
use redo::{Error, FileError, Options, Reader, Scrubber, Step};

use crate::harness::{Database, key, options, value};
use crate::sweep::read_all;

/// A database with a scrubber, on a disk that can be damaged.
struct Patient {
    disk: SimDisk,
    options: Options,
    database: Database,
    scrubber: Scrubber,
    news: Vec<String>,
    rate: u64,
}

impl Patient {
    /// Some hundred keys in a few small segments; some are rewritten, some deleted.
    fn new(change: impl FnOnce(&mut Options)) -> Self {
        let mut options = options(Path::new("/data"));
        options.segment_bytes = 1500;
        options.reserve_bytes = 0;
        options.compaction.enabled = false;
        change(&mut options);
        let disk = SimDisk::new(1, Faults::default());
        let mut database = Database::open_on(Arc::new(disk.clone()), options.clone()).unwrap();
        for number in 0..40 {
            database.set(&key(number), &value(number));
            database.flush();
        }
        for number in 0..20 {
            if number % 3 == 0 {
                database.delete(&key(number));
            } else {
                database.set(&key(number), &value(number + 50));
            }
            database.flush();
        }
        database.settle();
        let scrubber = database.log.scrubber();
        Self { disk, options, database, scrubber, news: Vec::new(), rate: 0 }
    }

    fn sealed_files(&self) -> Vec<PathBuf> {
        let image = read_all(&self.disk);
        let is_sealed = |(path, bytes): (PathBuf, Vec<u8>)| {
            let is_segment = path.extension().is_some_and(|ext| ext == "redo");
            (is_segment && bytes.ends_with(b"INDELEND")).then_some(path)
        };
        image.into_iter().filter_map(is_sealed).collect()
    }

    /// What the engine does: logs anew what has its record in a damaged segment.
    fn rewrite(&mut self) {
        self.rewrite_but(&[]);
    }

    /// The same, but for some segments.
    fn rewrite_but(&mut self, others: &[SegmentId]) {
        let mut lost: Vec<SegmentId> = self.database.log.rewrites();
        lost.retain(|segment| !others.contains(segment));
        let entries = self.database.keyspace.entries.iter();
        let keys: Vec<_> = entries
            .filter(|(_, (_, addr))| lost.contains(&addr.segment()))
            .map(|(key, (value, _))| (key.clone(), value.clone()))
            .collect();
        for (key, value) in keys {
            self.database.set(&key, &value);
        }
    }

    /// Reads every third key by its address: right, or damaged. How many were damaged.
    fn read_some(&self, reader: &mut Reader) -> usize {
        let mut damaged = 0;
        let mut entries: Vec<_> = self.database.keyspace.entries.iter().collect();
        entries.sort();
        for (key, (value, addr)) in entries.into_iter().step_by(3) {
            match reader.record(*addr) {
                Ok(found) => {
                    let found = found.expect("it is durable");
                    assert_eq!((found.record().key, found.record().value), (&key[..], &value[..]));
                }
                Err(Error::File(FileError::Corrupt { .. }) | Error::Changing { .. }) => {
                    damaged += 1;
                }
                Err(error) => panic!("{addr}: {error}"),
            }
        }
        damaged
    }

    /// Runs everything until a pass has ended and nothing is left to be done.
    fn scrub(&mut self) {
        // Another rate begins another pass.
        self.rate += 1 << 20;
        self.database.log.set_scrub_rate(self.rate);
        let passes = self.database.log.stats().scrub_passes;
        let mut reader = self.database.log.reader();
        for round in 0.. {
            assert!(round < 2000, "it comes to an end: {:?}", self.news);
            while self.scrubber.step() == Step::Worked {}
            self.rewrite();
            self.database.settle();
            if round % 4 == 0 {
                self.read_some(&mut reader);
            }
            self.news.extend(self.database.log.drain_events());
            let stats = self.database.log.stats();
            if stats.scrub_passes > passes && stats.scrub_healed == stats.scrub_errors {
                break;
            }
        }
        assert_eq!(self.read_some(&mut reader), 0, "what was damaged is elsewhere");
    }

    /// Compacts everything, again and again, and scrubs nothing.
    fn compact(&mut self) {
        (0..60).for_each(|_| self.compact_once());
    }

    fn compact_once(&mut self) {
        // What was tried since the last write is not tried again.
        self.database.set(&key(0), b"again");
        self.database.log.compact_all();
        self.rewrite();
        self.database.settle();
    }

    /// Runs the scrubber until a pass has ended; what it finds is noted, and nothing is logged anew.
    fn find(&mut self) {
        self.rate += 1 << 20;
        self.database.log.set_scrub_rate(self.rate);
        let passes = self.database.log.stats().scrub_passes;
        while self.database.log.stats().scrub_passes == passes {
            self.database.clock.advance_us(200_000);
            self.database.log.tick();
            while self.scrubber.step() == Step::Worked {}
            self.database.log.poll();
        }
    }

    /// The log is good, and what it brings back is what memory has.
    fn check(&self, what: &str) {
        self.disk.kill();
        let expected = self.database.keyspace.contents();
        let shared: Arc<dyn Disk> = Arc::new(self.disk.clone());
        let report = redo::verify(&shared, Path::new("/data"), &self.options.devices).unwrap();
        assert!(report.is_good(), "{what}: {report}");
        let database = Database::open_on(shared, self.options.clone()).unwrap();
        assert_eq!(database.keyspace.contents(), expected, "{what}");
    }
}

fn image_of(files: &[PathBuf], disk: &SimDisk) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut image = read_all(disk);
    image.retain(|path, _| files.contains(path));
    image
}

#[test]
fn good_files_are_read_and_nothing_happens() {
    let mut patient = Patient::new(|_| {});
    let before = read_all(&patient.disk);
    patient.scrub();
    let stats = patient.database.log.stats();
    assert_eq!((stats.scrub_passes, stats.scrub_errors), (1, 0));
    let bytes: usize = before
        .iter()
        .filter(|(p, _)| patient.sealed_files().contains(p))
        .map(|(_, b)| b.len())
        .sum();
    assert!(stats.scrubbed_bytes > bytes as u64 / 2, "{} of {bytes}", stats.scrubbed_bytes);
    assert_eq!(read_all(&patient.disk), before);
    assert!(patient.news.is_empty());
}

#[test]
fn a_turned_bit_anywhere_is_found_healed_and_kept_as_evidence() {
    let files = Patient::new(|_| {}).sealed_files();
    assert!(files.len() >= 4, "{files:?}");
    let mut count = 0;
    for file in &files {
        let len = read_all(&Patient::new(|_| {}).disk)[file].len();
        // Header, blocks and footer; what has no meaning of its own is covered all the same.
        for at in (0..len).step_by(23) {
            let what = format!("byte {at} of {}", file.display());
            let mut patient = Patient::new(|_| {});
            assert!(patient.disk.flip_bit(file, at as u64, 3), "{what}");
            let damaged = image_of(&files, &patient.disk)[file].clone();
            patient.scrub();
            let stats = patient.database.log.stats();
            assert_eq!((stats.scrub_errors, stats.scrub_healed), (1, 1), "{what} {stats:?}");
            let name = file.file_name().unwrap().to_str().unwrap();
            assert!(patient.news[0].contains(name), "{what}: {:?}", patient.news);
            let is_evidence = |(path, bytes): (&PathBuf, &Vec<u8>)| {
                path.to_string_lossy().contains("damaged-") && *bytes == damaged
            };
            assert!(read_all(&patient.disk).iter().any(is_evidence), "{what}: it is kept");
            patient.check(&what);
            count += 1;
        }
    }
    assert!(count > 100);
}

/// Nothing is scrubbed; everything is compacted, and what is damaged is not given up.
#[test]
fn damage_that_a_compaction_meets_is_healed_as_what_scrubbing_finds() {
    let len = |file: &PathBuf| read_all(&Patient::new(|_| {}).disk)[file].len();
    let mut met = 0;
    for file in Patient::new(|_| {}).sealed_files() {
        for (at, is_alone) in (0..len(&file)).step_by(97).zip([true, false].into_iter().cycle()) {
            let what = format!("byte {at} of {}, alone: {is_alone}", file.display());
            let mut patient = Patient::new(|options| options.compaction.invalid_count_min = 1);
            for other in patient.sealed_files() {
                if other == file || !is_alone {
                    patient.disk.flip_bit(&other, at as u64, 3);
                }
            }
            patient.compact();
            let stats = patient.database.log.stats();
            assert_eq!(stats.scrub_passes, 0);
            assert_eq!(stats.scrub_errors, stats.scrub_healed, "{what}");
            // What nothing is taken from is not read; once is no evidence.
            assert_eq!(stats.compactions_failed, 2 * stats.scrub_errors, "{what}");
            met += stats.scrub_healed;
            if stats.scrub_healed > 0 {
                patient.check(&what);
            }
        }
    }
    assert!(met > 20, "{met}");
}

/// An error of the device, twice: what is there is written again elsewhere, as if bytes were bad.
#[test]
fn a_file_that_a_compaction_cannot_read_is_healed() {
    let mut met = 0;
    for file in Patient::new(|_| {}).sealed_files() {
        let mut patient = Patient::new(|options| options.compaction.invalid_count_min = 1);
        patient.disk.break_dir(&file);
        for _ in 0..60 {
            patient.compact_once();
            if patient.database.log.stats().scrub_errors > 0 {
                break;
            }
        }
        // Here nothing can be done with such a file, not even that it gets another name.
        patient.disk.mend_dir(&file);
        patient.compact();
        let stats = patient.database.log.stats();
        assert_eq!((stats.scrub_passes, stats.scrub_errors), (0, stats.scrub_healed), "{file:?}");
        met += stats.scrub_healed;
        patient.check(&file.display().to_string());
    }
    assert!(met > 1, "{met}");
}

/// Written to the wrong place, or restored from there.
#[test]
fn a_compaction_takes_a_file_of_another_segment_for_damage_and_not_for_nothing() {
    let (files, mut healed) = (Patient::new(|_| {}).sealed_files(), 0);
    for (file, other) in files.iter().zip(files.iter().skip(1)) {
        let what = format!("{} in {}", other.display(), file.display());
        let mut patient = Patient::new(|options| options.compaction.invalid_count_min = 1);
        let bytes = read_all(&patient.disk)[other].clone();
        let written = patient.disk.open(file, Access::ReadWrite).unwrap();
        written.write_all_at(&bytes, 0).unwrap();
        written.set_len(bytes.len() as u64).unwrap();
        patient.compact();
        let stats = patient.database.log.stats();
        // Of the first files nothing is needed any more, so they are not read.
        assert_eq!(stats.scrub_errors, stats.scrub_healed, "{what}");
        healed += stats.scrub_healed;
        patient.check(&what);
    }
    assert!(healed > 1, "{healed}");
}

#[test]
fn deleted_keys_stay_deleted_when_the_deletes_are_damaged() {
    // Delete records are in the second half of the log, the keys that they are about in the first.
    let mut patient = Patient::new(|_| {});
    for file in patient.sealed_files().iter().rev().take(3) {
        patient.disk.flip_bit(file, 150, 0);
    }
    patient.scrub();
    let stats = patient.database.log.stats();
    assert_eq!((stats.scrub_errors, stats.scrub_healed), (3, 3));
    assert!(stats.compactions > 3, "whoever held older records was compacted");
    assert!(!patient.database.keyspace.entries.contains_key(&key(0)));
    patient.check("three files");
}

#[test]
fn all_files_may_be_damaged_at_once() {
    let mut patient = Patient::new(|_| {});
    let files = patient.sealed_files();
    for file in &files {
        patient.disk.flip_bit(file, 200, 1);
    }
    patient.scrub();
    assert_eq!(patient.database.log.stats().scrub_healed, files.len() as u64);
    patient.check("all files");
}

#[test]
fn a_file_that_cannot_be_healed_keeps_no_other_one_waiting() {
    let mut tried = 0;
    for first in 0..3 {
        // Whichever was found first.
        for stuck in 0..2 {
            let mut patient = Patient::new(|_| {});
            let files = patient.sealed_files();
            let damaged = &files[first..first + 2];
            damaged.iter().for_each(|file| assert!(patient.disk.flip_bit(file, 200, 1)));
            patient.find();
            let waiting = patient.database.log.rewrites();
            let Some(stuck) = waiting.get(stuck) else { continue };
            // Nothing is written again of what lies in this one.
            patient.rewrite_but(&[*stuck]);
            for round in 0.. {
                assert!(round < 100, "the other one is healed");
                patient.database.settle();
                if patient.database.log.stats().scrub_healed == 1 {
                    break;
                }
            }
            assert_eq!(patient.database.log.rewrites(), [*stuck]);
            patient.scrub();
            assert_eq!(patient.database.log.stats().scrub_healed, 2);
            patient.check("both");
            tried += 1;
        }
    }
    assert!(tried > 3, "{tried} times both had to be written again");
}

#[test]
fn a_file_that_is_cut_or_gone_is_missed() {
    for is_gone in [false, true] {
        let mut patient = Patient::new(|_| {});
        let file = patient.sealed_files().remove(1);
        if is_gone {
            patient.disk.remove(&file).unwrap();
        } else {
            patient.disk.open(&file, env::Access::ReadWrite).unwrap().set_len(300).unwrap();
        }
        patient.scrub();
        let stats = patient.database.log.stats();
        assert_eq!((stats.scrub_errors, stats.scrub_healed), (1, 1), "{:?}", patient.news);
        patient.check("cut or gone");
    }
}

#[test]
fn files_that_several_segments_share_and_devices_are_healed_too() {
    let shared: fn(&mut Options) = |options| {
        options.compaction.enabled = true;
        options.compaction.gathered_min = 2;
        options.segment_bytes = 4000;
    };
    let devices: fn(&mut Options) =
        |options| options.devices = vec![PathBuf::from("/a"), PathBuf::from("/b")];
    for change in [shared, devices] {
        for nth in 0..Patient::new(change).sealed_files().len() {
            let mut patient = Patient::new(change);
            let file = patient.sealed_files().remove(nth);
            patient.disk.flip_bit(&file, 200, 5);
            patient.scrub();
            let stats = patient.database.log.stats();
            assert_eq!((stats.scrub_errors, stats.scrub_healed), (1, 1), "{}", file.display());
            patient.check(&file.display().to_string());
        }
    }
}

/// What failed devices hold stays as it is until the next start, and so does what waits for it.
#[test]
fn healing_does_not_wait_for_an_open_segment_of_a_failed_device() {
    let mut patient = Patient::new(|options| {
        options.devices = vec![PathBuf::from("/a"), PathBuf::from("/b")];
    });
    // Nothing but the open segments will hold anything back.
    patient.database.log.compact_all();
    patient.database.settle();
    for number in 100..110 {
        patient.database.set(&key(number), &value(1));
        patient.database.flush();
    }
    patient.disk.break_dir(Path::new("/b"));
    for number in 100..110 {
        patient.database.delete(&key(number));
        patient.database.set(&key(number + 100), &value(99));
        patient.database.flush();
    }
    let file = patient.sealed_files().into_iter().rfind(|path| path.starts_with("/a")).unwrap();
    patient.disk.flip_bit(&file, 200, 5);
    patient.database.log.set_scrub_rate(1 << 20);
    let before = patient.database.log.stats();
    for number in 0..20 {
        while patient.scrubber.step() == Step::Worked {}
        patient.rewrite();
        patient.database.set(&key(number), b"goes on");
        patient.database.settle();
        patient.news.extend(patient.database.log.drain_events());
    }
    let after = patient.database.log.stats();
    assert_eq!((after.scrub_errors, after.scrub_healed), (1, 0), "{:?}", patient.news);
    let given_up = patient.news.iter().filter(|news| news.contains("stays damaged"));
    assert_eq!(given_up.count(), 1, "{:?}", patient.news);
    assert!(after.segments < before.segments + 10, "{} {}", before.segments, after.segments);
}

/// What an index of the log does not know yet is neither put aside nor compacted, for whatever other file:
/// healing waits for a cut, and wants one, instead of giving up.
#[test]
fn healing_waits_for_a_cut_of_the_index() {
    // The last of the files has delete records of keys in the first ones.
    for (what, is_last) in [("of values", false), ("of delete records", true)] {
        let mut patient = Patient::new(|_| {});
        let bound = patient.database.log.reader().index_bound();
        let cut = Lsn(1);
        bound.set(cut);
        let files = patient.sealed_files();
        let file = files[if is_last { files.len() - 1 } else { 1 }].clone();
        patient.disk.flip_bit(&file, 150, 0);
        patient.find();
        for _ in 0..40 {
            patient.rewrite();
            patient.database.settle();
        }
        let stats = patient.database.log.stats();
        let done = (stats.scrub_errors, stats.scrub_healed, stats.compactions);
        assert_eq!(done, (1, 0, 0), "{what}");
        assert!(
            patient.database.log.rewrites().is_empty(),
            "{what}: all that is needed is elsewhere"
        );
        let news = patient.database.log.drain_events();
        assert!(!news.iter().any(|line| line.contains("stays damaged")), "{what}: {news:?}");
        assert!(bound.wanted() > cut, "{what}: a cut is wanted");
        bound.set(Lsn(patient.database.log.open_lsn().0 - 1));
        patient.scrub();
        assert!(!patient.sealed_files().contains(&file), "{what}");
        patient.check(what);
    }
}

/// A crash while a damaged file is being healed: the start names it, or it is healed.
#[test]
fn a_crash_while_healing_loses_nothing() {
    let mut crashes = 0;
    for n_ios in 1.. {
        let mut patient = Patient::new(|_| {});
        let file = patient.sealed_files().remove(1);
        patient.disk.flip_bit(&file, 200, 5);
        patient.disk.crash_after(n_ios);
        patient.database.log.set_scrub_rate(1 << 20);
        for _ in 0..60 {
            while patient.scrubber.step() == Step::Worked {}
            patient.rewrite();
            patient.database.settle();
        }
        let is_over = !patient.disk.is_crashed();
        patient.disk.restart();
        let disk: Arc<dyn Disk> = Arc::new(patient.disk.clone());
        match Database::open_on(disk, patient.options.clone()) {
            Ok(database) => {
                let expected = patient.database.keyspace.contents();
                assert_eq!(database.keyspace.contents(), expected, "crash at {n_ios}");
            }
            Err(error) => {
                let name = file.file_name().unwrap().to_str().unwrap();
                assert!(!is_over && error.to_string().contains(name), "crash at {n_ios}: {error}");
            }
        }
        crashes += 1;
        if is_over {
            break;
        }
    }
    assert!(crashes > 10, "{crashes}");
}

#[test]
fn a_read_that_fails_once_is_no_damage() {
    for nth in 1.. {
        let mut patient = Patient::new(|_| {});
        let before = read_all(&patient.disk);
        let at = patient.disk.read_count() + nth;
        patient.disk.set_faults(Faults { error_at_read: Some(at), ..Faults::default() });
        patient.scrub();
        assert_eq!(patient.database.log.stats().scrub_errors, 0, "read {nth}: {:?}", patient.news);
        let is_over = patient.disk.read_count() < at;
        patient.disk.set_faults(Faults::default());
        assert_eq!(read_all(&patient.disk), before);
        if is_over {
            assert!(nth > 10, "only {nth} reads");
            break;
        }
    }
}

/// One file is bad and another could not be read for a while, which may hold older records of what
/// the first one says is gone: it must be gone before the first one is.
#[test]
fn a_file_that_can_be_read_again_after_a_crash_brings_no_deleted_key_back() {
    let one: fn(&mut Options) = |_| {};
    let two: fn(&mut Options) =
        |options| options.devices = vec![PathBuf::from("/a"), PathBuf::from("/b")];
    let mut crashes = 0;
    for change in [one, two] {
        let files = Patient::new(change).sealed_files();
        let pairs = files.iter().flat_map(|bad| files.iter().map(move |unread| (bad, unread)));
        for (bad, unread) in pairs.filter(|(bad, unread)| bad != unread) {
            for n_ios in 1.. {
                let what = format!("{} {} {n_ios}", bad.display(), unread.display());
                let mut patient = Patient::new(change);
                patient.disk.flip_bit(bad, 200, 5);
                patient.find();
                patient.disk.break_dir(unread);
                patient.find();
                patient.disk.mend_dir(unread);
                if crash_while_healing(&mut patient, &[bad], n_ios, &what) {
                    break;
                }
                crashes += 1;
            }
        }
    }
    assert!(crashes > 200, "{crashes}");
}

/// The same when no file could be read for a while: of those that hold one another back none goes.
#[test]
fn files_that_could_not_be_read_for_a_while_bring_no_deleted_key_back() {
    let two: fn(&mut Options) =
        |options| options.devices = vec![PathBuf::from("/a"), PathBuf::from("/b")];
    for n_ios in 1.. {
        let mut patient = Patient::new(two);
        let files = patient.sealed_files();
        // The newest, which has most to be held back, is the first to be healed.
        for file in files.iter().rev() {
            patient.disk.break_dir(file);
            patient.find();
        }
        files.iter().for_each(|file| patient.disk.mend_dir(file));
        assert!(patient.database.log.stats().scrub_errors > 3, "{:?}", patient.news);
        if crash_while_healing(&mut patient, &[], n_ios, &n_ios.to_string()) {
            break;
        }
    }
}

/// Goes on with healing until the disk crashes, and starts again: that may be refused because of
/// the files that are `bad`. Whether there was no crash.
fn crash_while_healing(patient: &mut Patient, bad: &[&PathBuf], n_ios: u64, what: &str) -> bool {
    patient.disk.crash_after(n_ios);
    for _ in 0..60 {
        patient.rewrite();
        patient.database.settle();
    }
    let is_over = !patient.disk.is_crashed();
    patient.disk.restart();
    match Database::open_on(Arc::new(patient.disk.clone()), patient.options.clone()) {
        Ok(database) => {
            let expected = patient.database.keyspace.contents();
            assert_eq!(database.keyspace.contents(), expected, "{what}");
        }
        Err(error) => {
            let names = bad.iter().map(|file| file.file_name().unwrap().to_str().unwrap());
            let is_named = names.into_iter().any(|name| error.to_string().contains(name));
            assert!(!is_over && is_named, "{what}: {error}");
        }
    }
    is_over
}

#[test]
fn scrubbing_keeps_to_its_rate_and_can_be_turned_off() {
    let mut patient = Patient::new(|_| {});
    patient.database.log.set_scrub_rate(1000);
    let mut waited_ms = 0;
    while patient.database.log.stats().scrub_passes == 0 {
        patient.database.log.tick();
        if patient.scrubber.step() != Step::Worked {
            patient.database.clock.advance_us(1000);
            waited_ms += 1;
        }
        assert!(waited_ms < 100_000);
    }
    let bytes = patient.database.log.stats().scrubbed_bytes;
    assert!(waited_ms >= bytes / 2, "{bytes} bytes in {waited_ms} ms at 1000 a second");
    patient.database.log.set_scrub_rate(0);
    patient.database.clock.advance_us(10_000_000_000);
    patient.database.log.tick();
    assert_eq!(patient.scrubber.step(), Step::Idle);
    assert_eq!(patient.database.log.stats().scrubbed_bytes, bytes);
    patient.database.log.shutdown();
    assert_eq!(patient.scrubber.step(), Step::Finished);
}
