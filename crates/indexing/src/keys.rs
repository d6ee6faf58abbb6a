//! How many keys each database has, as records tell it.
//!
//! ```text
//!   Exact ──── a deletion of what is not there ───► Unknown ◄── a log that was compacted before
//!     ▲                                              │          it was read
//!     └──── the pass has counted ──── Since ◄────────┘ a pass over the index begins at a cut
//! ```
//!
//! A record of a key says whether the key was there before, and a deletion is logged only of a key
//! that was. So counts are exact while every block is read as it was written. What a compaction has
//! left of a log does not tell: the first record of a key may be gone. Then a pass over the index
//! counts once, and what the blocks behind its cut say comes on top.

use std::collections::BTreeMap;

use base::DbId;
use logindex::Scopes;

/// See the file's top. Databases without keys are not in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Keys {
    /// So many.
    Exact(BTreeMap<DbId, u64>),
    /// What was read does not tell.
    Unknown,
    /// A pass counts; this is what has changed since its cut.
    Since(BTreeMap<DbId, i64>),
}

impl Keys {
    /// Notes a key that was not there before.
    pub(crate) fn note_new(&mut self, db: DbId) {
        match self {
            Self::Exact(counts) => *counts.entry(db).or_default() += 1,
            Self::Unknown => {}
            Self::Since(changes) => *changes.entry(db).or_default() += 1,
        }
    }

    /// Notes that a key is gone.
    pub(crate) fn note_deleted(&mut self, db: DbId) {
        match self {
            Self::Exact(counts) => match counts.get_mut(&db) {
                Some(count) if *count > 1 => *count -= 1,
                Some(_) => _ = counts.remove(&db),
                // Records that contradict each other are not believed: a pass counts again.
                None => *self = Self::Unknown,
            },
            Self::Unknown => {}
            Self::Since(changes) => *changes.entry(db).or_default() -= 1,
        }
    }

    /// Forgets databases that are dead.
    pub(crate) fn keep_alive(&mut self, scopes: &Scopes) {
        match self {
            Self::Exact(counts) => counts.retain(|db, _| scopes.is_alive(*db)),
            Self::Unknown => {}
            Self::Since(changes) => changes.retain(|db, _| scopes.is_alive(*db)),
        }
    }

    /// Takes what a pass has counted. REQUIRES: `counted` has no database that has died since.
    pub(crate) fn note_counted(&mut self, counted: impl Iterator<Item = (DbId, u64)>) {
        let Self::Since(changes) = std::mem::replace(self, Self::Unknown) else { return };
        let mut counts: BTreeMap<DbId, u64> = counted.collect();
        for (db, change) in changes {
            let count = counts.entry(db).or_default();
            let Some(sum) = count.checked_add_signed(change) else { return };
            *count = sum;
        }
        counts.retain(|_, count| *count > 0);
        *self = Self::Exact(counts);
    }

    /// The counts, unless they are not known.
    pub(crate) const fn exact(&self) -> Option<&BTreeMap<DbId, u64>> {
        match self {
            Self::Exact(counts) => Some(counts),
            Self::Unknown | Self::Since(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exact(counts: &[(u64, u64)]) -> Keys {
        Keys::Exact(counts.iter().map(|(db, count)| (DbId(*db), *count)).collect())
    }

    #[test]
    fn new_keys_and_deletions_are_counted() {
        let mut keys = exact(&[]);
        keys.note_new(DbId(1));
        keys.note_new(DbId(1));
        keys.note_new(DbId(3));
        keys.note_deleted(DbId(3));
        assert_eq!(keys, exact(&[(1, 2)]));
        keys.keep_alive(&Scopes::mapped(DbId(5), [DbId(3)]));
        assert_eq!(keys, exact(&[]));
        keys.note_deleted(DbId(1));
        assert_eq!(keys, Keys::Unknown, "a key that was not there cannot go");
    }

    #[test]
    fn what_has_changed_since_a_pass_began_comes_on_top() {
        let mut keys = Keys::Since(BTreeMap::new());
        keys.note_deleted(DbId(1));
        keys.note_new(DbId(2));
        keys.note_new(DbId(4));
        keys.keep_alive(&Scopes::mapped(DbId(9), [DbId(1), DbId(2)]));
        let mut other = keys.clone();
        keys.note_counted([(DbId(1), 1), (DbId(2), 7)].into_iter());
        assert_eq!(keys, exact(&[(2, 8)]));
        other.note_counted(std::iter::empty());
        assert_eq!(other, Keys::Unknown, "less than nothing");
    }
}
