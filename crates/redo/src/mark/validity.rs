//! Which records of a segment were valid at a mark.
//!
//! A bit that was set after the mark is taken back: the bitmap was copied later, and what was
//! retired in between is known (`compact::marks`). What is left says of every ordinal that the
//! segment had whether the mark needs it. Delete records have no bit set; they are not counted and
//! not read, because without older records there is nothing that they would delete.

use base::SegmentId;

use crate::compact::bitmap::Bitmap;
use crate::compact::mark_slot::Marked;
use crate::compact::marks::MarkedSegment;

/// The validity bitmap of one segment at a mark.
pub struct SegmentValidity {
    id: SegmentId,
    record_count: u32,
    valid_count: u32,
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

    /// Whether the record with this ordinal was valid, if it is no delete record.
    #[must_use]
    pub fn is_valid(&self, ordinal: u32) -> bool {
        ordinal < self.record_count && !self.bitmap.is_retired(ordinal)
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
    let MarkedSegment { id, record_count, growing_deletes, bitmap, .. } = segment;
    let valid_count = match growing_deletes {
        // It was never compacted: all of its records are there.
        Some(deletes) => record_count - deletes - bitmap.retired_below(record_count),
        None => segment.valid_count,
    };
    SegmentValidity { id, record_count, valid_count, bitmap }
}
