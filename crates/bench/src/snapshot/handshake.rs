//! How the client triggers a checkpoint and learns that it was taken, without yielding its
//! processor.
//!
//! ```text
//!   snapshotter   ready ──────────► spins ··· takes ── taken ──► traverses
//!   client             request ───► spins ············┘ goes on with its tick
//! ```
//!
//! Each has a processor to itself. Putting a thread to sleep and waking it takes 50 to 100 µs on a
//! virtual machine, as much as an algorithm's own part of the latency, and varies: so neither
//! thread sleeps.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// No request for a checkpoint.
const NONE: usize = usize::MAX;

/// The handshake between client and snapshotter; see the module.
pub(super) struct Handshake {
    ready: AtomicBool,
    requested_at: AtomicUsize,
    taken: AtomicUsize,
    /// Whether the snapshotter has made its last request.
    over: AtomicBool,
}

impl Handshake {
    pub(super) fn new() -> Self {
        Self {
            ready: AtomicBool::new(false),
            requested_at: AtomicUsize::new(NONE),
            taken: AtomicUsize::new(0),
            over: AtomicBool::new(false),
        }
    }

    /// Triggers in tick `tick` if the snapshotter waits for it, and waits until the snapshot is
    /// taken. Returns whether it did.
    pub(super) fn trigger(&self, tick: usize) -> bool {
        if !self.ready.swap(false, Ordering::Acquire) {
            return false;
        }
        let taken = self.taken.load(Ordering::Relaxed);
        self.requested_at.store(tick, Ordering::Release);
        while self.taken.load(Ordering::Acquire) == taken && !self.is_over() {
            std::hint::spin_loop();
        }
        true
    }

    /// Waits for a trigger. Returns its tick.
    pub(super) fn wait(&self) -> usize {
        self.ready.store(true, Ordering::Release);
        loop {
            let tick = self.requested_at.load(Ordering::Acquire);
            if tick != NONE {
                self.requested_at.store(NONE, Ordering::Relaxed);
                return tick;
            }
            std::hint::spin_loop();
        }
    }

    /// Announces that the snapshot is taken.
    pub(super) fn taken(&self) {
        self.taken.fetch_add(1, Ordering::Release);
    }

    /// Announces that the snapshotter has made all checkpoints, or has failed.
    pub(super) fn end(&self) {
        self.over.store(true, Ordering::Release);
    }

    pub(super) fn is_over(&self) -> bool {
        self.over.load(Ordering::Acquire)
    }
}
