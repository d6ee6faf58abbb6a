//! Reading sealed segments again, slowly and for ever: bytes at rest decay.
//!
//! ```text
//!   executor ──files, with what it knows of them──► Scrubber ──read, at a bounded rate──► disk
//!      ▲                                               │
//!      └──── mailbox: what is damaged, and where ◄─────┘      (healing: what comes of it)
//! ```
//!
//! A pass reads every file that was sealed when it began, past the page cache where the system
//! lets it: the kernel is told beforehand that the file's pages are not needed, so that what is
//! checked comes from the device, and afterwards again, so that the cache is left to others.
//! Checksums of headers, blocks and footers are verified, and that each block continues the one
//! before it. A pass begins an hour after the last one did, or when the rate is changed.
//!
//! A file that is not as it should be is read once more before anybody is told: reading may fail,
//! and bits may turn on the way, without anything being wrong with what is stored.
//!
//! It is a step machine like the compactor, and only ever reads. A file may be replaced or removed
//! by a compaction while it is read: what is found then is about a generation that is no more, and
//! the executor, which knows, ignores it.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, MutexGuard};
use std::time::Duration;

use base::{Mutex, SegmentId};
use env::Access;

use crate::compact::segments::{Segment, Segments};
use crate::error::lacks_descriptor;
use crate::error::{Error, Result};
use crate::read::large_block::LargeCopy;
use crate::read::scan::{BlockCursor, Next, SegmentFile, SizedNext};
use crate::shared::device::Shared;
use crate::shared::step::Step;

/// How much is read at a time.
const CHUNK_BYTES: usize = 256 << 10;

/// How long nothing is read after there was no descriptor.
const REST_US: u64 = 1_000_000;

/// How long after the beginning of a pass the next one begins.
const PASS_EVERY_US: u64 = 3_600_000_000;

/// A file to be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Target {
    /// The segment that it is named after, and how often that was compacted.
    pub(crate) leader: SegmentId,
    pub(crate) generation: u32,
    /// All segments in it.
    pub(crate) segments: Vec<SegmentId>,
    pub(crate) device: usize,
    pub(crate) path: PathBuf,
}

impl Target {
    /// The file that is named after `leader`, as the executor knows it.
    pub(crate) fn of(segments: &Segments, shared: &Shared, leader: &Segment) -> Self {
        let mut ids: Vec<SegmentId> = segments.file(leader.id).map(|segment| segment.id).collect();
        ids.sort_unstable();
        Self {
            leader: leader.id,
            generation: leader.generation,
            segments: ids,
            device: leader.device,
            path: shared.file_of(leader.device, leader.id),
        }
    }
}

/// Something that is wrong with a sealed file.
#[derive(Debug)]
pub(crate) struct Finding {
    pub(crate) target: Target,
    pub(crate) error: Error,
}

/// What executor and scrubber share.
#[derive(Default)]
pub(crate) struct ScrubQueue {
    state: Mutex<State>,
    changed: Condvar,
    has_findings: AtomicBool,
    /// Set while the scrubber waits for the files of a new pass.
    pub(crate) wants_targets: AtomicBool,
    pub(crate) scrubbed_bytes: AtomicU64,
    pub(crate) passes: AtomicU64,
    /// When the last pass ended, in Unix milliseconds; 0 if none has.
    pub(crate) pass_ended_at_ms: AtomicI64,
}

#[derive(Default)]
struct State {
    targets: Option<Vec<Target>>,
    /// What is damaged, until the executor takes it.
    findings: Vec<Finding>,
    rate_bytes_per_s: u64,
    /// Counts the changes of the rate.
    rate_changes: u64,
    is_ending: bool,
}

impl ScrubQueue {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// Changes how fast files are read, 0 for not at all; a new pass begins.
    pub(crate) fn set_rate(&self, rate_bytes_per_s: u64) {
        let mut state = self.lock();
        if state.rate_bytes_per_s != rate_bytes_per_s {
            state.rate_bytes_per_s = rate_bytes_per_s;
            state.rate_changes += 1;
            self.changed.notify_one();
        }
    }

    pub(crate) fn give_targets(&self, targets: Vec<Target>) {
        self.wants_targets.store(false, Ordering::Release);
        self.lock().targets = Some(targets);
        self.changed.notify_one();
    }

    fn report(&self, finding: Finding) {
        self.lock().findings.push(finding);
        self.has_findings.store(true, Ordering::Release);
    }

    /// What was found since this was asked last. Takes no lock while there is nothing.
    pub(crate) fn take_findings(&self) -> Vec<Finding> {
        if !self.has_findings.load(Ordering::Acquire) {
            return Vec::new();
        }
        self.has_findings.store(false, Ordering::Relaxed);
        std::mem::take(&mut self.lock().findings)
    }

    pub(crate) fn end(&self) {
        self.lock().is_ending = true;
        self.changed.notify_one();
    }
}

/// See the file's top.
pub struct Scrubber {
    shared: Arc<Shared>,
    queue: Arc<ScrubQueue>,
    rate_bytes_per_s: u64,
    rate_changes: u64,
    /// When the next pass begins.
    pass_at_us: u64,
    /// There was no descriptor: nothing is read before.
    rest_until_us: u64,
    /// The rest of this pass; `None` between passes.
    todo: Option<VecDeque<Target>>,
    reading: Option<Reading>,
    /// The file that is to be read once more before anything is said against it.
    doubted: Option<SegmentId>,
    /// Since when bytes are counted for the rate, and how many they are.
    since_us: u64,
    read_bytes: u64,
}

/// A file being read.
struct Reading {
    target: Target,
    images: VecDeque<SegmentFile>,
    cursor: Option<BlockCursor>,
    large: Option<LargeCopy>,
}

impl Scrubber {
    pub(crate) fn new(shared: Arc<Shared>, queue: Arc<ScrubQueue>) -> Self {
        Self {
            shared,
            queue,
            rate_bytes_per_s: 0,
            rate_changes: 0,
            pass_at_us: 0,
            rest_until_us: 0,
            todo: None,
            reading: None,
            doubted: None,
            since_us: 0,
            read_bytes: 0,
        }
    }

    /// Waits until there is something to do, or for `timeout`.
    pub fn wait(&self, timeout: Duration) {
        let state = self.queue.lock();
        if !state.is_ending && state.targets.is_none() && state.rate_changes == self.rate_changes {
            let _ = self.queue.changed.wait_timeout(state, timeout);
        }
    }

    /// Does some of what there is to do: at most about one chunk is read.
    pub fn step(&mut self) -> Step {
        let now_us = self.shared.clock.monotonic_us();
        {
            let mut state = self.queue.lock();
            if state.is_ending {
                return Step::Finished;
            }
            if state.rate_changes != self.rate_changes {
                self.rate_changes = state.rate_changes;
                self.rate_bytes_per_s = state.rate_bytes_per_s;
                (self.todo, self.reading, self.doubted) = (None, None, None);
                (self.pass_at_us, self.since_us, self.read_bytes) = (now_us, now_us, 0);
            }
            if let Some(targets) = state.targets.take() {
                self.todo = Some(targets.into());
            }
        }
        let is_resting = now_us < self.rest_until_us;
        if self.rate_bytes_per_s == 0 || is_resting || self.is_ahead_of_rate(now_us) {
            return Step::Idle;
        }
        if self.todo.is_none() {
            self.ask_for_targets(now_us);
            return Step::Idle;
        }
        self.read_some();
        Step::Worked
    }

    fn is_ahead_of_rate(&self, now_us: u64) -> bool {
        let elapsed_us = now_us.saturating_sub(self.since_us);
        u128::from(self.read_bytes) * 1_000_000
            > u128::from(self.rate_bytes_per_s) * u128::from(elapsed_us)
    }

    fn ask_for_targets(&mut self, now_us: u64) {
        if now_us >= self.pass_at_us && !self.queue.wants_targets.swap(true, Ordering::AcqRel) {
            self.pass_at_us = now_us + PASS_EVERY_US;
            (self.since_us, self.read_bytes) = (now_us, 0);
        }
    }

    /// Reads a chunk of the file at hand, or begins the next file.
    fn read_some(&mut self) {
        let Some(mut reading) = self.reading.take() else {
            let todo = self.todo.as_mut().expect("the caller has looked");
            let Some(target) = todo.pop_front() else {
                self.todo = None;
                self.queue.passes.fetch_add(1, Ordering::Relaxed);
                let now_ms = self.shared.clock.now_ms();
                self.queue.pass_ended_at_ms.store(now_ms, Ordering::Relaxed);
                return;
            };
            match Reading::begin(&self.shared, &target) {
                Ok(reading) => self.reading = Some(reading),
                Err(error) => self.note_error(target, error),
            }
            return;
        };
        match reading.read_chunk(&self.shared) {
            Ok(Some(bytes)) => {
                self.read_bytes += bytes;
                self.queue.scrubbed_bytes.fetch_add(bytes, Ordering::Relaxed);
                self.reading = Some(reading);
            }
            Ok(None) => {
                self.doubted = None;
                reading.forget_pages(&self.shared);
            }
            Err(error) => self.note_error(reading.target, error),
        }
    }

    /// Lets the file be read once more; tells what is wrong with it if that has been done. A lack
    /// of descriptors says nothing of the file: it is read when there are some, and as long as that
    /// takes nothing is.
    fn note_error(&mut self, target: Target, error: Error) {
        if lacks_descriptor(&error) {
            self.todo.get_or_insert_default().push_front(target);
            self.rest_until_us = self.shared.clock.monotonic_us() + REST_US;
            return;
        }
        if self.doubted.take() != Some(target.leader) {
            self.doubted = Some(target.leader);
            self.todo.get_or_insert_default().push_front(target);
            return;
        }
        self.queue.report(Finding { target, error });
        (self.shared.waker)();
    }
}

impl Reading {
    fn begin(shared: &Shared, target: &Target) -> Result<Self> {
        let path = &target.path;
        let mut reading =
            Self { target: target.clone(), images: VecDeque::new(), cursor: None, large: None };
        reading.forget_pages(shared);
        reading.images = SegmentFile::read(&*shared.disk, path, target.device)?.into();
        if reading.images.is_empty() {
            return Err(Error::corrupt(path, 0, "the segment's header is damaged"));
        }
        if let Some(image) = reading.images.iter().find(|image| image.footer.is_none()) {
            return Err(image.corrupt(image.len, "the segment's footer is damaged or missing"));
        }
        let segments: Vec<_> = reading.images.iter().map(|image| image.header.segment).collect();
        if segments != target.segments {
            return Err(Error::corrupt(path, 0, "other segments are in it than there should be"));
        }
        Ok(reading)
    }

    /// Tells the kernel that the file's pages are not needed.
    fn forget_pages(&self, shared: &Shared) {
        if let Ok(file) = shared.disk.open(&self.target.path, Access::Read)
            && let Ok(len) = file.len()
        {
            file.drop_cache(0, len);
        }
    }

    /// Checks some of the file; how many bytes that were, `None` at its end.
    fn read_chunk(&mut self, shared: &Shared) -> Result<Option<u64>> {
        if let Some(mut large) = self.large.take() {
            let bytes = large.check_chunk(|_, _| false)?;
            if bytes > 0 {
                self.large = Some(large);
            }
            return Ok(Some(bytes));
        }
        let Some(cursor) = &mut self.cursor else {
            let Some(image) = self.images.pop_front() else { return Ok(None) };
            self.cursor = Some(BlockCursor::open(&*shared.disk, image, CHUNK_BYTES)?);
            return Ok(Some(0));
        };
        let mut bytes = 0;
        while bytes < CHUNK_BYTES as u64 {
            match cursor.next_up_to(CHUNK_BYTES as u64)? {
                SizedNext::Small(Next::Block(block)) => {
                    bytes += block.header.block_bytes();
                    let mut count = 0;
                    for body in block.bodies() {
                        body.map_err(|what| cursor.source.corrupt(block.offset, what))?;
                        count += 1;
                    }
                    if count != block.header.record_count {
                        let what = "a block has another number of records than it says";
                        return Err(cursor.source.corrupt(block.offset, what));
                    }
                }
                SizedNext::Large(block) => {
                    let source = cursor.source.clone();
                    self.large = Some(LargeCopy::begin(&*shared.disk, source, block)?);
                    break;
                }
                SizedNext::Small(Next::End | Next::Tail(_)) => {
                    self.cursor = None;
                    break;
                }
            }
        }
        Ok(Some(bytes))
    }
}
