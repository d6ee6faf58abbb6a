//! The store: opening and closing, the latch, group commit, and when checkpoints are taken.
//!
//! One latch protects [`Core`]; it is held while pages are read and changed, but not while the log
//! is synced for a commit. Whoever commits and finds nobody writing the log takes the log's files
//! out of the core, writes everything that has gathered, puts them back and wakes the others: that
//! is group commit among threads. A checkpoint is taken in steps by those who commit.
//!
//! Order: a transaction's own state, then the latch, then the lock table; nobody waits for a lock
//! while holding the latch.

use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};

use crate::checkpoint::Effort;
use crate::core::Core;
use crate::error::{Error, Result};
use crate::locks::LockTable;
use crate::options::{Env, LockWait, Options, Stats};
use crate::position::Lsn;
use crate::transaction::{ReadTransaction, Transaction};

/// One transaction may change so many bytes as this part of the online log table: with the splits
/// that they cause, its records then fit the table.
const TRANSACTION_SHARE: usize = 4;
/// Group commit writes the log when its buffer is so full (section 5.1, Figure 7).
const GROUP_PERCENT: usize = 80;

/// What a commit waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// The transaction is durable when the commit returns; transactions of other threads that
    /// commit at the same time share a write of the log.
    Immediate,
    /// The paper's group commit: the log is written when its buffer is 80 % full, or at the first
    /// commit, [`PageStore::tick`] or [`PageStore::wait_durable`] after the delay has passed.
    /// Commit does not wait for that; [`PageStore::wait_durable`] does. A crash before loses the
    /// transaction whole, and all that were committed after it.
    Group,
    /// As `Group`, without the delay: only a full buffer writes the log.
    None,
}

pub(crate) struct Inner {
    core: Mutex<Core>,
    /// The log's files are back.
    log_written: Condvar,
    pub(crate) locks: Mutex<LockTable>,
    pub(crate) lock_released: Condvar,
    pub(crate) lock_wait: LockWait,
    clock: Arc<dyn env::Clock>,
    group_delay_us: u64,
    transaction_bytes_max: usize,
    _lock: Box<dyn env::Lock>,
}

/// An open store. A clone is another handle on it, for another thread.
#[derive(Clone)]
pub struct PageStore {
    pub(crate) inner: Arc<Inner>,
}

pub(crate) type Latched<'a> = MutexGuard<'a, Core>;

impl Inner {
    pub(crate) fn latch(&self) -> Latched<'_> {
        self.core.lock().expect("a broken invariant has ended a thread that held the latch")
    }

    /// Forgets a transaction. After a broken invariant there is nothing to forget it in; this may
    /// run while the panic unwinds, and must not begin another.
    pub(crate) fn forget(&self, transaction: u64) {
        if let Ok(mut core) = self.core.lock() {
            core.active.remove(&transaction);
        }
    }

    /// What the changes of one transaction may take.
    pub(crate) fn transaction_bytes_max(&self) -> usize {
        self.transaction_bytes_max
    }

    fn wait_for_log<'a>(&self, core: Latched<'a>) -> Latched<'a> {
        self.log_written.wait(core).expect("as for the latch")
    }

    /// Writes the log until the group at `lsn` is durable, or waits for who is doing so.
    pub(crate) fn flush_past<'a>(&'a self, mut core: Latched<'a>, lsn: Lsn) -> Result<Latched<'a>> {
        loop {
            core.healthy()?;
            if lsn < core.pool.durable_end {
                return Ok(core);
            }
            let Some(mut files) = core.files.take() else {
                core = self.wait_for_log(core);
                continue;
            };
            let flush = core.log.seal();
            core.group_since_us = None;
            drop(core);
            let written = files.write(&flush);
            core = self.latch();
            core.files = Some(files);
            self.log_written.notify_all();
            core.poison_by(written)?;
            core.note_flush(&flush);
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
    fn advance_checkpoint<'a>(
        &'a self,
        mut core: Latched<'a>,
        page_count: Option<usize>,
    ) -> Result<Latched<'a>> {
        if let Some(begin) = core.checkpoint.as_ref().map(|checkpoint| checkpoint.begin()) {
            core = self.flush_past(core, begin)?;
            let page_count = page_count.unwrap_or(core.options.checkpoint_step_pages).max(1);
            let mut is_done = core.step_checkpoint(page_count)?;
            while is_done && core.files.is_none() {
                core = self.wait_for_log(core);
                core.healthy()?;
                // Another thread may have ended it in the meantime, or begun a new one.
                is_done = core.checkpoint.as_ref().is_some_and(|c| c.begin() == begin);
            }
            if is_done {
                core.end_checkpoint()?;
            }
        }
        Ok(core)
    }

    /// Takes a whole checkpoint, after ending one that is being taken.
    fn whole_checkpoint<'a>(
        &'a self,
        mut core: Latched<'a>,
        effort: Effort,
    ) -> Result<Latched<'a>> {
        while core.checkpoint.is_some() {
            core = self.advance_checkpoint(core, None)?;
        }
        core.healthy()?;
        core.begin_checkpoint(effort);
        while core.checkpoint.is_some() {
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

    /// After a commit: makes it as durable as was asked for, and moves a checkpoint on.
    pub(crate) fn settle(&self, lsn: Lsn, durability: Durability) -> Result<()> {
        let mut core = self.latch();
        let share = core.log.len() * 100 / core.options.log_buffer_bytes.max(1);
        let is_full = share >= GROUP_PERCENT;
        match durability {
            Durability::Immediate => core = self.flush_past(core, lsn)?,
            Durability::Group if is_full || self.is_group_late(&mut core) => {
                core = self.flush_past(core, lsn)?;
            }
            Durability::None if is_full => core = self.flush_past(core, lsn)?,
            Durability::Group | Durability::None => {}
        }
        if core.checkpoint.is_none() && core.needs_checkpoint() {
            core.begin_checkpoint(Effort::Normal);
        }
        self.advance_checkpoint(core, None).map(drop)
    }

    /// Whether the oldest commit in the log buffer has waited long enough.
    fn is_group_late(&self, core: &mut Core) -> bool {
        let now_us = self.clock.monotonic_us();
        !core.log.is_empty()
            && now_us.saturating_sub(*core.group_since_us.get_or_insert(now_us))
                >= self.group_delay_us
    }
}

impl PageStore {
    /// Opens the store in `options.dir`, or makes one there. After a crash this reads the log
    /// since the redo starting point and no page: what was lost from memory is redone when it is
    /// first used.
    ///
    /// ```
    /// # fn main() -> pages::Result<()> {
    /// # let env = pages::Env {
    /// #     disk: std::sync::Arc::new(env_sim::SimDisk::new(1, env_sim::Faults::default())),
    /// #     clock: std::sync::Arc::new(env_sim::SimClock::new(0)),
    /// # };
    /// # use pages::{Durability, Options, PageStore};
    /// let store = PageStore::open(&env, Options::with_memory("/data", 128 << 20))?;
    /// assert!(matches!(
    ///     PageStore::open(&env, Options::new("/data")),
    ///     Err(pages::Error::InUse { .. })
    /// ));
    /// store.close()?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`Error::InUse`] if it is open elsewhere, [`Error::Corrupt`] if bytes that were durable are
    /// damaged.
    pub fn open(env: &Env, options: Options) -> Result<Self> {
        let dir = options.dir.clone();
        env.disk.create_dir_all(&dir).map_err(Error::io(&dir, "create"))?;
        let path: PathBuf = dir.join("pages.lock");
        let lock = env.disk.lock(&path).map_err(|error| match error.kind() {
            std::io::ErrorKind::WouldBlock => Error::InUse { path: path.clone() },
            _ => Error::io(&path, "lock")(error),
        })?;
        let (lock_wait, group_delay_us) =
            (options.lock_wait, u64::from(options.group_delay_ms) * 1000);
        let transaction_bytes_max = options.online_log_bytes / TRANSACTION_SHARE;
        let seed = (env.clock.now_ms().cast_unsigned() << 20) ^ env.clock.monotonic_us();
        let salt = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let core = crate::recovery::recover(env, options, salt)?;
        let inner = Inner {
            core: Mutex::new(core),
            log_written: Condvar::new(),
            locks: Mutex::new(LockTable::default()),
            lock_released: Condvar::new(),
            lock_wait,
            clock: Arc::clone(&env.clock),
            group_delay_us,
            transaction_bytes_max,
            _lock: lock,
        };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// Begins a transaction that may read and write, serializable with all others.
    ///
    /// ```
    /// # fn main() -> pages::Result<()> {
    /// # let env = pages::Env {
    /// #     disk: std::sync::Arc::new(env_sim::SimDisk::new(1, env_sim::Faults::default())),
    /// #     clock: std::sync::Arc::new(env_sim::SimClock::new(0)),
    /// # };
    /// # use pages::{Durability, Options, PageStore};
    /// # let store = PageStore::open(&env, Options::new("/data"))?;
    /// let transaction = store.begin()?;
    /// let colours = transaction.table("colours");
    /// colours.insert("sky", "blue")?;
    /// assert_eq!(colours.get("sky")?.as_deref(), Some(&b"blue"[..]));
    /// assert!(colours.remove("sky")?);
    /// colours.insert("grass", "green")?;
    /// transaction.commit(Durability::Immediate)?;
    ///
    /// let transaction = store.begin()?;
    /// transaction.table("colours").insert("grass", "grey")?;
    /// transaction.abort();
    /// let last = store.begin_read()?.table("colours").last()?;
    /// assert_eq!(last, Some((b"grass".to_vec(), b"green".to_vec())));
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`Error::Poisoned`].
    pub fn begin(&self) -> Result<Transaction> {
        Transaction::begin(&self.inner)
    }

    /// Begins a transaction that only reads.
    ///
    /// # Errors
    /// [`Error::Poisoned`].
    pub fn begin_read(&self) -> Result<ReadTransaction> {
        Transaction::begin(&self.inner).map(ReadTransaction::new)
    }

    /// Makes durable whatever is committed.
    ///
    /// # Errors
    /// [`Error::Io`] if it cannot be written, [`Error::Poisoned`] if that happened before.
    pub fn flush(&self) -> Result<()> {
        self.inner.flush_all(self.inner.latch()).map(drop)
    }

    /// Returns when the transaction whose commit returned `lsn` is durable.
    ///
    /// ```
    /// # fn main() -> pages::Result<()> {
    /// # let env = pages::Env {
    /// #     disk: std::sync::Arc::new(env_sim::SimDisk::new(1, env_sim::Faults::default())),
    /// #     clock: std::sync::Arc::new(env_sim::SimClock::new(0)),
    /// # };
    /// # use pages::{Durability, Options, PageStore};
    /// # let store = PageStore::open(&env, Options::new("/data"))?;
    /// let mut last = None;
    /// for day in 1..=31_u8 {
    ///     let transaction = store.begin()?;
    ///     transaction.table("diary").insert([day], "nothing happened")?;
    ///     last = Some(transaction.commit(Durability::Group)?);
    /// }
    /// if let Some(last) = last {
    ///     store.wait_durable(last)?; // one write of the log for all of them
    /// }
    /// assert_eq!(store.begin_read()?.table("diary").range([30_u8]..).count(), 2);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// As [`PageStore::flush`].
    pub fn wait_durable(&self, lsn: Lsn) -> Result<()> {
        self.inner.flush_past(self.inner.latch(), lsn).map(drop)
    }

    /// Writes the log if a group commit has waited for its delay: to be called from time to time
    /// by programs that use [`Durability::Group`] and do not always have something to commit.
    ///
    /// # Errors
    /// As [`PageStore::flush`].
    pub fn tick(&self) -> Result<()> {
        let mut core = self.inner.latch();
        if self.inner.is_group_late(&mut core) {
            core = self.inner.flush_all(core)?;
        }
        drop(core);
        Ok(())
    }

    /// Takes a checkpoint now, by the same rules as one that is taken when the online log table
    /// is full.
    ///
    /// # Errors
    /// As [`PageStore::flush`]; [`Error::Corrupt`] if a page cannot be read.
    pub fn checkpoint(&self) -> Result<()> {
        self.inner.whole_checkpoint(self.inner.latch(), Effort::Normal).map(drop)
    }

    /// Writes every page that is newer in memory, and takes a checkpoint.
    ///
    /// # Errors
    /// As [`PageStore::checkpoint`].
    pub fn checkpoint_all(&self) -> Result<()> {
        self.inner.whole_checkpoint(self.inner.latch(), Effort::All).map(drop)
    }

    /// What the store has done.
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.inner.latch().stats()
    }

    /// Walks every page and proves the invariants: trees in order and within the bounds that their
    /// parents say, every page in exactly one place, on-the-fly redo equal to what is in memory.
    ///
    /// # Errors
    /// [`Error::Corrupt`] with the first thing that is wrong.
    pub fn check(&self) -> Result<crate::check::Report> {
        let mut core = self.inner.latch();
        core.healthy()?;
        crate::check::check(&mut core)
    }

    /// Makes everything durable and takes a checkpoint without writing pages, so that the whole
    /// log is known to be there. A store that is merely dropped is recovered when it is opened,
    /// and has lost what was not durable.
    ///
    /// # Errors
    /// As [`PageStore::flush`].
    pub fn close(self) -> Result<()> {
        self.inner.whole_checkpoint(self.inner.latch(), Effort::None).map(drop)
    }
}
