//! What OBJECT, MEMORY and DEBUG tell of a key.

use crate::access;
use crate::entry::{Entry, Kind, Payload};
use crate::keyspace::Keyspace;
use crate::packed::{LARGE_ENCODING, Packed};
use crate::string::inline_encoding;

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
    /// The encoding that Redis would name.
    pub fn encoding(&mut self, db: usize, key: &[u8]) -> Option<&'static str> {
        self.peek(db, key).map(encoding_of)
    }

    /// The number that the key holds, when it is kept as one.
    pub fn peek_int(&mut self, db: usize, key: &[u8]) -> Option<i64> {
        match self.peek(db, key)?.payload() {
            Payload::Int(value) => Some(value),
            _ => None,
        }
    }

    /// Sets how long a key was not used, or how often it was, whichever the policy of eviction
    /// looks at; what is not given stays. Whether the key was there.
    pub fn set_use(
        &mut self,
        db: usize,
        key: &[u8],
        idle_ms: Option<i64>,
        frequency: Option<u8>,
    ) -> bool {
        let (hash, now_ms) = (self.hash_of(key), self.now_ms());
        let Some(place) = self.locate(db, hash, key) else { return false };
        if let Some(access) = access::given(self.settings(), now_ms, idle_ms, frequency) {
            self.dbs[db].keys.at_mut(place).set_access(access);
        }
        true
    }

    /// How long the key was not used, in milliseconds.
    pub fn idle_ms(&mut self, db: usize, key: &[u8]) -> Option<i64> {
        let now_ms = self.now_ms();
        self.peek(db, key).map(|entry| access::idle_ms(entry.access(), now_ms))
    }

    /// The logarithmic counter of the key's use.
    pub fn frequency(&mut self, db: usize, key: &[u8]) -> Option<u32> {
        let (settings, now_ms) = (self.settings().clone(), self.now_ms());
        self.peek(db, key).map(|entry| access::frequency(entry.access(), &settings, now_ms))
    }

    /// The bytes that the key takes, elements estimated from `samples` of them (0: all).
    pub fn memory_usage(&mut self, db: usize, key: &[u8], samples: usize) -> Option<usize> {
        self.peek(db, key).map(|entry| {
            // Its share of the table that finds it: eight bytes and a tag, at two thirds' load.
            const TABLE_SHARE_BYTES: usize = 14;
            let object = entry.object().map_or(0, |object| object.allocated_bytes(samples));
            TABLE_SHARE_BYTES + entry.block_bytes() + object
        })
    }

    /// The bytes of a database's tables: of its keys, and of its expiring keys.
    #[must_use]
    pub fn table_bytes(&self, db: usize) -> (usize, usize) {
        self.dbs[db].overhead_bytes()
    }
}

fn encoding_of(entry: &Entry) -> &'static str {
    let Payload::Packed(kind, bytes) = entry.payload() else {
        return entry.object().map_or_else(|| inline_encoding(entry), |o| o.encoding());
    };
    let is_large = Packed::new(bytes).flags() & LARGE_ENCODING != 0;
    match (kind, is_large) {
        (Kind::ListPacked, _) => "quicklist",
        (Kind::HashPacked | Kind::ZSetPacked, false) => "listpack",
        (Kind::SetPacked, false) => "intset",
        (Kind::ZSetPacked, true) => "skiplist",
        _ => "hashtable",
    }
}
