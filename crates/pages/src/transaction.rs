//! Transactions: their changes, their locks, how they end.
//!
//! ```text
//!   insert, remove ─► overlay: table → key → value or gone      (only this transaction sees it)
//!   get, range     ─► overlay over the committed trees
//!   commit         ─► overlay applied to the trees as one group of redo records
//!   abort          ─► overlay dropped
//! ```
//!
//! Strict two-phase locking ([`crate::locks`]). Locks are released when the group is in the log
//! buffer, before it is durable. A transaction that reads it then commits behind it in the log, and
//! a commit that promises durability waits for everything before it, a read-only transaction's
//! commit too.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use crate::catalog::TABLE_NAME_BYTES_MAX;
use crate::core::{Change, Core};
use crate::error::{Error, Result};
use crate::latch::Inner;
use crate::locks::{LockName, Mode, Outcome};
use crate::look::{LastFrame, Look};
use crate::options::{Durability, LockWait, Upkeep};
use crate::page::KEY_BYTES_MAX;
use crate::position::{LogOffset, PageId};
use crate::table::{ReadTable, Table};

/// The cost of an overlay entry in addition to its key and value.
const WRITE_OVERHEAD_BYTES: usize = 64;
/// The time after which a waiting thread searches for a deadlock again.
const LOCK_WAIT: Duration = Duration::from_millis(20);

/// The changes of one table.
pub(crate) type Overlay = BTreeMap<Vec<u8>, Option<Vec<u8>>>;

/// A table that a transaction has used.
pub(crate) struct UsedTable {
    pub(crate) name: Vec<u8>,
    /// Its number in the lock table.
    pub(crate) lock_name: u32,
    /// Whether the lock of the table is held, so that no other transaction deletes it.
    is_entered: bool,
    /// Whether its committed content is deleted, before the other changes.
    pub(crate) is_deleted: bool,
    /// Its root, once found; it cannot move while the table is locked.
    pub(crate) root: Option<PageId>,
    pub(crate) writes: Overlay,
}

/// A key last read for writing, and whether it is committed. Valid while it is locked, which is
/// until the end.
#[derive(Default)]
pub(crate) struct FoundKey {
    table: usize,
    key: Vec<u8>,
    is_committed: bool,
    is_known: bool,
}

#[derive(Default)]
pub(crate) struct State {
    /// Few, so that a linear search for a name is enough.
    pub(crate) tables: Vec<UsedTable>,
    found: FoundKey,
    bytes: usize,
    has_failed: bool,
    /// Whether it has committed and released everything.
    is_over: bool,
}

impl State {
    /// Notes the result of a read for writing.
    pub(crate) fn note_found(&mut self, table: usize, key: &[u8], is_committed: bool) {
        self.found.key.clear();
        self.found.key.extend_from_slice(key);
        (self.found.table, self.found.is_committed) = (table, is_committed);
        self.found.is_known = true;
    }

    /// Whether all locks needed to write this key are held. They are if it was written before, or
    /// was read for writing and exists.
    pub(crate) fn may_write(&self, table: usize, key: &[u8]) -> bool {
        let found = &self.found;
        (found.is_known && found.is_committed && found.table == table && found.key == key)
            || self.tables[table].writes.contains_key(key)
    }

    /// Notes a change whose locks are held. `max` is the limit of all changes.
    pub(crate) fn write(
        &mut self,
        table: usize,
        key: &[u8],
        value: Option<&[u8]>,
        max: usize,
    ) -> Result<()> {
        let overlay = &mut self.tables[table].writes;
        let cost_now = cost(key, value);
        match overlay.get_mut(key) {
            Some(old) => {
                let bytes = self.bytes - cost(key, old.as_deref()) + cost_now;
                if bytes > max {
                    return Err(Error::TransactionTooLarge { max });
                }
                self.bytes = bytes;
                *old = value.map(<[u8]>::to_vec);
            }
            None if self.bytes + cost_now > max => return Err(Error::TransactionTooLarge { max }),
            None => {
                self.bytes += cost_now;
                overlay.insert(key.to_vec(), value.map(<[u8]>::to_vec));
            }
        }
        Ok(())
    }
}

fn cost(key: &[u8], value: Option<&[u8]>) -> usize {
    key.len() + value.map_or(0, <[u8]>::len) + WRITE_OVERHEAD_BYTES
}

/// A transaction that may read and write. Dropping it aborts it.
pub struct Transaction {
    inner: Arc<Inner>,
    id: u64,
    state: Mutex<State>,
    last: LastFrame,
}

/// A transaction that only reads. Dropping it ends it.
pub struct ReadTransaction {
    transaction: Transaction,
}

impl ReadTransaction {
    pub(crate) fn new(transaction: Transaction) -> Self {
        Self { transaction }
    }

    /// Returns the table of this name; a table that was never created is empty.
    #[must_use]
    pub fn table<'t>(&'t self, name: impl AsRef<[u8]>) -> ReadTable<'t> {
        ReadTable::new(Table::new(&self.transaction, name.as_ref()))
    }

    /// Ends the transaction. With [`Durability::Immediate`], everything it has read is durable on
    /// return.
    ///
    /// # Errors
    /// As [`Transaction::commit`].
    pub fn commit(self, durability: Durability) -> Result<()> {
        self.transaction.commit(durability).map(drop)
    }
}

impl Transaction {
    pub(crate) fn begin(inner: &Arc<Inner>) -> Result<Self> {
        inner.log.healthy()?;
        let id = inner.log.begin();
        let (state, last) = (Mutex::default(), LastFrame::default());
        Ok(Self { inner: Arc::clone(inner), id, state, last })
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("nothing panics while it holds the state of a transaction")
    }

    pub(crate) fn inner(&self) -> &Inner {
        &self.inner
    }

    /// As [`Inner::ask`].
    pub(crate) fn ask<T>(&self, ask: impl FnMut(&mut Look<'_>) -> Result<T>) -> Result<T> {
        self.inner.ask(&self.last, ask)
    }

    /// Returns the table of this name. It is created by the first commit to it.
    #[must_use]
    pub fn table<'t>(&'t self, name: impl AsRef<[u8]>) -> Table<'t> {
        Table::new(self, name.as_ref())
    }

    pub(crate) fn usable(&self) -> Result<()> {
        if self.state().has_failed { Err(Error::TransactionFailed) } else { Ok(()) }
    }

    /// The number of a table in [`State::tables`].
    pub(crate) fn number_of(&self, name: &[u8]) -> usize {
        let mut state = self.state();
        if let Some(number) = state.tables.iter().position(|table| table.name == name) {
            return number;
        }
        state.tables.push(UsedTable {
            name: name.to_vec(),
            lock_name: self.inner.lock_table().table(name),
            is_entered: false,
            is_deleted: false,
            root: None,
            writes: Overlay::new(),
        });
        state.tables.len() - 1
    }

    /// Checks that the transaction is usable, and locks the table against deletion until it ends.
    pub(crate) fn enter(&self, table: usize) -> Result<MutexGuard<'_, State>> {
        let mut state = self.state();
        if !state.has_failed && !state.tables[table].is_entered {
            Self::check_name(&state.tables[table].name)?;
            let name = LockName::Table(state.tables[table].lock_name);
            drop(state);
            self.lock(name, Mode::Shared)?;
            state = self.state();
            state.tables[table].is_entered = true;
        }
        if state.has_failed { Err(Error::TransactionFailed) } else { Ok(state) }
    }

    /// Deletes a table with all its contents. Returns whether it existed. The pages are freed
    /// gradually after the commit, so that this is fast and takes little memory whatever the size
    /// of the table. Waits for every transaction that uses the table.
    ///
    /// ```
    /// # fn main() -> pages::Result<()> {
    /// # let dir = tempfile::tempdir().expect("a directory");
    /// # use pages::{Durability, Options, PageStore};
    /// # let store = PageStore::open_path(dir.path(), Options::default())?;
    /// let transaction = store.begin()?;
    /// transaction.table("old").insert("key", "value")?;
    /// transaction.commit(Durability::Immediate)?;
    ///
    /// let transaction = store.begin()?;
    /// assert!(transaction.delete_table("old")?);
    /// assert!(!transaction.delete_table("never made")?);
    /// transaction.commit(Durability::Immediate)?;
    /// assert!(store.list_tables()?.is_empty());
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// As [`Table::get`].
    pub fn delete_table(&self, name: impl AsRef<[u8]>) -> Result<bool> {
        let name = name.as_ref();
        Self::check_name(name)?;
        self.usable()?;
        let number = self.number_of(name);
        let lock_name = self.state().tables[number].lock_name;
        self.lock(LockName::Table(lock_name), Mode::Exclusive)?;
        let is_committed = self.ask(|look| look.root(name))?.is_some();
        let mut state = self.state();
        state.found.is_known = false;
        let table = &mut state.tables[number];
        let overlay = std::mem::take(&mut table.writes);
        let is_there = is_committed && !table.is_deleted;
        table.is_deleted |= is_committed;
        state.bytes -= overlay.iter().map(|(k, v)| cost(k, v.as_deref())).sum::<usize>();
        Ok(is_there || overlay.values().any(Option::is_some))
    }

    /// Requests a lock without waiting, for a caller that holds the latch. Unless it is granted,
    /// the caller must release the latch and call [`Transaction::lock`].
    pub(crate) fn try_lock(&self, name: LockName<'_>, mode: Mode) -> bool {
        self.inner.lock_table().request(self.id, name, mode) == Outcome::Granted
    }

    /// As [`Transaction::try_lock`], but does not stay in the queue if it is not granted.
    pub(crate) fn lock_if_free(&self, name: LockName<'_>, mode: Mode) -> bool {
        self.inner.lock_table().take_if_free(self.id, name, mode)
    }

    /// Takes a lock, waiting as [`LockWait`] says.
    pub(crate) fn lock(&self, name: LockName<'_>, mode: Mode) -> Result<()> {
        let mut locks = self.inner.lock_table();
        loop {
            match locks.request(self.id, name, mode) {
                Outcome::Granted => return Ok(()),
                Outcome::Deadlock => {
                    locks.release(self.id);
                    drop(locks);
                    self.inner.lock_released.notify_all();
                    self.state().has_failed = true;
                    self.inner.latch().pool.stats.deadlocks += 1;
                    return Err(Error::Deadlock);
                }
                Outcome::Waiting if self.inner.lock_wait == LockWait::Refuse => {
                    return Err(Error::Busy);
                }
                Outcome::Waiting => {
                    let wait = self.inner.lock_released.wait_timeout(locks, LOCK_WAIT);
                    locks = wait.expect("the lock table does not panic").0;
                }
            }
        }
    }

    /// Commits, and returns the position in the log for [`crate::PageStore::wait_durable`].
    ///
    /// # Errors
    /// [`Error::TransactionFailed`] after a deadlock; nothing has changed.
    /// [`crate::FileError::Corrupt`] or [`crate::FileError::Io`] from reading a page; nothing has
    /// changed. A write or sync error poisons the store; reopening it shows whether the transaction
    /// is durable.
    pub fn commit(self, durability: Durability) -> Result<LogOffset> {
        self.usable()?;
        let tables = std::mem::take(&mut self.state().tables);
        if tables.iter().all(|table| !table.is_deleted && table.writes.is_empty()) {
            return self.commit_reads(durability);
        }
        let mut core = self.inner.latch_with_room()?;
        let mut change = core.begin_change(self.id);
        let made = self.apply(&mut core, &mut change, &tables);
        let offset = core.end_change(change, made)?;
        core.pool.stats.commits += 1;
        let is_upkeep_due = core.is_upkeep_due();
        drop(core);
        self.release();
        self.state().is_over = true;
        self.inner.settle(self.id, offset, durability, is_upkeep_due)?;
        Ok(offset)
    }

    fn commit_reads(&self, durability: Durability) -> Result<LogOffset> {
        self.inner.log.healthy()?;
        let mut log = self.inner.log.lock();
        self.inner.log.end_in(&mut log, self.id);
        let offset = LogOffset(log.buffer.end().0 - 1);
        drop(log);
        self.release();
        self.state().is_over = true;
        match durability {
            Durability::None => Ok(offset),
            Durability::Group if self.inner.upkeep == Upkeep::Inline => Ok(offset),
            Durability::Group | Durability::Immediate => {
                self.inner.flush_past(offset).map(|()| offset)
            }
        }
    }

    fn apply(&self, core: &mut Core, change: &mut Change, tables: &[UsedTable]) -> Result<()> {
        for table in tables.iter().filter(|table| table.is_deleted) {
            core.delete_table(change, &table.name)?;
        }
        // A transaction without rights in these gaps yet searches again, after this commit, for the
        // gap that it needs.
        let is_gap_shared = self.inner.lock_table().shares_a_gap(self.id);
        for table in tables.iter().filter(|table| !table.writes.is_empty()) {
            let root = core.root_for_writing(change, &table.name)?;
            for (key, value) in &table.writes {
                let was_there = match value {
                    Some(value) => core.tree_put(change, root, key, value)?,
                    None => core.tree_remove(change, root, key)?,
                };
                if was_there != value.is_some() && is_gap_shared {
                    self.pass_gap_on(core, root, table.lock_name, key, was_there)?;
                }
            }
        }
        Ok(())
    }

    /// Passes insert rights on after a key has split a gap or its removal has merged two. The
    /// caller holds the latch, so no transaction sees the key without the rights.
    fn pass_gap_on(
        &self,
        core: &mut Core,
        root: PageId,
        table: u32,
        key: &[u8],
        is_united: bool,
    ) -> Result<()> {
        core.look().tree_next(root, Bound::Excluded(key), |next| {
            let (own, next) = (LockName::Gap(table, Some(key)), LockName::Gap(table, next));
            let (from, to) = if is_united { (own, next) } else { (next, own) };
            self.inner.lock_table().inherit(from, to, self.id);
        })
    }

    /// Drops all changes.
    pub fn abort(self) {
        drop(self);
    }

    fn release(&self) {
        let Ok(mut locks) = self.inner.locks.lock() else { return };
        let is_news = locks.release(self.id);
        drop(locks);
        if is_news {
            self.inner.lock_released.notify_all();
        }
    }

    /// Rejects table names that do not fit the catalog.
    pub(crate) fn check_name(name: &[u8]) -> Result<()> {
        if name.len() > TABLE_NAME_BYTES_MAX {
            return Err(Error::NameTooLong { bytes: name.len(), max: TABLE_NAME_BYTES_MAX });
        }
        Ok(())
    }

    /// Rejects keys that do not fit a page.
    pub(crate) fn check_key(key: &[u8]) -> Result<()> {
        if key.len() > KEY_BYTES_MAX {
            return Err(Error::KeyTooLong { bytes: key.len(), max: KEY_BYTES_MAX });
        }
        Ok(())
    }
}

impl Drop for Transaction {
    fn drop(&mut self) {
        self.inner.page_hits.fetch_add(self.last.hits(), Ordering::Relaxed);
        if !self.state.get_mut().is_ok_and(|state| state.is_over) {
            self.release();
            self.inner.log.end(self.id);
        }
    }
}
