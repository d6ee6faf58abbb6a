//! What was found to be damaged: it stays known, whatever process comes next, and nothing goes because of it.

use archive::{Error, Folder, Name, Piece, Point, State, Target};
use base::Lsn;
use env_sim::{Faults, SimDisk};

use crate::tidy::{KEEP, Old};
use crate::world::{Coding, World, restore_into, restored, until_made_one};

fn mark_of(name: &Name) -> Name {
    Name::Damaged { piece: Piece::of(name).unwrap() }
}

fn put_mark(world: &World, name: &Name) {
    let (target, mark) = (world.target(), mark_of(name));
    let database = archive::database_of(&target, None).unwrap();
    target.put_new(database, &mark, b"").unwrap();
}

/// The target tells that this is not what was put. Returns when that was heard.
fn tell(world: &mut World, damaged: &Name) {
    let before = world.desk.figures().damaged;
    world.mood.lock().unwrap().damaged.push(format!("database/{damaged}"));
    for _ in 0..100 {
        world.write();
        world.database.flush();
        world.clock.advance_us(200_000);
        world.archive();
        if world.desk.figures().damaged > before {
            return;
        }
    }
    panic!("{damaged} was not heard of");
}

/// The process that was told of it is gone before there is another copy.
#[test]
fn what_was_found_damaged_is_known_to_the_next_process() {
    for folder in [Folder::Base, Folder::Log] {
        let mut world = World::new(65);
        world.mood.lock().unwrap().unread = Some(0);
        for _ in 0..4 {
            world.write();
            world.settle();
        }
        let damaged = *world.list(folder).last().unwrap();
        let end = match damaged {
            Name::Log { first, .. } => Lsn(first.0 - 1),
            _ => Lsn(0),
        };
        world.damage(&damaged, false);
        tell(&mut world, &damaged);
        world.archive();
        assert_eq!(world.list(Folder::Damaged), [mark_of(&damaged)]);
        world.told.clear();
        for start in 0..2 {
            world.restart(false);
            world.archive();
            let figures = world.desk.figures();
            let said = (figures.state, figures.archived, figures.verified);
            assert_eq!(said, (State::Gap, end, Lsn(0)), "{damaged}, {start}");
        }
        world.settle();
        let figures = world.desk.figures();
        assert_eq!((figures.state, figures.fills), (State::Streaming, 1), "{damaged}");
        assert!(figures.restorable_from > end && figures.archived.0 == world.database.last());
        world.check(1);
        // The one after that finds a chain that is good, and makes no copy.
        world.restart(false);
        world.archive();
        assert_eq!(world.desk.figures().restorable_from, figures.restorable_from);
        world.write();
        world.settle();
        assert_eq!((world.desk.figures().gaps, world.desk.figures().fills), (0, 0), "{damaged}");
        world.check(1);
    }
}

/// The header of what ends the archive is damaged: there is nothing to compare with the log, and a new copy is made.
#[test]
fn a_start_that_finds_damage_marks_it_and_makes_a_copy() {
    for folder in [Folder::Whole, Folder::Log] {
        let mut world = World::new(67);
        for _ in 0..4 {
            world.write();
            world.settle();
        }
        let damaged = *world.list(folder).last().unwrap();
        world.damage(&damaged, true);
        world.told.clear();
        world.restart(false);
        (0..3).for_each(|_| world.archive());
        assert_eq!(world.list(Folder::Damaged), [mark_of(&damaged)]);
        assert_ne!(world.desk.figures().state, State::Streaming);
        // Nothing is written meanwhile.
        let last = world.database.last();
        (0..20).for_each(|_| world.idle());
        let figures = world.desk.figures();
        assert_eq!((figures.state, figures.archived), (State::Streaming, Lsn(last)), "{damaged}");
        let disk = SimDisk::new(3, Faults::default());
        let found = restore_into(&disk, &world.target(), Point::Latest).unwrap();
        assert_eq!((found.parent.lsn, found.base, found.cut_off), (Lsn(last), Lsn(last), None));
        for _ in 0..2 {
            world.check(1);
            world.restart(false);
            world.write();
            world.settle();
        }
        assert_eq!(world.desk.figures().state, State::Streaming);
        world.check(1);
    }
}

/// Without a block behind it there is only the copy, of which all objects count.
#[test]
fn an_idle_server_replaces_a_copy_that_is_all_there_is() {
    for is_damaged in [false, true] {
        let mut world = World::new(71);
        world.write();
        world.database.flush();
        (0..20).for_each(|_| world.idle());
        assert_eq!((world.list(Folder::Log), world.desk.figures().fills), (Vec::new(), 1));
        let last = Lsn(world.database.last());
        let part = world.list(Folder::Base)[0];
        if is_damaged {
            world.damage(&part, false);
        }
        put_mark(&world, &part);
        world.told.clear();
        world.restart(false);
        (0..20).for_each(|_| world.idle());
        let figures = world.desk.figures();
        let said = (figures.fills, figures.archived);
        // What can be read may be what another history goes on from.
        assert_eq!(said, if is_damaged { (1, last) } else { (0, Lsn(0)) });
        world.write();
        world.settle();
        assert_eq!(world.desk.figures().state, State::Streaming);
        world.check(1);
    }
}

/// The version of the format is damaged like everything else: no newer program has written it.
#[test]
fn a_version_that_is_damaged_is_gone_round() {
    for at in [8, 9, 11] {
        let mut world = World::new(73);
        for _ in 0..4 {
            world.write();
            world.settle();
        }
        let damaged = *world.list(Folder::Log).last().unwrap();
        let Name::Log { first, .. } = damaged else { panic!("{damaged}") };
        world.damage_at(&damaged, at);
        let disk = SimDisk::new(3, Faults::default());
        let found = restore_into(&disk, &world.target(), Point::Latest).unwrap();
        assert_eq!(found.parent.lsn, Lsn(first.0 - 1), "{at}");
        world.told.clear();
        world.restart(false);
        (0..20).for_each(|_| world.idle());
        assert_eq!(world.desk.figures().state, State::Streaming, "{at}");
        world.check(1);
    }
}

/// The blocks that a follower is given from one on, how often it begins, and where it ends.
fn followed(
    world: &World,
    from: Option<u64>,
) -> (Vec<u64>, usize, archive::Result<archive::FollowedTo>) {
    let target = world.target();
    let database = archive::database_of(&target, None).unwrap();
    let (mut blocks, mut begins) = (Vec::new(), 0);
    let end = archive::follow(&target, database, from.map(Lsn), &mut |followed| {
        match followed {
            archive::Followed::Begin => begins += 1,
            archive::Followed::Before(_) => {}
            archive::Followed::Block(block) => blocks.push(block.header.lsn.0),
        }
        Ok::<_, Error>(())
    });
    (blocks, begins, end)
}

/// What is marked is read all the same, and what is damaged is where it ends.
#[test]
fn a_follower_leaves_out_what_is_damaged_and_not_what_is_said_to_be() {
    let mut world = World::new(74);
    for _ in 0..6 {
        world.write();
        world.settle();
    }
    let logs = world.list(Folder::Log);
    let Name::Log { first: from, .. } = logs[0] else { panic!("{}", logs[0]) };
    let Name::Log { first, last, .. } = *logs.last().unwrap() else { panic!("{logs:?}") };
    let all: Vec<u64> = (from.0..=last.0).collect();
    put_mark(&world, logs.last().unwrap());
    let (blocks, begins, end) = followed(&world, Some(from.0));
    assert_eq!((blocks, begins, end.unwrap().last), (all.clone(), 1, last));
    let (blocks, _, end) = followed(&world, None);
    assert_eq!((blocks, end.unwrap().last), (Vec::new(), last), "behind what is marked");
    world.damage(logs.last().unwrap(), false);
    let (blocks, _, end) = followed(&world, Some(from.0));
    assert!(blocks.starts_with(&all[..usize::try_from(first.0 - from.0).unwrap()]));
    assert!(matches!(end, Err(Error::Damaged { name, .. }) if name == *logs.last().unwrap()));
    // A new copy is a gap that is told.
    world.write();
    world.database.flush();
    world.restart(false);
    (0..20).for_each(|_| world.idle());
    let (blocks, _, end) = followed(&world, Some(from.0));
    assert!(blocks.starts_with(&all[..usize::try_from(first.0 - from.0).unwrap()]));
    assert_eq!(end.unwrap().behind_gap, Some(Lsn(world.database.last() + 1)));
}

/// The list of what there is fails just when damage was found: it is asked for again, and nothing is copied that need not be.
#[test]
fn damage_of_what_is_not_needed_takes_no_copy_while_the_target_is_away() {
    for hides in [false, true] {
        let mut old = Old::new(49, Coding::Plain);
        old.hours(30);
        let keep = "30m:all 1h:hour";
        let (part, _) = base_of(&old, keep).unwrap();
        let Name::Base { fill, .. } = part else { panic!("{part}") };
        let newest = |old: &Old| old.picture().ranges.last().unwrap().fills.last().unwrap().0;
        while newest(&old) == fill {
            old.hours(1);
        }
        old.world.settle();
        let fills = old.world.desk.figures().fills;
        old.world.damage(&part, false);
        let options = archive::ArchiveOptions {
            keep: keep.parse().unwrap(),
            ..crate::world::archive_options()
        };
        old.world.desk.set_options(options);
        for _ in 0..200 {
            old.world.clock.advance_us(60_000_000);
            if hides && !old.world.list(Folder::Damaged).is_empty() {
                old.world.mood.lock().unwrap().is_away = true;
                (0..3).for_each(|_| _ = old.world.archiver.step());
                old.world.mood.lock().unwrap().is_away = false;
            }
            _ = old.world.archiver.step();
        }
        assert_eq!(old.world.list(Folder::Damaged), [mark_of(&part)]);
        old.world.settle();
        assert_eq!(old.world.desk.figures().fills, fills, "{hides}");
    }
}

/// As where another user owns that folder.
#[test]
fn a_mark_that_is_refused_holds_nothing_up() {
    let mut world = World::new(68);
    world.mood.lock().unwrap().unread = Some(0);
    for _ in 0..4 {
        world.write();
        world.settle();
    }
    world.mood.lock().unwrap().refuses_marks = true;
    let damaged = *world.list(Folder::Base).last().unwrap();
    tell(&mut world, &damaged);
    world.settle();
    let figures = world.desk.figures();
    assert_eq!((figures.state, figures.fills), (State::Streaming, 2), "{figures:?}");
    assert_eq!(figures.archived.0, world.database.last());
    assert_eq!(world.list(Folder::Damaged), []);
    // It is tried again later.
    world.mood.lock().unwrap().refuses_marks = false;
    world.clock.advance_us(600_000_000);
    world.archive();
    assert_eq!(world.list(Folder::Damaged), [mark_of(&damaged)]);
}

/// No claim can follow it: then nothing is thinned out, and what is new is archived.
#[test]
fn a_claim_that_none_can_follow_holds_nothing_up() {
    let mut world = World::new(69);
    world.write();
    world.settle();
    let target = world.target();
    let database = archive::database_of(&target, None).unwrap();
    let claim = Name::Tidier { number: 9_999_999_999 };
    target.put_new(database, &claim, b"").unwrap();
    let keep = "1h:all".parse().unwrap();
    world.desk.set_options(archive::ArchiveOptions { keep, ..crate::world::archive_options() });
    for _ in 0..4 {
        world.write();
        world.settle();
    }
    let figures = world.desk.figures();
    assert_eq!(figures.archived.0, world.database.last(), "{figures:?}");
    assert!((1..5).contains(&figures.errors), "{figures:?}");
}

#[test]
fn a_second_damage_has_nothing_fall_back_over_the_first() {
    let mut world = World::new(66);
    world.mood.lock().unwrap().unread = Some(0);
    let mut from = Lsn(0);
    for folder in [Folder::Base, Folder::Log] {
        for _ in 0..4 {
            world.write();
            world.settle();
        }
        let damaged = *world.list(folder).last().unwrap();
        tell(&mut world, &damaged);
        let figures = world.desk.figures();
        assert!(figures.archived >= figures.restorable_from, "{damaged}: {figures:?}");
        assert!(figures.restorable_from >= from, "{damaged}: {figures:?} before {from}");
        // The new copy is of the last block that was shipped: by names alone nothing is missing.
        world.settle();
        from = world.desk.figures().restorable_from;
    }
}

/// Small objects are all that there is of their blocks when what they were made one of is damaged.
#[test]
fn what_a_damaged_object_has_taken_the_place_of_stays_at_a_start_and_is_restored() {
    let mut world = World::new(62);
    (0..3).for_each(|_| world.write());
    world.settle();
    let full = until_made_one(&mut world);
    let before = world.list(Folder::Log);
    world.damage(&full, false);
    // Nothing knows it yet: a restore goes round it.
    world.check(1);
    world.restart(false);
    (0..3).for_each(|_| world.archive());
    assert_eq!(world.list(Folder::Log), before);
    assert_eq!(world.list(Folder::Damaged), [mark_of(&full)]);
    assert_eq!(world.desk.figures().state, State::Streaming, "they lead to the same");
    world.write();
    world.settle();
    world.check(1);
}

#[test]
fn what_was_made_one_stays_when_that_is_told_to_be_damaged() {
    let mut world = World::new(62);
    world.mood.lock().unwrap().unread = Some(0);
    (0..3).for_each(|_| world.write());
    world.settle();
    let full = until_made_one(&mut world);
    let before = world.list(Folder::Log);
    world.damage(&full, false);
    tell(&mut world, &full);
    world.clock.advance_us(700_000_000);
    (0..20).for_each(|_| world.archive());
    let after = world.list(Folder::Log);
    assert!(before.iter().all(|name| after.contains(name)), "{before:?}, {after:?}");
    world.settle();
    world.restart(false);
    world.settle();
    world.check(1);
}

/// What is marked may be good: removed by a third machine and put back, or marked by something that has the token.
#[test]
fn a_mark_takes_nothing_away() {
    let mut world = World::new(68);
    for _ in 0..6 {
        world.write();
        world.settle();
    }
    let latest = |world: &World| {
        let disk = SimDisk::new(3, Faults::default());
        restore_into(&disk, &world.target(), Point::Latest).unwrap()
    };
    let last = world.desk.figures().archived;
    assert_eq!((latest(&world).parent.lsn, latest(&world).cut_off), (last, None));
    let logs = world.list(Folder::Log);
    put_mark(&world, &logs[1]);
    let Name::Log { first, last: end, .. } = logs[1] else { panic!("{}", logs[1]) };
    assert!(world.picture().chain(end).is_none(), "it is not said to be restorable");
    for lsn in [first, end, last] {
        let found = restored(&world.target(), lsn.0).unwrap();
        assert_eq!(Some(&found), world.states.get(&lsn.0));
    }
    // Nor is an older state taken for the newest one.
    let found = latest(&world);
    assert_eq!((found.parent.lsn, found.cut_off), (last, None));
    // It is damaged after all: then it is, and that is said.
    world.damage(&logs[1], false);
    let found = latest(&world);
    assert_eq!(found.parent.lsn, Lsn(first.0 - 1));
    assert_eq!(found.cut_off.map(|(lsn, _)| lsn), Some(last));
    let error = restored(&world.target(), last.0).unwrap_err();
    assert!(matches!(error, Error::Damaged { name, .. } if name == logs[1]), "{error}");
}

/// The newest state is the newest one that can be restored, whether anything is known to be damaged or not; which one it is not is said.
#[test]
fn the_newest_state_is_restored_without_what_is_damaged() {
    for is_marked in [false, true] {
        for (folder, is_header) in
            [(Folder::Log, false), (Folder::Log, true), (Folder::Base, false)]
        {
            let mut world = World::new(68);
            for _ in 0..6 {
                world.write();
                world.settle();
            }
            let (first_copy, last) = (world.desk.figures().restorable_from, world.database.last());
            world.desk.set_options(archive::ArchiveOptions {
                base_bytes_min: 0,
                ..crate::world::archive_options()
            });
            while folder == Folder::Base && world.desk.figures().fills < 2 {
                world.write();
                world.settle();
            }
            let damaged = *world.list(folder).last().unwrap();
            world.damage(&damaged, is_header);
            if is_marked {
                put_mark(&world, &damaged);
            }
            let disk = SimDisk::new(3, Faults::default());
            let found = restore_into(&disk, &world.target(), Point::Latest).unwrap();
            let (at, contents) = crate::world::contents_of(&disk);
            assert_eq!(Some(&contents), world.states.get(&at), "{damaged}, {is_marked}");
            match damaged {
                Name::Log { first, .. } => {
                    assert_eq!(found.parent.lsn, Lsn(first.0 - 1), "{damaged}, {is_marked}");
                    assert_eq!(found.cut_off.map(|(lsn, _)| lsn), Some(Lsn(last)));
                }
                // Another copy leads to the same.
                _ => {
                    assert_eq!((found.parent.lsn.0, found.cut_off), (world.database.last(), None));
                    assert_eq!(found.base, first_copy);
                }
            }
        }
    }
}

/// The copy that what is kept begins with, if that is not the first one; and the blocks that are kept by the rules.
fn base_of(old: &Old, keep: &str) -> Option<(Name, Vec<Lsn>)> {
    let target = old.world.target();
    let mut tidier = old.tidier(keep, 0, 9);
    let planned = tidier.plan(&target, &*old.world.clock).unwrap().clone();
    let base = planned.kept.first().unwrap().lsn;
    assert!(old.picture().ranges[0].first < base, "there is a copy before it");
    let parts = old.world.list(Folder::Base).into_iter();
    let mut parts =
        parts.filter(|name| matches!(name, Name::Base { fill, .. } if fill.lsn == base));
    // It is to be made otherwise.
    let part = parts.next().filter(|_| planned.copies == 0)?;
    Some((part, planned.kept.iter().map(|kept| kept.lsn).collect()))
}

/// A tidier begins what is kept with a copy, and removes what leads to that.
#[test]
fn what_leads_to_a_copy_stays_if_that_is_damaged() {
    for is_marked in [true, false] {
        let mut old = Old::new(40, Coding::Plain);
        old.hours(40);
        let keep = "2h:all 10h:hour";
        let (part, kept) = base_of(&old, keep).unwrap();
        old.world.damage(&part, false);
        if is_marked {
            put_mark(&old.world, &part);
        }
        let tidied = old.tidy(keep);
        let damaged: Vec<Piece> = tidied.damaged.iter().copied().collect();
        assert_eq!(damaged, [Piece::of(&part).unwrap()], "{is_marked}");
        for _ in 0..2 {
            for lsn in &kept {
                let found = restored(&old.world.target(), lsn.0).unwrap();
                assert_eq!(Some(&found), old.world.states.get(&lsn.0), "{is_marked}: {lsn}");
            }
            // Nor does the next one forget it, as long as it is there.
            old.tidy(keep);
            let is_there = old.world.list(Folder::Base).contains(&part);
            assert_eq!(old.world.list(Folder::Damaged).len(), usize::from(is_there));
        }
    }
}

/// A mark of something that is not there any more goes when it is old.
#[test]
fn marks_of_what_is_gone_go() {
    let mut old = Old::new(48, Coding::Plain);
    old.hours(30);
    let log = old.world.list(Folder::Log)[3];
    put_mark(&old.world, &log);
    old.world
        .target()
        .remove(archive::database_of(&old.world.target(), None).unwrap(), &log)
        .unwrap();
    old.tidy(KEEP);
    assert_eq!(old.world.list(Folder::Damaged), []);
}

/// The archiver's own tidier finds that the newest copy cannot be read: another one is made.
#[test]
fn what_the_servers_own_tidier_finds_damaged_is_replaced_by_a_new_copy() {
    let mut old = Old::new(49, Coding::Plain);
    old.hours(30);
    let keep = "30m:all 1h:hour";
    let newest = |old: &Old| old.picture().ranges.last().unwrap().fills.last().unwrap().0;
    let part = (0..40).find_map(|_| {
        old.hours(1);
        let (part, _) = base_of(&old, keep)?;
        let is_newest = matches!(part, Name::Base { fill, .. } if fill == newest(&old));
        is_newest.then_some(part)
    });
    let part = part.expect("the newest copy is older than what is kept");
    old.world.damage(&part, false);
    let options =
        archive::ArchiveOptions { keep: keep.parse().unwrap(), ..crate::world::archive_options() };
    let before = old.world.desk.figures();
    old.world.desk.set_options(options);
    old.world.told.clear();
    for _ in 0..200 {
        old.world.clock.advance_us(60_000_000);
        (0..6).for_each(|_| _ = old.world.archiver.step());
        if !old.world.list(Folder::Damaged).is_empty() {
            break;
        }
    }
    assert_eq!(old.world.list(Folder::Damaged), [mark_of(&part)]);
    (0..3).for_each(|_| _ = old.world.archiver.step());
    assert_ne!(old.world.desk.figures().restorable_from, before.restorable_from);
    old.world.settle();
    let Name::Base { fill, .. } = part else { panic!("{part}") };
    old.world.write();
    old.world.settle();
    // What was shipped behind a copy before it leads to the newest state, too, as long as it is there.
    let chain = old.picture().chain(old.world.desk.figures().archived).unwrap();
    assert_ne!(chain.fill, fill);
    let lsn = old.world.desk.figures().archived.0;
    assert_eq!(Some(&restored(&old.world.target(), lsn).unwrap()), old.world.states.get(&lsn));
}
