//! Files: the format byte by byte, damage to each byte, merging, and failing disks.

use std::path::Path;
use std::sync::Arc;

use env::Disk;
use env_os::OsDisk;
use env_sim::sweep::{Damage, crash_everywhere, damages, image_of};
use env_sim::{Faults, SimDisk};
use snapshot::FileError;
use snapshot::dump::{self, Reader, Writer};
use snapshot::{
    Algorithm, Checkpoints, Content, Database, Error, Fork, Pages, Setup, Shape, Source,
};

use crate::value;

const WORDS: usize = 8;

fn load(disk: &dyn Disk, path: &Path, rows: usize) -> Vec<Vec<u64>> {
    let mut reader = Reader::open(disk, path).unwrap();
    let mut state = vec![Vec::new(); rows];
    let mut read = vec![0; WORDS];
    while let Some(row) = reader.next_row(&mut read).unwrap() {
        state[row] = read.clone();
    }
    state
}

/// Checkpoints, from full snapshots and merged from changes, are the states at their triggers, and
/// one file remains.
fn checkpoints_are_full<A: Algorithm>() {
    let rows = 100;
    let directory = tempfile::tempdir().unwrap();
    let disk: Arc<dyn Disk> = Arc::new(OsDisk);
    let mut database: Database<A> = Database::new(&Setup {
        shape: Shape::new(rows, WORDS * 8).unwrap(),
        pages: Pages::Ordinary,
        child_disk: Some(disk.clone()),
        initial: &|row, into| into.copy_from_slice(&value(row as u64, WORDS)),
    });
    let checkpoints = Checkpoints::open(disk.clone(), directory.path()).unwrap();
    assert!(checkpoints.latest().unwrap().is_none());
    let (mut client, mut snapshotter) = database.split();
    let mut model: Vec<u64> = (0..rows as u64).collect();
    let mut random = fastrand::Rng::with_seed(3);
    for round in 1..6 {
        let snapshot = snapshotter.take().unwrap();
        let expected: Vec<Vec<u64>> = model.iter().map(|seed| value(*seed, WORDS)).collect();
        let mut tick = client.tick();
        for _ in 0..30 * (round % 3) {
            let row = random.usize(0..rows);
            model[row] = random.u64(1000..);
            tick.write(row, &value(model[row], WORDS));
        }
        drop(tick);
        let summary = checkpoints.make(snapshot).unwrap();
        let path = checkpoints.latest().unwrap().unwrap();
        let (header, verified) = dump::verify(&OsDisk, &path).unwrap();
        assert_eq!((header.sequence, header.content), (round as u64, Content::Full));
        assert_eq!(verified, summary);
        assert!(load(&OsDisk, &path, rows) == expected, "checkpoint {round}");
        assert_eq!(OsDisk.list(directory.path()).unwrap().len(), 1);
    }
}

crate::for_each_algorithm!(checkpoints_are_full);

fn small_dump(disk: &dyn Disk, path: &Path, content: Content) -> snapshot::Result<()> {
    let shape = Shape::new(3, WORDS * 8).unwrap();
    let mut writer = Writer::create(disk, path, shape, content, 7)?;
    let rows: &[usize] = if content == Content::Full { &[0, 1, 2] } else { &[0, 2] };
    for row in rows {
        writer.row(*row, &[*row as u64; WORDS])?;
    }
    writer.finish()?;
    Ok(())
}

/// The format document as code.
#[test]
fn the_format_is_the_documented_one() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("dump");
    small_dump(&OsDisk, &path, Content::Changes).unwrap();
    let bytes = std::fs::read(&path).unwrap();
    let u32_at = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
    let u64_at = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
    assert_eq!(&bytes[..8], b"INDELSNP");
    assert_eq!((u32_at(8), u64_at(16), u64_at(24), u64_at(32), bytes[40]), (1, 3, 64, 7, 2));
    assert!(bytes[41..64].iter().all(|byte| *byte == 0));
    let crc = |parts: &[&[u8]]| {
        parts.iter().fold(0, |crc, part| base::checksum::crc32c_append(crc, part))
    };
    assert_eq!(u32_at(12), crc(&[&bytes[..12], &bytes[16..64]]));
    // One block of two cells.
    assert_eq!((u32_at(64), u64_at(72), u64_at(72 + 72), u64_at(72 + 80)), (144, 0, 2, 2));
    assert_eq!(u32_at(68), crc(&[&64_u64.to_le_bytes(), &bytes[64..68], &bytes[72..216]]));
    // The footer.
    assert_eq!((u32_at(216), u64_at(224), bytes.len()), (0, 2, 232));
    assert_eq!(u32_at(220), crc(&[&216_u64.to_le_bytes(), &bytes[216..220], &bytes[224..232]]));
}

#[test]
fn every_damage_is_found() {
    let dir = Path::new("/dumps");
    for content in [Content::Full, Content::Changes] {
        let disk = SimDisk::new(1, Faults::default());
        disk.create_dir_all(dir).unwrap();
        small_dump(&disk, &dir.join("dump"), content).unwrap();
        let image = image_of(&disk, &[dir]);
        dump::verify(&disk, &dir.join("dump")).unwrap();
        for damage in damages(&image, 1) {
            let error = dump::verify(&damage.on(&image), &dir.join("dump")).unwrap_err();
            match damage {
                Damage::Lose { .. } => {
                    assert!(matches!(error, Error::File(FileError::Io { .. })), "{error}")
                }
                _ => assert!(
                    matches!(error, Error::File(FileError::Corrupt { .. })),
                    "{damage:?}: {error}"
                ),
            }
        }
    }
}

#[test]
fn after_a_crash_at_any_io_there_is_a_whole_dump_or_none() {
    let path = Path::new("/dumps/dump");
    for seed in 0..10 {
        let disk = SimDisk::new(seed, Faults::default());
        disk.create_dir_all(path.parent().unwrap()).unwrap();
        let ios = crash_everywhere(
            &disk,
            |disk| small_dump(disk, path, Content::Full).is_ok(),
            |disk, is_done| {
                let is_there = disk.exists(path).unwrap();
                assert!(is_there || !is_done, "what was finished is gone");
                if is_there {
                    assert_eq!(dump::verify(disk, path).unwrap().1.rows, 3);
                }
                small_dump(disk, path, Content::Changes).unwrap();
                assert_eq!(dump::verify(disk, path).unwrap().1.rows, 2);
            },
        );
        assert_eq!(ios, 7, "create, three writes, sync, rename, sync");
    }
}

/// A misplaced block has correct bytes in the wrong place.
#[test]
fn exchanged_blocks_are_found() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("dump");
    let rows = 2 << 20 >> 6;
    let shape = Shape::new(rows, 64).unwrap();
    let mut writer = Writer::create(&OsDisk, &path, shape, Content::Full, 1).unwrap();
    for row in 0..rows {
        writer.row(row, &[row as u64; WORDS]).unwrap();
    }
    writer.finish().unwrap();
    let mut bytes = std::fs::read(&path).unwrap();
    let block = 8 + (1 << 20);
    let (first, second) = bytes[64..64 + 2 * block].split_at_mut(block);
    first.swap_with_slice(second);
    std::fs::write(&path, &bytes).unwrap();
    assert!(matches!(
        dump::verify(&OsDisk, &path),
        Err(Error::File(FileError::Corrupt { offset: 64, .. }))
    ));
}

#[test]
fn a_merge_refuses_what_is_damaged_and_can_be_repeated() {
    let directory = tempfile::tempdir().unwrap();
    let mut database: Database<snapshot::Hourglass> = Database::new(&Setup {
        shape: Shape::new(10, 64).unwrap(),
        pages: Pages::Ordinary,
        child_disk: None,
        initial: &|row, into| into.fill(row as u64),
    });
    let checkpoints = Checkpoints::open(Arc::new(OsDisk), directory.path()).unwrap();
    let (mut client, mut snapshotter) = database.split();
    checkpoints.make(snapshotter.take().unwrap()).unwrap();
    let first = checkpoints.latest().unwrap().unwrap();
    let good = std::fs::read(&first).unwrap();
    let mut bad = good.clone();
    bad[100] ^= 1;
    std::fs::write(&first, bad).unwrap();
    client.tick().write(3, &[33; WORDS]);
    let refused = checkpoints.make(snapshotter.take().unwrap());
    assert!(matches!(refused, Err(Error::File(FileError::Corrupt { .. }))));
    assert_eq!(checkpoints.latest().unwrap().unwrap(), first, "the evidence stays");
    // The changes are not lost with the failed attempt.
    std::fs::write(&first, good).unwrap();
    client.tick().write(3, &[34; WORDS]);
    checkpoints.make(snapshotter.unfinished().unwrap().unwrap()).unwrap();
    let state = load(&OsDisk, &checkpoints.latest().unwrap().unwrap(), 10);
    assert_eq!((state[3][0], state[4][0]), (33, 4));
}

#[test]
#[cfg_attr(miri, ignore = "processes")]
fn the_child_of_fork_says_what_went_wrong() {
    let mut database: Database<Fork> = Database::new(&Setup {
        shape: Shape::new(2, 64).unwrap(),
        pages: Pages::Ordinary,
        child_disk: Some(Arc::new(OsDisk)),
        initial: &|row, into| into.fill(row as u64),
    });
    let directory = tempfile::tempdir().unwrap();
    let checkpoints = Checkpoints::open(Arc::new(OsDisk), directory.path().join("x")).unwrap();
    std::fs::remove_dir(directory.path().join("x")).unwrap();
    let (mut client, mut snapshotter) = database.split();
    let snapshot = snapshotter.take().unwrap();
    client.tick().write(1, &[9; WORDS]);
    let error = checkpoints.make(snapshot).unwrap_err();
    assert!(matches!(error, Error::Child { .. }) && error.to_string().contains("x/"), "{error}");
    // The child process still exists, with the state of the trigger.
    let mut rows = Vec::new();
    let mut again = snapshotter.unfinished().unwrap().unwrap();
    again
        .traverse(|_, value| {
            rows.push(value[0]);
            Ok(())
        })
        .unwrap();
    assert_eq!(rows, [0, 1]);
}
