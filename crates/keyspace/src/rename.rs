//! Giving a value to another key: RENAME, MOVE, COPY.

use base::DbIndex;

use crate::entry::{Entry, Payload};
use crate::keyspace::Keyspace;

impl Keyspace {
    /// Moves the value of `from` in database `from_db` to `to` in `to_db`, with its expiry,
    /// over whatever is there. Whether `from` was there.
    pub fn rename(&mut self, from_db: DbIndex, from: &[u8], to_db: DbIndex, to: &[u8]) -> bool {
        let hash = self.hash_of(from);
        if self.locate(from_db, hash, from).is_none() {
            self.recorder.note_missing(self.dbs[from_db].id, hash);
            return false;
        }
        if (from_db, from) == (to_db, to) {
            return true;
        }
        let hasher = self.recorder.hasher;
        let mut old =
            self.dbs[from_db].remove(&mut self.walk, hasher, hash, from).expect("just located");
        let mut entry = match old.payload() {
            Payload::Str(bytes) => Entry::with_bytes(to, old.kind(), bytes),
            Payload::Int(value) => Entry::with_int(to, value),
            Payload::Packed(kind, bytes) => Entry::with_bytes(to, kind, bytes),
            Payload::Object(_) => {
                Entry::with_object(to, old.take_object().expect("the payload says so"))
            }
        };
        entry.set_access(old.access());
        let expires_at_ms = old.expires_at_ms();
        self.delete(to_db, to);
        self.recorder.log_key_deleted(self.dbs[from_db].id, hash, &old);
        self.modified(from_db, from);
        self.insert_logged(to_db, to, entry, expires_at_ms);
        true
    }

    /// Copies the value of `from` in `from_db` to `to` in `to_db`, with its expiry, over
    /// whatever is there. Whether `from` was there.
    pub fn copy(&mut self, from_db: DbIndex, from: &[u8], to_db: DbIndex, to: &[u8]) -> bool {
        let hash = self.hash_of(from);
        let Some(place) = self.locate(from_db, hash, from) else {
            self.recorder.note_missing(self.dbs[from_db].id, hash);
            return false;
        };
        let old = self.dbs[from_db].keys().at(place);
        let expires_at_ms = old.expires_at_ms();
        let mut entry = match old.payload() {
            Payload::Str(bytes) => Entry::with_bytes(to, old.kind(), bytes),
            Payload::Int(value) => Entry::with_int(to, value),
            Payload::Packed(kind, bytes) => Entry::with_bytes(to, kind, bytes),
            Payload::Object(object) => {
                Entry::with_object(to, Box::new(object.duplicate(&mut self.recorder)))
            }
        };
        entry.set_access(old.access());
        self.delete(to_db, to);
        self.insert_logged(to_db, to, entry, expires_at_ms);
        true
    }
}
