//! The format byte by byte: `fixtures/v1` has archives that are written anew, read and compared.

use std::path::{Path, PathBuf};

use env::{Access, Disk};
use env_sim::sweep::{Image, disk_of, image_of};

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
    let database = archive::database_of(&world.target(), None).unwrap();
    let root = Path::new(crate::world::TARGET).join(database.to_string());
    let mut files = Vec::new();
    for folder in ["base", "log", "whole", "writer"] {
        for (path, bytes) in image_of(&world.target_disk, &[&root.join(folder)]) {
            files.push((path, bytes));
        }
    }
    (world, files)
}

/// What a fixture has is written the same, and read.
fn check(coding: Coding, name: &str) {
    let (world, files) = written(coding);
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
    let disk = disk_of(&image);
    assert!(disk.open(files[0].0.as_path(), Access::Read).is_ok());
    let new = env_sim::SimDisk::new(1, env_sim::Faults::default());
    restore_into(&new, &keyed(&disk, coding.keys()), archive::Point::Latest).unwrap();
    assert_eq!(contents_of(&new).1, world.database.keyspace.contents());
    // Another version of zstd may compress otherwise: then the fixture is still read, and may be written anew.
    assert_eq!(golden, text, "the format has changed: it needs a new version");
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
