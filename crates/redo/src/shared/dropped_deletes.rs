//! Which delete records compactions have dropped: what a reader of blocks may have missed.
//!
//! A compaction drops a delete record when no older file has what it deletes. A start does not need
//! it then, but a reader of blocks that has passed an older record does: it would keep the entry. So a
//! reader at block *n* goes on only if no delete record from *n* on was dropped since it looked up its
//! files for the first time; one that begins in the middle has read elsewhere what came before, and
//! nothing may have been dropped ever.
//!
//! ```text
//!   drop   1: ≤ 90   2: ≤ 40   3: ≤ 60   4: ≤ 20        of each compaction its newest delete record
//!   kept   90 ─────────────── 60 ────── 20             the newest of what was dropped from here on
//! ```
//!
//! While a drop is under way, from before the rename until no old file is left, a reader may look up its
//! files before it or behind it: so it comes after whatever the reader has counted.

use base::{Lsn, Mutex};

/// A point in the order of the drops.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(crate) struct DropCount(u64);

struct State {
    count: DropCount,
    /// Drops that no later one exceeds, with their numbers: descending by LSN, ascending by number.
    newest: Vec<(DropCount, Lsn)>,
    /// What the compaction that is under way drops; 0 for nothing.
    under_way: Lsn,
}

/// See the file's top.
pub(crate) struct DroppedDeletes(Mutex<State>);

impl DroppedDeletes {
    /// Begins with what may have been dropped before the start: anything up to `horizon`.
    pub(crate) fn new(horizon: Lsn) -> Self {
        let count = DropCount::default();
        Self(Mutex::new(State { count, newest: vec![(count, horizon)], under_way: Lsn::ZERO }))
    }

    /// Notes that delete records up to `lsn` are about to be dropped. Their file is replaced after
    /// this. There is one compaction at a time.
    pub(crate) fn begin(&self, lsn: Lsn) {
        let mut state = self.0.lock();
        state.under_way = state.under_way.max(lsn);
    }

    /// Notes that the compaction has ended in any way: the files are what they will be.
    pub(crate) fn end(&self) {
        let mut state = self.0.lock();
        let lsn = std::mem::take(&mut state.under_way);
        if lsn == Lsn::ZERO {
            return;
        }
        state.count.0 += 1;
        while state.newest.last().is_some_and(|(_, last)| *last <= lsn) {
            state.newest.pop();
        }
        let count = state.count;
        state.newest.push((count, lsn));
    }

    /// How many drops there were.
    pub(crate) fn count(&self) -> DropCount {
        self.0.lock().count
    }

    /// The newest delete record that was dropped; of those after the first `since` drops, or ever.
    pub(crate) fn newest(&self, since: Option<DropCount>) -> Lsn {
        let state = self.0.lock();
        let mut dropped = state.newest.iter();
        let found = dropped.find(|(count, _)| since.is_none_or(|since| *count > since));
        found.map_or(state.under_way, |(_, lsn)| state.under_way.max(*lsn))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_is_told_of_every_stretch() {
        let dropped = DroppedDeletes::new(Lsn(30));
        assert_eq!(dropped.newest(None), Lsn(30));
        let counts: Vec<DropCount> = [90, 40, 60, 20]
            .into_iter()
            .map(|lsn| {
                let before = dropped.count();
                dropped.begin(Lsn(lsn));
                let under_way = dropped.count();
                assert!(dropped.newest(Some(under_way)) >= Lsn(lsn), "it counts for every reader");
                dropped.end();
                before
            })
            .collect();
        let newest: Vec<Lsn> = counts.iter().map(|since| dropped.newest(Some(*since))).collect();
        assert_eq!(newest, [90, 60, 60, 20].map(Lsn));
        assert_eq!(dropped.newest(None), Lsn(90));
        assert_eq!(dropped.newest(Some(dropped.count())), Lsn::ZERO);
    }
}
