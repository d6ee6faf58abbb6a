//! A keyspace of strings that is its own oracle, and a database whose threads are step calls.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use base::{DbId, Lsn, ObjectId, Record, RecordAddr, RecordKind};
use redo::{
    Compactor, Env, Flusher, LiveRecords, Log, Opened, Options, Recovery, Replay, StartPoint, Step,
    Summary,
};

/// What the log is for: keys with values, each knowing where its record is.
#[derive(Default, Clone)]
pub(crate) struct Keyspace {
    pub(crate) entries: HashMap<Vec<u8>, (Vec<u8>, RecordAddr)>,
    last_lsn: Lsn,
}

impl Keyspace {
    /// What a client would see.
    pub(crate) fn contents(&self) -> BTreeMap<Vec<u8>, Vec<u8>> {
        self.entries.iter().map(|(key, (value, _))| (key.clone(), value.clone())).collect()
    }
}

impl Replay for Keyspace {
    fn apply(
        &mut self,
        record: &Record<'_>,
        addr: RecordAddr,
        lsn: Lsn,
        retired: &mut Vec<RecordAddr>,
    ) {
        assert!(lsn >= self.last_lsn, "blocks come in order");
        self.last_lsn = lsn;
        let name = name_of(record);
        let old = if record.kind.is_delete() {
            self.entries.remove(&name)
        } else {
            self.entries.insert(name, (record.value.to_vec(), addr))
        };
        retired.extend(old.map(|(_, addr)| addr));
    }

    fn finish(&mut self, _retired: &mut Vec<RecordAddr>) {}
}

/// What is behind a cut, for a keyspace as of it: it does not know what is garbage now.
struct Tail {
    keyspace: Keyspace,
    cut: Lsn,
}

impl Replay for Tail {
    fn apply(
        &mut self,
        record: &Record<'_>,
        addr: RecordAddr,
        lsn: Lsn,
        _retired: &mut Vec<RecordAddr>,
    ) {
        assert!(lsn > self.cut, "block {lsn} is not behind {}", self.cut);
        self.keyspace.apply(record, addr, lsn, &mut Vec::new());
    }

    fn finish(&mut self, _retired: &mut Vec<RecordAddr>) {}
}

/// What an entry is called here: keys as they are, elements by their object and name.
fn name_of(record: &Record<'_>) -> Vec<u8> {
    match record.kind {
        kind if kind.is_element() => {
            [&record.object.0.to_be_bytes()[..], b":", record.sub].concat()
        }
        _ => record.key.to_vec(),
    }
}

/// A clock that moves when told to.
#[derive(Default)]
pub(crate) struct ManualClock(AtomicU64);

impl ManualClock {
    pub(crate) fn advance_us(&self, us: u64) {
        self.0.fetch_add(us, Ordering::Relaxed);
    }
}

impl env::Clock for ManualClock {
    fn now_ms(&self) -> i64 {
        1_700_000_000_000
    }

    fn monotonic_us(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Bytes that are random enough for ids and the same in each run.
pub(crate) struct Counter(pub(crate) u8);

impl env::Entropy for Counter {
    fn fill(&mut self, bytes: &mut [u8]) {
        for byte in bytes {
            self.0 = self.0.wrapping_mul(181).wrapping_add(77);
            *byte = self.0;
        }
    }
}

pub(crate) struct Database {
    pub(crate) keyspace: Keyspace,
    pub(crate) log: Log,
    pub(crate) flushers: Vec<Flusher>,
    pub(crate) compactor: Compactor,
    pub(crate) summary: Summary,
    pub(crate) clock: Arc<ManualClock>,
}

pub(crate) fn options(dir: &Path) -> Options {
    let mut options = Options::new(dir);
    options.segment_bytes = 16 << 10;
    options.group_bytes = 128;
    options.reserve_bytes = 64 << 10;
    options.compaction.invalid_count_min = 8;
    options.compaction.rate_bytes_per_s = 0;
    options.parallel_loaders = false;
    options
}

impl Database {
    pub(crate) fn open(options: Options) -> redo::Result<Self> {
        Self::open_on(Arc::new(env_os::OsDisk), options)
    }

    pub(crate) fn open_on(disk: Arc<dyn env::Disk>, options: Options) -> redo::Result<Self> {
        Self::open_witnessed(disk, options, Lsn::ZERO)
    }

    /// Opens it by reading all of it, which must have been durable up to `durable`.
    pub(crate) fn open_witnessed(
        disk: Arc<dyn env::Disk>,
        options: Options,
        durable: Lsn,
    ) -> redo::Result<Self> {
        let (mut recovery, clock) = Self::look(disk, options)?;
        recovery.note_durable(durable);
        let mut keyspace = Keyspace::default();
        let opened = recovery.run(&mut keyspace, &mut |_| {})?;
        Ok(Self::of(opened, keyspace, clock))
    }

    /// Opens it from an index that has `keyspace`, the state of the block `cut`.
    pub(crate) fn open_behind(
        disk: Arc<dyn env::Disk>,
        options: Options,
        cut: Lsn,
        keyspace: Keyspace,
    ) -> redo::Result<Self> {
        let (recovery, clock) = Self::look(disk, options)?;
        let mut tail = Tail { keyspace, cut };
        let point = StartPoint { cut, next_object: ObjectId::NONE.next() };
        let opened = recovery.run_behind(point, &mut tail, &mut |_| {})?;
        Ok(Self::of(opened, tail.keyspace, clock))
    }

    fn look(
        disk: Arc<dyn env::Disk>,
        options: Options,
    ) -> redo::Result<(Recovery, Arc<ManualClock>)> {
        let clock = Arc::new(ManualClock::default());
        let env = Env {
            disk,
            clock: clock.clone(),
            entropy: Box::new(Counter(3)),
            waker: Arc::new(|| {}),
        };
        Ok((Recovery::open(env, options)?, clock))
    }

    fn of(opened: Opened, keyspace: Keyspace, clock: Arc<ManualClock>) -> Self {
        let Opened { log, flushers, compactor, summary } = opened;
        Self { keyspace, log, flushers, compactor, summary, clock }
    }

    /// What is live, as the keyspace knows it.
    pub(crate) fn live(&self) -> Arc<LiveRecords> {
        Arc::new(self.keyspace.entries.values().map(|(_, addr)| *addr).collect())
    }

    pub(crate) fn set(&mut self, key: &[u8], value: &[u8]) {
        let record = Record::whole(RecordKind::String, DbId(0), key, value, None);
        let addr = self.log.append(&record);
        if let Some((_, old)) = self.keyspace.entries.insert(key.to_vec(), (value.to_vec(), addr)) {
            self.log.retire(old);
        }
    }

    /// Logs any record as the entry's new state, or its end.
    pub(crate) fn put(&mut self, record: &Record<'_>) {
        let addr = self.log.append(record);
        let name = name_of(record);
        let old = if record.kind.is_delete() {
            self.keyspace.entries.remove(&name)
        } else {
            self.keyspace.entries.insert(name, (record.value.to_vec(), addr))
        };
        if let Some((_, old)) = old {
            self.log.retire(old);
        }
    }

    pub(crate) fn delete(&mut self, key: &[u8]) {
        if let Some((_, old)) = self.keyspace.entries.remove(key) {
            self.log.append(&Record::key_deleted(DbId(0), key));
            self.log.retire(old);
        }
    }

    /// Seals, and steps everything until nothing is left to do.
    pub(crate) fn settle(&mut self) {
        self.log.seal();
        loop {
            self.clock.advance_us(200_000);
            self.log.poll();
            self.log.tick();
            let mut worked = false;
            for flusher in &mut self.flushers {
                worked |= flusher.step() == Step::Worked;
            }
            worked |= self.compactor.step() == Step::Worked;
            if !worked && self.log.stats().compacting.is_none() {
                break;
            }
        }
        self.log.poll();
    }

    /// Steps the flushers only, until the log is durable.
    pub(crate) fn flush(&mut self) {
        self.log.seal();
        while self.flushers.iter_mut().any(|flusher| flusher.step() == Step::Worked) {}
        self.log.poll();
    }

    /// Ends in good order.
    pub(crate) fn close(mut self) -> Keyspace {
        self.log.shutdown();
        for flusher in &mut self.flushers {
            while flusher.step() != Step::Finished {}
        }
        while self.compactor.step() != Step::Finished {}
        self.keyspace
    }
}

/// Applies a block to what a reader of the blocks before it has made of them.
pub(crate) fn follow(state: &mut BTreeMap<Vec<u8>, Vec<u8>>, block: &redo::LogBlock) {
    for record in block.records() {
        let (_, record) = record.unwrap();
        if record.kind.is_delete() {
            state.remove(record.key);
        } else {
            state.insert(record.key.to_vec(), record.value.to_vec());
        }
    }
}

pub(crate) fn key(number: usize) -> Vec<u8> {
    format!("key-{number}").into_bytes()
}

pub(crate) fn value(number: usize) -> Vec<u8> {
    format!("value-{number}-{}", "x".repeat(number % 100)).into_bytes()
}

/// A number as an index.
pub(crate) fn index(number: u64) -> usize {
    usize::try_from(number).expect("the tests' numbers are small")
}
