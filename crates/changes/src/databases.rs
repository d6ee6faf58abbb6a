//! Which number each database has: what the newest `Databases` record says.

use std::collections::HashMap;

use base::{DbId, Record};
use keyspace::{BadRecord, DatabaseMap};

use crate::change::{Database, Moved};

/// See the file's top. Without a record the ids are the numbers; where a record ends, they go on in order.
#[derive(Debug, Clone, Default)]
pub(crate) struct Databases {
    ids: Vec<DbId>,
    indexes: HashMap<DbId, u64>,
    /// The first id that was never given out.
    next: u64,
}

impl Databases {
    pub(crate) fn read(record: &Record<'_>) -> Result<Self, BadRecord> {
        let map = DatabaseMap::read(record)?;
        let ids = map.ids().to_vec();
        let indexes = ids.iter().zip(0..).map(|(id, index)| (*id, index)).collect();
        Ok(Self { ids, indexes, next: map.next_id().0 })
    }

    /// The number of a database; `None` for one that has none now.
    pub(crate) fn index_of(&self, id: DbId) -> Option<u64> {
        let behind = || (self.ids.len() as u64).checked_add(id.0.checked_sub(self.next)?);
        self.indexes.get(&id).copied().or_else(behind)
    }

    pub(crate) fn database(&self, id: DbId) -> Database {
        Database { id, index: self.index_of(id) }
    }

    fn id_at(&self, index: u64) -> DbId {
        let listed = usize::try_from(index).ok().and_then(|index| self.ids.get(index).copied());
        listed.unwrap_or_else(|| DbId(self.next + (index - self.ids.len() as u64)))
    }

    /// What has changed since `before`.
    pub(crate) fn moved_since(&self, before: &Self) -> Vec<Moved> {
        let count = self.ids.len().max(before.ids.len()) as u64;
        let all = (0..count).map(|index| (index, self.id_at(index)));
        all.filter(|(index, id)| before.id_at(*index) != *id)
            .map(|(index, id)| Moved {
                index,
                id,
                was: before.index_of(id).filter(|at| *at < count),
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::RecordKind;

    fn databases(value: &[u8]) -> Databases {
        let record = Record::whole(RecordKind::Databases, DbId(0), &[], value, None);
        Databases::read(&record).expect("a map")
    }

    #[test]
    fn numbers_go_on_where_a_record_ends() {
        let none = Databases::default();
        assert_eq!(none.index_of(DbId(3)), Some(3));
        let two = databases(&[4, 1, 3]);
        assert_eq!(
            [0, 1, 2, 3, 4, 5].map(|id| two.index_of(DbId(id))),
            [None, Some(0), None, Some(1), Some(2), Some(3)]
        );
    }

    #[test]
    fn what_was_exchanged_and_what_was_emptied_are_told_apart() {
        let before = databases(&[3, 0, 1, 2]);
        let moved = |value: &[u8]| {
            let moved = databases(value).moved_since(&before);
            moved.iter().map(|it| (it.index, it.was)).collect::<Vec<_>>()
        };
        assert_eq!(moved(&[3, 1, 0, 2]), [(0, Some(1)), (1, Some(0))]);
        assert_eq!(moved(&[4, 0, 3, 2]), [(1, None)]);
        assert_eq!(moved(&[3, 0, 1, 2]), []);
    }
}
