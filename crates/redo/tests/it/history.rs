//! History: the log read as it was after any block that it says it can tell.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use base::Lsn;
use env::Disk;
use env_sim::sweep::{disk_of, image_of};
use env_sim::{Faults, SimDisk, SimEntropy};
use redo::manifest::Manifest;
use redo::{Error, HistoryOptions, Options, Reach, StoredLog, SyncPolicy};

use crate::harness::{Counter, Database, Keyspace, index, key, options};

pub(crate) type Contents = BTreeMap<Vec<u8>, Vec<u8>>;

pub(crate) const ALL: HistoryOptions = HistoryOptions::ALL;

const DIR: &str = "/data";

pub(crate) fn world_options(seed: u64) -> Options {
    let mut options = options(Path::new(DIR));
    options.devices = (0..1 + seed % 3).map(|n| PathBuf::from(format!("/disk{n}"))).collect();
    options.segment_bytes = if seed.is_multiple_of(2) { 2000 } else { 20_000 };
    options.policy = [SyncPolicy::Always, SyncPolicy::No][index(seed / 2 % 2)];
    options.compaction.invalid_count_min = 2;
    options.compaction.invalid_share_min = if seed.is_multiple_of(2) { 0.2 } else { 0.6 };
    options.compaction.garbage_share_min = 0.0;
    options.compaction.gathered_min = 3;
    options.history = ALL;
    options
}

/// What the log on this disk says of its past, and the state after a block.
pub(crate) fn stored(disk: &SimDisk) -> StoredLog {
    StoredLog::open(Arc::new(disk.clone()), Path::new(DIR), &[]).unwrap().expect("a log")
}

/// What another process would find there if this one died now.
pub(crate) fn copy(disk: &SimDisk) -> SimDisk {
    let devices = (0..3).map(|number| PathBuf::from(format!("/disk{number}")));
    let mut dirs = vec![PathBuf::from(DIR)];
    dirs.extend(devices.flat_map(|device| [device.join("history"), device]));
    let dirs: Vec<&Path> = dirs.iter().map(PathBuf::as_path).collect();
    disk_of(&image_of(disk, &dirs))
}

fn as_of(disk: &SimDisk, lsn: u64) -> redo::Result<Contents> {
    let log = stored(disk).into_as_of(Lsn(lsn))?;
    let mut keyspace = Keyspace::default();
    let end = log.read(Lsn::ZERO, &mut keyspace, &mut |_| {})?;
    assert_eq!(end.last_lsn, Lsn(lsn));
    Ok(keyspace.contents())
}

/// The state after each block, as it was written.
#[derive(Default, Clone)]
pub(crate) struct Ledger {
    states: BTreeMap<u64, Contents>,
}

impl Ledger {
    pub(crate) fn at(&self, lsn: u64) -> &Contents {
        self.states.get(&lsn).unwrap_or_else(|| panic!("no state of {lsn}"))
    }

    pub(crate) fn lsns(&self) -> impl Iterator<Item = u64> {
        self.states.keys().copied()
    }

    pub(crate) fn len(&self) -> usize {
        self.states.len()
    }

    pub(crate) fn note(&mut self, database: &Database) {
        let last = database.log.open_lsn().0 - 1;
        self.states.insert(last, database.keyspace.contents());
    }

    /// Reads the log as it was after some blocks up to `last`, all that it can tell for a step of one; how many
    /// there were. And asks for some that it cannot tell.
    fn check(&self, disk: &SimDisk, last: u64, step: usize, what: &str) -> usize {
        let Reach { floor, points, .. } = stored(disk).reach();
        let mut asked: BTreeSet<u64> = (floor.0..=last).rev().step_by(step).collect();
        asked.extend(points.iter().map(|point| point.lsn.0));
        for lsn in &asked {
            let found = as_of(disk, *lsn).unwrap_or_else(|error| panic!("{what}, {lsn}: {error}"));
            assert_eq!(&found, self.states.get(lsn).unwrap_or(&Contents::new()), "{what}, {lsn}");
        }
        for lsn in (0..floor.0).filter(|lsn| !asked.contains(lsn)).take(3) {
            let error = as_of(disk, lsn).unwrap_err();
            assert!(matches!(error, Error::OutOfReach { .. }), "{what}, {lsn}: {error}");
        }
        let error = as_of(disk, self.states.keys().last().map_or(1, |last| last + 1));
        assert!(matches!(error, Err(Error::BehindEnd { .. })), "{what}: {error:?}");
        asked.len()
    }
}

pub(crate) struct World {
    seed: u64,
    pub(crate) disk: SimDisk,
    pub(crate) database: Database,
    rng: SimEntropy,
    pub(crate) ledger: Ledger,
    /// The blocks before everything was cleared.
    pub(crate) points: Vec<u64>,
}

impl World {
    pub(crate) fn new(seed: u64, options: Options) -> Self {
        let disk = SimDisk::new(seed, Faults::default());
        let database = Database::open_on(Arc::new(disk.clone()), options).unwrap();
        let (rng, mut ledger) = (SimEntropy::new(seed), Ledger::default());
        ledger.note(&database);
        Self { seed, disk, database, rng, ledger, points: Vec::new() }
    }

    pub(crate) fn write(&mut self) {
        for _ in 0..=self.rng.below(8) {
            let name = key(index(self.rng.below(60)));
            if self.rng.below(4) == 0 {
                self.database.delete(&name);
            } else {
                let lsn = self.database.log.open_lsn();
                let value = vec![b'a' + (lsn.0 % 26) as u8; index(self.rng.below(70))];
                self.database.set(&name, &value);
            }
        }
        self.database.log.seal();
        self.ledger.note(&self.database);
    }

    /// Everything goes, and a point says so.
    pub(crate) fn clear(&mut self) {
        self.database.log.seal();
        self.database.log.note_point();
        self.points.push(self.database.log.open_lsn().0 - 1);
        let names: Vec<Vec<u8>> = self.database.keyspace.entries.keys().cloned().collect();
        names.iter().for_each(|name| self.database.delete(name));
        self.database.log.seal();
        self.ledger.note(&self.database);
    }

    pub(crate) fn step(&mut self) {
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
            17 if self.rng.below(20) == 0 => self.clear(),
            _ => {
                let sealed = Lsn(database.log.open_lsn().0 - 1);
                database.log.request_sync(sealed);
                if self.rng.below(6) == 0 {
                    database.log.compact_all();
                }
            }
        }
        self.database.log.poll();
    }

    /// Looks at a copy of the disk, as another process would after this one has died.
    pub(crate) fn check(&self, step: usize) -> usize {
        let last = self.database.log.durable_lsn().0;
        self.ledger.check(&copy(&self.disk), last, step, &format!("seed {}", self.seed))
    }

    /// Goes on with the log on this disk, which was made of this one's.
    pub(crate) fn go_on(&mut self, disk: SimDisk, options: Options) {
        self.database = Database::open_on(Arc::new(disk.clone()), options).unwrap();
        self.disk = disk;
        let last = self.database.log.open_lsn().0 - 1;
        self.ledger.states.retain(|lsn, _| *lsn <= last);
        self.ledger.note(&self.database);
    }

    /// Starts anew, after a crash perhaps; what comes after the last block that is there has never been.
    pub(crate) fn restart(&mut self, options: Options) {
        self.disk.restart();
        let database = Database::open_on(Arc::new(self.disk.clone()), options).unwrap();
        let last = database.log.open_lsn().0 - 1;
        self.ledger.states.retain(|lsn, _| *lsn <= last);
        assert_eq!(self.ledger.states.last_key_value().unwrap().1, &database.keyspace.contents());
        self.ledger.note(&database);
        self.database = database;
    }
}

#[test]
fn the_log_is_read_as_it_was_after_every_block_since_the_floor() {
    let (mut checked, mut compactions) = (0, 0);
    for seed in 0..24 {
        let mut world = World::new(seed, world_options(seed));
        for round in 0..6 {
            for _ in 0..250 {
                world.step();
            }
            checked += world.check(7);
            if round % 2 == 1 {
                compactions += world.database.log.stats().compactions;
                if world.rng.below(2) == 0 {
                    world.disk.crash();
                } else {
                    world.disk.kill();
                }
                world.restart(world_options(seed));
                assert_eq!(stored(&copy(&world.disk)).reach().floor, Lsn::ZERO, "seed {seed}");
            }
        }
        world.database.settle();
        checked += world.check(1);
    }
    assert!(compactions > 500 && checked > 5000, "{compactions} compactions, {checked} checked");
}

/// An idle compaction at every position: the open block is empty then, and what is read as of the last
/// block is what the compaction has made.
#[test]
fn a_compaction_of_an_idle_log_begins_with_the_last_block() {
    for position in 0..40_u64 {
        let mut options = world_options(0);
        options.compaction.enabled = false;
        let mut world = World::new(position, options);
        for number in 0..40_u64 {
            if number == position {
                world.database.settle();
                world.database.log.compact_all();
                world.database.settle();
            }
            let name = key(index(number % 5));
            if number % 7 == 3 {
                world.database.delete(&name);
            } else {
                world.database.set(&name, &[(number % 251) as u8; 200]);
            }
            world.database.log.seal();
            world.ledger.note(&world.database);
        }
        world.database.settle();
        world.database.log.compact_all();
        world.database.settle();
        assert!(world.database.log.stats().compactions > 0);
        assert_eq!(world.check(1), world.ledger.states.len(), "all of them, and the beginning");
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

pub(crate) fn churned(seed: u64, options: &Options) -> World {
    let mut world = World::new(seed, options.clone());
    for number in 0..60_u64 {
        for name in 0..3 {
            world
                .database
                .set(&key(index((number * 5 + name * 7) % 31)), &[(number % 251) as u8; 90]);
        }
        if number % 6 == 5 {
            world.database.delete(&key(index(number % 31)));
        }
        world.database.flush();
        world.ledger.note(&world.database);
    }
    world
}

/// A compaction fails at some I/O, another one after it is cut off by a crash at some I/O; what is claimed
/// then is so, before the next start, after it, and after a compaction behind that.
#[test]
fn compactions_may_fail_and_crash_at_every_single_io_and_nothing_false_is_claimed() {
    let (mut failed, mut crashes, mut checked) = (0, 0, 0);
    for error_at in 0..30 {
        for crash_at in (1..).step_by(if error_at == 0 { 1 } else { 5 }) {
            let mut options = world_options(2);
            options.devices.truncate(2);
            options.policy = SyncPolicy::Always;
            options.compaction.enabled = false;
            if error_at % 3 == 2 {
                // Some of it is given up meanwhile.
                options.history.bytes_min = 3000;
                options.history.percentage = 0;
            }
            let seed = error_at * 1000 + crash_at;
            let mut world = churned(seed, &options);
            world.database.log.compact_all();
            if error_at > 0 {
                let error_at_io = Some(world.disk.io_count() + error_at * 3);
                world.disk.set_faults(Faults { error_at_io, ..Faults::default() });
                compact_some(&mut world.database);
                world.disk.set_faults(Faults::default());
                failed += world.database.log.stats().compactions_failed;
            }
            world.database.log.note_point();
            world.database.log.compact_all();
            if error_at % 4 == 0 {
                // What is replaced is lost: only the floor says so.
                (0..9).for_each(|number| world.database.set(&key(number), b"another"));
                world.database.log.seal();
                world.ledger.note(&world.database);
                let link_error = Some(28);
                world.disk.set_faults(Faults { link_error, ..Faults::default() });
            }
            world.disk.crash_after(crash_at * 2);
            compact_some(&mut world.database);
            compact_some(&mut world.database);
            let is_over = !world.disk.is_crashed();
            crashes += u64::from(!is_over);
            let what = format!("error at {error_at}, crash at {crash_at}");
            world.disk.set_faults(Faults::default());
            world.disk.restart();
            // Of the last block a crash may have left nothing.
            let last = world.database.log.durable_lsn().0;
            checked += world.ledger.check(&copy(&world.disk), last, 9, &what);
            let before = stored(&copy(&world.disk)).reach();
            world.restart(options.clone());
            let after = stored(&copy(&world.disk)).reach();
            assert_eq!(before.floor, after.floor, "{what}: a start keeps what there is");
            checked += world.ledger.check(&copy(&world.disk), last, 9, &what);
            world.database.set(b"later", b"on");
            world.database.flush();
            world.ledger.note(&world.database);
            world.database.log.compact_all();
            world.database.settle();
            let last = world.database.log.durable_lsn().0;
            checked += world.ledger.check(&copy(&world.disk), last, 9, &what);
            if is_over {
                break;
            }
        }
    }
    assert!(failed > 100 && crashes > 150 && checked > 1500, "{failed}, {crashes}, {checked}");
}

#[test]
fn what_cannot_be_linked_raises_the_floor_and_no_compaction_fails() {
    let mut world = churned(5, &world_options(0));
    for (error, round) in [(28, 0), (31, 1), (95, 2)] {
        world.disk.set_faults(Faults { link_error: Some(error), ..Faults::default() });
        (0..20).for_each(|number| world.database.set(&key(number), &[round; 30]));
        world.database.log.seal();
        world.ledger.note(&world.database);
        world.database.log.compact_all();
        world.database.settle();
        world.disk.set_faults(Faults::default());
        let stats = world.database.log.stats();
        assert!(stats.compactions > 0 && stats.compactions_failed == 0, "{stats:?}");
        assert_eq!(world.database.log.history().files, 0);
        let reach = stored(&copy(&world.disk)).reach();
        assert_eq!(reach.floor, world.database.log.durable_lsn(), "{error}");
        let told = world.database.log.drain_events();
        assert!(round > 0 || told.len() == 1 && told[0].contains("cannot be kept"), "{told:?}");
        assert!(round == 0 || told.is_empty(), "once, until one is kept");
        world.check(1);
    }
}

#[test]
fn what_a_person_removes_raises_the_floor_and_stops_no_start() {
    let dir = tempfile::tempdir().unwrap();
    let mut options = options(dir.path());
    options.history = ALL;
    let mut database = Database::open(options.clone()).unwrap();
    for number in 0..400 {
        database.set(&key(number % 9), &[1; 200]);
        database.flush();
    }
    database.log.compact_all();
    database.settle();
    assert!(database.log.history().files > 0);
    let last = database.log.durable_lsn();
    database.close();
    std::fs::remove_dir_all(dir.path().join("redo/history")).unwrap();
    let disk: Arc<dyn Disk> = Arc::new(env_os::OsDisk);
    let open = || StoredLog::open(Arc::clone(&disk), dir.path(), &[]).unwrap().unwrap();
    assert_eq!(open().reach().floor, last, "also before the next start");
    let mut database = Database::open(options).unwrap();
    let told = database.log.drain_events();
    assert!(told.len() == 1 && told[0].contains("missing or damaged"), "{told:?}");
    let history = database.log.history();
    assert_eq!((history.files, history.from_lsn), (0, last));
    database.set(b"a", b"b");
    database.flush();
}

#[test]
fn a_device_that_leaves_takes_its_history_with_it() {
    let mut options = world_options(1);
    options.segment_bytes = 2000;
    options.devices = vec![PathBuf::from("/disk0"), PathBuf::from("/disk1")];
    let mut world = churned(11, &options);
    world.database.log.compact_all();
    world.database.settle();
    assert!(!world.disk.list(Path::new("/disk0/history")).unwrap().is_empty());
    let left = [PathBuf::from("/disk1")];
    world.database.log.set_devices(&left, &mut Counter(9)).unwrap();
    let (mut rounds, mut checked) = (0, 0);
    while world.database.log.stats().devices.len() > 1 {
        let names = world.disk.list(Path::new("/disk0")).unwrap();
        let mut names = names.iter().filter_map(|name| name.to_str());
        if names.any(|name| redo::segment::parse_file_name(name).is_some()) {
            assert_eq!(stored(&copy(&world.disk)).reach().floor, Lsn::ZERO, "it has not left yet");
            checked += world.check(9);
        }
        world.database.clock.advance_us(20_000);
        world.database.log.tick();
        world.database.compactor.step();
        world.database.flushers.iter_mut().for_each(|flusher| _ = flusher.step());
        world.database.log.poll();
        rounds += 1;
        assert!(rounds < 5000, "it never leaves");
    }
    assert!(checked > 20 && world.database.log.history().from_lsn > Lsn::ZERO);
    assert!(world.disk.list(Path::new("/disk0/history")).unwrap().is_empty());
    let manifest = Manifest::read(&world.disk, Path::new(DIR)).unwrap().unwrap();
    let id = manifest.devices[0].id;
    assert!(manifest.history.iter().all(|kept| kept.device == id), "{manifest:?}");
    world.check(1);
    // It may come back, as another one.
    let both = [PathBuf::from("/disk1"), PathBuf::from("/disk0")];
    let flushers = world.database.log.set_devices(&both, &mut Counter(19)).unwrap();
    world.database.flushers.extend(flushers);
    (0..30).for_each(|_| world.write());
    world.database.log.compact_all();
    world.database.settle();
    world.check(1);
}

#[test]
fn what_is_put_aside_as_damaged_raises_the_floor() {
    let mut world = churned(3, &world_options(0));
    world.database.settle();
    let mut scrubber = world.database.log.scrubber();
    world.database.log.set_scrub_rate(1 << 40);
    let names = world.disk.list(Path::new("/disk0")).unwrap();
    let mut names = names.iter().filter_map(|name| name.to_str());
    let name = names.find(|name| redo::segment::parse_file_name(name).is_some()).unwrap();
    assert!(world.disk.flip_bit(&Path::new("/disk0").join(name), 300, 3));
    for _ in 0..200 {
        world.database.clock.advance_us(10_000_000);
        world.database.log.tick();
        scrubber.step();
        world.database.log.poll();
        let segments = world.database.log.rewrites();
        let entries = world.database.keyspace.entries.clone();
        for (name, (value, _)) in entries {
            let addr = world.database.keyspace.entries[&name].1;
            if segments.contains(&addr.segment()) {
                world.database.set(&name, &value);
            }
        }
        world.database.log.seal();
        world.ledger.note(&world.database);
        world.database.settle();
    }
    assert_eq!(world.database.log.stats().scrub_healed, 1);
    let floor = stored(&copy(&world.disk)).reach().floor;
    assert!(floor > Lsn::ZERO && floor <= world.database.log.durable_lsn());
    world.check(3);
}

/// The window moves, by age, by bytes, and by the room that is left.
#[test]
fn a_window_moves_and_points_stay_longest() {
    for seed in 0..12 {
        let mut options = world_options(seed);
        options.history =
            HistoryOptions { seconds: 40, bytes_min: 6000, percentage: 50, ..HistoryOptions::OFF };
        let mut world = World::new(seed, options.clone());
        let (mut floor, mut had_points) = (Lsn::ZERO, 0);
        for round in 0..40 {
            for _ in 0..60 {
                world.step();
            }
            if round % 9 == 4 {
                world.clear();
                world.database.settle();
            }
            let reach = stored(&copy(&world.disk)).reach();
            assert!(reach.floor >= floor, "seed {seed}: the floor falls");
            floor = reach.floor;
            had_points += usize::from(reach.points.iter().any(|point| point.lsn < floor));
            world.check(11);
            if round % 13 == 12 {
                world.disk.crash();
                world.restart(options.clone());
            }
        }
        let history = world.database.log.history();
        assert!(floor > Lsn::ZERO && history.from_lsn >= floor, "{history:?}");
        assert!(seed > 0 || had_points > 0, "no point is below the floor");
        world.database.log.set_history(HistoryOptions::OFF);
        world.database.settle();
        world.database.settle();
        assert_eq!(world.database.log.history().files, 0);
        world.check(1);
    }
}

/// What is kept is bounded, and a manifest is written for it once a second at most.
#[test]
fn history_is_bounded_by_bytes_and_given_up_for_a_disk_that_is_nearly_full() {
    let mut options = world_options(2);
    options.devices.truncate(1);
    options.history = HistoryOptions {
        seconds: 1_000_000,
        bytes_min: 30_000,
        percentage: 1,
        ..HistoryOptions::OFF
    };
    let mut world = World::new(2, options);
    for _ in 0..300 {
        world.write();
        world.database.settle();
    }
    (0..3).for_each(|_| world.database.settle());
    let history = world.database.log.history();
    assert!(history.bytes <= 30_000 && history.bytes > 10_000, "{history:?}");
    assert!(history.given_up > 10, "{history:?}");
    world.check(7);
    let used_bytes = world.disk.used_bytes();
    // A tenth of it is to be free.
    let capacity_bytes = Some(used_bytes + used_bytes / 12);
    world.disk.set_faults(Faults { capacity_bytes, ..Faults::default() });
    for _ in 0..8 {
        world.database.settle();
    }
    let less = world.database.log.history();
    assert!(less.bytes < history.bytes && less.files > 0, "{less:?}, {history:?}");
    world.check(1);
}

/// Up to the block that is read back nothing may be missing: above the horizon a gap is an error also of
/// the past.
#[test]
fn a_block_that_is_missing_above_the_horizon_is_an_error() {
    let mut options = world_options(1);
    options.policy = SyncPolicy::Always;
    options.segment_bytes = 20_000;
    options.compaction.enabled = false;
    let mut world = World::new(1, options);
    for number in 0..12 {
        world.database.set(&key(number), &[u8::try_from(number % 251).unwrap(); 40]);
        world.database.flush();
        world.ledger.note(&world.database);
    }
    let disk = copy(&world.disk);
    assert_eq!(world.ledger.check(&disk, 12, 1, "whole"), 13);
    let dir = Path::new("/disk1");
    let name = disk
        .list(dir)
        .unwrap()
        .into_iter()
        .find(|name| name.to_str().and_then(redo::segment::parse_file_name).is_some());
    // All blocks that this device has: half of them.
    let file = disk.open(&dir.join(name.unwrap()), env::Access::ReadWrite).unwrap();
    file.set_len(redo::segment::HEADER_BYTES as u64).unwrap();
    drop(file);
    let told = (0..=12).filter(|lsn| as_of(&disk, *lsn).is_ok());
    let told: Vec<u64> = told.collect();
    assert!(
        told.len() < 3
            && told.iter().all(|lsn| as_of(&disk, *lsn).unwrap() == *world.ledger.at(*lsn))
    );
}
