//! Which segment is compacted next.
//!
//! A segment is *triggered* when enough of its records are garbage, by count and by share. Among
//! the triggered ones the victim is the one with the best ratio of benefit to cost: what is freed
//! and for how long it will stay so (old garbage-poor data changes little), over what has to be
//! read and written again.

use std::sync::atomic::Ordering;

use base::{Lsn, SegmentId};

use crate::compactor::{Job, Outcome};
use crate::device::DeviceState;
use crate::log::Log;
use crate::options::CompactionOptions;
use crate::segments::Segment;
use crate::stats::Stats;

/// How often victims are looked for, unless a compaction has just ended.
const LOOK_EVERY_US: u64 = 100_000;

/// How long nothing is compacted after a failure.
const REST_AFTER_FAILURE_US: u64 = 5_000_000;

/// Whatever the options say, one in so many of the records that a segment ever had is enough.
const COUNT_MIN_SHARE: u32 = 64;

/// All segments that take the log are together one in so many of the live data's bytes.
const ACTIVE_SHARE: u64 = 4;

/// However little data there is, a segment takes so much.
const ROLL_BYTES_MIN: u64 = 4 << 20;

/// On a full device less garbage is worth a compaction.
const SHARE_MIN_WHEN_FULL: f64 = 0.1;

/// Compaction is behind when garbage is more than one in so many of the live data's bytes.
const BEHIND_SHARE: u64 = 2;

/// Delete records are worth a compaction elsewhere when they are one in so many of all records.
const HELD_SHARE: u64 = 4;

/// What is being compacted, and what was.
pub(crate) struct Schedule {
    pub(crate) options: CompactionOptions,
    /// The segment under compaction and the device that it is on.
    running: Option<(SegmentId, usize)>,
    sweep: Option<Sweep>,
    look_at_us: u64,
    /// Segments that cannot be compacted until the next start.
    stuck: Vec<SegmentId>,
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
        Self { options, running: None, sweep: None, look_at_us: 0, stuck: Vec::new(), stats }
    }

    pub(crate) fn start_sweep(&mut self, end: SegmentId, since: Lsn) {
        self.sweep = Some(Sweep { end, since });
        self.look_at_us = 0;
    }

    pub(crate) const fn is_sweeping(&self) -> bool {
        self.sweep.is_some()
    }

    pub(crate) fn compacting(&self) -> Option<SegmentId> {
        self.running.map(|(segment, _)| segment)
    }

    pub(crate) fn compacting_device(&self) -> Option<usize> {
        self.running.map(|(_, device)| device)
    }
}

impl Log {
    /// Starts a compaction if one is due and none is running.
    pub(crate) fn schedule_compaction(&mut self, now_us: u64) {
        if self.schedule.running.is_some() || now_us < self.schedule.look_at_us {
            return;
        }
        self.schedule.look_at_us = now_us + LOOK_EVERY_US;
        self.adapt_roll_bytes();
        if let Some(victim) = self.choose_victim() {
            self.start_compaction(victim);
        }
    }

    /// Segments that take the log cannot be compacted: as long as there is little data they are
    /// kept small, so that together they are a quarter of it at most.
    pub(crate) fn adapt_roll_bytes(&self) {
        let live_bytes: u64 = self.segments.iter().map(Segment::live_bytes).sum();
        let share = live_bytes / (ACTIVE_SHARE * self.shared.devices.len() as u64);
        let roll_bytes = share.max(ROLL_BYTES_MIN).min(self.shared.segment_bytes);
        self.shared.roll_bytes.store(roll_bytes, Ordering::Relaxed);
    }

    fn choose_victim(&mut self) -> Option<SegmentId> {
        let floors = DeleteFloors::of(self);
        if let Some(sweep) = &self.schedule.sweep {
            let is_due = |segment: &&Segment| {
                segment.id < sweep.end
                    && segment.compaction_lsn < sweep.since
                    && floors.garbage_count(segment) > 0
            };
            let has_unsealed = self
                .segments
                .iter()
                .any(|segment| !segment.is_sealed && is_due(&segment) && self.is_usable(segment));
            let victim = self
                .segments
                .iter()
                .filter(is_due)
                .filter(|segment| segment.is_sealed && self.is_usable(segment))
                .min_by_key(|segment| segment.id);
            if let Some(victim) = victim {
                return Some(victim.id);
            }
            if !has_unsealed {
                self.schedule.sweep = None;
            }
        }
        if !self.schedule.options.enabled {
            return None;
        }
        let mut best = None;
        for segment in self.segments.iter().filter(|segment| segment.is_sealed) {
            let garbage_count = floors.garbage_count(segment);
            if !self.is_triggered(segment, garbage_count) || !self.is_usable(segment) {
                continue;
            }
            let garbage_share = f64::from(garbage_count) / f64::from(segment.present_count.max(1));
            #[expect(clippy::cast_precision_loss, reason = "an age, to compare with others")]
            let age = (self.open_lsn().0 - segment.max_lsn.0) as f64;
            let score = garbage_share * age / (2.0 - garbage_share);
            if best.is_none_or(|(best_score, _)| score > best_score) {
                best = Some((score, segment.id));
            }
        }
        best.map(|(_, id)| id).or_else(|| self.choose_holder(&floors))
    }

    /// The segment that holds most delete records back, if it holds many. It may have hardly any
    /// garbage itself: what a compaction of it brings is that the others may drop theirs. Without
    /// this, one bit in cold data would keep every later delete record for ever.
    fn choose_holder(&self, floors: &DeleteFloors) -> Option<SegmentId> {
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
        (is_many && holder.is_sealed && self.is_usable(holder)).then_some(holder.id)
    }

    fn is_triggered(&self, segment: &Segment, garbage_count: u32) -> bool {
        let options = &self.schedule.options;
        let is_all = garbage_count == segment.present_count;
        let is_full = self.shared.devices[segment.device].state() == DeviceState::Full;
        let share_min = if is_full { SHARE_MIN_WHEN_FULL } else { options.invalid_share_min };
        let share = f64::from(garbage_count) / f64::from(segment.present_count.max(1));
        // The count keeps what is left of large segments from being copied for a handful of
        // records; for segments of few large records it must not be out of reach.
        let count_min = options.invalid_count_min.min(segment.record_count / COUNT_MIN_SHARE);
        is_all || (garbage_count >= count_min && share >= share_min)
    }

    /// Whether the segment's files are on devices that can be read and written.
    fn is_usable(&self, segment: &Segment) -> bool {
        let mut devices = segment.parts.iter().chain([&segment.device]);
        devices.all(|index| self.shared.devices[*index].state() != DeviceState::Poisoned)
            && !self.schedule.stuck.contains(&segment.id)
    }

    fn start_compaction(&mut self, victim: SegmentId) {
        let open_lsn = self.open_lsn();
        // Bits may have been set by records that no crash must lose: those of the open block too.
        let durable_before_rename =
            if self.has_open_records() { open_lsn } else { Lsn(open_lsn.0 - 1) };
        let delete_floor = self.segments.delete_floor(victim);
        let rate_bytes_per_s =
            if self.is_behind() { 0 } else { self.schedule.options.rate_bytes_per_s };
        let Some(segment) = self.segments.get_mut(victim) else { return };
        let invalid = segment.copy_bits(open_lsn);
        let job = Job {
            segment: victim,
            device: segment.device,
            parts: segment.parts.clone(),
            invalid,
            compaction_lsn: open_lsn,
            durable_before_rename,
            delete_floor,
            horizon: segment.max_lsn,
            rate_bytes_per_s,
            bytes_before: segment.bytes,
            drops_all: segment.invalid_count == segment.present_count,
        };
        self.schedule.running = Some((victim, segment.device));
        self.jobs.push(job);
    }

    /// Whether so much garbage has gathered that the rate no longer matters: it spares other work
    /// on the device as long as compaction keeps up, and the log must not grow past twice its
    /// live data.
    fn is_behind(&self) -> bool {
        let (mut bytes, mut live_bytes) = (0, 0);
        for segment in self.segments.iter() {
            bytes += segment.bytes;
            live_bytes += segment.live_bytes();
        }
        bytes - live_bytes.min(bytes) > live_bytes / BEHIND_SHARE
    }

    /// Takes note of how a compaction has ended.
    pub(crate) fn finish_compaction(&mut self, outcome: Outcome) {
        self.schedule.running = None;
        self.schedule.look_at_us = 0;
        let stats = &mut self.schedule.stats;
        match outcome.result {
            Ok(compacted) => {
                stats.compactions += 1;
                stats.reclaimed_bytes += outcome.bytes_before.saturating_sub(compacted.bytes);
                if compacted.present_count == 0 {
                    self.segments.remove(outcome.segment);
                } else if let Some(segment) = self.segments.get_mut(outcome.segment) {
                    segment.note_compacted(
                        compacted.present_count,
                        compacted.delete_count,
                        compacted.bytes,
                        compacted.min_lsn,
                    );
                }
            }
            Err(failure) => {
                stats.compactions_failed += 1;
                stats.compaction_error = Some(failure.reason);
                if failure.is_final {
                    self.schedule.stuck.push(outcome.segment);
                }
                if let Some(segment) = self.segments.get_mut(outcome.segment) {
                    segment.note_compaction_failed();
                }
                self.schedule.look_at_us = self.shared.clock.monotonic_us() + REST_AFTER_FAILURE_US;
            }
        }
        self.shared.is_congested.store(self.is_congested(), Ordering::Relaxed);
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
