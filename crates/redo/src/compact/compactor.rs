//! Compaction: sealed segments are replaced by ones without their garbage.
//!
//! ```text
//!  bitmap copies ─┐
//!  old files ─────┴─► image_copy, segment by segment ─► 0000000007.tmp ─► sync
//!                                                             │ wait: durable ≥ the copies' LSN
//!                                                             ▼
//!  keep the old ones ─► manifest: horizon ─► rename to 0000000007.redo ─► sync directory ─► remove the others
//! ```
//!
//! A job takes whole files: one segment's as a rule; those of several small ones to gather them in
//! one file; those on a device that is to be drained, to write them to another. What comes out is
//! one file, named after the first segment that has records left, or none.
//!
//! No record's address changes (its place is its rank among the survivors), so there is nothing
//! to tell the keyspace: no remapping, no lock, no second copy. Memory is the copies of the bitmaps
//! and two buffers; blocks that would not fit are copied piece by piece (`large_block`).
//!
//! **The rename waits.** Bits of the bitmap may have been set by records that are not durable yet:
//! the update of an entry retires its old record at once. If the old record were gone before the
//! new one is on disk, a crash would lose both. So the rename happens only when the block that was
//! open when the bitmap was copied is durable; under `everysec` and `no` a sync is asked for.
//!
//! **Crash at any point.** Until the rename is durable the old files are there, after it the new
//! one; both give the same state, because what they differ by is superseded by durable records.
//! An old file that is still there next to the new one is told by its older generation. A leftover
//! temporary file is removed at the next start. Before a segment is gone, the manifest says that
//! blocks up to its last one may be missing.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use base::{Lsn, ObjectId, SegmentId};
use env::{Access, Complete, Disk, FileError, Renamed};

use crate::compact::dropper::Dropper;
use crate::compact::history::{self, Nameless, Source, first_needing};
use crate::compact::holds::Holds;
use crate::compact::image_copy::{CHUNK_BYTES, Copied, ImageCopy, Output};
use crate::compact::job::{Failure, Job, JobQueue, Member, Outcome};
use crate::compact::kept::MarkId;
use crate::compact::window::Moment;
use crate::error::{Error, IoContext, Result, is_full};
use crate::format::footer::FooterBuilder;
use crate::format::kinds::Kinds;
use crate::format::segment::{self, SEGMENT_VERSION, SegmentHeader};
use crate::read::scan::SegmentFile;
use crate::shared::device::Shared;
use crate::shared::step::Step;

/// Blocks with more bytes of records than this, or a quarter of a segment, are copied piece by
/// piece.
const LARGE_BYTES: u64 = 1 << 20;

/// How long the end of a compaction rests between two attempts.
const RETRY_US: u64 = 100_000;

/// After what time it is tried again to keep a file that a backup needs.
const KEEP_RETRY_US: u64 = 1_000_000;

/// Compacts one segment after the other, as the executor orders.
pub struct Compactor {
    shared: Arc<Shared>,
    queue: Arc<JobQueue>,
    running: Option<Running>,
    dropper: Dropper,
}

impl Compactor {
    pub(crate) fn new(shared: Arc<Shared>, queue: Arc<JobQueue>) -> Self {
        Self { shared, queue, running: None, dropper: Dropper::default() }
    }

    /// Waits until there is something to do, or for `timeout`. While a compaction waits for its
    /// rate or for a sync this is a pause of at most 2 ms.
    pub fn wait(&self, timeout: Duration) {
        let queue = self.queue.lock();
        if self.running.is_none() && (!queue.jobs.is_empty() || queue.is_ending) {
            return;
        }
        let pause = Duration::from_millis(2);
        let timeout = if self.running.is_some() { timeout.min(pause) } else { timeout };
        let _ = self.queue.arrived.wait_timeout(queue, timeout);
    }

    /// Does some of what there is to do: at most about one chunk is read and written.
    pub fn step(&mut self) -> Step {
        if self.queue.lock().is_ending {
            if let Some(running) = self.running.take() {
                running.abandon(&self.shared);
            }
            return Step::Finished;
        }
        // First, and whatever a compaction does: it may wait for the room that kept files take.
        let has_dropped = self.dropper.step(&self.shared, &self.queue.holds);
        match self.compact() {
            Step::Idle if has_dropped => Step::Worked,
            step => step,
        }
    }

    /// Goes on with the compaction, or begins the next one.
    fn compact(&mut self) -> Step {
        let mut running = match self.running.take() {
            Some(running) => running,
            None => match self.queue.lock().jobs.pop_front() {
                Some(job) => Running::new(job),
                None => return Step::Idle,
            },
        };
        match running.step(&self.shared, &self.queue.holds) {
            Ok(Progress::Worked) => self.running = Some(running),
            Ok(Progress::Waiting) => {
                self.running = Some(running);
                return Step::Idle;
            }
            Ok(Progress::Done) => {
                let copied = std::mem::take(&mut running.copied);
                self.report(running, Ok(copied));
            }
            Err(error) if matches!(running.place, Place::New(_)) && is_full(&error) => {
                // Half of it is done: the rest is tried again, as a flusher does.
                running.retry_at_us = self.shared.clock.monotonic_us() + RETRY_US;
                self.running = Some(running);
                return Step::Idle;
            }
            Err(error) => {
                running.abandon(&self.shared);
                self.forget_pages(&error);
                self.report(running, Err(error));
            }
        }
        Step::Worked
    }

    /// What is read again of a damaged file must come from the device.
    fn forget_pages(&self, error: &Error) {
        if let Error::File(FileError::Corrupt { path, .. }) = error
            && let Ok(file) = self.shared.disk.open(path, Access::Read)
            && let Ok(len) = file.len()
        {
            file.drop_cache(0, len);
        }
    }

    fn report(&self, running: Running, result: Result<Vec<Copied>>) {
        let is_replaced = running.place != Place::Old;
        let result = result.map_err(|error| Failure { error, is_replaced });
        let Running { segments, target, bytes_before, .. } = running;
        self.shared.dropped_deletes.end();
        let outcome = Outcome { segments, target, bytes_before, result };
        self.queue.report(outcome);
        (self.shared.waker)();
    }
}

enum Progress {
    Worked,
    Waiting,
    Done,
}

/// How far the new file is.
enum NewFile {
    Unmade,
    Copying(Output),
    /// Everything is copied; `None` when nothing stays, or once the file has its name.
    Copied(Option<Complete>),
}

/// Which files are in place.
#[derive(Debug, PartialEq, Eq)]
enum Place {
    /// The old ones.
    Old,
    /// These or the new one: the rename has failed, or has not returned.
    InDoubt,
    /// The new one, or none, and such old ones as are not removed yet, or not durably so.
    New(Option<Renamed>),
    /// The new one alone, whatever comes.
    Settled,
}

/// A compaction under way.
struct Running {
    segments: Vec<SegmentId>,
    target: usize,
    bytes_before: u64,
    compaction_lsn: Lsn,
    durable_before_rename: Lsn,
    object_floor: ObjectId,
    rate_bytes_per_s: u64,
    aside: Option<String>,
    /// What is still to be copied.
    members: VecDeque<Member>,
    /// What is being copied.
    copy: Option<ImageCopy>,
    copied: Vec<Copied>,
    /// The last block that has a delete record perhaps which is dropped unread, or 0.
    unread_delete_lsn: Lsn,
    /// The last block that each segment ever had.
    horizons: BTreeMap<SegmentId, Lsn>,
    /// The images of the old files that were not needed yet, by segment.
    images: BTreeMap<SegmentId, Vec<SegmentFile>>,
    /// The old files, by their paths.
    sources: Vec<Source>,
    marks: Vec<MarkId>,
    new_file: NewFile,
    read_bytes: u64,
    started_us: u64,
    place: Place,
    /// What comes after that has failed, for want of room or descriptors or of what a backup needs: when it is tried
    /// again.
    retry_at_us: u64,
    nameless: Nameless,
}

impl Running {
    fn new(job: Job) -> Self {
        let unread = job.members.iter().filter(|member| member.drops_all && member.has_deletes);
        Self {
            unread_delete_lsn: unread.map(|member| member.horizon).max().unwrap_or(Lsn::ZERO),
            segments: job.members.iter().map(|member| member.segment).collect(),
            target: job.target,
            bytes_before: job.bytes_before,
            compaction_lsn: job.compaction_lsn,
            durable_before_rename: job.durable_before_rename,
            object_floor: job.object_floor,
            rate_bytes_per_s: job.rate_bytes_per_s,
            aside: job.aside,
            copy: None,
            copied: Vec::new(),
            horizons: job.members.iter().map(|m| (m.segment, m.horizon)).collect(),
            members: job.members.into(),
            images: BTreeMap::new(),
            sources: Vec::new(),
            marks: job.marks,
            new_file: NewFile::Unmade,
            read_bytes: 0,
            started_us: 0,
            place: Place::Old,
            retry_at_us: 0,
            nameless: Nameless::default(),
        }
    }

    fn step(&mut self, shared: &Shared, holds: &Holds) -> Result<Progress> {
        if matches!(self.new_file, NewFile::Unmade) {
            self.begin(shared)?;
        }
        if self.place == Place::Settled {
            self.nameless.shrink();
            let is_over = self.nameless.is_empty();
            return Ok(if is_over { Progress::Done } else { Progress::Worked });
        }
        if matches!(self.new_file, NewFile::Copied(_)) {
            let is_resting = shared.clock.monotonic_us() < self.retry_at_us;
            return if is_resting { Ok(Progress::Waiting) } else { self.finish(shared, holds) };
        }
        if self.is_ahead_of_rate(shared) {
            return Ok(Progress::Waiting);
        }
        let before = self.read_bytes;
        while self.read_bytes - before < CHUNK_BYTES as u64 && self.copy_some(shared, holds)? {}
        Ok(Progress::Worked)
    }

    /// Looks at the old files and makes the new one.
    fn begin(&mut self, shared: &Shared) -> Result<()> {
        let disk = &*shared.disk;
        self.started_us = shared.clock.monotonic_us();
        let mut names = BTreeMap::new();
        for member in &self.members {
            let path = shared.file_of(member.device, member.leader);
            // The file that the segment began in is missing when its device has failed at making it.
            if member.parts.is_empty() || disk.exists(&path).at(&path, "look for")? {
                names.insert(path, (member.device, (member.leader, 0)));
            }
            for part in &member.parts {
                let name = (member.segment, part.number);
                let path = &shared.devices[part.device].path;
                names.insert(path.join(segment::file_name(name.0, name.1)), (part.device, name));
            }
        }
        for (path, (device, name)) in names {
            let mut images =
                if self.aside.is_some() { Vec::new() } else { read_sealed(disk, &path, device)? };
            let first = images.first();
            let put_back = first.and_then(|it| shared.manifest.put_back_since(&it.header));
            images.iter_mut().for_each(|image| image.put_back = put_back);
            let generation = images.first().map_or(0, |image| image.header.generation);
            let segments = match &self.aside {
                Some(_) => self.segments.clone(),
                None => images.iter().map(|image| image.header.segment).collect(),
            };
            let (from, bytes) =
                (first_needing(&images), images.iter().map(|image| image.len).sum());
            self.sources.push(Source { path, device, name, generation, segments, from, bytes });
            for image in images {
                self.images.entry(image.header.segment).or_default().push(image);
            }
        }
        let mut needed = self.members.iter().filter(|member| !member.drops_all);
        if self.aside.is_none()
            && let Some(member) = needed.find(|it| !self.images.contains_key(&it.segment))
        {
            // What it has would be taken for nothing.
            let path = shared.file_of(member.device, member.leader);
            return Err(Error::corrupt(&path, 0, "another segment is in it than there should be"));
        }
        self.new_file = NewFile::Copying(Output::create(disk, &self.temp_path(shared))?);
        Ok(())
    }

    fn temp_path(&self, shared: &Shared) -> PathBuf {
        let first = self.segments.first().expect("a job has members");
        segment::temp_path(&self.target_path(shared, *first))
    }

    fn target_path(&self, shared: &Shared, leader: SegmentId) -> PathBuf {
        shared.file_of(self.target, leader)
    }

    /// Copies a block, or begins or ends a segment; whether there is more to copy.
    fn copy_some(&mut self, shared: &Shared, holds: &Holds) -> Result<bool> {
        let NewFile::Copying(output) = &mut self.new_file else { return Ok(false) };
        if let Some(copy) = &mut self.copy {
            if let Some(read_bytes) = copy.step(&*shared.disk, output)? {
                self.read_bytes += read_bytes;
                return Ok(true);
            }
            let copied = self.copy.take().expect("seen above").finish(output);
            self.copied.push(copied);
        } else if let Some(member) = self.members.pop_front() {
            self.copy = Some(self.begin_member(shared, holds, member)?);
        } else {
            self.end_copying(shared)?;
        }
        Ok(true)
    }

    /// Makes what was copied durable; a file without anything in it is removed.
    fn end_copying(&mut self, shared: &Shared) -> Result<()> {
        let NewFile::Copying(output) = std::mem::replace(&mut self.new_file, NewFile::Unmade)
        else {
            unreachable!("called at the end of copying");
        };
        let is_left = self.copied.iter().any(|copied| copied.present_count > 0);
        self.new_file = NewFile::Copied(match is_left {
            true => Some(output.complete()?),
            false => {
                let temp = self.temp_path(shared);
                shared.disk.remove(&temp).at(&temp, "remove")?;
                None
            }
        });
        Ok(())
    }

    fn begin_member(
        &mut self,
        shared: &Shared,
        holds: &Holds,
        member: Member,
    ) -> Result<ImageCopy> {
        let images = self.images.remove(&member.segment).unwrap_or_default();
        let generations = images.iter().map(|image| image.header.generation);
        // What is kept of a life that was abandoned keeps its name.
        let generation = generations.fold(holds.generation_of(member.segment), u32::max);
        let header = SegmentHeader {
            version: SEGMENT_VERSION,
            database: shared.database,
            device: shared.devices[self.target].id,
            segment: member.segment,
            part: 0,
            generation: generation + 1,
            is_moved: member.device != self.target || images.iter().any(|i| i.header.is_moved),
            durable_lsn: self.durable_before_rename,
            compaction_lsn: self.compaction_lsn,
            horizon: member.horizon,
            kinds: Kinds::all(images.iter().map(|image| image.header.kinds)),
        };
        let images = if member.drops_all { Vec::new() } else { images };
        let large_bytes = LARGE_BYTES.min(shared.segment_bytes / 4);
        let footer = FooterBuilder::new(shared.group_bytes);
        ImageCopy::begin(&*shared.disk, header, member.keep, images, large_bytes, footer)
    }

    fn is_ahead_of_rate(&self, shared: &Shared) -> bool {
        // It spares other work on the device as long as compaction keeps up.
        let is_behind = shared.is_compaction_behind.load(Ordering::Relaxed);
        if is_behind || self.rate_bytes_per_s == 0 || self.read_bytes == 0 {
            return false;
        }
        let elapsed_us = shared.clock.monotonic_us().saturating_sub(self.started_us);
        u128::from(self.read_bytes) * 1_000_000
            > u128::from(self.rate_bytes_per_s) * u128::from(elapsed_us)
    }

    fn finish(&mut self, shared: &Shared, holds: &Holds) -> Result<Progress> {
        let needed = self.durable_before_rename;
        if shared.durability.durable_lsn() < needed {
            shared.request_sync(needed);
            return Ok(Progress::Waiting);
        }
        let leader = self.copied.iter().find(|copied| copied.present_count > 0);
        let new_path = leader.map(|leader| self.target_path(shared, leader.segment));
        if self.place == Place::Old {
            if let Err(error) = self.keep_sources(shared, holds) {
                if is_full(&error) {
                    // What was copied makes room.
                    return Err(error);
                }
                holds.note_link(Some(&error));
                self.retry_at_us = shared.clock.monotonic_us() + KEEP_RETRY_US;
                return Ok(Progress::Waiting);
            }
            self.announce(shared, holds)?;
            self.hold_sources(shared);
            self.replace(shared, new_path.as_deref())?;
        }
        self.settle(shared, new_path.as_deref())?;
        // Not before: a crash must not bring back a name of a file that is being cut.
        self.place = Place::Settled;
        Ok(if self.nameless.is_empty() { Progress::Done } else { Progress::Worked })
    }

    /// Opens the old files: an open handle keeps the file system from freeing them.
    fn hold_sources(&mut self, shared: &Shared) {
        if self.aside.is_some() {
            return;
        }
        for source in &self.sources {
            self.nameless.open(shared, &source.path);
        }
    }

    /// Keeps the old files for the marks that need them, the window and backups, as far as that can be.
    fn keep_sources(&self, shared: &Shared, holds: &Holds) -> Result<()> {
        if self.aside.is_some() {
            // They are damaged: nothing is served by them.
            holds.lose(&holds.holders(&self.marks, &self.segments, None), &self.segments);
            let now = Moment::now(&*shared.clock);
            // Header and footer may be good: they tell which blocks never needed it.
            let froms = self.sources.iter().map(|source| {
                let images = read_sealed(&*shared.disk, &source.path, source.device);
                images.map_or(Lsn::ZERO, |images| first_needing(&images))
            });
            let from = froms.min().unwrap_or(Lsn::ZERO);
            holds.lose_from_window(from, self.durable_before_rename, now);
            return Ok(());
        }
        history::keep(shared, holds, &self.sources, &self.marks, self.durable_before_rename)
    }

    /// Puts the new file, if there is one, in its place.
    fn replace(&mut self, shared: &Shared, new_path: Option<&Path>) -> Result<()> {
        let NewFile::Copied(complete) = &mut self.new_file else {
            unreachable!("nothing is replaced before everything is copied");
        };
        self.place = Place::InDoubt;
        let renamed = match complete.take().zip(new_path) {
            Some((complete, path)) => Some(complete.rename(&*shared.disk, path)?),
            None => None,
        };
        self.place = Place::New(renamed);
        Ok(())
    }

    /// Makes the replacement durable and removes what was replaced. May be tried again.
    fn settle(&self, shared: &Shared, new_path: Option<&Path>) -> Result<()> {
        if let Place::New(Some(renamed)) = &self.place {
            renamed.settle(&*shared.disk)?;
        }
        let left = self.copied.iter().filter(|copied| copied.present_count > 0);
        let news = left.map(|copied| shared.manifest.listing().note_whole(copied.segment));
        let has_news = news.fold(false, |any, one| any | one);
        // Parts that are one now are no longer missed once this is written.
        shared.manifest.update(|_| has_news)?;
        self.remove_sources(shared, new_path)
    }

    /// Writes into the manifest what the rename makes true: which segments need not be there any
    /// more, up to where gaps are legitimate, and for that how far open segments go by now; which
    /// objects there were; which old files are kept, and that the others are not.
    fn announce(&self, shared: &Shared, holds: &Holds) -> Result<()> {
        let gone = || self.copied.iter().filter(|copied| copied.present_count == 0);
        let horizon = gone().map(|copied| self.horizons[&copied.segment]).max();
        gone().for_each(|copied| shared.manifest.listing().note_gone(copied.segment));
        self.note_dropped_deletes(shared);
        let durable = shared.durability.durable_lsn();
        shared.manifest.update(|manifest| {
            manifest.horizon = manifest.horizon.max(horizon.unwrap_or(Lsn::ZERO));
            // What is dropped may be the last that names an object: its number stays taken.
            manifest.object_floor = manifest.object_floor.max(self.object_floor);
            // Before the rename: of a file that is not kept nothing else tells.
            holds.describe(manifest, durable);
            true
        })
    }

    /// Tells readers of blocks which delete records are dropped.
    fn note_dropped_deletes(&self, shared: &Shared) {
        let read = self.copied.iter().map(|copied| copied.dropped_delete_lsn);
        let dropped = read.fold(self.unread_delete_lsn, Lsn::max);
        if dropped > Lsn::ZERO {
            shared.dropped_deletes.begin(dropped);
        }
    }

    /// Removes what the new file has replaced. Further parts of a segment go first: a part without
    /// the file that the segment began in is never left alone.
    fn remove_sources(&self, shared: &Shared, new_path: Option<&Path>) -> Result<()> {
        let disk = &*shared.disk;
        let is_part = |path: &Path| {
            let name = path.file_name().and_then(|name| name.to_str());
            name.and_then(segment::parse_file_name).is_some_and(|(_, part)| part > 0)
        };
        for parts in [true, false] {
            let mut devices = BTreeSet::new();
            for Source { path, device, .. } in &self.sources {
                if Some(path.as_path()) != new_path && is_part(path) == parts {
                    self.remove(shared, path)?;
                    devices.insert(*device);
                }
            }
            for device in devices {
                let dir = &shared.devices[device].path;
                disk.sync_dir(dir).at(dir, "sync")?;
            }
        }
        Ok(())
    }

    /// Removes an old file, or puts it aside.
    fn remove(&self, shared: &Shared, path: &Path) -> Result<()> {
        let disk = &*shared.disk;
        let (Some(aside), Some(dir), Some(name)) = (&self.aside, path.parent(), path.file_name())
        else {
            return match disk.remove(path) {
                // An attempt before this one has removed it.
                Err(error) if error.kind() == ErrorKind::NotFound && self.retry_at_us > 0 => Ok(()),
                removed => removed.at(path, "remove"),
            };
        };
        // Not `env::publish`: nothing is written, an old file moves to another directory.
        let aside = dir.join(aside);
        disk.create_dir_all(&aside).at(&aside, "make")?;
        match disk.rename(path, &aside.join(name)) {
            // What was wrong with it may be that it is gone.
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            renamed => renamed.at(path, "put aside")?,
        }
        disk.sync_dir(&aside).at(&aside, "sync")
    }

    /// Leaves no trace, as far as the disk lets it.
    fn abandon(&self, shared: &Shared) {
        let _ = shared.disk.remove(&self.temp_path(shared));
    }
}

/// The images of a file all of whose segments are sealed.
fn read_sealed(disk: &dyn Disk, path: &Path, device: usize) -> Result<Vec<SegmentFile>> {
    let images = SegmentFile::read(disk, path, device)?;
    if images.is_empty() {
        return Err(Error::corrupt(path, 0, "the segment's header is damaged"));
    }
    if let Some(open) = images.iter().find(|image| image.footer.is_none()) {
        return Err(open.corrupt(open.len, "the segment's footer is damaged"));
    }
    Ok(images)
}
