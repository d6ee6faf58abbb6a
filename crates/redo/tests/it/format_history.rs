//! What the log says of its past is written as ever: notes, and the sections of the manifest that not every log has.

use std::path::Path;
use std::sync::Arc;

use base::{DangerousCommand, DbId, Lsn, Note, NoteEvent, Record, RecordKind};
use env_sim::SimDisk;
use env_sim::sweep::crash_everywhere;
use redo::manifest::Manifest;
use redo::{BackupPoint, HistoryOptions, NamedBackup, RestorePoint};

use crate::format::{compare, read};
use crate::harness::{Database, options};
use crate::restoring::{INTO, request, restore};
use crate::rewinding::{begin, rewind};

const TIME_MS: i64 = 1_700_000_000_000;

fn note(database: &mut Database, event: NoteEvent) {
    let value = Note { time_ms: TIME_MS, event }.encode();
    let addr = database.log.append(&Record::whole(RecordKind::Note, DbId(0), &[], &value, None));
    database.log.retire(addr);
}

fn back_up(database: &mut Database, name: &str, configuration: Option<&str>) {
    let made = database.log.create_backup(Some(name.to_owned()), BackupPoint::Now);
    let NamedBackup { id, name, lsn, .. } = made.unwrap();
    note(database, NoteEvent::BackupCreated { id, name, lsn });
    if let Some(text) = configuration {
        database.log.configure_backup(id, text);
        note(database, NoteEvent::BackupConfiguration { id, text: text.to_owned() });
    }
    database.flush();
}

fn command(database: &mut Database, loses_data: bool, text: &str) {
    let [user, address, text] = ["default", "10.0.0.7:50210", text].map(str::to_owned);
    let command = DangerousCommand { loses_data, user, address, text };
    if loses_data {
        database.log.note_point();
    }
    database.log.note_command(command.clone());
    note(database, NoteEvent::Command(command));
}

/// Makes a log with backups, one of which was deleted, dangerous commands, and files that compactions have replaced.
fn write_past() -> SimDisk {
    let disk = SimDisk::new(0, env_sim::Faults::default());
    let options = redo::Options { history: HistoryOptions::ALL, ..options(Path::new("/data")) };
    let mut database = Database::open_on(Arc::new(disk.clone()), options).unwrap();
    database.log.declare(RecordKind::Note);
    database.set(b"greeting", b"hello");
    database.flush();
    back_up(&mut database, "first", Some("appendonly yes\nmaxmemory 1gb\n"));
    back_up(&mut database, "second", None);
    let NamedBackup { id, name, .. } = database.log.delete_backup("second").unwrap();
    note(&mut database, NoteEvent::BackupDeleted { id, name });
    command(&mut database, false, "CONFIG SET maxmemory 2gb");
    database.flush();
    database.set(b"greeting", b"hello, world");
    database.flush();
    command(&mut database, true, "FLUSHALL");
    database.delete(b"greeting");
    database.flush();
    database.log.compact_all();
    database.settle();
    database.set(b"after", b"it");
    database.close();
    disk
}

fn manifest(disk: &SimDisk, dir: &str) -> Manifest {
    Manifest::read(disk, Path::new(dir)).unwrap().expect("there is one")
}

fn has(bytes: &[u8], tags: &[&[u8; 4]]) {
    for tag in tags {
        let is_there = bytes.windows(4).any(|window| window == *tag);
        assert!(is_there, "no section {}", tag.escape_ascii());
    }
}

#[test]
fn what_the_log_says_of_its_past_is_written_as_ever_and_read() {
    let disk = write_past();
    // Notes are garbage at once: the file that has them was compacted, and is kept as it was.
    let kept = manifest(&disk, "/data").history;
    assert_eq!(kept.len(), 1, "{kept:?}");
    let directory = Path::new("/data/redo/history");
    let names = env::Disk::list(&disk, directory).unwrap();
    let path = directory.join(names.first().expect("it is kept"));
    compare(&disk, "v2", "segment-with-notes", path.to_str().unwrap());
    compare(&disk, "v2", "manifest-with-history", "/data/redo.manifest");
    has(
        &read(&disk, "/data/redo.manifest"),
        &[b"HIST", b"HFLR", b"HPTS", b"HFRO", b"BKUP", b"CMDS", b"BCFG"],
    );
    let manifest = manifest(&disk, "/data");
    let [backup] = manifest.registry.backups() else { panic!("{:?}", manifest.registry) };
    assert_eq!((&backup.name[..], backup.lsn, backup.time_ms), ("first", Lsn(2), TIME_MS));
    let texts: Vec<_> =
        manifest.registry.commands().iter().map(|noted| &noted.command.text[..]).collect();
    assert_eq!(texts, ["CONFIG SET maxmemory 2gb", "FLUSHALL"]);
    assert_eq!(manifest.history_points.len(), 1);
    let found = restore(&disk, &request(RestorePoint::Backup("first".to_owned()))).unwrap();
    assert_eq!(found.configuration.as_deref(), Some("appendonly yes\nmaxmemory 1gb\n"));
    // What was restored says of which log it is a branch.
    let branched = format!("{INTO}/redo.manifest");
    compare(&disk, "v2", "manifest-branched", &branched);
    has(&read(&disk, &branched), &[b"BRAN"]);
}

#[test]
fn a_log_that_was_set_back_says_so_as_ever() {
    let disk = write_past();
    let back = || RestorePoint::Backup("first".to_owned());
    let mut unfinished = None;
    crash_everywhere(
        &disk,
        |disk| begin(disk, back()).and_then(redo::Rewinding::finish).is_ok(),
        |disk, _| {
            let is_unfinished = manifest(disk, "/data").rewinds.unfinished.is_some();
            if is_unfinished && unfinished.is_none() {
                unfinished = Some(disk.fork());
            }
        },
    );
    let unfinished = unfinished.expect("a crash leaves one");
    compare(&unfinished, "v2", "manifest-being-set-back", "/data/redo.manifest");
    rewind(&disk, back()).unwrap();
    compare(&disk, "v2", "manifest-set-back", "/data/redo.manifest");
    for disk in [&disk, &unfinished] {
        has(&read(disk, "/data/redo.manifest"), &[b"RWND"]);
    }
    let rewinds = manifest(&disk, "/data").rewinds;
    assert_eq!((rewinds.list.len(), rewinds.list[0].to), (1, Lsn(2)));
    assert!(!rewinds.put_back.is_empty(), "{rewinds:?}");
}
