//! The progress of a transfer: counters that any thread may read while it runs.

use std::sync::atomic::{AtomicU64, Ordering};

/// Byte counters that only grow.
#[derive(Debug, Default)]
pub struct Progress {
    total: AtomicU64,
    written: AtomicU64,
    verified: AtomicU64,
}

impl Progress {
    /// The total bytes of all files; 0 until known.
    #[must_use]
    pub fn total_bytes(&self) -> u64 {
        self.total.load(Ordering::Relaxed)
    }

    /// Bytes that the receiver has written, or had before.
    #[must_use]
    pub fn written_bytes(&self) -> u64 {
        self.written.load(Ordering::Relaxed)
    }

    /// Bytes that the receiver has verified.
    #[must_use]
    pub fn verified_bytes(&self) -> u64 {
        self.verified.load(Ordering::Relaxed)
    }

    pub(crate) fn set_total(&self, bytes: u64) {
        self.total.store(bytes, Ordering::Relaxed);
    }

    /// Sets the counters to what the other end reports.
    pub(crate) fn set(&self, written_bytes: u64, verified_bytes: u64) {
        self.written.store(written_bytes, Ordering::Relaxed);
        self.verified.store(verified_bytes, Ordering::Relaxed);
    }

    pub(crate) fn wrote(&self, bytes: u64) {
        self.written.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(crate) fn verified(&self, bytes: u64) {
        self.verified.fetch_add(bytes, Ordering::Relaxed);
    }
}
