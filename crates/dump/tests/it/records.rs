//! A dump of the records that are valid is what the keyspace has, however little memory it takes.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::path::PathBuf;
use std::sync::Arc;

use base::{DbId, DbIndex};
use dump::{DumpedKey, Dumper, Element, Figures, RdbTarget, SpillOptions, Target};
use env::Disk;
use env_sim::{Faults, SimDisk};
use keyspace::hash::Hash;
use keyspace::list::{End, List};
use keyspace::set::Set;
use keyspace::zset::ZSet;
use keyspace::{Contents, Expiry, Keyspace, Type};
use proptest::prelude::*;

use crate::journal::{MemoryLog, addr};

const DATABASES: usize = 3;

/// A value, comparable.
#[derive(Debug, Clone, PartialEq)]
enum Value {
    String(Vec<u8>),
    List(Vec<Vec<u8>>),
    Hash(BTreeMap<Vec<u8>, Vec<u8>>),
    Set(BTreeMap<Vec<u8>, ()>),
    ZSet(BTreeMap<Vec<u8>, u64>),
}

/// A key in its database.
type Name = (u32, Vec<u8>);

type All = BTreeMap<Name, (Option<i64>, Value)>;

/// Keeps what it is given, and checks the order in which it comes.
#[derive(Default)]
struct Kept {
    all: All,
    open: Option<(Name, Option<i64>, Value, u64)>,
}

impl Target for Kept {
    type Error = Infallible;

    fn begin(&mut self, key: &DumpedKey<'_>) -> Result<(), Infallible> {
        assert!(self.open.is_none(), "one after the other");
        let value = match key.value_type {
            Type::String => Value::String(Vec::new()),
            Type::List => Value::List(Vec::new()),
            Type::Hash => Value::Hash(BTreeMap::new()),
            Type::Set => Value::Set(BTreeMap::new()),
            Type::ZSet => Value::ZSet(BTreeMap::new()),
        };
        self.open = Some(((key.database, key.key.to_vec()), key.expires_at_ms, value, key.count));
        Ok(())
    }

    fn element(&mut self, element: Element<'_>) -> Result<(), Infallible> {
        let (.., value, left) = self.open.as_mut().unwrap();
        let is_new = match (element, value) {
            (Element::Part(bytes), Value::String(string)) => {
                string.extend_from_slice(bytes);
                assert!(!bytes.is_empty());
                *left += 1;
                *left -= bytes.len() as u64;
                true
            }
            (Element::Item(item), Value::List(items)) => {
                items.push(item.to_vec());
                true
            }
            (Element::Field(field, value), Value::Hash(fields)) => {
                fields.insert(field.to_vec(), value.to_vec()).is_none()
            }
            (Element::Member(member), Value::Set(members)) => {
                members.insert(member.to_vec(), ()).is_none()
            }
            (Element::Scored(member, score), Value::ZSet(members)) => {
                members.insert(member.to_vec(), score.to_bits()).is_none()
            }
            (element, value) => panic!("{element:?} of {value:?}"),
        };
        assert!(is_new, "an element came twice");
        *left -= 1;
        Ok(())
    }

    fn end(&mut self) -> Result<(), Infallible> {
        let (key, expires_at_ms, value, left) = self.open.take().unwrap();
        assert_eq!(left, 0, "as many as were announced");
        assert!(self.all.insert(key, (expires_at_ms, value)).is_none(), "a key came twice");
        Ok(())
    }
}

/// What a keyspace has.
fn contents(keyspace: &Keyspace<MemoryLog>) -> All {
    let mut all = All::new();
    for (index, db) in (0..).zip(keyspace.databases()) {
        keyspace.inspect(db, |entry| {
            let value = match entry.contents {
                Contents::String(string) => {
                    Value::String(string.as_bytes(&mut itoa::Buffer::new()).to_vec())
                }
                Contents::List(list) => {
                    Value::List(list.iter_from(0).map(<[u8]>::to_vec).collect())
                }
                Contents::Hash(hash) => {
                    let mut fields = BTreeMap::new();
                    hash.for_each(|field, value| _ = fields.insert(field.to_vec(), value.to_vec()));
                    Value::Hash(fields)
                }
                Contents::Set(set) => {
                    Value::Set(set.iter().map(|member| (member.to_vec(), ())).collect())
                }
                Contents::ZSet(zset) => Value::ZSet(
                    zset.iter().map(|(member, score)| (member.to_vec(), score.to_bits())).collect(),
                ),
            };
            all.insert((index, entry.key.to_vec()), (entry.expires_at_ms, value));
        });
    }
    all
}

/// A dump of what is valid in the log now, in an order that follows from `stride`.
fn dumped(
    log: &MemoryLog,
    databases: &[DbId],
    memory_bytes: usize,
    stride: usize,
) -> (All, Figures) {
    let disk: Arc<dyn Disk> = Arc::new(SimDisk::new(1, Faults::default()));
    let directory = PathBuf::from("/dumps");
    disk.create_dir_all(&directory).unwrap();
    let options =
        SpillOptions { disk: Arc::clone(&disk), directory: directory.clone(), memory_bytes };
    let mut dumper = Dumper::new(databases, Kept::default(), options);
    let records = log.records();
    for first in 0..stride.min(records.len()) {
        for at in (first..records.len()).step_by(stride) {
            if records[at].is_valid() {
                dumper.record(addr(at), &records[at].record()).unwrap();
            }
        }
    }
    dumper.finish_records().unwrap();
    while !dumper.merge_step().unwrap() {}
    assert!(disk.list(&directory).unwrap().is_empty(), "nothing is left of the spill file");
    let figures = dumper.figures();
    (dumper.into_target().all, figures)
}

#[derive(Debug, Clone)]
struct Op {
    kind: u8,
    db: usize,
    key: u8,
    other: u8,
    count: u16,
    len: u16,
}

fn op() -> impl Strategy<Value = Op> {
    (any::<u8>(), 0..DATABASES, 0..6_u8, 0..6_u8, 0..60_u16, 0..9000_u16)
        .prop_map(|(kind, db, key, other, count, len)| Op { kind, db, key, other, count, len })
}

fn apply(keyspace: &mut Keyspace<MemoryLog>, op: &Op) {
    let databases: Vec<DbIndex> = keyspace.databases().collect();
    let (db, other_db) = (databases[op.db], databases[(op.db + 1) % DATABASES]);
    let (key, other) = ([b'a' + op.key], [b'a' + op.other]);
    let name = |number: u16| format!("{number}:{}", "n".repeat(usize::from(number % 40)));
    let value = vec![b'v'; usize::from(op.len)];
    keyspace.begin_command(1_000_000);
    match op.kind % 16 {
        0 => _ = keyspace.set_string(db, &key, &value, Expiry::Clear),
        1 => _ = keyspace.set_string(db, &key, b"12345", Expiry::At(2_000_000)),
        2 => {
            let at = usize::from(op.len) + usize::from(op.count) * 100;
            let _ = keyspace.change_string(db, &key, at + 3, at..at + 3, |to| {
                to.copy_from_slice(b"end");
            });
        }
        3 | 4 => {
            _ = keyspace.update::<Hash, _>(db, &key, true, |hash| {
                (0..=op.count).for_each(|number| {
                    _ = hash.set(name(number).as_bytes(), &value[..value.len() / 30]);
                });
            });
        }
        5 => {
            _ = keyspace.update::<Hash, _>(db, &key, false, |hash| {
                (0..op.count).for_each(|number| _ = hash.remove(name(number).as_bytes()));
            });
        }
        6 | 7 => {
            _ = keyspace.update::<List, _>(db, &key, true, |list| {
                (0..=op.count).for_each(|number| {
                    let end = if number % 3 == 0 { End::Front } else { End::Back };
                    list.push(end, name(number).as_bytes());
                });
            });
        }
        8 => {
            _ = keyspace.update::<List, _>(db, &key, false, |list| {
                list.cut(End::Front, usize::from(op.count / 2));
                let middle = list.view().len() / 2;
                if middle > 0 {
                    list.insert(middle, &value[..value.len() / 10]);
                }
            });
        }
        9 => {
            _ = keyspace.update::<Set, _>(db, &key, true, |set| {
                (0..=op.count).for_each(|number| _ = set.add(name(number).as_bytes()));
            });
        }
        10 => {
            _ = keyspace.update::<ZSet, _>(db, &key, true, |zset| {
                (0..=op.count).for_each(|number| {
                    _ = zset.set(name(number).as_bytes(), f64::from(op.len) - f64::from(number));
                });
            });
        }
        11 => _ = keyspace.delete(db, &key),
        12 => _ = keyspace.rename(db, &key, other_db, &other),
        13 => _ = keyspace.set_expires_at_ms(db, &key, Some(i64::from(op.len) + 1_500_000)),
        14 => keyspace.swap(db, other_db),
        _ if op.count < 20 => _ = keyspace.flush([db]),
        _ => _ = keyspace.free_step(usize::from(op.count)),
    }
    keyspace.take_effects();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn a_dump_is_what_the_keyspace_has(
        ops in prop::collection::vec(op(), 1..60),
        memory_bytes in prop_oneof![Just(200_usize), Just(5_000), Just(1 << 20)],
        stride in 1..7_usize,
    ) {
        let log = MemoryLog::default();
        let mut keyspace = Keyspace::new(log.clone(), [7; 16], DATABASES);
        ops.iter().for_each(|op| apply(&mut keyspace, op));
        let ids: Vec<DbId> = keyspace.databases().map(|db| keyspace.database_id(db)).collect();
        let (found, figures) = dumped(&log, &ids, memory_bytes, stride);
        let expected = contents(&keyspace);
        prop_assert_eq!(figures.keys, expected.len() as u64);
        prop_assert!(found == expected, "{:?}\n{:?}", found.keys(), expected.keys());
        // All that waits to be freed is gone then.
        while keyspace.free_step(1000) {}
        let (again, after) = dumped(&log, &ids, memory_bytes, 1);
        prop_assert!(again == expected);
        prop_assert_eq!(after.orphans, 0);
    }
}

/// Runs of one item each, an object in nearly all of them, and items that are larger than a frame.
#[test]
fn large_values_are_merged_from_many_runs() {
    let log = MemoryLog::default();
    let mut keyspace = Keyspace::new(log.clone(), [7; 16], DATABASES);
    keyspace.begin_command(0);
    let db = keyspace.database(0).unwrap();
    let long = vec![b'l'; 100_000];
    let _ = keyspace.update::<Hash, _>(db, b"hash", true, |hash| {
        (0..300)
            .for_each(|number: u32| _ = hash.set(&number.to_be_bytes(), &long[..number as usize]));
        hash.set(b"long", &long);
    });
    let _ = keyspace.update::<List, _>(db, b"list", true, |list| {
        (0..3000_u32).for_each(|number| list.push(End::Front, &number.to_be_bytes()));
        list.push(End::Back, &long);
    });
    let _ = keyspace.change_string(db, b"string", 300_000, 299_990..299_995, |to| to.fill(b'x'));
    let ids: Vec<DbId> = keyspace.databases().map(|db| keyspace.database_id(db)).collect();
    for memory_bytes in [1, 3000, 1 << 30] {
        let (found, figures) = dumped(&log, &ids, memory_bytes, 3);
        assert!(found == contents(&keyspace), "{memory_bytes}");
        assert_eq!(figures.spilled_bytes > 500_000, memory_bytes < 1 << 30, "{figures:?}");
    }
}

#[test]
fn a_spill_file_that_cannot_be_read_or_written_ends_the_dump() {
    let log = MemoryLog::default();
    let mut keyspace = Keyspace::new(log.clone(), [7; 16], DATABASES);
    keyspace.begin_command(0);
    let db = keyspace.database(0).unwrap();
    let _ = keyspace.update::<Set, _>(db, b"set", true, |set| {
        (0..60_u32).for_each(|number| _ = set.add(format!("member {number}").as_bytes()));
    });
    let ids: Vec<DbId> = keyspace.databases().map(|db| keyspace.database_id(db)).collect();
    let expected = contents(&keyspace);
    let mut refused = 0;
    for read in 1.. {
        let faults = Faults { error_at_read: Some(read), ..Faults::default() };
        let disk = SimDisk::new(1, faults);
        let directory = PathBuf::from("/dumps");
        let shared: Arc<dyn Disk> = Arc::new(disk.clone());
        if shared.create_dir_all(&directory).is_err() {
            continue;
        }
        let options = SpillOptions { disk: shared, directory, memory_bytes: 300 };
        let mut dumper = Dumper::new(&ids, Kept::default(), options);
        let result = (|| {
            let records = log.records();
            for at in (0..records.len()).filter(|at| records[*at].is_valid()) {
                dumper.record(addr(at), &records[at].record())?;
            }
            dumper.finish_records()?;
            while !dumper.merge_step()? {}
            Ok::<_, dump::Error>(())
        })();
        match result {
            Ok(()) => {
                assert!(dumper.into_target().all == expected);
                break;
            }
            Err(error) => {
                assert!(error.to_string().contains("dump.spill"), "{error}");
                refused += 1;
            }
        }
    }
    assert!(refused > 5, "{refused}");
}

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
    ops.for_each(|op| apply(&mut keyspace, &op));
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
    let mut dumper =
        Dumper::new(&ids, target, SpillOptions { disk, directory, memory_bytes: 9000 });
    for (at, logged) in log.records().iter().enumerate().filter(|(_, logged)| logged.is_valid()) {
        dumper.record(addr(at), &logged.record()).unwrap();
    }
    dumper.finish_records().unwrap();
    while !dumper.merge_step().unwrap() {}
    let file = dumper.into_target().finish().unwrap();

    let (mut kept, mut database) = (Kept::default(), 0);
    let mut reader = rdb::Reader::new(&file[..], rdb::Limits::default()).unwrap();
    let mut facts = 0;
    loop {
        let taken = match reader.next().unwrap() {
            rdb::Event::Aux { name, value } => {
                assert_eq!((name, value), (&b"ctime"[..], &b"7"[..]));
                facts += 1;
                Ok(())
            }
            rdb::Event::Database(index) => {
                database = index;
                Ok(())
            }
            rdb::Event::Key(key) => {
                let value_type = match key.kind {
                    rdb::Kind::String => Type::String,
                    rdb::Kind::List => Type::List,
                    rdb::Kind::Set => Type::Set,
                    rdb::Kind::ZSet => Type::ZSet,
                    rdb::Kind::Hash => Type::Hash,
                };
                let (key, expires_at_ms) = (key.key, key.expires_at_ms);
                let count = count_of(key, database, &keyspace);
                kept.begin(&DumpedKey { database, key, value_type, count, expires_at_ms })
            }
            rdb::Event::String([]) => Ok(()),
            rdb::Event::String(bytes) => kept.element(Element::Part(bytes)),
            rdb::Event::Item(item) => kept.element(Element::Item(item)),
            rdb::Event::Member(member) => kept.element(Element::Member(member)),
            rdb::Event::Scored(member, score) => kept.element(Element::Scored(member, score)),
            rdb::Event::Field { name, value, .. } => kept.element(Element::Field(name, value)),
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
    assert!(kept.all == contents(&keyspace));
    assert!(kept.all.len() > 5, "{}", kept.all.len());
}

/// How many elements, or bytes, a key has.
fn count_of(key: &[u8], database: u32, keyspace: &Keyspace<MemoryLog>) -> u64 {
    let count = match &contents(keyspace)[&(database, key.to_vec())].1 {
        Value::String(bytes) => bytes.len(),
        Value::List(items) => items.len(),
        Value::Hash(fields) => fields.len(),
        Value::Set(members) => members.len(),
        Value::ZSet(members) => members.len(),
    };
    count as u64
}
