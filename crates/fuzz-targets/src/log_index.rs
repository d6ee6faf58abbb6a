//! The log index: a block, a manifest, a run with some bytes changed, or a hint of what is hot, each with right
//! checksums.
//!
//! What is accepted can be read, is in order, and means the same when it is written again.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use base::{DbId, Lsn, ObjectId, RecordAddr, SegmentId};
use env::Disk;
use env_sim::sweep::{Image, disk_of, image_of};
use env_sim::{Faults, SimDisk};
use logindex::{
    Delta, Entry, Hash96, Indexer, Judge, Name, Options, Place, Scope, Scopes, Step, What, fuzz,
};

const DIR: &str = "/index";
const DATABASE: [u8; 16] = [0xda; 16];
const OPTIONS: Options = Options {
    block_bytes: 256,
    fan_in: 2,
    merge_max: 4,
    level_1_max: 2,
    newer_per_cent: 25,
    newer_min_bytes: 0,
    cache_bytes: 4 << 10,
    step_entries: 100,
    chunk_bytes: 1 << 10,
    sync_bytes: 1 << 10,
};

fn open(disk: &SimDisk) -> logindex::Result<Indexer> {
    let disk: Arc<dyn Disk> = Arc::new(disk.clone());
    Indexer::open(disk, Path::new(DIR), DATABASE, OPTIONS)
}

fn address(n: u32, ordinal: u32) -> RecordAddr {
    RecordAddr::new(SegmentId(1 + n / 7), ordinal)
}

/// An index of one run: keys, of which one is volatile and one the root of an object; its elements.
fn image() -> Image {
    let disk = SimDisk::new(1, Faults::default());
    let mut indexer = open(&disk).expect("the disk has no faults");
    let mut delta = Delta::new();
    let place = |n: u32| Place::new(address(n, n % 7), 3);
    let key = |n: u32| Name::new(Scope::database(DbId(0)), Hash96::new(u64::from(n) << 56, n));
    for n in 0..20 {
        delta.push(Entry { name: key(n), what: What::At(place(n)) });
    }
    delta.push(Entry { name: key(3), what: What::At(place(3).with_expiry(1_800_000_000_000)) });
    delta.push(Entry { name: key(5), what: What::At(place(5).with_object(ObjectId(9))) });
    for n in 0..20 {
        let name = Name::new(Scope::object(ObjectId(9)), Hash96::new(0, n));
        delta.push(Entry { name, what: What::At(place(n)) });
    }
    indexer.add(delta.cut(Lsn(4), b"state".to_vec(), Judge::Settled(Scopes::without_map())));
    while let Ok(Step::Worked) = indexer.step(Lsn(4)) {}
    image_of(&disk, &[Path::new(DIR)])
}

fn paths(image: &Image) -> (PathBuf, PathBuf) {
    let of = |is_run: bool| {
        let path = image.keys().find(|path| path.extension().is_some() == is_run);
        path.expect("a manifest and a run").clone()
    };
    (of(false), of(true))
}

/// Changes bytes of a good run: an offset of two bytes and what is added to the byte there, each.
fn changed_run(changes: &[u8]) {
    let mut image = image();
    let (manifest_path, run_path) = paths(&image);
    let run = image.get_mut(&run_path).expect("it is there");
    for change in changes.chunks_exact(3) {
        let at = usize::from(u16::from_le_bytes([change[0], change[1]])) % run.len();
        run[at] = run[at].wrapping_add(change[2]);
    }
    let changed = run.clone();
    fuzz::seal_run(run);
    assert!(!changes.is_empty() || *run == changed, "the checksums of a good run are right");
    let run = run.clone();
    fuzz::name_run(image.get_mut(&manifest_path).expect("it is there"), &run);
    let disk = disk_of(&image);
    let Ok(mut indexer) = open(&disk) else { return };
    let index = indexer.index();
    fuzz::read(&index, &disk, Path::new(DIR));
    // With the filter in memory, and through merges.
    for _ in 0..100 {
        let _any = indexer.step(Lsn::ZERO);
    }
    fuzz::read(&index, &disk, Path::new(DIR));
}

/// The first byte of a hint. Others are what the rest is, modulo 3.
const HINT: u8 = 3;

/// The first byte says what the rest is.
pub(crate) fn run(input: &[u8]) {
    let Some((kind, rest)) = input.split_first() else { return };
    match kind % 3 {
        _ if *kind == HINT => fuzz::hint(rest),
        0 => fuzz::block(rest),
        1 => fuzz::manifest(rest),
        _ => changed_run(rest),
    }
}

pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let image = image();
    let (manifest_path, run_path) = paths(&image);
    let with = |kind: u8, bytes: &[u8]| [&[kind], bytes].concat();
    let blocks = image[&run_path][256..].chunks_exact(256).take(3).map(|block| with(0, block));
    let others = [
        with(1, &image[&manifest_path]),
        with(2, &[]),
        // The number of entries of the first block, and its fence's.
        with(2, &[4, 1, 255]),
        with(2, &[0, 0, 0, 56, 1, 1]),
        with(HINT, &fuzz::hint_of(Vec::new())),
        with(HINT, &fuzz::hint_of((0..40).map(|n| address(n, n * n * 90)).collect())),
    ];
    blocks.chain(others).collect()
}
