//! A table as a transaction sees it: its own changes over what is committed.

use std::ops::{Bound, RangeBounds};

use crate::catalog::slice;
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
        let lock_table = transaction.inner().lock_table().table(name);
        Self { transaction, name: name.to_vec(), lock_table }
    }

    /// Asks the committed tree; there is none if nothing was committed, or the transaction
    /// deletes the table.
    fn committed<T>(
        &self,
        ask: impl FnOnce(Option<(&mut Core, PageId)>) -> Result<T>,
    ) -> Result<T> {
        let is_deleted = self.transaction.deletes(&self.name);
        let mut core = self.transaction.inner().latch();
        core.healthy()?;
        let root = if is_deleted { None } else { core.root(&self.name)? };
        ask(root.map(|root| (&mut *core, root)))
    }

    fn own(&self, key: &[u8]) -> Option<Option<Vec<u8>>> {
        self.transaction.state().writes.get(&self.name)?.get(key).cloned()
    }

    fn record<'k>(&self, key: &'k [u8]) -> LockName<'k> {
        LockName::Record(self.lock_table, key)
    }

    fn gap<'k>(&self, before: Option<&'k [u8]>) -> LockName<'k> {
        LockName::Gap(self.lock_table, before)
    }

    /// Locks two things for reading, without waiting; what of them is taken.
    fn try_lock_all(&self, names: [Option<LockName<'_>>; 2]) -> Taken {
        let try_lock = |name: Option<LockName<'_>>| {
            name.is_none_or(|name| self.transaction.try_lock(name, Mode::Shared))
        };
        let [first, second] = names;
        if !try_lock(first) {
            Taken::First
        } else if !try_lock(second) {
            Taken::Second
        } else {
            Taken::Nothing
        }
    }

    /// Makes sure that the table may be used at all.
    fn enter(&self) -> Result<()> {
        Transaction::check_name(&self.name)?;
        self.transaction.enter(self.lock_table)
    }

    /// The value of `key`.
    ///
    /// # Errors
    /// [`crate::Error::Deadlock`] or [`crate::Error::Busy`] if it is locked, [`crate::Error::Corrupt`] or
    /// [`crate::Error::Io`] if a page cannot be read.
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
        self.get_locked(key.as_ref(), Mode::Shared)
    }

    /// The value of `key`, which nobody else may read before this transaction has ended: for who
    /// is going to write it. Two that both get a value and then write it would wait for each other.
    ///
    /// # Errors
    /// As [`Table::get`].
    pub fn get_for_update(&self, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
        self.get_locked(key.as_ref(), Mode::Exclusive)
    }

    fn get_locked(&self, key: &[u8], mode: Mode) -> Result<Option<Vec<u8>>> {
        Transaction::check_key(key)?;
        self.enter()?;
        if let Some(value) = self.own(key) {
            return Ok(value);
        }
        self.transaction.lock(self.record(key), mode)?;
        self.committed(|tree| match tree {
            Some((core, root)) => core.tree_get(root, key),
            None => Ok(None),
        })
    }

    /// Sets `key` to `value`, whether it was there or not.
    ///
    /// # Errors
    /// As [`Table::get`]; [`crate::Error::KeyTooLong`], [`crate::Error::TransactionTooLarge`].
    pub fn insert(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        let key = key.as_ref();
        self.lock_for_writing(key)?;
        if !self.is_committed(key)? {
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
        let is_committed = self.is_committed(key)?;
        if is_committed {
            self.transaction.lock(self.gap(Some(key)), Mode::Insert)?;
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
        self.enter()?;
        self.transaction.lock(self.record(key), Mode::Exclusive)
    }

    fn is_committed(&self, key: &[u8]) -> Result<bool> {
        self.committed(|tree| match tree {
            Some((core, root)) => core.tree_has(root, key),
            None => Ok(false),
        })
    }

    /// Locks the gap that `key` is in, or would unite with, for inserting.
    fn lock_gap_after(&self, key: &[u8]) -> Result<()> {
        let transaction = self.transaction;
        let try_lock = |next: Option<&[u8]>| {
            let is_granted = transaction.try_lock(self.gap(next), Mode::Insert);
            (!is_granted).then(|| next.map(<[u8]>::to_vec))
        };
        loop {
            // Under the latch no other key becomes the next one.
            let taken = self.committed(|tree| match tree {
                Some((core, root)) => core.tree_next(root, Bound::Excluded(key), try_lock),
                None => Ok(try_lock(None)),
            })?;
            let Some(next) = taken else { return Ok(()) };
            transaction.lock(self.gap(next.as_deref()), Mode::Insert)?;
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
        Transaction::check_name(&self.name)?;
        self.committed(|tree| match tree {
            Some((core, root)) => core.tree_len_estimate(root),
            None => Ok(0),
        })
    }
}

/// What somebody else has locked.
enum Taken {
    Nothing,
    First,
    Second,
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

    /// The lowest committed entry, locked with the gap before it.
    fn lock_lowest(&self) -> Result<Option<Entry>> {
        let table = self.table;
        loop {
            let (found, taken) = table.committed(|tree| {
                let found = match tree {
                    Some((core, root)) => core.tree_next_entry(root, slice(&self.low))?,
                    None => None,
                };
                let key = found.as_ref().map(|(key, _)| key.as_slice());
                let inside = key.filter(|key| self.has(key));
                let taken =
                    table.try_lock_all([Some(table.gap(key)), inside.map(|key| table.record(key))]);
                Ok((found, taken))
            })?;
            // What was found is what is there as long as the latch is held: only if all was locked
            // by then is it still so.
            let key = found.as_ref().map(|(key, _)| key.as_slice());
            match taken {
                Taken::Nothing => return Ok(found.filter(|(key, _)| self.has(key))),
                Taken::First => table.transaction.lock(table.gap(key), Mode::Shared)?,
                Taken::Second => {
                    let key = key.expect("a record is locked only if it is there");
                    table.transaction.lock(table.record(key), Mode::Shared)?;
                }
            }
        }
    }

    /// Locks the gap that the upper end is in.
    fn lock_end(&self) -> Result<()> {
        let table = self.table;
        let from = match &self.high {
            Bound::Included(key) => Some(Bound::Excluded(key.as_slice())),
            Bound::Excluded(key) => Some(Bound::Included(key.as_slice())),
            Bound::Unbounded => None,
        };
        let try_lock = |next: Option<&[u8]>| {
            let is_granted = table.transaction.try_lock(table.gap(next), Mode::Shared);
            (!is_granted).then(|| next.map(<[u8]>::to_vec))
        };
        loop {
            let taken = table.committed(|tree| match (tree, from) {
                (Some((core, root)), Some(from)) => core.tree_next(root, from, try_lock),
                _ => Ok(try_lock(None)),
            })?;
            let Some(next) = taken else { return Ok(()) };
            table.transaction.lock(table.gap(next.as_deref()), Mode::Shared)?;
        }
    }

    /// The highest committed entry, locked with the gaps on both sides of it.
    fn lock_highest(&mut self) -> Result<Option<Entry>> {
        if !self.is_high_locked {
            self.lock_end()?;
            self.is_high_locked = true;
        }
        let table = self.table;
        loop {
            let (found, taken) = table.committed(|tree| {
                let found = match tree {
                    Some((core, root)) => core.tree_previous_entry(root, slice(&self.high))?,
                    None => None,
                };
                let inside = found.filter(|(key, _)| self.has(key));
                let key = inside.as_ref().map(|(key, _)| key.as_slice());
                let taken = table.try_lock_all([
                    key.map(|key| table.record(key)),
                    key.map(|key| table.gap(Some(key))),
                ]);
                Ok((inside, taken))
            })?;
            let name = match (&found, taken) {
                (_, Taken::Nothing) | (None, _) => return Ok(found),
                (Some((key, _)), Taken::First) => table.record(key),
                (Some((key, _)), Taken::Second) => table.gap(Some(key)),
            };
            table.transaction.lock(name, Mode::Shared)?;
        }
    }

    /// A step; there is none after an error, so that nobody counts errors for ever.
    fn step_or_end(&mut self, from_above: bool) -> Option<Result<Entry>> {
        if self.is_done {
            return None;
        }
        let stepped = self.step(from_above);
        self.is_done |= stepped.is_err();
        stepped.transpose()
    }

    fn step(&mut self, from_above: bool) -> Result<Option<Entry>> {
        self.table.enter()?;
        loop {
            if self.is_empty() {
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
                (Some((committed, _)), Some((own, _))) if from_above => own >= committed,
                (Some((committed, _)), Some((own, _))) => own <= committed,
            };
            let (key, value) = if is_own {
                own.expect("it was chosen")
            } else {
                let (key, value) = committed.expect("it was chosen");
                (key, Some(value))
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
