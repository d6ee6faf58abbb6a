//! What the executor hands to the indexer: entries in the order in which they were logged.

use base::Lsn;

use crate::judge::Judge;
use crate::name::Entry;

/// The entries logged since the last cut. Pushing one looks nothing up.
#[derive(Debug, Default)]
pub struct Delta {
    entries: Vec<Entry>,
}

impl Delta {
    /// Creates an empty delta.
    #[must_use]
    pub const fn new() -> Self {
        Self { entries: Vec::new() }
    }

    /// Notes what the newest record of a name says. Of several pushes of a name the last counts.
    #[inline]
    pub fn push(&mut self, entry: Entry) {
        self.entries.push(entry);
    }

    /// The number of pushes since the last cut.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether nothing was pushed since the last cut.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Ends the delta at a boundary between two blocks of the log, and begins the next one.
    ///
    /// REQUIRES: what was pushed since the last cut is exactly what the blocks after the last cut
    /// up to `lsn` say. `judge` is as of `lsn`, too: unless it is [`Judge::Relogging`], the root of
    /// each object that is ever needed again has been pushed by now. `state` is kept for the
    /// caller, as it is.
    #[must_use]
    pub fn cut(&mut self, lsn: Lsn, state: Vec<u8>, judge: Judge) -> Batch {
        let entries = std::mem::take(&mut self.entries);
        // The next delta is likely to be as long; half of it is no loss if it is not.
        self.entries.reserve(entries.len() / 2);
        Batch { entries, cut: Cut { lsn, state, judge } }
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

/// A delta that has ended: the input of [`crate::Indexer::add`].
#[derive(Debug)]
pub struct Batch {
    /// In the order of the pushes.
    pub(crate) entries: Vec<Entry>,
    pub(crate) cut: Cut,
}

impl Batch {
    /// The cut that the batch ends at.
    #[must_use]
    pub const fn cut(&self) -> &Cut {
        &self.cut
    }

    /// Sorts the entries by name and keeps the last of each.
    pub(crate) fn sort(self) -> (Vec<Entry>, Cut) {
        let Self { entries, cut } = self;
        // Keys with their index are half as long as entries, and make an unstable sort stable.
        let mut order: Vec<_> = entries.iter().map(|entry| entry.name).zip(0_usize..).collect();
        order.sort_unstable();
        let mut sorted = Vec::with_capacity(entries.len());
        for (at, (name, index)) in order.iter().enumerate() {
            let is_last = order.get(at + 1).is_none_or(|(next, _)| next != name);
            if is_last {
                sorted.push(entries[*index]);
            }
        }
        (sorted, cut)
    }
}
