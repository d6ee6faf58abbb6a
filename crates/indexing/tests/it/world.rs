//! A log with everything that works on it, one step at a time, and its index.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use base::{DbId, Lsn, ObjectId, Record, RecordAddr, RecordKind};
use env_sim::{SimDisk, SimEntropy};
use indexing::{Build, Compared, Known, LogIndex, Namer, Options, Step, ValidityPass};
use logindex::{Entry, Index, Indexer, Name};
use redo::{
    Compactor, Env, Flusher, Log, Opened, Reader, Recovery, StartPoint, StoredLog, SyncPolicy,
};

use crate::scan::{Scan, thing_of};

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

/// Compares names and their addresses.
fn assert_same(
    indexed: &BTreeSet<(Name, RecordAddr)>,
    scanned: &BTreeSet<(Name, RecordAddr)>,
    what: &str,
) {
    let only = |a: &BTreeSet<_>, b: &BTreeSet<_>| a.difference(b).copied().collect::<Vec<_>>();
    let (more, less) = (only(indexed, scanned), only(scanned, indexed));
    assert!(
        more.is_empty() && less.is_empty(),
        "{what}: only indexed {more:?}, only scanned {less:?} of {}",
        scanned.len()
    );
}

/// Where the index is.
pub(crate) const INDEX: &str = "/data/index";

/// Reads the log from its first block on.
fn scan_all(reader: &Reader, scan: &mut Scan) -> redo::Result<()> {
    let mut blocks = reader.blocks(Lsn(1));
    while let Some(block) = blocks.next()? {
        for record in block.records() {
            let (addr, record) = record?;
            scan.note(&record, addr);
        }
    }
    scan.bury();
    Ok(())
}

/// How many keys and fields there are.
const NAMES: u64 = 12;

/// Their ids are one byte each in a map.
const DATABASES_MAX: u64 = 124;

pub(crate) struct World {
    pub(crate) rng: SimEntropy,
    clock: Arc<ManualClock>,
    pub(crate) log: Log,
    flushers: Vec<Flusher>,
    compactor: Compactor,
    pub(crate) scan: Scan,
    pub(crate) index: LogIndex,
    /// Finds what is live, after a start from the index.
    validity: Option<Validity>,
    /// The index was begun anew in this life. A compaction that was ordered before may then drop what
    /// the build has read: the build begins again.
    pub(crate) is_begun_anew: bool,
    /// Why the index was begun anew at the start.
    pub(crate) unusable: Option<String>,
    pub(crate) namer: Namer,
}

fn log_options(seed: u64) -> redo::Options {
    let mut options = redo::Options::new("/data");
    options.devices = (0..=seed % 2).map(|n| PathBuf::from(format!("/disk{n}"))).collect();
    options.segment_bytes = if seed.is_multiple_of(3) { 2000 } else { 9000 };
    options.policy = if seed.is_multiple_of(5) { SyncPolicy::Always } else { SyncPolicy::No };
    options.reserve_bytes = 4 << 10;
    options.compaction.invalid_count_min = 2;
    options.compaction.invalid_share_min = 0.3;
    options.compaction.garbage_share_min = 0.0;
    options.compaction.gathered_min = 3;
    options.compaction.rate_bytes_per_s = 0;
    options.parallel_loaders = false;
    options
}

/// The index as it was at the start, and a pass over it.
struct Validity {
    index: Index,
    known: Known,
    pass: Option<ValidityPass>,
}

impl Validity {
    const fn of(index: Index, known: Known) -> Self {
        Self { index, known, pass: None }
    }
}

/// What serves after a start knows the whole log before anything of it is written.
fn assert_whole(whole: &Index, known: &Known, scan: &Scan, namer: &Namer) {
    let mut found = BTreeSet::new();
    let mut visit = |entry: &Entry| {
        found.insert((entry.name, entry.place().expect("it lives").addr()));
    };
    let mut pass = whole.live_pass(known.judge()).unwrap();
    while !pass.step(100, &mut visit).unwrap() {}
    assert_same(&found, &scan.names(namer), "at once");
    for (name, addr) in found {
        let place = whole.probe(name).unwrap().and_then(|entry| entry.place().copied());
        assert_eq!(place.map(|place| place.addr()), Some(addr), "{name:?}");
        let mut range = whole.scope_range(name.scope, name.hash).unwrap();
        let first = range.next().unwrap().and_then(|entry| entry.place().copied());
        assert_eq!(first.map(|place| place.addr()), Some(addr), "{name:?}");
    }
}

/// Looks at the log, and locks it.
fn recovery(disk: &SimDisk, seed: u64, clock: &Arc<ManualClock>) -> redo::Result<Recovery> {
    let env = Env {
        disk: Arc::new(disk.clone()),
        clock: clock.clone(),
        entropy: Box::new(SimEntropy::new(seed)),
        waker: Arc::new(|| {}),
    };
    Recovery::open(env, log_options(seed))
}

/// Opens the log and its index as a program does that asks the index nothing before.
pub(crate) fn open_unasked(disk: &SimDisk, seed: u64) -> indexing::Result<LogIndex> {
    let recovery = recovery(disk, seed, &Arc::default())?;
    let (database, hash_seed) = (recovery.database().0, recovery.hash_seed());
    let opened = recovery.run(&mut Scan::default(), &mut |_| {})?;
    let (reader, dir, options) = (opened.log.reader(), Path::new(INDEX), index_options(500));
    let disk = Arc::new(disk.clone());
    Ok(LogIndex::open(disk, dir, reader, database, hash_seed, options)?.0)
}

/// Opens the log, of which nothing runs, and begins to bring its index up to its end; `true` if the index that
/// was there is of no use.
pub(crate) fn begin_build(disk: &SimDisk, seed: u64) -> indexing::Result<(Build, Opened, bool)> {
    let recovery = recovery(disk, seed, &Arc::default())?;
    let (database, hash_seed) = (recovery.database().0, recovery.hash_seed());
    let opened = recovery.run(&mut Scan::default(), &mut |_| {})?;
    let (reader, dir, options) = (opened.log.reader(), Path::new(INDEX), index_options(100));
    let disk = Arc::new(disk.clone());
    let (build, unusable) = Build::begin(disk, dir, reader, database, hash_seed, options)?;
    Ok((build, opened, unusable.is_some()))
}

/// Compares the index with the log, which is closed.
pub(crate) fn compare_stored(disk: &SimDisk, seed: u64) -> indexing::Result<Compared> {
    let shared: Arc<dyn env::Disk> = Arc::new(disk.clone());
    let devices = log_options(seed).devices;
    let log = StoredLog::open(Arc::clone(&shared), Path::new("/data"), &devices)?;
    let (index, scratch, log) =
        (Path::new(INDEX), Path::new("/scratch"), log.expect("there is one"));
    indexing::compare(&shared, index, scratch, &log, index_options(300), &mut |_| {})
}

/// Opens the log and its index, whose tail is given all records of the log.
pub(crate) fn open_with_all(disk: &SimDisk, seed: u64) -> (LogIndex, Index, Scan) {
    let recovery = recovery(disk, seed, &Arc::default()).unwrap();
    let (database, hash_seed) = (recovery.database().0, recovery.hash_seed());
    let (dir, options) = (Path::new(INDEX), index_options(500));
    let believed = indexing::peek(disk, dir, database).unwrap().believe(recovery.horizon());
    let mut tail = believed.unwrap().tail(hash_seed);
    let opened = recovery.run(&mut tail, &mut |_| {}).unwrap();
    let mut scan = Scan::default();
    scan_all(&opened.log.reader(), &mut scan).unwrap();
    let (disk, reader) = (Arc::new(disk.clone()), opened.log.reader());
    let indexer = Indexer::open(disk, dir, database, options.runs).unwrap();
    let opened = LogIndex::open_with(indexer, dir, reader, hash_seed, options, tail);
    let (index, whole) = opened.unwrap();
    (index, whole, scan)
}

/// Tiny blocks, runs and cuts.
fn index_options(cut_bytes: u64) -> Options {
    let runs = logindex::Options {
        block_bytes: 256,
        fan_in: 2,
        newer_min_bytes: 0,
        level_1_max: 2,
        cache_bytes: 2 << 10,
        step_entries: 5,
        chunk_bytes: 256,
        sync_bytes: 1024,
        ..logindex::Options::default()
    };
    Options {
        step_bytes: 150,
        cut_bytes,
        cut_entries: if cut_bytes == u64::MAX { usize::MAX } else { 40 },
        runs,
    }
}

impl World {
    /// Opens everything, by a scan of the log. The index may be behind.
    pub(crate) fn open(
        disk: &SimDisk,
        seed: u64,
        life: u64,
    ) -> Result<Self, Box<dyn std::error::Error>> {
        Self::open_with(disk, seed, life, 300 + seed % 7 * 200)
    }

    pub(crate) fn open_with(
        disk: &SimDisk,
        seed: u64,
        life: u64,
        cut_bytes: u64,
    ) -> Result<Self, Box<dyn std::error::Error>> {
        let clock = Arc::new(ManualClock::default());
        let mut rng = SimEntropy::new(seed ^ (life << 32));
        let mut recovery = recovery(disk, seed, &clock)?;
        let disk: Arc<dyn env::Disk> = Arc::new(disk.clone());
        let (database, hash_seed) = (recovery.database().0, recovery.hash_seed());
        let (dir, options) = (Path::new(INDEX), index_options(cut_bytes));
        let peeked = indexing::peek(&*disk, dir, database)?;
        recovery.note_durable(peeked.durable());
        let mut scan = Scan::default();
        let believed = peeked.believe(recovery.horizon()).ok().filter(|_| rng.below(2) == 0);
        let (opened, index, whole, unusable) = match believed {
            Some(believed) => {
                let next_object = believed.known().next_object();
                let point = StartPoint { cut: believed.cut(), next_object };
                let mut tail = believed.tail(hash_seed);
                let opened = recovery.run_behind(point, &mut tail, &mut |_| {})?;
                let reader = opened.log.reader();
                scan_all(&reader, &mut scan)?;
                let indexer = Indexer::open(disk, dir, database, options.runs)?;
                let (index, whole) =
                    LogIndex::open_with(indexer, dir, reader, hash_seed, options, tail)?;
                let end = opened.log.durable_lsn();
                assert_eq!(whole.cut().unwrap_or(Lsn::ZERO), end, "it is complete at once");
                (opened, index, Some(whole), None)
            }
            None => {
                let opened = recovery.run(&mut scan, &mut |_| {})?;
                let reader = opened.log.reader();
                let (index, unusable) =
                    LogIndex::open(disk, dir, reader, database, hash_seed, options)?;
                (opened, index, None, unusable)
            }
        };
        let Opened { log, flushers, compactor, .. } = opened;
        let namer = Namer::new(hash_seed);
        if let Some(whole) = &whole {
            assert_whole(whole, index.known(), &scan, &namer);
        }
        let whole = whole.filter(|_| !log.knows_validity());
        let validity = whole.map(|whole| Validity::of(whole, index.known().clone()));
        Ok(Self {
            rng,
            clock,
            log,
            flushers,
            compactor,
            scan,
            index,
            validity,
            is_begun_anew: false,
            unusable,
            namer,
        })
    }

    fn put(&mut self, record: &Record<'_>) {
        let is_new = !self.scan.newest.contains_key(&thing_of(record));
        let record = record.new_entry(is_new && !record.kind.is_delete());
        let addr = self.log.append(&record);
        let old = self.scan.note(&record, addr);
        self.retire(old);
    }

    fn retire(&mut self, addrs: impl IntoIterator<Item = RecordAddr>) {
        addrs.into_iter().for_each(|addr| self.log.retire(addr));
    }

    /// One of the two that the map names; or one that `databases` was raised for, and that is in no map.
    fn database(&mut self) -> DbId {
        match &self.scan.map {
            None => DbId(self.rng.below(2)),
            Some((_, _, next)) if self.rng.below(8) == 0 => {
                self.scan.next_db = self.scan.next_db.max(next + 1);
                DbId(*next)
            }
            Some((_, ids, _)) => DbId(ids[usize::try_from(self.rng.below(2)).unwrap()]),
        }
    }

    fn name(&mut self) -> Vec<u8> {
        format!("name-{}", self.rng.below(NAMES)).into_bytes()
    }

    fn map(&mut self, ids: &[u64]) {
        let value: Vec<u8> =
            [self.scan.next_db].iter().chain(ids).map(|id| u8::try_from(*id).unwrap()).collect();
        self.put(&Record::whole(RecordKind::Databases, DbId(0), &[], &value, None));
    }

    /// The ids that two new databases get.
    fn new_databases(&mut self) -> [u64; 2] {
        let first = self.scan.next_db.max(2);
        self.scan.next_db = first + 2;
        [first, first + 1]
    }

    /// One command, in the block that is open.
    pub(crate) fn write(&mut self) {
        let (db, key) = (self.database(), self.name());
        let value = vec![b'v'; usize::try_from(self.rng.below(90)).unwrap()];
        match self.rng.below(20) {
            0..9 => self.put(&Record::whole(RecordKind::String, db, &key, &value, Some(9))),
            9..12 if self.scan.newest.contains_key(&(false, db.0, key.clone())) => {
                self.put(&Record::key_deleted(db, &key));
            }
            12..14 => {
                let id = ObjectId(self.scan.next_object.max(1));
                for _ in 0..=self.rng.below(6) {
                    let field = self.name();
                    self.put(&Record::element(RecordKind::HashField, id, &field, &value));
                }
                self.put(&Record::root(RecordKind::Hash, db, &key, id, &[0], None));
            }
            14..17 => self.change_object(&value),
            17 => self.expire(),
            18 => self.rename(db, &key),
            _ if self.rng.below(4) == 0 && self.scan.next_db < DATABASES_MAX => {
                let ids = self.new_databases();
                self.map(&ids);
            }
            _ => {}
        }
        let dead = self.scan.bury();
        self.retire(dead);
    }

    fn change_object(&mut self, value: &[u8]) {
        let fields: Vec<_> = self.scan.newest.keys().filter(|thing| thing.0).cloned().collect();
        let Some(len) = std::num::NonZero::new(fields.len() as u64) else { return };
        let at = usize::try_from(self.rng.below(len.get())).unwrap();
        let (_, object, field) = &fields[at];
        let record = match self.rng.below(3) {
            0 => Record::element_deleted(ObjectId(*object), field),
            _ => Record::element(RecordKind::HashField, ObjectId(*object), field, value),
        };
        self.put(&record);
    }

    /// A root is logged again: it moves behind its elements.
    fn expire(&mut self) {
        let is_root = |newest: &crate::scan::Newest| newest.object != ObjectId::NONE;
        let mut roots =
            self.scan.newest.iter().filter(|(thing, newest)| !thing.0 && is_root(newest));
        let Some((thing, root)) = roots.next_back().map(|(thing, root)| (thing.clone(), *root))
        else {
            return;
        };
        let record =
            Record::root(RecordKind::Hash, DbId(thing.1), &thing.2, root.object, &[0], Some(7));
        self.put(&record);
    }

    /// The elements stay where they are.
    fn rename(&mut self, db: DbId, to: &[u8]) {
        let is_root = |newest: &crate::scan::Newest| newest.object != ObjectId::NONE;
        let roots = self.scan.newest.iter().filter(|(thing, newest)| !thing.0 && is_root(newest));
        let Some((from, root)) = roots.map(|(thing, root)| (thing.clone(), *root)).next() else {
            return;
        };
        if from.1 == db.0 && from.2 == to {
            return;
        }
        self.put(&Record::root(RecordKind::Hash, db, to, root.object, &[0], None));
        self.put(&Record::key_deleted(DbId(from.1), &from.2));
    }

    /// Logs everything anew under ids that no map names until the end, over several blocks.
    pub(crate) fn relog(&mut self) {
        if self.scan.next_db >= DATABASES_MAX {
            return;
        }
        let old: Vec<u64> = self.scan.map.as_ref().map_or(vec![0, 1], |(_, ids, _)| ids.clone());
        let new = self.new_databases();
        self.map(&old);
        let all: Vec<_> = self.scan.newest.clone().into_iter().collect();
        for ((is_element, scope, name), newest) in all {
            if is_element || self.log.open_bytes() > 500 {
                self.seal_and_work();
            }
            let Some(at) = old.iter().position(|id| !is_element && *id == scope) else { continue };
            let db = DbId(new[at]);
            if newest.object == ObjectId::NONE {
                self.put(&Record::whole(RecordKind::String, db, &name, b"anew", None));
                continue;
            }
            let id = ObjectId(self.scan.next_object);
            self.scan.next_object += 1;
            self.put(&Record::root(RecordKind::Hash, db, &name, id, &[0], None));
            let fields: Vec<_> = self.scan.newest.keys().filter(|thing| thing.0).cloned().collect();
            for (_, _, field) in fields.iter().filter(|field| field.1 == newest.object.0) {
                self.put(&Record::element(RecordKind::HashField, id, field, b"anew"));
                self.seal_and_work();
            }
        }
        self.map(&new);
        let dead = self.scan.bury();
        self.retire(dead);
    }

    fn seal_and_work(&mut self) {
        self.log.seal();
        for _ in 0..3 {
            self.work();
        }
    }

    /// Looks for what is live, if that is not known.
    fn find_live(&mut self) {
        let Some(validity) = &mut self.validity else { return };
        if validity.pass.is_none() {
            validity.pass = ValidityPass::new(&validity.index, &validity.known).ok();
        }
        let Some(pass) = &mut validity.pass else { return };
        match pass.step(11) {
            Ok(Some((live, _))) => {
                self.validity = None;
                self.log.note_live(Arc::new(live)).unwrap();
            }
            Ok(None) => {}
            Err(error) => {
                assert!(!error.is_final(), "{error}");
                validity.pass = None;
            }
        }
    }

    /// Something goes on.
    pub(crate) fn work(&mut self) {
        if self.rng.below(1500) == 0 {
            // If it fails, the index goes on.
            _ = self.index.begin_anew();
            self.is_begun_anew = true;
        }
        if self.rng.below(4) == 0 {
            self.find_live();
        }
        match self.rng.below(12) {
            0..4 => {
                let at = self.rng.below(self.flushers.len() as u64);
                self.flushers[usize::try_from(at).unwrap()].step();
            }
            4..6 => _ = self.compactor.step(),
            6..10 => {
                // What fails is tried again.
                let stepped = self.index.step(true);
                if let Err(error) = stepped
                    && error.is_final()
                {
                    assert!(self.is_begun_anew, "nothing is missed: {error}");
                    _ = self.index.begin_anew();
                }
            }
            10 => {
                self.clock.0.fetch_add(200_000, Ordering::Relaxed);
                self.log.tick();
            }
            _ => {
                self.log.request_sync(Lsn(self.log.open_lsn().0 - 1));
                if self.rng.below(20) == 0 {
                    self.log.compact_all();
                }
            }
        }
        self.log.poll();
    }

    /// Everything comes to rest. Returns whether it did: compactions, too, that wait for a cut.
    pub(crate) fn rest(&mut self) -> bool {
        self.rest_as(true)
    }

    /// The same; only the index may ask for a sync if `is_synced` is not set.
    pub(crate) fn rest_as(&mut self, is_synced: bool) -> bool {
        self.log.seal();
        for _ in 0..3000 {
            self.clock.0.fetch_add(200_000, Ordering::Relaxed);
            if is_synced {
                self.log.request_sync(Lsn(self.log.open_lsn().0 - 1));
            }
            self.log.tick();
            self.find_live();
            let mut is_at_rest = self.log.knows_validity();
            for flusher in &mut self.flushers {
                is_at_rest &= flusher.step() != redo::Step::Worked;
            }
            is_at_rest &= self.compactor.step() != redo::Step::Worked;
            self.log.poll();
            is_at_rest &= matches!(self.index.step(true), Ok(Step::Idle));
            let wanted = self.log.reader().index_bound().wanted();
            is_at_rest &= wanted <= self.index.cut() && self.log.stats().compacting.is_none();
            if is_at_rest {
                return true;
            }
        }
        false
    }

    /// The same for a log whose index does nothing.
    pub(crate) fn rest_without_index(&mut self) {
        self.log.compact_all();
        for _ in 0..3000 {
            self.clock.0.fetch_add(200_000, Ordering::Relaxed);
            self.log.request_sync(Lsn(self.log.open_lsn().0 - 1));
            self.log.tick();
            self.flushers.iter_mut().for_each(|flusher| _ = flusher.step());
            self.compactor.step();
            self.log.poll();
        }
    }

    /// Brings the index up to the end of the log, which must be at rest, unless the disk fails.
    pub(crate) fn catch_up(&mut self) {
        loop {
            loop {
                match self.index.step(true) {
                    Ok(Step::Worked) => {}
                    Ok(Step::Idle) => break,
                    Err(error) if error.is_final() && self.is_begun_anew => {
                        _ = self.index.begin_anew();
                    }
                    Err(_) => return,
                }
            }
            if self.index.cut() == self.index.read() {
                return;
            }
            self.index.cut_now();
        }
    }

    /// Compares the index, which must be up to date, with a scan that is.
    pub(crate) fn check(&self, scan: &Scan, what: &str) {
        assert_same(&self.indexed(), &scan.names(&self.namer), what);
        let known = self.index.known();
        let keys: Option<BTreeMap<DbId, u64>> = known.keys().map(Iterator::collect);
        assert_eq!(keys, Some(scan.keys()), "{what}: keys");
        assert_eq!(known.databases_addr(), scan.map.as_ref().map(|map| map.0), "{what}");
        let mut pass = self.index.validity_pass().unwrap();
        let (live, counts) = loop {
            if let Some(found) = pass.step(7).unwrap() {
                break found;
            }
        };
        let expected = scan.live();
        let missed = expected.iter().find(|addr| !live.contains(**addr));
        assert_eq!(missed, None, "{what}: live");
        assert_eq!(live.count(), expected.len() as u64, "{what}: live");
        assert_eq!(counts.databases, scan.keys().into_iter().collect::<Vec<_>>(), "{what}");
    }

    /// Every living entry of the index. It must be up to date.
    pub(crate) fn indexed(&self) -> BTreeSet<(Name, RecordAddr)> {
        let mut found = BTreeSet::new();
        let judge = self.index.known().judge();
        let mut pass = self.index.published().get().live_pass(judge).unwrap();
        let mut visit = |entry: &Entry| {
            found.insert((entry.name, entry.place().expect("it lives").addr()));
        };
        while !pass.step(100, &mut visit).unwrap() {}
        found
    }

    pub(crate) fn expected(&self) -> BTreeSet<(Name, RecordAddr)> {
        self.scan.names(&self.namer)
    }

    pub(crate) fn close(mut self) {
        self.log.shutdown();
        for flusher in &mut self.flushers {
            while flusher.step() == redo::Step::Worked {}
        }
        while self.compactor.step() == redo::Step::Worked {}
    }
}
