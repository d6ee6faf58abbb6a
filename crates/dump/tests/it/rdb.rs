//! A dump as an RDB file.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

use base::DbId;
use dump::{DumpedKey, Dumper, Element, RdbTarget, SpillOptions, Target};
use env::Disk;
use env_sim::{Faults, SimDisk};
use keyspace::{Expiry, Keyspace, Type};

use crate::commands::{DATABASES, Op, apply};
use crate::journal::{MemoryLog, addr};
use crate::kept::{Kept, Value, contents};

/// What is written is read again, with the same values, whatever a string's length.
#[test]
fn a_dump_as_an_rdb_file_has_the_same() {
    let log = MemoryLog::default();
    let mut keyspace = Keyspace::new(log.clone(), [7; 16], DATABASES);
    let ops = (0..200_u16).map(|number| Op {
        kind: (number * 7 % 14) as u8,
        db: usize::from(number) % DATABASES,
        key: (number % 6) as u8,
        other: (number % 5) as u8,
        count: number % 60,
        len: number * 40 % 9000,
    });
    ops.for_each(|op| apply(&mut keyspace, 1_000_000, &op));
    keyspace.begin_command(0);
    let db = keyspace.database(1).unwrap();
    let long = vec![b'l'; 3 << 20];
    keyspace.set_string(db, b"long", &long, Expiry::Clear);
    let ids: Vec<DbId> = keyspace.databases().map(|db| keyspace.database_id(db)).collect();
    let disk: Arc<dyn Disk> = Arc::new(SimDisk::new(1, Faults::default()));
    let directory = PathBuf::from("/dumps");
    disk.create_dir_all(&directory).unwrap();
    let facts = [("ctime", "7".to_owned())];
    let target = RdbTarget::begin(Vec::new(), rdb::WriteOptions::default(), &facts).unwrap();
    // Of the last database nothing is known.
    let sizes = keyspace.databases().take(2).map(|db| keyspace.size(db));
    let sizes: Vec<_> = sizes.map(|(keys, expiring)| (keys as u64, expiring as u64)).collect();
    let target = target.with_sizes(sizes.clone());
    let mut dumper = Dumper::new(
        &ids,
        target,
        SpillOptions { disk, directory, memory_bytes: 9000, kept_bytes: 0 },
    );
    for (at, logged) in log.records().iter().enumerate().filter(|(_, logged)| logged.is_valid()) {
        dumper.record(addr(at), &logged.record()).unwrap();
    }
    dumper.finish_records().unwrap();
    while !dumper.merge_step().unwrap() {}
    let file = dumper.into_target().finish().unwrap();

    let (mut kept, mut database) = (Kept::default(), 0);
    let mut reader = rdb::Reader::new(&file[..], rdb::Limits::default()).unwrap();
    let mut facts = 0;
    let (mut selected, mut sized) = (BTreeSet::new(), Vec::new());
    loop {
        let taken = match reader.next().unwrap() {
            rdb::Event::Aux { name, value } => {
                assert_eq!((name, value), (&b"ctime"[..], &b"7"[..]));
                facts += 1;
                Ok(())
            }
            rdb::Event::Database(index) => {
                database = index;
                selected.insert(index);
                Ok(())
            }
            rdb::Event::Sizes { keys, expiring } => {
                assert_eq!((keys, expiring), sizes[database as usize]);
                assert!(kept.all.keys().all(|(index, _)| *index != database), "before its keys");
                sized.push(database);
                Ok(())
            }
            rdb::Event::Key(key) => {
                let value_type = match key.kind {
                    rdb::Kind::String => Type::String,
                    rdb::Kind::List => Type::List,
                    rdb::Kind::Set => Type::Set,
                    rdb::Kind::ZSet => Type::ZSet,
                    rdb::Kind::Hash => Type::Hash,
                    rdb::Kind::Stream => Type::Stream,
                };
                let (key, expires_at_ms) = (key.key, key.expires_at_ms);
                let count = count_of(key, database, &keyspace);
                kept.begin(&DumpedKey {
                    database,
                    key,
                    value_type,
                    count,
                    expires_at_ms,
                    has_expiring_fields: false,
                })
            }
            rdb::Event::String([]) => Ok(()),
            rdb::Event::String(bytes) => kept.element(Element::Part(bytes)),
            rdb::Event::Item(item) => kept.element(Element::Item(item)),
            rdb::Event::Member(member) => kept.element(Element::Member(member)),
            rdb::Event::Scored(member, score) => kept.element(Element::Scored(member, score)),
            rdb::Event::Field { name, value, expires_at_ms } => {
                kept.element(Element::Field(name, value, expires_at_ms))
            }
            rdb::Event::EndOfKey => kept.end(),
            rdb::Event::End { checksum } => {
                assert_eq!(checksum, rdb::Checksum::Right);
                break;
            }
            other => panic!("{other:?}"),
        };
        taken.unwrap();
    }
    assert_eq!(facts, 1);
    sized.sort_unstable();
    assert_eq!((selected.len(), sized), (3, vec![0, 1]), "once each");
    assert!(kept.all == contents(&keyspace));
    assert!(kept.all.len() > 5, "{}", kept.all.len());
}

/// How many elements, or bytes, a key has.
fn count_of(key: &[u8], database: u32, keyspace: &Keyspace) -> u64 {
    let count = match &contents(keyspace)[&(database, key.to_vec())].1 {
        Value::String(bytes) => bytes.len(),
        Value::List(items) => items.len(),
        Value::Hash(fields) => fields.len(),
        Value::Set(members) => members.len(),
        Value::ZSet(members) => members.len(),
    };
    count as u64
}
