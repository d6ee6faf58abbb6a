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
//! - While replaying, an entry whose key is bound to an object holds the object's id as a number
//!   and is marked in `bound`.

use base::{DbId, ObjectId, Record, RecordAddr, RecordKind, varint};
use hashbrown::HashMap;

use crate::db::Db;
use crate::entry::{Entry, Kind, Payload};
use crate::keyspace::Keyspace;
use crate::object::Object;
use crate::packed::Packed;
use crate::string;

/// A keyspace being filled from the log. [`Replay::finish`] gives it back.
pub struct Replay {
    keyspace: Keyspace,
    /// Every database that a record named, mapped or not.
    dbs: HashMap<DbId, Db>,
    objects: HashMap<ObjectId, Gathered>,
    /// The ids that the indexes map to, by the newest record.
    map: Option<(Vec<DbId>, RecordAddr)>,
}

struct Gathered {
    object: Object,
    root: Option<(DbId, Box<[u8]>)>,
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
    pub fn new(mut keyspace: Keyspace) -> Self {
        let dbs = keyspace.dbs.drain(..).map(|db| (db.id, db)).collect();
        Self { keyspace, dbs, objects: HashMap::new(), map: None }
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
        match record.kind {
            RecordKind::Databases => self.databases(record, addr, retired).ok_or(bad("no map"))?,
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
                let (kind, arity) = packed_kind(kind);
                if Packed::check(record.value, arity).is_none() {
                    return Err(bad("malformed elements"));
                }
                let entry = Entry::with_bytes(record.key, kind, record.value);
                self.set_key(record, entry, addr, retired);
            }
        }
        self.keyspace.recorder.next_object =
            self.keyspace.recorder.next_object.max(record.object.0 + 1);
        Ok(())
    }

    fn databases(
        &mut self,
        record: &Record<'_>,
        addr: RecordAddr,
        retired: &mut Vec<RecordAddr>,
    ) -> Option<()> {
        let mut value = record.value;
        let next = u32::try_from(varint::take(&mut value)?).ok()?;
        let mut ids = Vec::new();
        while !value.is_empty() {
            ids.push(DbId(u32::try_from(varint::take(&mut value)?).ok()?));
        }
        self.keyspace.next_db_id = self.keyspace.next_db_id.max(next);
        retired.extend(self.map.replace((ids, addr)).map(|old| old.1));
        Some(())
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
        let db = self.dbs.entry(record.db).or_insert_with(|| Db::new(record.db));
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
        gathered.root = Some((record.db, record.key.into()));
        let entry = Entry::with_int(record.key, record.object.0.cast_signed());
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
        if record.object == ObjectId::NONE {
            return Err("no object");
        }
        if !self.objects.contains_key(&record.object) {
            let object = Object::for_replay(record.object, record.kind).ok_or("no object")?;
            self.objects.insert(record.object, Gathered { object, root: None });
        }
        Ok(self.objects.get_mut(&record.object).expect("just inserted"))
    }

    /// Joins objects with their keys and databases with their indexes, and gives the keyspace.
    /// The records of what belongs to nothing are pushed to `retired`.
    #[must_use]
    pub fn finish(mut self, retired: &mut Vec<RecordAddr>) -> Keyspace {
        let hasher = self.keyspace.recorder.hasher;
        for (id, Gathered { mut object, root }) in self.objects.drain() {
            let entry = root.and_then(|(db, key)| {
                self.dbs.get_mut(&db)?.keys.find_mut(hasher.hash(&key), &key)
            });
            match entry {
                Some(entry) if names(entry, id) => {
                    object.replay_finish(hasher);
                    entry.replace_object(Box::new(object));
                }
                _ => retired.extend(object.into_addrs().flatten()),
            }
        }
        let mut keyspace = self.keyspace;
        let ids = match self.map {
            Some((ids, addr)) => {
                keyspace.databases_addr = Some(addr);
                ids
            }
            None => (0..keyspace.next_db_id).map(DbId).collect(),
        };
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
        keyspace
    }
}

/// Whether the entry is a root's, of this object.
fn names(entry: &Entry, id: ObjectId) -> bool {
    matches!(entry.payload(), Payload::Int(number) if number.cast_unsigned() == id.0)
}

const fn packed_kind(kind: RecordKind) -> (Kind, usize) {
    match kind {
        RecordKind::ListPacked => (Kind::ListPacked, 1),
        RecordKind::HashPacked => (Kind::HashPacked, 2),
        RecordKind::SetPacked => (Kind::SetPacked, 1),
        RecordKind::ZSetPacked => (Kind::ZSetPacked, 2),
        _ => panic!("the other kinds were handled before"),
    }
}
