//! One key, read by its name.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use base::{DbId, ObjectId, RecordAddr};
use env::FileError;
use indexing::Namer;
use keyspace::{BadRecord, KeyHasher, Look, RestoreError, Restored, Restorer};
use logindex::{Cached, Hash96, Index, Name, Scope};
use redo::{FoundRecord, Reader, ReaderLimits};

/// Reads keys by an index of the log, blocking. See the module's top.
pub struct LogRestorer {
    index: Index,
    reader: Reader,
    namer: Namer,
    hasher: KeyHasher,
    /// What is read is not wanted any more.
    is_ending: Arc<AtomicBool>,
}

impl LogRestorer {
    /// For the log that `reader` reads, as `index` knows it; `seed` is the database's.
    #[must_use]
    pub fn new(index: Index, reader: Reader, seed: [u8; 16]) -> Self {
        let (namer, hasher) = (Namer::new(seed), KeyHasher::new(seed));
        Self { index, reader, namer, hasher, is_ending: Arc::default() }
    }

    /// The key, if the index has it and it can be read.
    pub fn fetch(&mut self, db: DbId, key: &[u8]) -> Option<Restored> {
        let addr = self.find(db, key).ok()??;
        self.read(db, key, addr).ok()
    }

    /// Another one of the same.
    #[must_use]
    pub fn another(&self) -> Self {
        // There are some of them, and each file may take two descriptors.
        let limits = ReaderLimits { open_files: 2, ..ReaderLimits::default() };
        let reader = self.reader.another().with_limits(limits);
        let (index, is_ending) = (self.index.clone(), Arc::clone(&self.is_ending));
        Self { index, reader, namer: self.namer, hasher: self.hasher, is_ending }
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

    pub(super) const fn index(&self) -> &Index {
        &self.index
    }

    pub(super) const fn reader(&self) -> &Reader {
        &self.reader
    }

    pub(super) const fn hasher(&self) -> KeyHasher {
        self.hasher
    }

    /// The addresses of an object's elements, in the order of the log.
    pub(super) fn elements(&self, object: ObjectId) -> Result<Vec<RecordAddr>, RestoreError> {
        let mut range =
            self.index.scope_range(Scope::object(object), Hash96::MIN).map_err(of_index)?;
        let mut addrs = Vec::new();
        while let Some(entry) = range.next().map_err(of_index)? {
            self.check_ending()?;
            addrs.extend(entry.place().map(|place| place.addr()));
        }
        addrs.sort_unstable();
        Ok(addrs)
    }

    /// Reads the elements of an object into it; `None` if one of them is not in the log any more.
    pub(super) fn gather(
        &mut self,
        mut restored: Restored,
    ) -> Result<Option<Restored>, RestoreError> {
        let object = restored.object();
        if object != ObjectId::NONE {
            for addr in self.elements(object)? {
                self.check_ending()?;
                let Some(found) = self.record(addr)? else { return Ok(None) };
                restored.gather(&found.record(), addr).map_err(bad_record)?;
            }
        }
        restored.arrange().map(Some).map_err(bad_record)
    }
}

impl Restorer for LogRestorer {
    fn find(&mut self, db: DbId, key: &[u8]) -> Result<Option<RecordAddr>, RestoreError> {
        let name = Name::new(Scope::database(db), self.namer.hash(key));
        let entry = self.index.probe(name).map_err(of_index)?;
        Ok(entry.and_then(|entry| entry.place().map(|place| place.addr())))
    }

    fn look(&mut self, db: DbId, key: &[u8]) -> Look {
        let name = Name::new(Scope::database(db), self.namer.hash(key));
        match self.index.probe_cached(name) {
            Cached::Found(place) => Look::At(place.addr()),
            Cached::Gone | Cached::Absent => Look::Absent,
            Cached::Unknown => Look::Unknown,
        }
    }

    fn read(&mut self, db: DbId, key: &[u8], addr: RecordAddr) -> Result<Restored, RestoreError> {
        let gone = || RestoreError::Corrupt(format!("the record at {addr} is not in the log"));
        let found = self.record(addr)?.ok_or_else(gone)?;
        let record = found.record();
        if (record.db, record.key) != (db, key) {
            let what = format!("the index says that the record at {addr} is that of another key");
            return Err(RestoreError::Corrupt(what));
        }
        let restored = Restored::of(&record, addr, self.hasher).map_err(bad_record)?;
        self.gather(restored)?.ok_or_else(gone)
    }
}

pub(super) fn of_index(error: logindex::Error) -> RestoreError {
    if error.is_corrupt() {
        RestoreError::Corrupt(error.to_string())
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

pub(super) fn bad_record(error: BadRecord) -> RestoreError {
    RestoreError::Corrupt(error.to_string())
}
