//! The last dump, from which the next one copies what has not changed.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use base::{DbId, Lsn, ObjectId};
use env::{Access, Disk, File, FileError};
use rdb::{Crc64, Version};
use redo::Id;

use crate::companion::Companion;
use crate::error::{Error, LastError, Result};

/// How much is read of the file at a time.
const WINDOW_BYTES: u64 = 256 << 10;

/// What a file ends with.
const SUM_BYTES: u64 = 8;

/// A dump that a later one of the same life of the log may be merged with.
pub struct LastDump {
    pub(crate) path: PathBuf,
    pub(crate) len: u64,
    pub(crate) sum: Option<u64>,
    pub(crate) version: Version,
    /// What it has before its first key.
    pub(crate) head_bytes: u64,
    /// The log that it is of, and the block up to which.
    pub(crate) log: Id,
    pub(crate) lsn: Lsn,
    /// The databases of then, by index.
    pub(crate) databases: Vec<DbId>,
    /// No object behind this one was there.
    pub(crate) last_object: ObjectId,
    /// A stream is in it: what its groups know lies elsewhere than its records say.
    pub(crate) has_streams: bool,
    pub(crate) companion: Arc<Companion>,
}

impl LastDump {
    /// Returns the block up to which it shows the data.
    #[must_use]
    pub const fn lsn(&self) -> Lsn {
        self.lsn
    }

    /// Whether the file at its path has its length and ends with its checksum.
    fn open(&self, disk: &dyn Disk) -> std::result::Result<Box<dyn File>, WholeReason> {
        let sum = self.sum.ok_or(WholeReason::NoChecksum)?;
        let gone = |_| WholeReason::Gone;
        let file = disk.open(&self.path, Access::Read).map_err(gone)?;
        let mut end = [0; 8];
        let is_it = file.len().map_err(gone)? == self.len;
        if is_it {
            file.read_exact_at(&mut end, self.len - SUM_BYTES).map_err(gone)?;
        }
        if is_it && u64::from_le_bytes(end) == sum { Ok(file) } else { Err(WholeReason::Replaced) }
    }

    /// Opens it for a dump of this log and these databases, in this version.
    ///
    /// # Errors
    /// Why it is of no use for that.
    pub(crate) fn use_for(
        &self,
        disk: &dyn Disk,
        (log, lsn): (Id, Lsn),
        databases: &[DbId],
        version: Version,
    ) -> std::result::Result<LastFile, WholeReason> {
        if log != self.log || lsn < self.lsn {
            return Err(WholeReason::OtherLog);
        }
        if version != self.version {
            return Err(WholeReason::Version);
        }
        if self.has_streams {
            return Err(WholeReason::Streams);
        }
        // A database that clients could not name then may have had keys all the same, if it is not a new one.
        let last = self.databases.iter().max();
        let is_known = |id: &DbId| self.databases.contains(id) || last.is_none_or(|last| id > last);
        if !databases.iter().all(is_known) {
            return Err(WholeReason::OtherLog);
        }
        let file = self.open(disk)?;
        file.advise_sequential();
        Ok(LastFile {
            file,
            path: self.path.clone(),
            len: self.len,
            expected: self.sum.ok_or(WholeReason::NoChecksum)?,
            sum: Crc64::new(),
            window: Vec::new(),
            at: 0,
            read: 0,
        })
    }
}

/// Why a dump that could be merged with the last one is made of the whole log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WholeReason {
    /// None was made yet.
    First,
    /// It is of another log, or of another state of this one.
    OtherLog,
    /// It is of another version of RDB.
    Version,
    /// Nothing says whether it is whole.
    NoChecksum,
    /// It cannot be opened.
    Gone,
    /// Another file has its name.
    Replaced,
    /// It was damaged, which a dump found that was begun with it.
    Damaged,
    /// It was made in another way.
    OtherAlgorithm,
    /// A stream is in it.
    Streams,
    /// Fields of hashes may expire.
    ExpiringFields,
}

impl fmt::Display for WholeReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::First => "no dump was made by it since the log was opened",
            Self::OtherLog => "the last dump is of another log",
            Self::Version => "the last dump has another rdb-version",
            Self::NoChecksum => "the last dump has no checksum (rdbchecksum no)",
            Self::Gone => "the last dump is not there any more",
            Self::Replaced => "another file is in the place of the last dump",
            Self::Damaged => "the last dump is damaged",
            Self::OtherAlgorithm => "the last dump was made by another snapshot-algorithm",
            Self::Streams => "the last dump has streams, which are not merged",
            Self::ExpiringFields => {
                "there are hashes with fields that expire, which are not merged"
            }
        })
    }
}

/// The file of the last dump, read once from its beginning to its end.
pub(crate) struct LastFile {
    file: Box<dyn File>,
    path: PathBuf,
    len: u64,
    expected: u64,
    /// Of what was read.
    sum: Crc64,
    window: Vec<u8>,
    /// Where in the window the next byte is.
    at: usize,
    /// How much was read of the file.
    read: u64,
}

impl LastFile {
    /// The error that says what is wrong with it.
    pub(crate) fn wrong(&self, why: impl Into<LastError>) -> Error {
        Error::Last { path: self.path.clone(), why: why.into() }
    }

    /// How much of it was read from the device.
    pub(crate) const fn read_bytes(&self) -> u64 {
        self.read
    }

    /// Where the next byte is.
    const fn position(&self) -> u64 {
        self.read - (self.window.len() - self.at) as u64
    }

    /// Reads on where the window ends, up to the checksum.
    fn load(&mut self) -> Result<()> {
        let left = self.len - SUM_BYTES - self.read;
        if left == 0 {
            return Err(self.wrong(LastError::Unlike("its end")));
        }
        let bytes = usize::try_from(left.min(WINDOW_BYTES)).expect("it is small");
        self.window.resize(bytes, 0);
        let read = self.file.read_exact_at(&mut self.window, self.read);
        read.map_err(FileError::io(&self.path, "read")).map_err(|error| self.wrong(error))?;
        self.sum.update(&self.window);
        self.read += bytes as u64;
        self.at = 0;
        Ok(())
    }

    /// Passes on the next bytes, piece by piece.
    pub(crate) fn pass(
        &mut self,
        mut bytes: u64,
        visit: &mut dyn FnMut(&[u8]) -> Result<()>,
    ) -> Result<()> {
        while bytes > 0 {
            if self.at == self.window.len() {
                self.load()?;
            }
            let there = self.window.len() - self.at;
            let taken = usize::try_from(bytes).unwrap_or(usize::MAX).min(there);
            visit(&self.window[self.at..self.at + taken])?;
            self.at += taken;
            bytes -= taken as u64;
        }
        Ok(())
    }

    /// Passes the next bytes over.
    pub(crate) fn skip(&mut self, bytes: u64) -> Result<()> {
        self.pass(bytes, &mut |_| Ok(()))
    }

    /// Appends the next bytes to `out`.
    pub(crate) fn take(&mut self, bytes: u64, out: &mut Vec<u8>) -> Result<()> {
        self.pass(bytes, &mut |piece| {
            out.extend_from_slice(piece);
            Ok(())
        })
    }

    /// All keys were passed. Checks that nothing but the end is left, and the checksum of all.
    pub(crate) fn finish(&mut self) -> Result<()> {
        const END: u8 = 0xff;
        if self.position() + 1 + SUM_BYTES != self.len {
            return Err(self.wrong(LastError::Unlike("more")));
        }
        let mut end = Vec::new();
        self.take(1, &mut end)?;
        match self.sum.sum() == self.expected && end == [END] {
            true => Ok(()),
            false => Err(self.wrong(LastError::Sum)),
        }
    }
}
