//! Segments that are written over zeros: the crashes and failures of `crash`, with zeros prepared, taken, written over
//! and cut, and the policy changing in between. The seeds are its own, from [`FIRST_SEED`] on.
//!
//! # What these tests see
//!
//! Each of these rules was broken on purpose, and each time some of these tests failed: see ADR 53.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use base::{DbId, Lsn, Record, RecordAddr, RecordKind};
use env::{Access, Disk};
use env_sim::{Faults, SimClock, SimDisk, SimEntropy};
use redo::{
    Env, Flusher, Health, Log, Opened, Options, Preparer, Recovery, Step, SyncPolicy, segment,
};

use crate::crash::harness::{Shape, World};
use crate::crash::indexed::Indexed;

/// These seeds are of no other test.
const FIRST_SEED: u64 = 22_000_000_000;

fn seeds(count: u64) -> Range<u64> {
    let number = |name| std::env::var(name).ok().and_then(|value: String| value.parse().ok());
    match (number("INDELIBLE_SEED"), number("INDELIBLE_SEEDS")) {
        (Some(seed), _) => seed..seed + 1,
        (None, times) => FIRST_SEED..FIRST_SEED + count * times.unwrap_or(1),
    }
}

fn over_zeros(rng: &mut SimEntropy) -> Shape {
    let shape = Shape { policy: SyncPolicy::Always, writes_zeros: true, ..Shape::random(rng) };
    // Some segments are longer than what is prepared for them, most end in a page of it.
    let segment_bytes = if rng.coin() { shape.segment_bytes } else { 3000 + rng.below(12_000) };
    Shape { segment_bytes, ..shape }
}

#[test]
fn what_survives_random_crashes_is_a_prefix_with_all_that_was_acknowledged() {
    let (mut opened_over_zeros, mut compactions) = (0, 0);
    let seeds = seeds(300);
    let count = seeds.end - seeds.start;
    for seed in seeds {
        let mut rng = SimEntropy::new(seed);
        let mut world = World::new(seed, over_zeros(&mut rng));
        world.verifies = seed.is_multiple_of(3);
        world.index = seed.is_multiple_of(4).then(Indexed::new);
        for _ in 0..5 {
            let mut running = world.recover(if rng.below(3) == 0 { 2 } else { 0 });
            let ios = 1 + rng.below(160);
            world.disk.crash_after(if rng.below(4) == 0 { u64::MAX / 4 } else { ios });
            world.live(&mut running, 300);
            world.end_life(running);
        }
        drop(world.recover(0));
        opened_over_zeros += world.over_zeros;
        compactions += world.compactions;
    }
    assert!(count < 100 || opened_over_zeros > 10 * count, "over zeros: {opened_over_zeros}");
    assert!(count < 100 || compactions > count / 4, "compactions: {compactions}");
}

#[test]
fn a_crash_is_survived_at_every_single_io() {
    for seed in seeds(2) {
        for devices in 1..=2 {
            let shape = Shape {
                devices,
                policy: SyncPolicy::Always,
                segment_bytes: 900,
                gathered_min: 2,
                invalid_share_min: 0.15,
                changes_devices: false,
                writes_zeros: true,
            };
            for at in 1.. {
                let mut world = World::new(seed, shape.clone());
                let mut running = world.recover(0);
                world.disk.crash_after(at);
                world.live(&mut running, 300);
                let is_over = !world.disk.is_crashed();
                drop(running);
                world.disk.restart();
                drop(world.recover(0));
                if is_over {
                    assert!(at > 100 && world.over_zeros > 10, "seed {seed}: {at} I/Os");
                    break;
                }
            }
        }
    }
}

#[test]
fn failing_reads_writes_and_syncs_lose_nothing_that_was_acknowledged() {
    let (mut read_only, mut opened_over_zeros) = (0, 0);
    let seeds = seeds(200);
    let count = seeds.end - seeds.start;
    for seed in seeds {
        let mut rng = SimEntropy::new(seed);
        let mut world = World::new(seed, over_zeros(&mut rng));
        for _ in 0..4 {
            let mut running = world.recover(0);
            world.live(&mut running, 100);
            world.disk.set_faults(Faults {
                error_per_million: [0, 3_000, 20_000][usize::try_from(rng.below(3)).unwrap()],
                sync_error_per_million: [0, 30_000, 200_000]
                    [usize::try_from(rng.below(3)).unwrap()],
                lack_per_million: [0, 100_000][usize::from(rng.coin())],
                short_reads: rng.coin(),
                ..Faults::default()
            });
            world.live(&mut running, 250);
            read_only += u64::from(matches!(running.log.health(), Health::ReadOnly { .. }));
            world.end_life(running);
            world.disk.set_faults(Faults::default());
        }
        drop(world.recover(0));
        opened_over_zeros += world.over_zeros;
    }
    assert!(count < 100 || (read_only > 10 && opened_over_zeros > count), "{opened_over_zeros}");
}

#[test]
fn a_full_disk_takes_back_what_was_prepared() {
    for seed in seeds(100) {
        let mut rng = SimEntropy::new(seed);
        let mut world = World::new(seed, over_zeros(&mut rng));
        let mut running = world.recover(0);
        world.live(&mut running, 200);
        let capacity_bytes = Some(world.disk.used_bytes() + rng.below(20_000));
        world.disk.set_faults(Faults { capacity_bytes, ..Faults::default() });
        world.live(&mut running, 400);
        if rng.coin() {
            world.end_life(running);
            running = world.recover(0);
            world.live(&mut running, 200);
        }
        world.disk.set_faults(Faults::default());
        running.log.set_policy(SyncPolicy::Always);
        world.settle(&mut running);
        assert_eq!(running.log.health(), Health::Writable, "seed {seed}: by itself");
        assert_eq!(world.ledger.acknowledged, world.ledger.last(), "seed {seed}");
        world.end_life(running);
        drop(world.recover(0));
    }
}

/// A log of one device, stepped by hand.
struct Bench {
    disk: SimDisk,
    clock: SimClock,
    log: Log,
    flusher: Flusher,
    preparer: Preparer,
}

const DEVICE: &str = "/data/redo";

fn open_on(disk: &SimDisk, segment_bytes: u64, zeros_blocks_min: Option<u64>) -> Bench {
    let clock = SimClock::new(1_700_000_000_000);
    let env = Env {
        disk: Arc::new(disk.clone()),
        clock: Arc::new(clock.clone()),
        entropy: Box::new(SimEntropy::new(7)),
        waker: Arc::new(|| {}),
    };
    let options = Options {
        segment_bytes,
        reserve_bytes: 1000,
        parallel_loaders: false,
        zeros_blocks_min,
        ..Options::new("/data")
    };
    let recovery = Recovery::open(env, options).unwrap();
    let Opened { log, mut flushers, .. } = recovery.run(&mut Nothing, &mut |_| {}).unwrap();
    let preparer = log.preparer();
    Bench { disk: disk.clone(), clock, log, flusher: flushers.remove(0), preparer }
}

struct Nothing;

impl redo::Replay for Nothing {
    fn apply(&mut self, _: &Record<'_>, _: RecordAddr, _: Lsn, _: &mut Vec<RecordAddr>) {}
    fn finish(&mut self, _: &mut Vec<RecordAddr>) {}
}

impl Bench {
    fn write(&mut self, value_bytes: usize) {
        self.queue(value_bytes);
        self.flush();
    }

    /// The first block has the flusher see that its segment grows, the second begins another one.
    fn write_until_over_zeros(&mut self) {
        (0..2).for_each(|_| self.write(10));
        assert!(self.is_over_zeros());
    }

    fn queue(&mut self, value_bytes: usize) {
        let value = vec![b'v'; value_bytes];
        let record = Record::whole(RecordKind::String, DbId(0), b"key", &value, None);
        self.log.append(&record);
        self.log.seal().unwrap();
    }

    fn flush(&mut self) {
        while self.flusher.step() == Step::Worked {}
        self.log.poll();
    }

    /// Lets the preparer do all that there is to do now.
    fn prepare(&mut self) {
        for _ in 0..20 {
            self.preparer.step();
            self.clock.advance_ms(30);
        }
    }

    fn is_over_zeros(&self) -> bool {
        self.log.stats().devices[0].is_over_zeros
    }

    fn has_spare(&self) -> bool {
        self.log.stats().devices[0].has_spare
    }

    /// The length of the newest segment.
    fn newest_len(&self) -> u64 {
        let names = self.disk.list(Path::new(DEVICE)).unwrap();
        let mut segments = names
            .into_iter()
            .filter(|name| segment::parse_file_name(name.to_str().unwrap()).is_some());
        let path = Path::new(DEVICE).join(segments.next_back().unwrap());
        self.disk.open(&path, Access::Read).unwrap().len().unwrap()
    }
}

fn disk() -> SimDisk {
    SimDisk::new(3, Faults::default())
}

#[test]
fn a_segment_that_grows_is_ended_for_zeros_which_are_cut_at_its_end() {
    let mut bench = open_on(&disk(), 20_000, Some(2));
    bench.write(10);
    bench.prepare();
    assert!(!bench.has_spare(), "a device that is hardly written to needs none");
    bench.write(10);
    bench.prepare();
    assert!(bench.has_spare() && !bench.is_over_zeros());
    bench.write_until_over_zeros();
    assert!(bench.is_over_zeros() && !bench.has_spare());
    let len = bench.newest_len();
    assert!(len >= 20_000 && len.is_multiple_of(4096), "{len}");
    // A commit is a write and what makes it durable, and changes no length.
    let before = bench.disk.io_count();
    bench.write(100);
    assert_eq!((bench.disk.io_count() - before, bench.newest_len()), (2, len));
    bench.prepare();
    assert!(bench.has_spare(), "for the segment after it");
    bench.log.shutdown();
    while bench.flusher.step() != Step::Finished {}
    while bench.preparer.step() != Step::Finished {}
    assert!(bench.newest_len() < 2000, "{}", bench.newest_len());
    assert!(!bench.disk.exists(&segment::spare_path(Path::new(DEVICE))).unwrap());
}

#[test]
fn nothing_is_prepared_unless_every_write_is_synced_and_it_is_wanted() {
    let mut bench = open_on(&disk(), 20_000, Some(1));
    bench.log.set_policy(SyncPolicy::EverySec);
    bench.write(10);
    bench.prepare();
    assert!(!bench.has_spare());
    bench.log.set_policy(SyncPolicy::Always);
    bench.log.set_writes_zeros(false);
    bench.prepare();
    assert!(!bench.has_spare());
    bench.log.set_writes_zeros(true);
    bench.prepare();
    assert!(bench.has_spare());
    // It is given up when it is not wanted any more.
    bench.log.set_writes_zeros(false);
    bench.clock.advance_ms(2000);
    bench.prepare();
    assert!(!bench.has_spare());
    assert!(!bench.disk.exists(&segment::spare_path(Path::new(DEVICE))).unwrap());
}

#[test]
fn a_write_that_fits_without_what_is_prepared_is_not_refused() {
    let mut bench = open_on(&disk(), 200_000, Some(1));
    bench.write(10);
    bench.prepare();
    assert!(bench.has_spare());
    // Only what is prepared is in the way of a block that is longer than a segment.
    let used_bytes = bench.disk.used_bytes();
    let faults = Faults { capacity_bytes: Some(used_bytes + 500), ..Faults::default() };
    bench.disk.set_faults(faults);
    bench.write(230_000);
    let stats = bench.log.stats();
    assert_eq!(stats.durable_lsn.next(), stats.open_lsn, "{:?}", stats.devices);
    assert_eq!(bench.log.health(), Health::Writable);
    assert!(!bench.has_spare());
}

#[test]
fn a_device_that_has_failed_is_left_alone() {
    let mut bench = open_on(&disk(), 20_000, Some(1));
    bench.write(10);
    bench.preparer.step();
    bench.disk.set_faults(Faults { sync_error_per_million: 1_000_000, ..Faults::default() });
    bench.write(10);
    assert!(matches!(bench.log.health(), Health::ReadOnly { .. }));
    bench.disk.set_faults(Faults::default());
    let before = bench.disk.io_count();
    bench.clock.advance_ms(20_000);
    bench.prepare();
    bench.log.shutdown();
    while bench.preparer.step() != Step::Finished {}
    assert_eq!(bench.disk.io_count(), before, "nothing is written, synced or removed");
}

#[test]
fn zeros_that_were_removed_by_other_hands_are_done_without() {
    let mut bench = open_on(&disk(), 20_000, Some(1));
    bench.write(10);
    bench.prepare();
    assert!(bench.has_spare());
    bench.disk.remove(&segment::spare_path(Path::new(DEVICE))).unwrap();
    (0..3).for_each(|_| bench.write(10));
    assert_eq!(bench.log.health(), Health::Writable);
    assert!(!bench.is_over_zeros());
    bench.prepare();
    assert!(bench.has_spare(), "new ones are made");
}

#[test]
fn a_start_without_any_of_this_reads_what_was_written_over_zeros() {
    let disk = disk();
    let mut bench = open_on(&disk, 20_000, Some(1));
    bench.write(10);
    bench.prepare();
    bench.write_until_over_zeros();
    for _ in 0..10 {
        bench.write(700);
    }
    assert!(bench.is_over_zeros());
    let last = bench.log.durable_lsn();
    bench.prepare();
    assert!(bench.has_spare());
    drop(bench);
    disk.crash();
    let bench = open_on(&disk, 20_000, None);
    assert_eq!(bench.log.durable_lsn(), last);
    assert!(!disk.exists(&segment::spare_path(Path::new(DEVICE))).unwrap(), "it is removed");
}
