//! Which records of a segment were valid at a mark.
//!
//! A bit that was set after the mark is taken back: the bitmap was copied later, and what was
//! retired in between is known (`compact::marks`). What is left says of every ordinal that the
//! segment had whether the mark needs it. Delete records have no bit set; they are not counted and
//! not read, because without older records there is nothing that they would delete.

use base::{Lsn, RecordAddr, SegmentId};

use crate::compact::bitmap::Bitmap;
use crate::compact::mark_slot::Marked;
use crate::compact::marks::MarkedSegment;

/// The validity bitmap of one segment at a mark.
pub struct SegmentValidity {
    id: SegmentId,
    record_count: u32,
    valid_count: u32,
    newest: Lsn,
    bitmap: Bitmap,
}

impl SegmentValidity {
    /// The segment.
    #[must_use]
    pub const fn segment(&self) -> SegmentId {
        self.id
    }

    /// How many records it had; ordinals from here on are none.
    #[must_use]
    pub const fn record_count(&self) -> u32 {
        self.record_count
    }

    /// How many of them are valid and no delete records.
    #[must_use]
    pub const fn valid_count(&self) -> u32 {
        self.valid_count
    }

    /// Whether it may have blocks behind `lsn`.
    pub(crate) fn has_newer_than(&self, lsn: Lsn) -> bool {
        self.newest > lsn
    }

    /// Whether the record with this ordinal was valid, if it is no delete record.
    #[must_use]
    pub fn is_valid(&self, ordinal: u32) -> bool {
        ordinal < self.record_count && !self.bitmap.is_retired(ordinal)
    }
}

/// Which records were valid at a mark, for records that were valid at an earlier one of the same life of the log.
///
/// What was dropped before this life has no bit set in some bitmaps, so only of what was met in it is the answer true.
pub struct Validity {
    segments: Vec<SegmentValidity>,
    /// Where the segment of the last question is: the next one is mostly of the same.
    last: usize,
}

impl Validity {
    /// REQUIRES: they ascend.
    pub(crate) const fn new(segments: Vec<SegmentValidity>) -> Self {
        Self { segments, last: 0 }
    }

    /// Whether the record is valid still. A segment that is gone had nothing that was.
    pub fn is_valid(&mut self, addr: RecordAddr) -> bool {
        let is_last =
            self.segments.get(self.last).is_some_and(|segment| segment.id == addr.segment());
        if !is_last {
            let found = self.segments.binary_search_by_key(&addr.segment(), |segment| segment.id);
            let Ok(at) = found else { return false };
            self.last = at;
        }
        self.segments[self.last].is_valid(addr.ordinal())
    }
}

/// The bitmaps as of the mark, ascending by segment.
pub(crate) fn as_of(marked: &mut Marked) -> Vec<SegmentValidity> {
    let mut segments = std::mem::take(&mut marked.segments);
    let mut skipped = marked.skipped;
    for chunk in std::mem::take(&mut marked.since) {
        for addr in &chunk[std::mem::take(&mut skipped)..] {
            let found = segments.binary_search_by_key(&addr.segment(), |segment| segment.id);
            if let Ok(at) = found {
                take_back(&mut segments[at], addr.ordinal());
            }
        }
    }
    segments.into_iter().map(finish).collect()
}

fn take_back(segment: &mut MarkedSegment, ordinal: u32) {
    if ordinal < segment.record_count && segment.bitmap.take_back(ordinal) {
        segment.valid_count += 1;
    }
}

fn finish(segment: MarkedSegment) -> SegmentValidity {
    let MarkedSegment { id, record_count, growing_deletes, newest, bitmap, .. } = segment;
    let valid_count = match growing_deletes {
        // It was never compacted: all of its records are there.
        Some(deletes) => record_count - deletes - bitmap.retired_below(record_count),
        None => segment.valid_count,
    };
    SegmentValidity { id, record_count, valid_count, newest, bitmap }
}
