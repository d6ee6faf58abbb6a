//! Whether it is known which records are garbage, and how it becomes known after a start from an index.
//!
//! ```text
//!   Recovery::run         every superseded record was met           ─► known
//!   Recovery::run_behind  bits only of what is retired since        ─► unknown
//!                         note_live: the counts are compared        ─► taking over, a tick at a time
//!                         all of it is taken over                   ─► known
//! ```
//!
//! As long as it is not known nothing may be compacted, put aside, healed or marked: bits that are not
//! set mean nothing then. Segments that were begun since have their bits as ever; none that was there
//! at the start takes blocks any more, because a start seals them all.
//!
//! **Afterwards** a bit is set for what is not live, or was retired since the start. The live set may be
//! younger than the start: what it leaves out for that was retired meanwhile.
//!
//! **Nothing by halves.** Counts that contradict the live set are found before the first bit is set, so
//! [`crate::Log::is_retired`] never tells of records that a wrong index has left out.

use std::sync::Arc;

use base::SegmentId;

use crate::compact::live_records::LiveRecords;
use crate::compact::segments::Segments;
use crate::error::{Error, Result};

/// See the file's top.
pub(crate) enum Validity {
    Known,
    /// Nothing is known of the segments below this one.
    Unknown(SegmentId),
    /// The live records, the next segment to take them over, and where to end.
    Taking(Arc<LiveRecords>, SegmentId, SegmentId),
}

/// What looking at a segment costs beyond the bytes of its bitmap, in bytes.
const SEGMENT_COST_BYTES: usize = 1 << 10;

/// The cost of a number that no segment has any more.
const NOTHING_BYTES: usize = 8;

impl Validity {
    /// Nothing is known of the segments that there are, all below `end`.
    pub(crate) fn unknown(segments: &Segments, end: SegmentId) -> Self {
        let is_empty = segments.iter().next().is_none();
        if is_empty { Self::Known } else { Self::Unknown(end) }
    }

    pub(crate) const fn is_known(&self) -> bool {
        matches!(self, Self::Known)
    }

    /// Begins to take over what is live; with an error nothing has begun.
    pub(crate) fn note_live(&mut self, segments: &Segments, live: Arc<LiveRecords>) -> Result<()> {
        let Self::Unknown(end) = *self else { return Ok(()) };
        check(segments, &live, end)?;
        *self = Self::Taking(live, SegmentId(0), end);
        Ok(())
    }

    /// Goes on with segments whose bitmaps have about `budget_bytes`. Returns whether all became known.
    pub(crate) fn take_some(&mut self, segments: &mut Segments, mut budget_bytes: usize) -> bool {
        let Self::Taking(live, next, end) = self else { return false };
        while *next < *end && budget_bytes > 0 {
            let mut cost_bytes = NOTHING_BYTES;
            if let Some(segment) = segments.get_mut(*next) {
                segment.take_live(live.of(*next));
                cost_bytes = segment.bitmap_bytes() + SEGMENT_COST_BYTES;
            }
            budget_bytes = budget_bytes.saturating_sub(cost_bytes);
            next.0 += 1;
        }
        let is_over = *next >= *end;
        if is_over {
            *self = Self::Known;
        }
        is_over
    }
}

/// Compares the live records in segments below `end` with what these segments have.
fn check(segments: &Segments, live: &LiveRecords, end: SegmentId) -> Result<()> {
    for found in live.segments().filter(|found| found.segment < end) {
        let id = found.segment;
        let contradiction = match segments.get(id) {
            // Nothing was compacted since the start, so it was not there at the start either.
            None => Some("and there is no such segment".to_owned()),
            Some(segment) if found.last >= segment.record_count => {
                Some(format!("up to number {}, and it had {}", found.last, segment.record_count))
            }
            Some(segment) => {
                let needed_max = segment.present_count.saturating_sub(segment.delete_count);
                let is_more = found.count > needed_max;
                is_more.then(|| format!("and has {needed_max} that are no deletions"))
            }
        };
        if let Some(what) = contradiction {
            return Err(Error::Contradicted { segment: id, live: found.count, what });
        }
    }
    Ok(())
}
