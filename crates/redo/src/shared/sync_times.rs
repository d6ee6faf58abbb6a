//! How long the syncs of a device took: counts by powers of two, which the flusher adds to and others read.
//!
//! ```text
//!   ≤ 1 µs, ≤ 2, ≤ 4, … ≤ 2^24 (17 s)   above
//! ```

use std::sync::atomic::{AtomicU64, Ordering};

/// Bounds from 1 µs up to 2^24 µs, which is 17 seconds.
const BOUND_COUNT: usize = 25;

/// See the file's top.
#[derive(Default)]
pub(crate) struct SyncTimes {
    sum_us: AtomicU64,
    /// By bound, and at the end what took longer than the last.
    counts: [AtomicU64; BOUND_COUNT + 1],
}

/// What [`DeviceStats`](crate::DeviceStats) says of syncs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SyncLatency {
    /// How many there were.
    pub count: u64,
    /// How long all of them took together, in microseconds.
    pub sum_us: u64,
    /// Rising bounds in microseconds, each with how many syncs took no longer; those that took longer than the last are
    /// in `count` only.
    pub up_to_us: Vec<(u64, u64)>,
}

impl SyncTimes {
    /// Notes a sync.
    pub(crate) fn note(&self, elapsed_us: u64) {
        let power = (u64::BITS - (elapsed_us.max(1) - 1).leading_zeros()) as usize;
        self.sum_us.fetch_add(elapsed_us, Ordering::Relaxed);
        self.counts[power.min(BOUND_COUNT)].fetch_add(1, Ordering::Relaxed);
    }

    /// What was noted.
    pub(crate) fn seen(&self) -> SyncLatency {
        let mut count = 0;
        let up_to = self.counts.iter().enumerate().map(|(power, noted)| {
            count += noted.load(Ordering::Relaxed);
            (1 << power, count)
        });
        let mut up_to_us: Vec<(u64, u64)> = up_to.collect();
        up_to_us.truncate(BOUND_COUNT);
        SyncLatency { count, sum_us: self.sum_us.load(Ordering::Relaxed), up_to_us }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sync_counts_for_every_bound_that_it_did_not_exceed() {
        let times = SyncTimes::default();
        for elapsed_us in [0, 1, 2, 3, 1024, 1025, 1 << 24, (1 << 24) + 1, u64::MAX >> 8] {
            times.note(elapsed_us);
        }
        let seen = times.seen();
        let up_to = |bound| seen.up_to_us.iter().find(|it| it.0 == bound).map(|it| it.1);
        assert_eq!([1, 2, 4, 1024, 2048, 1 << 24].map(up_to), [2, 3, 4, 5, 6, 7].map(Some));
        assert_eq!((seen.count, seen.up_to_us.last().unwrap().0), (9, 1 << 24));
    }
}
