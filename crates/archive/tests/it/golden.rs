//! The format byte by byte: `fixtures/v1` has archives that are written anew, read and compared.

use std::path::{Path, PathBuf};

use archive::{Folder, Header, Name, NamedBlock, Piece, Target as _};
use base::Lsn;
use env::{Access, Disk};
use env_sim::sweep::{Image, disk_of, image_of};

use crate::tidy::Old;
use crate::world::{Coding, World, contents_of, keyed, restore_into};

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/v1")
}

fn hex(bytes: &[u8]) -> String {
    let line =
        |line: &[u8]| line.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(" ");
    bytes.chunks(16).map(|bytes| line(bytes) + "\n").collect()
}

fn bytes(hex: &str) -> Vec<u8> {
    hex.split_whitespace().map(|byte| u8::from_str_radix(byte, 16).unwrap()).collect()
}

/// The objects in these folders.
fn files_of(world: &World, folders: &[Folder]) -> Vec<(PathBuf, Vec<u8>)> {
    let database = archive::database_of(&world.target(), None).unwrap();
    let root = Path::new(crate::world::TARGET).join(database.to_string());
    let image = |folder: &Folder| image_of(&world.target_disk, &[&root.join(folder.name())]);
    folders.iter().flat_map(image).collect()
}

/// An archive with one copy and one object of the log.
fn written(coding: Coding) -> (World, Vec<(PathBuf, Vec<u8>)>) {
    let mut world = World::coded(2, coding);
    // The fixtures are of a program that gave copies the time at which it began to read their marks.
    world.late_ms = 200;
    world.database.set(b"before", b"the copy");
    world.seal();
    world.settle();
    match coding {
        Coding::Plain => world.database.set(b"after", b"it"),
        _ => world.database.set(b"after", &b"it and again ".repeat(40)),
    }
    world.database.delete(b"before");
    world.seal();
    world.settle();
    let files = files_of(&world, &[Folder::Base, Folder::Log, Folder::Whole, Folder::Writer]);
    (world, files)
}

/// An archive that was thinned out, with the name of a backup, and a mark of damage for each kind of what can be marked.
fn thinned_out(coding: Coding) -> (World, Vec<(PathBuf, Vec<u8>)>) {
    let mut old = Old::new(2, coding);
    old.world.desk.tell_configuration(Lsn(2), "hz 37\n".to_owned());
    for value in [b"one", b"two"] {
        old.world.database.set(b"key", value);
        old.world.seal();
        old.world.settle();
        old.world.clock.advance_us(3_600_000_000);
    }
    old.world.database.set(b"key", b"three");
    old.world.seal();
    old.world.settle();
    let (last, target) = (old.world.database.last(), old.world.target());
    let backup = NamedBlock { id: 17, name: "nightly".to_owned(), lsn: Lsn(last) };
    old.world.desk.tell_backups(vec![backup]);
    (0..3).for_each(|_| old.world.archive());
    old.tidy("forever:hour");
    let database = archive::database_of(&target, None).unwrap();
    let first_of = |folder| *old.world.list(folder).first().expect("there is one");
    for folder in [Folder::Log, Folder::Whole, Folder::Thin] {
        let piece = Piece::of(&first_of(folder)).unwrap();
        let mark = Name::Damaged { piece };
        target.put_new(database, &mark, &Header::new(database, mark).encode()).unwrap();
    }
    let files = files_of(&old.world, &Folder::ALL);
    (old.world, files)
}

/// What a fixture has is written the same, and read: the newest state is restored.
fn check(coding: Coding, name: &str) {
    let (world, files) = written(coding);
    let disk = compare(name, &files);
    restore_newest(&world, &disk, archive::Point::Latest);
}

fn restore_newest(world: &World, disk: &env_sim::SimDisk, point: archive::Point) {
    let keys = world.mood.lock().unwrap().coding.keys();
    let new = env_sim::SimDisk::new(1, env_sim::Faults::default());
    restore_into(&new, &keyed(disk, keys), point).unwrap();
    assert_eq!(contents_of(&new).1, world.database.keyspace.contents());
}

/// Compares files with a fixture. Returns a disk with those of the fixture.
fn compare(name: &str, files: &[(PathBuf, Vec<u8>)]) -> env_sim::SimDisk {
    let text: String = files
        .iter()
        .map(|(path, bytes)| format!("{}\n{}", path.display(), hex(bytes)))
        .collect::<Vec<_>>()
        .join("\n");
    let path = fixtures().join(name);
    if std::env::var_os("INDELIBLE_WRITE_FIXTURES").is_some() {
        std::fs::create_dir_all(fixtures()).unwrap();
        std::fs::write(&path, &text).unwrap();
    }
    let golden = std::fs::read_to_string(&path).unwrap();
    let mut image = Image::new();
    for file in golden.split("\n\n") {
        let (path, hex) = file.split_once('\n').unwrap();
        image.insert(PathBuf::from(path), bytes(hex));
    }
    // Another version of zstd may compress otherwise: then the fixture may be written anew.
    assert_eq!(golden, text, "the format has changed: it needs a new version");
    let disk = disk_of(&image);
    assert!(disk.open(files[0].0.as_path(), Access::Read).is_ok());
    disk
}

fn check_thinned_out(coding: Coding, name: &str) {
    let (world, files) = thinned_out(coding);
    let disk = compare(name, &files);
    restore_newest(&world, &disk, archive::Point::Latest);
    restore_newest(&world, &disk, archive::Point::Backup("nightly".to_owned()));
    let target = keyed(&disk, coding.keys());
    let database = archive::database_of(&target, None).unwrap();
    let verified = archive::verify(&target, database, &mut |_, _| {}).unwrap();
    assert!(verified.errors.is_empty() && verified.locked.is_empty(), "{verified:?}");
    let counts = Folder::ALL.map(|folder| target.list(database, folder).unwrap().len());
    assert!(counts.iter().all(|count| *count > 0), "{counts:?}");
    assert_eq!(target.list(database, Folder::Damaged).unwrap().len(), 3);
}

#[test]
fn an_archive_is_written_as_ever_and_read() {
    check(Coding::Plain, "archive.hex");
}

#[test]
fn a_compressed_archive_is_written_as_ever_and_read() {
    check(Coding::Compressed, "compressed.hex");
}

#[test]
fn an_encrypted_archive_is_written_as_ever_and_read() {
    check(Coding::Encrypted, "encrypted.hex");
}

#[test]
fn what_was_thinned_out_and_names_and_marks_are_written_as_ever_and_read() {
    check_thinned_out(Coding::Plain, "thinned-out.hex");
    check_thinned_out(Coding::Encrypted, "thinned-out-encrypted.hex");
}
