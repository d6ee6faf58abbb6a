//! Which records are needed, by address.

use std::collections::HashMap;

use base::{RecordAddr, SegmentId};

/// A set of addresses of records, a bit each.
#[derive(Debug, Clone, Default)]
pub struct LiveRecords {
    segments: HashMap<SegmentId, Vec<u64>>,
    count: u64,
}

impl LiveRecords {
    /// Creates an empty set.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a record. Returns whether it is new.
    pub fn insert(&mut self, addr: RecordAddr) -> bool {
        let words = self.segments.entry(addr.segment()).or_default();
        let at = addr.ordinal() as usize / 64;
        if at >= words.len() {
            words.resize((at + 1).next_power_of_two(), 0);
        }
        let mask = 1 << (addr.ordinal() % 64);
        let is_new = words[at] & mask == 0;
        words[at] |= mask;
        self.count += u64::from(is_new);
        is_new
    }

    /// Returns whether the record is in the set.
    #[must_use]
    pub fn contains(&self, addr: RecordAddr) -> bool {
        let words = self.segments.get(&addr.segment());
        let word = words.and_then(|words| words.get(addr.ordinal() as usize / 64));
        word.is_some_and(|word| word & (1 << (addr.ordinal() % 64)) != 0)
    }

    /// Returns how many records there are.
    #[must_use]
    pub const fn count(&self) -> u64 {
        self.count
    }
}
