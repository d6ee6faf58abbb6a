//! Marks: bitmaps as of a block, and the records that were valid then, while the log goes on.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use base::{Lsn, RecordAddr};
use env_sim::{Faults, SimDisk, SimEntropy};
use redo::{Error, FileError, Mark, MarkReader, Options, Scrubber, SyncPolicy};

use crate::harness::{Database, index, key, options};

pub(crate) type Entries = BTreeMap<Vec<u8>, (Vec<u8>, RecordAddr)>;

/// What there was at a mark.
struct Expected {
    lsn: Lsn,
    entries: Entries,
    retired: HashSet<RecordAddr>,
}

struct World {
    seed: u64,
    disk: SimDisk,
    database: Database,
    rng: SimEntropy,
    /// The block of each record that sets a key.
    written: HashMap<RecordAddr, Lsn>,
    retired: HashSet<RecordAddr>,
    /// Marks that wait for the open block.
    waiting: Vec<Mark>,
    marks: Vec<(Mark, Expected)>,
    reading: Vec<(MarkReader, Expected, HashSet<RecordAddr>)>,
    read_count: u64,
    kept_most: usize,
    scrubber: Scrubber,
    /// A file was damaged: what a mark needs of it is lost.
    is_damaged: bool,
    lost_count: u64,
}

fn world_options(seed: u64) -> Options {
    let mut options = options(Path::new("/data"));
    options.devices = (0..1 + seed % 3).map(|n| PathBuf::from(format!("/disk{n}"))).collect();
    options.segment_bytes = if seed.is_multiple_of(2) { 2000 } else { 20_000 };
    options.policy = [SyncPolicy::Always, SyncPolicy::No][index(seed / 2 % 2)];
    options.compaction.invalid_count_min = 2;
    options.compaction.invalid_share_min = if seed.is_multiple_of(2) { 0.2 } else { 0.6 };
    options.compaction.garbage_share_min = 0.0;
    options.compaction.gathered_min = 3;
    options.mark_copy_bytes = 1;
    options
}

impl World {
    fn new(seed: u64) -> Self {
        let disk = SimDisk::new(seed, Faults::default());
        let mut database = Database::open_on(Arc::new(disk.clone()), world_options(seed)).unwrap();
        let scrubber = database.log.scrubber();
        database.log.set_scrub_rate(1 << 40);
        Self {
            scrubber,
            is_damaged: false,
            lost_count: 0,
            seed,
            disk,
            database,
            rng: SimEntropy::new(seed),
            written: HashMap::new(),
            retired: HashSet::new(),
            waiting: Vec::new(),
            marks: Vec::new(),
            reading: Vec::new(),
            read_count: 0,
            kept_most: 0,
        }
    }

    fn expected(&self, lsn: Lsn) -> Expected {
        let entries = self.database.keyspace.entries.clone().into_iter().collect();
        Expected { lsn, entries, retired: self.retired.clone() }
    }

    /// A block; now and then a mark is asked for in the middle of it.
    fn write(&mut self) {
        let lsn = self.database.log.open_lsn();
        for _ in 0..=self.rng.below(8) {
            let name = key(index(self.rng.below(80)));
            if self.rng.below(5) == 0 {
                self.retire(&name);
                self.database.delete(&name);
            } else {
                let value = vec![b'a' + (lsn.0 % 26) as u8; index(self.rng.below(70))];
                self.set(&name, &value);
            }
            if self.rng.below(150) == 0 && self.database.log.has_open_records() {
                let mark = self.database.log.mark().unwrap();
                assert_eq!(mark.lsn(), None, "the block may be half a transaction");
                self.waiting.push(mark);
            }
        }
        self.database.log.seal();
        for mark in std::mem::take(&mut self.waiting) {
            assert_eq!(mark.lsn(), Some(lsn));
            self.marks.push((mark, self.expected(lsn)));
        }
    }

    fn retire(&mut self, name: &[u8]) {
        self.retired.extend(self.database.keyspace.entries.get(name).map(|(_, addr)| *addr));
    }

    fn set(&mut self, name: &[u8], value: &[u8]) {
        self.retire(name);
        let lsn = self.database.log.open_lsn();
        self.database.set(name, value);
        self.written.insert(self.database.keyspace.entries[name].1, lsn);
    }

    /// Turns a bit of a file in place.
    fn damage(&mut self) {
        let devices = world_options(self.seed).devices;
        let dir = &devices[index(self.rng.below(devices.len() as u64))];
        let names = env::Disk::list(&self.disk, dir).unwrap();
        let is_segment = |name: &&std::ffi::OsString| {
            name.to_str().is_some_and(|name| redo::segment::parse_file_name(name).is_some())
        };
        let segments: Vec<_> = names.iter().filter(is_segment).collect();
        // The last ones are open, and not the scrubber's.
        if segments.len() > 2 {
            let path = dir.join(segments[index(self.rng.below(segments.len() as u64 - 2))]);
            self.disk.flip_bit(&path, 130 + self.rng.below(700), 3);
            self.is_damaged = true;
        }
    }

    /// Logs anew what is lost in damaged files, as the keyspace does.
    fn rewrite(&mut self) {
        let segments = self.database.log.rewrites();
        let entries = self.database.keyspace.entries.clone();
        for (name, (value, _)) in
            entries.into_iter().filter(|(_, (_, addr))| segments.contains(&addr.segment()))
        {
            self.set(&name, &value);
        }
        self.database.log.seal();
    }

    fn mark(&mut self) {
        let lsn = Lsn(self.database.log.open_lsn().0 - 1);
        let mark = self.database.log.mark().unwrap();
        assert_eq!(mark.lsn(), Some(lsn));
        self.marks.push((mark, self.expected(lsn)));
    }

    /// Something goes on.
    fn step(&mut self) {
        let database = &mut self.database;
        match self.rng.below(20) {
            0..6 => self.write(),
            6..10 => {
                let which = index(self.rng.below(database.flushers.len() as u64));
                database.flushers[which].step();
            }
            10..15 => _ = database.compactor.step(),
            15..17 => {
                database.clock.advance_us(200_000);
                database.log.tick();
            }
            17 if self.rng.below(4) == 0 => self.mark(),
            17 if self.rng.below(8) == 0 && !self.marks.is_empty() => {
                let which = index(self.rng.below(self.marks.len() as u64));
                drop(self.marks.swap_remove(which));
            }
            _ => {
                let sealed = Lsn(database.log.open_lsn().0 - 1);
                database.log.request_sync(sealed);
                if self.rng.below(6) == 0 {
                    database.log.compact_all();
                }
            }
        }
        self.database.log.poll();
        self.kept_most = self.kept_most.max(self.database.log.stats().marks.kept_files);
    }

    /// Begins to read marks that are ready, and reads some.
    fn read_some(&mut self) {
        for (mark, expected) in std::mem::take(&mut self.marks) {
            match mark.read() {
                Ok(reader) => {
                    assert!(expected.lsn <= self.database.log.durable_lsn());
                    self.check_bitmaps(&reader, &expected);
                    self.reading.push((reader, expected, HashSet::new()));
                }
                Err(mark) => self.marks.push((mark, expected)),
            }
        }
        for at in (0..self.reading.len()).rev() {
            if self.rng.below(3) > 0 {
                continue;
            }
            let (reader, expected, seen) = &mut self.reading[at];
            let next = match reader.next() {
                Err(Error::NotKept { .. } | Error::File(FileError::Corrupt { .. }))
                    if self.is_damaged =>
                {
                    self.lost_count += 1;
                    self.reading.swap_remove(at);
                    continue;
                }
                next => next.unwrap_or_else(|error| panic!("seed {}: {error}", self.seed)),
            };
            match next {
                Some(block) => {
                    assert!(block.lsn() <= expected.lsn);
                    for (addr, record) in block.records() {
                        let (value, at) = &expected.entries[record.key];
                        assert_eq!((*at, &value[..]), (addr, record.value), "seed {}", self.seed);
                        assert!(seen.insert(addr), "seed {}: {addr:?} is read twice", self.seed);
                    }
                }
                None => {
                    assert_eq!(seen.len(), expected.entries.len(), "seed {}", self.seed);
                    self.reading.swap_remove(at);
                    self.read_count += 1;
                }
            }
        }
    }

    /// The bitmaps are those that a copy at the mark would have been.
    fn check_bitmaps(&self, reader: &MarkReader, expected: &Expected) {
        assert_eq!(reader.lsn(), expected.lsn);
        assert_eq!(reader.record_count(), expected.entries.len() as u64, "seed {}", self.seed);
        for (addr, lsn) in &self.written {
            let segments = reader.segments();
            let segment = segments.iter().find(|segment| segment.segment() == addr.segment());
            let found = segment.is_some_and(|segment| segment.is_valid(addr.ordinal()));
            let is_valid = *lsn <= expected.lsn && !expected.retired.contains(addr);
            let (seed, at) = (self.seed, expected.lsn);
            assert_eq!(found, is_valid, "seed {seed}: {addr:?} of block {lsn} at {at}");
        }
    }

    /// Lets everything come to its end.
    fn finish(&mut self) {
        for _ in 0..3000 {
            self.database.settle();
            self.read_some();
            if self.marks.is_empty() && self.reading.is_empty() {
                break;
            }
        }
        assert!(self.marks.is_empty() && self.reading.is_empty(), "seed {}", self.seed);
        self.database.settle();
        let stats = self.database.log.stats();
        assert_eq!((stats.marks.count, stats.marks.kept_files), (0, 0), "seed {}", self.seed);
        for device in world_options(self.seed).devices {
            let names = env::Disk::list(&self.disk, &device.join("history"));
            assert!(names.is_ok_and(|names| names.is_empty()) || self.kept_most == 0);
        }
    }
}

#[test]
fn a_mark_is_what_a_copy_of_everything_would_have_been() {
    let (mut read_count, mut kept_most, mut compactions) = (0, 0, 0);
    for seed in 0..40 {
        let mut world = World::new(seed);
        for _ in 0..1500 {
            world.step();
            world.read_some();
        }
        world.finish();
        read_count += world.read_count;
        kept_most = kept_most.max(world.kept_most);
        compactions += world.database.log.stats().compactions;
    }
    assert!(read_count > 300, "{read_count} marks were read");
    assert!(kept_most > 5 && compactions > 1000, "{kept_most} kept, {compactions} compactions");
}

#[test]
fn a_mark_of_a_log_that_is_healed_is_right_or_says_that_it_is_not() {
    let (mut read_count, mut lost_count, mut healed) = (0, 0, 0);
    for seed in 100..120 {
        let mut world = World::new(seed);
        for step in 0..1200 {
            if step % 300 == 250 {
                world.damage();
                // Another pass, which finds it.
                world.database.log.set_scrub_rate((1 << 40) + step);
            }
            world.step();
            world.scrubber.step();
            if step % 7 == 0 {
                world.rewrite();
            }
            world.read_some();
        }
        healed += world.database.log.stats().scrub_healed;
        read_count += world.read_count;
        lost_count += world.lost_count;
    }
    assert!(healed > 5, "{healed} files were healed");
    assert!(read_count > 50 && lost_count > 5, "{read_count} read, {lost_count} lost");
}

/// A database whose segments are half garbage, with a mark, and the mark's contents.
pub(crate) fn marked(disk: &SimDisk) -> (Database, Mark, Entries) {
    let mut options = options(Path::new("/data"));
    options.segment_bytes = 2000;
    options.policy = SyncPolicy::Always;
    options.compaction.invalid_count_min = 2;
    let mut database = Database::open_on(Arc::new(disk.clone()), options).unwrap();
    for number in 0..200 {
        database.set(&key(number), &[7; 80]);
        if number % 5 == 0 {
            database.flush();
        }
    }
    database.flush();
    let mark = database.log.mark().unwrap();
    let entries = database.keyspace.entries.clone().into_iter().collect();
    for number in (0..200).filter(|number| number % 3 != 0) {
        database.set(&key(number), &[8; 80]);
    }
    (database, mark, entries)
}

/// Reads all of a mark.
fn read_all(mut reader: MarkReader) -> redo::Result<Entries> {
    let mut found = Entries::new();
    while let Some(block) = reader.next()? {
        for (addr, record) in block.records() {
            let entry = (record.value.to_vec(), addr);
            assert!(found.insert(record.key.to_vec(), entry).is_none());
        }
    }
    Ok(found)
}

pub(crate) fn read_mark(mark: Mark) -> redo::Result<Entries> {
    read_all(mark.read().ok().expect("it is ready"))
}

pub(crate) fn history(disk: &SimDisk) -> usize {
    env::Disk::list(disk, Path::new("/data/redo/history")).map_or(0, |names| names.len())
}

#[test]
fn what_a_mark_needs_is_kept_until_it_is_read_or_dropped() {
    let disk = SimDisk::new(1, Faults::default());
    let (mut database, mark, entries) = marked(&disk);
    database.log.compact_all();
    database.settle();
    assert!(database.log.stats().compactions > 2, "{:?}", database.log.stats());
    assert!(history(&disk) > 2 && database.log.stats().marks.kept_files == history(&disk));
    assert_eq!(read_mark(mark).unwrap(), entries);
    database.settle();
    assert_eq!((history(&disk), database.log.stats().marks.count), (0, 0));
}

#[test]
fn a_compaction_that_drops_nothing_which_was_valid_at_the_mark_keeps_nothing() {
    let disk = SimDisk::new(2, Faults::default());
    let (mut database, early, _) = marked(&disk);
    drop(early);
    database.flush();
    let mark = database.log.mark().unwrap();
    let entries: Entries = database.keyspace.entries.clone().into_iter().collect();
    database.log.compact_all();
    database.settle();
    assert!(database.log.stats().compactions > 2);
    assert_eq!(history(&disk), 0, "all of the garbage is older than the mark");
    assert_eq!(read_mark(mark).unwrap(), entries);
}

#[test]
fn where_nothing_can_be_linked_compaction_goes_on_and_the_mark_says_that_it_is_lost() {
    // No room, too many links, no links at all.
    for link_error in [28, 31, 95] {
        let disk = SimDisk::new(3, Faults::default());
        let (mut database, mark, _) = marked(&disk);
        disk.set_faults(Faults { link_error: Some(link_error), ..Faults::default() });
        database.log.compact_all();
        database.settle();
        let stats = database.log.stats();
        assert!(stats.compactions > 2 && stats.compactions_failed == 0, "{stats:?}");
        assert_eq!(history(&disk), 0);
        let error = read_mark(mark).unwrap_err();
        assert!(matches!(error, Error::NotKept { .. }), "{error}");
        let manifest = redo::manifest::Manifest::read(&disk, Path::new("/data")).unwrap().unwrap();
        assert!(manifest.history.is_empty() && manifest.history_floor > Lsn::ZERO);
    }
}

#[test]
fn the_manifest_says_what_is_kept_and_until_when() {
    let disk = SimDisk::new(4, Faults::default());
    let (mut database, mark, _) = marked(&disk);
    database.flush();
    // What is open is empty: the new file is the state of the last block, not of the next.
    let last = Lsn(database.log.open_lsn().0 - 1);
    database.log.compact_all();
    database.settle();
    let read = || redo::manifest::Manifest::read(&disk, Path::new("/data")).unwrap().unwrap();
    let manifest = read();
    assert_eq!(manifest.history.len(), history(&disk));
    assert!(manifest.history.iter().all(|kept| kept.until == last), "{:?}", manifest.history);
    assert_eq!(manifest.history_floor, Lsn::ZERO, "everything is there still");
    drop(mark);
    database.settle();
    let manifest = read();
    assert_eq!((manifest.history.len(), manifest.history_floor), (0, last));
}

#[test]
fn a_start_removes_what_was_kept_and_misses_nothing_of_it() {
    for removes in [false, true] {
        let disk = SimDisk::new(5, Faults::default());
        let (mut database, mark, _) = marked(&disk);
        let contents = database.keyspace.contents();
        database.log.compact_all();
        database.settle();
        let kept = history(&disk);
        assert!(kept > 2);
        drop((database, mark));
        disk.crash();
        if removes {
            let dir = Path::new("/data/redo/history");
            for name in env::Disk::list(&disk, dir).unwrap() {
                env::Disk::remove(&disk, &dir.join(name)).unwrap();
            }
        }
        let shared: Arc<dyn env::Disk> = Arc::new(disk.clone());
        let report = redo::verify(&shared, Path::new("/data"), &[]).unwrap();
        let noted = if removes { kept } else { 0 };
        assert!(report.is_good() && report.notes.len() == noted, "{report}");
        let mut text = Vec::new();
        redo::dump(&shared, Path::new("/data"), &[], redo::DumpFormat::Text, &mut text).unwrap();
        assert_eq!(String::from_utf8(text).unwrap().matches("kept segment").count(), kept);
        let mut database =
            Database::open_on(Arc::new(disk.clone()), options(Path::new("/data"))).unwrap();
        assert_eq!(database.keyspace.contents(), contents);
        assert_eq!(history(&disk), 0);
        assert_eq!(database.log.drain_events().len(), usize::from(removes));
        drop(database);
        let report = redo::verify(&shared, Path::new("/data"), &[]).unwrap();
        assert!(report.is_good(), "{report}");
        let manifest = redo::manifest::Manifest::read(&disk, Path::new("/data")).unwrap().unwrap();
        assert!(manifest.history.is_empty() && manifest.history_floor > Lsn::ZERO);
    }
}

#[test]
fn a_mark_is_not_ready_before_its_block_is_durable() {
    let disk = SimDisk::new(6, Faults::default());
    let mut database = Database::open_on(Arc::new(disk), options(Path::new("/data"))).unwrap();
    database.set(b"a", b"1");
    database.log.seal();
    let mark = database.log.mark().unwrap();
    database.log.copy_marks(usize::MAX);
    database.log.poll();
    let mark = mark.read().map(drop).unwrap_err();
    database.flush();
    assert_eq!(read_mark(mark).unwrap().len(), 1);
}

#[test]
fn what_comes_into_a_segment_after_the_mark_is_none_of_it() {
    let disk = SimDisk::new(7, Faults::default());
    let mut database = Database::open_on(Arc::new(disk), options(Path::new("/data"))).unwrap();
    database.set(b"a", b"1");
    database.flush();
    let mark = database.log.mark().unwrap();
    database.set(b"b", b"2");
    database.flush();
    database.log.copy_marks(usize::MAX);
    let (_, later) = database.keyspace.entries[&b"b"[..]];
    let reader = mark.read().ok().unwrap();
    assert_eq!(reader.record_count(), 1);
    assert!(!reader.segments()[0].is_valid(later.ordinal()));
    assert_eq!(read_all(reader).unwrap().len(), 1);
}

#[test]
fn there_is_no_mark_of_a_frozen_log_and_none_of_one_that_has_ended() {
    let disk = SimDisk::new(8, Faults::default());
    let mut database = Database::open_on(Arc::new(disk), options(Path::new("/data"))).unwrap();
    database.log.set_frozen(true);
    assert!(database.log.mark().is_none());
    database.log.set_frozen(false);
    database.set(b"a", b"1");
    let mark = database.log.mark().unwrap();
    assert!(!mark.is_given_up());
    drop(database);
    assert!(mark.is_given_up());
}

#[test]
fn an_empty_log_has_an_empty_mark() {
    let disk = SimDisk::new(9, Faults::default());
    let mut database = Database::open_on(Arc::new(disk), options(Path::new("/data"))).unwrap();
    let mark = database.log.mark().unwrap();
    database.log.tick();
    assert_eq!(mark.lsn(), Some(Lsn::ZERO));
    assert!(read_mark(mark).unwrap().is_empty());
}

/// What the manifest says of history is true on what a crash has left: all that it lists is there,
/// and what a file in place has replaced is kept, or the floor is above it.
pub(crate) fn check_history(disk: &SimDisk) {
    let Some(manifest) = redo::manifest::Manifest::read(disk, Path::new("/data")).unwrap() else {
        return;
    };
    let dir = Path::new("/data/redo");
    for kept in &manifest.history {
        let name = redo::segment::history_name(kept.segment, kept.part, kept.generation);
        let path = dir.join("history").join(name);
        assert!(env::Disk::exists(disk, &path).unwrap(), "{kept:?} is listed and gone");
    }
    for name in env::Disk::list(disk, dir).unwrap() {
        let Some((segment, _)) = name.to_str().and_then(redo::segment::parse_file_name) else {
            continue;
        };
        let path = dir.join(&name);
        let file = env::Disk::open(disk, &path, env::Access::Read).unwrap();
        let mut bytes = [0; redo::segment::HEADER_BYTES];
        if file.read_exact_at(&mut bytes, 0).is_err() {
            continue;
        }
        let Some(header) = redo::segment::SegmentHeader::decode(&bytes, &path).unwrap() else {
            continue;
        };
        let until = header.durable_lsn;
        let mut kept = manifest.history.iter();
        let is_kept = kept.any(|kept| {
            let is_older = kept.generation < header.generation;
            kept.segment == segment && is_older && kept.until == until
        });
        assert!(
            header.generation == 0 || is_kept || manifest.history_floor >= until,
            "{path:?} has replaced what is nowhere: {header:?}, {manifest:?}"
        );
    }
}

/// Lets compaction go on for a while, whatever comes of it.
fn compact_some(database: &mut Database) {
    for _ in 0..40 {
        database.clock.advance_us(200_000);
        database.log.tick();
        database.compactor.step();
        database.flushers.iter_mut().for_each(|flusher| _ = flusher.step());
        database.log.poll();
    }
}

/// A compaction with a mark open fails at some I/O, and another one after it is cut off by a crash
/// at some I/O: the mark reads what it must or says that it cannot, and the log is what it was.
#[test]
fn compactions_for_a_mark_may_fail_and_crash_at_every_single_io() {
    let (mut failed, mut lost, mut crashes) = (0, 0, 0);
    for error_at in 0..26 {
        for crash_at in (1..).step_by(if error_at == 0 { 1 } else { 3 }) {
            let disk = SimDisk::new(error_at * 1000 + crash_at, Faults::default());
            let (mut database, mark, entries) = marked(&disk);
            database.flush();
            database.log.compact_all();
            if error_at > 0 {
                let error_at_io = Some(disk.io_count() + error_at);
                disk.set_faults(Faults { error_at_io, ..Faults::default() });
                compact_some(&mut database);
                disk.set_faults(Faults::default());
                failed += database.log.stats().compactions_failed;
            }
            disk.crash_after(crash_at);
            compact_some(&mut database);
            // What is dropped is let go of, too.
            let mark = Some(mark).filter(|_| crash_at % 2 == 0);
            compact_some(&mut database);
            let is_over = !disk.is_crashed();
            if is_over && let Some(mark) = mark {
                database.log.tick();
                match read_mark(mark) {
                    Ok(found) => assert_eq!(found, entries, "{error_at}"),
                    Err(error) => {
                        assert!(matches!(error, Error::NotKept { .. }), "{error_at}: {error}");
                        lost += 1;
                    }
                }
            }
            crashes += u64::from(!is_over);
            let contents = database.keyspace.contents();
            drop(database);
            disk.restart();
            check_history(&disk);
            let shared: Arc<dyn env::Disk> = Arc::new(disk.clone());
            let report = redo::verify(&shared, Path::new("/data"), &[]).unwrap();
            assert!(report.is_good(), "error at {error_at}, crash at {crash_at}: {report}");
            let database = Database::open_on(shared, options(Path::new("/data"))).unwrap();
            assert_eq!(database.keyspace.contents(), contents, "{error_at}, {crash_at}");
            assert_eq!(history(&disk), 0);
            if is_over {
                break;
            }
        }
    }
    assert!(failed > 10 && lost > 0 && crashes > 100, "{failed} failed, {lost} lost, {crashes}");
}

#[test]
fn a_full_device_keeps_nothing_for_marks() {
    let disk = SimDisk::new(10, Faults::default());
    let (mut database, mark, _) = marked(&disk);
    database.flush();
    database.log.compact_all();
    database.settle();
    assert!(history(&disk) > 2);
    let capacity_bytes = Some(disk.used_bytes());
    disk.set_faults(Faults { capacity_bytes, ..Faults::default() });
    let mut number = 1000;
    while database.log.health() == redo::Health::Writable {
        database.set(&key(number), &[9; 2000]);
        database.log.seal();
        database.clock.advance_us(200_000);
        database.flushers.iter_mut().for_each(|flusher| _ = flusher.step());
        database.log.poll();
        number += 1;
        assert!(number < 2000, "the disk is never full");
    }
    compact_some(&mut database);
    assert_eq!((history(&disk), database.log.stats().marks.kept_files), (0, 0));
    assert_eq!(database.log.health(), redo::Health::Writable, "there is room again");
    assert!(matches!(read_mark(mark).unwrap_err(), Error::NotKept { .. }));
}

#[test]
fn a_drained_device_stays_until_nothing_on_it_is_kept() {
    let disk = SimDisk::new(11, Faults::default());
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
    let entries: Entries = database.keyspace.entries.clone().into_iter().collect();
    (0..50).for_each(|number| database.set(&key(number), &[8; 80]));
    let mut entropy = crate::harness::Counter(9);
    database.log.set_devices(&[PathBuf::from("/b")], &mut entropy).unwrap();
    (0..20).for_each(|_| database.settle());
    let count = |database: &Database| database.log.stats().devices.len();
    assert_eq!(count(&database), 2, "the mark needs what is kept there");
    assert_eq!(read_mark(mark).unwrap(), entries);
    (0..20).for_each(|_| database.settle());
    assert_eq!((count(&database), database.log.stats().marks.kept_files), (1, 0));
}
