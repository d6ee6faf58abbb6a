//! Blocks by time, and before a FLUSHALL.

use std::path::Path;

use archive::{Error, Point};
use base::{DangerousCommand, DbId, Note, NoteEvent, Record, RecordKind};
use env_sim::{Faults, SimDisk};

use crate::world::{INTO, World, restore_into};

fn lsn_at(world: &World, point: Point) -> archive::Result<u64> {
    let disk = SimDisk::new(3, Faults::default());
    restore_into(&disk, &world.target(), point).map(|restored| restored.parent.lsn.0)
}

/// Writes a block a second, and ships all.
fn seconds(world: &mut World, count: usize) -> Vec<(u64, i64)> {
    let mut blocks = Vec::new();
    for _ in 0..count {
        world.write();
        let time_ms = env::Clock::now_ms(&*world.clock) - 1;
        blocks.push((world.database.last(), time_ms));
        world.database.flush();
        world.clock.advance_us(999_000);
        (0..3).for_each(|_| world.archive());
    }
    world.settle();
    blocks
}

#[test]
fn a_time_means_the_last_block_that_is_not_later() {
    let mut world = World::new(2);
    world.write();
    world.settle();
    let blocks = seconds(&mut world, 30);
    for pair in blocks.windows(2).step_by(4) {
        let [(lsn, time_ms), (next, next_ms)] = *pair else { unreachable!() };
        assert_eq!(lsn_at(&world, Point::Time(time_ms)).unwrap(), lsn);
        assert_eq!(lsn_at(&world, Point::Time(next_ms - 1)).unwrap(), lsn);
        assert_eq!(lsn_at(&world, Point::Time(next_ms)).unwrap(), next);
    }
    let last = blocks.last().unwrap();
    assert_eq!(lsn_at(&world, Point::Time(i64::MAX)).unwrap(), last.0);
    assert_eq!(lsn_at(&world, Point::Latest).unwrap(), last.0);
    let error = lsn_at(&world, Point::Time(5)).unwrap_err();
    assert!(matches!(error, Error::TooEarly { .. }), "{error}");
    let error = lsn_at(&world, Point::Lsn(last.0 + 1)).unwrap_err();
    assert!(matches!(error, Error::NotThere { before: Some(_), after: None, .. }), "{error}");
}

/// While the target is away blocks are compacted. Returns their times.
fn make_gap(world: &mut World) -> Vec<i64> {
    world.mood.lock().unwrap().is_away = true;
    let mut missing = Vec::new();
    for _ in 0..80 {
        world.write();
        missing.push(env::Clock::now_ms(&*world.clock));
        world.database.flush();
        world.clock.advance_us(999_000);
        world.archive();
    }
    world.database.log.compact_all();
    for _ in 0..400 {
        world.clock.advance_us(200_000);
        world.database.log.tick();
        world.database.compactor.step();
        world.database.flush();
    }
    missing
}

/// The machine is lost before the copy behind a gap is complete.
#[test]
fn the_latest_state_says_that_blocks_behind_it_are_cut_off() {
    let mut world = World::new(1);
    seconds(&mut world, 5);
    let latest = |world: &World| {
        let disk = SimDisk::new(3, Faults::default());
        restore_into(&disk, &world.target(), Point::Latest).unwrap()
    };
    let whole = latest(&world);
    assert_eq!((whole.parent.lsn.0, whole.cut_off), (world.database.last(), None));
    make_gap(&mut world);
    world.mood.lock().unwrap().is_away = false;
    let is_cut_off = |world: &World| {
        let picture = world.picture();
        picture.last > picture.ranges.last().map(|range| range.last)
    };
    let mut rounds = 0;
    while !is_cut_off(&world) {
        world.write();
        world.database.flush();
        world.clock.advance_us(100_000);
        world.database.log.tick();
        world.archive();
        rounds += 1;
        assert!(rounds < 1000, "{:?}", world.picture());
    }
    let now_ms = env::Clock::now_ms(&*world.clock);
    let (restored, last) = (latest(&world), world.picture().last.unwrap());
    assert_eq!(world.picture().ranges.len(), 1, "the copy is not complete");
    assert_eq!(restored.parent.lsn, world.picture().ranges[0].last);
    let (cut_off, time_ms) = restored.cut_off.unwrap();
    assert_eq!(cut_off, last);
    assert!((now_ms - 10_000..=now_ms).contains(&time_ms), "{time_ms}, {now_ms}");
    let error = lsn_at(&world, Point::Time(i64::MAX)).unwrap_err();
    assert!(
        matches!(error, Error::InGap { before, after: None, .. } if before == restored.parent.lsn),
        "{error}"
    );
    world.settle();
    let healed = latest(&world);
    assert_eq!((healed.parent.lsn.0, healed.cut_off), (world.database.last(), None));
}

/// While the target was away blocks were compacted: a time among them has no state.
#[test]
fn a_time_in_a_gap_is_refused_with_the_nearest_blocks() {
    let mut world = World::new(1);
    let before = seconds(&mut world, 5);
    let missing = make_gap(&mut world);
    let after = seconds(&mut world, 5);
    let picture = world.picture();
    assert!(picture.ranges.len() > 1, "there is no gap: {picture:?}");
    let range = &picture.ranges[0];
    let error = lsn_at(&world, Point::Time(missing[40])).unwrap_err();
    assert!(matches!(error, Error::InGap { before, .. } if before == range.last), "{error}");
    let error = lsn_at(&world, Point::Lsn(range.last.0 + 1)).unwrap_err();
    assert!(matches!(error, Error::NotThere { before: Some(_), after: Some(_), .. }), "{error}");
    assert_eq!(lsn_at(&world, Point::Time(before[2].1)).unwrap(), before[2].0);
    assert_eq!(lsn_at(&world, Point::Time(i64::MAX)).unwrap(), after[4].0);
    assert!(world.desk.figures().gaps > 0);
}

#[test]
fn before_the_last_flush_is_the_block_before_the_one_that_notes_it() {
    let mut world = World::new(2);
    world.write();
    world.settle();
    let mut before = Vec::new();
    for _ in 0..3 {
        seconds(&mut world, 3);
        before.push(world.database.last());
        // What loses nothing is no flush.
        for loses_data in [true, false] {
            let text = |text: &str| text.to_owned();
            let command = DangerousCommand {
                loses_data,
                user: text("default"),
                address: text("10.0.0.1:5"),
                text: text("\"FLUSHALL\""),
            };
            let note = Note { time_ms: 5, event: NoteEvent::Command(command) }.encode();
            let log = &mut world.database.log;
            log.declare(RecordKind::Note);
            let addr = log.append(&Record::whole(RecordKind::Note, DbId(0), b"", &note, None));
            log.retire(addr);
            world.seal();
        }
        world.database.flush();
    }
    world.settle();
    for (count, lsn) in before.iter().rev().enumerate() {
        assert_eq!(lsn_at(&world, Point::BeforeFlush(count + 1)).unwrap(), *lsn);
    }
    let error = lsn_at(&world, Point::BeforeFlush(4)).unwrap_err();
    assert!(matches!(error, Error::NoFlush { wanted: 4, known: 3 }), "{error}");
    // In what is missing there may have been another one.
    make_gap(&mut world);
    world.settle();
    let error = lsn_at(&world, Point::BeforeFlush(1)).unwrap_err();
    assert!(matches!(error, Error::FlushOrGap { lsn, .. } if lsn.0 == before[2]), "{error}");
}

/// Up to its copy a restored log has what was needed then, and behind it every block: a start must know which, to miss one.
#[test]
fn a_restored_log_says_from_where_on_none_of_its_blocks_may_be_missing() {
    let mut world = World::new(3);
    for _ in 0..8 {
        world.write();
        world.settle();
    }
    let new = SimDisk::new(3, Faults::default());
    let point = Point::Lsn(world.database.last());
    let restored = restore_into(&new, &world.target(), point).unwrap();
    assert!(restored.base < restored.parent.lsn, "{restored:?}");
    let manifest = redo::manifest::Manifest::read(&new, Path::new(INTO)).unwrap().unwrap();
    assert_eq!(manifest.horizon, restored.base);
}
