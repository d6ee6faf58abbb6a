//! Dumps of marks of a real log, while it goes on.

use std::cell::Cell;

use base::{DbId, Record, RecordKind};
use dump::{Dumper, Error, MarkDump, Step};
use env::Disk;
use keyspace::Expiry;
use keyspace::set::Set;
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use redo::Mark;

use crate::commands::{Op, op};
use crate::kept::Kept;
use crate::world::{Expected, World, devices};

#[derive(Debug, Clone)]
enum Event {
    Command(Op),
    /// Time passes; what expires is found by commands that follow.
    Time(i64),
    Seal,
    Work(u8),
    /// A mark, and the memory of its dump.
    Mark(usize),
    /// So many steps of each dump.
    Dump(u8),
}

fn event() -> impl Strategy<Value = Event> {
    let memory_bytes = prop_oneof![Just(1_usize), Just(20_000), Just(1 << 30)];
    prop_oneof![
        10 => op().prop_map(Event::Command),
        1 => (0..300_000_i64).prop_map(Event::Time),
        4 => Just(Event::Seal),
        12 => any::<u8>().prop_map(Event::Work),
        1 => memory_bytes.prop_map(Event::Mark),
        3 => (0..6_u8).prop_map(Event::Dump),
    ]
}

/// A dump and what it must be.
type Going = (MarkDump<Kept>, Expected);

fn dump_of(world: &World, mark: Mark, expected: &Expected, memory_bytes: usize) -> MarkDump<Kept> {
    let options = world.spill_options(memory_bytes);
    MarkDump::new(mark, Dumper::new(&expected.databases, Kept::default(), options))
}

/// Whether all of it is there.
fn step((dump, expected): &mut Going) -> Result<Step, Error> {
    let step = dump.step()?;
    if step == Step::Done {
        let (done, total) = dump.progress();
        assert_eq!(done, total, "all that was announced was read");
        assert_eq!(dump.figures().keys, expected.all.len() as u64);
    }
    Ok(step)
}

fn assert_same((dump, expected): Going) {
    let found = dump.into_target().all;
    assert!(found == expected.all, "{:?}\n{:?}", found.keys(), expected.all.keys());
}

/// Steps a dump to its end.
fn run(world: &mut World, mut going: Going) -> Result<Going, Error> {
    loop {
        match step(&mut going)? {
            Step::Waiting => world.settle(),
            Step::Worked => {}
            Step::Done => return Ok(going),
        }
    }
}

#[test]
fn a_dump_is_what_there_was_at_its_mark() {
    let (dumped, keys) = (Cell::new(0), Cell::new(0));
    let (compactions, kept_files, while_compacting) = (Cell::new(0), Cell::new(0), Cell::new(0));
    let mut runner = TestRunner::new(ProptestConfig::with_cases(150));
    let strategy = (1..3_usize, 1..4_u64, prop::collection::vec(event(), 50..300));
    let result = runner.run(&strategy, |(device_count, size, events)| {
        let mut world = World::new(device_count, size * 30_000);
        let (mut memory, mut going): (Vec<usize>, Vec<Going>) = (Vec::new(), Vec::new());
        let seal = |world: &mut World, memory: &mut Vec<usize>, going: &mut Vec<Going>| {
            for ((mark, expected), bytes) in world.seal().into_iter().zip(memory.drain(..)) {
                going.push((dump_of(world, mark, &expected, bytes), expected));
            }
        };
        for event in &events {
            match event {
                Event::Command(op) => world.apply(op),
                Event::Time(ms) => world.now_ms += ms,
                Event::Seal => seal(&mut world, &mut memory, &mut going),
                Event::Work(what) => world.work(*what),
                // With records that come later in its block.
                Event::Mark(bytes) => {
                    world.ask_for_mark();
                    memory.push(*bytes);
                    if !world.log.get().has_open_records() {
                        seal(&mut world, &mut memory, &mut going);
                    }
                }
                Event::Dump(count) => {
                    for _ in 0..*count {
                        going.iter_mut().for_each(|going| _ = step(going).unwrap());
                    }
                }
            }
            kept_files.set(kept_files.get().max(world.log.get().stats().marks.kept_files));
        }
        seal(&mut world, &mut memory, &mut going);
        let begun = |going: &&Going| going.0.progress().1 > 0;
        let before = world.log.get().stats().compactions;
        world.log.get().compact_all();
        world.settle();
        if world.log.get().stats().compactions > before {
            while_compacting.set(while_compacting.get() + going.iter().filter(begun).count());
        }
        for going in going {
            let going = run(&mut world, going).unwrap();
            dumped.set(dumped.get() + 1);
            keys.set(keys.get() + going.1.all.len());
            assert_same(going);
        }
        let left = world.disk.list(std::path::Path::new("/dumps")).unwrap();
        prop_assert!(left.is_empty(), "{left:?}");
        compactions.set(compactions.get() + world.log.get().stats().compactions);
        Ok(())
    });
    if let Err(error) = result {
        panic!("{error}\n{runner}");
    }
    let counts = [dumped.get(), keys.get(), kept_files.get(), while_compacting.get()];
    assert!(counts[0] > 300 && counts[1] > 1500 && counts[2] > 1 && counts[3] > 50, "{counts:?}");
    assert!(compactions.get() > 300, "{}", compactions.get());
}

/// A world with many keys, settled.
fn filled() -> World {
    let mut world = World::new(1, 30_000);
    let db = world.keyspace.database(0).unwrap();
    for number in 0..300_u32 {
        world.keyspace.begin_command(1_000_000);
        let key = format!("key {number}");
        _ = world.keyspace.set_string(db, key.as_bytes(), &[b'v'; 300], Expiry::Clear);
        _ = world.keyspace.update::<Set, _>(db, b"set", true, |set| {
            (0..20).for_each(|at: u32| _ = set.add(format!("member {number} {at}").as_bytes()));
        });
        world.keyspace.take_effects();
        world.seal();
    }
    world.settle();
    world
}

fn marked(world: &mut World) -> (Mark, Expected) {
    world.ask_for_mark();
    world.seal().pop().unwrap()
}

#[test]
fn lost_values_are_told_from_others() {
    let mut world = filled();
    let db = world.keyspace.database_id(world.keyspace.database(0).unwrap());
    let records = [
        Record::whole(RecordKind::ValueLost, db, b"lost", &[1], None),
        Record::whole(RecordKind::KeyLost, db, b"twelve bytes", &[0], None),
        Record::whole(RecordKind::ValueLost, DbId(1000), b"lost", &[1], None),
    ];
    for record in &records {
        world.log.get().declare(record.kind);
        world.log.get().append(record);
    }
    let (mark, expected) = marked(&mut world);
    let dump = dump_of(&world, mark, &expected, 1 << 20);
    let going = run(&mut world, (dump, expected)).unwrap();
    assert_eq!(going.0.figures().lost_keys, 2);
    assert_same(going);
}

#[test]
fn a_mark_that_is_never_made_ends_the_dump() {
    let mut world = filled();
    world.keyspace.begin_command(1_000_000);
    let db = world.keyspace.database(0).unwrap();
    _ = world.keyspace.set_string(db, b"more", b"value", Expiry::Clear);
    let mark = world.log.get().mark().unwrap();
    let expected = world.expected();
    let mut dump = dump_of(&world, mark, &expected, 1 << 20);
    assert!(matches!(dump.step(), Ok(Step::Waiting)));
    drop(world);
    match dump.step() {
        Err(error @ Error::GivenUp) => assert!(error.to_string().contains("closed"), "{error}"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_damaged_file_is_named() {
    let mut damaged = 0;
    for offset in (200..20_000).step_by(1700) {
        let mut world = filled();
        let (mark, expected) = marked(&mut world);
        world.settle();
        let device = devices(1).remove(0);
        let names = world.disk.list(&device).unwrap();
        let is_segment = |name: &&str| redo::segment::parse_file_name(name).is_some();
        let first = names.iter().filter_map(|name| name.to_str()).find(is_segment).unwrap();
        let path = device.join(first);
        assert!(world.disk.flip_bit(&path, offset, 3));
        let dump = dump_of(&world, mark, &expected, 1 << 20);
        match run(&mut world, (dump, expected)) {
            Err(Error::Log(redo::Error::File(redo::FileError::Corrupt {
                path: named,
                offset: at,
                ..
            }))) => {
                assert_eq!(named, path);
                assert!(at <= offset, "{at} of {offset}");
                damaged += 1;
            }
            Err(error) => panic!("byte {offset}: {error}"),
            // What is retired, or fills up, is not read.
            Ok(going) => assert_same(going),
        }
    }
    assert!(damaged > 5, "{damaged}");
}

#[test]
fn a_full_disk_ends_the_dump_and_nothing_is_left() {
    let mut world = filled();
    let (mark, expected) = marked(&mut world);
    world.settle();
    let used = world.disk.used_bytes();
    let capacity_bytes = Some(used + 50_000);
    world.disk.set_faults(env_sim::Faults { capacity_bytes, ..Default::default() });
    let dump = dump_of(&world, mark, &expected, 10_000);
    match run(&mut world, (dump, expected)) {
        Err(Error::Spill(error)) => {
            assert!(error.is_storage_full(), "{error}");
            assert!(error.to_string().contains("/dumps/dump.spill.0"), "{error}");
        }
        other => panic!("{:?}", other.map(|_| ())),
    }
    let dumps = std::path::Path::new("/dumps");
    assert!(world.disk.list(dumps).unwrap().is_empty());
    world.disk.sync_dir(dumps).unwrap();
    assert_eq!(world.disk.used_bytes(), used, "its bytes are free again");
    // With room, and another mark, all is well.
    world.disk.set_faults(env_sim::Faults::default());
    let (mark, expected) = marked(&mut world);
    let dump = dump_of(&world, mark, &expected, 10_000);
    assert_same(run(&mut world, (dump, expected)).unwrap());
}
