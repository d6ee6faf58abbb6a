//! Dumps that are merged with the one before, one after the other, while the log goes on.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use base::{ObjectId, Record, RecordKind};
use dump::{
    Error, HourglassDump, HourglassFigures, LastDump, LastError, RdbTarget, Step, WholeReason,
};
use env::{Access, Disk};
use keyspace::Expiry;
use keyspace::hash::Hash;
use keyspace::string::CHUNK_BYTES;
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use rdb::{Event as Read, Kind, Limits, Reader, Version, WriteOptions};
use redo::Mark;

use crate::commands::{Op, op};
use crate::kept::{All, Name, Value};
use crate::world::{Expected, World};

const PATH: &str = "/dumps/dump.rdb";

/// What stands in a file, checked.
pub(crate) fn parse(bytes: &[u8]) -> All {
    let mut reader = Reader::new(bytes, Limits::default()).unwrap();
    let (mut all, mut database) = (All::new(), 0);
    let mut open: Option<(Name, Option<i64>, Value)> = None;
    loop {
        let value = open.as_mut().map(|(.., value)| value);
        let is_new = match (reader.next().unwrap(), value) {
            (Read::Database(index), None) => {
                database = index;
                true
            }
            (Read::Key(key), None) => {
                let value = match key.kind {
                    Kind::String => Value::String(Vec::new()),
                    Kind::List => Value::List(Vec::new()),
                    Kind::Set => Value::Set(BTreeMap::new()),
                    Kind::ZSet => Value::ZSet(BTreeMap::new()),
                    Kind::Hash => Value::Hash(BTreeMap::new()),
                    Kind::Stream => unreachable!("not made here"),
                };
                open = Some(((database, key.key.to_vec()), key.expires_at_ms, value));
                true
            }
            (Read::String(bytes), Some(Value::String(string))) => {
                string.extend_from_slice(bytes);
                true
            }
            (Read::Item(item), Some(Value::List(items))) => {
                items.push(item.to_vec());
                true
            }
            (Read::Member(member), Some(Value::Set(members))) => {
                members.insert(member.to_vec(), ()).is_none()
            }
            (Read::Scored(member, score), Some(Value::ZSet(members))) => {
                members.insert(member.to_vec(), score.to_bits()).is_none()
            }
            (Read::Field { name, value, .. }, Some(Value::Hash(fields))) => {
                fields.insert(name.to_vec(), value.to_vec()).is_none()
            }
            (Read::EndOfKey, _) => {
                let (key, expires_at_ms, value) = open.take().unwrap();
                all.insert(key, (expires_at_ms, value)).is_none()
            }
            (Read::End { checksum }, None) => {
                assert_eq!(checksum, rdb::Checksum::Right);
                return all;
            }
            (Read::Sizes { .. } | Read::Aux { .. }, None) => true,
            (other, _) => panic!("{other:?}"),
        };
        assert!(is_new, "a key or an element stands there twice");
    }
}

type Last = Result<Arc<LastDump>, WholeReason>;

struct Going {
    dump: HourglassDump<Vec<u8>>,
    expected: Expected,
}

fn begin(
    world: &World,
    (mark, expected): (Mark, Expected),
    memory_bytes: usize,
    last: &Last,
    options: WriteOptions,
) -> Going {
    let facts = [("ctime", "7".to_owned())];
    let target = RdbTarget::begin(Vec::new(), options, &facts).unwrap();
    let (target, spill) = ((target, options.version), world.spill_options(memory_bytes));
    let databases = &expected.databases;
    let dump = HourglassDump::new(mark, databases, target, spill, last.clone()).unwrap();
    Going { dump, expected }
}

/// Writes the file anew.
fn write(world: &World, bytes: &[u8]) {
    let path = Path::new(PATH);
    if world.disk.exists(path).unwrap() {
        world.disk.remove(path).unwrap();
    }
    world.disk.create(path).unwrap().write_all_at(bytes, 0).unwrap();
}

/// The dump is complete: it must be what there was, and is the last one now.
fn end(world: &World, Going { dump, expected }: Going, last: &mut Last) -> HourglassFigures {
    let (done, total) = dump.progress();
    assert_eq!(done, total, "all that was announced was read");
    let keys = dump.figures().keys;
    let (made_of, read_bytes) = (dump.made_of(), dump.read_bytes());
    let (bytes, new) = dump.finish(PathBuf::from(PATH)).unwrap();
    let found = parse(&bytes);
    assert!(found == expected.all, "{:?}\n{:?}", found.keys(), expected.all.keys());
    assert_eq!(keys, found.len() as u64);
    if made_of.last_lsn.is_some() {
        let old = world.disk.open(Path::new(PATH), Access::Read).unwrap().len().unwrap();
        assert!(read_bytes >= old - 8, "all of it was summed: {read_bytes} of {old}");
    }
    write(world, &bytes);
    *last = Ok(Arc::new(new));
    made_of
}

/// Steps a dump to its end.
fn run(world: &mut World, going: &mut Going) -> Result<(), Error> {
    loop {
        match going.dump.step()? {
            Step::Waiting => world.settle(),
            Step::Worked => {}
            Step::Done => return Ok(()),
        }
    }
}

/// A whole dump of now.
fn dump(world: &mut World, last: &mut Last, memory_bytes: usize) -> HourglassFigures {
    let mut going = begin_now(world, last, memory_bytes);
    run(world, &mut going).unwrap();
    end(world, going, last)
}

fn begin_now(world: &mut World, last: &Last, memory_bytes: usize) -> Going {
    world.ask_for_mark();
    let marked = world.seal().pop().unwrap();
    begin(world, marked, memory_bytes, last, WriteOptions::default())
}

#[derive(Debug, Clone)]
enum Event {
    Command(Op),
    /// A long string is written, or a part of it is.
    Long(u16),
    Time(i64),
    Seal,
    Work(u8),
    Compact,
    /// A dump, if none is going on, and its memory.
    Mark(usize),
    /// So many steps of it.
    Dump(u8),
}

fn event() -> impl Strategy<Value = Event> {
    let memory_bytes = prop_oneof![Just(1_usize), Just(20_000), Just(1 << 30)];
    prop_oneof![
        20 => op().prop_map(Event::Command),
        1 => any::<u16>().prop_map(Event::Long),
        2 => (0..300_000_i64).prop_map(Event::Time),
        8 => Just(Event::Seal),
        20 => any::<u8>().prop_map(Event::Work),
        1 => Just(Event::Compact),
        6 => memory_bytes.prop_map(Event::Mark),
        8 => (0..30_u8).prop_map(Event::Dump),
    ]
}

/// More than what is written as it comes.
const LONG_BYTES: usize = (1 << 20) + 10_000;

fn change_long(world: &mut World, what: u16) {
    let db = world.keyspace.databases().next().unwrap();
    world.keyspace.begin_command(world.now_ms);
    let at = usize::from(what) * 17 % LONG_BYTES;
    match what % 8 {
        0 => {
            let value: Vec<u8> =
                (0..LONG_BYTES).map(|at| u8::try_from(at * 7 % 251).unwrap()).collect();
            _ = world.keyspace.set_string(db, b"long", &value, Expiry::Clear);
        }
        1 => _ = world.keyspace.set_expires_at_ms(db, b"long", Some(i64::from(what) + 3_000_000)),
        2 => _ = world.keyspace.rename(db, b"long", db, b"long"),
        _ => {
            _ = world.keyspace.change_string(db, b"long", at + 5, at..at + 5, |to| {
                to.copy_from_slice(b"other");
            });
        }
    }
    world.keyspace.take_effects();
}

#[test]
fn each_dump_that_is_merged_is_what_there_was_at_its_mark() {
    let (merged, copied, whole) = (Cell::new(0), Cell::new(0), Cell::new(0));
    let (compactions, parts) = (Cell::new(0), Cell::new(0));
    let mut runner = TestRunner::new(ProptestConfig::with_cases(150));
    let strategy = (1..3_usize, 1..4_u64, prop::collection::vec(event(), 100..500));
    let result = runner.run(&strategy, |(device_count, size, events)| {
        let mut world = World::new(device_count, size * 30_000);
        let mut last: Last = Err(WholeReason::First);
        let (mut asked, mut going): (Option<usize>, Option<Going>) = (None, None);
        let begin_asked = |world: &World, marks: Vec<_>, asked: &mut Option<usize>, last: &Last| {
            let marked = marks.into_iter().next()?;
            let memory_bytes = asked.take().expect("it was asked for");
            Some(begin(world, marked, memory_bytes, last, WriteOptions::default()))
        };
        let count = |made_of: HourglassFigures| {
            if made_of.last_lsn.is_some() {
                merged.set(merged.get() + 1);
                copied.set(copied.get() + made_of.copied_bytes);
            } else {
                whole.set(whole.get() + 1);
            }
        };
        for event in &events {
            match event {
                Event::Command(op) => world.apply(op),
                Event::Long(what) => change_long(&mut world, *what),
                Event::Time(ms) => world.now_ms += ms,
                Event::Work(what) => world.work(*what),
                Event::Compact => world.log.get().compact_all(),
                Event::Mark(bytes) if asked.is_none() && going.is_none() => {
                    world.ask_for_mark();
                    asked = Some(*bytes);
                    // With records it comes later, at the end of their block.
                    if !world.log.get().has_open_records() {
                        let marks = world.seal();
                        going = begin_asked(&world, marks, &mut asked, &last);
                    }
                }
                Event::Mark(_) => {}
                Event::Seal => {
                    let marks = world.seal();
                    going = begin_asked(&world, marks, &mut asked, &last).or(going);
                }
                Event::Dump(steps) => {
                    for _ in 0..*steps {
                        let Some(this) = &mut going else { break };
                        if this.dump.step().unwrap() == Step::Done {
                            count(end(&world, going.take().expect("it is"), &mut last));
                        }
                    }
                }
            }
        }
        let marks = world.seal();
        going = begin_asked(&world, marks, &mut asked, &last).or(going);
        world.log.get().compact_all();
        world.settle();
        if let Some(mut going) = going {
            run(&mut world, &mut going).unwrap();
            count(end(&world, going, &mut last));
        }
        // Nothing changes, and everything is copied.
        count(dump(&mut world, &mut last, 1 << 20));
        let made_of = dump(&mut world, &mut last, 1 << 20);
        prop_assert_eq!(made_of.changed_records, 0);
        parts.set(parts.get() + u64::from(made_of.copied_bytes > 10_000));
        count(made_of);
        drop(last);
        let left = world.disk.list(Path::new("/dumps")).unwrap();
        prop_assert_eq!(left, ["dump.rdb"]);
        compactions.set(compactions.get() + world.log.get().stats().compactions);
        Ok(())
    });
    if let Err(error) = result {
        panic!("{error}\n{runner}");
    }
    let counts = [merged.get(), whole.get(), compactions.get(), parts.get()];
    assert!(
        counts[0] > 500 && counts[1] == 150 && counts[2] > 300 && counts[3] > 100,
        "{counts:?}"
    );
    assert!(copied.get() > 10 << 20, "{}", copied.get());
}

fn set(world: &mut World, key: &str, value: &[u8]) {
    let db = world.keyspace.databases().next().unwrap();
    world.keyspace.begin_command(world.now_ms);
    _ = world.keyspace.set_string(db, key.as_bytes(), value, Expiry::Clear);
    world.keyspace.take_effects();
    world.seal();
}

/// A world with many keys, settled, and its dump.
fn filled() -> (World, Last) {
    let mut world = World::new(1, 60_000);
    let mut last: Last = Err(WholeReason::First);
    for number in 0..300_u32 {
        set(&mut world, &format!("key {number}"), &[b'v'; 300]);
    }
    set(&mut world, "chunks", &[b'c'; 60_000]);
    let db = world.keyspace.databases().next().unwrap();
    world.keyspace.begin_command(world.now_ms);
    _ = world.keyspace.update::<Hash, _>(db, b"hash", true, |hash| {
        (0..500).for_each(|number: u32| _ = hash.set(&number.to_le_bytes(), &[b'f'; 50]));
    });
    world.keyspace.take_effects();
    world.seal();
    world.settle();
    let made_of = dump(&mut world, &mut last, 1 << 20);
    assert_eq!((made_of.last_lsn, made_of.whole), (None, Some(WholeReason::First)));
    (world, last)
}

#[test]
fn only_what_has_changed_is_read_and_written_anew() {
    let (mut world, mut last) = filled();
    set(&mut world, "key 7", b"new");
    let db = world.keyspace.databases().next().unwrap();
    world.keyspace.begin_command(world.now_ms);
    _ = world.keyspace.delete(db, b"key 8");
    _ = world.keyspace.update::<Hash, _>(db, b"hash", false, |hash| {
        _ = hash.set(&3_u32.to_le_bytes(), b"changed");
        _ = hash.remove(&4_u32.to_le_bytes());
    });
    world.keyspace.take_effects();
    let last_lsn = last.as_ref().map(|last| last.lsn()).ok();
    let made_of = dump(&mut world, &mut last, 1 << 20);
    assert_eq!((made_of.last_lsn, made_of.changed_records), (last_lsn, 2), "{made_of:?}");
    assert!(made_of.copied_bytes > 10_000, "{made_of:?}");
    assert!(made_of.companion_bytes > 800 * 4 && made_of.companion_bytes < 800 * 8, "{made_of:?}");
}

#[test]
fn what_does_not_fit_is_not_used() {
    let reason = |change: &dyn Fn(&mut World, &mut WriteOptions)| {
        let (mut world, mut last) = filled();
        let mut options = WriteOptions::default();
        change(&mut world, &mut options);
        world.ask_for_mark();
        let marked = world.seal().pop().unwrap();
        let mut going = begin(&world, marked, 1 << 20, &last, options);
        run(&mut world, &mut going).unwrap();
        end(&world, going, &mut last).whole
    };
    assert_eq!(reason(&|_, _| {}), None);
    assert_eq!(reason(&|_, options| options.compress = false), None);
    let version = |options: &mut WriteOptions| options.version = Version::Redis(10);
    assert_eq!(reason(&|_, options| version(options)), Some(WholeReason::Version));
    let gone = |world: &mut World| world.disk.remove(Path::new(PATH)).unwrap();
    assert_eq!(reason(&|world, _| gone(world)), Some(WholeReason::Gone));
    assert_eq!(reason(&|world, _| write(world, b"REDIS")), Some(WholeReason::Replaced));
    let other = |world: &mut World| {
        let len = world.disk.open(Path::new(PATH), Access::Read).unwrap().len().unwrap();
        write(world, &vec![7; usize::try_from(len).unwrap()]);
    };
    assert_eq!(reason(&|world, _| other(world)), Some(WholeReason::Replaced));
    // Without a checksum nothing says whether it is whole.
    let (mut world, mut last) = filled();
    for expected in [None, Some(WholeReason::NoChecksum)] {
        world.ask_for_mark();
        let marked = world.seal().pop().unwrap();
        let options = WriteOptions { checksum: false, ..WriteOptions::default() };
        let mut going = begin(&world, marked, 1 << 20, &last, options);
        run(&mut world, &mut going).unwrap();
        let made_of = going.dump.made_of();
        let (bytes, new) = going.dump.finish(PathBuf::from(PATH)).unwrap();
        assert_eq!(made_of.whole, expected);
        write(&world, &bytes);
        last = Ok(Arc::new(new));
    }
    // A file of another log is not this one's.
    let (mut other, _) = filled();
    let mut going = begin_now(&mut other, &last, 1 << 20);
    run(&mut other, &mut going).unwrap();
    assert!(going.dump.made_of().whole.is_some());
}

#[test]
fn a_last_dump_that_is_damaged_is_found_and_never_becomes_a_new_one() {
    let (mut world, last) = filled();
    let len = world.disk.open(Path::new(PATH), Access::Read).unwrap().len().unwrap();
    set(&mut world, "key 7", b"new");
    let mut found = 0;
    // The last eight bytes are compared at once.
    for offset in (0..len - 8).step_by(173).chain(len - 20..len - 8) {
        assert!(world.disk.flip_bit(Path::new(PATH), offset, 3));
        let mut going = begin_now(&mut world, &last, 1 << 20);
        match run(&mut world, &mut going) {
            Err(Error::Last { path, why }) => {
                assert_eq!(path, Path::new(PATH));
                assert!(matches!(why, LastError::Sum | LastError::Unlike(_)), "{why}");
                found += 1;
            }
            other => panic!("byte {offset}: {other:?}"),
        }
        assert!(world.disk.flip_bit(Path::new(PATH), offset, 3));
    }
    assert!(found > 50, "{found}");
    let mut last = last;
    assert_eq!(dump(&mut world, &mut last, 1 << 20).whole, None, "it is sound again");
}

#[test]
fn keys_whose_values_are_lost_stay_so() {
    let (mut world, mut last) = filled();
    let db = world.keyspace.database_id(world.keyspace.databases().next().unwrap());
    let record = Record::whole(RecordKind::ValueLost, db, b"lost", &[1], None);
    world.log.get().declare(record.kind);
    let addr = world.log.get().append(&record);
    for expected in [1, 1, 0] {
        if expected == 0 {
            world.log.get().retire(addr);
        }
        let mut going = begin_now(&mut world, &last, 1 << 20);
        run(&mut world, &mut going).unwrap();
        assert_eq!(going.dump.figures().lost_keys, expected);
        assert_eq!(end(&world, going, &mut last).whole, None);
    }
}

#[test]
fn a_string_of_which_a_chunk_is_gone_is_not_copied() {
    let (mut world, mut last) = filled();
    let db = world.keyspace.database_id(world.keyspace.databases().next().unwrap());
    let (object, bytes) = (ObjectId(1 << 30), [b'v'; CHUNK_BYTES]);
    let string_bytes = crate::crafted::length(2 * CHUNK_BYTES);
    let kind = RecordKind::LargeString;
    let root = Record::root(kind, db, b"cut", object, &string_bytes, None);
    let subs = [0_u32, 1].map(u32::to_be_bytes);
    let chunks =
        subs.each_ref().map(|sub| Record::element(RecordKind::StringChunk, object, sub, &bytes));
    let [_, _, addr] = [root, chunks[0], chunks[1]].map(|record| {
        world.log.get().declare(record.kind);
        world.log.get().append(&record)
    });
    let mut going = begin_now(&mut world, &last, 1 << 20);
    run(&mut world, &mut going).unwrap();
    let (bytes, new) = going.dump.finish(PathBuf::from(PATH)).unwrap();
    write(&world, &bytes);
    last = Ok(Arc::new(new));
    // No command does so: without a new root or chunk the log has no such string any more.
    world.log.get().retire(addr);
    let mut going = begin_now(&mut world, &last, 1 << 20);
    let error = run(&mut world, &mut going).unwrap_err();
    // The next one is made without it, and says whether it is the log.
    assert!(matches!(error, dump::Error::Last { .. }), "{error}");
    assert!(format!("{error}").contains("too few elements"), "{error}");
    let mut going = begin_now(&mut world, &Err(WholeReason::Damaged), 1 << 20);
    let error = run(&mut world, &mut going).unwrap_err();
    assert!(matches!(error, dump::Error::Object { .. }), "{error}");
}
