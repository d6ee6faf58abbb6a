//! When a key was lost: the block that has deleted it, or has emptied the database that it was in.

use std::collections::BTreeMap;

use base::{DbId, Lsn, Record, RecordKind, varint};

/// A key that is looked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WantedKey {
    /// The number that SELECT takes.
    pub database: u64,
    /// Its name.
    pub key: Vec<u8>,
}

/// What a record says of a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fact {
    /// It is there, in this database.
    Set(DbId),
    /// It is not.
    Deleted(DbId),
    /// Which database has which number: the ids, by the numbers, and that of the number behind.
    Map(Vec<u64>, u64),
}

impl Fact {
    /// What the record says of the key, if anything.
    #[must_use]
    pub fn of(record: &Record<'_>, wanted: &WantedKey) -> Option<Self> {
        let kind = record.kind;
        match kind {
            RecordKind::Databases => {
                let mut value = record.value;
                let next = varint::take(&mut value)?;
                let mut ids = Vec::new();
                while !value.is_empty() {
                    ids.push(varint::take(&mut value)?);
                }
                Some(Self::Map(ids, next))
            }
            RecordKind::Note | RecordKind::KeyLost => None,
            _ if kind.is_library() => None,
            _ if kind.is_element() || record.key != wanted.key => None,
            RecordKind::KeyDeleted => Some(Self::Deleted(record.db)),
            _ => Some(Self::Set(record.db)),
        }
    }
}

/// Follows a key from block to block.
pub struct Deletions<'a> {
    wanted: &'a WantedKey,
    /// The database of that number.
    database: DbId,
    /// In which databases the key is.
    is_there: BTreeMap<DbId, bool>,
    /// The block that has lost it last.
    pub last: Option<Lsn>,
}

impl<'a> Deletions<'a> {
    /// Nothing is known of the key yet.
    #[must_use]
    pub const fn new(wanted: &'a WantedKey) -> Self {
        // Before anything says otherwise, the numbers are the ids.
        let database = DbId(wanted.database);
        Self { wanted, database, is_there: BTreeMap::new(), last: None }
    }

    /// Takes what a block says, in the order of its records; blocks come in their order.
    pub fn take(&mut self, lsn: Lsn, facts: &[Fact]) {
        let was_there = self.is_there();
        let mut is_deleted = false;
        for fact in facts {
            match fact {
                Fact::Set(db) => _ = self.is_there.insert(*db, true),
                Fact::Deleted(db) => {
                    self.is_there.insert(*db, false);
                    is_deleted |= *db == self.database;
                }
                Fact::Map(ids, next) => {
                    let index = usize::try_from(self.wanted.database).unwrap_or(usize::MAX);
                    // There may be more databases by now than there were then.
                    let further = || next.saturating_add(self.wanted.database - ids.len() as u64);
                    self.database = DbId(ids.get(index).copied().unwrap_or_else(further));
                }
            }
        }
        if (was_there || is_deleted) && !self.is_there() {
            self.last = Some(lsn);
        }
    }

    fn is_there(&self) -> bool {
        self.is_there.get(&self.database).copied().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_lost_by_its_deletion_and_with_its_database() {
        let wanted = WantedKey { database: 1, key: b"k".to_vec() };
        let lost_by = |blocks: &[&[Fact]]| {
            let mut deletions = Deletions::new(&wanted);
            for (lsn, facts) in (1..).zip(blocks) {
                deletions.take(Lsn(lsn), facts);
            }
            deletions.last.map(|lsn| lsn.0)
        };
        let (one, two) = (DbId(1), DbId(2));
        let set = || Fact::Set(one);
        assert_eq!(lost_by(&[&[set()], &[]]), None);
        assert_eq!(lost_by(&[&[set()], &[Fact::Deleted(one)], &[set()]]), Some(2));
        assert_eq!(lost_by(&[&[Fact::Deleted(one)]]), Some(1), "what set it is not told any more");
        assert_eq!(lost_by(&[&[set()], &[Fact::Deleted(one), set()]]), None, "it is replaced");
        let flushed = || Fact::Map(vec![0, 3], 4);
        assert_eq!(lost_by(&[&[set()], &[flushed()]]), Some(2));
        assert_eq!(lost_by(&[&[Fact::Set(two)], &[flushed()]]), None, "it was in another one");
        let swapped = Fact::Map(vec![0, 2, 1], 3);
        assert_eq!(lost_by(&[&[set(), Fact::Set(two)], &[swapped]]), None, "there is one after it");
    }
}
