//! What a `Databases` record says: which id each database has, and which ids were never used.

use base::{DbId, Record, RecordKind, varint};

use crate::record_check::BadRecord;

/// As many databases as can be configured: without a map their ids are their indexes.
const UNMAPPED_IDS_MAX: u64 = 1 << 31;

/// No log gets near this: behind it there are ids for as many databases as can be configured.
const NEXT_ID_MAX: u64 = DbId::MAX.0 - UNMAPPED_IDS_MAX;

/// See [`has_id`].
pub(crate) const fn no_database() -> BadRecord {
    BadRecord { kind: RecordKind::String, what: "a database that was never made" }
}

/// Whether a log with this map can have a database with this id: every other one is given out by a
/// record of the map, with the next one in it.
pub(crate) fn has_id(map: Option<&DatabaseMap>, id: DbId) -> bool {
    id.0 < map.map_or(0, |map| map.next) + UNMAPPED_IDS_MAX
}

/// What a `Databases` record says.
#[derive(Debug, Clone)]
pub struct DatabaseMap {
    ids: Vec<DbId>,
    next: u64,
}

impl DatabaseMap {
    /// Reads such a record.
    ///
    /// # Errors
    /// When it is not one.
    pub fn read(record: &Record<'_>) -> Result<Self, BadRecord> {
        let mut value = record.value;
        let mut read = || {
            let next = varint::take(&mut value).filter(|next| *next <= NEXT_ID_MAX)?;
            let mut ids = Vec::new();
            while !value.is_empty() {
                ids.push(DbId(varint::take(&mut value)?));
            }
            Some(Self { ids, next })
        };
        read().ok_or(BadRecord { kind: record.kind, what: "no map" })
    }

    /// The databases that it names, by index.
    #[must_use]
    pub fn ids(&self) -> &[DbId] {
        &self.ids
    }

    /// The first id that was never used when it was logged.
    #[must_use]
    pub const fn next_id(&self) -> DbId {
        DbId(self.next)
    }

    /// Whether this id was given out before the record was logged.
    pub(crate) const fn has_given(&self, id: DbId) -> bool {
        id.0 < self.next
    }
}

/// The ids of the databases by index, and the next free one. Where the map ends, or without one,
/// the ids go on in order: as many as the configuration has databases (`count`), and as many as
/// there are data for (below `seen`), so that lowering `databases` hides data and loses none.
pub(crate) fn database_ids(map: Option<&DatabaseMap>, count: usize, seen: u64) -> (Vec<DbId>, u64) {
    let (mut ids, mut next) = map.map_or((Vec::new(), 0), |map| (map.ids.clone(), map.next));
    while ids.len() < count || next < seen {
        ids.push(DbId(next));
        next += 1;
    }
    (ids, next)
}
