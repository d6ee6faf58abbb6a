//! What takes a dump.

use std::error::Error;

use base::{DbId, ObjectId, RecordAddr};
use keyspace::Type;
pub use keyspace::walk::Element;

/// A key, before its value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DumpedKey<'a> {
    /// The database's index, as clients name it.
    pub database: u32,
    /// Its name.
    pub key: &'a [u8],
    /// What its value is.
    pub value_type: Type,
    /// How many elements follow; of a string, how many bytes.
    pub count: u64,
    /// When it expires, in Unix milliseconds; what has expired and is not deleted yet is dumped as well.
    pub expires_at_ms: Option<i64>,
    /// Whether it is a hash that has fields that expire, or had.
    pub has_expiring_fields: bool,
}

/// Which records what follows is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Noted {
    /// The next key, which is one record.
    Key(RecordAddr),
    /// The next key, which is an object: its root is this record, and so many others are its parts.
    Object {
        /// The root.
        addr: RecordAddr,
        /// The object.
        object: ObjectId,
        /// How many elements, nodes or chunks it has.
        parts: u64,
    },
    /// A key whose value is lost: nothing of it follows.
    Lost {
        /// What says so.
        addr: RecordAddr,
        /// The key's database.
        db: DbId,
    },
    /// What comes of the key until the next part.
    Part {
        /// The element, node or chunk.
        addr: RecordAddr,
        /// Its order key; 0 if the order does not matter.
        order: u64,
    },
}

/// What takes a dump: each key, its value, its end, in any order of keys.
pub trait Target {
    /// Why it refuses what it is given.
    type Error: Error + Send + Sync + 'static;

    /// Whether it is told of the records that it is given.
    const NOTES_RECORDS: bool = false;

    /// Takes note of the records that what follows is of.
    ///
    /// # Errors
    /// When it cannot.
    fn note(&mut self, _noted: Noted) -> Result<(), Self::Error> {
        Ok(())
    }

    /// Begins a key. A string of no bytes has no part.
    ///
    /// # Errors
    /// When it cannot be taken.
    fn begin(&mut self, key: &DumpedKey<'_>) -> Result<(), Self::Error>;

    /// Takes a part of the value of the key.
    ///
    /// # Errors
    /// When it cannot be taken.
    fn element(&mut self, element: Element<'_>) -> Result<(), Self::Error>;

    /// Ends the key: all that was announced has come.
    ///
    /// # Errors
    /// When it cannot be taken.
    fn end(&mut self) -> Result<(), Self::Error>;
}
