//! What a start believes of an index, and what it refuses.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use base::Lsn;
use env_sim::sweep::{Image, disk_of, image_of};
use env_sim::{Faults, SimDisk};
use indexing::{Step, peek};
use logindex::{Indexer, Judge};

use crate::world::{INDEX, World, begin_build, compare_stored, open_unasked, open_with_all};

const SEED: u64 = 2;

/// A build cuts often.
const CUT_BYTES: u64 = 100;

fn image(disk: &SimDisk) -> Image {
    let dirs = ["/data", "/disk0", "/disk1", INDEX].map(Path::new);
    let mut image = image_of(disk, &dirs);
    image.remove(Path::new("/data/redo.lock"));
    image
}

/// Writes blocks, of which the index then knows all.
fn write(world: &mut World, count: usize) {
    for _ in 0..count {
        world.write();
        world.log.seal();
        world.work();
    }
    assert!(world.rest());
    world.catch_up();
}

/// An image of a log, and the index of the same log at a later time.
fn log_that_lost_its_end() -> Image {
    let disk = SimDisk::new(SEED, Faults::default());
    let mut world = World::open(&disk, SEED, 0).unwrap();
    write(&mut world, 60);
    world.close();
    let mut lost = image(&disk);
    let mut world = World::open(&disk, SEED, 1).unwrap();
    write(&mut world, 60);
    world.close();
    let is_of_index = |path: &Path| path.starts_with(INDEX);
    lost.retain(|path, _| !is_of_index(path));
    lost.extend(image(&disk).into_iter().filter(|(path, _)| is_of_index(path)));
    lost
}

fn database_of(image: &Image) -> [u8; 16] {
    image[&PathBuf::from(INDEX).join("manifest")][24..40].try_into().unwrap()
}

/// The index as another program has cut it.
fn cut_by_another_program(disk: &SimDisk, database: [u8; 16]) {
    let arc: Arc<dyn env::Disk> = Arc::new(disk.clone());
    let options = logindex::Options { block_bytes: 256, ..logindex::Options::default() };
    let mut indexer = Indexer::open(arc, Path::new(INDEX), database, options).unwrap();
    indexer.restate(vec![1, 0, 0], Judge::Relogging).unwrap();
}

#[test]
fn a_log_that_ends_before_the_cut_is_refused_by_every_start() {
    let lost = log_that_lost_its_end();
    let refused = World::open(&disk_of(&lost), SEED, 2).err().expect("blocks are missing");
    assert!(refused.to_string().contains("block"), "{refused}");
    // Also by a program that does not ask the index before it reads the log.
    let error = open_unasked(&disk_of(&lost), SEED).err().expect("it knows more than the log");
    assert!(error.is_loss() && error.to_string().contains("/data/index"), "{error}");
    // What the index contains may be of no use: it is a witness all the same.
    let disk = disk_of(&lost);
    cut_by_another_program(&disk, database_of(&lost));
    World::open(&disk, SEED, 2).err().expect("blocks are missing");
    let error = open_unasked(&disk, SEED).err().expect("it knows more than the log");
    assert!(error.is_loss(), "{error}");
    // Without the witness the loss is accepted.
    logindex::discard(&disk, Path::new(INDEX)).unwrap();
    World::open(&disk, SEED, 2).unwrap();
}

#[test]
fn an_index_of_another_version_is_built_anew() {
    let disk = SimDisk::new(SEED, Faults::default());
    let mut world = World::open(&disk, SEED, 0).unwrap();
    write(&mut world, 60);
    let cut = world.index.cut();
    world.close();
    let database = database_of(&image(&disk));
    cut_by_another_program(&disk, database);
    let peeked = peek(&disk, Path::new(INDEX), database).unwrap();
    assert_eq!(peeked.durable(), cut);
    assert!(peeked.believe(Lsn::ZERO).unwrap_err().to_string().contains("version"));
    let mut world = World::open(&disk, SEED, 1).unwrap();
    assert!(world.unusable.clone().unwrap().contains("version"));
    world.catch_up();
    world.check(&world.scan, "built anew");
}

#[test]
fn an_index_that_compaction_has_passed_is_not_believed() {
    let disk = SimDisk::new(SEED, Faults::default());
    let mut world = World::open(&disk, SEED, 0).unwrap();
    write(&mut world, 60);
    let cut = world.index.cut();
    world.close();
    let peeked = || peek(&disk, Path::new(INDEX), database_of(&image(&disk))).unwrap();
    assert_eq!(peeked().believe(cut).unwrap().cut(), cut);
    assert!(peeked().believe(cut.next()).unwrap_err().to_string().contains("compacted"));
    let other = peek(&disk, Path::new(INDEX), [9; 16]).unwrap();
    assert_eq!(other.durable(), Lsn::ZERO, "of another database it is no witness");
    assert!(other.believe(Lsn::ZERO).unwrap_err().to_string().contains("another database"));
}

#[test]
fn a_tail_takes_only_what_is_behind_the_cut() {
    let disk = SimDisk::new(SEED, Faults::default());
    let mut world = World::open(&disk, SEED, 0).unwrap();
    write(&mut world, 60);
    // The index sees nothing of these.
    (0..40).for_each(|_| world.write());
    let cut = world.index.cut();
    world.close();
    let (mut index, whole, scan) = open_with_all(&disk, SEED);
    assert!(whole.cut() > Some(cut));
    assert_eq!(index.cut(), cut, "nothing is written yet");
    let keys: std::collections::BTreeMap<_, _> = index.known().keys().unwrap().collect();
    assert_eq!(keys, scan.keys());
    while index.step(false).unwrap() == Step::Worked {}
    assert_eq!(Some(index.cut()), whole.cut(), "it is written without being asked");
}

#[test]
fn an_index_that_cannot_be_read_says_which_directory_to_remove() {
    let disk = SimDisk::new(SEED, Faults::default());
    let mut world = World::open(&disk, SEED, 0).unwrap();
    write(&mut world, 30);
    world.close();
    disk.break_dir(Path::new(INDEX));
    let error = World::open(&disk, SEED, 1).err().expect("it cannot be read");
    assert!(error.to_string().contains("remove the directory /data/index"), "{error}");
    let error = indexing::discard(&disk, Path::new(INDEX)).unwrap_err();
    assert!(error.to_string().contains("remove the directory /data/index"), "{error}");
}

/// A log that was compacted, and whose index is being built: it has cut, and is not at the end.
fn interrupted_build(disk: &SimDisk) -> World {
    let mut world = World::open_with(disk, SEED, 0, CUT_BYTES).unwrap();
    write(&mut world, 600);
    assert_ne!(world.log.stats().compactions, 0);
    world.index.begin_anew().unwrap();
    while world.index.cut() == Lsn::ZERO {
        assert_eq!(world.index.step(true).unwrap(), Step::Worked);
    }
    assert!(world.index.cut() < world.log.durable_lsn());
    world
}

#[test]
fn a_build_goes_on_after_a_restart() {
    let disk = SimDisk::new(SEED, Faults::default());
    let world = interrupted_build(&disk);
    let mut cut = world.index.cut();
    world.close();
    for life in 1..4 {
        let mut world = World::open_with(&disk, SEED, life, CUT_BYTES).unwrap();
        assert_eq!(world.unusable, None);
        assert_eq!(world.index.cut(), cut, "it goes on where it was");
        assert!(world.index.known().keys().is_none());
        if life == 2 {
            // A life in which nothing is cut is one in which it was there.
            world.close();
            continue;
        }
        while world.index.cut() == cut {
            world.index.step(true).unwrap();
        }
        cut = world.index.cut();
        world.close();
    }
    let mut world = World::open(&disk, SEED, 4).unwrap();
    assert_eq!(world.index.cut(), cut);
    world.catch_up();
    world.check(&world.scan, "built");
    world.close();
    let peeked = peek(&disk, Path::new(INDEX), database_of(&image(&disk))).unwrap();
    assert!(peeked.believe(Lsn::ZERO).unwrap().known().can_start(), "and a start may believe it");
}

#[test]
fn a_build_that_missed_a_life_of_the_log_begins_again() {
    let disk = SimDisk::new(SEED, Faults::default());
    interrupted_build(&disk).close();
    // A program that knows no index: what the build has not read is compacted.
    let kept = image(&disk);
    let mut world = World::open(&disk, SEED, 1).unwrap();
    world.log.reader().index_bound().lift();
    world.rest_without_index();
    world.close();
    let dir = PathBuf::from(INDEX);
    let mut missed = image(&disk);
    missed.retain(|path, _| !path.starts_with(&dir));
    missed.extend(kept.into_iter().filter(|(path, _)| path.starts_with(&dir)));
    let disk = disk_of(&missed);
    let mut world = World::open(&disk, SEED, 2).unwrap();
    assert!(world.unusable.clone().unwrap().contains("without it"));
    world.catch_up();
    world.check(&world.scan, "built anew");
}

/// A log that was compacted, without its index.
fn compacted_log() -> SimDisk {
    let disk = SimDisk::new(SEED, Faults::default());
    let mut world = World::open_with(&disk, SEED, 0, CUT_BYTES).unwrap();
    write(&mut world, 600);
    assert_ne!(world.log.stats().compactions, 0);
    world.close();
    logindex::discard(&disk, Path::new(INDEX)).unwrap();
    disk
}

#[test]
fn a_build_is_done_when_a_start_may_believe_it_however_often_it_was_interrupted() {
    let disk = compacted_log();
    let (mut steps, mut seen) = (0, Lsn::ZERO);
    let (build, end) = loop {
        let (mut build, opened, is_anew) = begin_build(&disk, SEED).unwrap();
        assert!(!is_anew, "it goes on");
        // A process that is killed after more and more steps.
        let mut last = None;
        for _ in 0..steps {
            let built = build.step().unwrap();
            assert!(built.read >= seen && built.percentage() <= 100);
            last = Some(built);
            if built.is_done {
                break;
            }
        }
        steps += 3;
        let end = opened.summary.last_lsn;
        match last {
            Some(built) if built.is_done => {
                assert_eq!((built.read, built.end, built.percentage()), (end, end, 100));
                break (build, end);
            }
            _ => {
                let database = opened.summary.database.0;
                let peeked = peek(&disk, Path::new(INDEX), database).unwrap();
                // What was cut is not read again.
                seen = peeked.durable();
                assert!(peeked.believe(Lsn::ZERO).is_err(), "it is not done");
            }
        }
    };
    assert!(steps > 15, "it was interrupted {} times", steps / 3);
    drop(build);
    let (index, whole, scan) = open_with_all(&disk, SEED);
    assert_eq!(whole.cut(), Some(end));
    let keys: std::collections::BTreeMap<_, _> = index.known().keys().unwrap().collect();
    assert_eq!(keys, scan.keys());
}

#[test]
fn a_build_whose_runs_turn_out_to_be_damaged_begins_anew() {
    let disk = compacted_log();
    let (mut build, opened, _) = begin_build(&disk, SEED).unwrap();
    let database = opened.summary.database.0;
    while peek(&disk, Path::new(INDEX), database).unwrap().durable() == Lsn::ZERO {
        assert!(!build.step().unwrap().is_done);
    }
    drop((build, opened));
    let mut damaged = image(&disk);
    let run = damaged.iter_mut().find(|(path, _)| path.extension().is_some_and(|it| it == "run"));
    let (_, bytes) = run.expect("some were written");
    // In its first block: not what is read when it is opened.
    bytes[256 + 40] ^= 4;
    let disk = disk_of(&damaged);
    let (mut build, opened, _) = begin_build(&disk, SEED).unwrap();
    while !build.step().unwrap().is_done {}
    drop((build, opened));
    let (index, _, scan) = open_with_all(&disk, SEED);
    let keys: std::collections::BTreeMap<_, _> = index.known().keys().unwrap().collect();
    assert_eq!(keys, scan.keys());
}

#[test]
fn an_index_that_does_not_say_what_the_log_says_is_found() {
    let disk = SimDisk::new(SEED, Faults::default());
    let mut world = World::open(&disk, SEED, 0).unwrap();
    write(&mut world, 60);
    // The index sees nothing of these.
    for _ in 0..40 {
        world.write();
        world.log.seal();
    }
    let (end, expected) = (world.log.open_lsn(), world.expected());
    world.close();
    let compared = compare_stored(&disk, SEED).unwrap();
    assert_eq!((compared.end.next(), compared.different), (end, 0));
    assert_eq!(compared.same, expected.len() as u64);

    // One that says of a key that lives that it is gone. What it knows of databases is as of the end.
    let (whole, ..) = open_with_all(&disk_of(&image(&disk)), SEED);
    let known = whole.known().encode();
    let database = database_of(&image(&disk));
    let arc: Arc<dyn env::Disk> = Arc::new(disk.clone());
    let options = logindex::Options { block_bytes: 256, ..logindex::Options::default() };
    let mut indexer = Indexer::open(arc, Path::new(INDEX), database, options).unwrap();
    let cut = compared.end;
    let mut delta = logindex::Delta::new();
    let (name, addr) = *expected.first().expect("something lives");
    delta.push(logindex::Entry { name, what: logindex::What::Gone });
    indexer.add(delta.cut(cut, known, Judge::Relogging));
    while indexer.step(cut).unwrap() == logindex::Step::Worked {}
    drop(indexer);
    let compared = compare_stored(&disk, SEED).unwrap();
    let first = compared.first.expect("it differs");
    assert_eq!((first.name, first.indexed, first.logged), (name, None, Some(addr)));
}

#[test]
fn a_count_that_fails_is_begun_again() {
    let disk = SimDisk::new(SEED, Faults::default());
    let mut world = interrupted_build(&disk);
    let end = world.log.durable_lsn();
    let fail_at = |reads: u64| {
        let error_at_read = Some(disk.read_count() + reads);
        disk.set_faults(Faults { error_at_read, ..Faults::default() });
    };
    let mut failures = 0;
    for _ in 0..100_000 {
        if world.index.cut() == end && world.index.known().keys().is_some() {
            break;
        }
        if world.index.step(true).is_err() {
            failures += 1;
            disk.set_faults(Faults::default());
            if failures < 20 {
                fail_at(1 + failures % 5);
            }
        } else if failures == 0 && world.index.cut() == end {
            fail_at(1);
        }
        if world.index.read() == end {
            world.index.cut_now();
        }
    }
    assert_eq!(failures, 20);
    world.catch_up();
    world.check(&world.scan, "counted");
}

#[test]
fn an_index_that_cannot_be_removed_goes_on_until_it_can() {
    let disk = SimDisk::new(SEED, Faults::default());
    let mut world = World::open(&disk, SEED, 0).unwrap();
    write(&mut world, 60);
    disk.break_dir(Path::new(INDEX));
    world.index.begin_anew().unwrap_err();
    disk.mend_dir(Path::new(INDEX));
    (0..20).for_each(|_| world.write());
    world.rest();
    world.catch_up();
    world.check(&world.scan, "it goes on");
    world.index.begin_anew().unwrap();
    assert_eq!((world.index.cut(), world.index.read()), (Lsn::ZERO, Lsn::ZERO));
    world.catch_up();
    world.check(&world.scan, "it was begun anew");
}

#[test]
fn a_cut_that_is_wanted_becomes_durable() {
    // Two devices that sync when a segment is full, or when they are asked.
    for seed in [3, 7, 9, 11, 13, 19, 21] {
        let disk = SimDisk::new(seed, Faults::default());
        let mut world = World::open_with(&disk, seed, 0, u64::MAX).unwrap();
        for _ in 0..200 {
            world.write();
            world.log.seal();
        }
        assert!(world.rest_as(false), "seed {seed}: nothing waits for ever");
    }
}
