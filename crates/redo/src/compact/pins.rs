//! Pins: files that somebody still reads are neither replaced nor removed.
//!
//! Whoever needs the blocks of a range of LSNs as they are (a backup that copies them, a replica
//! that lags behind) holds a [`Pin`]. As long as it is there no compaction of a file with blocks of
//! the range begins; one that is under way when the pin is asked for refuses it. So what a pin
//! covers is there for as long as it is held, and garbage goes when it is let go.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use base::Lsn;

use crate::compact::segments::Segment;
use crate::write::log::Log;

/// The ranges that are pinned, each under the number of its pin.
#[derive(Default)]
struct Held {
    next: u64,
    ranges: BTreeMap<u64, RangeInclusive<Lsn>>,
}

/// What is pinned in a log.
#[derive(Clone, Default)]
pub(crate) struct Pins(Arc<Mutex<Held>>);

impl Pins {
    fn lock(&self) -> MutexGuard<'_, Held> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether any block of the segment is pinned.
    pub(crate) fn cover(&self, segment: &Segment) -> bool {
        self.lock().ranges.values().any(|range| overlaps(segment, range))
    }

    /// How many pins there are.
    pub(crate) fn count(&self) -> usize {
        self.lock().ranges.len()
    }
}

fn overlaps(segment: &Segment, range: &RangeInclusive<Lsn>) -> bool {
    segment.min_lsn <= *range.end() && segment.max_lsn >= *range.start()
}

/// Keeps the blocks of a range of LSNs, and so the files with them, as they are until it is
/// dropped, on whatever thread.
#[must_use = "what is pinned is let go when the pin is dropped"]
pub struct Pin {
    number: u64,
    pins: Pins,
}

impl Drop for Pin {
    fn drop(&mut self) {
        self.pins.lock().ranges.remove(&self.number);
    }
}

impl Log {
    /// Pins the blocks of `range`, those to come included; `None` while one of their files is being
    /// compacted: ask again when that is over.
    pub fn pin(&self, range: RangeInclusive<Lsn>) -> Option<Pin> {
        let mut compacting = self.schedule.compacting().iter();
        let is_busy = compacting
            .any(|id| self.segments.get(*id).is_some_and(|segment| overlaps(segment, &range)));
        if is_busy {
            return None;
        }
        let mut held = self.pins.lock();
        let number = held.next;
        held.next += 1;
        held.ranges.insert(number, range);
        drop(held);
        Some(Pin { number, pins: self.pins.clone() })
    }
}
