//! What the writer writes, the reader reads.

use proptest::prelude::*;
use rdb::{Event, Key, Kind, Reader, Version, WriteError, WriteOptions, Writer};

use crate::dump::{InPieces, LIMITS, line, lines};

/// A value, with times of fields.
#[derive(Clone, Debug)]
enum Value {
    String(Vec<u8>),
    List(Vec<Vec<u8>>),
    Set(Vec<Vec<u8>>),
    ZSet(Vec<(Vec<u8>, f64)>),
    Hash(Vec<(Vec<u8>, Vec<u8>, Option<i64>)>),
}

impl Value {
    fn kind(&self) -> Kind {
        match self {
            Self::String(_) => Kind::String,
            Self::List(_) => Kind::List,
            Self::Set(_) => Kind::Set,
            Self::ZSet(_) => Kind::ZSet,
            Self::Hash(_) => Kind::Hash,
        }
    }

    fn count(&self) -> Option<u64> {
        match self {
            Self::String(_) => None,
            Self::List(items) | Self::Set(items) => Some(items.len() as u64),
            Self::ZSet(members) => Some(members.len() as u64),
            Self::Hash(fields) => Some(fields.len() as u64),
        }
    }

    fn events(&self) -> Vec<Event<'_>> {
        match self {
            Self::String(bytes) => vec![Event::String(bytes)],
            Self::List(items) => items.iter().map(|item| Event::Item(item)).collect(),
            Self::Set(members) => members.iter().map(|member| Event::Member(member)).collect(),
            Self::ZSet(members) => {
                members.iter().map(|(member, score)| Event::Scored(member, *score)).collect()
            }
            Self::Hash(fields) => fields
                .iter()
                .map(|(name, value, at_ms)| Event::Field { name, value, expires_at_ms: *at_ms })
                .collect(),
        }
    }
}

/// Something that a dump has.
#[derive(Clone, Debug)]
enum Part {
    Aux(Vec<u8>, Vec<u8>),
    Function(Vec<u8>),
    Database(u32, u64, u64),
    Key {
        key: Vec<u8>,
        expires_at_ms: Option<i64>,
        idle_s: Option<u64>,
        frequency: Option<u8>,
        value: Value,
    },
}

fn write(
    part: &Part,
    writer: &mut Writer<Vec<u8>>,
    expected: &mut Vec<String>,
) -> Result<(), WriteError> {
    match part {
        Part::Aux(name, value) => {
            writer.aux(name, value)?;
            expected.push(line(&Event::Aux { name, value }));
        }
        Part::Function(code) => {
            writer.function(code)?;
            expected.push(line(&Event::Function(code)));
        }
        Part::Database(index, keys, expiring) => {
            writer.database(*index)?;
            writer.sizes(*keys, *expiring)?;
            let sizes = Event::Sizes { keys: *keys, expiring: *expiring };
            expected.extend([line(&Event::Database(*index)), line(&sizes)]);
        }
        Part::Key { key, expires_at_ms, idle_s, frequency, value } => {
            let key = Key {
                key,
                kind: value.kind(),
                count: value.count(),
                expires_at_ms: *expires_at_ms,
                idle_s: *idle_s,
                frequency: *frequency,
            };
            match value {
                Value::Hash(fields) if fields.iter().any(|(.., at_ms)| at_ms.is_some()) => {
                    writer.hash_with_times(&key)?;
                }
                _ => writer.key(&key)?,
            }
            expected.push(line(&Event::Key(key)));
            for event in value.events() {
                match event {
                    Event::String(bytes) => writer.string(bytes)?,
                    Event::Item(item) => writer.item(item)?,
                    Event::Member(member) => writer.member(member)?,
                    Event::Scored(member, score) => writer.scored(member, score)?,
                    Event::Field { name, value, expires_at_ms } => {
                        writer.field(name, value, expires_at_ms)?;
                    }
                    other => unreachable!("{other:?}"),
                }
                expected.push(line(&event));
            }
            writer.end_of_key()?;
            expected.push(line(&Event::EndOfKey));
        }
    }
    Ok(())
}

fn bytes() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        prop::collection::vec(any::<u8>(), 0..80),
        any::<i64>().prop_map(|number| number.to_string().into_bytes()),
        any::<i32>().prop_map(|number| number.to_string().into_bytes()),
        Just(b"-0".to_vec()),
        Just(b"+7".to_vec()),
        (0..3_u8, 0..100_000_usize).prop_map(|(byte, count)| vec![byte; count]),
    ]
}

fn value(fields_expire: bool) -> impl Strategy<Value = Value> {
    let many = || prop::collection::vec(bytes(), 1..20);
    let scores = prop_oneof![-1e9..1e9, Just(f64::INFINITY), Just(f64::NEG_INFINITY), Just(-0.0)];
    let at_ms = prop::option::of(prop_oneof![Just(0), 0..1_i64 << 48])
        .prop_map(move |at_ms| at_ms.filter(|_| fields_expire));
    prop_oneof![
        bytes().prop_map(Value::String),
        many().prop_map(Value::List),
        many().prop_map(Value::Set),
        prop::collection::vec((bytes(), scores), 1..20).prop_map(Value::ZSet),
        prop::collection::vec((bytes(), bytes(), at_ms), 1..20).prop_map(Value::Hash),
    ]
}

fn key(fields_expire: bool) -> impl Strategy<Value = Part> {
    let never = -1;
    let at_ms = any::<i64>().prop_filter("it is no time", move |at_ms| *at_ms != never);
    let times =
        (prop::option::of(at_ms), prop::option::of(any::<u64>()), prop::option::of(any::<u8>()));
    (bytes(), times, value(fields_expire)).prop_map(
        |(key, (expires_at_ms, idle_s, frequency), value)| Part::Key {
            key,
            expires_at_ms,
            idle_s,
            frequency,
            value,
        },
    )
}

fn parts(version: Version) -> impl Strategy<Value = Vec<Part>> {
    let newer = version != Version::Redis(9);
    let function = bytes().prop_map(move |code| {
        if newer { Part::Function(code) } else { Part::Aux(b"code".to_vec(), code) }
    });
    let database = any::<(u32, u64, u64)>()
        .prop_map(|(index, keys, expiring)| Part::Database(index, keys, expiring));
    let aux = (bytes(), bytes()).prop_map(|(name, value)| Part::Aux(name, value));
    prop::collection::vec(
        prop_oneof![1 => aux, 1 => function, 2 => database, 6 => key(newer)],
        0..12,
    )
}

fn dump() -> impl Strategy<Value = (WriteOptions, Vec<Part>)> {
    let version = prop_oneof![
        Just(Version::Redis(9)),
        (12..=15_u16).prop_map(Version::Redis),
        Just(Version::Valkey(80)),
    ];
    (version, any::<bool>(), any::<bool>()).prop_flat_map(|(version, compress, checksum)| {
        let options = WriteOptions { version, compress, checksum };
        parts(version).prop_map(move |parts| (options, parts))
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, ..ProptestConfig::default() })]

    #[test]
    fn what_is_written_is_read((options, parts) in dump(), piece_bytes in 1..5000_usize) {
        let mut writer = Writer::begin(Vec::new(), options).unwrap();
        let mut expected = Vec::new();
        for part in &parts {
            write(part, &mut writer, &mut expected).unwrap();
        }
        let dump = writer.finish().unwrap();
        expected.push(if options.checksum { "end, right" } else { "end" }.to_owned());
        prop_assert_eq!(lines(&dump[..]).unwrap(), expected.clone());
        prop_assert_eq!(lines(InPieces(&dump, piece_bytes)).unwrap(), expected);
    }

    #[test]
    fn any_bytes_are_survived(
        magic in prop_oneof![Just("REDIS0009"), Just("REDIS0015"), Just("VALKEY080")],
        body in prop::collection::vec(any::<u8>(), 0..300),
    ) {
        let dump = [magic.as_bytes(), &body].concat();
        let _ = lines(&dump[..]);
    }
}

fn hash(count: Option<u64>) -> Key<'static> {
    Key { key: b"k", kind: Kind::Hash, count, expires_at_ms: None, idle_s: None, frequency: None }
}

#[test]
fn what_a_version_does_not_have_is_refused() {
    let begin =
        |version| Writer::begin(Vec::new(), WriteOptions { version, ..WriteOptions::default() });
    for version in [Version::Redis(8), Version::Redis(16), Version::Valkey(81)] {
        assert!(matches!(begin(version), Err(WriteError::Version(_))), "{version}");
    }
    let mut writer = begin(Version::Redis(9)).unwrap();
    let error = writer.function(b"#!lua").unwrap_err();
    assert!(error.to_string().contains("REDIS0010"), "{error}");
    let error = begin(Version::Redis(11)).unwrap().hash_with_times(&hash(Some(1))).unwrap_err();
    assert!(error.to_string().contains("REDIS0012"), "{error}");
}

/// Redis 8.2 takes a field until 2^48 - 1, and refuses a whole dump, or payload, for a later time.
#[test]
fn a_field_expires_at_the_nearest_time_that_servers_read() {
    const LAST: i64 = (1 << 48) - 1;
    let times = [
        (-5, 0),
        (-1, 0),
        (0, 0),
        (LAST - 1, LAST - 1),
        (LAST, LAST),
        (LAST + 1, LAST),
        (i64::MAX, LAST),
    ];
    let fields = |times: &mut dyn Iterator<Item = i64>| {
        let field = |(at, at_ms): (usize, i64)| {
            (format!("field{at}").into_bytes(), b"v".to_vec(), Some(at_ms))
        };
        times.enumerate().map(field).collect::<Vec<_>>()
    };
    let given = fields(&mut times.iter().map(|times| times.0));
    let expected = fields(&mut times.iter().map(|times| times.1));
    for version in [Version::Redis(12), Version::Valkey(80)] {
        let options = WriteOptions { version, ..WriteOptions::default() };
        let mut writer = Writer::begin(Vec::new(), options).unwrap();
        writer.hash_with_times(&hash(Some(given.len() as u64))).unwrap();
        let mut events = vec![line(&Event::Key(hash(Some(given.len() as u64))))];
        for ((name, value, given), (_, _, expected)) in given.iter().zip(&expected) {
            writer.field(name, value, *given).unwrap();
            events.push(line(&Event::Field { name, value, expires_at_ms: *expected }));
        }
        writer.end_of_key().unwrap();
        events.push(line(&Event::EndOfKey));
        let lines = lines(&writer.finish().unwrap()[..]).unwrap();
        assert_eq!(lines[..lines.len() - 1], events, "{version}");
    }
    let payload = rdb::encode(&rdb::Value::Hash(given));
    assert_eq!(rdb::decode(&payload, rdb::Limits::default()), Ok(rdb::Value::Hash(expected)));
    // What comes from another server, which has no such limit.
    let mut body = b"\x16\x01\x01f\x01v".to_vec();
    body.extend_from_slice(&i64::MAX.to_le_bytes());
    body.extend_from_slice(&80_u16.to_le_bytes());
    let mut sum = rdb::Crc64::new();
    sum.update(&body);
    body.extend_from_slice(&sum.sum().to_le_bytes());
    let taken = rdb::Value::Hash(vec![(b"f".to_vec(), b"v".to_vec(), Some(LAST))]);
    assert_eq!(rdb::decode(&body, rdb::Limits::default()), Ok(taken));
}

/// Redis 7.0 reads no payload that is labelled 11.
#[test]
fn a_payload_says_when_consumers_got_something_if_its_readers_know_that() {
    let id = rdb::EntryId::new(7, 1);
    let consumer = |name: &[u8], active_ms, pending| rdb::StreamConsumer {
        name: name.to_vec(),
        seen_ms: 6,
        active_ms,
        pending,
    };
    let stream = |active_ms, never| rdb::StreamValue {
        entries: vec![rdb::StreamEntry { id, pairs: vec![(b"f".to_vec(), b"v".to_vec())] }],
        numbers: rdb::StreamNumbers {
            last_id: id,
            max_deleted_id: rdb::EntryId::default(),
            entries_added: 1,
        },
        groups: vec![rdb::StreamGroup {
            name: b"g".to_vec(),
            last_id: id,
            entries_read: rdb::EntriesRead::Known(1),
            consumers: vec![
                consumer(b"a", active_ms, vec![rdb::PendingEntry { id, at_ms: 5, count: 2 }]),
                consumer(b"never", never, Vec::new()),
            ],
        }],
    };
    let (all, seen) = (stream(Some(5), None), stream(Some(6), Some(6)));
    for (readers, label, expected) in [
        (Version::Redis(9), 10, &seen),
        (Version::Redis(10), 10, &seen),
        (Version::Redis(11), 11, &all),
        (Version::Redis(15), 11, &all),
        (Version::Valkey(80), 11, &all),
    ] {
        let payload = rdb::encode_for(&rdb::Value::Stream(all.clone()), readers);
        assert_eq!(payload[payload.len() - 10..][..2], [label, 0], "{readers}");
        let read = rdb::decode(&payload, rdb::Limits::default());
        assert_eq!(read, Ok(rdb::Value::Stream(expected.clone())), "{readers}");
    }
    let string = rdb::Value::String(b"x".to_vec());
    assert_eq!(rdb::encode_for(&string, Version::Redis(15)), rdb::encode(&string));
}

#[test]
fn a_key_gets_as_many_elements_as_it_said() {
    let mut writer = Writer::begin(Vec::new(), WriteOptions::default()).unwrap();
    assert!(matches!(writer.key(&hash(None)), Err(WriteError::Count { said: 0, .. })));
    assert!(matches!(writer.key(&hash(Some(0))), Err(WriteError::Count { said: 0, .. })));
    writer.key(&hash(Some(2))).unwrap();
    writer.field(b"a", b"b", None).unwrap();
    assert!(matches!(writer.end_of_key(), Err(WriteError::Count { said: 2, given: 1 })));
}

#[test]
#[should_panic(expected = "of its kind")]
fn a_hash_gets_no_items() {
    let mut writer = Writer::begin(Vec::new(), WriteOptions::default()).unwrap();
    writer.key(&hash(Some(1))).unwrap();
    let _ = writer.item(b"a");
}

#[test]
fn what_compresses_is_compressed_when_asked() {
    let write = |compress| {
        let options = WriteOptions { compress, ..WriteOptions::default() };
        let mut writer = Writer::begin(Vec::new(), options).unwrap();
        writer.aux(b"text", &b"abcdefgh".repeat(1000)).unwrap();
        writer.finish().unwrap()
    };
    let (packed, plain) = (write(true), write(false));
    assert!(packed.len() < 200 && plain.len() > 8000, "{} {}", packed.len(), plain.len());
    assert_eq!(lines(&packed[..]).unwrap(), lines(&plain[..]).unwrap());
}

/// Strings larger than any buffer go both ways, and nothing in between is lost.
#[test]
fn large_strings_go_both_ways() {
    let large: Vec<u8> =
        (0..900_000_u32).map(|n| n.wrapping_mul(0x9e37_79b1).to_le_bytes()[3]).collect();
    let mut writer = Writer::begin(Vec::new(), WriteOptions::default()).unwrap();
    for count in 1..=3 {
        writer.aux(b"large", &large[count..]).unwrap();
        writer.aux(b"small", b"text").unwrap();
    }
    let dump = writer.finish().unwrap();
    let mut reader = Reader::new(InPieces(&dump, 10_000), LIMITS).unwrap();
    for count in 1..=3 {
        assert_eq!(reader.next().unwrap(), Event::Aux { name: b"large", value: &large[count..] });
        assert_eq!(reader.next().unwrap(), Event::Aux { name: b"small", value: b"text" });
    }
    assert_eq!(line(&reader.next().unwrap()), "end, right");
}
