//! Feeding a keyspace from a log: records in the order of their LSNs, while it is read or before.
//!
//! ```text
//!   recovery    apply · apply · apply …                                    settle   then commands
//!   follower    apply · apply … end_block │ apply · apply … end_block │ …  settle
//!                                     reads                       reads
//! ```
//!
//! A record may come before what it belongs to: elements before their root, because a command logs
//! them first, or because compaction keeps an element's record where it is while a root that was
//! logged again moves on; entries before the record that maps an index to their database. What waits
//! does so in [`Limbo`]. Before the first [`Keyspace::end_block`] everything may wait, however much
//! it is, and nothing reads; [`Keyspace::load`] begins such a time again. After it the state is that
//! of the keyspace that logged the block.
//!
//! # What readers see
//! Whole blocks: the caller applies a block in one piece, between two commands, and a transaction is
//! one block. An expired key is absent but stays until a record deletes it. A root whose elements
//! come in later blocks has those that have come; no command logs one like that, and what
//! [`crate::FullRewrite`] logs lies in databases that no index maps to.
//!
//! # What others are told
//! Keys that are watched are touched and keys that are waited for are ready, as if a command had
//! changed them. There are no keyspace notifications: a record says what a key holds now, not which
//! command did that.
//!
//! # Invariants
//! - Every record that is applied is retired once, when it is superseded or when what it belongs to
//!   is freed, or belongs to an entry, an element, or the map of the databases; deletes are neither.
//! - Between two blocks at most [`crate::limbo::WAITING_BYTES_MAX`] bytes wait for their roots.
//! - When the feed has ended nothing waits.

use base::{DbId, DbIndex, Lsn, ObjectId, Record, RecordAddr, RecordKind};

use crate::access;
use crate::database_map::DatabaseMap;
use crate::db::Db;
use crate::entry::{Entry, Kind};
use crate::keyspace::Keyspace;
use crate::limbo::{Feed, Home, Limbo, OTHER_TYPE, Root};
use crate::lost::LostName;
use crate::record_check::{self, BadRecord, lost_type};
use crate::string;
use crate::table::Keyed;

/// Why a record was not applied.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ApplyError {
    /// The record makes no sense; the keyspace may have taken over a part of its block.
    #[error(transparent)]
    Bad(#[from] BadRecord),
    /// More elements wait for their roots than may between two blocks. Nothing was changed, and
    /// nothing will free room but the records to come: see [`Keyspace::load`].
    #[error("{0} bytes of elements wait for the roots of their objects")]
    Full(usize),
}

/// A record, and where it came from.
#[derive(Clone, Copy)]
struct Applied<'a> {
    record: &'a Record<'a>,
    addr: RecordAddr,
    lsn: Lsn,
    /// Of the key.
    hash: u64,
}

/// So many reads of tables are under way at once.
const TOUCHED_TOGETHER: usize = 32;

impl Keyspace {
    /// Brings what applying these records will read into the cache: they are about to be applied. Their names are
    /// hashed first, so that nothing else is between two reads: then many of them are under way at once.
    pub fn announce(&self, records: &[Record<'_>]) {
        for records in records.chunks(TOUCHED_TOGETHER) {
            let mut wanted = [None; TOUCHED_TOGETHER];
            let keyed = records.iter().filter(|record| !record.kind.is_element());
            for (wanted, record) in wanted.iter_mut().zip(keyed) {
                let db = self.db_of_id(record.db);
                *wanted = db.map(|db| (db, self.recorder.hasher.hash(record.key)));
            }
            for (db, hash) in wanted.iter().flatten() {
                if !db.keys().touch(*hash) {
                    db.keys().touch_room(*hash);
                }
            }
        }
    }

    /// The database with this id; `None` if there is none.
    fn db_of_id(&self, id: DbId) -> Option<&Db> {
        match &self.limbo {
            None => self.dbs.iter().find(|db| db.id == id),
            Some(limbo) => match limbo.index_of(&self.dbs, id) {
                Some(index) => self.dbs.get(index),
                None => limbo.unmapped.get(&id),
            },
        }
    }

    /// Lets everything wait again, however much it is, until the next block that ends. The caller
    /// lets nothing read until then. A keyspace that was never fed begins like this.
    ///
    /// # Panics
    /// When commands have changed the keyspace.
    pub fn load(&mut self) {
        match &mut self.limbo {
            Some(limbo) => limbo.feed = Feed::Load,
            None => self.begin_feed(Feed::Load),
        }
    }

    fn begin_feed(&mut self, feed: Feed) {
        let is_empty = self.dbs.iter().all(|db| db.keys().is_empty()) && self.free.len() == 0;
        assert!(
            is_empty && self.walk.is_none(),
            "a keyspace is fed from its beginning on, or not at all"
        );
        self.limbo = Some(Box::new(Limbo::new(feed, self.dbs.len())));
    }

    /// Whether the keyspace is fed from a log: then no command may change it.
    #[must_use]
    pub const fn is_fed(&self) -> bool {
        self.limbo.is_some()
    }

    /// How many objects wait for their roots, and about how many bytes they have.
    #[must_use]
    pub fn waiting(&self) -> (usize, usize) {
        self.limbo.as_ref().map_or((0, 0), |limbo| (limbo.waiting.len(), limbo.bytes()))
    }

    /// Applies one record of the block `lsn`; addresses that it makes obsolete are pushed to
    /// `retired`. What large values leave behind is retired later, by [`Keyspace::free_step`].
    ///
    /// # Errors
    /// [`ApplyError::Bad`] when the record is not one that a keyspace logs; [`ApplyError::Full`] for
    /// the first record of a block, when too much waits.
    ///
    /// # Panics
    /// When commands have changed the keyspace.
    pub fn apply(
        &mut self,
        record: &Record<'_>,
        addr: RecordAddr,
        lsn: Lsn,
        retired: &mut Vec<RecordAddr>,
    ) -> Result<(), ApplyError> {
        if self.limbo.is_none() {
            self.load();
        }
        let mut limbo = self.limbo.take().expect("just made");
        let applied = self.apply_in(&mut limbo, record, addr, lsn, retired);
        self.limbo = Some(limbo);
        applied
    }

    fn apply_in(
        &mut self,
        limbo: &mut Limbo,
        record: &Record<'_>,
        addr: RecordAddr,
        lsn: Lsn,
        retired: &mut Vec<RecordAddr>,
    ) -> Result<(), ApplyError> {
        if !limbo.is_in_block {
            if limbo.feed == Feed::Blocks && limbo.is_full() {
                return Err(ApplyError::Full(limbo.bytes()));
            }
            limbo.is_in_block = true;
        }
        let bad = |what| BadRecord { kind: record.kind, what };
        record_check::check(record).map_err(bad)?;
        self.had_expiring_fields |= record.has_expiring_fields();
        let next_object = &mut self.recorder.next_object;
        *next_object = (*next_object).max(record.object.0 + 1);
        limbo.newest = limbo.newest.max(record.object);
        if record.kind.is_element() {
            self.apply_element(limbo, record, addr, lsn, retired).map_err(bad)?;
            return Ok(());
        }
        if record.kind == RecordKind::Note {
            retired.push(addr);
            return Ok(());
        }
        if record.kind.is_library() {
            retired.extend(self.libraries.apply(record, addr, lsn));
            return Ok(());
        }
        if record.kind == RecordKind::Databases {
            retired.extend(self.databases_addr.replace(addr));
            limbo.map = Some(DatabaseMap::read(record)?);
            self.map_databases(limbo, 0, lsn);
            return Ok(());
        }
        let applied = Applied { record, addr, lsn, hash: self.hash_of(record.key) };
        match record.kind {
            RecordKind::KeyDeleted => self.apply_key_deleted(limbo, applied, retired),
            RecordKind::String => {
                self.apply_key(limbo, applied, string::entry_of(record), retired);
            }
            RecordKind::ValueLost => {
                self.lost.may_be = true;
                self.apply_key(limbo, applied, lost_entry(record), retired);
            }
            RecordKind::KeyLost => self.apply_key_lost(limbo, applied, retired),
            kind if kind.is_root() => self.apply_root(limbo, applied, retired).map_err(bad)?,
            kind => {
                let entry = Entry::with_bytes(record.key, packed_kind(kind), record.value);
                self.apply_key(limbo, applied, entry, retired);
            }
        }
        Ok(())
    }

    fn apply_key_deleted(
        &mut self,
        limbo: &mut Limbo,
        Applied { record, lsn, hash, .. }: Applied<'_>,
        retired: &mut Vec<RecordAddr>,
    ) {
        let hasher = self.recorder.hasher;
        let Some((index, db)) = limbo.db(&mut self.dbs, record.db) else { return };
        retired.extend(db.take_lost_name(hasher, record.key).and_then(|lost| lost.addr));
        let Some(mut entry) = db.remove(&mut self.walk, hasher, hash, record.key) else { return };
        retired.extend(entry.addr());
        if let Some(object) = entry.take_object() {
            limbo.unroot(*object);
        }
        self.recorder.note_deleted(record.db, hash, lsn);
        self.key_applied(limbo, index, record.key, false);
    }

    /// A key is there whose name is known only if an older record of it is.
    fn apply_key_lost(
        &mut self,
        limbo: &mut Limbo,
        applied: Applied<'_>,
        retired: &mut Vec<RecordAddr>,
    ) {
        let Applied { record, addr, .. } = applied;
        let hasher = self.recorder.hasher;
        self.lost.may_be = true;
        let (identity, lost) = LostName::of(record, addr);
        let (_, db) = limbo.db_or_new(&mut self.dbs, record.db, addr);
        let older =
            db.find_by_identity(hasher, &identity).map(|entry| Box::<[u8]>::from(entry.key()));
        match older {
            None => retired.extend(db.lost_names.insert(identity, lost).and_then(|it| it.addr)),
            Some(key) => {
                let record = &Record { key: &key, ..*record };
                let applied = Applied { record, hash: hasher.hash(&key), ..applied };
                self.apply_key(limbo, applied, lost.entry(&key), retired);
            }
        }
    }

    /// Puts `entry` in the place of whatever its key holds.
    fn apply_key(
        &mut self,
        limbo: &mut Limbo,
        Applied { record, addr, hash, .. }: Applied<'_>,
        mut entry: Entry,
        retired: &mut Vec<RecordAddr>,
    ) {
        let hasher = self.recorder.hasher;
        entry.set_addr(Some(addr));
        let fresh = access::fresh(&self.settings, self.now_ms);
        let (index, db) = limbo.db_or_new(&mut self.dbs, record.db, addr);
        retired.extend(db.take_lost_name(hasher, record.key).and_then(|lost| lost.addr));
        let (place, old) = match db.keys().locate(hash, record.key) {
            Some(place) => {
                db.set_expiry(&mut self.walk, place, hash, None);
                let before = db.keys().at(place).access();
                let (settings, now_ms) = (&self.settings, self.now_ms);
                entry.set_access(access::used(before, settings, now_ms, &mut self.rng));
                (place, Some(db.replace(place, hash, entry)))
            }
            None => {
                entry.set_access(fresh);
                (db.insert(&mut self.walk, hasher, hash, entry), None)
            }
        };
        if record.expires_at_ms.is_some() {
            db.set_expiry(&mut self.walk, place, hash, record.expires_at_ms);
        }
        let is_new = old.is_none();
        if let Some(mut old) = old {
            retired.extend(old.addr());
            if let Some(object) = old.take_object() {
                limbo.unroot(*object);
            }
        }
        self.key_applied(limbo, index, record.key, is_new);
    }

    /// Binds an object to a key.
    fn apply_root(
        &mut self,
        limbo: &mut Limbo,
        applied: Applied<'_>,
        retired: &mut Vec<RecordAddr>,
    ) -> Result<(), &'static str> {
        let Applied { record, addr, lsn, hash } = applied;
        let id = record.object;
        let home = Home { db: record.db, hash };
        if let Some(before) = limbo.homes.get(&id).copied() {
            if before == home && self.renew_root(limbo, applied, retired)? {
                return Ok(());
            }
            self.leave_home(limbo, before, id, retired);
        }
        let before = limbo.apply_root(record, Root::At { home, addr })?;
        if limbo.feed == Feed::Load {
            if let Root::At { home: other, addr } = before
                && other != home
            {
                self.remove_rooted(limbo, other, addr, retired);
            }
            // Eight bytes, as the pointer to the object that will take their place.
            self.apply_key(limbo, applied, Entry::with_int(record.key, 0), retired);
            return Ok(());
        }
        let mut object = limbo.take(id, self.recorder.hasher).expect("it has just got a root");
        object.changed_at = lsn;
        if object.len() == 0 {
            limbo.hollow.push(id);
        }
        limbo.homes.insert(id, home);
        self.apply_key(limbo, applied, Entry::with_object(record.key, Box::new(object)), retired);
        Ok(())
    }

    /// Takes over the root of an object that its key holds already. Whether it does.
    fn renew_root(
        &mut self,
        limbo: &mut Limbo,
        Applied { record, addr, lsn, hash }: Applied<'_>,
        retired: &mut Vec<RecordAddr>,
    ) -> Result<bool, &'static str> {
        let Some((index, db)) = limbo.db(&mut self.dbs, record.db) else { return Ok(false) };
        let Some(place) = db.keys().locate(hash, record.key) else { return Ok(false) };
        let entry = db.change(&mut self.walk, place, hash);
        let old = entry.addr();
        let Some(object) = entry.object_mut().filter(|object| object.id() == record.object) else {
            return Ok(false);
        };
        if !object.is_of(record.kind) {
            return Err(OTHER_TYPE);
        }
        object.apply_root(record.value);
        object.changed_at = lsn;
        entry.set_addr(Some(addr));
        retired.extend(old);
        db.set_expiry(&mut self.walk, place, hash, record.expires_at_ms);
        self.key_applied(limbo, index, record.key, false);
        Ok(true)
    }

    /// Takes an object out of the entry that it lies in: its new root is another key's.
    fn leave_home(
        &mut self,
        limbo: &mut Limbo,
        home: Home,
        id: ObjectId,
        retired: &mut Vec<RecordAddr>,
    ) {
        let addr = limbo.db(&mut self.dbs, home.db).and_then(|(_, db)| {
            db.keys().find_by(home.hash, |entry| holds(entry, id)).and_then(Entry::addr)
        });
        limbo.homes.remove(&id);
        if let Some(addr) = addr {
            self.remove_rooted(limbo, home, addr, retired);
        }
    }

    /// Removes the entry that has a root with this address, if it is still there.
    pub(crate) fn remove_rooted(
        &mut self,
        limbo: &mut Limbo,
        home: Home,
        addr: RecordAddr,
        retired: &mut Vec<RecordAddr>,
    ) {
        let hasher = self.recorder.hasher;
        let Some((index, db)) = limbo.db(&mut self.dbs, home.db) else { return };
        let found = db.keys().find_by(home.hash, |entry| entry.addr() == Some(addr));
        let Some(key) = found.map(|entry| Box::<[u8]>::from(entry.key())) else { return };
        let entry = db.remove(&mut self.walk, hasher, home.hash, &key);
        retired.push(addr);
        if let Some(object) = entry.and_then(|mut entry| entry.take_object()) {
            limbo.unroot(*object);
        }
        self.key_applied(limbo, index, &key, false);
    }

    fn apply_element(
        &mut self,
        limbo: &mut Limbo,
        record: &Record<'_>,
        addr: RecordAddr,
        lsn: Lsn,
        retired: &mut Vec<RecordAddr>,
    ) -> Result<(), &'static str> {
        let hasher = self.recorder.hasher;
        let (id, feed) = (record.object, limbo.feed);
        if let Some(home) = limbo.homes.get(&id).copied() {
            if let Some((index, db)) = limbo.db(&mut self.dbs, home.db)
                && let Some(entry) =
                    db.parts().keys.find_mut_by(home.hash, |entry| holds(entry, id))
                && let Some(object) = entry.object_mut()
            {
                if record.kind == RecordKind::ElementDeleted {
                    retired.extend(object.apply_deleted(hasher, record.sub, false));
                } else if object.is_of(record.kind) {
                    retired.extend(object.apply_element(hasher, record, addr, false));
                } else {
                    return Err(OTHER_TYPE);
                }
                object.changed_at = lsn;
                let is_hollow = object.len() == 0;
                if let Some(index) = index.filter(|_| feed == Feed::Blocks) {
                    self.effects.note_touched(&self.watched, index, entry.key());
                    self.dirty += 1;
                }
                if is_hollow {
                    limbo.hollow.push(id);
                }
                return Ok(());
            }
            // Its database was dropped, and it is on its way to be freed.
            limbo.homes.remove(&id);
        }
        retired.extend(limbo.apply_element(hasher, record, addr)?);
        Ok(())
    }

    /// Tells of a key that a record has changed.
    fn key_applied(&mut self, limbo: &Limbo, index: Option<DbIndex>, key: &[u8], is_new: bool) {
        if limbo.feed == Feed::Blocks
            && let Some(db) = index
        {
            self.modified(db, key);
            if is_new {
                self.ready_if_awaited(db, key);
            }
        }
    }
}

fn holds(entry: &Entry, id: ObjectId) -> bool {
    entry.object().is_some_and(|object| object.id() == id)
}

/// The entry that a checked record of a lost value says there is.
pub(crate) fn lost_entry(record: &Record<'_>) -> Entry {
    Entry::lost(record.key, lost_type(record.value).expect("it was checked"))
}

pub(crate) const fn packed_kind(kind: RecordKind) -> Kind {
    match kind {
        RecordKind::ListPacked => Kind::ListPacked,
        RecordKind::HashPacked | RecordKind::HashPackedExpiring => Kind::HashPacked,
        RecordKind::SetPacked => Kind::SetPacked,
        RecordKind::ZSetPacked => Kind::ZSetPacked,
        _ => panic!("the other kinds were handled before"),
    }
}
