//! Not more bytes a second than others of the device are to be spared.

use std::sync::Arc;

use env::Clock;

/// What was not used of the rate for as long as this is used up at once.
const BURST_US: u64 = 100_000;

/// Of one dump: what it reads, sorts and writes.
pub(super) struct Pace {
    clock: Arc<dyn Clock>,
    /// 0 for none.
    bytes_per_s: u64,
    /// All that was handled.
    bytes: u64,
    /// Before this nothing more is to be handled.
    due_us: u64,
}

impl Pace {
    pub(super) const fn new(clock: Arc<dyn Clock>, bytes_per_s: u64) -> Self {
        Self { clock, bytes_per_s, bytes: 0, due_us: 0 }
    }

    /// Notes that `bytes` were handled until now.
    pub(super) fn note(&mut self, bytes: u64) {
        let more = bytes.saturating_sub(self.bytes);
        self.bytes = self.bytes.max(bytes);
        if self.bytes_per_s > 0 && more > 0 {
            let from_us = self.clock.monotonic_us().saturating_sub(BURST_US).max(self.due_us);
            let took_us = u128::from(more) * 1_000_000 / u128::from(self.bytes_per_s);
            self.due_us = from_us.saturating_add(u64::try_from(took_us).unwrap_or(u64::MAX));
        }
    }

    /// Whether it is too early for more.
    pub(super) fn is_ahead(&self) -> bool {
        self.bytes_per_s > 0 && self.clock.monotonic_us() < self.due_us
    }
}

#[cfg(test)]
mod tests {
    use env_sim::SimClock;

    use super::*;

    #[test]
    fn a_rate_is_kept_and_what_was_not_used_of_it_is_not_gathered() {
        let clock = Arc::new(SimClock::new(0));
        let shared: Arc<dyn Clock> = Arc::<SimClock>::clone(&clock);
        clock.advance_us(60_000_000);
        let mut pace = Pace::new(shared, 1_000_000);
        let mut bytes = 0;
        let mut handled_in_a_second = |pace: &mut Pace| {
            let before = bytes;
            for _ in 0..1_000 {
                while !pace.is_ahead() {
                    bytes += 1_000;
                    pace.note(bytes);
                }
                clock.advance_us(1_000);
            }
            bytes - before
        };
        let burst = BURST_US;
        assert_eq!(handled_in_a_second(&mut pace), 1_000_000 + burst);
        assert_eq!(handled_in_a_second(&mut pace), 1_000_000);
        clock.advance_us(60_000_000);
        assert_eq!(handled_in_a_second(&mut pace), 1_000_000 + burst);
    }

    #[test]
    fn without_a_rate_it_is_never_too_early() {
        let mut pace = Pace::new(Arc::new(SimClock::new(0)), 0);
        pace.note(u64::MAX);
        assert!(!pace.is_ahead());
    }
}
