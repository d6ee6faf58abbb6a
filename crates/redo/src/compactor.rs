//! Compaction: a sealed segment is replaced by one without its garbage.
//!
//! ```text
//!  bitmap copy ──┐
//!  old file ─────┴─► copy survivors, block by block ─► 0000000007.tmp ─► footer, sync
//!                                                             │ wait: durable ≥ the copy's LSN
//!                                                             ▼
//!                                     rename over 0000000007.redo ─► sync directory ─► outcome
//! ```
//!
//! No record's address changes (its place is its rank among the survivors), so there is nothing
//! to tell the keyspace: no remapping, no lock, no second copy. Memory is the copy of the bitmap
//! and two buffers; blocks that would not fit are copied piece by piece (`large_block`).
//!
//! **The rename waits.** Bits of the bitmap may have been set by records that are not durable yet:
//! the update of an entry retires its old record at once. If the old record were gone before the
//! new one is on disk, a crash would lose both. So the rename happens only when the block that was
//! open when the bitmap was copied is durable; under `everysec` and `no` a sync is asked for.
//!
//! **Crash at any point.** Until the rename is durable the old file is there, after it the new
//! one; both give the same state, because what they differ by is superseded by durable records.
//! A leftover temporary file is removed at the next start. A segment without survivors is removed,
//! after the manifest says that blocks up to its last one may be missing.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use base::checksum::crc32c;
use base::{Lsn, SegmentId};
use env::File;

use crate::block::{self, BlockHeader, COMPACTED};
use crate::device::Shared;
use crate::error::{Error, IoContext, Result};
use crate::flusher::Step;
use crate::large_block::{LargeBlock, LargeCopy};
use crate::record;
use crate::scan::{Block, BlockCursor, Next, SegmentFile, SizedNext};
use crate::segment::{self, SegmentHeader};
use crate::segment_writer::{FooterBuilder, Ordinals, WrittenBlock, is_full};

/// How much is read, and gathered for a write, at a time.
const CHUNK_BYTES: usize = 256 << 10;

/// Blocks with more bytes of records than this, or a quarter of a segment, are copied piece by
/// piece.
const LARGE_BYTES: u64 = 1 << 20;

/// One segment to compact.
pub(crate) struct Job {
    pub(crate) segment: SegmentId,
    pub(crate) device: usize,
    /// Devices that have further parts of it.
    pub(crate) parts: Vec<usize>,
    /// The copy of the validity bitmap.
    pub(crate) invalid: Vec<u64>,
    /// The LSN that was open when it was taken.
    pub(crate) compaction_lsn: Lsn,
    pub(crate) durable_before_rename: Lsn,
    /// Delete records with a smaller LSN are dropped.
    pub(crate) delete_floor: Lsn,
    /// The last block that the segment ever had.
    pub(crate) horizon: Lsn,
    pub(crate) rate_bytes_per_s: u64,
    pub(crate) bytes_before: u64,
    /// Every record is retired: there is nothing to read.
    pub(crate) drops_all: bool,
}

/// How a job has ended.
pub(crate) struct Outcome {
    pub(crate) segment: SegmentId,
    pub(crate) bytes_before: u64,
    pub(crate) result: std::result::Result<Compacted, Failure>,
}

/// What the segment is now.
#[derive(Default)]
pub(crate) struct Compacted {
    /// 0 when the segment is gone.
    pub(crate) present_count: u32,
    pub(crate) delete_count: u32,
    pub(crate) bytes: u64,
    pub(crate) min_lsn: Lsn,
}

/// Why it is what it was.
pub(crate) struct Failure {
    pub(crate) reason: String,
    /// Whether there is no use in trying again before the next start.
    pub(crate) is_final: bool,
}

/// From the executor to the compactor.
#[derive(Default)]
pub(crate) struct JobQueue {
    queue: Mutex<Queue>,
    arrived: Condvar,
}

#[derive(Default)]
struct Queue {
    jobs: VecDeque<Job>,
    is_ending: bool,
}

impl JobQueue {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn push(&self, job: Job) {
        self.lock().jobs.push_back(job);
        self.arrived.notify_one();
    }

    pub(crate) fn end(&self) {
        self.lock().is_ending = true;
        self.arrived.notify_one();
    }
}

/// Compacts one segment after the other, as the executor orders.
pub struct Compactor {
    shared: Arc<Shared>,
    queue: Arc<JobQueue>,
    running: Option<Running>,
}

impl Compactor {
    pub(crate) fn new(shared: Arc<Shared>, queue: Arc<JobQueue>) -> Self {
        Self { shared, queue, running: None }
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
        let mut running = match self.running.take() {
            Some(running) => running,
            None => {
                let mut queue = self.queue.lock();
                if queue.is_ending {
                    return Step::Finished;
                }
                let Some(job) = queue.jobs.pop_front() else { return Step::Idle };
                drop(queue);
                let (segment, bytes_before) = (job.segment, job.bytes_before);
                match Running::begin(&self.shared, job) {
                    Ok(running) => running,
                    Err(error) => {
                        self.report(segment, bytes_before, Err(error));
                        return Step::Worked;
                    }
                }
            }
        };
        if self.queue.lock().is_ending {
            running.abandon(&self.shared);
            return Step::Finished;
        }
        match running.step(&self.shared) {
            Ok(Progress::Worked) => self.running = Some(running),
            Ok(Progress::Waiting) => {
                self.running = Some(running);
                return Step::Idle;
            }
            Ok(Progress::Done(compacted)) => {
                self.report(running.job.segment, running.job.bytes_before, Ok(compacted));
            }
            Err(error) => {
                running.abandon(&self.shared);
                self.report(running.job.segment, running.job.bytes_before, Err(error));
            }
        }
        Step::Worked
    }

    fn report(&self, segment: SegmentId, bytes_before: u64, result: Result<Compacted>) {
        let result = result
            .map_err(|error| Failure { reason: error.to_string(), is_final: !is_full(&error) });
        self.shared.post(|mail| mail.compaction = Some(Outcome { segment, bytes_before, result }));
        (self.shared.waker)();
    }
}

enum Progress {
    Worked,
    Waiting,
    Done(Compacted),
}

/// A compaction under way.
struct Running {
    job: Job,
    sources: Vec<Source>,
    path: PathBuf,
    temp: PathBuf,
    dir: PathBuf,
    output: Box<dyn File>,
    header: SegmentHeader,
    out: Vec<u8>,
    /// Where `out` will be written.
    out_at: u64,
    footer: FooterBuilder,
    kept: Vec<(u32, u64)>,
    last_lsn: Lsn,
    record_count_ever: u32,
    present_count: u32,
    delete_count: u32,
    min_lsn: Lsn,
    written_bytes: u64,
    read_bytes: u64,
    started_us: u64,
    /// A large block that is being copied.
    large: Option<Large>,
    is_copied: bool,
}

/// How far a large block is.
enum Large {
    Checking(LargeCopy),
    /// The new block begins at `at`.
    Copying {
        copy: LargeCopy,
        at: u64,
    },
}

struct Source {
    cursor: BlockCursor,
    next: Option<Pending>,
    large_bytes: u64,
}

/// A block to be copied.
enum Pending {
    Small(Block),
    Large(LargeBlock),
}

impl Pending {
    const fn header(&self) -> &BlockHeader {
        match self {
            Self::Small(block) => &block.header,
            Self::Large(block) => &block.header,
        }
    }
}

impl Source {
    fn advance(&mut self) -> Result<()> {
        self.next = match self.cursor.next_up_to(self.large_bytes)? {
            SizedNext::Small(Next::Block(block)) => Some(Pending::Small(block)),
            SizedNext::Large(block) => Some(Pending::Large(block)),
            SizedNext::Small(Next::End | Next::Tail(_)) => None,
        };
        Ok(())
    }
}

impl Running {
    fn begin(shared: &Shared, job: Job) -> Result<Self> {
        let disk = &*shared.disk;
        let dir = shared.devices[job.device].path.clone();
        let path = dir.join(segment::file_name(job.segment, 0));
        let mut files = Vec::new();
        // The file that the segment began in is missing when its device has failed at making it.
        if job.parts.is_empty() || disk.exists(&path).at(&path, "look for")? {
            files.push((path.clone(), job.device));
        }
        for device in &job.parts {
            let part = 1 + u32::try_from(*device).expect("devices are few");
            let name = segment::file_name(job.segment, part);
            files.push((shared.devices[*device].path.join(name), *device));
        }
        let mut sources = Vec::new();
        let mut record_count_ever = 0;
        let mut generation = 0;
        for (path, device) in files {
            let file = SegmentFile::read(disk, &path, device)?
                .ok_or_else(|| Error::corrupt(&path, 0, "the segment's header is damaged"))?;
            let Some(footer) = &file.footer else {
                return Err(Error::corrupt(&path, file.len, "the segment's footer is damaged"));
            };
            record_count_ever = record_count_ever.max(footer.survivors.len());
            generation = generation.max(file.header.generation);
            let cursor = BlockCursor::open(disk, file, CHUNK_BYTES)?;
            let large_bytes = LARGE_BYTES.min(shared.segment_bytes / 4);
            let mut source = Source { cursor, next: None, large_bytes };
            if !job.drops_all {
                source.advance()?;
            }
            sources.push(source);
        }
        let header = SegmentHeader {
            database: shared.database,
            device: shared.devices[job.device].id,
            segment: job.segment,
            part: 0,
            generation: generation + 1,
            durable_lsn: job.durable_before_rename,
            compaction_lsn: job.compaction_lsn,
            horizon: job.horizon,
        };
        let temp = segment::temp_path(&path);
        if disk.exists(&temp).at(&temp, "look for")? {
            disk.remove(&temp).at(&temp, "remove")?;
        }
        let output = disk.create(&temp).at(&temp, "create")?;
        let mut out = Vec::with_capacity(CHUNK_BYTES);
        out.extend_from_slice(&header.encode());
        Ok(Self {
            is_copied: job.drops_all,
            large: None,
            job,
            sources,
            path,
            temp,
            dir,
            output,
            header,
            out,
            out_at: 0,
            footer: FooterBuilder::default(),
            kept: Vec::new(),
            last_lsn: Lsn::ZERO,
            record_count_ever,
            present_count: 0,
            delete_count: 0,
            min_lsn: Lsn::ZERO,
            written_bytes: 0,
            read_bytes: 0,
            started_us: shared.clock.monotonic_us(),
        })
    }

    fn step(&mut self, shared: &Shared) -> Result<Progress> {
        if self.is_copied {
            return self.finish(shared);
        }
        if self.is_ahead_of_rate(shared) {
            return Ok(Progress::Waiting);
        }
        let before = self.read_bytes;
        while self.read_bytes - before < CHUNK_BYTES as u64 {
            if let Some(large) = self.large.take() {
                self.copy_large_block(large)?;
                continue;
            }
            match self.take_next_block()? {
                Some((_, Pending::Small(block))) => {
                    self.read_bytes += block.header.block_bytes();
                    self.copy_block(&block)?;
                }
                Some((source, Pending::Large(block))) => {
                    let file = self.sources[source].cursor.source.clone();
                    let copy = LargeCopy::begin(&*shared.disk, file, block)?;
                    self.large = Some(Large::Checking(copy));
                }
                None => {
                    self.end_copy()?;
                    break;
                }
            }
            if self.out.len() >= CHUNK_BYTES {
                self.write_out()?;
            }
        }
        Ok(Progress::Worked)
    }

    /// Goes on with a large block, as far as one chunk.
    fn copy_large_block(&mut self, large: Large) -> Result<()> {
        match large {
            Large::Checking(mut copy) => {
                let lsn = self.last_lsn;
                let stays = |ordinal, is_delete| self.stays(lsn, ordinal, is_delete);
                let checked_bytes = copy.check_chunk(stays)?;
                self.read_bytes += checked_bytes;
                if checked_bytes > 0 {
                    self.large = Some(Large::Checking(copy));
                } else if copy.keeps_any() {
                    // The header is written when the checksum of what follows it is known.
                    self.write_out()?;
                    let at = self.out_at;
                    self.out_at += block::HEADER_BYTES as u64;
                    self.large = Some(Large::Copying { copy, at });
                }
            }
            Large::Copying { mut copy, at } => {
                let copied_bytes = copy.copy_chunk(&mut self.out)?;
                self.read_bytes += copied_bytes;
                if copied_bytes > 0 {
                    self.large = Some(Large::Copying { copy, at });
                    return Ok(());
                }
                self.write_out()?;
                let header = copy.header();
                self.output.write_all_at(&header.encode(), at).at(&self.temp, "write")?;
                self.note_copied(&header, &copy.kept_offsets(), copy.delete_count, at);
            }
        }
        Ok(())
    }

    /// Whether a record of block `lsn` is still needed.
    fn stays(&self, lsn: Lsn, ordinal: u32, is_delete: bool) -> bool {
        let word = self.job.invalid.get(ordinal as usize / 64).copied().unwrap_or(0);
        let is_invalid = word & (1 << (ordinal % 64)) != 0;
        !(is_invalid || (is_delete && lsn < self.job.delete_floor))
    }

    fn is_ahead_of_rate(&self, shared: &Shared) -> bool {
        let rate = self.job.rate_bytes_per_s;
        if rate == 0 {
            return false;
        }
        let elapsed_us = shared.clock.monotonic_us().saturating_sub(self.started_us);
        u128::from(self.read_bytes) * 1_000_000 > u128::from(rate) * u128::from(elapsed_us)
            && self.read_bytes > 0
    }

    /// The oldest block of the parts, and the index of its part; each once, although a part may
    /// repeat what another has.
    fn take_next_block(&mut self) -> Result<Option<(usize, Pending)>> {
        loop {
            let heads = self.sources.iter().enumerate();
            let lsns = heads.filter_map(|(at, part)| Some((part.next.as_ref()?.header().lsn, at)));
            let Some((lsn, at)) = lsns.min() else { return Ok(None) };
            let block = self.sources[at].next.take().expect("it has the smallest LSN");
            self.sources[at].advance()?;
            if lsn > self.last_lsn {
                self.last_lsn = lsn;
                return Ok(Some((at, block)));
            }
        }
    }

    fn copy_block(&mut self, block: &Block) -> Result<()> {
        let start = self.out.len();
        self.out.resize(start + block::HEADER_BYTES, 0);
        self.kept.clear();
        let mut delete_count = 0;
        let payload = block.payload();
        for body in block.bodies() {
            let (ordinal, at, body) = body.map_err(|what| {
                Error::corrupt(&self.sources[0].cursor.source.path, block.offset, what)
            })?;
            let is_delete = record::is_delete(body);
            if !self.stays(block.header.lsn, ordinal, is_delete) {
                continue;
            }
            delete_count += u32::from(is_delete);
            self.kept.push((ordinal, (self.out.len() - start) as u64));
            // The record as it is, length included: it ends where its body does.
            let end = body.as_ptr() as usize - payload.as_ptr() as usize + body.len();
            self.out.extend_from_slice(&payload[at..end]);
        }
        let Some((first_ordinal, _)) = self.kept.first().copied() else {
            self.out.truncate(start);
            return Ok(());
        };
        let copied = &self.out[start + block::HEADER_BYTES..];
        let record_count = u32::try_from(self.kept.len()).expect("no more than there were");
        let header = BlockHeader {
            payload_crc: crc32c(copied),
            flags: COMPACTED,
            payload_bytes: copied.len() as u64,
            record_count,
            first_ordinal,
            ..block.header
        };
        self.out[start..start + block::HEADER_BYTES].copy_from_slice(&header.encode());
        let kept = std::mem::take(&mut self.kept);
        self.note_copied(&header, &kept, delete_count, self.out_at + start as u64);
        self.kept = kept;
        Ok(())
    }

    /// Counts in a block that is, or will be, at `at`.
    fn note_copied(
        &mut self,
        header: &BlockHeader,
        kept: &[(u32, u64)],
        delete_count: u32,
        at: u64,
    ) {
        let written = WrittenBlock {
            lsn: header.lsn,
            bytes: header.block_bytes(),
            ordinals: Ordinals::Each(kept),
            record_count: header.record_count,
            delete_count,
        };
        self.footer.add(&written, at);
        if self.present_count == 0 {
            self.min_lsn = header.lsn;
        }
        self.present_count += header.record_count;
        self.delete_count += delete_count;
    }

    fn write_out(&mut self) -> Result<()> {
        self.output.write_all_at(&self.out, self.out_at).at(&self.temp, "write")?;
        self.out_at += self.out.len() as u64;
        self.out.clear();
        Ok(())
    }

    fn end_copy(&mut self) -> Result<()> {
        if self.present_count > 0 {
            let data_end = self.out_at + self.out.len() as u64;
            let footer = self.footer.finish_with(data_end, self.record_count_ever);
            self.out.extend_from_slice(&footer.encode());
            self.write_out()?;
            self.output.sync_data().at(&self.temp, "sync")?;
            self.written_bytes = self.out_at;
        }
        self.is_copied = true;
        Ok(())
    }

    fn finish(&mut self, shared: &Shared) -> Result<Progress> {
        let needed = self.job.durable_before_rename;
        if shared.durability.durable_lsn() < needed {
            shared.request_sync(needed);
            return Ok(Progress::Waiting);
        }
        let disk = &*shared.disk;
        if self.present_count == 0 {
            self.remove_segment(shared)?;
            return Ok(Progress::Done(Compacted::default()));
        }
        debug_assert!(self.header.generation > 0, "a compacted file says that it is one");
        disk.rename(&self.temp, &self.path).at(&self.path, "replace")?;
        disk.sync_dir(&self.dir).at(&self.dir, "sync")?;
        // Further parts are now in the first one. Leftovers are told by their generation.
        self.remove_parts(shared)?;
        Ok(Progress::Done(Compacted {
            present_count: self.present_count,
            delete_count: self.delete_count,
            bytes: self.written_bytes,
            min_lsn: self.min_lsn,
        }))
    }

    fn remove_segment(&self, shared: &Shared) -> Result<()> {
        let (horizon, durable) = (self.job.horizon, shared.durability.durable_lsn());
        shared.manifest.update(|manifest| {
            manifest.horizon = manifest.horizon.max(horizon);
            manifest.durable_lsn = manifest.durable_lsn.max(durable);
            true
        })?;
        shared.disk.remove(&self.temp).at(&self.temp, "remove")?;
        // The parts first: a part without the file that the segment began in is never left alone.
        self.remove_parts(shared)?;
        if shared.disk.exists(&self.path).at(&self.path, "look for")? {
            shared.disk.remove(&self.path).at(&self.path, "remove")?;
        }
        shared.disk.sync_dir(&self.dir).at(&self.dir, "sync")
    }

    fn remove_parts(&self, shared: &Shared) -> Result<()> {
        for source in &self.sources {
            if source.cursor.source.header.part == 0 {
                continue;
            }
            let path = &source.cursor.source.path;
            let dir = &shared.devices[source.cursor.source.device].path;
            shared.disk.remove(path).at(path, "remove")?;
            shared.disk.sync_dir(dir).at(dir, "sync")?;
        }
        Ok(())
    }

    /// Leaves no trace, as far as the disk lets it.
    fn abandon(&self, shared: &Shared) {
        let _ = shared.disk.remove(&self.temp);
    }
}
