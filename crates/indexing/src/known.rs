//! What following the log has told besides the entries: it is kept with each cut.

use base::{DbId, Lsn, ObjectId, Record, RecordKind, varint};
use keyspace::{BadRecord, DatabaseMap};
use logindex::{Cut, Judge, Scopes};

/// The version of what is kept with a cut.
const VERSION: u8 = 1;

const HAS_MAP: u8 = 1;
const IS_RELOGGING: u8 = 2;
const IS_BUILDING: u8 = 4;

/// What is known of a log up to a block.
///
/// As bytes: version 1 · flags (1: there is a map; 2: a log is being written anew; 4: the index is being
/// built) · varint next object · value of the newest record of the map, to the end.
#[derive(Debug, Clone, Default)]
pub struct Known {
    map: Option<(Vec<u8>, Scopes)>,
    is_relogging: bool,
    /// The log from before the start is being read: what a compaction has left of it has elements in front
    /// of their roots, which were logged again later.
    is_building: bool,
    next_object: u64,
}

impl Known {
    /// Nothing is known: the log is read from its first block on.
    pub(crate) fn nothing() -> Self {
        Self { is_building: true, ..Self::default() }
    }

    /// Reads what was kept with a cut; `None` if it makes no sense, or is of a newer program.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let (&[version, flags], mut rest) = bytes.split_first_chunk()?;
        if version != VERSION || flags & !(HAS_MAP | IS_RELOGGING | IS_BUILDING) != 0 {
            return None;
        }
        let mut known = Self {
            is_relogging: flags & IS_RELOGGING != 0,
            is_building: flags & IS_BUILDING != 0,
            ..Self::default()
        };
        known.next_object = varint::take(&mut rest)?;
        match flags & HAS_MAP != 0 {
            true => known.set_map(rest).ok()?,
            false if !rest.is_empty() => return None,
            false => {}
        }
        Some(known)
    }

    /// The bytes to be kept with a cut.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let flag = |is_set, flag| if is_set { flag } else { 0 };
        let flags = flag(self.map.is_some(), HAS_MAP)
            | flag(self.is_relogging, IS_RELOGGING)
            | flag(self.is_building, IS_BUILDING);
        let mut bytes = vec![VERSION, flags];
        varint::put(&mut bytes, self.next_object);
        bytes.extend(self.map.iter().flat_map(|(value, _)| value));
        bytes
    }

    /// Takes note of the next record.
    ///
    /// # Errors
    /// When it makes no sense.
    pub fn note(&mut self, record: &Record<'_>) -> Result<(), BadRecord> {
        self.next_object = self.next_object.max(record.object.next().0);
        match record.kind {
            RecordKind::Databases => {
                self.set_map(record.value)?;
                self.is_relogging = false;
            }
            kind if kind.is_element() || kind.is_delete() => {}
            _ => self.is_relogging |= !self.is_named(record.db),
        }
        Ok(())
    }

    /// All that was logged before the start was read. What was being written anew then is not any more:
    /// what that has logged is dead, because no map will name it. And every object that lives has its
    /// root.
    pub(crate) const fn note_start(&mut self) {
        self.is_relogging = false;
        self.is_building = false;
    }

    fn set_map(&mut self, value: &[u8]) -> Result<(), BadRecord> {
        let record = Record::whole(RecordKind::Databases, DbId(0), &[], value, None);
        let map = DatabaseMap::read(&record)?;
        let scopes = Scopes::mapped(map.next_id(), map.ids().iter().copied());
        self.map = Some((value.to_vec(), scopes));
        Ok(())
    }

    fn is_named(&self, db: DbId) -> bool {
        self.map.as_ref().is_none_or(|(_, scopes)| scopes.is_alive(db))
    }

    /// Which scopes are dead.
    #[must_use]
    pub fn judge(&self) -> Judge {
        match &self.map {
            _ if self.is_relogging || self.is_building => Judge::Relogging,
            Some((_, scopes)) => Judge::Settled(scopes.clone()),
            None => Judge::Settled(Scopes::without_map()),
        }
    }

    /// One above every object that a record has named.
    #[must_use]
    pub const fn next_object(&self) -> ObjectId {
        ObjectId(self.next_object)
    }

    /// What is known as of a cut, and its block; `None` if the cut is of a newer program.
    pub(crate) fn at(cut: Option<&Cut>) -> Option<(Self, Lsn)> {
        match cut {
            None => Some((Self::nothing(), Lsn::ZERO)),
            Some(cut) => Some((Self::decode(&cut.state)?, cut.lsn)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(next: u8, ids: &[u8]) -> Vec<u8> {
        [&[next], ids].concat()
    }

    fn databases(value: &[u8]) -> Record<'_> {
        Record::whole(RecordKind::Databases, DbId(0), &[], value, None)
    }

    fn string(db: u64) -> Record<'static> {
        Record::whole(RecordKind::String, DbId(db), b"k", b"v", None)
    }

    #[test]
    fn an_entry_that_no_map_names_yet_means_that_a_log_is_written_anew() {
        let mut known = Known::default();
        known.note(&string(3)).unwrap();
        assert_eq!(known.judge(), Judge::Settled(Scopes::without_map()));
        // Databases 0 and 1 keep their ids; 2 and 3 are for the copy.
        known.note(&databases(&map(4, &[0, 1]))).unwrap();
        let settled = Judge::Settled(Scopes::mapped(DbId(4), [DbId(0), DbId(1)]));
        assert_eq!(known.judge(), settled);
        known.note(&string(4)).unwrap();
        assert_eq!(known.judge(), settled, "a database above the map is alive by its position");
        known.note(&string(2)).unwrap();
        assert_eq!(known.judge(), Judge::Relogging);
        known.note(&databases(&map(4, &[2, 3]))).unwrap();
        assert_eq!(known.judge(), Judge::Settled(Scopes::mapped(DbId(4), [DbId(2), DbId(3)])));
    }

    #[test]
    fn what_is_kept_with_a_cut_is_read_back() {
        let mut known = Known::default();
        let read = |known: &Known| Known::decode(&known.encode()).unwrap();
        assert_eq!(read(&known).judge(), known.judge());
        known.note(&Record::element_deleted(ObjectId(700), b"f")).unwrap();
        known.note(&databases(&map(9, &[8, 3]))).unwrap();
        known.note(&string(5)).unwrap();
        let read = read(&known);
        assert_eq!(read.judge(), Judge::Relogging);
        assert_eq!(read.next_object(), ObjectId(701));
        assert_eq!(read.encode(), known.encode());
        for len in 0..3 {
            assert!(Known::decode(&known.encode()[..len]).is_none());
        }
        assert!(Known::decode(&[2, 0, 0]).is_none(), "of a newer program");
    }
}
