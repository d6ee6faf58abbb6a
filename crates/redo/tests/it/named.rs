//! Named backups: held whatever the window, over restarts and crashes, and told by every start.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use base::{DbId, Lsn, Note, NoteEvent, Record, RecordKind};
use env::Disk;
use redo::{BackupPoint, BackupRefusal, HistoryOptions, NamedBackup, RestorePoint, stored_history};

use crate::harness::Database;
use crate::history::{Contents, World, copy, world_options};
use crate::restoring::{contents, request, restore};

/// Makes a backup, and seals the block that says so.
pub(crate) fn back_up(
    world: &mut World,
    name: &str,
    point: BackupPoint,
) -> Result<NamedBackup, BackupRefusal> {
    world.database.log.seal();
    world.ledger.note(&world.database);
    let log = &mut world.database.log;
    log.declare(RecordKind::Note);
    let backup = log.create_backup(Some(name.to_owned()), point)?;
    let NamedBackup { id, ref name, lsn, .. } = backup;
    note(world, NoteEvent::BackupCreated { id, name: name.clone(), lsn });
    Ok(backup)
}

fn delete(world: &mut World, name: &str) {
    let NamedBackup { id, name, .. } = world.database.log.delete_backup(name).expect("it is there");
    note(world, NoteEvent::BackupDeleted { id, name });
}

fn note(world: &mut World, event: NoteEvent) {
    let log = &mut world.database.log;
    let value = Note { time_ms: 5, event }.encode();
    let addr = log.append(&Record::whole(RecordKind::Note, DbId(0), &[], &value, None));
    log.retire(addr);
    log.seal();
    log.request_sync(Lsn(log.open_lsn().0 - 1));
    world.ledger.note(&world.database);
}

pub(crate) fn states(disk: &dyn Disk) -> BTreeMap<String, (Lsn, bool)> {
    let history =
        stored_history(disk, Path::new("/data"), &[], 1, &mut |_, _| {}).unwrap().unwrap();
    let backups = history.backups.into_iter();
    backups.map(|backup| (backup.name, (backup.lsn, backup.is_lost))).collect()
}

fn restored(world: &World, name: &str) -> Contents {
    let disk = copy(&world.disk);
    let restored = restore(&disk, &request(RestorePoint::Backup(name.to_owned()))).unwrap();
    contents(&disk, restored.parent.lsn.0)
}

#[test]
fn a_backup_holds_its_state_without_a_window_until_it_is_deleted() {
    for seed in 0..8 {
        let mut options = world_options(seed);
        options.history = HistoryOptions::OFF;
        let mut world = World::new(seed, options.clone());
        let mut made: Vec<(String, Lsn)> = Vec::new();
        for round in 0..6 {
            (0..120).for_each(|_| world.step());
            let name = format!("n{round}");
            let point = if round % 2 == 0 {
                BackupPoint::Now
            } else {
                // The last block that is durable, at a moment at which nothing is kept.
                BackupPoint::Lsn(Lsn(world.database.log.open_lsn().0 - 1))
            };
            if let Ok(backup) = back_up(&mut world, &name, point) {
                made.push((name, backup.lsn));
            }
            world.database.settle();
            if round % 3 == 1 {
                world.disk.crash();
                world.restart(options.clone());
            }
            (0..200).for_each(|_| world.step());
            world.database.log.compact_all();
            world.database.settle();
        }
        assert!(made.len() >= 3, "seed {seed}");
        let found = states(&copy(&world.disk));
        for (name, lsn) in &made {
            assert_eq!(found.get(name), Some(&(*lsn, false)), "seed {seed}, {name}");
            assert_eq!(&restored(&world, name), world.ledger.at(lsn.0), "seed {seed}, {name}");
        }
        assert!(world.database.log.backup_figures().held_bytes > 0, "seed {seed}");
        made.iter().for_each(|(name, _)| delete(&mut world, name));
        world.database.settle();
        world.database.settle();
        assert_eq!(world.database.log.history().files, 0, "seed {seed}: they stop holding");
        world.disk.crash();
        world.restart(options);
        assert_eq!(states(&copy(&world.disk)), BTreeMap::new());
    }
}

/// The past of the window stays when the window leaves it behind, and what it has left behind is refused.
#[test]
fn a_backup_of_the_past_outlives_the_window() {
    for seed in 0..6 {
        let mut world = World::new(seed, world_options(seed));
        (0..500).for_each(|_| world.step());
        world.database.settle();
        let last = world.database.log.durable_lsn().0;
        let old = Lsn(last / 3);
        assert_eq!(back_up(&mut world, "old", BackupPoint::Lsn(old)).unwrap().lsn, old);
        let taken = back_up(&mut world, "old", BackupPoint::Now).unwrap_err();
        assert_eq!(taken, BackupRefusal::Taken { id: 0 });
        let ahead = back_up(&mut world, "ahead", BackupPoint::Lsn(Lsn(last + 1000))).unwrap_err();
        assert!(matches!(ahead, BackupRefusal::BehindEnd { .. }), "{ahead}");
        world.database.settle();
        world.database.log.set_history(HistoryOptions::OFF);
        world.database.log.compact_all();
        world.database.settle();
        (0..100).for_each(|_| world.step());
        let gone = back_up(&mut world, "gone", BackupPoint::Lsn(Lsn(last / 2))).unwrap_err();
        assert!(
            matches!(gone, BackupRefusal::OutOfReach { before: Some(it), .. } if it == old),
            "{gone}"
        );
        world.database.settle();
        assert_eq!(&restored(&world, "old"), world.ledger.at(old.0), "seed {seed}");
    }
}

/// The manifest does not have it yet: every start finds the note, also one that comes after a crash of a start.
#[test]
fn a_backup_that_the_manifest_lacks_is_found_in_the_log() {
    let mut options = world_options(1);
    options.history = HistoryOptions::OFF;
    let mut world = World::new(1, options.clone());
    (0..200).for_each(|_| world.step());
    world.database.settle();
    let mut unlisted = 0;
    for number in 0..20 {
        let name = format!("n{number}");
        let lsn = back_up(&mut world, &name, BackupPoint::Now).unwrap().lsn;
        while world.database.log.durable_lsn() < lsn {
            for flusher in &mut world.database.flushers {
                flusher.step();
                world.database.log.poll();
                if world.database.log.durable_lsn() >= lsn {
                    break;
                }
            }
        }
        // Whatever is on the disk now is what a client was told of.
        let disk = copy(&world.disk);
        disk.crash();
        let manifest = redo::manifest::Manifest::read(&disk, Path::new("/data")).unwrap().unwrap();
        unlisted += usize::from(manifest.registry.find(&name).is_none());
        assert_eq!(states(&disk).get(&name), Some(&(lsn, false)), "{name}");
        // And the start takes it over.
        let after = Database::open_on(Arc::new(disk), options.clone()).unwrap();
        let found = after.log.backups().into_iter().map(|it| it.backup);
        let found: Vec<_> = found.filter(|backup| backup.name == name).collect();
        assert!(matches!(&found[..], [it] if it.lsn == lsn && !it.is_lost), "{name}: {found:?}");
    }
    assert!(unlisted > 0, "no manifest is behind");
}
