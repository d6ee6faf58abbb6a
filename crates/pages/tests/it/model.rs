//! Many concurrent transactions against a model, with crashes at any I/O.
//!
//! The model is a `BTreeMap` of the committed content, one version per commit. Several transactions
//! are interleaved on one thread; a call that finds a lock taken is repeated later, a deadlock ends
//! its transaction. After a crash, the store must equal one version, none older than the last that
//! was promised to be durable.

use std::collections::BTreeMap;
use std::ops::Bound;

use env_sim::Faults;
use pages::{Durability, Error, FileError, LogOffset, Options, PageStore, Transaction};

use crate::harness::{World, small};

type Table = BTreeMap<Vec<u8>, Vec<u8>>;
type Content = BTreeMap<&'static str, Table>;

const TABLES: [&str; 3] = ["alpha", "beta", "gamma"];

/// The parameters of one run.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Plan {
    pub(crate) seed: u64,
    pub(crate) steps: usize,
    pub(crate) keys: usize,
    pub(crate) value_bytes_max: usize,
    pub(crate) transactions: usize,
    pub(crate) flush_on_eviction: bool,
    /// Whether reads, writes and syncs return EIO at random.
    pub(crate) has_faults: bool,
    /// The I/O that returns EIO.
    pub(crate) error_at_io: Option<u64>,
}

impl Plan {
    pub(crate) fn new(seed: u64, steps: usize) -> Self {
        let flush_on_eviction = seed % 4 == 3;
        let keys = [20, 200, 2000][usize::try_from(seed % 3).expect("small")];
        let value_bytes_max = match seed % 5 {
            _ if flush_on_eviction => 2000,
            0 => 12_000,
            1 => 1500,
            _ => 400,
        };
        Self {
            seed,
            steps,
            keys,
            value_bytes_max,
            transactions: 4,
            flush_on_eviction,
            has_faults: false,
            error_at_io: None,
        }
    }

    fn options(&self) -> Options {
        Options {
            flush_on_eviction: self.flush_on_eviction,
            checkpoint_step_pages: 1 + usize::try_from(self.seed % 3).expect("small"),
            online_log_bytes: match self.seed % 5 {
                _ if self.flush_on_eviction => 256 << 10,
                0 => 64 << 10,
                _ => 20 << 10,
            },
            max_age_bytes: if self.seed.is_multiple_of(2) { 30_000 } else { 0 },
            min_del: if self.seed.is_multiple_of(2) { 16 } else { 2 },
            ..small()
        }
    }
}

struct Running {
    transaction: Transaction,
    /// The transaction's view, as far as it has read and changed.
    changes: BTreeMap<(&'static str, Vec<u8>), Option<Vec<u8>>>,
    /// The committed content of ranges when they were read; it must be the same at commit.
    reads: Vec<(&'static str, Vec<u8>, Vec<u8>, Table)>,
    /// A call to be repeated.
    pending: Option<Call>,
}

#[derive(Debug, Clone)]
enum Call {
    Insert(&'static str, Vec<u8>, Vec<u8>),
    Remove(&'static str, Vec<u8>),
    Get(&'static str, Vec<u8>),
    Scan(&'static str, Vec<u8>, Vec<u8>, bool),
    DeleteTable(&'static str),
}

pub(crate) struct Model {
    pub(crate) world: World,
    plan: Plan,
    /// The number of keys inserted at each of the ascending places.
    ascending: [usize; 3],
    /// The content after each commit, by log offset; the first is from when it was opened.
    versions: Vec<(LogOffset, Content)>,
    /// What must survive: an index into `versions`.
    durable: usize,
    running: Vec<Running>,
    pub(crate) commits: usize,
    pub(crate) deadlocks: usize,
}

fn is_world_at_end(error: &Error) -> bool {
    matches!(error, Error::File(FileError::Io { .. }) | Error::Poisoned { .. })
}

impl Model {
    pub(crate) fn new(plan: Plan) -> Self {
        Self {
            ascending: [0; 3],
            world: World::new(plan.seed),
            plan,
            versions: vec![(LogOffset(0), Content::new())],
            durable: 0,
            running: Vec::new(),
            commits: 0,
            deadlocks: 0,
        }
    }

    fn committed(&self) -> &Content {
        &self.versions.last().expect("never empty").1
    }

    /// The key with this number at one of the ascending places of a table.
    fn ascending_key(&self, place: usize, number: usize) -> Vec<u8> {
        format!("{:05}/{number:05}", place * self.plan.keys / self.ascending.len()).into_bytes()
    }

    fn key(&mut self) -> Vec<u8> {
        if self.world.below(6) == 0 {
            let place = self.world.below(self.ascending.len());
            let number = self.world.below(self.ascending[place] + 1);
            return self.ascending_key(place, number);
        }
        let number = self.world.below(self.plan.keys);
        let mut key = format!("{number:05}").into_bytes();
        if number.is_multiple_of(17) {
            key.resize(300, b'x');
        }
        key
    }

    fn call(&mut self) -> Call {
        let table = TABLES[self.world.below(3)];
        let mut key = self.key();
        if self.world.below(150) == 0 {
            return Call::DeleteTable(table);
        }
        match self.world.below(10) {
            0..=4 => {
                // Values of equal length that differ in a few bytes are logged as patches.
                let is_patch = self.world.below(2) == 0;
                let len = match self.world.below(self.plan.value_bytes_max) {
                    _ if is_patch => 50.min(self.plan.value_bytes_max),
                    len => len,
                };
                let fill = u8::try_from(self.world.below(256)).expect("a byte");
                let mut value = vec![if is_patch { b'p' } else { fill }; len];
                value.iter_mut().skip(usize::from(fill) % 40).take(3).for_each(|byte| *byte = fill);
                if self.world.below(3) == 0 {
                    let place = self.world.below(self.ascending.len());
                    key = self.ascending_key(place, self.ascending[place]);
                    self.ascending[place] += 1;
                }
                Call::Insert(table, key, value)
            }
            5 | 6 => Call::Remove(table, key),
            7 => Call::Get(table, key),
            _ => {
                let other = self.key();
                let (low, high) = if key < other { (key, other) } else { (other, key) };
                Call::Scan(table, low, high, self.world.below(2) == 0)
            }
        }
    }

    fn seen(&self, running: &Running, table: &'static str, key: &[u8]) -> Option<Vec<u8>> {
        match running.changes.get(&(table, key.to_vec())) {
            Some(own) => own.clone(),
            None => self.committed().get(table).and_then(|t| t.get(key)).cloned(),
        }
    }

    /// What is committed in a range.
    fn part(&self, table: &str, low: &[u8], high: &[u8]) -> Table {
        let Some(table) = self.committed().get(table) else { return Table::new() };
        table
            .range::<[u8], _>((Bound::Included(low), Bound::Excluded(high)))
            .map(|(k, v)| (k.clone(), v.clone()))
            .collect()
    }

    /// Makes one call and compares the result with the model.
    fn make(&mut self, running: &mut Running, call: &Call) -> Result<(), Error> {
        match call {
            Call::Insert(table, key, value) => {
                running.transaction.table(table).insert(key, value)?;
                running.changes.insert((table, key.clone()), Some(value.clone()));
            }
            Call::Remove(table, key) => {
                let was_there = running.transaction.table(table).remove(key)?;
                assert_eq!(was_there, self.seen(running, table, key).is_some(), "{:?}", self.plan);
                running.changes.insert((table, key.clone()), None);
            }
            Call::DeleteTable(table) => {
                let was_there = running.transaction.delete_table(table)?;
                let empty = Table::new();
                let committed = self.committed().get(table).unwrap_or(&empty);
                let own = running.changes.keys().filter(|(of, _)| of == table);
                let keys: Vec<_> =
                    own.map(|(_, key)| key).chain(committed.keys()).cloned().collect();
                let is_any = keys.iter().any(|key| self.seen(running, table, key).is_some());
                // A newly created table may be empty.
                assert!(was_there || !is_any, "{:?}", self.plan);
                running.changes.extend(keys.into_iter().map(|key| ((*table, key), None)));
            }
            Call::Get(table, key) => {
                let value = running.transaction.table(table).get(key)?;
                assert!(value == self.seen(running, table, key), "{:?}", self.plan);
                let above = [key.as_slice(), b"\0"].concat();
                running.reads.push((
                    *table,
                    key.clone(),
                    above.clone(),
                    self.part(table, key, &above),
                ));
            }
            Call::Scan(table, low, high, is_backwards) => {
                let handle = running.transaction.table(table);
                let range = handle.range(low.as_slice()..high.as_slice());
                let mut found: Vec<_> = if *is_backwards {
                    range.rev().collect::<Result<_, _>>()?
                } else {
                    range.collect::<Result<_, _>>()?
                };
                if *is_backwards {
                    found.reverse();
                }
                let empty = Table::new();
                let mut expected = self.committed().get(table).unwrap_or(&empty).clone();
                for ((of, key), value) in &running.changes {
                    if of == table {
                        expected.remove(key);
                        expected.extend(value.clone().map(|value| (key.clone(), value)));
                    }
                }
                let expected: Vec<_> = expected
                    .range::<Vec<u8>, _>(low..high)
                    .map(|(k, v)| (k.clone(), v.clone()))
                    .collect();
                assert!(found == expected, "{:?}", self.plan);
                let part = self.part(table, low, high);
                running.reads.push((*table, low.clone(), high.clone(), part));
            }
        }
        Ok(())
    }

    /// Takes one step; false when the world has ended.
    fn step(&mut self, store: &PageStore) -> bool {
        self.world.clock.advance_ms(1);
        let done = match self.world.below(40) {
            // Not in every run: most checkpoints should begin by themselves, between commits.
            0 if self.plan.seed.is_multiple_of(4) => store.checkpoint(),
            1 => store.flush().map(|()| self.durable = self.versions.len() - 1),
            2 if self.world.below(10) == 0 => store.check().map(drop),
            3 if self.plan.seed.is_multiple_of(4) && self.world.below(4) == 0 => {
                store.checkpoint_all()
            }
            _ => self.step_transaction(store),
        };
        match done {
            Ok(()) => true,
            Err(error) if is_world_at_end(&error) && self.world.disk.is_crashed() => false,
            Err(error) if is_world_at_end(&error) && self.plan.has_faults => {
                // A read failed: nothing has changed. A write failed: the store is poisoned.
                store.begin().is_ok()
            }
            Err(error) => panic!("{error} {:?}", self.plan),
        }
    }

    fn step_transaction(&mut self, store: &PageStore) -> Result<(), Error> {
        if self.running.len() < self.plan.transactions {
            let transaction = store.begin()?;
            self.running.push(Running {
                transaction,
                changes: BTreeMap::new(),
                reads: Vec::new(),
                pending: None,
            });
            return Ok(());
        }
        let chosen = self.world.below(self.running.len());
        let mut running = self.running.swap_remove(chosen);
        match self.world.below(12) {
            0 => {
                running.transaction.abort();
                Ok(())
            }
            1 | 2 if running.pending.is_none() => self.commit(store, running),
            _ => {
                let call = running.pending.take().unwrap_or_else(|| self.call());
                match self.make(&mut running, &call) {
                    Ok(()) => self.running.push(running),
                    Err(Error::Busy) => {
                        running.pending = Some(call);
                        self.running.push(running);
                    }
                    Err(Error::Deadlock) => self.deadlocks += 1,
                    Err(Error::TransactionTooLarge { .. }) => {}
                    Err(error) => return Err(error),
                }
                Ok(())
            }
        }
    }

    fn commit(&mut self, store: &PageStore, running: Running) -> Result<(), Error> {
        let durability =
            [Durability::Immediate, Durability::Group, Durability::None][self.world.below(3)];
        for (table, low, high, then) in &running.reads {
            let now = self.part(table, low, high);
            assert!(now == *then, "what was read has changed: {:?}", self.plan);
        }
        let mut content = self.committed().clone();
        for ((table, key), value) in running.changes {
            let table = content.entry(table).or_default();
            table.remove(&key);
            table.extend(value.map(|value| (key, value)));
        }
        let result = running.transaction.commit(durability);
        // Even a failed commit may have become durable.
        let offset = *result.as_ref().unwrap_or(&LogOffset(u64::MAX));
        if result.is_ok() || store.begin().is_err() {
            self.versions.push((offset, content));
        }
        result?;
        self.commits += 1;
        if durability == Durability::Immediate {
            self.durable = self.versions.len() - 1;
        }
        Ok(())
    }

    /// Runs until the plan is done or the world ends; true if it is done.
    pub(crate) fn run(&mut self) -> bool {
        let Some(store) = self.open() else { return false };
        if self.plan.error_at_io.is_some() {
            let error_at_io = self.plan.error_at_io;
            self.world.disk.set_faults(Faults { error_at_io, ..Faults::default() });
        } else if self.plan.has_faults {
            self.world.disk.set_faults(Faults {
                error_per_million: 300,
                sync_error_per_million: 3000,
                short_reads: true,
                ..Faults::default()
            });
        }
        for _ in 0..self.plan.steps {
            if !self.step(&store) {
                self.running.clear();
                return false;
            }
        }
        self.running.clear();
        self.world.disk.set_faults(Faults::default());
        // In a store that writes on eviction, the crash may come during a read.
        let looked = store.check().and_then(|_| Self::read(&store));
        match looked {
            Ok(content) => {
                assert!(self.is_version(&content, self.versions.len() - 1), "{:?}", self.plan);
            }
            Err(error) if is_world_at_end(&error) && self.world.disk.is_crashed() => return false,
            Err(error) => panic!("{error} {:?}", self.plan),
        }
        if store.flush().is_err() {
            return false;
        }
        self.durable = self.versions.len() - 1;
        true
    }

    /// Opens the store; `None` if the world ends meanwhile.
    pub(crate) fn open(&mut self) -> Option<PageStore> {
        match PageStore::open(&self.world.env(), self.plan.options()) {
            Ok(store) => Some(store),
            Err(error) if is_world_at_end(&error) && self.world.disk.is_crashed() => None,
            Err(error) => panic!("{error} {:?}", self.plan),
        }
    }

    fn read(store: &PageStore) -> Result<Content, Error> {
        let reader = store.begin_read()?;
        let mut content = Content::new();
        for table in TABLES {
            content.insert(table, reader.table(table).iter().collect::<Result<Table, _>>()?);
        }
        Ok(content)
    }

    fn is_version(&self, content: &Content, version: usize) -> bool {
        let empty = Table::new();
        let expected = &self.versions[version].1;
        TABLES
            .iter()
            .all(|name| content.get(name).unwrap_or(&empty) == expected.get(name).unwrap_or(&empty))
    }

    /// Opens after a crash, possibly crashing again at the given I/Os, and compares.
    pub(crate) fn recover(&mut self, crashes: &[u64]) {
        self.running.clear();
        for n in crashes {
            self.world.disk.crash_after(*n);
            let is_open = self.open().is_some();
            self.world.disk.restart();
            if is_open {
                break;
            }
        }
        let store = self.open().expect("no more crashes");
        store.check().unwrap_or_else(|error| panic!("{error} {:?}", self.plan));
        let content = Self::read(&store).expect("no transaction holds locks");
        let found = (self.durable..self.versions.len())
            .rev()
            .find(|version| self.is_version(&content, *version));
        let Some(found) = found else {
            let older = (0..self.durable).find(|version| self.is_version(&content, *version));
            panic!(
                "neither durable nor newer, but version {older:?} of {}: {:?}",
                self.durable, self.plan
            );
        };
        let (_, content) = self.versions.swap_remove(found);
        self.versions = vec![(LogOffset(0), content)];
        self.durable = 0;
    }
}

/// Runs a plan with crashes at random I/Os.
fn crash_at_random(seed: u64) -> (usize, usize, u64) {
    let mut model = Model::new(Plan::new(seed, 600));
    for _ in 0..4 {
        let n = 1 + model.world.rng.below(400);
        model.world.disk.crash_after(n);
        let is_done = model.run();
        if is_done && model.world.below(2) == 0 {
            model.world.disk.kill();
        } else {
            model.world.disk.restart();
        }
        let again: Vec<u64> =
            (0..model.world.below(3)).map(|_| 1 + model.world.rng.below(12)).collect();
        model.recover(&again);
        model.world.disk.restart();
    }
    (model.commits, model.deadlocks, model.world.disk.trace_hash())
}

fn seeds() -> std::ops::Range<u64> {
    let count = std::env::var("PAGES_SEEDS").ok().and_then(|n| n.parse().ok()).unwrap_or(150);
    let first = std::env::var("PAGES_SEED").ok().and_then(|n| n.parse().ok()).unwrap_or(0);
    first..first + count
}

#[test]
fn equals_the_model_without_crashes() {
    for seed in seeds().take(40) {
        let mut model = Model::new(Plan::new(seed, 1500));
        assert!(model.run());
        model.world.disk.kill();
        model.recover(&[]);
    }
}

#[test]
fn equals_the_model_after_crashes_at_random_moments() {
    let (mut commits, mut deadlocks) = (0, 0);
    for seed in seeds() {
        let (some, refused, _) = crash_at_random(seed);
        commits += some;
        deadlocks += refused;
    }
    assert!(commits > 500 && deadlocks > 10, "{commits} commits, {deadlocks} deadlocks");
}

#[test]
fn equals_the_model_after_errors_of_the_disk() {
    let mut poisoned = 0;
    for seed in seeds() {
        let mut model = Model::new(Plan { has_faults: true, ..Plan::new(seed, 400) });
        for _ in 0..4 {
            let is_done = model.run();
            model.world.disk.set_faults(Faults::default());
            poisoned += usize::from(!is_done);
            // The process restarts; the kernel may show what the device does not have.
            model.world.disk.kill();
            let again = [1 + model.world.rng.below(9), 1 + model.world.rng.below(9)];
            let count = model.world.below(3);
            model.recover(&again[..count]);
            if model.world.below(2) == 0 {
                model.world.disk.restart();
                model.recover(&[]);
            } else {
                model.world.disk.kill();
            }
        }
    }
    assert!(poisoned > 50, "{poisoned}");
}

/// A short trace with an error at every I/O, and a crash at every I/O of its recovery. After a
/// failed sync, the kernel shows what the device does not have.
#[test]
fn equals_the_model_after_an_error_at_every_io_and_a_crash_in_every_recovery() {
    for seed in [1, 3, 8] {
        let plan = Plan { transactions: 2, has_faults: true, ..Plan::new(seed, 90) };
        let mut whole = Model::new(Plan { has_faults: false, ..plan });
        whole.run();
        for n in 1..=whole.world.disk.io_count() {
            for again in 0..10 {
                let mut model = Model::new(Plan { error_at_io: Some(n), ..plan });
                model.run();
                model.world.disk.set_faults(Faults::default());
                model.world.disk.kill();
                model.recover(if again == 0 { &[] } else { std::slice::from_ref(&again) });
                model.world.disk.restart();
                model.recover(&[]);
            }
        }
    }
}

#[test]
fn the_same_seed_is_the_same_run() {
    for seed in 0..8 {
        assert_eq!(crash_at_random(seed), crash_at_random(seed));
    }
}

/// A short trace, crashed before and after every I/O, and at every I/O of the recovery from it.
#[test]
fn equals_the_model_after_a_crash_at_every_io_and_in_every_recovery() {
    for seed in [0, 1, 3] {
        let plan = Plan { transactions: 2, ..Plan::new(seed, 90) };
        let mut whole = Model::new(plan);
        assert!(whole.run());
        let ios = whole.world.disk.io_count();
        assert!(ios > 20, "{ios}");
        for n in 1..=ios {
            for is_after in [false, true] {
                for again in 0..14 {
                    let mut model = Model::new(plan);
                    model.world.disk.crash_at(n, is_after);
                    model.run();
                    model.world.disk.restart();
                    model.recover(if again == 0 { &[] } else { std::slice::from_ref(&again) });
                }
            }
        }
    }
}
