//! Values that the log had, and has no more: their records lay in what is damaged.
//!
//! ```text
//!   bare entry ── its record cannot be read ─► give_up ── ValueLost record ─► lost entry
//!                                                            │  the old record is retired
//!   after a start, by a scan or by the index: ValueLost ─────┴──────────────► lost entry
//!   SET, DEL, expiry, FLUSHALL … ─► as of any other entry: it is lost no longer
//!
//!   cold key ── its record cannot be read ─► lose_cold ── KeyLost record ─► LostNames: by identity
//!                                                         a command names it ─► lost entry
//! ```
//!
//! That a value is lost is the state of its key's entry, so it goes the way of all states: one record,
//! which is indexed, compacted and recovered as others are. A lost entry is bare, and a command that
//! needs its value is answered [`RestoreError::Corrupt`]: never an older value, and never nothing.
//!
//! Of a key that was never in memory, not even its name can be read. An index knows its *identity*, 96 bits of
//! a hash, and so does its record. It counts as a key, and gets its entry as soon as a command names it.

use std::collections::BTreeMap;

use base::{DbId, DbIndex, ObjectId, Record, RecordAddr};

use crate::access;
use crate::db::Db;
use crate::effects::DbKey;
use crate::entry::Entry;
use crate::free::FreeQueue;
use crate::hasher::{Identity, KeyHasher};
use crate::keyspace::Keyspace;
use crate::record_check::lost_type;
use crate::recorder::Recorder;
use crate::source::RestoreError;
use crate::table::{Keyed, Place};
use crate::value_type::{Type, entry_type};

/// So many names are kept to be told of.
const NEWS_MAX: usize = 100;

/// What a keyspace knows of values that are lost.
#[derive(Default)]
pub(crate) struct Lost {
    /// Whether there may be one.
    pub(crate) may_be: bool,
    /// The running command needs one.
    pub(crate) failure: Option<RestoreError>,
    news: LostNews,
}

/// A key of which only the identity is known.
#[derive(Debug)]
pub(crate) struct LostName {
    /// Where the record is that says so.
    pub(crate) addr: Option<RecordAddr>,
    pub(crate) value_type: Type,
    pub(crate) expires_at_ms: Option<i64>,
}

/// The keys of a database of which only the identities are known; in an order that does not depend on chance.
pub(crate) type LostNames = BTreeMap<Identity, LostName>;

/// A key as an index knows it, whose record is damaged, or may be.
#[derive(Debug, Clone)]
pub struct LostKey {
    /// Its database.
    pub db: DbId,
    /// What is known of its name.
    pub identity: Identity,
    /// Its record.
    pub addr: RecordAddr,
    /// The type of its value.
    pub value_type: Type,
    /// When it expires.
    pub expires_at_ms: Option<i64>,
    /// Its incarnation, if it is large.
    pub object: Option<ObjectId>,
}

/// What an index has found of keys in damage.
#[derive(Debug, Default)]
pub struct KeysIn {
    /// The keys.
    pub keys: Vec<LostKey>,
    /// Where to go on; `None` at the end.
    pub next: Option<Identity>,
}

/// Keys whose values were given up.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct LostNews {
    /// The first of them.
    pub keys: Vec<DbKey>,
    /// How many there were besides.
    pub others: u64,
    /// How many there were whose names are lost, too.
    pub unnamed: u64,
    /// How many entries of these streams were added while the rest, and what was damaged of it, was in the log only.
    pub added: u64,
}

impl Lost {
    /// The value of an entry that is bare is in the log no more, and with it go so many entries that were added to the end of a
    /// stream. The caller counts it.
    pub(crate) fn give_up(
        &mut self,
        db: (DbIndex, DbId),
        entry: &mut Entry,
        added: u64,
        recorder: &mut Recorder,
        free: &mut FreeQueue,
    ) {
        free.bare_object(entry.bare_object().map(|(_, id)| id));
        entry.make_lost(entry_type(entry));
        recorder.log_key(db.1, entry);
        self.may_be = true;
        self.news.added += added;
        if self.news.keys.len() < NEWS_MAX {
            self.news.keys.push((db.0, entry.key().into()));
        } else {
            self.news.others += 1;
        }
    }

    /// The running command needs a value that is lost.
    pub(crate) fn fail(&mut self) {
        let what = "its value was in a part of the log that was damaged, and is lost";
        self.failure = Some(RestoreError::Corrupt(what.to_owned()));
    }
}

impl LostName {
    /// As a checked record says that is at `addr`.
    pub(crate) fn of(record: &Record<'_>, addr: RecordAddr) -> (Identity, Self) {
        let identity = record.key.try_into().expect("it was checked");
        let value_type = lost_type(record.value).expect("it was checked");
        let expires_at_ms = record.expires_at_ms;
        (identity, Self { addr: Some(addr), value_type, expires_at_ms })
    }

    /// The entry of the key, now that its name is known.
    pub(crate) fn entry(&self, key: &[u8]) -> Entry {
        let mut entry = Entry::lost(key, self.value_type);
        entry.set_addr(self.addr);
        entry
    }
}

impl Db {
    /// Takes out what is known of a key only by its identity, if there is such a one.
    pub(crate) fn take_lost_name(&mut self, hasher: KeyHasher, key: &[u8]) -> Option<LostName> {
        if self.lost_names.is_empty() {
            return None;
        }
        self.lost_names.remove(&hasher.identity(key))
    }
}

impl Keyspace {
    /// How many keys there are whose values are lost.
    #[must_use]
    pub fn lost_values(&self) -> u64 {
        self.dbs.iter().map(|db| db.lost_count + db.lost_names.len() as u64).sum()
    }

    /// The keys whose values were given up since this was asked last.
    pub fn take_lost(&mut self) -> LostNews {
        std::mem::take(&mut self.lost.news)
    }

    /// A cold key cannot be brought back: its record is damaged, and is retired. Nothing happens if it was
    /// brought back before, or changed.
    pub fn lose_cold(&mut self, key: LostKey) {
        let LostKey { db, identity, addr, value_type, expires_at_ms, object } = key;
        let Some(db) = self.dbs.index_of(db) else { return };
        let is_known = self.dbs[db].find_by_identity(self.recorder.hasher, &identity).is_some();
        if is_known || self.dbs[db].cold_count == 0 || self.recorder.journal.is_retired(addr) {
            return;
        }
        let mut lost = LostName { addr: Some(addr), value_type, expires_at_ms };
        let db = &mut self.dbs[db];
        self.recorder.log_lost_name(db.id, &identity, &mut lost);
        db.lost_names.insert(identity, lost);
        db.note_returned(expires_at_ms.is_some());
        self.free.bare_object(object);
        self.lost.may_be = true;
        self.lost.news.unnamed += 1;
    }

    /// Where a key is of which only the identity was known until now; `None` if it is none of those.
    pub(crate) fn name_lost(&mut self, db: DbIndex, hash: u64, key: &[u8]) -> Option<Place> {
        let hasher = self.recorder.hasher;
        let lost = self.dbs[db].take_lost_name(hasher, key)?;
        let mut entry = lost.entry(key);
        entry.set_access(access::fresh(&self.settings, self.now_ms));
        let place = self.dbs[db].insert(&mut self.walk, hasher, hash, entry);
        self.dbs[db].set_expiry(&mut self.walk, place, hash, lost.expires_at_ms);
        Some(place)
    }
}
