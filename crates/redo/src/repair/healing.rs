//! What is done about a sealed file that is damaged while the database is running.
//!
//! What memory has of it, or what can still be read of it, is logged elsewhere; what is lost is logged as
//! lost. So it is made superfluous, and put aside. Files are healed side by side: one that has to wait
//! keeps no other one waiting.
//!
//! ```text
//!   finding ─► wait for the engine ─► wait for deletes ─► put aside ─► healed
//!              it logs anew whatever   compact the file     the file moves to
//!              has its record here     holds delete         DEVICE/damaged-TIME/,
//!              (Log::rewrites)         records back         gaps are legitimate
//! ```
//!
//! **Delete records.** Which of them are in the bad blocks is not known, and memory does not hold
//! what is gone. But none is needed once no other file can still hold an older record of any entry:
//! that is the rule by which compaction drops delete records (`segments`), applied to the newest
//! block of the file. A file that holds them back is compacted first; then all that was retired before
//! is physically gone. If another damaged file does, that one is put aside first. If damaged files
//! hold one another back, one may go first that only files with bad bytes hold back: as long as
//! those are there, every start that reads the log as a whole is refused, and any other believes the
//! index, which knows of the deletion. What only could not be read may be readable again at
//! the next start, and bring back what it holds.
//!
//! **Crash in between.** The damaged file is there until everything that superseded its records is
//! durable, so a start in between refuses it by name, as it would have before. Nothing is removed.
//!
//! A file that cannot be healed (its device has failed, a compaction it waits for fails) stays as
//! it is, and stays reported.

use base::{Lsn, SegmentId};
use env::FileError;

use crate::compact::job::Outcome;
use crate::compact::schedule::{Scene, Schedule, is_indexed};
use crate::compact::segments::{Segment, Segments};
use crate::error::Error;
use crate::repair::scrubber::{Finding, Target};
use crate::shared::device::{DeviceState, Shared};

/// Damaged files, and what became of them.
#[derive(Default)]
pub(crate) struct Healing {
    /// In the order in which they were found. Those that stay damaged are only in `Schedule::damaged`.
    damaged: Vec<Damaged>,
    /// What has happened and was not told yet.
    events: Vec<String>,
    pub(crate) error_count: u64,
    pub(crate) healed_count: u64,
    pub(crate) last_error: Option<String>,
}

/// A file that is damaged.
struct Damaged {
    /// The segment that it is named after.
    leader: SegmentId,
    /// Whether its bytes are bad, rather than that it could not be read.
    is_corrupt: bool,
}

/// What only the log's owner can do next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SegmentToEnd {
    /// The index of its device.
    pub(crate) device: usize,
    pub(crate) segment: SegmentId,
}

impl Healing {
    /// What was found out about damage since this was asked last, for people.
    pub(crate) fn drain_events(&mut self) -> Vec<String> {
        std::mem::take(&mut self.events)
    }

    /// Notes something that people are to be told.
    pub(crate) fn tell(&mut self, event: String) {
        self.events.push(event);
    }

    /// Segments whose live records the keyspace must log anew.
    pub(crate) fn rewrites(&self, segments: &Segments) -> Vec<SegmentId> {
        let files = self.damaged.iter().flat_map(|damaged| segments.file(damaged.leader));
        files.filter(|segment| segment.live_count() > 0).map(|segment| segment.id).collect()
    }

    /// Takes note of how a compaction has ended, and of the damage that it may have met.
    pub(crate) fn finish_compaction(
        &mut self,
        schedule: &mut Schedule,
        scene: &mut Scene<'_>,
        outcome: Outcome,
    ) {
        let Some((leader, error)) = schedule.finish(scene, outcome) else { return };
        if let Some(leader) = scene.segments.get(leader) {
            let target = Target::of(scene.segments, scene.shared, leader);
            self.note_finding(schedule, scene, Finding { target, error });
        }
    }

    /// Takes note of what the scrubber or a compaction has found, if it is about a file that still is what it was.
    pub(crate) fn note_finding(
        &mut self,
        schedule: &mut Schedule,
        scene: &Scene<'_>,
        finding: Finding,
    ) {
        let Finding { target, error } = finding;
        let is_current = scene.segments.get(target.leader).is_some_and(|leader| {
            leader.leader == target.leader
                && leader.generation == target.generation
                && leader.device == target.device
                && is_reachable(scene.shared, leader)
        });
        let is_replaced = schedule.is_compacting(&target.segments);
        if !is_current || is_replaced || !schedule.damaged.insert(target.leader) {
            return;
        }
        self.error_count += 1;
        self.last_error = Some(error.to_string());
        self.events
            .push(format!("Damage was found: {error}. What is there is written again elsewhere."));
        let is_corrupt = !matches!(error, Error::File(FileError::Io { .. }));
        self.damaged.push(Damaged { leader: target.leader, is_corrupt });
    }

    /// Goes on with healing the first damaged file that can be gone on with; no compaction is running.
    pub(crate) fn heal(
        &mut self,
        schedule: &mut Schedule,
        scene: &mut Scene<'_>,
    ) -> Option<SegmentToEnd> {
        self.discharge(schedule, scene.segments);
        let leaders: Vec<SegmentId> = self.damaged.iter().map(|damaged| damaged.leader).collect();
        let mut held_back = Vec::new();
        let mut waits = false;
        for leader in leaders {
            match self.next_step(schedule, scene, leader) {
                Next::SetAside => {
                    schedule.set_aside(scene, leader);
                    return None;
                }
                Next::Compact(holder) => {
                    let target = scene.segments.get(holder).map_or(0, |segment| segment.device);
                    schedule.start_compaction(scene, &[holder], target);
                    return None;
                }
                Next::End(segment) => return Some(segment),
                Next::HeldBack => held_back.push(leader),
                Next::Wait => waits = true,
                Next::GiveUp(why) => self.give_up(leader, why),
            }
        }
        let first =
            held_back.iter().find(|leader| self.only_corrupt_hold(scene.segments, **leader));
        match (first, held_back.first()) {
            (Some(leader), _) => schedule.set_aside(scene, *leader),
            (None, Some(leader)) if !waits => {
                self.give_up(*leader, "another file, with older records, cannot be read");
            }
            _ => {}
        }
        None
    }

    /// Takes note of the files that are put aside.
    fn discharge(&mut self, schedule: &mut Schedule, segments: &Segments) {
        let Self { damaged, events, healed_count, .. } = self;
        damaged.retain(|Damaged { leader, .. }| {
            let is_there = segments.get(*leader).is_some();
            if !is_there {
                schedule.damaged.remove(leader);
                *healed_count += 1;
                events.push(format!(
                    "Healed: everything of segment {leader} is elsewhere, its damaged file is put aside"
                ));
            }
            is_there
        });
    }

    /// What a damaged file waits for.
    fn next_step(&self, schedule: &Schedule, scene: &Scene<'_>, leader: SegmentId) -> Next {
        let segments = || scene.segments.file(leader);
        if segments().any(|segment| segment.live_count() > 0) {
            // For the keyspace.
            return Next::Wait;
        }
        if segments().any(|segment| schedule.is_immovable(segment.id)) {
            return Next::GiveUp("its file cannot be put aside");
        }
        if !segments().all(|segment| segment.is_sealed && is_reachable(scene.shared, segment)) {
            return Next::GiveUp("its device has failed");
        }
        let holders = holders(scene.segments, leader);
        let is_damaged = |holder: &SegmentId| self.damaged.iter().any(|d| d.leader == *holder);
        let well = holders.iter().find(|holder| !is_damaged(holder));
        if let Some(holder) = well.copied() {
            return next_of_holder(schedule, scene, holder);
        }
        if !is_indexed(scene, leader) {
            // Its delete records are not in the index yet.
            Next::Wait
        } else if holders.is_empty() {
            Next::SetAside
        } else {
            Next::HeldBack
        }
    }

    /// Whether the other damaged files that hold this one back all have bad bytes.
    fn only_corrupt_hold(&self, segments: &Segments, leader: SegmentId) -> bool {
        let holders = holders(segments, leader);
        let mut holding = self.damaged.iter().filter(|damaged| holders.contains(&damaged.leader));
        holding.all(|damaged| damaged.is_corrupt)
    }

    fn give_up(&mut self, leader: SegmentId, why: &str) {
        self.events.push(format!("Segment {leader} stays damaged: {why}"));
        self.damaged.retain(|damaged| damaged.leader != leader);
    }
}

/// What a damaged file waits for, or can have.
enum Next {
    SetAside,
    /// This file, which holds it back, is compacted.
    Compact(SegmentId),
    /// This segment is to be ended, so that it can be compacted.
    End(SegmentToEnd),
    /// By other damaged files alone.
    HeldBack,
    Wait,
    GiveUp(&'static str),
}

/// What becomes of a file that holds delete records of a damaged one back.
fn next_of_holder(schedule: &Schedule, scene: &Scene<'_>, holder: SegmentId) -> Next {
    let file = || scene.segments.file(holder);
    if !file().all(|segment| schedule.is_usable(scene.shared, segment)) {
        // On a device that has failed this goes for segments that were never sealed, too.
        return Next::GiveUp("another file with older records cannot be compacted");
    }
    if let Some(open) = file().find(|segment| !segment.is_sealed) {
        return Next::End(SegmentToEnd { device: open.device, segment: open.id });
    }
    if is_indexed(scene, holder) { Next::Compact(holder) } else { Next::Wait }
}

/// The files that a scrubber's pass reads: all that are sealed, whole and not known to be damaged.
pub(crate) fn scrub_targets(
    segments: &Segments,
    schedule: &Schedule,
    shared: &Shared,
) -> Vec<Target> {
    let leaders = segments.iter().filter(|segment| segment.leader == segment.id);
    let targets = leaders.filter_map(|leader| {
        let is_sound = segments.file(leader.id).all(|segment| {
            segment.is_sealed && segment.parts.is_empty() && is_reachable(shared, segment)
        });
        let is_target = is_sound && !schedule.damaged.contains(&leader.id);
        is_target.then(|| Target::of(segments, shared, leader))
    });
    targets.collect()
}

fn is_reachable(shared: &Shared, segment: &Segment) -> bool {
    shared.devices[segment.device].state() != DeviceState::Poisoned
}

/// The other files that may have older records of entries that this file may say are gone.
fn holders(segments: &Segments, leader: SegmentId) -> Vec<SegmentId> {
    let file = || segments.file(leader);
    if file().all(|segment| segment.delete_count == 0) {
        return Vec::new();
    }
    let newest = file().map(|segment| segment.max_lsn).max().unwrap_or(Lsn::ZERO);
    let holds = |segment: &&Segment| {
        segment.leader != leader && segment.delete_floor().is_some_and(|floor| floor <= newest)
    };
    segments.iter().filter(holds).map(|segment| segment.leader).collect()
}
