//! Time that passes when a test says so.

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
    wall_ms: AtomicI64,
    monotonic_us: AtomicU64,
}

impl SimClock {
    /// A clock whose wall shows `wall_ms` and whose monotonic time is 0.
    #[must_use]
    pub fn new(wall_ms: i64) -> Self {
        let hands = Hands { wall_ms: AtomicI64::new(wall_ms), monotonic_us: AtomicU64::new(0) };
        Self { hands: Arc::new(hands) }
    }

    /// Lets `ms` pass on both clocks.
    pub fn advance_ms(&self, ms: u32) {
        self.hands.wall_ms.fetch_add(i64::from(ms), Ordering::SeqCst);
        self.hands.monotonic_us.fetch_add(u64::from(ms) * 1000, Ordering::SeqCst);
    }

    /// Sets the wall clock, to the past too, as an administrator or NTP would.
    pub fn set_wall_ms(&self, wall_ms: i64) {
        self.hands.wall_ms.store(wall_ms, Ordering::SeqCst);
    }
}

impl Clock for SimClock {
    fn now_ms(&self) -> i64 {
        self.hands.wall_ms.load(Ordering::SeqCst)
    }

    fn monotonic_us(&self) -> u64 {
        self.hands.monotonic_us.load(Ordering::SeqCst)
    }
}
