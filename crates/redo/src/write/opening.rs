//! Opening a log: find it, read it into the keyspace, put its end in order, go on.
//!
//! ```text
//!   open   lock · manifest · devices · headers and footers      nothing is changed
//!   run    read everything in LSN order into Replay             nothing is changed
//!          (run_behind: what an index does not know, and what has no footer)
//!          cut what nothing shows to have been durable, seal, remove leftovers
//!          new manifest (epoch + 1) ─► Log, Flushers, Compactor
//! ```
//!
//! Everything that can be wrong with what is on disk is found before the first change. Changing is
//! done so that a crash in the middle leaves a log that the next recovery reads the same way: every
//! file is cut at the same block, and each is durable before the manifest says that it is done.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use base::{Lsn, ObjectId, SegmentId};
use env::Lock;

use crate::compact::compactor::Compactor;
use crate::compact::job::JobQueue;
use crate::compact::room::check_room;
use crate::compact::segments::Segments;
use crate::compact::validity::Validity;
use crate::compact::window::Moment;
use crate::error::{Error, IoContext, Result, is_full, is_no_room};
use crate::format::kinds::Kinds;
use crate::format::listing::Listed;
use crate::format::manifest::{DeviceMark, Manifest, ManifestDevice, ManifestStore, PutBack};
use crate::format::segment;
use crate::id::Id;
use crate::options::{Env, Options, SyncPolicy};
use crate::read::catalog::{Catalog, LOOKERS};
use crate::read::in_use::lock;
use crate::recover::behind::{KnownBefore, StartPoint};
use crate::recover::cut::{self, Tidied};
use crate::recover::replay::{LogState, Nothing, Progress, Reading, Replay};
use crate::shared::device::{Device, Service, Shared};
use crate::shared::durability::Durability;
use crate::shared::spare;
use crate::write::flusher::Flusher;
use crate::write::log::{Begin, Log};
use crate::write::past::Past;
use crate::write::publication::check_finished;
use crate::write::reserve;

/// What recovery has found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Summary {
    /// The database.
    pub database: Id,
    /// How many times it was opened, this time included.
    pub epoch: u64,
    /// The last block that is there.
    pub last_lsn: Lsn,
    /// Blocks applied.
    pub blocks: u64,
    /// Records applied.
    pub records: u64,
    /// The length of all segments.
    pub bytes: u64,
    /// How many segments there are.
    pub segments: usize,
    /// Bytes at the end that are torn or behind a missing block, and that nothing shows to have been
    /// durable: cut off.
    pub cut_bytes: u64,
    /// Whole blocks among them.
    pub cut_blocks: u64,
}

/// The log, ready.
pub struct Opened {
    /// For the executor.
    pub log: Log,
    /// One a device, each for a thread.
    pub flushers: Vec<Flusher>,
    /// For a thread.
    pub compactor: Compactor,
    /// What was found.
    pub summary: Summary,
}

/// A log that is locked and looked at, and not yet read.
pub struct Recovery {
    env: Env,
    options: Options,
    catalog: Catalog,
    manifest: Manifest,
    lock: Box<dyn Lock>,
    /// Why there is no directory for history on some device.
    without_history: Vec<Error>,
    /// Something else than the log knows that it was durable up to this block.
    witnessed: Lsn,
    /// Rather than give up anything of its past it refuses.
    keeps_past: bool,
}

impl Recovery {
    /// Finds the log of `options.dir`, or the place for a new one, and locks it.
    ///
    /// # Errors
    /// When it is in use, of another database or a newer program, incomplete, or damaged. Nothing
    /// but the lock file is made or changed.
    pub fn open(mut env: Env, options: Options) -> Result<Self> {
        let dir = &options.dir;
        let lock = lock(&*env.disk, dir)?;
        check_finished(&*env.disk, dir)?;
        let lookers = if options.parallel_loaders { LOOKERS } else { 1 };
        let catalog = Catalog::read(&*env.disk, dir, &options.device_dirs(), lookers)?;
        let manifest = match &catalog.manifest {
            Some(manifest) => manifest.clone(),
            None => {
                let [mut database, mut hash_seed] = [[0; 16]; 2];
                env.entropy.fill(&mut database);
                env.entropy.fill(&mut hash_seed);
                Manifest::new(Id(database), hash_seed)
            }
        };
        Ok(Self {
            env,
            options,
            catalog,
            manifest,
            lock,
            without_history: Vec::new(),
            witnessed: Lsn::ZERO,
            keeps_past: false,
        })
    }

    /// The seed of the keyspace's hashes: it belongs to the database and never changes.
    #[must_use]
    pub const fn hash_seed(&self) -> [u8; 16] {
        self.manifest.hash_seed
    }

    /// The database.
    #[must_use]
    pub const fn database(&self) -> Id {
        self.manifest.database
    }

    /// Objects below this one may have been used, also where no record names them any more: what is
    /// made from now on has ids from here on, and above every object that is read.
    #[must_use]
    pub const fn object_floor(&self) -> ObjectId {
        self.manifest.object_floor
    }

    /// How many bytes there are to read.
    #[must_use]
    pub fn bytes_total(&self) -> u64 {
        self.catalog.files.iter().map(|file| file.len).sum()
    }

    /// Returns the horizon: compactions have removed nothing of any block above it. An index that ends
    /// below it knows the log as it is no more.
    #[must_use]
    pub fn horizon(&self) -> Lsn {
        self.catalog.horizon()
    }

    /// Notes that the log was durable up to `lsn`, as an index of it knows. A start that finds less
    /// refuses then, whether it believes the rest of that index or not: blocks are lost.
    pub fn note_durable(&mut self, lsn: Lsn) {
        self.witnessed = self.witnessed.max(lsn);
    }

    /// Reads the log into `replay`, puts its end in order, and makes it ready to go on.
    ///
    /// # Errors
    /// When it is damaged (nothing was changed then), or the disk refuses.
    pub fn run(
        self,
        replay: &mut dyn Replay,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<Opened> {
        let before = KnownBefore { durable: self.witnessed, ..KnownBefore::default() };
        self.run_with(before, replay, progress, |_, _| Validity::Known)
    }

    /// Does the same for an owner whose index knows all blocks up to the cut: `replay` gets the blocks
    /// behind it. Sealed files that have none of them are not read. Which records are garbage is not
    /// known then until [`Log::note_live`].
    ///
    /// REQUIRES: every block up to the cut was durable before the index said that it knows them.
    ///
    /// # Errors
    /// When the cut is below [`Recovery::horizon`], when blocks up to it are missing, and as
    /// [`Recovery::run`] for what is read.
    pub fn run_behind(
        self,
        point: StartPoint,
        replay: &mut dyn Replay,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<Opened> {
        let (cut, horizon) = (point.cut, self.horizon());
        if cut < horizon {
            return Err(Error::IndexTooOld { cut, horizon });
        }
        let before = KnownBefore { durable: self.witnessed.max(cut), point };
        self.run_with(before, replay, progress, Validity::unknown)
    }

    fn run_with(
        mut self,
        before: KnownBefore,
        replay: &mut dyn Replay,
        progress: &mut dyn FnMut(Progress),
        validity: fn(&Segments, SegmentId) -> Validity,
    ) -> Result<Opened> {
        let (state, past, cut) = self.settle(before, replay, progress)?;
        self.go_on(state, past, &cut, validity)
    }

    /// Reads the log and puts its end in order, as a start does, and does not go on: every file is sealed afterwards, and
    /// the manifest has what notes say. Nothing of the past is given up. The lock is the caller's.
    ///
    /// # Errors
    /// As [`Recovery::run`], and when a disk is full.
    pub(crate) fn seal(mut self, progress: &mut dyn FnMut(Progress)) -> Result<Box<dyn Lock>> {
        let before = KnownBefore { durable: self.witnessed, ..KnownBefore::default() };
        self.keeps_past = true;
        self.settle(before, &mut Nothing, progress)?;
        Ok(self.lock)
    }

    /// Reads the log, cuts what is no part of it, and writes the manifest.
    fn settle(
        &mut self,
        before: KnownBefore,
        replay: &mut dyn Replay,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<(LogState, Past, Tidied)> {
        let reading = Reading {
            disk: &self.env.disk,
            dir: &self.options.dir,
            catalog: &self.catalog,
            is_parallel: self.options.parallel_loaders,
            group_bytes: self.options.group_bytes,
            before,
        };
        let state = reading.run(replay, progress)?;
        state.notes.settle(&mut self.manifest);
        let rewritten_bytes = self.rewritten_bytes(&state);
        // Zeros that a crash has left take no room that anything else needs.
        self.catalog.devices.iter().for_each(|it| spare::remove(&*self.env.disk, &it.path));
        if self.keeps_past {
            self.check_room(&rewritten_bytes)?;
        }
        // Of a full disk history goes first, which the manifest must say before: for that a little is enough.
        let has_history = !self.catalog.history.is_empty();
        self.make_room(if has_history { &[] } else { &rewritten_bytes });
        self.settle_devices()?;
        let mut past = self.sync_observed_names(&state, &rewritten_bytes)?;
        let disk = self.env.disk.clone();
        past.stuck = cut::remove_history(&*disk, &self.catalog, &past.names);
        if has_history {
            self.make_room(&rewritten_bytes);
        }
        let cut = cut::tidy(&*disk, &self.catalog, &state)?;
        self.settle_manifest(&state)?;
        Ok((state, past, cut))
    }

    fn go_on(
        self,
        mut state: LogState,
        past: Past,
        cut: &Tidied,
        validity: fn(&Segments, SegmentId) -> Validity,
    ) -> Result<Opened> {
        for (source, bytes) in self.catalog.files.iter().zip(&cut.file_bytes) {
            if let Some(segment) = state.segments.get_mut(source.header.segment) {
                segment.bytes += bytes;
                if *bytes == 0 {
                    segment.parts.retain(|part| part.number != source.header.part);
                }
            }
        }
        let validity = validity(&state.segments, self.manifest.next_segment);
        self.start(state, validity, cut, past)
    }

    /// How much is written again of each device's files before the log goes on, in bytes.
    fn rewritten_bytes(&self, state: &LogState) -> Vec<u64> {
        let devices = 0..self.catalog.devices.len();
        let of_device = devices.map(|index| {
            let files = self.catalog.files.iter().zip(&state.files);
            let rewritten = files.filter(|(source, file)| {
                source.device == index && source.footer.is_some() && file.cut_block_count > 0
            });
            rewritten.map(|(_, file)| file.end).sum()
        });
        of_device.collect()
    }

    /// Gives up what was kept for this start where the disk is full; for the devices that have something
    /// written again, the reserve too.
    fn make_room(&self, rewritten_bytes: &[u64]) {
        let (disk, reserve_bytes) = (&*self.env.disk, self.options.reserve_bytes);
        for (index, device) in self.catalog.devices.iter().enumerate() {
            let rewritten_bytes = rewritten_bytes.get(index).copied().unwrap_or(0);
            reserve::make_room_for_start(disk, &device.path, reserve_bytes, rewritten_bytes);
        }
        if self.keeps_room_for_manifest() {
            reserve::make_room_for_start(disk, &self.options.dir, reserve_bytes, 0);
        }
    }

    /// Refuses, before anything is written, what disks have no room for without any of the past. What was kept for starts
    /// is given up for it.
    fn check_room(&self, rewritten_bytes: &[u64]) -> Result<()> {
        let disk = &*self.env.disk;
        let devices = self.catalog.devices.iter().zip(rewritten_bytes);
        let devices =
            devices.map(|(device, bytes)| (&*device.path, bytes + reserve::START_BYTES_MAX));
        let mut wanted: Vec<(&Path, u64)> = devices.collect();
        wanted.push((&self.options.dir, 2 * self.manifest.encode().len() as u64));
        for (dir, bytes) in &wanted {
            reserve::make_room_for_start(disk, dir, 0, *bytes);
        }
        check_room(disk, &wanted)
    }

    /// Whether the manifest may be on a disk of its own.
    fn keeps_room_for_manifest(&self) -> bool {
        !self.catalog.devices.iter().any(|device| device.path.starts_with(&self.options.dir))
    }

    /// Makes the directories of devices that are new, and marks them.
    fn settle_devices(&mut self) -> Result<()> {
        let disk = &*self.env.disk;
        for device in &mut self.catalog.devices {
            let id = device.id.unwrap_or_else(|| {
                let mut id = Id([0; 16]);
                self.env.entropy.fill(&mut id.0);
                id
            });
            device.id = Some(id);
        }
        let home = self.options.home();
        let devices = self.catalog.devices.iter().map(|device| ManifestDevice {
            id: device.id.expect("given above"),
            // What is below the data directory moves with it.
            path: device.path.strip_prefix(home).unwrap_or(&device.path).to_owned(),
            is_leaving: device.is_leaving,
        });
        self.manifest.devices = devices.collect();
        if self.manifest.epoch == 0 {
            // The first start: the manifest says which devices are ours before they are marked,
            // so that a start that is cut short can be repeated.
            self.manifest.write(disk, &self.options.dir)?;
        }
        for device in &self.catalog.devices {
            disk.create_dir_all(&device.path).at(&device.path, "make")?;
            if self.options.history.seconds > 0 {
                // By the server, whatever process links there first: it must be able to.
                // If it cannot be made no start fails: a compaction tries again.
                let history = segment::history_dir(&device.path);
                if !disk.exists(&history).unwrap_or(false) {
                    let made = disk.create_dir_all(&history).at(&history, "make");
                    self.without_history.extend(made.err());
                }
            }
            let id = device.id.expect("given above");
            let mark = DeviceMark { database: self.manifest.database, device: id };
            if DeviceMark::read(disk, &device.path)? != Some(mark) {
                mark.write(disk, &device.path)?;
            }
        }
        Ok(())
    }

    /// The images that have blocks; all of them end up sealed.
    fn left(&self, state: &LogState) -> impl Iterator<Item = Listed> {
        let images = self.catalog.files.iter().zip(&state.files);
        let left = images.filter(|(_, file)| file.block_count > 0).map(|(image, _)| Listed {
            segment: image.header.segment,
            part: image.header.part,
            last_lsn: Listed::SEALED,
        });
        left.collect::<Vec<_>>().into_iter()
    }

    /// Before anything is removed because of what was seen: that is made durable. A rename may have
    /// been seen that the process before this one did not live to sync, or could not; if it were lost
    /// now and the removal were not, a file would be missing. Images without a block are about to be
    /// removed too: a start after a crash must not miss them. The same goes for history that is kept no
    /// more.
    fn sync_observed_names(&mut self, state: &LogState, rewritten_bytes: &[u64]) -> Result<Past> {
        let disk = &*self.env.disk;
        for device in &self.catalog.devices {
            disk.sync_dir(&device.path).at(&device.path, "sync")?;
        }
        let left: BTreeSet<_> = self.left(state).map(|left| (left.segment, left.part)).collect();
        self.manifest.listed.retain(|listed| left.contains(&(listed.segment, listed.part)));
        let mut past = Past::take(
            disk,
            &self.catalog,
            &self.options,
            (&mut self.manifest, state.last_lsn),
            Moment::now(&*self.env.clock),
            rewritten_bytes,
        );
        match self.manifest.write(disk, &self.options.dir) {
            Err(error) if is_full(&error) && !self.keeps_past => {
                // What is given up makes the room to say so. A start that comes in between finds it missing.
                cut::remove_history(disk, &self.catalog, &past.names);
                let mut written = self.manifest.write(disk, &self.options.dir);
                let now = Moment::now(&*self.env.clock);
                // A quota perhaps, or no file can be made any more: the disk seems to have room.
                while written.as_ref().is_err_and(is_no_room)
                    && past.give_up((&mut self.manifest, state.last_lsn), now)
                {
                    cut::remove_history(disk, &self.catalog, &past.names);
                    written = self.manifest.write(disk, &self.options.dir);
                }
                written?;
            }
            written => written?,
        }
        Ok(past)
    }

    fn settle_manifest(&mut self, state: &LogState) -> Result<()> {
        self.manifest.epoch += 1;
        self.manifest.durable_lsn = state.last_lsn;
        self.manifest.horizon = state.horizon;
        self.manifest.next_segment = self.catalog.next_segment();
        self.manifest.object_floor = state.object_end;
        self.manifest.listed = self.left(state).collect();
        // What a compaction has replaced since needs no mention.
        let there = self.catalog.files.iter().filter(|image| image.put_back.is_some());
        let there: BTreeSet<_> =
            there.map(|image| (image.header.segment, image.header.part)).collect();
        let is_there = |file: &PutBack| there.contains(&(file.segment, file.part));
        self.manifest.rewinds.put_back.retain(is_there);
        self.manifest.write(&*self.env.disk, &self.options.dir)
    }

    fn start(
        self,
        state: LogState,
        validity: Validity,
        cut: &Tidied,
        past: Past,
    ) -> Result<Opened> {
        if self.keeps_room_for_manifest() {
            let reserve_bytes = self.options.reserve_bytes;
            reserve::make_for_start(&*self.env.disk, &self.options.dir, reserve_bytes);
        }
        let Self { env, options, catalog, manifest, lock, without_history, .. } = self;
        let next_segment = manifest.next_segment;
        let segments = state.segments;
        let devices = catalog.devices.iter();
        let devices = devices
            .map(|found| {
                let device = Device::new(found.id.expect("settled"), found.path.clone());
                if found.is_leaving {
                    device.set_service(Service::Leaving);
                }
                device
            })
            .collect();
        let summary = Summary {
            database: manifest.database,
            epoch: manifest.epoch,
            last_lsn: state.last_lsn,
            blocks: state.block_count,
            records: state.record_count,
            bytes: segments.iter().map(|segment| segment.bytes).sum(),
            segments: segments.iter().count(),
            cut_bytes: cut.cut_bytes,
            cut_blocks: state.files.iter().map(|file| file.cut_block_count).sum(),
        };
        let jobs = Arc::new(JobQueue::default());
        jobs.holds.begin(options.history, &manifest, past.kept, Moment::now(&*env.clock));
        let home = options.home().to_owned();
        let store = ManifestStore::new(env.disk.clone(), options.dir.clone(), home, manifest);
        let is_always = options.policy == SyncPolicy::Always;
        let durability = Durability::new(state.last_lsn, is_always);
        let shared = Arc::new(Shared::new(
            env.disk,
            env.clock,
            env.waker,
            store,
            durability,
            devices,
            options.segment_bytes,
            options.group_bytes,
            options.reserve_bytes,
            options.zeros_blocks_min,
            lock,
        ));
        shared.used_kinds.add(Kinds::all(catalog.files.iter().map(|file| file.header.kinds)));
        let mut flushers = Vec::new();
        for (index, device) in shared.devices.iter().enumerate() {
            let reserve = reserve::make(&*shared.disk, &device.path, shared.reserve_bytes);
            if let Err(error) = &reserve {
                device.become_full(&*shared.disk, error);
            }
            let holds = Arc::clone(&jobs.holds);
            flushers.push(Flusher::new(shared.clone(), holds, index, reserve.is_ok()));
        }
        let compactor = Compactor::new(shared.clone(), jobs.clone());
        let begin = Begin {
            segments,
            validity,
            last_lsn: state.last_lsn,
            next_segment,
            object_end: state.object_end,
        };
        let mut log = Log::new(shared, jobs, begin, &options);
        if let Some(path) = past.missing.first() {
            log.tell(format!(
                "{} files of the log as it was are missing or damaged, {} the first of them: it cannot be \
                 read any more as it was before block {}",
                past.missing.len(),
                path.display(),
                log.history().from_lsn
            ));
        }
        for error in &without_history {
            log.tell(format!("{error}; no history is kept there as long as that is so"));
        }
        for error in &past.stuck {
            log.tell(format!("{error}; nothing needs it any more"));
        }
        Ok(Opened { log, flushers, compactor, summary })
    }
}
