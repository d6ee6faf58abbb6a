//! The log as transactions share it: active transactions, bytes to write, the writer, the waiting
//! threads.
//!
//! ```text
//!   commit ─► append ─► buffer ─► the thread that finds the files here takes them, writes and
//!                                 syncs everything gathered, and puts them back; the others
//!                                 wait, and continue together: group commit among threads
//! ```
//!
//! Invariants: `files` is empty while a thread writes, and no thread holds this mutex during a
//! write or a sync. Only the holder of the exclusive latch appends, and the buffer is not sealed
//! while a group is open: so nothing comes between the log offset of a group and the group. The
//! durable end only grows. The first failed write or sync is remembered, and all later calls fail.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, OnceLock};
use std::time::Duration;

use crate::error::{Error, Result};
use crate::log_files::LogFiles;
use crate::log_page::{Flush, GroupKind, LOG_PAGE_BYTES, LogBuffer};
use crate::position::LogOffset;

/// Group commit writes the log when its buffer is this full, in percent (section 5.1, Figure 7).
const GROUP_PERCENT: usize = 80;

/// What the background thread waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sleep {
    Awake,
    /// For the delay of a commit in the log buffer to pass.
    UntilLate,
    /// For a thread to give it work.
    UntilWoken,
}

/// The shared state.
pub(crate) struct LogState {
    pub(crate) buffer: LogBuffer,
    buffer_bytes_max: usize,
    /// Whether the holder of the exclusive latch is building a group for the next log offset.
    is_group_open: bool,
    /// The files; `None` while a thread writes the log.
    files: Option<LogFiles>,
    /// When the oldest commit in the buffer was first seen.
    group_since_us: Option<u64>,
    /// The number of waiting threads.
    waiters: usize,
    /// How many of them wait for their group to be written.
    group_waiters: usize,
    next_transaction: u64,
    /// The active transactions.
    active: BTreeSet<u64>,
    /// The state of the background thread.
    sleep: Sleep,
    /// Whether the background thread has work.
    is_upkeep_due: bool,
    /// Whether the last handle is gone.
    pub(crate) is_stopping: bool,
    pub(crate) flushes: u64,
    pub(crate) page_writes: u64,
}

pub(crate) type LogGuard<'a> = MutexGuard<'a, LogState>;

pub(crate) struct SharedLog {
    state: Mutex<LogState>,
    /// Signals that the log was written, the store has failed, or a group commit has no active
    /// transaction left to wait for.
    changed: Condvar,
    /// Signals work for the background thread.
    upkeep_wanted: Condvar,
    /// Every group before this is durable.
    durable_end: AtomicU64,
    /// The number of active transactions.
    active_count: AtomicUsize,
    poison: OnceLock<String>,
}

impl LogState {
    fn seal(&mut self) -> Flush {
        self.group_since_us = None;
        self.buffer.seal()
    }

    /// Whether the buffer is fuller than this, in percent of the most that group commit gathers.
    pub(crate) fn is_fuller_than(&self, percent: usize) -> bool {
        self.buffer.len() * 100 / self.buffer_bytes_max.max(1) >= percent
    }

    pub(crate) fn is_full(&self) -> bool {
        self.is_fuller_than(GROUP_PERCENT)
    }

    /// Whether it is worth writing the buffer. There must be enough, or no transaction left that
    /// could join.
    fn is_group_ripe(&self) -> bool {
        self.active.is_empty() || self.is_full()
    }

    /// Whether the oldest commit in the buffer has waited for `delay`.
    pub(crate) fn is_group_late(&mut self, now_us: u64, delay: Duration) -> bool {
        let Self { buffer, group_since_us, .. } = self;
        let waited = |since: u64| u128::from(now_us.saturating_sub(since));
        !buffer.is_empty() && waited(*group_since_us.get_or_insert(now_us)) >= delay.as_micros()
    }
}

impl SharedLog {
    /// Creates the state of a log that is durable up to where `buffer` continues.
    pub(crate) fn new(
        buffer: LogBuffer,
        files: LogFiles,
        buffer_bytes_max: usize,
        next_transaction: u64,
    ) -> Self {
        let durable_end = AtomicU64::new(buffer.end().0);
        let state = LogState {
            buffer,
            buffer_bytes_max,
            is_group_open: false,
            files: Some(files),
            group_since_us: None,
            waiters: 0,
            group_waiters: 0,
            next_transaction,
            active: BTreeSet::new(),
            sleep: Sleep::Awake,
            is_upkeep_due: false,
            is_stopping: false,
            flushes: 0,
            page_writes: 0,
        };
        Self {
            state: Mutex::new(state),
            changed: Condvar::new(),
            upkeep_wanted: Condvar::new(),
            durable_end,
            active_count: AtomicUsize::new(0),
            poison: OnceLock::new(),
        }
    }

    pub(crate) fn lock(&self) -> LogGuard<'_> {
        self.state.lock().expect("a broken invariant has ended a thread that held the log")
    }

    /// Every group before this is durable.
    pub(crate) fn durable_end(&self) -> LogOffset {
        LogOffset(self.durable_end.load(Ordering::Acquire))
    }

    /// The log offset of the next group.
    pub(crate) fn next_offset(&self) -> LogOffset {
        self.lock().buffer.next_offset()
    }

    /// Opens a group and returns its log offset.
    pub(crate) fn open_group(&self) -> LogOffset {
        let mut log = self.lock();
        log.is_group_open = true;
        log.buffer.next_offset()
    }

    /// Appends the open group, if there is one, and returns its log offset.
    pub(crate) fn append(&self, kind: GroupKind, body: &[u8]) -> LogOffset {
        let mut log = self.lock();
        log.is_group_open = false;
        log.buffer.append(kind, body)
    }

    /// Drops the open group.
    pub(crate) fn drop_group(&self) {
        self.lock().is_group_open = false;
    }

    /// Begins a transaction.
    pub(crate) fn begin(&self) -> u64 {
        let mut log = self.lock();
        let id = log.next_transaction;
        log.next_transaction += 1;
        log.active.insert(id);
        self.active_count.store(log.active.len(), Ordering::Relaxed);
        id
    }

    /// The active transactions, oldest first.
    pub(crate) fn active(&self) -> Vec<u64> {
        self.lock().active.iter().copied().collect()
    }

    /// Whether at most one transaction is active.
    pub(crate) fn is_alone(&self) -> bool {
        self.active_count.load(Ordering::Relaxed) <= 1
    }

    /// # Errors
    /// [`Error::Poisoned`] after a failure.
    pub(crate) fn healthy(&self) -> Result<()> {
        match self.poison.get() {
            Some(cause) => Err(Error::Poisoned { cause: cause.clone() }),
            None => Ok(()),
        }
    }

    /// Remembers the first failure, and wakes all threads that wait in vain.
    pub(crate) fn poison_by<T>(&self, result: Result<T>) -> Result<T> {
        if let Err(error) = &result {
            self.poison.get_or_init(|| error.to_string());
            drop(self.lock());
            self.changed.notify_all();
        }
        result
    }

    /// Ends a transaction. This may run during unwinding and must not panic.
    pub(crate) fn end(&self, transaction: u64) {
        if let Ok(mut log) = self.state.lock() {
            self.end_in(&mut log, transaction);
        }
    }

    /// As [`SharedLog::end`]. Wakes group commits that may have waited for this transaction or for
    /// what it appended.
    pub(crate) fn end_in(&self, log: &mut LogState, transaction: u64) {
        log.active.remove(&transaction);
        self.active_count.store(log.active.len(), Ordering::Relaxed);
        self.wake_group(log);
    }

    /// Takes the files, for writing without the mutex; waits for the thread that has them.
    pub(crate) fn take_files<'a>(&'a self, mut log: LogGuard<'a>) -> LogFiles {
        loop {
            if let Some(files) = log.files.take() {
                return files;
            }
            log = self.wait(log);
        }
    }

    /// Puts the files back.
    pub(crate) fn put_files(&self, files: LogFiles) {
        self.lock().files = Some(files);
        self.changed.notify_all();
    }

    fn wait<'a>(&'a self, mut log: LogGuard<'a>) -> LogGuard<'a> {
        log.waiters += 1;
        log = self.changed.wait(log).expect("as for the lock");
        log.waiters -= 1;
        log
    }

    /// Writes the log until the group at `offset` is durable, or waits for the thread that is
    /// writing. `latch` takes the latch at least shared, which guarantees that no group is open.
    pub(crate) fn flush_past<'a, L>(
        &'a self,
        mut log: LogGuard<'a>,
        offset: LogOffset,
        latch: impl Fn() -> L,
    ) -> Result<()> {
        loop {
            self.healthy()?;
            if offset < self.durable_end() {
                return Ok(());
            }
            let Some(mut files) = log.files.take() else {
                log = self.wait(log);
                continue;
            };
            let flush = if log.is_group_open {
                drop(log);
                let _latched = latch();
                self.lock().seal()
            } else {
                let flush = log.seal();
                drop(log);
                flush
            };
            let written = files.write(&flush);
            // Before another thread can take the files.
            let written = self.poison_by(written);
            log = self.lock();
            log.files = Some(files);
            let is_waited_for = log.waiters > 0;
            if written.is_ok() {
                self.note_flush(&mut log, flush);
            }
            drop(log);
            if is_waited_for {
                self.changed.notify_all();
            }
            written?;
            // The write by another thread included this group.
            if offset < self.durable_end() {
                return Ok(());
            }
            log = self.lock();
        }
    }

    /// Notes that a flush was written and synced.
    fn note_flush(&self, log: &mut LogState, flush: Flush) {
        self.durable_end.store(flush.end().0, Ordering::Release);
        log.flushes += 1;
        log.page_writes += (flush.bytes.len() / LOG_PAGE_BYTES) as u64;
        log.buffer.reuse(flush);
    }

    /// Waits until the group at `offset` is durable or due. It is due when the buffer is full
    /// enough, the delay is over, or no transaction is left that could join.
    pub(crate) fn wait_for_group<'a>(
        &'a self,
        mut log: LogGuard<'a>,
        offset: LogOffset,
        delay: Duration,
    ) -> LogGuard<'a> {
        log.group_waiters += 1;
        log.waiters += 1;
        let is_to_wait = |log: &mut LogState| {
            self.poison.get().is_none() && offset >= self.durable_end() && !log.is_group_ripe()
        };
        let waited = self.changed.wait_timeout_while(log, delay, is_to_wait);
        log = waited.expect("as for the lock").0;
        log.group_waiters -= 1;
        log.waiters -= 1;
        log
    }

    /// Wakes a waiting group commit if the log is due.
    fn wake_group(&self, log: &LogState) {
        if log.group_waiters > 0 && log.is_group_ripe() {
            self.changed.notify_all();
        }
    }

    /// Wakes the background thread if it has work, or will soon.
    pub(crate) fn wake_upkeep(&self, log: &mut LogState, is_due: bool, is_waited_for: bool) {
        log.is_upkeep_due |= is_due || (!is_waited_for && log.is_full());
        let is_to_wake = match log.sleep {
            Sleep::Awake => false,
            Sleep::UntilLate => log.is_upkeep_due,
            Sleep::UntilWoken => log.is_upkeep_due || (!is_waited_for && !log.buffer.is_empty()),
        };
        if is_to_wake {
            log.sleep = Sleep::Awake;
            self.upkeep_wanted.notify_one();
        }
    }

    /// Ends the background thread. This may run during unwinding.
    pub(crate) fn stop_upkeep(&self) {
        if let Ok(mut log) = self.state.lock() {
            log.is_stopping = true;
        }
        self.upkeep_wanted.notify_all();
    }

    /// Puts the background thread to sleep until it has work. If a commit waits in the buffer, it
    /// sleeps at most for `delay`.
    pub(crate) fn sleep(&self, delay: Duration) {
        let mut log = self.lock();
        if log.is_stopping || std::mem::take(&mut log.is_upkeep_due) {
            return;
        }
        if log.buffer.is_empty() {
            log.sleep = Sleep::UntilWoken;
            log = self.upkeep_wanted.wait(log).expect("as for the lock");
        } else {
            log.sleep = Sleep::UntilLate;
            log = self.upkeep_wanted.wait_timeout(log, delay).expect("as for the lock").0;
        }
        log.sleep = Sleep::Awake;
        log.is_upkeep_due = false;
    }

    /// Pauses the background thread, unless it must end.
    pub(crate) fn rest(&self, pause: Duration) {
        let log = self.lock();
        if !log.is_stopping {
            drop(self.upkeep_wanted.wait_timeout(log, pause));
        }
    }
}
