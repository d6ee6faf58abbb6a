//! DUMP payloads: what RESTORE takes is what DUMP gives, and what the log brings back.
//!
//! The first byte of the input says whether the rest is a payload as it is, or one without version
//! and checksum.

use rdb::Value;

use crate::session::{Session, without_order};

const RAW: u8 = 1;

const FUNCTION_LIMITS: rdb::FunctionLimits = rdb::FunctionLimits {
    source_bytes_max: 16 << 20,
    libraries_max: 10_000,
    all_bytes_max: 256 << 20,
};

pub(crate) fn run(input: &[u8]) {
    let Some((flags, bytes)) = input.split_first() else { return };
    let payload = if flags & RAW == 0 { rdb::seal(bytes.to_vec()) } else { bytes.to_vec() };
    if let Ok(sources) = rdb::decode_functions(&payload, FUNCTION_LIMITS) {
        for compress in [false, true] {
            let encoded = rdb::encode_functions(sources.iter().map(Vec::as_slice), compress);
            assert_eq!(rdb::decode_functions(&encoded, FUNCTION_LIMITS).as_ref(), Ok(&sources));
        }
    }
    let (mut session, logged) = Session::new();
    let reply = session.run(&[b"RESTORE", b"k", b"0", &payload]);
    let value = match rdb::decode(&payload, rdb::Limits::default()) {
        Ok(value) => value,
        Err(_) => {
            assert!(reply.starts_with(b"-"), "{reply:?}");
            assert!(session.dump(b"k").is_none() && logged.take().is_empty());
            return;
        }
    };
    assert_eq!(reply, b"+OK\r\n");
    if has_expired(&value, session.now_ms) {
        return;
    }
    let encoded = rdb::decode(&rdb::encode(&value), rdb::Limits::default());
    let value = without_order(value);
    assert_eq!(encoded.map(without_order).as_ref(), Ok(&value));
    let dumped = session.dump(b"k").expect("it was restored");
    assert_eq!(
        rdb::decode(&dumped, rdb::Limits::default()).map(without_order).as_ref(),
        Ok(&value)
    );
    let records = logged.take();
    let mut recovered =
        Session::of_records(records.iter().map(Vec::as_slice)).expect("records of a keyspace");
    let dumped = recovered.dump(b"k").expect("it was logged");
    assert_eq!(rdb::decode(&dumped, rdb::Limits::default()).map(without_order), Ok(value));
}

/// Whether a field is not seen any more.
fn has_expired(value: &Value, now_ms: i64) -> bool {
    let Value::Hash(fields) = value else { return false };
    fields.iter().any(|field| field.2.is_some_and(|at_ms| at_ms <= now_ms))
}

pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let pair = |a: &[u8], b: &[u8]| (a.to_vec(), b.to_vec(), None);
    let timed = |a: &[u8], at_ms| (a.to_vec(), b"v".to_vec(), Some(at_ms));
    let values = [
        Value::String(b"12345".to_vec()),
        Value::String(vec![b'x'; 300]),
        Value::List(vec![b"a".to_vec(), b"-7".to_vec(), vec![b'b'; 100]]),
        Value::Set(vec![b"a".to_vec(), b"1".to_vec()]),
        Value::ZSet(vec![(b"a".to_vec(), -0.0), (b"b".to_vec(), f64::INFINITY)]),
        Value::Hash(vec![pair(b"f", b"v"), pair(b"g", &[b'w'; 200])]),
        Value::Hash(vec![pair(b"f", b"v"), timed(b"g", 1 << 45), timed(b"h", 1 << 44)]),
    ];
    let mut seeds: Vec<Vec<u8>> =
        values.iter().map(|value| [&[RAW][..], &rdb::encode(value)].concat()).collect();
    seeds.push([&[RAW][..], &rdb::encode(&Value::Stream(stream()))].concat());
    // What Redis writes and we do not: LZF, listpacks, an integer set, a quicklist.
    let bodies: [&[u8]; 7] = [
        b"\x00\xc3\x0b\x40\xb4\x03\x61\x62\x63\x61\xe0\xa5\x02\x01\x62\x63",
        b"\x12\x01\x02\x0f\x0f\0\0\0\x03\0\x01\x01\x81a\x02\xdf\xfe\x02\xff",
        b"\x0b\x0e\x02\0\0\0\x03\0\0\0\xfe\xff\x01\0\x2c\x01",
        b"\x11\x14\x14\0\0\0\x04\0\x81a\x02\x831.5\x04\x81b\x02\x03\x01\xff",
        b"\x10\x13\x13\0\0\0\x04\0\x81f\x02\x81v\x02\x81n\x02\xcf\xff\x02\xff",
        b"\x02\x02\x01a\x01b",
        b"\x05\x01\x01a\0\0\0\0\0\0\xf8\x3f",
    ];
    seeds.extend(bodies.iter().map(|body| [&[0], *body].concat()));
    seeds
}

/// A stream with a group that has a consumer.
fn stream() -> rdb::StreamValue {
    let id = rdb::EntryId::new;
    let entry = |seq, name: &[u8]| rdb::StreamEntry {
        id: id(7, seq),
        pairs: vec![(name.to_vec(), b"12".to_vec())],
    };
    let pending = rdb::PendingEntry { id: id(7, 1), at_ms: 5, count: 2 };
    let consumer = rdb::StreamConsumer {
        name: b"c".to_vec(),
        seen_ms: 6,
        active_ms: Some(5),
        pending: vec![pending],
    };
    let numbers =
        rdb::StreamNumbers { last_id: id(8, 0), max_deleted_id: id(6, 9), entries_added: 9 };
    let group = rdb::StreamGroup {
        name: b"g".to_vec(),
        last_id: id(7, 1),
        entries_read: rdb::EntriesRead::Known(1),
        consumers: vec![consumer],
    };
    let entries = vec![entry(1, b"f"), entry(2, b"f"), entry(4, b"g")];
    rdb::StreamValue { entries, numbers, groups: vec![group] }
}
