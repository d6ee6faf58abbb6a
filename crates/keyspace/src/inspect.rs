//! What OBJECT, MEMORY and DEBUG tell of a key, and what lies there, for comparing keyspaces.

use base::{DbId, DbIndex, ObjectId, RecordAddr};

use crate::access;
use crate::collection::{ALL_SEEN, Collection, ValueRef};
use crate::entry::{Entry, HEAD_BYTES, Kind, Payload};
use crate::hash::{self, Hash, HashView};
use crate::hasher::KeyHasher;
use crate::keyspace::Keyspace;
use crate::list::{List, ListView};
use crate::object::{Body, Object};
use crate::packed::{EXPIRING_FIELDS, LARGE_ENCODING, Packed};
use crate::set::{Set, SetView};
use crate::stream::{Stream, StreamView};
use crate::string::{StringRef, inline_encoding, string_of};
use crate::table::Keyed;
use crate::value_type::{Type, entry_type};
use crate::zset::{ZSet, ZSetView};

/// A key's entry as it lies there, whether or not the key has expired.
pub struct Inspected<'a> {
    /// Its key.
    pub key: &'a [u8],
    /// When it expires.
    pub expires_at_ms: Option<i64>,
    /// The incarnation, when it is large.
    pub object: ObjectId,
    /// The value.
    pub contents: Contents<'a>,
}

/// A value of one of the types.
#[expect(missing_docs, reason = "the types are Redis'")]
pub enum Contents<'a> {
    String(StringRef<'a>),
    List(ListView<'a>),
    Hash(HashView<'a>),
    Set(SetView<'a>),
    ZSet(ZSetView<'a>),
    Stream(StreamView<'a>),
}

/// What finds a key takes: eight bytes and a tag, at two thirds' load.
pub const TABLE_SHARE_BYTES: usize = 14;

/// What a key and an inline string take in memory besides their bytes.
pub const ENTRY_HEAD_BYTES: usize = HEAD_BYTES;

/// What a key and its string take in memory, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StringLayout {
    /// The block of the key, without the key and what is inline.
    pub head_bytes: usize,
    /// The length of the string.
    pub value_bytes: usize,
    /// The room that the string has.
    pub value_room_bytes: usize,
}

/// The sum of `bytes` over `items`, estimated from the first `samples` of them (0: all).
pub(crate) fn sampled<'a, T: 'a>(
    items: impl Iterator<Item = &'a T>,
    len: usize,
    samples: usize,
    bytes: impl Fn(&T) -> usize,
) -> usize {
    let taken = if samples == 0 { len } else { samples.min(len) };
    let sum: usize = items.take(taken).map(bytes).sum();
    (sum * len).checked_div(taken).unwrap_or(0)
}

impl Keyspace {
    /// Visits every entry of a database whose value is in memory, those among them that have expired
    /// and that no command has met yet. Nothing is counted, noted or deleted by it.
    pub fn inspect(&self, db: DbIndex, mut visit: impl FnMut(Inspected<'_>)) {
        let entries = self.dbs[db].keys().iter().filter(|entry| !entry.is_bare());
        entries.for_each(|entry| visit(inspected(entry, self.hasher())));
    }

    /// As [`Keyspace::inspect`], of one key.
    #[must_use]
    pub fn inspect_key(&self, db: DbIndex, key: &[u8]) -> Option<Inspected<'_>> {
        let entry = self.dbs[db].keys().find(self.hash_of(key), key)?;
        (!entry.is_bare()).then(|| inspected(entry, self.hasher()))
    }

    /// The id under which the log knows a database.
    #[must_use]
    pub fn database_id(&self, db: DbIndex) -> DbId {
        self.dbs[db].id
    }

    /// Where the newest record is that says which ids the databases have; `None` if there never was one.
    #[must_use]
    pub const fn databases_record(&self) -> Option<RecordAddr> {
        self.databases_addr
    }

    /// The encoding that Redis would name.
    pub fn encoding(&mut self, db: DbIndex, key: &[u8]) -> Option<&'static str> {
        self.peek(db, key).map(encoding_of)
    }

    /// The number that the key holds, when it is kept as one.
    pub fn peek_int(&mut self, db: DbIndex, key: &[u8]) -> Option<i64> {
        match self.peek(db, key)?.payload() {
            Payload::Int(value) => Some(value),
            _ => None,
        }
    }

    /// Sets how long a key was not used, or how often it was, whichever the policy of eviction
    /// looks at; what is not given stays. Whether the key was there.
    pub fn set_use(
        &mut self,
        db: DbIndex,
        key: &[u8],
        idle_ms: Option<i64>,
        frequency: Option<u8>,
    ) -> bool {
        let (hash, now_ms) = (self.hash_of(key), self.now_ms());
        let Some(place) = self.locate_name(db, hash, key) else { return false };
        if let Some(access) = access::given(self.settings(), now_ms, idle_ms, frequency) {
            self.dbs[db].note_use(place, |_| access);
        }
        true
    }

    /// How long the key was not used, in milliseconds.
    pub fn idle_ms(&mut self, db: DbIndex, key: &[u8]) -> Option<i64> {
        let now_ms = self.now_ms();
        self.peek_name(db, key).map(|entry| access::idle_ms(entry.access(), now_ms))
    }

    /// The logarithmic counter of the key's use.
    pub fn frequency(&mut self, db: DbIndex, key: &[u8]) -> Option<u32> {
        let (settings, now_ms) = (self.settings().clone(), self.now_ms());
        self.peek_name(db, key).map(|entry| access::frequency(entry.access(), &settings, now_ms))
    }

    /// The bytes that the key takes in memory, elements estimated from `samples` of them (0: all).
    pub fn memory_usage(&mut self, db: DbIndex, key: &[u8], samples: usize) -> Option<usize> {
        let place = self.peek_place(db, key)?;
        let entry = self.dbs[db].keys().at(place);
        let object = entry.object().map_or(0, |object| object.allocated_bytes(samples));
        let end = self.ends.bytes_of(entry);
        Some(TABLE_SHARE_BYTES + entry.block_bytes() + object + end)
    }

    /// How a string of bytes lies in memory.
    pub fn string_layout(&mut self, db: DbIndex, key: &[u8]) -> Option<StringLayout> {
        let entry = self.peek(db, key)?;
        let block_bytes = entry.block_bytes() - entry.key().len();
        match entry.payload() {
            Payload::Str(bytes) => Some(StringLayout {
                head_bytes: block_bytes - bytes.len(),
                value_bytes: bytes.len(),
                value_room_bytes: bytes.len(),
            }),
            Payload::Object(Object { body: Body::String(string), .. }) => Some(StringLayout {
                head_bytes: block_bytes,
                value_bytes: string.bytes().len(),
                value_room_bytes: string.room_bytes(),
            }),
            _ => None,
        }
    }

    /// The bytes of a database's tables: of its keys, and of its expiring keys.
    #[must_use]
    pub fn table_bytes(&self, db: DbIndex) -> (usize, usize) {
        self.dbs[db].overhead_bytes()
    }
}

fn inspected(entry: &Entry, hasher: KeyHasher) -> Inspected<'_> {
    let value = ValueRef(entry.payload(), hasher, ALL_SEEN);
    let contents = match entry_type(entry) {
        Type::String => Contents::String(string_of(entry).expect("its type says so")),
        Type::List => Contents::List(List::view(value)),
        Type::Hash => Contents::Hash(Hash::view(value)),
        Type::Set => Contents::Set(Set::view(value)),
        Type::ZSet => Contents::ZSet(ZSet::view(value)),
        Type::Stream => Contents::Stream(Stream::view(value)),
    };
    Inspected {
        key: entry.key(),
        expires_at_ms: entry.expires_at_ms(),
        object: entry.object().map_or(ObjectId::NONE, |object| object.id()),
        contents,
    }
}

fn encoding_of(entry: &Entry) -> &'static str {
    let Payload::Packed(kind, bytes) = entry.payload() else {
        return entry.object().map_or_else(|| inline_encoding(entry), |o| o.encoding());
    };
    let flags = Packed::new(bytes).flags();
    let is_large = flags & LARGE_ENCODING != 0;
    match (kind, is_large) {
        (Kind::HashPacked, _) => hash::encoding_of(is_large, flags & EXPIRING_FIELDS != 0),
        (Kind::ListPacked, _) => "quicklist",
        (Kind::ZSetPacked, false) => "listpack",
        (Kind::SetPacked, false) => "intset",
        (Kind::ZSetPacked, true) => "skiplist",
        _ => "hashtable",
    }
}
