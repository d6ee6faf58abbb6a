//! Redis' serialized data: whole dumps (RDB files) and single values (DUMP and RESTORE), in both
//! directions.
//!
//! ```text
//!   source ──► Reader ──► Event … ──► Digest                     a dump, streamed in bounded memory
//!                │           └──────► Writer ──► target
//!                └─ form ─ value ─ packed                        one reader a form, for both
//!                             │
//!   type │ value … │ version │ CRC64 ──► decode ──► Value ──► encode      a payload, in memory
//!   1 B              2 B       8 B
//! ```
//!
//! Everything is written in the simplest form: every element a separate string. All forms that Redis
//! 1.2 to 8.10 and Valkey up to 9.0 write are read: ziplists, listpacks, integer sets, compressed
//! strings, fields that expire, streams up to 7.2; what there is no event for (newer streams, modules' values, arrays) is
//! skipped and reported by its key. All input is verified before use: lengths against what is there, checksums, types. Memory is
//! never reserved for a length that is merely announced.
//!
//! Pure: reads and writes only what it is given, and knows nothing of the rest of the server but how
//! doubles are printed.

mod crc64;
mod decode;
mod digest;
mod error;
mod event;
mod form;
mod functions;
mod input;
mod lzf;
mod packed;
mod payload;
mod reader;
mod skip;
mod stream;
mod strings;
mod template;
mod value;
mod version;
mod writer;

pub use crc64::Crc64;
pub use decode::{BadPayload, decode, decode_string, is_of_expiring_fields, is_of_stream};
pub use digest::{DatasetFingerprint, Digest, Fingerprint};
pub use error::Error;
pub use event::{Checksum, Event, Key, Kind};
pub use functions::{BadFunctions, FunctionLimits, decode_functions, encode_functions};
pub use payload::{encode, encode_for};
pub use reader::Reader;
pub use stream::{
    BadGroup, EntriesRead, EntryId, GroupBuilder, NodeBuilder, PendingEntry, StreamConsumer,
    StreamEntry, StreamGroup, StreamNumbers, StreamValue,
};
pub use strings::{length_bytes, seal};
pub use version::{REDIS_VERSION_MAX, VALKEY_VERSION, Version};
pub use writer::{WriteError, WriteOptions, Writer};

/// The version that payloads are written with, unless a newer one is asked for: Redis 7.0's.
pub const VERSION: u16 = 10;

/// Shorter strings are not compressed, as in Redis.
const PACKED_BYTES_MIN: usize = 21;

/// What compressing must save, as in Redis.
const SAVED_BYTES_MIN: usize = 4;

/// What is read of a dump or a payload at most.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// The longest string or packed blob, in bytes, packed or unpacked.
    pub string_bytes_max: u64,
}

impl Default for Limits {
    /// Strings of up to 512 MiB, as Redis' `proto-max-bulk-len` allows by default.
    fn default() -> Self {
        Self { string_bytes_max: 512 << 20 }
    }
}

/// A value of any type, without its key.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// A string.
    String(Vec<u8>),
    /// A list, from its head.
    List(Vec<Vec<u8>>),
    /// The members of a set.
    Set(Vec<Vec<u8>>),
    /// The members of a sorted set with their scores.
    ZSet(Vec<(Vec<u8>, f64)>),
    /// The fields of a hash with their values, and when they expire, in Unix milliseconds.
    Hash(Vec<(Vec<u8>, Vec<u8>, Option<i64>)>),
    /// A stream.
    Stream(StreamValue),
}

impl Value {
    /// How many elements it has; of a string one.
    pub(crate) const fn len(&self) -> usize {
        match self {
            Self::String(_) => 1,
            Self::List(items) | Self::Set(items) => items.len(),
            Self::ZSet(members) => members.len(),
            Self::Hash(fields) => fields.len(),
            Self::Stream(stream) => stream.entries.len(),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn bytes() -> impl Strategy<Value = Vec<u8>> {
        prop_oneof![
            prop::collection::vec(any::<u8>(), 0..80),
            any::<i64>().prop_map(|number| number.to_string().into_bytes()),
            Just(vec![b'x'; 20_000]),
        ]
    }

    /// A stream, with groups that hold what is there and what is not.
    fn stream() -> impl Strategy<Value = StreamValue> {
        let pairs = || prop::collection::vec((bytes(), bytes()), 1..3);
        let same = Just(vec![(b"f".to_vec(), b"1".to_vec())]);
        let ids = prop::collection::btree_set((0..3_u64, 0..200_u64), 0..150);
        let entries = prop::collection::vec(prop_oneof![4 => same, 1 => pairs()], 150);
        let numbers = (any::<u64>(), any::<u64>(), prop::option::of(0..i64::MAX.cast_unsigned()));
        let held = prop::collection::btree_map((0..3_u64, 0..200_u64), 0..3_usize, 0..40);
        (ids, entries, numbers, prop::collection::btree_map(bytes(), held, 0..3)).prop_map(
            |(ids, pairs, (ms, seq, read), groups)| {
                let id =
                    |(ms, seq): (u64, u64)| EntryId::new(u64::MAX - 9 + ms, u64::MAX - 300 + seq);
                let entries: Vec<_> = ids
                    .into_iter()
                    .zip(pairs)
                    .map(|(of, pairs)| StreamEntry { id: id(of), pairs })
                    .collect();
                let groups = groups.into_iter().map(|(name, held)| {
                    let consumers = (0..3).map(|number| {
                        let held = held.iter().filter(|(_, of)| **of == number);
                        StreamConsumer {
                            name: format!("consumer {number}").into_bytes(),
                            seen_ms: 77,
                            active_ms: Some(77),
                            pending: held
                                .map(|(of, _)| PendingEntry { id: id(*of), at_ms: -1, count: ms })
                                .collect(),
                        }
                    });
                    let entries_read = read.map_or(EntriesRead::Unknown, EntriesRead::Known);
                    let last_id = EntryId::new(ms, seq);
                    StreamGroup { name, last_id, entries_read, consumers: consumers.collect() }
                });
                let numbers = StreamNumbers {
                    last_id: EntryId::new(u64::MAX, seq.max(u64::MAX - 5)),
                    max_deleted_id: EntryId::new(ms, seq),
                    entries_added: seq,
                };
                StreamValue { groups: groups.collect(), entries, numbers }
            },
        )
    }

    fn value() -> impl Strategy<Value = Value> {
        let many = || prop::collection::vec(bytes(), 1..20);
        let scores = prop::collection::btree_map(bytes(), -1e9..1e9, 1..20);
        let times = prop::option::of(0..=strings::FIELD_TIME_MS_MAX);
        let fields = prop::collection::btree_map(bytes(), (bytes(), times), 1..20);
        prop_oneof![
            bytes().prop_map(Value::String),
            many().prop_map(Value::List),
            prop::collection::btree_set(bytes(), 1..20)
                .prop_map(|members| Value::Set(members.into_iter().collect())),
            scores.prop_map(|members| Value::ZSet(members.into_iter().collect())),
            fields.prop_map(|fields| {
                let timed = |(name, (value, at_ms))| (name, value, at_ms);
                Value::Hash(fields.into_iter().map(timed).collect())
            }),
            stream().prop_map(Value::Stream),
        ]
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back(value in value()) {
            prop_assert_eq!(decode(&encode(&value), Limits::default()), Ok(value));
        }

        #[test]
        fn damage_is_noticed(value in value(), at: prop::sample::Index, bit in 0..8_u32) {
            let mut payload = encode(&value);
            let at = at.index(payload.len());
            payload[at] ^= 1 << bit;
            prop_assert!(decode(&payload, Limits::default()).is_err());
        }

        #[test]
        fn any_bytes_with_a_right_sum_are_survived(body in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = decode(&seal(body), Limits::default());
        }
    }
}
