//! A keyspace with a real log on a simulated disk, and everything that works on the log.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use base::{DbId, Lsn, Record, RecordAddr};
use dump::SpillOptions;
use env::Disk;
use env_sim::{Faults, SimDisk, SimEntropy};
use keyspace::{Journal, Keyspace};
use redo::{
    CompactionOptions, Compactor, Env, Flusher, Log, Mark, Opened, Options, Recovery, Replay, Step,
    SyncPolicy,
};

use crate::commands::{DATABASES, Op, apply};
use crate::kept::{All, contents};

/// A clock that moves when told to.
#[derive(Default)]
struct ManualClock(AtomicU64);

impl env::Clock for ManualClock {
    fn now_ms(&self) -> i64 {
        1_700_000_000_000
    }

    fn monotonic_us(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// A handle of the log; clones share it.
#[derive(Clone)]
pub(crate) struct SharedLog(Arc<Mutex<Log>>);

impl SharedLog {
    pub(crate) fn get(&self) -> MutexGuard<'_, Log> {
        self.0.lock().unwrap()
    }
}

impl Journal for SharedLog {
    fn append(&mut self, record: &Record<'_>) -> Option<RecordAddr> {
        Some(self.get().append(record))
    }

    fn retire(&mut self, addr: RecordAddr) {
        self.get().retire(addr);
    }

    fn open_lsn(&self) -> Lsn {
        self.get().open_lsn()
    }

    fn last_lsn(&self) -> Lsn {
        let log = self.get();
        if log.has_open_records() { log.open_lsn() } else { Lsn(log.open_lsn().0 - 1) }
    }

    fn durable_lsn(&self) -> Lsn {
        self.get().durable_lsn()
    }

    fn undurable_lsn_of(&self, addr: RecordAddr) -> Option<Lsn> {
        self.get().undurable_lsn_of(addr)
    }
}

/// Nothing is in a new log.
struct Nothing;

impl Replay for Nothing {
    fn apply(&mut self, _: &Record<'_>, _: RecordAddr, _: Lsn, _: &mut Vec<RecordAddr>) {
        panic!("the log is new");
    }

    fn finish(&mut self, _: &mut Vec<RecordAddr>) {}
}

/// What a dump must have.
pub(crate) struct Expected {
    pub(crate) databases: Vec<DbId>,
    pub(crate) all: All,
}

pub(crate) struct World {
    pub(crate) disk: SimDisk,
    pub(crate) log: SharedLog,
    pub(crate) keyspace: Keyspace<SharedLog>,
    flushers: Vec<Flusher>,
    compactor: Compactor,
    clock: Arc<ManualClock>,
    pub(crate) now_ms: i64,
    /// Marks that wait for the open block.
    waiting: Vec<Mark>,
}

pub(crate) fn devices(count: usize) -> Vec<PathBuf> {
    (0..count).map(|number| PathBuf::from(format!("/disk{number}"))).collect()
}

fn options(device_count: usize, segment_bytes: u64) -> Options {
    let mut options = Options::new("/data");
    options.devices = devices(device_count);
    options.segment_bytes = segment_bytes;
    options.group_bytes = 512;
    options.reserve_bytes = 64 << 10;
    options.policy = SyncPolicy::No;
    options.mark_copy_bytes = 1;
    options.parallel_loaders = false;
    options.compaction = CompactionOptions {
        invalid_count_min: 2,
        invalid_share_min: 0.2,
        garbage_share_min: 0.0,
        gathered_min: 3,
        rate_bytes_per_s: 0,
        ..options.compaction
    };
    options
}

impl World {
    pub(crate) fn new(device_count: usize, segment_bytes: u64) -> Self {
        let (disk, clock) = (SimDisk::new(1, Faults::default()), Arc::new(ManualClock::default()));
        let env = Env {
            disk: Arc::new(disk.clone()),
            clock: clock.clone(),
            entropy: Box::new(SimEntropy::new(1)),
            waker: Arc::new(|| {}),
        };
        let recovery = Recovery::open(env, options(device_count, segment_bytes)).unwrap();
        let Opened { log, flushers, compactor, .. } =
            recovery.run(&mut Nothing, &mut |_| {}).unwrap();
        let log = SharedLog(Arc::new(Mutex::new(log)));
        let keyspace = Keyspace::new(log.clone(), [7; 16], DATABASES);
        let (now_ms, waiting) = (1_000_000, Vec::new());
        disk.create_dir_all(&PathBuf::from("/dumps")).unwrap();
        Self { disk, log, keyspace, flushers, compactor, clock, now_ms, waiting }
    }

    pub(crate) fn spill_options(&self, memory_bytes: usize) -> SpillOptions {
        let directory = PathBuf::from("/dumps");
        SpillOptions { disk: Arc::new(self.disk.clone()), directory, memory_bytes, kept_bytes: 0 }
    }

    pub(crate) fn apply(&mut self, op: &Op) {
        apply(&mut self.keyspace, self.now_ms, op);
    }

    /// Asks for a mark, which [`World::seal`] gives out.
    pub(crate) fn ask_for_mark(&mut self) {
        self.waiting.push(self.log.get().mark().unwrap());
    }

    /// Ends the open block. Returns the marks that it ends with, and what there is now.
    pub(crate) fn seal(&mut self) -> Vec<(Mark, Expected)> {
        self.log.get().seal();
        let marks = std::mem::take(&mut self.waiting);
        assert!(marks.iter().all(|mark| mark.lsn().is_some()));
        marks.into_iter().map(|mark| (mark, self.expected())).collect()
    }

    pub(crate) fn expected(&self) -> Expected {
        let databases = self.keyspace.databases();
        let databases = databases.map(|db| self.keyspace.database_id(db)).collect();
        Expected { databases, all: contents(&self.keyspace) }
    }

    /// Something goes on that is not a command.
    pub(crate) fn work(&mut self, what: u8) {
        match what % 8 {
            0..3 => {
                let at = usize::from(what) % self.flushers.len();
                self.flushers[at].step();
            }
            3..6 => _ = self.compactor.step(),
            6 => {
                self.clock.0.fetch_add(200_000, Ordering::Relaxed);
                self.log.get().tick();
            }
            _ => {
                let mut log = self.log.get();
                let sealed = Lsn(log.open_lsn().0 - 1);
                log.request_sync(sealed);
                if what > 200 {
                    log.compact_all();
                }
            }
        }
        self.log.get().poll();
    }

    /// Lets everything come to its end.
    pub(crate) fn settle(&mut self) {
        self.log.get().seal();
        loop {
            self.clock.0.fetch_add(200_000, Ordering::Relaxed);
            let mut log = self.log.get();
            let sealed = Lsn(log.open_lsn().0 - 1);
            log.request_sync(sealed);
            log.poll();
            log.tick();
            drop(log);
            let mut worked = false;
            for flusher in &mut self.flushers {
                worked |= flusher.step() == Step::Worked;
            }
            worked |= self.compactor.step() == Step::Worked;
            let mut log = self.log.get();
            log.poll();
            let is_durable = log.durable_lsn() >= sealed;
            if !worked && is_durable && log.stats().compacting.is_none() {
                break;
            }
        }
    }
}
