//! A log that is set back in place, and set back to what it was before that.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use base::{DangerousCommand, Lsn};
use env::Disk;
use env_sim::{Faults, SimDisk};
use redo::manifest::Manifest;
use redo::{Env, Error, Options, RestorePoint, RewindRequest, Rewinding, Rewound};

use crate::crowded::{Call, Crowded};
use crate::harness::{Counter, Database, Keyspace, ManualClock, key, options};
use crate::history::{ALL, Contents, Ledger, World, copy, stored, world_options};
use crate::restoring::busy;

pub(crate) fn begin(disk: &SimDisk, point: RestorePoint) -> redo::Result<Rewinding> {
    begin_on(Arc::new(disk.clone()), point, &[])
}

fn begin_on(
    disk: Arc<dyn Disk>,
    point: RestorePoint,
    devices: &[PathBuf],
) -> redo::Result<Rewinding> {
    let text = |text: &str| text.to_owned();
    let command = DangerousCommand {
        loses_data: true,
        user: text("ops"),
        address: text("here"),
        text: format!("restore {point:?}"),
    };
    let request = RewindRequest {
        dir: Path::new("/data"),
        devices,
        point,
        durable: Lsn::ZERO,
        command,
        is_parallel: false,
    };
    let env = Env {
        disk,
        clock: Arc::new(ManualClock::default()),
        entropy: Box::new(Counter(3)),
        waker: Arc::new(|| {}),
    };
    Ok(Rewinding::begin(env, &request, &mut |_| {})?.expect("there is a log"))
}

pub(crate) fn rewind(disk: &SimDisk, point: RestorePoint) -> redo::Result<Rewound> {
    begin(disk, point)?.finish()
}

fn open(disk: &SimDisk, options: &Options) -> redo::Result<Database> {
    Database::open_on(Arc::new(disk.clone()), options.clone())
}

/// The state after a block, as the closed log tells it.
fn as_of(disk: &SimDisk, lsn: u64) -> Contents {
    let log = stored(disk).into_as_of(Lsn(lsn)).unwrap_or_else(|error| panic!("{lsn}: {error}"));
    let mut keyspace = Keyspace::default();
    log.read(Lsn::ZERO, &mut keyspace, &mut |_| {})
        .unwrap_or_else(|error| panic!("{lsn}: {error}"));
    keyspace.contents()
}

/// Whether all blocks that were ever written, one in `step`, are told as they were.
fn check(disk: &SimDisk, ledger: &Ledger, step: usize, what: &str) {
    let disk = copy(disk);
    for lsn in ledger.lsns().step_by(step) {
        assert_eq!(&as_of(&disk, lsn), ledger.at(lsn), "{what}: the state after {lsn}");
    }
}

/// Writes and compacts for a while, in one life of the log, and closes it.
fn live(disk: &SimDisk, options: &Options, ledger: &mut Ledger, tag: u8) {
    let mut database = open(disk, options).unwrap();
    ledger.note(&database);
    for number in 0..30_usize {
        if number % 4 == 3 {
            database.delete(&key(number));
        }
        database.set(&key((number * 7) % 60), &[tag; 60]);
        database.log.seal();
        ledger.note(&database);
        if number % 10 == 9 {
            database.settle();
            database.log.compact_all();
            database.settle();
        }
    }
    database.close();
}

#[test]
fn a_log_is_set_back_goes_on_and_what_was_undone_is_there_again() {
    let (mut put_back, mut cut) = (0, 0);
    for seed in 0..12 {
        let world = busy(seed);
        let last = world.database.log.durable_lsn().0;
        let options = world_options(seed);
        for to in (0..last).step_by(usize::try_from(last / 5).unwrap()).chain([last - 1]) {
            let what = format!("seed {seed}, to {to} of {last}");
            let disk = copy(&world.disk);
            let mut ledger = world.ledger.clone();
            let rewound = rewind(&disk, RestorePoint::Lsn(to)).unwrap();
            assert_eq!((rewound.to.0, rewound.at.0, rewound.is_resumed), (to, last + 1, false));
            put_back += rewound.put_back;
            cut += rewound.cut;
            // No more is written than what has blocks on both sides.
            let segment = options.segment_bytes + 2000;
            assert!(rewound.written_bytes <= rewound.cut as u64 * segment, "{what}: {rewound:?}");
            let database = open(&disk, &options).unwrap();
            assert_eq!(&database.keyspace.contents(), ledger.at(to), "{what}");
            assert_eq!(database.log.open_lsn().0, last + 2, "no number is used twice");
            database.close();
            live(&disk, &options, &mut ledger, b'n');
            check(&disk, &ledger, 11, &what);
            let end = ledger.lsns().last().unwrap();
            let backup = RestorePoint::Backup(rewound.backup.unwrap());
            let undone = rewind(&disk, backup).unwrap();
            assert_eq!((undone.to.0, undone.at.0), (last, end + 1), "{what}");
            let database = open(&disk, &options).unwrap();
            assert_eq!(&database.keyspace.contents(), ledger.at(last), "{what}");
            database.close();
            live(&disk, &options, &mut ledger, b'm');
            check(&disk, &ledger, 13, &what);
            // And to what came of the first time, in the middle of that life.
            rewind(&disk, RestorePoint::Lsn(end - 9)).unwrap();
            let database = open(&disk, &options).unwrap();
            assert_eq!(&database.keyspace.contents(), ledger.at(end - 9), "{what}");
            database.close();
            check(&disk, &ledger, 17, &what);
        }
    }
    assert!(put_back > 50 && cut > 50, "{put_back} put back, {cut} cut");
}

/// A small log, with some history.
fn small() -> (World, Options) {
    let mut options = options(Path::new("/data"));
    options.devices = vec![PathBuf::from("/disk0"), PathBuf::from("/disk1")];
    options.history = ALL;
    options.segment_bytes = 3000;
    options.compaction.invalid_count_min = 2;
    options.compaction.garbage_share_min = 0.0;
    let mut world = World::new(3, options.clone());
    for _ in 0..150 {
        world.step();
    }
    world.database.settle();
    world.database.log.compact_all();
    world.database.settle();
    (world, options)
}

/// What a rewind that was ended somewhere has left.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Left {
    Old,
    Refused,
    New,
}

fn look(disk: &SimDisk, options: &Options, (ledger, to, last): (&Ledger, u64, u64)) -> Left {
    match open(&disk.fork(), options) {
        Err(Error::RewindUnfinished { .. }) => Left::Refused,
        Err(error) => panic!("{error}"),
        Ok(database) if database.log.open_lsn().0 == last + 1 => {
            assert_eq!(&database.keyspace.contents(), ledger.at(last));
            Left::Old
        }
        Ok(database) => {
            assert_eq!(database.log.open_lsn().0, last + 2);
            assert_eq!(&database.keyspace.contents(), ledger.at(to));
            Left::New
        }
    }
}

/// However it ends, the log is what it was, or what it is set back to, or opens for nothing but the same once more.
#[test]
fn a_rewind_may_be_cut_off_at_every_single_io() {
    let (world, options) = small();
    let last = world.database.log.durable_lsn().0;
    let to = last / 2;
    let expected = (&world.ledger, to, last);
    assert_ne!(world.ledger.at(to), world.ledger.at(last));
    let mut left = Vec::new();
    for crash_at in 1.. {
        let disk = copy(&world.disk);
        disk.crash_after(crash_at);
        let result = rewind(&disk, RestorePoint::Lsn(to));
        let is_over = !disk.is_crashed();
        disk.restart();
        let found = look(&disk, &options, expected);
        left.push(found);
        if is_over {
            result.unwrap();
            assert_eq!(found, Left::New);
            break;
        }
        if found == Left::Refused {
            // Nothing else reads it meanwhile.
            let shared: Arc<dyn Disk> = Arc::new(disk.clone());
            assert!(!redo::verify(&shared, Path::new("/data"), &[]).unwrap().is_good());
            for again in [2, 5, 9, 14] {
                let disk = disk.fork();
                disk.crash_after(again);
                let _cut_off = rewind(&disk, RestorePoint::Lsn(to));
                disk.restart();
                let found = look(&disk, &options, expected);
                assert!(found >= Left::Refused, "{crash_at}, {again}: {found:?}");
                if found == Left::Refused {
                    let other = rewind(&disk, RestorePoint::Latest).unwrap();
                    assert!(other.is_resumed && !other.is_as_asked);
                }
                assert_eq!(look(&disk, &options, expected), Left::New, "{crash_at}, {again}");
            }
        }
        if found != Left::New {
            let rewound = rewind(&disk, RestorePoint::Lsn(to)).unwrap();
            assert_eq!(rewound.is_resumed, found == Left::Refused, "{crash_at}");
            assert!(rewound.is_as_asked, "{crash_at}");
        }
        assert_eq!(look(&disk, &options, expected), Left::New, "{crash_at}");
        check(&disk, &world.ledger, 5, &format!("{crash_at}"));
        let manifest = Manifest::read(&disk, Path::new("/data")).unwrap().unwrap();
        let backup = manifest.registry.backups().last().unwrap().name.clone();
        rewind(&disk, RestorePoint::Backup(backup)).unwrap();
        let database = open(&disk, &options).unwrap();
        assert_eq!(&database.keyspace.contents(), world.ledger.at(last), "{crash_at}");
    }
    assert!(left.is_sorted(), "{left:?}");
    let count = |what| left.iter().filter(|left| **left == what).count();
    assert!(count(Left::Old) > 20 && count(Left::Refused) > 5, "{left:?}");
}

/// An error of the disk, once, at every I/O: the same again succeeds.
#[test]
fn a_rewind_that_a_disk_has_refused_is_repeated() {
    let (world, options) = small();
    let last = world.database.log.durable_lsn().0;
    let expected = (&world.ledger, last / 3, last);
    let mut failed = 0;
    for error_at in 1.. {
        let disk = copy(&world.disk);
        let error_at_io = disk.io_count() + error_at;
        disk.set_faults(Faults { error_at_io: Some(error_at_io), ..Faults::default() });
        let result = rewind(&disk, RestorePoint::Lsn(last / 3));
        let is_over = disk.io_count() < error_at_io;
        disk.set_faults(Faults::default());
        if result.is_err() {
            failed += 1;
            let found = look(&disk, &options, expected);
            if found != Left::New {
                rewind(&disk, RestorePoint::Lsn(last / 3)).unwrap();
            }
        }
        assert_eq!(look(&disk, &options, expected), Left::New, "{error_at}");
        if is_over {
            break;
        }
    }
    assert!(failed > 40, "{failed}");
}

#[test]
fn what_cannot_be_set_back_is_left_as_it_is() {
    let world = busy(2);
    let last = world.database.log.durable_lsn().0;
    let open = begin(&world.disk, RestorePoint::Lsn(3)).map(|_| ()).unwrap_err();
    assert!(matches!(open, Error::File(redo::FileError::InUse { .. })), "{open}");
    let disk = copy(&world.disk);
    for (point, part) in [
        (RestorePoint::Latest, "there is nothing to undo"),
        (RestorePoint::Lsn(last), "there is nothing to undo"),
        (RestorePoint::Lsn(last + 1), "there is no block"),
        (RestorePoint::Backup("none".to_owned()), "there is no backup"),
    ] {
        let error = rewind(&disk, point).unwrap_err().to_string();
        assert!(error.contains(part), "{error}");
    }
    assert_eq!(&as_of(&disk, last), world.ledger.at(last));
    let manifest = Manifest::read(&disk, Path::new("/data")).unwrap().unwrap();
    assert!(manifest.rewinds.list.is_empty() && manifest.registry.backups().is_empty());
}

/// What was undone is not found again by what looks for it in the past of what the log is now.
#[test]
fn a_flush_that_was_undone_is_not_the_last_flush() {
    let mut world = World::new(6, Options { history: ALL, ..world_options(6) });
    for _ in 0..3 {
        (0..60).for_each(|_| world.step());
        world.clear();
        world.database.settle();
    }
    (0..60).for_each(|_| world.step());
    world.database.settle();
    let points: Vec<u64> = world.points.clone();
    let disk = copy(&world.disk);
    let last = *points.last().unwrap();
    assert_eq!(rewind(&disk, RestorePoint::BeforeFlush(1)).unwrap().to.0, last);
    // The one before it is the last one now.
    let before = points[points.len() - 2];
    let rewound = rewind(&disk, RestorePoint::BeforeFlush(1)).unwrap();
    assert_eq!(rewound.to.0, before);
    let database = open(&disk, &world_options(6)).unwrap();
    assert_eq!(&database.keyspace.contents(), world.ledger.at(before));
    database.close();
    // What it was is told by its block all the same.
    assert_eq!(&as_of(&disk, last), world.ledger.at(last));
}

/// A directory that is none of the log's does not become part of it by a word that was mistyped.
#[test]
fn a_directory_that_is_no_device_is_refused() {
    let (world, options) = small();
    let last = world.database.log.durable_lsn().0;
    let disk = copy(&world.disk);
    let mut devices = options.devices.clone();
    devices.push(PathBuf::from("/disk11"));
    let shared: Arc<dyn Disk> = Arc::new(disk.clone());
    let error = begin_on(shared, RestorePoint::Lsn(last / 2), &devices).map(|_| ()).unwrap_err();
    assert!(matches!(&error, Error::NoDeviceOf { path } if path.ends_with("disk11")), "{error}");
    assert!(!disk.exists(Path::new("/disk11")).unwrap());
    assert_eq!(look(&disk, &options, (&world.ledger, last / 2, last)), Left::Old);
    devices.pop();
    let shared: Arc<dyn Disk> = Arc::new(disk.clone());
    begin_on(shared, RestorePoint::Lsn(last / 2), &devices).unwrap().finish().unwrap();
    assert_eq!(look(&disk, &options, (&world.ledger, last / 2, last)), Left::New);
}

/// What is wanted is in the files that a start would give up for room.
#[test]
fn a_full_disk_refuses_and_takes_nothing_of_the_past() {
    let (world, options) = small();
    let last = world.database.log.durable_lsn().0;
    let disk = copy(&world.disk);
    let manifest = || Manifest::read(&disk, Path::new("/data")).unwrap().unwrap();
    let before = manifest();
    assert!(!before.history.is_empty());
    for left_bytes in [0, 100, 20_000] {
        let capacity_bytes = Some(disk.used_bytes() + left_bytes);
        disk.set_faults(Faults { capacity_bytes, ..Faults::default() });
        let error = rewind(&disk, RestorePoint::Lsn(last / 2)).unwrap_err();
        assert!(matches!(error, Error::NoRoom { .. }), "{left_bytes}: {error}");
        assert_eq!(manifest(), before, "{left_bytes}");
    }
    disk.set_faults(Faults::default());
    check(&disk, &world.ledger, 7, "it was full");
    rewind(&disk, RestorePoint::Lsn(last / 2)).unwrap();
    assert_eq!(look(&disk, &options, (&world.ledger, last / 2, last)), Left::New);
}

/// Whatever the second device refuses, it does so while the log is what it was.
#[test]
fn a_device_that_refuses_does_not_leave_a_log_that_opens_for_nothing() {
    let (world, options) = small();
    let last = world.database.log.durable_lsn().0;
    let is_temporary =
        |path: &Path| path.starts_with("/disk1") && path.extension() == Some("tmp".as_ref());
    for refused in [Call::Link, Call::Remove] {
        let disk = copy(&world.disk);
        let crowded = Crowded::new(disk.clone());
        crowded.refuse(move |call, path| {
            call == refused && is_temporary(path) && call != Call::Create
        });
        begin_on(Arc::new(crowded), RestorePoint::Lsn(last / 2), &[]).map(|_| ()).unwrap_err();
        assert_eq!(look(&disk, &options, (&world.ledger, last / 2, last)), Left::Old);
    }
}

/// What can be told only because databases were emptied behind it stays so, wherever the log is set back to.
#[test]
fn points_before_flushes_outlive_what_is_set_back_over_them() {
    let mut world = World::new(6, Options { history: ALL, ..world_options(6) });
    for _ in 0..3 {
        (0..60).for_each(|_| world.step());
        world.clear();
        world.database.settle();
    }
    let points = world.points.clone();
    let disk = copy(&world.disk);
    rewind(&disk, RestorePoint::BeforeFlush(points.len())).unwrap();
    let manifest = Manifest::read(&disk, Path::new("/data")).unwrap().unwrap();
    let kept: Vec<u64> = manifest.history_points.iter().map(|point| point.lsn.0).collect();
    assert!(points.iter().all(|point| kept.contains(point)), "{points:?}, {kept:?}");
    let error = rewind(&disk, RestorePoint::BeforeFlush(1)).unwrap_err();
    assert!(matches!(error, Error::NoFlush { known: 0, .. }), "{error}");
}
