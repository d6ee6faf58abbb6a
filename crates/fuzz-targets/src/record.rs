//! Records as bytes: what is decoded is encoded to the same record, and what is taken for a small collection has whole
//! elements, of as many parts as its kind says.

use base::{DbId, ObjectId, Record, RecordKind};
use keyspace::plain;
use redo::record;

pub(crate) fn run(input: &[u8]) {
    let mut rest = input;
    while !rest.is_empty() {
        let before = rest;
        let Ok(body) = record::take_body(&mut rest) else { break };
        assert!(rest.len() < before.len() && before.ends_with(rest));
        let Ok(decoded) = record::decode_body(body) else { continue };
        let mut bytes = Vec::new();
        record::encode(&mut bytes, &decoded);
        let mut again = &bytes[..];
        assert_eq!(record::decode(&mut again).as_ref(), Ok(&decoded));
        assert!(again.is_empty());
        assert!(bytes[0] > 2, "zeros, blocks and footers begin with 0, 1 and 2");
        if plain::check(&decoded).is_ok() {
            check_elements(&decoded);
        }
    }
}

fn check_elements(record: &Record<'_>) {
    let Some(elements) = plain::elements(record) else { return };
    let parts = match record.kind {
        RecordKind::HashPackedExpiring => 3,
        RecordKind::HashPacked | RecordKind::ZSetPacked => 2,
        _ => 1,
    };
    assert!(elements.count().is_multiple_of(parts), "{record:?}");
    // A keyspace goes by the flag, and readers of a log by the kind.
    if matches!(record.kind, RecordKind::HashPacked | RecordKind::HashPackedExpiring) {
        let is_flagged = record.value[0] & Record::EXPIRING_FIELDS != 0;
        assert_eq!(is_flagged, record.has_expiring_fields(), "{record:?}");
    }
}

/// Two fields, of which one expires in the year 2096.
const FIELDS_THAT_EXPIRE: &[u8] = b"\x02\x01f\x01v\x08\0\x40\x94\x52\xa3\x03\0\0\x01g\x01w\0";

/// One record of each kind.
pub(crate) fn examples() -> Vec<Record<'static>> {
    let (db, object) = (DbId(0), ObjectId(300));
    vec![
        Record::whole(RecordKind::String, db, b"s", b"value", Some(1_700_000_000_000)),
        Record::whole(RecordKind::ListPacked, db, b"l", b"\0\x01a\x02bc", None),
        Record::whole(RecordKind::HashPacked, DbId(3), b"h", b"\0\x01f\x01v", None),
        Record::whole(RecordKind::SetPacked, db, b"t", b"\0\x01m", Some(5)),
        Record::whole(RecordKind::ZSetPacked, db, b"z", b"\0\x01m\x08\0\0\0\0\0\0\xf0?", None),
        Record::root(RecordKind::LargeString, db, b"S", ObjectId(1), &[5], None),
        Record::element(RecordKind::StringChunk, ObjectId(1), &[0; 4], b"chunk"),
        Record::root(RecordKind::List, db, b"L", ObjectId(2), &[1], None),
        Record::element(RecordKind::ListNode, ObjectId(2), &[0, 0, 0, 0, 0, 0, 0, 9], b"\0\x01a"),
        Record::root(RecordKind::Hash, db, b"H", object, &[0], Some(i64::MAX)),
        Record::element(RecordKind::HashField, object, b"field", b"value"),
        Record::root(RecordKind::Set, db, b"T", ObjectId(4), &[0], None),
        Record::element(RecordKind::SetMember, ObjectId(4), b"member", b""),
        Record::root(RecordKind::ZSet, db, b"Z", ObjectId(5), &[0], None),
        Record::element(RecordKind::ZSetMember, ObjectId(5), b"member", b"\0\0\0\0\0\0\xf8?"),
        Record::whole(RecordKind::Databases, db, b"", b"\x05\x01\x00\x02\x03\x04", None),
        Record::whole(RecordKind::Note, db, b"", b"\x02\0\0\0\0\0\0\0\0\x05\x01n", None),
        Record::library(b"mine", b"#!lua name=mine\nredis.register_function('f', print)"),
        Record::library_deleted(b"mine"),
        Record::whole(RecordKind::ValueLost, db, b"v", &[2], Some(1_700_000_000_000)),
        Record::whole(RecordKind::KeyLost, DbId(3), b"an identity.", &[4], None),
        Record::element_deleted(object, b"other field"),
        Record::key_deleted(db, b"s"),
        Record::whole(RecordKind::HashPackedExpiring, DbId(3), b"x", FIELDS_THAT_EXPIRE, None),
        Record::root(RecordKind::Hash, db, b"X", ObjectId(301), &[2], None),
        Record::element(RecordKind::HashField, ObjectId(301), b"f", b"v").until(Some(1 << 42)),
    ]
}

pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    let each = examples().into_iter().map(|example| {
        let mut bytes = Vec::new();
        record::encode(&mut bytes, &example);
        all.extend_from_slice(&bytes);
        bytes
    });
    let mut seeds: Vec<Vec<u8>> = each.collect();
    seeds.push(all);
    seeds
}
