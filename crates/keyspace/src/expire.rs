//! Deleting keys before a command asks for them: because they expired, or because memory is short.

use base::{DbIndex, RecordKind};

use crate::access;
use crate::collection::{ALL_SEEN, Cell, Collection};
use crate::effects::{DbKey, Notify};
use crate::entry::Entry;
use crate::hash::{self, Hash, HashGuard};
use crate::keyspace::Keyspace;
use crate::settings::{EvictionPolicy, Settings};
use crate::source::Need;
use crate::table::{Keyed, Place};
use crate::value_type::{Type, entry_type};

/// How many fields of a hash that have expired are removed before a command sees it: a millisecond's work. Of more
/// than that, the rest is hidden from readers, but for those that are asked for by name.
const FIELDS_BEFORE_USE_MAX: usize = 1024;

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

    /// Until when fields of hashes have expired that the running command does not see.
    pub(crate) const fn seen_ms(&self) -> i64 {
        if self.is_timeless { ALL_SEEN } else { self.now_ms }
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
            None => self.locate_cold(db, hash, key, Need::Value)?,
        };
        let entry = self.dbs[db].keys().at(place);
        if self.is_expired(entry) {
            // That nothing is there is news of this entry: an older one may not have expired.
            self.note_read(db, place);
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

    /// Removes fields that have expired of the hash at `place`, if it is one in memory, before a command sees
    /// it. Whether the key is still there.
    pub(crate) fn expire_fields_before_use(
        &mut self,
        db: DbIndex,
        hash: u64,
        place: Place,
    ) -> bool {
        let first_ms = hash::first_expiry_ms(self.dbs[db].keys().at(place));
        if first_ms.is_none_or(|at_ms| !self.has_come(at_ms)) || self.is_frozen() {
            return true;
        }
        let remove = |hash: &mut HashGuard<'_>| hash.remove_expired(FIELDS_BEFORE_USE_MAX);
        !self.expire_fields(db, hash, place, remove).1
    }

    /// Removes those of the named fields that have expired, however many others have: for a command that is about
    /// to look at them, and whose reply then depends on the records that say so.
    pub fn expire_named_fields<'n>(
        &mut self,
        db: DbIndex,
        key: &[u8],
        names: impl IntoIterator<Item = &'n [u8]>,
    ) {
        if self.is_frozen() || !self.may_have_expiring_fields() {
            return;
        }
        let hash = self.hash_of(key);
        let Some(place) = self.locate_name(db, hash, key) else { return };
        if entry_type(self.dbs[db].keys().at(place)) != Type::Hash {
            return;
        }
        let Some(place) = self.with_value(db, place) else { return };
        let first_ms = hash::first_expiry_ms(self.dbs[db].keys().at(place));
        if first_ms.is_some_and(|at_ms| self.has_come(at_ms)) {
            self.expire_fields(db, hash, place, |hash| hash.remove_expired_of(names));
        }
    }

    /// Has fields removed that have expired of the hash at `place`; with the last field the key goes. Returns how
    /// many, and whether it went.
    fn expire_fields(
        &mut self,
        db: DbIndex,
        hash: u64,
        place: Place,
        remove: impl FnOnce(&mut HashGuard<'_>) -> usize,
    ) -> (usize, bool) {
        let seen_ms = self.seen_ms();
        let changed = &mut self.dbs[db];
        let id = changed.id;
        let entry = changed.change(&mut self.walk, place, hash);
        let key: Box<[u8]> = entry.key().into();
        let mut guard = Hash::open(Cell {
            entry,
            recorder: &mut self.recorder,
            settings: &self.settings,
            db: id,
            rng: &mut self.rng,
            scratch: &mut self.scratch,
            seen_ms,
        });
        let removed = remove(&mut guard);
        let closed = Hash::close(guard);
        if removed == 0 {
            return (0, false);
        }
        if self.walk.is_some() {
            self.note_walked(db, place);
        }
        self.stats.expired_fields += removed as u64;
        self.notify(Notify::HASH, "hexpired", db, &key);
        if closed.empty {
            self.remove(db, hash, &key);
            self.notify(Notify::GENERIC, "del", db, &key);
        } else {
            self.dbs[db].note_due_fields(place, hash);
            self.dbs[db].note_object_changed(place, self.recorder.open_lsn());
            self.modified(db, &key);
        }
        self.effects.note_unasked();
        (removed, closed.empty)
    }

    /// Lets fields of hashes expire, which an older program does not know. Between blocks only, so in front of all
    /// that a command or transaction logs: the first one of a log begins new files. Whether one then does is another
    /// question.
    pub fn declare_expiring_fields(&mut self) {
        self.recorder.journal.declare(RecordKind::HashPackedExpiring);
    }

    /// Whether fields of hashes in the log may expire; `None` without a log.
    #[must_use]
    pub fn expiring_fields_declared(&self) -> Option<bool> {
        self.recorder.journal.has_declared(RecordKind::HashPackedExpiring)
    }

    /// Whether a field of a hash may expire, or have expired. What the log was only told of does not count while
    /// memory has seen all hashes.
    #[must_use]
    pub fn may_have_expiring_fields(&self) -> bool {
        let is_all_seen = self.cold.is_none() && !self.may_be_bare;
        self.had_expiring_fields || !is_all_seen && self.expiring_fields_declared() == Some(true)
    }

    /// How many hashes of a database that are in memory have fields that expire.
    #[must_use]
    pub fn expiring_hashes(&self, db: DbIndex) -> usize {
        self.dbs[db].due_hash_count()
    }

    /// Removes fields that have expired and that no command asks for, about `fields_max` of the hash whose
    /// field expired first. Returns how many; 0 if none has, and where it cannot be.
    pub fn expire_due_fields(&mut self, db: DbIndex, fields_max: usize) -> usize {
        if self.is_frozen() || self.is_timeless {
            return 0;
        }
        let now_ms = self.now_ms();
        let Some(hash) = self.dbs[db].first_due_hash(now_ms) else { return 0 };
        let is_due = |entry: &Entry| hash::first_expiry_ms(entry).is_some_and(|at| at <= now_ms);
        let keys = self.dbs[db].keys();
        let due = keys.find_by(hash, |entry| self.hash_of(entry.key()) == hash && is_due(entry));
        let Some(key) = due.map(|entry| Box::<[u8]>::from(entry.key())) else {
            // Its value has left memory.
            self.dbs[db].look_again_at(self.recorder.hasher, hash);
            return 1;
        };
        let place = self.dbs[db].keys().locate(hash, &key).expect("it was just found");
        if self.is_expired(self.dbs[db].keys().at(place)) {
            self.expire(db, hash, &key);
            return 1;
        }
        self.expire_fields(db, hash, place, |hash| hash.remove_expired(fields_max)).0
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
        EvictionPolicy::AllKeysLru
        | EvictionPolicy::VolatileLru
        | EvictionPolicy::ColdLru
        | EvictionPolicy::AllKeysLrm
        | EvictionPolicy::VolatileLrm => access::idle_ms(entry.access(), now_ms),
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
