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
//! What may go unnoticed, because it means nothing, is listed in [`is_harmless`].

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use base::{DbId, ObjectId, Record, RecordKind};
use env::{Access, Disk};
use env_sim::{Faults, SimDisk};
use redo::block::{self, BlockHeader};
use redo::manifest::Manifest;
use redo::segment::{self, SegmentHeader};
use redo::{Error, Options};

use crate::harness::{Database, key, options, value};

const DIR: &str = "/data";

/// Every file with its bytes.
pub(crate) type Image = BTreeMap<PathBuf, Vec<u8>>;
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

/// Every file below the roots that the shapes use.
pub(crate) fn read_all(disk: &SimDisk) -> Image {
    fn read_dir(disk: &SimDisk, dir: &Path, image: &mut Image) {
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
    let mut image = Image::new();
    for dir in [DIR, "/a", "/b"] {
        read_dir(disk, Path::new(dir), &mut image);
    }
    image.remove(&Path::new(DIR).join("redo.lock"));
    image
}

/// A disk with these files.
pub(crate) fn disk_of(image: &Image) -> SimDisk {
    let disk = SimDisk::new(2, Faults::default());
    for (path, bytes) in image {
        let dir = path.parent().unwrap();
        disk.create_dir_all(dir).unwrap();
        let file = disk.create(path).unwrap();
        file.write_all_at(bytes, 0).unwrap();
        file.sync_data().unwrap();
        disk.sync_dir(dir).unwrap();
    }
    disk
}

/// One fault.
#[derive(Debug, Clone)]
pub(crate) enum Damage {
    Turn { path: PathBuf, at: usize, bit: u8 },
    Cut { path: PathBuf, len: usize },
    Remove { path: PathBuf },
    Exchange { a: PathBuf, b: PathBuf },
    Append { path: PathBuf, bytes: Vec<u8> },
}

impl Damage {
    pub(crate) fn on(&self, image: &Image) -> Image {
        let mut image = image.clone();
        match self {
            Self::Turn { path, at, bit } => image.get_mut(path).unwrap()[*at] ^= 1 << bit,
            Self::Cut { path, len } => image.get_mut(path).unwrap().truncate(*len),
            Self::Remove { path } => drop(image.remove(path)),
            Self::Exchange { a, b } => {
                let (of_a, of_b) = (image[a].clone(), image[b].clone());
                image.insert(a.clone(), of_b);
                image.insert(b.clone(), of_a);
            }
            Self::Append { path, bytes } => image.get_mut(path).unwrap().extend(bytes),
        }
        image
    }
}

pub(crate) fn damages(shape: &Shape) -> Vec<Damage> {
    let mut all = Vec::new();
    for (path, bytes) in &shape.image {
        let is_segment = path.extension().is_some_and(|ext| ext == "redo");
        for at in 0..bytes.len() {
            // All eight where every bit has a meaning of its own, elsewhere a different one each.
            let bits = if is_segment && at >= segment::HEADER_BYTES {
                vec![at % 8]
            } else {
                (0..8).collect()
            };
            let turn =
                |bit| Damage::Turn { path: path.clone(), at, bit: u8::try_from(bit).unwrap() };
            all.extend(bits.into_iter().map(turn));
            all.push(Damage::Cut { path: path.clone(), len: at });
        }
        all.push(Damage::Remove { path: path.clone() });
        for byte in [0, 1, 2, 0xff] {
            for count in [1, 16, 64, 600] {
                all.push(Damage::Append { path: path.clone(), bytes: vec![byte; count] });
            }
        }
        // A block and a footer that were once good, where they do not belong.
        if let Some(start) = bytes.len().checked_sub(bytes.len().min(300)) {
            all.push(Damage::Append { path: path.clone(), bytes: bytes[start..].to_vec() });
        }
        for other in shape.image.keys().filter(|other| *other > path) {
            all.push(Damage::Exchange { a: path.clone(), b: other.clone() });
        }
    }
    all
}

/// What no answer depends on, and why.
fn is_harmless(shape: &Shape, damage: &Damage) -> bool {
    match damage {
        // The space that is set aside for a full disk: its content means nothing.
        Damage::Turn { path, .. }
        | Damage::Cut { path, .. }
        | Damage::Append { path, .. }
        | Damage::Remove { path }
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

fn judge(shape: &Shape, damage: &Damage) -> Result<(), String> {
    let image = damage.on(&shape.image);
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
        for damage in all {
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
