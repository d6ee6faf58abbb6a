//! Two clocks: the wall clock, which people set, and a monotonic clock.

/// A source of the time.
pub trait Clock: Send + Sync {
    /// The wall-clock time in Unix milliseconds. It may jump, also backwards: never use it for
    /// order.
    fn now_ms(&self) -> i64;

    /// Whether the wall clock shows the same time always, as of a moment of the past that is looked at.
    fn stands_still(&self) -> bool {
        false
    }

    /// Microseconds since a moment in the life of this process. Never goes backwards.
    fn monotonic_us(&self) -> u64;
}
