//! The ends of what is applied: of a block, after which the keyspace is read, and of the feed.
//!
//! ```text
//!   end_block   objects without a root are freed, but the newest if it never had one; after a load
//!               those with a root go into the entries of their keys
//!   settle      the same, and whatever waits still is freed: the newest object, databases that no
//!               index maps to
//! ```
//!
//! What large values leave behind is freed in slices, as that of a deletion.

use base::{DbId, DbIndex, Lsn, ObjectId, RecordAddr};

use crate::database_map::{database_ids, has_id, no_database};
use crate::db::{Db, Parts};
use crate::entry::Entry;
use crate::keyspace::Keyspace;
use crate::limbo::{Feed, Home, Limbo, Root, Waiting};
use crate::object::Object;
use crate::record_check::BadRecord;

/// A record that makes no sense, and where it is.
type BadRecordAt = (BadRecord, RecordAddr);

impl Keyspace {
    /// Ends a block, or what was loaded: from here on the keyspace may be read, until the next record
    /// is applied. Addresses that turn out to be obsolete are pushed to `retired`.
    ///
    /// # Errors
    /// A record of a database that nothing has ever given an id to, and where it is.
    pub fn end_block(&mut self, retired: &mut Vec<RecordAddr>) -> Result<(), BadRecordAt> {
        if self.limbo.is_none() {
            self.load();
        }
        let mut limbo = self.limbo.take().expect("just made");
        let ended = self.end_block_in(&mut limbo, true, retired);
        self.limbo = Some(limbo);
        ended
    }

    /// Ends the feed: nothing more comes, so what waits is garbage, and commands may change the
    /// keyspace. As [`Keyspace::end_block`] otherwise.
    ///
    /// # Errors
    /// As [`Keyspace::end_block`].
    pub fn settle(&mut self, retired: &mut Vec<RecordAddr>) -> Result<(), BadRecordAt> {
        let Some(mut limbo) = self.limbo.take() else { return Ok(()) };
        for (_, home, addr) in self.hollow_roots(&mut limbo) {
            self.remove_rooted(&mut limbo, home, addr, retired);
        }
        self.end_block_in(&mut limbo, false, retired)?;
        for db in std::mem::take(&mut limbo.unmapped).into_values() {
            self.free.database(db);
        }
        assert!(limbo.waiting.is_empty() && limbo.bytes() == 0, "nothing waits at the end");
        if self.had_expiring_fields {
            let hasher = self.recorder.hasher;
            self.dbs.iter_mut().for_each(|db| db.note_all_due_fields(hasher));
        }
        Ok(())
    }

    /// Frees at once all that waits to be freed; for a caller that has nothing else to do.
    pub fn free_all(&mut self, retired: &mut Vec<RecordAddr>) {
        let mut limbo = self.limbo.as_mut();
        let mut freed = |id, db| limbo.iter_mut().for_each(|limbo| limbo.note_freed(id, db));
        while self.free.step(retired, usize::MAX, &mut freed) {}
    }

    fn end_block_in(
        &mut self,
        limbo: &mut Limbo,
        goes_on: bool,
        retired: &mut Vec<RecordAddr>,
    ) -> Result<(), BadRecordAt> {
        if let Some((id, addr)) = limbo.last_db
            && !has_id(limbo.map.as_ref(), id)
        {
            return Err((no_database(), addr));
        }
        if limbo.feed == Feed::Load {
            self.send_home(limbo, goes_on, retired);
        }
        let newest = limbo.newest;
        let is_to_come = |waiting: &Waiting| {
            goes_on && waiting.root == Root::ToCome && waiting.object.id() == newest
        };
        for waiting in limbo.take_unless(is_to_come) {
            self.free.object(retired, waiting.into_object(self.recorder.hasher));
        }
        limbo.hollow = self.hollow_roots(limbo).into_iter().map(|(id, ..)| id).collect();
        let seen = limbo.last_db.map_or(0, |(id, _)| id.0 + 1);
        if seen > self.next_db_id {
            self.map_databases(limbo, seen, Lsn::ZERO);
        }
        limbo.feed = Feed::Blocks;
        limbo.is_in_block = false;
        Ok(())
    }

    /// Puts every object with a root into the entry of its key, at the end of a load.
    fn send_home(&mut self, limbo: &mut Limbo, goes_on: bool, retired: &mut Vec<RecordAddr>) {
        let hasher = self.recorder.hasher;
        let mut empty = Vec::new();
        for (id, waiting) in std::mem::take(&mut limbo.waiting) {
            let Root::At { home, addr } = waiting.root else {
                limbo.waiting.insert(id, waiting);
                continue;
            };
            let is_empty = waiting.object.len() == 0;
            let entry = limbo.db(&mut self.dbs, home.db).and_then(|(_, db)| {
                db.parts().keys.find_mut_by(home.hash, |entry| entry.addr() == Some(addr))
            });
            match entry {
                // An empty collection does not exist: no command logs one. But of one that a full rewrite
                // has just begun there is only the root.
                Some(_) if is_empty && !goes_on => empty.push((home, addr)),
                Some(entry) => {
                    let object = waiting.into_object(hasher);
                    if object.has_stale_root() && !goes_on {
                        self.stale_roots.push((home, addr));
                    }
                    entry.replace_object(Box::new(object));
                    if goes_on {
                        limbo.homes.insert(id, home);
                    }
                    if is_empty {
                        limbo.hollow.push(id);
                    }
                }
                // The key is gone: so is the object.
                None => _ = limbo.waiting.insert(id, waiting),
            }
        }
        // In an order that does not depend on the map's.
        empty.sort_unstable_by_key(|(_, addr)| *addr);
        for (home, addr) in empty {
            self.remove_rooted(limbo, home, addr, retired);
        }
    }

    /// Logs the roots of streams anew that do not say which their last node is, as blocks of the log were lost. What reads
    /// the root alone is to find the end of the stream.
    pub fn log_stale_roots(&mut self) {
        let mut roots = std::mem::take(&mut self.stale_roots);
        // In an order that does not depend on the map's.
        roots.sort_unstable_by_key(|(_, addr)| *addr);
        for (home, addr) in roots {
            let Some(db) = self.dbs.index_of(home.db) else { continue };
            let Parts { id, keys, .. } = self.dbs[db].parts();
            let entry = keys.find_mut_by(home.hash, |entry| entry.addr() == Some(addr));
            if let Some(entry) = entry.filter(|entry| !entry.is_bare()) {
                self.recorder.log_key(id, entry);
                let lsn = self.recorder.open_lsn();
                if let Some(object) = entry.object_mut() {
                    object.note_root();
                    object.changed_at = lsn;
                }
            }
        }
    }

    /// The objects without elements that lie in entries still, and where their roots are.
    fn hollow_roots(&mut self, limbo: &mut Limbo) -> Vec<(ObjectId, Home, RecordAddr)> {
        let mut ids = std::mem::take(&mut limbo.hollow);
        ids.sort_unstable();
        ids.dedup();
        let root = |id: ObjectId| {
            let home = limbo.homes.get(&id).copied()?;
            let (_, db) = limbo.db(&mut self.dbs, home.db)?;
            let is_hollow = |object: &Object| object.id() == id && object.len() == 0;
            let entry = db.keys().find_by(home.hash, |entry| entry.object().is_some_and(is_hollow));
            Some((id, home, entry.and_then(Entry::addr)?))
        };
        ids.into_iter().filter_map(root).collect()
    }

    /// Gives the indexes the databases that the newest `Databases` record says. Those that it gave
    /// an id before, and that no index has now, will never have one: they are dropped.
    pub(crate) fn map_databases(&mut self, limbo: &mut Limbo, seen: u64, lsn: Lsn) {
        let (ids, next) = database_ids(limbo.map.as_ref(), limbo.database_count, seen);
        self.next_db_id = next;
        if self.dbs.iter().map(|db| db.id).eq(ids.iter().copied()) {
            return;
        }
        let changed: Vec<DbIndex> = DbIndex::all(ids.len().max(self.dbs.len()))
            .filter(|db| self.dbs.get(*db).map(|db| db.id) != ids.get(db.get()).copied())
            .collect();
        let watched = self.watched_in(limbo, &changed);
        limbo.unmapped.extend(std::mem::take(&mut self.dbs).into_iter().map(|db| (db.id, db)));
        self.dbs = ids
            .iter()
            .map(|id| limbo.unmapped.remove(id).unwrap_or_else(|| Db::new(*id)))
            .collect();
        let is_over = |id: DbId, db: &Db| {
            db.is_empty() || limbo.map.as_ref().is_some_and(|map| map.has_given(id))
        };
        for (_, db) in limbo.unmapped.extract_if(.., |id, db| is_over(*id, db)) {
            self.dirty += db.keys().len() as u64;
            self.free.database(db);
        }
        if limbo.feed == Feed::Blocks {
            self.recorder.note_flush_at(lsn);
            self.databases_applied(&changed, watched);
        }
    }

    /// The watched keys of these databases, and whether a reader finds them.
    fn watched_in(&self, limbo: &Limbo, dbs: &[DbIndex]) -> Vec<(DbIndex, Box<[u8]>, bool)> {
        if limbo.feed == Feed::Load {
            return Vec::new();
        }
        let keys = dbs
            .iter()
            .flat_map(|db| self.watched.keys_of(*db).into_iter().map(move |key| (*db, key)));
        keys.map(|(db, key)| {
            let is_there = self.is_there(db, &key);
            (db, key, is_there)
        })
        .collect()
    }

    /// Tells of the keys of databases that have changed as a whole.
    fn databases_applied(&mut self, dbs: &[DbIndex], watched: Vec<(DbIndex, Box<[u8]>, bool)>) {
        for (db, key, was_there) in watched {
            if was_there || self.is_there(db, &key) {
                self.effects.touched.push((db, key));
            }
        }
        self.effects.note_all_changed(&self.watched);
        for db in dbs {
            for key in self.awaited.keys_of(*db) {
                if self.is_there(*db, &key) {
                    self.effects.ready.push((*db, key));
                }
            }
            self.wake_all(*db);
        }
    }

    /// Whether a reader finds the key; nothing is noted by it.
    fn is_there(&self, db: DbIndex, key: &[u8]) -> bool {
        let entry = self.dbs.get(db).and_then(|db| db.keys().find(self.hash_of(key), key));
        entry.is_some_and(|entry| !self.is_expired(entry))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::journal::NoJournal;
    use base::{Record, RecordKind as Kind, SegmentId};
    use proptest::prelude::*;

    /// Any records, of few keys, objects, elements and databases: most logs are none. Returns what
    /// was retired, in order.
    fn apply_any(seed: u64, count: u32) -> Vec<RecordAddr> {
        let mut rng = fastrand::Rng::with_seed(seed);
        let mut keyspace = Keyspace::new(NoJournal, [1; 16], 2);
        let (mut retired, mut applied) = (Vec::new(), Vec::new());
        for ordinal in 0..count {
            let addr = RecordAddr::new(SegmentId(1), ordinal);
            let (key, sub) = ([rng.u8(..3)], u64::from(rng.u8(..3)).to_be_bytes());
            let number = rng.u8(1..5);
            let (db, id) = (DbId(rng.u64(..4)), ObjectId(u64::from(number)));
            // An object has one type, or the log is refused.
            let (root, element, value) = [
                (Kind::Hash, Kind::HashField, &b"value"[..]),
                (Kind::ZSet, Kind::ZSetMember, &[0, 0, 0, 0, 0, 0, 0, 1]),
                (Kind::List, Kind::ListNode, b"\0\x01a"),
            ][usize::from(number % 3)];
            let map = [[4, 0, 1], [4, 2, 1], [4, 3, 0], [4, 1, 2]][rng.usize(..4)];
            let record = match rng.u8(..20) {
                0..3 => Record::whole(Kind::String, db, &key, b"v", Some(5)),
                3..8 => Record::root(root, db, &key, id, &[0], None),
                8..15 => Record::element(element, id, &sub, value),
                15 => Record::element_deleted(id, &sub),
                16..18 => Record::key_deleted(db, &key),
                18 if rng.bool() => Record::whole(Kind::Databases, DbId(0), &[], &map, None),
                _ => {
                    match rng.u8(..5) {
                        0 => keyspace.load(),
                        1 => keyspace.free_all(&mut retired),
                        _ => keyspace.end_block(&mut retired).expect("the databases have ids"),
                    }
                    continue;
                }
            };
            keyspace.apply(&record, addr, Lsn(1), &mut retired).expect("well-formed");
            if !record.kind.is_delete() {
                applied.push(addr);
            }
        }
        keyspace.settle(&mut retired).expect("the databases have ids");
        keyspace.free_all(&mut retired);
        let mut addrs = retired.clone();
        addrs.extend(keyspace.databases_addr);
        for db in std::mem::take(&mut keyspace.dbs) {
            keyspace.free.database(db);
        }
        keyspace.free_all(&mut addrs);
        addrs.sort_unstable();
        assert_eq!(addrs, applied, "every record is retired once, or belongs to something");
        retired
    }

    proptest! {
        #[test]
        fn no_record_is_lost_whatever_is_applied(seed: u64, count in 0..400u32) {
            let retired = apply_any(seed, count);
            prop_assert_eq!(retired, apply_any(seed, count), "the order is not left to chance");
        }
    }
}
