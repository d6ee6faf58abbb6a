//! Hand-over of rows by window, where one thread copies rows that another may write.
//!
//! ```text
//!   rows     0 ······················│ window │······················ n
//!            the client's own again  │ locks  │ not begun: the client's own
//! ```
//!
//! [`crate::Windowed`] copies rows in the background to the copy that the client writes. Handing
//! over each row with an atomic read-modify-write by the client, as [`crate::Piggyback`] does,
//! makes the processor finish all earlier stores first. Cache misses no longer overlap, and an
//! update takes longer for as long as the pass runs. So rows are handed over a window at a time.
//! The snapshotter publishes the window that it is about to copy, and begins only after the client
//! has *adopted* it. From then on
//!
//! - the snapshotter sees everything that the client did before: [`Window::adopt`] releases it;
//! - the client takes a lock for each write to a row inside the window, and for no other.
//!
//! When the window moves on, the client sees what was copied: it acquires the new window before its
//! next write. The client adopts a window at its next write or tick; between two ticks, the
//! snapshotter adopts it for the client.

use crate::gate::Gate;
use crate::sync::{Apart, AtomicBool, AtomicUsize, Backoff, Ordering};

/// No window: nothing is being copied. No row is near this number.
const NONE: usize = 1 << (usize::BITS - 1);

/// Rows of a window, at most; small tables have smaller windows.
const ROWS_MAX: usize = 4096;

/// The rows being copied.
pub(crate) struct Window {
    /// The first row of the window that the snapshotter copies or is about to copy. Only the
    /// snapshotter changes it.
    published: Apart<AtomicUsize>,
    /// The window that the client has adopted.
    adopted: Apart<AtomicUsize>,
    /// The lock of the rows in the window; its holder may write them.
    held: Apart<AtomicBool>,
    rows: usize,
}

/// A guard of the lock of the rows in the window.
pub(crate) struct Held<'a> {
    window: &'a Window,
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.window.held.0.store(false, Ordering::Release);
    }
}

impl Window {
    /// Rows copied under one lock. Windows begin at a multiple of it.
    pub(crate) const GROUP_ROWS: usize = 64;

    /// Creates a window for a table of `rows` rows.
    pub(crate) fn new(rows: usize) -> Self {
        let window_rows = (rows / 1024).next_multiple_of(Self::GROUP_ROWS);
        Self {
            published: Apart(AtomicUsize::new(NONE)),
            adopted: Apart(AtomicUsize::new(NONE)),
            held: Apart(AtomicBool::new(false)),
            rows: window_rows.clamp(Self::GROUP_ROWS, ROWS_MAX),
        }
    }

    /// Adopts the window for the client, releasing all that it did before. Returns the window.
    #[inline]
    fn adopt_and_get(&self) -> usize {
        let window = self.published.0.load(Ordering::Acquire);
        if window != self.adopted.0.load(Ordering::Relaxed) {
            self.adopted.0.store(window, Ordering::Release);
        }
        window
    }

    /// Adopts the window for the client, releasing all that it did before.
    pub(crate) fn adopt(&self) {
        self.adopt_and_get();
    }

    /// Adopts the window. Returns whether the client must take the lock to write this row.
    #[inline]
    pub(crate) fn has(&self, row: usize) -> bool {
        row.wrapping_sub(self.adopt_and_get()) < self.rows
    }

    /// Takes the lock.
    #[inline]
    pub(crate) fn hold(&self) -> Held<'_> {
        let mut backoff = Backoff::new();
        while self
            .held
            .0
            .compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed)
            .is_err()
        {
            backoff.wait();
        }
        Held { window: self }
    }

    /// Requests the window for the group that begins with `row`. Returns whether the snapshotter
    /// may copy it.
    pub(crate) fn open(&self, row: usize, gate: &Gate) -> bool {
        let window = row - row % self.rows;
        if self.published.0.load(Ordering::Relaxed) != window {
            self.published.0.store(window, Ordering::Release);
        }
        if self.adopted.0.load(Ordering::Acquire) == window {
            return true;
        }
        let Some(_closed) = gate.try_close() else { return false };
        self.adopted.0.store(window, Ordering::Relaxed);
        true
    }

    /// Closes the window after the snapshotter has copied everything.
    pub(crate) fn close(&self) {
        self.published.0.store(NONE, Ordering::Release);
    }
}
