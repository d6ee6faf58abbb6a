//! A keyspace under random commands, and a consumer that is told what has changed.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use base::{DbId, DbIndex, Lsn, ObjectId, Record, RecordAddr, RecordKind, SegmentId};
use changes::{Heading, Translator, write_block};
use keyspace::hash::Hash;
use keyspace::list::{End, List};
use keyspace::set::Set;
use keyspace::zset::ZSet;
use keyspace::{Contents, Expiry, Inspected, Journal, Keyspace};
use proptest::prelude::*;
use serde_json::Value;

use crate::consumer::{Bytes, Consumer, Content, Seen};

const KEYS: [&[u8]; 4] = [b"a", b"b", b"c", b"\xff\0d"];
const DATABASES: usize = 3;

/// A record that is kept.
#[derive(Debug, Clone)]
struct Logged {
    block: u64,
    kind: RecordKind,
    db: DbId,
    key: Vec<u8>,
    object: ObjectId,
    sub: Vec<u8>,
    value: Vec<u8>,
    expires_at_ms: Option<i64>,
    is_new: bool,
    /// The block that has made it garbage.
    retired: Option<u64>,
}

impl Logged {
    fn record(&self) -> Record<'_> {
        Record {
            kind: self.kind,
            db: self.db,
            key: &self.key,
            object: self.object,
            sub: &self.sub,
            value: &self.value,
            expires_at_ms: self.expires_at_ms,
            is_new: self.is_new,
        }
    }
}

#[derive(Debug, Default)]
struct Log {
    records: Vec<Logged>,
    open: u64,
}

/// A log in memory.
#[derive(Debug, Clone, Default)]
struct MemoryLog(Arc<Mutex<Log>>);

impl Journal for MemoryLog {
    fn append(&mut self, record: &Record<'_>) -> Option<RecordAddr> {
        let mut log = self.0.lock().expect("one thread");
        let block = log.open;
        log.records.push(Logged {
            block,
            kind: record.kind,
            db: record.db,
            key: record.key.to_vec(),
            object: record.object,
            sub: record.sub.to_vec(),
            value: record.value.to_vec(),
            expires_at_ms: record.expires_at_ms,
            is_new: record.is_new,
            retired: None,
        });
        let ordinal = u32::try_from(log.records.len() - 1).expect("few");
        Some(RecordAddr::new(SegmentId(1), ordinal))
    }

    fn retire(&mut self, addr: RecordAddr) {
        let mut log = self.0.lock().expect("one thread");
        let block = log.open;
        log.records[addr.ordinal() as usize].retired.get_or_insert(block);
    }

    fn open_lsn(&self) -> Lsn {
        Lsn(1)
    }

    fn last_lsn(&self) -> Lsn {
        Lsn(1)
    }

    fn durable_lsn(&self) -> Lsn {
        Lsn(1)
    }

    fn undurable_lsn_of(&self, _: RecordAddr) -> Option<Lsn> {
        None
    }
}

#[derive(Debug, Clone)]
enum Op {
    Set(usize, usize, bool),
    Fields(usize, Vec<(u8, usize)>),
    RemoveFields(usize, Vec<u8>),
    Members(usize, Vec<u8>),
    RemoveMembers(usize, Vec<u8>),
    Scores(usize, Vec<(u8, i16)>),
    Push(usize, bool, usize),
    Insert(usize, usize),
    Cut(usize, usize),
    Delete(usize),
    Expire(usize, Option<i64>),
    Rename(usize, usize, usize),
    Copy(usize, usize, usize),
    Flush(usize),
    FlushAll,
    Swap(usize, usize),
    /// The block ends.
    Seal,
}

fn op() -> impl Strategy<Value = (usize, Op)> {
    let key = 0..KEYS.len();
    let names = || prop::collection::vec(any::<u8>(), 1..40);
    let op = prop_oneof![
        3 => (key.clone(), prop_oneof![0usize..40, 4000usize..20_000], any::<bool>())
            .prop_map(|(key, len, appends)| Op::Set(key, len, appends)),
        4 => (key.clone(), prop::collection::vec((any::<u8>(), 0usize..30), 1..40))
            .prop_map(|(key, fields)| Op::Fields(key, fields)),
        2 => (key.clone(), names()).prop_map(|(key, names)| Op::RemoveFields(key, names)),
        3 => (key.clone(), names()).prop_map(|(key, names)| Op::Members(key, names)),
        2 => (key.clone(), names()).prop_map(|(key, names)| Op::RemoveMembers(key, names)),
        3 => (key.clone(), prop::collection::vec((any::<u8>(), any::<i16>()), 1..40))
            .prop_map(|(key, scores)| Op::Scores(key, scores)),
        4 => (key.clone(), any::<bool>(), 1usize..60).prop_map(|(key, end, n)| Op::Push(key, end, n)),
        2 => (key.clone(), 0usize..100).prop_map(|(key, at)| Op::Insert(key, at)),
        2 => (key.clone(), 1usize..100).prop_map(|(key, n)| Op::Cut(key, n)),
        1 => key.clone().prop_map(Op::Delete),
        2 => (key.clone(), prop::option::of(1_000_000i64..2_000_000))
            .prop_map(|(key, at)| Op::Expire(key, at)),
        3 => (key.clone(), 0..DATABASES, key.clone()).prop_map(|(a, db, b)| Op::Rename(a, db, b)),
        2 => (key.clone(), 0..DATABASES, key).prop_map(|(a, db, b)| Op::Copy(a, db, b)),
        1 => (0..DATABASES).prop_map(Op::Flush),
        1 => Just(Op::FlushAll),
        1 => (0..DATABASES, 0..DATABASES).prop_map(|(a, b)| Op::Swap(a, b)),
        8 => Just(Op::Seal),
    ];
    (0..DATABASES, op)
}

fn name(number: u8) -> Vec<u8> {
    // Some are no text.
    if number.is_multiple_of(5) { vec![number, 0xff] } else { format!("name \"{number}\"").into() }
}

/// A keyspace that logs.
struct World {
    keyspace: Keyspace<MemoryLog>,
    log: MemoryLog,
}

impl World {
    fn new() -> Self {
        let log = MemoryLog::default();
        log.0.lock().expect("one thread").open = 1;
        Self { keyspace: Keyspace::new(log.clone(), [7; 16], DATABASES), log }
    }

    fn db(&self, number: usize) -> DbIndex {
        self.keyspace.database(number).expect("there are so many")
    }

    /// Whether a block has ended.
    fn run(&mut self, number: usize, op: &Op) -> bool {
        let db = self.db(number);
        self.keyspace.begin_command(1000);
        let other = |world: &Self, number: &usize| world.db(*number);
        match op {
            Op::Set(key, len, appends) => {
                let letter = b'a' + u8::try_from(*len % 20).expect("it is small");
                let value = vec![letter; *len];
                if *appends && self.keyspace.string(db, KEYS[*key]).is_ok() {
                    let change = |bytes: &mut [u8]| bytes.copy_from_slice(&value);
                    let len = self.keyspace.string(db, KEYS[*key]).expect("a string");
                    let len = len.map_or(0, |string| string.len());
                    let range = len..len + value.len();
                    let changed =
                        self.keyspace.change_string(db, KEYS[*key], range.end, range, change);
                    changed.expect("it is a string");
                } else {
                    self.keyspace.set_string(db, KEYS[*key], &value, Expiry::Clear);
                }
            }
            Op::Fields(key, fields) => {
                let _wrong_type = self.keyspace.update::<Hash, _>(db, KEYS[*key], true, |hash| {
                    for (field, len) in fields {
                        hash.set(&name(*field), &vec![*field; *len]);
                    }
                });
            }
            Op::RemoveFields(key, fields) => {
                let _wrong_type = self.keyspace.update::<Hash, _>(db, KEYS[*key], false, |hash| {
                    fields.iter().for_each(|field| _ = hash.remove(&name(*field)));
                });
            }
            Op::Members(key, members) => {
                let _wrong_type = self.keyspace.update::<Set, _>(db, KEYS[*key], true, |set| {
                    members.iter().for_each(|member| _ = set.add(&name(*member)));
                });
            }
            Op::RemoveMembers(key, members) => {
                let _wrong_type = self.keyspace.update::<Set, _>(db, KEYS[*key], false, |set| {
                    members.iter().for_each(|member| _ = set.remove(&name(*member)));
                });
            }
            Op::Scores(key, scores) => {
                let _wrong_type = self.keyspace.update::<ZSet, _>(db, KEYS[*key], true, |zset| {
                    for (member, score) in scores {
                        let score = match *score {
                            i16::MAX => f64::INFINITY,
                            score => f64::from(score) / 7.0,
                        };
                        zset.set(&name(*member), score);
                    }
                });
            }
            Op::Push(key, is_front, count) => {
                let end = if *is_front { End::Front } else { End::Back };
                let _wrong_type = self.keyspace.update::<List, _>(db, KEYS[*key], true, |list| {
                    for number in 0..*count {
                        list.push(end, &name(u8::try_from(number % 200).expect("it is small")));
                    }
                });
            }
            Op::Insert(key, at) => {
                let _wrong_type = self.keyspace.update::<List, _>(db, KEYS[*key], false, |list| {
                    let at = at % (list.view().len() + 1);
                    (0..20).for_each(|_| list.insert(at, b"inserted"));
                });
            }
            Op::Cut(key, count) => {
                let _wrong_type = self.keyspace.update::<List, _>(db, KEYS[*key], false, |list| {
                    list.cut(End::Front, (*count).min(list.view().len()));
                });
            }
            Op::Delete(key) => _ = self.keyspace.delete(db, KEYS[*key]),
            Op::Expire(key, at) => _ = self.keyspace.set_expires_at_ms(db, KEYS[*key], *at),
            Op::Rename(from, to_db, to) => {
                let to_db = other(self, to_db);
                self.keyspace.rename(db, KEYS[*from], to_db, KEYS[*to]);
            }
            Op::Copy(from, to_db, to) => {
                let to_db = other(self, to_db);
                if (db, from) != (to_db, to) {
                    self.keyspace.copy(db, KEYS[*from], to_db, KEYS[*to]);
                }
            }
            Op::Flush(number) => {
                let flushed = other(self, number);
                self.keyspace.flush([flushed]);
            }
            Op::FlushAll => {
                let all: Vec<DbIndex> = self.keyspace.databases().collect();
                self.keyspace.flush(all);
            }
            Op::Swap(a, b) => {
                let (a, b) = (other(self, a), other(self, b));
                self.keyspace.swap(a, b);
            }
            Op::Seal => {}
        }
        let _ = self.keyspace.end_command();
        drop(self.keyspace.take_effects());
        // What was deleted is freed at some time: its records are garbage then.
        self.keyspace.free_step(10);
        matches!(op, Op::Seal) && self.seal()
    }

    fn seal(&self) -> bool {
        let mut log = self.log.0.lock().expect("one thread");
        let has_records = log.records.last().is_some_and(|last| last.block == log.open);
        log.open += u64::from(has_records);
        has_records
    }

    fn records(&self) -> Vec<Logged> {
        self.log.0.lock().expect("one thread").records.clone()
    }

    fn seen(&self) -> BTreeMap<(u64, Bytes), Seen> {
        let mut all = BTreeMap::new();
        for db in self.keyspace.databases() {
            self.keyspace.inspect(db, |entry| {
                all.insert((db.get() as u64, entry.key.to_vec()), seen(&entry));
            });
        }
        all
    }
}

fn seen(entry: &Inspected<'_>) -> Seen {
    let (value_type, content) = match &entry.contents {
        Contents::String(string) => {
            let bytes = string.as_bytes(&mut itoa::Buffer::new()).to_vec();
            ("string", Content::String(bytes))
        }
        Contents::List(list) => {
            ("list", Content::List(list.iter_from(0).map(<[u8]>::to_vec).collect()))
        }
        Contents::Hash(hash) => {
            let mut pairs = BTreeMap::new();
            hash.for_each(|field, value| _ = pairs.insert(field.to_vec(), value.to_vec()));
            ("hash", Content::Pairs(pairs))
        }
        Contents::Set(set) => {
            let members = set.iter().map(|member| (member.to_vec(), Vec::new()));
            ("set", Content::Pairs(members.collect()))
        }
        Contents::ZSet(zset) => {
            let bits = |score: f64| score.to_bits().to_le_bytes().to_vec();
            let members = zset.iter().map(|(member, score)| (member.to_vec(), bits(score)));
            ("zset", Content::Pairs(members.collect()))
        }
        Contents::Stream(_) => unreachable!("not made here"),
    };
    Seen { value_type: value_type.to_owned(), expires_at_ms: entry.expires_at_ms, content }
}

/// The line of a block.
fn line_of(translator: &mut Translator, records: &[Logged], block: u64) -> String {
    let records: Vec<Record<'_>> =
        records.iter().filter(|logged| logged.block == block).map(Logged::record).collect();
    let mut line = Vec::new();
    let written = write_block(
        translator,
        Heading { lsn: Lsn(block), log: "", time_ms: 5 },
        &records,
        &mut line,
    );
    assert_eq!(written, Ok(records.len()), "every record is one change");
    String::from_utf8(line).expect("JSON is text")
}

/// Checks that two lines are the same but for what the second does not know.
fn assert_knows_nothing_wrong(all: &str, some: &str) {
    let (all, some): (Value, Value) =
        (serde_json::from_str(all).expect("JSON"), serde_json::from_str(some).expect("JSON"));
    let changes = |block: &Value| block["changes"].as_array().expect("a list").clone();
    let (all, some) = (changes(&all), changes(&some));
    assert_eq!(all.len(), some.len());
    // An element whose object is not known may be told behind a root that is later in the block: under its key.
    let roots: Vec<Value> = all.iter().filter(|it| it["op"] == "root").cloned().collect();
    let mut left: Vec<Value> = all;
    for change in some {
        let is_place = |name: &str| ["db", "db_id", "key"].contains(&name);
        let is_of_root = |root: &Value| {
            ["object", "db", "db_id", "key"].iter().all(|name| root[*name] == change[*name])
        };
        let is_moved = change["op"] != "root" && roots.iter().any(is_of_root);
        // A key that had a large value, and then a small one which is dropped, is believed to have the large one.
        let is_deletion = change["op"] == "delete";
        let is_same = |other: &Value| {
            let known = change.as_object().expect("an object").iter();
            let mut known = known.filter(|(_, value)| !value.is_null());
            known.all(|(name, value)| {
                // The names of elements of unknown type.
                let is_open = name == "name"
                    || (is_moved && is_place(name))
                    || (is_deletion && name == "type" && other.get(name).is_none());
                is_open || other.get(name) == Some(value)
            })
        };
        let at = left.iter().position(is_same);
        let at = at.unwrap_or_else(|| panic!("{change} is none of {left:#?}"));
        left.remove(at);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn a_consumer_has_what_the_keyspace_has_after_each_block(
        ops in prop::collection::vec(op(), 1..120),
    ) {
        let mut world = World::new();
        let (mut translator, mut consumer) = (Translator::new(usize::MAX), Consumer::default());
        for (db, op) in ops.iter().chain([&(0, Op::Seal)]) {
            if world.run(*db, op) {
                let block = consumer.last + 1;
                consumer.take(&line_of(&mut translator, &world.records(), block));
                prop_assert_eq!(consumer.seen(), world.seen());
            }
        }
    }

    #[test]
    fn what_is_known_in_the_middle_of_a_compacted_log_is_right(
        ops in prop::collection::vec(op(), 20..120),
        middle in 1u64..20,
        dropped in prop::collection::vec(any::<bool>(), 64),
        roots_bytes_max in prop_oneof![Just(usize::MAX), Just(400)],
    ) {
        let mut world = World::new();
        for (db, op) in ops.iter().chain([&(0, Op::Seal)]) {
            world.run(*db, op);
        }
        let records = world.records();
        let last = records.last().map_or(0, |logged| logged.block);
        // As the server's rule for databases says: the newest record of them is among those that are learned.
        let is_map = |logged: &&Logged| logged.kind == RecordKind::Databases;
        let newest = records.iter().rfind(is_map).map_or(0, |logged| logged.block);
        let middle = newest + middle;
        if middle > last {
            return Ok(());
        }
        let mut all = Translator::new(usize::MAX);
        let mut some = Translator::new(roots_bytes_max);
        for (at, logged) in records.iter().enumerate().filter(|(_, it)| it.block < middle) {
            // A compaction drops what is garbage, if it likes, and keeps what says that something is gone.
            let is_dropped = logged.retired.is_some() && dropped[at % dropped.len()];
            if !is_dropped || logged.kind.is_delete() {
                some.learn(&logged.record()).expect("a keyspace logged it");
            }
        }
        for block in 1..=last {
            let line = line_of(&mut all, &records, block);
            if block >= middle {
                assert_knows_nothing_wrong(&line, &line_of(&mut some, &records, block));
            }
        }
    }
}
