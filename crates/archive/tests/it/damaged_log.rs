//! A log that cannot be read, for a while or for good, and what becomes of the archive.

use archive::{Folder, Name, Target};
use env_sim::Faults;

use crate::world::World;

fn for_seconds(world: &mut World, seconds: u64) {
    for _ in 0..seconds {
        world.clock.advance_us(1_000_000);
        world.database.log.tick();
        world.archive();
    }
}

/// A disk that fails for some minutes costs no block.
#[test]
fn a_disk_that_fails_for_a_while_makes_no_gap() {
    let mut world = World::new(2);
    world.write();
    world.settle();
    let before = world.desk.figures();
    world.write();
    world.database.flush();
    let faults = Faults { read_error_per_million: 1_000_000, ..Faults::default() };
    world.disk.set_faults(faults);
    for_seconds(&mut world, 300);
    let figures = world.desk.figures();
    assert!(figures.errors > before.errors + 6, "{figures:?}");
    world.disk.set_faults(Faults::default());
    for_seconds(&mut world, 60);
    let figures = world.desk.figures();
    assert_eq!((figures.gaps, figures.fills), (0, before.fills), "{figures:?}");
    assert_eq!(figures.archived.0, world.database.last());
    world.check(1);
}

/// Copies that cannot be made to their end leave nothing, and are made less and less often.
#[test]
fn a_copy_that_can_never_be_made_does_not_fill_the_target() {
    let mut world = World::new(2);
    for number in 0..60 {
        // No other write replaces them.
        world.database.set(format!("stays-{number}").as_bytes(), &[b'v'; 90]);
        world.write();
    }
    (0..30).for_each(|_| world.write());
    world.database.flush();
    world.settle();
    let compaction = redo::CompactionOptions { enabled: false, ..Default::default() };
    world.database.log.set_compaction_options(compaction);
    // What the copy reads is damaged: files that have ended.
    let device = std::path::Path::new("/disk0");
    let names = env::Disk::list(&world.disk, device).unwrap();
    let mut files: Vec<_> =
        names.iter().filter(|name| name.to_string_lossy().ends_with(".redo")).collect();
    files.sort();
    // Not the first one: some of the copy is there by then.
    let path = device.join(files[3]);
    assert!(files.len() > 4, "{files:?}");
    assert!(world.disk.flip_bit(&path, 200, 3));
    let before = world.desk.figures();
    for _ in 0..300 {
        (0..3).for_each(|_| world.write());
        world.database.flush();
        for_seconds(&mut world, 12);
    }
    let figures = world.desk.figures();
    let failures = figures.errors - before.errors;
    assert!((3..40).contains(&failures), "{failures}: {:?}", figures.last_error);
    let database = archive::database_of(&world.target(), None).unwrap();
    let base = world.target().list(database, Folder::Base).unwrap();
    let whole = world.picture();
    let is_whole = |name: &Name| match name {
        Name::Base { fill, .. } => whole.is_whole(fill),
        _ => true,
    };
    assert!(base.iter().all(is_whole), "{base:?}");
}
