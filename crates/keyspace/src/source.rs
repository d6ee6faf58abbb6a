//! Where keys and values come from that memory does not have.
//!
//! ```text
//!   a key    in no table: an index may know its record      find ─► read ─► entry in the table      (cold)
//!   a value  its entry is there, bare: it has the address           read ─► value in the entry      (here)
//! ```
//!
//! Both are read by the same [`Restorer`], in the middle of a command if need be: that is right, and slow.
//! So the engine asks [`Keyspace::missing`] before, and has what is missing read elsewhere,
//! to be put in its place by [`Keyspace::install`]. Correctness does not depend on that.
//!
//! What cannot be read is not there for the running command, which is then answered with
//! [`Keyspace::take_restore_failure`]. A command that changes the key must not be begun: see
//! [`Keyspace::restore`].

use base::{DbId, DbIndex, Lsn, ObjectId, RecordAddr, SegmentId};

use crate::cold::Restored;
use crate::collection::{Collection, ValueRef};
use crate::entry::Entry;
use crate::hash;
use crate::hasher::Identity;
use crate::journal::Journal;
use crate::keyspace::Keyspace;
use crate::list::List;
use crate::lost::{KeysIn, LostKey};
use crate::names::{Listings, NamesFound, NamesWanted};
use crate::object::Object;
use crate::stream::end::{Ends, Known};
use crate::table::{Keyed, Place};
use crate::value_type::{Type, entry_type};

/// Why a key could not be brought back.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RestoreError {
    /// The device did not give its bytes; it may the next time.
    #[error("{0}")]
    Io(String),
    /// What is there is not what was written.
    #[error("{0}")]
    Corrupt(String),
    /// The command has brought in as much as it may.
    #[error("the values that it needs take too much memory")]
    TooMuch,
    /// The index does not say where all of it is. The log may have it.
    #[error("{0}")]
    Unlisted(String),
}

/// What is known of a key without reading anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Look {
    /// The index does not know it.
    Absent,
    /// Its newest record is here.
    At(RecordAddr),
    /// Only reading can tell.
    Unknown,
}

/// Finds and reads the records of keys that are not in memory.
pub trait Restorer: Send {
    /// Where the newest record is that the index knows of a key; `None` if there is none.
    ///
    /// # Errors
    /// When the index cannot be read.
    fn find(&mut self, db: DbId, key: &[u8]) -> Result<Option<RecordAddr>, RestoreError>;

    /// As [`Restorer::find`], from memory alone.
    fn look(&mut self, db: DbId, key: &[u8]) -> Look;

    /// What the index knows of a key, without its value, from memory alone; `None` if that is not enough, or
    /// not there.
    fn look_by_index(&mut self, _db: DbId, _key: &[u8]) -> Option<Restored> {
        None
    }

    /// The names of keys that are in no table.
    ///
    /// # Errors
    /// When the index or the log cannot be read. A record that is damaged is left out: its name is
    /// what nothing can tell.
    fn names(&mut self, _wanted: &NamesWanted) -> Result<NamesFound, RestoreError> {
        Err(RestoreError::Io("there is no index to list names by".to_owned()))
    }

    /// Whether an element of this object is in one of these segments, which are in ascending order.
    ///
    /// # Errors
    /// When the index cannot be read.
    fn has_elements_in(
        &mut self,
        _object: ObjectId,
        _segments: &[SegmentId],
    ) -> Result<bool, RestoreError> {
        Ok(false)
    }

    /// The keys of a database, from an identity on, of which a record is in one of these segments, which
    /// are in ascending order; some at a time.
    ///
    /// # Errors
    /// When the index cannot be read.
    fn keys_in(
        &mut self,
        _db: DbId,
        _from: Identity,
        _segments: &[SegmentId],
    ) -> Result<KeysIn, RestoreError> {
        Ok(KeysIn::default())
    }

    /// A key of which an index knows this; `None` if not all of it is in the log any more.
    ///
    /// # Errors
    /// As [`Restorer::read`].
    fn read_unnamed(&mut self, _key: &LostKey) -> Result<Option<Restored>, RestoreError> {
        Ok(None)
    }

    /// The key whose newest record is at `addr`: of a stream its end alone (see [`Restored::arrange_end`]), of another
    /// large value nothing but its name, or more than that.
    ///
    /// # Errors
    /// As [`Restorer::read`].
    fn read_end(
        &mut self,
        _db: DbId,
        _key: &[u8],
        _addr: RecordAddr,
    ) -> Result<Restored, RestoreError> {
        Err(RestoreError::Io("there is no index to find an end by".to_owned()))
    }

    /// All elements of a stream whose end memory has: [`Restored::of_elements`]. One that is not there, or is damaged, may be
    /// left out ([`Restored::note_unread`]).
    ///
    /// # Errors
    /// As [`Restorer::read`].
    fn read_elements(
        &mut self,
        _db: DbId,
        _key: &[u8],
        _stream: ObjectId,
    ) -> Result<Restored, RestoreError> {
        Err(RestoreError::Io("there is no index to list elements by".to_owned()))
    }

    /// The key whose newest record is at `addr`, with all its elements.
    ///
    /// # Errors
    /// [`RestoreError::Corrupt`] only if a record of it is damaged: such a value may be given up.
    fn read(&mut self, db: DbId, key: &[u8], addr: RecordAddr) -> Result<Restored, RestoreError>;
}

/// What a command needs of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Need {
    /// Whether it is there, of which type, until when.
    Name,
    /// Of a stream its end, to which something is added.
    End,
    /// Its value, too.
    Value,
}

/// A key that memory lacks, or whose value it lacks.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Missing {
    /// The database.
    pub db: DbId,
    /// The key.
    pub key: Box<[u8]>,
    /// Where its record is, if that is known.
    pub addr: Option<RecordAddr>,
    /// The stream of which memory has the end, and nothing else.
    pub rest_of: Option<ObjectId>,
    /// About how many bytes it takes in memory, if that is known.
    pub bytes: u64,
    /// What of it.
    pub need: Need,
}

/// What was brought back since the start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ColdStats {
    /// Names that were looked up because the table did not have them.
    pub lookups: u64,
    /// Keys that were brought back because a command asked for them.
    pub fetched: u64,
    /// Keys that were brought back unasked.
    pub warmed: u64,
    /// Keys that were deleted because they had expired where they were.
    pub expired: u64,
    /// Lookups that failed.
    pub failed: u64,
}

/// See the file's top.
pub(crate) struct Source {
    pub(crate) restorer: Box<dyn Restorer>,
    /// Why the running command does not see a key that is there.
    failure: Option<RestoreError>,
    /// The block up to which it finds elements, whatever becomes of the index.
    indexed: Option<Lsn>,
    /// The block up to which an index does that is pinned: see [`Keyspace::note_pinned`].
    pinned: Option<Lsn>,
    /// Names that were asked for.
    pub(crate) listings: Listings,
    stats: ColdStats,
    /// What the running command has read, and may read in all, in bytes.
    read_bytes: u64,
    read_bytes_max: u64,
}

impl Source {
    pub(crate) fn new(restorer: Box<dyn Restorer>) -> Self {
        Self {
            restorer,
            failure: None,
            indexed: None,
            pinned: None,
            listings: Listings::default(),
            stats: ColdStats::default(),
            read_bytes: 0,
            read_bytes_max: u64::MAX,
        }
    }

    /// A cold key, if it is one; of a stream no more than its end, if that is the `need`.
    ///
    /// # Errors
    /// When that cannot be read; why is noted.
    pub(crate) fn restore(
        &mut self,
        db: DbId,
        key: &[u8],
        need: Need,
        journal: &dyn Journal,
    ) -> Result<Option<Restored>, ()> {
        self.stats.lookups += 1;
        let found =
            self.restorer.find(db, key).map(|addr| addr.filter(|addr| !journal.is_retired(*addr)));
        match found {
            Ok(None) => Ok(None),
            Ok(Some(addr)) => {
                let restored = self.read_by(|restorer| match need {
                    Need::End => restorer.read_end(db, key, addr),
                    Need::Name | Need::Value => restorer.read(db, key, addr),
                });
                restored.map(Some).ok_or(())
            }
            Err(error) => {
                self.fail(error);
                Err(())
            }
        }
    }

    /// What is at `addr`; no command needs it.
    pub(crate) fn try_read(
        &mut self,
        db: DbId,
        key: &[u8],
        addr: RecordAddr,
    ) -> Result<Restored, RestoreError> {
        self.restorer.read(db, key, addr)
    }

    /// See [`Restorer::keys_in`]; none if it cannot be read.
    pub(crate) fn keys_in(&mut self, db: DbId, from: Identity, segments: &[SegmentId]) -> KeysIn {
        self.restorer.keys_in(db, from, segments).unwrap_or_default()
    }

    /// See [`Restorer::read_unnamed`].
    pub(crate) fn read_unnamed(&mut self, key: &LostKey) -> Result<Option<Restored>, RestoreError> {
        self.restorer.read_unnamed(key)
    }

    /// See [`Restorer::has_elements_in`]; `false` also if it cannot be read.
    pub(crate) fn has_elements_in(&mut self, object: ObjectId, segments: &[SegmentId]) -> bool {
        self.restorer.has_elements_in(object, segments).unwrap_or(false)
    }

    /// What is at `addr`; `None` if it cannot be read.
    pub(crate) fn read(&mut self, db: DbId, key: &[u8], addr: RecordAddr) -> Option<Restored> {
        self.read_by(|restorer| restorer.read(db, key, addr))
    }

    /// The end of a stream whose root is at `addr`; `None` if it cannot be read.
    pub(crate) fn read_end(
        &mut self,
        db: DbId,
        key: &[u8],
        addr: RecordAddr,
        stream: ObjectId,
    ) -> Option<Box<Object>> {
        let restored = self.read_by(|restorer| {
            let restored = restorer.read_end(db, key, addr)?;
            let other = || RestoreError::Unlisted(format!("the stream at {addr} is another one"));
            restored.end().filter(|end| end.id() == stream).ok_or_else(other)?;
            Ok(restored)
        });
        restored?.into_end()
    }

    /// All of a stream but its end; `None` if it cannot be read.
    pub(crate) fn read_rest(
        &mut self,
        db: DbId,
        key: &[u8],
        stream: ObjectId,
        journal: &dyn Journal,
    ) -> Option<Restored> {
        self.read_by(|restorer| restorer.read_elements(db, key, stream)?.whole(journal))
    }

    /// As [`Source::read_rest`]; no command needs it.
    pub(crate) fn try_read_rest(
        &mut self,
        db: DbId,
        key: &[u8],
        stream: ObjectId,
        journal: &dyn Journal,
    ) -> Result<Restored, RestoreError> {
        self.restorer.read_elements(db, key, stream)?.whole(journal)
    }

    fn read_by(
        &mut self,
        read: impl FnOnce(&mut dyn Restorer) -> Result<Restored, RestoreError>,
    ) -> Option<Restored> {
        if self.read_bytes > self.read_bytes_max {
            self.failure.get_or_insert(RestoreError::TooMuch);
            return None;
        }
        match read(self.restorer.as_mut()) {
            Ok(restored) => {
                self.stats.fetched += 1;
                self.read_bytes += restored.bytes() as u64;
                Some(restored)
            }
            Err(error) => {
                self.fail(error);
                None
            }
        }
    }

    pub(crate) fn fail(&mut self, error: RestoreError) {
        self.stats.failed += 1;
        self.failure.get_or_insert(error);
    }
}

impl Keyspace {
    /// From now on values may leave memory: `restorer` reads them again.
    pub fn set_restorer(&mut self, restorer: Box<dyn Restorer>) {
        match &mut self.source {
            Some(source) => source.restorer = restorer,
            None => self.source = Some(Box::new(Source::new(restorer))),
        }
    }

    /// A command or transaction begins: what it reads itself may have so many bytes, and the last value more.
    pub fn limit_reading(&mut self, bytes_max: u64) {
        if let Some(source) = &mut self.source {
            (source.read_bytes, source.read_bytes_max) = (0, bytes_max);
        }
    }

    /// Nothing is read any more: the log is about to be closed. What memory lacks is lost to it.
    pub fn drop_restorer(&mut self) {
        (self.source, self.cold, self.may_be_bare) = (None, None, false);
        if !self.ends.is_empty() {
            self.free.spent_pieces(std::mem::take(&mut self.ends).into_pieces());
        }
        self.free.forget_bare();
    }

    /// Large values may leave memory that did not change after this block: the restorer finds their
    /// elements, whatever becomes of the index.
    pub fn note_indexed(&mut self, lsn: Option<Lsn>) {
        if let Some(source) = &mut self.source {
            source.indexed = lsn;
        }
    }

    /// From now on an index is kept as it is, which knows all elements up to this block; or none is any more. It alone may
    /// say what is garbage of what is deleted meanwhile.
    pub fn note_pinned(&mut self, lsn: Option<Lsn>) {
        if let Some(source) = &mut self.source {
            source.pinned = lsn;
        }
    }

    /// What is known of what leaves the end of a stream.
    pub(crate) fn known_of_ends(&self) -> Known {
        let pinned = self.source.as_ref().and_then(|source| source.pinned);
        Known { indexed: self.indexed_lsn(), pinned }
    }

    /// Up to this block the index knows all elements, and so does the restorer; `None` without an index.
    #[must_use]
    pub fn indexed_lsn(&self) -> Option<Lsn> {
        let found = self.source.as_ref()?.indexed?;
        self.recorder.journal.indexed_lsn().map(|known| known.min(found))
    }

    /// Whether an index is known to have anything, so that keys and large values may go.
    #[must_use]
    pub fn knows_index(&self) -> bool {
        self.indexed_lsn().is_some()
    }

    /// Whether what memory drops can be read again.
    #[must_use]
    pub const fn has_restorer(&self) -> bool {
        self.source.is_some()
    }

    /// Whether there may be a key or a value that memory lacks.
    #[must_use]
    #[inline]
    pub const fn may_lack(&self) -> bool {
        self.cold.is_some() || self.may_be_bare || self.lost.may_be
    }

    /// Looks whether all values are in memory again, so that commands need not ask.
    pub fn note_full(&mut self) {
        self.may_be_bare = self.may_be_bare && self.bare_values() > 0;
        self.lost.may_be = self.lost.may_be && self.lost_values() > 0;
    }

    /// How many keys are in memory, and their values in the log only.
    #[must_use]
    pub fn bare_values(&self) -> u64 {
        self.dbs.iter().map(|db| db.bare_count - db.lost_count).sum()
    }

    /// What was brought back; `None` if there is nothing to bring it from.
    #[must_use]
    pub fn cold_stats(&self) -> Option<ColdStats> {
        self.source.as_ref().map(|source| source.stats)
    }

    /// Whether the running command does not see a key that is there.
    #[must_use]
    pub fn has_restore_failure(&self) -> bool {
        let is_unread = self.source.as_ref().is_some_and(|source| source.failure.is_some());
        is_unread || self.lost.failure.is_some()
    }

    /// Why the command that has just run did not see a key that is there.
    pub fn take_restore_failure(&mut self) -> Option<RestoreError> {
        let unread = self.source.as_mut().and_then(|source| source.failure.take());
        self.lost.failure.take().or(unread)
    }

    /// What has to be read before a command finds what it needs of a key. What the index can tell from memory
    /// is put in its place at once.
    pub fn missing(&mut self, db: DbIndex, key: &[u8], need: Need) -> Option<Missing> {
        let hash = self.hash_of(key);
        let Self { source, dbs, recorder, ends, .. } = self;
        let (id, may_be_cold) = (dbs[db].id, dbs[db].may_be_cold);
        let mut rest_of = None;
        let (addr, bytes) = match dbs[db].keys().find(hash, key) {
            // The last node may be one entry of any size.
            Some(entry) if need == Need::End && lacks_end(entry, ends) => (entry.addr(), 0),
            Some(entry) if need == Need::Value && entry.is_bare() && !entry.is_lost() => {
                rest_of = entry.bare_object().map(|(_, id)| id).filter(|id| ends.has(*id));
                (entry.addr().filter(|_| rest_of.is_none()), entry.bare_bytes())
            }
            Some(_) => return None,
            None if !may_be_cold || dbs[db].has_key(recorder.hasher, hash, key) => return None,
            None => {
                let restorer = &mut source.as_mut()?.restorer;
                let is_there = match restorer.look(id, key) {
                    Look::At(addr) => !recorder.journal.is_retired(addr),
                    Look::Absent => false,
                    Look::Unknown => true,
                };
                if !is_there {
                    return None;
                }
                if need == Need::Name
                    && let Some(known) = restorer.look_by_index(id, key)
                    && self.install(known)
                {
                    return None;
                }
                (None, 0)
            }
        };
        Some(Missing { db: id, key: key.into(), addr, rest_of, bytes, need })
    }

    /// Whether memory tells that this is no list with so many elements. Nothing is noted of the key, and one that has
    /// expired counts as long as it is there. `false` where only reading can tell.
    pub fn is_known_shorter(&mut self, db: DbIndex, key: &[u8], count: usize) -> bool {
        if self.missing(db, key, Need::Value).is_some() {
            return false;
        }
        let hash = self.hash_of(key);
        let (hasher, seen_ms) = (self.recorder.hasher, self.seen_ms());
        match self.dbs[db].keys().find(hash, key) {
            // It may be lost.
            Some(entry) if entry.is_bare() => false,
            Some(entry) if entry_type(entry) == Type::List => {
                List::view(ValueRef(entry.payload(), hasher, seen_ms)).len() < count
            }
            Some(_) | None => true,
        }
    }

    /// Whether a key that was missing, or its value, still is.
    #[must_use]
    pub fn lacks(&self, missing: &Missing) -> bool {
        let Some(db) = self.dbs.index_of(missing.db) else { return false };
        match self.dbs[db].keys().find(self.hash_of(&missing.key), &missing.key) {
            Some(entry) => match missing.need {
                Need::Name => false,
                Need::End => lacks_end(entry, &self.ends),
                // A rest is useless once the end that it belongs to has left memory.
                Need::Value => {
                    entry.is_bare() && missing.rest_of.is_none_or(|id| self.ends.has(id))
                }
            },
            None => self.dbs[db].may_be_cold,
        }
    }

    /// Brings into memory what a command needs of a key.
    ///
    /// # Errors
    /// When it may be there and cannot be read.
    pub fn restore(&mut self, db: DbIndex, key: &[u8], need: Need) -> Result<(), RestoreError> {
        let hash = self.hash_of(key);
        let place = match self.dbs[db].keys().locate(hash, key) {
            Some(place) => {
                self.note_looked_up(db, key);
                Some(place)
            }
            None => self.locate_cold(db, hash, key, need),
        };
        if let Some(place) = place.filter(|place| self.dbs[db].keys().at(*place).is_bare()) {
            match need {
                Need::Name => {}
                Need::End => self.restore_end(db, place),
                Need::Value => _ = self.read_value(db, place),
            }
        }
        self.take_restore_failure().map_or(Ok(()), Err)
    }

    /// The same place, if the value is in memory now. Fields that have expired are removed from one that comes back;
    /// with the last of them the key goes.
    #[inline]
    pub(crate) fn with_value(&mut self, db: DbIndex, place: Place) -> Option<Place> {
        if self.dbs[db].keys().at(place).is_bare() {
            self.bring_value(db, place)
        } else {
            Some(place)
        }
    }

    /// As [`Keyspace::with_value`], of a value that is not in memory.
    #[cold]
    fn bring_value(&mut self, db: DbIndex, place: Place) -> Option<Place> {
        let place = self.read_value(db, place)?;
        let hash = self.hash_of(self.dbs[db].keys().at(place).key());
        let is_there = !self.had_expiring_fields || self.expire_fields_before_use(db, hash, place);
        is_there.then_some(place)
    }

    /// Reads the value of the key at `place` as it was when it left memory.
    #[cold]
    fn read_value(&mut self, db: DbIndex, place: Place) -> Option<Place> {
        let Self { source, dbs, lost, recorder, had_expiring_fields, ends, .. } = self;
        let entry = dbs[db].keys().at(place);
        if entry.is_lost() {
            lost.fail();
            return None;
        }
        let (source, addr) = (source.as_mut()?, entry.addr()?);
        let (id, key) = (dbs[db].id, entry.key());
        let restored = match entry.bare_object().filter(|(_, id)| ends.has(*id)) {
            Some((_, stream)) => source.read_rest(id, key, stream, &recorder.journal)?,
            None => source.read(id, key, addr)?,
        };
        let hash = recorder.hasher.hash(entry.key());
        let restored = restored.into_entry();
        *had_expiring_fields |= hash::has_expiring_fields(&restored);
        dbs[db].fill(place, hash, restored);
        ends.join(dbs[db].entry_mut(place));
        Some(place)
    }

    pub(crate) fn count_expired(&mut self) {
        if let Some(source) = &mut self.source {
            source.stats.expired += 1;
        }
    }

    pub(crate) fn count_warmed(&mut self) {
        if let Some(source) = &mut self.source {
            source.stats.warmed += 1;
        }
    }

    /// Objects that are gone and were not in memory: an index is to list the elements of each, and
    /// [`Keyspace::retire_elements`] to be told of them.
    pub fn take_bare_garbage(&mut self) -> Vec<ObjectId> {
        let mut gone = self.free.take_bare();
        if !self.ends.is_empty() {
            let Self { ends, free, recorder, .. } = self;
            gone.retain(|id| ends.take(*id).is_none_or(|end| free.end_of(recorder, *end)));
        }
        gone
    }

    /// Retires the records of an object that is gone, little by little. Without `elements` it is listed
    /// once more.
    pub fn retire_elements(&mut self, object: ObjectId, elements: Option<Vec<RecordAddr>>) {
        let journal = &self.recorder.journal;
        let is_needed = |addr: &RecordAddr| !journal.is_retired(*addr);
        let elements = elements.map(|all| all.into_iter().filter(is_needed).collect());
        self.free.listed(object, elements);
    }

    /// How many objects and emptied databases are still to be listed.
    #[must_use]
    pub fn unlisted(&self) -> usize {
        self.free.unlisted() + self.dropping()
    }
}

/// Whether this is a stream without its end in memory.
fn lacks_end(entry: &Entry, ends: &Ends) -> bool {
    let stream = entry.bare_object().filter(|(value_type, _)| *value_type == Type::Stream);
    stream.is_some_and(|(_, id)| !ends.has(id))
}
