//! The format on disk is what it was: files of each version, byte by byte.

use std::path::Path;
use std::sync::Arc;

use base::{DbId, ObjectId, Record, RecordKind};
use env_sim::{Faults, SimDisk};

use crate::harness::{Database, options};

/// Makes a log of every kind of thing.
fn write_example(disk: &SimDisk) {
    let mut database =
        Database::open_on(Arc::new(disk.clone()), options(Path::new("/data"))).unwrap();
    database.set(b"greeting", b"hello");
    database.flush();
    let record =
        Record::whole(RecordKind::String, DbId(2), b"counter", b"42", Some(1_800_000_000_000));
    database.log.append(&record);
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

fn read(disk: &SimDisk, path: &str) -> Vec<u8> {
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

#[test]
fn files_are_written_as_ever() {
    let disk = SimDisk::new(0, Faults::default());
    write_example(&disk);
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/v1");
    for (name, path) in [
        ("manifest", "/data/redo.manifest"),
        ("device", "/data/redo/device"),
        ("compacted-segment", "/data/redo/0000000001.redo"),
        ("segment", "/data/redo/0000000002.redo"),
    ] {
        let fixture = fixtures.join(format!("{name}.hex"));
        let found = hex(&read(&disk, path));
        if std::env::var_os("INDELIBLE_WRITE_FIXTURES").is_some() {
            std::fs::create_dir_all(&fixtures).unwrap();
            std::fs::write(&fixture, &found).unwrap();
        }
        let expected = std::fs::read_to_string(&fixture).unwrap();
        assert_eq!(found, expected, "{path} is not {}", fixture.display());
    }
}

#[test]
fn files_of_version_1_are_read() {
    let disk = SimDisk::new(0, Faults::default());
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/v1");
    env::Disk::create_dir_all(&disk, Path::new("/data/redo")).unwrap();
    for (name, path) in [
        ("manifest", "/data/redo.manifest"),
        ("device", "/data/redo/device"),
        ("compacted-segment", "/data/redo/0000000001.redo"),
        ("segment", "/data/redo/0000000002.redo"),
    ] {
        let text = std::fs::read_to_string(fixtures.join(format!("{name}.hex"))).unwrap();
        let words = text.lines().flat_map(|line| line.split_whitespace().skip(1));
        let bytes: Vec<u8> = words.map(|word| u8::from_str_radix(word, 16).unwrap()).collect();
        let file = env::Disk::create(&disk, Path::new(path)).unwrap();
        file.write_all_at(&bytes, 0).unwrap();
    }
    let mut out = Vec::new();
    let disk: Arc<dyn env::Disk> = Arc::new(disk);
    redo::dump(&disk, Path::new("/data"), &[], redo::DumpFormat::Text, &mut out).unwrap();
    let text = String::from_utf8(out).unwrap();
    let records: Vec<&str> = text.lines().filter(|line| line.starts_with("  ")).collect();
    assert_eq!(
        records,
        [
            r#"  1:1 String db 2 "counter" expires 1800000000000 = "42""#,
            r#"  1:2 Set db 0 "s" object 300 = """#,
            r#"  1:3 SetMember object 300 "m" = """#,
            r#"  2:0 String db 0 "after" = "compaction""#,
        ]
    );
    assert!(redo::verify(&disk, Path::new("/data"), &[]).unwrap().is_good());
}
