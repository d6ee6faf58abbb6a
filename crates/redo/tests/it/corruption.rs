//! Damage that looks like something else: the end of the log, or a footer.

use std::fs;
use std::sync::Arc;

use redo::groups::{Group, Groups};
use redo::segment::Table;
use redo::{Error, FileError};

use crate::harness::{Database, key, options, value};

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
