//! Where the objects of an archive are.

use std::io;

use redo::Id;

use crate::error::{Error, Result, TargetError, TargetResult};
use crate::key::Keys;
use crate::name::{Folder, Name};

/// What has come of putting an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Put {
    /// It is there, whole and durable.
    New,
    /// There is one of that name, whole and durable: from an attempt of which nothing was heard, or of another writer.
    Taken,
}

/// How far what was put was read back from its medium, past all caches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Readback {
    /// How many objects this target has put.
    pub put: u64,
    /// How many of them were read back, the first ones first.
    pub verified: u64,
    /// Objects that were read back as something else, each told once.
    pub damaged: Vec<String>,
}

/// Keeps objects that never change. Calls wait until they are done, or have failed: an owner has a thread for them, and reads
/// with several.
///
/// An object appears under its name whole or not at all. What a call that has failed has done is unknown.
pub trait Target: Send + Sync {
    /// Puts a new object, if there is none of that name.
    ///
    /// # Errors
    /// When the target cannot be used; the object may be there all the same.
    fn put_new(&self, database: Id, name: &Name, bytes: &[u8]) -> TargetResult<Put>;

    /// Opens an object for reading.
    ///
    /// # Errors
    /// When there is none, or the target cannot be used.
    fn open(&self, database: Id, name: &Name) -> TargetResult<Box<dyn Object>>;

    /// The objects in a folder, ascending by name. Every object is there that was put before the call.
    ///
    /// # Errors
    /// When the target cannot be used.
    fn list(&self, database: Id, folder: Folder) -> TargetResult<Vec<Name>>;

    /// Removes an object; nothing if there is none.
    ///
    /// # Errors
    /// When the target cannot be used.
    fn remove(&self, database: Id, name: &Name) -> TargetResult<()>;

    /// Removes what attempts to put such objects have left that were never completed. None of them may be under way.
    ///
    /// # Errors
    /// When the target cannot be used.
    fn clean(&self, database: Id, is_such: &dyn Fn(&Name) -> bool) -> TargetResult<()>;

    /// The databases that there are archives of, ascending.
    ///
    /// # Errors
    /// When the target cannot be used, or is not there.
    fn databases(&self) -> TargetResult<Vec<Id>>;

    /// What the target knows of the medium that its objects are on; `None` if it does not look.
    ///
    /// # Errors
    /// When the target cannot be used.
    fn readback(&self) -> TargetResult<Option<Readback>> {
        Ok(None)
    }

    /// The keys of what is there: an archive is encrypted from its first object on, or not at all.
    fn keys(&self) -> &Keys {
        const { &Keys::NONE }
    }
}

/// A target and the keys of what is there.
pub struct Keyed {
    target: Box<dyn Target>,
    keys: Keys,
}

impl Keyed {
    /// Objects in `target`, which these keys are for.
    #[must_use]
    pub const fn new(target: Box<dyn Target>, keys: Keys) -> Self {
        Self { target, keys }
    }
}

impl Target for Keyed {
    fn put_new(&self, database: Id, name: &Name, bytes: &[u8]) -> TargetResult<Put> {
        self.target.put_new(database, name, bytes)
    }

    fn open(&self, database: Id, name: &Name) -> TargetResult<Box<dyn Object>> {
        self.target.open(database, name)
    }

    fn list(&self, database: Id, folder: Folder) -> TargetResult<Vec<Name>> {
        self.target.list(database, folder)
    }

    fn remove(&self, database: Id, name: &Name) -> TargetResult<()> {
        self.target.remove(database, name)
    }

    fn clean(&self, database: Id, is_such: &dyn Fn(&Name) -> bool) -> TargetResult<()> {
        self.target.clean(database, is_such)
    }

    fn databases(&self) -> TargetResult<Vec<Id>> {
        self.target.databases()
    }

    fn readback(&self) -> TargetResult<Option<Readback>> {
        self.target.readback()
    }

    fn keys(&self) -> &Keys {
        &self.keys
    }
}

/// An object that is read.
pub trait Object: Send {
    /// Its length in bytes.
    ///
    /// # Errors
    /// When the target cannot be used.
    fn bytes(&self) -> io::Result<u64>;

    /// Reads exactly so many bytes from there on.
    ///
    /// # Errors
    /// When the object ends before, or the target cannot be used.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()>;

    /// Announces that all of it is read soon, from its beginning: it may be fetched meanwhile. Does nothing where it cannot.
    fn fetch_ahead(&self) {}
}

/// Whether what is there is what an attempt of which nothing was heard has put.
pub(crate) fn check_same(
    target: &dyn Target,
    database: Id,
    name: &Name,
    bytes: &[u8],
) -> Result<()> {
    let failed = || TargetError::of("read", name.to_string());
    let object = target.open(database, name)?;
    let mut there = vec![0; bytes.len()];
    let is_same = object.bytes().map_err(failed())? == bytes.len() as u64 && {
        object.read_at(&mut there, 0).map_err(failed())?;
        there == bytes
    };
    if is_same { Ok(()) } else { Err(Error::Different { name: *name }) }
}
