//! How long the turns of the event loop take: how busy the thread is that executes commands, for INFO.
//!
//! A turn begins when the poll for events returns and ends before the next one; what the thread sleeps is between turns.

/// See the file's top. CONFIG RESETSTAT starts it again.
#[derive(Debug, Default)]
pub(crate) struct Cycles {
    /// When the turn began, and how many commands had been executed then.
    begun: Option<(u64, u64)>,
    /// How many turns there were.
    pub(crate) count: u64,
    /// How long they took.
    pub(crate) sum_us: u64,
    /// How long the longest one took.
    pub(crate) max_us: u64,
    /// How many commands one of them executed at most.
    pub(crate) commands_max: u64,
    /// How long commands took, those that scripts and transactions have called within these.
    pub(crate) commands_us: u64,
    /// How long the log's blocks took to be ended, and to be written where the thread does that itself.
    pub(crate) log_us: u64,
    /// How long what is done `hz` times a second took.
    pub(crate) periodic_us: u64,
}

impl Cycles {
    /// A turn begins, after so many commands.
    pub(crate) fn begin(&mut self, now_us: u64, commands: u64) {
        self.begun = Some((now_us, commands));
    }

    /// The turn ends.
    pub(crate) fn end(&mut self, now_us: u64, commands: u64) {
        let Some((begun_us, commands_before)) = self.begun.take() else { return };
        let duration_us = now_us.saturating_sub(begun_us);
        self.count += 1;
        self.sum_us += duration_us;
        self.max_us = self.max_us.max(duration_us);
        self.commands_max = self.commands_max.max(commands.saturating_sub(commands_before));
    }

    /// Counts from 0 again, also in the turn that has begun.
    pub(crate) fn reset(&mut self) {
        let begun = self.begun.map(|(begun_us, _)| (begun_us, 0));
        *self = Self { begun, ..Self::default() };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_slept_is_no_turn() {
        let mut cycles = Cycles::default();
        cycles.end(5, 0);
        cycles.begin(10, 3);
        cycles.end(14, 10);
        cycles.begin(1_000, 10);
        cycles.end(1_001, 11);
        assert_eq!((cycles.count, cycles.sum_us, cycles.max_us, cycles.commands_max), (2, 5, 4, 7));
        cycles.begin(2_000, 20);
        cycles.reset();
        cycles.end(2_002, 1);
        assert_eq!((cycles.count, cycles.sum_us, cycles.max_us, cycles.commands_max), (1, 2, 2, 1));
    }
}
