//! `verify` and `dump` as the command line shows them.

use std::io::Write;
use std::sync::Arc;

use base::{DbId, Lsn, ObjectId, Record, RecordAddr, RecordKind};
use redo::{DumpFormat, Error, FileError, Replay, StoredLog};

use crate::harness::{Database, key, options, value};

/// Takes everything.
struct Nothing;

impl Replay for Nothing {
    fn apply(&mut self, _: &Record<'_>, _: RecordAddr, _: Lsn, _: &mut Vec<RecordAddr>) {}
    fn finish(&mut self, _: &mut Vec<RecordAddr>) {}
}

fn disk() -> Arc<dyn env::Disk> {
    Arc::new(env_os::OsDisk)
}

#[test]
fn a_log_that_was_not_closed_is_good() {
    let dir = tempfile::tempdir().unwrap();
    let mut database = Database::open(options(dir.path())).unwrap();
    for number in 0..500 {
        database.set(&key(number % 100), &value(number));
        database.settle();
    }
    let records = database.log.stats().records;
    let error = redo::verify(&disk(), dir.path(), &[]).unwrap_err();
    assert!(matches!(error, Error::File(FileError::InUse { .. })), "{error}");
    drop(database);
    let report = redo::verify(&disk(), dir.path(), &[]).unwrap();
    assert!(report.is_good(), "{report}");
    assert_eq!((report.records, report.last_lsn.0), (records, 500));
}

#[test]
fn a_torn_end_is_a_note() {
    let dir = tempfile::tempdir().unwrap();
    let mut database = Database::open(options(dir.path())).unwrap();
    database.set(b"a", b"1");
    database.flush();
    database.set(b"b", b"2");
    database.flush();
    drop(database);
    let path = dir.path().join("redo/0000000001.redo");
    let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
    file.set_len(file.metadata().unwrap().len() - 1).unwrap();
    let report = redo::verify(&disk(), dir.path(), &[]).unwrap();
    assert!(report.is_good() && report.last_lsn.0 == 1, "{report}");
    assert!(report.notes.iter().any(|note| note.contains("torn")), "{report}");
    assert!(report.to_string().contains("tells the states after blocks 0 to 1 "), "{report}");
    let stored = StoredLog::open(disk(), dir.path(), &[]).unwrap().unwrap();
    let end = stored.read(Lsn::ZERO, &mut Nothing, &mut |_| {}).unwrap();
    assert_eq!((end.last_lsn, stored.oldest_lsn()), (Lsn(1), Lsn::ZERO));
    let Err(error) = Database::open(options(dir.path())) else { panic!("it is locked") };
    assert!(matches!(error, Error::File(FileError::InUse { .. })), "{error}");
    drop(stored);
    let mut database = Database::open(options(dir.path())).unwrap();
    assert_eq!(database.keyspace.entries.len(), 1);
    assert!(database.summary.cut_bytes > 0);
    assert_eq!(database.summary.cut_bytes, end.cut_bytes, "as was said");
    database.set(b"c", b"3");
    database.flush();
    drop(database);
    let report = redo::verify(&disk(), dir.path(), &[]).unwrap();
    assert!(report.is_good() && report.notes.is_empty(), "{report}");
}

/// Of what was written over zeros the end of the last block may be there and its header not.
#[test]
fn behind_the_last_block_zeros_are_nothing_and_all_else_is_told() {
    let said = |behind: &[u8]| {
        let dir = tempfile::tempdir().unwrap();
        let mut database = Database::open(options(dir.path())).unwrap();
        database.set(b"a", b"1");
        database.flush();
        drop(database);
        let mut log = std::fs::OpenOptions::new()
            .append(true)
            .open(dir.path().join("redo/0000000001.redo"))
            .unwrap();
        log.write_all(behind).unwrap();
        let report = redo::verify(&disk(), dir.path(), &[]).unwrap();
        assert!(report.is_good(), "{report}");
        let stored = StoredLog::open(disk(), dir.path(), &[]).unwrap().unwrap();
        let end = stored.read(Lsn::ZERO, &mut Nothing, &mut |_| {}).unwrap();
        drop(stored);
        let database = Database::open(options(dir.path())).unwrap();
        assert_eq!((database.keyspace.entries.len(), database.summary.last_lsn.0), (1, 1));
        assert_eq!(database.summary.cut_bytes, end.cut_bytes, "as was said");
        (report.notes, end.cut_bytes)
    };
    for zeros in [10, 64, 9000, 3 << 20] {
        assert_eq!(said(&vec![0; zeros]), (Vec::new(), 0), "{zeros} zeros");
        let mut torn = vec![0; zeros];
        torn[zeros * 3 / 4] = 1;
        let (notes, cut_bytes) = said(&torn);
        assert_eq!(cut_bytes, zeros as u64 * 3 / 4 + 1);
        assert!(notes.len() == 1 && notes[0].contains("ends torn"), "{zeros}: {notes:?}");
    }
}

#[test]
fn an_empty_directory_holds_no_log() {
    let dir = tempfile::tempdir().unwrap();
    let report = redo::verify(&disk(), dir.path(), &[]).unwrap();
    assert!(report.is_good(), "{report}");
    assert!(report.notes[0].contains("no log"), "{report}");
}

#[test]
fn a_dump_shows_every_record() {
    let dir = tempfile::tempdir().unwrap();
    let mut database = Database::open(options(dir.path())).unwrap();
    let object = ObjectId(7);
    for record in [
        Record::whole(RecordKind::String, DbId(0), b"k\"1", b"v\xff\n", Some(5)),
        Record::root(RecordKind::Hash, DbId(3), b"h", object, &[], None),
        Record::element(RecordKind::HashField, object, b"field", b"value"),
        Record::key_deleted(DbId(0), b"k\"1"),
    ] {
        database.log.append(&record);
    }
    database.flush();
    drop(database);
    let mut text = Vec::new();
    redo::dump(&disk(), dir.path(), &[], DumpFormat::Text, &mut text).unwrap();
    let text = String::from_utf8(text).unwrap();
    let lines: Vec<&str> = text.lines().filter(|line| line.starts_with("  ")).collect();
    assert_eq!(
        lines,
        [
            r#"  1:0 String db 0 "k\"1" expires 5 = "v\xff\n""#,
            r#"  1:1 Hash db 3 "h" object 7 = """#,
            r#"  1:2 HashField object 7 "field" = "value""#,
            r#"  1:3 KeyDeleted db 0 "k\"1""#,
        ]
    );
    let mut json = Vec::new();
    redo::dump(&disk(), dir.path(), &[], DumpFormat::Json, &mut json).unwrap();
    let json = String::from_utf8(json).unwrap();
    let records: Vec<&str> = json.lines().filter(|line| line.contains(r#""record","#)).collect();
    let head = r#"{"type":"record","lsn":1,"addr":"1:0","kind":"String","db":0,"key":"k\"1""#;
    assert_eq!(records[0], format!(r#"{head},"expires_at_ms":5,"value_hex":"76ff0a"}}"#));
    let head = r#"{"type":"record","lsn":1,"addr":"1:2","kind":"HashField","object":7"#;
    assert_eq!(records[2], format!(r#"{head},"sub":"field","value":"value"}}"#));
    assert_eq!(records.len(), 4);
}
