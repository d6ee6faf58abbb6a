//! What a dump consists of, one thing after the other.

use crate::stream::{EntriesRead, EntryId, PendingEntry, StreamNumbers};

/// The type of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// A string.
    String,
    /// A list, from its head.
    List,
    /// A set.
    Set,
    /// A sorted set.
    ZSet,
    /// A hash.
    Hash,
    /// A stream.
    Stream,
}

impl Kind {
    /// Returns its name, as Redis' TYPE gives it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::String => "string",
            Self::List => "list",
            Self::Set => "set",
            Self::ZSet => "zset",
            Self::Hash => "hash",
            Self::Stream => "stream",
        }
    }
}

/// A key, with all that is known of it before its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key<'a> {
    /// Its name.
    pub key: &'a [u8],
    /// The type of its value.
    pub kind: Kind,
    /// How many elements (items, members, fields) follow; `None` for a string, and for a stream and a list in nodes,
    /// whose elements nothing counts in advance. A stream is written with how many nodes it has.
    pub count: Option<u64>,
    /// When it expires, in milliseconds of Unix time.
    pub expires_at_ms: Option<i64>,
    /// For how many seconds it had not been used.
    pub idle_s: Option<u64>,
    /// How often it had been used, on Redis' logarithmic scale.
    pub frequency: Option<u8>,
}

/// What comes next in a dump; its bytes are good until the next one is asked for.
///
/// A key is followed by its value, [`String`](Event::String) or at least one element of its kind, and
/// [`EndOfKey`](Event::EndOfKey). A stream has entries, each with its fields, then its numbers, then groups, each with
/// what is pending and then consumers, each with what it holds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Event<'a> {
    /// A fact about the dump, as `redis-ver`; names that are not known are to be ignored.
    Aux {
        /// What it is called.
        name: &'a [u8],
        /// Its value, as text.
        value: &'a [u8],
    },
    /// The keys that follow are in this database; before the first one it is 0.
    Database(u32),
    /// How large tables for the database should be. A hint: nothing depends on it.
    Sizes {
        /// Keys.
        keys: u64,
        /// Those of them that expire.
        expiring: u64,
    },
    /// The code of a library of functions, its first line included.
    Function(&'a [u8]),
    /// A key.
    Key(Key<'a>),
    /// The value of a string.
    String(&'a [u8]),
    /// The next item of a list.
    Item(&'a [u8]),
    /// A member of a set.
    Member(&'a [u8]),
    /// A member of a sorted set, and its score, which is a number.
    Scored(&'a [u8], f64),
    /// A field of a hash.
    Field {
        /// Its name.
        name: &'a [u8],
        /// Its value.
        value: &'a [u8],
        /// When it expires, in milliseconds of Unix time.
        expires_at_ms: Option<i64>,
    },
    /// The next entry of a stream, whose fields follow; ids rise.
    Entry(EntryId),
    /// A field of an entry: name and value.
    Pair(&'a [u8], &'a [u8]),
    /// All entries have come; this the stream says of all that it ever had.
    Numbers(StreamNumbers),
    /// A group of consumers of a stream.
    Group {
        /// Its name.
        name: &'a [u8],
        /// The last entry that it was given.
        last_id: EntryId,
        /// How many it was given.
        entries_read: EntriesRead,
    },
    /// An entry that the group waits to be acknowledged; ids rise.
    Pending(PendingEntry),
    /// A consumer of the group.
    Consumer {
        /// Its name.
        name: &'a [u8],
        /// When it was heard of last, in Unix milliseconds.
        seen_ms: i64,
        /// When it got something last; `None` if it never did.
        active_ms: Option<i64>,
    },
    /// The consumer holds this one of what is pending; ids rise.
    Held(EntryId),
    /// The value of the key is complete.
    EndOfKey,
    /// A key with a collection that has no elements, which no server keeps: versions with bugs have written some, and
    /// Redis since 7.0 leaves them out when it loads a dump. No [`EndOfKey`](Event::EndOfKey) follows.
    Empty {
        /// The key's name.
        key: &'a [u8],
        /// The type of its value.
        kind: Kind,
    },
    /// A key with a value that there is no event for. It was skipped.
    Foreign {
        /// The key's name.
        key: &'a [u8],
        /// What it is: `module`, `array`, or `stream` for those of Redis 8.6 on.
        what: &'static str,
    },
    /// Something that belongs to no value was skipped.
    Ignored {
        /// What it is.
        what: &'static str,
    },
    /// The end; after it there is nothing but this.
    End {
        /// What became of the checksum.
        checksum: Checksum,
    },
}

/// What became of a checksum; a wrong one is an [`Error`](crate::Error).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Checksum {
    /// It is the sum of all bytes.
    Right,
    /// There is none: the version has none, or the server was told to leave it out (zeros).
    Absent,
}
