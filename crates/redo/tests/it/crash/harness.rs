//! A database that lives, dies and is recovered on a simulated disk, and the ledger that judges it.
//!
//! ```text
//!   Executor ─records─► Log ─blocks─► Flushers ─► SimDisk ◄─ crash, EIO, kill
//!      │                 │ durable LSN
//!      ▼                 ▼
//!   Ledger: the state after each block · what was acknowledged
//! ```
//!
//! Everything runs on one thread; the seed decides what takes the next step.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use base::{Lsn, Record, RecordAddr};
use env_sim::{Faults, SimClock, SimDisk, SimEntropy};
use redo::{
    CompactionOptions, Compactor, Env, Error, FileError, Flusher, Health, LiveRecords, Log, Mark,
    MarkReader, Opened, Options, PendingSync, Preparer, Recovery, Replay, Stats, Step, Summary,
    SyncPolicy, Turn,
};

use super::image::Image;
use super::indexed::{Indexed, live_records};
use super::model::{Model, Visible};
use super::workload::{Executor, Journal};

impl Journal for Log {
    fn append(&mut self, record: &Record<'_>) -> RecordAddr {
        Log::append(self, record)
    }

    fn retire(&mut self, addr: RecordAddr) {
        Log::retire(self, addr);
    }
}

/// The model as recovery fills it; it also checks the order.
#[derive(Default)]
struct Replayed {
    model: Model,
    last: Lsn,
    /// It began with what an index has, and does not know what its records make garbage.
    is_tail: bool,
}

impl Replay for Replayed {
    fn apply(
        &mut self,
        record: &Record<'_>,
        addr: RecordAddr,
        lsn: Lsn,
        retired: &mut Vec<RecordAddr>,
    ) {
        assert!(lsn >= self.last, "block {lsn} is replayed after block {}", self.last);
        self.last = lsn;
        let old = self.model.apply(record, addr);
        retired.extend(old.filter(|_| !self.is_tail));
    }

    fn finish(&mut self, retired: &mut Vec<RecordAddr>) {
        let garbage = self.model.collect_garbage();
        retired.extend(garbage.into_iter().filter(|_| !self.is_tail));
    }
}

/// The state after a block.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Snapshot {
    visible: Visible,
    /// Of everything that is needed, ascending.
    addresses: Vec<RecordAddr>,
}

impl Snapshot {
    fn of(model: &Model) -> Self {
        let mut addresses = model.live_addresses();
        addresses.sort_unstable();
        Self { visible: model.visible(), addresses }
    }
}

/// What the database has promised.
#[derive(Debug, Clone)]
pub(crate) struct Ledger {
    states: BTreeMap<Lsn, Snapshot>,
    pub(crate) acknowledged: Lsn,
    /// The newest segment that an acknowledged block of this life, and of an earlier one, was in.
    segment_max: u32,
    segment_max_of_earlier_lives: u32,
}

impl Ledger {
    fn new() -> Self {
        let empty = Snapshot::of(&Model::default());
        Self {
            states: BTreeMap::from([(Lsn::ZERO, empty)]),
            acknowledged: Lsn::ZERO,
            segment_max: 0,
            segment_max_of_earlier_lives: 0,
        }
    }

    pub(crate) fn last(&self) -> Lsn {
        self.states.last_key_value().map_or(Lsn::ZERO, |(lsn, _)| *lsn)
    }

    fn note(&mut self, lsn: Lsn, model: &Model) {
        let snapshot = Snapshot::of(model);
        let before = &self.states[&self.last()].addresses;
        for addr in snapshot.addresses.iter().filter(|addr| before.binary_search(addr).is_err()) {
            let is_fresh = addr.segment().0 > self.segment_max_of_earlier_lives;
            assert!(is_fresh, "{addr:?}: a segment's number is given out a second time");
        }
        let before = self.states.insert(lsn, snapshot);
        assert!(before.is_none() && lsn == self.last(), "LSNs ascend");
    }

    fn acknowledge(&mut self, durable: Lsn) {
        for snapshot in self.states.range(self.acknowledged..=durable).map(|(_, state)| state) {
            let newest = snapshot.addresses.last().map_or(0, |addr| addr.segment().0);
            self.segment_max = self.segment_max.max(newest);
        }
        self.acknowledged = self.acknowledged.max(durable);
    }

    /// What is wrong with what a mark at `lsn` has read, if anything.
    fn judge_mark(&self, lsn: Lsn, model: &mut Model) -> Result<(), String> {
        // What no root has is retired when there is time, so a mark may have it.
        model.collect_garbage();
        let (found, expected) = (Snapshot::of(model), &self.states[&lsn]);
        if found == *expected {
            return Ok(());
        }
        let difference = expected.visible.difference(&found.visible);
        Err(format!("the mark at block {lsn}, expected | found:\n{difference}"))
    }

    /// What is wrong with a recovery that came to `lsn`, if anything.
    pub(crate) fn judge(&self, lsn: Lsn, model: &Model) -> Result<(), String> {
        let (acknowledged, last) = (self.acknowledged, self.last());
        if lsn < acknowledged {
            return Err(format!("block {lsn} is the last, {acknowledged} was acknowledged"));
        }
        let Some(expected) = self.states.get(&lsn) else {
            return Err(format!("block {lsn} is the last, {last} was the last ever written"));
        };
        let found = Snapshot::of(model);
        if found.visible != expected.visible {
            let difference = expected.visible.difference(&found.visible);
            return Err(format!("at block {lsn}, expected | found:\n{difference}"));
        }
        if found.addresses != expected.addresses {
            return Err(format!("at block {lsn} records have other addresses than before"));
        }
        Ok(())
    }

    /// Recovery has said that `lsn` is what there is: that is a promise as good as any.
    fn settle(&mut self, lsn: Lsn) {
        self.acknowledge(lsn);
        self.segment_max_of_earlier_lives = self.segment_max;
        self.states.retain(|at, _| *at == lsn);
    }
}

/// What a run is made of.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Shape {
    pub(crate) devices: usize,
    pub(crate) policy: SyncPolicy,
    pub(crate) segment_bytes: u64,
    pub(crate) gathered_min: usize,
    pub(crate) invalid_share_min: f64,
    /// Whether devices come and go.
    pub(crate) changes_devices: bool,
    /// Whether zeros are written ahead, and the policy changes now and then.
    pub(crate) writes_zeros: bool,
}

impl Shape {
    pub(crate) fn random(rng: &mut SimEntropy) -> Self {
        let devices = 1 + usize::try_from(rng.below(3)).expect("small");
        let policy = match rng.below(6) {
            0 => SyncPolicy::EverySec,
            1 => SyncPolicy::No,
            _ => SyncPolicy::Always,
        };
        // Small segments end often; of large ones little is left, which is gathered in one file.
        let segment_bytes =
            if rng.coin() { 300 + rng.below(3000) } else { 3000 + rng.below(30_000) };
        let gathered_min = usize::try_from(2 + rng.below(4)).expect("small");
        let invalid_share_min = if rng.coin() { 0.15 } else { 0.6 };
        let changes_devices = rng.coin();
        Self {
            devices,
            policy,
            segment_bytes,
            gathered_min,
            invalid_share_min,
            changes_devices,
            writes_zeros: false,
        }
    }

    fn options(&self, listed: &[usize]) -> Options {
        let mut options = Options::new(World::dir());
        options.group_bytes = 128;
        options.devices = listed.iter().copied().map(World::device).collect();
        options.policy = self.policy;
        options.segment_bytes = self.segment_bytes;
        options.reserve_bytes = 1000;
        options.zeros_blocks_min = self.writes_zeros.then_some(2);
        options.parallel_loaders = false;
        options.compaction = CompactionOptions {
            enabled: true,
            invalid_count_min: 2,
            invalid_share_min: self.invalid_share_min,
            garbage_share_min: 0.0,
            gathered_min: self.gathered_min,
            rate_bytes_per_s: 0,
        };
        options
    }
}

/// A disk, a database on it, and what is known of it from outside.
pub(crate) struct World {
    pub(crate) seed: u64,
    pub(crate) disk: SimDisk,
    pub(crate) shape: Shape,
    pub(crate) ledger: Ledger,
    pub(crate) rng: SimEntropy,
    /// The devices that the log was last told to use. When a change has failed, any list since the
    /// last that was accepted may be the one that the next start needs.
    listed: Vec<Vec<usize>>,
    clock: SimClock,
    pub(crate) compactions: u64,
    /// How many recoveries have found files that segments share.
    pub(crate) gathered: u64,
    pub(crate) cut_blocks: u64,
    pub(crate) device_changes: u64,
    pub(crate) marks_read: u64,
    /// Whether the verifier is asked before each recovery, and must agree with it.
    pub(crate) verifies: bool,
    /// An index of the log, if one is kept: some recoveries start from it, and all must agree.
    pub(crate) index: Option<Indexed>,
    /// How many recoveries have started from it, and in how many of these lives validity became known.
    pub(crate) starts_behind: u64,
    pub(crate) validities: u64,
    /// How often a segment was open that is written over zeros.
    pub(crate) over_zeros: u64,
}

/// The database while it is up.
pub(crate) struct Running {
    pub(crate) log: Log,
    pub(crate) flushers: Vec<Flusher>,
    /// By flusher, the sync that goes on while others step.
    syncing: BTreeMap<usize, PendingSync>,
    pub(crate) compactor: Compactor,
    pub(crate) preparer: Preparer,
    pub(crate) executor: Executor,
    pub(crate) marks: Vec<Mark>,
    /// After a start from an index: what was live then, until the log is told.
    pub(crate) live: Option<Arc<LiveRecords>>,
}

impl Running {
    /// A flusher takes a turn, and the sync that this begins may last until its next one.
    fn step_flusher(&mut self, index: usize, is_long: bool) -> Step {
        let flusher = &mut self.flushers[index];
        let sync = match self.syncing.remove(&index) {
            Some(sync) => sync,
            None => match flusher.turn() {
                Turn::Step(step) => return step,
                Turn::Sync(sync) if is_long => {
                    self.syncing.insert(index, sync);
                    return Step::Worked;
                }
                Turn::Sync(sync) => sync,
            },
        };
        let result = sync.run();
        flusher.synced(&sync, result);
        Step::Worked
    }
}

impl World {
    pub(crate) fn new(seed: u64, shape: Shape) -> Self {
        Self::on(SimDisk::new(seed, Faults::default()), seed, shape)
    }

    /// A world around a disk that is there already.
    pub(crate) fn on(disk: SimDisk, seed: u64, shape: Shape) -> Self {
        let listed: Vec<usize> = (0..shape.devices).collect();
        Self {
            seed,
            disk,
            shape,
            listed: vec![listed],
            ledger: Ledger::new(),
            rng: SimEntropy::new(seed ^ 0x5eed),
            clock: SimClock::new(1_700_000_000_000),
            compactions: 0,
            gathered: 0,
            cut_blocks: 0,
            device_changes: 0,
            marks_read: 0,
            verifies: false,
            index: None,
            starts_behind: 0,
            validities: 0,
            over_zeros: 0,
        }
    }

    pub(crate) fn dir() -> PathBuf {
        PathBuf::from("/data")
    }

    pub(crate) fn device(index: usize) -> PathBuf {
        PathBuf::from(format!("/device-{index}"))
    }

    /// Opens the log and reads it, without a judgement.
    pub(crate) fn open(&mut self) -> redo::Result<(Running, Lsn)> {
        let is_behind = self.index.is_some() && self.rng.coin();
        let entropy = [self.rng.next(), self.rng.next()];
        let opened = Self::open_on(
            &self.disk,
            &self.clock,
            self.shape.options(self.listed.last().expect("never empty")),
            self.index.as_ref(),
            is_behind,
            entropy,
        )?;
        self.cut_blocks += opened.1.cut_blocks;
        self.starts_behind += u64::from(is_behind);
        if let Some(index) = &mut self.index {
            index.forget_next();
        }
        Ok((opened.0, opened.1.last_lsn))
    }

    /// Opens the log on any disk, from the index if that is wanted.
    fn open_on(
        disk: &SimDisk,
        clock: &SimClock,
        options: Options,
        index: Option<&Indexed>,
        is_behind: bool,
        entropy: [u64; 2],
    ) -> redo::Result<(Running, Summary)> {
        let env = Env {
            disk: Arc::new(disk.clone()),
            clock: Arc::new(clock.clone()),
            entropy: Box::new(SimEntropy::new(entropy[0])),
            waker: Arc::new(|| {}),
        };
        let mut replayed = Replayed::default();
        let mut recovery = Recovery::open(env, options)?;
        if let Some(index) = index {
            assert!(recovery.horizon() <= index.cut, "compaction keeps to the bound");
            recovery.note_durable(index.cut);
        }
        let opened = match index.filter(|_| is_behind) {
            Some(index) => {
                let model = index.model.clone();
                replayed = Replayed { model, last: index.cut.next(), is_tail: true };
                recovery.run_behind(index.point(), &mut replayed, &mut |_| {})?
            }
            None => recovery.run(&mut replayed, &mut |_| {})?,
        };
        let Opened { log, flushers, compactor, summary } = opened;
        if let Some(index) = index {
            log.reader().index_bound().set(index.cut);
        }
        let live = live_records(replayed.model.live_addresses());
        let live = Some(live).filter(|_| !log.knows_validity());
        let executor = Executor::new(replayed.model, entropy[1]);
        let (marks, preparer) = (Vec::new(), log.preparer());
        let syncing = BTreeMap::new();
        let running =
            Running { log, flushers, syncing, compactor, preparer, executor, marks, live };
        Ok((running, summary))
    }

    /// Recovers copies of the disk by reading everything and from the index: what they find and leave
    /// must be the same, and so must validity be once it is known.
    fn check_starts(&mut self) {
        let listed = self.listed.last().expect("never empty");
        let options = self.shape.options(listed);
        let entropy = [self.rng.next(), self.rng.next()];
        let (disks, clock) = ([self.disk.fork(), self.disk.fork()], self.clock.fork());
        disks.iter().for_each(|disk| disk.set_faults(Faults::default()));
        let opened = [false, true].map(|is_behind| {
            let (disk, index) = (&disks[usize::from(is_behind)], self.index.as_ref());
            Self::open_on(disk, &clock, options.clone(), index, is_behind, entropy)
        });
        let seed = self.seed;
        let [Ok((scanned, summary)), Ok((mut behind, summary_behind))] = opened else {
            let [scanned, behind] = opened.map(|opened| opened.err().map(|e| e.to_string()));
            assert_eq!(scanned, behind, "seed {seed}: only one of two starts fails");
            return;
        };
        let unread = Summary { blocks: 0, records: 0, ..summary };
        let summary_behind = Summary { blocks: 0, records: 0, ..summary_behind };
        assert_eq!(unread, summary_behind, "seed {seed}: scanned | behind");
        let snapshots = [&scanned, &behind].map(|one| Snapshot::of(&one.executor.model));
        assert_eq!(snapshots[0], snapshots[1], "seed {seed}: scanned | behind");
        let images = disks.each_ref().map(Image::take_all);
        assert!(images[0] == images[1], "seed {seed}: the files are not the same afterwards");
        let expected = Stats { bitmap_bytes: 0, ..scanned.log.stats() };
        if let Some(live) = behind.live.take() {
            behind.log.note_live(live).expect("the live set is that of the log");
            (0..2).for_each(|_| behind.log.tick());
        }
        assert!(behind.log.knows_validity(), "seed {seed}");
        let found = Stats { bitmap_bytes: 0, compacting: None, ..behind.log.stats() };
        assert_eq!(expected, found, "seed {seed}: scanned | behind");
    }

    /// Brings the database up and judges what it has found. While `crashes` says so, the recovery
    /// is interrupted at some I/O and begun again.
    pub(crate) fn recover(&mut self, mut crashes: u32) -> Running {
        loop {
            let report = (self.verifies && crashes == 0).then(|| self.verify());
            if self.index.is_some() && crashes == 0 {
                self.check_starts();
            }
            if crashes > 0 {
                crashes -= 1;
                let at = 1 + self.rng.below(12);
                self.disk.crash_after(at);
            }
            match self.open() {
                Ok((running, lsn)) => {
                    if let Some(report) = report.filter(|report| report.files > 0) {
                        assert!(report.is_good(), "seed {}: {report}", self.seed);
                        assert_eq!(report.last_lsn, lsn, "seed {}: {report}", self.seed);
                    }
                    if let Err(what) = self.ledger.judge(lsn, &running.executor.model) {
                        panic!("seed {}: {what}", self.seed);
                    }
                    self.check_counts(&running);
                    self.ledger.settle(lsn);
                    self.listed.drain(..self.listed.len() - 1);
                    return running;
                }
                Err(_) if self.disk.is_crashed() => self.disk.restart(),
                Err(Error::MissingDevice { .. }) if self.listed.len() > 1 => {
                    self.listed.pop();
                }
                // Only a disk that is told to fail may make a recovery fail, and only so.
                Err(Error::File(FileError::Io { source, .. }))
                    if env::system_number(&source).is_some() =>
                {
                    self.disk.set_faults(Faults::default());
                }
                Err(error) => panic!("seed {}: recovery fails: {error}", self.seed),
            }
        }
    }

    /// What the verifier says of the log, which must not be open.
    pub(crate) fn verify(&self) -> redo::Report {
        let disk: Arc<dyn env::Disk> = Arc::new(self.disk.clone());
        let dir = Self::dir();
        redo::verify(&disk, &dir, &[]).expect("the log is not in use")
    }

    /// Every record in the files is needed, garbage, or a delete record.
    fn check_counts(&mut self, running: &Running) {
        let stats = running.log.stats();
        self.gathered += u64::from(stats.files < stats.segments);
        if !running.log.knows_validity() {
            return;
        }
        let needed = running.executor.model.live_addresses().len() as u64;
        let accounted = needed + stats.invalid_records + stats.delete_records;
        assert_eq!(stats.records, accounted, "seed {}: {stats:?}", self.seed);
    }

    /// Takes `steps` steps, or fewer if the disk crashes.
    pub(crate) fn live(&mut self, running: &mut Running, steps: u32) {
        for _ in 0..steps {
            self.step(running);
            if self.disk.is_crashed() {
                return;
            }
        }
    }

    fn step(&mut self, running: &mut Running) {
        if self.shape.writes_zeros && self.rng.below(5) == 0 {
            self.step_zeros(running);
        }
        match self.rng.below(100) {
            0..30 => self.block(running),
            30..70 => {
                let index = self.rng.below(running.flushers.len() as u64);
                let is_long = self.shape.writes_zeros && self.rng.coin();
                running.step_flusher(usize::try_from(index).expect("small"), is_long);
            }
            70..85 => {
                running.compactor.step();
            }
            85..94 => self.tick(running),
            94..98 => self.mark(running),
            98 if self.shape.changes_devices => self.change_devices(running),
            _ => {
                running.log.seal().inspect(|lsn| self.note(running, *lsn));
                running.log.compact_all();
            }
        }
        self.poll(running);
        if running.live.is_some() && self.rng.below(20) == 0 {
            self.tell_live(running);
        }
    }

    /// What writes zeros ahead takes a step, or blocks are written in another way for a while.
    fn step_zeros(&mut self, running: &mut Running) {
        match self.rng.below(12) {
            0 => {
                let policies = [SyncPolicy::EverySec, SyncPolicy::No, self.shape.policy];
                let which = usize::try_from(self.rng.below(3)).expect("small");
                running.log.set_policy(policies[which]);
            }
            1 => {
                running.log.set_policy(self.shape.policy);
                running.log.request_sync(running.log.open_lsn());
            }
            2 => {
                let index = self.rng.below(running.flushers.len() as u64);
                running.flushers[usize::try_from(index).expect("small")].write_now();
            }
            _ => {
                running.preparer.step();
            }
        }
        let devices = running.log.stats().devices;
        self.over_zeros += u64::from(devices.iter().any(|device| device.is_over_zeros));
    }

    /// Tells the log what is live, as of the start or of now.
    fn tell_live(&mut self, running: &mut Running) {
        assert!(!running.log.knows_validity() && running.log.rewrites().is_empty());
        assert_eq!(running.log.stats().compactions, 0, "nothing is compacted before");
        let Some(mut live) = running.live.take() else { return };
        if self.rng.coin() {
            live = live_records(running.executor.model.live_addresses());
        }
        if let Err(error) = running.log.note_live(live) {
            panic!("seed {}: {error}", self.seed);
        }
        self.validities += 1;
    }

    /// Every record in the files is needed, garbage, or a delete record, once all garbage is retired.
    pub(crate) fn check_validity(&mut self, running: &mut Running) {
        if running.log.health() != Health::Writable || running.log.is_congested() {
            return;
        }
        if running.live.is_some() {
            self.tell_live(running);
        }
        self.block(running);
        self.tick(running);
        running.executor.retire_all(&mut running.log);
        self.check_counts(running);
    }

    /// Makes a mark, and reads or drops older ones.
    fn mark(&mut self, running: &mut Running) {
        let mark = running.log.mark();
        assert!(running.live.is_none() || mark.is_none(), "a mark of what is not known");
        running.marks.extend(mark);
        for mark in std::mem::take(&mut running.marks) {
            match self.rng.below(4) {
                0 => drop(mark),
                1 => match mark.read() {
                    Ok(reader) => self.read_mark(reader),
                    Err(mark) => running.marks.push(mark),
                },
                _ => running.marks.push(mark),
            }
        }
    }

    fn read_mark(&mut self, mut reader: MarkReader) {
        let mut model = Model::default();
        loop {
            match reader.next() {
                Ok(Some(block)) => {
                    for (addr, record) in block.records() {
                        let twice = model.apply(&record, addr);
                        assert_eq!(twice, None, "seed {}: two records of an entry", self.seed);
                    }
                }
                Ok(None) => break,
                Err(Error::NotKept { .. }) => return,
                Err(_) if self.disk.is_crashed() => return,
                Err(Error::File(FileError::Io { source, .. }))
                    if env::system_number(&source).is_some() =>
                {
                    return;
                }
                Err(error) => panic!("seed {}: {error}", self.seed),
            }
        }
        if let Err(what) = self.ledger.judge_mark(reader.lsn(), &mut model) {
            panic!("seed {}: {what}", self.seed);
        }
        self.marks_read += 1;
    }

    /// Lists other devices: one of them may stay, one may be new.
    fn change_devices(&mut self, running: &mut Running) {
        let first = usize::try_from(self.rng.below(4)).expect("small");
        let listed: Vec<usize> = (first..first + self.shape.devices).collect();
        let paths: Vec<PathBuf> = listed.iter().copied().map(Self::device).collect();
        running.log.seal().inspect(|lsn| self.note(running, *lsn));
        self.listed.push(listed);
        let mut entropy = SimEntropy::new(self.rng.next());
        if let Ok(added) = running.log.set_devices(&paths, &mut entropy) {
            running.flushers.extend(added);
            self.listed.drain(..self.listed.len() - 1);
            self.device_changes += 1;
        }
    }

    fn note(&mut self, running: &Running, lsn: Lsn) {
        self.ledger.note(lsn, &running.executor.model);
        if let Some(index) = &mut self.index
            && self.rng.below(4) == 0
        {
            index.begin(lsn, &running.executor.model);
        }
    }

    /// Runs commands and seals the block, unless the log says that it takes none.
    pub(crate) fn block(&mut self, running: &mut Running) {
        if running.log.health() != Health::Writable || running.log.is_congested() {
            return;
        }
        running.executor.run_block(&mut running.log);
        if let Some(lsn) = running.log.seal() {
            self.note(running, lsn);
        }
    }

    pub(crate) fn tick(&mut self, running: &mut Running) {
        self.clock.advance_ms(150);
        // The log does not mind where the wall clock jumps.
        if self.rng.below(10) == 0 {
            let wall_ms = i64::try_from(self.rng.below(1 << 41)).expect("fits");
            self.clock.set_wall_ms(wall_ms);
        }
        running.log.tick();
    }

    pub(crate) fn poll(&mut self, running: &mut Running) {
        running.log.poll();
        let durable = running.log.durable_lsn();
        assert!(durable <= self.ledger.last(), "seed {}: durable before written", self.seed);
        self.ledger.acknowledge(durable);
        if let Some(index) = &mut self.index {
            index.install(durable, &running.log.reader().index_bound());
        }
    }

    /// Steps everything until there is nothing to do.
    pub(crate) fn settle(&mut self, running: &mut Running) {
        for _ in 0..10_000 {
            self.tick(running);
            let mut is_idle = true;
            for index in 0..running.flushers.len() {
                is_idle &= running.step_flusher(index, false) != Step::Worked;
            }
            is_idle &= running.compactor.step() != Step::Worked;
            is_idle &= running.preparer.step() != Step::Worked;
            self.poll(running);
            if is_idle && running.log.stats().compacting.is_none() {
                return;
            }
        }
        panic!("seed {}: the log does not come to rest: {:?}", self.seed, running.log.stats());
    }

    /// Ends the database in good order. Whether it came to its end.
    pub(crate) fn shut_down(&mut self, mut running: Running) -> bool {
        running.log.shutdown();
        let mut is_finished = false;
        for _ in 0..1000 {
            is_finished = running.compactor.step() == Step::Finished;
            is_finished &= running.preparer.step() == Step::Finished;
            for index in 0..running.flushers.len() {
                is_finished &= running.step_flusher(index, false) == Step::Finished;
            }
            self.poll(&mut running);
            if is_finished {
                break;
            }
        }
        if is_finished && !self.disk.is_crashed() && running.log.health() == Health::Writable {
            assert_eq!(self.ledger.acknowledged, self.ledger.last(), "seed {}", self.seed);
        }
        self.compactions += running.log.stats().compactions;
        is_finished
    }

    /// The end of a life: in good order, by a kill, or by a power failure.
    pub(crate) fn end_life(&mut self, running: Running) {
        self.compactions += running.log.stats().compactions;
        match self.rng.below(8) {
            _ if self.disk.is_crashed() => {
                drop(running);
                self.disk.restart();
            }
            0 => {
                self.compactions -= running.log.stats().compactions;
                self.shut_down(running);
                if self.rng.coin() { self.disk.crash() } else { self.disk.kill() }
            }
            1 | 2 => self.disk.kill(),
            _ => self.disk.crash(),
        }
    }
}
