//! Which key has which large value: a table that is bounded.
//!
//! What was not used for the longest time is forgotten, half of all at a time: then each root pays for its own
//! end, and the table needs no list of its order.

use std::collections::HashMap;
use std::sync::Arc;

use base::{DbId, ObjectId};
use keyspace::Type;

/// About what a root takes besides its key, in both tables.
const ROOT_BYTES: usize = 160;

/// A key's place as one run of bytes: eight of the database, then the name.
type PlaceBytes = Arc<[u8]>;

/// A large value.
#[derive(Debug, Clone)]
pub(crate) struct Root {
    place: PlaceBytes,
    pub(crate) value_type: Type,
    /// When it was used last.
    used: u64,
}

impl Root {
    pub(crate) fn database(&self) -> DbId {
        database_of(&self.place)
    }

    pub(crate) fn key(&self) -> &[u8] {
        &self.place[size_of::<u64>()..]
    }
}

fn database_of(place: &[u8]) -> DbId {
    let (id, _) = place.split_first_chunk().expect("a place begins with its database");
    DbId(u64::from_be_bytes(*id))
}

/// See the file's top.
#[derive(Debug)]
pub(crate) struct Roots {
    by_object: HashMap<ObjectId, Root>,
    by_place: HashMap<PlaceBytes, ObjectId>,
    bytes: usize,
    bytes_max: usize,
    uses: u64,
    forgotten: u64,
    scratch: Vec<u8>,
}

impl Roots {
    pub(crate) fn new(bytes_max: usize) -> Self {
        Self {
            by_object: HashMap::new(),
            by_place: HashMap::new(),
            bytes: 0,
            bytes_max,
            uses: 0,
            forgotten: 0,
            scratch: Vec::new(),
        }
    }

    /// How many were forgotten for want of room.
    pub(crate) const fn forgotten(&self) -> u64 {
        self.forgotten
    }

    pub(crate) const fn bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) fn has(&self, object: ObjectId) -> bool {
        self.by_object.contains_key(&object)
    }

    pub(crate) fn get(&mut self, object: ObjectId) -> Option<&Root> {
        self.uses += 1;
        let root = self.by_object.get_mut(&object)?;
        root.used = self.uses;
        Some(root)
    }

    /// The key has this object now. Returns the key that had it, if that is another one.
    pub(crate) fn bind(
        &mut self,
        object: ObjectId,
        database: DbId,
        key: &[u8],
        value_type: Type,
    ) -> Option<Root> {
        let before = self.remove(object);
        self.unbind(database, key);
        self.uses += 1;
        self.fill_scratch(database, key);
        let place: PlaceBytes = self.scratch.as_slice().into();
        self.bytes += cost(&place);
        self.by_place.insert(Arc::clone(&place), object);
        self.by_object.insert(object, Root { place, value_type, used: self.uses });
        if self.bytes > self.bytes_max {
            self.forget_half();
        }
        before.filter(|before| (before.database(), before.key()) != (database, key))
    }

    /// The key has no large value any more. Returns the type of the one that it had.
    pub(crate) fn unbind(&mut self, database: DbId, key: &[u8]) -> Option<Type> {
        self.fill_scratch(database, key);
        let object = self.by_place.get(self.scratch.as_slice()).copied()?;
        self.remove(object).map(|root| root.value_type)
    }

    /// Forgets those of databases that are gone.
    pub(crate) fn keep_databases(&mut self, is_kept: impl Fn(DbId) -> bool) {
        self.keep(|root| is_kept(root.database()));
    }

    fn remove(&mut self, object: ObjectId) -> Option<Root> {
        let root = self.by_object.remove(&object)?;
        self.by_place.remove(&root.place);
        self.bytes -= cost(&root.place);
        Some(root)
    }

    fn fill_scratch(&mut self, database: DbId, key: &[u8]) {
        self.scratch.clear();
        self.scratch.extend_from_slice(&database.0.to_be_bytes());
        self.scratch.extend_from_slice(key);
    }

    fn keep(&mut self, is_kept: impl Fn(&Root) -> bool) {
        let Self { by_object, by_place, bytes, .. } = self;
        by_object.retain(|_, root| {
            let stays = is_kept(root);
            if !stays {
                by_place.remove(&root.place);
                *bytes -= cost(&root.place);
            }
            stays
        });
    }

    fn forget_half(&mut self) {
        let mut used: Vec<u64> = self.by_object.values().map(|root| root.used).collect();
        let middle = used.len() / 2;
        let (_, &mut median, _) = used.select_nth_unstable(middle);
        let before = self.by_object.len();
        self.keep(|root| root.used > median);
        self.forgotten += (before - self.by_object.len()) as u64;
    }
}

fn cost(place: &PlaceBytes) -> usize {
    ROOT_BYTES + place.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    const DB: DbId = DbId(0);

    fn key_of(roots: &mut Roots, object: u64) -> Option<Vec<u8>> {
        roots.get(ObjectId(object)).map(|root| root.key().to_vec())
    }

    #[test]
    fn an_object_has_one_key_and_a_key_one_object() {
        let mut roots = Roots::new(usize::MAX);
        assert!(roots.bind(ObjectId(1), DB, b"a", Type::Hash).is_none());
        assert!(roots.bind(ObjectId(1), DB, b"a", Type::Hash).is_none(), "it is the same key");
        let before = roots.bind(ObjectId(1), DB, b"b", Type::Hash).expect("it had another key");
        assert_eq!((before.database(), before.key()), (DB, &b"a"[..]));
        assert!(roots.bind(ObjectId(2), DB, b"b", Type::Set).is_none());
        assert_eq!(key_of(&mut roots, 1), None, "its key has another value");
        assert_eq!(roots.unbind(DbId(1), b"b"), None, "a key of another database");
        assert_eq!(roots.unbind(DB, b"b"), Some(Type::Set));
        assert_eq!(key_of(&mut roots, 2), None);
        assert_eq!((roots.bytes(), roots.by_place.len()), (0, 0));
    }

    #[test]
    fn it_forgets_what_was_not_used_for_the_longest_time() {
        let mut roots = Roots::new(100 * (ROOT_BYTES + 16));
        for object in 1..=1000 {
            roots.bind(ObjectId(object), DB, format!("key {object:04}").as_bytes(), Type::Hash);
            assert!(key_of(&mut roots, 1).is_some(), "it is in use");
            assert!(roots.bytes() <= roots.bytes_max);
        }
        assert_eq!(key_of(&mut roots, 1000), Some(b"key 1000".to_vec()));
        assert_eq!(key_of(&mut roots, 2), None);
        assert!(roots.forgotten() > 800);
    }
}
