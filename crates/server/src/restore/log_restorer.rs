//! One key, or its value, read from the log.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use base::{DbId, Lsn, Mutex, ObjectId, RecordAddr, RecordKind, SegmentId};
use env::FileError;
use indexing::Namer;
use keyspace::{BadRecord, KeyHasher, Look, Missing, RestoreError, Restored, Restorer};
use logindex::{Cached, Hash96, Index, Name, Scope};
use redo::{FoundRecord, Reader, ReaderLimits};

use super::object_index::ObjectIndex;

/// Reads keys and values from the log, blocking. See the module's top.
pub struct LogRestorer {
    /// Knows the keys that are cold; none if none is. Shared with all that are made of it.
    names: Arc<Mutex<Option<Index>>>,
    objects: Option<ObjectIndex>,
    reader: Reader,
    namer: Namer,
    hasher: KeyHasher,
    /// What is read is not wanted any more.
    is_ending: Arc<AtomicBool>,
}

impl LogRestorer {
    /// For the log that `reader` reads; `seed` is the database's. Large values it reads by `objects`.
    #[must_use]
    pub fn new(reader: Reader, seed: [u8; 16], objects: Option<ObjectIndex>) -> Self {
        let (namer, hasher) = (Namer::new(seed), KeyHasher::new(seed));
        let names = Arc::default();
        Self { names, objects, reader, namer, hasher, is_ending: Arc::default() }
    }

    /// It finds the keys, too, that `names` knows.
    #[must_use]
    pub fn with_names(self, names: Index) -> Self {
        *self.names.lock() = Some(names);
        self
    }

    /// What is missing, if it is there and can be read.
    pub fn fetch(&mut self, missing: &Missing) -> Option<Restored> {
        let (db, key) = (missing.db, &missing.key);
        let addr = match missing.addr {
            Some(addr) => addr,
            None => self.find(db, key).ok()??,
        };
        self.read(db, key, addr).ok()
    }

    /// Another one of the same.
    #[must_use]
    pub fn another(&self) -> Self {
        self.with_files(2)
    }

    /// Another one, which keeps so many files open; each may take two descriptors.
    pub(super) fn with_files(&self, open_files: usize) -> Self {
        let limits = ReaderLimits { open_files, ..ReaderLimits::default() };
        let reader = self.reader.another().with_limits(limits);
        Self {
            names: Arc::clone(&self.names),
            objects: self.objects.clone(),
            reader,
            namer: self.namer,
            hasher: self.hasher,
            is_ending: Arc::clone(&self.is_ending),
        }
    }

    /// As [`LogRestorer::another`], but it is not told to end with the others.
    #[must_use]
    pub fn apart(&self) -> Self {
        Self { is_ending: Arc::default(), ..self.another() }
    }

    /// Tells all that were made of this one to end what they read.
    pub(super) fn end(&self) {
        self.is_ending.store(true, Ordering::Release);
    }

    fn check_ending(&self) -> Result<(), RestoreError> {
        match self.is_ending.load(Ordering::Relaxed) {
            true => Err(RestoreError::Io("the log is being closed".to_owned())),
            false => Ok(()),
        }
    }

    /// Reads a record.
    pub(super) fn record(&mut self, addr: RecordAddr) -> Result<Option<FoundRecord>, RestoreError> {
        self.reader.record(addr).map_err(|error| of_log(&error))
    }

    pub(super) const fn reader(&self) -> &Reader {
        &self.reader
    }

    pub(super) const fn hasher(&self) -> KeyHasher {
        self.hasher
    }

    /// The index of large values, if one is kept.
    #[must_use]
    pub const fn objects(&self) -> Option<&ObjectIndex> {
        self.objects.as_ref()
    }

    /// The addresses of an object's elements, in the order of the log, and up to which block these are
    /// all.
    pub(super) fn elements(
        &self,
        object: ObjectId,
    ) -> Result<(Vec<RecordAddr>, Lsn), RestoreError> {
        let index = self.objects.as_ref().map(ObjectIndex::get);
        let index = index.ok_or_else(|| RestoreError::Io("the log has no index".to_owned()))?;
        let mut addrs = self.elements_in(&index, object)?;
        addrs.sort_unstable();
        Ok((addrs, index.cut().unwrap_or(Lsn::ZERO)))
    }

    /// The addresses of the elements of an object that was deleted while it was not in memory.
    ///
    /// # Errors
    /// When an index cannot be read.
    pub fn garbage(&self, object: ObjectId) -> Result<Vec<RecordAddr>, RestoreError> {
        let (mut addrs, _) = self.elements(object)?;
        if let Some(pinned) = self.objects.as_ref().and_then(ObjectIndex::pinned) {
            addrs.extend(self.elements_in(&pinned, object)?);
        }
        addrs.sort_unstable();
        addrs.dedup();
        Ok(addrs)
    }

    fn elements_in(
        &self,
        index: &Index,
        object: ObjectId,
    ) -> Result<Vec<RecordAddr>, RestoreError> {
        let mut range = index.scope_range(Scope::object(object), Hash96::MIN).map_err(of_index)?;
        let mut addrs = Vec::new();
        while let Some(entry) = range.next().map_err(of_index)? {
            self.check_ending()?;
            addrs.extend(entry.place().map(|place| place.addr()));
        }
        Ok(addrs)
    }

    /// Reads the elements of an object into it; `None` if one of them is not in the log any more.
    ///
    /// # Errors
    /// [`RestoreError::Corrupt`] if an element is damaged.
    pub(super) fn gather(
        &mut self,
        mut restored: Restored,
    ) -> Result<Option<Restored>, RestoreError> {
        let object = restored.object();
        if object != ObjectId::NONE {
            let (addrs, known) = self.elements(object)?;
            restored.gather_as_of(known);
            for addr in addrs {
                self.check_ending()?;
                let Some(found) = self.record(addr)? else { return Ok(None) };
                restored.gather(&found.record(), addr).map_err(unlisted)?;
            }
        }
        restored.arrange().map(Some).map_err(unlisted)
    }
}

impl Restorer for LogRestorer {
    fn find(&mut self, db: DbId, key: &[u8]) -> Result<Option<RecordAddr>, RestoreError> {
        let name = Name::new(Scope::database(db), self.namer.hash(key));
        let Some(names) = self.names.lock().clone() else { return Ok(None) };
        let entry = names.probe(name).map_err(of_index)?;
        Ok(entry.and_then(|entry| entry.place().map(|place| place.addr())))
    }

    fn look(&mut self, db: DbId, key: &[u8]) -> Look {
        let name = Name::new(Scope::database(db), self.namer.hash(key));
        let Some(names) = &*self.names.lock() else { return Look::Absent };
        match names.probe_cached(name) {
            Cached::Found(place) => Look::At(place.addr()),
            Cached::Gone | Cached::Absent => Look::Absent,
            Cached::Unknown => Look::Unknown,
        }
    }

    fn forget_names(&mut self) {
        *self.names.lock() = None;
    }

    fn has_elements_in(
        &mut self,
        object: ObjectId,
        segments: &[SegmentId],
    ) -> Result<bool, RestoreError> {
        let (addrs, _) = self.elements(object)?;
        Ok(addrs.iter().any(|addr| segments.binary_search(&addr.segment()).is_ok()))
    }

    fn read(&mut self, db: DbId, key: &[u8], addr: RecordAddr) -> Result<Restored, RestoreError> {
        let gone = || RestoreError::Corrupt(format!("the record at {addr} is not in the log"));
        let found = self.record(addr)?.ok_or_else(gone)?;
        let record = found.record();
        let is_of_key = match record.kind {
            RecordKind::KeyLost => record.key == self.hasher.identity(key),
            _ => record.key == key,
        };
        if record.db != db || !is_of_key {
            let what = format!("the index says that the record at {addr} is that of another key");
            return Err(RestoreError::Corrupt(what));
        }
        let restored = Restored::of(&record, addr, self.hasher).map_err(bad_record)?.named(key);
        self.gather(restored)?.ok_or_else(|| {
            RestoreError::Unlisted(format!(
                "not all elements of the value at {addr} are in the log"
            ))
        })
    }
}

pub(super) fn of_index(error: logindex::Error) -> RestoreError {
    if error.is_corrupt() {
        RestoreError::Unlisted(error.to_string())
    } else {
        RestoreError::Io(error.to_string())
    }
}

pub(super) fn of_log(error: &redo::Error) -> RestoreError {
    match error {
        redo::Error::File(FileError::Corrupt { .. }) => RestoreError::Corrupt(error.to_string()),
        error => RestoreError::Io(error.to_string()),
    }
}

/// What an index has brought together does not belong together.
fn unlisted(error: BadRecord) -> RestoreError {
    RestoreError::Unlisted(error.to_string())
}

pub(super) fn bad_record(error: BadRecord) -> RestoreError {
    RestoreError::Corrupt(error.to_string())
}
