//! Backups after a repair: what it keeps is what was, also for the start after it, and it names what is lost.
//!
//! Of logs as they were begun, set back in place, and restored, each file is cut off, changed or removed, with the
//! manifest and without it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use base::{Note, NoteEvent, RecordKind};
use env::Disk;
use env_sim::SimDisk;
use env_sim::sweep::{Damage, Image, disk_of};
use redo::block::HEADER_BYTES;
use redo::{BackupPoint, Options, RepairMode, RepairRequest, RestorePoint, record};

use crate::harness::{Counter, Database};
use crate::history::{World, world_options};
use crate::named::{back_up, states};
use crate::repairing::{blocks_of, is_no_damage, is_whole};
use crate::restoring::{INTO, contents, request, restore};
use crate::rewinding::rewind;
use crate::sweep::{read_all, read_dir};

const DIR: &str = "/data";
const MANIFEST: &str = "/data/redo.manifest";

fn small_options(seed: u64) -> Options {
    let mut options = world_options(seed);
    options.devices =
        [&["/data"][..], &["/a", "/b"]][(seed % 2) as usize].iter().map(PathBuf::from).collect();
    options.segment_bytes = 2000;
    options
}

/// Writes for a while, with a backup of now and one of the past.
fn live(world: &mut World, name: &str) {
    for (point, steps) in [("now", 60), ("past", 90)] {
        (0..steps).for_each(|_| world.step());
        let point_of = match point {
            "now" => BackupPoint::Now,
            _ => BackupPoint::Lsn(base::Lsn(world.database.log.durable_lsn().0 * 3 / 4)),
        };
        back_up(world, &format!("{name}-{point}"), point_of).unwrap();
        world.database.settle();
    }
    world.database.log.compact_all();
    world.database.settle();
    (0..30).for_each(|_| world.step());
    world.database.settle();
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum Past {
    Begun,
    SetBack,
    Restored,
}

fn world(seed: u64, past: Past) -> (World, Options) {
    let mut options = small_options(seed);
    let mut world = World::new(seed, options.clone());
    live(&mut world, "first");
    let last = world.database.log.durable_lsn().0;
    let disk = disk_of(&read_all(&world.disk));
    match past {
        Past::Begun => {}
        Past::SetBack => {
            rewind(&disk, RestorePoint::Lsn(last / 2)).unwrap();
            world.go_on(disk, options.clone());
        }
        Past::Restored => {
            restore(&disk, &request(RestorePoint::Lsn(last * 2 / 3))).unwrap();
            let mut made = Image::new();
            read_dir(&disk, Path::new(INTO), &mut made);
            let there = |path: PathBuf| Path::new(DIR).join(path.strip_prefix(INTO).unwrap());
            made = made.into_iter().map(|(path, bytes)| (there(path), bytes)).collect();
            made.retain(|path, _| !path.ends_with("redo.lock"));
            options.devices = vec![Path::new(DIR).join("redo")];
            world.go_on(disk_of(&made), options.clone());
        }
    }
    live(&mut world, "second");
    (world, options)
}

/// The backups that any block of any file tells of, but for the damaged ones.
fn noted(image: &Image, damage: &Damage) -> BTreeSet<String> {
    let mut events = BTreeMap::new();
    for (path, bytes) in image {
        if path.extension().is_none_or(|extension| extension != "redo") {
            continue;
        }
        for (at, header) in blocks_of(bytes) {
            let end = at + usize::try_from(header.block_bytes()).unwrap();
            if !is_whole(damage, path, at..end) {
                continue;
            }
            let mut rest = &bytes[at + HEADER_BYTES..end];
            while !rest.is_empty() {
                let record = record::decode(&mut rest).unwrap();
                if record.kind == RecordKind::Note {
                    events.insert(header.lsn, Note::decode(record.value).unwrap().event);
                }
            }
        }
    }
    let created = events.into_values().filter_map(|event| match event {
        NoteEvent::BackupCreated { name, .. } => Some(name),
        _ => None,
    });
    created.collect()
}

fn damages(image: &Image) -> Vec<Damage> {
    let is_log = |path: &&PathBuf| {
        path.extension().is_some_and(|extension| extension == "redo")
            && path.parent().is_some_and(|dir| !dir.ends_with("history"))
    };
    let mut all = Vec::new();
    for path in image.keys().filter(is_log) {
        let len = image[path].len();
        let places = (0..len).step_by((len / 6).max(1));
        all.extend(places.clone().map(|len| Damage::Cut { path: path.clone(), len }));
        all.extend(places.map(|at| Damage::Flip { path: path.clone(), at: at + 9, bit: 3 }));
        all.push(Damage::Lose { path: path.clone() });
    }
    all.retain(
        |damage| !matches!(damage, Damage::Flip { path, at, .. } if *at >= image[path].len()),
    );
    all
}

/// Repairs, starts and ends once, and restores every backup that counts as good; how many these are, and what was lost.
fn repaired(
    image: &Image,
    (world, options): &(World, Options),
    what: &str,
) -> Option<(usize, BTreeSet<String>)> {
    let disk: SimDisk = disk_of(image);
    let shared: Arc<dyn Disk> = Arc::new(disk.clone());
    let wanted = RepairRequest { dir: Path::new(DIR), devices: &options.devices, lost: &[] };
    let mode = RepairMode::CarryOut { now_ms: 1_700_000_000_000 };
    let done = match redo::repair(&shared, &wanted, &mut Counter(9), mode) {
        Err(error) if is_no_damage(&error) => return None,
        done => done.unwrap_or_else(|error| panic!("{what}: {error}")),
    };
    let told = states(&disk);
    Database::open_on(shared, options.clone())
        .unwrap_or_else(|error| panic!("{what}: {error}"))
        .close();
    let after = states(&disk);
    assert_eq!(after, told, "{what}: a start takes them for something else");
    let lost: BTreeSet<String> = done.lost_backups.iter().cloned().collect();
    let mut good = 0;
    for (name, (lsn, is_lost)) in after {
        assert_eq!(is_lost, lost.contains(&name), "{what}: {name}");
        if !is_lost {
            let disk = disk_of(&read_all(&disk));
            restore(&disk, &request(RestorePoint::Backup(name.clone())))
                .unwrap_or_else(|error| panic!("{what}: {name}: {error}"));
            assert_eq!(&contents(&disk, lsn.0), world.ledger.at(lsn.0), "{what}: {name}");
            good += 1;
        }
    }
    Some((good, lost))
}

#[test]
fn what_a_repair_keeps_is_what_was_and_the_rest_is_named() {
    for past in [Past::Begun, Past::SetBack, Past::Restored] {
        let (mut kept, mut lost_some) = (0, 0);
        for seed in 0..4 {
            let world = world(seed, past);
            let image = read_all(&world.0.disk);
            for damage in damages(&image) {
                let what = format!("{past:?}, seed {seed}, {damage:?}");
                let mut damaged = damage.apply(&image);
                if let Some((good, lost)) = repaired(&damaged, &world, &what) {
                    kept += usize::from(good > 0);
                    lost_some += usize::from(!lost.is_empty());
                }
                damaged.remove(Path::new(MANIFEST));
                if let Some((_, lost)) = repaired(&damaged, &world, &format!("{what}, no manifest"))
                {
                    let noted = noted(&image, &damage);
                    assert!(lost.is_superset(&noted), "{what}: {lost:?} of {noted:?}");
                }
            }
        }
        println!("{past:?}: good backups kept by {kept} repairs, some lost by {lost_some}");
        assert!(kept > 20 && lost_some > 20, "{past:?}: {kept} keep some, {lost_some} lose some");
    }
}
