//! Data as a map, and a dump of it.

use std::collections::BTreeMap;

use rdb::{Key, Kind, Value, Version, WriteOptions, Writer};

/// A key's value and when it expires.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Entry {
    pub(crate) expires_at_ms: Option<i64>,
    pub(crate) value: Value,
}

/// Keys by their database and name.
pub(crate) type Data = BTreeMap<(u32, Vec<u8>), Entry>;

/// Returns an entry that does not expire.
pub(crate) fn entry(value: Value) -> Entry {
    Entry { expires_at_ms: None, value }
}

/// Returns texts as bytes.
pub(crate) fn texts(texts: &[&str]) -> Vec<Vec<u8>> {
    texts.iter().map(|text| text.as_bytes().to_vec()).collect()
}

/// Returns a hash.
pub(crate) fn hash(fields: &[(&str, &str)]) -> Value {
    let owned =
        |(name, value): &(&str, &str)| (name.as_bytes().to_vec(), value.as_bytes().to_vec());
    Value::Hash(fields.iter().map(owned).collect())
}

/// Returns the type of a value.
pub(crate) fn kind(value: &Value) -> Kind {
    match value {
        Value::String(_) => Kind::String,
        Value::List(_) => Kind::List,
        Value::Set(_) => Kind::Set,
        Value::ZSet(_) => Kind::ZSet,
        Value::Hash(_) => Kind::Hash,
    }
}

/// Writes the plain form of a dump, with facts as Indelible has them.
pub(crate) fn dump(data: &Data) -> Vec<u8> {
    dump_with(data, WriteOptions::default())
}

pub(crate) fn dump_with(data: &Data, options: WriteOptions) -> Vec<u8> {
    let mut writer = Writer::begin(Vec::new(), options).unwrap();
    for (name, value) in [
        ("redis-ver", "7.0.15"),
        ("indelible-lsn", "42"),
        ("indelible-database", "ab12"),
        ("ctime", "1"),
    ] {
        writer.aux(name.as_bytes(), value.as_bytes()).unwrap();
    }
    let mut database = None;
    for ((index, name), Entry { expires_at_ms, value }) in data {
        if database.replace(*index) != Some(*index) {
            writer.database(*index).unwrap();
        }
        let count = match value {
            Value::String(_) => None,
            Value::List(items) | Value::Set(items) => Some(items.len() as u64),
            Value::ZSet(members) => Some(members.len() as u64),
            Value::Hash(fields) => Some(fields.len() as u64),
        };
        let key = Key {
            key: name,
            kind: kind(value),
            count,
            expires_at_ms: *expires_at_ms,
            idle_s: None,
            frequency: None,
        };
        writer.key(&key).unwrap();
        match value {
            Value::String(value) => writer.string(value).unwrap(),
            Value::List(items) => items.iter().for_each(|item| writer.item(item).unwrap()),
            Value::Set(items) => items.iter().for_each(|item| writer.member(item).unwrap()),
            Value::ZSet(members) => {
                members.iter().for_each(|(member, score)| writer.scored(member, *score).unwrap());
            }
            Value::Hash(fields) => {
                fields.iter().for_each(|(name, value)| writer.field(name, value, None).unwrap());
            }
        }
        writer.end_of_key().unwrap();
    }
    writer.finish().unwrap()
}

/// Writes a dump of one hash with a field that expires, for which a newer version is needed.
pub(crate) fn dump_with_times() -> Vec<u8> {
    let options = WriteOptions { version: Version::Redis(12), ..WriteOptions::default() };
    let mut writer = Writer::begin(Vec::new(), options).unwrap();
    let key = Key {
        key: b"h",
        kind: Kind::Hash,
        count: Some(2),
        expires_at_ms: None,
        idle_s: None,
        frequency: None,
    };
    writer.hash_with_times(&key).unwrap();
    writer.field(b"a", b"1", Some(1_900_000_000_000)).unwrap();
    writer.field(b"b", b"2", None).unwrap();
    writer.end_of_key().unwrap();
    writer.finish().unwrap()
}

/// Returns what all tests of forms have: every type, short and long, in several databases.
pub(crate) fn sample() -> Data {
    let long = vec![b'x'; 100_000];
    let many = |count: u32| (0..count).map(|number| number.to_string().into_bytes());
    let all_bytes: Vec<u8> = (0..=255).collect();
    let mut data = Data::new();
    let mut put = |database, key: &[u8], entry| data.insert((database, key.to_vec()), entry);
    put(0, b"", entry(Value::String(Vec::new())));
    put(0, b"number", entry(Value::String(b"12345".to_vec())));
    put(0, b"negative", entry(Value::String(b"-7".to_vec())));
    put(0, b"\x00\xff\r\n", entry(Value::String(all_bytes.clone())));
    put(0, b"long", entry(Value::String(long.clone())));
    put(0, b"list", entry(Value::List(texts(&["b", "a", "b", "", "3"]))));
    put(0, b"long list", entry(Value::List(many(5000).collect())));
    put(0, b"set", entry(Value::Set(vec![all_bytes, Vec::new()])));
    put(
        0,
        b"zset",
        entry(Value::ZSet(vec![
            (b"low".to_vec(), f64::NEG_INFINITY),
            (b"third".to_vec(), 1.0 / 3.0),
            (b"high".to_vec(), f64::INFINITY),
        ])),
    );
    put(0, b"user:1", entry(hash(&[("name", "Ada"), ("born", "1815"), ("city", "London")])));
    put(0, b"user:2", entry(hash(&[("name", "Alan")])));
    put(0, b"user:3", entry(hash(&[("other", "x")])));
    let fields = many(3000).map(|name| (name, vec![b'v'; 20]));
    put(3, b"hash", entry(Value::Hash(fields.collect())));
    put(3, b"list", entry(Value::List(vec![long])));
    put(
        4_000_000,
        b"number",
        Entry { expires_at_ms: Some(1_800_000_000_123), value: Value::String(b"1".to_vec()) },
    );
    put(4_000_000, b"gone", Entry { expires_at_ms: Some(1), value: Value::Set(texts(&["m"])) });
    data
}
