//! What readers see while runs are replaced, and what takes no I/O.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use base::{DbId, Lsn, ObjectId, RecordAddr, SegmentId};
use env::Disk;
use env_os::OsDisk;
use env_sim::{Faults, SimDisk};
use logindex::{
    Cached, Delta, Entry, Hash96, Indexer, Judge, Level, Name, Options, Place, Scope, What,
};

use crate::damage::sample;
use crate::harness::{DATABASE, DIR, Op, TINY, Writer, check, hash, open, settle};

#[test]
fn an_index_stays_as_it_is_while_its_runs_are_replaced() {
    let disk: Arc<dyn Disk> = Arc::new(SimDisk::new(1, Faults::default()));
    let mut indexer = open(&disk).unwrap();
    let published = indexer.published();
    let mut writer = Writer::new();
    let mut kept = Vec::new();
    for key in 0..20 {
        writer.run(Op::Create { db: 0, key: key % 12, elements: 5 });
        writer.run(Op::Delete { db: 0, key: key / 2 });
        indexer.add(writer.cut().unwrap());
        settle(&mut indexer, writer.lsn).unwrap();
        kept.push((published.get(), writer.picture.clone()));
    }
    // Most of their files have no name any more.
    assert!(disk.list(Path::new(DIR)).unwrap().len() < 10);
    for (index, picture) in &kept {
        check(index, picture);
    }
}

#[test]
fn a_batch_on_top_of_the_runs_says_what_its_run_will_say() {
    let disk: Arc<dyn Disk> = Arc::new(SimDisk::new(1, Faults::default()));
    let mut indexer = open(&disk).unwrap();
    let mut writer = Writer::new();
    for round in 0..12 {
        for key in 0..8 {
            writer.run(Op::Create { db: round % 2, key, elements: 4 });
            writer.run(Op::Set { db: 1, key: key / 2, expires: key % 3 == 0 });
            // Of one name several entries, and some that are gone.
            writer.run(Op::Touch { db: round % 2, key, element: 1 });
            writer.run(Op::Drop { db: round % 2, key, element: key % 4 });
            writer.run(Op::Delete { db: 0, key: (key + round) % 16 });
            writer.run(Op::Rename { db: 1, from: key, to: 7 - key });
        }
        if round == 7 {
            writer.run(Op::Flush { db: 1 });
        }
        let batch = writer.cut().unwrap();
        let whole = indexer.index().with_batch(&batch);
        assert_eq!(whole.cut(), Some(writer.lsn));
        check(&whole, &writer.picture);
        indexer.add(batch);
        settle(&mut indexer, writer.lsn).unwrap();
        check(&whole, &writer.picture);
        check(&indexer.index(), &writer.picture);
    }
}

#[test]
fn a_probe_of_what_is_in_memory_reads_nothing_and_any_other_a_block_a_run() {
    let (sim, writer) = sample();
    let disk: Arc<dyn Disk> = Arc::new(sim.clone());
    let mut indexer = open(&disk).unwrap();
    let index = indexer.index();
    let absent = |n: u64| Name::new(Scope::database(DbId(0)), hash(500 + n));
    let before = sim.read_count();
    assert_eq!(index.probe_cached(writer.key(0, 6)), Cached::Unknown);
    let unknown = (0..200).filter(|n| index.probe_cached(absent(*n)) == Cached::Unknown).count();
    assert!(unknown > 50, "without filters and blocks next to nothing is known: {unknown}");
    assert_eq!(sim.read_count(), before, "what is cached is asked without I/O");

    settle(&mut indexer, Lsn::ZERO).unwrap();
    let before = sim.read_count();
    let unknown = (0..200).filter(|n| index.probe_cached(absent(*n)) == Cached::Unknown).count();
    assert!(unknown < 20, "with filters: {unknown}");
    assert_eq!(sim.read_count(), before);
    for name in writer.picture.newest.keys() {
        let before = sim.read_count();
        let found = index.probe(*name).unwrap();
        assert!(sim.read_count() - before <= index.runs().len() as u64, "a block a run at most");
        let before = sim.read_count();
        match (index.probe_cached(*name), found.map(|entry| entry.what)) {
            (Cached::Found(place), Some(What::At(found))) => assert_eq!(place, found),
            (Cached::Gone, Some(What::Gone)) | (Cached::Absent, None) => {}
            (cached, found) => panic!("{cached:?} after {found:?}"),
        }
        assert_eq!(sim.read_count(), before);
    }
    assert!(index.cached_bytes() <= TINY.cache_bytes);
}

/// Hundreds of entries a block, in the product's shape and on a real disk, read by other threads
/// while runs come and go.
#[test]
fn threads_read_while_the_indexer_works() {
    let directory = tempfile::tempdir().unwrap();
    let disk: Arc<dyn Disk> = Arc::new(OsDisk);
    let options = Options {
        fan_in: 3,
        level_1_max: 3,
        newer_min_bytes: 0,
        cache_bytes: 64 << 10,
        ..Options::default()
    };
    let mut indexer = Indexer::open(disk.clone(), directory.path(), DATABASE, options).unwrap();
    let names = 5_000_u64;
    let name = |n: u64| match n % 3 {
        0 => Name::new(Scope::object(ObjectId(1 + n % 7)), Hash96::new(n, 7)),
        _ => Name::new(Scope::database(DbId(n % 2)), hash(n)),
    };
    let place = |round: u32, n: u64| {
        let ordinal = u32::try_from(n).unwrap();
        Place::new(RecordAddr::new(SegmentId(round), ordinal), u8::try_from(n % 32).unwrap())
    };
    let is_over = AtomicBool::new(false);
    let published = indexer.published();
    std::thread::scope(|scope| {
        let probe = || {
            let mut random = fastrand::Rng::new();
            let mut seen = 0;
            while !is_over.load(Ordering::Relaxed) || seen == 0 {
                let index = published.get();
                let Some(Lsn(round)) = index.cut() else { continue };
                for _ in 0..50 {
                    let n = random.u64(0..names);
                    let found = index.probe(name(n)).unwrap().unwrap();
                    let round = u32::try_from(round).unwrap();
                    assert_eq!(found.what, What::At(place(round, n)), "name {n} at cut {round}");
                    seen += 1;
                }
            }
        };
        scope.spawn(probe);
        scope.spawn(probe);
        let mut delta = Delta::new();
        for round in 1..=14 {
            for n in 0..names {
                delta.push(Entry { name: name(n), what: What::At(place(round, n)) });
            }
            let lsn = Lsn(round.into());
            // The objects have no roots here.
            indexer.add(delta.cut(lsn, Vec::new(), Judge::Relogging));
            settle(&mut indexer, lsn).unwrap();
        }
        is_over.store(true, Ordering::Relaxed);
    });
    assert!(indexer.index().runs().any(|run| run.level == Level::Bottom));
    let mut range =
        indexer.index().scope_range(Scope::object(ObjectId(1)), Hash96::new(100, 0)).unwrap();
    let mut numbers = Vec::new();
    while let Some(entry) = range.next().unwrap() {
        numbers.push(entry.name.hash);
    }
    let expected = (100..names).filter(|n| n % 3 == 0 && n % 7 == 0).map(|n| Hash96::new(n, 7));
    assert_eq!(numbers, expected.collect::<Vec<_>>());
    logindex::verify(&*disk, directory.path()).unwrap();
}
