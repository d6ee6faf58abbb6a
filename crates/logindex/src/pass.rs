//! Streams of entries: all that are alive, or those of one scope.

use base::{DbId, Lsn};

use crate::damage::Damage;
use crate::error::Result;
use crate::judge::{Court, Judge};
use crate::merge::Merge;
use crate::name::{Entry, Scope, ScopeKind};

/// What a pass shows its entries to.
pub trait Visit {
    /// An entry that is alive; they come in the order of their names.
    fn entry(&mut self, entry: &Entry);

    /// All entries of a scope have come; it is not called for a scope without living entries.
    fn scope(&mut self, _scope: Scope, _entries: u64) {}
}

impl<F: FnMut(&Entry)> Visit for F {
    fn entry(&mut self, entry: &Entry) {
        self(entry);
    }
}

/// What a complete pass has counted.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Counts {
    /// The keys of each database that has any, in the order of their ids.
    pub databases: Vec<(DbId, u64)>,
    /// The keys of each database that expire, if it has any, in the same order.
    pub expiring: Vec<(DbId, u64)>,
    /// The objects with living elements.
    pub objects: u64,
    /// The living elements of all objects.
    pub elements: u64,
}

/// A pass over every living entry of all runs, done in steps.
///
/// It keeps the runs that it began with: what is installed meanwhile does not change it.
pub struct LivePass {
    merge: Merge,
    court: Court,
    cut: Option<Lsn>,
    damage: Damage,
    counts: Counts,
    scope: Option<ScopeCount>,
}

/// What was counted of a scope so far.
struct ScopeCount {
    scope: Scope,
    entries: u64,
    expiring: u64,
}

impl LivePass {
    pub(crate) const fn new(merge: Merge, judge: Judge, cut: Option<Lsn>, damage: Damage) -> Self {
        let counts =
            Counts { databases: Vec::new(), expiring: Vec::new(), objects: 0, elements: 0 };
        Self { merge, court: Court::new(judge), cut, damage, counts, scope: None }
    }

    /// The cut whose state the pass shows.
    #[must_use]
    pub const fn cut(&self) -> Option<Lsn> {
        self.cut
    }

    /// Looks at up to `entries_max` entries, dead ones included. Returns whether the pass is over.
    ///
    /// # Errors
    /// Damage, or the error of the disk; then [`crate::Error::Interrupted`].
    pub fn step(&mut self, entries_max: usize, visitor: &mut impl Visit) -> Result<bool> {
        for _ in 0..entries_max {
            let Some(entry) = self.damage.watch(self.merge.next())? else {
                self.end_scope(visitor);
                return Ok(true);
            };
            let Some(place) = entry.place().filter(|_| self.court.is_alive(&entry)) else {
                continue;
            };
            let scope = entry.name.scope;
            if self.scope.as_ref().is_none_or(|count| count.scope != scope) {
                self.end_scope(visitor);
            }
            let count = self.scope.get_or_insert(ScopeCount { scope, entries: 0, expiring: 0 });
            count.entries += 1;
            count.expiring += u64::from(place.expiry_ms().is_some());
            visitor.entry(&entry);
        }
        Ok(false)
    }

    fn end_scope(&mut self, visitor: &mut impl Visit) {
        let Some(ScopeCount { scope, entries, expiring }) = self.scope.take() else { return };
        match scope.kind() {
            ScopeKind::Database(id) => {
                self.counts.databases.push((id, entries));
                self.counts.expiring.extend((expiring > 0).then_some((id, expiring)));
            }
            ScopeKind::Object(_) => {
                self.counts.objects += 1;
                self.counts.elements += entries;
            }
        }
        visitor.scope(scope, entries);
    }

    /// The counts, complete when the pass is over.
    #[must_use]
    pub const fn counts(&self) -> &Counts {
        &self.counts
    }
}

/// The entries of one scope in the order of their hashes.
pub struct ScopeRange {
    merge: Merge,
    damage: Damage,
}

impl ScopeRange {
    pub(crate) const fn new(merge: Merge, damage: Damage) -> Self {
        Self { merge, damage }
    }

    /// Returns the next entry that is not gone.
    ///
    /// # Errors
    /// Damage, or the error of the disk; then [`crate::Error::Interrupted`].
    #[expect(clippy::should_implement_trait, reason = "an iterator cannot end with an error")]
    pub fn next(&mut self) -> Result<Option<Entry>> {
        while let Some(entry) = self.damage.watch(self.merge.next())? {
            if entry.place().is_some() {
                return Ok(Some(entry));
            }
        }
        Ok(None)
    }
}
