//! A new log made of one as it was.

use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use env::Disk;
use env_sim::SimDisk;
use env_sim::sweep::{Image, disk_of, image_of};
use redo::{Error, Options, RestorePoint, RestoreRequest, Restored};

use crate::harness::{Counter, Database, key, options};
use crate::history::{ALL, Contents, World, copy, world_options};
use crate::racing::Busy;

pub(crate) const INTO: &str = "/new";

pub(crate) fn request(point: RestorePoint) -> RestoreRequest<'static> {
    RestoreRequest {
        source: Path::new("/data"),
        devices: &[],
        into: Some(Path::new(INTO)),
        room_in: None,
        point,
        durable: base::Lsn::ZERO,
        reader: 1,
        expiry: redo::Expiry::Absolute,
        threads: NonZero::<usize>::MIN,
    }
}

pub(crate) fn restore(disk: &SimDisk, request: &RestoreRequest<'_>) -> redo::Result<Restored> {
    let shared: Arc<dyn Disk> = Arc::new(disk.clone());
    Ok(redo::restore(&shared, request, &mut Counter(7), &mut |_| {})?.expect("there is a log"))
}

/// Opens what was restored, and lets it go on for a while.
pub(crate) fn contents(disk: &SimDisk, lsn: u64) -> Contents {
    contents_in(disk, Path::new(INTO), lsn)
}

fn contents_in(disk: &SimDisk, into: &Path, lsn: u64) -> Contents {
    let mut database = Database::open_on(Arc::new(disk.clone()), options(into)).unwrap();
    assert_eq!(database.log.open_lsn().0, lsn + 1, "it goes on behind the block");
    let contents = database.keyspace.contents();
    for number in 0..20 {
        database.set(&key(number), b"of the new life");
        database.flush();
    }
    database.log.compact_all();
    database.settle();
    let after = database.close().contents();
    let database = Database::open_on(Arc::new(disk.clone()), options(into)).unwrap();
    assert_eq!(database.keyspace.contents(), after);
    contents
}

/// A log on some devices, with history.
pub(crate) fn busy(seed: u64) -> World {
    let mut world = World::new(seed, world_options(seed));
    for _ in 0..900 {
        world.step();
    }
    world.database.settle();
    world
}

#[test]
fn what_is_restored_is_what_was_and_goes_on_by_itself() {
    for seed in 0..9 {
        let world = busy(seed);
        let last = world.database.log.durable_lsn().0;
        let disk = copy(&world.disk);
        for lsn in (0..=last).step_by(usize::try_from(last / 9).unwrap()).chain([last]) {
            let disk = copy(&disk);
            let threads = NonZero::new(1 + usize::try_from(lsn % 3).unwrap()).unwrap();
            let wanted = RestoreRequest { threads, ..request(RestorePoint::Lsn(lsn)) };
            let restored = restore(&disk, &wanted).unwrap();
            assert_eq!(restored.parent.lsn.0, lsn);
            let manifest = redo::manifest::Manifest::read(&disk, Path::new(INTO)).unwrap().unwrap();
            assert_eq!(manifest.parent, Some(restored.parent));
            assert!(manifest.database != restored.parent.database && !restored.is_running);
            let source =
                redo::manifest::Manifest::read(&disk, Path::new("/data")).unwrap().unwrap();
            assert_ne!(manifest.hash_seed, source.hash_seed, "a secret of its own");
            assert_eq!(&contents(&disk, lsn), world.ledger.at(lsn), "seed {seed}, {lsn}");
            let error = restore(&disk, &request(RestorePoint::Latest)).unwrap_err();
            assert!(matches!(error, Error::NotEmpty { .. }), "{error}");
        }
        let newest = restore(&disk, &request(RestorePoint::Latest)).unwrap();
        assert_eq!(newest.parent.lsn.0, last);
        let error = restore(&copy(&world.disk), &request(RestorePoint::Lsn(last + 1)));
        assert!(matches!(error, Err(Error::BehindEnd { .. })), "{error:?}");
    }
}

/// Of a log that is open, while it is written and compacted between the steps of reading.
#[test]
fn a_log_that_is_open_is_restored_without_holding_it_up() {
    for seed in 0..9 {
        let mut world = busy(seed);
        let last = world.database.log.durable_lsn().0;
        for lsn in [last / 3, last / 2, last] {
            let into = PathBuf::from(format!("/new-{lsn}"));
            let request = RestoreRequest { into: Some(&into), ..request(RestorePoint::Lsn(lsn)) };
            let restored = restore(&world.disk, &request).unwrap();
            assert!(restored.is_running);
            let found = contents_in(&world.disk, &into, lsn);
            assert_eq!(&found, world.ledger.at(lsn), "seed {seed}, {lsn}");
            (0..100).for_each(|_| world.step());
        }
        for device in world_options(seed).devices {
            let history = world.disk.list(&device.join("history")).unwrap_or_default();
            assert!(history.iter().all(|name| !name.to_string_lossy().starts_with("reader")));
        }
    }
}

#[test]
fn a_reader_that_died_leaves_nothing_behind_the_next_start() {
    let world = busy(4);
    let crash_at = 30;
    let disk = copy(&world.disk);
    let database = Database::open_on(Arc::new(disk.clone()), world_options(4)).unwrap();
    // The reader is another process: its disk dies, and with it this one's, which does not matter.
    disk.crash_after(crash_at);
    restore(&disk, &request(RestorePoint::Latest)).unwrap_err();
    drop(database);
    disk.restart();
    let names = |disk: &SimDisk| -> Vec<PathBuf> {
        let devices = world_options(4).devices.into_iter();
        let names = devices.flat_map(|device| {
            let history = device.join("history");
            let names = disk.list(&history).unwrap_or_default();
            names.into_iter().map(move |name| history.join(name))
        });
        names.filter(|path| path.to_string_lossy().contains("reader")).collect()
    };
    assert!(!names(&disk).is_empty(), "choose another I/O");
    let mut database = Database::open_on(Arc::new(disk.clone()), world_options(4)).unwrap();
    let left = names(&disk);
    let files = left.iter().flat_map(|path| disk.list(path).unwrap_or_default());
    let files: Vec<_> = files.collect();
    assert!(files.is_empty(), "{left:?} {files:?}");
    database.settle();
}

/// However a restore ends, the directory has no log or all of it; and the next one succeeds.
#[test]
fn a_restore_may_be_cut_off_at_every_single_io() {
    let small: Options = {
        let mut options = options(Path::new("/data"));
        options.devices = vec![PathBuf::from("/disk0")];
        options.history = ALL;
        options.segment_bytes = 3000;
        options
    };
    let mut world = World::new(3, small);
    for _ in 0..120 {
        world.step();
    }
    world.database.settle();
    let last = world.database.log.durable_lsn().0;
    let lsn = last - 3;
    // With several threads, one of them goes on with others behind the I/O that it ends with.
    for threads in [1, 3] {
        let request = RestoreRequest {
            threads: NonZero::new(threads).unwrap(),
            ..request(RestorePoint::Lsn(lsn))
        };
        for has_power in [false, true] {
            let (cut_off, resumed) = cut_off_everywhere(&world, &request, lsn, has_power);
            assert!(cut_off > 30, "{cut_off}");
            assert!(resumed > cut_off / 3, "{resumed} of {cut_off} went on");
        }
    }
}

/// Cuts a restore off at its first I/O, its second, and so on, until one ends before: by the power's end, or, with power, by that of the process
/// alone, and the power ends when another one has gone on. Returns how many were cut off, and how many of these were gone on with.
fn cut_off_everywhere(
    world: &World,
    request: &RestoreRequest<'_>,
    lsn: u64,
    has_power: bool,
) -> (usize, usize) {
    let (mut cut_off, mut resumed) = (0, 0);
    for crash_at in 1.. {
        let disk = copy(&world.disk);
        disk.crash_after(crash_at);
        let result = restore(&disk, request);
        let is_over = !disk.is_crashed();
        if has_power {
            disk.kill();
        } else {
            disk.restart();
        }
        let is_log = redo::is_there(&disk, Path::new(INTO));
        if is_over {
            result.unwrap();
            break;
        }
        cut_off += 1;
        if is_log {
            let shared: Arc<dyn Disk> = Arc::new(disk.clone());
            let report = redo::verify(&shared, Path::new(INTO), &[]).unwrap();
            assert!(report.is_good(), "{crash_at}: {report}");
        } else {
            let is_begun = disk.exists(&Path::new(INTO).join("restore-tmp/unfinished")).unwrap();
            // Also by a configuration that has its log elsewhere.
            let mut elsewhere = options(Path::new(INTO));
            elsewhere.devices = vec![PathBuf::from("/elsewhere")];
            for options in [options(Path::new(INTO)), elsewhere] {
                let error = Database::open_on(Arc::new(disk.fork()), options).err();
                let is_refused = matches!(error, Some(Error::UnfinishedRestore { .. }));
                assert_eq!(is_refused, is_begun, "{crash_at}: {error:?}");
            }
            // Or of a dump.
            let built = redo::begin(&disk.fork(), Path::new("/built"), Path::new(INTO), &[]);
            assert_eq!(built.is_err(), is_begun, "{crash_at}: {built:?}");
            resumed += usize::from(restore(&disk, request).unwrap().is_resumed);
            disk.crash();
        }
        assert_eq!(&contents(&disk, lsn), world.ledger.at(lsn), "{crash_at}");
    }
    (cut_off, resumed)
}

/// A restore up to `lsn` that the power's end has cut off when it had made `images` files, on a disk of its own.
fn unfinished(world: &World, request: &RestoreRequest<'_>, images: usize) -> SimDisk {
    for crash_at in 30.. {
        let disk = copy(&world.disk);
        disk.crash_after(crash_at);
        drop(restore(&disk, request));
        assert!(disk.is_crashed(), "it ends before it has made so many");
        disk.restart();
        if made(&disk).len() >= images {
            return disk;
        }
    }
    unreachable!()
}

/// The images of an unfinished restore.
fn made(disk: &SimDisk) -> Vec<PathBuf> {
    let device = Path::new(INTO).join("redo");
    let names = disk.list(&device).unwrap_or_default();
    let images = names.iter().filter_map(|name| name.to_str());
    images
        .filter(|name| redo::segment::parse_file_name(name).is_some())
        .map(|name| device.join(name))
        .collect()
}

/// Every bit of what was left counts, and what is not whole is made again.
#[test]
fn what_an_unfinished_restore_has_made_is_kept_where_it_is_whole() {
    let world = busy(1);
    let lsn = world.database.log.durable_lsn().0 - 3;
    let request = request(RestorePoint::Lsn(lsn));
    let begun = unfinished(&world, &request, 3);
    let images = made(&begun);
    for damaged in 0..images.len() {
        for n in 0..20 {
            let disk = begun.fork();
            let before: Vec<_> = images.iter().map(|path| disk.version(path).unwrap()).collect();
            let at = before[damaged].bytes * n / 20;
            disk.flip_bit(&images[damaged], at, 3);
            let restored = restore(&disk, &request).unwrap();
            assert!(restored.is_resumed);
            for (number, (path, before)) in images.iter().zip(&before).enumerate() {
                let is_kept = disk.version(path).unwrap().number == before.number;
                assert_eq!(is_kept, number != damaged, "byte {at} of image {damaged}: {number}");
            }
            assert_eq!(&contents(&disk, lsn), world.ledger.at(lsn), "byte {at} of image {damaged}");
        }
    }
}

/// All files of the log.
fn log_of(disk: &SimDisk) -> Image {
    let dirs = ["/data", "/disk0", "/disk1", "/disk2"];
    image_of(disk, &dirs.map(Path::new))
}

/// What is compacted between loses records, and deletions of them, in all segments: next to images of before they would come back.
#[test]
fn a_segment_that_was_compacted_meanwhile_is_copied_again() {
    let (mut others, mut resumed) = (0, 0);
    for seed in 0..12 {
        let mut options = world_options(seed);
        options.history = redo::HistoryOptions::OFF;
        let mut world = World::new(seed, options);
        for _ in 0..600 {
            world.step();
        }
        world.database.settle();
        let lsn = world.database.log.durable_lsn().0;
        let request = request(RestorePoint::Latest);
        let all = restore(&copy(&world.disk), &request).unwrap().files;
        let made =
            [Path::new(INTO), &Path::new(INTO).join("redo"), &Path::new(INTO).join("restore-tmp")]
                .map(Path::to_path_buf);
        let begun: Vec<_> = (1..all)
            .map(|images| {
                image_of(
                    &unfinished(&world, &request, images),
                    &made.each_ref().map(PathBuf::as_path),
                )
            })
            .collect();
        let before = log_of(&world.disk);
        world.database.log.compact_all();
        world.database.settle();
        assert_eq!(world.database.log.durable_lsn().0, lsn, "nothing was written");
        let after = log_of(&world.disk);
        others += usize::from(after != before);
        for (images, begun) in begun.into_iter().enumerate() {
            let disk = disk_of(&after.clone().into_iter().chain(begun).collect());
            let restored = restore(&disk, &request).unwrap();
            resumed += usize::from(restored.is_resumed);
            assert_eq!(&contents(&disk, lsn), world.ledger.at(lsn), "{seed}: {images}");
        }
    }
    // Where the last block is not told by its time any more, it is begun anew.
    assert!(others > 6 && resumed > 6, "{others} {resumed}");
}

/// Of another block, or with other times, nothing is kept.
#[test]
fn an_unfinished_restore_of_something_else_is_begun_anew() {
    let world = busy(1);
    let lsn = world.database.log.durable_lsn().0 - 3;
    let wanted = request(RestorePoint::Lsn(lsn));
    let others = [
        request(RestorePoint::Lsn(lsn - 1)),
        RestoreRequest { expiry: redo::Expiry::Never, ..request(RestorePoint::Lsn(lsn)) },
    ];
    for other in others {
        let disk = unfinished(&world, &other, 2);
        let restored = restore(&disk, &wanted).unwrap();
        assert!(!restored.is_resumed);
        assert_eq!(&contents(&disk, lsn), world.ledger.at(lsn));
    }
}

#[test]
fn nothing_is_restored_into_a_directory_with_anything_in_it() {
    let world = busy(0);
    let disk = copy(&world.disk);
    disk.create_dir_all(Path::new(INTO)).unwrap();
    drop(disk.create(&Path::new(INTO).join("redis.conf")).unwrap());
    let error = restore(&disk, &request(RestorePoint::Latest)).unwrap_err();
    assert!(matches!(error, Error::NotEmpty { .. }), "{error}");
    let dry = RestoreRequest { into: None, ..request(RestorePoint::Latest) };
    let found = restore(&disk, &dry).unwrap();
    assert!(found.database.is_none() && found.bytes > 0);
}

#[test]
fn a_point_is_found_before_each_flush() {
    let mut world = World::new(6, Options { history: ALL, ..world_options(6) });
    for _ in 0..4 {
        (0..60).for_each(|_| world.step());
        world.clear();
        world.database.settle();
    }
    (0..60).for_each(|_| world.step());
    world.database.settle();
    world.database.log.compact_all();
    world.database.settle();
    for (count, lsn) in world.points.iter().rev().enumerate() {
        let disk = copy(&world.disk);
        let restored = restore(&disk, &request(RestorePoint::BeforeFlush(count + 1))).unwrap();
        assert_eq!(restored.parent.lsn.0, *lsn);
        assert_eq!(&contents(&disk, *lsn), world.ledger.at(*lsn));
    }
    let disk = copy(&world.disk);
    let error = restore(&disk, &request(RestorePoint::BeforeFlush(99))).unwrap_err();
    assert!(matches!(error, Error::NoFlush { .. }), "{error}");
}

#[test]
fn an_image_that_is_read_other_than_it_was_written_makes_no_log() {
    let world = busy(1);
    let last = world.database.log.durable_lsn().0;
    for threads in 1..=3 {
        for n in 0..24 {
            let mut disk = Busy::new(0);
            disk.disk = copy(&world.disk);
            let (inner, mut images) = (disk.disk.clone(), 0);
            disk.before_renames(move |path| {
                let name = path.file_name().and_then(|name| name.to_str());
                if name.and_then(redo::segment::parse_file_name).is_some() {
                    // From the first block to the end of the footer.
                    let written = path.with_extension("tmp");
                    let bytes = inner.version(&written).unwrap().bytes;
                    let at = 128 + (bytes - 129) * n / 23;
                    assert!(images < n % 3 || inner.flip_bit(&written, at, 5));
                    images += 1;
                }
            });
            let mut request = request(RestorePoint::Lsn(last));
            request.threads = NonZero::new(threads).unwrap();
            let inner = disk.disk.clone();
            let shared: Arc<dyn Disk> = Arc::new(disk);
            let restored = redo::restore(&shared, &request, &mut Counter(7), &mut |_| {});
            assert!(restored.is_err(), "{threads} threads, damage {n}");
            assert!(!redo::is_there(&inner, Path::new(INTO)));
        }
    }
}

#[test]
fn a_damaged_source_is_refused_and_nothing_is_made() {
    let world = busy(1);
    let last = world.database.log.durable_lsn().0;
    let mut refused = 0;
    for n in 0..40 {
        let disk = copy(&world.disk);
        let dir = Path::new("/disk0");
        let mut names = disk.list(dir).unwrap();
        names.retain(|name| name.to_str().and_then(redo::segment::parse_file_name).is_some());
        let path = dir.join(&names[n % names.len()]);
        disk.flip_bit(&path, 140 + 37 * n as u64, 5);
        if let Ok(restored) = restore(&disk, &request(RestorePoint::Lsn(last))) {
            // What is damaged is behind the end, or no file of it.
            assert!(restored.records > 0);
            assert_eq!(&contents(&disk, last), world.ledger.at(last), "{n}");
        } else {
            refused += 1;
            assert!(!redo::is_there(&disk, Path::new(INTO)));
        }
    }
    assert!(refused > 20, "{refused}");
}

#[test]
fn what_is_damaged_keeps_nothing_from_being_restored_that_does_not_need_it() {
    let world = busy(1);
    let last = world.database.log.durable_lsn().0;
    let dir = Path::new("/disk0/history");
    let mut names = world.disk.list(dir).unwrap();
    names.retain(|name| name.to_string_lossy().ends_with(".redo"));
    assert!(names.len() > 3, "{names:?}");
    let (mut restored, mut refused, mut undated) = (0, 0, 0);
    for name in names.iter().step_by(names.len() / 3) {
        let disk = copy(&world.disk);
        disk.flip_bit(&dir.join(name), 140, 5);
        let told = redo::stored_history(&disk, Path::new("/data"), &[], 1, &mut |_, _| {});
        let told = told.expect("what can be told is told").expect("there is a log");
        let whole = redo::stored_history(&world.disk, Path::new("/data"), &[], 1, &mut |_, _| {});
        if told.unread.is_none() {
            // Nothing of it is above the floor.
            assert_eq!(told, whole.unwrap().unwrap());
        } else {
            for point in [RestorePoint::Time(i64::MAX), RestorePoint::BeforeFlush(1)] {
                let error = restore(&copy(&disk), &request(point)).unwrap_err();
                assert!(error.to_string().contains("--at LSN"), "{error}");
            }
            undated += 1;
        }
        for lsn in (told.floor.0..=last).step_by(7).chain([last]) {
            let disk = copy(&disk);
            if restore(&disk, &request(RestorePoint::Lsn(lsn))).is_ok() {
                restored += 1;
                assert_eq!(&contents(&disk, lsn), world.ledger.at(lsn), "{name:?}, {lsn}");
            } else {
                refused += 1;
                assert!(!redo::is_there(&disk, Path::new(INTO)));
            }
        }
    }
    assert!(restored > 10 && refused > 0 && undated > 0, "{restored}, {refused}, {undated}");
}
