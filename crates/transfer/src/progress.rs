//! How far a transfer is: counters that any thread may look at while it runs.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counters of bytes, all only growing.
#[derive(Debug, Default)]
pub struct Progress {
    total: AtomicU64,
    written: AtomicU64,
    verified: AtomicU64,
}

impl Progress {
    /// Bytes of all files together; 0 until that is known.
    #[must_use]
    pub fn total_bytes(&self) -> u64 {
        self.total.load(Ordering::Relaxed)
    }

    /// Bytes that the receiver has written, or had.
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

    /// As the other end reports them.
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
