//! Records that no keyspace logs, and orders that none has.

use base::{DbId, Lsn, ObjectId, Record, RecordKind};
use changes::{Heading, Translator, write_block};
use proptest::prelude::*;
use serde_json::Value;

const DB: DbId = DbId(0);

fn root(key: &'static [u8], object: u64) -> Record<'static> {
    Record::root(RecordKind::Hash, DB, key, ObjectId(object), &[0], None)
}

fn field(object: u64, name: &'static [u8]) -> Record<'static> {
    Record::element(RecordKind::HashField, ObjectId(object), name, b"v")
}

/// Of each change what it is, its key, and the key that had it before.
fn told(translator: &mut Translator, records: &[Record<'_>]) -> Vec<String> {
    let mut line = Vec::new();
    write_block(translator, Heading { lsn: Lsn(7), log: "", time_ms: 0 }, records, &mut line)
        .expect("good records");
    let block: Value = serde_json::from_slice(&line).expect("JSON");
    let text = |value: &Value| value.as_str().unwrap_or("?").to_owned();
    let changes = block["changes"].as_array().expect("a list").iter();
    changes
        .map(|change| {
            let from = &change["from"]["key"];
            let from = if from.is_null() { String::new() } else { format!(" from {}", text(from)) };
            let field = &change["field"];
            let field = if field.is_null() { String::new() } else { format!(".{}", text(field)) };
            format!("{} {}{field}{from}", text(&change["op"]), text(&change["key"]))
        })
        .collect()
}

#[test]
fn a_renamed_object_is_never_without_a_key() {
    let mut translator = Translator::new(1 << 20);
    assert_eq!(told(&mut translator, &[root(b"a", 1), field(1, b"f")]), ["root a", "element a.f"]);
    let renamed = [Record::key_deleted(DB, b"a"), root(b"b", 1), field(1, b"g")];
    let told_ = told(&mut translator, &renamed);
    assert_eq!(told_, ["root b from a", "delete a", "element b.g"]);
    // Over a key that has something, and it is its own key again.
    let renamed = [Record::key_deleted(DB, b"a"), Record::key_deleted(DB, b"b"), root(b"a", 1)];
    assert_eq!(told(&mut translator, &renamed), ["delete a", "root a from b", "delete b"]);
}

#[test]
fn elements_that_come_before_their_root_are_told_behind_it() {
    let mut translator = Translator::new(1 << 20);
    let copied = [field(2, b"f"), field(2, b"g"), Record::key_deleted(DB, b"b"), root(b"b", 2)];
    let expected = ["delete b", "root b", "element b.f", "element b.g"];
    assert_eq!(told(&mut translator, &copied), expected);
    assert_eq!(told(&mut translator, &[field(3, b"f")]), ["element ?.f"], "no root ever comes");
}

#[test]
fn libraries_of_functions_are_told_with_their_source() {
    let mut line = Vec::new();
    let records = [Record::library(b"a", b"#!lua name=a"), Record::library_deleted(b"a")];
    write_block(
        &mut Translator::new(1 << 20),
        Heading { lsn: Lsn(7), log: "", time_ms: 0 },
        &records,
        &mut line,
    )
    .expect("good records");
    let block: Value = serde_json::from_slice(&line).expect("JSON");
    let expected = serde_json::json!([
        {"op": "library", "library": "a", "source": "#!lua name=a"},
        {"op": "delete-library", "library": "a"},
    ]);
    assert_eq!(block["changes"], expected);
}

#[test]
fn a_bad_record_gives_nothing_out() {
    let mut translator = Translator::new(1 << 20);
    let bad = Record::whole(RecordKind::HashPacked, DB, b"k", b"\0\x01f", None);
    let mut out = b"before".to_vec();
    let good = Record::whole(RecordKind::String, DB, b"k", b"v", None);
    assert!(
        write_block(
            &mut translator,
            Heading { lsn: Lsn(1), log: "", time_ms: 0 },
            &[good, bad],
            &mut out
        )
        .is_err()
    );
    assert_eq!(out, b"before");
    let map = Record::whole(RecordKind::Databases, DB, &[], &[0xff; 10], None);
    assert!(translator.learn(&map).is_err());
}

fn any_record() -> impl Strategy<Value = (u8, u64, Vec<u8>, u64, Vec<u8>, Vec<u8>)> {
    let bytes = || prop::collection::vec(0u8..6, 0..9);
    (0u8..20, 0u64..4, bytes(), 0u64..4, bytes(), bytes())
}

proptest! {
    #[test]
    fn any_records_are_told_or_refused(
        blocks in prop::collection::vec(prop::collection::vec(any_record(), 0..20), 0..10),
        roots_bytes_max in 0usize..1000,
    ) {
        let mut translator = Translator::new(roots_bytes_max);
        for block in &blocks {
            let records: Vec<Record<'_>> = block
                .iter()
                .map(|(kind, db, key, object, sub, value)| Record {
                    kind: RecordKind::ALL[usize::from(*kind)],
                    db: DbId(*db),
                    key,
                    object: ObjectId(*object),
                    sub,
                    value,
                    expires_at_ms: None,
                    is_new: false,
                })
                .collect();
            let mut line = Vec::new();
            if let Ok(count) = write_block(&mut translator, Heading { lsn: Lsn(1), log: "", time_ms: 0 }, &records, &mut line) {
                let block: Value = serde_json::from_slice(&line).expect("JSON");
                prop_assert_eq!(block["changes"].as_array().expect("a list").len(), count);
                prop_assert_eq!(count, records.len());
            }
            for record in &records {
                let _refused = translator.learn(record);
            }
        }
    }
}
