//! The server as it runs in the simulator: the real engine, keyspace and log, stepped.
//!
//! ```text
//!   Machine ── call ──► Engine ──► Shard ──► Wiretap ──► OwnedLog ──► Log
//!      └── step ──► Works: flushers, compactor ── SimDisk
//! ```
//!
//! [`boot`] and [`Machine::reload`] are what `server::serve` does, without sockets, signals and
//! threads.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use base::{DbId, Lsn, ObjectId};
use env::Clock;
use env_sim::{SimClock, SimDisk, SimEntropy};
use keyspace::{Keyspace, NoJournal, Survey};
use redo::{
    Compactor, DeviceState, Env, Flusher, Opened, PendingSync, Reader, Recovery, Scrubber, Step,
    Summary, Turn,
};
use server::config::Config;
use server::engine::{BoxedLog, CloseError, Deps, DevicesError, Engine, ShardLog};
use server::host::{CpuTimes, Host, MemoryUsage};
use server::load::{Filling, Shape, log_options};
use server::logger::Logger;
use server::owned_log::{LogWorkers, own};

use crate::addresses::Addresses;
use crate::index::{self, Expected, IndexShape, Keeper};
use crate::picture::Picture;
use crate::shadow::{Filled, Logged, Shadow, Surveying, Twice};
use crate::wiretap::{Tap, Wiretap, lock};

/// What the log is made like beyond what the configuration can say.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LogShape {
    /// How many devices.
    pub(crate) devices: usize,
    /// The size at which segments end.
    pub(crate) segment_bytes: u64,
    /// How much may wait for the devices.
    pub(crate) in_flight_bytes: u64,
    /// What the log's index is like, if one is kept in some lives.
    pub(crate) index: Option<IndexShape>,
}

/// `maxmemory`.
pub(crate) const MEMORY_MAX_BYTES: u64 = 1 << 20;

/// The data directory.
#[must_use]
pub(crate) fn data_dir() -> PathBuf {
    PathBuf::from("/data")
}

/// The directory of a device.
#[must_use]
pub(crate) fn device_dir(index: usize) -> PathBuf {
    PathBuf::from(format!("/device-{index}"))
}

/// The flushers, the compactor and the scrubber, to be stepped.
pub(crate) struct Works {
    flushers: Vec<Flusher>,
    /// By flusher, the sync that its thread waits for while the executor goes on writing.
    syncing: Vec<Option<PendingSync>>,
    /// None once the log is closed.
    compactor: Option<Compactor>,
    scrubber: Option<Scrubber>,
    /// What keeps the index of the log, in a life with one.
    pub(crate) index: Option<Keeper>,
    /// Reads by address.
    reader: Option<Reader>,
    clock: SimClock,
    /// When each flusher has stepped last, and the longest that any has not.
    stepped_at_us: Vec<u64>,
    longest_gap_us: u64,
    /// Blocks that the executor has written itself.
    pub(crate) written_now: u64,
    /// A flusher that gets hardly any steps: its device is slow.
    pub(crate) starved: Option<usize>,
}

impl Works {
    /// One of them does something.
    pub(crate) fn step_any(&mut self, rng: &mut SimEntropy) {
        let count = self.flushers.len();
        let others = if self.index.is_some() { 3 } else { 2 };
        let index = usize::try_from(rng.below(count as u64 + others)).expect("few");
        if index == count {
            self.step_compactor();
        } else if index == count + 1 {
            self.step_scrubber();
        } else if index > count {
            for _ in 0..=rng.below(4) {
                self.step_index(rng.coin());
            }
        } else if self.starved != Some(index) || rng.below(40) == 0 {
            let now_us = self.clock.monotonic_us();
            let gap_us = now_us - self.stepped_at_us[index];
            self.longest_gap_us = self.longest_gap_us.max(gap_us);
            self.stepped_at_us[index] = now_us;
            let is_long = rng.below(2) == 0;
            self.step_flusher(index, is_long);
        }
    }

    /// A flusher takes a turn, and the sync that this begins may last until its next one.
    fn step_flusher(&mut self, index: usize, is_long: bool) -> Step {
        let flusher = &mut self.flushers[index];
        let sync = match self.syncing[index].take() {
            Some(sync) => sync,
            None => match flusher.turn() {
                Turn::Step(step) => return step,
                Turn::Sync(sync) if is_long => {
                    self.syncing[index] = Some(sync);
                    return Step::Worked;
                }
                Turn::Sync(sync) => sync,
            },
        };
        let result = sync.run();
        flusher.synced(&sync, result);
        Step::Worked
    }

    /// The executor has a flusher write, unless its thread is just at it. Whether it has.
    fn write_now(&mut self, device: usize, rng: &mut SimEntropy) -> bool {
        if self.starved == Some(device) || rng.below(4) == 0 {
            return false;
        }
        let mut flushers = self.flushers.iter_mut();
        let has_written = flushers
            .find(|flusher| flusher.device_index() == device)
            .is_some_and(Flusher::write_now);
        self.written_now += u64::from(has_written);
        has_written
    }

    /// The longest time that any flusher had no step, and whether none is slow on purpose.
    pub(crate) fn gap_us(&self, now_us: u64) -> (u64, bool) {
        let open_us = self.stepped_at_us.iter().map(|at_us| now_us - at_us).max();
        (self.longest_gap_us.max(open_us.unwrap_or(0)), self.starved.is_none())
    }

    /// All of them do something; whether any has.
    pub(crate) fn step_all(&mut self) -> bool {
        let mut has_worked = false;
        for index in 0..self.flushers.len() {
            has_worked |= self.step_flusher(index, false) == Step::Worked;
        }
        has_worked |= self.step_scrubber() == Step::Worked;
        has_worked |= self.step_index(true) == Step::Worked;
        has_worked | (self.step_compactor() == Step::Worked)
    }

    fn step_scrubber(&mut self) -> Step {
        self.scrubber.as_mut().map_or(Step::Finished, Scrubber::step)
    }

    pub(crate) fn step_index(&mut self, may_look: bool) -> Step {
        self.index.as_mut().map_or(Step::Finished, |index| index.step(may_look))
    }

    /// See [`Keeper::take_suspicion`].
    pub(crate) fn take_suspicion(&mut self) -> Option<String> {
        self.index.as_mut()?.take_suspicion()
    }

    pub(crate) fn step_compactor(&mut self) -> Step {
        self.compactor.as_mut().map_or(Step::Finished, Compactor::step)
    }
}

/// The handle by which the engine ends the works.
struct Stepped {
    works: Arc<Mutex<Works>>,
    rng: SimEntropy,
}

/// How often everything is stepped for the log to come to its end.
const FINISH_ROUNDS: usize = 2000;

impl LogWorkers for Stepped {
    fn add_flushers(
        &mut self,
        _count_max: usize,
        add: &mut dyn FnMut() -> Result<Vec<Flusher>, DevicesError>,
    ) -> Result<(), DevicesError> {
        let added = add()?;
        let mut works = lock(&self.works);
        let now_us = works.clock.monotonic_us();
        works.stepped_at_us.extend(added.iter().map(|_| now_us));
        works.syncing.extend(added.iter().map(|_| None));
        works.flushers.extend(added);
        Ok(())
    }

    fn write_now(&mut self, device: usize) -> bool {
        lock(&self.works).write_now(device, &mut self.rng)
    }

    fn finish(&mut self) -> Result<(), CloseError> {
        let mut works = lock(&self.works);
        let works = &mut *works;
        // What it has not cut is read again after the next start.
        (works.index, works.reader) = (None, None);
        for _ in 0..FINISH_ROUNDS {
            let mut is_finished = works.step_compactor() == Step::Finished;
            is_finished &= works.step_scrubber() == Step::Finished;
            for index in 0..works.flushers.len() {
                is_finished &= works.step_flusher(index, false) == Step::Finished;
            }
            if is_finished {
                return Ok(());
            }
            works.clock.advance_ms(1);
        }
        Err(CloseError::Unfinished)
    }
}

/// See the file's top.
pub(crate) struct Machine {
    pub(crate) engine: Engine,
    pub(crate) works: Arc<Mutex<Works>>,
    pub(crate) tap: Arc<Mutex<Tap>>,
    /// What follows the log.
    shadow: Shadow,
    /// The shadow's state as of the last look.
    picture: Picture,
    /// What the host says is used.
    used_bytes: Arc<AtomicU64>,
}

/// The world that a machine is started in.
pub(crate) struct Site<'a> {
    pub(crate) disk: &'a SimDisk,
    pub(crate) clock: &'a SimClock,
    pub(crate) config: &'a Config,
    pub(crate) shape: &'a LogShape,
    /// `log-index`.
    pub(crate) keeps_index: bool,
    pub(crate) seed: u64,
    /// How often the works step inside a command, in a million.
    pub(crate) steps_per_million: u32,
}

impl Site<'_> {
    /// What an index is like that is kept in this life.
    fn index(&self) -> Option<IndexShape> {
        self.shape.index.filter(|_| self.keeps_index)
    }

    /// What the log is read into.
    fn twice(&self, recovery: &Recovery) -> Twice {
        let shape = Shape::new(&self.config.options(), self.clock.now_ms());
        let addresses = self.shape.index.map(|_| Addresses::new(recovery.hash_seed()));
        Twice::new(|| Filling::new(recovery, shape), addresses)
    }
}

/// The data and the log, as recovery has brought them up.
struct Data {
    keyspace: Keyspace<NoJournal>,
    open: Open,
    picture: Picture,
    summary: Summary,
}

/// A log that is open, and what is needed to watch and step it.
struct Open {
    log: BoxedLog,
    works: Arc<Mutex<Works>>,
    tap: Arc<Mutex<Tap>>,
    shadow: Shadow,
}

/// A log that is locked, and not read.
fn find_log(site: &Site<'_>, rng: &mut SimEntropy) -> redo::Result<Recovery> {
    let env = Env {
        disk: Arc::new(site.disk.clone()),
        clock: Arc::new(site.clock.clone()),
        entropy: Box::new(SimEntropy::new(rng.next())),
        waker: Arc::new(|| {}),
    };
    let mut log = log_options(&site.config.options(), data_dir());
    log.devices = (0..site.shape.devices).map(device_dir).collect();
    log.segment_bytes = site.shape.segment_bytes;
    log.in_flight_bytes_max = site.shape.in_flight_bytes;
    log.reserve_bytes = 2000;
    log.parallel_loaders = false;
    let recovery = Recovery::open(env, log)?;
    if site.index().is_none() {
        index::remove(site.disk)?;
    }
    Ok(recovery)
}

/// The database and the seed of its hashes.
type Identity = (redo::Id, [u8; 16]);

/// What `server::serve` does with a log that was read: its index is opened, and all starts to work.
fn start_log(
    site: &Site<'_>,
    rng: &mut SimEntropy,
    (database, hash_seed): Identity,
    opened: Opened,
    tap: Tap,
    shadow: Shadow,
) -> redo::Result<Open> {
    let Opened { log, flushers, compactor, .. } = opened;
    let index = site
        .index()
        .map(|shape| Keeper::open(site.disk, log.reader(), database, hash_seed, shape))
        .transpose()?;
    let works = Works {
        stepped_at_us: vec![site.clock.monotonic_us(); flushers.len()],
        longest_gap_us: 0,
        syncing: flushers.iter().map(|_| None).collect(),
        flushers,
        compactor: Some(compactor),
        scrubber: Some(log.scrubber()),
        index,
        reader: Some(log.reader()),
        clock: site.clock.clone(),
        written_now: 0,
        starved: None,
    };
    let works = Arc::new(Mutex::new(works));
    let workers = Stepped { works: Arc::clone(&works), rng: SimEntropy::new(rng.next()) };
    let tap = Arc::new(Mutex::new(tap));
    let log = Box::new(Wiretap {
        log: own(log, Box::new(workers)),
        tap: Arc::clone(&tap),
        works: Arc::clone(&works),
        rng: SimEntropy::new(rng.next()),
        steps_per_million: site.steps_per_million,
    });
    Ok(Open { log, works, tap, shadow })
}

/// What `server::serve` does on its recovery thread.
fn recover(site: &Site<'_>, rng: &mut SimEntropy) -> redo::Result<Data> {
    let recovery = find_log(site, rng)?;
    let identity = (recovery.database(), recovery.hash_seed());
    let mut twice = site.twice(&recovery);
    let opened = recovery.run(&mut twice, &mut |_| {})?;
    let filled = twice.into_filled().expect("the shadow is the server's keyspace");
    let Filled { keyspace, shadow, retired, addresses } = filled;
    let picture = Picture::of(&keyspace);
    assert!(picture == Picture::of(shadow.keyspace()), "the shadow is the server's keyspace");
    let (tap, summary) = (Tap::new(&keyspace, retired, addresses), opened.summary.clone());
    let open = start_log(site, rng, identity, opened, tap, shadow)?;
    Ok(Data { keyspace, open, picture, summary })
}

/// The same for a log that is turned on.
fn survey(site: &Site<'_>, rng: &mut SimEntropy) -> redo::Result<(Open, Survey)> {
    let recovery = find_log(site, rng)?;
    let identity = (recovery.database(), recovery.hash_seed());
    let survey = Survey::new(recovery.object_floor());
    let mut surveying = Surveying::new(survey, site.twice(&recovery));
    let mut opened = recovery.run(&mut surveying, &mut |_| {})?;
    opened.log.set_frozen(true);
    let Surveying { survey, twice, .. } = surveying;
    let filled = twice.into_filled().expect("the shadow is what the log holds");
    let Filled { shadow, addresses, .. } = filled;
    // What is garbage the log is told when all is logged anew, and so is the tap.
    let mut tap = Tap::new(shadow.keyspace(), BTreeSet::new(), addresses);
    tap.is_copying = true;
    Ok((start_log(site, rng, identity, opened, tap, shadow)?, survey))
}

/// Recovers the database and starts the server.
///
/// # Errors
/// Why it does not start.
pub(crate) fn boot(site: &Site<'_>) -> redo::Result<(Machine, Summary)> {
    let mut rng = SimEntropy::new(site.seed);
    let data = recover(site, &mut rng)?;
    let clock: Arc<dyn Clock> = Arc::new(site.clock.clone());
    let used_bytes = Arc::new(AtomicU64::new(0));
    let deps = Deps {
        clock: Arc::clone(&clock),
        disk: Arc::new(site.disk.clone()),
        entropy: Box::new(SimEntropy::new(rng.next())),
        host: Box::new(SimHost { used_bytes: Arc::clone(&used_bytes) }),
        logger: Logger::to_nothing(clock),
    };
    let mut engine = Engine::new(site.config.clone(), deps);
    let Data { keyspace, open, picture, summary } = data;
    let Open { log, works, tap, shadow } = open;
    engine.loaded(keyspace, Some(log));
    Ok((Machine { engine, works, tap, shadow, picture, used_bytes }, summary))
}

/// A machine whose memory is as full as the simulator says; every look finds a byte less.
struct SimHost {
    used_bytes: Arc<AtomicU64>,
}

impl Host for SimHost {
    fn used_bytes(&self) -> u64 {
        let used_bytes = self.used_bytes.load(Ordering::Relaxed);
        self.used_bytes.store(used_bytes.saturating_sub(1), Ordering::Relaxed);
        used_bytes
    }

    fn memory(&self) -> MemoryUsage {
        MemoryUsage { allocator: "none", ..MemoryUsage::default() }
    }

    fn purge(&self) {}

    fn cpu(&self) -> CpuTimes {
        CpuTimes::default()
    }
}

/// What a call of the engine has written.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wrote {
    /// The block, if there was a record.
    pub(crate) lsn: Option<Lsn>,
}

/// What a crash brings back after a block.
pub(crate) struct AfterBlock {
    pub(crate) lsn: Lsn,
    pub(crate) picture: Picture,
    /// The largest object that it names.
    pub(crate) object_max: ObjectId,
}

impl Machine {
    /// Lets the engine do something, and sees what it has written.
    ///
    /// # Errors
    /// When the records of one call lie in two blocks.
    pub(crate) fn call<T>(
        &mut self,
        run: impl FnOnce(&mut Engine) -> T,
    ) -> Result<(T, Wrote), String> {
        let result = run(&mut self.engine);
        let mut tap = lock(&self.tap);
        if let Some(ObjectId(object)) = tap.reused {
            return Err(format!("REUSED: object {object} is not the first with this number"));
        }
        match tap.take_blocks() {
            None => Ok((result, Wrote { lsn: None })),
            Some((first, last)) if first == last => Ok((result, Wrote { lsn: Some(last) })),
            Some((first, last)) => {
                Err(format!("SPLIT: the records of one call lie in blocks {first} to {last}"))
            }
        }
    }

    /// The last block that was sealed.
    pub(crate) fn sealed(&self) -> Lsn {
        let open_lsn = match self.engine.log() {
            Some(log) => log.open_lsn(),
            None => lock(&self.tap).closed.as_ref().expect("it was closed").open_lsn,
        };
        Lsn(open_lsn.0 - 1)
    }

    /// As much memory is used from now on as lets the engine evict about so many keys.
    pub(crate) fn fill_memory(&self, keys: u64) {
        self.used_bytes.store(MEMORY_MAX_BYTES + keys, Ordering::Relaxed);
    }

    /// Whether the engine is about to evict keys.
    pub(crate) fn is_memory_full(&self) -> bool {
        self.used_bytes.load(Ordering::Relaxed) > MEMORY_MAX_BYTES
    }

    /// DEBUG RELOAD: the data are loaded again from the log, which was closed; `found` looks at
    /// them first.
    ///
    /// # Errors
    /// Why that cannot be, or what `found` says.
    pub(crate) fn reload(
        &mut self,
        site: &Site<'_>,
        found: impl FnOnce(&Picture, &Summary) -> Result<(), String>,
    ) -> redo::Result<Result<(), String>> {
        self.let_go_of_log();
        let data = recover(site, &mut SimEntropy::new(site.seed))?;
        let Data { keyspace, open, picture, summary } = data;
        let Open { log, works, tap, shadow } = open;
        if let Err(wrong) = found(&picture, &summary) {
            return Ok(Err(wrong));
        }
        self.engine.loaded(keyspace, Some(log));
        (self.works, self.tap, self.shadow, self.picture) = (works, tap, shadow, picture);
        Ok(Ok(()))
    }

    /// Each part of a log that was closed keeps it locked.
    pub(crate) fn let_go_of_log(&self) {
        let mut works = lock(&self.works);
        works.flushers.clear();
        works.syncing.clear();
        works.compactor = None;
        works.scrubber = None;
        (works.index, works.reader) = (None, None);
    }

    /// The last block of a log that was closed with all of it durable.
    pub(crate) fn closed_at(&self) -> Option<Lsn> {
        let tap = lock(&self.tap);
        let closed = tap.closed.as_ref()?;
        (closed.durable_lsn.next() == closed.open_lsn).then_some(closed.durable_lsn)
    }

    /// CONFIG SET appendonly yes: the log is opened for the keyspace that is there.
    ///
    /// # Errors
    /// Why that cannot be.
    pub(crate) fn open_log(&mut self, site: &Site<'_>) -> redo::Result<(BoxedLog, Survey)> {
        let (open, survey) = survey(site, &mut SimEntropy::new(site.seed))?;
        let Open { log, works, tap, shadow } = open;
        self.picture = Picture::of(shadow.keyspace());
        (self.works, self.tap, self.shadow) = (works, tap, shadow);
        Ok((log, survey))
    }

    /// Follows the log to the last block that was sealed. Returns what a crash brings back after
    /// each new one, and the largest object that it names.
    ///
    /// # Errors
    /// What is wrong with what was logged.
    pub(crate) fn follow(&mut self) -> Result<Vec<AfterBlock>, String> {
        let sealed = self.sealed();
        let mut tap = lock(&self.tap);
        let _looked_at_below = tap.take_touched();
        let sealed_count = tap.logged.partition_point(|logged| logged.lsn() <= sealed);
        let open = tap.logged.split_off(sealed_count);
        let logged = std::mem::replace(&mut tap.logged, open);
        let _split = tap.take_blocks();
        drop(tap);
        let mut states = Vec::new();
        for block in logged.chunk_by(|a, b| a.lsn() == b.lsn()) {
            self.shadow.apply(block)?;
            self.picture = Picture::of(self.shadow.keyspace());
            let objects = block.iter().map(Logged::object);
            states.push(AfterBlock {
                lsn: block[0].lsn(),
                picture: self.picture.clone(),
                object_max: objects.max().unwrap_or_default(),
            });
        }
        Ok(states)
    }

    /// What recovery has found.
    pub(crate) const fn recovered(&self) -> &Picture {
        &self.picture
    }

    /// Compactions of this life that came to a good end, and damage that was healed.
    pub(crate) fn compactions(&self) -> (u64, u64) {
        let stats = match self.engine.log() {
            Some(log) => Some(log.stats()),
            None => lock(&self.tap).closed.clone().map(|closed| closed.stats),
        };
        stats.map_or((0, 0), |stats| (stats.compactions, stats.scrub_healed))
    }

    /// Whether every device takes blocks.
    ///
    /// # Errors
    /// Why one does not.
    pub(crate) fn check_devices(&self) -> Result<(), String> {
        let Some(stats) = self.engine.log().map(ShardLog::stats) else { return Ok(()) };
        let is_given_up = |device: &&redo::DeviceStats| match device.state {
            DeviceState::Healthy => false,
            // The rest of what is on it may have to be moved first.
            DeviceState::Full => !device.is_draining,
            DeviceState::Poisoned => true,
        };
        match stats.devices.iter().find(is_given_up) {
            None => Ok(()),
            Some(device) => {
                let error = device.last_error.as_deref().unwrap_or("no error");
                Err(format!("GIVEN UP: {} is {:?}: {error}", device.path.display(), device.state))
            }
        }
    }

    /// Whether there are records in the open block.
    pub(crate) fn has_open_records(&self) -> bool {
        self.engine.log().is_some_and(|log| log.last_lsn() == log.open_lsn())
    }

    /// How far the log says that it is durable.
    pub(crate) fn durable(&self) -> Lsn {
        match self.engine.log() {
            Some(log) => log.durable_lsn(),
            None => lock(&self.tap).closed.as_ref().expect("it was closed").durable_lsn,
        }
    }

    /// The state now, as what was logged makes it.
    ///
    /// # Errors
    /// What is wrong with what was logged.
    pub(crate) fn look(&mut self) -> Result<&Picture, String> {
        let mut tap = lock(&self.tap);
        let (touched, logged) = (tap.take_touched(), std::mem::take(&mut tap.logged));
        drop(tap);
        self.shadow.apply(&logged)?;
        let keyspace = self.shadow.keyspace();
        match touched {
            None => self.picture = Picture::of(keyspace),
            Some(keys) => {
                for (db, key) in keys {
                    self.picture.look(keyspace, db, &key);
                }
            }
        }
        Ok(&self.picture)
    }

    /// Looks at everything, to see whether something has changed without a record, or was retired.
    ///
    /// # Errors
    /// What has, or was.
    pub(crate) fn look_thoroughly(&mut self) -> Result<(), String> {
        let whole = Picture::of(self.engine.keyspace());
        let known = self.look()?;
        if *known != whole {
            let difference = known.difference(&whole);
            return Err(format!("UNLOGGED: changed without a record: {difference}"));
        }
        if self.picture != Picture::of(self.shadow.keyspace()) {
            return Err("UNHEARD: records have changed a key that they do not name".to_owned());
        }
        if self.engine.keyspace().freeing() > 0 {
            return Ok(());
        }
        self.shadow.compare_retired(&lock(&self.tap).retired)
    }

    /// How many keys each database has that has any.
    pub(crate) fn keys(&self) -> BTreeMap<DbId, u64> {
        let keyspace = self.engine.keyspace();
        let mut keys = BTreeMap::new();
        for db in keyspace.databases() {
            keyspace.inspect(db, |_| *keys.entry(keyspace.database_id(db)).or_default() += 1);
        }
        keys
    }

    /// Follows the log with the index to its end, and compares them, if the log is at rest. Returns
    /// how many entries the index has.
    ///
    /// # Errors
    /// What the index says and the log does not.
    pub(crate) fn compare_index(&mut self, is_damaged: bool) -> Result<Option<u64>, String> {
        let is_at_rest = !self.has_open_records()
            && self.durable() == self.sealed()
            && self.engine.keyspace().freeing() == 0;
        let Some(addresses) = lock(&self.tap).addresses.clone() else { return Ok(None) };
        if !is_at_rest || addresses.newest() > self.durable() {
            return Ok(None);
        }
        let expected = Expected { entries: addresses.entries(), keys: self.keys() };
        let mut works = lock(&self.works);
        works.index.as_mut().map_or(Ok(None), |index| index.compare(&expected, is_damaged))
    }

    /// Reads a record by its address. Whether there was one to read.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(crate) fn read_by_address(
        &self,
        rng: &mut SimEntropy,
        is_damaged: bool,
    ) -> Result<bool, String> {
        let (durable, mut works, tap) = (self.durable(), lock(&self.works), lock(&self.tap));
        match (&mut works.reader, &tap.addresses) {
            (Some(reader), Some(addresses)) => addresses.read_any(reader, rng, durable, is_damaged),
            _ => Ok(false),
        }
    }
}
