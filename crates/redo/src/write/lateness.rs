//! How long blocks wait to become durable.

use std::collections::VecDeque;

use base::Lsn;

/// Unless the policy is `no`, what is older than this and not durable makes writers wait, as in Redis:
/// more than it is never lost.
const AGE_US_MAX: u64 = 2_000_000;

/// When blocks were first seen that are not durable.
#[derive(Default)]
pub(crate) struct Lateness {
    /// Blocks that were sealed and not durable at some tick, and when that was, both ascending.
    waiting: VecDeque<(Lsn, u64)>,
    is_late: bool,
}

impl Lateness {
    /// Looks at the log at a tick: the last block that was sealed, and the last that is durable.
    pub(crate) fn note(&mut self, sealed: Lsn, durable: Lsn, now_us: u64) {
        while self.waiting.front().is_some_and(|(lsn, _)| *lsn <= durable) {
            self.waiting.pop_front();
        }
        if sealed > self.waiting.back().map_or(durable, |(lsn, _)| *lsn) {
            self.waiting.push_back((sealed, now_us));
        }
        let since_us = self.waiting.front().map_or(now_us, |(_, at_us)| *at_us);
        self.is_late = now_us.saturating_sub(since_us) > AGE_US_MAX;
    }

    /// Whether a block has been waiting for too long, as of the last look.
    pub(crate) const fn is_late(&self) -> bool {
        self.is_late
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_block_that_waits_says_how_late_it_is() {
        let mut lateness = Lateness::default();
        lateness.note(Lsn(3), Lsn(1), 0);
        lateness.note(Lsn(5), Lsn(2), AGE_US_MAX);
        assert!(!lateness.is_late(), "block 3 is as old as it may be");
        lateness.note(Lsn(5), Lsn(2), AGE_US_MAX + 1);
        assert!(lateness.is_late());
        lateness.note(Lsn(5), Lsn(3), AGE_US_MAX + 2);
        assert!(!lateness.is_late(), "block 5 was seen later");
        lateness.note(Lsn(5), Lsn(5), 9 * AGE_US_MAX);
        assert!(!lateness.is_late(), "nothing waits");
    }
}
