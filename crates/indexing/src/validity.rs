//! What is live: one pass over an index that knows the log up to its cut.
//!
//! A record is needed if and only if the newest entry of its name points to it, and its scope is alive;
//! and the newest map of databases and the newest record of each library are. So what the pass does not meet is garbage, deletions apart: a log
//! that was opened behind a cut learns from it what a scan would have told it.

use std::collections::BTreeMap;

use base::DbId;
use logindex::{Counts, Entry, Index, LivePass};
use redo::LiveRecords;

use crate::error::{Error, Result};
use crate::known::Known;

/// A pass over every living entry, done in steps by any thread.
///
/// It shows the state of the cut at which it began; what is installed meanwhile does not change it.
pub struct ValidityPass {
    pass: LivePass,
    live: LiveRecords,
    known: Known,
    entries_done: u64,
    entries_total: u64,
}

impl ValidityPass {
    /// Begins over `index`, at whose cut `known` was known.
    ///
    /// # Errors
    /// When the index cannot be read, or is damaged.
    pub fn new(index: &Index, known: &Known) -> Result<Self> {
        let mut live = LiveRecords::new();
        if let Some(addr) = known.databases_addr() {
            live.insert(addr);
        }
        for (_, addr) in known.libraries() {
            live.insert(addr);
        }
        Ok(Self {
            pass: index.live_pass(known.judge())?,
            live,
            known: known.clone(),
            entries_done: 0,
            entries_total: index.entry_count(),
        })
    }

    /// Looks at up to `entries_max` entries. Returns what was found when the pass is over.
    ///
    /// # Errors
    /// When the index cannot be read, or is damaged, or has not the keys that the log has: begin
    /// another pass, or the index anew ([`crate::Error::is_final`]).
    pub fn step(&mut self, entries_max: usize) -> Result<Option<(LiveRecords, Counts)>> {
        let live = &mut self.live;
        let mut visit = |entry: &Entry| {
            if let Some(place) = entry.place() {
                live.insert(place.addr());
            }
        };
        let is_over = self.pass.step(entries_max, &mut visit)?;
        self.entries_done = self.entries_total.min(self.entries_done + entries_max as u64);
        if !is_over {
            return Ok(None);
        }
        self.check()?;
        self.entries_done = self.entries_total;
        Ok(Some((std::mem::take(&mut self.live), self.pass.counts().clone())))
    }

    /// Compares the keys that were found with those that the log tells.
    fn check(&self) -> Result<()> {
        let Some(known) = self.known.keys() else { return Ok(()) };
        let known: BTreeMap<DbId, u64> = known.collect();
        let found: BTreeMap<DbId, u64> = self.pass.counts().databases.iter().copied().collect();
        for db in known.keys().chain(found.keys()) {
            let count = |counts: &BTreeMap<DbId, u64>| counts.get(db).copied().unwrap_or(0);
            let (known, found) = (count(&known), count(&found));
            if known != found {
                return Err(Error::Miscounted { db: db.0, found, known });
            }
        }
        Ok(())
    }

    /// The entries that were looked at, dead ones included, and about as many as there are.
    #[must_use]
    pub const fn progress(&self) -> (u64, u64) {
        (self.entries_done, self.entries_total)
    }
}
