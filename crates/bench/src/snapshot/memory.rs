//! How much memory a run takes, with its child processes.
//!
//! What a forked child shares with its parent counts for both in their own statistics, and their
//! `smaps` have to walk page tables, holding the lock that page faults need. The kernel's count of
//! anonymous pages has each page once and costs nothing; it is the machine's, so nothing else may
//! run.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Anonymous pages of all processes, in MB.
fn anonymous_mb() -> f64 {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let kb = |line: &str| {
        line.strip_prefix("AnonPages:")?.trim().strip_suffix("kB")?.trim().parse().ok()
    };
    text.lines().find_map(kb).unwrap_or(0.0) / 1024.0
}

/// What of this process is in huge pages, in MB. Walks page tables: not while something is measured.
pub(super) fn huge_mb() -> f64 {
    let text = std::fs::read_to_string("/proc/self/smaps_rollup").unwrap_or_default();
    let kb = |line: &str| {
        line.strip_prefix("AnonHugePages:")?.trim().strip_suffix("kB")?.trim().parse().ok()
    };
    text.lines().find_map(kb).unwrap_or(0.0) / 1024.0
}

/// Watches how far memory grows above what it was at the beginning.
pub(super) struct Peak {
    before_mb: f64,
}

impl Peak {
    /// Counts from now.
    pub(super) fn new() -> Self {
        Self { before_mb: anonymous_mb() }
    }

    /// The largest growth until `stop`, in MB.
    pub(super) fn watch(&self, stop: &AtomicBool) -> f64 {
        let mut peak: f64 = 0.0;
        while !stop.load(Ordering::Relaxed) {
            peak = peak.max(anonymous_mb() - self.before_mb);
            std::thread::sleep(Duration::from_millis(50));
        }
        peak
    }
}
