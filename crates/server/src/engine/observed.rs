//! What operators look at: counters, rates, the command logs, latency events.

use super::commandlog::CommandLogs;
use super::cycles::Cycles;
use super::latency::LatencyMonitor;
use super::stats::{Counters, Rates};

/// See the file's top.
#[derive(Default)]
pub(crate) struct Observed {
    pub(super) command_logs: CommandLogs,
    pub(super) latency: LatencyMonitor,
    pub(super) counters: Counters,
    pub(super) rates: Rates,
    pub(super) cycles: Cycles,
    pub(super) peak_memory_bytes: u64,
    /// What was used when it was last looked at, at most a tenth of a second ago as a rule.
    pub(super) memory_bytes: u64,
}

impl Observed {
    pub(super) fn note_memory(&mut self, bytes: u64) {
        self.memory_bytes = bytes;
        self.peak_memory_bytes = self.peak_memory_bytes.max(bytes);
    }

    pub(super) fn sample_rates(&mut self, now_us: u64) {
        let (counters, cycles, rates) = (&self.counters, &self.cycles, &mut self.rates);
        rates.commands.sample(counters.commands, now_us);
        rates.input.sample(counters.input_bytes, now_us);
        rates.output.sample(counters.output_bytes, now_us);
        rates.cycles.sample(cycles.count, now_us);
        rates.cycle_us.sample_of(cycles.sum_us, cycles.count, 1);
    }

    /// CONFIG RESETSTAT.
    pub(super) fn reset(&mut self) {
        self.counters = Counters::default();
        self.cycles.reset();
    }
}
