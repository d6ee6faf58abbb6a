//! Positions: of pages in the data file, of groups in the log.

use std::fmt;

/// The number of a page, from 0, stable for its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PageId(pub u64);

impl PageId {
    /// The page that knows the number of pages and the free ones.
    pub(crate) const META: Self = Self(0);
    /// The root of the tree that maps the names of tables to their roots.
    pub(crate) const CATALOG: Self = Self(1);
    /// No store has more pages (1 EiB); a larger number in a file is damage.
    pub(crate) const END: Self = Self(1 << 47);
}

impl fmt::Display for PageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The offset in the log, over all of its segments, at which a group of records begins: the paper's
/// LSN. All records of a group share it. 0 is before everything.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct LogOffset(pub u64);

impl fmt::Display for LogOffset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
