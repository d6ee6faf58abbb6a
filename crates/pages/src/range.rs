//! Entries of a table in order, from both ends: a transaction's own changes merged with committed
//! content.
//!
//! ```text
//!   low ─► committed, locked and read ahead ─►  …  ◄─ committed, one at a time ◄─ high
//!          own changes laid over both
//! ```
//!
//! Returned entries cannot change until the transaction ends: each committed entry is locked with
//! the gap before it, as is the gap in which the range ends. Going up, the range reads ahead: one
//! entry, then two, four and so on, from one leaf under one hold of the latch. So a caller that
//! takes only the first entry locks no other, and a caller that takes many finds most of them
//! already read. Reading ahead stops at an entry locked by another transaction; the range waits for
//! it only when its turn comes.

use std::collections::VecDeque;
use std::ops::{Bound, RangeBounds};

use crate::error::Result;
use crate::locks::{LockName, Mode};
use crate::table::{LockNames, Table};
use crate::transaction::State;
use crate::tree::{Entry, slice};

/// Entries read ahead at a time, at most.
const AHEAD_MAX: usize = 64;

/// Entries of a table in order. An error ends it.
pub struct Range<'t> {
    table: &'t Table<'t>,
    low: Bound<Vec<u8>>,
    high: Bound<Vec<u8>>,
    /// Whether the gap at the upper end is locked.
    is_high_locked: bool,
    is_done: bool,
    /// The next committed entries from below.
    ahead: VecDeque<Entry>,
    /// The number of entries to read ahead next time.
    ahead_count: usize,
}

/// A key that another transaction has locked, itself or the gap before it; `None` for the end.
type Taken = Option<Vec<u8>>;

/// A change of the transaction: a key and its new value, or `None` if removed.
type Own = (Vec<u8>, Option<Vec<u8>>);

impl<'t> Range<'t> {
    pub(crate) fn new(table: &'t Table<'t>, low: Bound<Vec<u8>>, high: Bound<Vec<u8>>) -> Self {
        Self {
            table,
            low,
            high,
            is_high_locked: false,
            is_done: false,
            ahead: VecDeque::new(),
            ahead_count: 1,
        }
    }

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

    /// The lock needed where a key, or the end, was found. It covers the gap before it and, within
    /// the range, the key itself.
    fn lock_name<'k>(&self, names: LockNames, key: Option<&'k [u8]>) -> LockName<'k> {
        match key {
            Some(key) if self.has(key) => names.next_key(key),
            _ => names.gap(key),
        }
    }

    /// The transaction's own change nearest to the lower or upper end.
    fn own(&self, state: &State, from_above: bool) -> Option<Own> {
        let overlay = &state.tables[self.table.number].writes;
        if overlay.is_empty() {
            return None;
        }
        let mut range = overlay.range::<[u8], _>((slice(&self.low), slice(&self.high)));
        let entry = if from_above { range.next_back() } else { range.next() };
        entry.map(|(key, value)| (key.clone(), value.clone()))
    }

    /// Takes the lowest committed entry, locked with the gap before it.
    fn take_lowest(&mut self) -> Result<Option<Entry>> {
        while let Some(entry) = self.ahead.pop_front() {
            if self.has(&entry.0) {
                return Ok(Some(entry));
            }
        }
        let count = self.ahead_count;
        self.ahead_count = (count * 2).min(AHEAD_MAX);
        while let Some(taken) = self.read_ahead(count)? {
            self.wait_for(&taken)?;
        }
        Ok(self.ahead.pop_front())
    }

    /// Reads and locks at most `count` committed entries from the lower end on. Stops at the end of
    /// the leaf or the range, or at an entry locked by another transaction. Returns that entry's
    /// key if it comes first.
    fn read_ahead(&mut self, count: usize) -> Result<Option<Taken>> {
        let (table, transaction) = (self.table, self.table.transaction);
        let mut committed = table.committed(&table.state());
        let names = committed.names;
        let mut ahead = std::mem::take(&mut self.ahead);
        let mut taken = None;
        // What the latch shows stays true after its release only if it is locked by then.
        let mut lock = |key: Option<&[u8]>, is_waiting: bool| {
            let name = self.lock_name(names, key);
            let is_locked = match is_waiting {
                true => transaction.try_lock(name, Mode::Shared),
                false => transaction.lock_if_free(name, Mode::Shared),
            };
            if is_waiting && !is_locked {
                taken = Some(key.map(<[u8]>::to_vec));
            }
            is_locked && matches!(name, LockName::NextKey(..))
        };
        table.ask(&mut committed, |tree| {
            ahead.clear();
            let mut is_first = true;
            let mut see = |key: Option<&[u8]>| lock(key, std::mem::take(&mut is_first));
            match tree {
                Some((look, root)) => {
                    look.tree_entries(root, slice(&self.low), count, see, &mut ahead)
                }
                None => {
                    see(None);
                    Ok(())
                }
            }
        })?;
        self.ahead = ahead;
        Ok(taken)
    }

    fn wait_for(&self, taken: &Taken) -> Result<()> {
        let names = self.table.committed(&self.table.state()).names;
        self.table.transaction.lock(self.lock_name(names, taken.as_deref()), Mode::Shared)
    }

    /// Locks the gap at the upper end.
    fn lock_end(&self) -> Result<()> {
        let (table, transaction) = (self.table, self.table.transaction);
        let mut committed = table.committed(&table.state());
        let names = committed.names;
        let from = match &self.high {
            Bound::Included(key) => Some(Bound::Excluded(key.as_slice())),
            Bound::Excluded(key) => Some(Bound::Included(key.as_slice())),
            Bound::Unbounded => None,
        };
        let try_lock = |next: Option<&[u8]>| {
            let is_granted = transaction.try_lock(names.gap(next), Mode::Shared);
            (!is_granted).then(|| next.map(<[u8]>::to_vec))
        };
        loop {
            let taken = table.ask(&mut committed, |tree| match (tree, from) {
                (Some((look, root)), Some(from)) => look.tree_next(root, from, try_lock),
                _ => Ok(try_lock(None)),
            })?;
            let Some(taken) = taken else { return Ok(()) };
            self.wait_for(&taken)?;
        }
    }

    /// Takes the highest committed entry, locked with the gaps on both sides.
    fn take_highest(&mut self) -> Result<Option<Entry>> {
        if !self.is_high_locked {
            self.lock_end()?;
            self.is_high_locked = true;
        }
        let (table, transaction) = (self.table, self.table.transaction);
        let mut committed = table.committed(&table.state());
        let names = committed.names;
        loop {
            let (found, taken) = table.ask(&mut committed, |tree| {
                let found = match tree {
                    Some((look, root)) => look.tree_previous_entry(root, slice(&self.high))?,
                    None => None,
                };
                let inside = found.filter(|(key, _)| self.has(key));
                let taken = inside
                    .as_ref()
                    .filter(|(key, _)| !transaction.try_lock(names.next_key(key), Mode::Shared));
                let taken = taken.map(|(key, _)| Some(key.clone()));
                Ok((inside, taken))
            })?;
            let Some(taken) = taken else { return Ok(found) };
            self.wait_for(&taken)?;
        }
    }

    /// Takes a step. After an error there are no more, so that a caller that ignores errors still
    /// reaches the end.
    fn step_or_end(&mut self, from_above: bool) -> Option<Result<Entry>> {
        if self.is_done {
            return None;
        }
        let stepped = self.step(from_above);
        self.is_done |= stepped.is_err();
        stepped.transpose()
    }

    fn step(&mut self, from_above: bool) -> Result<Option<Entry>> {
        loop {
            let state = self.table.enter()?;
            if self.is_empty() {
                return Ok(None);
            }
            let own = self.own(&state, from_above);
            drop(state);
            let committed = if from_above { self.take_highest()? } else { self.take_lowest()? };
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
                if !from_above && let Some(entry) = committed {
                    self.ahead.push_front(entry);
                }
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
