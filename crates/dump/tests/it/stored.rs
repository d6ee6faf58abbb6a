//! Dumps of a log that no server has open: after each block what there was then.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use base::{DbId, Lsn, Record, RecordKind};
use dump::{Dumper, Error, Figures, Selection, SpillOptions, StoredDump};
use env::{Access, Disk};
use env_sim::{Faults, SimDisk};
use keyspace::Expiry;
use keyspace::hash::Hash;
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use redo::StoredLog;

use crate::commands::{Op, op};
use crate::kept::{All, Kept};
use crate::world::{World, devices};

/// What there was after each block.
type States = BTreeMap<Lsn, All>;

/// What came of a dump.
struct Dumped {
    all: All,
    figures: Figures,
    newest: Lsn,
    cut_bytes: u64,
    progress: (u64, u64),
    sizes: Vec<(u64, u64)>,
}

impl Dumped {
    /// How many keys each database has, and how many expire.
    fn counted(&self) -> Vec<(u64, u64)> {
        let mut counted = vec![(0, 0); self.sizes.len()];
        for ((database, _), (expires_at_ms, _)) in &self.all {
            let (keys, expiring) = &mut counted[*database as usize];
            *keys += 1;
            *expiring += u64::from(expires_at_ms.is_some());
        }
        counted
    }
}

fn spill(disk: &SimDisk, memory_bytes: usize) -> SpillOptions {
    let directory = PathBuf::from("/dumps");
    SpillOptions { disk: Arc::new(disk.clone()), directory, memory_bytes, kept_bytes: 0 }
}

fn open(disk: &SimDisk) -> StoredLog {
    let opened = StoredLog::open(Arc::new(disk.clone()), Path::new("/data"), &[]);
    opened.unwrap().expect("there is a log")
}

/// A dump of the state after a block, or at the end.
fn dump(disk: &SimDisk, lsn: Option<Lsn>, memory_bytes: usize) -> Result<Dumped, Error> {
    let (log, options) = (open(disk), spill(disk, memory_bytes));
    let mut selection = Selection::read(&log, Lsn::ZERO, lsn, options.clone(), &mut |_| {})?;
    while !selection.step()? {}
    let (done, total) = selection.progress();
    assert_eq!(done, total, "all records were looked at");
    let selected = selection.finish();
    let (sizes, newest, cut_bytes) = (selected.sizes.clone(), selected.newest, selected.cut_bytes);
    assert_eq!(selected.lsn, lsn.unwrap_or(newest));
    let dumper = Dumper::new(&selected.databases, Kept::default(), options);
    let mut dump = StoredDump::new(&log, selected, dumper);
    while !dump.step()? {}
    let (progress, figures) = (dump.progress(), dump.figures());
    let all = dump.into_target().all;
    assert!(disk.list(Path::new("/dumps")).unwrap().is_empty());
    Ok(Dumped { all, figures, newest, cut_bytes, progress, sizes })
}

/// Every file of the log.
fn files(disk: &SimDisk, device_count: usize) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut files = BTreeMap::new();
    for directory in devices(device_count).into_iter().chain(["/data".into()]) {
        for name in disk.list(&directory).unwrap() {
            let path = directory.join(name);
            let Ok(file) = disk.open(&path, Access::Read) else { continue };
            let mut bytes = vec![0; usize::try_from(file.len().unwrap()).unwrap()];
            file.read_exact_at(&mut bytes, 0).unwrap();
            files.insert(path, bytes);
        }
    }
    files
}

/// How the life of the log ends.
#[derive(Debug, Clone, Copy)]
enum End {
    Settled,
    /// The process dies.
    Killed,
    PowerFails,
}

#[derive(Debug, Clone)]
enum Event {
    Command(Op),
    Time(i64),
    Seal,
    Work(u8),
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        10 => op().prop_map(Event::Command),
        1 => (0..300_000_i64).prop_map(Event::Time),
        6 => Just(Event::Seal),
        14 => any::<u8>().prop_map(Event::Work),
    ]
}

/// Does all of it. Returns what there was after each block.
fn live(world: &mut World, events: &[Event]) -> States {
    let mut states = States::from([(Lsn::ZERO, All::new())]);
    for event in events {
        match event {
            Event::Command(op) => world.apply(op),
            Event::Time(ms) => world.now_ms += ms,
            Event::Seal => _ = world.seal(),
            Event::Work(what) => world.work(*what),
        }
        let log = world.log.get();
        let (is_sealed, last) = (!log.has_open_records(), Lsn(log.open_lsn().0 - 1));
        drop(log);
        if is_sealed && !states.contains_key(&last) {
            states.insert(last, world.expected().all);
        }
    }
    world.seal();
    let last = Lsn(world.log.get().open_lsn().0 - 1);
    states.entry(last).or_insert_with(|| world.expected().all);
    states
}

#[test]
fn a_dump_is_what_there_was_after_the_block() {
    let (dumped, keys, compacted, refused) =
        (Cell::new(0), Cell::new(0), Cell::new(0), Cell::new(0));
    let mut runner = TestRunner::new(ProptestConfig::with_cases(200));
    let end = prop_oneof![Just(End::Settled), Just(End::Killed), Just(End::PowerFails)];
    let memory_bytes = prop_oneof![Just(1_usize), Just(3_000), Just(1 << 20)];
    let events = prop::collection::vec(event(), 50..300);
    let strategy = (1..3_usize, 1..4_u64, events, end, memory_bytes, any::<u64>());
    let result = runner.run(&strategy, |(count, size, events, end, memory_bytes, pick)| {
        let mut world = World::new(count, size * 30_000);
        let mut states = live(&mut world, &events);
        if let End::Settled = end {
            world.log.get().compact_all();
            world.settle();
            let last = Lsn(world.log.get().open_lsn().0 - 1);
            states.entry(last).or_insert_with(|| world.expected().all);
        }
        let disk = world.disk.clone();
        match end {
            End::Settled => {}
            End::Killed => disk.kill(),
            End::PowerFails => disk.crash(),
        }
        drop(world);
        let before = files(&disk, count);
        let oldest = open(&disk).oldest_lsn();
        let last = dump(&disk, None, memory_bytes).unwrap();
        let newest = last.newest;
        prop_assert!(last.all == states[&newest], "at the end, {newest}");
        prop_assert_eq!(last.figures.keys, last.all.len() as u64);
        prop_assert!(oldest <= newest);
        compacted.set(compacted.get() + usize::from(oldest > Lsn::ZERO));
        // The bounds, and something in between.
        let span = newest.0 - oldest.0 + 1;
        for lsn in [oldest.0, newest.0, oldest.0 + pick % span, oldest.0 + pick / 7 % span] {
            let found = dump(&disk, Some(Lsn(lsn)), memory_bytes).unwrap();
            let expected = &states[&Lsn(lsn)];
            prop_assert!(found.all == *expected, "after {lsn} of {oldest} to {newest}");
            let (done, total) = found.progress;
            prop_assert_eq!(done, total, "all that was announced was read");
            prop_assert_eq!(&found.sizes, &found.counted(), "as many keys as were announced");
            dumped.set(dumped.get() + 1);
            keys.set(keys.get() + expected.len());
        }
        for lsn in oldest.0.checked_sub(1).into_iter().chain([newest.0 + 1]) {
            match dump(&disk, Some(Lsn(lsn)), memory_bytes) {
                Err(error @ Error::NotTold { .. }) => {
                    let text = format!("after blocks {oldest} to {newest}");
                    prop_assert!(error.to_string().ends_with(&text), "{error}");
                    refused.set(refused.get() + 1);
                }
                other => panic!("{lsn} of {oldest} to {newest}: {:?}", other.map(|_| ())),
            }
        }
        prop_assert!(files(&disk, count) == before, "nothing is changed");
        Ok(())
    });
    if let Err(error) = result {
        panic!("{error}\n{runner}");
    }
    let counts = [dumped.get(), keys.get(), compacted.get(), refused.get()];
    assert!(
        counts[0] == 800 && counts[1] > 1500 && counts[2] > 50 && counts[3] > 250,
        "{counts:?}"
    );
}

/// A log of a few blocks, with keys, a large hash, and lost values, closed.
fn stored() -> SimDisk {
    stored_in(30_000)
}

/// The same, in segments of so many bytes.
fn stored_in(segment_bytes: u64) -> SimDisk {
    let mut world = World::new(1, segment_bytes);
    let db = world.keyspace.database(0).unwrap();
    for number in 0..300_u32 {
        world.keyspace.begin_command(1_000_000);
        let key = format!("key {number}");
        _ = world.keyspace.set_string(db, key.as_bytes(), &[b'v'; 300], Expiry::Clear);
        _ = world.keyspace.update::<Hash, _>(db, b"hash", true, |hash| {
            _ = hash.set(format!("field {number}").as_bytes(), &[b'f'; 200]);
        });
        world.keyspace.take_effects();
        world.seal();
    }
    world.settle();
    world.disk.clone()
}

/// The first segment's file.
fn segment(disk: &SimDisk) -> PathBuf {
    let device = devices(1).remove(0);
    let names = disk.list(&device).unwrap();
    let is_segment = |name: &&str| redo::segment::parse_file_name(name).is_some();
    let first = names.iter().filter_map(|name| name.to_str()).find(is_segment).unwrap();
    device.join(first)
}

#[test]
fn a_damaged_file_is_named() {
    for offset in (200..20_000).step_by(1700) {
        let disk = stored();
        let path = segment(&disk);
        assert!(disk.flip_bit(&path, offset, 3));
        match dump(&disk, None, 1 << 20) {
            Err(Error::Log(redo::Error::File(redo::FileError::Corrupt {
                path: named, ..
            }))) => {
                assert_eq!(named, path);
            }
            other => panic!("{offset}: {:?}", other.map(|_| ())),
        }
        assert!(disk.list(Path::new("/dumps")).unwrap().is_empty());
    }
}

/// How a dump ends whose first segment loses its second half when its records were selected.
fn lost_between(segment_bytes: u64) -> Error {
    let disk = stored_in(segment_bytes);
    let (log, options) = (open(&disk), spill(&disk, 10_000));
    let mut selection =
        Selection::read(&log, Lsn::ZERO, None, options.clone(), &mut |_| {}).unwrap();
    while !selection.step().unwrap() {}
    let selected = selection.finish();
    let path = segment(&disk);
    let file = disk.open(&path, Access::ReadWrite).unwrap();
    let middle = file.len().unwrap() / 2;
    file.write_all_at(&vec![0; usize::try_from(middle).unwrap()], middle).unwrap();
    let dumper = Dumper::new(&selected.databases, Kept::default(), options);
    let mut dump = StoredDump::new(&log, selected, dumper);
    loop {
        match dump.step() {
            Ok(is_done) => assert!(!is_done, "some of it is gone"),
            Err(error) => return error,
        }
    }
}

#[test]
fn what_is_changed_between_the_two_readings_is_noticed() {
    let sealed = lost_between(30_000);
    assert!(matches!(sealed, Error::Log(_)), "{sealed}");
    // Where one that is open ends, no more need come.
    let open = lost_between(4 << 20);
    assert!(matches!(open, Error::Changed { .. }), "{open}");
}

#[test]
fn nothing_opens_the_log_meanwhile() {
    let disk = stored();
    let log = open(&disk);
    assert!(redo::is_in_use(&disk, Path::new("/data")).unwrap());
    drop(log);
    assert!(!redo::is_in_use(&disk, Path::new("/data")).unwrap());
}

#[test]
fn a_full_disk_ends_the_reading() {
    let disk = stored();
    let capacity_bytes = Some(disk.used_bytes() + 1000);
    disk.set_faults(Faults { capacity_bytes, ..Faults::default() });
    match dump(&disk, None, 10_000) {
        Err(Error::Spill(error)) => assert!(error.is_storage_full(), "{error}"),
        other => panic!("{:?}", other.map(|_| ())),
    }
    disk.set_faults(Faults::default());
    assert_eq!(dump(&disk, None, 10_000).unwrap().all.len(), 301);
}

#[test]
fn lost_values_and_databases_are_told_from_others() {
    let mut world = World::new(1, 30_000);
    let id = world.keyspace.database_id(world.keyspace.database(0).unwrap());
    let root = Record::root(RecordKind::Hash, id, b"hollow", base::ObjectId(900), &[0], None);
    let records = [
        Record::whole(RecordKind::ValueLost, id, b"lost", &[1], None),
        Record::whole(RecordKind::KeyLost, id, b"twelve bytes", &[0], None),
        Record::whole(RecordKind::String, id, b"key", b"old", None),
        Record::whole(RecordKind::String, DbId(5), b"key", b"of another", None),
        Record::whole(RecordKind::String, id, b"key", b"new", Some(7)),
        // Of an object that a repair has left nothing else of.
        root,
        // Of one that was deleted, or whose root a repair has not found.
        Record::element(RecordKind::HashField, base::ObjectId(901), b"field", b"value"),
    ];
    for record in &records {
        world.log.get().declare(record.kind);
        world.log.get().append(record);
        world.log.get().seal();
    }
    world.settle();
    let disk = world.disk.clone();
    drop(world);
    let found = dump(&disk, None, 1 << 20).unwrap();
    assert_eq!(found.figures.lost_keys, 2);
    assert_eq!(found.figures.orphans, 1);
    assert_eq!(found.cut_bytes, 0);
    // That a root has no elements is seen when it is read: the hint has one key more.
    assert_eq!((found.sizes[0], found.counted()[0]), ((2, 1), (1, 1)));
    let keys: Vec<_> = found.all.keys().cloned().collect();
    assert_eq!(keys, [(0, b"key".to_vec()), (5, b"key".to_vec())]);
    assert_eq!(found.all[&(0, b"key".to_vec())].0, Some(7));
}
