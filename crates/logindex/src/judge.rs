//! Which scopes are dead: no lookup asks for their entries any more.
//!
//! A dead scope is never written to the index: FLUSHALL, or the deletion of an object with a million
//! elements, is at most one entry. It is recognized later, by a merge or a pass that has all runs.

use base::{DbId, ObjectId};

use crate::name::{Entry, Scope, ScopeKind};

/// The databases that exist, as the newest map of databases names them.
///
/// A database is dead if and only if there is a map, its id is below the map's `next`, and the map
/// does not name it. An id from `next` on is alive by its position, without a place in any map.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Scopes {
    map: Option<Map>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Map {
    next: DbId,
    /// Sorted.
    named: Vec<DbId>,
}

impl Scopes {
    /// There is no map: every database is alive.
    #[must_use]
    pub const fn without_map() -> Self {
        Self { map: None }
    }

    /// A map that names these databases, with `next` as the first id that it does not speak of.
    #[must_use]
    pub fn mapped(next: DbId, named: impl IntoIterator<Item = DbId>) -> Self {
        let mut named: Vec<DbId> = named.into_iter().collect();
        named.sort_unstable();
        named.dedup();
        Self { map: Some(Map { next, named }) }
    }

    /// Whether the entries of the database can still be looked up.
    #[must_use]
    pub fn is_alive(&self, database: DbId) -> bool {
        self.map
            .as_ref()
            .is_none_or(|map| database >= map.next || map.named.binary_search(&database).is_ok())
    }

    /// The map's `next` and the databases that it names.
    pub(crate) fn map(&self) -> Option<(DbId, &[DbId])> {
        self.map.as_ref().map(|map| (map.next, map.named.as_slice()))
    }
}

/// Whether scopes may be judged as of a cut or not, and by what.
///
/// There is no default. While a log is written anew for a living keyspace, entries are logged under
/// ids that no map names yet, and elements before their roots: everything new would be called dead.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Judge {
    /// No log is being written anew: what has no living root or database is dead for good.
    Settled(Scopes),
    /// A log is being written anew: every scope counts as alive.
    Relogging,
}

/// Judges the scopes of entries that come in the order of their names, each name's newest only.
///
/// All databases come before the first object. So whatever object is alive has been named by the
/// entry of a living database when the first element comes.
pub(crate) struct Court {
    judge: Judge,
    /// The objects that entries of living databases name; sorted once the first object came.
    objects: Vec<ObjectId>,
    current: Option<(Scope, bool)>,
    is_past_databases: bool,
}

impl Court {
    pub(crate) const fn new(judge: Judge) -> Self {
        Self { judge, objects: Vec::new(), current: None, is_past_databases: false }
    }

    /// Whether the entry's scope is alive. REQUIRES: names ascend, and none is missing.
    pub(crate) fn is_alive(&mut self, entry: &Entry) -> bool {
        let scope = entry.name.scope;
        let is_alive = match self.current {
            Some((current, is_alive)) if current == scope => is_alive,
            _ => {
                let is_alive = self.judge_scope(scope);
                self.current = Some((scope, is_alive));
                is_alive
            }
        };
        if is_alive
            && !scope.is_object()
            && let Some(object) = entry.place().and_then(|place| place.object())
        {
            self.objects.push(object);
        }
        is_alive
    }

    fn judge_scope(&mut self, scope: Scope) -> bool {
        let Judge::Settled(scopes) = &self.judge else { return true };
        match scope.kind() {
            ScopeKind::Database(id) => scopes.is_alive(id),
            ScopeKind::Object(id) => {
                if !self.is_past_databases {
                    self.is_past_databases = true;
                    self.objects.sort_unstable();
                }
                self.objects.binary_search(&id).is_ok()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_database_without_a_place_in_the_map_may_be_alive() {
        let scopes = Scopes::mapped(DbId(16), [DbId(3), DbId(1)]);
        let alive: Vec<u64> = (0..20).filter(|id| scopes.is_alive(DbId(*id))).collect();
        assert_eq!(alive, [1, 3, 16, 17, 18, 19]);
        assert!(Scopes::without_map().is_alive(DbId(0)));
    }
}
