//! Backups after a repair: what it keeps is what was, also for the start after it, and it names what is lost.
//!
//! Logs as they were begun, set back in place, restored, and made of blocks: each of their files is cut off, changed or
//! removed, with the manifest and without it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use base::{Lsn, Note, NoteEvent, RecordKind};
use env::Disk;
use env_sim::SimDisk;
use env_sim::sweep::{Damage, Image, disk_of};
use redo::block::HEADER_BYTES;
use redo::manifest::{Manifest, Parent};
use redo::{
    BackupPoint, Expiry, NewLog, NewLogOptions, Options, RepairMode, RepairRequest, RestorePoint,
    record, segment,
};

use crate::harness::{Counter, Database, index};
use crate::history::{World, world_options};
use crate::named::{back_up, states};
use crate::repairing::{blocks_of, is_no_damage};
use crate::restoring::{INTO, contents, request, restore};
use crate::rewinding::rewind;
use crate::sweep::{read_all, read_dir};

const DIR: &str = "/data";
const MANIFEST: &str = "/data/redo.manifest";

fn small_options(seed: u64) -> Options {
    let mut options = world_options(seed);
    options.devices =
        [&["/data"][..], &["/a", "/b"]][index(seed % 2)].iter().map(PathBuf::from).collect();
    options.segment_bytes = 2000;
    options
}

/// What becomes of the files that are there.
#[derive(Clone, Copy)]
enum Life {
    /// They are compacted.
    Compacted,
    /// They stay.
    Kept,
    /// They stay, and what was written behind them is gone, so that blocks may be missing.
    KeptBehindHorizon,
}

impl Life {
    fn pass(self, world: &mut World, steps: usize) {
        match self {
            Life::Compacted => (0..steps).for_each(|_| world.step()),
            Life::Kept => (0..steps / 6).for_each(|_| world.write()),
            Life::KeptBehindHorizon => (0..steps).for_each(|step| {
                world.database.set(b"hot", &vec![b'h'; 100 + step]);
                world.database.log.seal();
                world.ledger.note(&world.database);
            }),
        }
    }
}

/// Writes for a while, with a backup of the beginning, one of later and one of the past.
fn live(world: &mut World, name: &str, life: Life) {
    let begun = world.database.log.durable_lsn();
    back_up(world, &format!("{name}-begun"), BackupPoint::Lsn(begun)).unwrap();
    life.pass(world, 60);
    back_up(world, &format!("{name}-now"), BackupPoint::Now).unwrap();
    world.database.settle();
    life.pass(world, 90);
    let past = begun.max(Lsn(world.database.log.durable_lsn().0 * 3 / 4));
    back_up(world, &format!("{name}-past"), BackupPoint::Lsn(past)).unwrap();
    world.database.settle();
    if matches!(life, Life::Compacted) {
        world.database.log.compact_all();
        world.database.settle();
        life.pass(world, 30);
        world.database.settle();
    }
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum Past {
    Begun,
    SetBack,
    Restored,
    /// As from an archive.
    MadeOfBlocks,
}

/// What was restored, where the log was.
fn moved(disk: &SimDisk) -> SimDisk {
    let mut made = Image::new();
    read_dir(disk, Path::new(INTO), &mut made);
    made.retain(|path, _| !path.ends_with("redo.lock"));
    let there = |path: PathBuf| Path::new(DIR).join(path.strip_prefix(INTO).unwrap());
    disk_of(&made.into_iter().map(|(path, bytes)| (there(path), bytes)).collect())
}

/// Makes a new log of the blocks up to `last` of one that was never compacted.
fn make_of_blocks(disk: &SimDisk, last: Lsn) {
    let shared: Arc<dyn Disk> = Arc::new(disk.clone());
    let manifest = Manifest::read(disk, Path::new(DIR)).unwrap().unwrap();
    let options = NewLogOptions {
        parent: Parent { database: manifest.database, lsn: last },
        horizon: Lsn::ZERO,
        bytes: 0,
        threads: 1,
        what: b"blocks",
        keep_bytes: u64::MAX,
        expiry: Expiry::Absolute,
        time_ms: Some(1),
    };
    let (mut log, _) = NewLog::begin(&shared, Path::new(INTO), &options, &mut Counter(5)).unwrap();
    let mut blocks = BTreeMap::new();
    let image = read_all(disk);
    for bytes in image.iter().filter(|(path, _)| is_log(path)).map(|(_, bytes)| bytes) {
        for (at, header) in blocks_of(bytes) {
            let end = at + usize::try_from(header.block_bytes()).unwrap();
            blocks.insert(header.lsn, &bytes[at + HEADER_BYTES..end]);
        }
    }
    for (lsn, records) in blocks.range(..=last) {
        log.put(*lsn, 1, records).unwrap();
    }
    log.finish(1).unwrap();
}

/// Whether it is a file of the log as it is now.
fn is_log(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "redo")
        && path.parent().is_some_and(|dir| !dir.ends_with("history"))
}

fn world(seed: u64, past: Past) -> (World, Options) {
    let mut options = small_options(seed);
    let (first, later) = match past {
        Past::Begun => (Life::Compacted, Life::Compacted),
        Past::SetBack | Past::Restored => (Life::Compacted, Life::Kept),
        Past::MadeOfBlocks => (Life::Kept, Life::KeptBehindHorizon),
    };
    options.compaction.enabled = matches!(first, Life::Compacted);
    let mut world = World::new(seed, options.clone());
    live(&mut world, "first", first);
    let last = world.database.log.durable_lsn().0;
    let disk = disk_of(&read_all(&world.disk));
    options.compaction.enabled = matches!(later, Life::Compacted | Life::KeptBehindHorizon);
    match past {
        Past::Begun => {}
        Past::SetBack => {
            rewind(&disk, RestorePoint::Lsn(last / 2)).unwrap();
            world.go_on(disk, options.clone());
        }
        Past::Restored => {
            restore(&disk, &request(RestorePoint::Lsn(last * 2 / 3))).unwrap();
            options.devices = vec![Path::new(DIR).join("redo")];
            world.go_on(moved(&disk), options.clone());
        }
        Past::MadeOfBlocks => {
            make_of_blocks(&disk, Lsn(last * 2 / 3));
            options.devices = vec![Path::new(DIR).join("redo")];
            world.go_on(moved(&disk), options.clone());
        }
    }
    live(&mut world, "second", later);
    let past = world.database.log.durable_lsn();
    live(&mut world, "third", later);
    // One that the manifest does not list yet, noted in the last of some blocks.
    (0..6).for_each(|_| world.write());
    back_up(&mut world, "unlisted", BackupPoint::Lsn(past)).unwrap();
    world.database.flush();
    (world, options)
}

/// The backups that any undamaged block tells of, in whatever file.
fn noted(image: &Image, damaged: &Image) -> BTreeSet<String> {
    let mut events = BTreeMap::new();
    for (path, bytes) in image {
        if path.extension().is_none_or(|extension| extension != "redo") {
            continue;
        }
        for (at, header) in blocks_of(bytes) {
            let end = at + usize::try_from(header.block_bytes()).unwrap();
            let now = damaged.get(path).and_then(|bytes| bytes.get(at..end));
            if now != Some(&bytes[at..end]) {
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
    let mut all = Vec::new();
    for path in image.keys().filter(|path| is_log(path)) {
        let len = image[path].len();
        let places = (0..len).step_by((len / 4).max(1)).chain([segment::HEADER_BYTES + 20]);
        all.extend(places.clone().map(|len| Damage::Cut { path: path.clone(), len }));
        all.extend(places.map(|at| Damage::Flip { path: path.clone(), at: at + 9, bit: 3 }));
        all.push(Damage::Lose { path: path.clone() });
    }
    all.retain(
        |damage| !matches!(damage, Damage::Flip { path, at, .. } if *at >= image[path].len()),
    );
    all
}

/// Repairs, starts and ends once, and restores every backup that counts as good; how many these are, and what was lost, if
/// there was something to repair. What is `noted` is good or lost.
fn repaired(
    image: &Image,
    (world, options): &(World, Options),
    noted: &BTreeSet<String>,
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
    if !done.is_needed() {
        return None;
    }
    let told = states(&disk);
    let lost: BTreeSet<String> = done.lost_backups.iter().cloned().collect();
    let unnamed = noted.iter().find(|name| !told.contains_key(*name) && !lost.contains(*name));
    assert_eq!(unnamed, None, "{what}: {lost:?} are lost of {told:?}");
    Database::open_on(shared, options.clone())
        .unwrap_or_else(|error| panic!("{what}: {error}"))
        .close();
    // One that is lost together with the block that made it is forgotten by the start.
    let after = states(&disk);
    let is_good = |(_, (_, is_lost)): &(&String, &(Lsn, bool))| !is_lost;
    let (good_then, good_now) = (told.iter().filter(is_good), after.iter().filter(is_good));
    assert!(good_then.eq(good_now), "{what}: told {told:?}, after a start {after:?}");
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

/// As a crash may leave the end of the log.
fn torn(image: &Image) -> Image {
    let path = image.keys().filter(|path| is_log(path)).max_by_key(|path| path.file_name());
    let path = path.unwrap().clone();
    let at = image[&path].len() / 2;
    Damage::Flip { path, at, bit: 1 }.apply(image)
}

/// What has two names is one file: what is changed under the one is so under the other.
fn damage_twins(damaged: &mut Image, image: &Image) {
    let changed = image.iter().filter_map(|(path, bytes)| {
        let now = damaged.get(path)?;
        (now != bytes).then(|| (bytes, now.clone()))
    });
    for (bytes, now) in changed.collect::<Vec<_>>() {
        for (path, _) in image.iter().filter(|(_, other)| *other == bytes) {
            damaged.insert(path.clone(), now.clone());
        }
    }
}

#[test]
fn what_a_repair_keeps_is_what_was_and_the_rest_is_named() {
    for past in [Past::Begun, Past::SetBack, Past::Restored, Past::MadeOfBlocks] {
        let (mut kept, mut lost_some, mut named) = (0, 0, 0);
        for seed in 0..3 {
            let world = world(seed, past);
            let image = read_all(&world.0.disk);
            let there = states(&disk_of(&image));
            // Of the last world a block is torn, before the one that notes a backup.
            let found = if seed == 2 { torn(&image) } else { image.clone() };
            for damage in damages(&image) {
                let what = format!("{past:?}, seed {seed}, {damage:?}");
                let mut damaged = damage.apply(&found);
                damage_twins(&mut damaged, &image);
                let noted = noted(&image, &damaged);
                // Those of the log that one was restored from are noted, too.
                let ours = noted.iter().filter(|name| there.contains_key(*name)).cloned().collect();
                if let Some((good, lost)) = repaired(&damaged, &world, &ours, &what) {
                    kept += usize::from(good > 0);
                    lost_some += usize::from(!lost.is_empty());
                }
                damaged.remove(Path::new(MANIFEST));
                let what = format!("{what}, no manifest");
                if let Some((good, lost)) = repaired(&damaged, &world, &noted, &what) {
                    assert!(good == 0 && lost.is_superset(&noted), "{what}: {lost:?} of {noted:?}");
                    named += 1;
                }
            }
        }
        println!(
            "{past:?}: {kept} repairs keep backups, {lost_some} lose some, {named} have no manifest"
        );
        assert!(kept.min(lost_some).min(named) > 20, "{past:?}");
    }
}
