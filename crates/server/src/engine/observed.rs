//! What operators look at: counters, rates, the command logs, latency events.

use super::commandlog::CommandLogs;
use super::latency::LatencyMonitor;
use super::stats::{Counters, Rates};

/// See the file's top.
#[derive(Default)]
pub(crate) struct Observed {
    pub(super) command_logs: CommandLogs,
    pub(super) latency: LatencyMonitor,
    pub(super) counters: Counters,
    pub(super) rates: Rates,
    pub(super) peak_memory_bytes: u64,
    /// What was used when it was last looked at, at most a tenth of a second ago as a rule.
    pub(super) memory_bytes: u64,
}

impl Observed {
    pub(super) fn note_memory(&mut self, bytes: u64) {
        self.memory_bytes = bytes;
        self.peak_memory_bytes = self.peak_memory_bytes.max(bytes);
    }
}
