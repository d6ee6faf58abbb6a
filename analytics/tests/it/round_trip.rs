//! Any data, written as a dump, exported and read back.

use analytics::{Bounds, Compression, Options};
use proptest::prelude::*;
use rdb::{Value, Version, WriteOptions};

use crate::data::{Data, Entry, dump_with};
use crate::forms::Place;
use crate::read_back::read_back;

fn bytes() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        4 => prop::collection::vec(any::<u8>(), 0..40),
        2 => any::<i64>().prop_map(|number| number.to_string().into_bytes()),
        2 => prop::sample::select(&["a", "b", "c"][..]).prop_map(|name| name.as_bytes().to_vec()),
        1 => (0..5000_usize, any::<u8>()).prop_map(|(length, byte)| vec![byte; length]),
    ]
}

fn value() -> impl Strategy<Value = Value> {
    let scores = prop_oneof![any::<f64>().prop_filter("a number", |it| !it.is_nan()), -10.0..10.0];
    prop_oneof![
        bytes().prop_map(Value::String),
        prop::collection::vec(bytes(), 1..40).prop_map(Value::List),
        prop::collection::btree_set(bytes(), 1..40)
            .prop_map(|members| Value::Set(members.into_iter().collect())),
        prop::collection::btree_map(bytes(), scores, 1..40)
            .prop_map(|members| Value::ZSet(members.into_iter().collect())),
        prop::collection::btree_map(bytes(), bytes(), 1..40)
            .prop_map(|fields| Value::Hash(fields.into_iter().collect())),
    ]
}

fn data() -> impl Strategy<Value = Data> {
    // Redis takes -1 for never.
    let expiry = prop::option::of(any::<i64>().prop_filter("a time", |it| *it != -1));
    let entry = (expiry, value()).prop_map(|(expires_at_ms, value)| Entry { expires_at_ms, value });
    prop::collection::btree_map((prop_oneof![0..3_u32, any::<u32>()], bytes()), entry, 0..30)
}

fn options() -> impl Strategy<Value = Options> {
    let compression =
        prop::sample::select(&[Compression::Zstd, Compression::Snappy, Compression::None][..]);
    let bounds = (1..20_000_usize, 1..50_000_usize, 1..20_000_usize).prop_map(
        |(batch_bytes, row_group_bytes, part_bytes)| Bounds {
            batch_bytes,
            row_group_bytes,
            part_bytes,
        },
    );
    let fields =
        prop::sample::subsequence(vec!["a".to_owned(), "b".to_owned(), "no".to_owned()], 0..=3);
    (compression, bounds, fields, 1..100_usize).prop_map(
        |(compression, bounds, fields, row_group_rows)| Options {
            compression,
            bounds,
            fields,
            row_group_rows,
            ..Options::default()
        },
    )
}

/// Brings the fields of hashes into an order that columns do not change.
fn sorted(mut data: Data) -> Data {
    for entry in data.values_mut() {
        if let Value::Hash(fields) = &mut entry.value {
            fields.sort();
        }
    }
    data
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_is_dumped_is_read_back(
        data in data(),
        options in options(),
        compress: bool,
        checksum: bool,
        is_valkey: bool,
    ) {
        let version = if is_valkey { Version::Valkey(80) } else { Version::Redis(9) };
        let place = Place::of(&dump_with(&data, WriteOptions { version, compress, checksum }));
        let exported = place.export(&options).unwrap();
        prop_assert_eq!(exported.keys(), data.len() as u64);
        prop_assert_eq!(sorted(read_back(&place.out())), sorted(data));
    }

    #[test]
    fn damage_leaves_nothing(data in data(), at: prop::sample::Index, bit in 0..8_u32, options in options()) {
        let mut dump = dump_with(&data, WriteOptions::default());
        let at = at.index(dump.len());
        dump[at] ^= 1 << bit;
        let place = Place::of(&dump);
        // A version whose dumps have no checksum may be what one bit makes of it.
        if !(..9).contains(&at) {
            prop_assert!(place.export(&options).is_err());
            prop_assert_eq!(place.names().len(), 0);
        }
    }
}
