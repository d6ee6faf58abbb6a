//! How far an archive is behind its log: by what was shipped, and by what could be restored.
//!
//! ```text
//!   streaming   shipped ══════════════╗           both since the first block that waits
//!   gap         shipped        ╔══════╝ again     what is shipped leads nowhere before there is a copy:
//!               restorable ════╝                  since the first block that cannot be restored
//!   filling     restorable ╛                      since there was the first block, or since this process has begun
//! ```

use base::Lsn;

/// See the file's top. Times are those of the monotonic clock, in microseconds.
#[derive(Debug, Default)]
pub(crate) struct Lag {
    /// Since when there are blocks that are durable and not shipped.
    unshipped_since_us: Option<u64>,
    /// Since when there are blocks that are durable and could not be restored.
    unrestorable_since_us: Option<u64>,
}

/// What is known of an archive at one time.
pub(crate) struct Reached {
    /// The last block of the log that is durable.
    pub(crate) durable: Lsn,
    /// The last block that was shipped.
    pub(crate) shipped: Lsn,
    /// The last block that can be restored.
    pub(crate) archived: Lsn,
    /// Whether what is shipped can be restored: there is a copy that it is behind.
    pub(crate) is_founded: bool,
}

impl Lag {
    /// It was looked for blocks, and all are shipped.
    pub(crate) const fn note_none(&mut self) {
        self.unshipped_since_us = None;
    }

    /// There are blocks to be shipped.
    pub(crate) fn note_blocks(&mut self, now_us: u64) {
        self.unshipped_since_us.get_or_insert(now_us);
    }

    /// All blocks that there were at that time are shipped: what there is now has come since.
    pub(crate) const fn note_whole(&mut self, at_us: u64) {
        self.unshipped_since_us = Some(at_us);
    }

    /// Returns for how long blocks were not shipped, and could not be restored, in milliseconds.
    pub(crate) fn ms(&mut self, reached: &Reached, now_us: u64) -> (u64, u64) {
        if reached.durable <= reached.shipped {
            self.unshipped_since_us = None;
        } else {
            self.note_blocks(now_us);
        }
        self.unrestorable_since_us = if reached.durable <= reached.archived {
            None
        } else if reached.is_founded {
            self.unshipped_since_us
        } else {
            self.unrestorable_since_us.or(self.unshipped_since_us).or(Some(now_us))
        };
        let passed_ms =
            |since: Option<u64>| since.map_or(0, |since| now_us.saturating_sub(since)) / 1000;
        (passed_ms(self.unshipped_since_us), passed_ms(self.unrestorable_since_us))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reached(durable: u64, shipped: u64, archived: u64, is_founded: bool) -> Reached {
        let [durable, shipped, archived] = [durable, shipped, archived].map(Lsn);
        Reached { durable, shipped, archived, is_founded }
    }

    #[test]
    fn what_is_shipped_behind_a_gap_counts_when_there_is_a_copy() {
        let mut lag = Lag::default();
        assert_eq!(lag.ms(&reached(0, 0, 0, false), 5_000_000), (0, 0), "nothing was written");
        // The first copy is made, and the stream goes on behind its mark.
        assert_eq!(lag.ms(&reached(9, 0, 0, false), 6_000_000), (0, 0));
        lag.note_none();
        assert_eq!(lag.ms(&reached(12, 12, 0, false), 70_000_000), (0, 64_000));
        assert_eq!(lag.ms(&reached(12, 12, 12, true), 71_000_000), (0, 0));
        // The target is away, and then there is a gap.
        assert_eq!(lag.ms(&reached(15, 12, 12, true), 80_000_000), (0, 0));
        assert_eq!(lag.ms(&reached(20, 12, 12, true), 90_000_000), (10_000, 10_000));
        assert_eq!(lag.ms(&reached(25, 12, 12, false), 91_000_000), (11_000, 11_000));
        lag.note_none();
        assert_eq!(lag.ms(&reached(30, 30, 12, false), 99_000_000), (0, 19_000));
        assert_eq!(lag.ms(&reached(31, 30, 30, true), 100_000_000), (0, 0));
        lag.note_whole(99_500_000);
        assert_eq!(lag.ms(&reached(31, 30, 30, true), 101_000_000), (1500, 1500));
        // Damage is found: what there was before is not known to be restorable any more.
        assert_eq!(lag.ms(&reached(31, 31, 31, true), 102_000_000), (0, 0));
        assert_eq!(lag.ms(&reached(31, 31, 7, false), 103_000_000), (0, 0));
        assert_eq!(lag.ms(&reached(31, 31, 7, false), 104_000_000), (0, 1000));
    }
}
