//! One damage at a time to a small archive: found by the verifier, and never restored.

use std::path::{Component, Path, PathBuf};

use archive::{Folder, HEADER_BYTES, Header, NamedBlock, ObjectReader, Point, Target as _, verify};
use base::Lsn;
use env_sim::sweep::{Damage, Image, damages, exchanges, image_of};
use env_sim::{Faults, SimDisk};

use crate::tidy::Old;
use crate::world::{Coding, TARGET, World, contents_of, keyed, restore_into};

/// What a backup is called in each of these archives.
const NAME: &str = "before-4711";

/// How the servers were configured.
const CONFIGURATION: &str = "hz 37\nmaxmemory 1gb\n";

/// Has the archive know a backup of this block.
fn name_block(world: &mut World, lsn: u64) {
    let backup = NamedBlock { id: 17, name: NAME.to_owned(), lsn: Lsn(lsn) };
    world.desk.tell_backups(vec![backup]);
    (0..3).for_each(|_| world.archive());
    assert_eq!(world.list(Folder::Named).len(), 1);
}

/// All of an archive.
fn image(world: &World) -> Image {
    let database = archive::database_of(&world.target(), None).unwrap();
    let root = Path::new(TARGET).join(database.to_string());
    let folders = Folder::ALL.map(|folder| root.join(folder.name()));
    let folders: Vec<&Path> = folders.iter().map(PathBuf::as_path).collect();
    image_of(&world.target_disk, &folders)
}

/// A copy in two objects, and the log behind it in three, one of which is marked as damaged and is not.
fn small(coding: Coding) -> (World, Image) {
    let mut world = World::coded(2, coding);
    world.desk.tell_configuration(Lsn(1), CONFIGURATION.to_owned());
    for _ in 0..3 {
        world.write();
    }
    world.settle();
    for _ in 0..3 {
        world.write();
        world.settle();
    }
    let lsn = world.database.last() - 1;
    name_block(&mut world, lsn);
    let (target, marked) = (world.target(), *world.list(Folder::Log).last().unwrap());
    let database = archive::database_of(&target, None).unwrap();
    let mark = archive::Name::Damaged { piece: archive::Piece::of(&marked).unwrap() };
    target.put_new(database, &mark, &archive::Header::new(database, mark).encode()).unwrap();
    let image = image(&world);
    (world, image)
}

/// A copy, and what is needed of the hours behind it.
fn thinned_out(coding: Coding) -> (World, Image) {
    let mut old = Old::new(2, coding);
    old.hours(3);
    let lsn = old.world.database.last() - 1;
    name_block(&mut old.world, lsn);
    let tidied = old.tidy("forever:hour");
    assert!(tidied.leaps > 1 && tidied.objects_removed > 2, "{tidied:?}");
    let image = image(&old.world);
    (old.world, image)
}

fn folder_of(path: &Path) -> &str {
    let Some(Component::Normal(folder)) = path.components().rev().nth(1) else { return "" };
    folder.to_str().unwrap()
}

/// What of it nothing is made of: it is not missed, and what is left says less.
fn is_small(path: &Path) -> bool {
    ["writer", "begin", "tidier", "named", "damaged", "config"].contains(&folder_of(path))
}

/// What comes of reading a damaged archive: of everything, and restored, the newest state and the one with a name.
fn judge(world: &World, disk: &SimDisk, what: &str) -> bool {
    let keys = world.mood.lock().unwrap().coding.keys();
    let (archive, lsn) = (keyed(disk, keys), world.database.last());
    let database = archive::database_of(&world.target(), None).unwrap();
    let verified = verify(&archive, database, &mut |_, _| {}).unwrap();
    let last = verified.ranges.last().map(|range| range.last.0);
    let is_whole = verified.errors.is_empty() && last == Some(lsn);
    for point in [Point::Latest, Point::Backup(NAME.to_owned())] {
        let is_there =
            point == Point::Latest || archive.list(database, Folder::Named).unwrap().len() == 1;
        let new = SimDisk::new(3, Faults::default());
        match restore_into(&new, &archive, point) {
            Ok(restored) => {
                // A part that is lost at the end is no damage that can be seen; what is there is right.
                let (last, contents) = contents_of(&new);
                assert_eq!(restored.parent.lsn.0, last);
                assert_eq!(Some(&contents), world.states.get(&last), "{what}");
                let text = restored.configuration;
                assert!(text.is_none_or(|text| text == CONFIGURATION), "{what}");
            }
            Err(error) => assert!(!is_whole || !is_there, "{what}: {error}, and nothing was found"),
        }
    }
    is_whole
}

/// Damages some files of an archive, and each of these two by the other. Returns how many damages were found.
fn sweep(world: &World, image: &Image, of: impl Fn(&Path) -> bool, what: &str) -> usize {
    let swept: Image =
        image.iter().filter(|(path, _)| of(path)).map(|(p, b)| (p.clone(), b.clone())).collect();
    let mut found = 0;
    for damage in damages(&swept, 1).into_iter().chain(exchanges(&swept)) {
        let is_missed = !(matches!(damage, Damage::Lose { .. }) && is_small(damage.path()));
        let what = format!("{what}: {damage:?}");
        let is_whole = judge(world, &damage.on(image), &what);
        assert!(!is_whole || !is_missed, "{what} was not found");
        found += usize::from(!is_whole);
    }
    found
}

#[test]
fn every_byte_that_changes_is_found_and_never_restored() {
    for coding in Coding::ALL {
        let (world, image) = small(coding);
        let folders: Vec<&str> = image.keys().map(|path| folder_of(path)).collect();
        for folder in ["writer", "log", "base", "whole", "begin", "named", "damaged", "config"] {
            assert!(folders.contains(&folder), "{folders:?}");
        }
        let what = format!("{coding:?}");
        assert!(judge(&world, &env_sim::sweep::disk_of(&image), &what));
        let found = sweep(&world, &image, |_| true, &what);
        assert!(found > 3000, "{found}");
    }
}

/// Each object is what it was put as, and the second one goes on from a block that is not there.
#[test]
fn an_object_of_another_history_is_found_and_never_restored() {
    let (world, mut image) = small(Coding::Plain);
    let database = archive::database_of(&world.target(), None).unwrap();
    let name = world.list(Folder::Log)[1];
    let object = ObjectReader::open(&world.target(), database, name).unwrap();
    let header = object.header();
    let header = Header { before_crc: header.before_crc ^ 1, ..*header }.encode();
    let object = image.iter_mut().find(|(path, _)| path.ends_with(name.to_string()));
    let (_, bytes) = object.expect("it is there");
    bytes[..HEADER_BYTES].copy_from_slice(&header);
    assert!(!judge(&world, &env_sim::sweep::disk_of(&image), "another history"));
}

#[test]
fn every_byte_of_what_was_thinned_out_is_found_and_never_restored() {
    for coding in Coding::ALL {
        let (world, image) = thinned_out(coding);
        let what = format!("{coding:?}");
        assert!(judge(&world, &env_sim::sweep::disk_of(&image), &what));
        let is_swept = |path: &Path| ["thin", "tidier"].contains(&folder_of(path));
        assert!(image.keys().any(|path| folder_of(path) == "tidier"));
        let found = sweep(&world, &image, is_swept, &what);
        assert!(found > 1000, "{found}");
    }
}
