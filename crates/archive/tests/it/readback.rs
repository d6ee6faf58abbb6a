//! A target that reads back what it has: what is said to be verified, and what becomes of damage.

use archive::State;
use base::Lsn;

use crate::world::World;

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
