//! Every damage that fits one fault, to every byte of small logs of every shape.
//!
//! ```text
//!   shape ──► image (path → bytes) ──► damage ──► verify ──► start
//!                                        │           │         │
//!    a bit of every byte turned ─────────┤           │         ├─ refused: names the file, and
//!    all bits of headers and manifests   │           │         │  not a byte is different after it
//!    every file cut at every length ─────┤           │         └─ accepted: the state is one that
//!    every file removed ─────────────────┤           │            was, and nothing that anything
//!    two files exchanged ────────────────┤           │            on disk knows durable is gone
//!    something appended ─────────────────┘           └─ says the same as the start, or notes it
//! ```
//!
//! And of every damaged log one record is read by its address: it is the right one, an error or none.
//!
//! What may go unnoticed, because it means nothing, is listed in [`is_harmless`].

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use base::{DbId, ObjectId, Record, RecordKind};
use env::{Access, Disk};
use env_sim::sweep::{self, Damage, Image, crash_everywhere, disk_of};
use env_sim::{Faults, SimDisk};
use redo::block::{self, BlockHeader};
use redo::manifest::{DeviceMark, Manifest};
use redo::segment::{self, SegmentHeader};
use redo::{DumpFormat, Error, Options, RecordAddr};

use crate::harness::{Database, index, key, options, value};

const DIR: &str = "/data";

type Contents = BTreeMap<Vec<u8>, Vec<u8>>;

/// A log to be damaged.
pub(crate) struct Shape {
    pub(crate) name: &'static str,
    pub(crate) options: Options,
    pub(crate) image: Image,
    /// What a client would see after each block.
    pub(crate) states: BTreeMap<u64, Contents>,
    /// Whether it was closed in good order: then nothing at its end can be a torn write.
    is_closed: bool,
}

impl Shape {
    pub(crate) fn last_state(&self) -> &Contents {
        self.states.last_key_value().expect("every shape has blocks").1
    }
}

/// A database that notes what it holds after each block.
struct Maker {
    disk: SimDisk,
    options: Options,
    database: Database,
    states: BTreeMap<u64, Contents>,
}

impl Maker {
    fn new(change: impl FnOnce(&mut Options)) -> Self {
        let mut options = options(Path::new(DIR));
        options.segment_bytes = 600;
        options.reserve_bytes = 0;
        options.compaction.enabled = false;
        change(&mut options);
        let disk = SimDisk::new(1, Faults::default());
        let database = Database::open_on(Arc::new(disk.clone()), options.clone()).unwrap();
        let states = BTreeMap::from([(0, Contents::new())]);
        Self { disk, options, database, states }
    }

    fn block(&mut self, fill: impl FnOnce(&mut Database)) {
        fill(&mut self.database);
        self.database.flush();
        let lsn = self.database.log.durable_lsn().0;
        self.states.insert(lsn, self.database.keyspace.contents());
    }

    /// Lets small segments be gathered in one file.
    fn gather(mut self) -> Self {
        self.database.close();
        self.options.segment_bytes = 64 << 10;
        self.options.compaction.enabled = true;
        self.options.compaction.gathered_min = 2;
        let disk = Arc::new(self.disk.clone());
        self.database = Database::open_on(disk, self.options.clone()).unwrap();
        self.database.settle();
        assert!(self.database.log.stats().compactions > 0);
        self
    }

    fn compact(&mut self) {
        self.database.log.compact_all();
        self.database.settle();
        assert!(self.database.log.stats().compactions > 0);
    }

    fn finish(self, name: &'static str, is_closed: bool) -> Shape {
        if is_closed {
            self.database.close();
        } else {
            drop(self.database);
        }
        let (image, options) = (read_all(&self.disk), self.options);
        Shape { name, options, image, states: self.states, is_closed }
    }
}

fn write_some(maker: &mut Maker, count: usize) {
    for number in 0..count {
        maker.block(|database| database.set(&key(number % 7), &value(number % 23)));
    }
}

/// Rewrites and deletes, so that there is something to compact in every segment.
fn churn(maker: &mut Maker) {
    write_some(maker, 3);
    for number in 10..16 {
        maker.block(|database| database.set(&key(number), &value(number)));
    }
    for number in 0..9 {
        maker.block(|database| database.set(&key(number % 3), &value(number + 20)));
    }
    maker.block(|database| database.delete(&key(11)));
    maker.block(|database| database.delete(&key(1)));
}

fn many_kinds(maker: &mut Maker) {
    maker.block(|database| {
        database.put(&Record::root(RecordKind::Hash, DbId(0), b"h", ObjectId(7), &[0], None));
        for field in [&b"a"[..], b"b", b"c"] {
            let record = Record::element(RecordKind::HashField, ObjectId(7), field, b"of a hash");
            database.put(&record);
        }
    });
    maker.block(|database| {
        // One command that is far larger than a segment.
        for chunk in 0..3u32 {
            let sub = chunk.to_be_bytes();
            let bytes = vec![b'a'; 500];
            let record = Record::element(RecordKind::StringChunk, ObjectId(8), &sub, &bytes);
            database.put(&record);
        }
        let record = Record::root(RecordKind::LargeString, DbId(0), b"s", ObjectId(8), &[5], None);
        database.put(&record);
    });
    maker.block(|database| {
        database.put(&Record::element_deleted(ObjectId(7), b"b"));
        database.set(b"with", b"it");
        database.delete(b"with");
    });
}

/// A device has failed while both took the log: the other one has parts of its last segment.
pub(crate) fn device_failed() -> Shape {
    let mut maker = Maker::new(|options| {
        options.devices = vec![PathBuf::from("/a"), PathBuf::from("/b")];
        options.segment_bytes = 1 << 20;
    });
    write_some(&mut maker, 6);
    maker.disk.break_dir(Path::new("/b"));
    write_some(&mut maker, 6);
    let disk = maker.disk.clone();
    drop(maker.database);
    disk.mend_dir(Path::new("/b"));
    let (image, options) = (read_all(&disk), maker.options);
    let name = "two devices, one failed, killed";
    Shape { name, options, image, states: maker.states, is_closed: false }
}

pub(crate) fn shapes() -> Vec<Shape> {
    let mut shapes = Vec::new();
    let mut make = |name, is_closed, change: fn(&mut Options), fill: &dyn Fn(&mut Maker)| {
        let mut maker = Maker::new(change);
        fill(&mut maker);
        shapes.push(maker.finish(name, is_closed));
    };
    let one_segment: fn(&mut Options) = |options| options.segment_bytes = 1 << 20;
    let two_devices: fn(&mut Options) =
        |options| options.devices = vec![PathBuf::from("/a"), PathBuf::from("/b")];
    let as_it_is: fn(&mut Options) = |_| {};
    make("one segment, killed", false, one_segment, &|maker| write_some(maker, 8));
    make("one segment, closed", true, one_segment, &|maker| write_some(maker, 5));
    make("several segments, killed", false, as_it_is, &|maker| write_some(maker, 14));
    make("several segments, closed", true, as_it_is, &|maker| write_some(maker, 12));
    make("compacted, closed", true, as_it_is, &|maker| {
        churn(maker);
        maker.compact();
    });
    make("compacted, killed in the next segment", false, as_it_is, &|maker| {
        churn(maker);
        maker.compact();
        write_some(maker, 3);
    });
    make("compacted beside the open segment, killed", false, as_it_is, &|maker| {
        churn(maker);
        maker.block(|database| database.set(b"open", b"1"));
        maker.database.log.compact_all();
        maker.block(|database| database.set(b"open", b"2"));
        maker.database.settle();
        maker.block(|database| database.set(b"open", b"3"));
    });
    make("large blocks and transactions, killed", false, as_it_is, &many_kinds);
    make("large blocks and transactions, compacted, closed", true, as_it_is, &|maker| {
        many_kinds(maker);
        maker.compact();
    });
    make("two devices, killed", false, two_devices, &|maker| write_some(maker, 12));
    make("two devices, compacted, closed", true, two_devices, &|maker| {
        churn(maker);
        maker.compact();
        write_some(maker, 2);
    });
    let compacting: fn(&mut Options) = |options| {
        options.devices = vec![PathBuf::from("/a"), PathBuf::from("/b")];
        options.compaction.enabled = true;
        options.compaction.invalid_count_min = 1;
    };
    // The horizon is above blocks of a segment that takes the log on the other device.
    make(
        "compacted beside the open segment of another device, killed",
        false,
        compacting,
        &|maker| {
            for number in 0..12 {
                maker.block(|database| database.set(&key(number), b"1"));
                maker.block(|database| database.set(b"large", &vec![b'x'; 400 + number]));
                maker.database.settle();
            }
            maker.block(|database| (0..9).for_each(|number| database.delete(&key(number))));
            // While the one device is being compacted, the other takes all blocks.
            maker.database.clock.advance_us(1_000_000);
            maker.database.log.tick();
            assert!(maker.database.log.stats().compacting.is_some());
            for number in 0..4 {
                maker.block(|database| {
                    database.set(b"large", &vec![b'y'; 600 + number]);
                    database
                        .set(&key(100 + number), b"stays, so that the segment is not just removed");
                });
            }
            maker.database.settle();
            assert!(maker.database.log.stats().compactions > 0);
        },
    );
    make("opened and killed", false, as_it_is, &|_| {});
    for (name, is_closed) in
        [("gathered, compacted, closed", true), ("gathered, compacted, killed", false)]
    {
        let mut maker = Maker::new(as_it_is);
        churn(&mut maker);
        let mut maker = maker.gather();
        write_some(&mut maker, 2);
        let shape = maker.finish(name, is_closed);
        let is_shared = |bytes: &Vec<u8>| bytes.windows(8).filter(|w| w == b"INDELSEG").count() > 1;
        assert!(shape.image.values().any(is_shared), "several segments share a file");
        shapes.push(shape);
    }
    shapes
}

/// Adds every file below `dir`.
pub(crate) fn read_dir(disk: &SimDisk, dir: &Path, image: &mut Image) {
    let Ok(names) = disk.list(dir) else { return };
    for path in names.iter().map(|name| dir.join(name)) {
        let Ok(file) = disk.open(&path, Access::Read) else {
            read_dir(disk, &path, image);
            continue;
        };
        let mut bytes = vec![0; usize::try_from(file.len().unwrap()).unwrap()];
        file.read_exact_at(&mut bytes, 0).unwrap();
        image.insert(path, bytes);
    }
}

/// Every file below the roots that the shapes use.
pub(crate) fn read_all(disk: &SimDisk) -> Image {
    let mut image = Image::new();
    for dir in [DIR, "/a", "/b"] {
        read_dir(disk, Path::new(dir), &mut image);
    }
    image.remove(&Path::new(DIR).join("redo.lock"));
    image
}

/// The damages of the kit, and those that this format has reasons to fear.
pub(crate) fn damages(shape: &Shape) -> Vec<Damage> {
    let mut all = sweep::damages(&shape.image, 1);
    for (path, bytes) in &shape.image {
        // All eight bits where every one has a meaning of its own, elsewhere a different one each.
        let is_segment = path.extension().is_some_and(|ext| ext == "redo");
        let header_bytes = if is_segment { segment::HEADER_BYTES } else { bytes.len() };
        for at in 0..bytes.len().min(header_bytes) {
            let others = (0..8).filter(|bit| usize::from(*bit) != at % 8);
            all.extend(others.map(|bit| Damage::Flip { path: path.clone(), at, bit }));
        }
        for byte in [0, 1, 2, 0xff] {
            for count in [1, 16, 64, 600] {
                all.push(Damage::Append { path: path.clone(), bytes: vec![byte; count] });
            }
        }
        // A block and a footer that were once good, where they do not belong.
        let tail = &bytes[bytes.len().saturating_sub(300)..];
        all.push(Damage::Append { path: path.clone(), bytes: tail.to_vec() });
    }
    all.extend(sweep::exchanges(&shape.image));
    all
}

/// What no answer depends on, and why.
fn is_harmless(shape: &Shape, damage: &Damage) -> bool {
    match damage {
        // The space that is set aside for a full disk: its content means nothing.
        Damage::Flip { path, .. }
        | Damage::Cut { path, .. }
        | Damage::Append { path, .. }
        | Damage::Lose { path }
            if path.ends_with("reserve") =>
        {
            true
        }
        // Unwritten space behind the end of a file that was not sealed.
        Damage::Append { bytes, .. } => bytes.iter().all(|byte| *byte == 0),
        // The newest blocks of a log that was not closed, cut between two blocks: the same as if
        // the crash had come a moment earlier. Whether they were acknowledged nothing can tell.
        Damage::Cut { .. } => !shape.is_closed,
        _ => false,
    }
}

/// The largest block that anything intact on disk says was durable.
fn known_durable(image: &Image) -> u64 {
    let mut durable = 0;
    for (path, bytes) in image {
        if path.ends_with("redo.manifest")
            && let Ok(manifest) = Manifest::decode(bytes, path)
        {
            durable = durable.max(manifest.durable_lsn.0);
            let listed = manifest.listed.iter().filter(|listed| !listed.is_sealed());
            durable = listed.map(|listed| listed.last_lsn.0).fold(durable, u64::max);
        }
        if let Some(header) = bytes.first_chunk()
            && let Ok(Some(header)) = SegmentHeader::decode(header, path)
        {
            durable = durable.max(header.durable_lsn.0);
        }
        for at in 0..bytes.len().saturating_sub(block::HEADER_BYTES) {
            if let Some(header) = BlockHeader::decode(bytes[at..].first_chunk().unwrap()) {
                durable = durable.max(header.durable_lsn.0);
            }
        }
    }
    durable
}

/// Whether the error says which file it is about.
fn names_a_file(error: &Error) -> bool {
    let text = error.to_string();
    ["/data", "/a", "/b"].iter().any(|dir| text.contains(dir))
}

/// The records of a good log as the dump shows them, with their addresses.
fn records_of(image: &Image) -> Vec<(RecordAddr, String)> {
    let disk: Arc<dyn Disk> = Arc::new(disk_of(image));
    let mut out = Vec::new();
    redo::dump(&disk, Path::new(DIR), &[], DumpFormat::Text, &mut out).unwrap();
    let text = String::from_utf8(out).unwrap();
    let lines = text.lines().filter(|line| line.starts_with("  "));
    let addr = |line: &str| line.split_whitespace().next().unwrap().parse().unwrap();
    lines.map(|line| (addr(line), format!("{line}\n"))).collect()
}

/// Reads a record by its address: the right one, an error, or none.
fn judge_record(
    shape: &Shape,
    damage: &Damage,
    (addr, line): &(RecordAddr, String),
) -> Result<(), String> {
    let disk: Arc<dyn Disk> = Arc::new(disk_of(&damage.apply(&shape.image)));
    let (devices, mut out) = (shape.options.device_dirs(), Vec::new());
    match redo::get(&disk, Path::new(DIR), &devices, *addr, DumpFormat::Text, &mut out) {
        Ok(true) if out != line.as_bytes() => {
            Err(format!("{addr} is {}", String::from_utf8_lossy(&out)))
        }
        Err(error) if !names_a_file(&error) => Err(format!("{addr}: no file is named: {error}")),
        _ => Ok(()),
    }
}

fn judge(shape: &Shape, damage: &Damage) -> Result<(), String> {
    let image = damage.apply(&shape.image);
    let disk = disk_of(&image);
    let shared: Arc<dyn Disk> = Arc::new(disk.clone());
    let devices = shape.options.device_dirs();
    let report = redo::verify(&shared, Path::new(DIR), &devices).map_err(|e| e.to_string())?;
    if read_all(&disk) != image {
        return Err("verify has changed something".to_owned());
    }
    let is_noticed = !report.is_good() || !report.notes.is_empty();
    if !is_noticed && !is_harmless(shape, damage) {
        return Err(format!("verify does not notice it: {report}"));
    }
    match Database::open_on(shared, shape.options.clone()) {
        Err(error) => {
            if read_all(&disk) != image {
                return Err(format!("refused, and changed something: {error}"));
            }
            if !names_a_file(&error) || report.errors.iter().any(|error| !names_a_file(error)) {
                return Err(format!("no file is named: {error}"));
            }
            if report.is_good() {
                return Err(format!("verify calls good what a start refuses: {error}"));
            }
        }
        Ok(database) => {
            if !report.is_good() {
                return Err(format!("a start accepts what verify calls damaged: {report}"));
            }
            let lsn = database.summary.last_lsn.0;
            let durable = if shape.is_closed {
                *shape.states.last_key_value().unwrap().0
            } else {
                known_durable(&image)
            };
            if lsn < durable {
                return Err(format!("block {durable} was durable, and only {lsn} are served"));
            }
            if Some(&database.keyspace.contents()) != shape.states.get(&lsn) {
                return Err(format!("what is served after block {lsn} never was"));
            }
        }
    }
    Ok(())
}

#[test]
fn no_single_damage_is_served_or_loses_what_was_durable() {
    let (mut count, mut failures) = (0, Vec::new());
    for shape in shapes() {
        let all = damages(&shape);
        count += all.len();
        let records = records_of(&shape.image);
        for (at, damage) in all.into_iter().enumerate() {
            if let Some(record) = records.get(at % records.len().max(1))
                && let Err(what) = judge_record(&shape, &damage, record)
            {
                failures.push(format!("{}: {damage:?}: {what}", shape.name));
            }
            if let Err(what) = judge(&shape, &damage) {
                failures.push(format!("{}: {damage:?}: {what}", shape.name));
            }
        }
    }
    println!("{count} damages");
    let shown: Vec<&str> = failures.iter().take(40).map(String::as_str).collect();
    assert!(failures.is_empty(), "{} of {count}:\n{}", failures.len(), shown.join("\n"));
}

#[test]
fn the_shapes_are_good_as_they_are() {
    for shape in shapes() {
        let disk = disk_of(&shape.image);
        let shared: Arc<dyn Disk> = Arc::new(disk.clone());
        let devices = shape.options.device_dirs();
        let report = redo::verify(&shared, Path::new(DIR), &devices).unwrap();
        assert!(report.is_good() && report.notes.is_empty(), "{}: {report}", shape.name);
        let database = Database::open_on(shared, shape.options.clone()).unwrap();
        assert_eq!(&database.keyspace.contents(), shape.last_state(), "{}", shape.name);
    }
}

/// A manifest and a device's mark that any damage was done to are refused, and their file is named.
#[test]
fn every_damage_to_a_manifest_or_a_mark_is_found() {
    let shape = device_failed();
    let mut image = shape.image;
    image.retain(|path, _| path.ends_with("redo.manifest") || path.ends_with("device"));
    assert_eq!(image.len(), 3);
    for damage in sweep::damages(&image, 1).into_iter().chain(sweep::exchanges(&image)) {
        let disk = damage.on(&image);
        let path = damage.path();
        let dir = path.parent().unwrap();
        let found = match path.ends_with("device") {
            true => DeviceMark::read(&disk, dir).map(|mark| mark.is_some()),
            false => Manifest::read(&disk, dir).map(|manifest| manifest.is_some()),
        };
        match (&damage, found) {
            (Damage::Lose { .. }, found) => assert!(!found.unwrap()),
            // Two marks are both good, and which directory is which the log finds out.
            (Damage::Exchange { path, other }, Ok(true)) => {
                assert_eq!(path.file_name(), other.file_name());
            }
            (_, Ok(_)) => panic!("{damage:?} is not found"),
            (_, Err(error)) => {
                assert!(error.to_string().contains(path.to_str().unwrap()), "{damage:?}: {error}");
            }
        }
    }
}

/// What a log was, block by block, while it was written and compacted: the states, and how far it was
/// durable.
fn write_and_compact(disk: &SimDisk, options: &Options) -> (Vec<Contents>, u64) {
    let mut states = vec![Contents::new()];
    let mut durable = 0;
    let Ok(mut database) = Database::open_on(Arc::new(disk.clone()), options.clone()) else {
        return (states, durable);
    };
    for number in 0..16 {
        database.set(&key(number % 5), &value(number * 7));
        if number % 4 == 3 {
            database.delete(&key(number % 3));
        }
        if number % 8 == 7 {
            database.log.compact_all();
        }
        if database.log.seal().is_some() {
            states.push(database.keyspace.contents());
        }
        for _ in 0..40 {
            if disk.is_crashed() {
                return (states, durable);
            }
            database.clock.advance_us(200_000);
            database.log.tick();
            for flusher in &mut database.flushers {
                flusher.step();
            }
            database.compactor.step();
            database.log.poll();
            durable = durable.max(database.log.durable_lsn().0);
        }
    }
    assert!(database.log.stats().compactions > 1);
    (states, durable)
}

/// Segments, their footers, the manifest: whichever I/O is the last one, what was durable is served,
/// and nothing is left that the log does not know.
#[test]
fn a_crash_at_any_io_loses_nothing_that_was_durable() {
    for devices in [vec![], vec![PathBuf::from("/a"), PathBuf::from("/b")]] {
        let mut options = options(Path::new(DIR));
        options.segment_bytes = 600;
        options.reserve_bytes = 0;
        options.devices = devices;
        let start = SimDisk::new(5, Faults::default());
        let ios = crash_everywhere(
            &start,
            |disk| write_and_compact(disk, &options),
            |disk, (states, durable)| {
                let database = Database::open_on(Arc::new(disk.clone()), options.clone()).unwrap();
                let lsn = database.summary.last_lsn.0;
                assert!(lsn >= durable, "block {durable} was durable, and only {lsn} are served");
                assert_eq!(database.keyspace.contents(), states[index(lsn)], "block {lsn}");
                drop(database);
                let left = read_all(disk);
                let is_stray = |path: &&PathBuf| path.extension().is_some_and(|ext| ext == "tmp");
                assert_eq!(left.keys().find(is_stray), None);
            },
        );
        assert!(ios > 100, "{ios}");
    }
}
