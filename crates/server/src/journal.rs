//! The redo log behind the keyspace's [`Journal`] and the engine's [`LogControl`].
//!
//! ```text
//!   keyspace ── append, retire ──► LogJournal ─┐
//!                                              ├─► Log ──► flushers, compactor: a Crew
//!   engine ── seal, durable_lsn ─► LogOwner ───┘           (threads, or a simulator's steps)
//! ```
//!
//! Both ends are used by the executor's thread only. The mutex between them is never contended; it
//! is what lets both be handed over from the thread that recovers the log.

use std::path::PathBuf;
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use base::{Lsn, Record, RecordAddr, SegmentId};
use env::Entropy;
use keyspace::Journal;
use redo::{
    CompactionOptions, Compactor, DeviceState, Flusher, Health, Log, Opened, Scrubber, Step,
    SyncPolicy, Turn,
};
use rustix::process::setpriority_process;
use rustix::thread::gettid;

use crate::config::{FsyncPolicy, LogOptions};
use crate::engine::{LogControl, LogHealth, Reach};

/// How long a thread of the log waits for work before it looks again.
const IDLE_WAIT: Duration = Duration::from_millis(100);

/// The niceness of threads that nobody waits for.
const BACKGROUND_NICENESS: i32 = 5;

type Shared = Arc<Mutex<Log>>;

fn lock(log: &Shared) -> MutexGuard<'_, Log> {
    log.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The end that the keyspace writes to. A clone is another handle on the same log.
#[derive(Clone)]
pub struct LogJournal(Shared);

impl LogJournal {
    /// The log's figures.
    #[must_use]
    pub fn stats(&self) -> redo::Stats {
        lock(&self.0).stats()
    }
}

impl Journal for LogJournal {
    fn append(&mut self, record: &Record<'_>) -> Option<RecordAddr> {
        Some(lock(&self.0).append(record))
    }

    fn retire(&mut self, addr: RecordAddr) {
        lock(&self.0).retire(addr);
    }

    fn open_lsn(&self) -> Lsn {
        lock(&self.0).open_lsn()
    }

    fn last_lsn(&self) -> Lsn {
        let log = lock(&self.0);
        if log.has_open_records() { log.open_lsn() } else { Lsn(log.open_lsn().0 - 1) }
    }

    fn durable_lsn(&self) -> Lsn {
        lock(&self.0).durable_lsn()
    }

    fn undurable_lsn_of(&self, addr: RecordAddr) -> Option<Lsn> {
        lock(&self.0).undurable_lsn_of(addr)
    }
}

/// Whoever steps the log's flushers and its compactor.
pub trait Crew: Send {
    /// Steps the flushers too that `add` gives, of devices that it adds: `count_max` at most. What
    /// they take is there before, because a device in use whose flusher nobody steps would hold up
    /// the log.
    ///
    /// # Errors
    /// Why that cannot be, or what `add` says. Nothing is changed then.
    fn hire(
        &mut self,
        count_max: usize,
        add: &mut dyn FnMut() -> Result<Vec<Flusher>, String>,
    ) -> Result<(), String>;

    /// Has the flusher of a device write what waits for it, on this thread, if it is idle and that
    /// is all there is to do. Whether it has; else it must be woken.
    fn write_now(&mut self, _device: usize) -> bool {
        false
    }

    /// The log was told to end: steps them until they have nothing to do for ever.
    ///
    /// # Errors
    /// Why that cannot be.
    fn finish(&mut self) -> Result<(), String>;
}

/// The end that the engine controls the log by.
struct LogOwner {
    log: Shared,
    crew: Box<dyn Crew>,
}

/// The two ends of a log whose flushers and compactor `crew` steps.
#[must_use]
pub fn connect(log: Log, crew: Box<dyn Crew>) -> (LogJournal, Box<dyn LogControl>) {
    let log = Arc::new(Mutex::new(log));
    (LogJournal(Arc::clone(&log)), Box::new(LogOwner { log, crew }))
}

/// Starts the log's threads and gives the two ends.
///
/// # Errors
/// When a thread cannot be started.
pub(crate) fn start(opened: Opened) -> std::io::Result<(LogJournal, Box<dyn LogControl>)> {
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
    Ok(connect(log, Box::new(Threads { threads, flushers: desks })))
}

/// Runs at a lower priority, on Linux that of this thread alone: where there are fewer cores than threads,
/// those that somebody waits for go first. It still gets a quarter of a core that is always busy,
/// which is more than keeping up takes.
fn in_background(run: impl FnOnce()) -> impl FnOnce() {
    move || {
        let _refused = setpriority_process(Some(gettid()), BACKGROUND_NICENESS);
        run();
    }
}

/// A thread a flusher, one for the compactor, one for the scrubber.
struct Threads {
    threads: Vec<JoinHandle<()>>,
    /// Each is locked by its thread while it steps, and by the executor while it writes.
    flushers: Vec<Arc<Mutex<Flusher>>>,
}

impl Crew for Threads {
    fn hire(
        &mut self,
        count_max: usize,
        add: &mut dyn FnMut() -> Result<Vec<Flusher>, String>,
    ) -> Result<(), String> {
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
            ready.push((sender, thread.map_err(|error| format!("no thread for it: {error}"))?));
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
        self.flushers.iter().any(|flusher| match flusher.try_lock() {
            Ok(mut flusher) => flusher.device_index() == device && flusher.write_now(),
            // It works, or has panicked: its thread's matter.
            Err(_) => false,
        })
    }

    fn finish(&mut self) -> Result<(), String> {
        for thread in self.threads.drain(..) {
            if thread.join().is_err() {
                return Err("a thread of the log has panicked".to_owned());
            }
        }
        Ok(())
    }
}

fn flusher_thread(index: usize) -> std::thread::Builder {
    std::thread::Builder::new().name(format!("flusher-{index}"))
}

fn run_flusher(flusher: &Mutex<Flusher>) {
    let flusher = || flusher.lock().unwrap_or_else(PoisonError::into_inner);
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
            // A scheduler lets whoever runs use up a slice of milliseconds, however many wait.
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

/// An error as INFO shows it.
fn one_line(error: Option<&str>) -> String {
    error.unwrap_or("none").replace([',', '\r', '\n'], " ")
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

impl LogControl for LogOwner {
    fn seal(&mut self) {
        let mut log = lock(&self.log);
        if log.policy() == SyncPolicy::Always {
            log.seal();
        } else if let Some(device) = log.seal_quietly()
            && !self.crew.write_now(device)
        {
            log.wake_flusher(device);
        }
    }

    fn takes_block_now(&self) -> bool {
        lock(&self.log).takes_block_now()
    }

    fn open_bytes(&self) -> usize {
        lock(&self.log).open_bytes()
    }

    fn reach(&mut self) -> Reach {
        let mut log = lock(&self.log);
        log.poll();
        Reach { written: log.written_lsn(), durable: log.durable_lsn() }
    }

    fn want_written(&mut self, lsn: Lsn) {
        lock(&self.log).want_written(lsn);
    }

    fn request_sync(&mut self) -> Lsn {
        let mut log = lock(&self.log);
        let lsn = if log.has_open_records() { log.open_lsn() } else { Lsn(log.open_lsn().0 - 1) };
        log.request_sync(lsn);
        lsn
    }

    fn set_policy(&mut self, policy: FsyncPolicy) {
        lock(&self.log).set_policy(sync_policy(policy));
    }

    fn set_compaction(&mut self, options: &LogOptions) {
        let mut log = lock(&self.log);
        log.set_compaction_options(compaction_options(options));
        log.set_scrub_rate(options.scrub_bytes_per_second);
    }

    fn thaw(&mut self) {
        lock(&self.log).set_frozen(false);
    }

    fn set_devices(
        &mut self,
        devices: &[PathBuf],
        entropy: &mut dyn Entropy,
    ) -> Result<(), String> {
        // None listed is one, the default.
        let count_max = devices.len().max(1);
        self.crew.hire(count_max, &mut || {
            lock(&self.log).set_devices(devices, entropy).map_err(|error| error.to_string())
        })
    }

    fn is_congested(&self) -> bool {
        lock(&self.log).is_congested()
    }

    fn health(&self) -> LogHealth {
        match lock(&self.log).health() {
            Health::Writable => LogHealth::Good,
            Health::DiskFull { reason } => LogHealth::ReadOnly(reason),
            Health::ReadOnly { reason } => LogHealth::Failed(reason),
        }
    }

    fn compact_all(&mut self) -> bool {
        let mut log = lock(&self.log);
        if log.is_compacting_all() {
            return false;
        }
        log.seal();
        log.compact_all();
        true
    }

    fn is_compacting(&self) -> bool {
        lock(&self.log).is_compacting_all()
    }

    fn compaction_count(&self) -> u64 {
        lock(&self.log).stats().compactions
    }

    fn tick(&mut self) {
        lock(&self.log).tick();
    }

    fn take_news(&mut self) -> Vec<String> {
        lock(&self.log).take_news()
    }

    fn rewrites(&self) -> Vec<SegmentId> {
        lock(&self.log).rewrites()
    }

    fn info(&self) -> Vec<(&'static str, String)> {
        let stats = lock(&self.log).stats();
        let mut lines = vec![
            ("redo_epoch", stats.epoch.to_string()),
            ("redo_open_lsn", stats.open_lsn.0.to_string()),
            ("redo_in_flight_bytes", stats.in_flight_bytes.to_string()),
            ("redo_segments", stats.segments.to_string()),
            ("redo_files", stats.files.to_string()),
            ("redo_records", stats.records.to_string()),
            ("redo_invalid_records", stats.invalid_records.to_string()),
            ("redo_delete_records", stats.delete_records.to_string()),
            ("redo_bitmap_bytes", stats.bitmap_bytes.to_string()),
            ("redo_compacting", u8::from(stats.compacting.is_some()).to_string()),
            ("redo_compactions", stats.compactions.to_string()),
            ("redo_compactions_failed", stats.compactions_failed.to_string()),
            ("redo_reclaimed_bytes", stats.reclaimed_bytes.to_string()),
            ("redo_scrubbed_bytes", stats.scrubbed_bytes.to_string()),
            ("redo_scrub_passes", stats.scrub_passes.to_string()),
            ("redo_scrub_last_pass_time", (stats.scrub_pass_ended_at_ms / 1000).to_string()),
            ("redo_scrub_errors", stats.scrub_errors.to_string()),
            ("redo_scrub_healed", stats.scrub_healed.to_string()),
            ("redo_scrub_last_error", one_line(stats.scrub_error.as_deref())),
            ("redo_devices", stats.devices.len().to_string()),
        ];
        for (index, device) in stats.devices.iter().enumerate() {
            let error = one_line(device.last_error.as_deref());
            let state = match device.state {
                DeviceState::Healthy if device.is_draining => "Draining",
                DeviceState::Healthy => "Healthy",
                DeviceState::Full => "Full",
                DeviceState::Poisoned => "Poisoned",
            };
            let figures = format!(
                "index={index},path={},state={state},segments={},queued_bytes={},written_bytes={},written_blocks={},\
                 syncs={},last_error={error}",
                device.path.display(),
                device.segments,
                device.queued_bytes,
                device.written_bytes,
                device.written_blocks,
                device.syncs,
            );
            lines.push(("redo_device", figures));
        }
        lines
    }

    fn disk_bytes(&self) -> u64 {
        lock(&self.log).stats().bytes
    }

    fn shutdown(&mut self) -> Result<(), String> {
        lock(&self.log).shutdown();
        self.crew.finish()?;
        let mut log = lock(&self.log);
        log.poll();
        if log.durable_lsn().next() == log.open_lsn() {
            // Whatever became of the devices, nothing is lost.
            return Ok(());
        }
        match log.health() {
            Health::Writable => Ok(()),
            Health::DiskFull { reason } | Health::ReadOnly { reason } => Err(reason),
        }
    }
}
