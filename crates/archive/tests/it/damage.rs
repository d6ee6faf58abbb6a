//! One damage at a time to a small archive: found by the verifier, and never restored.

use std::path::{Path, PathBuf};

use archive::{Point, verify};
use env_sim::sweep::{Image, damages, exchanges, image_of};
use env_sim::{Faults, SimDisk};

use crate::world::{Coding, TARGET, World, contents_of, keyed, restore_into};

/// A copy in two objects, and the log behind it in three.
fn small(coding: Coding) -> (World, Image) {
    let mut world = World::coded(2, coding);
    for _ in 0..3 {
        world.write();
    }
    world.settle();
    for _ in 0..3 {
        world.write();
        world.settle();
    }
    let database = archive::database_of(&world.target(), None).unwrap();
    let root = Path::new(TARGET).join(database.to_string());
    let folders = ["log", "base", "whole", "writer"].map(|folder| root.join(folder));
    let folders: Vec<&Path> = folders.iter().map(PathBuf::as_path).collect();
    let image = image_of(&world.target_disk, &folders);
    (world, image)
}

/// What comes of reading a damaged archive: of everything, and restored.
fn judge(world: &World, disk: &SimDisk, what: &str, is_claim: bool) -> bool {
    let keys = world.mood.lock().unwrap().coding.keys();
    let (archive, lsn) = (keyed(disk, keys), world.database.last());
    let database = archive::database_of(&world.target(), None).unwrap();
    let verified = verify(&archive, database, &mut |_, _| {}).unwrap();
    let last = verified.ranges.last().map(|range| range.last.0);
    let is_whole = verified.errors.is_empty() && last == Some(lsn);
    let new = SimDisk::new(3, Faults::default());
    match restore_into(&new, &archive, Point::Latest) {
        Ok(restored) => {
            // A part that is lost at the end is no damage that can be seen; what is there is right.
            let (last, contents) = contents_of(&new);
            assert_eq!(restored.parent.lsn.0, last);
            assert_eq!(Some(&contents), world.states.get(&last), "{what}");
        }
        Err(error) => assert!(!is_whole || is_claim, "{what}: {error}, and nothing was found"),
    }
    is_whole
}

#[test]
fn every_byte_that_changes_is_found_and_never_restored() {
    Coding::ALL.into_iter().for_each(damage_everything);
}

fn damage_everything(coding: Coding) {
    let (world, image) = small(coding);
    assert!(image.len() > 4, "{:?}", image.keys());
    assert!(judge(&world, &env_sim::sweep::disk_of(&image), "undamaged", false));
    let mut found = 0;
    for damage in damages(&image, 1).into_iter().chain(exchanges(&image)) {
        // A claim is its name; what is in it is for people.
        let is_claim = damage.path().components().any(|part| part.as_os_str() == "writer");
        let what = format!("{coding:?}: {damage:?}");
        let is_whole = judge(&world, &damage.on(&image), &what, is_claim);
        assert!(!is_whole || is_claim, "{what} was not found");
        found += usize::from(!is_whole);
    }
    assert!(found > 2000, "{found}");
}
