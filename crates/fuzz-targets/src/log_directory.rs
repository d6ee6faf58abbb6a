//! A data directory on a simulated disk whose segments are the input, and a small database on it.
//!
//! ```text
//!   flags │ durable LSN │ length of the first file u16 │ first file … │ second file …
//! ```
//!
//! The manifest and the device's mark are good, and the files' checksums are put right unless the
//! flags say otherwise. The second file, if there is one, is segment 2, or a part of segment 1.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use base::{DbId, Lsn, ObjectId, Record, RecordAddr, RecordKind, SegmentId};
use env::Disk;
use env_sim::{Faults, SimClock, SimDisk, SimEntropy};
use redo::manifest::{DeviceMark, Manifest, ManifestDevice};
use redo::{Compactor, Env, Flusher, Id, Log, Opened, Options, Recovery, Replay, Report, Step};

use crate::checksums::DATABASE;
use crate::checksums::{self, Place};

/// The files stay as they are.
const RAW: u8 = 1;
/// The second file is a part of the first segment.
const SECOND_IS_PART: u8 = 2;

const DEVICE: Id = Id([0xde; 16]);

/// Past so many steps something goes round in circles.
const STEPS_MAX: usize = 20_000;

pub(crate) fn directory() -> &'static Path {
    Path::new("/data")
}

/// The disk that the input describes.
pub(crate) fn disk_of(input: &[u8]) -> Option<Arc<dyn Disk>> {
    let (&[flags, durable, low, high], files) = input.split_first_chunk()?;
    let first_bytes = usize::from(u16::from_le_bytes([low, high])).min(files.len());
    let (first, second) = files.split_at(first_bytes);
    let disk = SimDisk::new(1, Faults::default());
    let device = directory().join("redo");
    disk.create_dir_all(&device).expect("an empty disk");
    let manifest = Manifest {
        epoch: 1,
        durable_lsn: Lsn(durable.into()),
        next_segment: SegmentId(3),
        object_floor: ObjectId(9),
        devices: vec![ManifestDevice {
            id: DEVICE,
            path: PathBuf::from("redo"),
            is_leaving: false,
        }],
        ..Manifest::new(DATABASE, [7; 16])
    };
    manifest.write(&disk, directory()).expect("a disk without faults");
    let mark = DeviceMark { database: DATABASE, device: DEVICE };
    mark.write(&disk, &device).expect("a disk without faults");
    let (segment, part) = if flags & SECOND_IS_PART == 0 { (2, 0) } else { (1, 1) };
    for (bytes, segment, part) in [(first, 1, 0), (second, segment, part)] {
        if bytes.is_empty() {
            continue;
        }
        let mut bytes = bytes.to_vec();
        if flags & RAW == 0 {
            let place = Place { database: DATABASE, device: DEVICE, segment, part };
            checksums::seal_segment(&mut bytes, place);
        }
        let name = redo::segment::file_name(SegmentId(segment), part);
        let file = disk.create(&device.join(name)).expect("a new name");
        file.write_all_at(&bytes, 0).expect("a disk without faults");
    }
    Some(Arc::new(disk))
}

/// What the verifier says.
pub(crate) fn verify(disk: &Arc<dyn Disk>) -> Report {
    redo::verify(disk, directory(), &[]).expect("nobody uses it")
}

/// What an entry is called.
type Name = (bool, u64, Vec<u8>);

/// Entries by their names, whatever they mean: their records and where those are.
#[derive(Default, Clone)]
pub(crate) struct Live(BTreeMap<Name, (Vec<u8>, RecordAddr)>);

impl Live {
    fn put(&mut self, record: &Record<'_>, addr: RecordAddr) -> Option<RecordAddr> {
        let name = name_of(record);
        let old = if record.kind.is_delete() {
            self.0.remove(&name)
        } else {
            let mut bytes = Vec::new();
            redo::record::encode(&mut bytes, record);
            self.0.insert(name, (bytes, addr))
        };
        old.map(|(_, addr)| addr)
    }

    /// The records of all entries.
    pub(crate) fn records(&self) -> Vec<&[u8]> {
        self.0.values().map(|(bytes, _)| bytes.as_slice()).collect()
    }
}

fn name_of(record: &Record<'_>) -> Name {
    if record.kind.is_element() {
        (true, record.object.0, record.sub.to_vec())
    } else {
        (false, record.db.0, record.key.to_vec())
    }
}

impl Replay for Live {
    fn apply(
        &mut self,
        record: &Record<'_>,
        addr: RecordAddr,
        _lsn: Lsn,
        retired: &mut Vec<RecordAddr>,
    ) {
        retired.extend(self.put(record, addr));
    }

    fn finish(&mut self, _retired: &mut Vec<RecordAddr>) {}
}

/// A log whose threads are calls.
pub(crate) struct Database {
    pub(crate) live: Live,
    log: Log,
    flushers: Vec<Flusher>,
    compactor: Compactor,
    clock: Arc<SimClock>,
}

impl Database {
    /// Recovers the log on this disk. Segments are small, so that blocks soon count as large.
    pub(crate) fn open(disk: &Arc<dyn Disk>) -> redo::Result<Self> {
        let clock = Arc::new(SimClock::new(1_700_000_000_000));
        let env = Env {
            disk: disk.clone(),
            clock: clock.clone(),
            entropy: Box::new(SimEntropy::new(3)),
            waker: Arc::new(|| {}),
        };
        let mut options = Options::new(directory());
        options.segment_bytes = 1024;
        options.reserve_bytes = 4096;
        options.compaction.invalid_count_min = 2;
        options.compaction.rate_bytes_per_s = 0;
        options.parallel_loaders = false;
        let mut live = Live::default();
        let Opened { log, flushers, compactor, .. } =
            Recovery::open(env, options)?.run(&mut live, &mut |_| {})?;
        Ok(Self { live, log, flushers, compactor, clock })
    }

    /// Logs a record, and retires the one that it replaces.
    pub(crate) fn log(&mut self, record: &Record<'_>) {
        self.log.declare(record.kind);
        if record.has_expiring_fields() {
            self.log.declare(RecordKind::HashPackedExpiring);
        }
        let addr = self.log.append(record);
        if let Some(old) = self.live.put(record, addr) {
            self.log.retire(old);
        }
    }

    /// Deletes the entries whose turn it is.
    pub(crate) fn delete_every(&mut self, nth: usize) {
        let names: Vec<Name> = self.live.0.keys().step_by(nth).cloned().collect();
        for (is_element, scope, name) in names {
            if is_element {
                self.log(&Record::element_deleted(base::ObjectId(scope), &name));
            } else {
                self.log(&Record::key_deleted(DbId(scope), &name));
            }
        }
    }

    /// Seals what is open and lets flushers and compactor work until nothing is left to do.
    pub(crate) fn settle(&mut self) {
        self.log.seal();
        for _ in 0..STEPS_MAX {
            self.clock.advance_ms(200);
            self.log.poll();
            self.log.tick();
            let mut worked = false;
            for flusher in &mut self.flushers {
                worked |= flusher.step() == Step::Worked;
            }
            worked |= self.compactor.step() == Step::Worked;
            if !worked && self.log.stats().compacting.is_none() {
                self.log.poll();
                return;
            }
        }
        panic!("the log does not come to rest: {:?}", self.log.stats());
    }

    /// Compacts everything that can be.
    pub(crate) fn compact(&mut self) {
        self.log.compact_all();
        self.settle();
    }

    /// Ends in good order.
    pub(crate) fn close(mut self) -> Live {
        self.log.shutdown();
        for _ in 0..STEPS_MAX {
            let flushed = self.flushers.iter_mut().all(|flusher| flusher.step() == Step::Finished);
            if flushed && self.compactor.step() == Step::Finished {
                return self.live;
            }
        }
        panic!("the log does not end: {:?}", self.log.stats());
    }
}

/// Logs as they come to be: a short one, a sealed one with its successor, a compacted one.
pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let example = crate::record::examples();
    let run = |work: &dyn Fn(&mut Database)| {
        let disk: Arc<dyn Disk> = Arc::new(SimDisk::new(1, Faults::default()));
        let mut database = Database::open(&disk).expect("an empty disk");
        work(&mut database);
        drop(database);
        disk
    };
    let short = run(&|database| {
        // All in one segment, whose header says both kinds that must be said.
        example.iter().for_each(|record| database.log.declare(record.kind));
        for record in &example {
            database.log(record);
        }
        database.settle();
        database.log(&example[0]);
        database.settle();
    });
    let set = |database: &mut Database, number: u8, bytes: usize| {
        let (key, value) = ([b'k', number % 5], vec![number; bytes]);
        database.log(&Record::whole(RecordKind::String, DbId(0), &key, &value, None));
        database.log(&Record::whole(RecordKind::String, DbId(0), b"cold", &[number], None));
        database.settle();
    };
    let rolled = run(&|database| (0..12).for_each(|number| set(database, number, 60)));
    let compacted = run(&|database| {
        // A block that counts as large, and half of it goes.
        for number in 0..6 {
            let key = [b'l', number];
            database.log(&Record::whole(RecordKind::String, DbId(0), &key, &[number; 70], None));
        }
        (0..12).for_each(|number| set(database, number, 60));
        database.delete_every(2);
        database.settle();
        database.compact();
    });
    [(short, 0), (rolled, 0), (compacted, 0)]
        .iter()
        .map(|(disk, flags)| pack(disk, *flags))
        .collect()
}

/// The first two segments of a disk as an input.
fn pack(disk: &Arc<dyn Disk>, flags: u8) -> Vec<u8> {
    let device = directory().join("redo");
    let names = disk.list(&device).expect("the device is there");
    let files: Vec<Vec<u8>> = names
        .iter()
        .filter(|name| Path::new(name).extension().is_some_and(|extension| extension == "redo"))
        .map(|name| {
            let file = disk.open(&device.join(name), env::Access::Read).expect("it was listed");
            let len = usize::try_from(file.len().expect("it is there")).expect("small");
            let mut bytes = vec![0; len];
            file.read_exact_at(&mut bytes, 0).expect("it is that long");
            // What is reserved at the end is of no interest.
            let used = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
            bytes.truncate(used.max(redo::segment::HEADER_BYTES));
            bytes
        })
        .take(2)
        .collect();
    let first_bytes = u16::try_from(files[0].len()).expect("seeds are small");
    [&[flags, 0][..], &first_bytes.to_le_bytes(), &files.concat()].concat()
}
