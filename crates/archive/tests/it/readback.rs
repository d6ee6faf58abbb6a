//! A target that reads back what it has: what is said to be verified, and what becomes of damage.

use archive::{Folder, Name, State, Target};
use base::Lsn;

use crate::world::{World, made_one, until_made_one};

#[test]
fn what_is_said_to_be_verified_was_read_back() {
    let mut world = World::new(60);
    world.mood.lock().unwrap().unread = Some(3);
    for _ in 0..30 {
        world.write();
        world.settle();
        let figures = world.desk.figures();
        assert!(figures.verified < figures.archived, "{figures:?}");
    }
    assert!(world.desk.figures().verified > Lsn(0));
    world.mood.lock().unwrap().unread = Some(0);
    world.write();
    world.settle();
    let figures = world.desk.figures();
    assert_eq!(figures.verified, figures.archived);
    // Another process has not seen that.
    world.mood.lock().unwrap().unread = Some(1);
    world.restart(false);
    assert_eq!(world.desk.figures().verified, Lsn(0));
    for _ in 0..3 {
        world.write();
        world.settle();
    }
    assert!(world.desk.figures().verified > Lsn(0));
    world.check(3);
}

#[test]
fn what_is_read_back_as_something_else_ends_the_chain_and_a_new_copy_is_made() {
    let mut world = World::new(61);
    world.mood.lock().unwrap().unread = Some(0);
    (0..5).for_each(|_| world.write());
    world.settle();
    let before = world.desk.figures();
    assert_eq!((before.gaps, before.damaged), (0, 0));
    {
        let mut mood = world.mood.lock().unwrap();
        mood.damaged.push("log/1".to_owned());
        // The copy is not read back for now.
        mood.unread = Some(1000);
    }
    for _ in 0..1000 {
        world.clock.advance_us(200_000);
        world.write();
        world.database.flush();
        world.database.log.tick();
        world.database.log.poll();
        world.archive();
        if world.desk.figures().fills > before.fills {
            break;
        }
    }
    let figures = world.desk.figures();
    assert_eq!((figures.gaps, figures.damaged), (1, 1), "{figures:?}");
    assert!(figures.fills > before.fills && figures.restorable_from > before.archived);
    assert!(figures.last_error.unwrap().contains("log/1"));
    assert_eq!(figures.verified, before.verified, "nothing of the new copy was read back");
    world.mood.lock().unwrap().unread = Some(0);
    world.write();
    world.settle();
    let figures = world.desk.figures();
    assert_eq!((figures.state, figures.verified), (State::Streaming, figures.archived));
    world.check(1);
}

fn list(world: &World, folder: Folder) -> Vec<Name> {
    let database = archive::database_of(&world.target(), None).unwrap();
    world.target().list(database, folder).unwrap()
}

/// What was said to be read back is somewhere where it was.
#[test]
fn what_was_read_back_stays_until_what_takes_its_place_was_too() {
    let mut world = World::new(62);
    // The first one changes nothing.
    (0..3).for_each(|_| world.write());
    world.settle();
    // All but the last object that was put.
    world.mood.lock().unwrap().unread = Some(1);
    until_made_one(&mut world);
    let before = list(&world, Folder::Log);
    assert!(world.desk.figures().verified > Lsn(0));
    world.clock.advance_us(700_000_000);
    (0..20).for_each(|_| world.archive());
    assert_eq!(list(&world, Folder::Log), before);
    world.write();
    world.database.flush();
    world.clock.advance_us(1_000_000);
    (0..20).for_each(|_| world.archive());
    let after = list(&world, Folder::Log);
    assert!(made_one(&after).is_none() && after.len() < before.len(), "{after:?}");
    world.check(1);
}

/// What is damaged does not count as archived, nor does what is behind it.
#[test]
fn what_needs_what_is_damaged_is_not_said_to_be_archived() {
    let mut world = World::new(63);
    world.mood.lock().unwrap().unread = Some(0);
    for _ in 0..4 {
        world.write();
        world.settle();
    }
    let damaged = *list(&world, Folder::Log).last().unwrap();
    let Name::Log { first, .. } = damaged else { panic!("{damaged}") };
    world.mood.lock().unwrap().damaged.push(format!("database/{damaged}"));
    for _ in 0..100 {
        world.write();
        world.database.flush();
        world.clock.advance_us(200_000);
        world.archive();
        if world.desk.figures().damaged > 0 {
            break;
        }
    }
    let figures = world.desk.figures();
    assert_eq!((figures.damaged, figures.archived), (1, Lsn(first.0 - 1)), "{figures:?}");
    assert!(figures.verified <= figures.archived && figures.restorable_from <= figures.archived);
    world.settle();
    assert_eq!(world.desk.figures().archived.0, world.database.last());
    world.check(1);
}

/// A part of a copy that is being made is read back as something else: another copy is made.
#[test]
fn a_copy_that_has_something_damaged_is_not_made_to_its_end() {
    let mut world = World::new(64);
    world.mood.lock().unwrap().unread = Some(0);
    (0..30).for_each(|_| world.write());
    for _ in 0..1000 {
        world.clock.advance_us(200_000);
        world.database.flush();
        world.database.log.tick();
        world.archive();
        if !list_if_there(&world).is_empty() {
            break;
        }
    }
    let part = list_if_there(&world)[0];
    let Name::Base { fill, .. } = part else { panic!("{part}") };
    assert!(!world.picture().is_whole(&fill));
    world.mood.lock().unwrap().damaged.push(format!("database/{part}"));
    world.archive();
    world.settle();
    let figures = world.desk.figures();
    assert_eq!((figures.damaged, figures.state), (1, State::Streaming));
    assert!(!world.picture().is_whole(&fill), "{:?}", world.picture());
    (0..4).for_each(|_| world.archive());
    assert!(!list(&world, Folder::Base).contains(&part));
    world.check(1);
}

fn list_if_there(world: &World) -> Vec<Name> {
    match archive::database_of(&world.target(), None) {
        Ok(database) => world.target().list(database, Folder::Base).unwrap(),
        Err(_) => Vec::new(),
    }
}
