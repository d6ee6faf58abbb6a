//! When something that has failed is tried again.

/// How long after the first failure, and at most.
const FIRST_US: u64 = 100_000;
const MAX_US: u64 = 30_000_000;

/// Pauses that double, each of a random length up to that: what failed together is not tried again together.
#[derive(Debug)]
pub(crate) struct Retry {
    failures: u32,
    at_us: u64,
    random: u64,
}

impl Retry {
    /// Nothing has failed yet. `seed` makes the pauses differ from another's.
    pub(crate) const fn new(seed: u64) -> Self {
        Self { failures: 0, at_us: 0, random: seed | 1 }
    }

    /// It has failed, now.
    pub(crate) fn note_failure(&mut self, now_us: u64) {
        let most = (FIRST_US << self.failures.min(9)).min(MAX_US);
        self.failures += 1;
        // xorshift64: what is wanted is that two differ.
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.at_us = now_us + FIRST_US.max(self.random % (most + 1));
    }

    /// It has worked.
    pub(crate) const fn note_success(&mut self) {
        self.failures = 0;
    }

    /// Whether it has failed, and not worked since.
    pub(crate) const fn is_failing(&self) -> bool {
        self.failures > 0
    }

    /// Whether it may be tried.
    pub(crate) const fn is_due(&self, now_us: u64) -> bool {
        self.failures == 0 || now_us >= self.at_us
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_are_between_a_tenth_and_thirty_seconds_and_differ() {
        let [mut retry, mut other] = [Retry::new(7), Retry::new(8)];
        let mut pauses = Vec::new();
        for _ in 0..40 {
            retry.note_failure(1000);
            other.note_failure(1000);
            assert!(!retry.is_due(1000 + FIRST_US - 1) && retry.is_due(1000 + MAX_US));
            pauses.push((retry.at_us, other.at_us));
        }
        assert!(pauses.iter().filter(|(one, other)| one != other).count() > 30);
        assert!(pauses.iter().any(|(at, _)| *at > MAX_US / 2));
        retry.note_success();
        assert!(retry.is_due(0) && !retry.is_failing());
    }
}
