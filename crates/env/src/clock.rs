//! Two clocks: the wall clock, which people set, and a monotonic clock.

/// A source of the time.
pub trait Clock: Send + Sync {
    /// The wall-clock time in Unix milliseconds. It may jump, also backwards: never use it for
    /// order.
    fn now_ms(&self) -> i64;

    /// Microseconds since a moment in the life of this process. Never goes backwards.
    fn monotonic_us(&self) -> u64;
}
