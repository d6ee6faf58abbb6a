//! How a log becomes data that is served: by its index, as a whole, or, where that does not fit into memory, by
//! an index that is built first.
//!
//! ```text
//!   Recovery ─► index? ── believed ──────────────► load_cold ─► served, all keys cold
//!      │          └─ none, damaged, recovery full ─► load ─► it fits ─► served
//!      │                                              └─► it does not: judged, frozen, nothing in memory
//!      └───────── opened again ◄── closed ◄── IndexPlan::build ◄──────┘
//! ```
//!
//! # Invariants
//! 1. The directory is changed by no start before the log was judged; an index that may be the only witness of
//!    what was durable is not removed before.
//! 2. The log is opened again by an index that was built only once: a start ends.

use std::cell::Cell;
use std::sync::Arc;
use std::time::Duration;

use base::Lsn;
use keyspace::{Keyspace, NoJournal};

use crate::config::IndexPolicy;
use crate::engine::{BoxedLog, ColdSource, OpenLogError, OpenedLog};
use crate::host::Host;
use crate::index_thread::{IndexPlan, OpenIndex};
use crate::load::{ColdLoad, IndexPlace, Room, Shape, load, load_cold, survey};
use crate::owned_log;
use crate::restore::{FetchThreads, LogRestorer, NewestIndex, WarmupThread};

/// The data, as recovery found it.
pub(crate) struct Loaded {
    pub(crate) keyspace: Keyspace<NoJournal>,
    pub(crate) log: BoxedLog,
    pub(crate) summary: redo::Summary,
    /// What reads that memory lacks.
    pub(crate) fetching: FetchThreads,
    /// What brings the keys back, if they are cold.
    pub(crate) restoration: Option<WarmupThread>,
}

/// How many threads read keys that are asked for.
pub(crate) const FETCHERS: usize = 4;

/// Reads the log, by its index or as a whole, and starts its threads.
pub(crate) struct LogStart<'a> {
    pub(crate) shape: Shape,
    pub(crate) fetched_files: usize,
    /// See `debug-restore-delay-ms`.
    pub(crate) delay: Duration,
    pub(crate) host: Box<dyn Host>,
    pub(crate) index: &'a IndexPlan,
    /// Opens the log again, once it was dropped.
    pub(crate) reopen: &'a dyn Fn() -> Result<redo::Recovery, OpenLogError>,
    /// Wakes the event loop when keys have come back.
    pub(crate) waker: redo::Waker,
}

impl LogStart<'_> {
    pub(crate) fn run(
        self,
        mut recovery: redo::Recovery,
        progress: &mut dyn FnMut(redo::Progress),
    ) -> Result<Loaded, OpenLogError> {
        let mut index = self.index.clone();
        if let Some(believed) = index.peek(&mut recovery)? {
            let cut = believed.cut();
            match self.load_cold(recovery, believed, progress) {
                Ok(cold) => return self.start_cold(cold),
                // What is wrong with the log itself is so for a start without an index, too.
                Err(indexing::Error::Log(why)) => return Err(why.into()),
                // And so is this.
                Err(why) if why.is_loss() => return Err(why.into()),
                Err(why) => {
                    index.is_distrusted = why.is_final();
                    let what = format!(
                        "The log index is of no use, and the log is read as a whole: {why}"
                    );
                    index.logger.warning(&what);
                }
            }
            recovery = (self.reopen)()?;
            recovery.note_durable(cut);
        }
        let (database, seed) = (recovery.database(), recovery.hash_seed());
        let bytes_total = recovery.bytes_total();
        let (keyspace, opened) = self.load(recovery, &index, progress)?;
        let Some(mut keyspace) = keyspace else {
            let end = opened.summary.last_lsn;
            // The bytes that were read are read once more.
            let mut built = |bytes_done| {
                let (bytes_done, bytes_total) = (bytes_total + bytes_done, 2 * bytes_total);
                progress(redo::Progress { bytes_done, bytes_total, records: 0 });
            };
            let build = index.build(&opened.log, database, seed, bytes_total, &mut built);
            build.map_err(OpenLogError::Build)?;
            drop(opened);
            return self.run_built(end, progress);
        };
        let index = index.open(&opened.log, database, seed)?;
        let restorer = restorer(&opened, seed, index.as_ref());
        keyspace.set_restorer(Box::new(restorer.another()));
        let fetching = FetchThreads::new(restorer, FETCHERS, self.fetched_files, self.waker);
        let summary = opened.summary.clone();
        let log = owned_log::start(opened, index).map_err(OpenLogError::NoThread)?;
        Ok(Loaded { keyspace, log, summary, fetching, restoration: None })
    }

    /// Reads the log as a whole. `None` for a keyspace that does not fit, if an index may take its place.
    fn load(
        &self,
        recovery: redo::Recovery,
        index: &IndexPlan,
        progress: &mut dyn FnMut(redo::Progress),
    ) -> redo::Result<(Option<Keyspace<NoJournal>>, redo::Opened)> {
        let is_given_up = Cell::new(false);
        let mut when_full = || {
            is_given_up.set(index.policy != IndexPolicy::No);
            index.logger.warning(if is_given_up.get() {
                "The keys of the log do not fit into maxmemory: the log is read on without keeping them, its \
                 index is built, and the server starts by that"
            } else {
                "WARNING: the keys of the log do not fit into maxmemory, and log-index is no: all of them \
                 are loaded, which takes more memory than that. With log-index auto or yes they need not be \
                 in memory"
            });
            is_given_up.get()
        };
        let room = self.shape.room_bytes().map(|bytes_max| Room {
            host: self.host.another(),
            bytes_max,
            when_full: &mut when_full,
        });
        load(recovery, self.shape, room, &mut |so_far| {
            // What was given up is read a second time.
            let times = if is_given_up.get() { 2 } else { 1 };
            progress(redo::Progress { bytes_total: so_far.bytes_total * times, ..so_far });
        })
    }

    fn load_cold(
        &self,
        recovery: redo::Recovery,
        believed: indexing::Believed,
        progress: &mut dyn FnMut(redo::Progress),
    ) -> indexing::Result<ColdLoad> {
        let place = IndexPlace {
            disk: &self.index.disk,
            directory: &self.index.index_directory(),
            options: self.index.options(),
            is_parallel: true,
        };
        load_cold(recovery, believed, self.shape, &place, progress)
    }

    /// Starts by the index that this start has built, of a log that it has judged up to `end`.
    fn run_built(
        self,
        end: Lsn,
        progress: &mut dyn FnMut(redo::Progress),
    ) -> Result<Loaded, OpenLogError> {
        let mut recovery = (self.reopen)()?;
        recovery.note_durable(end);
        let believed = self.index.peek_built(&mut recovery).map_err(OpenLogError::Build)?;
        match self.load_cold(recovery, believed, progress) {
            Ok(cold) => self.start_cold(cold),
            Err(indexing::Error::Log(why)) => Err(why.into()),
            Err(why) => Err(OpenLogError::Build(why)),
        }
    }

    fn start_cold(self, cold: ColdLoad) -> Result<Loaded, OpenLogError> {
        let ColdLoad { keyspace, opened, index, warmup, restorer } = cold;
        let summary = opened.summary.clone();
        let index = Some(self.index.take_over(index));
        let log = owned_log::start(opened, index).map_err(OpenLogError::NoThread)?;
        let fetching =
            FetchThreads::new(restorer, FETCHERS, self.fetched_files, Arc::clone(&self.waker));
        let fits = self.shape.room_bytes().is_none();
        let restoration = WarmupThread::start(warmup, self.delay, fits, &self.waker)
            .map_err(OpenLogError::NoThread)?;
        Ok(Loaded { keyspace, log, summary, fetching, restoration: Some(restoration) })
    }
}

/// What reads values of a log whose keys are all in memory.
fn restorer(opened: &redo::Opened, seed: [u8; 16], index: Option<&OpenIndex>) -> LogRestorer {
    let objects = index.map(|index| NewestIndex::new(index.published()));
    LogRestorer::new(opened.log.reader(), seed, objects)
}

/// Opens a log for a keyspace that is there already, and starts its threads.
pub(crate) fn survey_and_start(
    mut recovery: redo::Recovery,
    index: &IndexPlan,
    waker: redo::Waker,
    fetched_files: usize,
) -> Result<OpenedLog, OpenLogError> {
    let (database, seed) = (recovery.database(), recovery.hash_seed());
    // The keyspace that is there is the newest: whatever the log holds is read.
    index.peek(&mut recovery)?;
    let (survey, opened) = survey(recovery)?;
    let index = index.open(&opened.log, database, seed)?;
    let reading = restorer(&opened, seed, index.as_ref());
    let source = ColdSource {
        restorer: Box::new(reading.another()),
        fetching: Box::new(FetchThreads::new(reading, FETCHERS, fetched_files, waker)),
    };
    let log = owned_log::start(opened, index).map_err(OpenLogError::NoThread)?;
    Ok(OpenedLog { log, survey, source: Some(source) })
}
