//! Crashes, failing devices, full disks and turned bits, judged by a ledger.
//!
//! The ledger knows the state after every block and what was acknowledged. Whatever happens, a
//! recovery must come to the state after *some* block, not before the last acknowledged one and
//! not after the last one written: everything acknowledged is there, nothing deleted comes back, no
//! block is there in part or without those before it, and no record has moved.
//!
//! `INDELIBLE_SEEDS=50` runs fifty times as many seeds; `INDELIBLE_SEED=7` runs seed 7 alone.
//!
//! # What these tests see
//!
//! Each of these rules was broken on purpose, and each time some of these tests failed:
//! - a compaction's rename waits until what has set the bits of its bitmap is durable;
//! - a compacted file is synced before its rename, and the directory after it;
//! - delete records stay while an older record of their entry may be in a file; garbage from
//!   before the copy of the bitmap counts, that of a failed compaction too, and what recovery has
//!   retired counts from the LSN that retired it;
//! - the horizon is in the manifest before a segment is removed; the manifest is synced;
//! - the log ends at the first missing block, and what is behind it is cut off physically;
//! - blocks are synced before they are acknowledged, and before the footer that counts them;
//! - a new segment's name is durable before its first block is;
//! - a failed sync is final: never tried again, its blocks written to another device, each applied
//!   once, and the end of the log written anew by the next recovery, whatever the cache shows;
//! - a block's checksum is checked.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "crash/harness.rs"]
pub(crate) mod harness;
#[path = "crash/image.rs"]
pub(crate) mod image;
#[path = "crash/indexed.rs"]
pub(crate) mod indexed;
#[path = "crash/model.rs"]
mod model;
#[path = "crash/workload.rs"]
mod workload;

use std::ops::Range;

use base::Lsn;
use env_sim::{Faults, SimEntropy};
use redo::{Health, SyncPolicy};

use harness::{Running, Shape, World};
use image::{Image, is_segment};
use indexed::Indexed;

/// The length of a segment's header, which the format document gives.
const HEADER_BYTES: usize = 128;

/// The seeds to run: `count` of them unless the environment says otherwise.
fn seeds(count: u64) -> Range<u64> {
    let number = |name| std::env::var(name).ok().and_then(|value: String| value.parse().ok());
    match (number("INDELIBLE_SEED"), number("INDELIBLE_SEEDS")) {
        (Some(seed), _) => seed..seed + 1,
        (None, times) => 0..count * times.unwrap_or(1),
    }
}

/// Several lives of one database, each ending somewhere. A hash of all that it did.
fn several_lives(seed: u64) -> (u64, World) {
    let mut rng = SimEntropy::new(seed);
    let shape = Shape::random(&mut rng);
    let mut world = World::new(seed, shape);
    world.verifies = seed.is_multiple_of(3);
    for _ in 0..5 {
        let crashes = if rng.below(3) == 0 { 2 } else { 0 };
        let mut running = world.recover(crashes);
        let ios = 1 + rng.below(120);
        world.disk.crash_after(if rng.below(4) == 0 { u64::MAX / 4 } else { ios });
        world.live(&mut running, 250);
        world.end_life(running);
    }
    drop(world.recover(0));
    (world.disk.trace_hash(), world)
}

#[test]
fn what_survives_random_crashes_is_a_prefix_with_all_that_was_acknowledged() {
    let (mut compactions, mut gathered, mut cut_blocks, mut device_changes) = (0, 0, 0, 0);
    let mut marks_read = 0;
    let seeds = seeds(400);
    let count = seeds.end - seeds.start;
    for seed in seeds {
        let (_, world) = several_lives(seed);
        compactions += world.compactions;
        gathered += world.gathered;
        device_changes += world.device_changes;
        marks_read += world.marks_read;
        cut_blocks += world.cut_blocks;
    }
    assert!(count < 100 || compactions > count, "compactions were part of it: {compactions}");
    assert!(count < 100 || gathered > 0, "files with several segments were: {gathered}");
    assert!(count < 100 || device_changes > count / 2, "devices came and went: {device_changes}");
    assert!(count < 100 || marks_read > count, "marks were read: {marks_read}");
    assert!(count < 100 || cut_blocks > 0, "blocks behind a missing one were part of it");
}

/// Several lives of a database with an index, from which some of them start. Each recovery is done
/// both ways on copies of the disk.
fn indexed_lives(seed: u64) -> World {
    let mut rng = SimEntropy::new(seed);
    let shape = Shape::random(&mut rng);
    let mut world = World::new(seed, shape);
    world.index = Some(Indexed::new());
    for _ in 0..6 {
        let crashes = if rng.below(3) == 0 { 2 } else { 0 };
        let mut running = world.recover(crashes);
        let ios = 1 + rng.below(120);
        world.disk.crash_after(if rng.below(2) == 0 { u64::MAX / 4 } else { ios });
        world.live(&mut running, 250);
        if !world.disk.is_crashed() && rng.coin() {
            world.check_validity(&mut running);
        }
        world.end_life(running);
    }
    drop(world.recover(0));
    world
}

#[test]
fn a_start_behind_the_cut_of_an_index_is_as_good_as_one_that_reads_everything() {
    let (mut compactions, mut starts, mut validities, mut marks_read) = (0, 0, 0, 0);
    let seeds = seeds(300);
    let count = seeds.end - seeds.start;
    for seed in seeds {
        let world = indexed_lives(seed);
        compactions += world.compactions;
        starts += world.starts_behind;
        validities += world.validities;
        marks_read += world.marks_read;
    }
    assert!(count < 100 || compactions > count / 2, "compactions were part of it: {compactions}");
    assert!(count < 100 || starts > count, "starts from the index were: {starts}");
    assert!(count < 100 || validities > count, "validity became known: {validities}");
    assert!(count < 100 || marks_read > count / 2, "marks were read: {marks_read}");
}

#[test]
fn the_same_seed_is_the_same_run() {
    let first: Vec<u64> = (0..10).map(|seed| several_lives(seed).0).collect();
    let second: Vec<u64> = (0..10).map(|seed| several_lives(seed).0).collect();
    assert_eq!(first, second);
    assert!(first.windows(2).all(|pair| pair[0] != pair[1]), "another seed is another run");
}

#[test]
fn a_crash_is_survived_at_every_single_io() {
    for seed in seeds(2) {
        for devices in 1..=2 {
            let shape = Shape {
                devices,
                policy: SyncPolicy::Always,
                segment_bytes: 700,
                gathered_min: 2,
                invalid_share_min: 0.15,
                changes_devices: false,
                writes_zeros: false,
            };
            let mut at = 1;
            loop {
                let mut world = World::new(seed, shape.clone());
                let mut running = world.recover(0);
                world.disk.crash_after(at);
                world.live(&mut running, 300);
                let is_over = !world.disk.is_crashed();
                drop(running);
                world.disk.restart();
                drop(world.recover(0));
                if is_over {
                    break;
                }
                at += 1;
            }
            assert!(at > 100, "seed {seed}: the trace has only {at} I/Os");
        }
    }
}

/// A life that ends by a crash at its `at`-th I/O; whether it came to that.
fn life_until(world: &mut World, at: u64) -> bool {
    let mut running = world.recover(0);
    world.disk.crash_after(at);
    world.live(&mut running, 300);
    let is_crashed = world.disk.is_crashed();
    drop(running);
    world.disk.restart();
    is_crashed
}

#[test]
fn a_recovery_can_itself_crash_at_every_single_io() {
    let mut longest = 0;
    for seed in seeds(2) {
        for (devices, step) in [(1, 11), (3, 13)] {
            let shape = Shape {
                devices,
                policy: SyncPolicy::Always,
                segment_bytes: 700,
                gathered_min: 2,
                invalid_share_min: 0.15,
                changes_devices: false,
                writes_zeros: false,
            };
            // Some of these recoveries start from an index.
            let new_world = || {
                let mut world = World::new(seed, shape.clone());
                world.index = (devices > 1).then(Indexed::new);
                world
            };
            let mut life = 5;
            while life_until(&mut new_world(), life) {
                for at in 1.. {
                    let mut world = new_world();
                    life_until(&mut world, life);
                    world.disk.crash_after(at);
                    // What an interrupted recovery came to is not a promise yet.
                    let is_over = world.open().is_ok();
                    world.disk.restart();
                    drop(world.recover(0));
                    if is_over {
                        longest = longest.max(at);
                        break;
                    }
                }
                life += step;
            }
        }
    }
    assert!(longest > 10, "recoveries change something: {longest} I/Os");
}

/// Several lives on a disk that fails. How often the log went on, and how often it stopped.
fn failing_lives(seed: u64) -> (u32, u32) {
    let (mut rerouted, mut read_only) = (0, 0);
    let mut rng = SimEntropy::new(seed);
    let shape = Shape::random(&mut rng);
    let mut world = World::new(seed, shape);
    world.index = seed.is_multiple_of(2).then(Indexed::new);
    for _ in 0..4 {
        let mut running = world.recover(0);
        world.live(&mut running, 60);
        world.disk.set_faults(Faults {
            error_per_million: [0, 3_000, 20_000][usize::try_from(rng.below(3)).unwrap()],
            sync_error_per_million: [0, 30_000, 200_000][usize::try_from(rng.below(3)).unwrap()],
            short_reads: rng.coin(),
            ..Faults::default()
        });
        world.live(&mut running, 250);
        let is_poisoned =
            |running: &Running| running.log.stats().devices.iter().any(|d| d.last_error.is_some());
        match running.log.health() {
            Health::Writable if is_poisoned(&running) => rerouted += 1,
            Health::ReadOnly { .. } => read_only += 1,
            _ => {}
        }
        world.end_life(running);
        if rng.coin() {
            world.disk.set_faults(Faults::default());
        }
    }
    world.disk.set_faults(Faults::default());
    drop(world.recover(0));
    (rerouted, read_only)
}

#[test]
fn failing_reads_writes_and_syncs_lose_nothing_that_was_acknowledged() {
    let (mut rerouted, mut read_only) = (0, 0);
    let seeds = seeds(400);
    let count = seeds.end - seeds.start;
    for seed in seeds {
        let (went_on, stopped) = failing_lives(seed);
        rerouted += went_on;
        read_only += stopped;
    }
    assert!(count < 100 || (rerouted > 10 && read_only > 10), "{rerouted}, {read_only}");
}

#[test]
fn the_log_goes_on_without_a_device_that_has_failed() {
    for seed in seeds(40) {
        let shape = Shape {
            devices: 2,
            policy: SyncPolicy::Always,
            segment_bytes: 1000,
            gathered_min: 2,
            invalid_share_min: 0.15,
            changes_devices: false,
            writes_zeros: false,
        };
        let mut world = World::new(seed, shape);
        world.index = seed.is_multiple_of(2).then(Indexed::new);
        let mut running = world.recover(0);
        world.live(&mut running, 100);
        world.disk.break_dir(&World::device(0));
        world.live(&mut running, 200);
        world.settle(&mut running);
        assert_eq!(running.log.health(), Health::Writable, "seed {seed}");
        assert_eq!(world.ledger.acknowledged, world.ledger.last(), "seed {seed}: rerouted");
        world.disk.mend_dir(&World::device(0));
        drop(running);
        world.disk.crash();
        let mut running = world.recover(0);
        world.live(&mut running, 200);
        world.end_life(running);
        drop(world.recover(0));
    }
}

#[test]
fn without_any_device_the_log_is_read_only_until_it_is_started_again() {
    for seed in seeds(40) {
        let shape = Shape {
            devices: 1,
            policy: SyncPolicy::Always,
            segment_bytes: 1000,
            gathered_min: 2,
            invalid_share_min: 0.15,
            changes_devices: false,
            writes_zeros: false,
        };
        let mut world = World::new(seed, shape);
        let mut running = world.recover(0);
        world.live(&mut running, 100);
        world.disk.set_faults(Faults { sync_error_per_million: 1_000_000, ..Faults::default() });
        for _ in 0..10_000 {
            if running.log.health() != Health::Writable {
                break;
            }
            world.live(&mut running, 1);
        }
        world.disk.set_faults(Faults::default());
        let acknowledged = world.ledger.acknowledged;
        world.live(&mut running, 100);
        assert!(matches!(running.log.health(), Health::ReadOnly { .. }), "seed {seed}");
        assert_eq!(world.ledger.acknowledged, acknowledged, "seed {seed}: a later sync lies");
        drop(running);
        world.disk.crash();
        let mut running = world.recover(0);
        world.live(&mut running, 50);
        world.settle(&mut running);
        assert_eq!(world.ledger.acknowledged, world.ledger.last(), "seed {seed}: it goes on");
    }
}

#[test]
fn a_full_disk_refuses_writes_and_takes_them_again_when_there_is_room() {
    let mut full = 0;
    let seeds = seeds(100);
    for seed in seeds {
        let mut rng = SimEntropy::new(seed);
        let shape = Shape { policy: SyncPolicy::Always, ..Shape::random(&mut rng) };
        let mut world = World::new(seed, shape);
        let mut running = world.recover(0);
        world.live(&mut running, 100);
        let capacity_bytes = Some(world.disk.used_bytes() + rng.below(5000));
        world.disk.set_faults(Faults { capacity_bytes, ..Faults::default() });
        world.live(&mut running, 400);
        full += u64::from(matches!(running.log.health(), Health::DiskFull { .. }));
        if rng.coin() {
            // Dying while the disk is full, and starting while it still is, or not.
            world.end_life(running);
            running = world.recover(0);
            world.live(&mut running, 200);
        }
        world.disk.set_faults(Faults::default());
        world.settle(&mut running);
        assert_eq!(running.log.health(), Health::Writable, "seed {seed}: by itself");
        assert_eq!(world.ledger.acknowledged, world.ledger.last(), "seed {seed}");
        let before = world.ledger.last();
        world.live(&mut running, 100);
        assert!(world.ledger.last() > before, "seed {seed}: writes are taken again");
        world.end_life(running);
        drop(world.recover(0));
    }
    assert!(full > 0, "disks were full: {full}");
}

#[test]
fn a_failed_compaction_forgets_nothing() {
    let mut failed = 0;
    let seeds = seeds(150);
    let count = seeds.end - seeds.start;
    for seed in seeds {
        let mut rng = SimEntropy::new(seed);
        let shape = Shape { policy: SyncPolicy::Always, ..Shape::random(&mut rng) };
        let mut world = World::new(seed, shape);
        let mut running = world.recover(0);
        for _ in 0..4 {
            world.live(&mut running, 100);
            // Only the compactor meets the fault: a disk that is full, or one that fails.
            let (error_per_million, capacity_bytes) =
                if rng.coin() { (300_000, None) } else { (0, Some(0)) };
            for _ in 0..30 {
                let faults = Faults { error_per_million, capacity_bytes, ..Faults::default() };
                world.disk.set_faults(faults);
                running.compactor.step();
                world.disk.set_faults(Faults::default());
                world.tick(&mut running);
                world.poll(&mut running);
            }
            // Long enough for the schedule to try again.
            (0..40).for_each(|_| world.tick(&mut running));
            world.live(&mut running, 100);
            if rng.coin() {
                failed += running.log.stats().compactions_failed;
                world.end_life(running);
                running = world.recover(0);
            }
        }
        world.end_life(running);
        drop(world.recover(0));
    }
    assert!(count < 100 || failed > 100, "compactions have failed: {failed}");
}

#[test]
fn a_misdirected_write_is_found_out_or_does_no_harm() {
    let mut refused = 0;
    let seeds = seeds(200);
    let count = seeds.end - seeds.start;
    for seed in seeds {
        let mut rng = SimEntropy::new(seed);
        let mut world = World::new(seed, Shape::random(&mut rng));
        let mut running = world.recover(0);
        world.live(&mut running, 50);
        world.disk.set_faults(Faults { misdirect_per_million: 20_000, ..Faults::default() });
        world.live(&mut running, 150);
        world.disk.set_faults(Faults::default());
        drop(running);
        world.disk.crash();
        // The device has lied: what it has swallowed at the very end cannot be missed, and the
        // state may be that of an earlier block. It must be a state that was.
        world.ledger.acknowledged = Lsn::ZERO;
        match world.open() {
            Ok((running, lsn)) => {
                let judgement = world.ledger.judge(lsn, &running.executor.model);
                assert_eq!(judgement, Ok(()), "seed {seed}");
            }
            Err(_) => refused += 1,
        }
    }
    assert!(count < 100 || refused > 10, "logs were refused: {refused}");
}

/// A log with a bit of everything: compacted segments, sealed ones, and one that takes blocks.
fn small_log(seed: u64, devices: usize, ends_in_good_order: bool) -> (World, Image) {
    let shape = Shape {
        devices,
        policy: SyncPolicy::Always,
        segment_bytes: 500,
        gathered_min: 2,
        invalid_share_min: 0.15,
        changes_devices: false,
        writes_zeros: false,
    };
    let mut world = World::new(seed, shape);
    let mut running = world.recover(0);
    world.live(&mut running, 250);
    world.settle(&mut running);
    for _ in 0..3 {
        // Block by block, so that each says of the one before it that it is durable.
        world.block(&mut running);
        world.settle(&mut running);
    }
    assert!(running.log.stats().compactions > 0, "seed {seed}");
    if ends_in_good_order {
        assert!(world.shut_down(running));
    }
    world.disk.crash();
    let image = Image::take(&world.disk, devices);
    (world, image)
}

/// Opens a damaged log: it must be refused, and left alone, or come to a state that was.
fn open_damaged(world: &World, image: &Image, lost_max: u64, what: &str) -> bool {
    let mut damaged = World::on(image.restore(), world.seed, world.shape.clone());
    let mut ledger = world.ledger.clone();
    ledger.acknowledged = Lsn(ledger.acknowledged.0 - lost_max);
    match damaged.open() {
        Ok((running, lsn)) => {
            if let Err(wrong) = ledger.judge(lsn, &running.executor.model) {
                panic!("seed {}: {what} is served: {wrong}", world.seed);
            }
            false
        }
        Err(error) => {
            let report = World::on(image.restore(), world.seed, world.shape.clone()).verify();
            assert!(!report.is_good(), "seed {}: {what}: {error}, and verify is happy", world.seed);
            let left = Image::take(&damaged.disk, world.shape.devices);
            assert!(left == *image, "seed {}: {what}: evidence was changed", world.seed);
            true
        }
    }
}

/// Flips a bit of every byte of every file.
fn sweep(seed: u64, devices: usize, ends_in_good_order: bool, lost_max: u64) {
    let (world, image) = small_log(seed, devices, ends_in_good_order);
    let (mut detected, mut tried) = (0, 0);
    assert!(!open_damaged(&world, &image, 0, "nothing"));
    for (index, (path, bytes)) in image.files.iter().enumerate() {
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1 << (at % 8);
            let what = format!("{} with byte {at} damaged", path.display());
            let image = image.with(index, Some(damaged));
            let is_refused = open_damaged(&world, &image, lost_max, &what);
            let is_reported = is_refused || {
                let report = World::on(image.restore(), seed, world.shape.clone()).verify();
                !report.is_good() || !report.notes.is_empty()
            };
            assert!(is_reported, "seed {seed}: {what} is seen by nobody");
            detected += usize::from(is_refused);
            tried += 1;
        }
    }
    // What is not detected does no harm: a footer is written anew, a last block was not sealed.
    assert!(detected * 2 > tried, "seed {seed}: {detected} of {tried} were detected");
}

#[test]
fn no_damaged_byte_is_ever_served() {
    for seed in seeds(1) {
        sweep(seed, 1, true, 0);
        sweep(seed, 2, true, 0);
        sweep(seed, 2, false, 1);
    }
}

#[test]
fn a_segment_cut_short_is_never_served() {
    for seed in seeds(1) {
        let (world, image) = small_log(seed, 2, true);
        for (index, (path, bytes)) in image.files.iter().enumerate() {
            if !is_segment(path) {
                continue;
            }
            // The newest segment of a device is allowed to have been begun and never used.
            let mut later = image.files.iter().skip(index + 1);
            let has_later =
                later.any(|(other, _)| is_segment(other) && other.parent() == path.parent());
            let start = if has_later { 0 } else { HEADER_BYTES + 1 };
            for len in (start..bytes.len()).step_by(3) {
                let what = format!("{} cut to {len} bytes", path.display());
                let image = image.with(index, Some(bytes[..len].to_vec()));
                open_damaged(&world, &image, 0, &what);
            }
        }
    }
}

#[test]
#[ignore = "takes as long as it is given: cargo xtask soak --tests"]
fn lives_go_on_for_as_long_as_there_is_time() {
    let number = |name| std::env::var(name).ok().and_then(|value: String| value.parse().ok());
    let seconds = number("INDELIBLE_SOAK_SECONDS").unwrap_or(60);
    let begun = std::time::Instant::now();
    let mut seed: u64 = number("INDELIBLE_SEED").unwrap_or(0);
    while begun.elapsed().as_secs() < seconds {
        several_lives(seed);
        failing_lives(seed);
        seed = seed.wrapping_add(1);
    }
}
