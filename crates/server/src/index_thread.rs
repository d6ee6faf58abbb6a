//! The thread that keeps the log's index.
//!
//! ```text
//!   start     log-index no: an index that is left is removed, before the log is opened
//!             yes: opened, or begun anew with the reason said, before the log's compactor runs
//!             auto: as with yes, if one is there or the log is large; else it rests
//!   resting   looks once a second how large the log is; begun when it is large, or when memory is full of what only an
//!             index lets go
//!   running   follows the log; looks for new blocks once a second, or when a compaction waits
//!   hot       writes the hint of what is hot that the executor has found, between two steps
//!   end       with the threads of the log: an index holds its lock, too
//! ```
//!
//! Compactions wait for the index, and writers if it lags by more than `redo::Options` allow. If it cannot
//! be kept, because its disk is full or fails, it is removed, durably, and the log goes on without one; when the
//! disk has room it is begun again, after a pause that grows. If it cannot be removed either, that is tried again
//! and again: until then nothing is compacted that it does not know, but writers wait for it no more.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use base::{Lsn, Mutex, RecordAddr};
use env::Disk;
use indexing::{Believed, Build, Built, LogIndex, Step};
use logindex::{HotHint, Published};
use redo::{Id, Log, Recovery};

use crate::config::IndexPolicy;
use crate::engine::IndexFigures;
use crate::logger::Logger;
use crate::process::in_background;

/// How often new blocks are looked for.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// With `log-index auto` a log of this size is indexed: half a million records of 100 bytes, which a start
/// without an index reads in half a second.
const AUTO_BYTES: u64 = 64 << 20;

/// A build that a start waits for says how far it is every so many percent.
const SAID_PERCENT: u64 = 10;

/// How long it waits when there is nothing to do.
const IDLE_WAIT: Duration = Duration::from_millis(50);

/// So many steps may fail, a second apart, before a cut is installed; then the index is given up.
const FAILURES_MAX: u32 = 10;

/// One in so many bytes that the server may use is for blocks of the index, and another one for what is not
/// written to it yet.
const MEMORY_SHARE: u64 = 16;

/// What an entry takes until it is written, about.
const ENTRY_BYTES: u64 = 64;

/// With fewer entries a cut is not worth its files.
const CUT_ENTRIES_MIN: usize = 1 << 14;
/// How long it waits when the index can be neither kept nor removed: at first, and in the end.
const REMOVAL_PAUSE_MIN: Duration = Duration::from_secs(1);
const REMOVAL_PAUSE_MAX: Duration = Duration::from_secs(60);

/// How long a log is left without the index that could not be kept: at first, and in the end.
const WITHOUT_MIN: Duration = Duration::from_secs(10);
const WITHOUT_MAX: Duration = Duration::from_secs(3600);

/// What a start has to know of the index.
#[derive(Clone)]
pub(crate) struct IndexPlan {
    pub(crate) disk: Arc<dyn Disk>,
    /// The data directory.
    pub(crate) directory: PathBuf,
    /// `log-index`.
    pub(crate) policy: IndexPolicy,
    /// `recovery`: an index may be believed.
    pub(crate) is_instant: bool,
    /// What the index says has turned out to be wrong, or cannot be read.
    pub(crate) is_distrusted: bool,
    /// `log-index-cut-bytes`.
    pub(crate) cut_bytes: u64,
    /// What the server may use in all: `maxmemory`, as it is at the start.
    pub(crate) memory_bytes: Option<u64>,
    pub(crate) logger: Logger,
}

/// How many bytes of blocks an index may have in memory, and how many entries that are not written, where
/// the server may use so many bytes in all.
fn shares(memory_bytes: Option<u64>) -> (u64, usize) {
    let options = indexing::Options::default();
    let (cache_bytes, entries) = (options.runs.cache_bytes, options.cut_entries);
    let Some(share) = memory_bytes.map(|bytes| bytes / MEMORY_SHARE) else {
        return (cache_bytes, entries);
    };
    let entries_max = usize::try_from(share / ENTRY_BYTES).unwrap_or(usize::MAX);
    (cache_bytes.min(share), entries.min(entries_max.max(CUT_ENTRIES_MIN)))
}

impl IndexPlan {
    pub(crate) fn index_directory(&self) -> PathBuf {
        self.directory.join("index")
    }

    /// How it is kept.
    pub(crate) fn options(&self) -> indexing::Options {
        let mut options = indexing::Options { cut_bytes: self.cut_bytes, ..Default::default() };
        (options.runs.cache_bytes, options.cut_entries) = shares(self.memory_bytes);
        options
    }

    /// Looks at the index before the log is read. What was durable then is noted for the start, whether
    /// the index is kept or not; returns whether the log need not be read for what the index says.
    ///
    /// The log must be locked, and not read yet.
    pub(crate) fn peek(
        &self,
        recovery: &mut Recovery,
    ) -> Result<Option<Believed>, indexing::Error> {
        let directory = self.index_directory();
        let peeked = indexing::peek(&*self.disk, &directory, recovery.database().0)?;
        recovery.note_durable(peeked.durable());
        if self.policy == IndexPolicy::No || !self.is_instant || self.is_distrusted {
            return Ok(None);
        }
        let is_there = peeked.durable() > Lsn::ZERO;
        match peeked.believe(recovery.horizon()) {
            Ok(believed) => Ok(Some(believed)),
            Err(why) => {
                if is_there {
                    self.logger.notice(&format!("The log is read as a whole: of its index, {why}"));
                }
                Ok(None)
            }
        }
    }

    /// Brings the index of a log up to its end that was read, judged and frozen, so that the next start may
    /// believe it. `progress` is told how many of `bytes_total` that is.
    ///
    /// Rule I holds as ever: what was opened is durable. No thread of the log runs.
    pub(crate) fn build(
        &self,
        log: &Log,
        database: Id,
        seed: [u8; 16],
        bytes_total: u64,
        progress: &mut dyn FnMut(u64),
    ) -> Result<(), indexing::Error> {
        let directory = self.index_directory();
        if self.is_distrusted {
            indexing::discard(&*self.disk, &directory)?;
        }
        let (disk, options) = (Arc::clone(&self.disk), self.options());
        let begun = Build::begin(disk, &directory, log.reader(), database.0, seed, options)?;
        let (mut build, unusable) = begun;
        if let Some(why) = unusable {
            self.logger.warning(&format!("The log index is built anew: {why}"));
        }
        let (mut said, mut percentage) = (0, None);
        loop {
            let built = build.step()?;
            let before = percentage.replace(built.percentage());
            if before != percentage {
                progress(bytes_total / 100 * built.percentage());
            }
            if built.is_done {
                self.logger.notice("The log index is built");
                return Ok(());
            }
            if built.percentage() >= said + SAID_PERCENT {
                said = built.percentage();
                let Built { read, end, .. } = built;
                self.logger
                    .notice(&format!("Building the log index: {said} %, block {read} of {end}"));
            }
        }
    }

    /// Looks at the index that this start has built: the log was read, whatever `recovery` is.
    pub(crate) fn peek_built(&self, recovery: &mut Recovery) -> Result<Believed, indexing::Error> {
        let directory = self.index_directory();
        let peeked = indexing::peek(&*self.disk, &directory, recovery.database().0)?;
        recovery.note_durable(peeked.durable());
        Ok(peeked.believe(recovery.horizon())?)
    }

    /// Takes over an index that was opened at the start.
    pub(crate) fn take_over(&self, index: LogIndex) -> OpenIndex {
        self.opened(index, false)
    }

    fn opened(&self, index: LogIndex, rests: bool) -> OpenIndex {
        let (logger, directory) = (self.logger.clone(), self.index_directory());
        OpenIndex { index, disk: Arc::clone(&self.disk), logger, directory, rests }
    }

    /// Opens the index of an opened log, before the log's other threads run; `None` if none is wanted.
    ///
    /// One that this life of the log will not keep is removed, because what it says is not true for long,
    /// and one that is distrusted. Not before: until the log was judged, the index may be the only
    /// witness of what was durable.
    pub(crate) fn open(
        &self,
        log: &Log,
        database: Id,
        seed: [u8; 16],
    ) -> Result<Option<OpenIndex>, indexing::Error> {
        let directory = self.index_directory();
        if self.policy == IndexPolicy::No || self.is_distrusted {
            indexing::discard(&*self.disk, &directory)?;
        }
        let rests = match self.policy {
            IndexPolicy::No => return Ok(None),
            IndexPolicy::Yes => false,
            IndexPolicy::Auto => {
                let there = indexing::peek(&*self.disk, &directory, database.0)?;
                there.durable() == Lsn::ZERO && log.stats().bytes < AUTO_BYTES
            }
        };
        let (options, reader) = (self.options(), log.reader());
        let disk = Arc::clone(&self.disk);
        let bound = reader.index_bound();
        let opened = LogIndex::open(disk, &directory, reader, database.0, seed, options);
        let rest = |index: &mut LogIndex| if rests { index.give_up() } else { Ok(()) };
        let opened = opened.and_then(|(mut index, why)| rest(&mut index).map(|()| (index, why)));
        let (index, unusable) = match opened {
            Ok(opened) => opened,
            // To remove the index would remove the only witness.
            Err(error) if error.is_loss() => return Err(error),
            Err(error) => {
                self.logger.warning(&format!("The log is not indexed: {error}"));
                indexing::discard(&*self.disk, &directory)?;
                bound.lift();
                return Ok(None);
            }
        };
        if let Some(why) = unusable {
            self.logger.warning(&format!("The log index is built anew: {why}"));
        }
        Ok(Some(self.opened(index, rests)))
    }
}

/// An index that no thread steps yet.
pub(crate) struct OpenIndex {
    index: LogIndex,
    disk: Arc<dyn Disk>,
    logger: Logger,
    directory: PathBuf,
    /// None is kept until the log is large.
    rests: bool,
}

impl OpenIndex {
    /// What readers have of it.
    pub(crate) fn published(&self) -> Published {
        self.index.published()
    }
}

/// Records that are hot, as the executor has found them.
pub(crate) struct HotFound {
    /// Up to here the log is durable.
    pub(crate) lsn: Lsn,
    /// In pieces, of any order.
    pub(crate) records: Vec<Vec<RecordAddr>>,
}

/// What is hot, on its way to the hint.
#[derive(Default)]
struct HotDesk {
    /// Not written yet; what is found later takes its place.
    found: Mutex<Option<HotFound>>,
    records: AtomicU64,
    saves: AtomicU64,
    has_failed: AtomicBool,
}

impl HotDesk {
    /// Writes what waits for it, if anything does.
    fn save(&self, index: &LogIndex, logger: &Logger) {
        let Some(HotFound { lsn, records }) = self.found.lock().take() else { return };
        let hint = HotHint::new(lsn, records.into_iter().flatten().collect());
        match index.save_hot(&hint) {
            Ok(()) => {
                self.records.store(hint.records().len() as u64, Ordering::Relaxed);
                self.saves.fetch_add(1, Ordering::Relaxed);
                self.has_failed.store(false, Ordering::Relaxed);
            }
            Err(error) if !self.has_failed.swap(true, Ordering::Relaxed) => {
                logger.warning(&format!(
                    "Which keys are hot cannot be kept for the next start: {error}"
                ));
            }
            Err(_) => {}
        }
    }
}

/// How far the index is, for INFO.
#[derive(Default)]
pub(crate) struct IndexStatus {
    read_lsn: AtomicU64,
    cut_lsn: AtomicU64,
    runs: AtomicU64,
    bytes: AtomicU64,
    entries: AtomicU64,
    cached_bytes: AtomicU64,
    rests: AtomicBool,
    /// An index is begun although the log is small.
    is_wanted: AtomicBool,
    is_given_up: AtomicBool,
    last_error: Mutex<Option<String>>,
    hot: HotDesk,
    /// `maxmemory` has changed: what the server may use in all.
    memory: Mutex<Option<Option<u64>>>,
}

impl IndexStatus {
    fn note(&self, index: &LogIndex) {
        self.read_lsn.store(index.read().0, Ordering::Relaxed);
        self.cut_lsn.store(index.cut().0, Ordering::Relaxed);
        let published = index.published().get();
        self.entries.store(published.entry_count(), Ordering::Relaxed);
        self.cached_bytes.store(published.cached_bytes(), Ordering::Relaxed);
        let runs = published.runs();
        self.runs.store(runs.len() as u64, Ordering::Relaxed);
        self.bytes.store(runs.map(|run| run.bytes).sum(), Ordering::Relaxed);
    }

    fn figures(&self) -> Option<IndexFigures> {
        let is_kept = !self.rests.load(Ordering::Relaxed);
        is_kept.then(|| IndexFigures {
            read_lsn: self.read_lsn.load(Ordering::Relaxed),
            cut_lsn: self.cut_lsn.load(Ordering::Relaxed),
            runs: self.runs.load(Ordering::Relaxed),
            bytes: self.bytes.load(Ordering::Relaxed),
            entries: self.entries.load(Ordering::Relaxed),
            cached_bytes: self.cached_bytes.load(Ordering::Relaxed),
            of_log: redo::IndexStats::default(),
            is_given_up: self.is_given_up.load(Ordering::Relaxed),
            hot_records: self.hot.records.load(Ordering::Relaxed),
            hot_saves: self.hot.saves.load(Ordering::Relaxed),
            last_error: self.last_error.lock().clone(),
        })
    }
}

/// The running thread.
pub(crate) struct IndexThread {
    is_ending: Arc<AtomicBool>,
    status: Arc<IndexStatus>,
    thread: JoinHandle<()>,
}

impl IndexThread {
    /// Starts stepping the index.
    pub(crate) fn start(open: OpenIndex) -> std::io::Result<Self> {
        let is_ending = Arc::new(AtomicBool::new(false));
        let status = Arc::new(IndexStatus::default());
        status.note(&open.index);
        status.rests.store(open.rests, Ordering::Relaxed);
        let thread = std::thread::Builder::new().name("indexer".to_owned()).spawn({
            let (is_ending, status) = (Arc::clone(&is_ending), Arc::clone(&status));
            in_background(move || run(open, &status, &is_ending))
        })?;
        Ok(Self { is_ending, status, thread })
    }

    /// How far it is; `None` while none is kept.
    pub(crate) fn figures(&self) -> Option<IndexFigures> {
        self.status.figures()
    }

    /// Whether an index is kept, with a hint of what is hot.
    pub(crate) fn is_kept(&self) -> bool {
        let is_off = [&self.status.rests, &self.status.is_given_up];
        is_off.iter().all(|flag| !flag.load(Ordering::Relaxed))
    }

    /// Has an index begun, if it rests. Whether one is kept or will be.
    pub(crate) fn want(&self) -> bool {
        let is_resting = self.status.rests.load(Ordering::Relaxed);
        if is_resting && !self.status.is_wanted.swap(true, Ordering::Relaxed) {
            self.thread.thread().unpark();
        }
        !self.status.is_given_up.load(Ordering::Relaxed)
    }

    /// Tells it what the server may use in all from now on.
    pub(crate) fn set_memory(&self, bytes: Option<u64>) {
        *self.status.memory.lock() = Some(bytes);
        self.thread.thread().unpark();
    }

    /// Has this written as the hint.
    pub(crate) fn save_hot(&self, found: HotFound) {
        *self.status.hot.found.lock() = Some(found);
        self.thread.thread().unpark();
    }

    /// Ends the thread; what it has not cut is read again after the next start. Whether it had
    /// panicked.
    pub(crate) fn end(self) -> bool {
        self.is_ending.store(true, Ordering::Release);
        self.thread.thread().unpark();
        self.thread.join().is_err()
    }
}

fn run(mut open: OpenIndex, status: &IndexStatus, is_ending: &AtomicBool) {
    if open.rests && !open.begin_when_wanted(status, is_ending) {
        return;
    }
    status.rests.store(false, Ordering::Relaxed);
    let (mut looked_at, mut failures, mut cut) = (None::<Instant>, 0, open.index.cut());
    let mut without = WITHOUT_MIN;
    while !is_ending.load(Ordering::Acquire) {
        let is_due = looked_at.is_none_or(|at| at.elapsed() >= LOOK_EVERY);
        if is_due {
            looked_at = Some(Instant::now());
        }
        status.hot.save(&open.index, &open.logger);
        if let Some(bytes) = status.memory.lock().take() {
            let (cache_bytes, cut_entries) = shares(bytes);
            open.index.set_memory(cache_bytes, cut_entries);
        }
        match open.index.step(is_due) {
            // What fails is often preceded by what works: only a cut says that it goes on.
            Ok(Step::Worked) if open.index.cut() > cut => {
                (cut, failures) = (open.index.cut(), 0);
                *status.last_error.lock() = None;
                status.note(&open.index);
            }
            Ok(Step::Worked) => {}
            Ok(Step::Idle) => {
                if failures == 0 {
                    // It has caught up: a build that fails late must not be begun again and again.
                    without = WITHOUT_MIN;
                }
                status.note(&open.index);
                std::thread::park_timeout(IDLE_WAIT);
            }
            Err(error) => {
                failures += 1;
                let reason = error.to_string();
                if failures == 1 {
                    open.logger.warning(&format!("The log index does not keep up: {reason}"));
                }
                *status.last_error.lock() = Some(reason);
                if failures > FAILURES_MAX {
                    if !open.do_without(status, is_ending, without) {
                        return;
                    }
                    (cut, failures, without) =
                        (open.index.cut(), 0, (without * 2).min(WITHOUT_MAX));
                    continue;
                }
                if error.is_final() && open.begin_anew() {
                    cut = open.index.cut();
                }
                std::thread::park_timeout(Duration::from_secs(1));
            }
        }
    }
    status.hot.save(&open.index, &open.logger);
}

impl OpenIndex {
    /// Waits until the log is large, or memory needs an index, and begins it. Whether it has.
    fn begin_when_wanted(&mut self, status: &IndexStatus, is_ending: &AtomicBool) -> bool {
        let mut has_failed = false;
        while !is_ending.load(Ordering::Acquire) {
            let is_large = self.index.log_bytes() >= AUTO_BYTES;
            if is_large || (status.is_wanted.load(Ordering::Relaxed) && self.has_room()) {
                match self.index.begin_anew() {
                    Ok(()) => {
                        let why =
                            if is_large { "The log is large by now" } else { "Memory is full" };
                        self.logger.notice(&format!("{why}, and an index of the log is begun"));
                        return true;
                    }
                    Err(error) => {
                        if !std::mem::replace(&mut has_failed, true) {
                            let what = format!("No index of the log can be begun: {error}");
                            self.logger.warning(&what);
                        }
                        // Otherwise what is not in it would not be compacted. If there is none this changes nothing.
                        let _tried_again = self.index.give_up();
                    }
                }
            }
            std::thread::park_timeout(LOOK_EVERY);
        }
        false
    }

    fn begin_anew(&mut self) -> bool {
        let begun = self.index.begin_anew();
        self.logger.warning(&match &begun {
            Ok(()) => "The log index is built anew".to_owned(),
            Err(error) => format!("The log index cannot be begun anew: {error}"),
        });
        begun.is_ok()
    }

    /// Removes the index, as soon as that can be done.
    fn give_up(&mut self, status: &IndexStatus, is_ending: &AtomicBool) {
        status.is_given_up.store(true, Ordering::Relaxed);
        let mut pause = REMOVAL_PAUSE_MIN;
        while let Err(error) = self.index.give_up() {
            if pause == REMOVAL_PAUSE_MIN {
                self.logger.warning(&format!(
                    "The log index in {} can be neither kept nor removed, so nothing is compacted that it \
                     does not know, until it is removed: {error}",
                    self.directory.display()
                ));
            }
            *status.last_error.lock() = Some(error.to_string());
            std::thread::park_timeout(pause);
            if is_ending.load(Ordering::Acquire) {
                return;
            }
            pause = (pause * 2).min(REMOVAL_PAUSE_MAX);
        }
        self.logger.warning(
            "The log index is removed, because it cannot be kept; it is built anew when its disk has room for as \
             much as the log has, or after the next start",
        );
    }

    /// Removes an index that cannot be kept, and begins it again after `pause`, when there is room. Returns
    /// `false` if the thread is to end.
    fn do_without(
        &mut self,
        status: &IndexStatus,
        is_ending: &AtomicBool,
        pause: Duration,
    ) -> bool {
        self.give_up(status, is_ending);
        loop {
            let begun = Instant::now();
            while begun.elapsed() < pause && !is_ending.load(Ordering::Acquire) {
                std::thread::park_timeout(LOOK_EVERY);
            }
            if is_ending.load(Ordering::Acquire) {
                return false;
            }
            if self.has_room() {
                if self.begin_anew() {
                    status.is_given_up.store(false, Ordering::Relaxed);
                    return true;
                }
                // Nothing was compacted from when it was to begin.
                self.give_up(status, is_ending);
            }
        }
    }

    /// Whether more is free than an index takes: the log must not lack what it takes.
    fn has_room(&self) -> bool {
        let parent = self.directory.parent().unwrap_or(&self.directory);
        let free = self.disk.available_bytes(&self.directory);
        let free = free.or_else(|_| self.disk.available_bytes(parent));
        free.is_ok_and(|bytes| bytes >= self.index.log_bytes())
    }
}
