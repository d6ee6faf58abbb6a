//! How much of the log lies behind its index's cut.
//!
//! ```text
//!   log   ──────────── installed cut ─────────────────────────────► end
//!                                    ◄──────────── lag ───────────►
//!   half of the limit: a cut is asked for        the limit: writers wait until one is installed
//! ```
//!
//! A start by the index reads what is behind the cut before its first reply, 0.2 µs and 70 bytes of memory a
//! record. An index that is starved, or whose device is slow, would let that grow without bound; so clients
//! that write are held back, as they are when compaction does not keep up. An index that no start would
//! believe bounds nothing: while it is built, or the log is written anew for a living keyspace, writers do
//! not wait.

use std::collections::VecDeque;

use base::Lsn;

use crate::shared::index_bound::IndexBound;

/// The lag is counted in steps of the limit's so manieth part.
const STEPS: u64 = 1024;

/// See the file's top.
pub(crate) struct IndexLag {
    limit_bytes: u64,
    /// The last block of the lives before.
    start: Lsn,
    /// What was logged in this life.
    logged_bytes: u64,
    /// How much that was, up to these blocks, which are not indexed.
    marks: VecDeque<(Lsn, u64)>,
    /// Of what was logged in this life this much is indexed, or a little more.
    indexed_bytes: u64,
    /// Of the lives before this much is not indexed.
    before_bytes: u64,
    is_over: bool,
}

impl IndexLag {
    /// Of a log that ends with block `start`; writers wait when it is more than `limit_bytes`.
    pub(crate) const fn new(start: Lsn, limit_bytes: u64) -> Self {
        Self {
            limit_bytes,
            start,
            logged_bytes: 0,
            marks: VecDeque::new(),
            indexed_bytes: 0,
            before_bytes: 0,
            is_over: false,
        }
    }

    /// A block was logged.
    pub(crate) fn note_block(&mut self, lsn: Lsn, bytes: u64) {
        self.logged_bytes += bytes;
        let marked_bytes = self.marks.back().map_or(self.indexed_bytes, |(_, bytes)| *bytes);
        if self.logged_bytes - marked_bytes >= (self.limit_bytes / STEPS).max(1) {
            self.marks.push_back((lsn, self.logged_bytes));
        }
    }

    /// Looks how far the index is; `last` is the last block that was logged.
    pub(crate) fn follow(&mut self, bound: &IndexBound, last: Lsn) {
        let Some(installed) = bound.installed() else {
            self.marks.clear();
            (self.indexed_bytes, self.before_bytes) = (self.logged_bytes, 0);
            self.is_over = false;
            return;
        };
        if installed >= last {
            self.marks.clear();
            self.indexed_bytes = self.logged_bytes;
        }
        while let Some((_, bytes)) = self.marks.pop_front_if(|(lsn, _)| *lsn <= installed) {
            self.indexed_bytes = bytes;
        }
        self.before_bytes = if installed < self.start { bound.before_bytes() } else { 0 };
        let is_bounded = bound.is_believed();
        if is_bounded && self.bytes() > self.limit_bytes / 2 && bound.wanted() <= installed {
            bound.allows_or_wants(last);
        }
        self.is_over = is_bounded && self.bytes() > self.limit_bytes;
    }

    /// About how much is behind the cut; at most a little more than there is.
    pub(crate) const fn bytes(&self) -> u64 {
        self.before_bytes + self.logged_bytes - self.indexed_bytes
    }

    /// Whether that is more than a start should have to read.
    pub(crate) const fn is_over(&self) -> bool {
        self.is_over
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ten blocks of 100 bytes are logged, and the index is at `installed`.
    fn lag(bound: &IndexBound, limit_bytes: u64) -> IndexLag {
        let mut lag = IndexLag::new(Lsn(5), limit_bytes);
        (6..=15).for_each(|lsn| lag.note_block(Lsn(lsn), 100));
        lag.follow(bound, Lsn(15));
        lag
    }

    #[test]
    fn writers_wait_for_an_index_that_lags_and_for_none_that_is_of_no_use() {
        let bound = IndexBound::default();
        assert!(!lag(&bound, 500).is_over(), "there is none");
        assert_eq!(lag(&bound, 500).bytes(), 0);
        bound.set(Lsn(5));
        assert!(!lag(&bound, 500).is_over(), "no start would believe it");
        assert_eq!(bound.wanted(), Lsn::ZERO);
        bound.set_believed(true);
        let mut lag = lag(&bound, 500);
        assert_eq!((lag.bytes(), lag.is_over()), (1000, true));
        bound.set(Lsn(9));
        lag.follow(&bound, Lsn(15));
        assert_eq!((lag.bytes(), lag.is_over()), (600, true));
        bound.set(Lsn(10));
        lag.follow(&bound, Lsn(15));
        assert_eq!((lag.bytes(), lag.is_over()), (500, false));
        bound.set(Lsn(15));
        lag.follow(&bound, Lsn(15));
        assert_eq!((lag.bytes(), lag.is_over()), (0, false));
    }

    #[test]
    fn a_cut_is_wanted_before_anyone_waits_and_again_when_it_is_there() {
        let bound = IndexBound::default();
        bound.set(Lsn(5));
        bound.set_believed(true);
        let mut lag = lag(&bound, 1900);
        assert_eq!((lag.is_over(), bound.wanted()), (false, Lsn(15)));
        lag.note_block(Lsn(16), 2000);
        lag.follow(&bound, Lsn(16));
        assert_eq!(bound.wanted(), Lsn(15), "else it would run away from the index");
        bound.set(Lsn(15));
        lag.follow(&bound, Lsn(16));
        assert_eq!(bound.wanted(), Lsn(16));
    }

    #[test]
    fn what_a_start_has_read_counts_until_it_is_installed() {
        let bound = IndexBound::default();
        bound.set(Lsn(3));
        bound.set_believed(true);
        bound.note_before(300);
        let mut lag = lag(&bound, 1200);
        assert_eq!((lag.bytes(), lag.is_over()), (1300, true));
        bound.set(Lsn(5));
        lag.follow(&bound, Lsn(15));
        assert_eq!((lag.bytes(), lag.is_over()), (1000, false));
    }
}
