//! Sets and sorted sets side by side, as sources of unions, intersections and differences.

use base::DbIndex;

use super::{ZSet, ZSetView};
use crate::collection::{ALL_SEEN, Collection, ValueRef};
use crate::keyspace::Keyspace;
use crate::set::{Set, SetView};
use crate::value_type::{Type, WrongType, entry_type};

/// The score that the members of a set without scores have.
const SET_SCORE: f64 = 1.0;

/// A set or a sorted set, read; a set's members have the score 1.
#[derive(Clone, Copy)]
pub enum ScoredView<'a> {
    /// A set.
    Set(SetView<'a>),
    /// A sorted set.
    ZSet(ZSetView<'a>),
}

impl<'a> ScoredView<'a> {
    /// How many members there are.
    #[must_use]
    pub fn len(self) -> usize {
        match self {
            Self::Set(set) => set.len(),
            Self::ZSet(set) => set.len(),
        }
    }

    /// Whether there are none, which no key ever has.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// The score of a member.
    #[must_use]
    pub fn score(self, member: &[u8]) -> Option<f64> {
        match self {
            Self::Set(set) => set.contains(member).then_some(SET_SCORE),
            Self::ZSet(set) => set.score(member),
        }
    }

    /// The members and their scores: a sorted set's in order, a set's in none.
    pub fn iter(self) -> impl Iterator<Item = (&'a [u8], f64)> {
        let (set, sorted) = match self {
            Self::Set(set) => (Some(set.iter()), None),
            Self::ZSet(set) => (None, Some(set.iter())),
        };
        let unscored = set.into_iter().flatten().map(|member| (member, SET_SCORE));
        unscored.chain(sorted.into_iter().flatten())
    }
}

impl Keyspace {
    /// Several sets and sorted sets at once, to be read together.
    ///
    /// # Errors
    /// [`WrongType`] when one of the keys holds something else.
    pub fn read_scored(
        &mut self,
        db: DbIndex,
        keys: &[&[u8]],
    ) -> Result<Vec<Option<ScoredView<'_>>>, WrongType> {
        // The first pass deletes what has expired and counts; nothing changes in the second.
        for key in keys {
            let found = self.lookup(db, key).map(entry_type);
            if !matches!(found, None | Some(Type::Set | Type::ZSet)) {
                return Err(WrongType);
            }
        }
        let hasher = self.hasher();
        let table = self.dbs[db].keys();
        let view = |key: &&[u8]| {
            let entry = table.find(hasher.hash(key), key)?;
            let value = ValueRef(entry.payload(), hasher, ALL_SEEN);
            Some(match entry_type(entry) {
                Type::Set => ScoredView::Set(Set::view(value)),
                _ => ScoredView::ZSet(ZSet::view(value)),
            })
        };
        Ok(keys.iter().map(view).collect())
    }
}
