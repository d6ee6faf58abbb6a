//! The last dump as it is merged: its file, what is noted of it, and what of that is valid still.

use std::sync::Arc;

use base::{DbId, ObjectId};
use keyspace::Type;
use redo::Validity;

use crate::companion::{CompanionReader, Entry, Part};
use crate::dumper::STEP_BYTES;
use crate::error::{Error, LastError, Result};
use crate::last_dump::{LastDump, LastFile};

/// The last dump, as it is read.
pub(crate) struct Old {
    pub(crate) file: LastFile,
    notes: CompanionReader,
    /// Reads the parts of each object before `notes` does, to count them.
    ahead: Option<CompanionReader>,
    /// So many bytes of the file are passed over before anything else.
    pub(crate) skipped: u64,
    pub(crate) validity: Validity,
    /// By its index then, which index a database has now.
    indexes: Vec<Option<u32>>,
    /// The databases that count now.
    pub(crate) databases: Vec<DbId>,
    pub(crate) last_object: ObjectId,
    /// Which database the next key is in now, if it is there.
    pub(crate) index: Option<u32>,
}

impl Old {
    pub(crate) fn new(
        last: &LastDump,
        file: LastFile,
        validity: Validity,
        databases: &[DbId],
    ) -> Result<Self> {
        let index_of = |id: &DbId| databases.iter().position(|now| now == id);
        let index_of = |id| index_of(id).map(|index| u32::try_from(index).expect("few"));
        let mut old = Self {
            file,
            notes: CompanionReader::new(Arc::clone(&last.companion)),
            ahead: None,
            skipped: 0,
            validity,
            indexes: last.databases.iter().map(index_of).collect(),
            databases: databases.to_vec(),
            last_object: last.last_object,
            index: None,
        };
        old.file.skip(last.head_bytes)?;
        Ok(old)
    }

    /// How much was read of the last dump and its companion.
    pub(crate) const fn read_bytes(&self) -> u64 {
        self.file.read_bytes()
    }

    fn noted<T>(&self, result: Result<T>) -> Result<T> {
        result.map_err(|error| self.file.wrong(LastError::Notes(Box::new(error))))
    }

    /// From now on objects come, whose parts are counted before they are read.
    pub(crate) fn begin_objects(&mut self) {
        self.ahead = Some(self.notes.clone());
    }

    /// The next entry.
    pub(crate) fn entry(&mut self) -> Result<Entry> {
        let mut entry = self.notes.entry();
        if let Some(ahead) = &mut self.ahead {
            entry = entry.and_then(|_| ahead.entry());
        }
        self.noted(entry)
    }

    /// The next part of an object.
    pub(crate) fn part(&mut self, value_type: Type) -> Result<Part> {
        let part = next_part(&mut self.notes, value_type);
        self.noted(part)
    }

    /// The same, ahead.
    pub(crate) fn part_ahead(&mut self, value_type: Type) -> Result<Part> {
        let part = next_part(self.ahead.as_mut().expect("objects have begun"), value_type);
        self.noted(part)
    }

    /// All parts of a string were read: how many bytes its value takes.
    pub(crate) fn end_string(&mut self) -> Result<u64> {
        let bytes = self.notes.end_string();
        self.noted(bytes)
    }

    /// The same, ahead.
    pub(crate) fn end_string_ahead(&mut self) -> Result<u64> {
        let bytes = self.ahead.as_mut().expect("objects have begun").end_string();
        self.noted(bytes)
    }

    /// Passes over some of what is to be passed over.
    pub(crate) fn skip_some(&mut self) -> Result<usize> {
        let bytes = self.skipped.min(STEP_BYTES as u64);
        self.skipped -= bytes;
        self.file.skip(bytes)?;
        Ok(small(bytes))
    }

    /// The error that it is not made as was noted.
    pub(crate) fn unlike(&self, what: &'static str) -> Error {
        self.file.wrong(LastError::Unlike(what))
    }

    /// What follows is in this database; so many bytes say so.
    pub(crate) fn begin_database(&mut self, index: u32, bytes: u64) -> Result<()> {
        let index = self.indexes.get(index as usize).copied();
        self.index = index.ok_or_else(|| self.unlike("an unknown database"))?;
        self.file.skip(bytes)
    }
}

fn next_part(notes: &mut CompanionReader, value_type: Type) -> Result<Part> {
    match value_type {
        Type::String => notes.chunk(),
        _ => notes.part(),
    }
}

/// A number of bytes that are in memory, or as many as a step may have.
pub(crate) fn small(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}
