//! Starts from an index: what it knows is not read, what is garbage becomes known later, and what
//! was durable is missed when it is not there.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use base::{Lsn, RecordAddr, SegmentId};
use env::{Access, Disk};
use env_sim::{Faults, SimDisk, SimEntropy};
use redo::{Error, Options, Step};

use crate::harness::{Database, Keyspace, key, options, value};
use crate::sweep::read_all;

/// A log on a disk, and what an index of it has.
struct World {
    disk: SimDisk,
    options: Options,
    index: Keyspace,
    cut: Lsn,
}

impl World {
    fn new(devices: &[&str]) -> Self {
        let mut options = options(Path::new("/data"));
        options.segment_bytes = 1 << 20;
        options.reserve_bytes = 0;
        options.compaction.gathered_min = 100;
        options.devices = devices.iter().map(PathBuf::from).collect();
        let disk = SimDisk::new(1, Faults::default());
        Self { disk, options, index: Keyspace::default(), cut: Lsn::ZERO }
    }

    fn disk(&self) -> Arc<dyn Disk> {
        Arc::new(self.disk.clone())
    }

    /// A life in which everything is compacted that may be, or nothing is. Its segments end with it.
    fn live(&mut self, compacts: bool, change: impl FnOnce(&mut Database)) {
        self.options.compaction.enabled = compacts;
        let mut database = Database::open_on(self.disk(), self.options.clone()).unwrap();
        change(&mut database);
        database.settle();
        self.cut = database.log.durable_lsn();
        self.index = database.close();
    }

    fn open(&mut self) -> redo::Result<Database> {
        Database::open_behind(self.disk(), self.options.clone(), self.cut, self.index.clone())
    }

    /// Ends without a word to anything, and starts by reading everything.
    fn read_again(&self, database: Database) -> Database {
        drop(database);
        self.disk.crash();
        Database::open_witnessed(self.disk(), self.options.clone(), self.cut).unwrap()
    }
}

/// Sets keys of a range; each in a block of its own.
fn fill(database: &mut Database, numbers: std::ops::Range<usize>) {
    for number in numbers {
        database.set(&key(number), &value(number));
        database.flush();
    }
}

fn addr_of(database: &Database, number: usize) -> RecordAddr {
    database.keyspace.entries[&key(number)].1
}

#[test]
fn only_what_is_behind_the_cut_is_applied_and_sealed_files_are_not_read() {
    let mut world = World::new(&[]);
    for life in 0..10 {
        world.live(false, |database| fill(database, life * 10..life * 10 + 10));
    }
    world.cut = Lsn(93);
    let all = world.index.contents();
    world.index.entries.retain(|name, _| (0..93).any(|number| key(number) == *name));
    let before = world.disk.read_count();
    let database = world.open().unwrap();
    let reads = world.disk.read_count() - before;
    assert_eq!(database.keyspace.contents(), all);
    assert_eq!((database.summary.blocks, database.summary.last_lsn), (7, Lsn(100)));
    assert_eq!((database.log.stats().records, database.summary.segments), (100, 10));
    drop(database);
    let before = world.disk.read_count();
    let database = Database::open_on(world.disk(), world.options.clone()).unwrap();
    let reads_all = world.disk.read_count() - before;
    assert_eq!(database.log.stats().records, 100);
    assert!(reads + 9 <= reads_all, "{reads} reads, {reads_all} for everything");
}

/// A segment of one needed delete record and garbage is compacted after a start from the index; the
/// first segment still has what was deleted, whether it was compacted before or not.
fn keeps_a_needed_delete(is_compacted: bool) {
    let mut world = World::new(&[]);
    world.live(false, |database| fill(database, 0..50));
    if is_compacted {
        world.live(true, |database| {
            fill(database, 0..10);
            database.log.compact_all();
        });
    }
    world.live(false, |database| {
        database.delete(&key(20));
        fill(database, 60..70);
    });
    world.live(false, |database| fill(database, 60..70));
    // Only the segment with the deletion is worth a compaction.
    world.options.compaction.enabled = true;
    let mut database = world.open().unwrap();
    let live = database.live();
    database.log.note_live(live).unwrap();
    database.settle();
    let stats = database.log.stats();
    assert_eq!((stats.compactions, stats.compactions_failed), (1, 0));
    assert_eq!((stats.records, stats.invalid_records, stats.delete_records), (61, 1, 1));
    let mut database = world.read_again(database);
    assert_eq!(database.keyspace.contents(), world.index.contents(), "a deleted key is back");
    // Compacting all of it brings the log down to what is needed.
    database.log.compact_all();
    database.settle();
    database.log.compact_all();
    database.settle();
    let stats = database.log.stats();
    assert_eq!((stats.records, stats.delete_records), (59, 0), "{stats:?}");
}

#[test]
fn a_needed_delete_among_garbage_is_not_dropped_after_a_start_behind() {
    keeps_a_needed_delete(false);
    keeps_a_needed_delete(true);
}

#[test]
fn garbage_holds_no_deletion_from_before_the_compaction_of_its_segment() {
    let mut world = World::new(&[]);
    world.live(false, |database| fill(database, 0..50));
    world.live(true, |database| {
        fill(database, 0..45);
        database.delete(&key(45));
    });
    // Four records are left of the first segment; what was deleted is not among them.
    world.live(false, |database| fill(database, 46..47));
    world.live(false, |database| fill(database, 0..45));
    world.options.compaction.enabled = true;
    let mut database = world.open().unwrap();
    let stats = database.log.stats();
    assert_eq!((stats.records, stats.delete_records), (4 + 46 + 1 + 45, 1), "{stats:?}");
    let live = database.live();
    database.log.note_live(live).unwrap();
    database.settle();
    let stats = database.log.stats();
    assert_eq!((stats.compactions, stats.records, stats.delete_records), (1, 50, 0), "{stats:?}");
    let gone = RecordAddr::new(SegmentId(2), 0);
    assert!(database.log.is_retired(gone), "its segment is gone");
    database.log.retire(gone);
    let database = world.read_again(database);
    assert_eq!(database.keyspace.contents(), world.index.contents());
}

#[test]
fn everything_that_is_not_needed_goes_in_the_end() {
    let mut world = World::new(&[]);
    world.live(false, |database| fill(database, 0..50));
    world.live(false, |database| fill(database, 100..110));
    // The first segment has garbage, is compacted, and has garbage again; the second one has none.
    world.live(true, |database| {
        fill(database, 0..10);
        database.log.seal();
        database.log.compact_all();
    });
    world.live(false, |database| {
        (100..105).for_each(|number| fill(database, number + 100..number + 101));
        (200..205).for_each(|number| database.delete(&key(number)));
    });
    world.live(false, |database| fill(database, 20..25));
    let mut database = world.open().unwrap();
    let live = database.live();
    database.log.note_live(live).unwrap();
    database.log.compact_all();
    database.settle();
    database.log.compact_all();
    database.settle();
    let stats = database.log.stats();
    assert_eq!((stats.records, stats.delete_records), (60, 0), "{stats:?}");
    let database = world.read_again(database);
    assert_eq!(database.keyspace.contents(), world.index.contents());
}

#[test]
fn what_is_written_after_the_start_is_live_and_what_is_retired_stays_so() {
    let mut world = World::new(&[]);
    world.live(false, |database| fill(database, 0..30));
    world.live(false, |database| fill(database, 0..10));
    let mut database = world.open().unwrap();
    let (old, cold) = (addr_of(&database, 3), addr_of(&database, 20));
    let superseded = RecordAddr::new(SegmentId(1), 3);
    let live = database.live();
    fill(&mut database, 0..5);
    database.delete(&key(12));
    database.flush();
    let new = addr_of(&database, 3);
    let retired = |database: &Database| {
        [old, cold, superseded, new].map(|addr| database.log.is_retired(addr))
    };
    assert_eq!(retired(&database), [true, false, false, false], "what is not live is not known");
    database.log.note_live(live).unwrap();
    assert!(!database.log.knows_validity(), "a tick takes it over");
    database.log.tick();
    assert!(database.log.knows_validity());
    assert_eq!(retired(&database), [true, false, true, false]);
    let stats = database.log.stats();
    // Ten of the first segment, five of the second one, and the deleted key.
    assert_eq!((stats.records, stats.invalid_records, stats.delete_records), (46, 16, 1));
    database.log.compact_all();
    database.settle();
    assert!(database.log.is_retired(old) && !database.log.is_retired(new));
    let contents = database.keyspace.contents();
    assert_eq!(world.read_again(database).keyspace.contents(), contents);
}

#[test]
fn nothing_is_compacted_healed_or_drained_before_validity_is_known() {
    let mut world = World::new(&["/a", "/b"]);
    world.live(false, |database| fill(database, 0..60));
    world.live(false, |database| fill(database, 0..50));
    world.options.compaction.enabled = true;
    let path = Path::new("/a/0000000001.redo");
    assert!(world.disk.flip_bit(path, 400, 3));
    let mut database = world.open().unwrap();
    let mut scrubber = database.log.scrubber();
    database.log.set_scrub_rate(1 << 30);
    let mut entropy = SimEntropy::new(1);
    assert!(database.log.set_devices(&[PathBuf::from("/b")], &mut entropy).unwrap().is_empty());
    database.log.compact_all();
    fill(&mut database, 0..5);
    let files = |world: &World| -> Vec<PathBuf> {
        let files = read_all(&world.disk).into_keys();
        files.filter(|path| path.starts_with("/a") && path.extension().is_some()).collect()
    };
    let before = files(&world);
    for _ in 0..50 {
        while scrubber.step() == Step::Worked {}
        database.settle();
        assert!(database.log.mark().is_none() && database.log.rewrites().is_empty());
        assert!(!database.log.is_congested());
    }
    let stats = database.log.stats();
    assert_eq!((stats.compactions, stats.scrub_errors, stats.scrub_healed), (0, 1, 0));
    assert_eq!(files(&world), before);

    let live = database.live();
    database.log.note_live(live).unwrap();
    for _ in 0..50 {
        for segment in database.log.rewrites() {
            let names: Vec<_> = database.keyspace.entries.iter().collect();
            let ours = names.into_iter().filter(|(_, (_, addr))| addr.segment() == segment);
            let ours: Vec<_> = ours.map(|(key, (value, _))| (key.clone(), value.clone())).collect();
            ours.into_iter().for_each(|(key, value)| database.set(&key, &value));
        }
        database.settle();
    }
    let stats = database.log.stats();
    assert!(stats.compactions > 0 && stats.scrub_healed == 1, "{stats:?}");
    assert!(stats.devices.iter().all(|device| device.path == Path::new("/b")), "{stats:?}");
    assert!(database.log.mark().is_some());
}

#[test]
fn a_live_set_that_contradicts_the_log_changes_nothing() {
    let mut world = World::new(&[]);
    world.live(false, |database| {
        fill(database, 0..10);
        database.delete(&key(3));
    });
    let mut database = world.open().unwrap();
    let with = |segment: u32, ordinal: u32| {
        let addrs = database.keyspace.entries.values().map(|(_, addr)| *addr);
        Arc::new(addrs.chain([RecordAddr::new(SegmentId(segment), ordinal)]).collect())
    };
    // No such segment; no such record; both the deleted record and the deletion.
    let mut both: redo::LiveRecords = (0..11).map(|at| RecordAddr::new(SegmentId(1), at)).collect();
    assert!(!both.insert(RecordAddr::new(SegmentId(1), 3)) && both.count() == 11);
    // Segment 2 had no record, and is gone.
    for wrong in [with(2, 0), with(1, 11), Arc::new(both)] {
        let error = database.log.note_live(wrong).unwrap_err();
        assert!(matches!(error, Error::Contradicted { .. }), "{error}");
        database.settle();
        assert!(!database.log.knows_validity());
        assert!((0..11).all(|at| !database.log.is_retired(RecordAddr::new(SegmentId(1), at))));
    }
    let live = database.live();
    database.log.note_live(live).unwrap();
    database.settle();
    assert_eq!(database.log.stats().invalid_records, 1);
}

#[test]
fn an_index_that_compaction_has_left_behind_is_refused() {
    let mut world = World::new(&[]);
    world.live(false, |database| fill(database, 0..30));
    let (cut, index) = (world.cut, world.index.clone());
    world.live(true, |database| {
        fill(database, 0..30);
        database.log.compact_all();
    });
    let horizon = {
        let database = world.open().unwrap();
        assert_eq!(database.log.stats().segments, 1);
        drop(database);
        Lsn(30)
    };
    assert_eq!(cut, horizon);
    let before = read_all(&world.disk);
    world.cut = Lsn(horizon.0 - 1);
    match world.open().err() {
        Some(Error::IndexTooOld { cut, horizon: found }) => {
            assert_eq!((cut, found), (world.cut, horizon));
        }
        other => panic!("{other:?}"),
    }
    assert!(before == read_all(&world.disk), "nothing is changed");
    (world.cut, world.index) = (cut, index);
    assert_eq!(world.open().unwrap().keyspace.contents().len(), 30);
}

/// Brings a file back to what it was: a disk that has dropped what it had synced.
fn roll_back(world: &World, path: &Path, bytes: &[u8]) {
    let file = world.disk.open(path, Access::ReadWrite).unwrap();
    file.set_len(bytes.len() as u64).unwrap();
    file.write_all_at(bytes, 0).unwrap();
    file.sync_data().unwrap();
}

#[test]
fn blocks_that_were_durable_are_missed_by_either_start() {
    for devices in [&["/a"][..], &["/a", "/b"]] {
        let mut world = World::new(devices);
        world.live(false, |database| fill(database, 0..10));
        let mut database = Database::open_on(world.disk(), world.options.clone()).unwrap();
        fill(&mut database, 10..16);
        let then = read_all(&world.disk);
        fill(&mut database, 16..30);
        world.index = database.keyspace.clone();
        drop(database);
        world.disk.kill();
        let whole = world.disk.fork();
        let newest = then.keys().filter(|path| path.starts_with("/a"));
        let newest = newest.filter(|path| path.extension().is_some_and(|ext| ext == "redo")).max();
        let newest = newest.unwrap().clone();
        roll_back(&world, &newest, &then[&newest]);
        let lost = world.disk.fork();
        let (mut refused, mut opened) = (0, 0);
        for cut in 10..=30 {
            world.cut = Lsn(cut);
            let scans = [false, true].map(|is_behind| {
                world.disk = lost.fork();
                let before = read_all(&world.disk);
                let index = world.index.clone();
                let (disk, options) = (world.disk(), world.options.clone());
                let database = match is_behind {
                    true => Database::open_behind(disk, options, world.cut, index),
                    false => Database::open_witnessed(disk, options, world.cut),
                };
                if database.is_err() {
                    assert!(before == read_all(&world.disk), "nothing is changed");
                }
                database.map(|database| database.summary.last_lsn).map_err(|e| e.to_string())
            });
            assert_eq!(scans[0], scans[1], "cut at {cut}: scanned | behind");
            match &scans[0] {
                Ok(_) => opened += 1,
                Err(what) => {
                    assert!(what.contains("is missing") || what.contains("damaged"), "{what}");
                    refused += 1;
                }
            }
            assert_eq!(scans[0].is_err(), cut > 16 || devices.len() > 1, "cut at {cut}");
            world.disk = whole.fork();
            assert_eq!(world.open().unwrap().summary.last_lsn, Lsn(30));
        }
        assert!(refused >= 14, "{refused} refused, {opened} opened");
    }
}

#[test]
fn blocks_that_are_there_twice_are_counted_once() {
    let mut world = World::new(&["/a", "/b"]);
    let mut twice = 0;
    for fails_at in 1..12 {
        world.disk = SimDisk::new(fails_at, Faults::default());
        let mut database = Database::open_on(world.disk(), world.options.clone()).unwrap();
        fill(&mut database, 0..10);
        for number in 10..40 {
            if number == 10 + usize::try_from(fails_at).unwrap() {
                let sync_error_per_million = 500_000;
                world.disk.set_faults(Faults { sync_error_per_million, ..Faults::default() });
            }
            database.set(&key(number), &value(number));
            database.log.seal();
            for _ in 0..4 {
                database.flushers.iter_mut().for_each(|flusher| _ = flusher.step());
            }
            database.log.poll();
            let stats = database.log.stats();
            if stats.devices.iter().any(|device| device.last_error.is_some()) {
                world.disk.set_faults(Faults::default());
            }
        }
        database.flush();
        let durable = database.log.durable_lsn();
        world.index = database.keyspace.clone();
        let stats = database.log.stats();
        twice += usize::from(stats.files > stats.segments);
        drop(database);
        world.disk.kill();
        let open = world.disk.fork();
        // A start seals all parts, and leaves them as they are.
        drop(Database::open_on(world.disk(), world.options.clone()).unwrap());
        world.disk.kill();
        let sealed = world.disk.fork();
        let cuts = [durable, Lsn(durable.0 / 2), Lsn(durable.0 - 3)];
        for (cut, before) in cuts.into_iter().flat_map(|cut| [(cut, &open), (cut, &sealed)]) {
            world.disk = before.fork();
            let scanned = Database::open_witnessed(world.disk(), world.options.clone(), cut);
            let scanned = scanned.unwrap().log.stats();
            world.disk = before.fork();
            world.cut = cut;
            let behind = world.open().unwrap().log.stats();
            assert_eq!(behind.records, scanned.records);
            assert_eq!((behind.files, behind.bytes), (scanned.files, scanned.bytes));
        }
    }
    assert!(twice > 0, "segments had parts");
}
