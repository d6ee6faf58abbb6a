//! What the indexer is given: entries in the order in which they were logged.

use std::ops::Index;
use std::sync::Arc;

use base::Lsn;

use crate::judge::Judge;
use crate::name::Entry;
use crate::sort_key::SortKey;

/// The entries that are allocated at once: 384 KiB. A push never copies what was pushed before, and
/// allocators give such pieces back and forth without asking the system.
const CHUNK_ENTRIES: usize = 8192;

/// Entries in the order of their pushes.
#[derive(Debug, Default)]
pub(crate) struct Chunks {
    /// All but the last are full.
    chunks: Vec<Vec<Entry>>,
}

impl Chunks {
    #[inline]
    fn push(&mut self, entry: Entry) {
        if let Some(last) = self.chunks.last_mut()
            && last.len() < CHUNK_ENTRIES
        {
            last.push(entry);
        } else {
            let mut chunk = Vec::with_capacity(CHUNK_ENTRIES);
            chunk.push(entry);
            self.chunks.push(chunk);
        }
    }

    pub(crate) fn len(&self) -> usize {
        let last = self.chunks.last().map_or(0, Vec::len);
        self.chunks.len().saturating_sub(1) * CHUNK_ENTRIES + last
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Entry> {
        self.chunks.iter().flatten()
    }

    /// Sorts the entries by name. `order` becomes the last one of each name, by its index.
    pub(crate) fn sort(&self, order: &mut Vec<SortKey>) {
        order.clear();
        order.extend(self.iter().zip(0..).map(|(entry, index)| SortKey::new(entry.name, index)));
        // With the indexes an unstable sort is stable; entries themselves are longer.
        order.sort_unstable();
        order.dedup_by(|later, earlier| {
            let is_same = later.has_name_of(*earlier);
            if is_same {
                *earlier = *later;
            }
            is_same
        });
    }
}

impl Index<usize> for Chunks {
    type Output = Entry;

    fn index(&self, index: usize) -> &Entry {
        &self.chunks[index / CHUNK_ENTRIES][index % CHUNK_ENTRIES]
    }
}

/// The entries logged since the last cut. Pushing one looks nothing up.
#[derive(Debug, Default)]
pub struct Delta {
    entries: Chunks,
}

impl Delta {
    /// Creates an empty delta.
    #[must_use]
    pub const fn new() -> Self {
        Self { entries: Chunks { chunks: Vec::new() } }
    }

    /// Notes what the newest record of a name says. Of several pushes of a name the last counts.
    #[inline]
    pub fn push(&mut self, entry: Entry) {
        self.entries.push(entry);
    }

    /// The number of pushes since the last cut.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether nothing was pushed since the last cut.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.entries.chunks.is_empty()
    }

    /// Ends the delta at a boundary between two blocks of the log, and begins the next one.
    ///
    /// REQUIRES: what was pushed since the last cut is exactly what the blocks after the last cut
    /// up to `lsn` say. `judge` is as of `lsn`, too: unless it is [`Judge::Relogging`], the root of
    /// each object that is ever needed again has been pushed by now. `state` is kept for the
    /// caller, as it is.
    ///
    /// # Panics
    /// If there were 2^32 pushes: 200 gigabytes.
    #[must_use]
    pub fn cut(&mut self, lsn: Lsn, state: Vec<u8>, judge: Judge) -> Batch {
        assert!(u32::try_from(self.len()).is_ok(), "a delta is cut before it has 2^32 entries");
        let entries = std::mem::take(&mut self.entries);
        Batch { entries: Arc::new(entries), cut: Cut { lsn, state, judge } }
    }
}

/// A point in the log up to which the index knows everything.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cut {
    /// The last block that the index knows.
    pub lsn: Lsn,
    /// What the caller has stored with the cut.
    pub state: Vec<u8>,
    /// Which scopes are dead as of the cut.
    pub judge: Judge,
}

/// A delta that has ended: the input of [`crate::Indexer::add`]. A clone is cheap.
#[derive(Debug, Clone)]
pub struct Batch {
    /// In the order of the pushes.
    pub(crate) entries: Arc<Chunks>,
    pub(crate) cut: Cut,
}

impl Batch {
    /// The cut that the batch ends at.
    #[must_use]
    pub const fn cut(&self) -> &Cut {
        &self.cut
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::Scopes;
    use crate::name::{Hash96, Name, Scope, What};
    use base::DbId;

    #[test]
    fn of_several_pushes_of_a_name_the_last_counts_whatever_lies_between() {
        let mut delta = Delta::new();
        assert!(delta.is_empty());
        let names = 3 * CHUNK_ENTRIES as u64 / 2;
        let name = |n: u64| Name::new(Scope::database(DbId(n % 3)), Hash96::new(n % names, 0));
        for n in 0..2 * names {
            delta.push(Entry { name: name(n), what: What::Gone });
        }
        assert_eq!(delta.len(), 3 * CHUNK_ENTRIES);
        let batch = delta.cut(Lsn(1), Vec::new(), Judge::Settled(Scopes::without_map()));
        assert!(delta.is_empty());
        let mut order = Vec::new();
        batch.entries.sort(&mut order);
        assert_eq!(order.len() as u64, names);
        let index = |key: &SortKey| usize::try_from(key.number()).expect("32 bits");
        let last: Vec<usize> = order.iter().map(index).collect();
        assert!(last.iter().all(|index| *index as u64 >= names));
        assert!(last.iter().map(|index| batch.entries[*index].name).is_sorted_by(|a, b| a < b));
    }
}
