//! The databases, and every way to look up, create, change and delete a key.
//!
//! # Invariants
//! - An expired key is deleted, with a record, before a command sees it.
//! - A key's entry that was logged has the address of its newest record; that record, and those
//!   of its elements, are the only ones of the key that are not retired (those of deleted
//!   objects are retired by [`FreeQueue`] soon after).
//! - Database ids and object ids are never used twice.

use base::{DbId, DbIndex, ObjectId, RecordAddr};

use crate::access;
use crate::cold::Cold;
use crate::collection::{Cell, Collection, Updated, ValueRef};
use crate::cooling::Hand;
use crate::db::{Db, Dbs};
use crate::effects::{Effects, Interest, Notify};
use crate::entry::Entry;
use crate::free::FreeQueue;
use crate::hasher::KeyHasher;
use crate::journal::Journal;
use crate::libraries::Libraries;
use crate::limbo::{Home, Limbo};
use crate::lost::Lost;
use crate::object::Object;
use crate::recorder::Recorder;
use crate::settings::Settings;
use crate::source::{Need, Source};
use crate::stream::end::Ends;
use crate::table::Place;
use crate::value_type::{Type, WrongType, entry_type};
use crate::walk::Walker;

/// What was counted since the start, or since CONFIG RESETSTAT.
#[derive(Debug, Clone, Copy, Default)]
pub struct Stats {
    /// Reads that found their key.
    pub hits: u64,
    /// Reads that did not.
    pub misses: u64,
    /// Keys that expired.
    pub expired: u64,
    /// Fields of hashes that expired.
    pub expired_fields: u64,
    /// Keys that were evicted.
    pub evicted: u64,
    /// Values that have left memory, and are in the log.
    pub cooled: u64,
    /// Keys that have left memory after their values.
    pub departed: u64,
    /// Entries that were added to streams of which memory had the end alone.
    pub added_to_ends: u64,
}

/// See the file's top.
///
/// A keyspace owns its journal, and one whose journal is of a known type can be used as one with
/// any journal: `&mut Keyspace<J>` coerces to `&mut Keyspace`, which is what commands see.
pub struct Keyspace<J: ?Sized = dyn Journal> {
    pub(crate) dbs: Dbs,
    pub(crate) free: FreeQueue,
    /// The ends of streams that are added to while they are in the log only.
    pub(crate) ends: Ends,
    pub(crate) rng: fastrand::Rng,
    pub(crate) scratch: Vec<u8>,
    /// Where the newest `Databases` record is.
    pub(crate) databases_addr: Option<RecordAddr>,
    pub(crate) libraries: Libraries,
    /// There is a stream, or was.
    pub(crate) had_streams: bool,
    /// There is a hash with fields that expire, or was.
    pub(crate) had_expiring_fields: bool,
    pub(crate) next_db_id: u64,
    pub(crate) settings: Settings,
    pub(crate) now_ms: i64,
    pub(crate) stats: Stats,
    pub(crate) dirty: u64,
    pub(crate) effects: Effects,
    pub(crate) watched: Interest,
    pub(crate) awaited: Interest,
    /// Of those that are waited for, which are ready at any change.
    pub(crate) awaited_changes: Interest,
    pub(crate) access_tracked: bool,
    pub(crate) is_frozen: bool,
    pub(crate) is_timeless: bool,
    /// Where keys and values are that memory does not have.
    pub(crate) source: Option<Box<Source>>,
    /// While keys may be in the log only.
    pub(crate) cold: Option<Box<Cold>>,
    /// Whether a value may have left memory.
    pub(crate) may_be_bare: bool,
    pub(crate) lost: Lost,
    pub(crate) hand: Hand,
    /// While the keyspace is fed from a log.
    pub(crate) limbo: Option<Box<Limbo>>,
    /// Streams whose roots do not name their last nodes, with where they are: see [`Keyspace::log_stale_roots`].
    pub(crate) stale_roots: Vec<(Home, RecordAddr)>,
    /// While a snapshot of memory is taken.
    pub(crate) walk: Walker,
    /// A walk was under way in the keyspace that this one has succeeded.
    pub(crate) has_lost_walk: bool,
    /// The last field, as it has the journal.
    pub(crate) recorder: Recorder<J>,
}

impl<J: Journal> Keyspace<J> {
    /// `database_count` empty databases. `seed` is of the hash (kept in the log's manifest) and
    /// of random picks.
    #[must_use]
    pub fn new(journal: J, seed: [u8; 16], database_count: usize) -> Self {
        let count = database_count as u64;
        let rng_seed = u64::from_le_bytes(*seed.first_chunk().expect("the seed is longer"));
        Self {
            dbs: (0..count).map(|id| Db::new(DbId(id))).collect(),
            free: FreeQueue::default(),
            ends: Ends::default(),
            rng: fastrand::Rng::with_seed(rng_seed),
            scratch: Vec::new(),
            databases_addr: None,
            libraries: Libraries::default(),
            had_streams: false,
            had_expiring_fields: false,
            next_db_id: count,
            settings: Settings::default(),
            now_ms: 0,
            stats: Stats::default(),
            dirty: 0,
            effects: Effects::default(),
            watched: Interest::default(),
            awaited: Interest::default(),
            awaited_changes: Interest::default(),
            access_tracked: true,
            is_frozen: false,
            is_timeless: false,
            source: None,
            cold: None,
            may_be_bare: false,
            lost: Lost::default(),
            hand: Hand::default(),
            limbo: None,
            stale_roots: Vec::new(),
            walk: None,
            has_lost_walk: false,
            recorder: Recorder::new(journal, KeyHasher::new(seed)),
        }
    }
}

impl Keyspace {
    /// Objects made from now on have ids from this one on.
    pub fn skip_objects_below(&mut self, floor: ObjectId) {
        self.recorder.next_object = self.recorder.next_object.max(floor.0);
    }

    /// Takes the place of a keyspace that held the same data: what clients watch and wait for, and
    /// what was counted, goes on.
    pub fn succeed(&mut self, before: &mut Self) {
        self.watched = std::mem::take(&mut before.watched);
        self.awaited = std::mem::take(&mut before.awaited);
        self.awaited_changes = std::mem::take(&mut before.awaited_changes);
        self.had_streams |= before.had_streams;
        self.had_expiring_fields |= before.had_expiring_fields;
        self.effects = std::mem::take(&mut before.effects);
        self.stats = before.stats;
        self.dirty = before.dirty;
        self.now_ms = before.now_ms;
        self.has_lost_walk = before.walk.is_some() || before.has_lost_walk;
    }

    /// Begins a command: the time that it sees, and what its reply depends on.
    pub fn begin_command(&mut self, now_ms: i64) {
        self.now_ms = now_ms;
        self.recorder.begin_command();
    }

    /// Ends a command: the LSN that must be durable before its reply may be seen (0 for none),
    /// and whether it wrote.
    #[must_use]
    pub fn end_command(&self) -> (base::Lsn, bool) {
        self.recorder.end_command()
    }

    /// The time that the running command sees, in Unix milliseconds.
    #[must_use]
    pub const fn now_ms(&self) -> i64 {
        self.now_ms
    }

    /// The settings.
    #[must_use]
    pub const fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The settings, to be changed.
    pub const fn settings_mut(&mut self) -> &mut Settings {
        &mut self.settings
    }

    /// Whether lookups count as use for eviction (`CLIENT NO-TOUCH`, OBJECT, TYPE do not).
    pub const fn track_access(&mut self, tracked: bool) {
        self.access_tracked = tracked;
    }

    /// The source of random picks.
    pub const fn rng(&mut self) -> &mut fastrand::Rng {
        &mut self.rng
    }

    /// The keyed hash of this database.
    #[must_use]
    pub const fn hasher(&self) -> KeyHasher {
        self.recorder.hasher
    }

    /// What was counted.
    #[must_use]
    pub const fn stats(&self) -> &Stats {
        &self.stats
    }

    /// What was counted, to be reset.
    pub const fn stats_mut(&mut self) -> &mut Stats {
        &mut self.stats
    }

    /// How many changes there were (`rdb_changes_since_last_save`).
    #[must_use]
    pub const fn dirty(&self) -> u64 {
        self.dirty
    }

    /// How many databases there are.
    #[must_use]
    pub fn database_count(&self) -> usize {
        self.dbs.len()
    }

    /// Returns the indexes of all databases, in order.
    pub fn databases(&self) -> impl DoubleEndedIterator<Item = DbIndex> + use<> {
        DbIndex::all(self.dbs.len())
    }

    /// Returns the index with this number, if there is such a database.
    #[must_use]
    pub fn database(&self, number: usize) -> Option<DbIndex> {
        DbIndex::checked(number, self.dbs.len())
    }

    /// How many keys a database has (expired ones that no command has met yet among them), and how many
    /// of them expire; those that were cold at the start count there once [`Keyspace::note_cold_expiring`] has told.
    #[must_use]
    pub fn size(&self, db: DbIndex) -> (usize, usize) {
        (self.dbs[db].len(), self.dbs[db].all_expiring_count())
    }

    /// The running command read something that depends on every key.
    pub fn note_read_all(&mut self) {
        self.recorder.note_read_all();
    }

    /// Reads what looking up keys with these hashes will read, so that it is in the processor's
    /// cache. Nothing lies between these reads, so their misses overlap; those of as many commands
    /// do not.
    pub fn prefetch(&self, db: DbIndex, hashes: &[u64]) {
        hashes.iter().for_each(|hash| _ = self.dbs[db].keys().touch(*hash));
    }

    /// As [`Keyspace::prefetch`], for keys that are about to be created.
    pub fn prefetch_room(&self, db: DbIndex, hashes: &[u64]) {
        hashes.iter().for_each(|hash| self.dbs[db].keys().touch_room(*hash));
    }

    // ---- lookup ---------------------------------------------------------------------------

    pub(crate) fn hash_of(&self, key: &[u8]) -> u64 {
        self.recorder.hasher.hash(key)
    }

    /// As [`Keyspace::locate_name`], with the value in memory; `None` also if it cannot be read.
    pub(crate) fn locate(&mut self, db: DbIndex, hash: u64, key: &[u8]) -> Option<Place> {
        let place = self.locate_name(db, hash, key)?;
        self.with_value(db, place)
    }

    /// Where the key is, if it is there and not expired; an expired one is deleted. Its value may be in
    /// the log only.
    pub(crate) fn locate_name(&mut self, db: DbIndex, hash: u64, key: &[u8]) -> Option<Place> {
        debug_assert!(
            self.limbo.is_none(),
            "what is fed from a log is changed by its records alone"
        );
        let place = match self.dbs[db].keys().locate(hash, key) {
            Some(place) => place,
            None => self.locate_cold(db, hash, key, Need::Value)?,
        };
        if self.is_expired(self.dbs[db].keys().at(place)) {
            self.expire(db, hash, key);
            return None;
        }
        if self.had_expiring_fields && !self.expire_fields_before_use(db, hash, place) {
            return None;
        }
        Some(place)
    }

    /// Deletes a key that has expired.
    pub(crate) fn expire(&mut self, db: DbIndex, hash: u64, key: &[u8]) {
        if self.remove(db, hash, key) {
            self.effects.note_unasked();
            self.stats.expired += 1;
            self.notify(Notify::EXPIRED, "expired", db, key);
        }
    }

    /// The entry of a key that is read: counts the read, notes its use and what it depends on.
    pub(crate) fn lookup(&mut self, db: DbIndex, key: &[u8]) -> Option<&Entry> {
        let place = self.lookup_place(db, key)?;
        let place = self.with_value(db, place)?;
        Some(self.dbs[db].keys().at(place))
    }

    /// As [`Keyspace::lookup`]; the value may be in the log only.
    fn lookup_place(&mut self, db: DbIndex, key: &[u8]) -> Option<Place> {
        let hash = self.hash_of(key);
        let Some(place) = self.locate_to_read(db, hash, key) else {
            self.recorder.note_missing(self.dbs[db].id, hash);
            self.stats.misses += 1;
            self.notify(Notify::KEY_MISS, "keymiss", db, key);
            return None;
        };
        self.stats.hits += 1;
        self.mark_used(db, place);
        self.note_read(db, place);
        Some(place)
    }

    /// The running command has read the entry at `place`, or what it stands for: of a stream in the log its end may be newer.
    pub(crate) fn note_read(&mut self, db: DbIndex, place: Place) {
        let entry = self.dbs[db].keys().at(place);
        self.recorder.note_read(entry);
        if let Some(lsn) = self.ends.changed_at(entry) {
            self.recorder.note_read_of(lsn);
        }
    }

    /// Logs the entry at `place`.
    pub(crate) fn log_key(&mut self, db: DbIndex, place: Place) {
        self.dbs[db].log_key(&mut self.recorder, place);
    }

    /// Notes that a key was used, for eviction.
    pub(crate) fn mark_used(&mut self, db: DbIndex, place: Place) {
        if self.access_tracked && !self.settings.eviction.is_lrm() {
            let (settings, now_ms, rng) = (&self.settings, self.now_ms, &mut self.rng);
            self.dbs[db].note_use(place, |bits| access::used(bits, settings, now_ms, rng));
        }
    }

    /// Notes that a value or its expiry was changed, for eviction.
    pub(crate) fn mark_changed(&mut self, db: DbIndex, place: Place) {
        if self.settings.eviction.is_lrm() {
            let now_ms = self.now_ms;
            self.dbs[db].note_use(place, |_| access::lru_clock(now_ms));
        }
    }

    /// The entry of a key that is looked at without being used: no counting, no access noted.
    pub(crate) fn peek(&mut self, db: DbIndex, key: &[u8]) -> Option<&Entry> {
        let place = self.peek_place(db, key)?;
        let place = self.with_value(db, place)?;
        Some(self.dbs[db].keys().at(place))
    }

    /// As [`Keyspace::peek`]; the value may be in the log only.
    pub(crate) fn peek_name(&mut self, db: DbIndex, key: &[u8]) -> Option<&Entry> {
        let place = self.peek_place(db, key)?;
        Some(self.dbs[db].keys().at(place))
    }

    pub(crate) fn peek_place(&mut self, db: DbIndex, key: &[u8]) -> Option<Place> {
        let hash = self.hash_of(key);
        let Some(place) = self.locate_to_read(db, hash, key) else {
            self.recorder.note_missing(self.dbs[db].id, hash);
            return None;
        };
        self.note_read(db, place);
        Some(place)
    }

    /// The type of a key's value, without counting as use.
    pub fn type_of(&mut self, db: DbIndex, key: &[u8]) -> Option<Type> {
        self.peek_name(db, key).map(entry_type)
    }

    /// Whether the key is there; counts as use when `touch`.
    pub fn exists(&mut self, db: DbIndex, key: &[u8], touch: bool) -> bool {
        if touch { self.lookup_place(db, key).is_some() } else { self.peek_name(db, key).is_some() }
    }

    /// A collection of the type `C`, to be read.
    ///
    /// # Errors
    /// [`WrongType`] when the key holds something else.
    pub fn read<C: Collection>(
        &mut self,
        db: DbIndex,
        key: &[u8],
    ) -> Result<Option<C::View<'_>>, WrongType> {
        let (hasher, seen_ms) = (self.recorder.hasher, self.seen_ms());
        let Some(entry) = self.lookup(db, key) else { return Ok(None) };
        if entry_type(entry) != C::TYPE {
            return Err(WrongType);
        }
        Ok(Some(C::view(ValueRef(entry.payload(), hasher, seen_ms))))
    }

    /// A collection of the type `C` that is about to be changed: this does not count as a read.
    ///
    /// # Errors
    /// [`WrongType`] when the key holds something else.
    pub fn read_to_change<C: Collection>(
        &mut self,
        db: DbIndex,
        key: &[u8],
    ) -> Result<Option<C::View<'_>>, WrongType> {
        let (hasher, seen_ms) = (self.recorder.hasher, self.seen_ms());
        match self.peek(db, key) {
            None => Ok(None),
            Some(entry) if entry_type(entry) != C::TYPE => Err(WrongType),
            Some(entry) => Ok(Some(C::view(ValueRef(entry.payload(), hasher, seen_ms)))),
        }
    }

    /// Several collections of the type `C` at once, to be read together.
    ///
    /// # Errors
    /// [`WrongType`] when one of the keys holds something else.
    pub fn read_many<C: Collection>(
        &mut self,
        db: DbIndex,
        keys: &[&[u8]],
    ) -> Result<Vec<Option<C::View<'_>>>, WrongType> {
        // The first pass deletes what has expired and counts; nothing changes in the second.
        for key in keys {
            self.read::<C>(db, key)?;
        }
        let (hasher, seen_ms) = (self.recorder.hasher, self.seen_ms());
        let table = self.dbs[db].keys();
        let entries = keys.iter().map(|key| table.find(hasher.hash(key), key));
        // Expired ones are there still when the keyspace is frozen.
        // One that is bare still could not be read.
        let is_seen = |entry: &&Entry| !self.is_expired(entry) && !entry.is_bare();
        let live = entries.map(|entry| entry.filter(is_seen));
        let value = |entry| C::view(ValueRef(Entry::payload(entry), hasher, seen_ms));
        Ok(live.map(|entry| entry.map(value)).collect())
    }

    // ---- change ---------------------------------------------------------------------------

    /// Changes a collection of the type `C` through its guard, and creates it when it is not
    /// there and `create` says so; `Ok(None)` when it is not there otherwise. See
    /// [`crate::collection`].
    ///
    /// # Errors
    /// [`WrongType`] when the key holds something else; nothing is changed then.
    pub fn update<C: Collection, R>(
        &mut self,
        db: DbIndex,
        key: &[u8],
        create: bool,
        change: impl FnOnce(&mut C::Guard<'_>) -> R,
    ) -> Result<Option<Updated<R>>, WrongType> {
        let hash = self.hash_of(key);
        let mut found = self.locate_name(db, hash, key);
        if let Some(place) = found {
            if entry_type(self.dbs[db].keys().at(place)) != C::TYPE {
                self.note_read(db, place);
                return Err(WrongType);
            }
            found = self.with_value(db, place);
            if found.is_none() && self.dbs[db].keys().locate(hash, key).is_some() {
                // It is there, and cannot be read: nothing is made in its place.
                return Ok(None);
            }
        }
        let place = match found {
            Some(place) => place,
            None if create => {
                let mut entry = match C::packed_kind() {
                    Some(kind) => Entry::with_bytes(key, kind.0, &[0]),
                    None => Entry::with_object(key, Object::begin(C::TYPE, &mut self.recorder)),
                };
                entry.set_access(access::fresh(&self.settings, self.now_ms));
                self.dbs[db].insert(&mut self.walk, self.recorder.hasher, hash, entry)
            }
            None => {
                self.recorder.note_missing(self.dbs[db].id, hash);
                return Ok(None);
            }
        };
        self.mark_used(db, place);
        let seen_ms = self.seen_ms();
        let changed = &mut self.dbs[db];
        let id = changed.id;
        let entry = changed.change(&mut self.walk, place, hash);
        // What the guard answers (how many were removed, say) is also a read.
        self.recorder.note_read(entry);
        let mut guard = C::open(Cell {
            entry,
            recorder: &mut self.recorder,
            settings: &self.settings,
            db: id,
            rng: &mut self.rng,
            scratch: &mut self.scratch,
            seen_ms,
        });
        let value = change(&mut guard);
        let closed = C::close(guard);
        if C::TYPE == Type::Hash {
            self.had_expiring_fields |= self.dbs[db].note_due_fields(place, hash);
        }
        if self.walk.is_some() {
            self.note_walked(db, place);
        }
        let created = found.is_none() && !closed.empty;
        let emptied = found.is_some() && closed.empty;
        if emptied {
            self.remove(db, hash, key);
        } else if closed.empty {
            // It was made for this change, which put nothing into it: it was never there.
            self.dbs[db].remove(&mut self.walk, self.recorder.hasher, hash, key);
        } else if closed.changed {
            self.dbs[db].note_object_changed(place, self.recorder.open_lsn());
            self.mark_changed(db, place);
            if closed.is_quiet {
                self.dirty += 1;
            } else {
                self.modified(db, key);
            }
        }
        if created {
            self.created(db, key);
        }
        Ok(Some(Updated { value, changed: closed.changed, created, emptied }))
    }

    /// Deletes a key. Whether it was there.
    pub fn delete(&mut self, db: DbIndex, key: &[u8]) -> bool {
        let hash = self.hash_of(key);
        if self.locate_name(db, hash, key).is_none() {
            self.recorder.note_missing(self.dbs[db].id, hash);
            return false;
        }
        self.remove(db, hash, key)
    }

    /// Deletes a key, expired or not, with a record if it had one.
    pub(crate) fn remove(&mut self, db: DbIndex, hash: u64, key: &[u8]) -> bool {
        let hasher = self.recorder.hasher;
        let Some(entry) = self.dbs[db].remove(&mut self.walk, hasher, hash, key) else {
            return false;
        };
        self.recorder.log_key_deleted(self.dbs[db].id, hash, &entry);
        self.modified(db, key);
        self.free.entry(&mut self.recorder, entry);
        true
    }

    /// When the key expires: `None` when it is not there, `Some(None)` when it does not.
    pub fn expires_at_ms(&mut self, db: DbIndex, key: &[u8]) -> Option<Option<i64>> {
        self.peek_name(db, key).map(Entry::expires_at_ms)
    }

    /// Sets or clears when the key expires. Whether it was there.
    pub fn set_expires_at_ms(&mut self, db: DbIndex, key: &[u8], at_ms: Option<i64>) -> bool {
        let hash = self.hash_of(key);
        let Some(place) = self.locate(db, hash, key) else {
            self.recorder.note_missing(self.dbs[db].id, hash);
            return false;
        };
        if self.dbs[db].keys().at(place).expires_at_ms() != at_ms {
            self.dbs[db].set_expiry(&mut self.walk, place, hash, at_ms);
            self.log_key(db, place);
        } else {
            self.note_read(db, place);
        }
        self.mark_changed(db, place);
        self.modified(db, key);
        true
    }

    /// Adds an entry whose key is not there, with its expiry, and logs it.
    pub(crate) fn insert_logged(
        &mut self,
        db: DbIndex,
        key: &[u8],
        entry: Entry,
        expires_at_ms: Option<i64>,
    ) {
        let hash = self.hash_of(key);
        let place = self.dbs[db].insert(&mut self.walk, self.recorder.hasher, hash, entry);
        self.dbs[db].set_expiry(&mut self.walk, place, hash, expires_at_ms);
        self.mark_changed(db, place);
        self.log_key(db, place);
        self.modified(db, key);
        self.created(db, key);
    }

    /// Frees at most `items_max` entries or elements of what was deleted. Whether there is more.
    pub fn free_step(&mut self, items_max: usize) -> bool {
        let mut limbo = self.limbo.as_mut();
        let mut freed = |id, db| limbo.iter_mut().for_each(|limbo| limbo.note_freed(id, db));
        self.free.step(&mut self.recorder, items_max, &mut freed)
    }

    /// How many dropped values and databases wait to be freed (`lazyfree_pending_objects`).
    #[must_use]
    pub fn freeing(&self) -> usize {
        self.free.len()
    }

    /// The value at `place` has changed in place: what a walk keeps of it may have become more.
    #[cold]
    pub(crate) fn note_walked(&mut self, db: DbIndex, place: Place) {
        if let Some(walk) = &mut self.walk
            && let Some(object) = self.dbs[db].keys().at(place).object()
        {
            walk.note_changed(object);
        }
    }

    pub(crate) fn count_evicted(&mut self) {
        self.stats.evicted += 1;
    }
}

/// The body of an object that is known to be of one type.
macro_rules! body_of {
    ($object:expr, $variant:ident) => {
        match &$object.body {
            Body::$variant(body) => body,
            _ => unreachable!("the type was checked at lookup"),
        }
    };
}
pub(crate) use body_of;
