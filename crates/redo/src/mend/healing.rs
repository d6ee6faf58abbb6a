//! What is done about a sealed file that is damaged while the database is running.
//!
//! Memory has everything that the file is for: so it is made superfluous, and put aside.
//!
//! ```text
//!   finding ─► wait for the engine ─► wait for deletes ─► put aside ─► healed
//!              it logs anew whatever   compact whoever      the file moves to
//!              has its record here     holds delete         DEVICE/damaged-TIME/,
//!              (Log::rewrites)         records back         gaps are legitimate
//! ```
//!
//! **Delete records.** Which of them are in the bad blocks nobody knows, and memory does not hold
//! what is gone. But none is needed once no other file can still hold an older record of any entry:
//! that is the rule by which compaction drops delete records (`segments`), applied to the newest
//! block of the file. Whoever holds them back is compacted first; then all that was retired before
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

use crate::compact::segments::Segment;
use crate::error::Error;
use crate::format::segment;
use crate::mend::scrubber::{Finding, Scrubber, Target};
use crate::write::device::DeviceState;
use crate::write::log::Log;

/// Damaged files, and what became of them.
#[derive(Default)]
pub(crate) struct Healing {
    /// Files that are damaged; the first is being healed.
    patients: VecDeque<Patient>,
    /// Files that stay damaged.
    given_up: Vec<SegmentId>,
    /// What is new and has not been told.
    news: Vec<String>,
    pub(crate) error_count: u64,
    pub(crate) healed_count: u64,
    pub(crate) last_error: Option<String>,
}

/// A file that is damaged.
struct Patient {
    /// The segment that it is named after.
    leader: SegmentId,
    /// Whether its bytes are bad, rather than that it could not be read.
    is_corrupt: bool,
}

impl Healing {
    /// Whether the file that is named after `leader` is damaged.
    pub(crate) fn has(&self, leader: SegmentId) -> bool {
        self.is_patient(leader) || self.given_up.contains(&leader)
    }

    fn is_patient(&self, leader: SegmentId) -> bool {
        self.patients.iter().any(|patient| patient.leader == leader)
    }
}

impl Log {
    /// What reads sealed segments again; for a thread. It does nothing until it has a rate.
    #[must_use]
    pub fn scrubber(&self) -> Scrubber {
        Scrubber::new(self.shared.clone(), self.scrub.clone())
    }

    /// Changes how many bytes a second the scrubber reads; 0 for none. A pass begins at once.
    pub fn set_scrub_rate(&mut self, bytes_per_s: u64) {
        self.scrub.set_rate(bytes_per_s);
    }

    /// What was found out about damage since this was asked last, for people.
    pub fn take_news(&mut self) -> Vec<String> {
        std::mem::take(&mut self.healing.news)
    }

    /// Segments that are damaged. Whatever has its record in one of them is to be logged anew; the
    /// list is empty as soon as nothing needs that.
    #[must_use]
    pub fn rewrites(&self) -> Vec<SegmentId> {
        let Some(patient) = self.healing.patients.front() else { return Vec::new() };
        let segments = self.segments.file(patient.leader);
        segments.filter(|segment| live_count(segment) > 0).map(|segment| segment.id).collect()
    }

    /// Gives the scrubber the files of a pass, if it asks for them.
    pub(crate) fn serve_scrubber(&mut self) {
        if !self.scrub.wants_targets.load(std::sync::atomic::Ordering::Acquire) {
            return;
        }
        let leaders = self.segments.iter().filter(|segment| segment.leader == segment.id);
        let targets = leaders.filter_map(|leader| {
            let mut segments: Vec<SegmentId> =
                self.segments.file(leader.id).map(|segment| segment.id).collect();
            segments.sort_unstable();
            let is_sound = self.segments.file(leader.id).all(|segment| {
                segment.is_sealed && segment.parts.is_empty() && self.is_reachable(segment)
            });
            (is_sound && !self.healing.has(leader.id)).then(|| Target {
                leader: leader.id,
                generation: leader.generation,
                segments,
                device: leader.device,
                path: self.shared.devices[leader.device]
                    .path
                    .join(segment::file_name(leader.id, 0)),
            })
        });
        self.scrub.give_targets(targets.collect());
    }

    fn is_reachable(&self, segment: &Segment) -> bool {
        self.shared.devices[segment.device].state() != DeviceState::Poisoned
    }

    /// Takes note of what the scrubber has found, if it is about a file that still is what it was.
    pub(crate) fn note_finding(&mut self, finding: Finding) {
        let Finding { target, error } = finding;
        let is_current = self.segments.get(target.leader).is_some_and(|leader| {
            leader.leader == target.leader
                && leader.generation == target.generation
                && leader.device == target.device
                && self.is_reachable(leader)
        });
        let is_replaced = self.schedule.is_compacting(&target.segments);
        if !is_current || is_replaced || self.healing.has(target.leader) {
            return;
        }
        self.healing.error_count += 1;
        self.healing.last_error = Some(error.to_string());
        self.healing.news.push(format!(
            "Scrubbing found damage: {error}. What is lost there is written again from memory."
        ));
        let is_corrupt = !matches!(error, Error::Io { .. });
        self.healing.patients.push_back(Patient { leader: target.leader, is_corrupt });
    }

    /// Goes on with healing the first damaged file, as far as it can be; no compaction is running.
    pub(crate) fn heal(&mut self) {
        let Some(leader) = self.healing.patients.front().map(|patient| patient.leader) else {
            return;
        };
        if self.segments.get(leader).is_none() {
            self.healing.patients.pop_front();
            self.healing.healed_count += 1;
            self.healing.news.push(format!(
                "Healed: everything of segment {leader} is elsewhere, its damaged file is put aside"
            ));
            return;
        }
        let segments = || self.segments.file(leader);
        let needs_engine = segments().any(|segment| live_count(segment) > 0);
        if needs_engine || segments().any(|segment| self.pins.cover(segment)) {
            return;
        }
        if segments().any(|segment| self.schedule.is_stuck(segment.id)) {
            self.give_up(leader, "its file cannot be put aside");
            return;
        }
        let segments = || self.segments.file(leader);
        if !segments().all(|segment| segment.is_sealed && self.is_reachable(segment)) {
            self.give_up(leader, "its device has failed");
            return;
        }
        let holders = self.holders(leader);
        let well = holders.iter().find(|holder| !self.healing.is_patient(**holder));
        if let Some(holder) = well.copied() {
            self.compact_holder(leader, holder);
        } else if holders.is_empty() {
            self.set_aside(leader);
        } else {
            self.heal_in_order(leader);
        }
    }

    /// The other files that may have older records of entries that this file may say are gone.
    fn holders(&self, leader: SegmentId) -> Vec<SegmentId> {
        let segments = || self.segments.file(leader);
        if segments().all(|segment| segment.delete_count == 0) {
            return Vec::new();
        }
        let newest = segments().map(|segment| segment.max_lsn).max().unwrap_or(Lsn::ZERO);
        let holds = |segment: &&Segment| {
            segment.leader != leader && segment.delete_floor().is_some_and(|floor| floor <= newest)
        };
        self.segments.iter().filter(holds).map(|segment| segment.leader).collect()
    }

    /// The first patient is held back by others, and by nothing else: brings the one to the front
    /// that is to go first.
    fn heal_in_order(&mut self, leader: SegmentId) {
        let patients = &self.healing.patients;
        let are_corrupt: HashMap<SegmentId, bool> =
            patients.iter().map(|patient| (patient.leader, patient.is_corrupt)).collect();
        let first = |is_no_matter: fn(bool) -> bool| {
            patients.iter().position(|patient| {
                let holders = self.holders(patient.leader);
                let mut holders = holders.iter().filter_map(|holder| are_corrupt.get(holder));
                holders.all(|is_corrupt| is_no_matter(*is_corrupt))
            })
        };
        match first(|_| false).or_else(|| first(|is_corrupt| is_corrupt)) {
            Some(0) => self.set_aside(leader),
            Some(index) => {
                let patient = self.healing.patients.remove(index);
                patient.into_iter().for_each(|patient| self.healing.patients.push_front(patient));
            }
            None => self.give_up(leader, "another file, with older records, cannot be read"),
        }
    }

    /// Compacts a file that holds delete records of the patient back, as soon as that can be done.
    fn compact_holder(&mut self, patient: SegmentId, holder: SegmentId) {
        let file = || self.segments.file(holder);
        if file().any(|segment| self.pins.cover(segment)) {
            // Until whoever reads it has done so.
            return;
        }
        if !file().all(|segment| self.is_usable(segment)) {
            // On a device that has failed this goes for segments that were never sealed, too.
            self.give_up(patient, "another file with older records cannot be compacted");
            return;
        }
        let open = file().find(|segment| !segment.is_sealed);
        if let Some((id, device)) = open.map(|segment| (segment.id, segment.device)) {
            if self.lanes[device].active == Some(id) {
                self.seal();
                self.end_active_segment(device);
            }
        } else {
            let target = self.segments.get(holder).map_or(0, |segment| segment.device);
            self.start_compaction(&[holder], target);
        }
    }

    fn give_up(&mut self, leader: SegmentId, why: &str) {
        self.healing.news.push(format!("Segment {leader} stays damaged: {why}"));
        self.healing.patients.pop_front();
        self.healing.given_up.push(leader);
    }
}

/// How many records of entries that are still there are in the segment.
fn live_count(segment: &Segment) -> u32 {
    segment.present_count.saturating_sub(segment.invalid_count + segment.delete_count)
}
