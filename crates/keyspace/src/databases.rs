//! Whole databases: exchanging them, emptying them, walking over their keys.
//!
//! Clients name a database by index, records by [`DbId`]; the `Databases` record maps the one to
//! the other. So exchanging two databases, or emptying any number of them, is one record: an
//! emptied database gets a fresh id, and what names the old one is garbage.

use base::{DbId, DbIndex, varint};

use crate::db::Db;
use crate::entry::Entry;
use crate::keyspace::Keyspace;
use crate::source::Need;
use crate::table::{Keyed, Table};
use crate::value_type::{Type, entry_type};

impl Keyspace {
    /// Exchanges two databases, for all clients.
    pub fn swap(&mut self, a: DbIndex, b: DbIndex) {
        if a == b {
            return;
        }
        let mut touched = Vec::new();
        for db in [a, b] {
            for key in self.watched.keys_of(db) {
                // Both are looked up, so that no expired key is found out later.
                if self.is_live(a, &key) | self.is_live(b, &key) {
                    touched.push((db, key));
                }
            }
        }
        self.dbs.swap(a, b);
        self.log_databases();
        self.effects.touched.extend(touched);
        self.effects.note_all_changed(&self.watched);
        for db in [a, b] {
            for key in self.awaited.keys_of(db) {
                let hash = self.hash_of(&key);
                // Whether a key is there that memory does not know, the client that waits for it finds out.
                let is_there = self.missing(db, &key, Need::Name).is_some()
                    || self.dbs[db].has_key(self.recorder.hasher, hash, &key);
                if is_there {
                    self.effects.ready.push((db, key));
                }
            }
            self.wake_all(db);
        }
    }

    /// Deletes every key of the databases, with one record. How many there were.
    pub fn flush(&mut self, dbs: impl IntoIterator<Item = DbIndex>) -> usize {
        // That there was nothing to delete may be news too.
        self.recorder.note_read_all();
        let mut count = 0;
        for db in dbs {
            if self.dbs[db].is_empty() {
                continue;
            }
            for key in self.watched.keys_of(db) {
                if self.is_live(db, &key) {
                    self.effects.touched.push((db, key));
                }
            }
            if self.dbs[db].is_empty() {
                // All that there was had expired and is deleted. A fresh id now would be one that
                // no record tells of, and whatever is logged under it would not be found again.
                continue;
            }
            count += self.size(db).0;
            self.wake_all(db);
            self.note_dropped(db);
            let fresh = Db::new(DbId(self.next_db_id));
            self.next_db_id += 1;
            let flushed = Some(std::mem::replace(&mut self.dbs[db], fresh));
            let flushed = match &mut self.walk {
                Some(walk) => flushed.and_then(|flushed| walk.detach(flushed)),
                None => flushed,
            };
            flushed.into_iter().for_each(|flushed| self.free.database(flushed));
        }
        if count > 0 {
            self.log_databases();
            self.dirty += count as u64;
        }
        self.effects.note_all_changed(&self.watched);
        count
    }

    /// Whether the key is there, or cannot be looked for; one that has expired is deleted and told of.
    fn is_live(&mut self, db: DbIndex, key: &[u8]) -> bool {
        let is_there = self.locate_name(db, self.hash_of(key), key).is_some();
        is_there || self.take_restore_failure().is_some()
    }

    /// The value of a `Databases` record that maps the indexes to these ids.
    pub(crate) fn databases_value(&self, ids: impl Iterator<Item = DbId>) -> Vec<u8> {
        let mut value = Vec::new();
        varint::put(&mut value, self.next_db_id);
        ids.for_each(|id| varint::put(&mut value, id.0));
        value
    }

    pub(crate) fn log_databases(&mut self) {
        let value = self.databases_value(self.dbs.iter().map(|db| db.id));
        let addr = self.recorder.log_databases(&value);
        self.recorder.retire(std::mem::replace(&mut self.databases_addr, addr));
        self.recorder.note_flush();
    }

    /// Visits about `count` keys, from `cursor` on (0 to begin), and returns the cursor to go on
    /// from (0 at the end). A key that is there all the while is visited; expired ones are not.
    pub fn scan(
        &mut self,
        db: DbIndex,
        cursor: u64,
        count: usize,
        mut visit: impl FnMut(&[u8], Type),
    ) -> u64 {
        self.recorder.note_read_all();
        if self.dbs[db].may_be_cold {
            let from = Table::<Entry>::hash_of_cursor(cursor);
            let end = self.scan_with_cold(db, from, count, &mut visit);
            return end.map_or(0, Table::<Entry>::cursor_of_hash);
        }
        let (mut cursor, mut visited) = (cursor, 0);
        let (hasher, now_ms) = (self.recorder.hasher, self.now_ms());
        loop {
            cursor = self.dbs[db].keys().scan(hasher, cursor, |entry| {
                visited += 1;
                if entry.expires_at_ms().is_none_or(|at| at > now_ms) {
                    visit(entry.key(), entry_type(entry));
                }
            });
            if cursor == 0 || visited >= count {
                return cursor;
            }
        }
    }

    /// Visits every key that is not expired, and of those that are not in memory at least those that
    /// match `pattern`.
    pub fn for_each_key(
        &mut self,
        db: DbIndex,
        pattern: Option<&[u8]>,
        mut visit: impl FnMut(&[u8], Type),
    ) {
        self.recorder.note_read_all();
        if self.dbs[db].may_be_cold {
            self.for_each_cold(db, pattern, &mut visit);
        }
        for entry in self.dbs[db].keys().iter() {
            if entry.expires_at_ms().is_none_or(|at| at > self.now_ms()) {
                visit(entry.key(), entry_type(entry));
            }
        }
    }

    /// A random key that is not expired.
    pub fn random_key(&mut self, db: DbIndex) -> Option<Box<[u8]>> {
        self.recorder.note_read_all();
        if let Some(key) = self.random_cold(db, false) {
            return Some(key);
        }
        // Like Redis, give up on a database that has nothing but expired keys.
        for _ in 0..100 {
            let Some(entry) = self.dbs[db].keys().random(&mut self.rng) else { break };
            let key: Box<[u8]> = entry.key().into();
            if self.locate_to_read(db, self.hash_of(&key), &key).is_some() {
                return Some(key);
            }
        }
        self.random_cold(db, true)
    }
}
