//! What the schedule knows of files when it chooses among them.

use base::{Lsn, SegmentId};

use crate::compact::segments::{Segment, Segments};

/// A file as a candidate.
pub(crate) struct FileFigures {
    pub(crate) leader: SegmentId,
    pub(crate) device: usize,
    pub(crate) is_sealed: bool,
    pub(crate) is_usable: bool,
    pub(crate) garbage_count: u64,
    pub(crate) present_count: u64,
    pub(crate) record_count: u64,
    pub(crate) bytes: u64,
    pub(crate) max_lsn: Lsn,
    /// The oldest of its segments' compactions.
    pub(crate) compaction_lsn: Lsn,
}

impl FileFigures {
    pub(crate) fn of(leader: &Segment) -> Self {
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

    pub(crate) fn add(&mut self, segment: &Segment, garbage_count: u32) {
        self.is_sealed &= segment.is_sealed;
        self.garbage_count += u64::from(garbage_count);
        self.present_count += u64::from(segment.present_count);
        self.record_count += u64::from(segment.record_count);
        self.bytes += segment.bytes;
        self.max_lsn = self.max_lsn.max(segment.max_lsn);
        self.compaction_lsn = self.compaction_lsn.min(segment.compaction_lsn);
    }

    #[expect(clippy::cast_precision_loss, reason = "counts of records in memory")]
    pub(crate) fn garbage_share(&self) -> f64 {
        self.garbage_count as f64 / self.present_count.max(1) as f64
    }
}

/// Up to where delete records are garbage, for every segment at once.
pub(crate) struct DeleteFloors {
    /// The segment that holds most back, and what it allows.
    pub(crate) strictest: Option<(SegmentId, Lsn)>,
    /// What the others allow.
    pub(crate) second: Lsn,
}

impl DeleteFloors {
    pub(crate) fn of(segments: &Segments) -> Self {
        let mut floors = Self { strictest: None, second: Lsn(u64::MAX) };
        for segment in segments.iter() {
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
    pub(crate) fn floor_of(&self, segment: SegmentId) -> Lsn {
        match self.strictest {
            Some((id, _)) if id == segment => self.second,
            Some((_, floor)) => floor,
            None => Lsn(u64::MAX),
        }
    }

    /// How many of the segment's records a compaction would drop. Delete records count when all
    /// of the segment's may go; some of it going is a bonus.
    pub(crate) fn garbage_count(&self, segment: &Segment) -> u32 {
        let is_droppable = segment.max_lsn < self.floor_of(segment.id);
        let deletes = if is_droppable { segment.delete_count } else { 0 };
        (segment.invalid_count + deletes).min(segment.present_count)
    }
}
