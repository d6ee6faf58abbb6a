//! Time that passes only when a test says so.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use env::Clock;

/// A virtual clock. A clone is the same clock.
#[derive(Debug, Clone)]
pub struct SimClock {
    hands: Arc<Hands>,
}

#[derive(Debug)]
struct Hands {
    /// The wall-clock time at monotonic time 0, in microseconds.
    wall_offset_us: AtomicI64,
    monotonic_us: AtomicU64,
}

impl SimClock {
    /// Creates a clock at wall-clock time `wall_ms` and monotonic time 0.
    #[must_use]
    pub fn new(wall_ms: i64) -> Self {
        let hands = Hands {
            wall_offset_us: AtomicI64::new(wall_ms.saturating_mul(1000)),
            monotonic_us: AtomicU64::new(0),
        };
        Self { hands: Arc::new(hands) }
    }

    /// Returns an independent clock with the same times.
    #[must_use]
    pub fn fork(&self) -> Self {
        let hands = Hands {
            wall_offset_us: AtomicI64::new(self.hands.wall_offset_us.load(Ordering::SeqCst)),
            monotonic_us: AtomicU64::new(self.monotonic_us()),
        };
        Self { hands: Arc::new(hands) }
    }

    /// Advances both clocks by `ms`.
    pub fn advance_ms(&self, ms: u32) {
        self.advance_us(u64::from(ms) * 1000);
    }

    /// Advances both clocks by `us`.
    pub fn advance_us(&self, us: u64) {
        self.hands.monotonic_us.fetch_add(us, Ordering::SeqCst);
    }

    /// Sets the wall clock, possibly back, as an administrator or NTP would.
    pub fn set_wall_ms(&self, wall_ms: i64) {
        let offset_us = wall_ms.saturating_mul(1000).saturating_sub(self.monotonic());
        self.hands.wall_offset_us.store(offset_us, Ordering::SeqCst);
    }

    fn monotonic(&self) -> i64 {
        i64::try_from(self.monotonic_us()).expect("292000 years")
    }
}

impl Clock for SimClock {
    fn now_ms(&self) -> i64 {
        let offset_us = self.hands.wall_offset_us.load(Ordering::SeqCst);
        offset_us.saturating_add(self.monotonic()).div_euclid(1000)
    }

    fn monotonic_us(&self) -> u64 {
        self.hands.monotonic_us.load(Ordering::SeqCst)
    }
}
