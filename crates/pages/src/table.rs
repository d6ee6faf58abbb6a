//! A table as a transaction sees it: its own changes over what is committed.

use std::ops::{Bound, RangeBounds};

use crate::core::Core;
use crate::error::Result;
use crate::locks::{LockName, Mode};
use crate::position::PageId;
use crate::transaction::Transaction;
use crate::tree::Entry;

/// A table of a transaction.
pub struct Table<'t> {
    transaction: &'t Transaction,
    name: Vec<u8>,
    lock_table: u32,
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
        let mut locks = transaction.inner().locks.lock().expect("the lock table does not panic");
        let lock_table = locks.table(name);
        Self { transaction, name: name.to_vec(), lock_table }
    }

    fn record(&self, key: &[u8]) -> LockName {
        LockName { table: self.lock_table, key: Some(key.to_vec()), is_gap: false }
    }

    fn gap(&self, before: Option<&[u8]>) -> LockName {
        LockName { table: self.lock_table, key: before.map(<[u8]>::to_vec), is_gap: true }
    }

    /// Asks the committed tree, if there is one.
    fn committed<T>(
        &self,
        ask: impl FnOnce(&mut Core, PageId) -> Result<Option<T>>,
    ) -> Result<Option<T>> {
        let mut core = self.transaction.inner().latch();
        core.healthy()?;
        match core.root(&self.name)? {
            Some(root) => ask(&mut core, root),
            None => Ok(None),
        }
    }

    fn own(&self, key: &[u8]) -> Option<Option<Vec<u8>>> {
        self.transaction.state().writes.get(&self.name)?.get(key).cloned()
    }

    /// The value of `key`.
    ///
    /// # Errors
    /// [`crate::Error::Deadlock`] or [`crate::Error::Busy`] if it is locked, [`crate::Error::Corrupt`] or
    /// [`crate::Error::Io`] if a page cannot be read.
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
        let key = key.as_ref();
        Transaction::check_key(key)?;
        self.transaction.usable()?;
        if let Some(value) = self.own(key) {
            return Ok(value);
        }
        self.transaction.lock(&self.record(key), Mode::Shared)?;
        self.committed(|core, root| core.tree_get(root, key))
    }

    /// Sets `key` to `value`, whether it was there or not.
    ///
    /// # Errors
    /// As [`Table::get`]; [`crate::Error::KeyTooLong`], [`crate::Error::TransactionTooLarge`].
    pub fn insert(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        let key = key.as_ref();
        self.lock_for_writing(key)?;
        let is_there = self.committed(|core, root| core.tree_has(root, key).map(Some))?;
        if is_there != Some(true) {
            self.lock_gap_after(key)?;
        }
        self.transaction.write(&self.name, key, Some(value.as_ref()))
    }

    /// Removes `key`, and says whether it was there.
    ///
    /// # Errors
    /// As [`Table::insert`].
    pub fn remove(&self, key: impl AsRef<[u8]>) -> Result<bool> {
        let key = key.as_ref();
        self.lock_for_writing(key)?;
        let is_committed = self.committed(|core, root| core.tree_has(root, key).map(Some))?;
        let is_committed = is_committed == Some(true);
        if is_committed {
            self.transaction.lock(&self.gap(Some(key)), Mode::Insert)?;
            self.lock_gap_after(key)?;
        }
        let is_there = self.own(key).map_or(is_committed, |own| own.is_some());
        if is_there {
            self.transaction.write(&self.name, key, None)?;
        }
        Ok(is_there)
    }

    fn lock_for_writing(&self, key: &[u8]) -> Result<()> {
        Transaction::check_key(key)?;
        self.transaction.usable()?;
        self.transaction.lock(&self.record(key), Mode::Exclusive)
    }

    /// Locks the gap that `key` is in, or would unite with, for inserting.
    fn lock_gap_after(&self, key: &[u8]) -> Result<()> {
        loop {
            let next = |core: &mut Core, root| core.tree_next(root, Bound::Excluded(key));
            let found = self.committed(next)?;
            self.transaction.lock(&self.gap(found.as_deref()), Mode::Insert)?;
            // While it waited for the lock, another key may have become the next one.
            if self.committed(next)? == found {
                return Ok(());
            }
        }
    }

    /// All entries with keys in `range`, in the order of their keys; from both ends.
    pub fn range<K: AsRef<[u8]>>(&self, range: impl RangeBounds<K>) -> Range<'_> {
        let own = |bound: Bound<&K>| bound.map(|key| key.as_ref().to_vec());
        Range {
            table: self,
            low: own(range.start_bound()),
            high: own(range.end_bound()),
            is_high_locked: false,
            is_done: false,
        }
    }

    /// All entries, in the order of their keys; from both ends.
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

    /// Whether there is no entry. It stays so until the transaction ends: what would become the
    /// first entry is locked.
    ///
    /// # Errors
    /// As [`Table::get`].
    pub fn is_empty(&self) -> Result<bool> {
        Ok(self.first()?.is_none())
    }

    /// About how many entries are committed: exact for a table of one page, from a few samples of
    /// the tree otherwise. It locks nothing, reads a few pages however large the table is, and
    /// does not count what this transaction has changed. To count exactly, count
    /// [`Table::iter`].
    ///
    /// # Errors
    /// [`crate::Error::Corrupt`] or [`crate::Error::Io`] if a page cannot be read.
    pub fn len_estimate(&self) -> Result<u64> {
        Ok(self.committed(|core, root| core.tree_len_estimate(root).map(Some))?.unwrap_or(0))
    }
}

/// Entries of a table in order. An error is the last thing it gives.
pub struct Range<'t> {
    table: &'t Table<'t>,
    low: Bound<Vec<u8>>,
    high: Bound<Vec<u8>>,
    /// The gap that the upper end is in is locked.
    is_high_locked: bool,
    is_done: bool,
}

fn slice(bound: &Bound<Vec<u8>>) -> Bound<&[u8]> {
    bound.as_ref().map(Vec::as_slice)
}

impl Range<'_> {
    fn is_empty(&self) -> bool {
        match (&self.low, &self.high) {
            (Bound::Unbounded, _) | (_, Bound::Unbounded) => false,
            (Bound::Included(low), Bound::Included(high)) => low > high,
            (
                Bound::Included(low) | Bound::Excluded(low),
                Bound::Included(high) | Bound::Excluded(high),
            ) => low >= high,
        }
    }

    fn has(&self, key: &[u8]) -> bool {
        (slice(&self.low), slice(&self.high)).contains(key)
    }

    /// The transaction's own change nearest to the lower or upper end.
    fn own(&self, from_above: bool) -> Option<Own> {
        let state = self.table.transaction.state();
        let overlay = state.writes.get(&self.table.name)?;
        let mut range = overlay.range::<[u8], _>((slice(&self.low), slice(&self.high)));
        let entry = if from_above { range.next_back() } else { range.next() };
        entry.map(|(key, value)| (key.clone(), value.clone()))
    }

    /// The lowest committed key, locked with the gap before it.
    fn lock_lowest(&self) -> Result<Option<Vec<u8>>> {
        let table = self.table;
        loop {
            let next = |core: &mut Core, root| core.tree_next(root, slice(&self.low));
            let found = table.committed(next)?;
            table.transaction.lock(&table.gap(found.as_deref()), Mode::Shared)?;
            let inside = found.clone().filter(|key| self.has(key));
            if let Some(key) = &inside {
                table.transaction.lock(&table.record(key), Mode::Shared)?;
            }
            if table.committed(next)? == found {
                return Ok(inside);
            }
        }
    }

    /// The highest committed key, locked with the gaps on both sides of it.
    fn lock_highest(&mut self) -> Result<Option<Vec<u8>>> {
        let table = self.table;
        while !self.is_high_locked {
            let from = match &self.high {
                Bound::Included(key) => Some(Bound::Excluded(key.as_slice())),
                Bound::Excluded(key) => Some(Bound::Included(key.as_slice())),
                Bound::Unbounded => None,
            };
            let next = |core: &mut Core, root| match from {
                Some(from) => core.tree_next(root, from),
                None => Ok(None),
            };
            let found = table.committed(next)?;
            table.transaction.lock(&table.gap(found.as_deref()), Mode::Shared)?;
            self.is_high_locked = table.committed(next)? == found;
        }
        loop {
            let previous = |core: &mut Core, root| core.tree_previous(root, slice(&self.high));
            let found = table.committed(previous)?;
            let inside = found.clone().filter(|key| self.has(key));
            if let Some(key) = &inside {
                table.transaction.lock(&table.record(key), Mode::Shared)?;
                table.transaction.lock(&table.gap(Some(key)), Mode::Shared)?;
            }
            if table.committed(previous)? == found {
                return Ok(inside);
            }
        }
    }

    /// A step; there is none after an error, so that nobody counts errors for ever.
    fn step_or_end(&mut self, from_above: bool) -> Option<Result<Entry>> {
        let stepped = self.step(from_above);
        self.is_done |= stepped.is_err();
        stepped.transpose()
    }

    fn step(&mut self, from_above: bool) -> Result<Option<Entry>> {
        self.table.transaction.usable()?;
        loop {
            if self.is_done || self.is_empty() {
                return Ok(None);
            }
            let committed = if from_above { self.lock_highest()? } else { self.lock_lowest()? };
            let own = self.own(from_above);
            let is_own = match (&committed, &own) {
                (None, None) => {
                    self.is_done = true;
                    return Ok(None);
                }
                (Some(_), None) => false,
                (None, Some(_)) => true,
                (Some(committed), Some((own, _))) if from_above => own >= committed,
                (Some(committed), Some((own, _))) => own <= committed,
            };
            let (key, value) = if is_own {
                own.expect("it was chosen")
            } else {
                let key = committed.expect("it was chosen");
                let value = self.table.committed(|core, root| core.tree_get(root, &key))?;
                (key, value)
            };
            let passed = Bound::Excluded(key.clone());
            *(if from_above { &mut self.high } else { &mut self.low }) = passed;
            if let Some(value) = value {
                return Ok(Some((key, value)));
            }
        }
    }
}

/// A change of the transaction: a key, and its value or that it is gone.
type Own = (Vec<u8>, Option<Vec<u8>>);

impl Iterator for Range<'_> {
    type Item = Result<Entry>;

    fn next(&mut self) -> Option<Self::Item> {
        self.step_or_end(false)
    }
}

impl DoubleEndedIterator for Range<'_> {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.step_or_end(true)
    }
}
