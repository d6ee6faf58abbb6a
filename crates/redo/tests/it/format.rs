//! The format on disk is what it was: files of each version, byte by byte.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use base::{DbId, ObjectId, Record, RecordKind};
use env_sim::{Faults, SimDisk};
use redo::manifest::Manifest;

use crate::harness::{Database, options};

/// Makes a log of every kind of thing.
fn write_example(disk: &SimDisk) {
    let mut options = options(Path::new("/data"));
    options.group_bytes = redo::groups::GROUP_BYTES;
    let mut database = Database::open_on(Arc::new(disk.clone()), options).unwrap();
    database.set(b"greeting", b"hello");
    database.flush();
    let record =
        Record::whole(RecordKind::String, DbId(2), b"counter", b"42", Some(1_800_000_000_000));
    database.log.append(&record.new_entry(true));
    database.log.append(&Record::root(RecordKind::Set, DbId(0), b"s", ObjectId(300), &[], None));
    database.log.append(&Record::element(RecordKind::SetMember, ObjectId(300), b"m", &[]));
    database.flush();
    database.set(b"greeting", b"hello, world");
    database.flush();
    database.delete(b"greeting");
    database.flush();
    database.log.compact_all();
    database.settle();
    database.set(b"after", b"compaction");
    database.close();
}

/// Makes a log of which a value and a key are lost.
fn write_losses(disk: &SimDisk) {
    let options = options(Path::new("/data"));
    let mut database = Database::open_on(Arc::new(disk.clone()), options).unwrap();
    database.set(b"greeting", b"hello");
    database.flush();
    let value_lost = Record::whole(RecordKind::ValueLost, DbId(2), b"counter", &[0], None);
    let key_lost = Record::whole(RecordKind::KeyLost, DbId(2), b"identity-12b", &[3], Some(7));
    for record in [value_lost, key_lost] {
        database.log.declare(record.kind);
        database.log.append(&record.new_entry(true));
        database.flush();
    }
    database.set(b"after", b"the loss");
    database.close();
}

pub(crate) fn read(disk: &SimDisk, path: &str) -> Vec<u8> {
    let file = env::Disk::open(disk, Path::new(path), env::Access::Read).unwrap();
    let mut bytes = vec![0; usize::try_from(file.len().unwrap()).unwrap()];
    file.read_exact_at(&mut bytes, 0).unwrap();
    bytes
}

/// `offset  16 bytes in hex`, a line each.
fn hex(bytes: &[u8]) -> String {
    let lines = bytes.chunks(16).enumerate().map(|(line, bytes)| {
        let bytes: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        format!("{:06x}  {}\n", line * 16, bytes.join(" "))
    });
    lines.collect()
}

/// The files of the example with the version that they are written in.
const FILES: [(&str, &str, &str); 4] = [
    ("v2", "manifest", "/data/redo.manifest"),
    ("v1", "device", "/data/redo/device"),
    ("v2", "compacted-segment", "/data/redo/0000000001.redo"),
    ("v2", "segment", "/data/redo/0000000002.redo"),
];

/// The segments of a log with losses: one that was begun before the first of them, one that names the kind of
/// the first, and one that names both.
const LOSSES: [(&str, &str); 3] = [
    ("segment-before-losses", "/data/redo/0000000001.redo"),
    ("segment-with-lost-value", "/data/redo/0000000002.redo"),
    ("segment-with-lost-key", "/data/redo/0000000003.redo"),
];

fn fixture(version: &str, name: &str) -> PathBuf {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
    fixtures.join(version).join(format!("{name}.hex"))
}

#[test]
fn files_are_written_as_ever() {
    let disk = SimDisk::new(0, Faults::default());
    write_example(&disk);
    FILES.iter().for_each(|(version, name, path)| compare(&disk, version, name, path));
    let disk = SimDisk::new(0, Faults::default());
    write_losses(&disk);
    LOSSES.iter().for_each(|(name, path)| compare(&disk, "v2", name, path));
}

pub(crate) fn compare(disk: &SimDisk, version: &str, name: &str, path: &str) {
    let fixture = fixture(version, name);
    let found = hex(&read(disk, path));
    if std::env::var_os("INDELIBLE_WRITE_FIXTURES").is_some() {
        std::fs::create_dir_all(fixture.parent().unwrap()).unwrap();
        std::fs::write(&fixture, &found).unwrap();
    }
    let expected = std::fs::read_to_string(&fixture).unwrap();
    assert_eq!(found, expected, "{path} is not {}", fixture.display());
}

/// The example as its files say, with the manifest and the segments of a version.
fn load_example(manifest_version: &str, segment_version: &str) -> SimDisk {
    let disk = SimDisk::new(0, Faults::default());
    env::Disk::create_dir_all(&disk, Path::new("/data/redo")).unwrap();
    for (version, name, path) in FILES {
        let version = match name {
            "manifest" => manifest_version,
            "device" => version,
            _ => segment_version,
        };
        let text = std::fs::read_to_string(fixture(version, name)).unwrap();
        let words = text.lines().flat_map(|line| line.split_whitespace().skip(1));
        let bytes: Vec<u8> = words.map(|word| u8::from_str_radix(word, 16).unwrap()).collect();
        let file = env::Disk::create(&disk, Path::new(path)).unwrap();
        file.write_all_at(&bytes, 0).unwrap();
    }
    disk
}

#[test]
fn files_of_every_version_are_read() {
    for (manifest, segments) in [
        ("v1", "v1"),
        ("v2-without-history", "v1"),
        ("v2-empty-history", "v1"),
        ("v2", "v1"),
        ("v2", "v2"),
    ] {
        let disk: Arc<dyn env::Disk> = Arc::new(load_example(manifest, segments));
        let mut out = Vec::new();
        redo::dump(&disk, Path::new("/data"), &[], redo::DumpFormat::Text, &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        let records: Vec<&str> = text.lines().filter(|line| line.starts_with("  ")).collect();
        // Version 1 does not say which entries are new.
        let new = if segments == "v1" { "" } else { " new" };
        let counter = format!(r#"  1:1 String db 2 "counter" expires 1800000000000{new} = "42""#);
        assert_eq!(
            records,
            [
                counter.as_str(),
                r#"  1:2 Set db 0 "s" object 300 = """#,
                r#"  1:3 SetMember object 300 "m" = """#,
                r#"  2:0 String db 0 "after" = "compaction""#,
            ]
        );
        assert!(redo::verify(&disk, Path::new("/data"), &[]).unwrap().is_good());
    }
}

/// The formats of the segments' files.
fn segment_versions(disk: &SimDisk) -> Vec<u8> {
    let names = env::Disk::list(disk, Path::new("/data/redo")).unwrap();
    let names = names.iter().filter_map(|name| name.to_str()).filter(|n| n.ends_with(".redo"));
    names.map(|name| read(disk, &format!("/data/redo/{name}"))[8]).collect()
}

#[test]
fn a_directory_of_version_1_is_read_written_to_and_converted_by_compaction() {
    let disk = load_example("v2", "v1");
    let dir = Path::new("/data");
    let open = || Database::open_on(Arc::new(disk.clone()), options(dir)).unwrap();
    let mut database = open();
    let before = database.keyspace.contents();
    assert_eq!(before.len(), 4);
    database.set(b"now", b"1");
    database.flush();
    assert_eq!(segment_versions(&disk), [1, 1, 2]);
    let mut reader = database.log.reader();
    for (name, (value, addr)) in &database.keyspace.entries {
        let found = reader.record(*addr).unwrap().expect("it is durable");
        assert_eq!(found.record().value, value, "{}", name.escape_ascii());
        assert!(!found.record().is_new);
    }
    drop(reader);
    database.close();
    let verify = || redo::verify(&(Arc::new(disk.clone()) as Arc<dyn env::Disk>), dir, &[]);
    assert!(verify().unwrap().is_good());
    let mut database = open();
    database.set(b"counter", b"43");
    database.flush();
    database.log.compact_all();
    database.settle();
    database.close();
    assert_eq!(segment_versions(&disk)[..2], [2, 1], "what has no garbage stays as it is");
    assert!(verify().unwrap().is_good());
    let database = open();
    let mut expected = before;
    expected.insert(b"counter".to_vec(), b"43".to_vec());
    expected.insert(b"now".to_vec(), b"1".to_vec());
    assert_eq!(database.keyspace.contents(), expected);
}

/// An older program was killed: its last segment is closed as that program would have.
#[test]
fn a_file_of_version_1_without_a_footer_gets_the_one_of_its_version() {
    let disk = load_example("v2", "v1");
    let (path, dir) = ("/data/redo/0000000002.redo", Path::new("/data"));
    let whole = read(&disk, path);
    let file = env::Disk::open(&disk, Path::new(path), env::Access::ReadWrite).unwrap();
    file.set_len(0xd3).unwrap();
    let mut manifest = Manifest::read(&disk, dir).unwrap().unwrap();
    let listed = manifest.listed.iter_mut().find(|listed| listed.segment.0 == 2).unwrap();
    listed.last_lsn = base::Lsn(5);
    manifest.write(&disk, dir).unwrap();
    let database = Database::open_on(Arc::new(disk.clone()), options(dir)).unwrap();
    assert_eq!(read(&disk, path), whole);
    assert_eq!(database.keyspace.contents()[&b"after"[..]], b"compaction");
}

#[test]
fn a_start_makes_a_manifest_of_version_2_of_one_of_version_1() {
    let disk = load_example("v1", "v1");
    let version = |disk: &SimDisk| read(disk, "/data/redo.manifest")[8];
    assert_eq!(version(&disk), 1);
    let before = Manifest::read(&disk, Path::new("/data")).unwrap().unwrap();
    assert_eq!(before.object_floor, ObjectId(1), "it says nothing of objects");
    let database = Database::open_on(Arc::new(disk.clone()), options(Path::new("/data"))).unwrap();
    assert_eq!(database.keyspace.contents()[&b"after"[..]], b"compaction");
    database.close();
    assert_eq!(version(&disk), 2);
    let after = Manifest::read(&disk, Path::new("/data")).unwrap().unwrap();
    assert_eq!(after.object_floor, ObjectId(301), "above every object that was read");
    let same = Manifest {
        epoch: before.epoch,
        durable_lsn: before.durable_lsn,
        horizon: before.horizon,
        next_segment: before.next_segment,
        object_floor: before.object_floor,
        ..after
    };
    assert_eq!(same, before);
}

/// The kinds that the headers of the segments name, in the order of their numbers.
fn kinds(disk: &SimDisk) -> Vec<u64> {
    headers(disk).into_iter().map(|(_, kinds)| kinds).collect()
}

/// How often each was compacted, and those kinds.
fn headers(disk: &SimDisk) -> Vec<(u32, u64)> {
    let names = env::Disk::list(disk, Path::new("/data/redo")).unwrap();
    let mut names: Vec<_> = names.iter().filter_map(|name| name.to_str()).collect();
    names.retain(|name| name.ends_with(".redo"));
    names.sort_unstable();
    let headers = names.iter().map(|name| {
        let bytes = read(disk, &format!("/data/redo/{name}"));
        let generation = u32::from_le_bytes(bytes[56..60].try_into().unwrap());
        (generation, u64::from_le_bytes(bytes[88..96].try_into().unwrap()))
    });
    headers.collect()
}

#[test]
fn a_file_says_which_kinds_it_may_have_from_the_first_such_record_on() {
    const VALUE: u64 = 1 << 27;
    const BOTH: u64 = VALUE | 1 << 28;
    let disk = SimDisk::new(0, Faults::default());
    write_losses(&disk);
    assert_eq!(kinds(&disk), [0, VALUE, BOTH]);
    let dir = Path::new("/data");
    let open = || Database::open_on(Arc::new(disk.clone()), options(dir)).unwrap();
    // What is logged after a start may follow in any file.
    let mut database = open();
    database.set(b"now", b"1");
    database.set(b"after", b"it");
    database.set(b"greeting", b"2");
    database.flush();
    assert_eq!(kinds(&disk), [0, VALUE, BOTH, BOTH]);
    database.log.compact_all();
    database.settle();
    let after = headers(&disk);
    assert!(after.contains(&(1, BOTH)), "a compaction keeps it: {after:?}");
    // The first of its kind has been: no file is ended for another one.
    database.log.declare(RecordKind::KeyLost);
    database.set(b"now", b"2");
    database.close();
    let verified = redo::verify(&(Arc::new(disk.clone()) as Arc<dyn env::Disk>), dir, &[]);
    assert!(verified.unwrap().is_good());
}

#[test]
fn a_program_that_does_not_know_a_kind_refuses_the_file_by_name_and_changes_nothing() {
    let disk = SimDisk::new(0, Faults::default());
    write_losses(&disk);
    let path = "/data/redo/0000000003.redo";
    // To this program kind 30 is what kind 28 is to one that does not know it.
    let mut bytes = read(&disk, path);
    bytes[91] = 0x58;
    let crc = base::checksum::crc32c(&bytes[16..redo::segment::HEADER_BYTES]);
    bytes[12..16].copy_from_slice(&crc.to_le_bytes());
    let file = env::Disk::open(&disk, Path::new(path), env::Access::ReadWrite).unwrap();
    file.write_all_at(&bytes, 0).unwrap();
    let before = LOSSES.map(|(_, path)| read(&disk, path));
    let says = format!(
        "{path} may have records of kind 30, which this program does not know; use a newer one"
    );
    let opened = Database::open_on(Arc::new(disk.clone()), options(Path::new("/data")));
    assert_eq!(opened.err().expect("it is refused").to_string(), says);
    let shared: Arc<dyn env::Disk> = Arc::new(disk.clone());
    let verified = redo::verify(&shared, Path::new("/data"), &[]).unwrap();
    assert!(verified.errors.iter().any(|error| error.to_string() == says), "{verified}");
    assert_eq!(LOSSES.map(|(_, path)| read(&disk, path)), before);
}
