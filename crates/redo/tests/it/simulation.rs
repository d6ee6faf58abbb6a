//! Whole lives of a database from one seed: writes, compactions, faults, crashes in any order.
//!
//! The oracle is the list of states, one for each block. Whatever happens, the state after a
//! recovery is that of some block, and not of one before the last that was durable.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use base::{Lsn, RecordAddr};
use env_sim::{Faults, SimDisk, SimEntropy};
use redo::{
    Error, FileError, FoundRecord, Health, Options, Reader, ReaderLimits, SegmentScan, Step,
    SyncPolicy,
};

use crate::harness::{Database, index, key, options, value};

type Contents = BTreeMap<Vec<u8>, Vec<u8>>;

/// What the simulated user remembers.
struct Ledger {
    /// The state after each block, the first being that of an empty log.
    states: Vec<Contents>,
    durable: Lsn,
}

impl Ledger {
    fn note_durable(&mut self, lsn: Lsn) {
        assert!(lsn >= self.durable, "the durable LSN never goes back");
        self.durable = lsn;
    }
}

struct World {
    disk: SimDisk,
    rng: SimEntropy,
    options: Options,
    ledger: Ledger,
    /// The blocks of what was written in this life.
    blocks: HashMap<RecordAddr, Lsn>,
    has_faults: bool,
    /// How many segments were scanned to their ends.
    scans: u64,
}

/// A segment that is scanned.
struct Scanning {
    scan: SegmentScan,
    /// What was in it and durable at the beginning, with keys and values.
    needed: BTreeMap<RecordAddr, (Vec<u8>, Vec<u8>)>,
    met: BTreeSet<RecordAddr>,
}

impl World {
    fn new(seed: u64, has_faults: bool) -> Self {
        let mut rng = SimEntropy::new(seed);
        let disk = SimDisk::new(seed ^ 0x5eed, Faults::default());
        let mut options = options(Path::new("/data"));
        options.segment_bytes = 200 + rng.below(3000);
        options.reserve_bytes = 2048;
        options.compaction.invalid_count_min = 2;
        options.compaction.invalid_share_min = 0.2;
        options.compaction.garbage_share_min = 0.0;
        options.devices = (0..rng.below(4)).map(|n| PathBuf::from(format!("/disk{n}"))).collect();
        options.policy = match rng.below(4) {
            0 => SyncPolicy::EverySec,
            1 => SyncPolicy::No,
            _ => SyncPolicy::Always,
        };
        let ledger = Ledger { states: vec![Contents::new()], durable: Lsn::ZERO };
        Self { disk, rng, options, ledger, blocks: HashMap::new(), has_faults, scans: 0 }
    }

    /// Opens, crashing now and then in the middle of it.
    fn open(&mut self) -> Database {
        loop {
            if self.rng.chance(300_000) {
                self.disk.crash_after(1 + self.rng.below(30));
            }
            match Database::open_on(Arc::new(self.disk.clone()), self.options.clone()) {
                Ok(database) => return database,
                Err(error) => {
                    assert!(self.disk.is_crashed(), "{error}");
                    self.disk.restart();
                }
            }
        }
    }

    fn check_recovered(&mut self, database: &Database) {
        let last = database.summary.last_lsn;
        let ledger = &mut self.ledger;
        assert!(last >= ledger.durable, "lost: {last} of {}", ledger.durable);
        let at = index(last.0);
        assert!(at < ledger.states.len(), "block {last} was never written");
        assert_eq!(database.keyspace.contents(), ledger.states[at], "not the state of {last}");
        ledger.states.truncate(at + 1);
        ledger.note_durable(last);
    }

    fn some_writes(&mut self, database: &mut Database) {
        if database.log.health() != Health::Writable {
            return;
        }
        for _ in 0..=self.rng.below(5) {
            let number = index(self.rng.below(30));
            if self.rng.chance(300_000) {
                database.delete(&key(number));
            } else {
                let size = index(self.rng.below(200));
                database.set(&key(number), &value(size));
                let (_, addr) = database.keyspace.entries[&key(number)];
                self.blocks.insert(addr, database.log.open_lsn());
            }
        }
        if let Some(lsn) = database.log.seal() {
            assert_eq!(index(lsn.0), self.ledger.states.len());
            self.ledger.states.push(database.keyspace.contents());
        }
    }

    /// Reads a key by its address, while whatever goes on. It is right, or it is not durable; only
    /// a disk that fails may keep it back, and nothing is ever called damaged.
    fn read_by_address(&mut self, database: &Database, reader: &mut Reader) {
        let entries = &database.keyspace.entries;
        let names: BTreeSet<_> = entries.keys().collect();
        let Some(name) = names.iter().nth(index(self.rng.below(30))) else { return };
        self.check_found(database, name, reader.record(entries[*name].1));
        // Several at a time, each of which is as right.
        let count = index(self.rng.below(5));
        let names: Vec<_> = names.iter().rev().take(count).collect();
        let addrs: Vec<_> = names.iter().map(|name| entries[**name].1).collect();
        let mut told = 0;
        reader.records(&addrs, &mut |which, found| {
            told += 1;
            self.check_found(database, names[which], found);
        });
        assert_eq!(told, addrs.len());
    }

    fn check_found(
        &self,
        database: &Database,
        name: &[u8],
        found: redo::Result<Option<FoundRecord>>,
    ) {
        let (value, addr) = &database.keyspace.entries[name];
        let was_durable = self.blocks.get(addr).is_none_or(|lsn| *lsn <= self.ledger.durable);
        match found {
            Ok(Some(found)) => {
                let record = found.record();
                assert_eq!((record.key, record.value), (name, &value[..]), "{addr}");
            }
            Ok(None) => assert!(!was_durable, "{addr} is durable, and not found"),
            Err(Error::File(FileError::Corrupt { path, offset, what, .. })) => {
                panic!("{addr}: {} is not damaged at {offset}: {what}", path.display());
            }
            Err(error) => assert!(self.has_faults || self.disk.is_crashed(), "{addr}: {error}"),
        }
    }

    /// Goes on with a scan of a segment, or begins one, while whatever goes on.
    fn scan(&mut self, database: &Database, reader: &Reader, scanning: &mut Option<Scanning>) {
        let Some(current) = scanning else {
            let segments = reader.segments();
            assert!(segments.is_sorted_by(|a, b| a > b), "newest first");
            if let Some(segment) = segments.get(index(self.rng.below(segments.len() as u64 + 1))) {
                let scan = reader.scan(*segment);
                let is_durable = |addr: &RecordAddr| {
                    self.blocks.get(addr).is_none_or(|lsn| *lsn <= self.ledger.durable)
                };
                let entries = database.keyspace.entries.iter();
                let ours = entries.filter(|(_, (_, addr))| addr.segment() == *segment);
                let needed = ours.filter(|(_, (_, addr))| is_durable(addr));
                let needed = needed.map(|(key, (value, at))| (*at, (key.clone(), value.clone())));
                let needed = needed.collect();
                *scanning = Some(Scanning { scan, needed, met: BTreeSet::new() });
            }
            return;
        };
        match current.scan.next() {
            Ok(Some(block)) => {
                let durable = reader.blocks(block.lsn()).end();
                assert!(block.lsn() <= durable, "block {} is not durable", block.lsn());
                for record in block.records() {
                    let (addr, record) = record.unwrap();
                    assert!(current.met.insert(addr), "{addr} is met twice");
                    if let Some((key, value)) = current.needed.get(&addr) {
                        assert_eq!((record.key, record.value), (&key[..], &value[..]), "{addr}");
                    }
                }
            }
            Ok(None) => {
                for (addr, (key, _)) in &current.needed {
                    let found = database.keyspace.entries.get(key);
                    let is_needed = found.is_some_and(|(_, current)| current == addr);
                    assert!(!is_needed || current.met.contains(addr), "{addr} is not met");
                }
                self.scans += 1;
                *scanning = None;
            }
            Err(error) => {
                assert!(self.has_faults || self.disk.is_crashed(), "{error}");
                *scanning = None;
            }
        }
    }

    /// One life, from an opening to a crash, a death or a clean stop.
    fn live(&mut self) {
        let mut database = self.open();
        self.check_recovered(&database);
        self.blocks.clear();
        if self.has_faults && self.rng.coin() {
            let mut faults = Faults { short_reads: self.rng.coin(), ..Faults::default() };
            match self.rng.below(3) {
                0 => faults.sync_error_per_million = 20_000,
                1 => faults.error_per_million = 2_000,
                _ => faults.capacity_bytes = Some(self.disk.used_bytes() + self.rng.below(20_000)),
            }
            self.disk.set_faults(faults);
        }
        let limits = ReaderLimits {
            open_files: index(self.rng.below(4)),
            places: index(self.rng.below(60)),
        };
        let mut reader = database.log.reader().with_limits(limits);
        let mut scanning = None;
        for _ in 0..self.rng.below(400) {
            if self.rng.coin() {
                self.read_by_address(&database, &mut reader);
            }
            if self.rng.coin() {
                self.scan(&database, &reader, &mut scanning);
            }
            match self.rng.below(10) {
                0..4 => self.some_writes(&mut database),
                4..7 => {
                    let count = database.flushers.len() as u64;
                    let flusher = index(self.rng.below(count));
                    database.flushers[flusher].step();
                }
                7 => {
                    database.compactor.step();
                }
                8 => {
                    database.clock.advance_us(self.rng.below(400_000));
                    database.log.tick();
                }
                _ => {
                    database.log.poll();
                    self.ledger.note_durable(database.log.durable_lsn());
                    if self.rng.chance(20_000) {
                        database.log.compact_all();
                    }
                }
            }
            if self.disk.is_crashed() {
                break;
            }
            if self.rng.chance(3_000) {
                self.disk.crash_after(1 + self.rng.below(20));
            }
        }
        drop((reader, scanning));
        self.end(database);
        self.disk.set_faults(Faults::default());
    }

    fn end(&mut self, mut database: Database) {
        database.log.poll();
        self.ledger.note_durable(database.log.durable_lsn());
        let is_writable = database.log.health() == Health::Writable;
        if !self.disk.is_crashed() && is_writable && self.rng.chance(200_000) {
            database.log.shutdown();
            for _ in 0..100 {
                for flusher in &mut database.flushers {
                    flusher.step();
                }
            }
            database.log.poll();
            self.ledger.note_durable(database.log.durable_lsn());
            let flushers = &mut database.flushers;
            let is_finished = flushers.iter_mut().all(|flusher| flusher.step() == Step::Finished);
            let has_failed = self.has_faults || self.disk.is_crashed();
            if is_finished && !has_failed && database.log.health() == Health::Writable {
                assert_eq!(self.ledger.durable.0 + 1, self.ledger.states.len() as u64);
            }
        }
        drop(database);
        if self.disk.is_crashed() || self.rng.coin() {
            self.disk.crash();
        } else {
            self.disk.kill();
        }
    }
}

fn run(seed: u64, has_faults: bool) -> u64 {
    let mut world = World::new(seed, has_faults);
    for _ in 0..6 {
        world.live();
    }
    assert!(has_faults || world.scans > 0, "segments were scanned");
    world.disk.trace_hash()
}

/// Runs so many seeds; times `INDELIBLE_SEEDS` if that is set.
fn run_seeds(count: u64, has_faults: bool) {
    let times = std::env::var("INDELIBLE_SEEDS").ok().and_then(|times| times.parse().ok());
    for seed in 0..count * times.unwrap_or(1) {
        let result = catch_unwind(AssertUnwindSafe(|| run(seed, has_faults)));
        assert!(result.is_ok(), "seed {seed}");
    }
}

#[test]
fn lives_without_faults_keep_what_was_durable() {
    run_seeds(400, false);
}

#[test]
fn lives_on_failing_and_full_disks_keep_what_was_durable() {
    run_seeds(400, true);
}

#[test]
fn the_same_seed_gives_the_same_lives() {
    for seed in 0..5 {
        assert_eq!(run(seed, true), run(seed, true));
    }
}
