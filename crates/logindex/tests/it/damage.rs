//! Every damage to every file: an error, or the same answers.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use base::Lsn;
use env::Disk;
use env_sim::sweep::{Damage, Image, damages, image_of};
use env_sim::{Faults, SimDisk};
use logindex::{
    Cached, Entry, Error, Index, Indexer, Judge, Level, Name, Place, Result, Scopes, Step, What,
    verify,
};

use crate::harness::{DATABASE, DIR, Op, TINY, Writer, open, settle};

/// An index with runs of all levels: elements, expiries, roots, names that are gone, dead scopes.
pub(crate) fn sample() -> (SimDisk, Writer) {
    let sim = SimDisk::new(1, Faults::default());
    let disk: Arc<dyn Disk> = Arc::new(sim.clone());
    let mut indexer = open(&disk).unwrap();
    let mut writer = Writer::new();
    let script = [
        vec![
            Op::Create { db: 0, key: 1, elements: 12 },
            Op::Create { db: 1, key: 2, elements: 7 },
            Op::Set { db: 0, key: 3, expires: true },
            Op::Set { db: 2, key: 4, expires: false },
            Op::Set { db: 0, key: 5, expires: false },
            Op::Flush { db: 2 },
        ],
        vec![
            Op::Rename { db: 0, from: 1, to: 6 },
            Op::Set { db: 1, key: 7, expires: true },
            Op::Delete { db: 0, key: 5 },
        ],
        vec![Op::Drop { db: 0, key: 6, element: 4 }, Op::Set { db: 1, key: 8, expires: false }],
        vec![Op::Delete { db: 0, key: 3 }, Op::Create { db: 1, key: 9, elements: 3 }],
    ];
    for ops in script {
        ops.into_iter().for_each(|op| assert!(writer.run(op).is_none()));
        indexer.add(writer.cut().unwrap());
        settle(&mut indexer, writer.lsn).unwrap();
    }
    let levels: Vec<Level> = indexer.index().runs().map(|run| run.level).collect();
    assert_eq!(levels, [Level::Zero, Level::One, Level::Bottom]);
    (sim, writer)
}

/// What the index answers to everything that is asked, or that it cannot say.
#[derive(Debug, PartialEq)]
struct Answers {
    pass: Option<BTreeMap<Name, Place>>,
    /// Asked before the filters are in memory, and after.
    probes: [Vec<Option<Option<What>>>; 2],
}

fn answers(indexer: &mut Indexer, writer: &Writer) -> Answers {
    let index = indexer.index();
    let mut seen = BTreeMap::new();
    let pass = pass(&index, &writer.picture.judge(), &mut seen).ok().map(|()| seen);
    let before = probes(&index, writer);
    // A damaged filter is an error here, and is not asked.
    for _ in 0..1000 {
        if matches!(indexer.step(Lsn::ZERO), Ok(Step::Idle)) {
            break;
        }
    }
    Answers { pass, probes: [before, probes(&indexer.index(), writer)] }
}

fn pass(index: &Index, judge: &Judge, seen: &mut BTreeMap<Name, Place>) -> Result<()> {
    let mut pass = index.live_pass(judge.clone())?;
    let mut visit = |entry: &Entry| {
        seen.insert(entry.name, *entry.place().unwrap());
    };
    while !pass.step(10, &mut visit)? {}
    Ok(())
}

/// For each name the newest entry, or `None` for an error.
fn probes(index: &Index, writer: &Writer) -> Vec<Option<Option<What>>> {
    let probe = |name: &Name| {
        let found = index.probe(*name).ok().map(|entry| entry.map(|entry| entry.what));
        match (index.probe_cached(*name), &found) {
            (Cached::Found(place), Some(found)) => assert_eq!(*found, Some(What::At(place))),
            (Cached::Gone, Some(found)) => assert_eq!(*found, Some(What::Gone)),
            (Cached::Absent, Some(found)) => assert_eq!(*found, None),
            (Cached::Unknown, _) => {}
            (cached, None) => panic!("{cached:?}, and reading is an error"),
        }
        found
    };
    writer.picture.newest.keys().map(probe).collect()
}

/// Whether no answer is another one than it should be.
fn agree(damaged: &Answers, right: &Answers) -> bool {
    let same = |a: &Option<Option<What>>, b: &Option<Option<What>>| a.is_none() || a == b;
    let pass = damaged.pass.is_none() || damaged.pass == right.pass;
    pass && (0..2).all(|n| damaged.probes[n].iter().zip(&right.probes[n]).all(|(a, b)| same(a, b)))
}

fn image(disk: &SimDisk) -> Image {
    image_of(disk, &[Path::new(DIR)])
}

#[test]
fn damage_is_an_error_or_makes_no_difference() {
    let (sim, writer) = sample();
    sim.crash();
    let disk: Arc<dyn Disk> = Arc::new(sim.clone());
    let right = answers(&mut open(&disk).unwrap(), &writer);
    assert!(right.pass.is_some() && right.probes[0].iter().all(Option::is_some));
    verify(&*disk, Path::new(DIR)).unwrap();
    let image = image(&sim);
    assert_eq!(image.len(), 4, "a manifest and three runs");
    let (mut refused, mut partly) = (0, 0);
    for damage in damages(&image, 1) {
        let disk: Arc<dyn Disk> = Arc::new(damage.on(&image));
        let is_manifest_lost =
            matches!(&damage, Damage::Lose { path } if path.ends_with("manifest"));
        match verify(&*disk, Path::new(DIR)) {
            Ok(None) => assert!(is_manifest_lost, "{damage:?}"),
            Ok(Some(_)) => panic!("verify does not see {damage:?}"),
            Err(Error::File(env::FileError::Io { .. })) => panic!("{damage:?} is an I/O error"),
            Err(error) => assert!(error.to_string().contains(&*damage.path().to_string_lossy())),
        }
        match open(&disk) {
            Err(_) => refused += 1,
            Ok(indexer) if is_manifest_lost => {
                assert_eq!(indexer.index().cut(), None);
            }
            Ok(mut indexer) => {
                partly += 1;
                let damaged = answers(&mut indexer, &writer);
                assert!(agree(&damaged, &right), "{damage:?}");
            }
        }
    }
    assert!(refused > 1000 && partly > 1000, "{refused} refused, {partly} usable in part");
}

/// A damaged run stops merging, says so once, and cuts go on being installed.
#[test]
fn a_damaged_block_stops_merging_and_nothing_else() {
    let (sim, mut writer) = sample();
    let bottom = {
        let disk: Arc<dyn Disk> = Arc::new(sim.clone());
        let indexer = open(&disk).unwrap();
        indexer.index().runs().last().unwrap().id
    };
    assert!(sim.flip_bit(&Path::new(DIR).join(format!("{bottom:010}.run")), 256 + 100, 3));
    let disk: Arc<dyn Disk> = Arc::new(sim.clone());
    let mut indexer = open(&disk).unwrap();
    let mut errors = Vec::new();
    for key in 0..10 {
        writer.run(Op::Set { db: 1, key: 40 + key, expires: false });
        indexer.add(writer.cut().unwrap());
        while let Some(error) = settle(&mut indexer, writer.lsn).err() {
            errors.push(error.to_string());
        }
        assert_eq!(indexer.index().cut(), Some(writer.lsn));
    }
    assert_eq!(errors.len(), 1, "{errors:?}");
    assert!(errors[0].contains("is corrupt at byte 256: the block's checksum"), "{}", errors[0]);
    let newest = indexer.index().probe(writer.key(1, 49)).unwrap();
    assert!(newest.is_some_and(|entry| entry.place().is_some()));
}

#[test]
fn damage_that_a_reader_finds_is_told_once_if_it_is_still_there() {
    let (sim, writer) = sample();
    let disk: Arc<dyn Disk> = Arc::new(sim.clone());
    let mut indexer = open(&disk).unwrap();
    settle(&mut indexer, Lsn::ZERO).unwrap();
    let index = indexer.index();
    let run = Path::new(DIR).join(format!("{:010}.run", index.runs().last().unwrap().id));
    let flip = || assert!(sim.flip_bit(&run, 256 + 100, 3));
    let meet = || assert!(writer.picture.newest.keys().any(|name| index.probe(*name).is_err()));
    let mut told = || {
        let steps = (0..20).filter_map(|_| indexer.step(Lsn::ZERO).err());
        steps.map(|error| error.to_string()).collect::<Vec<_>>()
    };
    flip();
    meet();
    meet();
    let once = told();
    assert!(once.len() == 1 && once[0].contains("is corrupt at byte 256"), "{once:?}");
    assert_eq!(told(), [""; 0]);
    // Elements, and passes over everything, meet it as well.
    let failed = index.live_pass(writer.picture.judge()).and_then(|mut pass| {
        while !pass.step(10, &mut |_: &Entry| {})? {}
        Ok(())
    });
    assert!(failed.is_err() && told().len() == 1);
    // It was read wrongly, once.
    meet();
    flip();
    assert_eq!(told(), [""; 0]);
    // It is another index by now: this one is not read any more.
    flip();
    meet();
    indexer.begin_anew().unwrap();
    meet();
    for _ in 0..20 {
        indexer.step(Lsn::ZERO).unwrap();
    }
}

/// Without the block that could not be read, an older run would have the word.
#[test]
fn a_pass_that_has_failed_shows_nothing_more() {
    let (sim, writer) = sample();
    let disk: Arc<dyn Disk> = Arc::new(sim.clone());
    // A read for each block.
    let options = logindex::Options { chunk_bytes: 256, ..TINY };
    let index = Indexer::open(disk, Path::new(DIR), DATABASE, options).unwrap().index();
    let mut failures = 0;
    for n in 1..30 {
        let mut pass = index.live_pass(writer.picture.judge()).unwrap();
        let mut seen = Vec::new();
        let mut visit = |entry: &Entry| seen.push((entry.name, *entry.place().unwrap()));
        sim.set_faults(Faults { error_at_read: Some(sim.read_count() + n), ..Faults::default() });
        let failed = loop {
            match pass.step(1, &mut visit) {
                Ok(true) => break false,
                Ok(false) => {}
                Err(_) => break true,
            }
        };
        sim.set_faults(Faults::default());
        if failed {
            failures += 1;
            assert!(matches!(pass.step(1, &mut visit), Err(Error::Interrupted)));
            assert!(matches!(pass.step(9, &mut visit), Err(Error::Interrupted)));
        }
        let live = writer.picture.live();
        assert!(seen.iter().all(|(name, place)| live.get(name) == Some(place)));
        assert!(failed || seen.len() == live.len());
    }
    assert!(failures > 2, "{failures} reads to fail");
}

#[test]
fn a_newer_format_and_another_database_are_refused_by_name() {
    let (sim, _) = sample();
    let disk: Arc<dyn Disk> = Arc::new(sim.clone());
    let other = Indexer::open(disk.clone(), Path::new(DIR), [1; 16], TINY).err().unwrap();
    assert!(matches!(other, Error::OtherDatabase { .. }), "{other}");
    assert!(other.to_string().starts_with("/db/index/manifest is the index of another database"));
    // Version 1 becomes 3.
    assert!(sim.flip_bit(&Path::new(DIR).join("manifest"), 8, 1));
    let newer = open(&disk).err().unwrap();
    let text = "/db/index/manifest has format 3, this program supports formats up to 1";
    assert!(newer.to_string().starts_with(text), "{newer}");
}

/// Runs of another index, at the right place and under the right name, do not pass for its own.
#[test]
fn a_run_of_another_life_is_refused() {
    let (first, _) = sample();
    // The same work after another key: other runs with the same numbers.
    let second = SimDisk::new(1, Faults::default());
    let disk: Arc<dyn Disk> = Arc::new(second.clone());
    let mut indexer = Indexer::open(disk.clone(), Path::new(DIR), DATABASE, TINY).unwrap();
    let mut writer = Writer::new();
    for key in 0..4 {
        writer.run(Op::Set { db: 0, key, expires: false });
        indexer.add(writer.cut().unwrap());
        settle(&mut indexer, writer.lsn).unwrap();
    }
    drop(indexer);
    let (own, other) = (image(&second), image(&first));
    for (path, bytes) in own.iter().filter(|(path, _)| path.extension().is_some()) {
        for foreign in other.values() {
            let mut mixed = own.clone();
            mixed.insert(path.clone(), foreign.clone());
            let disk: Arc<dyn Disk> = Arc::new(env_sim::sweep::disk_of(&mixed));
            assert_eq!(open(&disk).is_ok(), bytes == foreign);
        }
    }
    let judge = Judge::Settled(Scopes::without_map());
    let mut seen = BTreeMap::new();
    pass(&open(&disk).unwrap().index(), &judge, &mut seen).unwrap();
    assert_eq!(seen.len(), 4);
}
