//! Redis' serialized values: what DUMP returns and RESTORE takes, in both directions.
//!
//! ```text
//!   value ──► encode ──► type │ value … │ version │ CRC64 ──► decode ──► value
//!                        1 B              2 B       8 B
//! ```
//!
//! Values are written in the simplest form: every element a separate string, uncompressed. All
//! forms that Redis 7 writes are read: listpacks, integer sets, compressed strings. All input is
//! verified before use: lengths against the remaining bytes, checksums, types. Memory is never
//! reserved for a length that a payload merely announces.
//!
//! Pure: no I/O and no dependency on the rest of the server.

mod crc64;
mod decode;
mod encode;
mod listpack;
mod lzf;

pub use decode::{BadPayload, decode};
pub use encode::{encode, seal};

/// The newest version of the format that this crate reads, and the one that it writes: Redis 7.0's.
pub const VERSION: u16 = 10;

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
    /// The fields of a hash with their values.
    Hash(Vec<(Vec<u8>, Vec<u8>)>),
}

/// The bytes that identify the form of a value.
mod form {
    pub(crate) const STRING: u8 = 0;
    pub(crate) const LIST: u8 = 1;
    pub(crate) const SET: u8 = 2;
    pub(crate) const HASH: u8 = 4;
    /// Scores as binary doubles.
    pub(crate) const ZSET_2: u8 = 5;
    pub(crate) const SET_INTSET: u8 = 11;
    pub(crate) const HASH_LISTPACK: u8 = 16;
    pub(crate) const ZSET_LISTPACK: u8 = 17;
    /// Nodes that are a listpack or one plain element.
    pub(crate) const LIST_QUICKLIST_2: u8 = 18;
}

/// The bits of the first byte of a length.
mod length {
    pub(crate) const BITS_32: u8 = 0x80;
    pub(crate) const BITS_64: u8 = 0x81;
    pub(crate) const INT8: u8 = 0xc0;
    pub(crate) const INT16: u8 = 0xc1;
    pub(crate) const INT32: u8 = 0xc2;
    pub(crate) const LZF: u8 = 0xc3;
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

    fn value() -> impl Strategy<Value = Value> {
        let many = || prop::collection::vec(bytes(), 1..20);
        let scores = prop::collection::btree_map(bytes(), -1e9..1e9, 1..20);
        let fields = prop::collection::btree_map(bytes(), bytes(), 1..20);
        prop_oneof![
            bytes().prop_map(Value::String),
            many().prop_map(Value::List),
            prop::collection::btree_set(bytes(), 1..20)
                .prop_map(|members| Value::Set(members.into_iter().collect())),
            scores.prop_map(|members| Value::ZSet(members.into_iter().collect())),
            fields.prop_map(|fields| Value::Hash(fields.into_iter().collect())),
        ]
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back(value in value()) {
            prop_assert_eq!(decode(&encode(&value)), Ok(value));
        }

        #[test]
        fn damage_is_noticed(value in value(), at: prop::sample::Index, bit in 0..8_u32) {
            let mut payload = encode(&value);
            let at = at.index(payload.len());
            payload[at] ^= 1 << bit;
            prop_assert!(decode(&payload).is_err());
        }

        #[test]
        fn any_bytes_with_a_right_sum_are_survived(body in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = decode(&seal(body));
        }
    }
}
