//! Which file is compacted next.
//!
//! A file is *triggered* when enough of its records are garbage, by count and by share. Among
//! the triggered ones the victim is the one with the best ratio of benefit to cost: what is freed
//! and for how long it will stay so (old garbage-poor data changes little), over what has to be
//! read and written again.
//!
//! Compaction is lazy: the longer a file waits the less of it is left to copy. The log may be twice
//! its live data, so there is no hurry before its garbage comes near that:
//!
//! ```text
//!   garbage / live data   0 ──────────── 0.45 ─────────── 0.5 ──────────── 1
//!   triggered               mostly garbage │ the usual share │
//!   rate                    as configured  │                 │ as fast as it goes
//! ```
//!
//! What happens beyond: [`crate::compact::debt`].
//!
//! When no file is triggered, small ones are gathered: segments that compaction has left little of,
//! or that a restart has ended early, come to share a file.

use std::sync::atomic::Ordering;

use base::{Lsn, SegmentId};

use crate::compact::compactor::{Job, Member, Outcome};
use crate::compact::debt::Debt;
use crate::compact::image_copy::{Copied, Keep};
use crate::compact::segments::Segment;
use crate::inspect::stats::Stats;
use crate::options::CompactionOptions;
use crate::write::device::{DeviceState, Service};
use crate::write::log::Log;

/// How often victims are looked for, unless a compaction has just ended.
const LOOK_EVERY_US: u64 = 100_000;

/// How long nothing is compacted after a failure.
const REST_AFTER_FAILURE_US: u64 = 5_000_000;

/// Whatever the options say, one in so many of the records that a segment ever had is enough.
const COUNT_MIN_SHARE: u64 = 64;

/// All segments that take the log are together one in so many of the live data's bytes.
const ACTIVE_SHARE: u64 = 4;

/// However little data there is, a segment takes so much.
const ROLL_BYTES_MIN: u64 = 4 << 20;

/// On a full device less garbage is worth a compaction.
const SHARE_MIN_WHEN_FULL: f64 = 0.1;

/// A file with this share of garbage is worth it while there is little garbage in the whole log.
const MOSTLY_GARBAGE: f64 = 0.75;

/// Delete records are worth a compaction elsewhere when they are one in so many of all records.
const HELD_SHARE: u64 = 4;

/// A file is small when a segment takes so many times as much. What is gathered is small again at
/// most until it has grown to that, so a record is copied for it a few times in its life.
const SMALL_SHARE: u64 = 8;

/// So many times as many small files as are worth gathering do not wait until there is nothing
/// else to compact.
const MANY_SMALL: usize = 4;

/// What is being compacted, and what was.
pub(crate) struct Schedule {
    pub(crate) options: CompactionOptions,
    /// The segments under compaction.
    running: Vec<SegmentId>,
    /// The device that takes what is left of them.
    target: usize,
    sweep: Option<Sweep>,
    look_at_us: u64,
    /// Segments that cannot be compacted until the next start.
    stuck: Vec<SegmentId>,
    /// Whether it keeps up.
    pub(crate) debt: Debt,
    /// The part of the figures that is about compaction.
    pub(crate) stats: Stats,
}

/// A compaction of everything.
struct Sweep {
    /// Segments from here on have begun later and are not part of it.
    end: SegmentId,
    /// Segments whose bitmap was copied at this LSN or later are done.
    since: Lsn,
}

impl Schedule {
    pub(crate) fn new(options: CompactionOptions) -> Self {
        let stats = Stats::default();
        let (running, stuck, debt) = (Vec::new(), Vec::new(), Debt::default());
        Self { options, running, target: 0, sweep: None, look_at_us: 0, stuck, debt, stats }
    }

    pub(crate) fn start_sweep(&mut self, end: SegmentId, since: Lsn) {
        self.sweep = Some(Sweep { end, since });
        self.look_at_us = 0;
    }

    /// Whether one of these is being compacted.
    pub(crate) fn is_compacting(&self, segments: &[SegmentId]) -> bool {
        self.running.iter().any(|id| segments.contains(id))
    }

    /// Whether the segment cannot be compacted until the next start.
    pub(crate) fn is_stuck(&self, segment: SegmentId) -> bool {
        self.stuck.contains(&segment)
    }

    pub(crate) const fn is_sweeping(&self) -> bool {
        self.sweep.is_some()
    }

    /// The segments that are being compacted now.
    pub(crate) fn compacting(&self) -> &[SegmentId] {
        &self.running
    }

    /// The device that a compaction writes to now.
    pub(crate) fn compacting_device(&self) -> Option<usize> {
        (!self.running.is_empty()).then_some(self.target)
    }
}

impl Log {
    /// Starts a compaction if one is due and none is running, and looks whether that keeps up.
    pub(crate) fn schedule_compaction(&mut self, now_us: u64) {
        self.start_due_compaction(now_us);
        self.follow_debt();
    }

    fn start_due_compaction(&mut self, now_us: u64) {
        if self.is_frozen()
            || !self.schedule.running.is_empty()
            || now_us < self.schedule.look_at_us
        {
            return;
        }
        self.schedule.look_at_us = now_us + LOOK_EVERY_US;
        self.adapt_roll_bytes();
        self.heal();
        if !self.schedule.running.is_empty() {
            return;
        }
        let files = self.files();
        if let Some((leader, target)) = self.choose_move(&files) {
            self.start_compaction(&[leader], target);
            return;
        }
        let small = self.choose_small(&files);
        let is_urgent = small.len() >= MANY_SMALL * self.schedule.options.gathered_min;
        let victims = match self.choose_victim(&files) {
            Some(victim) if !is_urgent => vec![victim],
            _ => small,
        };
        if let Some(first) = victims.first() {
            let target = self.segments.get(*first).map_or(0, |segment| segment.device);
            self.start_compaction(&victims, target);
        }
    }

    /// What can be compacted, and what is known of it.
    fn files(&self) -> Vec<FileFigures> {
        let floors = DeleteFloors::of(self);
        let leaders = self.segments.iter().filter(|segment| segment.leader == segment.id);
        let figures = leaders.map(|leader| {
            let mut file = FileFigures::of(leader);
            for segment in self.segments.file(leader.id) {
                file.add(segment, floors.garbage_count(segment));
                file.is_usable &= self.is_usable(segment);
            }
            file
        });
        figures.filter(|file| file.is_usable).collect()
    }

    /// Segments that take the log cannot be compacted: as long as there is little data they are
    /// kept small, so that together they are a quarter of it at most.
    pub(crate) fn adapt_roll_bytes(&self) {
        let live_bytes: u64 = self.segments.iter().map(Segment::live_bytes).sum();
        let share = live_bytes / (ACTIVE_SHARE * self.shared.devices.in_service().max(1) as u64);
        let roll_bytes = share.max(ROLL_BYTES_MIN).min(self.shared.segment_bytes);
        self.shared.roll_bytes.store(roll_bytes, Ordering::Relaxed);
    }

    fn choose_victim(&mut self, files: &[FileFigures]) -> Option<SegmentId> {
        if let Some(sweep) = &self.schedule.sweep {
            let due = || {
                files.iter().filter(|file| {
                    file.leader < sweep.end
                        && file.compaction_lsn < sweep.since
                        && file.garbage_count > 0
                })
            };
            let victim = due().filter(|file| file.is_sealed).min_by_key(|file| file.leader);
            if let Some(victim) = victim {
                return Some(victim.leader);
            }
            if due().next().is_none() {
                self.schedule.sweep = None;
            }
        }
        if !self.schedule.options.enabled {
            return None;
        }
        let is_little_garbage = self.garbage_share() < self.schedule.options.garbage_share_min;
        let mut best = None;
        let is_candidate =
            |file: &&FileFigures| file.is_sealed && self.is_triggered(file, is_little_garbage);
        for file in files.iter().filter(is_candidate) {
            let garbage_share = file.garbage_share();
            #[expect(clippy::cast_precision_loss, reason = "an age, to compare with others")]
            let age = (self.open_lsn().0 - file.max_lsn.0) as f64;
            let score = garbage_share * age / (2.0 - garbage_share);
            if best.is_none_or(|(best_score, _)| score > best_score) {
                best = Some((score, file.leader));
            }
        }
        best.map(|(_, leader)| leader).or_else(|| self.choose_holder())
    }

    /// A file on a device that is being drained, and the device with least on it.
    fn choose_move(&self, files: &[FileFigures]) -> Option<(SegmentId, usize)> {
        let is_leaving = |device: usize| self.shared.devices[device].service() == Service::Leaving;
        let file = files.iter().filter(|file| file.is_sealed).find(|file| {
            let mut segments = self.segments.file(file.leader);
            segments
                .any(|s| is_leaving(s.device) || s.parts.iter().any(|part| is_leaving(part.device)))
        })?;
        let takes = |device: &usize| {
            let device = &self.shared.devices[*device];
            device.service() == Service::InUse && device.state() == DeviceState::Healthy
        };
        let bytes_on = |device: &usize| {
            let ours = files.iter().filter(|file| file.device == *device);
            ours.map(|file| file.bytes).sum::<u64>()
        };
        let target = (0..self.shared.devices.len()).filter(takes).min_by_key(bytes_on)?;
        Some((file.leader, target))
    }

    /// Small files of one device that are worth being one.
    fn choose_small(&self, files: &[FileFigures]) -> Vec<SegmentId> {
        if !self.schedule.options.enabled {
            return Vec::new();
        }
        let roll_bytes = self.shared.roll_bytes.load(Ordering::Relaxed);
        let small: Vec<&FileFigures> = files
            .iter()
            .filter(|file| file.is_sealed && file.bytes < roll_bytes / SMALL_SHARE)
            .collect();
        let mut gathered = Vec::new();
        for device in 0..self.shared.devices.len() {
            gathered.clear();
            let mut bytes = 0;
            let mut ours: Vec<_> = small.iter().filter(|file| file.device == device).collect();
            ours.sort_by_key(|file| file.bytes);
            for file in ours {
                bytes += file.bytes;
                if bytes <= roll_bytes {
                    gathered.push(file.leader);
                }
            }
            if gathered.len() >= self.schedule.options.gathered_min.max(2) {
                return gathered;
            }
        }
        Vec::new()
    }

    /// The segment that holds most delete records back, if it holds many. It may have hardly any
    /// garbage itself: what a compaction of it brings is that the others may drop theirs. Without
    /// this, one bit in cold data would keep every later delete record for ever.
    fn choose_holder(&self) -> Option<SegmentId> {
        let floors = DeleteFloors::of(self);
        let (holder, _) = floors.strictest?;
        let (mut present_count, mut held_count) = (0, 0);
        for segment in self.segments.iter() {
            present_count += u64::from(segment.present_count);
            if segment.is_sealed && segment.max_lsn >= floors.floor_of(segment.id) {
                held_count += u64::from(segment.delete_count);
            }
        }
        let count_min = u64::from(self.schedule.options.invalid_count_min);
        let is_many = held_count >= count_min.max(present_count / HELD_SHARE);
        let holder = self.segments.get(holder)?;
        (is_many && holder.is_sealed && self.is_usable(holder)).then_some(holder.leader)
    }

    fn is_triggered(&self, file: &FileFigures, is_little_garbage: bool) -> bool {
        let options = &self.schedule.options;
        let is_all = file.garbage_count == file.present_count;
        let is_full = self.shared.devices[file.device].state() == DeviceState::Full;
        let share_min = if is_full {
            SHARE_MIN_WHEN_FULL
        } else if is_little_garbage {
            options.invalid_share_min.max(MOSTLY_GARBAGE)
        } else {
            options.invalid_share_min
        };
        // The count keeps what is left of large segments from being copied for a handful of
        // records; for segments of few large records it must not be out of reach.
        let count_min =
            u64::from(options.invalid_count_min).min(file.record_count / COUNT_MIN_SHARE);
        is_all || (file.garbage_count >= count_min && file.garbage_share() >= share_min)
    }

    /// Whether the segment's files are on devices that can be read and written, and nobody needs
    /// them as they are.
    pub(crate) fn is_usable(&self, segment: &Segment) -> bool {
        let parts = segment.parts.iter().map(|part| part.device);
        let mut devices = parts.chain([segment.device]);
        devices.all(|index| self.shared.devices[index].state() != DeviceState::Poisoned)
            && !self.schedule.stuck.contains(&segment.id)
            && !self.pins.cover(segment)
            && !self.healing.has(segment.leader)
    }

    /// Orders the files with these leaders to become one, on the device `target`.
    pub(crate) fn start_compaction(&mut self, leaders: &[SegmentId], target: usize) {
        self.order(leaders, target, None);
    }

    /// Orders a file of which nothing is needed to be put aside, unread.
    pub(crate) fn set_aside(&mut self, leader: SegmentId) {
        let target = self.segments.get(leader).map_or(0, |segment| segment.device);
        let name = format!("damaged-{}", self.shared.clock.now_ms() / 1000);
        self.order(&[leader], target, Some(name));
    }

    fn order(&mut self, leaders: &[SegmentId], target: usize, aside: Option<String>) {
        let open_lsn = self.open_lsn();
        // Bits may have been set by records that no crash must lose: those of the open block too.
        let durable_before_rename =
            if self.has_open_records() { open_lsn } else { Lsn(open_lsn.0 - 1) };
        let files = leaders.iter().flat_map(|leader| self.segments.file(*leader));
        let mut segments: Vec<SegmentId> = files.map(|segment| segment.id).collect();
        segments.sort_unstable();
        // Before any bitmap is copied: each counts what the others may still have.
        let floors: Vec<Lsn> =
            segments.iter().map(|segment| self.segments.delete_floor(*segment)).collect();
        let (mut members, mut bytes_before) = (Vec::new(), 0);
        for (id, delete_floor) in segments.iter().zip(floors) {
            let Some(segment) = self.segments.get_mut(*id) else { continue };
            bytes_before += segment.bytes;
            members.push(Member {
                segment: *id,
                device: segment.device,
                leader: segment.leader,
                parts: segment.parts.clone(),
                keep: Keep { bitmap: segment.copy_bitmap(open_lsn), delete_floor },
                horizon: segment.max_lsn,
                drops_all: aside.is_some() || segment.invalid_count == segment.present_count,
            });
        }
        self.schedule.running = segments;
        self.schedule.target = target;
        self.jobs.push(Job {
            members,
            target,
            compaction_lsn: open_lsn,
            durable_before_rename,
            object_floor: self.object_end,
            rate_bytes_per_s: self.schedule.options.rate_bytes_per_s,
            bytes_before,
            aside,
        });
    }

    /// Takes note of how a compaction has ended.
    pub(crate) fn finish_compaction(&mut self, outcome: Outcome) {
        self.schedule.running.clear();
        self.schedule.look_at_us = 0;
        let stats = &mut self.schedule.stats;
        match outcome.result {
            Ok(copied) => {
                stats.compactions += 1;
                let bytes: u64 = copied.iter().map(|copied| copied.bytes).sum();
                stats.reclaimed_bytes += outcome.bytes_before.saturating_sub(bytes);
                self.take_over(&copied, outcome.target);
            }
            Err(failure) => {
                stats.compactions_failed += 1;
                stats.compaction_error = Some(failure.reason);
                for segment in outcome.segments {
                    if failure.is_final {
                        self.schedule.stuck.push(segment);
                    }
                    if let Some(segment) = self.segments.get_mut(segment) {
                        segment.note_compaction_failed();
                    }
                }
                self.schedule.look_at_us = self.shared.clock.monotonic_us() + REST_AFTER_FAILURE_US;
            }
        }
        self.shared.is_congested.store(self.is_congested(), Ordering::Relaxed);
    }

    /// Notes what compaction has made of segments: one file on the device `target`.
    fn take_over(&mut self, copied: &[Copied], target: usize) {
        let mut left = Vec::new();
        for copied in copied {
            if copied.present_count == 0 {
                self.segments.remove(copied.segment);
            } else if let Some(segment) = self.segments.get_mut(copied.segment) {
                segment.device = target;
                segment.note_compacted(
                    copied.present_count,
                    copied.delete_count,
                    copied.bytes,
                    copied.min_lsn,
                );
                left.push(copied.segment);
            }
        }
        self.segments.share_file(&left);
    }
}

/// A file as a candidate.
struct FileFigures {
    leader: SegmentId,
    device: usize,
    is_sealed: bool,
    is_usable: bool,
    garbage_count: u64,
    present_count: u64,
    record_count: u64,
    bytes: u64,
    max_lsn: Lsn,
    /// The oldest of its segments' compactions.
    compaction_lsn: Lsn,
}

impl FileFigures {
    fn of(leader: &Segment) -> Self {
        Self {
            leader: leader.id,
            device: leader.device,
            is_sealed: true,
            is_usable: true,
            garbage_count: 0,
            present_count: 0,
            record_count: 0,
            bytes: 0,
            max_lsn: Lsn::ZERO,
            compaction_lsn: Lsn(u64::MAX),
        }
    }

    fn add(&mut self, segment: &Segment, garbage_count: u32) {
        self.is_sealed &= segment.is_sealed;
        self.garbage_count += u64::from(garbage_count);
        self.present_count += u64::from(segment.present_count);
        self.record_count += u64::from(segment.record_count);
        self.bytes += segment.bytes;
        self.max_lsn = self.max_lsn.max(segment.max_lsn);
        self.compaction_lsn = self.compaction_lsn.min(segment.compaction_lsn);
    }

    #[expect(clippy::cast_precision_loss, reason = "counts of records in memory")]
    fn garbage_share(&self) -> f64 {
        self.garbage_count as f64 / self.present_count.max(1) as f64
    }
}

/// Up to where delete records are garbage, for every segment at once.
struct DeleteFloors {
    /// The segment that holds most back, and what it allows.
    strictest: Option<(SegmentId, Lsn)>,
    /// What the others allow.
    second: Lsn,
}

impl DeleteFloors {
    fn of(log: &Log) -> Self {
        let mut floors = Self { strictest: None, second: Lsn(u64::MAX) };
        for segment in log.segments.iter() {
            let Some(floor) = segment.delete_floor() else { continue };
            match floors.strictest {
                Some((_, least)) if floor >= least => floors.second = floors.second.min(floor),
                _ => {
                    if let Some((_, least)) = floors.strictest.replace((segment.id, floor)) {
                        floors.second = least;
                    }
                }
            }
        }
        floors
    }

    /// Delete records in the segment with a smaller LSN than this are garbage.
    fn floor_of(&self, segment: SegmentId) -> Lsn {
        match self.strictest {
            Some((id, _)) if id == segment => self.second,
            Some((_, floor)) => floor,
            None => Lsn(u64::MAX),
        }
    }

    /// How many of the segment's records a compaction would drop. Delete records count when all
    /// of the segment's may go; some of it going is a bonus.
    fn garbage_count(&self, segment: &Segment) -> u32 {
        let is_droppable = segment.max_lsn < self.floor_of(segment.id);
        let deletes = if is_droppable { segment.delete_count } else { 0 };
        (segment.invalid_count + deletes).min(segment.present_count)
    }
}
