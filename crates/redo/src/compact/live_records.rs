//! Which records are needed, by address.
//!
//! ```text
//!   7:130 ──► slots[7] ──► segments[slot]: words, record 130 is a bit
//! ```
//!
//! Addresses come in the order of their names' hashes, so each insertion is two array accesses and a
//! bit, as a retirement is (`segments`).

use base::{RecordAddr, SegmentId};

/// A set of addresses of records, a bit each: what is live, as an index of the log says.
#[derive(Debug, Clone, Default)]
pub struct LiveRecords {
    /// The place in `segments` of each segment id; [`NONE`] for those that have no record here.
    slots: Vec<u32>,
    segments: Vec<LiveSegment>,
    count: u64,
}

const NONE: u32 = u32::MAX;

/// The records of one segment.
#[derive(Debug, Clone)]
pub(crate) struct LiveSegment {
    pub(crate) segment: SegmentId,
    /// A bit a record, as far as there are any.
    pub(crate) words: Vec<u64>,
    pub(crate) count: u32,
    /// The largest ordinal.
    pub(crate) last: u32,
}

impl LiveRecords {
    /// Creates an empty set.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a record. Returns whether it is new.
    pub fn insert(&mut self, addr: RecordAddr) -> bool {
        let id = addr.segment().0 as usize;
        if id >= self.slots.len() {
            self.slots.resize(id + 1, NONE);
        }
        if self.slots[id] == NONE {
            self.slots[id] = u32::try_from(self.segments.len()).expect("fewer than segment ids");
            let (segment, words) = (addr.segment(), Vec::new());
            self.segments.push(LiveSegment { segment, words, count: 0, last: 0 });
        }
        let is_new = self.segments[self.slots[id] as usize].insert(addr.ordinal());
        self.count += u64::from(is_new);
        is_new
    }

    /// Returns whether the record is in the set.
    #[must_use]
    pub fn contains(&self, addr: RecordAddr) -> bool {
        let ordinal = addr.ordinal();
        self.of(addr.segment()).is_some_and(|segment| {
            let word = segment.words.get(ordinal as usize / 64);
            word.is_some_and(|word| word & (1 << (ordinal % 64)) != 0)
        })
    }

    /// Returns how many records there are.
    #[must_use]
    pub const fn count(&self) -> u64 {
        self.count
    }

    /// Returns how many records of a segment there are.
    #[must_use]
    pub fn count_in(&self, segment: SegmentId) -> u64 {
        self.of(segment).map_or(0, |found| u64::from(found.count))
    }

    /// The records of one segment, in order.
    pub fn in_segment(&self, segment: SegmentId) -> impl Iterator<Item = RecordAddr> + use<'_> {
        let words = self.of(segment).map_or(&[][..], |found| &found.words);
        let bits = words.iter().zip(0u32..).flat_map(|(word, at)| {
            (0..64).filter(move |bit| word & (1 << bit) != 0).map(move |bit| at * 64 + bit)
        });
        bits.map(move |ordinal| RecordAddr::new(segment, ordinal))
    }

    /// The records of one segment; `None` without any.
    pub(crate) fn of(&self, segment: SegmentId) -> Option<&LiveSegment> {
        let slot = *self.slots.get(segment.0 as usize)?;
        self.segments.get(slot as usize)
    }

    pub(crate) fn segments(&self) -> impl Iterator<Item = &LiveSegment> {
        self.segments.iter()
    }
}

impl LiveSegment {
    fn insert(&mut self, ordinal: u32) -> bool {
        let at = ordinal as usize / 64;
        if at >= self.words.len() {
            // By doubling: it happens a handful of times for a segment.
            self.words.resize((at + 1).next_power_of_two().max(64), 0);
        }
        let mask = 1 << (ordinal % 64);
        let is_new = self.words[at] & mask == 0;
        self.words[at] |= mask;
        self.count += u32::from(is_new);
        self.last = self.last.max(ordinal);
        is_new
    }
}

impl Extend<RecordAddr> for LiveRecords {
    fn extend<I: IntoIterator<Item = RecordAddr>>(&mut self, addrs: I) {
        for addr in addrs {
            self.insert(addr);
        }
    }
}

impl FromIterator<RecordAddr> for LiveRecords {
    fn from_iter<I: IntoIterator<Item = RecordAddr>>(addrs: I) -> Self {
        let mut live = Self::new();
        live.extend(addrs);
        live
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn behaves_like_a_set(picks in proptest::collection::vec((1u32..6, 0u32..700), 0..300)) {
            let mut live = LiveRecords::new();
            let mut model = BTreeSet::new();
            for (segment, ordinal) in picks {
                let addr = RecordAddr::new(SegmentId(segment), ordinal);
                prop_assert_eq!(live.insert(addr), model.insert(addr));
            }
            prop_assert_eq!(live.count(), model.len() as u64);
            for segment in 1..7 {
                let id = SegmentId(segment);
                let ours = || model.iter().filter(|addr| addr.segment() == id);
                let of = live.of(id);
                prop_assert_eq!(live.count_in(id), ours().count() as u64);
                prop_assert_eq!(of.map(|of| of.last), ours().map(|addr| addr.ordinal()).max());
                for ordinal in 0..701 {
                    let addr = RecordAddr::new(id, ordinal);
                    prop_assert_eq!(live.contains(addr), model.contains(&addr));
                }
            }
        }
    }
}
