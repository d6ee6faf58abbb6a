//! The format, byte by byte: `tests/fixtures/v1` was written once, and is rewritten and compared.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use env::{Access, Disk};
use env_os::OsDisk;
use env_sim::sweep::{Damage, damages, exchanges, image_of};
use env_sim::{Faults, SimDisk};
use tap::log::{self, Batch, Carried, Keep, Settings, Writer};
use tap::{Class, ConnectionNumber, Entry, Error, FileError, GapReason, Outcome, Position, Time};

const FIRST: ConnectionNumber = ConnectionNumber(1);
const SECOND: ConnectionNumber = ConnectionNumber(2);
const HOUR: Time = Time(1_700_000_000_000_000_000);

fn later(ns: u64) -> Time {
    Time(HOUR.0 + ns)
}

fn settings() -> Settings {
    Settings { protocol: "resp".into(), keep: Keep::default() }
}

fn request(batch: &mut Batch, connection: ConnectionNumber, at: u64, payload: &[u8]) {
    let port = if connection == FIRST { 40_001 } else { 40_002 };
    let class = if payload.starts_with(b"SELECT") { Class::Connection } else { Class::Query };
    batch.request(connection, later(at), class, port, 0xfffe_0000, payload);
}

/// Writes at least one entry of each kind, in two segments.
fn write_sample(disk: Arc<dyn Disk>, dir: &Path) {
    let mut writer = Writer::open(disk, dir, settings(), HOUR).unwrap();
    let client = "192.0.2.7:40001".parse().unwrap();
    let server = "192.0.2.1:6379".parse().unwrap();
    let mut batch = Batch::after(writer.position());
    batch.opened(FIRST, later(1), client, server);
    request(&mut batch, FIRST, 2, b"SELECT 3\r\n");
    request(&mut batch, FIRST, 900, b"SET a 1\r\n");
    batch.completed(Position(1), later(1000), Outcome::Ok);
    batch.completed(Position(2), later(1100), Outcome::Error);
    writer.write(&mut batch).unwrap();
    batch.clear();
    let client_6 = "[2001:db8::7]:40002".parse().unwrap();
    let server_6 = "[2001:db8::1]:6379".parse().unwrap();
    batch.opened(SECOND, later(1200), client_6, server_6);
    batch.gap(Some(SECOND), later(1300), 1448, GapReason::Lost);
    batch.gap(None, later(1300), 7, GapReason::RingOverflow);
    request(&mut batch, SECOND, 1290, b"INCR b\r\n");
    writer.write(&mut batch).unwrap();
    batch.clear();
    let select = vec![b"SELECT 3\r\n".to_vec()];
    let carried = [
        Carried { connection: FIRST, opened: later(1), client, server, requests: select },
        Carried {
            connection: SECOND,
            opened: later(1200),
            client: client_6,
            server: server_6,
            requests: Vec::new(),
        },
    ];
    writer.rotate(&carried, SECOND, later(2000)).unwrap();
    batch.completed(Position(3), later(2100), Outcome::Ok);
    request(&mut batch, FIRST, 2200, b"DEL a\r\n");
    batch.closed(SECOND, later(2300));
    writer.write(&mut batch).unwrap();
    writer.close().unwrap();
}

fn files() -> [&'static str; 2] {
    ["0000000001.tap", "0000000002.tap"]
}

fn sample_on_sim_disk() -> (SimDisk, Arc<dyn Disk>) {
    let sim = SimDisk::new(1, Faults::default());
    let disk: Arc<dyn Disk> = Arc::new(sim.clone());
    write_sample(disk.clone(), Path::new("/log"));
    (sim, disk)
}

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/v1")
}

#[test]
fn the_log_of_version_1_is_written_as_it_always_was() {
    let dir = tempfile::tempdir().unwrap();
    write_sample(Arc::new(OsDisk), dir.path());
    for name in files() {
        let written = std::fs::read(dir.path().join(name)).unwrap();
        let stored = std::fs::read(fixtures().join(name)).unwrap();
        assert!(written == stored, "{name} is written differently from version 1");
    }
}

#[test]
fn the_log_of_version_1_is_read() {
    let disk: Arc<dyn Disk> = Arc::new(OsDisk);
    let entries: Vec<Entry> =
        log::read(&disk, &fixtures(), None).unwrap().collect::<Result<_, _>>().unwrap();
    assert_eq!(entries.len(), 12, "the second segment repeats nothing: {entries:#?}");
    assert_eq!(
        entries[2],
        Entry::Request {
            position: Position(2),
            connection: FIRST,
            at: later(900),
            class: Class::Query,
            sequence: 0xfffe_0000,
            payload: b"SET a 1\r\n".to_vec(),
        }
    );
    assert_eq!(
        entries[6],
        Entry::Gap {
            connection: Some(SECOND),
            at: later(1300),
            missing: 1448,
            reason: GapReason::Lost
        }
    );
    assert_eq!(entries[11], Entry::Closed { connection: SECOND, at: later(2300) });
    assert_eq!(log::protocol(&disk, &fixtures()).unwrap(), "resp");
}

#[test]
fn a_reader_of_a_later_segment_gets_the_connections_carried_over() {
    let (_, disk) = sample_on_sim_disk();
    let since = Some(Position(3));
    let entries: Vec<Entry> =
        log::read(&disk, Path::new("/log"), since).unwrap().collect::<Result<_, _>>().unwrap();
    let opened = |entry: &Entry| matches!(entry, Entry::Opened { .. });
    assert_eq!(entries.iter().filter(|entry| opened(entry)).count(), 2);
    assert_eq!(
        entries[1],
        Entry::Request {
            position: Position(0),
            connection: FIRST,
            at: later(1),
            class: Class::Connection,
            sequence: 0,
            payload: b"SELECT 3\r\n".to_vec(),
        }
    );
    let positions: Vec<u64> = entries
        .iter()
        .filter_map(|entry| match entry {
            Entry::Request { position, .. } => Some(position.0),
            _ => None,
        })
        .collect();
    assert_eq!(positions, [0, 4]);
}

#[test]
fn every_damage_is_found_and_its_file_named() {
    let (_, disk) = sample_on_sim_disk();
    let dir = Path::new("/log");
    let whole: Vec<Entry> = log::read(&disk, dir, None).unwrap().collect::<Result<_, _>>().unwrap();
    let mut image = image_of(&*disk, &[dir]);
    image.retain(|path, _| files().iter().any(|name| path.ends_with(name)));
    let last = dir.join(files()[1]);
    let mark_at = image[&last].len() - 48;
    for damage in damages(&image, 1).into_iter().chain(exchanges(&image)) {
        let disk: Arc<dyn Disk> = Arc::new(damage.on(&image));
        let read: Result<Vec<Entry>, Error> =
            log::read(&disk, dir, None).and_then(Iterator::collect);
        let is_last = damage.path() == last;
        match (read, &damage) {
            // The mark of a clean end says only that everything before it was durable.
            (Ok(entries), Damage::Flip { at, .. }) => {
                assert!(is_last && *at >= mark_at && entries == whole, "{damage:?}");
            }
            // The oldest segment may be removed by age: the next one carries its connections over.
            (Ok(entries), Damage::Lose { .. }) if !is_last => {
                assert!(entries.len() < whole.len() && entries.last() == whole.last());
            }
            // The end of the last segment may be torn: the rest is a prefix of the log.
            (Ok(entries), Damage::Cut { .. } | Damage::Append { .. } | Damage::Lose { .. }) => {
                assert!(is_last && whole.starts_with(&entries), "{damage:?}: {entries:#?}");
            }
            (
                Err(Error::File(
                    FileError::Corrupt { path: named, .. }
                    | FileError::NewerFormat { path: named, .. },
                )),
                _,
            ) => {
                assert!(
                    named == damage.path() || matches!(damage, Damage::Lose { .. }),
                    "{damage:?}"
                );
            }
            (Ok(_), Damage::Exchange { .. }) => panic!("{damage:?} is not found"),
            (Err(other), _) => panic!("{damage:?}: {other}"),
        }
    }
}

#[test]
fn a_log_is_continued_only_in_its_own_protocol_and_by_one_at_a_time() {
    let (_, disk) = sample_on_sim_disk();
    let dir = Path::new("/log");
    let mysql = Settings { protocol: "mysql".into(), ..settings() };
    let refused = Writer::open(disk.clone(), dir, mysql, HOUR);
    assert!(matches!(refused, Err(Error::OtherProtocol { .. })));
    let writer = Writer::open(disk.clone(), dir, settings(), HOUR).unwrap();
    assert_eq!((writer.position(), writer.connection()), (Position(4), SECOND));
    let Err(second) = Writer::open(disk, dir, settings(), HOUR) else { panic!("two at a time") };
    assert_eq!(
        second.to_string(),
        "/log/tap.lock is locked: another process writes this log; stop it or choose another \
         directory"
    );
}

#[test]
fn a_newer_format_is_told_from_a_number_that_no_format_has() {
    let (_, disk) = sample_on_sim_disk();
    let dir = Path::new("/log");
    for (version, text) in [
        (2, "has format 2, this program supports formats up to 1; use a newer program"),
        (0, "is corrupt at byte 8: no version of the format has this number; restore the file"),
    ] {
        let file = disk.open(&dir.join(files()[0]), Access::ReadWrite).unwrap();
        file.write_all_at(&u32::to_le_bytes(version), 8).unwrap();
        let read = log::read(&disk, dir, None).and_then(Iterator::collect::<Result<Vec<_>, _>>);
        let error = read.unwrap_err().to_string();
        assert!(error.contains(text) && error.starts_with("/log/"), "{error}");
    }
}
