//! A table as a transaction sees it: its own changes over committed content.

use std::ops::{Bound, RangeBounds};
use std::sync::MutexGuard;

use crate::error::Result;
use crate::locks::{LockName, Mode};
use crate::look::Look;
use crate::position::PageId;
use crate::range::Range;
use crate::transaction::{State, Transaction};
use crate::tree::Entry;

/// A table of a transaction.
pub struct Table<'t> {
    pub(crate) transaction: &'t Transaction,
    /// Its number in the transaction.
    pub(crate) number: usize,
}

/// What a transaction needs to lock in a table and to read its committed tree.
pub(crate) struct Committed {
    pub(crate) names: LockNames,
    root: Option<PageId>,
    /// The name, until the root is looked up; `None` as well if the table was deleted.
    name: Option<Vec<u8>>,
}

/// The lock names of a table.
#[derive(Clone, Copy)]
pub(crate) struct LockNames(u32);

impl LockNames {
    pub(crate) fn record(self, key: &[u8]) -> LockName<'_> {
        LockName::Record(self.0, key)
    }

    pub(crate) fn gap(self, before: Option<&[u8]>) -> LockName<'_> {
        LockName::Gap(self.0, before)
    }

    pub(crate) fn next_key(self, key: &[u8]) -> LockName<'_> {
        LockName::NextKey(self.0, key)
    }
}

/// A table of a read-only transaction.
pub struct ReadTable<'t> {
    table: Table<'t>,
}

impl<'t> ReadTable<'t> {
    pub(crate) fn new(table: Table<'t>) -> Self {
        Self { table }
    }

    /// As [`Table::get`].
    ///
    /// # Errors
    /// As [`Table::get`].
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
        self.table.get(key)
    }

    /// As [`Table::range`].
    pub fn range<K: AsRef<[u8]>>(&self, range: impl RangeBounds<K>) -> Range<'_> {
        self.table.range(range)
    }

    /// As [`Table::iter`].
    pub fn iter(&self) -> Range<'_> {
        self.table.iter()
    }

    /// As [`Table::first`].
    ///
    /// # Errors
    /// As [`Table::get`].
    pub fn first(&self) -> Result<Option<Entry>> {
        self.table.first()
    }

    /// As [`Table::last`].
    ///
    /// # Errors
    /// As [`Table::get`].
    pub fn last(&self) -> Result<Option<Entry>> {
        self.table.last()
    }

    /// As [`Table::is_empty`].
    ///
    /// # Errors
    /// As [`Table::get`].
    pub fn is_empty(&self) -> Result<bool> {
        self.table.is_empty()
    }

    /// As [`Table::len_estimate`].
    ///
    /// # Errors
    /// As [`Table::len_estimate`].
    pub fn len_estimate(&self) -> Result<u64> {
        self.table.len_estimate()
    }
}

impl<'t> Table<'t> {
    pub(crate) fn new(transaction: &'t Transaction, name: &[u8]) -> Self {
        Self { transaction, number: transaction.number_of(name) }
    }

    /// Locks the table and checks that the transaction is usable.
    pub(crate) fn enter(&self) -> Result<MutexGuard<'_, State>> {
        self.transaction.enter(self.number)
    }

    pub(crate) fn state(&self) -> MutexGuard<'t, State> {
        self.transaction.state()
    }

    pub(crate) fn committed(&self, state: &State) -> Committed {
        let table = &state.tables[self.number];
        let (root, is_deleted) = (table.root, table.is_deleted);
        let is_to_find = root.is_none() && !is_deleted;
        Committed {
            names: LockNames(table.lock_name),
            root: root.filter(|_| !is_deleted),
            name: is_to_find.then(|| table.name.clone()),
        }
    }

    /// Queries the committed tree; `ask` gets `None` if nothing was committed or the transaction
    /// deletes the table.
    pub(crate) fn ask<T>(
        &self,
        committed: &mut Committed,
        mut ask: impl FnMut(Option<(&mut Look<'_>, PageId)>) -> Result<T>,
    ) -> Result<T> {
        let mut is_found = false;
        let answer = self.transaction.ask(|look| {
            if let Some(name) = &committed.name {
                committed.root = look.root(name)?;
                is_found = committed.root.is_some();
            }
            ask(committed.root.map(|root| (look, root)))
        });
        if is_found {
            committed.name = None;
            self.transaction.state().tables[self.number].root = committed.root;
        }
        answer
    }

    /// Returns the value of `key`.
    ///
    /// # Errors
    /// [`crate::Error::Deadlock`] or [`crate::Error::Busy`] if it is locked,
    /// [`crate::FileError::Corrupt`] or [`crate::FileError::Io`] if a page cannot be read.
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
        self.get_locked(key.as_ref(), Mode::Shared)
    }

    /// Returns the value of `key` for writing it later. No other transaction can read it until this
    /// one ends. Two transactions that both got a value and then wrote it would deadlock.
    ///
    /// # Errors
    /// As [`Table::get`].
    pub fn get_for_update(&self, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
        self.get_locked(key.as_ref(), Mode::Exclusive)
    }

    fn get_locked(&self, key: &[u8], mode: Mode) -> Result<Option<Vec<u8>>> {
        Transaction::check_key(key)?;
        let state = self.enter()?;
        if let Some(value) = state.tables[self.number].writes.get(key) {
            return Ok(value.clone());
        }
        let mut committed = self.committed(&state);
        drop(state);
        self.transaction.lock(committed.names.record(key), mode)?;
        let value = self.ask(&mut committed, |tree| match tree {
            Some((look, root)) => look.tree_get(root, key),
            None => Ok(None),
        })?;
        if mode == Mode::Exclusive {
            self.transaction.state().note_found(self.number, key, value.is_some());
        }
        Ok(value)
    }

    /// Sets `key` to `value`, inserting or replacing.
    ///
    /// # Errors
    /// As [`Table::get`]; [`crate::Error::KeyTooLong`], [`crate::Error::TransactionTooLarge`].
    pub fn insert(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        let key = key.as_ref();
        Transaction::check_key(key)?;
        let mut state = self.enter()?;
        if !state.may_write(self.number, key) {
            let mut committed = self.committed(&state);
            drop(state);
            self.transaction.lock(committed.names.record(key), Mode::Exclusive)?;
            if !self.is_committed(&mut committed, key)? {
                self.lock_gap_after(&mut committed, key)?;
            }
            state = self.transaction.state();
        }
        self.write(state, key, Some(value.as_ref()))
    }

    /// Removes `key`. Returns whether it existed.
    ///
    /// # Errors
    /// As [`Table::insert`].
    pub fn remove(&self, key: impl AsRef<[u8]>) -> Result<bool> {
        let key = key.as_ref();
        Transaction::check_key(key)?;
        let mut committed = self.committed(&*self.enter()?);
        self.transaction.lock(committed.names.record(key), Mode::Exclusive)?;
        let is_committed = self.is_committed(&mut committed, key)?;
        if is_committed {
            self.transaction.lock(committed.names.gap(Some(key)), Mode::Insert)?;
            self.lock_gap_after(&mut committed, key)?;
        }
        let state = self.transaction.state();
        let own = state.tables[self.number].writes.get(key);
        let is_there = own.map_or(is_committed, Option::is_some);
        if is_there {
            self.write(state, key, None)?;
        }
        Ok(is_there)
    }

    fn write(
        &self,
        mut state: MutexGuard<'_, State>,
        key: &[u8],
        value: Option<&[u8]>,
    ) -> Result<()> {
        state.write(self.number, key, value, self.transaction.inner().transaction_bytes_max())
    }

    fn is_committed(&self, committed: &mut Committed, key: &[u8]) -> Result<bool> {
        self.ask(committed, |tree| match tree {
            Some((look, root)) => look.tree_has(root, key),
            None => Ok(false),
        })
    }

    /// Locks, for inserting, the gap that contains `key` or that its removal would merge.
    fn lock_gap_after(&self, committed: &mut Committed, key: &[u8]) -> Result<()> {
        let transaction = self.transaction;
        let names = committed.names;
        let try_lock = |next: Option<&[u8]>| {
            let is_granted = transaction.try_lock(names.gap(next), Mode::Insert);
            (!is_granted).then(|| next.map(<[u8]>::to_vec))
        };
        loop {
            // Under the latch, the next key cannot change.
            let taken = self.ask(committed, |tree| match tree {
                Some((look, root)) => look.tree_next(root, Bound::Excluded(key), try_lock),
                None => Ok(try_lock(None)),
            })?;
            let Some(next) = taken else { return Ok(()) };
            transaction.lock(committed.names.gap(next.as_deref()), Mode::Insert)?;
        }
    }

    /// Iterates over all entries with keys in `range`, in key order, from both ends.
    pub fn range<K: AsRef<[u8]>>(&self, range: impl RangeBounds<K>) -> Range<'_> {
        let own = |bound: Bound<&K>| bound.map(|key| key.as_ref().to_vec());
        Range::new(self, own(range.start_bound()), own(range.end_bound()))
    }

    /// Iterates over all entries, in key order, from both ends.
    pub fn iter(&self) -> Range<'_> {
        self.range::<&[u8]>(..)
    }

    /// The entry with the lowest key.
    ///
    /// # Errors
    /// As [`Table::get`].
    pub fn first(&self) -> Result<Option<Entry>> {
        self.iter().next().transpose()
    }

    /// The entry with the highest key.
    ///
    /// # Errors
    /// As [`Table::get`].
    pub fn last(&self) -> Result<Option<Entry>> {
        self.iter().next_back().transpose()
    }

    /// Whether the table is empty. That stays true until the transaction ends: the place of the
    /// first entry is locked.
    ///
    /// # Errors
    /// As [`Table::get`].
    pub fn is_empty(&self) -> Result<bool> {
        Ok(self.first()?.is_none())
    }

    /// Estimates the number of committed entries. The result is exact for a table of one page,
    /// otherwise from a few samples of the tree. It takes no lock, reads a few pages whatever the
    /// size of the table, and ignores changes of this transaction. To count exactly, count
    /// [`Table::iter`].
    ///
    /// # Errors
    /// [`crate::FileError::Corrupt`] or [`crate::FileError::Io`] if a page cannot be read.
    pub fn len_estimate(&self) -> Result<u64> {
        let mut committed = {
            let state = self.transaction.state();
            Transaction::check_name(&state.tables[self.number].name)?;
            self.committed(&state)
        };
        self.ask(&mut committed, |tree| match tree {
            Some((look, root)) => look.tree_len_estimate(root),
            None => Ok(0),
        })
    }
}
