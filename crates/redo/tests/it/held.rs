//! What named backups need, on disks that are full, that keep nothing, or that fail for a while.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use base::{DbId, Lsn, Note, NoteEvent, Record, RecordKind};
use env::Disk as _;
use env_sim::{Faults, SimDisk};
use redo::manifest::Manifest;
use redo::{
    BackupPoint, CompactionOptions, DeviceState, Health, HistoryOptions, NamedBackup, RepairMode,
    RepairRequest, RestorePoint,
};

use crate::bounded_history::step_compactor;
use crate::crowded::{Call, Crowded, fill, is_segment, open_with};
use crate::harness::{Database, key};
use crate::history::Contents;
use crate::restoring::{contents, request, restore};

const DEVICES: [&str; 1] = ["/disk0"];

/// A backup and what there was then.
struct Made {
    backup: NamedBackup,
    contents: Contents,
}

/// A log of which much was replaced behind each of the backups `a` and `b`.
fn with_backups(error: io::ErrorKind, history: HistoryOptions) -> (Crowded, Database, Vec<Made>) {
    let mut disk = Crowded::new(SimDisk::new(2, Faults::default()));
    disk.error = error;
    let mut database = open_with(&disk, &DEVICES, history).unwrap();
    let mut made = Vec::new();
    for name in ["a", "b"] {
        fill(&mut database, 0, 60);
        let contents = database.keyspace.contents();
        made.push(Made { backup: back_up(&mut database, name), contents });
        for _ in 0..2 {
            fill(&mut database, 0, 60);
            database.log.compact_all();
            database.settle();
        }
    }
    let compaction = CompactionOptions { enabled: false, ..CompactionOptions::default() };
    database.log.set_compaction_options(compaction);
    (disk, database, made)
}

fn back_up(database: &mut Database, name: &str) -> NamedBackup {
    database.log.seal();
    database.log.declare(RecordKind::Note);
    let backup = database.log.create_backup(Some(name.to_owned()), BackupPoint::Now).unwrap();
    let NamedBackup { id, ref name, lsn, .. } = backup;
    note(database, NoteEvent::BackupCreated { id, name: name.clone(), lsn });
    database.settle();
    backup
}

fn note(database: &mut Database, event: NoteEvent) {
    let log = &mut database.log;
    let value = Note { time_ms: 5, event }.encode();
    let addr = log.append(&Record::whole(RecordKind::Note, DbId(0), &[], &value, None));
    log.retire(addr);
    log.seal();
    log.request_sync(Lsn(log.open_lsn().0 - 1));
}

/// Whether each of the backups is lost.
fn lost(database: &Database) -> BTreeMap<String, bool> {
    let backups = database.log.backups().into_iter();
    backups.map(|it| (it.backup.name, it.backup.is_lost)).collect()
}

fn assert_restorable(disk: &SimDisk, made: &Made) {
    let copied = crate::history::copy(disk);
    let point = RestorePoint::Backup(made.backup.name.clone());
    let restored = restore(&copied, &request(point)).unwrap();
    assert_eq!(restored.parent.lsn, made.backup.lsn);
    assert_eq!(contents(&copied, restored.parent.lsn.0), made.contents);
}

fn restart(disk: &Crowded, database: Database, history: HistoryOptions) -> Database {
    drop(database);
    disk.disk.kill();
    disk.disk.restart();
    open_with(disk, &DEVICES, history).unwrap()
}

fn write_until_full(database: &mut Database) {
    let mut number = 100;
    while database.log.stats().devices[0].state != DeviceState::Full {
        fill(database, number, number + 1);
        number += 1;
        assert!(number < 1000, "new segments need something");
    }
}

/// Goes on for some seconds, whether or not there is an end.
fn drive(database: &mut Database) {
    for _ in 0..300 {
        database.log.tick();
        step_compactor(database, 1);
        database.flush();
    }
}

/// How many files are kept.
fn kept_on(disk: &SimDisk) -> usize {
    let history = disk.list(Path::new("/disk0/history")).unwrap_or_default();
    history.iter().filter(|name| is_segment(Path::new(name))).count()
}

/// A list that could not be written names what is gone: it tells which blocks needed that.
#[test]
fn what_the_window_gave_up_on_a_full_disk_costs_no_backup_at_the_next_start() {
    let (disk, mut database, made) = with_backups(io::ErrorKind::StorageFull, HistoryOptions::ALL);
    let before = kept_on(&disk.disk);
    disk.refuse(|call, path| call == Call::Create && path.starts_with("/data"));
    database.log.set_history(HistoryOptions::OFF);
    step_compactor(&mut database, 20);
    assert!(kept_on(&disk.disk) < before, "the names of {before} files go without a list");
    let listed = Manifest::read(&disk.disk, Path::new("/data")).unwrap().unwrap().history.len();
    assert!(listed > kept_on(&disk.disk));
    made.iter().for_each(|made| assert_restorable(&disk.disk, made));
    disk.refuse(|_, _| false);
    let database = restart(&disk, database, HistoryOptions::OFF);
    assert!(lost(&database).values().all(|is_lost| !is_lost), "{:?}", lost(&database));
    made.iter().for_each(|made| assert_restorable(&disk.disk, made));
}

/// A manifest of the program before this one does not say from when on a file is needed.
#[test]
fn a_list_without_beginnings_is_read_and_completed() {
    let (disk, database, made) = with_backups(io::ErrorKind::StorageFull, HistoryOptions::OFF);
    drop(database);
    disk.disk.kill();
    disk.disk.restart();
    let (dir, plain) = (Path::new("/data"), disk.disk.clone());
    let manifest = Manifest::read(&plain, dir).unwrap().unwrap();
    let mut older = manifest.clone();
    older.history.iter_mut().for_each(|kept| kept.from = Lsn::ZERO);
    older.write(&plain, dir).unwrap();
    let database = open_with(&disk, &DEVICES, HistoryOptions::OFF).unwrap();
    let found = Manifest::read(&plain, dir).unwrap().unwrap();
    assert_eq!(found.history, manifest.history);
    assert!(lost(&database).values().all(|is_lost| !is_lost));
    made.iter().for_each(|made| assert_restorable(&disk.disk, made));
}

#[test]
fn a_disk_that_backups_have_filled_takes_writes_again_when_one_is_deleted() {
    let (disk, mut database, made) =
        with_backups(io::ErrorKind::QuotaExceeded, HistoryOptions::OFF);
    let (sim, before) = (disk.disk.clone(), kept_on(&disk.disk));
    assert!(before > 3);
    disk.refuse(move |call, path| {
        call == Call::Create
            && path.starts_with("/disk0")
            && is_segment(path)
            && kept_on(&sim) >= before
    });
    write_until_full(&mut database);
    step_compactor(&mut database, 20);
    assert!(matches!(database.log.health(), Health::DiskFull { .. }));
    assert!(lost(&database).values().all(|is_lost| !is_lost), "nothing is given up unasked");
    let backup = database.log.delete_backup("a").unwrap();
    let lsn = database.log.open_lsn();
    note(&mut database, NoteEvent::BackupDeleted { id: backup.id, name: backup.name });
    for _ in 0..20 {
        step_compactor(&mut database, 1);
        database.flush();
    }
    assert_eq!(database.log.health(), Health::Writable);
    database.settle();
    assert!(database.log.durable_lsn() >= lsn, "the note is told");
    disk.refuse(|_, _| false);
    let database = restart(&disk, database, HistoryOptions::OFF);
    assert_eq!(lost(&database), BTreeMap::from([("b".to_owned(), false)]));
    assert_restorable(&disk.disk, &made[1]);
}

#[test]
fn backups_that_may_go_go_one_by_one_and_the_oldest_first() {
    let history = HistoryOptions { drops_backups: true, ..HistoryOptions::OFF };
    let (disk, mut database, made) = with_backups(io::ErrorKind::QuotaExceeded, history);
    let (sim, before) = (disk.disk.clone(), kept_on(&disk.disk));
    disk.refuse(move |call, path| {
        call == Call::Create
            && path.starts_with("/disk0")
            && is_segment(path)
            && kept_on(&sim) >= before
    });
    write_until_full(&mut database);
    for _ in 0..30 {
        step_compactor(&mut database, 1);
        database.flush();
    }
    assert_eq!(database.log.health(), Health::Writable);
    assert_eq!(lost(&database), BTreeMap::from([("a".to_owned(), true), ("b".to_owned(), false)]));
    database.log.tick();
    let events = database.log.drain_events();
    assert!(
        events.iter().any(|event| event.contains("backups have lost") && event.contains(": a"))
    );
    assert_restorable(&disk.disk, &made[1]);
}

/// What a backup needs that was made last is replaced while the disk is full: it is kept, and the oldest backups go.
#[test]
fn what_is_replaced_on_a_full_disk_costs_the_oldest_backup_first() {
    let history = HistoryOptions { drops_backups: true, ..HistoryOptions::OFF };
    let (disk, mut database, mut made) = with_backups(io::ErrorKind::QuotaExceeded, history);
    let contents = database.keyspace.contents();
    made.push(Made { backup: back_up(&mut database, "c"), contents });
    fill(&mut database, 0, 60);
    disk.refuse(|call, path| {
        call == Call::Create && path.starts_with("/disk0") && is_segment(path)
    });
    // Ordered while there is room: it waits for no block that has none.
    let compactions = database.log.stats().compactions;
    database.log.compact_all();
    database.flush();
    database.clock.advance_us(200_000);
    database.log.tick();
    write_until_full(&mut database);
    // Faster than the oldest backups go.
    for _ in 0..500 {
        database.log.poll();
        database.clock.advance_us(1_000);
        database.compactor.step();
    }
    assert!(
        database.log.stats().compactions > compactions,
        "something was replaced: {:?}",
        database.log.stats()
    );
    let found = lost(&database);
    assert!(!found["c"] && (found["a"] || !found["b"]), "{found:?}");
    disk.refuse(|_, _| false);
    database.settle();
    assert_restorable(&disk.disk, &made[2]);
}

/// What a repair replaces is newer than one backup and older than the other.
#[test]
fn a_repair_costs_the_backups_that_need_what_is_damaged() {
    for (manifest, is_cut) in [
        ("as it is", false),
        ("without the last backup", false),
        ("without the last backup", true),
        ("lost", false),
    ] {
        let is_listed = manifest == "as it is";
        let (disk, mut database, mut made) =
            with_backups(io::ErrorKind::StorageFull, HistoryOptions::ALL);
        // What follows goes to segments of its own.
        database.log.compact_all();
        database.settle();
        let of_before = segments(&disk.disk);
        fill(&mut database, 0, 60);
        let dir = Path::new("/data");
        let before = Manifest::read(&disk.disk, dir).unwrap().unwrap();
        let contents = database.keyspace.contents();
        made.push(Made { backup: back_up(&mut database, "c"), contents });
        if is_listed {
            database.log.compact_all();
            database.settle();
        }
        let point = database.log.open_lsn();
        drop(database);
        disk.disk.kill();
        disk.disk.restart();
        let newest = segments(&disk.disk).into_iter().filter(|path| !of_before.contains(path));
        let damaged = newest.min().expect("something was written since");
        let sim: std::sync::Arc<dyn env::Disk> = std::sync::Arc::new(disk.disk.clone());
        if manifest != "lost" {
            let file = sim.open(&damaged, env::Access::ReadWrite).unwrap();
            if is_cut {
                // In its first block.
                file.set_len(redo::segment::HEADER_BYTES as u64 + 40).unwrap();
            } else {
                file.write_all_at(&[0x55; 40], file.len().unwrap() / 2).unwrap();
            }
        }
        match manifest {
            "as it is" => {}
            // The note alone tells of it.
            "without the last backup" => {
                let mut manifest = Manifest::read(&disk.disk, dir).unwrap().unwrap();
                manifest.registry = before.registry;
                manifest.write(&disk.disk, dir).unwrap();
            }
            _ => disk.disk.remove(&redo::manifest::path_in(dir)).unwrap(),
        }
        assert!(open_with(&disk, &DEVICES, HistoryOptions::ALL).is_err(), "it is damaged");
        let devices = [Path::new("/disk0").to_owned()];
        let mode = RepairMode::CarryOut { now_ms: 1_700_000_000_000 };
        let entropy = &mut crate::harness::Counter(9);
        let repair =
            redo::repair(&sim, &RepairRequest { dir, devices: &devices, lost: &[] }, entropy, mode)
                .unwrap();
        let names: &[&str] = if manifest == "lost" { &["a", "b", "c"] } else { &["c"] };
        assert_eq!(repair.lost_backups, names, "{repair}");
        let kept = repair.kept_in.last().unwrap().join("history");
        let was_kept = disk.disk.list(&kept).unwrap();
        assert_eq!(was_kept, disk.disk.list(Path::new("/disk0/history")).unwrap());
        assert!(!was_kept.is_empty());
        if manifest == "lost" {
            // Nothing says what was kept for them.
            let database = open_with(&disk, &DEVICES, HistoryOptions::ALL).unwrap();
            assert!(lost(&database).values().all(|is_lost| *is_lost));
            assert_eq!(disk.disk.list(&kept).unwrap(), was_kept);
            let copied = crate::history::copy(&disk.disk);
            for name in ["a", "b", "c"] {
                let point = RestorePoint::Backup(name.to_owned());
                assert!(restore(&copied, &request(point)).is_err(), "{name} is not what it was");
            }
            continue;
        }
        made[..2].iter().for_each(|made| assert_restorable(&disk.disk, made));
        let mut database = open_with(&disk, &DEVICES, HistoryOptions::ALL).unwrap();
        let found = lost(&database);
        assert_eq!(found.values().copied().collect::<Vec<_>>(), [false, false, true], "{found:?}");
        // It goes on, and what is left of the past stays.
        fill(&mut database, 0, 60);
        database.log.compact_all();
        database.settle();
        assert!(database.log.open_lsn() >= point);
        let database = restart(&disk, database, HistoryOptions::ALL);
        assert!(!lost(&database)["a"] && !lost(&database)["b"] && lost(&database)["c"]);
        made[..2].iter().for_each(|made| assert_restorable(&disk.disk, made));
        let point = RestorePoint::Backup("c".to_owned());
        let copied = crate::history::copy(&disk.disk);
        assert!(restore(&copied, &request(point)).is_err(), "it is not what it was");
    }
}

/// What was put back when the log was set back is of use to what it was part of before, and what was cut to nothing of before.
#[test]
fn a_repair_of_what_was_put_back_costs_no_backup_of_before() {
    let (disk, mut database, mut made) =
        with_backups(io::ErrorKind::StorageFull, HistoryOptions::ALL);
    fill(&mut database, 0, 60);
    let contents = database.keyspace.contents();
    made.push(Made { backup: back_up(&mut database, "undone"), contents });
    database.close();
    crate::rewinding::rewind(&disk.disk, RestorePoint::Backup("b".to_owned())).unwrap();
    let mut database = open_with(&disk, &DEVICES, HistoryOptions::ALL).unwrap();
    fill(&mut database, 0, 2);
    database.close();
    let dir = Path::new("/data");
    let manifest = Manifest::read(&disk.disk, dir).unwrap().unwrap();
    let (mut files, mut damaged, mut shared) = (0, 0, 0);
    for put_back in &manifest.rewinds.put_back {
        let copied = crate::history::copy(&disk.disk);
        let name = redo::segment::file_name(put_back.segment, put_back.part);
        let path = Path::new("/disk0").join(name);
        let (segment, part, generation) = (put_back.segment, put_back.part, put_back.generation);
        let name = redo::segment::history_name(segment, part, generation);
        // The copy of the disk has made two of what is one file with two names.
        let twin = Path::new("/disk0/history").join(name);
        for path in [&path, &twin] {
            let Ok(file) = copied.open(path, env::Access::ReadWrite) else { continue };
            file.write_all_at(&[0x55; 40], file.len().unwrap() / 2).unwrap();
        }
        files += 1;
        let is_twin = |kept: &&redo::manifest::KeptFile| {
            (kept.segment, kept.part, kept.generation) == (segment, part, generation)
        };
        let twins: Vec<_> = manifest.history.iter().filter(is_twin).collect();
        let (needs, others): (Vec<&Made>, Vec<&Made>) = made
            .iter()
            .partition(|made| twins.iter().any(|kept| made.backup.needs(kept.from, kept.until)));
        shared += needs.len();
        let sim: std::sync::Arc<dyn env::Disk> = std::sync::Arc::new(copied.clone());
        let mode = RepairMode::CarryOut { now_ms: 1_700_000_000_000 };
        let devices = [Path::new("/disk0").to_owned()];
        let entropy = &mut crate::harness::Counter(9);
        let repair =
            redo::repair(&sim, &RepairRequest { dir, devices: &devices, lost: &[] }, entropy, mode)
                .unwrap();
        damaged += usize::from(repair.is_needed());
        let needs: Vec<&String> = needs.iter().map(|made| &made.backup.name).collect();
        let lost: Vec<&String> = repair.lost_backups.iter().collect();
        assert_eq!(lost, needs, "{}: {repair}", path.display());
        others.into_iter().for_each(|made| assert_restorable(&copied, made));
    }
    assert!(files > 1 && damaged == files && shared > 0, "{damaged} of {files}, {shared}");
}

/// The files of segments in place.
fn segments(disk: &SimDisk) -> Vec<PathBuf> {
    let names = disk.list(Path::new("/disk0")).unwrap();
    names
        .iter()
        .map(|name| Path::new("/disk0").join(name))
        .filter(|path| is_segment(path))
        .collect()
}

/// A disk that does not let a file be kept for now keeps it in place.
#[test]
fn what_a_backup_needs_is_not_replaced_before_it_is_kept() {
    let kinds =
        [io::ErrorKind::PermissionDenied, io::ErrorKind::StorageFull, io::ErrorKind::Unsupported];
    for kind in kinds {
        let mut disk = Crowded::new(SimDisk::new(2, Faults::default()));
        disk.error = kind;
        let mut database = open_with(&disk, &DEVICES, HistoryOptions::OFF).unwrap();
        fill(&mut database, 0, 60);
        let contents = database.keyspace.contents();
        let made = Made { backup: back_up(&mut database, "a"), contents };
        disk.refuse(|call, _| call == Call::Link);
        fill(&mut database, 0, 60);
        for number in 0..40 {
            database.set(&key(number), b"w");
            database.flush();
        }
        database.log.compact_all();
        drive(&mut database);
        let is_lost = kind == io::ErrorKind::Unsupported;
        assert_eq!(lost(&database)["a"], is_lost, "{kind:?}: only where links are never possible");
        if is_lost {
            continue;
        }
        assert_eq!(kept_on(&disk.disk), 0);
        assert_restorable(&disk.disk, &made);
        disk.refuse(|_, _| false);
        database.log.compact_all();
        database.settle();
        assert!(kept_on(&disk.disk) > 0, "{kind:?}: it goes on");
        assert_restorable(&disk.disk, &made);
        let database = restart(&disk, database, HistoryOptions::OFF);
        assert!(!lost(&database)["a"]);
    }
}
