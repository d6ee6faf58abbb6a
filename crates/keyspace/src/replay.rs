//! Filling the keyspace from the log.
//!
//! Records come in the order of their LSNs; elements may come before their root, because
//! compaction keeps an element's record where it is while a root that was logged again moves on.
//! So objects are gathered by their id beside the keys, and are joined with them at the end:
//!
//! ```text
//!   root     (db, key) → id ──┐ the newest root of an id says whose it is
//!   element  id, sub → value ─┴─► objects: id → { body, root }
//!   finish:  every object whose root's key still names it moves into that key's entry;
//!            the rest, and every database that the newest `Databases` record does not map,
//!            is garbage, and its records are retired
//! ```
//!
//! # Invariants
//! - While replaying, the entry of a key that is bound to an object is a placeholder; it is the
//!   object's as long as it has the address of the object's newest root.

use base::{DbId, ObjectId, Record, RecordAddr, RecordKind, varint};
use hashbrown::HashMap;

use crate::db::Db;
use crate::entry::{Entry, Kind};
use crate::journal::NoJournal;
use crate::keyspace::Keyspace;
use crate::object::Object;
use crate::record_check;
use crate::string;

/// A keyspace being filled from the log. [`Replay::finish`] gives it back.
pub struct Replay {
    keyspace: Keyspace<NoJournal>,
    /// Every database that a record named, mapped or not.
    dbs: HashMap<DbId, Db>,
    objects: HashMap<ObjectId, Gathered>,
    map: Option<DatabaseMap>,
    /// The first record of the database with the largest id.
    last_db: Option<(DbId, RecordAddr)>,
    /// How many databases the configuration has.
    database_count: usize,
}

struct Gathered {
    object: Object,
    root: Option<Root>,
}

/// The newest root of an object: which key it is bound to, and where that is logged.
struct Root {
    db: DbId,
    key: Box<[u8]>,
    addr: RecordAddr,
}

/// The record says something that no keyspace of this version ever logged.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a {kind:?} record has {what}")]
pub struct BadRecord {
    /// The record's kind.
    pub kind: RecordKind,
    /// What is wrong with it.
    pub what: &'static str,
}

impl Replay {
    /// Begins to fill a keyspace that is empty.
    #[must_use]
    pub fn new(mut keyspace: Keyspace<NoJournal>) -> Self {
        let database_count = keyspace.dbs.len();
        keyspace.dbs.clear();
        Self {
            keyspace,
            dbs: HashMap::new(),
            objects: HashMap::new(),
            map: None,
            last_db: None,
            database_count,
        }
    }

    /// Says that a record is about to be applied: what that will read is brought into the cache.
    pub fn announce(&self, record: &Record<'_>) {
        if !record.kind.is_element()
            && let Some(db) = self.dbs.get(&record.db)
        {
            db.keys.touch(self.keyspace.recorder.hasher.hash(record.key));
        }
    }

    /// Applies one record; addresses that it makes obsolete are pushed to `retired`.
    ///
    /// # Errors
    /// [`BadRecord`] when the record is not one that a keyspace logs.
    pub fn apply(
        &mut self,
        record: &Record<'_>,
        addr: RecordAddr,
        retired: &mut Vec<RecordAddr>,
    ) -> Result<(), BadRecord> {
        let bad = |what| BadRecord { kind: record.kind, what };
        record_check::check(record).map_err(bad)?;
        match record.kind {
            RecordKind::Databases => {
                let map = DatabaseMap::read(record, addr)?;
                retired.extend(self.map.replace(map).map(|old| old.addr));
            }
            RecordKind::KeyDeleted => self.delete_key(record, retired),
            RecordKind::ElementDeleted => {
                let hasher = self.keyspace.recorder.hasher;
                if let Some(gathered) = self.objects.get_mut(&record.object) {
                    retired.extend(gathered.object.replay_delete(hasher, record.sub));
                }
            }
            kind if kind.is_element() => self.element(record, addr, retired).map_err(bad)?,
            RecordKind::String => self.set_key(record, string::replay_entry(record), addr, retired),
            kind if kind.is_root() => self.root(record, addr, retired).map_err(bad)?,
            kind => {
                let entry = Entry::with_bytes(record.key, packed_kind(kind), record.value);
                self.set_key(record, entry, addr, retired);
            }
        }
        self.keyspace.recorder.next_object =
            self.keyspace.recorder.next_object.max(record.object.0 + 1);
        Ok(())
    }

    fn delete_key(&mut self, record: &Record<'_>, retired: &mut Vec<RecordAddr>) {
        let hasher = self.keyspace.recorder.hasher;
        if let Some(db) = self.dbs.get_mut(&record.db)
            && let Some(entry) = db.remove(hasher, hasher.hash(record.key), record.key)
        {
            retired.extend(entry.addr());
        }
    }

    fn set_key(
        &mut self,
        record: &Record<'_>,
        mut entry: Entry,
        addr: RecordAddr,
        retired: &mut Vec<RecordAddr>,
    ) {
        let hasher = self.keyspace.recorder.hasher;
        let hash = hasher.hash(record.key);
        entry.set_addr(Some(addr));
        entry.set_access(crate::access::fresh(self.keyspace.settings(), self.keyspace.now_ms()));
        let db = self.dbs.entry(record.db).or_insert_with(|| {
            if self.last_db.is_none_or(|(last, _)| last < record.db) {
                self.last_db = Some((record.db, addr));
            }
            Db::new(record.db)
        });
        let place = match db.keys.locate(hash, record.key) {
            Some(place) => {
                db.set_expiry(place, hash, None);
                let old = std::mem::replace(db.keys.at_mut(place), entry);
                retired.extend(old.addr());
                place
            }
            None => db.insert(hasher, hash, entry),
        };
        if record.expires_at_ms.is_some() {
            db.set_expiry(place, hash, record.expires_at_ms);
        }
    }

    fn root(
        &mut self,
        record: &Record<'_>,
        addr: RecordAddr,
        retired: &mut Vec<RecordAddr>,
    ) -> Result<(), &'static str> {
        let gathered = self.gather(record)?;
        gathered.object.replay_root(record.value);
        gathered.root = Some(Root { db: record.db, key: record.key.into(), addr });
        // Eight bytes, as the pointer to the object that will take their place.
        let entry = Entry::with_int(record.key, 0);
        self.set_key(record, entry, addr, retired);
        Ok(())
    }

    fn element(
        &mut self,
        record: &Record<'_>,
        addr: RecordAddr,
        retired: &mut Vec<RecordAddr>,
    ) -> Result<(), &'static str> {
        let hasher = self.keyspace.recorder.hasher;
        let gathered = self.gather(record)?;
        retired.extend(gathered.object.replay_element(hasher, record.sub, record.value, addr));
        Ok(())
    }

    fn gather(&mut self, record: &Record<'_>) -> Result<&mut Gathered, &'static str> {
        if !self.objects.contains_key(&record.object) {
            let object = Object::for_replay(record.object, record.kind).ok_or("no object")?;
            self.objects.insert(record.object, Gathered { object, root: None });
        }
        let gathered = self.objects.get_mut(&record.object).expect("just inserted");
        if !gathered.object.is_of(record.kind) {
            return Err("an object of another type");
        }
        Ok(gathered)
    }

    /// Joins objects with their keys and databases with their indexes, and gives the keyspace.
    /// The records of what belongs to nothing are pushed to `retired`.
    ///
    /// # Errors
    /// A record of a database that nothing has ever given an id to, and where it is.
    pub fn finish(
        mut self,
        retired: &mut Vec<RecordAddr>,
    ) -> Result<Keyspace<NoJournal>, (BadRecord, RecordAddr)> {
        if let Some((id, addr)) = self.last_db
            && !has_id(self.map.as_ref(), id)
        {
            return Err((no_database(), addr));
        }
        let hasher = self.keyspace.recorder.hasher;
        let mut empty = Vec::new();
        for (_, Gathered { mut object, root }) in self.objects.drain() {
            let bound = root.and_then(|root| {
                let db = self.dbs.get_mut(&root.db)?;
                let entry = db.keys.find_mut(hasher.hash(&root.key), &root.key)?;
                (entry.addr() == Some(root.addr)).then_some((entry, root))
            });
            object.replay_finish(hasher);
            match bound {
                Some((_, root)) if object.len() == 0 => empty.push(root),
                Some((entry, _)) => entry.replace_object(Box::new(object)),
                None => retired.extend(object.into_addrs().flatten()),
            }
        }
        // An empty collection does not exist: nobody logs one.
        for Root { db, key, .. } in empty {
            self.delete_key(&Record::key_deleted(db, &key), retired);
        }
        let seen = self.dbs.keys().map(|id| id.0 + 1).max().unwrap_or(0);
        let (ids, next) = database_ids(self.map.as_ref(), self.database_count, seen);
        let mut keyspace = self.keyspace;
        keyspace.databases_addr = self.map.map(|map| map.addr);
        keyspace.next_db_id = next;
        keyspace.dbs =
            ids.iter().map(|id| self.dbs.remove(id).unwrap_or_else(|| Db::new(*id))).collect();
        for (_, db) in self.dbs {
            for mut entry in db.keys.into_items() {
                retired.extend(entry.addr());
                if let Some(object) = entry.take_object() {
                    retired.extend(object.into_addrs().flatten());
                }
            }
        }
        Ok(keyspace)
    }
}

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

/// The newest `Databases` record.
pub(crate) struct DatabaseMap {
    ids: Vec<DbId>,
    next: u64,
    addr: RecordAddr,
}

impl DatabaseMap {
    /// What such a record says.
    pub(crate) fn read(record: &Record<'_>, addr: RecordAddr) -> Result<Self, BadRecord> {
        let mut value = record.value;
        let mut read = || {
            let next = varint::take(&mut value).filter(|next| *next <= NEXT_ID_MAX)?;
            let mut ids = Vec::new();
            while !value.is_empty() {
                ids.push(DbId(varint::take(&mut value)?));
            }
            Some(Self { ids, next, addr })
        };
        read().ok_or(BadRecord { kind: record.kind, what: "no map" })
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

const fn packed_kind(kind: RecordKind) -> Kind {
    match kind {
        RecordKind::ListPacked => Kind::ListPacked,
        RecordKind::HashPacked => Kind::HashPacked,
        RecordKind::SetPacked => Kind::SetPacked,
        RecordKind::ZSetPacked => Kind::ZSetPacked,
        _ => panic!("the other kinds were handled before"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::Hash;
    use base::SegmentId;

    fn replay(records: &[Record<'_>], database_count: usize) -> (Keyspace<NoJournal>, Vec<u32>) {
        let keyspace = Keyspace::new(NoJournal, [1; 16], database_count);
        let (mut replay, mut retired) = (Replay::new(keyspace), Vec::new());
        for (ordinal, record) in (0..).zip(records) {
            let addr = RecordAddr::new(SegmentId(1), ordinal);
            replay.apply(record, addr, &mut retired).expect("well-formed");
        }
        let keyspace = replay.finish(&mut retired).expect("well-formed");
        let mut retired: Vec<u32> = retired.into_iter().map(RecordAddr::ordinal).collect();
        retired.sort_unstable();
        (keyspace, retired)
    }

    const ID: ObjectId = ObjectId(5);

    fn root(key: &[u8]) -> Record<'_> {
        Record::root(RecordKind::Hash, DbId(0), key, ID, &[0], None)
    }

    fn field(name: &[u8]) -> Record<'_> {
        Record::element(RecordKind::HashField, ID, name, b"v")
    }

    fn string<'a>(db: u64, key: &'a [u8], value: &'a [u8]) -> Record<'a> {
        Record::whole(RecordKind::String, DbId(db), key, value, None)
    }

    #[test]
    fn an_object_whose_key_was_overwritten_is_garbage() {
        // The string reads as the object's id: only the address tells that it is no root.
        let (mut keyspace, retired) = replay(&[root(b"k"), field(b"f"), string(0, b"k", b"5")], 1);
        assert_eq!(keyspace.string(0, b"k").map(|v| v.and_then(|v| v.as_int())), Ok(Some(5)));
        assert_eq!(retired, [0, 1]);
    }

    #[test]
    fn elements_find_a_root_that_comes_later_and_moves() {
        let records =
            [field(b"f"), root(b"old"), root(b"new"), Record::key_deleted(DbId(0), b"old")];
        let (mut keyspace, retired) = replay(&records, 1);
        assert!(!keyspace.exists(0, b"old", false));
        let value = keyspace.read::<Hash>(0, b"new").map(|hash| hash.and_then(|h| h.get(b"f")));
        assert_eq!(value, Ok(Some(&b"v"[..])));
        assert_eq!(retired, [1]);
    }

    #[test]
    fn an_object_without_elements_is_no_key() {
        let gone = Record::element_deleted(ID, b"f");
        let (mut keyspace, retired) = replay(&[root(b"k"), field(b"f"), gone], 1);
        assert!(!keyspace.exists(0, b"k", false));
        assert_eq!(retired, [0, 1]);
    }

    #[test]
    fn an_object_has_one_type() {
        let keyspace = Keyspace::new(NoJournal, [1; 16], 1);
        let (mut replay, mut retired) = (Replay::new(keyspace), Vec::new());
        let addr = RecordAddr::new(SegmentId(1), 0);
        assert_eq!(replay.apply(&root(b"k"), addr, &mut retired), Ok(()));
        let member = Record::element(RecordKind::SetMember, ID, b"m", b"");
        assert!(replay.apply(&member, addr, &mut retired).is_err());
    }

    #[test]
    fn databases_that_no_index_maps_to_are_garbage() {
        let map = Record::whole(RecordKind::Databases, DbId(0), &[], &[3, 2, 1], None);
        let records = [string(0, b"a", b"x"), string(1, b"b", b"x"), map, string(2, b"c", b"x")];
        let (mut keyspace, retired) = replay(&records, 2);
        assert!(keyspace.exists(0, b"c", false) && keyspace.exists(1, b"b", false));
        assert_eq!((keyspace.size(0).0, keyspace.size(1).0), (1, 1));
        assert_eq!(retired, [0]);
    }

    #[test]
    fn a_database_that_no_log_can_have_is_refused() {
        let keyspace = Keyspace::new(NoJournal, [1; 16], 2);
        let (mut replay, mut retired) = (Replay::new(keyspace), Vec::new());
        let addr = RecordAddr::new(SegmentId(1), 7);
        replay
            .apply(&string(1 << 40, b"a", b"x"), addr, &mut retired)
            .expect("by itself it may be");
        assert_eq!(replay.finish(&mut retired).err().map(|(_, at)| at), Some(addr));
    }

    #[test]
    fn fewer_databases_hide_data_and_lose_none() {
        let (mut keyspace, retired) = replay(&[string(3, b"d", b"x")], 2);
        assert_eq!(keyspace.database_count(), 4);
        assert!(keyspace.exists(3, b"d", false) && retired.is_empty());
    }
}
