//! The log read into a keyspace, and what the configuration says of the log.
//!
//! ```text
//!   configuration ─► log_options ─► redo::Recovery ── records ──► Filling ─► Keyspace
//!                                        │  │                       └─► nothing, if it does not fit (Bounded)
//!                                        │  └─► Opened: log, flushers, compactor
//!                                        └── records behind the index's cut ─► Tail ─► LogIndex
//!                                                                  Keyspace, all cold ◄──┘
//! ```
//!
//! No threads and no sockets: [`crate::serve`] runs this on a thread of its own, the simulator in
//! its only one.

mod bounded;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use base::{Lsn, Record, RecordAddr, RecordKind};
use env::Disk;
use indexing::{Believed, Known, LogIndex};
use keyspace::{
    ApplyError, BadRecord, ColdStart, EvictionPolicy, Keyspace, Libraries, NoJournal, Survey,
};
use logindex::Indexer;

pub use bounded::Room;
use bounded::{Bounded, Scan};

use crate::config::{LogOptions, Options};
use crate::owned_log;
use crate::restore::{LogRestorer, NewestIndex, Warmup};

/// A device that has written so many blocks is worth that zeros are written ahead of the next ones. A server that is
/// hardly written to, or not for long, is spared that.
const ZEROS_BLOCKS_MIN: u64 = 256;

/// The log's options as the configuration has them, for the data directory `directory`.
#[must_use]
pub fn log_options(options: &Options, directory: PathBuf) -> redo::Options {
    let LogOptions { devices, segment_bytes, in_flight_bytes, .. } = &options.log;
    redo::Options {
        devices: devices.clone(),
        policy: owned_log::sync_policy(options.fsync),
        segment_bytes: *segment_bytes,
        in_flight_bytes_max: *in_flight_bytes,
        zeros_blocks_min: Some(ZEROS_BLOCKS_MIN),
        compaction: owned_log::compaction_options(&options.log),
        history: owned_log::history_options(&options.log),
        ..redo::Options::new(directory)
    }
}

/// What a keyspace must know before it is filled.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    databases: usize,
    eviction: EvictionPolicy,
    room_bytes: Option<u64>,
    /// When its keys are used for the first time: now, as in Redis.
    now_ms: i64,
}

impl Shape {
    /// As the configuration says, at this moment.
    #[must_use]
    pub const fn new(options: &Options, now_ms: i64) -> Self {
        let &Options { databases, eviction, .. } = options;
        Self { databases, eviction, room_bytes: options.room_bytes(), now_ms }
    }

    /// The bytes that may be used before values leave memory, if they may.
    #[must_use]
    pub const fn room_bytes(&self) -> Option<u64> {
        self.room_bytes
    }

    fn keyspace(self, seed: [u8; 16]) -> Keyspace<NoJournal> {
        let mut keyspace = Keyspace::new(NoJournal, seed, self.databases);
        keyspace.settings_mut().eviction = self.eviction;
        keyspace.begin_command(self.now_ms);
        keyspace
    }
}

/// Reads the log into a keyspace, which is not connected to the log yet. `progress` is told how far it is.
///
/// With a `room` small values leave memory when it is full. If that is not enough the keyspace may be given
/// up: then the log was read and judged all the same, and is frozen, because what of it is garbage is not
/// known.
///
/// # Errors
/// When the log is damaged or cannot be read; nothing on disk was changed then.
pub fn load(
    recovery: redo::Recovery,
    shape: Shape,
    room: Option<Room<'_>>,
    progress: &mut dyn FnMut(redo::Progress),
) -> redo::Result<(Option<Keyspace<NoJournal>>, redo::Opened)> {
    let mut filling = Filling::new(&recovery, shape);
    let Some(room) = room else {
        let opened = recovery.run(&mut filling, progress)?;
        return Ok((Some(filling.into_keyspace()), opened));
    };
    let mut bounded = Bounded::new(filling, room);
    let mut opened = recovery.run(&mut bounded, progress)?;
    let keyspace = bounded.into_keyspace();
    if keyspace.is_none() {
        opened.log.set_frozen(true);
    }
    Ok((keyspace, opened))
}

/// Reads and judges the log as every start does, into nothing; it is frozen then.
///
/// # Errors
/// When the log is damaged or cannot be read; nothing on disk was changed then.
pub fn scan(
    recovery: redo::Recovery,
    progress: &mut dyn FnMut(redo::Progress),
) -> redo::Result<redo::Opened> {
    let mut opened = recovery.run(&mut Scan::default(), progress)?;
    opened.log.set_frozen(true);
    Ok(opened)
}

/// Where the index of a log is, and how it is kept.
pub struct IndexPlace<'a> {
    /// The disk that it is on.
    pub disk: &'a Arc<dyn Disk>,
    /// Its directory.
    pub directory: &'a Path,
    /// How it is kept.
    pub options: indexing::Options,
    /// Whether it may be opened by another thread, while the log is read.
    pub is_parallel: bool,
}

/// A log that was opened by its index: its keys are cold.
pub struct ColdLoad {
    /// Without a key in memory.
    pub keyspace: Keyspace<NoJournal>,
    /// The log.
    pub opened: redo::Opened,
    /// Its index, which has yet to write what was read.
    pub index: LogIndex,
    /// Brings the keys back.
    pub warmup: Warmup,
    /// Reads what is asked for.
    pub restorer: LogRestorer,
}

/// Opens a log by its index: only what is behind the index's cut is read.
///
/// # Errors
/// When the log or the index is damaged or cannot be read; then the log can be read as a whole, once
/// the index is removed.
pub fn load_cold(
    recovery: redo::Recovery,
    believed: Believed,
    shape: Shape,
    place: &IndexPlace<'_>,
    progress: &mut dyn FnMut(redo::Progress),
) -> indexing::Result<ColdLoad> {
    let (database, seed) = (recovery.database().0, recovery.hash_seed());
    let floor = recovery.object_floor();
    let point =
        redo::StartPoint { cut: believed.cut(), next_object: believed.known().next_object() };
    let mut tail = believed.tail(seed);
    let open =
        || Indexer::open(Arc::clone(place.disk), place.directory, database, place.options.runs);
    let read = || recovery.run_behind(point, &mut tail, progress);
    let (opened, indexer) = if place.is_parallel {
        std::thread::scope(|scope| {
            let indexer = scope.spawn(open);
            (read(), indexer.join().expect("it does not panic"))
        })
    } else {
        (read(), open())
    };
    // What is wrong with the log comes first: the index may be the witness of it.
    let (opened, indexer) = (opened?, indexer?);
    let reader = opened.log.reader();
    let (index, whole) =
        LogIndex::open_with(indexer, place.directory, reader, seed, place.options, tail)?;
    let known = index.known();
    let objects = NewestIndex::behind(index.published(), whole.clone());
    let restorer = LogRestorer::new(opened.log.reader(), seed, Some(objects));
    let warmup = Warmup::new(restorer.apart(), whole, known).with_hint(
        Arc::clone(place.disk),
        place.directory.to_owned(),
        database,
    );
    let mut keyspace = shape.keyspace(seed);
    keyspace.skip_objects_below(floor.max(known.next_object()));
    let start = cold_start(known, opened.log.reader())?;
    keyspace.begin_cold(&start, Box::new(restorer.another()));
    Ok(ColdLoad { keyspace, opened, index, warmup, restorer })
}

fn cold_start(known: &Known, mut reader: redo::Reader) -> indexing::Result<ColdStart> {
    let mut libraries = Libraries::default();
    for (name, addr) in known.libraries() {
        let what = "no library where the index says";
        let bad = BadRecord { kind: RecordKind::Library, what };
        let found = reader.record(addr)?.ok_or(bad.clone())?;
        let record = found.record();
        if record.kind != RecordKind::Library || record.key != name {
            return Err(bad.into());
        }
        libraries.read(name, record.value, addr);
    }
    Ok(ColdStart {
        libraries,
        databases: known.map().cloned().zip(known.databases_addr()),
        keys: known.keys().map(Iterator::collect).unwrap_or_default(),
        databases_seen: known.databases_end().0,
    })
}

/// A keyspace being filled, as the log sees it.
pub struct Filling {
    keyspace: Keyspace<NoJournal>,
    /// The first record that made no sense, and where it is.
    error: Option<(ApplyError, RecordAddr)>,
}

impl Filling {
    /// An empty keyspace, for the log that `recovery` reads.
    #[must_use]
    pub fn new(recovery: &redo::Recovery, shape: Shape) -> Self {
        let mut keyspace = shape.keyspace(recovery.hash_seed());
        keyspace.skip_objects_below(recovery.object_floor());
        Self { keyspace, error: None }
    }

    /// The keyspace as the log has filled it.
    #[must_use]
    pub fn into_keyspace(self) -> Keyspace<NoJournal> {
        self.keyspace
    }
}

impl redo::Replay for Filling {
    fn apply(
        &mut self,
        record: &Record<'_>,
        addr: RecordAddr,
        lsn: Lsn,
        retired: &mut Vec<RecordAddr>,
    ) {
        if let Err(error) = self.keyspace.apply(record, addr, lsn, retired) {
            self.error.get_or_insert((error, addr));
        }
    }

    fn announce(&mut self, records: &[Record<'_>]) {
        self.keyspace.announce(records);
    }

    fn finish(&mut self, retired: &mut Vec<RecordAddr>) {
        match self.keyspace.settle(retired) {
            // Recovery wants to know all that is garbage before it goes on.
            Ok(()) => self.keyspace.free_all(retired),
            Err((error, addr)) => _ = self.error.get_or_insert((error.into(), addr)),
        }
    }

    fn rejected(&self) -> Option<(RecordAddr, String)> {
        self.error.as_ref().map(|(error, addr)| (*addr, error.to_string()))
    }
}

/// Looks through a log that a keyspace, which is there already, is to be logged to.
///
/// # Errors
/// When the log is damaged or cannot be read; nothing on disk was changed then.
pub fn survey(recovery: redo::Recovery) -> redo::Result<(Survey, redo::Opened)> {
    let mut surveying = Surveying { survey: Survey::new(recovery.object_floor()), error: None };
    let mut opened = recovery.run(&mut surveying, &mut |_| {})?;
    // Nothing was retired: until the keyspace is in the log, what is garbage is not known.
    opened.log.set_frozen(true);
    Ok((surveying.survey, opened))
}

/// A log being looked through.
struct Surveying {
    survey: Survey,
    error: Option<(BadRecord, RecordAddr)>,
}

impl redo::Replay for Surveying {
    fn apply(
        &mut self,
        record: &Record<'_>,
        addr: RecordAddr,
        _lsn: Lsn,
        _retired: &mut Vec<RecordAddr>,
    ) {
        if let Err(error) = self.survey.apply(record, addr) {
            self.error.get_or_insert((error, addr));
        }
    }

    fn finish(&mut self, _retired: &mut Vec<RecordAddr>) {
        if let Err(error) = self.survey.check() {
            self.error.get_or_insert(error);
        }
    }

    fn rejected(&self) -> Option<(RecordAddr, String)> {
        self.error.as_ref().map(|(error, addr)| (*addr, error.to_string()))
    }
}
