//! Keys that are not in memory, and how they come back.
//!
//! ```text
//!   a command ─► locate ─► not in the table ─► Restorer: where is its record? ─► retired? ─► absent
//!                                                                 │ no
//!                                                                 ▼
//!   other threads ─► Restored (built there) ─► install ─► entry in the table, as if it had always been
//! ```
//!
//! After a start from an index all keys are *cold*: the log has them, and memory does not. Values that
//! memory has dropped while it kept their keys are another matter: see `source`. A key comes
//! back as a whole, with all elements, before a command sees it; so nothing but this file and
//! [`Keyspace::locate`] knows that a key can be elsewhere. After the *Restorer* of paper 002 (section
//! 4.1), which restores on demand and step by step.
//!
//! # Why no older state is seen
//! The index says what the log said at the start. A key that was changed since is in the table, and is
//! found there first. One that was deleted since was brought back before; its record is retired then,
//! and what is retired is absent. A database that was emptied has another id, which the index does
//! not know. So no list of what was deleted is kept.
//!
//! # Invariants
//! - What is in the table is never replaced by what is brought back.
//! - A database's count of cold keys is how many are in the log and not in its table.
//! - What looks at all keys ([`Keyspace::scan`] and its like) asks for the names of cold ones: see `names`. A
//!   full rewrite waits until none is cold; the caller sees to that.

use base::{DbId, DbIndex, Lsn, ObjectId, Record, RecordAddr, RecordKind};
use hashbrown::HashSet;

use crate::access;
use crate::apply::{lost_entry, packed_kind};
use crate::cooling::{BARE_KEY_BYTES, forget_value, may_go};
use crate::database_map::{DatabaseMap, database_ids};
use crate::db::Db;
use crate::due::Due;
use crate::entry::Entry;
use crate::hash;
use crate::hasher::{Identity, KeyHasher};
use crate::journal::Journal;
use crate::keyspace::Keyspace;
use crate::libraries::Libraries;
use crate::lost::{LostKey, LostName};
use crate::object::Object;
use crate::record_check::{self, BadRecord};
use crate::source::{Need, RestoreError, Restorer, Source};
use crate::stream::LargeStream;
use crate::string;
use crate::table::{Keyed, Place};
use crate::value_type::Type;

/// A key that was built from its records, and belongs to no keyspace yet.
pub struct Restored {
    db: DbId,
    hash: u64,
    entry: Entry,
    expires_at_ms: Option<i64>,
    object: Option<Box<Object>>,
    /// Up to this block it was known which elements there are.
    known: Lsn,
    hasher: KeyHasher,
    /// Not even the name of the key is known.
    lost_name: Option<(Identity, LostName)>,
    /// Of a stream without its value: its end.
    end: Option<Box<Object>>,
    /// Of a stream the name of its last node, as the root says it, until that was gathered.
    last_node: Option<Box<[u8]>>,
    /// Elements that could not be read, and why not.
    unread: Vec<(RecordAddr, RestoreError)>,
}

impl Restored {
    /// Begins with the record of the key entry, read at `addr`.
    ///
    /// # Errors
    /// [`BadRecord`] when it is not a record of a key.
    pub fn of(record: &Record<'_>, addr: RecordAddr, hasher: KeyHasher) -> Result<Self, BadRecord> {
        let bad = |what| BadRecord { kind: record.kind, what };
        record_check::check(record).map_err(bad)?;
        let mut object = None;
        let mut entry = match record.kind {
            kind if kind.is_element() || kind.is_delete() || kind.is_of_no_database() => {
                return Err(bad("not the record of a key"));
            }
            RecordKind::String => string::entry_of(record),
            RecordKind::ValueLost | RecordKind::KeyLost => lost_entry(record),
            kind if kind.is_root() => {
                let mut root = Object::of_record(record.object, kind).ok_or(bad("no object"))?;
                root.apply_root(record.value);
                object = Some(Box::new(root));
                // Eight bytes, as the pointer that takes their place.
                Entry::with_int(record.key, 0)
            }
            kind => Entry::with_bytes(record.key, packed_kind(kind), record.value),
        };
        entry.set_addr(Some(addr));
        let is_unnamed = record.kind == RecordKind::KeyLost;
        let is_stream = record.kind == RecordKind::Stream;
        Ok(Self {
            last_node: is_stream.then(|| LargeStream::last_node_of(record.value)).flatten(),
            lost_name: is_unnamed.then(|| LostName::of(record, addr)),
            db: record.db,
            hash: hasher.hash(record.key),
            entry,
            expires_at_ms: record.expires_at_ms,
            object,
            known: Lsn(u64::MAX),
            hasher,
            end: None,
            unread: Vec::new(),
        })
    }

    /// Begins with nothing but the name of a stream, of which memory has the end: the root with it.
    #[must_use]
    pub fn of_elements(db: DbId, key: &[u8], stream: ObjectId, hasher: KeyHasher) -> Self {
        Self {
            db,
            hash: hasher.hash(key),
            entry: Entry::with_int(key, 0),
            expires_at_ms: None,
            object: Some(Box::new(Object::rooted_stream(stream))),
            known: Lsn(u64::MAX),
            hasher,
            lost_name: None,
            end: None,
            last_node: None,
            unread: Vec::new(),
        }
    }

    /// The name of the element that the last node of a stream is, as its root says; `None` if it has no node, or that was gathered, or this
    /// is no stream.
    #[must_use]
    pub fn last_node(&self) -> Option<&[u8]> {
        self.last_node.as_deref()
    }

    /// As [`Restored::of`], without its value, which cannot be read.
    ///
    /// # Errors
    /// See there.
    pub fn without_value(
        record: &Record<'_>,
        addr: RecordAddr,
        hasher: KeyHasher,
    ) -> Result<Self, BadRecord> {
        let mut restored = Self::of(record, addr, hasher)?;
        if let Some(object) = restored.object.take() {
            restored.entry.replace_object(object);
        }
        if !restored.entry.is_bare() {
            restored.entry.make_bare();
        }
        Ok(restored)
    }

    /// A key without its value, as an index knows it as of the block `known`; nothing is read. The index tells
    /// keys apart by 96 bits of a hash.
    #[must_use]
    pub fn by_index(key: &[u8], of: &LostKey, known: Lsn, hasher: KeyHasher) -> Self {
        let object = of.object.map(|id| (id, known));
        let mut entry = Entry::bare(key, of.value_type, object);
        entry.set_addr(Some(of.addr));
        Self {
            lost_name: None,
            db: of.db,
            hash: hasher.hash(key),
            entry,
            expires_at_ms: of.expires_at_ms,
            object: None,
            known,
            hasher,
            end: None,
            last_node: None,
            unread: Vec::new(),
        }
    }

    /// Names the key, if its name is lost and this one has its identity.
    #[must_use]
    pub fn named(mut self, key: &[u8]) -> Self {
        if let Some((_, lost)) =
            self.lost_name.take_if(|(identity, _)| *identity == self.hasher.identity(key))
        {
            (self.entry, self.hash) = (lost.entry(key), self.hasher.hash(key));
        }
        self
    }

    /// The elements that are gathered are those as of this block.
    pub const fn gather_as_of(&mut self, known: Lsn) {
        self.known = known;
    }

    /// The object whose elements are to be gathered; none for a value that is in its entry.
    #[must_use]
    pub fn object(&self) -> ObjectId {
        self.object.as_ref().map_or(ObjectId::NONE, |object| object.id())
    }

    /// The database that the key is in.
    #[must_use]
    pub const fn database(&self) -> DbId {
        self.db
    }

    /// Where its record is.
    pub(crate) fn addr(&self) -> Option<RecordAddr> {
        self.entry.addr()
    }

    /// When it expires.
    pub(crate) const fn expires_at_ms(&self) -> Option<i64> {
        self.expires_at_ms
    }

    /// The key.
    #[must_use]
    pub fn key(&self) -> &[u8] {
        self.entry.key()
    }

    /// Takes over an element of the object; each of them once, in any order.
    ///
    /// # Errors
    /// [`BadRecord`] when it is none of this object's.
    pub fn gather(&mut self, record: &Record<'_>, addr: RecordAddr) -> Result<(), BadRecord> {
        let bad = |what| BadRecord { kind: record.kind, what };
        record_check::check(record).map_err(bad)?;
        let object = self.object.as_mut().ok_or(bad("the key has no elements"))?;
        if record.object != object.id() || !object.is_of(record.kind) || record.kind.is_root() {
            return Err(bad("an element of something else"));
        }
        self.last_node.take_if(|name| **name == *record.sub);
        match object.apply_element(self.hasher, record, addr, true) {
            None => Ok(()),
            Some(_) => Err(bad("an element is there twice")),
        }
    }

    /// An element could not be read. It may have been superseded before: see [`Restored::whole`].
    pub fn note_unread(&mut self, addr: RecordAddr, why: RestoreError) {
        self.unread.push((addr, why));
    }

    /// How many elements could not be read.
    #[must_use]
    pub const fn unread_count(&self) -> usize {
        self.unread.len()
    }

    /// The same, if nothing that could not be read is needed.
    ///
    /// # Errors
    /// Why something that is needed could not be read: damage before all else.
    pub(crate) fn whole(self, journal: &dyn Journal) -> Result<Self, RestoreError> {
        match self.lacks(journal) {
            Some(why) => Err(why.clone()),
            None => Ok(self),
        }
    }

    fn lacks(&self, journal: &dyn Journal) -> Option<&RestoreError> {
        let needed = self.unread.iter().filter(|(addr, _)| !journal.is_retired(*addr));
        let reasons = needed.map(|(_, why)| why);
        reasons.min_by_key(|why| !matches!(why, RestoreError::Corrupt(_)))
    }

    /// The end of a stream, if no more of it was read.
    pub(crate) fn end(&self) -> Option<&Object> {
        self.end.as_deref()
    }

    /// See [`Restored::end`].
    pub(crate) fn into_end(self) -> Option<Box<Object>> {
        self.end
    }

    /// Ends the gathering of a large value of which no more is wanted than a stream's end: the entry has no value. Of a stream its last
    /// node was gathered, if it has one; of another value nothing.
    ///
    /// # Errors
    /// As [`Restored::arrange`].
    pub fn arrange_end(mut self) -> Result<Self, BadRecord> {
        if let Some(object) = self.object.take_if(|object| object.value_type() != Type::Stream) {
            self.stand_for(&object);
        }
        let mut arranged = self.arrange()?;
        if let Some(mut object) = arranged.entry.take_object() {
            object.note_partial_unit();
            arranged.stand_for(&object);
            arranged.end = Some(object);
        }
        Ok(arranged)
    }

    /// The entry stands for `object`, which the log has as it was after the block that is known.
    fn stand_for(&mut self, object: &Object) {
        let addr = self.entry.addr();
        let of = Some((object.id(), self.known));
        self.entry = Entry::bare(self.entry.key(), object.value_type(), of);
        self.entry.set_addr(addr);
    }

    /// Ends the gathering: what is cheaper to build at once is built.
    ///
    /// # Errors
    /// [`BadRecord`] for an object without elements, as no command leaves one, and for a stream without its last node.
    pub fn arrange(mut self) -> Result<Self, BadRecord> {
        let Some(mut object) = self.object.take() else { return Ok(self) };
        let bad = |what| BadRecord { kind: object.root_kind(), what };
        if object.len() == 0 {
            return Err(bad("it has no elements"));
        }
        if self.last_node.is_some() {
            return Err(bad("its last node is not there"));
        }
        object.arrange(self.hasher);
        if self.known < Lsn(u64::MAX) {
            // What was gathered before is older, should it come later.
            object.changed_at = self.known;
        }
        self.entry.replace_object(object);
        Ok(self)
    }

    /// The entry alone, which belongs to no table.
    pub(crate) fn into_entry(self) -> Entry {
        self.entry
    }

    /// About how many bytes it takes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let object = self.entry.object().or(self.end.as_deref());
        self.entry.block_bytes() + object.map_or(0, |object| object.allocated_bytes(16))
    }
}

/// Why a key comes back, which says how hot it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Warmth {
    /// A request waits for it.
    Asked,
    /// It was hot before the start.
    Hot,
    /// All of them do.
    Unknown,
}

/// What an index knows of a keyspace whose keys are all cold.
#[derive(Debug, Clone, Default)]
pub struct ColdStart {
    /// The newest record of the databases, and where it is.
    pub databases: Option<(DatabaseMap, RecordAddr)>,
    /// How many keys each database has, by its id.
    pub keys: Vec<(DbId, u64)>,
    /// One above the largest database that a key was ever logged in; 0 for none.
    pub databases_seen: u64,
    /// The libraries of functions.
    pub libraries: Libraries,
}

/// What a keyspace with cold keys has in addition.
#[derive(Default)]
pub(crate) struct Cold {
    /// What the running command or transaction has looked up: of that the table alone tells from then
    /// on, so it cannot turn out to be unreadable when the first command has begun.
    looked_up: HashSet<(DbId, Box<[u8]>)>,
    /// When the keys became cold that were cold at the start.
    started_at_ms: i64,
    /// How many keys have left memory since the start, each time that they did.
    departed: u64,
    /// No large value that has left memory with its key has changed after this block.
    departed_changed_at: Lsn,
    /// When those expire that do.
    pub(crate) due: Due,
    /// Databases that were emptied: what they held is retired when someone lists it.
    dropped: Vec<DbId>,
    /// Those that are being listed.
    listing: Vec<DbId>,
}

impl<J: Journal> Keyspace<J> {
    /// Makes all keys cold that `start` counts, for `restorer` to find. The keyspace is empty.
    ///
    /// # Panics
    /// When it is not.
    pub fn begin_cold(&mut self, start: &ColdStart, restorer: Box<dyn Restorer>) {
        let is_empty = self.dbs.iter().all(|db| db.keys().is_empty());
        assert!(
            is_empty && self.limbo.is_none() && self.walk.is_none(),
            "keys are cold from the beginning on"
        );
        let map = start.databases.as_ref().map(|(map, _)| map);
        let (ids, next) = database_ids(map, self.dbs.len(), start.databases_seen);
        self.next_db_id = next;
        self.databases_addr = start.databases.as_ref().map(|(_, addr)| *addr);
        self.libraries = start.libraries.clone();
        self.dbs = ids.into_iter().map(Db::cold).collect();
        for (id, count) in &start.keys {
            if let Some(index) = self.dbs.index_of(*id) {
                self.dbs[index].cold_count = *count;
            }
        }
        self.source = Some(Box::new(Source::new(restorer)));
        let due = Due::unknown();
        self.cold = Some(Box::new(Cold { started_at_ms: self.now_ms, due, ..Cold::default() }));
    }
}

impl Keyspace {
    /// Whether keys may be cold.
    #[must_use]
    #[inline]
    pub const fn is_cold(&self) -> bool {
        self.cold.is_some()
    }

    /// How many keys are cold, in all databases.
    #[must_use]
    pub fn cold_keys(&self) -> u64 {
        self.dbs.iter().map(|db| db.cold_count).sum()
    }

    /// Databases that were emptied since the last call while keys of theirs were cold: the records of
    /// those are garbage, and [`Keyspace::retire_cold`] is to be told of them. Those that were not cold
    /// are freed first, so that no record is retired twice.
    pub fn take_dropped(&mut self) -> Vec<DbId> {
        if self.free.len() > 0 {
            return Vec::new();
        }
        let Some(cold) = &mut self.cold else { return Vec::new() };
        cold.listing.extend(&cold.dropped);
        std::mem::take(&mut cold.dropped)
    }

    /// [`Keyspace::retire_cold`] was told of all of a database that was emptied.
    pub fn end_dropped(&mut self, db: DbId) {
        self.cold.iter_mut().for_each(|cold| cold.listing.retain(|listed| *listed != db));
    }

    /// How many databases were emptied whose garbage is not known yet.
    pub(crate) fn dropping(&self) -> usize {
        self.cold.as_ref().map_or(0, |cold| cold.dropped.len() + cold.listing.len())
    }

    /// What [`Keyspace::take_dropped`] has, or will have.
    #[must_use]
    pub fn dropped(&self) -> &[DbId] {
        self.cold.as_ref().map_or(&[], |cold| &cold.dropped)
    }

    /// Retires the record of a cold key of an emptied database, which is at `addr`, and those of its
    /// elements, little by little. A key that was brought back before is none of those: its object may
    /// be another key's by now, and its records are retired with it.
    pub fn retire_cold(&mut self, addr: RecordAddr, elements: Vec<RecordAddr>) {
        if !self.recorder.journal.is_retired(addr) {
            self.recorder.retire(Some(addr));
            if !elements.is_empty() {
                self.free.addrs(elements.into_iter());
            }
        }
    }

    /// Where a key is that the table does not have, if it is cold. It comes back as a whole, or as an end, if that is the need.
    #[inline]
    pub(crate) fn locate_cold(
        &mut self,
        db: DbIndex,
        hash: u64,
        key: &[u8],
        need: Need,
    ) -> Option<Place> {
        let may_be = self.cold.is_some() || self.lost.may_be;
        if may_be { self.restore_key(db, hash, key, need) } else { None }
    }

    #[cold]
    fn restore_key(&mut self, db: DbIndex, hash: u64, key: &[u8], need: Need) -> Option<Place> {
        if let Some(place) = self.name_lost(db, hash, key) {
            return Some(place);
        }
        let Self { cold, source, dbs, recorder, .. } = self;
        let (cold, source) = (cold.as_mut()?, source.as_mut()?);
        let id = dbs[db].id;
        let name = (id, Box::from(key));
        if !dbs[db].may_be_cold || cold.looked_up.contains(&name) {
            return None;
        }
        match source.restore(id, key, need, &recorder.journal) {
            Ok(restored) => {
                cold.looked_up.insert(name);
                self.install_restored(db, restored?, Warmth::Asked);
                self.dbs[db].keys().locate(hash, key)
            }
            Err(()) => None,
        }
    }

    /// Notes that the running command or transaction has looked the key up.
    pub(crate) fn note_looked_up(&mut self, db: DbIndex, key: &[u8]) {
        let id = self.dbs[db].id;
        if let Some(cold) = &mut self.cold {
            cold.looked_up.insert((id, key.into()));
        }
    }

    /// Puts a key, or its value, that was read elsewhere in its place, unless something has happened to
    /// it since. Whether it was put there.
    pub fn install(&mut self, restored: Restored) -> bool {
        self.put_or_discard(restored, Self::put)
    }

    fn put_or_discard(
        &mut self,
        restored: Restored,
        put: impl FnOnce(&mut Self, &mut Option<Restored>) -> bool,
    ) -> bool {
        let mut restored = Some(restored);
        let is_put = put(self, &mut restored);
        // A large value that comes too late is freed as any other, little by little.
        if let Some(object) = restored.and_then(|mut left| left.entry.take_object()) {
            self.free.spent(*object);
        }
        is_put
    }

    /// Takes what it puts in its place.
    fn put(&mut self, slot: &mut Option<Restored>) -> bool {
        let Some(restored) = slot else { return false };
        let Some(db) = self.dbs.index_of(restored.db) else { return false };
        let found = self.dbs[db].keys().locate(restored.hash, restored.entry.key());
        let Some(place) = found else {
            // The request that waits for it is to find it.
            restored.entry.note_returned();
            return self.put_key(slot, true, Warmth::Asked);
        };
        let entry = self.dbs[db].keys().at(place);
        if restored.end.is_some() {
            return self.put_end(db, place, restored);
        }
        // An object keeps its address when its elements change: it may have been here meanwhile.
        let has_value = entry.is_bare() && !restored.entry.is_bare();
        // A stream of which memory has the end may have a later root.
        let incarnation = restored.entry.object().map(|object| object.id());
        let has_end =
            self.ends.has_of(entry) && entry.bare_object().map(|(_, stream)| stream) == incarnation;
        let is_same = has_value && (has_end || entry.addr() == restored.entry.addr());
        let is_wanted = is_same
            && entry.bare_changed_at() <= restored.known
            && restored.lacks(&self.recorder.journal).is_none();
        if let Some(restored) = slot.take_if(|_| is_wanted) {
            self.had_expiring_fields |= hash::has_expiring_fields(&restored.entry);
            self.dbs[db].fill(place, restored.hash, restored.entry);
            self.ends.join(self.dbs[db].entry_mut(place));
            self.count_warmed();
        }
        is_wanted
    }

    /// Takes the end of the stream at `place`, if the value is not in memory, nor its end.
    fn put_end(&mut self, db: DbIndex, place: Place, restored: &mut Restored) -> bool {
        let entry = self.dbs[db].keys().at(place);
        let is_same = entry.addr() == restored.entry.addr()
            && entry.bare_object().is_some()
            && entry.bare_object() == restored.entry.bare_object();
        let is_wanted =
            is_same && entry.bare_changed_at() <= restored.known && !self.ends.has_of(entry);
        if let Some(end) = restored.end.take_if(|_| is_wanted) {
            self.ends.insert(end, restored.db, restored.entry.key());
            // The request that waits for it is to find it.
            self.dbs[db].entry_mut(place).note_returned();
            self.count_warmed();
        }
        is_wanted
    }

    /// Puts a key in its place, which comes unasked, or for the reason that `warmth` says. One that is there already is left as it is, but
    /// may get its value; and if memory is short, the value stays in the log only, if it may.
    pub fn install_key(&mut self, restored: Restored, with_value: bool, warmth: Warmth) -> bool {
        self.put_or_discard(restored, |it, slot| it.put_key(slot, with_value, warmth))
    }

    /// Takes what it puts in its place.
    fn put_key(&mut self, slot: &mut Option<Restored>, with_value: bool, warmth: Warmth) -> bool {
        let Some(restored) = slot else { return false };
        let Some(db) = self.dbs.index_of(restored.db) else { return false };
        let addr = restored.entry.addr();
        let is_gone = addr.is_none_or(|addr| self.recorder.journal.is_retired(addr));
        let Some(cold) = &self.cold else { return false };
        // An object that was here meanwhile keeps its address, whatever became of its elements.
        if is_gone || restored.known < cold.departed_changed_at {
            return false;
        }
        if let Some((identity, lost)) = restored.lost_name.take() {
            let is_named = self.dbs[db].find_by_identity(restored.hasher, &identity).is_some();
            let (db, expires) = (&mut self.dbs[db], lost.expires_at_ms.is_some());
            if !is_named && db.lost_names.insert(identity, lost).is_none() {
                db.note_returned(expires);
                self.lost.may_be = true;
            }
            return !is_named;
        }
        if self.dbs[db].has_key(restored.hasher, restored.hash, restored.entry.key()) {
            let entry = self.dbs[db].keys().find(restored.hash, restored.entry.key());
            return with_value && entry.is_some_and(Entry::is_bare) && self.put(slot);
        }
        let indexed = self.indexed_lsn();
        let has_value = !restored.entry.is_bare();
        if has_value && !with_value && may_go(&restored.entry, &self.recorder.journal, indexed) {
            forget_value(&mut restored.entry, &mut self.free);
            self.may_be_bare = true;
        }
        let Some(restored) = slot.take() else { return false };
        self.count_warmed();
        self.install_restored(db, restored, warmth);
        true
    }

    pub(crate) fn install_restored(&mut self, db: DbIndex, restored: Restored, warmth: Warmth) {
        debug_assert!(restored.object.is_none(), "it was arranged");
        let Restored { db: id, hash, mut entry, expires_at_ms, end, .. } = restored;
        end.into_iter().for_each(|end| self.ends.insert(end, id, entry.key()));
        let (settings, now_ms) = (&self.settings, self.now_ms);
        let started_at_ms = self.cold.as_ref().map_or(now_ms, |cold| cold.started_at_ms);
        entry.set_access(match warmth {
            Warmth::Asked => access::fresh(settings, now_ms),
            Warmth::Hot => access::hot(settings, now_ms),
            Warmth::Unknown => access::unknown(settings, started_at_ms, now_ms),
        });
        let hasher = self.recorder.hasher;
        let db = &mut self.dbs[db];
        self.lost.may_be |= entry.is_lost();
        self.may_be_bare |= entry.is_bare();
        self.had_expiring_fields |= hash::has_expiring_fields(&entry);
        let place = db.insert(&mut self.walk, hasher, hash, entry);
        db.set_expiry(&mut self.walk, place, hash, expires_at_ms);
        db.note_returned(expires_at_ms.is_some());
    }

    /// Everything was brought back: databases whose keys have all come have no cold ones. How many keys
    /// were counted and did not come.
    pub fn end_cold(&mut self) -> u64 {
        self.dbs.iter_mut().for_each(|db| db.may_be_cold = db.cold_count > 0);
        if self.dropping() == 0 && self.dbs.iter().all(|db| !db.may_be_cold) {
            self.cold = None;
        }
        self.cold_keys()
    }

    /// How many keys have left memory since the start, each time that they did: at most so many are cold that
    /// were not cold then all the time.
    #[must_use]
    pub fn departed(&self) -> u64 {
        self.cold.as_ref().map_or(0, |cold| cold.departed)
    }

    /// Whether keys that come unasked had better stay in the log, because memory is short: keys take
    /// `key_bytes_max` already.
    #[must_use]
    pub fn has_no_room_for_keys(&self, key_bytes_max: u64) -> bool {
        let keys: u64 = self.dbs.iter().map(|db| db.keys().len() as u64).sum();
        keys * BARE_KEY_BYTES > key_bytes_max
    }

    /// Takes an entry out of memory altogether, which the index knows. Its key is cold from then on.
    pub(crate) fn depart(&mut self, db: DbIndex, entry: &Entry) {
        let hash = self.hash_of(entry.key());
        let Self { dbs, source, cold, stats, .. } = self;
        let db = &mut dbs[db];
        db.note_departed(entry);
        stats.departed += 1;
        let cold = cold.get_or_insert_default();
        cold.departed += 1;
        cold.due.note(entry.expires_at_ms());
        cold.departed_changed_at = cold.departed_changed_at.max(entry.bare_changed_at());
        if let (Some(source), Some(addr)) = (source, entry.addr())
            && source.listings.are_open()
        {
            source.listings.note_departed(db.id, hash, addr, entry);
        }
    }

    /// Another command or transaction begins: keys may be looked up again.
    pub fn forget_lookups(&mut self) {
        if let Some(cold) = &mut self.cold {
            cold.looked_up.clear();
        }
    }

    /// Notes that a database with cold keys gets another id, under which none are.
    pub(crate) fn note_dropped(&mut self, db: DbIndex) {
        let id = self.dbs[db].id;
        if let Some(cold) = &mut self.cold
            && self.dbs[db].cold_count > 0
        {
            cold.dropped.push(id);
        }
    }
}
