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
//! What happens beyond: `debt`.
//!
//! When no file is triggered, small ones are gathered: segments that compaction has left little of,
//! or that a restart has ended early, come to share a file.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use base::{Lsn, ObjectId, SegmentId};
use env::FileError;

use crate::compact::debt::{self, Debt};
use crate::compact::figures::{DeleteFloors, FileFigures};
use crate::compact::image_copy::{Copied, Keep};
use crate::compact::job::{Failure, Job, JobQueue, Member, Outcome};
use crate::compact::marks::Marks;
use crate::compact::segments::{Segment, Segments};
use crate::error::{Error, is_full};
use crate::options::CompactionOptions;
use crate::shared::device::{DeviceState, Service, Shared};

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

/// What the executor lends the schedule for a call.
pub(crate) struct Scene<'a> {
    pub(crate) segments: &'a mut Segments,
    pub(crate) shared: &'a Shared,
    /// The block that takes records.
    pub(crate) open_lsn: Lsn,
    /// The newest block with records, the open one if it has any: bits may have been set by them.
    pub(crate) last_lsn: Lsn,
    /// One above every object that a record has ever named.
    pub(crate) object_end: ObjectId,
    pub(crate) marks: &'a mut Marks,
}

/// What has become of compactions.
#[derive(Default)]
pub(crate) struct Tally {
    pub(crate) compactions: u64,
    pub(crate) failed: u64,
    pub(crate) reclaimed_bytes: u64,
    pub(crate) last_error: Option<String>,
}

/// What is being compacted, and what was.
pub(crate) struct Schedule {
    pub(crate) options: CompactionOptions,
    pub(crate) jobs: Arc<JobQueue>,
    /// The segments under compaction.
    running: Vec<SegmentId>,
    /// The device that takes what is left of them.
    target: usize,
    sweep: Option<Sweep>,
    look_at_us: u64,
    /// Segments that cannot be compacted until the next start.
    stuck: BTreeSet<SegmentId>,
    /// Those of them whose files are not what the executor knows any more, or could not be put aside.
    immovable: BTreeSet<SegmentId>,
    /// The files in which compactions have met damage, once: they are read again before that is believed.
    doubted: BTreeSet<SegmentId>,
    /// The segments that damaged files are named after: they are not read.
    pub(crate) damaged: BTreeSet<SegmentId>,
    /// Whether it keeps up.
    pub(crate) debt: Debt,
    pub(crate) tally: Tally,
}

/// A compaction of everything.
struct Sweep {
    /// Segments from here on have begun later and are not part of it.
    end: SegmentId,
    /// Segments whose bitmap was copied at this LSN or later are done.
    since: Lsn,
}

impl Schedule {
    pub(crate) fn new(options: CompactionOptions, jobs: Arc<JobQueue>) -> Self {
        Self {
            options,
            jobs,
            running: Vec::new(),
            target: 0,
            sweep: None,
            look_at_us: 0,
            stuck: BTreeSet::new(),
            immovable: BTreeSet::new(),
            doubted: BTreeSet::new(),
            damaged: BTreeSet::new(),
            debt: Debt::default(),
            tally: Tally::default(),
        }
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
    pub(crate) fn is_immovable(&self, segment: SegmentId) -> bool {
        self.immovable.contains(&segment)
    }

    pub(crate) const fn is_sweeping(&self) -> bool {
        self.sweep.is_some()
    }

    /// The segments that are being compacted now.
    pub(crate) fn compacting(&self) -> &[SegmentId] {
        &self.running
    }

    /// Finds out whether compaction keeps up.
    pub(crate) fn update_debt(&mut self, segments: &Segments, shared: &Shared) {
        self.debt.update(segments, shared, &self.running);
    }

    /// The device that a compaction writes to now.
    pub(crate) fn compacting_device(&self) -> Option<usize> {
        (!self.running.is_empty()).then_some(self.target)
    }
}

impl Schedule {
    /// Whether it is time to look for something to compact; the next time is then later.
    pub(crate) fn is_due(&mut self, now_us: u64) -> bool {
        let is_due = self.running.is_empty() && now_us >= self.look_at_us;
        if is_due {
            self.look_at_us = now_us + LOOK_EVERY_US;
        }
        is_due
    }

    /// Starts the compaction that is most worth it, if one is. None is running.
    pub(crate) fn start_best(&mut self, scene: &mut Scene<'_>) {
        let files = self.files(scene);
        if let Some((leader, target)) = Self::choose_move(scene, &files) {
            self.start_compaction(scene, &[leader], target);
            return;
        }
        let small = self.choose_small(scene, &files);
        let is_urgent = small.len() >= MANY_SMALL * self.options.gathered_min;
        let victims = match self.choose_victim(scene, &files) {
            Some(victim) if !is_urgent => vec![victim],
            _ => small,
        };
        if let Some(first) = victims.first() {
            let target = scene.segments.get(*first).map_or(0, |segment| segment.device);
            self.start_compaction(scene, &victims, target);
        }
    }

    /// What can be compacted, and what is known of it.
    fn files(&self, scene: &Scene<'_>) -> Vec<FileFigures> {
        let floors = DeleteFloors::of(scene.segments);
        let leaders = scene.segments.iter().filter(|segment| segment.leader == segment.id);
        let figures = leaders.map(|leader| {
            let mut file = FileFigures::of(leader);
            for segment in scene.segments.file(leader.id) {
                file.add(segment, floors.garbage_count(segment));
                file.is_usable &= self.is_usable(scene.shared, segment);
            }
            file
        });
        figures.filter(|file| file.is_usable).collect()
    }

    fn choose_victim(&mut self, scene: &Scene<'_>, files: &[FileFigures]) -> Option<SegmentId> {
        let bound = &scene.shared.index_bound;
        if let Some(sweep) = &self.sweep {
            let due = || {
                files.iter().filter(|file| {
                    file.leader < sweep.end
                        && file.compaction_lsn < sweep.since
                        && file.garbage_count > 0
                })
            };
            let may_go =
                |file: &&FileFigures| file.is_sealed && bound.allows_or_wants(file.max_lsn);
            let victim = due().filter(may_go).min_by_key(|file| file.leader);
            if let Some(victim) = victim {
                return Some(victim.leader);
            }
            if due().next().is_none() {
                self.sweep = None;
            }
        }
        if !self.options.enabled {
            return None;
        }
        let is_little_garbage =
            debt::garbage_share(scene.segments, scene.shared) < self.options.garbage_share_min;
        let mut best = None;
        let is_candidate = |file: &&FileFigures| {
            file.is_sealed
                && self.is_triggered(scene.shared, file, is_little_garbage)
                && bound.allows_or_wants(file.max_lsn)
        };
        for file in files.iter().filter(is_candidate) {
            let garbage_share = file.garbage_share();
            #[expect(clippy::cast_precision_loss, reason = "an age, to compare with others")]
            let age = (scene.open_lsn.0 - file.max_lsn.0) as f64;
            let score = garbage_share * age / (2.0 - garbage_share);
            if best.is_none_or(|(best_score, _)| score > best_score) {
                best = Some((score, file.leader));
            }
        }
        best.map(|(_, leader)| leader).or_else(|| self.choose_holder(scene))
    }

    /// A file on a device that is being drained, and the device with least on it.
    fn choose_move(scene: &Scene<'_>, files: &[FileFigures]) -> Option<(SegmentId, usize)> {
        let is_leaving = |device: usize| scene.shared.devices[device].service() == Service::Leaving;
        let file = files.iter().filter(|file| file.is_sealed).find(|file| {
            let mut segments = scene.segments.file(file.leader);
            segments
                .any(|s| is_leaving(s.device) || s.parts.iter().any(|part| is_leaving(part.device)))
                && scene.shared.index_bound.allows_or_wants(file.max_lsn)
        })?;
        let takes = |device: &usize| {
            let device = &scene.shared.devices[*device];
            device.service() == Service::InUse && device.state() == DeviceState::Healthy
        };
        let bytes_on = |device: &usize| {
            let ours = files.iter().filter(|file| file.device == *device);
            ours.map(|file| file.bytes).sum::<u64>()
        };
        let target = (0..scene.shared.devices.len()).filter(takes).min_by_key(bytes_on)?;
        Some((file.leader, target))
    }

    /// Small files of one device that are worth being one.
    fn choose_small(&self, scene: &Scene<'_>, files: &[FileFigures]) -> Vec<SegmentId> {
        if !self.options.enabled {
            return Vec::new();
        }
        let roll_bytes = scene.shared.roll_bytes.load(Ordering::Relaxed);
        let small: Vec<&FileFigures> = files
            .iter()
            .filter(|file| file.is_sealed && file.bytes < roll_bytes / SMALL_SHARE)
            .filter(|file| scene.shared.index_bound.allows(file.max_lsn))
            .collect();
        let mut gathered = Vec::new();
        for device in 0..scene.shared.devices.len() {
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
            if gathered.len() >= self.options.gathered_min.max(2) {
                return gathered;
            }
        }
        Vec::new()
    }

    /// The segment that holds most delete records back, if it holds many. It may have hardly any
    /// garbage itself: what a compaction of it brings is that the others may drop theirs. Without
    /// this, one bit in cold data would keep every later delete record for ever.
    fn choose_holder(&self, scene: &Scene<'_>) -> Option<SegmentId> {
        let floors = DeleteFloors::of(scene.segments);
        let (holder, _) = floors.strictest?;
        let (mut present_count, mut held_count) = (0, 0);
        for segment in scene.segments.iter() {
            present_count += u64::from(segment.present_count);
            if segment.is_sealed && segment.max_lsn >= floors.floor_of(segment.id) {
                held_count += u64::from(segment.delete_count);
            }
        }
        let count_min = u64::from(self.options.invalid_count_min);
        let is_many = held_count >= count_min.max(present_count / HELD_SHARE);
        let holder = scene.segments.get(holder)?;
        (is_many
            && holder.is_sealed
            && self.is_usable(scene.shared, holder)
            && is_indexed(scene, holder.leader))
        .then_some(holder.leader)
    }

    fn is_triggered(&self, shared: &Shared, file: &FileFigures, is_little_garbage: bool) -> bool {
        let options = &self.options;
        let is_all = file.garbage_count == file.present_count;
        let is_full = shared.devices[file.device].state() == DeviceState::Full;
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

    /// Whether the segment's files can be compacted: their devices can be read and written, and
    /// they are not known to be damaged.
    pub(crate) fn is_usable(&self, shared: &Shared, segment: &Segment) -> bool {
        let parts = segment.parts.iter().map(|part| part.device);
        let mut devices = parts.chain([segment.device]);
        devices.all(|index| shared.devices[index].state() != DeviceState::Poisoned)
            && !self.stuck.contains(&segment.id)
            && !self.damaged.contains(&segment.leader)
    }

    /// Orders the files with these leaders to become one, on the device `target`.
    pub(crate) fn start_compaction(
        &mut self,
        scene: &mut Scene<'_>,
        leaders: &[SegmentId],
        target: usize,
    ) {
        self.order(scene, leaders, target, None);
    }

    /// Orders a file of which nothing is needed to be put aside, unread.
    pub(crate) fn set_aside(&mut self, scene: &mut Scene<'_>, leader: SegmentId) {
        let target = scene.segments.get(leader).map_or(0, |segment| segment.device);
        let name = format!("damaged-{}", scene.shared.clock.now_ms() / 1000);
        self.order(scene, &[leader], target, Some(name));
    }

    fn order(
        &mut self,
        scene: &mut Scene<'_>,
        leaders: &[SegmentId],
        target: usize,
        aside: Option<String>,
    ) {
        scene.shared.index_bound.note_order(scene.last_lsn);
        if !leaders.iter().all(|leader| is_indexed(scene, *leader)) {
            // The index is begun anew: the bound has gone back since they were chosen.
            scene.shared.index_bound.note_ended();
            return;
        }
        let files = leaders.iter().flat_map(|leader| scene.segments.file(*leader));
        let mut segments: Vec<SegmentId> = files.map(|segment| segment.id).collect();
        segments.sort_unstable();
        let marks = scene.marks.note_order(&segments, scene.segments);
        // Before any bitmap is copied: each counts what the others may still have.
        let floors: Vec<Lsn> =
            segments.iter().map(|segment| scene.segments.delete_floor(*segment)).collect();
        let (mut members, mut bytes_before) = (Vec::new(), 0);
        for (id, delete_floor) in segments.iter().zip(floors) {
            let Some(segment) = scene.segments.get_mut(*id) else { continue };
            bytes_before += segment.bytes;
            let needs_deletes = segment.delete_count > 0 && segment.max_lsn >= delete_floor;
            members.push(Member {
                segment: *id,
                device: segment.device,
                leader: segment.leader,
                parts: segment.parts.clone(),
                keep: Keep { bitmap: segment.copy_bitmap(scene.open_lsn), delete_floor },
                horizon: segment.max_lsn,
                has_deletes: segment.delete_count > 0,
                drops_all: aside.is_some() || (segment.live_count() == 0 && !needs_deletes),
            });
        }
        self.running = segments;
        self.target = target;
        self.jobs.push(Job {
            members,
            target,
            compaction_lsn: scene.open_lsn,
            durable_before_rename: scene.last_lsn,
            object_floor: scene.object_end,
            rate_bytes_per_s: self.options.rate_bytes_per_s,
            bytes_before,
            aside,
            marks,
        });
    }

    /// Takes note of how a compaction has ended. Returns the file in which damage was met for the second time.
    pub(crate) fn finish(
        &mut self,
        scene: &mut Scene<'_>,
        outcome: Outcome,
    ) -> Option<(SegmentId, Error)> {
        self.running.clear();
        scene.shared.index_bound.note_ended();
        self.look_at_us = 0;
        let tally = &mut self.tally;
        match outcome.result {
            Ok(copied) => {
                tally.compactions += 1;
                let bytes: u64 = copied.iter().map(|copied| copied.bytes).sum();
                tally.reclaimed_bytes += outcome.bytes_before.saturating_sub(bytes);
                take_over(scene.segments, &copied, outcome.target);
                self.doubted.retain(|leader| !outcome.segments.contains(leader));
                None
            }
            Err(Failure { error, is_replaced }) => {
                tally.failed += 1;
                tally.last_error = Some(error.to_string());
                if is_full(&error) {
                    scene.shared.devices[outcome.target].ask_for_room();
                }
                let damaged =
                    if is_replaced { None } else { damaged_file(scene, &outcome.segments, &error) };
                let is_final = damaged.is_none() && (is_replaced || !is_full(&error));
                for segment in outcome.segments {
                    if is_final {
                        self.stuck.insert(segment);
                        // Nothing else is done with a damaged file than to put it aside.
                        let leader = scene.segments.get(segment).map(|segment| segment.leader);
                        if is_replaced || leader.is_some_and(|it| self.damaged.contains(&it)) {
                            self.immovable.insert(segment);
                        }
                    }
                    if let Some(segment) = scene.segments.get_mut(segment) {
                        segment.note_compaction_failed();
                    }
                }
                let is_first = damaged.is_some_and(|leader| self.doubted.insert(leader));
                // Bytes that are bad are read again at once; what a device does not give it may give a while later.
                let is_corrupt = matches!(error, Error::File(FileError::Corrupt { .. }));
                if !(is_first && is_corrupt) {
                    let now_us = scene.shared.clock.monotonic_us();
                    self.look_at_us = now_us + REST_AFTER_FAILURE_US;
                }
                damaged.filter(|_| !is_first).map(|leader| (leader, error))
            }
        }
    }
}

/// The file that a compaction could not read, because bytes of it are bad or the device does not give them: the
/// segment that it is named after.
fn damaged_file(scene: &Scene<'_>, segments: &[SegmentId], error: &Error) -> Option<SegmentId> {
    let path = match error {
        Error::File(FileError::Corrupt { path, .. }) => path,
        Error::File(FileError::Io { path, doing: "open" | "read", .. }) if !is_full(error) => path,
        _ => return None,
    };
    let segments = segments.iter().filter_map(|id| scene.segments.get(*id));
    let mut leaders = segments.filter_map(|segment| scene.segments.get(segment.leader));
    let found = leaders.find(|leader| scene.shared.file_of(leader.device, leader.id) == *path)?;
    // What is in several files has not been read as a whole.
    let is_whole = scene.segments.file(found.id).all(|segment| segment.parts.is_empty());
    is_whole.then_some(found.id)
}

/// Whether all of a file is indexed, or nothing is; if not, a cut is wanted. See `index_bound`.
pub(crate) fn is_indexed(scene: &Scene<'_>, leader: SegmentId) -> bool {
    let mut segments = scene.segments.file(leader);
    segments.all(|segment| scene.shared.index_bound.allows_or_wants(segment.max_lsn))
}

/// Notes what compaction has made of segments: one file on the device `target`.
fn take_over(segments: &mut Segments, copied: &[Copied], target: usize) {
    let mut left = Vec::new();
    for copied in copied {
        if copied.present_count == 0 {
            segments.remove(copied.segment);
        } else if let Some(segment) = segments.get_mut(copied.segment) {
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
    segments.share_file(&left);
}

/// Segments that take the log cannot be compacted: as long as there is little data they are
/// kept small, so that together they are a quarter of it at most.
pub(crate) fn adapt_roll_bytes(segments: &Segments, shared: &Shared) {
    let live_bytes: u64 = segments.iter().map(Segment::live_bytes).sum();
    let share = live_bytes / (ACTIVE_SHARE * shared.devices.in_service().max(1) as u64);
    let roll_bytes = share.max(ROLL_BYTES_MIN).min(shared.segment_bytes);
    shared.roll_bytes.store(roll_bytes, Ordering::Relaxed);
}
