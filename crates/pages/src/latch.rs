//! The state that all handles of a store share: the latch, and the work done with and without it.
//!
//! One latch protects [`Core`]: readers of pages hold it shared, writers hold it exclusively. A
//! transaction changes only its overlay until it commits, so nearly all work needs the latch only
//! shared. It is not held during a write or a sync. A page is read under it only by a thread that
//! is alone or in the middle of a commit:
//!
//! ```text
//!   look        a reader that finds a page in no frame reads it without the latch, puts it into a
//!               frame, and repeats its query
//!   log         [`crate::shared_log`]
//!   checkpoint  the one thread that has the turn writes pages without the latch; after the last
//!               page it syncs the data file, the checkpoint record and the master record
//! ```
//!
//! Order: the turn to move a checkpoint on, a transaction's own state, the latch, the lock table or
//! the log. A thread that holds one of the last four waits neither for the lock of a transaction
//! nor for a device to sync. No thread takes the latch twice, shared or not.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::Duration;

use crate::checkpoint::Effort;
use crate::core::Core;
use crate::error::Result;
use crate::locks::LockTable;
use crate::look::{LastFrame, Look};
use crate::options::{Durability, LockWait, Upkeep};
use crate::pool::PageWrite;
use crate::position::LogOffset;
use crate::shared_log::SharedLog;

/// The fill level of the log buffer, in percent, from which even `Durability::None` commits wait.
const BEHIND_PERCENT: usize = 1000;
/// How often a call reads a page without the latch before it keeps the latch.
const UNLATCHED_READS_MAX: usize = 16;
/// Pages of deleted tables freed at a time.
pub(crate) const RECLAIM_PAGES: usize = 8;

/// How many threads wait for the latch, and how often one of them has obtained it.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    waiting: AtomicUsize,
    /// Grows each time a waiting thread obtains the latch.
    served: AtomicUsize,
}

pub(crate) struct Inner {
    pub(crate) core: RwLock<Core>,
    pub(crate) queue: Queue,
    pub(crate) log: Arc<SharedLog>,
    /// The turn to move a checkpoint on.
    pub(crate) turn: Mutex<()>,
    pub(crate) locks: Mutex<LockTable>,
    pub(crate) lock_released: Condvar,
    pub(crate) lock_wait: LockWait,
    pub(crate) clock: Arc<dyn env::Clock>,
    pub(crate) upkeep: Upkeep,
    pub(crate) group_delay: Duration,
    pub(crate) transaction_bytes_max: usize,
    /// Frame hits of transactions that have ended.
    pub(crate) page_hits: AtomicU64,
    pub(crate) _lock: Box<dyn env::Lock>,
}

pub(crate) type Latched<'a> = RwLockWriteGuard<'a, Core>;
pub(crate) type Shared<'a> = RwLockReadGuard<'a, Core>;

const BROKEN: &str = "a broken invariant has ended a thread that held the latch";

impl Inner {
    /// Takes the latch exclusively.
    pub(crate) fn latch(&self) -> Latched<'_> {
        match self.core.try_write() {
            Ok(core) => core,
            Err(_) => self.in_queue(|| self.core.write().expect(BROKEN)),
        }
    }

    /// Takes the latch shared.
    pub(crate) fn share(&self) -> Shared<'_> {
        match self.core.try_read() {
            Ok(core) => core,
            Err(_) => self.in_queue(|| self.core.read().expect(BROKEN)),
        }
    }

    fn in_queue<L>(&self, wait: impl FnOnce() -> L) -> L {
        self.queue.waiting.fetch_add(1, Ordering::Relaxed);
        let latched = wait();
        self.queue.waiting.fetch_sub(1, Ordering::Relaxed);
        self.queue.served.fetch_add(1, Ordering::Relaxed);
        latched
    }

    /// Yields the latch before taking it again. Returns after one of the waiting threads has
    /// obtained it, if any wait. Merely releasing it is not enough: the caller would take it again
    /// before a waiting thread wakes up.
    pub(crate) fn give_way(&self) {
        let served = self.queue.served.load(Ordering::Relaxed);
        while self.queue.waiting.load(Ordering::Relaxed) > 0
            && self.queue.served.load(Ordering::Relaxed) == served
        {
            std::thread::yield_now();
        }
    }

    pub(crate) fn lock_table(&self) -> MutexGuard<'_, LockTable> {
        self.locks.lock().expect("the lock table does not panic")
    }

    /// The most bytes that the changes of one transaction may take.
    pub(crate) fn transaction_bytes_max(&self) -> usize {
        self.transaction_bytes_max
    }

    /// Runs a query on committed content. If a page is in no frame and other threads may want the
    /// latch, reads the page without it and repeats the whole query.
    pub(crate) fn ask<T>(
        &self,
        last: &LastFrame,
        mut ask: impl FnMut(&mut Look<'_>) -> Result<T>,
    ) -> Result<T> {
        let attempts = if self.log.is_alone() { 0 } else { UNLATCHED_READS_MAX };
        for _ in 0..attempts {
            let core = self.share();
            self.log.healthy()?;
            let mut look = Look::shared(&core, last);
            let answer = ask(&mut look);
            let wanted = look.wanted();
            drop(look);
            let Some(wanted) = wanted else { return answer };
            let mut read = core.pool.begin_read(wanted);
            drop(core);
            let is_read = read.read();
            let frame = self.latch().pool.finish_read(read, is_read)?;
            // The coming look at the frame is the use that it was read for.
            frame.into_iter().for_each(|frame| last.set(frame));
            if !is_read {
                // The query will meet the error again under the latch.
                break;
            }
        }
        // After `UNLATCHED_READS_MAX` attempts, keep the latch so that eviction cannot starve the
        // caller.
        let mut core = self.latch();
        self.log.healthy()?;
        ask(&mut core.look())
    }

    /// Writes the log until the group at `offset` is durable, or waits for the thread that writes.
    pub(crate) fn flush_past(&self, offset: LogOffset) -> Result<()> {
        self.log.flush_past(self.log.lock(), offset, || self.share())
    }

    /// Writes everything in the log buffer.
    pub(crate) fn flush_all(&self) -> Result<()> {
        // The last group appended ends here; nothing past it exists.
        let last = LogOffset(self.log.lock().buffer.end().0 - 1);
        self.flush_past(last)
    }

    /// Moves a checkpoint on by `page_count` pages or one step, and ends it after the last page.
    pub(crate) fn advance_checkpoint(&self, page_count: Option<usize>) -> Result<()> {
        let _turn = self.turn.lock().expect("a broken invariant has ended a checkpoint");
        self.log.healthy()?;
        let Some(begin) = self.share().checkpoint_begin() else { return Ok(()) };
        self.flush_past(begin)?;
        let mut core = self.latch();
        let page_count = page_count.unwrap_or(core.options.checkpoint_step_pages).max(1);
        let mut writes = core.begin_step(page_count);
        let mut written = Ok(());
        if !writes.is_empty() {
            drop(core);
            written = writes.iter_mut().try_for_each(PageWrite::write);
            core = self.latch();
        }
        let is_done = core.finish_step(writes, written.is_ok());
        drop(core);
        self.log.poison_by(written)?;
        if is_done { self.end_checkpoint() } else { Ok(()) }
    }

    /// Lines 20 to 23 of Algorithm 1: syncs everything written, each part before the part that
    /// relies on it.
    fn end_checkpoint(&self) -> Result<()> {
        let mut core = self.latch();
        let needs_sync = core.close_checkpoint();
        let data = Arc::clone(&core.pool.data);
        drop(core);
        if needs_sync {
            self.log.poison_by(data.sync())?;
        }
        let offset = self.latch().log_checkpoint();
        self.flush_past(offset)?;
        let master = self.share().next_master(offset);
        self.log.poison_by(data.write_master(&master))?;
        let redo_start = self.latch().finish_checkpoint(master);
        let mut files = self.log.take_files(self.log.lock());
        // Before another thread can take the files.
        let recycled = self.log.poison_by(files.recycle_before(redo_start));
        self.log.put_files(files);
        recycled
    }

    /// Takes a complete checkpoint, after finishing one in progress.
    pub(crate) fn whole_checkpoint(&self, effort: Effort) -> Result<()> {
        let begin = loop {
            let mut core = self.latch();
            self.log.healthy()?;
            if core.checkpoint_begin().is_none() {
                break core.begin_checkpoint(effort);
            }
            drop(core);
            self.advance_checkpoint(None)?;
        };
        // Another thread may begin the next checkpoint as soon as this one ends.
        while self.share().checkpoint_begin() == Some(begin) {
            self.advance_checkpoint(Some(usize::MAX))?;
        }
        Ok(())
    }

    /// Takes the latch for a commit, after making room in the online log table.
    pub(crate) fn latch_with_room(&self) -> Result<Latched<'_>> {
        loop {
            let core = self.latch();
            self.log.healthy()?;
            if !core.is_table_full() {
                return Ok(core);
            }
            let is_being_freed = core.checkpoint_begin().is_some();
            drop(core);
            if is_being_freed {
                self.advance_checkpoint(None)?;
            } else {
                self.whole_checkpoint(Effort::All)?;
            }
        }
    }

    /// Ends a transaction after its commit, as durably as requested. Does due upkeep, or wakes the
    /// background thread for it.
    pub(crate) fn settle(
        &self,
        transaction: u64,
        offset: LogOffset,
        durability: Durability,
        is_upkeep_due: bool,
    ) -> Result<()> {
        let is_inline = self.upkeep == Upkeep::Inline;
        let mut log = self.log.lock();
        self.log.end_in(&mut log, transaction);
        if !is_inline {
            self.log.wake_upkeep(&mut log, is_upkeep_due, durability != Durability::None);
        }
        let is_to_flush = match durability {
            Durability::Immediate => true,
            Durability::Group if !is_inline => {
                log = self.log.wait_for_group(log, offset, self.group_delay);
                true
            }
            Durability::Group => {
                log.is_full() || log.is_group_late(self.clock.monotonic_us(), self.group_delay)
            }
            // The background thread writes the log, but commits must not outrun it.
            Durability::None if !is_inline => log.is_fuller_than(BEHIND_PERCENT),
            Durability::None => log.is_full(),
        };
        if is_to_flush {
            self.log.flush_past(log, offset, || self.share())?;
        } else {
            drop(log);
        }
        if is_inline { self.keep_up() } else { Ok(()) }
    }

    /// Upkeep between two transactions.
    fn keep_up(&self) -> Result<()> {
        let mut core = self.latch();
        core.reclaim(RECLAIM_PAGES);
        let is_free = core.checkpoint_begin().is_none() && !core.advance_restart();
        if is_free && core.needs_checkpoint() {
            core.begin_checkpoint(Effort::Normal);
        }
        drop(core);
        self.advance_checkpoint(None)
    }

    /// Writes the log if the oldest commit in its buffer has waited long enough. With `or_full`,
    /// also writes it if the buffer is full.
    pub(crate) fn flush_if_late(&self, or_full: bool) -> Result<()> {
        let mut log = self.log.lock();
        let is_late = log.is_group_late(self.clock.monotonic_us(), self.group_delay);
        let is_due = is_late || (or_full && log.is_full());
        drop(log);
        if is_due { self.flush_all() } else { Ok(()) }
    }
}
