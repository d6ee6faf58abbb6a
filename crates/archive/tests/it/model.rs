//! Everything that an archive has is restored as it was, whatever happens meanwhile.

use archive::{ArchiveOptions, ArchiveStep, Folder, Name, State, Target};
use base::Lsn;
use env::Disk;
use env_sim::sweep::crash_everywhere;
use env_sim::{Faults, SimDisk};

use crate::points::make_gap;
use crate::world::{
    Coding, Database, World, archive_options, begin, contents_of, log_options, picture,
    restore_into, restored, target,
};

#[test]
fn every_block_of_an_archive_is_restored_as_it_was() {
    let (mut checked, mut gaps, mut fills) = (0, 0, 0);
    for seed in 0..16 {
        let mut world = World::coded(seed, Coding::of_seed(seed));
        for round in 0..4 {
            // Away for so long that what was not shipped is compacted.
            world.mood.lock().unwrap().is_away = round == 2;
            for _ in 0..400 {
                world.step();
            }
            world.mood.lock().unwrap().is_away = false;
            checked += world.check(9);
        }
        world.settle();
        checked += world.check(5);
        let figures = world.desk.figures();
        assert_eq!((figures.state, figures.lag_blocks, figures.lag_ms), (State::Streaming, 0, 0));
        (gaps, fills) = (gaps + figures.gaps, fills + figures.fills);
    }
    assert!(
        checked > 1000 && gaps > 5 && fills > 40,
        "{checked} checked, {gaps} gaps, {fills} fills"
    );
}

/// The log's machine loses power or its process dies; the target's machine loses power; answers are lost; the target is
/// away. What was told to be archived is.
#[test]
fn what_was_told_survives_everything_but_the_loss_of_the_target() {
    let (mut checked, mut told, mut restarts) = (0, 0, 0);
    for seed in 100..124 {
        let mut world = World::coded(seed, Coding::of_seed(seed));
        for round in 0..10 {
            world.mood.lock().unwrap().lost_percent = world.rng.below(3) * 15;
            world.mood.lock().unwrap().is_away = round % 4 == 3;
            for _ in 0..200 {
                world.step();
            }
            match world.rng.below(4) {
                0 => world.restart(true),
                1 => world.restart(false),
                2 => world.target_disk.crash(),
                _ => {}
            }
            restarts += 1;
        }
        checked += world.check(11);
        world.settle();
        checked += world.check(7);
        told += world.told.len();
    }
    assert!(checked > 800 && told > 800 && restarts > 200, "{checked} checked, {told} told");
}

/// An orderly end ships what is durable.
#[test]
fn an_archiver_that_is_told_to_end_ships_what_is_left() {
    let mut world = World::new(1);
    world.write();
    world.settle();
    for _ in 0..30 {
        world.write();
    }
    world.database.flush();
    world.desk.end(archive::Ending::Shipping);
    assert_eq!(world.archiver.step(), ArchiveStep::Finished);
    world.note_told();
    assert_eq!(world.desk.figures().archived.0, world.database.last());
    assert!(world.check(3) > 10);
}

#[test]
fn a_target_that_is_away_holds_nothing_up_and_is_caught_up_with() {
    let mut world = World::new(7);
    world.write();
    world.settle();
    world.mood.lock().unwrap().is_away = true;
    let puts = world.mood.lock().unwrap().puts;
    for _ in 0..300 {
        world.clock.advance_us(100_000);
        world.write();
        world.database.flush();
        world.archive();
    }
    let figures = world.desk.figures();
    assert_eq!(figures.state, State::Away);
    assert!(
        figures.last_error.as_ref().unwrap().contains("cannot reach the target"),
        "{figures:?}"
    );
    assert!(figures.lag_blocks > 250 && figures.lag_ms > 25_000, "{figures:?}");
    // Thirty seconds with pauses that double.
    let tried = world.mood.lock().unwrap().puts - puts;
    assert!((4..40).contains(&tried), "{tried} attempts");
    world.settle();
    assert_eq!(world.desk.figures().state, State::Streaming);
    world.check(20);
}

/// What is shipped while the first copy is made, or one behind a gap, leads nowhere yet: an archive is behind by all of that time.
#[test]
fn what_is_shipped_and_cannot_be_restored_yet_is_behind() {
    let mut world = World::new(2);
    (0..100).for_each(|_| world.write());
    let copying = |world: &mut World, state: State| {
        // So far that the copy is begun, and the stream behind its mark.
        for _ in 0..100 {
            if world.desk.figures().fill_done > 0 {
                break;
            }
            world.idle();
        }
        assert!(world.desk.figures().fill_done > 0, "{:?}", world.desk.figures());
        let last = world.desk.figures().archived;
        let before_ms = world.desk.figures().behind_ms;
        for seconds in [61, 122] {
            world.write();
            world.database.flush();
            world.clock.advance_us(61_000_000);
            // It is shipped first.
            world.archive();
            let figures = world.desk.figures();
            assert_eq!((figures.state, figures.archived), (state, last), "{figures:?}");
            assert_eq!((figures.lag_blocks, figures.lag_ms), (0, 0), "{figures:?}");
            assert!(figures.behind_ms >= before_ms + seconds * 1000, "{seconds}: {figures:?}");
            let now_us = env::Clock::monotonic_us(&*world.clock) + 5_000_000;
            let durable = Lsn(world.database.last());
            let later = world.desk.figures_at(now_us, durable);
            assert_eq!((later.lag_ms, later.behind_ms), (0, figures.behind_ms + 5000));
        }
        world.settle();
        assert_eq!(world.desk.figures().behind_ms, 0, "{:?}", world.desk.figures());
    };
    assert_eq!(world.desk.figures().behind_ms, 0);
    copying(&mut world, State::Filling);
    make_gap(&mut world);
    world.mood.lock().unwrap().is_away = false;
    world.clock.advance_us(60_000_000);
    for _ in 0..100 {
        if world.desk.figures().state == State::Gap {
            break;
        }
        world.archive();
    }
    assert!(world.desk.figures().behind_ms > 60_000, "{:?}", world.desk.figures());
    copying(&mut world, State::Gap);
}

/// Under load a segment may be compacted before the interval has passed.
#[test]
fn what_fills_an_object_is_shipped_before_the_interval_has_passed() {
    let mut world = World::new(2);
    world.desk.set_options(ArchiveOptions { interval_ms: 3_600_000, ..archive_options() });
    world.write();
    world.settle();
    let archived = |world: &World| world.desk.figures().archived.0;
    let before = archived(&world);
    world.database.set(b"small", b"value");
    world.seal();
    world.database.flush();
    (0..10).for_each(|_| world.archive());
    assert_eq!(archived(&world), before, "little waits for the interval");
    for _ in 0..3 {
        world.database.set(b"large", &[b'v'; 400]);
        world.seal();
        world.database.flush();
    }
    (0..10).for_each(|_| world.archive());
    assert_eq!(archived(&world), world.database.last());
    world.check(1);
}

/// Small objects become full ones, and go after a while; nothing is restorable less for it.
#[test]
fn small_objects_are_made_one() {
    let mut world = World::new(2);
    world.write();
    world.settle();
    for round in 0..150 {
        world.write();
        world.database.flush();
        world.clock.advance_us(20_000_000);
        (0..4).for_each(|_| world.archive());
        if round % 50 == 30 {
            world.check(1);
        }
        if round == 100 {
            world.restart(false);
            (0..4).for_each(|_| world.archive());
        }
    }
    world.clock.advance_us(700_000_000);
    (0..20).for_each(|_| world.archive());
    let database = archive::database_of(&world.target(), None).unwrap();
    let logs = world.target().list(database, Folder::Log).unwrap().len();
    assert!(logs * 2 < usize::try_from(world.database.last()).unwrap(), "{logs}");
    assert!(world.check(1) > 100);
}

/// A log that is always ahead of its archive: what is made one is no longer than an object is, and not all that was ever shipped.
#[test]
fn what_is_made_one_is_bounded_however_far_behind_the_archive_is() {
    let mut world = World::new(2);
    world.write();
    world.settle();
    for _ in 0..300 {
        world.write();
        world.database.flush();
        // Each time there is something to ship.
        world.clock.advance_us(100_000);
        world.archive();
    }
    world.settle();
    let database = archive::database_of(&world.target(), None).unwrap();
    let (mut longest, mut count) = (0, 0);
    for name in world.target().list(database, Folder::Log).unwrap() {
        longest = longest.max(world.target().open(database, &name).unwrap().bytes().unwrap());
        count += 1;
    }
    assert!(longest < 3 * 900, "{longest} bytes, of {count} objects");
    world.check(10);
}

/// A target that lets nothing be removed keeps all, and everything is archived all the same.
#[test]
fn what_must_not_be_removed_stays_and_holds_nothing_up() {
    let mut world = World::new(2);
    world.write();
    world.settle();
    world.mood.lock().unwrap().refuses_removals = true;
    for _ in 0..150 {
        world.write();
        world.database.flush();
        world.clock.advance_us(20_000_000);
        (0..4).for_each(|_| world.archive());
        assert_eq!(world.desk.figures().archived.0, world.database.last());
        assert_eq!(world.desk.figures().state, State::Streaming);
    }
    let refused = world.mood.lock().unwrap().removals_refused;
    assert!((2..10).contains(&refused), "{refused} were tried in fifty minutes");
    let figures = world.desk.figures();
    assert_eq!(figures.errors, refused);
    assert!(figures.last_error.unwrap().contains("cannot remove"));
    world.check(3);
}

/// What is older than it is to be kept goes, but for the copy before it and all that is behind.
#[test]
fn what_is_too_old_goes_and_the_rest_is_restorable() {
    let mut world = World::new(2);
    world.desk.set_options(ArchiveOptions { keep: "4h:all".parse().unwrap(), ..archive_options() });
    world.write();
    world.settle();
    for _ in 0..200 {
        world.write();
        world.database.flush();
        // Two minutes.
        world.clock.advance_us(120_000_000);
        world.database.log.tick();
        (0..6).for_each(|_| world.archive());
    }
    let figures = world.desk.figures();
    assert!(figures.fills > 3 && figures.errors == 0, "{figures:?}");
    let picture = world.picture();
    let first = picture.ranges[0].first;
    assert!(first.0 > 10, "the oldest is gone: {picture:?}");
    assert!(figures.restorable_from >= first);
    // The last four hours are all there, and more only up to a copy.
    assert!(picture.range_of(base::Lsn(world.database.last() - 110)).is_some());
    world.told.retain(|(from, _)| *from >= figures.restorable_from.0);
    assert!(world.check(3) > 40);
    let database = archive::database_of(&world.target(), None).unwrap();
    for folder in [Folder::Base, Folder::Log] {
        let names = world.target().list(database, folder).unwrap();
        let is_old = |name: &Name| match name {
            Name::Base { fill, .. } => fill.lsn < first,
            Name::Log { last, .. } => *last < first,
            _ => false,
        };
        assert!(!names.iter().any(is_old), "{first}: {names:?}");
    }
}

/// A wall clock that jumps must not make everything old.
#[test]
fn a_clock_that_was_set_forward_removes_nothing() {
    let mut world = World::new(2);
    world.desk.set_options(ArchiveOptions { keep: "2h:all".parse().unwrap(), ..archive_options() });
    world.write();
    world.settle();
    let first = world.picture().ranges[0].first;
    for _ in 0..60 {
        world.write();
        world.database.flush();
        world.clock.advance_us(60_000_000);
        world.database.log.tick();
        (0..6).for_each(|_| world.archive());
    }
    world.clock.jump_ms(86_400_000 * 365);
    for _ in 0..100 {
        world.clock.advance_us(60_000_000);
        (0..6).for_each(|_| world.archive());
    }
    assert_eq!(world.picture().ranges[0].first, first);
    assert!(world.check(9) > 5);
}

/// The archiver's disk dies at every single I/O of claim, fill, stream and end; what it had told is there, and the next one
/// goes on.
#[test]
fn an_archiver_may_be_cut_off_at_every_single_io() {
    let world = {
        let mut world = World::new(4);
        for _ in 0..12 {
            world.write();
            world.database.flush();
        }
        world
    };
    let start = SimDisk::new(8, Faults::default());
    start.create_dir_all(std::path::Path::new(crate::world::TARGET)).unwrap();
    let mut runs = 0;
    crash_everywhere(
        &start,
        |disk| {
            // A log is not changed by being archived: all runs have the same one.
            let database = &world.database;
            let mood = std::sync::Arc::default();
            let (mut archiver, desk) = begin(database, disk, &world.clock, &mood, 1);
            for _ in 0..40 {
                world.clock.advance_us(100_000);
                if desk.wants_mark() {
                    // Its bitmaps are copied by ticks, for which the log would have to be changed.
                    return (desk.figures(), false);
                }
                archiver.step();
            }
            (desk.figures(), true)
        },
        |disk, (figures, _)| {
            runs += 1;
            let picture = picture(&target(disk));
            assert!(figures.archived.0 == 0 || picture.chain(figures.archived).is_some());
        },
    );
    assert!(runs > 10, "{runs}");
}

/// As above, with fills: each run has a log of its own.
#[test]
fn fills_and_streams_may_be_cut_off_at_every_single_io() {
    let mut runs = 0;
    for n in (1..).step_by(2) {
        let mut world = World::new(5);
        for _ in 0..8 {
            world.write();
            world.database.flush();
        }
        world.target_disk.crash_after(n);
        for _ in 0..60 {
            world.clock.advance_us(100_000);
            if world.rng.below(8) == 0 {
                world.write();
                world.database.flush();
            }
            world.database.log.tick();
            world.archive();
        }
        let has_crashed = world.target_disk.is_crashed();
        world.target_disk.restart();
        world.check(4);
        world.settle();
        world.check(4);
        runs += 1;
        if !has_crashed {
            break;
        }
    }
    assert!(runs > 20, "{runs}");
}

/// However a restore ends, the directory has no log or all of it; and the next one succeeds.
#[test]
fn a_restore_may_be_cut_off_at_every_single_io() {
    let mut world = World::new(6);
    for _ in 0..20 {
        world.write();
        world.database.flush();
        world.database.log.tick();
        world.clock.advance_us(100_000);
        world.archive();
    }
    world.settle();
    let (lsn, archive) = (world.database.last(), world.target());
    let (mut anew, mut resumed) = (0, 0);
    let ios = crash_everywhere(
        &SimDisk::new(3, Faults::default()),
        |disk| restore_into(disk, &archive, archive::Point::Latest).is_ok(),
        |disk, is_done| {
            let into = std::path::Path::new(crate::world::INTO);
            if redo::is_there(disk, into) {
                let (last, contents) = contents_of(disk);
                assert_eq!((last, Some(&contents)), (lsn, world.states.get(&lsn)));
                return;
            }
            assert!(!is_done);
            let mut options = log_options(0);
            (options.dir, options.devices) = (into.to_owned(), Vec::new());
            if disk
                .list(&into.join("redo"))
                .is_ok_and(|names| names.iter().any(|it| it == "device"))
            {
                // On a copy, because a start leaves its lock's file.
                let opened = Database::open(&disk.fork(), &std::sync::Arc::default(), options, 1);
                assert!(opened.is_err(), "an unfinished restore must not be started");
            }
            let done = restore_into(disk, &archive, archive::Point::Latest).unwrap();
            *(if done.is_resumed { &mut resumed } else { &mut anew }) += 1;
            assert_eq!(Some(&contents_of(disk).1), world.states.get(&lsn));
        },
    );
    assert!(ios > 20, "{ios}");
    assert!(resumed > anew && anew > 5, "{resumed} went on, {anew} began anew");
    assert!(restored(&archive, lsn + 1).is_err());
}

/// A verifier reads while small objects are made one, and go.
#[test]
fn what_was_made_one_meanwhile_is_no_damage() {
    let mut world = World::new(2);
    world.write();
    world.settle();
    for _ in 0..12 {
        world.write();
        world.database.flush();
        world.clock.advance_us(1_000_000);
        (0..3).for_each(|_| world.archive());
    }
    let archive = world.target();
    let database = archive::database_of(&archive, None).unwrap();
    let mut logs = archive.list(database, Folder::Log).unwrap();
    let count = logs.len();
    let mut rounds = 0..200;
    let verified = archive::verify(&archive, database, &mut |_, _| {
        for _ in rounds.by_ref().take(10) {
            world.write();
            world.database.flush();
            world.clock.advance_us(200_000_000);
            (0..4).for_each(|_| world.archive());
        }
    });
    let verified = verified.unwrap();
    assert!(verified.errors.is_empty(), "{:?}", verified.errors);
    let there = archive.list(database, Folder::Log).unwrap();
    logs.retain(|name| there.contains(name));
    assert!(logs.len() < count, "some have gone meanwhile");
}
