//! How a log is opened: with the data that it brings up, or for a keyspace that is there already.
//!
//! ```text
//!   find_log ─► locked; an index that is not wanted is removed
//!      ├─ recover ─► keyspace, shadow ─┐     (by the index that is there, as a whole, or by one built first)
//!      └─ survey ──► shadow, survey ───┴─► start_log ─► index, works, wiretap
//! ```

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use base::Lsn;
use env::{Clock, Disk};
use env_sim::{SimClock, SimDisk, SimEntropy};
use indexing::{Believed, Build, LogIndex};
use keyspace::{Keyspace, NoJournal, Survey};
use redo::{Env, Opened, Reader, Recovery, Summary};
use server::config::Config;
use server::engine::{BoxedLog, ColdSource};
use server::load::{ColdLoad, Filling, IndexPlace, Shape, load_cold, log_options, scan};
use server::owned_log::own;
use server::restore::{LogRestorer, NewestIndex, Warmup};

use crate::addresses::Addresses;
use crate::damage::Flip;
use crate::far::Far;
use crate::index::{self, IndexShape, Keeper, index_dir};
use crate::instant::{Comebacks, Source, copy_of};
use crate::machine::{LogShape, data_dir, device_dir};
use crate::picture::Picture;
use crate::shadow::{Filled, Shadow, Surveying, Twice};
use crate::wiretap::{Tap, Wiretap, lock};
use crate::works::{Stepped, Works};

/// The world that a machine is started in.
pub(crate) struct Site<'a> {
    pub(crate) disk: &'a SimDisk,
    pub(crate) clock: &'a SimClock,
    pub(crate) config: &'a Config,
    pub(crate) shape: &'a LogShape,
    /// `log-index`.
    pub(crate) keeps_index: bool,
    /// `recovery instant`: the index may be believed.
    pub(crate) is_instant: bool,
    /// A bit that has turned: it is turned back where the truth is read, that all is judged by.
    pub(crate) turned: Option<&'a Flip>,
    /// The keys do not fit into memory: if the log must be read as a whole, its index is built first.
    pub(crate) is_narrow: bool,
    /// Whether dumps are written.
    pub(crate) saves: bool,
    /// Where the log is archived.
    pub(crate) far: Option<&'a Far>,
    pub(crate) seed: u64,
    /// How often the works step inside a command, in a million.
    pub(crate) steps_per_million: u32,
}

impl Site<'_> {
    /// What an index is like that is kept in this life.
    fn index(&self) -> Option<IndexShape> {
        self.shape.index.filter(|_| self.keeps_index)
    }

    /// Whether values may leave memory.
    fn drops_values(&self) -> bool {
        self.config.options().eviction.is_cold()
    }

    /// What the log is read into.
    fn twice(&self, recovery: &Recovery) -> Twice {
        let shape = Shape::new(&self.config.options(), self.clock.now_ms());
        let addresses = self.shape.index.map(|_| Addresses::new(recovery.hash_seed()));
        Twice::new(|| Filling::new(recovery, shape), addresses)
    }
}

/// The data and the log, as recovery has brought them up.
pub(crate) struct Data {
    pub(crate) keyspace: Keyspace<NoJournal>,
    pub(crate) open: Open,
    pub(crate) picture: Picture,
    pub(crate) summary: Summary,
    /// What brings keys and values back, if they may not be in memory.
    pub(crate) source: Option<Source>,
    /// The index was built first.
    pub(crate) is_built: bool,
}

/// A log that is open, and what is needed to watch and step it.
pub(crate) struct Open {
    pub(crate) log: BoxedLog,
    pub(crate) works: Arc<Mutex<Works>>,
    pub(crate) tap: Arc<Mutex<Tap>>,
    pub(crate) shadow: Shadow,
}

/// A log that is locked, and not read.
pub(crate) fn find_log(site: &Site<'_>, rng: &mut SimEntropy) -> redo::Result<Recovery> {
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
    log.index_lag_bytes_max = site.shape.index_lag_bytes;
    log.reserve_bytes = 2000;
    log.zeros_blocks_min = site.shape.zeros_blocks_min;
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
    kept: Option<LogIndex>,
) -> redo::Result<Open> {
    let Opened { log, flushers, compactor, .. } = opened;
    let open = |shape| Keeper::open(site.disk, log.reader(), database, hash_seed, shape);
    let index = match kept {
        Some(index) => Some(Keeper::of(site.disk, index, log.reader().index_bound())),
        None => site.index().map(open).transpose()?,
    };
    let mut works = Works::new(&log, flushers, compactor, index, site.clock);
    works.preparer = site.shape.zeros_blocks_min.map(|_| log.preparer());
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
pub(crate) fn recover(site: &Site<'_>, rng: &mut SimEntropy) -> redo::Result<Data> {
    let may_be_cold = (site.is_instant || site.is_narrow) && site.index().is_some();
    let copy = may_be_cold.then(|| copy_of(site.disk));
    if let (Some(copy), Some(flip)) = (&copy, site.turned) {
        flip.undo(copy);
    }
    let mut recovery = find_log(site, rng)?;
    if site.index().is_some() {
        let peeked = indexing::peek(site.disk, &index_dir(), recovery.database().0);
        let peeked = peeked.map_err(as_log_error)?;
        let witness = peeked.durable();
        recovery.note_durable(witness);
        if site.is_instant
            && let (Some(copy), Ok(believed)) = (&copy, peeked.believe(recovery.horizon()))
        {
            match recover_cold(site, rng, recovery, believed, copy) {
                Err(indexing::Error::Log(error)) => return Err(error),
                Ok(data) => return Ok(data),
                Err(_) => index::remove(site.disk)?,
            }
            recovery = find_log(site, rng)?;
            recovery.note_durable(witness);
        }
    }
    if let Some(copy) = &copy
        && site.is_narrow
        && recovery.bytes_total() > 0
    {
        return recover_building(site, rng, recovery, copy).map_err(as_log_error);
    }
    let identity = (recovery.database(), recovery.hash_seed());
    let mut twice = site.twice(&recovery);
    let opened = recovery.run(&mut twice, &mut |_| {})?;
    let filled = twice.into_filled().expect("the shadow is the server's keyspace");
    let Filled { keyspace, shadow, retired, addresses } = filled;
    let picture = Picture::of(&keyspace);
    assert!(picture == Picture::of(shadow.keyspace()), "the shadow is the server's keyspace");
    let (tap, summary) = (Tap::new(&keyspace, retired, addresses), opened.summary.clone());
    let reader = opened.log.reader();
    let open = start_log(site, rng, identity, opened, tap, shadow, None)?;
    let mut keyspace = keyspace;
    let source = site.drops_values().then(|| {
        let restorer = restorer_of(&open, reader, identity.1);
        keyspace.set_restorer(Box::new(restorer.another()));
        source_of(site, &open, restorer, None)
    });
    Ok(Data { keyspace, open, picture, summary, source, is_built: false })
}

/// As [`recover`] of a log that does not fit into memory: it is judged, its index is brought up to its end,
/// and it is opened again by that.
fn recover_building(
    site: &Site<'_>,
    rng: &mut SimEntropy,
    recovery: Recovery,
    copy: &SimDisk,
) -> indexing::Result<Data> {
    let (database, seed) = (recovery.database(), recovery.hash_seed());
    let opened = scan(recovery, &mut |_| {})?;
    let (disk, end) = (Arc::new(site.disk.clone()), opened.summary.last_lsn);
    let options = site.index().expect("it is kept").options();
    let reader = opened.log.reader();
    let (mut build, _) = Build::begin(disk, &index_dir(), reader, database.0, seed, options)?;
    while !build.step()?.is_done {}
    drop((build, opened));
    let mut recovery = find_log(site, rng)?;
    recovery.note_durable(end);
    let peeked = indexing::peek(site.disk, &index_dir(), database.0)?;
    recovery.note_durable(peeked.durable());
    if end == Lsn::ZERO {
        // Nothing is in it, so nothing was cut: it fits.
        let site = Site { is_narrow: false, ..*site };
        drop(recovery);
        return Ok(recover(&site, rng)?);
    }
    let believed = peeked.believe(recovery.horizon())?;
    let data = recover_cold(site, rng, recovery, believed, copy)?;
    Ok(Data { is_built: true, ..data })
}

/// As [`recover`], by the index; `copy` is read as a whole.
fn recover_cold(
    site: &Site<'_>,
    rng: &mut SimEntropy,
    recovery: Recovery,
    believed: Believed,
    copy: &SimDisk,
) -> indexing::Result<Data> {
    let identity = (recovery.database(), recovery.hash_seed());
    let disk: Arc<dyn Disk> = Arc::new(site.disk.clone());
    let options = site.index().expect("it is kept").options();
    let place = IndexPlace { disk: &disk, directory: &index_dir(), options, is_parallel: false };
    let shape = Shape::new(&site.config.options(), site.clock.now_ms());
    let cold = load_cold(recovery, believed, shape, &place, &mut |_| {})?;
    let ColdLoad { keyspace, opened, index, warmup, restorer } = cold;

    let whole = Site { disk: copy, keeps_index: false, ..*site };
    let recovery = find_log(&whole, &mut SimEntropy::new(0)).expect("the copy works well");
    let mut twice = whole.twice(&recovery);
    let read = recovery.run(&mut twice, &mut |_| {});
    let read = read.expect("what is opened by its index can be read as a whole");
    assert_eq!(read.summary.last_lsn, opened.summary.last_lsn, "both logs end with one block");
    let filled = twice.into_filled().expect("the shadow is the server's keyspace");
    let Filled { keyspace: full, shadow, retired, addresses } = filled;
    for db in full.databases() {
        assert_eq!(keyspace.database_id(db), full.database_id(db), "database {db}");
        assert_eq!(keyspace.size(db).0, full.size(db).0, "keys of database {db}");
    }
    assert!(keyspace.libraries().eq(full.libraries()), "both have the same libraries");
    let picture = Picture::of(&full);
    let (tap, summary) = (Tap::new(&full, retired, addresses), opened.summary.clone());
    let open = start_log(site, rng, identity, opened, tap, shadow, Some(index))?;
    let source = Some(source_of(site, &open, restorer, Some(warmup)));
    Ok(Data { keyspace, open, picture, summary, source, is_built: false })
}

/// What reads values by the index that is kept, if one is.
fn restorer_of(open: &Open, reader: Reader, seed: [u8; 16]) -> LogRestorer {
    let index = lock(&open.works).index.as_ref().and_then(Keeper::published);
    LogRestorer::new(reader, seed, index.map(NewestIndex::new))
}

/// The threads that bring keys and values back, as the simulator steps them.
fn source_of(site: &Site<'_>, open: &Open, fetcher: LogRestorer, warmup: Option<Warmup>) -> Source {
    let comebacks = Comebacks::new(fetcher, warmup, site.shape.reads_together);
    let comebacks = Arc::new(Mutex::new(comebacks));
    lock(&open.works).comebacks = Some(Arc::clone(&comebacks));
    Source(comebacks)
}

/// An error that keeps the server from starting.
fn as_log_error(error: indexing::Error) -> redo::Error {
    match error {
        indexing::Error::Log(error) => error,
        indexing::Error::Index(logindex::Error::File(error))
        | indexing::Error::Unreadable { source: logindex::Error::File(error), .. } => error.into(),
        other => unreachable!("the index is looked at or built until the disk fails: {other}"),
    }
}

/// The same for a log that is turned on.
pub(crate) fn survey(
    site: &Site<'_>,
    rng: &mut SimEntropy,
) -> redo::Result<(Open, Survey, Option<ColdSource>)> {
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
    let reader = opened.log.reader();
    let open = start_log(site, rng, identity, opened, tap, shadow, None)?;
    let source = site.drops_values().then(|| {
        let restorer = restorer_of(&open, reader, identity.1);
        let keyspaces = Box::new(restorer.another());
        let fetching = Box::new(source_of(site, &open, restorer, None));
        ColdSource { restorer: keyspaces, fetching }
    });
    Ok((open, survey, source))
}
