//! What a keyspace that is fed from a log holds in addition to its databases.
//!
//! ```text
//!   waiting   object → what has come of it      in no entry: its root is still to come, or is gone
//!   homes     object → (database, hash)         in the entry of its key: where that is
//!   unmapped  database → its keys               no index maps to it: the record that does is to
//!                                               come, or never will
//! ```
//!
//! An object waits, or it has a home. While records are *loaded*, which ends before anything reads,
//! all objects wait: their elements gather in whatever is cheapest, and are arranged once. While
//! *blocks* are applied between reads, an object goes home with its root, and what still waits when a
//! block has ended is bounded by [`WAITING_BYTES_MAX`].
//!
//! # Invariants
//! - `homes` has exactly the objects that lie in entries of databases in use, once records are no
//!   longer loaded; those in dropped databases leave it as they are freed.
//! - While records are loaded, the entry of a key that is bound to a waiting object is a placeholder;
//!   it is the object's as long as it has the address of the object's newest root.
//! - Between two blocks at most one object waits: the newest, if it has had no root. A keyspace logs
//!   an object to its end before it gives out the next number, so any other one was deleted, and its
//!   elements are what a compaction has left.

use std::collections::BTreeMap;

use base::{DbId, DbIndex, ObjectId, Record, RecordAddr, RecordKind};
use hashbrown::HashMap;
use hashbrown::hash_map::Entry as Slot;

use crate::database_map::DatabaseMap;
use crate::db::{Db, Dbs};
use crate::hasher::KeyHasher;
use crate::object::Object;

/// How many bytes of elements may wait for their roots between two blocks.
pub(crate) const WAITING_BYTES_MAX: usize = 64 << 20;

/// What an element costs while it waits, beyond its name and value: the block's header and its place
/// in a table.
const ELEMENT_BYTES: usize = 32;

/// What reads the keyspace while it is fed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Feed {
    /// Nothing does, until the end of what is being loaded.
    Load,
    /// Commands do, between two blocks.
    Blocks,
}

/// Where the root of a waiting object is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Root {
    /// None has come.
    ToCome,
    /// In the entry of a key, a placeholder, while that entry has this address.
    At { home: Home, addr: RecordAddr },
    /// It was deleted, or its key holds something else now.
    Gone,
}

/// An object that lies in no entry.
pub(crate) struct Waiting {
    pub(crate) object: Object,
    /// It was never in an entry, so nothing is arranged: see [`crate::object::Large::gather`].
    pub(crate) is_gathering: bool,
    pub(crate) root: Root,
    bytes: usize,
}

impl Waiting {
    /// The object, its elements arranged.
    pub(crate) fn into_object(mut self, hasher: KeyHasher) -> Object {
        if self.is_gathering {
            self.object.arrange(hasher);
        }
        self.object
    }
}

/// The entry of an object's key: the one in this database, with this hash, that holds the object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Home {
    pub(crate) db: DbId,
    pub(crate) hash: u64,
}

/// See the file's top.
pub(crate) struct Limbo {
    pub(crate) feed: Feed,
    pub(crate) waiting: HashMap<ObjectId, Waiting>,
    pub(crate) homes: HashMap<ObjectId, Home>,
    /// Databases that no index maps to.
    pub(crate) unmapped: BTreeMap<DbId, Db>,
    /// The newest `Databases` record.
    pub(crate) map: Option<DatabaseMap>,
    /// The largest database that no index mapped to when it was first named, and that record.
    pub(crate) last_db: Option<(DbId, RecordAddr)>,
    /// How many databases the configuration has.
    pub(crate) database_count: usize,
    /// The newest object that a record has named.
    pub(crate) newest: ObjectId,
    /// Objects of which there was another one with the same number.
    strays: Vec<Waiting>,
    /// Objects that lie in entries without any element: more will come, or the key goes.
    pub(crate) hollow: Vec<ObjectId>,
    pub(crate) is_in_block: bool,
    /// The index of the database that was named last.
    last_index: DbIndex,
    /// Of what waits for roots to come.
    bytes: usize,
}

impl Limbo {
    /// For a keyspace of this many databases.
    pub(crate) fn new(feed: Feed, database_count: usize) -> Self {
        Self {
            feed,
            waiting: HashMap::new(),
            homes: HashMap::new(),
            unmapped: BTreeMap::new(),
            map: None,
            last_db: None,
            database_count,
            newest: ObjectId::NONE,
            strays: Vec::new(),
            hollow: Vec::new(),
            is_in_block: false,
            last_index: DbIndex::FIRST,
            bytes: 0,
        }
    }

    /// Whether more waits than may between two blocks.
    pub(crate) const fn is_full(&self) -> bool {
        self.bytes > WAITING_BYTES_MAX
    }

    /// Notes that an object of a dropped database is freed: it has no home there any more. In another
    /// database there may be one with its number by now.
    pub(crate) fn note_freed(&mut self, id: ObjectId, db: DbId) {
        if self.homes.get(&id).is_some_and(|home| home.db == db) {
            self.homes.remove(&id);
        }
    }

    /// The bytes that wait for roots to come.
    pub(crate) const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Takes over an element's record, whose object has no home. Returns the address of the record
    /// that it supersedes.
    pub(crate) fn apply_element(
        &mut self,
        hasher: KeyHasher,
        record: &Record<'_>,
        addr: RecordAddr,
    ) -> Result<Option<RecordAddr>, &'static str> {
        let (sub, value) = (record.sub, record.value);
        if record.kind == RecordKind::ElementDeleted {
            let Some(waiting) = self.waiting.get_mut(&record.object) else { return Ok(None) };
            return Ok(waiting.object.apply_deleted(hasher, sub, waiting.is_gathering));
        }
        let waiting = waiting_in(&mut self.waiting, record)?;
        if waiting.root == Root::ToCome {
            let bytes = ELEMENT_BYTES + sub.len() + value.len();
            waiting.bytes += bytes;
            self.bytes += bytes;
        }
        Ok(waiting.object.apply_element(hasher, record, addr, waiting.is_gathering))
    }

    /// Takes over a root's record, whose object has no home, and where its key is. Returns where the
    /// root was before.
    pub(crate) fn apply_root(
        &mut self,
        record: &Record<'_>,
        root: Root,
    ) -> Result<Root, &'static str> {
        let waiting = waiting_in(&mut self.waiting, record)?;
        waiting.object.apply_root(record.value);
        self.bytes -= std::mem::take(&mut waiting.bytes);
        Ok(std::mem::replace(&mut waiting.root, root))
    }

    /// Takes out an object that waits no longer, its elements arranged.
    pub(crate) fn take(&mut self, id: ObjectId, hasher: KeyHasher) -> Option<Object> {
        let waiting = self.waiting.remove(&id)?;
        self.bytes -= waiting.bytes;
        Some(waiting.into_object(hasher))
    }

    /// Takes out the objects that wait, but those for which `stays` holds; in the order of their ids,
    /// because that in which they are freed must not depend on chance.
    pub(crate) fn take_unless(&mut self, stays: impl Fn(&Waiting) -> bool) -> Vec<Waiting> {
        let taken = self.waiting.extract_if(|_, waiting| !stays(waiting));
        let mut taken: Vec<Waiting> = taken.map(|(_, waiting)| waiting).collect();
        taken.sort_unstable_by_key(|waiting| waiting.object.id());
        self.bytes -= taken.iter().map(|waiting| waiting.bytes).sum::<usize>();
        taken.append(&mut self.strays);
        taken
    }

    /// Takes in an object whose key was deleted or overwritten.
    pub(crate) fn unroot(&mut self, object: Object) {
        let id = object.id();
        self.homes.remove(&id);
        let waiting = Waiting { object, is_gathering: false, root: Root::Gone, bytes: 0 };
        if let Some(other) = self.waiting.insert(id, waiting) {
            // No keyspace has logged that: elements came when the object's database was dropped.
            self.bytes -= other.bytes;
            self.strays.push(other);
        }
    }

    /// The index of a database among `dbs`.
    pub(crate) fn index_of(&self, dbs: &Dbs, id: DbId) -> Option<DbIndex> {
        let is_there = |index: &DbIndex| dbs.get(*index).is_some_and(|db| db.id == id);
        // Most often the same as before, or what it was in the beginning.
        Some(self.last_index)
            .filter(is_there)
            .or_else(|| {
                let number = usize::try_from(id.0).ok()?;
                DbIndex::checked(number, dbs.len()).filter(is_there)
            })
            .or_else(|| dbs.index_of(id))
    }

    /// A database that was named before, and its index if it has one.
    pub(crate) fn db<'a>(
        &'a mut self,
        dbs: &'a mut Dbs,
        id: DbId,
    ) -> Option<(Option<DbIndex>, &'a mut Db)> {
        match self.index_of(dbs, id) {
            Some(index) => {
                self.last_index = index;
                Some((Some(index), &mut dbs[index]))
            }
            None => self.unmapped.get_mut(&id).map(|db| (None, db)),
        }
    }

    /// The database that a record at `addr` names, and its index if it has one.
    pub(crate) fn db_or_new<'a>(
        &'a mut self,
        dbs: &'a mut Dbs,
        id: DbId,
        addr: RecordAddr,
    ) -> (Option<DbIndex>, &'a mut Db) {
        if let Some(index) = self.index_of(dbs, id) {
            self.last_index = index;
            return (Some(index), &mut dbs[index]);
        }
        let db = self.unmapped.entry(id).or_insert_with(|| {
            if self.last_db.is_none_or(|(last, _)| last < id) {
                self.last_db = Some((id, addr));
            }
            Db::new(id)
        });
        (None, db)
    }
}

/// The object that an element's or a root's record names, which has no home.
fn waiting_in<'a>(
    waiting: &'a mut HashMap<ObjectId, Waiting>,
    record: &Record<'_>,
) -> Result<&'a mut Waiting, &'static str> {
    let waiting = match waiting.entry(record.object) {
        Slot::Occupied(slot) => slot.into_mut(),
        Slot::Vacant(slot) => {
            let object = Object::of_record(record.object, record.kind).ok_or("no object")?;
            slot.insert(Waiting { object, is_gathering: true, root: Root::ToCome, bytes: 0 })
        }
    };
    if waiting.object.is_of(record.kind) { Ok(waiting) } else { Err(OTHER_TYPE) }
}

/// What is wrong with a record of an object that is something else.
pub(crate) const OTHER_TYPE: &str = "an object of another type";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::journal::NoJournal;
    use crate::keyspace::Keyspace;
    use base::{Lsn, SegmentId};

    #[test]
    fn what_is_freed_with_its_database_leaves_its_home() {
        let mut keyspace = Keyspace::new(NoJournal, [1; 16], 1);
        let (mut retired, mut ordinal) = (Vec::new(), 0);
        let mut block = |keyspace: &mut Keyspace<NoJournal>, record: &Record<'_>| {
            ordinal += 1;
            let addr = RecordAddr::new(SegmentId(1), ordinal);
            keyspace.apply(record, addr, Lsn(1), &mut retired).expect("well-formed");
            keyspace.end_block(&mut retired).expect("well-formed");
        };
        for number in 1..=100u64 {
            let (id, key) = (ObjectId(number), number.to_be_bytes());
            block(&mut keyspace, &Record::root(RecordKind::Hash, DbId(0), &key, id, &[0], None));
            block(&mut keyspace, &Record::element(RecordKind::HashField, id, b"f", b"v"));
        }
        let homes = |keyspace: &Keyspace| keyspace.limbo.as_ref().map(|limbo| limbo.homes.len());
        assert_eq!(homes(&keyspace), Some(100));
        let map = Record::whole(RecordKind::Databases, DbId(0), &[], &[2, 1], None);
        block(&mut keyspace, &map);
        assert!(keyspace.free_step(60));
        assert!(homes(&keyspace).is_some_and(|count| count < 100));
        while keyspace.free_step(60) {}
        assert_eq!(homes(&keyspace), Some(0));
    }
}
