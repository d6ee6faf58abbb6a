//! The number by which clients name a database.

use std::fmt;

/// The number of a database, as SELECT takes it.
///
/// It counts from 0, below the `databases` of the configuration. It names a place: SWAPDB and
/// FLUSHDB put another database there. Records name a database by its [`DbId`](crate::DbId), which
/// stays.
///
/// There is no conversion without a name. A number from outside becomes an index by
/// [`DbIndex::checked`], which knows how many there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[repr(transparent)]
pub struct DbIndex(usize);

impl DbIndex {
    /// The database in which every connection begins.
    pub const FIRST: Self = Self(0);

    /// Returns the index with this number, if it is one of `count` databases.
    #[must_use]
    pub const fn checked(number: usize, count: usize) -> Option<Self> {
        if number < count { Some(Self(number)) } else { None }
    }

    /// Returns the indexes of `count` databases, in order.
    pub fn all(count: usize) -> impl DoubleEndedIterator<Item = Self> + ExactSizeIterator {
        (0..count).map(Self)
    }

    /// The index after this one, which need not exist; for walks over all databases.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0 + 1)
    }

    /// The number.
    #[must_use]
    pub const fn get(self) -> usize {
        self.0
    }
}

impl fmt::Display for DbIndex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_databases_that_exist_have_an_index() {
        assert_eq!(DbIndex::checked(0, 0), None);
        assert_eq!(DbIndex::checked(15, 16).map(DbIndex::get), Some(15));
        assert_eq!(DbIndex::checked(16, 16), None);
        assert!(DbIndex::all(2).eq([DbIndex::FIRST, DbIndex::FIRST.next()]));
        assert_eq!(size_of::<DbIndex>(), size_of::<usize>());
    }
}
