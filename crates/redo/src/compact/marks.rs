//! Marks as the executor has them: bitmaps as of an LSN, copied later.
//!
//! ```text
//!   mark at N        ... retire 7:3 ... tick: copy 1–90 ... retire 8:1 ... tick: copy 91–180
//!      │                     └──────────────┬──────────────────┘
//!      nothing is copied                  since: 7:3, 8:1
//!
//!   the consumer: bitmap@N = the copy, without the bits of `since`
//! ```
//!
//! A log of 64 GB has a thousand bitmaps of some 40 KB. Copying them when the mark is made, or each
//! at its first retirement, would stop the executor for tens of milliseconds. So what is retired
//! after the mark is noted, eight bytes a record; the bitmaps are copied in slices, those of
//! segments that a compaction is ordered for first; and the consumer takes the notes back out. There
//! is one list of notes for all marks, each of which knows where it began. At
//! [`SINCE_BYTES_MAX`] of it the rest is copied at once.
//!
//! 1. **N is a sealed block**, the open one included if it has records: then the mark waits until it
//!    is sealed, which the log never does by itself. So a mark lies between transactions. By the
//!    time a block is sealed all that its records replace is retired ([`crate::Log::retire`]).
//! 2. **Published when N is durable**: otherwise a crash could give N to another block.
//! 3. Ordinals that a segment did not have at N are no records. Only segments that take the log grow;
//!    what they had is noted at the mark.
//! 4. A segment that is gone before its bitmap was copied had nothing that was valid at N: its
//!    compaction was ordered before the mark, or the bitmap was copied at the order.

use std::collections::BTreeSet;
use std::sync::Arc;

use base::{Lsn, RecordAddr, SegmentId};

use crate::compact::bitmap::Bitmap;
use crate::compact::holds::Holds;
use crate::compact::kept::MarkId;
use crate::compact::mark_slot::{Marked, Slot};
use crate::compact::segments::Segments;

/// How many bytes of notes there may be.
const SINCE_BYTES_MAX: usize = 64 << 20;

/// So many notes are allocated at a time.
const CHUNK_NOTES: usize = 8 << 10;

/// What looking at a segment costs beyond the bytes of its bitmap, in bytes copied.
const SEGMENT_COST_BYTES: usize = 1 << 10;

/// A segment that took the log when a mark was made: what it had then.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Growing {
    pub(crate) segment: SegmentId,
    pub(crate) record_count: u32,
    pub(crate) delete_count: u32,
}

/// A segment as of a mark, before the notes are taken out.
pub(crate) struct MarkedSegment {
    pub(crate) id: SegmentId,
    /// How many records it had: ordinals from here on are none.
    pub(crate) record_count: u32,
    /// How many of its records, without delete records, are valid.
    pub(crate) valid_count: u32,
    /// It took the log: how many of its records are delete records. `valid_count` is not known yet.
    pub(crate) growing_deletes: Option<u32>,
    /// The newest block that it ever had, and maybe one behind the mark.
    pub(crate) newest: Lsn,
    pub(crate) bitmap: Bitmap,
}

/// What was retired since the first mark that is being copied, in order.
#[derive(Default)]
struct Since {
    /// How many notes there were before those of `full`.
    before: u64,
    full: Vec<Arc<Vec<RecordAddr>>>,
    last: Vec<RecordAddr>,
}

impl Since {
    fn end(&self) -> u64 {
        let full: usize = self.full.iter().map(|chunk| chunk.len()).sum();
        self.before + (full + self.last.len()) as u64
    }

    fn bytes(&self) -> usize {
        (self.full.len() + 1) * CHUNK_NOTES * size_of::<RecordAddr>()
    }

    #[inline]
    fn push(&mut self, addr: RecordAddr) {
        if self.last.len() == self.last.capacity() {
            self.close_chunk();
        }
        self.last.push(addr);
    }

    #[cold]
    fn close_chunk(&mut self) {
        let full = std::mem::replace(&mut self.last, Vec::with_capacity(CHUNK_NOTES));
        if !full.is_empty() {
            self.full.push(Arc::new(full));
        }
    }

    /// The notes from `start` on, and how many at the front of the first chunk are older.
    fn from(&mut self, start: u64) -> (Vec<Arc<Vec<RecordAddr>>>, usize) {
        self.close_chunk();
        let mut at = self.before;
        let mut chunks = Vec::new();
        let mut skipped = 0;
        for chunk in &self.full {
            let end = at + chunk.len() as u64;
            if end > start {
                if chunks.is_empty() {
                    skipped = usize::try_from(start.saturating_sub(at)).expect("within a chunk");
                }
                chunks.push(Arc::clone(chunk));
            }
            at = end;
        }
        (chunks, skipped)
    }

    /// Forgets notes before `start`, in whole chunks.
    fn forget_before(&mut self, start: u64) {
        while let Some(first) = self.full.first()
            && self.before + first.len() as u64 <= start
        {
            self.before += first.len() as u64;
            self.full.remove(0);
        }
    }
}

/// A mark whose bitmaps are not all copied.
struct Copying {
    lsn: Lsn,
    /// Where in the notes it begins.
    since: u64,
    segment_end: SegmentId,
    growing: Vec<Growing>,
    /// The next segment to be copied.
    next: SegmentId,
    copied: Vec<MarkedSegment>,
    /// Segments that were copied before their turn.
    ahead: BTreeSet<SegmentId>,
    slot: Arc<Slot>,
}

/// A mark that holds files.
struct Open {
    id: MarkId,
    /// How much had been retired when it was made.
    retired_total: u64,
}

/// See the file's top.
pub(crate) struct Marks {
    holds: Arc<Holds>,
    /// Marks that are made when the open block is sealed.
    waiting: Vec<Arc<Slot>>,
    copying: Vec<Copying>,
    /// Marks that have been copied and wait until their block is durable.
    copied: Vec<(Arc<Slot>, Marked)>,
    open: Vec<Open>,
    since: Since,
}

impl Drop for Marks {
    fn drop(&mut self) {
        let copying = self.copying.iter().map(|copying| &copying.slot);
        let copied = self.copied.iter().map(|(slot, _)| slot);
        self.waiting.iter().chain(copying).chain(copied).for_each(|slot| slot.give_up());
    }
}

impl Marks {
    pub(crate) fn new(holds: Arc<Holds>) -> Self {
        Self {
            holds,
            waiting: Vec::new(),
            copying: Vec::new(),
            copied: Vec::new(),
            open: Vec::new(),
            since: Since::default(),
        }
    }

    pub(crate) const fn holds(&self) -> &Arc<Holds> {
        &self.holds
    }

    /// Whether retirements are to be noted.
    #[inline]
    pub(crate) const fn notes_retirements(&self) -> bool {
        !self.copying.is_empty()
    }

    /// Whether a mark waits for the open block to be sealed.
    #[inline]
    pub(crate) const fn waits_for_seal(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// How many marks hold files.
    pub(crate) fn open_count(&self) -> usize {
        self.open.len()
    }

    /// A mark is wanted at the end of the open block.
    pub(crate) fn wait_for_seal(&mut self, slot: Arc<Slot>) {
        self.waiting.push(slot);
    }

    /// The marks that waited for the block that was just sealed.
    pub(crate) fn take_waiting(&mut self) -> Vec<Arc<Slot>> {
        std::mem::take(&mut self.waiting)
    }

    /// Makes a mark at `lsn`, the last block. `growing` are the segments that take the log.
    pub(crate) fn begin(
        &mut self,
        slot: Arc<Slot>,
        lsn: Lsn,
        segments: &Segments,
        segment_end: SegmentId,
        growing: Vec<Growing>,
    ) {
        let id = self.holds.open(segment_end);
        if !slot.set_point(lsn, id) {
            // It was dropped while it waited.
            self.holds.close(id);
            return;
        }
        self.open.push(Open { id, retired_total: segments.retired_total() });
        let since = self.since.end();
        let (next, copied, ahead) = (SegmentId(0), Vec::new(), BTreeSet::new());
        self.copying.push(Copying { lsn, since, segment_end, growing, next, copied, ahead, slot });
    }

    /// Notes a retirement that no copy from before it has.
    pub(crate) fn note_retired(&mut self, addr: RecordAddr, segments: &Segments) {
        self.since.push(addr);
        if self.since.bytes() > SINCE_BYTES_MAX {
            self.copy_some(segments, usize::MAX);
        }
    }

    /// The marks whose files a compaction that is ordered now would replace; the bitmaps of its
    /// segments are copied for those that have not got them.
    pub(crate) fn note_order(&mut self, members: &[SegmentId], segments: &Segments) -> Vec<MarkId> {
        for copying in &mut self.copying {
            for id in members {
                if *id >= copying.next && copying.ahead.insert(*id) {
                    copying.copy(*id, segments);
                }
            }
        }
        let total = segments.retired_total();
        let needy = self.open.iter().filter(|open| open.retired_total != total);
        needy.map(|open| open.id).collect()
    }

    /// Copies bitmaps of about `budget_bytes`.
    pub(crate) fn copy_some(&mut self, segments: &Segments, mut budget_bytes: usize) {
        while budget_bytes > 0
            && let Some(copying) = self.copying.first_mut()
        {
            budget_bytes = copying.copy_next(segments, budget_bytes);
            let is_over = copying.next >= copying.segment_end;
            if is_over || copying.slot.is_dropped() {
                let over = self.copying.remove(0);
                let (since, skipped) = self.since.from(over.since);
                let Copying { lsn, mut copied, slot, .. } = over;
                copied.sort_by_key(|segment| segment.id);
                self.copied.push((slot, Marked { lsn, segments: copied, since, skipped }));
                match self.copying.first() {
                    Some(next) => self.since.forget_before(next.since),
                    None => self.since = Since::default(),
                }
            }
        }
    }

    /// Publishes what is copied and durable, and forgets marks that were dropped.
    pub(crate) fn publish(&mut self, durable: Lsn) {
        if self.open.is_empty() {
            return;
        }
        for (slot, marked) in self.copied.extract_if(.., |(_, marked)| marked.lsn <= durable) {
            slot.publish(marked);
        }
    }

    /// Forgets marks that were dropped.
    pub(crate) fn forget_dropped(&mut self) {
        if !self.open.is_empty() {
            self.open.retain(|open| self.holds.is_open(open.id));
            self.copied.retain(|(slot, _)| !slot.is_dropped());
        }
    }
}

impl Copying {
    /// Copies on, for at most about `budget_bytes`; what is left of them.
    fn copy_next(&mut self, segments: &Segments, mut budget_bytes: usize) -> usize {
        while self.next < self.segment_end && budget_bytes > 0 {
            let id = self.next;
            self.next = SegmentId(id.0 + 1);
            if !self.ahead.remove(&id) {
                budget_bytes = budget_bytes.saturating_sub(self.copy(id, segments));
            }
        }
        budget_bytes
    }

    /// Copies a segment's bitmap; what it cost.
    fn copy(&mut self, id: SegmentId, segments: &Segments) -> usize {
        const NOTHING_BYTES: usize = 8;
        let Some(segment) = segments.get(id).filter(|_| id < self.segment_end) else {
            return NOTHING_BYTES;
        };
        let growing = self.growing.iter().find(|growing| growing.segment == id);
        self.copied.push(MarkedSegment {
            id,
            record_count: growing.map_or(segment.record_count, |growing| growing.record_count),
            valid_count: segment.live_count(),
            growing_deletes: growing.map(|growing| growing.delete_count),
            newest: segment.max_lsn,
            bitmap: segment.bitmap.clone(),
        });
        segment.bitmap_bytes() + SEGMENT_COST_BYTES
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compact::segments::Segment;

    fn addr(segment: u32, ordinal: u32) -> RecordAddr {
        RecordAddr::new(SegmentId(segment), ordinal)
    }

    #[test]
    fn notes_are_bounded() {
        let mut segments = Segments::default();
        segments.insert(Segment::new(SegmentId(1), 0));
        let mut marks = Marks::new(Arc::default());
        let slot = Arc::new(Slot::default());
        marks.begin(Arc::clone(&slot), Lsn(1), &segments, SegmentId(2), Vec::new());
        let notes_max = u32::try_from(SINCE_BYTES_MAX / size_of::<RecordAddr>()).unwrap();
        let mut count = 0;
        while marks.notes_retirements() {
            marks.note_retired(addr(1, count), &segments);
            count += 1;
            assert!(count <= notes_max + 1, "the rest is copied at once");
        }
        assert!(count > notes_max / 2, "{count}");
        marks.publish(Lsn(1));
        let (marked, _) = slot.take().unwrap();
        assert_eq!((marked.segments.len(), marks.since.end()), (1, 0));
    }

    #[test]
    fn each_mark_has_the_notes_from_its_beginning_on() {
        let mut since = Since::default();
        let mut ends = Vec::new();
        for ordinal in 0..3 * u32::try_from(CHUNK_NOTES).unwrap() {
            if ordinal % 5000 == 0 {
                ends.push(since.end());
            }
            since.push(addr(1, ordinal));
        }
        for start in ends {
            let (chunks, skipped) = since.from(start);
            let notes: Vec<u32> =
                chunks.iter().flat_map(|chunk| chunk.iter().map(|addr| addr.ordinal())).collect();
            let first = u32::try_from(start).unwrap();
            assert_eq!(notes[skipped], first);
            assert_eq!(u64::from(*notes.last().unwrap()) + 1, since.end());
            since.forget_before(start);
            assert_eq!(
                since.from(start).0.iter().map(|chunk| chunk.len()).sum::<usize>(),
                notes.len()
            );
        }
    }
}
