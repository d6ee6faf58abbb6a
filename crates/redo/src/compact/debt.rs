//! What happens when compaction cannot keep up: first it is freed of its rate, then writers wait.
//!
//! ```text
//!   garbage / live data   0 ─────────────── 0.5 ─────────────── 1 ───────►
//!   compaction's rate     as configured      │ as fast as it goes
//!   writers               ──────── go on ───────────────────────│ wait for compactions
//! ```
//!
//! The log is promised to be at most twice its live data, or some segments more than they if they are
//! few. A compactor that gets too little of the processor or of the device would break that, however
//! fast it may read; so clients that write are held back, as they are when a device does not keep up,
//! until what they have written before is compacted.
//!
//! Deleting is not punished: when the live data shrink under the log that is there,
//! the log must not grow until compaction has caught up, but writers may have what it gives back.
//! Nor does anybody wait while nothing is being compacted: there is nothing to wait for.

use std::sync::atomic::Ordering;

use base::SegmentId;

use crate::compact::segments::{Segment, Segments};
use crate::shared::device::Shared;

/// Compaction is behind when garbage is more than this share of the live data's bytes.
const BEHIND_SHARE: f64 = 0.5;

/// However little data there is, the log may have so many segments more: the least are 64 MiB,
/// which no disk lacks, and with a quarter of that clients that overwrite 10 MB again and again
/// were a fifth slower.
const ROOM_SEGMENTS: u64 = 16;

/// How much the log is, and how much it may be.
pub(crate) struct Debt {
    limit_bytes: u64,
    is_over: bool,
}

impl Default for Debt {
    fn default() -> Self {
        Self { limit_bytes: u64::MAX, is_over: false }
    }
}

impl Debt {
    /// Whether the log is larger than it may be, and a compaction is on its way to change that.
    pub(crate) const fn is_over(&self) -> bool {
        self.is_over
    }

    /// Sees that the log has `log_bytes`, what is being written anew included, for `live_bytes` of
    /// data, in segments of `segment_bytes`, of which `open_count` take the log.
    fn follow(
        &mut self,
        log_bytes: u64,
        live_bytes: u64,
        segment_bytes: u64,
        open_count: u64,
        is_compacting: bool,
    ) {
        let wanted = (2 * live_bytes).max(live_bytes + ROOM_SEGMENTS * segment_bytes);
        // The next segments begin before a compaction has given any back.
        let as_now = log_bytes + (1 + open_count) * segment_bytes;
        self.limit_bytes = self.limit_bytes.min(as_now).max(wanted);
        self.is_over = is_compacting && log_bytes > self.limit_bytes;
    }
}

impl Debt {
    /// Finds out whether compaction of the segments `running` keeps up, and tells the compactor.
    pub(crate) fn update(&mut self, segments: &Segments, shared: &Shared, running: &[SegmentId]) {
        let is_behind = garbage_share(segments, shared) > BEHIND_SHARE;
        shared.is_compaction_behind.store(is_behind, Ordering::Relaxed);
        let (log_bytes, live_bytes) = bytes(segments, shared);
        let new_bytes: u64 =
            running.iter().filter_map(|id| segments.get(*id)).map(Segment::live_bytes).sum();
        let segment_bytes = shared.roll_bytes.load(Ordering::Relaxed);
        let open_count = shared.devices.in_service() as u64;
        let is_compacting = !running.is_empty();
        self.follow(log_bytes + new_bytes, live_bytes, segment_bytes, open_count, is_compacting);
    }
}

/// What the log takes beyond its live data, as a share of that: garbage, and room that segments
/// which are written have reserved.
#[expect(clippy::cast_precision_loss, reason = "a share of bytes")]
pub(crate) fn garbage_share(segments: &Segments, shared: &Shared) -> f64 {
    let (bytes, live_bytes) = bytes(segments, shared);
    bytes.saturating_sub(live_bytes) as f64 / live_bytes.max(1) as f64
}

/// What the log takes, with what segments that are written have reserved; and what is needed.
fn bytes(segments: &Segments, shared: &Shared) -> (u64, u64) {
    let roll_bytes = shared.roll_bytes.load(Ordering::Relaxed);
    let (mut bytes, mut live_bytes) = (0, 0);
    for segment in segments.iter() {
        let reserved_bytes = if segment.is_sealed { 0 } else { roll_bytes };
        bytes += segment.bytes.max(reserved_bytes);
        live_bytes += segment.live_bytes();
    }
    (bytes, live_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn writers_wait_past_twice_the_live_data_and_only_while_something_is_compacted() {
        let mut debt = Debt::default();
        let mut follow = |log, is_compacting| {
            debt.follow(log * MIB, 100 * MIB, 4 * MIB, 1, is_compacting);
            debt.is_over()
        };
        assert!(!follow(150, true));
        assert!(!follow(200, true));
        assert!(follow(201, true));
        assert!(!follow(201, false), "it would wait for nothing");
        assert!(follow(260, true), "the limit has not moved");
        assert!(!follow(199, true));
    }

    #[test]
    fn little_data_have_room_for_some_segments() {
        let mut debt = Debt::default();
        for log_bytes in [0, 4 * MIB, 65 * MIB] {
            debt.follow(log_bytes, MIB, 4 * MIB, 1, true);
            assert!(!debt.is_over(), "{log_bytes}");
        }
        debt.follow(66 * MIB, MIB, 4 * MIB, 1, true);
        assert!(debt.is_over());
    }

    #[test]
    fn who_deletes_may_write_what_compaction_gives_back() {
        let mut debt = Debt::default();
        debt.follow(1500 * MIB, 1000 * MIB, 4 * MIB, 1, true);
        // Nearly all of it is deleted.
        let mut follow = |log| {
            debt.follow(log * MIB, 10 * MIB, 4 * MIB, 1, true);
            debt.is_over()
        };
        assert!(!follow(1500));
        assert!(!follow(1508), "two segments are given before any is taken");
        assert!(follow(1509));
        assert!(!follow(1400));
        assert!(follow(1409), "what was given back is not taken again");
        assert!(!follow(30));
    }

    #[test]
    fn what_a_start_finds_is_not_held_against_writers() {
        let mut debt = Debt::default();
        debt.follow(900 * MIB, 100 * MIB, 4 * MIB, 1, true);
        assert!(!debt.is_over());
    }
}
