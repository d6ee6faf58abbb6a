//! The redo log as its shard owns it: the [`redo::Log`], and what steps its flushers, its compactor,
//! its scrubber and its preparer.
//!
//! ```text
//!   Shard ── append, retire, seal, reach ──► OwnedLog ─┬─► redo::Log
//!                                                      └─► LogWorkers: threads, or a simulator's steps
//! ```
//!
//! The executor is the only thread that uses it, so nothing is locked: what flushers and compactor
//! tell, [`redo::Log`] fetches from its mailboxes when it is polled.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::thread::JoinHandle;
use std::time::Duration;

use base::{DangerousCommand, Lsn, Mutex, Record, RecordAddr, RecordKind, SegmentId};
use env::Entropy;
use keyspace::Journal;
use redo::manifest::HistoryPoint;
use redo::{
    BackupFigures, BackupPoint, BackupRefusal, BackupState, CompactionOptions, Compactor, Flusher,
    Health, HistoryOptions, Log, Mark, NamedBackup, NotedCommand, Opened, Preparer, Reader,
    Scrubber, Step, SyncPolicy, Turn,
};

use crate::config::{FsyncPolicy, LogOptions};
use crate::engine::{BoxedLog, CloseError, DevicesError, IndexFigures, LogHealth, Reach, ShardLog};
use crate::index_thread::{HotFound, IndexThread, OpenIndex};
use crate::process::in_background;

/// How long a thread of the log waits for work before it looks again.
const IDLE_WAIT: Duration = Duration::from_millis(100);

/// One in so many bytes that the server may use is for buffers of blocks that no block has.
const SPARE_SHARE: u64 = 64;

/// Steps the log's flushers and its compactor.
pub trait LogWorkers: Send {
    /// Steps also the flushers that `add` returns, of devices that it adds: at most `count_max`.
    /// What they need is there before, because a device in use whose flusher is never stepped would
    /// hold up the log.
    ///
    /// # Errors
    /// Why that cannot be, or what `add` says. Nothing is changed then.
    fn add_flushers(
        &mut self,
        count_max: usize,
        add: &mut dyn FnMut() -> Result<Vec<Flusher>, DevicesError>,
    ) -> Result<(), DevicesError>;

    /// Has the flusher of a device write what waits for it, on this thread, if it is idle and that
    /// is all there is to do. Whether it has; else it must be woken.
    fn write_now(&mut self, _device: usize) -> bool {
        false
    }

    /// How far the index of the log is; `None` if none is kept.
    fn index_figures(&self) -> Option<IndexFigures> {
        None
    }

    /// Has an index begun if it is left open whether one is kept. Whether there is one or will be.
    fn want_index(&mut self) -> bool {
        false
    }

    /// Tells the index of the log what the server may use in all; `None` for any amount.
    fn set_memory(&mut self, _bytes: Option<u64>) {}

    /// Whether something keeps what is hot.
    fn keeps_hot(&self) -> bool {
        false
    }

    /// Keeps what is hot, of a log that is durable up to `lsn`.
    fn save_hot(&mut self, _lsn: Lsn, _records: Vec<Vec<RecordAddr>>) {}

    /// The log was told to end: steps them until they have nothing to do for ever.
    ///
    /// # Errors
    /// Why that cannot be.
    fn finish(&mut self) -> Result<(), CloseError>;
}

/// See the file's top.
struct OwnedLog {
    log: Log,
    /// What was there before is not noted in memory by its block: an index must know all of it.
    settled_lsn: Lsn,
    workers: Box<dyn LogWorkers>,
}

/// A log whose flushers and compactor `workers` step.
#[must_use]
pub fn own(log: Log, workers: Box<dyn LogWorkers>) -> BoxedLog {
    let settled_lsn = log.open_lsn();
    Box::new(OwnedLog { log, settled_lsn, workers })
}

/// Starts the log's threads.
///
/// # Errors
/// When a thread cannot be started.
pub(crate) fn start(opened: Opened, index: Option<OpenIndex>) -> std::io::Result<BoxedLog> {
    let Opened { log, flushers, compactor, .. } = opened;
    let mut threads = Vec::new();
    let mut desks = Vec::new();
    for flusher in flushers {
        let desk = Arc::new(Mutex::new(flusher));
        desks.push(Arc::clone(&desk));
        threads.push(flusher_thread(threads.len()).spawn(move || run_flusher(&desk))?);
    }
    let thread = std::thread::Builder::new().name("compactor".to_owned());
    threads.push(thread.spawn(in_background(move || run_compactor(compactor)))?);
    let scrubber = log.scrubber();
    let thread = std::thread::Builder::new().name("scrubber".to_owned());
    threads.push(thread.spawn(in_background(move || run_scrubber(scrubber)))?);
    let preparer = log.preparer();
    let thread = std::thread::Builder::new().name("preparer".to_owned());
    threads.push(thread.spawn(in_background(move || run_preparer(preparer)))?);
    let index = index.map(IndexThread::start).transpose()?;
    Ok(own(log, Box::new(Threads { threads, flushers: desks, index })))
}

/// Starts the threads of a log of which no index is kept.
///
/// # Errors
/// When a thread cannot be started.
pub fn start_without_index(opened: Opened) -> std::io::Result<BoxedLog> {
    start(opened, None)
}

/// A thread a flusher, one for the compactor, one for the scrubber, one for what prepares files, and one for an
/// index.
struct Threads {
    threads: Vec<JoinHandle<()>>,
    /// Each is locked by its thread while it steps, and by the executor while it writes.
    flushers: Vec<Arc<Mutex<Flusher>>>,
    index: Option<IndexThread>,
}

impl LogWorkers for Threads {
    fn add_flushers(
        &mut self,
        count_max: usize,
        add: &mut dyn FnMut() -> Result<Vec<Flusher>, DevicesError>,
    ) -> Result<(), DevicesError> {
        // A thread that gets no flusher ends when its sender is dropped.
        let mut ready = Vec::new();
        for index in 0..count_max {
            let (sender, receiver) = channel();
            // Its number is one that no other thread has; it need not be that of the device.
            let thread = flusher_thread(self.threads.len() + index);
            let thread = thread.spawn(move || {
                if let Ok(desk) = receiver.recv() {
                    let desk: Arc<Mutex<Flusher>> = desk;
                    run_flusher(&desk);
                }
            });
            ready.push((sender, thread.map_err(DevicesError::NoThread)?));
        }
        let mut ready = ready.into_iter();
        for flusher in add()? {
            let (sender, thread) = ready.next().expect("as many as can be added");
            let flusher = Arc::new(Mutex::new(flusher));
            self.flushers.push(Arc::clone(&flusher));
            sender.send(flusher).expect("it waits for one");
            self.threads.push(thread);
        }
        Ok(())
    }

    fn write_now(&mut self, device: usize) -> bool {
        // One that is locked is at work, or has panicked: its thread's matter.
        self.flushers
            .iter()
            .filter_map(|flusher| flusher.try_lock())
            .any(|mut flusher| flusher.device_index() == device && flusher.write_now())
    }

    fn index_figures(&self) -> Option<IndexFigures> {
        self.index.as_ref().and_then(IndexThread::figures)
    }

    fn want_index(&mut self) -> bool {
        self.index.as_ref().is_some_and(IndexThread::want)
    }

    fn set_memory(&mut self, bytes: Option<u64>) {
        if let Some(index) = &self.index {
            index.set_memory(bytes);
        }
    }

    fn keeps_hot(&self) -> bool {
        self.index.as_ref().is_some_and(IndexThread::is_kept)
    }

    fn save_hot(&mut self, lsn: Lsn, records: Vec<Vec<RecordAddr>>) {
        if let Some(index) = &self.index {
            index.save_hot(HotFound { lsn, records });
        }
    }

    fn finish(&mut self) -> Result<(), CloseError> {
        if self.index.take().is_some_and(IndexThread::end) {
            return Err(CloseError::Panicked);
        }
        for thread in self.threads.drain(..) {
            if thread.join().is_err() {
                return Err(CloseError::Panicked);
            }
        }
        Ok(())
    }
}

fn flusher_thread(index: usize) -> std::thread::Builder {
    std::thread::Builder::new().name(format!("flusher-{index}"))
}

fn run_flusher(flusher: &Mutex<Flusher>) {
    let flusher = || flusher.lock();
    let bell = flusher().bell();
    loop {
        let turn = flusher().turn();
        match turn {
            Turn::Sync(sync) => {
                // The executor goes on writing meanwhile.
                let result = sync.run();
                flusher().synced(&sync, result);
            }
            Turn::Step(Step::Worked) => {}
            Turn::Step(Step::Idle) => bell.wait(IDLE_WAIT),
            Turn::Step(Step::Finished) => return,
        }
    }
}

fn run_compactor(mut compactor: Compactor) {
    loop {
        match compactor.step() {
            // A scheduler lets the running thread use up its slice of milliseconds, however many wait.
            Step::Worked => std::thread::yield_now(),
            Step::Idle => compactor.wait(IDLE_WAIT),
            Step::Finished => return,
        }
    }
}

fn run_scrubber(mut scrubber: Scrubber) {
    loop {
        match scrubber.step() {
            Step::Worked => {}
            Step::Idle => scrubber.wait(IDLE_WAIT),
            Step::Finished => return,
        }
    }
}

fn run_preparer(mut preparer: Preparer) {
    loop {
        match preparer.step() {
            Step::Worked => {}
            Step::Idle => preparer.wait(IDLE_WAIT),
            Step::Finished => return,
        }
    }
}

/// `appendfsync` as the log names it.
pub(crate) fn sync_policy(policy: FsyncPolicy) -> SyncPolicy {
    match policy {
        FsyncPolicy::Always => SyncPolicy::Always,
        FsyncPolicy::EverySecond => SyncPolicy::EverySec,
        FsyncPolicy::No => SyncPolicy::No,
    }
}

/// When segments are compacted.
pub(crate) fn compaction_options(options: &LogOptions) -> CompactionOptions {
    #[expect(clippy::cast_precision_loss, reason = "a percentage")]
    let share = |percentage: u64| percentage as f64 / 100.0;
    CompactionOptions {
        enabled: options.compaction_enabled,
        invalid_count_min: u32::try_from(options.compaction_invalid_min).unwrap_or(u32::MAX),
        invalid_share_min: share(options.compaction_invalid_percentage),
        garbage_share_min: share(options.compaction_garbage_percentage),
        rate_bytes_per_s: options.compaction_bytes_per_second,
        ..CompactionOptions::default()
    }
}

/// How much is kept of what compactions replace.
pub(crate) const fn history_options(options: &LogOptions) -> HistoryOptions {
    HistoryOptions {
        seconds: options.history_seconds,
        bytes_min: options.history_bytes,
        percentage: options.history_percentage,
        drops_backups: options.history_drops_backups,
    }
}

impl Journal for OwnedLog {
    fn append(&mut self, record: &Record<'_>) -> Option<RecordAddr> {
        Some(self.log.append(record))
    }

    fn declare(&mut self, kind: RecordKind) {
        self.log.declare(kind);
    }

    fn has_declared(&self, kind: RecordKind) -> Option<bool> {
        Some(self.log.has_declared(kind))
    }

    fn retire(&mut self, addr: RecordAddr) {
        self.log.retire(addr);
    }

    fn open_lsn(&self) -> Lsn {
        self.log.open_lsn()
    }

    fn last_lsn(&self) -> Lsn {
        let open_lsn = self.log.open_lsn();
        if self.log.has_open_records() { open_lsn } else { Lsn(open_lsn.0 - 1) }
    }

    fn durable_lsn(&self) -> Lsn {
        self.log.durable_lsn()
    }

    fn undurable_lsn_of(&self, addr: RecordAddr) -> Option<Lsn> {
        self.log.undurable_lsn_of(addr)
    }

    fn is_retired(&self, addr: RecordAddr) -> bool {
        self.log.is_retired(addr)
    }

    fn lsn_bound_of(&self, addr: RecordAddr) -> Option<Lsn> {
        self.log.lsn_bound_of(addr)
    }

    fn indexed_lsn(&self) -> Option<Lsn> {
        self.log.indexed_lsn().filter(|lsn| self.has_start(*lsn))
    }
}

impl ShardLog for OwnedLog {
    fn seal(&mut self) {
        if self.log.policy() == SyncPolicy::Always {
            self.log.seal();
        } else if let Some(device) = self.log.seal_quietly()
            && !self.workers.write_now(device)
        {
            self.log.wake_flusher(device);
        }
    }

    fn takes_block_now(&self) -> bool {
        self.log.takes_block_now()
    }

    fn open_bytes(&self) -> usize {
        self.log.open_bytes()
    }

    fn reach(&mut self) -> Reach {
        self.log.poll();
        Reach { written: self.log.written_lsn(), durable: self.log.durable_lsn() }
    }

    fn want_written(&mut self, lsn: Lsn) {
        self.log.want_written(lsn);
    }

    fn request_sync(&mut self) -> Lsn {
        let lsn = self.last_lsn();
        self.log.request_sync(lsn);
        lsn
    }

    fn want_indexed(&mut self) -> bool {
        self.log.want_indexed();
        self.workers.want_index()
    }

    fn mark(&mut self) -> Option<Mark> {
        let mark = self.log.mark()?;
        self.request_sync();
        Some(mark)
    }

    fn note_point(&mut self) {
        self.log.note_point();
    }

    fn create_backup(
        &mut self,
        name: Option<String>,
        point: BackupPoint,
    ) -> Result<NamedBackup, BackupRefusal> {
        self.log.create_backup(name, point)
    }

    fn configure_backup(&mut self, id: u64, text: &str) {
        self.log.configure_backup(id, text);
    }

    fn delete_backup(&mut self, name: &str) -> Option<NamedBackup> {
        self.log.delete_backup(name)
    }

    fn backups(&self) -> Vec<BackupState> {
        self.log.backups()
    }

    fn backup_figures(&self) -> BackupFigures {
        self.log.backup_figures()
    }

    fn backup(&self, name: &str) -> Option<NamedBackup> {
        self.log.backup(name)
    }

    fn note_command(&mut self, command: DangerousCommand) {
        self.log.note_command(command);
    }

    fn told(&self) -> (Vec<NotedCommand>, Vec<HistoryPoint>) {
        self.log.told()
    }

    fn reader(&self) -> Option<Reader> {
        Some(self.log.reader())
    }

    fn set_policy(&mut self, policy: FsyncPolicy) {
        self.log.set_policy(sync_policy(policy));
    }

    fn set_memory(&mut self, bytes: Option<u64>) {
        let share = bytes.map_or(u64::MAX, |bytes| bytes / SPARE_SHARE);
        self.log.limit_spare_bytes(usize::try_from(share).unwrap_or(usize::MAX));
        self.workers.set_memory(bytes);
    }

    fn set_compaction(&mut self, options: &LogOptions) {
        self.log.set_compaction_options(compaction_options(options));
        self.log.set_scrub_rate(options.scrub_bytes_per_second);
        self.log.set_writes_zeros(options.preallocates);
        self.log.set_history(history_options(options));
    }

    fn has_start(&self, lsn: Lsn) -> bool {
        // Nothing is in the block that was open then, or it is sealed by now.
        lsn.next() >= self.settled_lsn
    }

    fn note_live(&mut self, live: Arc<redo::LiveRecords>) -> Result<(), redo::Error> {
        self.log.note_live(live)
    }

    fn knows_validity(&self) -> bool {
        self.log.knows_validity()
    }

    fn thaw(&mut self) {
        // What was logged for it may still be in the open block.
        self.settled_lsn = self.log.open_lsn().next();
        self.log.set_frozen(false);
    }

    fn set_devices(
        &mut self,
        devices: &[PathBuf],
        entropy: &mut dyn Entropy,
    ) -> Result<(), DevicesError> {
        // None listed is one, the default.
        let count_max = devices.len().max(1);
        let Self { log, workers, .. } = self;
        workers.add_flushers(count_max, &mut || Ok(log.set_devices(devices, entropy)?))
    }

    fn is_congested(&self) -> bool {
        self.log.is_congested()
    }

    fn health(&self) -> LogHealth {
        match self.log.health() {
            Health::Writable => LogHealth::Good,
            Health::DiskFull { reason } => LogHealth::ReadOnly(reason),
            Health::ReadOnly { reason } => LogHealth::Failed(reason),
        }
    }

    fn compact_all(&mut self) -> bool {
        if self.log.is_compacting_all() {
            return false;
        }
        self.log.seal();
        self.log.compact_all();
        true
    }

    fn is_compacting(&self) -> bool {
        self.log.is_compacting_all()
    }

    fn tick(&mut self) {
        self.log.tick();
    }

    fn note_damage(&mut self, error: &redo::Error) {
        self.log.note_damage(error);
    }

    fn drain_events(&mut self) -> Vec<String> {
        self.log.drain_events()
    }

    fn rewrites(&self) -> Vec<SegmentId> {
        self.log.rewrites()
    }

    fn stats(&self) -> redo::Stats {
        self.log.stats()
    }

    fn has_room_for(&self, bytes: u64) -> bool {
        self.log.has_room_for(bytes)
    }

    fn history(&self) -> redo::HistoryStats {
        self.log.history()
    }

    fn index_figures(&self) -> Option<IndexFigures> {
        let of_log = self.log.index_stats();
        self.workers.index_figures().map(|figures| IndexFigures { of_log, ..figures })
    }

    fn keeps_hot(&self) -> bool {
        self.workers.keeps_hot()
    }

    fn save_hot(&mut self, records: Vec<Vec<RecordAddr>>) {
        let lsn = self.log.durable_lsn();
        self.workers.save_hot(lsn, records);
    }

    fn shutdown(&mut self) -> Result<(), CloseError> {
        self.log.shutdown();
        self.workers.finish()?;
        self.log.poll();
        if self.log.durable_lsn().next() == self.log.open_lsn() {
            // Whatever became of the devices, nothing is lost.
            return Ok(());
        }
        let reason = match self.log.health() {
            Health::DiskFull { reason } | Health::ReadOnly { reason } => reason,
            // The device that had them has failed at the end, when the others took nothing more.
            Health::Writable => {
                "the last blocks are on no device: theirs has failed or is full".to_owned()
            }
        };
        Err(CloseError::NotDurable { reason })
    }
}
