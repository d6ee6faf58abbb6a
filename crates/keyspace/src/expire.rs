//! Deleting keys before a command asks for them: because they expired, or because memory is short.

use base::DbIndex;

use crate::access;
use crate::effects::{DbKey, Notify};
use crate::entry::Entry;
use crate::keyspace::Keyspace;
use crate::settings::{EvictionPolicy, Settings};
use crate::table::{Keyed, Place};

impl Keyspace {
    /// While the keyspace is frozen, because its journal takes nothing, reads pass expired keys
    /// over instead of deleting them. One that is fed from a log is frozen whatever is said here.
    pub const fn set_frozen(&mut self, frozen: bool) {
        self.is_frozen = frozen;
    }

    /// See [`Keyspace::set_frozen`].
    #[must_use]
    pub const fn is_frozen(&self) -> bool {
        self.is_frozen || self.limbo.is_some()
    }

    /// While the keyspace is timeless no key has expired for a command, whenever it does: so a history
    /// of commands, which says itself what was deleted because it had expired, can be executed later.
    pub const fn set_timeless(&mut self, timeless: bool) {
        self.is_timeless = timeless;
    }

    /// Whether what expires at this time has expired for the running command.
    #[must_use]
    pub const fn has_come(&self, at_ms: i64) -> bool {
        at_ms <= self.now_ms && !self.is_timeless
    }

    /// As [`Keyspace::locate_name`], for a command that changes nothing.
    pub(crate) fn locate_to_read(&mut self, db: DbIndex, hash: u64, key: &[u8]) -> Option<Place> {
        if !self.is_frozen() {
            return self.locate_name(db, hash, key);
        }
        let place = match self.dbs[db].keys().locate(hash, key) {
            Some(place) => place,
            None => self.locate_cold(db, hash, key)?,
        };
        let entry = self.dbs[db].keys().at(place);
        if self.is_expired(entry) {
            // That nothing is there is news of this entry: an older one may not have expired.
            self.recorder.note_read(entry);
            return None;
        }
        Some(place)
    }

    /// Whether the key has expired: no command sees it any more.
    pub(crate) fn is_expired(&self, entry: &Entry) -> bool {
        entry.expires_at_ms().is_some_and(|at| self.has_come(at))
    }

    /// Looks at up to `samples` random expiring keys of a database and deletes those that have
    /// expired. Returns how many were looked at, and how many were deleted; when most were, it
    /// pays to go on.
    pub fn expire_sample(&mut self, db: DbIndex, samples: usize) -> (usize, usize) {
        let samples = samples.min(self.dbs[db].expiring_count());
        let mut expired = 0;
        for _ in 0..samples {
            let Some(entry) = self.dbs[db].random_expiring(&mut self.rng) else { break };
            if entry.expires_at_ms().is_some_and(|at| at <= self.now_ms()) {
                let key: Box<[u8]> = entry.key().into();
                self.expire(db, self.hash_of(&key), &key);
                expired += 1;
            }
        }
        (samples, expired)
    }

    /// Evicts one key by the policy. `false` when there is none to evict.
    pub fn evict_one(&mut self) -> bool {
        let policy = self.settings().eviction;
        let Some((db, key)) = self.worst_of_samples(policy) else { return false };
        let hash = self.hash_of(&key);
        self.remove(db, hash, &key);
        self.effects.note_unasked();
        self.count_evicted();
        self.notify(Notify::EVICTED, "evicted", db, &key);
        true
    }

    fn worst_of_samples(&mut self, policy: EvictionPolicy) -> Option<DbKey> {
        if policy == EvictionPolicy::NoEviction || policy.is_cold() {
            return None;
        }
        let (settings, now_ms) = (self.settings().clone(), self.now_ms());
        let mut worst: Option<(i64, DbIndex, Box<[u8]>)> = None;
        for db in self.databases() {
            for _ in 0..settings.eviction_samples.max(1) {
                let entry = if policy.is_volatile() {
                    self.dbs[db].random_expiring(&mut self.rng)
                } else {
                    self.dbs[db].keys().random(&mut self.rng)
                };
                let Some(entry) = entry else { break };
                let score = score(entry, policy, &settings, now_ms);
                if worst.as_ref().is_none_or(|worst| score > worst.0) {
                    worst = Some((score, db, entry.key().into()));
                }
            }
        }
        worst.map(|(_, db, key)| (db, key))
    }
}

/// How much a key deserves to be evicted: more is worse.
fn score(entry: &Entry, policy: EvictionPolicy, settings: &Settings, now_ms: i64) -> i64 {
    match policy {
        EvictionPolicy::AllKeysLru | EvictionPolicy::VolatileLru | EvictionPolicy::ColdLru => {
            access::idle_ms(entry.access(), now_ms)
        }
        EvictionPolicy::AllKeysLfu | EvictionPolicy::VolatileLfu | EvictionPolicy::ColdLfu => {
            -i64::from(access::frequency(entry.access(), settings, now_ms))
        }
        // The samples are random already.
        EvictionPolicy::AllKeysRandom
        | EvictionPolicy::VolatileRandom
        | EvictionPolicy::NoEviction => 0,
        EvictionPolicy::VolatileTtl => -entry.expires_at_ms().unwrap_or(i64::MAX),
    }
}
