//! What operators look at: counters, rates, the slow log, latency events.

use super::latency::LatencyMonitor;
use super::slowlog::SlowLog;
use super::stats::{Counters, Rates};

/// See the file's top.
#[derive(Default)]
pub(crate) struct Observed {
    pub(super) slowlog: SlowLog,
    pub(super) latency: LatencyMonitor,
    pub(super) counters: Counters,
    pub(super) rates: Rates,
    pub(super) peak_memory_bytes: u64,
}
