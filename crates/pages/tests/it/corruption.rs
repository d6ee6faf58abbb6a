//! Damage to any byte is found or makes no difference, and the format cannot change unnoticed.

use std::path::Path;

use env::Disk;
use env_sim::SimDisk;
use env_sim::sweep::{Damage, crash_everywhere, damages, image_of};
use pages::{Durability, Env, Error, FileError, Options, PageStore};

use crate::harness::{DIR, World, small};

type Entries = Vec<(Vec<u8>, Vec<u8>)>;

const FILES: [&str; 2] = ["pages.data", "00000000.log"];

fn options() -> Options {
    Options { log_segment_bytes: 128 << 10, online_log_bytes: 1 << 20, ..small() }
}

/// A store with leaves, a branch, a large value, free pages, a checkpoint, and records after it.
fn example() -> (World, Entries) {
    let world = World::new(77);
    let store = world.open(options());
    for round in 0..3_u8 {
        let transaction = store.begin().expect("healthy");
        let table = transaction.table("fruit");
        for i in 0..12_u8 {
            table.insert(format!("key {round} {i:02}"), [b'a' + i; 900]).expect("free");
            if round == 1 {
                table.remove(format!("key 0 {i:02}")).expect("free");
            }
        }
        if round == 2 {
            // Differs little from the old value: it is logged as a patch.
            table
                .insert("key 1 05", [&[b'f'; 450][..], b"patched", &[b'f'; 443]].concat())
                .expect("free");
        }
        table.insert("large", [b'L'; 10_000]).expect("free");
        transaction.commit(Durability::Immediate).expect("no faults");
        if round == 1 {
            store.checkpoint_all().expect("no faults");
        }
    }
    let reader = store.begin_read().expect("healthy");
    let entries = reader.table("fruit").iter().map(|e| e.expect("free")).collect();
    drop(reader);
    store.close().expect("no faults");
    (world, entries)
}

fn bytes_of(disk: &SimDisk, name: &str) -> Vec<u8> {
    let path = Path::new(DIR).join(name);
    let file = disk.open(&path, env::Access::Read).expect("it is there");
    let mut bytes = vec![0; usize::try_from(file.len().expect("open")).expect("small")];
    file.read_exact_at(&mut bytes, 0).expect("no faults");
    bytes
}

/// The contents, or the damage found.
fn read(disk: &SimDisk, world: &World) -> Result<Entries, Error> {
    let env = Env { disk: std::sync::Arc::new(disk.clone()), ..world.env() };
    let store = PageStore::open(&env, options())?;
    store.check()?;
    let reader = store.begin_read()?;
    reader.table("fruit").iter().collect()
}

#[test]
fn every_damage_is_found_or_makes_no_difference() {
    let (world, entries) = example();
    assert!(read(&world.disk.fork(), &world).expect("sound") == entries);
    let mut image = image_of(&world.disk, &[Path::new(DIR)]);
    image.retain(|path, _| FILES.iter().any(|name| path.ends_with(name)));
    let headers = |damage: &Damage| match damage {
        Damage::Flip { at, .. } => {
            [0, 4096, 8192].iter().any(|from| (*from..from + 64).contains(at))
        }
        _ => false,
    };
    let dense = damages(&image, 1).into_iter().filter(headers);
    let (mut flips, mut found) = (0, 0);
    for damage in damages(&image, 127).into_iter().chain(dense) {
        let is_flip = matches!(damage, Damage::Flip { .. });
        flips += u32::from(is_flip);
        match (read(&damage.on(&image), &world), &damage) {
            (Ok(_), Damage::Lose { .. }) => panic!("{damage:?} was not found"),
            (Ok(read), _) => assert!(read == entries, "{damage:?}: something else was read"),
            (Err(Error::File(FileError::Corrupt { path, what, .. })), _) => {
                assert!(!what.is_empty() && path.starts_with(DIR));
                found += u32::from(is_flip);
            }
            (Err(Error::File(FileError::NewerFormat { .. })), Damage::Flip { .. }) => found += 1,
            (Err(Error::File(FileError::Io { .. })), Damage::Cut { .. }) => {}
            (Err(error), _) => panic!("{damage:?}: {error}"),
        }
    }
    assert!(found * 5 > flips, "only {found} of {flips} flipped bits were found");
}

#[test]
fn a_store_that_is_being_made_is_there_or_not_after_any_crash() {
    for seed in 0..5 {
        let start = World::new(seed);
        let ios = crash_everywhere(
            &start.disk,
            |disk| {
                let env = Env { disk: std::sync::Arc::new(disk.clone()), ..start.env() };
                let store = PageStore::open(&env, options())?;
                let transaction = store.begin()?;
                transaction.table("fruit").insert("apple", "red")?;
                transaction.commit(Durability::Immediate)?;
                store.close()
            },
            |disk, made| {
                let found = read(disk, &start).expect("a crash is no damage");
                assert!(!found.is_empty() || made.is_err(), "what was committed is lost");
            },
        );
        assert!(ios > 10, "{ios}");
    }
}

/// `PAGES_BLESS=1` rewrites the files, for a new version of the format.
#[test]
fn the_format_is_that_of_version_1() {
    let (world, entries) = example();
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/v1");
    if std::env::var_os("PAGES_BLESS").is_some() {
        std::fs::create_dir_all(&fixtures).expect("writable");
        for name in FILES {
            std::fs::write(fixtures.join(name), bytes_of(&world.disk, name)).expect("writable");
        }
    }
    let other = World::new(1);
    other.disk.create_dir_all(Path::new(DIR)).expect("no faults");
    for name in FILES {
        let golden = std::fs::read(fixtures.join(name)).expect("the fixtures are there");
        assert!(golden == bytes_of(&world.disk, name), "{name} is written otherwise");
        let file = other.disk.create(&Path::new(DIR).join(name)).expect("no faults");
        file.write_all_at(&golden, 0).expect("no faults");
    }
    assert!(read(&other.disk, &other).expect("sound") == entries);
}
