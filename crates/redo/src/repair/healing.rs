//! What is done about a sealed file that is damaged while the database is running.
//!
//! Memory has everything that the file is for: so it is made superfluous, and put aside.
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
//! those are there, every start is refused. What only could not be read may be readable again at
//! the next start, and bring back what it holds.
//!
//! **Crash in between.** The damaged file is there until everything that superseded its records is
//! durable, so a start in between refuses it by name, as it would have before. Nothing is removed.
//!
//! A file that cannot be healed (its device has failed, a compaction it waits for fails) stays as
//! it is, and stays reported.

use std::collections::{HashMap, VecDeque};

use base::{Lsn, SegmentId};
use env::FileError;

use crate::compact::schedule::{Scene, Schedule};
use crate::compact::segments::{Segment, Segments};
use crate::error::Error;
use crate::format::segment;
use crate::repair::scrubber::{Finding, Target};
use crate::shared::device::{DeviceState, Shared};

/// Damaged files, and what became of them.
#[derive(Default)]
pub(crate) struct Healing {
    /// The first is being healed. Those that stay damaged are only in `Schedule::damaged`.
    damaged: VecDeque<Damaged>,
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
        let Some(damaged) = self.damaged.front() else { return Vec::new() };
        let segments = segments.file(damaged.leader);
        segments.filter(|segment| segment.live_count() > 0).map(|segment| segment.id).collect()
    }

    /// Takes note of what the scrubber has found, if it is about a file that still is what it was.
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
        self.events.push(format!(
            "Scrubbing found damage: {error}. What is lost there is written again from memory."
        ));
        let is_corrupt = !matches!(error, Error::File(FileError::Io { .. }));
        self.damaged.push_back(Damaged { leader: target.leader, is_corrupt });
    }

    /// Goes on with healing the first damaged file, as far as it can be; no compaction is running.
    pub(crate) fn heal(
        &mut self,
        schedule: &mut Schedule,
        scene: &mut Scene<'_>,
    ) -> Option<SegmentToEnd> {
        let leader = self.damaged.front()?.leader;
        if scene.segments.get(leader).is_none() {
            self.damaged.pop_front();
            schedule.damaged.remove(&leader);
            self.healed_count += 1;
            self.events.push(format!(
                "Healed: everything of segment {leader} is elsewhere, its damaged file is put aside"
            ));
            return None;
        }
        let segments = || scene.segments.file(leader);
        let needs_keyspace = segments().any(|segment| segment.live_count() > 0);
        if needs_keyspace {
            return None;
        }
        if segments().any(|segment| schedule.is_stuck(segment.id)) {
            self.give_up(leader, "its file cannot be put aside");
            return None;
        }
        if !segments().all(|segment| segment.is_sealed && is_reachable(scene.shared, segment)) {
            self.give_up(leader, "its device has failed");
            return None;
        }
        let holders = holders(scene.segments, leader);
        let is_damaged = |holder: &SegmentId| self.damaged.iter().any(|d| d.leader == *holder);
        let well = holders.iter().find(|holder| !is_damaged(holder));
        if let Some(holder) = well.copied() {
            return self.compact_holder(schedule, scene, leader, holder);
        }
        if holders.is_empty() {
            schedule.set_aside(scene, leader);
        } else {
            self.heal_in_order(schedule, scene, leader);
        }
        None
    }

    /// The first damaged file is held back by others, and by nothing else: brings the one to the
    /// front that must go first.
    fn heal_in_order(&mut self, schedule: &mut Schedule, scene: &mut Scene<'_>, leader: SegmentId) {
        let are_corrupt: HashMap<SegmentId, bool> =
            self.damaged.iter().map(|damaged| (damaged.leader, damaged.is_corrupt)).collect();
        let first = |is_no_matter: fn(bool) -> bool| {
            self.damaged.iter().position(|damaged| {
                let holders = holders(scene.segments, damaged.leader);
                let mut holders = holders.iter().filter_map(|holder| are_corrupt.get(holder));
                holders.all(|is_corrupt| is_no_matter(*is_corrupt))
            })
        };
        match first(|_| false).or_else(|| first(|is_corrupt| is_corrupt)) {
            Some(0) => schedule.set_aside(scene, leader),
            Some(index) => {
                let damaged = self.damaged.remove(index);
                damaged.into_iter().for_each(|damaged| self.damaged.push_front(damaged));
            }
            None => self.give_up(leader, "another file, with older records, cannot be read"),
        }
    }

    /// Compacts a file that holds delete records of `leader` back, as soon as that can be done.
    fn compact_holder(
        &mut self,
        schedule: &mut Schedule,
        scene: &mut Scene<'_>,
        leader: SegmentId,
        holder: SegmentId,
    ) -> Option<SegmentToEnd> {
        let file = || scene.segments.file(holder);
        if !file().all(|segment| schedule.is_usable(scene.shared, segment)) {
            // On a device that has failed this goes for segments that were never sealed, too.
            self.give_up(leader, "another file with older records cannot be compacted");
            return None;
        }
        if let Some(open) = file().find(|segment| !segment.is_sealed) {
            return Some(SegmentToEnd { device: open.device, segment: open.id });
        }
        let target = scene.segments.get(holder).map_or(0, |segment| segment.device);
        schedule.start_compaction(scene, &[holder], target);
        None
    }

    fn give_up(&mut self, leader: SegmentId, why: &str) {
        self.events.push(format!("Segment {leader} stays damaged: {why}"));
        self.damaged.pop_front();
    }
}

/// The files that a scrubber's pass reads: all that are sealed, whole and not known to be damaged.
pub(crate) fn scrub_targets(
    segments: &Segments,
    schedule: &Schedule,
    shared: &Shared,
) -> Vec<Target> {
    let leaders = segments.iter().filter(|segment| segment.leader == segment.id);
    let targets = leaders.filter_map(|leader| {
        let mut ids: Vec<SegmentId> = segments.file(leader.id).map(|segment| segment.id).collect();
        ids.sort_unstable();
        let is_sound = segments.file(leader.id).all(|segment| {
            segment.is_sealed && segment.parts.is_empty() && is_reachable(shared, segment)
        });
        (is_sound && !schedule.damaged.contains(&leader.id)).then(|| Target {
            leader: leader.id,
            generation: leader.generation,
            segments: ids,
            device: leader.device,
            path: shared.devices[leader.device].path.join(segment::file_name(leader.id, 0)),
        })
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
