//! Keys that expire while they are not in memory.
//!
//! ```text
//!   keys leave ─► Due: before this moment none of them expires
//!                       │ it is past
//!                       ▼
//!   index, walked by other threads ─► those that have expired ─► their records, which have their names
//!                                                                          │
//!                                          expire_cold: deleted, as those in memory are
//! ```
//!
//! A command never sees a key that has expired, wherever it is. What is looked for here are those that no
//! command asks for: until they are found they count as keys, as in Redis, and take their place in the log.

use base::DbId;

use crate::cold::{Restored, Warmth};
use crate::keyspace::Keyspace;

/// Before which moment nothing expires that is not in memory.
pub(crate) struct Due {
    soonest_ms: i64,
}

impl Default for Due {
    /// Nothing expires.
    fn default() -> Self {
        Self { soonest_ms: i64::MAX }
    }
}

impl Due {
    /// Something may have expired already.
    pub(crate) const fn unknown() -> Self {
        Self { soonest_ms: i64::MIN }
    }

    /// A key is not in memory that expires then.
    pub(crate) fn note(&mut self, expires_at_ms: Option<i64>) {
        self.soonest_ms = self.soonest_ms.min(expires_at_ms.unwrap_or(i64::MAX));
    }
}

impl Keyspace {
    /// The databases that have keys not in memory, if one of these may have expired: they are to be looked
    /// through, and [`Keyspace::note_cold_due`] to be told what is left.
    pub fn begin_sweep(&mut self) -> Option<Vec<DbId>> {
        let now_ms = self.now_ms();
        let due = &mut self.cold.as_mut()?.due;
        if due.soonest_ms > now_ms {
            return None;
        }
        // What leaves memory from now on is noted.
        *due = Due::default();
        Some(self.dbs.iter().filter(|db| db.cold_count > 0).map(|db| db.id).collect())
    }

    /// A key that is not in memory may expire then.
    pub fn note_cold_due(&mut self, expires_at_ms: i64) {
        if let Some(cold) = &mut self.cold {
            cold.due.note(Some(expires_at_ms));
        }
    }

    /// So many of the keys of a database that were cold at the start expire.
    pub fn note_cold_expiring(&mut self, db: DbId, count: u64) {
        if let Some(db) = self.dbs.index_of(db) {
            self.dbs[db].note_cold_expiring(count);
        }
    }

    /// Deletes a key that is not in memory and has expired, unless something has happened to it since its
    /// record was read. Whether it was deleted.
    pub fn expire_cold(&mut self, restored: Restored) -> bool {
        let Some(db) = self.dbs.index_of(restored.database()) else { return false };
        let is_due = restored.expires_at_ms().is_some_and(|at| at <= self.now_ms());
        let addr = restored.addr();
        let is_gone = addr.is_none_or(|addr| self.recorder.journal.is_retired(addr));
        let (hash, key) = (self.hash_of(restored.key()), Box::<[u8]>::from(restored.key()));
        let is_here = self.dbs[db].has_key(self.recorder.hasher, hash, &key);
        if !is_due || is_gone || is_here || self.is_frozen() {
            return false;
        }
        self.install_restored(db, restored, Warmth::Unknown);
        self.expire(db, hash, &key);
        self.count_expired();
        true
    }
}
