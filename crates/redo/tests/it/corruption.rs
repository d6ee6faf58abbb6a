//! Every byte of every file, turned: it is noticed, or it did not matter; it is never served.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use redo::groups::{Group, Groups};
use redo::segment::Table;
use redo::{Error, FileError};

use crate::harness::{Database, key, options, value};

/// A log with compacted and plain segments, closed in good order.
fn small_log(dir: &std::path::Path) -> std::collections::BTreeMap<Vec<u8>, Vec<u8>> {
    let mut options = options(dir);
    options.segment_bytes = 700;
    options.compaction.invalid_count_min = 2;
    let mut database = Database::open(options).unwrap();
    for number in 100..110 {
        database.set(&key(number), &value(number));
        database.settle();
    }
    for number in 0..40 {
        database.set(&key(number % 13), &value(number % 20));
        if number % 9 == 0 {
            database.delete(&key(number % 5));
        }
        database.settle();
    }
    assert!(database.log.stats().compactions > 2);
    database.close().contents()
}

fn segment_files(dir: &std::path::Path) -> Vec<PathBuf> {
    let names = fs::read_dir(dir.join("redo")).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<_> =
        names.filter(|path| path.extension().is_some_and(|ext| ext == "redo")).collect();
    files.sort();
    files
}

#[test]
fn a_turned_byte_anywhere_is_noticed_and_left_as_evidence() {
    let dir = tempfile::tempdir().unwrap();
    small_log(dir.path());
    let disk: Arc<dyn env::Disk> = Arc::new(env_os::OsDisk);
    assert!(redo::verify(&disk, dir.path(), &[]).unwrap().is_good());
    let mut files = segment_files(dir.path());
    assert!(files.len() >= 3, "{files:?}");
    files.push(dir.path().join("redo.manifest"));
    files.push(dir.path().join("redo/device"));
    for file in files {
        let good = fs::read(&file).unwrap();
        for at in 0..good.len() {
            let mut bad = good.clone();
            bad[at] ^= 0x41;
            fs::write(&file, &bad).unwrap();
            let report = redo::verify(&disk, dir.path(), &[]).unwrap();
            let is_noticed = !report.is_good() || !report.notes.is_empty();
            assert!(is_noticed, "byte {at} of {} is not noticed: {report}", file.display());
        }
        fs::write(&file, &good).unwrap();
    }
    assert!(redo::verify(&disk, dir.path(), &[]).unwrap().is_good());
}

#[test]
fn damage_is_never_served() {
    let dir = tempfile::tempdir().unwrap();
    let expected = small_log(dir.path());
    for file in segment_files(dir.path()) {
        let good = fs::read(&file).unwrap();
        for at in (0..good.len()).step_by(29) {
            let copy = tempfile::tempdir().unwrap();
            fs::create_dir(copy.path().join("redo")).unwrap();
            for name in ["redo.manifest", "redo/device"] {
                fs::copy(dir.path().join(name), copy.path().join(name)).unwrap();
            }
            for other in segment_files(dir.path()) {
                let name = other.file_name().unwrap();
                fs::copy(&other, copy.path().join("redo").join(name)).unwrap();
            }
            let mut bad = good.clone();
            bad[at] ^= 0x41;
            let path = copy.path().join("redo").join(file.file_name().unwrap());
            fs::write(&path, &bad).unwrap();
            match Database::open(options(copy.path())) {
                Ok(database) => assert_eq!(
                    database.keyspace.contents(),
                    expected,
                    "byte {at} of {}",
                    file.display()
                ),
                Err(Error::File(FileError::Corrupt { .. }) | Error::Hole { .. }) => {
                    assert_eq!(fs::read(&path).unwrap(), bad, "evidence stays");
                }
                Err(error) => panic!("byte {at} of {}: {error}", file.display()),
            }
        }
    }
}

/// One turned bit must not take acknowledged blocks with it because the witnesses are behind it.
#[test]
fn a_turned_bit_before_acknowledged_blocks_is_not_the_end_of_the_log() {
    let dir = tempfile::tempdir().unwrap();
    let mut database = Database::open(options(dir.path())).unwrap();
    for number in 0..5 {
        database.set(&key(number), &value(number));
        database.flush();
    }
    drop(database);
    let path = dir.path().join("redo/0000000001.redo");
    let good = fs::read(&path).unwrap();
    // In the header of the first block, and in its records.
    for at in [128 + 20, 128 + 64 + 5] {
        let mut bad = good.clone();
        bad[at] ^= 1;
        fs::write(&path, &bad).unwrap();
        let error = Database::open(options(dir.path())).err().expect("it is refused");
        assert!(matches!(error, Error::File(FileError::Corrupt { offset: 128, .. })), "{error}");
        assert_eq!(fs::read(&path).unwrap(), bad, "evidence stays");
    }
}

/// A client that knows the format may end its value with what looks like a footer; what it does not
/// know is the database's id, with which a footer's checksum begins.
#[test]
fn a_value_that_looks_like_a_footer_is_a_value() {
    let forged = |at: u64, database| {
        let footer = redo::segment::Footer {
            block_count: 1,
            min_lsn: base::Lsn(1),
            max_lsn: base::Lsn(1),
            data_end: at,
            delete_count: 0,
            survivors: redo::survivors::Survivors::all(1),
            table: Table::Groups(Groups {
                group_bytes: 8192,
                groups: vec![Group { offset: 128, first_rank: 0, crc: 0 }],
            }),
        };
        footer.encode(database)
    };
    for knows_the_id in [false, true] {
        let disk = env_sim::SimDisk::new(1, env_sim::Faults::default());
        let mut database =
            Database::open_on(Arc::new(disk.clone()), options(std::path::Path::new("/data")))
                .unwrap();
        let id = if knows_the_id { database.summary.database } else { redo::Id([9; 16]) };
        let head = {
            let record = |value: &[u8]| {
                let mut bytes = Vec::new();
                let record =
                    base::Record::whole(base::RecordKind::String, base::DbId(0), b"k", value, None);
                redo::record::encode(&mut bytes, &record);
                bytes.len() - value.len()
            };
            let length = forged(200, id).len();
            (redo::segment::HEADER_BYTES + redo::block::HEADER_BYTES) as u64
                + record(&vec![0; length]) as u64
        };
        let value = forged(head, id);
        database.set(b"k", &value);
        database.flush();
        drop(database);
        disk.kill();
        // The file ends with its last block: what is reserved lies beyond its length.
        let opened = Database::open_on(Arc::new(disk), options(std::path::Path::new("/data")));
        match opened {
            Ok(database) => {
                assert!(!knows_the_id, "the forgery is none, and shows nothing");
                assert_eq!(database.keyspace.entries[&b"k"[..]].0, value);
            }
            Err(error) => assert!(knows_the_id, "{error}"),
        }
    }
}
