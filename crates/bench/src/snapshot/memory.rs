//! Measures the memory of a run with its child processes.
//!
//! Memory that a forked child shares with its parent counts for both in their own statistics, and
//! reading their `smaps` walks page tables while holding the lock that page faults need. The
//! kernel's count of anonymous pages includes each page once and costs nothing; it covers the whole
//! machine, so nothing else may run.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Returns the anonymous pages of all processes, in MB.
fn anonymous_mb() -> f64 {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let kb = |line: &str| {
        line.strip_prefix("AnonPages:")?.trim().strip_suffix("kB")?.trim().parse().ok()
    };
    text.lines().find_map(kb).unwrap_or(0.0) / 1024.0
}

/// Returns this process's memory in huge pages, in MB. Walks page tables, so it must not run during
/// a measurement.
pub(super) fn huge_mb() -> f64 {
    let text = std::fs::read_to_string("/proc/self/smaps_rollup").unwrap_or_default();
    let kb = |line: &str| {
        line.strip_prefix("AnonHugePages:")?.trim().strip_suffix("kB")?.trim().parse().ok()
    };
    text.lines().find_map(kb).unwrap_or(0.0) / 1024.0
}

/// Watches how far memory grows beyond its initial size.
pub(super) struct Peak {
    before_mb: f64,
}

impl Peak {
    /// Starts counting.
    pub(super) fn new() -> Self {
        Self { before_mb: anonymous_mb() }
    }

    /// Watches until `stop`. Returns the largest growth, in MB.
    pub(super) fn watch(&self, stop: &AtomicBool) -> f64 {
        let mut peak: f64 = 0.0;
        while !stop.load(Ordering::Relaxed) {
            peak = peak.max(anonymous_mb() - self.before_mb);
            std::thread::sleep(Duration::from_millis(50));
        }
        peak
    }
}
