//! The executor's table of segments: what is garbage in each, and what compaction may conclude.
//!
//! ```text
//!   RecordAddr 7:130 ──► slots[7] ──► segments[slot].bitmap, record 130
//! ```
//!
//! Retiring a record is two array accesses and a bit; nothing is hashed. What a compaction has
//! dropped stays garbage in the bitmap, and `invalid_count` counts only what is still in the file.
//!
//! Segments that share a file are compacted together. The first of them, after which the file is
//! named, *leads*: it knows the others, and they know it.
//!
//! # When a delete record may be dropped
//!
//! A delete record D of entry e, in block T and segment S, is needed as long as an older record R
//! of e is in some file: without D, recovery would bring R back.
//!
//! Each segment remembers the LSN of its *first invalidation* since the bitmap of its last
//! compaction was copied: the LSN that was open when, after that copy, a bit was first set.
//! D may be dropped when for every segment S' other than S that has a block older than T, that LSN
//! is later than T or there is none. For suppose R is in the file of S' all the same. R was
//! retired when its successor was logged, at an LSN U ≤ T. If that was after the copy, the first
//! invalidation is ≤ U ≤ T, and the rule forbids it. If it was before the copy, the compaction saw
//! R's bit and dropped R: it is not in the file. If S' was never compacted, every invalidation
//! counts. And when R is in S itself, its bit was set at U ≤ T, before the copy that this
//! compaction works with (D's block is sealed, so T is past): R is dropped in the same rename as
//! D, or earlier.
//!
//! After a recovery that reads everything the LSNs are rebuilt: R is retired when its next record that
//! is still there is applied, which is D at the latest, so at an LSN ≤ T, which is all that the argument
//! uses. Retirements of the end of recovery (elements without a root) count as LSN 0: they forbid.
//!
//! After a start from an index nothing says when R was retired, only later that it is not live
//! (`validity`); until then nothing is compacted. Then the first invalidation of a segment with garbage
//! is its *oldest block*, or, if it was compacted before, the LSN that was open when the bitmap for
//! that was copied. Both are ≤ U: R's block is older than its successor's, and what was retired before
//! the copy is not in the file. A segment whose records are all live has no R, and no first
//! invalidation. What is retired after the start counts as ever, whichever is less.
//!
//! Delete records are not live in an index, so their bits may be set, and mean nothing: whether a delete
//! record stays is for the floor alone to say, and `invalid_count` counts others only.
//!
//! For all T at once: D may go when T is below [`Segments::delete_floor`], the smallest
//! `max(oldest block + 1, first invalidation)` of the other segments.

use base::{Lsn, RecordAddr, SegmentId};

use crate::compact::bitmap::Bitmap;
use crate::compact::live_records::LiveSegment;
use crate::format::segment::Footer;
use crate::shared::device::Part;

/// What the executor knows of one segment.
pub(crate) struct Segment {
    pub(crate) id: SegmentId,
    /// The index of the device that has its file.
    pub(crate) device: usize,
    /// Its further parts.
    pub(crate) parts: Vec<Part>,
    /// The segment that its file is named after; itself unless it shares the file.
    pub(crate) leader: SegmentId,
    /// Of a leader: the others in its file.
    pub(crate) followers: Vec<SegmentId>,
    /// Which of its records are no longer needed.
    pub(crate) bitmap: Bitmap,
    /// How many records it ever had.
    pub(crate) record_count: u32,
    /// How many of them are in the file.
    pub(crate) present_count: u32,
    /// How many of those are garbage, without delete records.
    pub(crate) invalid_count: u32,
    /// How many of those in the file say that an entry is gone.
    pub(crate) delete_count: u32,
    /// The length of its files.
    pub(crate) bytes: u64,
    /// The oldest block in the file.
    pub(crate) min_lsn: Lsn,
    /// The newest block that it ever had.
    pub(crate) max_lsn: Lsn,
    /// See the proof above.
    pub(crate) first_invalidation: Option<Lsn>,
    /// The same since before the copy for the compaction that is under way.
    first_invalidation_before_copy: Option<Lsn>,
    /// How much of the copy was garbage, to know what came later.
    invalid_at_copy: u32,
    pub(crate) generation: u32,
    /// The LSN that was open at the last copy.
    pub(crate) compaction_lsn: Lsn,
    pub(crate) is_sealed: bool,
}

impl Segment {
    pub(crate) fn new(id: SegmentId, device: usize) -> Self {
        Self {
            id,
            device,
            parts: Vec::new(),
            leader: id,
            followers: Vec::new(),
            bitmap: Bitmap::default(),
            record_count: 0,
            present_count: 0,
            invalid_count: 0,
            delete_count: 0,
            bytes: 0,
            min_lsn: Lsn::ZERO,
            max_lsn: Lsn::ZERO,
            first_invalidation: None,
            first_invalidation_before_copy: None,
            invalid_at_copy: 0,
            generation: 0,
            compaction_lsn: Lsn::ZERO,
            is_sealed: false,
        }
    }

    /// Marks a record as garbage; `lsn` is the open one. Whether it was not before.
    fn retire(&mut self, ordinal: u32, lsn: Lsn) -> bool {
        let is_new = self.bitmap.retire(ordinal);
        if is_new {
            self.invalid_count += 1;
            if self.first_invalidation.is_none_or(|first| lsn < first) {
                self.first_invalidation = Some(lsn);
            }
        }
        is_new
    }

    /// Counts a block in.
    pub(crate) fn add_block(&mut self, lsn: Lsn, records: u32, deletes: u32, bytes: u64) {
        if self.min_lsn == Lsn::ZERO {
            self.min_lsn = lsn;
        }
        self.max_lsn = lsn;
        self.record_count += records;
        self.present_count += records;
        self.delete_count += deletes;
        self.bytes += bytes;
    }

    /// Counts in a block that recovery has read; its last record is before `next_ordinal`.
    pub(crate) fn note_replayed(
        &mut self,
        lsn: Lsn,
        records: u32,
        deletes: u32,
        next_ordinal: u32,
    ) {
        if self.min_lsn == Lsn::ZERO {
            self.min_lsn = lsn;
        }
        self.max_lsn = self.max_lsn.max(lsn);
        self.record_count = self.record_count.max(next_ordinal);
        self.present_count += records;
        self.delete_count += deletes;
    }

    /// Counts in a sealed file that recovery has not read, all that there is of the segment.
    pub(crate) fn note_unread(&mut self, footer: &Footer) {
        self.min_lsn = footer.min_lsn;
        self.max_lsn = self.max_lsn.max(footer.max_lsn);
        self.record_count = self.record_count.max(footer.survivors.len());
        self.present_count = footer.survivors.count();
        self.delete_count = footer.delete_count;
    }

    /// Takes over which of its records are live, apart from what was retired since the start; so far
    /// nothing else counts as garbage. See `validity`.
    pub(crate) fn take_live(&mut self, live: Option<&LiveSegment>) {
        let (words, live_count) = live.map_or((&[][..], 0), |live| (&live.words[..], live.count));
        let retired_count = self.bitmap.retire_all_but(words, live_count, self.record_count);
        // Delete records are neither live nor garbage.
        let other_count = self.present_count.saturating_sub(self.delete_count);
        let invalid_at_start = other_count.saturating_sub(live_count);
        if invalid_at_start > 0 {
            let oldest = self.min_lsn.max(self.compaction_lsn);
            let first = self.first_invalidation.map_or(oldest, |first| first.min(oldest));
            self.first_invalidation = Some(first);
        }
        self.invalid_count = (invalid_at_start + retired_count).min(other_count);
        self.bitmap.compress(self.record_count, self.present_count - self.invalid_count);
    }

    /// The bitmap for a compaction; from now on invalidations are counted anew.
    pub(crate) fn copy_bitmap(&mut self, open_lsn: Lsn) -> Bitmap {
        let copy = self.bitmap.clone();
        self.first_invalidation_before_copy = self.first_invalidation.take();
        self.invalid_at_copy = self.invalid_count;
        self.compaction_lsn = open_lsn;
        copy
    }

    /// The compaction for which [`Segment::copy_bitmap`] was called has replaced the file.
    pub(crate) fn note_compacted(&mut self, present: u32, deletes: u32, bytes: u64, min: Lsn) {
        self.invalid_count -= self.invalid_at_copy;
        self.present_count = present;
        self.delete_count = deletes;
        self.bytes = bytes;
        self.min_lsn = min;
        self.generation += 1;
        self.first_invalidation_before_copy = None;
        self.parts.clear();
        self.bitmap.compress(self.record_count, present - self.invalid_count);
    }

    /// That compaction has failed.
    pub(crate) fn note_compaction_failed(&mut self) {
        let before = self.first_invalidation_before_copy.take();
        self.first_invalidation = match (before, self.first_invalidation) {
            (Some(before), Some(since)) => Some(before.min(since)),
            (before, since) => before.or(since),
        };
    }

    /// The first invalidation whose record may still be in the file.
    fn first_invalidation_in_file(&self) -> Option<Lsn> {
        match (self.first_invalidation_before_copy, self.first_invalidation) {
            (Some(before), Some(since)) => Some(before.min(since)),
            (before, since) => before.or(since),
        }
    }

    /// How many records of entries that are still there are in the segment.
    pub(crate) fn live_count(&self) -> u32 {
        self.present_count.saturating_sub(self.invalid_count + self.delete_count)
    }

    /// About how many bytes of the files are still needed.
    pub(crate) fn live_bytes(&self) -> u64 {
        let live = u64::from(self.present_count - self.invalid_count.min(self.present_count));
        self.bytes / u64::from(self.present_count.max(1)) * live
    }

    /// How much memory the bitmap takes.
    pub(crate) fn bitmap_bytes(&self) -> usize {
        self.bitmap.bytes()
    }

    /// Delete records of this LSN and above are still needed because of this segment.
    pub(crate) fn delete_floor(&self) -> Option<Lsn> {
        if self.present_count == 0 {
            return None;
        }
        self.first_invalidation_in_file().map(|first| first.max(self.min_lsn.next()))
    }
}

/// The segments of a log.
#[derive(Default)]
pub(crate) struct Segments {
    /// The place in `segments` of each segment id; [`NONE`] for those that are gone.
    slots: Vec<u32>,
    segments: Vec<Segment>,
    /// How many records were ever retired.
    retired_total: u64,
}

const NONE: u32 = u32::MAX;

impl Segments {
    /// Adds a segment.
    pub(crate) fn insert(&mut self, segment: Segment) {
        let id = segment.id.0 as usize;
        if id >= self.slots.len() {
            self.slots.resize(id + 1, NONE);
        }
        assert!(self.slots[id] == NONE, "a segment is known once");
        self.slots[id] = u32::try_from(self.segments.len()).expect("fewer than segment ids");
        self.segments.push(segment);
    }

    /// Forgets a segment whose files are gone.
    pub(crate) fn remove(&mut self, id: SegmentId) {
        let slot = std::mem::replace(&mut self.slots[id.0 as usize], NONE);
        self.segments.swap_remove(slot as usize);
        if let Some(moved) = self.segments.get(slot as usize) {
            self.slots[moved.id.0 as usize] = slot;
        }
    }

    pub(crate) fn get(&self, id: SegmentId) -> Option<&Segment> {
        let slot = *self.slots.get(id.0 as usize)?;
        self.segments.get(slot as usize)
    }

    pub(crate) fn get_mut(&mut self, id: SegmentId) -> Option<&mut Segment> {
        let slot = *self.slots.get(id.0 as usize)?;
        self.segments.get_mut(slot as usize)
    }

    /// Forgets the segments that turned out to have no record.
    pub(crate) fn remove_empty(&mut self) {
        let empty = self.segments.iter().filter(|segment| segment.present_count == 0);
        let ids: Vec<SegmentId> = empty.map(|segment| segment.id).collect();
        ids.into_iter().for_each(|id| self.remove(id));
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Segment> {
        self.segments.iter()
    }

    /// The segments in the file that is named after `leader`.
    pub(crate) fn file(&self, leader: SegmentId) -> impl Iterator<Item = &Segment> {
        let leader = self.get(leader);
        let followers = leader.into_iter().flat_map(|leader| &leader.followers);
        leader.into_iter().chain(followers.filter_map(|id| self.get(*id)))
    }

    /// Notes that these segments are, in this order, in one file.
    pub(crate) fn share_file(&mut self, ids: &[SegmentId]) {
        let Some((leader, followers)) = ids.split_first() else { return };
        for id in ids {
            if let Some(segment) = self.get_mut(*id) {
                segment.leader = *leader;
                segment.followers.clear();
            }
        }
        if let Some(segment) = self.get_mut(*leader) {
            segment.followers.extend_from_slice(followers);
        }
    }

    /// Says that a record is no longer needed. Whether that is news: not in a segment that is gone, as
    /// when what an index has called garbage was compacted before it is retired.
    #[inline]
    pub(crate) fn retire(&mut self, addr: RecordAddr, lsn: Lsn) -> bool {
        let Some(segment) = self.get_mut(addr.segment()) else { return false };
        let is_new = segment.retire(addr.ordinal(), lsn);
        self.retired_total += u64::from(is_new);
        is_new
    }

    /// Whether a record is garbage, or its segment gone.
    pub(crate) fn is_retired(&self, addr: RecordAddr) -> bool {
        let segment = self.get(addr.segment());
        segment.is_none_or(|segment| segment.bitmap.is_retired(addr.ordinal()))
    }

    /// How many records were ever retired in this life of the log.
    pub(crate) const fn retired_total(&self) -> u64 {
        self.retired_total
    }

    /// Delete records in `except` with a smaller LSN than this are no longer needed.
    pub(crate) fn delete_floor(&self, except: SegmentId) -> Lsn {
        let others = self.segments.iter().filter(|segment| segment.id != except);
        others.filter_map(Segment::delete_floor).min().unwrap_or(Lsn(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compact::live_records::LiveRecords;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn segment(id: u32, first: u64, last: u64) -> Segment {
        let mut segment = Segment::new(SegmentId(id), 0);
        segment.add_block(Lsn(first), 100, 0, 1);
        segment.add_block(Lsn(last), 100, 0, 1);
        segment
    }

    fn addr(segment: u32, ordinal: u32) -> RecordAddr {
        RecordAddr::new(SegmentId(segment), ordinal)
    }

    #[test]
    fn deletes_are_held_by_the_first_invalidation_of_other_segments_only() {
        let mut segments = Segments::default();
        segments.insert(segment(1, 1, 10));
        segments.insert(segment(2, 11, 20));
        assert_eq!(segments.delete_floor(SegmentId(2)), Lsn(u64::MAX), "cold data holds nothing");
        segments.retire(addr(1, 3), Lsn(15));
        segments.retire(addr(1, 4), Lsn(18));
        assert_eq!(segments.delete_floor(SegmentId(2)), Lsn(15));
        assert_eq!(segments.delete_floor(SegmentId(1)), Lsn(u64::MAX));
        let copied = segments.get_mut(SegmentId(1)).unwrap();
        let bitmap = copied.copy_bitmap(Lsn(21));
        assert_eq!([2, 3, 4, 5].map(|at| bitmap.is_retired(at)), [false, true, true, false]);
        assert_eq!(segments.delete_floor(SegmentId(2)), Lsn(15), "until the file is replaced");
        segments.get_mut(SegmentId(1)).unwrap().note_compacted(198, 0, 1, Lsn(1));
        assert_eq!(segments.delete_floor(SegmentId(2)), Lsn(u64::MAX));
        segments.retire(addr(1, 5), Lsn(22));
        assert_eq!(segments.delete_floor(SegmentId(2)), Lsn(22));
        assert_eq!(segments.get(SegmentId(1)).unwrap().invalid_count, 1);
    }

    #[test]
    fn a_failed_compaction_leaves_the_older_invalidation_in_force() {
        let mut segments = Segments::default();
        segments.insert(segment(1, 1, 10));
        segments.insert(segment(2, 11, 20));
        segments.retire(addr(1, 3), Lsn(15));
        segments.get_mut(SegmentId(1)).unwrap().copy_bitmap(Lsn(16));
        segments.retire(addr(1, 4), Lsn(17));
        segments.get_mut(SegmentId(1)).unwrap().note_compaction_failed();
        assert_eq!(segments.delete_floor(SegmentId(2)), Lsn(15));
    }

    #[test]
    fn conservative_retirements_hold_everything_younger_than_the_segment() {
        let mut segments = Segments::default();
        segments.insert(segment(1, 5, 10));
        segments.insert(segment(2, 11, 20));
        segments.retire(addr(1, 3), Lsn::ZERO);
        assert_eq!(segments.delete_floor(SegmentId(2)), Lsn(6));
    }

    #[test]
    fn after_a_start_from_an_index_garbage_holds_deletes_and_live_records_do_not() {
        let live = |ordinals: std::ops::Range<u32>| -> LiveRecords {
            ordinals.map(|ordinal| addr(1, ordinal)).collect()
        };
        let taken = |compaction_lsn: u64, live: &LiveRecords| {
            let mut segments = Segments::default();
            segments.insert(segment(1, 5, 10));
            segments.insert(segment(2, 11, 20));
            let first = segments.get_mut(SegmentId(1)).unwrap();
            first.compaction_lsn = Lsn(compaction_lsn);
            first.delete_count = 20;
            segments.retire(addr(1, 3), Lsn(30));
            segments.retire(addr(1, 199), Lsn(31));
            let first = segments.get_mut(SegmentId(1)).unwrap();
            first.take_live(live.of(SegmentId(1)));
            (first.invalid_count, first.live_count(), segments.delete_floor(SegmentId(2)))
        };
        // Of 200 records 20 are deletions; of the 180 others two are retired, one of them was live.
        assert_eq!(taken(0, &live(0..180)), (1, 179, Lsn(30)), "all were live at the start");
        assert_eq!(taken(0, &live(0..100)), (81, 99, Lsn(6)), "some older than its blocks");
        assert_eq!(taken(25, &live(0..100)), (81, 99, Lsn(25)), "what is older is not in the file");
        assert_eq!(taken(0, &live(0..0)), (180, 0, Lsn(6)));
    }

    proptest! {
        #[test]
        fn counts_like_a_set(ordinals in proptest::collection::vec(0u32..10_000, 0..200)) {
            let mut segments = Segments::default();
            segments.insert(Segment::new(SegmentId(3), 0));
            let mut model = BTreeSet::new();
            for ordinal in ordinals {
                segments.retire(addr(3, ordinal), Lsn(1));
                model.insert(ordinal);
            }
            let segment = segments.get_mut(SegmentId(3)).unwrap();
            segment.record_count = 10_000;
            prop_assert_eq!(segment.invalid_count as usize, model.len());
            let bitmap = segment.copy_bitmap(Lsn(2));
            for ordinal in 0..10_000u32 {
                prop_assert_eq!(bitmap.is_retired(ordinal), model.contains(&ordinal));
            }
        }

        #[test]
        fn segments_are_found_whatever_was_removed(removed: BTreeSet<u8>) {
            let mut segments = Segments::default();
            (1..=255).for_each(|id| segments.insert(Segment::new(SegmentId(id), 0)));
            for id in &removed {
                if *id > 0 {
                    segments.remove(SegmentId(u32::from(*id)));
                }
            }
            for id in 1..=255u8 {
                let found = segments.get(SegmentId(u32::from(id))).map(|segment| segment.id);
                let expected = (!removed.contains(&id)).then_some(SegmentId(u32::from(id)));
                prop_assert_eq!(found, expected);
            }
        }
    }
}
