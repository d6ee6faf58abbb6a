//! Transactions: what they have changed, what they have locked, how they end.
//!
//! ```text
//!   insert, remove ─► overlay: table → key → value or gone      (only this transaction sees it)
//!   get, range     ─► overlay over the committed trees
//!   commit         ─► overlay applied to the trees as one group of redo records
//!   abort          ─► overlay dropped
//! ```
//!
//! Strict two-phase locking ([`crate::locks`]). Locks are given back when the group is in the log
//! buffer, before it is durable: whoever reads it then commits behind it in the log, and a commit
//! that promises durability waits for everything before it, a reader's too.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use crate::core::{Change, Core};
use crate::error::{Error, Result};
use crate::latch::Inner;
use crate::locks::{LockName, Mode, Outcome};
use crate::options::{Durability, LockWait, Upkeep};
use crate::page::KEY_BYTES_MAX;
use crate::position::{Lsn, PageId};
use crate::table::{ReadTable, Table};

/// What an entry of an overlay costs beside its key and value.
const WRITE_OVERHEAD_BYTES: usize = 64;
/// How long a thread waits before it looks again whether it is in a circle.
const LOCK_WAIT: Duration = Duration::from_millis(20);

/// The changes of one table.
pub(crate) type Overlay = BTreeMap<Vec<u8>, Option<Vec<u8>>>;

#[derive(Default)]
pub(crate) struct State {
    pub(crate) writes: BTreeMap<Vec<u8>, Overlay>,
    bytes: usize,
    has_failed: bool,
}

/// A transaction that may read and write. Dropping it aborts it.
pub struct Transaction {
    inner: Arc<Inner>,
    id: u64,
    state: Mutex<State>,
}

/// A transaction that only reads. Dropping it ends it.
pub struct ReadTransaction {
    transaction: Transaction,
}

impl ReadTransaction {
    pub(crate) fn new(transaction: Transaction) -> Self {
        Self { transaction }
    }

    /// The table of this name; one that nobody has made yet is empty.
    #[must_use]
    pub fn table<'t>(&'t self, name: impl AsRef<[u8]>) -> ReadTable<'t> {
        ReadTable::new(Table::new(&self.transaction, name.as_ref()))
    }

    /// Ends the transaction. With [`Durability::Immediate`], everything that it has read is
    /// durable when this returns.
    ///
    /// # Errors
    /// As [`Transaction::commit`].
    pub fn commit(self, durability: Durability) -> Result<()> {
        self.transaction.commit(durability).map(drop)
    }
}

impl Transaction {
    pub(crate) fn begin(inner: &Arc<Inner>) -> Result<Self> {
        let mut core = inner.latch();
        core.healthy()?;
        let id = core.next_transaction;
        core.next_transaction += 1;
        core.active.insert(id);
        drop(core);
        Ok(Self { inner: Arc::clone(inner), id, state: Mutex::default() })
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("nothing panics while it holds the state of a transaction")
    }

    pub(crate) fn inner(&self) -> &Inner {
        &self.inner
    }

    /// The table of this name. It is made when something is first committed to it.
    #[must_use]
    pub fn table<'t>(&'t self, name: impl AsRef<[u8]>) -> Table<'t> {
        Table::new(self, name.as_ref())
    }

    pub(crate) fn usable(&self) -> Result<()> {
        if self.state().has_failed { Err(Error::TransactionFailed) } else { Ok(()) }
    }

    /// Takes a lock, as [`LockWait`] says.
    pub(crate) fn lock(&self, name: &LockName, mode: Mode) -> Result<()> {
        let mut locks = self.inner.locks.lock().expect("the lock table does not panic");
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

    /// Notes a change that is locked for.
    pub(crate) fn write(&self, table: &[u8], key: &[u8], value: Option<&[u8]>) -> Result<()> {
        let max = self.inner.transaction_bytes_max();
        let mut state = self.state();
        let overlay = state.writes.entry(table.to_vec()).or_default();
        let cost =
            |value: Option<&[u8]>| key.len() + value.map_or(0, <[u8]>::len) + WRITE_OVERHEAD_BYTES;
        let before = overlay.get(key).map_or(0, |old| cost(old.as_deref()));
        let bytes = state.bytes - before + cost(value);
        if bytes > max {
            return Err(Error::TransactionTooLarge { max });
        }
        state.bytes = bytes;
        let overlay = state.writes.get_mut(table).expect("it was just made");
        overlay.insert(key.to_vec(), value.map(<[u8]>::to_vec));
        Ok(())
    }

    /// Commits, and says where in the log: [`crate::PageStore::wait_durable`] takes that.
    ///
    /// # Errors
    /// [`Error::TransactionFailed`] after a deadlock: nothing has changed. [`Error::Corrupt`] or
    /// [`Error::Io`] from reading a page: nothing has changed. An error of writing or syncing
    /// poisons the store; whether the transaction is durable shows when it is opened again.
    pub fn commit(self, durability: Durability) -> Result<Lsn> {
        self.usable()?;
        let writes = std::mem::take(&mut self.state().writes);
        if writes.values().all(Overlay::is_empty) {
            let core = self.inner.latch();
            core.healthy()?;
            let lsn = Lsn(core.log.end().0 - 1);
            drop(core);
            self.release();
            return match durability {
                Durability::None => Ok(lsn),
                Durability::Group if self.inner.upkeep == Upkeep::Inline => Ok(lsn),
                Durability::Group | Durability::Immediate => {
                    self.inner.flush_past(self.inner.latch(), lsn).map(|_| lsn)
                }
            };
        }
        let mut core = self.inner.latch();
        core.healthy()?;
        core = self.inner.make_room(core)?;
        let mut change = core.begin_change(self.id);
        let made = self.apply(&mut core, &mut change, &writes);
        let lsn = core.end_change(change, made)?;
        core.pool.stats.commits += 1;
        core.active.remove(&self.id);
        drop(core);
        self.release();
        self.inner.settle(self.inner.latch(), lsn, durability)?;
        Ok(lsn)
    }

    fn apply(
        &self,
        core: &mut Core,
        change: &mut Change,
        writes: &BTreeMap<Vec<u8>, Overlay>,
    ) -> Result<()> {
        for (table, overlay) in writes.iter().filter(|(_, overlay)| !overlay.is_empty()) {
            let root = core.root_for_writing(change, table)?;
            let lock_table = self.inner.locks.lock().expect("it does not panic").table(table);
            for (key, value) in overlay {
                let was_there = core.tree_has(root, key)?;
                if was_there != value.is_some() {
                    self.pass_gap_on(core, root, lock_table, key, was_there)?;
                }
                match value {
                    Some(value) => core.tree_put(change, root, key, value)?,
                    None => core.tree_remove(change, root, key)?,
                }
            }
        }
        Ok(())
    }

    /// A key appears and divides a gap, or disappears and unites two: who may insert there.
    fn pass_gap_on(
        &self,
        core: &mut Core,
        root: PageId,
        table: u32,
        key: &[u8],
        is_united: bool,
    ) -> Result<()> {
        let next = core.tree_next(root, Bound::Excluded(key))?;
        let own = LockName { table, key: Some(key.to_vec()), is_gap: true };
        let next = LockName { table, key: next, is_gap: true };
        let mut locks = self.inner.locks.lock().expect("the lock table does not panic");
        if is_united {
            locks.inherit(&own, &next, self.id);
        } else {
            locks.inherit(&next, &own, self.id);
        }
        Ok(())
    }

    /// Forgets every change.
    pub fn abort(self) {
        drop(self);
    }

    fn release(&self) {
        if let Ok(mut locks) = self.inner.locks.lock() {
            locks.release(self.id);
        }
        self.inner.lock_released.notify_all();
    }

    /// Refuses keys that no page could hold.
    pub(crate) fn check_key(key: &[u8]) -> Result<()> {
        if key.len() > KEY_BYTES_MAX {
            return Err(Error::KeyTooLong { bytes: key.len(), max: KEY_BYTES_MAX });
        }
        Ok(())
    }
}

impl Drop for Transaction {
    fn drop(&mut self) {
        self.release();
        self.inner.forget(self.id);
    }
}
