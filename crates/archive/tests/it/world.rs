//! A log whose threads are step calls, an archiver, and the state after every block.

use std::collections::{BTreeMap, HashMap};
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use archive::{
    ArchiveOptions, ArchiveStep, Archiver, Compression, Desk, Directory, Folder, Keep, Key, Keyed,
    Keys, Name, Object, Picture, Point, Put, Readback, Request, Restored, Target, TargetError,
    TargetResult,
};
use base::{DbId, Lsn, Record, RecordAddr, RecordKind};
use env::{Clock as _, Disk};
use env_sim::{Faults, SimDisk, SimEntropy};
use redo::{Compactor, Env, Flusher, Id, Log, Opened, Options, Recovery, Replay, Step, SyncPolicy};

pub(crate) type Contents = BTreeMap<Vec<u8>, Vec<u8>>;

pub(crate) const TARGET: &str = "/archive";
pub(crate) const INTO: &str = "/new";

/// A clock that moves when told to.
#[derive(Default)]
pub(crate) struct ManualClock(AtomicU64, AtomicI64);

impl ManualClock {
    pub(crate) fn advance_us(&self, us: u64) {
        self.0.fetch_add(us, Ordering::Relaxed);
    }

    /// The wall clock is set.
    pub(crate) fn jump_ms(&self, ms: i64) {
        self.1.fetch_add(ms, Ordering::Relaxed);
    }
}

impl env::Clock for ManualClock {
    fn now_ms(&self) -> i64 {
        let passed_ms = self.0.load(Ordering::Relaxed).cast_signed() / 1000;
        1_700_000_000_000 + passed_ms + self.1.load(Ordering::Relaxed)
    }

    fn monotonic_us(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// What the log says.
#[derive(Default, Clone)]
pub(crate) struct Keyspace(HashMap<Vec<u8>, (Vec<u8>, RecordAddr)>);

impl Keyspace {
    pub(crate) fn contents(&self) -> Contents {
        self.0.iter().map(|(key, (value, _))| (key.clone(), value.clone())).collect()
    }
}

impl Replay for Keyspace {
    fn apply(
        &mut self,
        record: &Record<'_>,
        addr: RecordAddr,
        _: Lsn,
        retired: &mut Vec<RecordAddr>,
    ) {
        let old = if record.kind.is_delete() {
            self.0.remove(record.key)
        } else {
            self.0.insert(record.key.to_vec(), (record.value.to_vec(), addr))
        };
        retired.extend(old.map(|(_, addr)| addr));
    }

    fn finish(&mut self, _: &mut Vec<RecordAddr>) {}
}

/// A log that is open.
pub(crate) struct Database {
    pub(crate) keyspace: Keyspace,
    pub(crate) log: Log,
    pub(crate) flushers: Vec<Flusher>,
    pub(crate) compactor: Compactor,
}

impl Database {
    pub(crate) fn open(
        disk: &SimDisk,
        clock: &Arc<ManualClock>,
        options: Options,
        seed: u64,
    ) -> redo::Result<Self> {
        let env = Env {
            disk: Arc::new(disk.clone()),
            clock: clock.clone(),
            entropy: Box::new(SimEntropy::new(seed)),
            waker: Arc::new(|| {}),
        };
        let recovery = Recovery::open(env, options)?;
        let mut keyspace = Keyspace::default();
        let Opened { log, flushers, compactor, .. } = recovery.run(&mut keyspace, &mut |_| {})?;
        Ok(Self { keyspace, log, flushers, compactor })
    }

    pub(crate) fn put(&mut self, record: &Record<'_>) {
        let addr = self.log.append(record);
        let old = if record.kind.is_delete() {
            self.keyspace.0.remove(record.key)
        } else {
            self.keyspace.0.insert(record.key.to_vec(), (record.value.to_vec(), addr))
        };
        old.into_iter().for_each(|(_, old)| self.log.retire(old));
    }

    pub(crate) fn set(&mut self, key: &[u8], value: &[u8]) {
        self.put(&Record::whole(RecordKind::String, DbId(0), key, value, None));
    }

    pub(crate) fn delete(&mut self, key: &[u8]) {
        if self.keyspace.0.contains_key(key) {
            self.put(&Record::key_deleted(DbId(0), key));
        }
    }

    pub(crate) fn last(&self) -> u64 {
        self.log.open_lsn().0 - 1
    }

    pub(crate) fn flush(&mut self) {
        self.log.seal();
        self.log.request_sync(Lsn(self.last()));
        while self.flushers.iter_mut().any(|flusher| flusher.step() == Step::Worked) {}
        self.log.poll();
    }
}

/// How objects are encoded.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Coding {
    #[default]
    Plain,
    Compressed,
    /// And compressed.
    Encrypted,
}

impl Coding {
    pub(crate) const ALL: [Self; 3] = [Self::Plain, Self::Compressed, Self::Encrypted];

    pub(crate) fn of_seed(seed: u64) -> Self {
        Self::ALL[usize::try_from(seed % 3).unwrap()]
    }

    pub(crate) fn keys(self) -> Keys {
        match self {
            Self::Encrypted => Keys::new(vec![Key::new([7; 32])]),
            _ => Keys::NONE,
        }
    }

    pub(crate) fn compression(self) -> Compression {
        match self {
            Self::Plain => Compression::None,
            _ => Compression::Zstd(1),
        }
    }
}

/// How a target misbehaves.
#[derive(Default)]
pub(crate) struct Mood {
    pub(crate) coding: Coding,
    pub(crate) rng: Option<SimEntropy>,
    pub(crate) is_away: bool,
    /// Nothing may be removed, and it was tried so often.
    pub(crate) refuses_removals: bool,
    pub(crate) removals_refused: u64,
    /// Nothing may be put into the folder of marks.
    pub(crate) refuses_marks: bool,
    /// Of so many calls out of a hundred nothing is heard, whatever they have done.
    pub(crate) lost_percent: u64,
    pub(crate) puts: u64,
    /// The last one of so many objects that are opened from now on cannot be, or is said not to be there.
    pub(crate) opens_until_lost: u64,
    pub(crate) is_lost_gone: bool,
    /// That list of a folder, counted from now on, has nothing.
    pub(crate) hidden: Option<(Folder, u64)>,
    /// It reads back what was put, but for the last so many objects.
    pub(crate) unread: Option<u64>,
    /// What it has read back as something else and not told yet.
    pub(crate) damaged: Vec<String>,
}

/// A directory that answers or does not.
pub(crate) struct Moody {
    pub(crate) inner: Directory,
    pub(crate) mood: Arc<Mutex<Mood>>,
}

enum Fate {
    Answer,
    LoseBefore,
    LoseAfter,
}

impl Moody {
    fn fate(&self) -> Fate {
        let mut mood = self.mood.lock().unwrap();
        if mood.is_away {
            return Fate::LoseBefore;
        }
        let percent = mood.lost_percent;
        let Some(rng) = &mut mood.rng else { return Fate::Answer };
        match rng.below(100) {
            lost if lost < percent / 2 => Fate::LoseBefore,
            lost if lost < percent => Fate::LoseAfter,
            _ => Fate::Answer,
        }
    }

    fn call<T>(&self, call: impl Fn() -> TargetResult<T>) -> TargetResult<T> {
        let lost = || TargetError::of("reach", "the target")(std::io::ErrorKind::TimedOut.into());
        match self.fate() {
            Fate::Answer => call(),
            Fate::LoseBefore => Err(lost()),
            Fate::LoseAfter => {
                let _unheard = call();
                Err(lost())
            }
        }
    }
}

impl Target for Moody {
    fn put_new(&self, database: Id, name: &Name, bytes: &[u8]) -> TargetResult<Put> {
        let mut mood = self.mood.lock().unwrap();
        if mood.refuses_marks && name.folder() == Folder::Damaged {
            let refused = std::io::ErrorKind::PermissionDenied;
            return Err(TargetError::of("put", name.to_string())(refused.into()));
        }
        mood.puts += 1;
        drop(mood);
        self.call(|| self.inner.put_new(database, name, bytes))
    }

    fn open(&self, database: Id, name: &Name) -> TargetResult<Box<dyn Object>> {
        let mut mood = self.mood.lock().unwrap();
        let left = &mut mood.opens_until_lost;
        if *left == 1 {
            *left = 0;
            let kind = match mood.is_lost_gone {
                true => std::io::ErrorKind::NotFound,
                false => std::io::ErrorKind::TimedOut,
            };
            return Err(TargetError::of("open", name.to_string())(kind.into()));
        }
        *left = left.saturating_sub(1);
        drop(mood);
        self.call(|| self.inner.open(database, name))
    }

    fn list(&self, database: Id, folder: Folder) -> TargetResult<Vec<Name>> {
        if let Some((hidden, left)) = &mut self.mood.lock().unwrap().hidden
            && *hidden == folder
        {
            *left = left.wrapping_sub(1);
            if *left == 0 {
                return Ok(Vec::new());
            }
        }
        self.call(|| self.inner.list(database, folder))
    }

    fn remove(&self, database: Id, name: &Name) -> TargetResult<()> {
        let mut mood = self.mood.lock().unwrap();
        if mood.refuses_removals {
            mood.removals_refused += 1;
            let refused = std::io::ErrorKind::PermissionDenied;
            return Err(TargetError::of("remove", name.to_string())(refused.into()));
        }
        drop(mood);
        self.call(|| self.inner.remove(database, name))
    }

    fn clean(&self, database: Id, is_such: &dyn Fn(&Name) -> bool) -> TargetResult<()> {
        self.call(|| self.inner.clean(database, is_such))
    }

    fn readback(&self) -> TargetResult<Option<Readback>> {
        let mut mood = self.mood.lock().unwrap();
        let damaged = std::mem::take(&mut mood.damaged);
        let put = mood.puts;
        let of = |unread| Readback { put, verified: put.saturating_sub(unread), damaged };
        Ok(mood.unread.map(of))
    }

    fn databases(&self) -> TargetResult<Vec<Id>> {
        self.call(|| self.inner.databases())
    }
}

pub(crate) fn log_options(seed: u64) -> Options {
    let mut options = Options::new("/data");
    options.devices = (0..1 + seed % 2).map(|n| PathBuf::from(format!("/disk{n}"))).collect();
    options.segment_bytes = if seed.is_multiple_of(3) { 20_000 } else { 2000 };
    options.group_bytes = 128;
    options.reserve_bytes = 16 << 10;
    options.policy = [SyncPolicy::Always, SyncPolicy::No][usize::from(seed % 4 > 1)];
    options.compaction.invalid_count_min = 2;
    options.compaction.invalid_share_min = 0.2;
    options.compaction.garbage_share_min = 0.0;
    options.compaction.gathered_min = 3;
    options.compaction.rate_bytes_per_s = 0;
    options.parallel_loaders = false;
    options
}

pub(crate) fn archive_options() -> ArchiveOptions {
    ArchiveOptions {
        interval_ms: 100,
        object_bytes: 900,
        base_percentage: 100,
        base_bytes_min: 4000,
        keep: Keep::ALL,
        compression: Compression::None,
    }
}

/// Everything.
pub(crate) struct World {
    pub(crate) seed: u64,
    pub(crate) disk: SimDisk,
    pub(crate) target_disk: SimDisk,
    pub(crate) clock: Arc<ManualClock>,
    pub(crate) database: Database,
    pub(crate) archiver: Archiver,
    pub(crate) desk: Arc<Desk>,
    pub(crate) mood: Arc<Mutex<Mood>>,
    pub(crate) rng: SimEntropy,
    /// The state after each block.
    pub(crate) states: BTreeMap<u64, Contents>,
    /// What was ever said to be restorable.
    pub(crate) told: Vec<(u64, u64)>,
    /// Copies say so much later a time than that of their marks, as those of older programs may.
    pub(crate) late_ms: i64,
}

impl World {
    pub(crate) fn new(seed: u64) -> Self {
        Self::coded(seed, Coding::Plain)
    }

    /// One with an archive that is encoded so.
    pub(crate) fn coded(seed: u64, coding: Coding) -> Self {
        let (disk, target_disk) =
            (SimDisk::new(seed, Faults::default()), SimDisk::new(seed + 1, Faults::default()));
        target_disk.create_dir_all(Path::new(TARGET)).unwrap();
        let clock = Arc::new(ManualClock::default());
        let database = Database::open(&disk, &clock, log_options(seed), seed).unwrap();
        let rng = Some(SimEntropy::new(seed + 2));
        let mood = Arc::new(Mutex::new(Mood { coding, rng, ..Mood::default() }));
        let (archiver, desk) = begin(&database, &target_disk, &clock, &mood, seed);
        let states = BTreeMap::from([(0, Contents::new())]);
        let (rng, told, late_ms) = (SimEntropy::new(seed), Vec::new(), 0);
        Self {
            seed,
            disk,
            target_disk,
            clock,
            database,
            archiver,
            desk,
            mood,
            rng,
            states,
            told,
            late_ms,
        }
    }

    pub(crate) fn write(&mut self) {
        for _ in 0..=self.rng.below(6) {
            let key = format!("key-{}", self.rng.below(40)).into_bytes();
            if self.rng.below(4) == 0 {
                self.database.delete(&key);
            } else {
                let lsn = self.database.log.open_lsn().0;
                let bytes = usize::try_from(self.rng.below(70)).unwrap();
                self.database.set(&key, format!("{lsn}-{}", "x".repeat(bytes)).as_bytes());
            }
        }
        self.seal();
    }

    pub(crate) fn seal(&mut self) {
        self.database.log.seal();
        self.states.insert(self.database.last(), self.database.keyspace.contents());
        self.clock.advance_us(1000);
    }

    /// One of the many things that go on.
    pub(crate) fn step(&mut self) {
        match self.rng.below(24) {
            0..6 => self.write(),
            6..10 => {
                let which = self.rng.below(self.database.flushers.len() as u64);
                self.database.flushers[usize::try_from(which).unwrap()].step();
            }
            10..13 => _ = self.database.compactor.step(),
            13..15 => {
                self.clock.advance_us(200_000);
                self.database.log.tick();
            }
            15..17 => {
                let sealed = Lsn(self.database.last());
                self.database.log.request_sync(sealed);
                if self.rng.below(10) == 0 {
                    self.database.log.compact_all();
                }
            }
            _ => self.archive(),
        }
        self.database.log.poll();
    }

    pub(crate) fn archive(&mut self) {
        if self.desk.wants_mark()
            && let Some(mark) = self.database.log.mark()
        {
            self.desk.give_mark(mark, self.clock.now_ms() + self.late_ms);
        }
        assert_ne!(self.archiver.step(), ArchiveStep::Finished);
        self.note_told();
    }

    pub(crate) fn note_told(&mut self) {
        let figures = self.desk.figures();
        let told = (figures.restorable_from.0, figures.archived.0);
        assert!(told.0 <= told.1, "seed {}: blocks {} to {}", self.seed, told.0, told.1);
        if told.1 > 0 && self.told.last() != Some(&told) {
            self.told.push(told);
        }
    }

    /// The log's process ends, and another one begins.
    pub(crate) fn restart(&mut self, power_fails: bool) {
        if power_fails {
            self.disk.crash();
        } else {
            self.disk.kill();
        }
        self.reopen();
    }

    pub(crate) fn reopen(&mut self) {
        let opened = Database::open(&self.disk, &self.clock, log_options(self.seed), self.seed);
        self.database = opened.unwrap();
        let last = self.database.last();
        self.states.retain(|lsn, _| *lsn <= last);
        assert_eq!(self.states.get(&last), Some(&self.database.keyspace.contents()));
        let (archiver, desk) =
            begin(&self.database, &self.target_disk, &self.clock, &self.mood, self.seed + last);
        (self.archiver, self.desk) = (archiver, desk);
    }

    /// Time passes, and nothing is written.
    pub(crate) fn idle(&mut self) {
        self.clock.advance_us(200_000);
        self.database.flush();
        self.database.log.tick();
        self.database.compactor.step();
        self.database.log.poll();
        self.archive();
    }

    /// Lets everything come to its end.
    pub(crate) fn settle(&mut self) {
        self.mood.lock().unwrap().lost_percent = 0;
        self.mood.lock().unwrap().is_away = false;
        for round in 1..10_000 {
            if round % 500 == 0 {
                // What was not compared is gone on from with another block.
                self.write();
            }
            self.idle();
            let figures = self.desk.figures();
            if figures.archived.0 == self.database.last() && figures.fill_total == 0 {
                return;
            }
        }
        panic!("seed {}: {:?}, log at {}", self.seed, self.desk.figures(), self.database.last());
    }

    pub(crate) fn target(&self) -> Keyed {
        let keys = self.mood.lock().unwrap().coding.keys();
        keyed(&self.target_disk, keys)
    }

    pub(crate) fn picture(&self) -> Picture {
        picture(&self.target())
    }

    /// Objects in a folder.
    pub(crate) fn list(&self, folder: Folder) -> Vec<Name> {
        match archive::database_of(&self.target(), None) {
            Ok(database) => self.target().list(database, folder).unwrap(),
            Err(_) => Vec::new(),
        }
    }

    /// A bit of an object turns at rest, in its header or at its end.
    pub(crate) fn damage(&self, name: &Name, is_header: bool) {
        self.damage_at(name, if is_header { 70 } else { -1 });
    }

    /// A bit of an object turns at rest, in this byte, or in so many from its end.
    pub(crate) fn damage_at(&self, name: &Name, at: isize) {
        let target = self.target();
        let database = archive::database_of(&target, None).unwrap();
        let object = target.open(database, name).unwrap();
        let mut bytes = vec![0; usize::try_from(object.bytes().unwrap()).unwrap()];
        object.read_at(&mut bytes, 0).unwrap();
        let at = if at < 0 { bytes.len().strict_add_signed(at) } else { at.cast_unsigned() };
        bytes[at] ^= 2;
        target.remove(database, name).unwrap();
        target.put_new(database, name, &bytes).unwrap();
    }

    /// Restores blocks out of all that can be, every `step`-th, and the ends; and what was told. Returns how many.
    pub(crate) fn check(&self, step: usize) -> usize {
        let picture = self.picture();
        for (from, last) in &self.told {
            for lsn in [*from, *last, u64::midpoint(*from, *last)] {
                assert!(picture.chain(Lsn(lsn)).is_some(), "seed {}: {lsn} was told", self.seed);
            }
        }
        let mut checked = 0;
        for range in &picture.ranges {
            let all = (range.first.0..=range.last.0).rev().step_by(step);
            for lsn in all.chain([range.first.0]) {
                let found = restored(&self.target(), lsn);
                let found =
                    found.unwrap_or_else(|error| panic!("seed {}, {lsn}: {error}", self.seed));
                assert_eq!(Some(&found), self.states.get(&lsn), "seed {}, block {lsn}", self.seed);
                checked += 1;
            }
        }
        checked
    }
}

pub(crate) fn begin(
    database: &Database,
    disk: &SimDisk,
    clock: &Arc<ManualClock>,
    mood: &Arc<Mutex<Mood>>,
    seed: u64,
) -> (Archiver, Arc<Desk>) {
    let coding = mood.lock().unwrap().coding;
    let target = Moody { inner: target(disk), mood: Arc::clone(mood) };
    let target = Keyed::new(Box::new(target), coding.keys());
    let options = ArchiveOptions { compression: coding.compression(), ..archive_options() };
    let desk = Arc::new(Desk::new(options));
    let (reader, seed) = (database.log.reader(), bytes_of(seed));
    let archiver = Archiver::new(reader, Box::new(target), clock.clone(), Arc::clone(&desk), seed);
    (archiver, desk)
}

pub(crate) fn bytes_of(seed: u64) -> [u8; 32] {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    bytes
}

pub(crate) fn keyed(disk: &SimDisk, keys: Keys) -> Keyed {
    Keyed::new(Box::new(target(disk)), keys)
}

pub(crate) fn target(disk: &SimDisk) -> Directory {
    Directory::new(Arc::new(disk.clone()), Path::new(TARGET))
}

pub(crate) fn picture(target: &dyn Target) -> Picture {
    match archive::database_of(target, None) {
        Ok(database) => Picture::read(target, database).unwrap(),
        Err(_) => Picture::default(),
    }
}

pub(crate) fn restore_into(
    disk: &SimDisk,
    target: &dyn Target,
    point: Point,
) -> archive::Result<Restored> {
    restore_keeping(disk, target, point, 1)
}

/// The same, noting how far it is after so many bytes.
pub(crate) fn restore_keeping(
    disk: &SimDisk,
    target: &dyn Target,
    point: Point,
    keep_bytes: u64,
) -> archive::Result<Restored> {
    let shared: Arc<dyn Disk> = Arc::new(disk.clone());
    let (database, into, expiry) = (None, Some(Path::new(INTO)), redo::Expiry::Absolute);
    let threads = NonZero::<usize>::MIN;
    let request = Request { target, database, into, point, expiry, threads, keep_bytes };
    archive::restore(&shared, &request, &mut SimEntropy::new(9), &mut |_| {})
}

/// What a start finds in what was restored.
pub(crate) fn contents_of(disk: &SimDisk) -> (u64, Contents) {
    let mut options = log_options(0);
    (options.dir, options.devices) = (PathBuf::from(INTO), Vec::new());
    let database = Database::open(disk, &Arc::default(), options, 5).unwrap();
    (database.last(), database.keyspace.contents())
}

/// The state after a block, from the archive alone.
pub(crate) fn restored(target: &dyn Target, lsn: u64) -> archive::Result<Contents> {
    let disk = SimDisk::new(3, Faults::default());
    let restored = restore_into(&disk, target, Point::Lsn(lsn))?;
    assert_eq!(restored.parent.lsn, Lsn(lsn));
    let (last, contents) = contents_of(&disk);
    assert_eq!(last, lsn, "it goes on behind the block");
    Ok(contents)
}

/// Whether there is an object whose blocks are all in another one; that one.
pub(crate) fn made_one(logs: &[Name]) -> Option<Name> {
    let firsts = |pair: &&[Name]| matches!(pair, [Name::Log { first: one, .. }, Name::Log { first: other, .. }] if one == other);
    logs.windows(2).find(firsts).map(|pair| pair[1])
}

/// Writes until small objects were made one. Returns that.
pub(crate) fn until_made_one(world: &mut World) -> Name {
    for _ in 0..200 {
        world.write();
        world.database.flush();
        world.clock.advance_us(1_000_000);
        (0..4).for_each(|_| world.archive());
        if let Some(name) = made_one(&world.list(Folder::Log)) {
            return name;
        }
    }
    panic!("nothing was made one");
}
