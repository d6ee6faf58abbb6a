//! The executor's side of the log: one thread, never waits.
//!
//! ```text
//!   append ─► open block (a buffer, bound to one device's active segment) ─► seal ─► inbox
//!   retire ─► bit in the segment's bitmap                                         │ flusher
//!   poll   ◄─ durable LSN, buffers, sealed segments, finished compactions ◄───────┘
//!   tick   ─► syncs each second, compactions, retries
//! ```
//!
//! A block is bound to a segment when its first record arrives, so that a record's address is
//! known at once; its LSN is known too, because there is one open block and LSNs are contiguous.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use base::{Lsn, ObjectId, Record, RecordAddr, SegmentId};

use crate::compact::job::JobQueue;
use crate::compact::marks::Marks;
use crate::compact::schedule::{Scene, Schedule, adapt_roll_bytes};
use crate::compact::segments::{Segment, Segments};
use crate::compact::validity::Validity;
use crate::compact::window::LogSize;
use crate::format::kinds::Kinds;
use crate::options::{CompactionOptions, Options, SyncPolicy};
use crate::read::reader::Reader;
use crate::repair::healing::{Healing, SegmentToEnd, scrub_targets};
use crate::repair::scrubber::{ScrubQueue, Scrubber};
use crate::shared::device::{Device, DeviceState, Mailbox, Order, Shared};
use crate::shared::sealed_block::SealedBlock;
use crate::write::block_times::BlockTimes;
use crate::write::buffers::Buffers;
use crate::write::devices::choose_device;
use crate::write::health::{self, Health};
use crate::write::in_flight::InFlight;
use crate::write::index_lag::IndexLag;
use crate::write::lateness::Lateness;
use crate::write::open_block::{Binding, OpenBlock};
use crate::write::rungs::Rungs;
use crate::write::stats::Stats;

/// A segment takes no further block past so many records, whatever they weigh.
const SEGMENT_RECORDS_MAX: u32 = 1 << 30;

const EVERY_SECOND_US: u64 = 1_000_000;

/// Bitmaps of so many bytes take over in each tick what is live.
const TAKEN_BYTES: usize = 256 << 10;

/// A device as the executor sees it.
#[derive(Default)]
pub(crate) struct Lane {
    /// The segment that takes blocks.
    pub(crate) active: Option<SegmentId>,
    /// Blocks not yet durable, with the address of their first record; ascending in both.
    pub(crate) pending: VecDeque<(RecordAddr, Lsn)>,
    /// Some of the blocks of that segment.
    pub(crate) rungs: Rungs,
}

/// Where a log begins in this life.
pub(crate) struct Begin {
    pub(crate) segments: Segments,
    pub(crate) validity: Validity,
    pub(crate) last_lsn: Lsn,
    pub(crate) next_segment: SegmentId,
    pub(crate) object_end: ObjectId,
}

/// The log, as the executor has it.
pub struct Log {
    pub(crate) shared: Arc<Shared>,
    pub(crate) segments: Segments,
    /// Whether the bits of their bitmaps can be believed.
    pub(crate) validity: Validity,
    pub(crate) schedule: Schedule,
    /// Nothing of what is on disk may be replaced: see [`Log::set_frozen`].
    pub(crate) is_frozen: bool,
    scrub: Arc<ScrubQueue>,
    pub(crate) healing: Healing,
    pub(crate) marks: Marks,
    mark_copy_bytes: usize,
    open: OpenBlock,
    pub(crate) open_lsn: Lsn,
    pub(crate) lanes: Vec<Lane>,
    pub(crate) next_segment: SegmentId,
    /// One above every object that a record has ever named.
    pub(crate) object_end: ObjectId,
    next_device: usize,
    pub(crate) durable: Lsn,
    written: Lsn,
    policy: SyncPolicy,
    in_flight: InFlight,
    spare: Buffers,
    mail: Mailbox,
    synced_at_us: u64,
    lateness: Lateness,
    pub(crate) index_lag: IndexLag,
    is_closed: bool,
}

impl Log {
    pub(crate) fn new(
        shared: Arc<Shared>,
        jobs: Arc<JobQueue>,
        begin: Begin,
        options: &Options,
    ) -> Self {
        let Begin { segments, validity, last_lsn, next_segment, object_end } = begin;
        let lanes = shared.devices.iter().map(|_| Lane::default()).collect();
        let synced_at_us = shared.clock.monotonic_us();
        let block_times = BlockTimes::new(last_lsn, shared.clock.now_ms());
        let mut spare = Buffers::default();
        let mut log = Self {
            durable: shared.durability.durable_lsn(),
            written: shared.durability.written_lsn(),
            shared,
            segments,
            validity,
            marks: Marks::new(Arc::clone(&jobs.holds)),
            mark_copy_bytes: options.mark_copy_bytes,
            schedule: Schedule::new(options.compaction, jobs),
            is_frozen: false,
            scrub: Arc::default(),
            healing: Healing::default(),
            open: OpenBlock::new(&mut spare, options.group_bytes, block_times),
            open_lsn: last_lsn.next(),
            lanes,
            next_segment,
            object_end,
            next_device: 0,
            policy: options.policy,
            in_flight: InFlight::new(options.in_flight_bytes_max),
            spare,
            mail: Mailbox::default(),
            synced_at_us,
            lateness: Lateness::default(),
            index_lag: IndexLag::new(last_lsn, options.index_lag_bytes_max),
            is_closed: false,
        };
        log.set_policy(options.policy);
        adapt_roll_bytes(&log.segments, &log.shared);
        log
    }

    /// Adds a record to the open block. Where it will be.
    #[inline]
    pub fn append(&mut self, record: &Record<'_>) -> RecordAddr {
        let binding = match self.open.binding {
            Some(binding) => binding,
            None => self.bind(),
        };
        self.object_end = self.object_end.max(record.object.next());
        debug_assert!(
            self.shared.used_kinds.has_all(Kinds::of_record(record)),
            "Log::declare comes before it"
        );
        self.open.append(binding, record)
    }

    /// Says that the record at `addr` is no longer needed. The record that replaces it, or says
    /// that its entry is gone, lies in the open block, or in an earlier one.
    ///
    /// When an entry is *deleted or replaced*, its old record must be retired before the open
    /// block is sealed: `segments` builds on it. What becomes garbage by other means
    /// (elements of an object that is gone) may be retired whenever there is time, also when its
    /// segment is gone by then.
    #[inline]
    pub fn retire(&mut self, addr: RecordAddr) {
        if self.segments.retire(addr, self.open_lsn) && self.marks.notes_retirements() {
            self.marks.note_retired(addr, &self.segments);
        }
    }

    /// The LSN of the block that takes records: what the next reply of a write depends on.
    #[must_use]
    pub const fn open_lsn(&self) -> Lsn {
        self.open_lsn
    }

    /// Whether the open block has records.
    #[must_use]
    pub const fn has_open_records(&self) -> bool {
        self.open.has_records()
    }

    /// How long the open block is so far.
    #[must_use]
    pub fn open_bytes(&self) -> usize {
        self.open.bytes()
    }

    /// A block that is not older than the one that has the record at `addr`: the newest of its segment, or
    /// a closer one while the segment is written; `None` if the segment is gone.
    #[must_use]
    pub fn lsn_bound_of(&self, addr: RecordAddr) -> Option<Lsn> {
        if self.open.has(addr) {
            return Some(self.open_lsn);
        }
        let segment = self.segments.get(addr.segment())?;
        let closer = self.lanes.get(segment.device).and_then(|lane| lane.rungs.bound_of(addr));
        Some(closer.map_or(segment.max_lsn, |bound| bound.min(segment.max_lsn)))
    }

    /// The block that must be durable before what the record at `addr` says may be shown to a
    /// client that asks for strict reads; `None` if it is durable.
    #[must_use]
    pub fn undurable_lsn_of(&self, addr: RecordAddr) -> Option<Lsn> {
        if self.open.has(addr) {
            return Some(self.open_lsn);
        }
        if self.durable.next() == self.open_lsn {
            return None;
        }
        let device = self.segments.get(addr.segment())?.device;
        let pending = &self.lanes[device].pending;
        let (first, _) = pending.front()?;
        if addr < *first {
            return None;
        }
        let after = pending.partition_point(|(first, _)| *first <= addr);
        let (first, lsn) = pending[after - 1];
        (first.segment() == addr.segment()).then_some(lsn)
    }

    /// Ends the open block and hands it to a flusher; its LSN, if it had records.
    pub fn seal(&mut self) -> Option<Lsn> {
        let device = self.seal_quietly()?;
        self.wake_flusher(device);
        Some(Lsn(self.open_lsn.0 - 1))
    }

    /// Lets the flusher of a device know that it has something to do.
    pub fn wake_flusher(&self, device: usize) {
        self.shared.devices[device].nudge();
    }

    /// Ends the open block and puts it before a flusher that is not told so: the caller steps it by
    /// [`Flusher::write_now`](crate::Flusher::write_now), or wakes it. The flusher's device.
    pub fn seal_quietly(&mut self) -> Option<usize> {
        let lsn = self.open_lsn;
        let block = self.open.seal(&mut self.spare, lsn, || self.shared.clock.now_ms())?;
        self.open_lsn = lsn.next();
        let (device, first) = (block.home, RecordAddr::new(block.segment, block.first_ordinal));
        if let Some(segment) = self.segments.get_mut(block.segment) {
            let bytes = block.buffer.len() as u64;
            segment.add_block(lsn, block.record_count, block.delete_count, bytes);
            self.index_lag.note_block(lsn, bytes);
        }
        self.lanes[device].pending.push_back((first, lsn));
        self.lanes[device].rungs.note(first, lsn);
        if self.marks.waits_for_seal() {
            self.marks.take_waiting().into_iter().for_each(|slot| self.begin_mark(slot));
        }
        Some(self.hand_over(device, block))
    }

    /// Gives the block to the device's flusher, or to that of its successor: whose device it is.
    fn hand_over(&mut self, mut device: usize, block: SealedBlock) -> usize {
        let bytes = block.buffer.len() as u64;
        let mut order = Order::Block(block);
        // Each device is poisoned once and its successor was healthy then: this ends.
        while let Err(refused) = self.shared.devices[device].push_quietly(order) {
            let successor = self.shared.devices[device].successor.load(Ordering::Acquire);
            if successor == usize::MAX {
                // The log is read-only: health says so, and no reply that needs the block goes out.
                return device;
            }
            device = successor;
            order = refused;
        }
        self.in_flight.add(bytes);
        device
    }

    /// Whether there is a block to seal and its device would take it up at once. A device that
    /// still writes, or under `always` still syncs, gains nothing from a second block: what arrives
    /// in the meantime shares the next write, and fewer, larger groups cost the processor less.
    #[must_use]
    pub fn takes_block_now(&self) -> bool {
        let done = if self.policy == SyncPolicy::Always { self.durable } else { self.written };
        self.open.binding.is_some_and(|open| {
            self.lanes[open.device].pending.back().is_none_or(|(_, lsn)| *lsn <= done)
        })
    }

    /// Asks for the waker to be called as soon as everything up to `lsn` is written, that is, in
    /// the system's hands. Follow it by [`Log::poll`] before waiting.
    pub fn want_written(&self, lsn: Lsn) {
        self.shared.durability.want_written(lsn);
    }

    /// Keeps at most so many bytes of written blocks' buffers for the next ones.
    pub fn limit_spare_bytes(&mut self, bytes_max: usize) {
        self.spare.limit(bytes_max);
    }

    /// Asks for everything up to `lsn` to be synced, whatever the policy. The block may be open.
    pub fn request_sync(&mut self, lsn: Lsn) {
        if lsn > self.durable && !self.shared.durability.is_wanted(lsn) {
            self.shared.request_sync(lsn);
        }
    }

    /// Takes note of what flushers and compactor have done. Call it when the waker was called,
    /// and once a loop iteration.
    pub fn poll(&mut self) {
        // Before the mail: what was sent before a compaction ended is known when it is taken over.
        let outcome = self.schedule.jobs.take_outcome();
        let mut mail = std::mem::take(&mut self.mail);
        if self.shared.take_mail(&mut mail) {
            for (buffer, marks) in mail.recycled.drain(..) {
                self.in_flight.remove(buffer.len() as u64);
                self.spare.keep(buffer, marks);
            }
            let has_sealed = !mail.sealed.is_empty();
            for sealed in mail.sealed.drain(..) {
                if sealed.part == 0
                    && let Some(segment) = self.segments.get_mut(sealed.segment)
                {
                    segment.is_sealed = true;
                    segment.bytes = sealed.bytes;
                }
            }
            for (segment, part) in mail.parts.drain(..) {
                if let Some(segment) = self.segments.get_mut(segment) {
                    segment.parts.push(part);
                }
            }
            if has_sealed {
                self.update_debt();
            }
        }
        self.mail = mail;
        for finding in self.scrub.take_findings() {
            let (healing, schedule, scene) = self.background();
            healing.note_finding(schedule, &scene, finding);
        }
        if let Some(outcome) = outcome {
            let (healing, schedule, mut scene) = self.background();
            healing.finish_compaction(schedule, &mut scene, outcome);
            self.shared.is_congested.store(self.is_congested(), Ordering::Relaxed);
            // The next one at once: with small segments a tick each would be too slow.
            self.schedule_compaction(self.shared.clock.monotonic_us());
        }
        self.index_lag.follow(&self.shared.index_bound, Lsn(self.open_lsn.0 - 1));
        self.written = self.shared.durability.written_lsn();
        let durable = self.shared.durability.durable_lsn();
        if durable > self.durable {
            self.durable = durable;
            for lane in &mut self.lanes {
                while lane.pending.front().is_some_and(|(_, lsn)| *lsn <= durable) {
                    lane.pending.pop_front();
                }
            }
            self.marks.publish(durable);
        }
    }

    /// The block up to which everything is durable, as of the last [`Log::poll`].
    #[must_use]
    pub const fn durable_lsn(&self) -> Lsn {
        self.durable
    }

    /// The block up to which everything survives the death of the process, as of the last
    /// [`Log::poll`].
    #[must_use]
    pub const fn written_lsn(&self) -> Lsn {
        self.written
    }

    /// What is to be done now and then: call it every 10 to 100 ms.
    pub fn tick(&mut self) {
        let now_us = self.shared.clock.monotonic_us();
        let sealed = Lsn(self.open_lsn.0 - 1);
        if self.policy == SyncPolicy::EverySec && now_us >= self.synced_at_us + EVERY_SECOND_US {
            self.synced_at_us = now_us;
            self.request_sync(sealed);
        }
        self.lateness.note(sealed, self.durable, now_us);
        for device in self.shared.devices.iter() {
            if device.state() == DeviceState::Full {
                device.nudge();
            }
        }
        self.release_drained_devices();
        self.marks.forget_dropped();
        self.tell_lost_backups();
        let news = self.shared.devices.iter().filter_map(|device| device.take_news(now_us));
        news.collect::<Vec<_>>().into_iter().for_each(|news| self.tell(news));
        self.copy_marks(self.mark_copy_bytes);
        self.validity.take_some(&mut self.segments, TAKEN_BYTES);
        if self.scrub.wants_targets.load(Ordering::Acquire) {
            self.scrub.give_targets(scrub_targets(&self.segments, &self.schedule, &self.shared));
        }
        self.schedule_compaction(now_us);
    }

    /// Whether so much is in flight, or for so long, or so much garbage waits for a compaction, or so much
    /// of the log for the index, that clients that write should not be read from. Or so many starts in a
    /// row have come to no compaction. Not while writes are refused: none of it grows
    /// then, and reads must go on.
    #[must_use]
    pub fn is_congested(&self) -> bool {
        // Under `always` too: a connection may have chosen less for its own writes.
        let is_late = self.policy != SyncPolicy::No && self.lateness.is_late();
        let is_congested = (is_late
            || self.in_flight.is_over()
            || self.schedule.debt.is_over()
            || (self.index_lag.is_over() && !self.is_frozen)
            || self.shared.index_bound.is_garbage_overdue())
            && self.health() == Health::Writable;
        self.shared.is_congested.store(is_congested, Ordering::Relaxed);
        is_congested
    }

    /// Returns whether the log takes records, as of now. Takes no lock while it does.
    #[must_use]
    pub fn health(&self) -> Health {
        health::of(&self.shared)
    }

    /// Changes when blocks are synced.
    pub fn set_policy(&mut self, policy: SyncPolicy) {
        self.policy = policy;
        self.shared.durability.set_sync_always(policy == SyncPolicy::Always);
        self.shared.keeps_unsynced.store(policy != SyncPolicy::No, Ordering::Relaxed);
        self.shared.devices.iter().for_each(Device::nudge);
    }

    /// When blocks are synced.
    #[must_use]
    pub const fn policy(&self) -> SyncPolicy {
        self.policy
    }

    /// Changes when segments are compacted.
    pub fn set_compaction_options(&mut self, options: CompactionOptions) {
        self.schedule.options = options;
    }

    /// Forbids, or allows again, that anything on disk is compacted, moved or put aside. An owner that
    /// has read a log without retiring what its records made garbage must forbid it: what may go is
    /// not known then.
    pub fn set_frozen(&mut self, frozen: bool) {
        self.is_frozen = frozen;
    }

    /// What reads records and blocks, on any thread, while the log goes on.
    #[must_use]
    pub fn reader(&self) -> Reader {
        Reader::new(self.shared.clone())
    }

    /// What reads sealed segments again; for a thread. It does nothing until it has a rate.
    #[must_use]
    pub fn scrubber(&self) -> Scrubber {
        Scrubber::new(self.shared.clone(), self.scrub.clone())
    }

    /// Changes how many bytes a second the scrubber reads; 0 for none. A pass begins at once.
    pub fn set_scrub_rate(&mut self, bytes_per_s: u64) {
        self.scrub.set_rate(bytes_per_s);
    }

    /// Healing, compaction, and what they work on.
    pub(crate) fn background(&mut self) -> (&mut Healing, &mut Schedule, Scene<'_>) {
        let last_lsn = self.last_lsn();
        let scene = Scene {
            segments: &mut self.segments,
            shared: &self.shared,
            open_lsn: self.open_lsn,
            last_lsn,
            object_end: self.object_end,
            marks: &mut self.marks,
        };
        (&mut self.healing, &mut self.schedule, scene)
    }

    /// The newest block that has records, the open one included.
    fn last_lsn(&self) -> Lsn {
        if self.has_open_records() { self.open_lsn } else { Lsn(self.open_lsn.0 - 1) }
    }

    /// Starts a compaction if one is due and none is running, and looks whether that keeps up.
    fn schedule_compaction(&mut self, now_us: u64) {
        let may_replace = !self.is_frozen && self.validity.is_known();
        if may_replace {
            self.shared.index_bound.note_garbage_known();
        }
        if may_replace && self.schedule.is_due(now_us) {
            adapt_roll_bytes(&self.segments, &self.shared);
            let (healing, schedule, mut scene) = self.background();
            if let Some(SegmentToEnd { device, segment }) = healing.heal(schedule, &mut scene)
                && self.lanes[device].active == Some(segment)
            {
                self.seal();
                self.end_active_segment(device);
            }
            if self.schedule.compacting().is_empty() {
                let (_, schedule, mut scene) = self.background();
                schedule.start_best(&mut scene);
            }
        }
        self.update_debt();
    }

    fn update_debt(&mut self) {
        let bytes = self.segments.iter().map(|segment| segment.bytes).sum();
        self.shared.index_bound.note_log_bytes(bytes);
        let leaders = self.segments.iter().filter(|segment| segment.leader == segment.id);
        let files = leaders.map(|leader| 1 + leader.parts.len()).sum();
        self.marks.holds().note_log(LogSize { bytes, files });
        self.schedule.update_debt(&self.segments, &self.shared);
    }

    /// Compacts everything that has garbage, one segment after the other, in the background;
    /// segments that take the log are ended first. Call it after [`Log::seal`].
    pub fn compact_all(&mut self) {
        (0..self.lanes.len()).for_each(|device| self.end_active_segment(device));
        self.schedule.start_sweep(self.next_segment, self.open_lsn);
    }

    /// When the blocks before the open one were ended.
    pub(crate) const fn block_times(&self) -> &BlockTimes {
        &self.open.times
    }

    /// The segment that the open block goes to.
    pub(crate) fn open_segment(&self) -> Option<SegmentId> {
        self.open.binding.map(|open| open.segment)
    }

    /// Whether a compaction that was asked for is still going on.
    #[must_use]
    pub fn is_compacting_all(&self) -> bool {
        self.schedule.is_sweeping()
    }

    /// Seals everything and lets flushers and compactor come to their end: their steps say
    /// `Finished` when everything is durable. Nothing may be appended afterwards.
    pub fn shutdown(&mut self) {
        self.seal();
        self.is_closed = true;
        self.shared.request_sync(Lsn(self.open_lsn.0 - 1));
        self.shared.devices.iter().for_each(Device::end);
        self.schedule.jobs.end();
        self.scrub.end();
        self.shared.devices.zeros.end();
    }

    /// Figures for people and monitoring.
    #[must_use]
    pub fn stats(&self) -> Stats {
        let mut stats = Stats {
            epoch: self.shared.epoch,
            open_lsn: self.open_lsn,
            durable_lsn: self.durable,
            in_flight_bytes: self.in_flight.bytes(),
            ..Stats::default()
        };
        stats.add_segments(&self.segments);
        stats.add_compactions(&self.schedule);
        stats.add_repairs(&self.scrub, &self.healing);
        stats.marks.count = self.marks.open_count();
        stats.marks.kept_files = self.history_figures().files_of_marks;
        stats.add_devices(&self.shared, &self.segments);
        stats
    }

    /// Binds the open block to a device and its active segment.
    #[cold]
    fn bind(&mut self) -> Binding {
        assert!(!self.is_closed, "nothing is appended after the shutdown");
        let compacting = self.schedule.compacting_device();
        let device = choose_device(&self.shared, self.next_device, compacting);
        self.next_device = device + 1;
        let roll_bytes = self.shared.roll_bytes.load(Ordering::Relaxed);
        let is_offered = self.shared.devices[device].spare.take_offer();
        let lane = &mut self.lanes[device];
        let active = lane.active.and_then(|id| self.segments.get(id)).filter(|segment| {
            let is_full =
                segment.bytes >= roll_bytes || segment.record_count >= SEGMENT_RECORDS_MAX;
            !is_full && !is_offered
        });
        let binding = match active {
            Some(segment) => {
                Binding { device, segment: segment.id, first_ordinal: segment.record_count }
            }
            None => {
                let segment = self.next_segment;
                self.next_segment = SegmentId(segment.0 + 1);
                self.segments.insert(Segment::new(segment, device));
                lane.active = Some(segment);
                Binding { device, segment, first_ordinal: 0 }
            }
        };
        self.open.binding = Some(binding);
        binding
    }
}
