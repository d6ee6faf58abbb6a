//! What all handles of a store share: the latch, and what is done with it and without it.
//!
//! One latch protects [`Core`]. It is held while pages are looked at and changed; it is never held
//! while anything is synced, and not while one of several transactions waits for a page:
//!
//! ```text
//!   read        who finds a page in no frame reads it without the latch, and asks again
//!   log         whoever finds the log's files in the core takes them out, lets the latch go,
//!               writes and syncs everything that has gathered, and puts them back; the others
//!               wait, and go on together: group commit among threads
//!   checkpoint  the one thread that takes a step writes its pages without the latch; who has
//!               seen the last page syncs data file, checkpoint record and master record
//! ```
//!
//! Order of latches: a transaction's own state, then the latch, then the lock table. Nobody waits
//! for a lock of a transaction, or for a device to sync, while holding any of them.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Duration;

use crate::checkpoint::Effort;
use crate::core::Core;
use crate::error::Result;
use crate::locks::LockTable;
use crate::options::{Durability, LockWait, Upkeep};
use crate::pool::PageWrite;
use crate::position::Lsn;

/// Group commit writes the log when its buffer is so full (section 5.1, Figure 7).
const GROUP_PERCENT: usize = 80;

/// Commits that wait for nothing wait all the same when the buffer is so full.
const BEHIND_PERCENT: usize = 1000;
/// So often a page is read without the latch before an answer is there.
const UNLATCHED_READS_MAX: usize = 16;
/// So many pages of deleted tables are given back at a time.
pub(crate) const RECLAIM_PAGES: usize = 8;

/// Those who wait for the latch. Who has got it is counted while it holds it.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    waiting: AtomicUsize,
    /// Goes up when one of them has it.
    served: AtomicUsize,
}

pub(crate) struct Inner {
    pub(crate) core: Mutex<Core>,
    pub(crate) queue: Queue,
    /// Something in the core has changed that somebody may wait for: the log was written, a
    /// checkpoint has ended, nobody is active any more whom a group commit could wait for.
    pub(crate) changed: Condvar,
    /// There is something to do for the thread in the background.
    pub(crate) upkeep_wanted: Condvar,
    pub(crate) locks: Mutex<LockTable>,
    pub(crate) lock_released: Condvar,
    pub(crate) lock_wait: LockWait,
    pub(crate) clock: Arc<dyn env::Clock>,
    pub(crate) upkeep: Upkeep,
    pub(crate) group_delay: Duration,
    pub(crate) transaction_bytes_max: usize,
    pub(crate) _lock: Box<dyn env::Lock>,
}

/// What the thread in the background is waiting for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sleep {
    Awake,
    /// For the delay of a commit in the log buffer.
    UntilLate,
    /// For somebody to have something to do.
    UntilWoken,
}

pub(crate) type Latched<'a> = MutexGuard<'a, Core>;

impl Inner {
    pub(crate) fn latch(&self) -> Latched<'_> {
        if let Ok(core) = self.core.try_lock() {
            return core;
        }
        self.queue.waiting.fetch_add(1, Ordering::Relaxed);
        let core = self.core.lock();
        self.queue.waiting.fetch_sub(1, Ordering::Relaxed);
        self.queue.served.fetch_add(1, Ordering::Relaxed);
        core.expect("a broken invariant has ended a thread that held the latch")
    }

    /// Lets the latch go, and takes it again after one of those who wait for it, if any do. Merely
    /// let go it would be taken again before who waits has woken up.
    pub(crate) fn give_way<'a>(&'a self, core: Latched<'a>) -> Latched<'a> {
        let is_wanted = self.queue.waiting.load(Ordering::Relaxed) > 0;
        let served = self.queue.served.load(Ordering::Relaxed);
        drop(core);
        while is_wanted && self.queue.served.load(Ordering::Relaxed) == served {
            std::thread::yield_now();
        }
        self.latch()
    }

    pub(crate) fn lock_table(&self) -> MutexGuard<'_, LockTable> {
        self.locks.lock().expect("the lock table does not panic")
    }

    /// Forgets a transaction. After a broken invariant there is nothing to forget it in; this may
    /// run while the panic unwinds, and must not begin another.
    pub(crate) fn forget(&self, transaction: u64) {
        if let Ok(mut core) = self.core.lock()
            && core.active.remove(&transaction)
        {
            self.wake_group(&core);
        }
    }

    /// What the changes of one transaction may take.
    pub(crate) fn transaction_bytes_max(&self) -> usize {
        self.transaction_bytes_max
    }

    /// Asks what is committed. While there are other transactions a page that is in no frame is
    /// read without the latch; then everything is asked again.
    pub(crate) fn ask<T>(&self, mut ask: impl FnMut(&mut Core) -> Result<T>) -> Result<T> {
        let mut core = self.latch();
        for attempt in 0.. {
            core.healthy()?;
            // Who is unlucky, and finds pages gone as soon as they were read, keeps the latch.
            let is_shared = core.active.len() > 1 && attempt < UNLATCHED_READS_MAX;
            core.pool.refuse_reads(is_shared);
            let answer = ask(&mut core);
            let wanted = core.pool.begin_read();
            core.pool.refuse_reads(false);
            let Some(mut read) = wanted else { return answer };
            drop(core);
            let is_read = read.read();
            core = self.latch();
            core.pool.finish_read(read, is_read)?;
            if !is_read {
                // The error will be met again under the latch.
                core.pool.refuse_reads(false);
                return ask(&mut core);
            }
        }
        unreachable!("attempts are bounded")
    }

    fn wait_for_change<'a>(&self, mut core: Latched<'a>) -> Latched<'a> {
        core.waiters += 1;
        core = self.changed.wait(core).expect("as for the latch");
        core.waiters -= 1;
        core
    }

    /// To be called under the latch whenever something has changed that [`Inner::changed`] is
    /// about. Waking nobody would be a system call all the same.
    fn wake_waiters(&self, core: &Core) {
        if core.waiters > 0 {
            self.changed.notify_all();
        }
    }

    /// Writes the log until the group at `lsn` is durable, or waits for who is doing so.
    pub(crate) fn flush_past<'a>(&'a self, mut core: Latched<'a>, lsn: Lsn) -> Result<Latched<'a>> {
        loop {
            core.healthy()?;
            if lsn < core.pool.durable_end {
                return Ok(core);
            }
            let Some(mut files) = core.files.take() else {
                core = self.wait_for_change(core);
                continue;
            };
            let flush = core.log.seal();
            core.group_since_us = None;
            drop(core);
            let written = files.write(&flush);
            core = self.latch();
            core.files = Some(files);
            self.wake_waiters(&core);
            core.poison_by(written)?;
            core.note_flush(&flush);
            core.log.reuse(flush);
        }
    }

    /// Writes everything in the log buffer.
    pub(crate) fn flush_all<'a>(&'a self, core: Latched<'a>) -> Result<Latched<'a>> {
        // Everything that was appended is before this, and nothing durable is.
        let last = Lsn(core.log.end().0 - 1);
        self.flush_past(core, last)
    }

    /// Moves a checkpoint on, by so many pages or those of a step, and ends it when it has seen
    /// every page.
    pub(crate) fn advance_checkpoint<'a>(
        &'a self,
        mut core: Latched<'a>,
        page_count: Option<usize>,
    ) -> Result<Latched<'a>> {
        // While the log is being written others may end the checkpoint, and begin a new one.
        loop {
            core.healthy()?;
            let Some(checkpoint) = &core.checkpoint else { return Ok(core) };
            if checkpoint.is_busy() {
                return Ok(self.wait_for_change(core));
            }
            let begin = checkpoint.begin();
            if begin < core.pool.durable_end {
                break;
            }
            core = self.flush_past(core, begin)?;
        }
        let page_count = page_count.unwrap_or(core.options.checkpoint_step_pages).max(1);
        let mut writes = core.begin_step(page_count);
        let mut written = Ok(());
        if !writes.is_empty() {
            drop(core);
            written = writes.iter_mut().try_for_each(PageWrite::write);
            core = self.latch();
        }
        let finished = core.finish_step(writes, written);
        self.wake_waiters(&core);
        if finished? {
            core = self.end_checkpoint(core)?;
        }
        Ok(core)
    }

    /// Lines 20 to 23 of Algorithm 1: everything that was written is synced, in the order in
    /// which each relies on what is before it.
    fn end_checkpoint<'a>(&'a self, mut core: Latched<'a>) -> Result<Latched<'a>> {
        let needs_sync = core.close_checkpoint();
        let data = Arc::clone(&core.pool.data);
        if needs_sync {
            drop(core);
            let synced = data.sync();
            core = self.latch();
            self.note(&mut core, synced)?;
        }
        let lsn = core.log_checkpoint();
        core = self.flush_past(core, lsn)?;
        let master = core.next_master(lsn);
        drop(core);
        let written = data.write_master(&master);
        core = self.latch();
        self.note(&mut core, written)?;
        let redo_start = core.finish_checkpoint(master);
        let mut files = loop {
            match core.files.take() {
                Some(files) => break files,
                None => core = self.wait_for_change(core),
            }
        };
        drop(core);
        let recycled = files.recycle_before(redo_start);
        core = self.latch();
        core.files = Some(files);
        self.wake_waiters(&core);
        self.note(&mut core, recycled)?;
        Ok(core)
    }

    /// Poisons the core by an error, and wakes whoever waits for what will not come.
    fn note(&self, core: &mut Core, result: Result<()>) -> Result<()> {
        if result.is_err() {
            self.wake_waiters(core);
        }
        core.poison_by(result)
    }

    /// Takes a whole checkpoint, after ending one that is being taken.
    pub(crate) fn whole_checkpoint<'a>(
        &'a self,
        mut core: Latched<'a>,
        effort: Effort,
    ) -> Result<Latched<'a>> {
        while core.checkpoint.is_some() {
            core = self.advance_checkpoint(core, None)?;
        }
        core.healthy()?;
        core.begin_checkpoint(effort);
        let begin = core.checkpoint.as_ref().map(crate::checkpoint::Checkpoint::begin);
        // Others may begin the next one as soon as this is done.
        while core.checkpoint.as_ref().map(crate::checkpoint::Checkpoint::begin) == begin {
            core = self.advance_checkpoint(core, Some(usize::MAX))?;
        }
        Ok(core)
    }

    /// Before a commit: the online log table has room for it.
    pub(crate) fn make_room<'a>(&'a self, mut core: Latched<'a>) -> Result<Latched<'a>> {
        while core.is_table_full() && core.checkpoint.is_some() {
            core = self.advance_checkpoint(core, None)?;
        }
        if core.is_table_full() {
            core = self.whole_checkpoint(core, Effort::All)?;
        }
        Ok(core)
    }

    /// After a commit: makes it as durable as was asked for, and moves a checkpoint on or has the
    /// thread in the background do so.
    pub(crate) fn settle<'a>(
        &'a self,
        mut core: Latched<'a>,
        lsn: Lsn,
        durability: Durability,
    ) -> Result<()> {
        self.wake_group(&core);
        let is_inline = self.upkeep == Upkeep::Inline;
        if !is_inline {
            self.wake_background(&mut core, durability);
        }
        match durability {
            Durability::Immediate => core = self.flush_past(core, lsn)?,
            Durability::Group if !is_inline => core = self.flush_with_group(core, lsn)?,
            Durability::Group if is_log_full(&core) || self.is_group_late(&mut core) => {
                core = self.flush_past(core, lsn)?;
            }
            // The thread in the background writes it, but must not be left behind.
            Durability::None if !is_inline && log_fill(&core) < BEHIND_PERCENT => {}
            Durability::None if is_log_full(&core) => core = self.flush_past(core, lsn)?,
            Durability::Group | Durability::None => {}
        }
        if is_inline {
            core.reclaim(RECLAIM_PAGES);
            if core.checkpoint.is_none() && !core.advance_restart() && core.needs_checkpoint() {
                core.begin_checkpoint(Effort::Normal);
            }
            core = self.advance_checkpoint(core, None)?;
        }
        drop(core);
        Ok(())
    }

    fn wake_background(&self, core: &mut Core, durability: Durability) {
        let is_waited_for = durability != Durability::None;
        let is_due = core.has_deleted_tables
            || (core.checkpoint.is_none() && core.needs_checkpoint())
            || (!is_waited_for && is_log_full(core));
        let is_to_wake = match core.background {
            Sleep::Awake => false,
            Sleep::UntilLate => is_due,
            Sleep::UntilWoken => is_due || (!is_waited_for && !core.log.is_empty()),
        };
        if is_to_wake {
            core.background = Sleep::Awake;
            self.upkeep_wanted.notify_one();
        }
    }

    /// Waits until the group is durable, and writes the log when that is worth it: the buffer is
    /// full enough, the delay is over, or there is nobody who could join the group.
    fn flush_with_group<'a>(&'a self, mut core: Latched<'a>, lsn: Lsn) -> Result<Latched<'a>> {
        core.group_waiters += 1;
        core.waiters += 1;
        let is_to_wait = |core: &mut Core| {
            core.poison.is_none() && lsn >= core.pool.durable_end && !is_group_ripe(core)
        };
        let waited = self.changed.wait_timeout_while(core, self.group_delay, is_to_wait);
        core = waited.expect("as for the latch").0;
        core.group_waiters -= 1;
        core.waiters -= 1;
        self.flush_past(core, lsn)
    }

    /// To be called when the buffer has grown or somebody has ended: is it time to write?
    pub(crate) fn wake_group(&self, core: &Core) {
        if core.group_waiters > 0 && is_group_ripe(core) {
            self.wake_waiters(core);
        }
    }

    /// Whether the oldest commit in the log buffer has waited long enough.
    pub(crate) fn is_group_late(&self, core: &mut Core) -> bool {
        let now_us = self.clock.monotonic_us();
        !core.log.is_empty()
            && u128::from(now_us.saturating_sub(*core.group_since_us.get_or_insert(now_us)))
                >= self.group_delay.as_micros()
    }
}

fn log_fill(core: &Core) -> usize {
    core.log.len() * 100 / core.options.log_buffer_bytes.max(1)
}

pub(crate) fn is_log_full(core: &Core) -> bool {
    log_fill(core) >= GROUP_PERCENT
}

fn is_group_ripe(core: &Core) -> bool {
    core.active.is_empty() || is_log_full(core)
}
