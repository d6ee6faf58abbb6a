//! One database: its keys, and the list of those that expire; and all of them by index.
//!
//! # Invariants
//! - `expiring[ttl.slot]` is the hash of the key, for every entry that has a [`Ttl`]; and every
//!   slot belongs to one. So a random expiring key is one index away, and setting or clearing an
//!   expiry is constant work.
//! - `bare_count` is how many entries of `keys` are bare, and `lost_count` how many are lost: entries
//!   come, go and change their value through this type where they may be.
//! - `due_hashes` knows every hash in memory that has a field that expires, and when the first one does, once
//!   the keyspace is no longer fed.
//! - `cold_count` is how many keys are in the log and in neither `keys` nor `lost_names`.
//! - Entries are changed by methods of this type, which hand over to a walk what it has not visited
//!   ([`crate::walk`]); so whatever changes one can be found here. [`Parts`] is the way around that, for
//!   what runs without a walk or changes no more than where records are.

mod walked;

use std::ops::{Index, IndexMut};

use base::{DbId, DbIndex, Lsn, ObjectId};

use crate::due_hashes::DueHashes;
use crate::entry::{Entry, Kind, Ttl};
use crate::hash;
use crate::hasher::{Identity, KeyHasher};
use crate::lost::LostNames;
use crate::object::Object;
use crate::recorder::Recorder;
use crate::table::{Keyed, Place, Table};
use crate::walk::Walker;

use walked::Unvisited;

/// See the file's top.
pub(crate) struct Db {
    pub(crate) id: DbId,
    keys: Table<Entry>,
    /// While a walk has not visited all of it.
    unvisited: Option<Unvisited>,
    expiring: Vec<u64>,
    /// Those of `keys` that are hashes with fields that expire.
    due_hashes: DueHashes,
    /// How many keys are in the log and not in `keys`.
    pub(crate) cold_count: u64,
    /// How many of those expire, as far as that is known: after a start it is told late.
    cold_expiring: i64,
    /// How many of `keys` are bare.
    pub(crate) bare_count: u64,
    /// How many of `keys` are lost; these are bare, too.
    pub(crate) lost_count: u64,
    /// Keys that are in no table, because their names are lost.
    pub(crate) lost_names: LostNames,
    /// Whether a key that is not in `keys` may be in the log: an index is asked.
    pub(crate) may_be_cold: bool,
}

impl Db {
    /// A database without keys.
    pub(crate) fn new(id: DbId) -> Self {
        Self {
            id,
            keys: Table::new(),
            unvisited: None,
            expiring: Vec::new(),
            due_hashes: DueHashes::default(),
            cold_count: 0,
            cold_expiring: 0,
            bare_count: 0,
            lost_count: 0,
            lost_names: LostNames::new(),
            may_be_cold: false,
        }
    }

    /// A database whose keys may all be in the log only.
    pub(crate) fn cold(id: DbId) -> Self {
        Self { may_be_cold: true, ..Self::new(id) }
    }

    /// The entries, by key.
    pub(crate) const fn keys(&self) -> &Table<Entry> {
        &self.keys
    }

    /// The entries, and what is to be freed with them: the database is gone.
    pub(crate) fn into_keys(self) -> (Table<Entry>, DueHashes) {
        (self.keys, self.due_hashes)
    }

    /// The entries, to be changed in any way that a walk need not know of: see [`Parts`].
    pub(crate) fn parts(&mut self) -> Parts<'_> {
        let Self { id, keys, bare_count, lost_count, due_hashes, .. } = self;
        Parts { id: *id, keys, bare_count, lost_count, due_hashes }
    }

    /// How many keys there are, wherever.
    pub(crate) fn len(&self) -> usize {
        let cold_count = usize::try_from(self.cold_count).unwrap_or(usize::MAX);
        self.keys.len() + self.lost_names.len() + cold_count
    }

    /// Whether it has this key, and not only in the log.
    pub(crate) fn has_key(&self, hasher: KeyHasher, hash: u64, key: &[u8]) -> bool {
        let is_lost =
            || !self.lost_names.is_empty() && self.lost_names.contains_key(&hasher.identity(key));
        self.keys.find(hash, key).is_some() || is_lost()
    }

    /// The entry of the key with this identity, if there is one.
    pub(crate) fn find_by_identity(
        &self,
        hasher: KeyHasher,
        identity: &Identity,
    ) -> Option<&Entry> {
        let hash = KeyHasher::hash_in(identity);
        self.keys.find_by(hash, |entry| hasher.identity(entry.key()) == *identity)
    }

    /// Whether there is no key, wherever.
    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many keys in memory expire.
    pub(crate) const fn expiring_count(&self) -> usize {
        self.expiring.len()
    }

    /// How many keys expire, wherever they are.
    pub(crate) fn all_expiring_count(&self) -> usize {
        self.expiring.len() + usize::try_from(self.cold_expiring).unwrap_or(0)
    }

    /// So many of the keys that were cold at the start expire.
    pub(crate) fn note_cold_expiring(&mut self, count: u64) {
        self.cold_expiring += i64::try_from(count).unwrap_or(i64::MAX);
    }

    /// A key has left memory.
    pub(crate) fn note_departed(&mut self, entry: &Entry) {
        self.note_gone(entry);
        self.may_be_cold = true;
        self.cold_count += 1;
        self.cold_expiring += i64::from(entry.ttl().is_some());
    }

    /// A key that was cold is so no longer.
    pub(crate) fn note_returned(&mut self, expires: bool) {
        debug_assert!(self.cold_count > 0, "more keys were cold than were counted");
        self.cold_count = self.cold_count.saturating_sub(1);
        self.cold_expiring -= i64::from(expires);
    }

    /// A random key that expires.
    pub(crate) fn random_expiring(&self, rng: &mut fastrand::Rng) -> Option<&Entry> {
        let slot = (!self.expiring.is_empty()).then(|| rng.usize(..self.expiring.len()))?;
        let entry = self.keys.find_by(self.expiring[slot], |entry| has_slot(entry, slot));
        Some(entry.expect("every slot belongs to an entry"))
    }

    /// Sets or clears when the entry at `place`, whose key has this hash, expires. Places stay.
    #[inline]
    pub(crate) fn set_expiry(
        &mut self,
        walk: &mut Walker,
        place: Place,
        hash: u64,
        expires_at_ms: Option<i64>,
    ) {
        if self.keys.at(place).expires_at_ms() != expires_at_ms {
            if let Some(walk) = walk {
                self.hand_over(walk, place, hash);
            }
            self.store_expiry(place, hash, expires_at_ms);
        }
    }

    fn store_expiry(&mut self, place: Place, hash: u64, expires_at_ms: Option<i64>) {
        let entry = self.keys.at_mut(place);
        match (entry.ttl(), expires_at_ms) {
            (Some(ttl), Some(expires_at_ms)) => entry.set_ttl(Some(Ttl { expires_at_ms, ..ttl })),
            (None, Some(expires_at_ms)) => {
                let slot = u32::try_from(self.expiring.len()).expect("fewer than 2^32 keys");
                entry.set_ttl(Some(Ttl { expires_at_ms, slot }));
                self.expiring.push(hash);
            }
            (Some(ttl), None) => {
                entry.set_ttl(None);
                self.release_slot(ttl.slot);
            }
            (None, None) => {}
        }
    }

    fn release_slot(&mut self, slot: u32) {
        let at = slot as usize;
        self.expiring.swap_remove(at);
        if let Some(&moved) = self.expiring.get(at) {
            let from = self.expiring.len();
            let entry = self
                .keys
                .find_mut_by(moved, |entry| has_slot(entry, from))
                .expect("every slot belongs to an entry");
            let ttl = entry.ttl().expect("it has a slot");
            entry.set_ttl(Some(Ttl { slot, ..ttl }));
        }
    }

    fn note_here(&mut self, entry: &Entry) {
        self.bare_count += u64::from(entry.is_bare());
        self.lost_count += u64::from(entry.is_lost());
    }

    fn note_gone(&mut self, entry: &Entry) {
        self.bare_count -= u64::from(entry.is_bare());
        self.lost_count -= u64::from(entry.is_lost());
    }

    /// Adds an entry that does not expire, whose key is not there.
    pub(crate) fn insert(
        &mut self,
        walk: &mut Walker,
        hasher: KeyHasher,
        hash: u64,
        mut entry: Entry,
    ) -> Place {
        self.note_here(&entry);
        if let Some(walk) = walk {
            self.note_inserted(walk, hash, &mut entry);
        }
        self.due_hashes.set(hash, hash::first_expiry_ms(&entry));
        self.keys.insert(hasher, hash, entry)
    }

    /// Takes the entry of this key out.
    pub(crate) fn remove(
        &mut self,
        walk: &mut Walker,
        hasher: KeyHasher,
        hash: u64,
        key: &[u8],
    ) -> Option<Entry> {
        let mut entry = self.take(hasher, hash, key)?;
        self.note_gone(&entry);
        if let Some(walk) = walk {
            self.hand_over_gone(walk, hash, &mut entry);
        }
        Some(entry)
    }

    /// Takes the entry of this key out, which the log keeps: see [`Db::note_departed`].
    pub(crate) fn take(&mut self, hasher: KeyHasher, hash: u64, key: &[u8]) -> Option<Entry> {
        let entry = self.keys.remove(hasher, hash, key)?;
        if let Some(ttl) = entry.ttl() {
            self.release_slot(ttl.slot);
        }
        self.due_hashes.set(hash, None);
        Some(entry)
    }

    /// As [`Db::take`], of the entries of a page for which `goes` holds.
    pub(crate) fn take_from_page(
        &mut self,
        hasher: KeyHasher,
        page: usize,
        goes: impl FnMut(&mut Entry) -> bool,
    ) -> Vec<Entry> {
        let taken = self.keys.take_from_page(hasher, page, goes);
        let mut slots: Vec<u32> = taken.iter().filter_map(Entry::ttl).map(|ttl| ttl.slot).collect();
        // What takes the place of a slot is the last one: of those that were taken, none is behind the largest.
        slots.sort_unstable_by(|a, b| b.cmp(a));
        slots.into_iter().for_each(|slot| self.release_slot(slot));
        if self.due_hashes.len() > 0 {
            let hashes = taken.iter().map(|entry| hasher.hash(entry.key()));
            hashes.for_each(|hash| self.due_hashes.set(hash, None));
        }
        taken
    }

    /// Notes when the first field of the entry at `place` expires, whose key has this hash, if it is a hash. Whether
    /// one does, or did.
    pub(crate) fn note_due_fields(&mut self, place: Place, hash: u64) -> bool {
        let entry = self.keys.at(place);
        self.due_hashes.set(hash, hash::first_expiry_ms(entry));
        hash::has_expiring_fields(entry)
    }

    /// Notes when fields expire, of all entries: what had noted that was not told of changes.
    pub(crate) fn note_all_due_fields(&mut self, hasher: KeyHasher) {
        self.due_hashes = DueHashes::default();
        for entry in self.keys.iter() {
            if let Some(at_ms) = hash::first_expiry_ms(entry) {
                self.due_hashes.set(hasher.hash(entry.key()), Some(at_ms));
            }
        }
    }

    /// How many hashes in memory have fields that expire.
    pub(crate) fn due_hash_count(&self) -> usize {
        self.due_hashes.len()
    }

    /// The hash of the key whose field expired first, if one has by then.
    pub(crate) fn first_due_hash(&self, now_ms: i64) -> Option<u64> {
        self.due_hashes.first_due(now_ms)
    }

    /// Notes anew when fields of a key with this hash expire, of which none is due that was said to be.
    pub(crate) fn look_again_at(&mut self, hasher: KeyHasher, hash: u64) {
        // The table compares a few bits of the hash. The time of another key's hash would be due again and again.
        let has_line = |entry: &Entry| hasher.hash(entry.key()) == hash;
        let expires = |entry: &Entry| hash::first_expiry_ms(entry).is_some();
        let entry = self.keys.find_by(hash, |entry| has_line(entry) && expires(entry));
        self.due_hashes.set(hash, entry.and_then(hash::first_expiry_ms));
    }

    /// Puts another entry of the same key in the place of one. Returns that.
    pub(crate) fn replace(&mut self, place: Place, hash: u64, entry: Entry) -> Entry {
        self.note_here(&entry);
        let old = std::mem::replace(self.keys.at_mut(place), entry);
        self.note_due_fields(place, hash);
        self.note_gone(&old);
        old
    }

    /// The value of a bare entry comes back.
    pub(crate) fn fill(&mut self, place: Place, hash: u64, from: Entry) {
        let entry = self.keys.at_mut(place);
        self.bare_count -= u64::from(entry.is_bare());
        entry.fill(from);
        self.note_due_fields(place, hash);
    }

    /// The entry at `place`, of which nothing changes that is counted here.
    pub(crate) fn entry_mut(&mut self, place: Place) -> &mut Entry {
        self.keys.at_mut(place)
    }

    /// Takes the value of an entry away that is about to get another one.
    #[inline]
    pub(crate) fn take_value(&mut self, walk: &mut Walker, place: Place, hash: u64) -> TakenValue {
        if let Some(walk) = walk {
            self.hand_over(walk, place, hash);
        }
        self.due_hashes.set(hash, None);
        let entry = self.keys.at_mut(place);
        let bare_object = entry.bare_object().map(|(_, id)| id);
        if entry.is_bare() {
            self.bare_count -= 1;
            self.lost_count -= u64::from(entry.is_lost());
            entry.replace_bytes(Kind::Str, &[]);
        }
        TakenValue { object: entry.take_object(), bare_object }
    }

    /// The entry at `place`, whose key has this hash, to be changed; its key must stay.
    #[inline]
    pub(crate) fn change(&mut self, walk: &mut Walker, place: Place, hash: u64) -> &mut Entry {
        if let Some(walk) = walk {
            self.hand_over(walk, place, hash);
        }
        self.keys.at_mut(place)
    }

    /// Logs the entry at `place`.
    pub(crate) fn log_key(&mut self, recorder: &mut Recorder, place: Place) {
        recorder.log_key(self.id, self.keys.at_mut(place));
    }

    /// Logs the root of what the bare entry at `place` stands for.
    pub(crate) fn log_root(&mut self, recorder: &mut Recorder, place: Place, object: &Object) {
        recorder.log_root(self.id, self.keys.at_mut(place), object);
    }

    /// Changes what is noted of the use of the entry at `place`.
    #[inline]
    pub(crate) fn note_use(&mut self, place: Place, used: impl FnOnce(u32) -> u32) {
        let entry = self.keys.at_mut(place);
        let before = entry.access();
        let access = used(before);
        if access != before {
            entry.set_access(access);
        }
    }

    /// Notes that elements of the object at `place`, if it is one, have changed in this block.
    pub(crate) fn note_object_changed(&mut self, place: Place, lsn: Lsn) {
        if let Some(object) = self.keys.at_mut(place).object_mut() {
            object.changed_at = lsn;
        }
    }

    /// The bytes that the tables take, without the entries.
    pub(crate) fn overhead_bytes(&self) -> (usize, usize) {
        let expiring = self.expiring.capacity() * size_of::<u64>();
        (self.keys.allocated_bytes(), expiring + self.due_hashes.allocated_bytes())
    }
}

/// A database taken apart, for changes that no walk has to know of: because none is under way while a
/// keyspace is fed or values leave memory, or because what the entries say stays as it is.
pub(crate) struct Parts<'a> {
    pub(crate) id: DbId,
    pub(crate) keys: &'a mut Table<Entry>,
    pub(crate) bare_count: &'a mut u64,
    pub(crate) lost_count: &'a mut u64,
    pub(crate) due_hashes: &'a mut DueHashes,
}

/// What is left of a value that was replaced, and is to be freed.
pub(crate) struct TakenValue {
    /// The large value.
    pub(crate) object: Option<Box<Object>>,
    /// A large value that only the log has.
    pub(crate) bare_object: Option<ObjectId>,
}

/// The databases, by index.
#[derive(Default)]
pub(crate) struct Dbs(Vec<Db>);

impl Dbs {
    pub(crate) const fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn iter(&self) -> std::slice::Iter<'_, Db> {
        self.0.iter()
    }

    pub(crate) fn iter_mut(&mut self) -> std::slice::IterMut<'_, Db> {
        self.0.iter_mut()
    }

    pub(crate) fn get(&self, index: DbIndex) -> Option<&Db> {
        self.0.get(index.get())
    }

    pub(crate) fn get_mut(&mut self, index: DbIndex) -> Option<&mut Db> {
        self.0.get_mut(index.get())
    }

    /// The index that has the database with this id.
    pub(crate) fn index_of(&self, id: DbId) -> Option<DbIndex> {
        DbIndex::all(self.len()).find(|index| self[*index].id == id)
    }

    pub(crate) fn swap(&mut self, a: DbIndex, b: DbIndex) {
        self.0.swap(a.get(), b.get());
    }
}

impl Index<DbIndex> for Dbs {
    type Output = Db;

    fn index(&self, index: DbIndex) -> &Db {
        &self.0[index.get()]
    }
}

impl IndexMut<DbIndex> for Dbs {
    fn index_mut(&mut self, index: DbIndex) -> &mut Db {
        &mut self.0[index.get()]
    }
}

impl FromIterator<Db> for Dbs {
    fn from_iter<T: IntoIterator<Item = Db>>(dbs: T) -> Self {
        Self(dbs.into_iter().collect())
    }
}

impl IntoIterator for Dbs {
    type Item = Db;
    type IntoIter = std::vec::IntoIter<Db>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

fn has_slot(entry: &Entry, slot: usize) -> bool {
    entry.ttl().is_some_and(|ttl| ttl.slot as usize == slot)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_follow_their_entries() {
        let hasher = KeyHasher::new([0; 16]);
        let mut db = Db::new(DbId(0));
        let mut rng = fastrand::Rng::with_seed(3);
        let name = |number: u32| format!("k{number}").into_bytes();
        for number in 0..500 {
            let key = name(number);
            let hash = hasher.hash(&key);
            let entry = Entry::with_bytes(&key, Kind::Str, b"v");
            let place = db.insert(&mut None, hasher, hash, entry);
            db.set_expiry(&mut None, place, hash, (number % 2 == 0).then_some(i64::from(number)));
        }
        for number in (0..500).step_by(3) {
            let key = name(number);
            let hash = hasher.hash(&key);
            if number % 4 == 0 {
                assert!(db.remove(&mut None, hasher, hash, &key).is_some());
            } else {
                let place = db.keys.locate(hash, &key).expect("it is there");
                db.set_expiry(&mut None, place, hash, None);
            }
        }
        assert_eq!(db.expiring_count(), db.keys.iter().filter(|e| e.ttl().is_some()).count());
        for slot in 0..db.expiring_count() {
            let found = db.keys.find_by(db.expiring[slot], |entry| has_slot(entry, slot));
            assert!(found.is_some(), "slot {slot} belongs to nobody");
        }
        assert!(db.random_expiring(&mut rng).is_some());
    }
}
