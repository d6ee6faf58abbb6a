//! The time that commands see: one look at the clock for all that happens at once.

use std::sync::Arc;

use env::Clock;

/// See the file's top.
pub(crate) struct Time {
    clock: Arc<dyn Clock>,
    /// Microseconds on the monotonic clock when the current command began.
    pub(super) now_us: u64,
    /// What to add to `now_us` for microseconds since 1970.
    pub(super) unix_offset_us: i64,
    /// When the server began.
    pub(super) started_us: u64,
    /// The time of a clock that stands still, in microseconds since 1970.
    standing_us: Option<i64>,
}

impl Time {
    /// Begins now.
    pub(super) fn new(clock: Arc<dyn Clock>) -> Self {
        let now_us = clock.monotonic_us();
        let standing_us = clock.stands_still().then(|| clock.now_ms().saturating_mul(1000));
        let mut time = Self { clock, now_us, unix_offset_us: 0, started_us: now_us, standing_us };
        time.refresh();
        time
    }

    /// Looks at the monotonic clock.
    pub(super) fn refresh_monotonic(&mut self) {
        self.now_us = self.clock.monotonic_us();
    }

    /// Looks at both clocks.
    pub(super) fn refresh(&mut self) {
        self.refresh_monotonic();
        let monotonic = i64::try_from(self.now_us).expect("292000 years");
        // The wall clock is read in whole milliseconds, so a sample is up to one too low: the
        // largest one is the best, until the clock has been set back.
        let sample_us = self.clock.now_ms().saturating_mul(1000) - monotonic;
        if sample_us > self.unix_offset_us || sample_us < self.unix_offset_us - 2000 {
            self.unix_offset_us = sample_us;
        }
    }

    /// Microseconds since 1970.
    pub(super) fn unix_us(&self) -> i64 {
        let passes = || {
            i64::try_from(self.now_us).expect("292000 years").saturating_add(self.unix_offset_us)
        };
        self.standing_us.unwrap_or_else(passes)
    }

    /// Milliseconds since 1970.
    pub(super) fn unix_ms(&self) -> i64 {
        self.unix_us() / 1000
    }

    /// Seconds since 1970.
    pub(super) fn unix_s(&self) -> i64 {
        self.unix_us() / 1_000_000
    }

    /// A moment since 1970 in milliseconds, on the monotonic clock; 0 for one before that began.
    pub(super) fn monotonic_of_ms(&self, unix_ms: i64) -> u64 {
        u64::try_from(unix_ms.saturating_mul(1000).saturating_sub(self.unix_offset_us)).unwrap_or(0)
    }
}
