//! The contents of the log about one entry.
//!
//! An **entry** is the smallest unit that the keyspace stores separately. A **record** is the
//! entry's complete new state, or says that the entry is gone: never a delta, never a command.
//! Replay is therefore idempotent, and only the newest record of an entry matters.
//!
//! ```text
//!  key entry      (db, key)        a string, a small packed collection as a whole,
//!                                  or the *root* of an object: its id, flags and expiry
//!  element entry  (object, sub)    a chunk of a large string, a list node, a hash field,
//!                                  a set member, a sorted-set member, a node of a stream,
//!                                  a group of consumers, a consumer, an entry it holds
//!  library        (name)           a library of functions, which is in no database
//! ```
//!
//! **Incarnations.** Elements name their object by [`ObjectId`], never by key: deleting a key of
//! a million fields is one record, a re-created key has a new id and cannot inherit old fields,
//! and RENAME and MOVE write a root and leave the elements alone. An element whose object has no
//! live root is garbage. Databases likewise are named by [`DbId`]; the `Databases` record maps
//! the sixteen indexes that clients use to ids, so FLUSHDB, FLUSHALL and SWAPDB are one record
//! each.

/// The stable id of a database. Clients' database 3 is the id to which the newest
/// [`RecordKind::Databases`] record maps 3. Ids are never reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct DbId(pub u64);

impl DbId {
    /// A bound that no database ever reaches; as [`crate::Lsn::MAX`].
    pub const MAX: Self = Self(u64::MAX >> 1);
}

/// The incarnation of a large object: never reused in the life of a database; 0 for none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct ObjectId(pub u64);

impl ObjectId {
    /// No object: the record is of a self-contained key entry.
    pub const NONE: Self = Self(0);

    /// A bound that no log ever reaches; as [`crate::Lsn::MAX`].
    pub const MAX: Self = Self(u64::MAX >> 1);

    /// The object after this one; [`ObjectId::MAX`] for an invalid number.
    #[must_use]
    pub const fn next(self) -> Self {
        if self.0 < Self::MAX.0 { Self(self.0 + 1) } else { Self::MAX }
    }
}

/// The subject of a record, which determines the fields of [`Record`] that it uses.
///
/// The numbers are on disk: never change or reuse one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum RecordKind {
    /// `db`, `key`, `value` = the bytes, `expires_at_ms`.
    String = 1,
    /// Root: `db`, `key`, `object`, `value` = varint length in bytes, `expires_at_ms`.
    LargeString = 2,
    /// `object`, `sub` = chunk number (u32, big-endian), `value` = the bytes.
    StringChunk = 3,
    /// `db`, `key`, `value` = packed elements, `expires_at_ms`.
    ListPacked = 4,
    /// Root: `db`, `key`, `object`, `value` = flags, `expires_at_ms`.
    List = 5,
    /// `object`, `sub` = order key (u64, big-endian), `value` = packed elements.
    ListNode = 6,
    /// `db`, `key`, `value` = packed field, value pairs, `expires_at_ms`.
    HashPacked = 7,
    /// Root: `db`, `key`, `object`, `value` = flags, `expires_at_ms`.
    Hash = 8,
    /// `object`, `sub` = field, `value`, `expires_at_ms` of the field.
    HashField = 9,
    /// `db`, `key`, `value` = packed members, `expires_at_ms`.
    SetPacked = 10,
    /// Root: `db`, `key`, `object`, `value` = flags, `expires_at_ms`.
    Set = 11,
    /// `object`, `sub` = member.
    SetMember = 12,
    /// `db`, `key`, `value` = packed member, score pairs, `expires_at_ms`.
    ZSetPacked = 13,
    /// Root: `db`, `key`, `object`, `value` = flags, `expires_at_ms`.
    ZSet = 14,
    /// `object`, `sub` = member, `value` = score (f64, little-endian).
    ZSetMember = 15,
    /// `value` = varint next free id, then a varint id for each database index.
    Databases = 16,
    /// `value` = a [`crate::Note`]: of no entry, and garbage as soon as it is written.
    Note = 17,
    /// `key` = the name, `value` = the source: a library of functions. It is in no database.
    Library = 19,
    /// Root: `db`, `key`, `object`, `value` = a zero, last id, count of entries ever added, largest deleted id, name
    /// of the last node (ids as two varints), `expires_at_ms`.
    Stream = 21,
    /// `object`, `sub` = 0, id (16 bytes, big-endian) of the first entry that it had, `value` = entries.
    StreamNode = 22,
    /// `object`, `sub` = 1, group (u32, big-endian), `value` = name, last id, count of entries read + 1.
    StreamGroup = 23,
    /// `object`, `sub` = 2, group, consumer (u32 each, big-endian), `value` = name, times.
    StreamConsumer = 24,
    /// `object`, `sub` = 3, group (u32, big-endian), id (16 bytes), `value` = consumer, count, time.
    StreamPending = 25,
    /// `db`, `key`, `value` = packed field, value, expiry triples (an expiry is eight bytes, little-endian, or none),
    /// `expires_at_ms`. Where there is one, fields of large hashes may expire, too.
    HashPackedExpiring = 26,
    /// `db`, `key`, `value` = type, `expires_at_ms`: the key is there, and its value is lost.
    ValueLost = 27,
    /// `db`, `key` = the identity that an index has of the key (12 bytes), `value` = type,
    /// `expires_at_ms`: the key is there, and its name and its value are lost.
    KeyLost = 28,
    /// `object`, `sub` = 4, id (16 bytes) of an entry, `value` = producer, message that became it; or `sub` = 5, `value` =
    /// seconds, count of each producer's messages that are kept.
    StreamProducer = 29,
    /// `db`, `key`: the key entry is gone.
    KeyDeleted = 0x81,
    /// `object`, `sub`: the element entry is gone.
    ElementDeleted = 0x82,
    /// `key`: the library of functions is gone.
    LibraryDeleted = 0x83,
}

impl RecordKind {
    /// Every kind, in numeric order.
    pub const ALL: [Self; 30] = [
        Self::String,
        Self::LargeString,
        Self::StringChunk,
        Self::ListPacked,
        Self::List,
        Self::ListNode,
        Self::HashPacked,
        Self::Hash,
        Self::HashField,
        Self::SetPacked,
        Self::Set,
        Self::SetMember,
        Self::ZSetPacked,
        Self::ZSet,
        Self::ZSetMember,
        Self::Databases,
        Self::Note,
        Self::Library,
        Self::Stream,
        Self::StreamNode,
        Self::StreamGroup,
        Self::StreamConsumer,
        Self::StreamPending,
        Self::HashPackedExpiring,
        Self::ValueLost,
        Self::KeyLost,
        Self::StreamProducer,
        Self::KeyDeleted,
        Self::ElementDeleted,
        Self::LibraryDeleted,
    ];

    /// Returns the kind with this number on disk.
    #[must_use]
    pub fn from_u8(number: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| *kind as u8 == number)
    }

    /// Whether the record says that an entry is gone. Such a record is never retired: compaction
    /// drops it when no segment can still hold an older record of the entry.
    #[must_use]
    pub const fn is_delete(self) -> bool {
        self as u8 & 0x80 != 0
    }

    /// Whether the record is about `(object, sub)` rather than `(db, key)`.
    #[must_use]
    pub const fn is_element(self) -> bool {
        matches!(
            self,
            Self::StringChunk
                | Self::ListNode
                | Self::HashField
                | Self::SetMember
                | Self::ZSetMember
                | Self::StreamNode
                | Self::StreamGroup
                | Self::StreamConsumer
                | Self::StreamPending
                | Self::StreamProducer
                | Self::ElementDeleted
        )
    }

    /// Whether the record is about a library of functions.
    #[must_use]
    pub const fn is_library(self) -> bool {
        matches!(self, Self::Library | Self::LibraryDeleted)
    }

    /// Whether the record is about something that is in no database: then its `db` says nothing.
    #[must_use]
    pub const fn is_of_no_database(self) -> bool {
        self.is_library() || matches!(self, Self::Databases | Self::Note)
    }

    /// Whether the record is the root of an object: it binds `(db, key)` to `object`.
    #[must_use]
    pub const fn is_root(self) -> bool {
        matches!(
            self,
            Self::LargeString | Self::List | Self::Hash | Self::Set | Self::ZSet | Self::Stream
        )
    }
}

/// One record. Fields that its kind does not use are empty, 0 or `None`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Record<'a> {
    /// The subject of the record.
    pub kind: RecordKind,
    /// The database of a key entry.
    pub db: DbId,
    /// The key of a key entry.
    pub key: &'a [u8],
    /// The object that a root binds, or that an element belongs to.
    pub object: ObjectId,
    /// The element's name within its object.
    pub sub: &'a [u8],
    /// The new state.
    pub value: &'a [u8],
    /// When the key expires, or the field of a hash, in Unix milliseconds.
    pub expires_at_ms: Option<i64>,
    /// Whether the entry was not there before. Logs written by older programs do not say so.
    pub is_new: bool,
}

impl<'a> Record<'a> {
    /// Creates the state of a self-contained key entry.
    #[must_use]
    pub const fn whole(
        kind: RecordKind,
        db: DbId,
        key: &'a [u8],
        value: &'a [u8],
        expires_at_ms: Option<i64>,
    ) -> Self {
        Self {
            kind,
            db,
            key,
            object: ObjectId::NONE,
            sub: &[],
            value,
            expires_at_ms,
            is_new: false,
        }
    }

    /// Creates the root of `object`, bound to `key`.
    #[must_use]
    pub const fn root(
        kind: RecordKind,
        db: DbId,
        key: &'a [u8],
        object: ObjectId,
        value: &'a [u8],
        expires_at_ms: Option<i64>,
    ) -> Self {
        Self { kind, db, key, object, sub: &[], value, expires_at_ms, is_new: false }
    }

    /// Creates the state of an element of `object`.
    #[must_use]
    pub const fn element(
        kind: RecordKind,
        object: ObjectId,
        sub: &'a [u8],
        value: &'a [u8],
    ) -> Self {
        Self { kind, db: DbId(0), key: &[], object, sub, value, expires_at_ms: None, is_new: false }
    }

    /// Says when the field of a hash expires that the record is of.
    #[must_use]
    pub const fn until(mut self, expires_at_ms: Option<i64>) -> Self {
        self.expires_at_ms = expires_at_ms;
        self
    }

    /// The flag in the first byte of the value of a hash, small or root of a large one, of which a field expires, or
    /// did.
    pub const EXPIRING_FIELDS: u8 = 2;

    /// Whether it is of a hash of which a field expires, or did, as it says by itself: a small hash, the root of a
    /// large one, or a field that expires. A file that has such a record names
    /// [`RecordKind::HashPackedExpiring`].
    #[must_use]
    pub const fn has_expiring_fields(&self) -> bool {
        match self.kind {
            RecordKind::HashPackedExpiring => true,
            RecordKind::HashField => self.expires_at_ms.is_some(),
            RecordKind::Hash => {
                matches!(self.value, [flags, ..] if *flags & Self::EXPIRING_FIELDS != 0)
            }
            _ => false,
        }
    }

    /// Says whether the entry was not there before.
    #[must_use]
    pub const fn new_entry(mut self, is_new: bool) -> Self {
        self.is_new = is_new;
        self
    }

    /// Creates the deletion of a key entry.
    #[must_use]
    pub const fn key_deleted(db: DbId, key: &'a [u8]) -> Self {
        Self::whole(RecordKind::KeyDeleted, db, key, &[], None)
    }

    /// Creates the state of a library of functions.
    #[must_use]
    pub const fn library(name: &'a [u8], source: &'a [u8]) -> Self {
        Self::whole(RecordKind::Library, DbId(0), name, source, None)
    }

    /// Creates the deletion of a library of functions.
    #[must_use]
    pub const fn library_deleted(name: &'a [u8]) -> Self {
        Self::whole(RecordKind::LibraryDeleted, DbId(0), name, &[], None)
    }

    /// Creates the deletion of an element entry.
    #[must_use]
    pub const fn element_deleted(object: ObjectId, sub: &'a [u8]) -> Self {
        Self::element(RecordKind::ElementDeleted, object, sub, &[])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_on_disk_are_what_they_were() {
        let numbers = RecordKind::ALL.map(|kind| kind as u8);
        assert_eq!(
            numbers,
            [
                1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 19, 21, 22, 23, 24, 25,
                26, 27, 28, 29, 0x81, 0x82, 0x83
            ]
        );
        for kind in RecordKind::ALL {
            assert_eq!(RecordKind::from_u8(kind as u8), Some(kind));
        }
        assert_eq!(RecordKind::from_u8(0), None);
    }
}
