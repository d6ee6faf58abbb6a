//! Two clocks: the one on the wall, which people set, and the one that only goes forward.

/// The time.
pub trait Clock: Send + Sync {
    /// Wall-clock time in Unix milliseconds. It may jump, backwards too: never use it for order.
    fn now_ms(&self) -> i64;

    /// Microseconds since some moment in the life of this process. Never goes backwards.
    fn monotonic_us(&self) -> u64;
}
