//! A run in memory: a batch whose run is not written yet.
//!
//! ```text
//!   find(name) ─► newest: a table of the last entry of each name
//!   stream     ─► order: the same, sorted when it is first asked for
//! ```
//!
//! A start serves by it before it has written anything. Names are looked up at once, and in any
//! order: a table is made in a quarter of the time that sorting takes.

use std::sync::{Arc, OnceLock};

use base::Lsn;
use hashbrown::HashTable;

use crate::delta::{Batch, Chunks};
use crate::name::{Entry, Name};
use crate::sort_key::SortKey;

/// See the file's top.
pub(crate) struct Unwritten {
    entries: Arc<Chunks>,
    pub(crate) up_to: Lsn,
    /// The last entry of each name, by its index.
    newest: HashTable<u32>,
    order: OnceLock<Vec<SortKey>>,
}

impl Unwritten {
    pub(crate) fn new(batch: &Batch) -> Self {
        let entries = Arc::clone(&batch.entries);
        let mut newest: HashTable<u32> = HashTable::with_capacity(entries.len());
        for (entry, index) in entries.iter().zip(0u32..) {
            let is_same = |other: &u32| entries[*other as usize].name == entry.name;
            match newest.find_mut(hash_of(entry.name), is_same) {
                Some(before) => *before = index,
                None => {
                    let hash = |other: &u32| hash_of(entries[*other as usize].name);
                    newest.insert_unique(hash_of(entry.name), index, hash);
                }
            }
        }
        Self { entries, up_to: batch.cut.lsn, newest, order: OnceLock::new() }
    }

    /// The number of names.
    pub(crate) fn len(&self) -> usize {
        self.newest.len()
    }

    pub(crate) fn find(&self, name: Name) -> Option<Entry> {
        let is_it = |index: &u32| self.entries[*index as usize].name == name;
        self.newest.find(hash_of(name), is_it).map(|index| self.entries[*index as usize])
    }

    /// The entries between two names, both included.
    pub(crate) fn stream(self: &Arc<Self>, first: Name, last: Name) -> UnwrittenStream {
        let order = self.order();
        let at = order.partition_point(|key| key.is_before(SortKey::new(first, 0)));
        let end = order.partition_point(|key| !SortKey::new(last, u32::MAX).is_before(*key));
        UnwrittenStream { unwritten: Arc::clone(self), at, end }
    }

    fn order(&self) -> &[SortKey] {
        self.order.get_or_init(|| {
            let mut order = Vec::new();
            self.entries.sort(&mut order);
            order
        })
    }
}

impl std::fmt::Debug for Unwritten {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} names in memory, up to {}", self.len(), self.up_to)
    }
}

/// The entries of a batch between two names, in their order.
pub(crate) struct UnwrittenStream {
    unwritten: Arc<Unwritten>,
    at: usize,
    end: usize,
}

impl UnwrittenStream {
    pub(crate) fn head(&self) -> Option<&Entry> {
        let key = self.unwritten.order()[..self.end].get(self.at)?;
        Some(&self.unwritten.entries[key.number() as usize])
    }

    pub(crate) const fn advance(&mut self) {
        self.at += 1;
    }
}

/// Names are hashed already; elements of several objects may have the same hash.
fn hash_of(name: Name) -> u64 {
    let scope = name.scope.raw().wrapping_mul(0x9e37_79b9_7f4a_7c15);
    name.hash.high() ^ scope.rotate_left(32)
}
