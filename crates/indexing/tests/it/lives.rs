//! After every start the index, brought up to date, says what a scan of the whole log says.
//!
//! Broken on purpose, and caught: see the list in `docs/durability.md`.

use std::path::Path;

use env_sim::{Faults, SimDisk};

use crate::world::{INDEX, World, compare_stored};

/// Opens everything, as often as it is cut short.
fn open(disk: &SimDisk, seed: u64, life: u64, cut_short: u64) -> World {
    for attempt in 0..cut_short {
        disk.crash_after(seed * 7 % 31 + attempt * 5);
        let opened = World::open(disk, seed, life);
        drop(opened);
        disk.crash();
    }
    World::open(disk, seed, life)
        .unwrap_or_else(|error| panic!("seed {seed}, life {life}: {error}"))
}

/// Some lives of one log, each ended by a crash, a kill or a close.
fn live(seed: u64) {
    let disk = SimDisk::new(seed, Faults::default());
    let mut was_begun_anew = false;
    for life in 0..6 {
        // Ends what is left of the life before, its planned crash included.
        disk.crash();
        if (seed + life).is_multiple_of(3) {
            // It is built from what compactions have left of the log.
            logindex::discard(&disk, Path::new(INDEX)).unwrap();
        }
        let cut_short = if (seed + life).is_multiple_of(4) { 1 + seed % 3 } else { 0 };
        let mut world = open(&disk, seed, life, cut_short);
        // A build that began while a compaction ran does not go on after a start.
        if cut_short == 0 && !was_begun_anew {
            assert_eq!(world.unusable, None, "seed {seed}, life {life}");
        }
        if !(seed + life).is_multiple_of(5) {
            let started = world.scan.clone();
            world.catch_up();
            world.check(&started, &format!("seed {seed}, life {life}"));
        }
        if world.rng.below(2) == 0 {
            disk.crash_after(world.rng.below(400) + 1);
        }
        for _ in 0..150 + world.rng.below(300) {
            match world.rng.below(9) {
                0..4 => world.write(),
                4 => _ = world.log.seal(),
                _ => world.work(),
            }
            match world.rng.below(300) {
                0 => world.relog(),
                1..4 => {
                    // The index's disk fails for a while.
                    disk.break_dir(Path::new(INDEX));
                    (0..world.rng.below(40)).for_each(|_| world.work());
                    disk.mend_dir(Path::new(INDEX));
                }
                _ => {}
            }
            if disk.is_crashed() {
                break;
            }
        }
        if !disk.is_crashed() && world.rng.below(2) == 0 {
            let is_at_rest = world.rest();
            if !disk.is_crashed() {
                assert!(is_at_rest, "seed {seed}, life {life}: it comes to rest");
                world.catch_up();
            }
            if !disk.is_crashed() {
                world.check(&world.scan, &format!("seed {seed}, life {life}: at its end"));
            }
        }
        was_begun_anew = world.is_begun_anew;
        match world.rng.below(3) {
            0 => {
                world.close();
                compare_copy(&disk, seed, life);
            }
            1 => {
                drop(world);
                disk.kill();
            }
            _ => drop(world),
        }
    }
}

/// An index that a start would believe says what the log says, and a look at both changes nothing.
fn compare_copy(disk: &SimDisk, seed: u64, life: u64) {
    if disk.is_crashed() {
        return;
    }
    let copy = disk.fork();
    copy.set_faults(Faults::default());
    copy.crash_after(u64::MAX / 4);
    match compare_stored(&copy, seed) {
        Ok(compared) => assert!(compared.first.is_none(), "seed {seed}, life {life}: {compared:?}"),
        Err(indexing::Error::Unusable(_)) => {}
        Err(error) => panic!("seed {seed}, life {life}: {error}"),
    }
}

#[test]
fn an_index_says_what_a_scan_says() {
    let count = std::env::var("INDEXING_SEEDS").map_or(60, |count| count.parse().unwrap());
    let first = std::env::var("INDEXING_FIRST").map_or(0, |first| first.parse().unwrap());
    (first..first + count).for_each(live);
}

#[test]
fn an_index_that_is_damaged_or_lost_is_built_anew() {
    let seed = 6;
    let disk = SimDisk::new(seed, Faults::default());
    let mut world = World::open(&disk, seed, 0).unwrap();
    (0..200).for_each(|_| {
        world.write();
        world.log.seal();
        world.work();
    });
    assert!(world.rest());
    world.catch_up();
    let expected = world.indexed();
    assert_ne!(expected.len(), 0);
    world.close();
    let (path, dir) = (Path::new("/data/index/manifest"), "/data/index");
    let file = env::Disk::open(&disk, path, env::Access::ReadWrite).unwrap();
    file.write_all_at(b"no manifest", 0).unwrap();
    drop(file);
    let mut world = World::open(&disk, seed, 1).unwrap();
    let why = world.unusable.clone().expect("a reason");
    assert!(why.contains(dir), "{why}");
    world.catch_up();
    assert_eq!(world.indexed(), world.expected());
}

#[test]
fn a_life_without_the_index_is_noticed() {
    let seed = 7;
    let disk = SimDisk::new(seed, Faults::default());
    let mut world = World::open(&disk, seed, 0).unwrap();
    (0..60).for_each(|_| {
        world.write();
        world.work();
    });
    assert!(world.rest());
    world.catch_up();
    // From here on a program that knows no index: what is behind the cut is compacted.
    world.log.reader().index_bound().lift();
    for _ in 0..400 {
        world.write();
        world.log.seal();
    }
    world.rest_without_index();
    world.close();
    let mut world = World::open(&disk, seed, 1).unwrap();
    let stepped = loop {
        match world.index.step(true) {
            Ok(indexing::Step::Worked) => {}
            stepped => break stepped,
        }
    };
    assert!(stepped.is_err_and(|error| error.is_final()), "what was compacted may be missed");
    world.index.begin_anew().unwrap();
    world.catch_up();
    assert_eq!(world.indexed(), world.expected());
}

#[test]
fn a_compaction_that_waits_for_a_cut_gets_it() {
    let disk = SimDisk::new(3, Faults::default());
    // No cut has any other reason.
    let mut world = World::open_with(&disk, 3, 0, u64::MAX).unwrap();
    for _ in 0..300 {
        world.write();
        world.log.seal();
    }
    assert!(world.rest());
    assert_ne!(world.log.stats().compactions, 0);
    assert_ne!(world.index.cut(), base::Lsn::ZERO);
}
