//! What the indexer is given: entries in the order in which they were logged.

use std::ops::Index;
use std::sync::Arc;

use base::Lsn;

use crate::bits::width_of;
use crate::judge::Judge;
use crate::name::{Entry, Name, Scope};
use crate::sort_key::SortKey;

/// The entries that are allocated at once: 384 KiB. A push never copies what was pushed before, and
/// allocators give such pieces back and forth without asking the system.
const CHUNK_ENTRIES: usize = 8192;

/// Entries in the order of their pushes.
#[derive(Debug, Default)]
pub(crate) struct Chunks {
    /// All but the last are full.
    chunks: Vec<Vec<Entry>>,
    spread: Spread,
}

impl Chunks {
    #[inline]
    fn push(&mut self, entry: Entry) {
        self.spread.note(entry.name.scope);
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

    fn truncate(&mut self, len: usize) {
        self.chunks.truncate(len.div_ceil(CHUNK_ENTRIES));
        if let Some(last) = self.chunks.last_mut() {
            last.truncate((len - 1) % CHUNK_ENTRIES + 1);
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Entry> {
        self.chunks.iter().flatten()
    }

    /// Sorts the entries by name. `order` becomes the last one of each name, by its index.
    ///
    /// Hashes are uniform, so their first bits divide them into parts that are sorted in the
    /// processor's caches.
    pub(crate) fn sort(&self, order: &mut Vec<SortKey>) {
        let mut ends = [0; PARTS];
        for entry in self.iter() {
            ends[self.spread.part_of(entry.name)] += 1;
        }
        let mut sum = 0;
        for end in &mut ends {
            sum += std::mem::replace(end, sum);
        }
        // Each is where its part begins, and moves to its end.
        order.resize(self.len(), SortKey::END);
        for (entry, index) in self.iter().zip(0..) {
            let end = &mut ends[self.spread.part_of(entry.name)];
            order[*end] = SortKey::new(entry.name, index);
            *end += 1;
        }
        let mut rest = &mut order[..];
        let mut from = 0;
        for end in ends {
            let part = rest.split_off_mut(..end - from).expect("parts follow one another");
            // With the indexes an unstable sort is stable; entries themselves are longer.
            part.sort_unstable();
            from = end;
        }
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

/// The parts into which the names of a kind of scopes are divided, as a power of two.
const PARTS_LOG: u32 = 10;
/// For databases, and then for objects.
const PARTS: usize = 2 << PARTS_LOG;

/// Which scopes there are: the least and the largest of databases, and of objects.
#[derive(Debug)]
struct Spread([(u64, u64); 2]);

impl Default for Spread {
    fn default() -> Self {
        Self([(u64::MAX, 0); 2])
    }
}

impl Spread {
    #[inline]
    fn note(&mut self, scope: Scope) {
        let (min, max) = &mut self.0[usize::from(scope.is_object())];
        (*min, *max) = ((*min).min(scope.raw()), (*max).max(scope.raw()));
    }

    /// The part of a name whose scope was noted; it never descends while names ascend.
    #[inline]
    fn part_of(&self, name: Name) -> usize {
        let kind = usize::from(name.scope.is_object());
        let (min, max) = self.0[kind];
        let number = (u128::from(name.scope.raw() - min) << 64) | u128::from(name.hash.high());
        let bits = 64 + width_of(max - min);
        (kind << PARTS_LOG) | (number >> (bits - PARTS_LOG)) as usize
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
    pub fn new() -> Self {
        Self::default()
    }

    /// Notes what the newest record of a name says. Of several pushes of a name the last counts.
    #[inline]
    pub fn push(&mut self, entry: Entry) {
        self.entries.push(entry);
    }

    /// Takes back all but the first `len` pushes since the last cut.
    pub fn truncate(&mut self, len: usize) {
        self.entries.truncate(len);
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
    use base::{DbId, ObjectId};

    #[test]
    fn names_are_in_order_however_their_scopes_are_spread() {
        let mut random = fastrand::Rng::with_seed(3);
        let mut order = Vec::new();
        for scope_bits in [0, 1, 5, 40, 62] {
            let mut delta = Delta::new();
            for _ in 0..5000 {
                let id = random.u64(..) >> (64 - scope_bits.max(1)) << u32::from(scope_bits == 0);
                let scope = match random.bool() {
                    true => Scope::database(DbId(id)),
                    false => Scope::object(ObjectId(id)),
                };
                let hash = [Hash96::MIN, Hash96::MAX, Hash96::new(random.u64(..), 0)];
                let name = Name::new(scope, hash[random.usize(..3)]);
                delta.push(Entry { name, what: What::Gone });
            }
            delta.entries.sort(&mut order);
            let mut names: Vec<Name> = delta.entries.iter().map(|entry| entry.name).collect();
            names.sort();
            names.dedup();
            let sorted = order.iter().map(|key| delta.entries[key.number() as usize].name);
            assert!(sorted.eq(names));
        }
    }

    #[test]
    fn pushes_are_taken_back() {
        let entry = |n| {
            let name = Name::new(Scope::database(DbId(0)), Hash96::new(n, 0));
            Entry { name, what: What::Gone }
        };
        let full = CHUNK_ENTRIES as u64;
        for kept in [0, 1, full - 1, full, full + 1, 2 * full] {
            let mut delta = Delta::new();
            (0..2 * full).for_each(|n| delta.push(entry(n)));
            delta.truncate(kept.try_into().expect("few"));
            assert_eq!((delta.len() as u64, delta.is_empty()), (kept, kept == 0));
            delta.push(entry(kept));
            assert!(delta.entries.iter().copied().eq((0..=kept).map(entry)));
        }
    }

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
