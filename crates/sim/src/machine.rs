//! The server as it runs in the simulator: the real engine, keyspace and log, stepped.
//!
//! ```text
//!   Machine ── call ──► Engine ──► Shard ──► Wiretap ──► OwnedLog ──► Log
//!      └── step ──► Works: flushers, compactor ── SimDisk
//! ```
//!
//! [`boot`] and [`Machine::reload`] are what `server::serve` does, without sockets, signals and
//! threads.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use base::{DbId, Lsn, ObjectId};
use env::Clock;
use env_sim::SimEntropy;
use redo::{DeviceState, Summary};
use server::engine::{Deps, Engine, OpenedLog, ShardLog};
use server::host::{CpuTimes, Host, MemoryUsage};
use server::logger::Logger;

use crate::archives::Archivers;
use crate::index::{Expected, IndexShape};
use crate::instant::Source;
use crate::opening::{Data, Open, Site, recover, survey};
use crate::picture::Picture;
use crate::saves::Savers;
use crate::shadow::{Logged, Shadow};
use crate::wiretap::{Tap, lock};
use crate::works::Works;

/// What the log is made like beyond what the configuration can say.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LogShape {
    /// How many devices.
    pub(crate) devices: usize,
    /// The size at which segments end.
    pub(crate) segment_bytes: u64,
    /// How much may wait for the devices.
    pub(crate) in_flight_bytes: u64,
    /// How much may wait for the index.
    pub(crate) index_lag_bytes: u64,
    /// What the log's index is like, if one is kept in some lives.
    pub(crate) index: Option<IndexShape>,
    /// Whether keys that are asked for may be read together.
    pub(crate) reads_together: bool,
    /// After so many blocks zeros are written ahead, if they are at all.
    pub(crate) zeros_blocks_min: Option<u64>,
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
    /// The index was built first.
    pub(crate) is_built: bool,
    /// What writes dumps.
    pub(crate) savers: Savers,
    /// What archives the log.
    pub(crate) archivers: Option<Archivers>,
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
        commit: "unknown",
    };
    let mut engine = Engine::new(site.config.clone(), deps);
    let Data { keyspace, open, picture, summary, source, is_built } = data;
    let Open { log, works, tap, shadow } = open;
    engine.loaded(keyspace, Some(log));
    connect(&mut engine, source);
    let savers = Savers::default();
    if site.saves {
        engine.save_by(Box::new(savers.clone()));
    }
    let archivers = site.far.map(|far| Archivers::new(far.clone()));
    if let Some(archivers) = &archivers {
        engine.archive_by(Box::new(archivers.clone()));
    }
    let machine =
        Machine { engine, works, tap, shadow, picture, used_bytes, is_built, savers, archivers };
    Ok((machine, summary))
}

/// What `server::serve` does with what brings keys and values back.
fn connect(engine: &mut Engine, source: Option<Source>) {
    let Some(source) = source else { return };
    engine.fetch_from(Box::new(source.clone()));
    if engine.keyspace().is_cold() {
        engine.restore_from(Box::new(source));
    }
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

    fn another(&self) -> Box<dyn Host> {
        Box::new(Self { used_bytes: Arc::clone(&self.used_bytes) })
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
    /// The block, if there was a record; the first one, if a checkpoint stood between the commands that
    /// the call has executed.
    pub(crate) lsn: Option<Lsn>,
    /// Whether there is another one.
    pub(crate) is_divided: bool,
}

impl Wrote {
    /// No record.
    pub(crate) const NOTHING: Self = Self { lsn: None, is_divided: false };
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
    /// When the records of one command lie in two blocks.
    pub(crate) fn call<T>(
        &mut self,
        run: impl FnOnce(&mut Engine) -> T,
    ) -> Result<(T, Wrote), String> {
        let result = run(&mut self.engine);
        let mut tap = lock(&self.tap);
        if let Some(ObjectId(object)) = tap.reused {
            return Err(format!("REUSED: object {object} is not the first with this number"));
        }
        let wrote = match tap.take_blocks()? {
            None => Wrote::NOTHING,
            Some((first, last)) => Wrote { lsn: Some(first), is_divided: first < last },
        };
        Ok((result, wrote))
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
        let Data { keyspace, open, picture, summary, source, .. } = data;
        let Open { log, works, tap, shadow } = open;
        if let Err(wrong) = found(&picture, &summary) {
            return Ok(Err(wrong));
        }
        self.engine.loaded(keyspace, Some(log));
        connect(&mut self.engine, source);
        (self.works, self.tap, self.shadow, self.picture) = (works, tap, shadow, picture);
        Ok(Ok(()))
    }

    /// See [`Works::let_go`].
    pub(crate) fn let_go_of_log(&self) {
        lock(&self.works).let_go();
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
    pub(crate) fn open_log(&mut self, site: &Site<'_>) -> redo::Result<OpenedLog> {
        let (open, survey, source) = survey(site, &mut SimEntropy::new(site.seed))?;
        let Open { log, works, tap, shadow } = open;
        self.picture = Picture::of(shadow.keyspace());
        (self.works, self.tap, self.shadow) = (works, tap, shadow);
        Ok(OpenedLog { log, survey, source })
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
        if !open.is_empty() {
            tap.touch_all();
        }
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
        let libraries_touched = tap.take_libraries_touched();
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
        if libraries_touched {
            self.picture.look_at_libraries(keyspace);
        }
        Ok(&self.picture)
    }

    /// Looks at everything, to see whether something has changed without a record, or was retired.
    ///
    /// # Errors
    /// What has, or was.
    pub(crate) fn look_thoroughly(&mut self) -> Result<(), String> {
        let whole = Picture::of(self.engine.keyspace());
        let is_cold = self.engine.keyspace().is_cold();
        let may_lack = self.engine.keyspace().may_lack();
        let known = self.look()?;
        let is_same = if may_lack { known.has(&whole) } else { *known == whole };
        if !is_same {
            let difference = known.difference(&whole);
            return Err(format!("UNLOGGED: changed without a record: {difference}"));
        }
        self.check_sizes()?;
        self.check_validity()?;
        if self.picture != Picture::of(self.shadow.keyspace()) {
            return Err("UNHEARD: records have changed a key that they do not name".to_owned());
        }
        let keyspace = self.engine.keyspace();
        // A walk holds what was deleted until it was passed on.
        let is_freeing = keyspace.freeing() + keyspace.unlisted() > 0 || keyspace.is_walked();
        if is_freeing || is_cold || self.leaves_garbage() {
            return Ok(());
        }
        self.shadow.compare_retired(&lock(&self.tap).retired)
    }

    /// Whether an index was damaged that alone knew of some garbage.
    fn leaves_garbage(&self) -> bool {
        let works = lock(&self.works);
        let Some(comebacks) = &works.comebacks else { return false };
        lock(comebacks).leaves_garbage()
    }

    /// Whether as many keys are counted as there are, wherever they are.
    fn check_sizes(&self) -> Result<(), String> {
        let (keyspace, shadow) = (self.engine.keyspace(), self.shadow.keyspace());
        for db in keyspace.databases() {
            let (counted, there) = (keyspace.size(db).0, shadow.size(db).0);
            if counted != there {
                return Err(format!(
                    "SIZE: {counted} keys are counted in database {db}, of {there}"
                ));
            }
        }
        Ok(())
    }

    /// How many keys each database has that has any.
    pub(crate) fn keys(&self) -> BTreeMap<DbId, u64> {
        let keyspace = self.engine.keyspace();
        let mut keys = BTreeMap::new();
        for db in keyspace.databases() {
            let count = keyspace.size(db).0 as u64;
            if count > 0 {
                keys.insert(keyspace.database_id(db), count);
            }
        }
        keys
    }

    /// Follows the log with the index to its end, and compares them, if the log is at rest. Returns
    /// how many entries the index has.
    ///
    /// # Errors
    /// What the index says and the log does not.
    pub(crate) fn compare_index(&mut self, is_damaged: bool) -> Result<Option<u64>, String> {
        let keyspace = self.engine.keyspace();
        let is_freeing = keyspace.freeing() + keyspace.unlisted() > 0 || keyspace.is_walked();
        let is_moving = self.has_open_records() || self.durable() != self.sealed() || is_freeing;
        // What was cold in a database that was emptied is retired when it was listed.
        let is_new = keyspace.is_cold() && lock(&self.tap).records > 0;
        let is_at_rest = !(is_moving || self.leaves_garbage() || is_new);
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
