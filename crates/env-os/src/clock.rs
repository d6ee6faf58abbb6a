//! The clocks of the operating system.

use std::time::{SystemTime, UNIX_EPOCH};

use env::Clock;
use rustix::time::{ClockId, Timespec, clock_gettime};

/// The wall clock, and a monotonic clock that starts when this value is created.
#[derive(Debug, Clone, Copy)]
pub struct OsClock {
    origin_us: u64,
}

impl OsClock {
    /// Creates a clock whose monotonic time starts now.
    #[must_use]
    pub fn new() -> Self {
        Self { origin_us: microseconds(clock_gettime(ClockId::Monotonic)) }
    }
}

impl Default for OsClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for OsClock {
    fn now_ms(&self) -> i64 {
        // Before 1970 the difference is an error that carries how far before.
        match SystemTime::now().duration_since(UNIX_EPOCH) {
            Ok(since) => i64::try_from(since.as_millis()).unwrap_or(i64::MAX),
            Err(before) => i64::try_from(before.duration().as_millis()).map_or(i64::MIN, |ms| -ms),
        }
    }

    fn monotonic_us(&self) -> u64 {
        microseconds(clock_gettime(ClockId::Monotonic)) - self.origin_us
    }
}

/// Converts a time since boot, which is never negative. `Instant` takes three times as long, and
/// the server asks several times a request.
fn microseconds(time: Timespec) -> u64 {
    time.tv_sec.unsigned_abs() * 1_000_000 + time.tv_nsec.unsigned_abs() / 1_000
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wall_clock_is_later_than_this_test_and_monotonic_does_not_go_back() {
        let clock = OsClock::new();
        assert!(clock.now_ms() > 1_700_000_000_000);
        let first = clock.monotonic_us();
        assert!(clock.monotonic_us() >= first);
    }
}
