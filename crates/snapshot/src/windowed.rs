//! Windowed Piggyback: full snapshots as Piggyback's, for one row and one bit a write.
//!
//! Beyond the paper. Hourglass and Piggyback lose their time in two places (`docs/snapshots.md` has
//! the numbers). Each write touches a byte in an array of bytes, a second and in Hourglass a third
//! cache miss and page walk beside the row's own. And while Piggyback's background pass runs, each
//! write needs a compare-and-swap, which makes the processor finish all earlier stores before it
//! goes on, so that cache misses no longer overlap.
//!
//! ```text
//!   D, D̄     client writes *pU and sets the bit in pU_b; reads *pU if the bit is set, else *pD
//!            taken phase: swap(pU, pD), and with them the bits
//!            WriteToOnline: for each window of rows: wait until the client knows; copy the rows
//!                           whose bit is set in pD_b and not in pU_b; clear pD_b
//!
//!   rows     0 ······················│ window │······················ n
//!            the client's own again  │ locks  │ not begun: the client's own
//! ```
//!
//! - **One bit a row and period**, and nothing else. The snapshot `*pD` is full and does not change,
//!   so a row that was not written in this period is *there*, whether it was copied to `*pU` already
//!   or not: no third state, no array that says where the latest is. The bits of 64 Mi rows are
//!   8 MiB, which a last-level cache holds.
//! - **One writer for each array of bits in a period**: the client sets those of `pU_b`, the
//!   snapshotter clears those of `pD_b`. Setting is a load and a store.
//! - **Hand-over by window, not by row.** What the two threads both write are the rows of `*pU` that
//!   are being copied. The snapshotter publishes the window where it is going to copy, and begins
//!   only when the client has *adopted* it: then it sees every bit that the client set before, and
//!   the client takes a lock for its first write to each row inside. Everywhere else the client
//!   needs no atomic read-modify-write at all. The client adopts a window at its next write, or the
//!   snapshotter does it for a client that is between two ticks.
//!
//! Invariant: at the end of a period `*pU` has the latest of every row. It was written by the client,
//! or copied because it was written in the period before, or the same in both copies all along.

use crate::algorithm::{Algorithm, Content, Online, Setup};
use crate::cells::{Bits, Rows};
use crate::error::Result;
use crate::gate::{Closed, Gate};
use crate::sync::{AtomicBool, AtomicUsize, Backoff, Ordering};

/// No window: nothing is being copied.
const NONE: usize = usize::MAX;

/// Windows have this many rows at most; small tables have smaller ones.
const WINDOW_ROWS_MAX: usize = 4096;

/// See the module.
pub struct Windowed {
    /// D and D̄.
    copies: [Rows; 2],
    /// The rows of each copy that were written in its period.
    written: [Bits; 2],
    /// pU. Changes under the closed gate only.
    up: AtomicUsize,
    /// The window that the snapshotter copies, or wants to. Only the snapshotter changes it.
    window: AtomicUsize,
    /// The window that the client knows of.
    adopted: AtomicUsize,
    /// Who has it may write a row of the window to `*pU` that has not been written there yet.
    hold: AtomicBool,
    window_rows: usize,
    rows: usize,
}

impl Windowed {
    #[inline]
    fn up(&self) -> usize {
        self.up.load(Ordering::Relaxed) & 1
    }

    /// The window that the client has to mind, from now on and with all that it did before.
    #[inline]
    fn adopt(&self) -> usize {
        let window = self.window.load(Ordering::Acquire);
        if window != self.adopted.load(Ordering::Relaxed) {
            self.adopted.store(window, Ordering::Release);
        }
        window
    }

    #[inline]
    fn lock(&self) {
        let mut backoff = Backoff::new();
        while self.hold.compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed).is_err()
        {
            backoff.wait();
        }
    }

    #[inline]
    fn unlock(&self) {
        self.hold.store(false, Ordering::Release);
    }

    /// A write to a row of the window.
    #[cold]
    fn write_in_window(&self, up: usize, row: usize, value: &[u64]) {
        if self.written[up].get(row) {
            // The snapshotter copies no row whose bit is set.
            self.copies[up].store(row, value);
            return;
        }
        self.lock();
        self.written[up].set(row);
        self.copies[up].store(row, value);
        self.unlock();
    }

    /// Whether the client knows of the window.
    fn is_adopted(&self, window: usize, gate: &Gate) -> bool {
        if self.adopted.load(Ordering::Acquire) == window {
            return true;
        }
        let Some(_closed) = gate.try_close() else { return false };
        self.adopted.store(window, Ordering::Relaxed);
        true
    }

    /// Copies what must be copied of 64 rows whose window is adopted.
    fn copy_word(&self, word: usize) {
        let up = self.up();
        let down = up ^ 1;
        // A bit of the client's that is set stays set, so what is skipped here is skipped rightly;
        // one that is clear is looked at again under the lock.
        let mut rows = self.written[down].word(word) & !self.written[up].word(word);
        while rows != 0 {
            let row = word * Bits::ROWS_A_WORD + rows.trailing_zeros() as usize;
            self.lock();
            if !self.written[up].get(row) {
                self.copies[up].copy_row(row, &self.copies[down]);
            }
            self.unlock();
            rows &= rows - 1;
        }
        self.written[down].clear_word(word);
    }
}

impl Algorithm for Windowed {
    const NAME: &'static str = "windowed";
    const CONTENT: Content = Content::Full;

    fn load(setup: &Setup<'_>) -> Self {
        let rows = setup.shape.rows();
        let window_rows = (rows / 1024).next_multiple_of(Bits::ROWS_A_WORD);
        Self {
            copies: [setup.initial_rows(), setup.initial_rows()],
            written: [Bits::new(rows), Bits::new(rows)],
            up: AtomicUsize::new(0),
            window: AtomicUsize::new(NONE),
            adopted: AtomicUsize::new(NONE),
            hold: AtomicBool::new(false),
            window_rows: window_rows.clamp(Bits::ROWS_A_WORD, WINDOW_ROWS_MAX),
            rows,
        }
    }

    fn enter(&self) {
        self.adopt();
    }

    #[inline]
    fn write(&self, row: usize, value: &[u64]) {
        let up = self.up();
        let window = self.adopt();
        if row.wrapping_sub(window) < self.window_rows {
            self.write_in_window(up, row, value);
        } else {
            self.written[up].set(row);
            self.copies[up].store(row, value);
        }
    }

    #[inline]
    fn read(&self, row: usize, into: &mut [u64]) {
        let up = self.up();
        let copy = if self.written[up].get(row) { up } else { up ^ 1 };
        self.copies[copy].load(row, into);
    }

    fn take(&self, _closed: &Closed<'_>) -> Result<()> {
        self.up.fetch_xor(1, Ordering::Relaxed);
        Ok(())
    }

    #[inline]
    fn write_to_online(&self, from: usize, gate: &Gate) -> Online {
        let word = from / Bits::ROWS_A_WORD;
        if self.written[self.up() ^ 1].word(word) != 0 {
            let window = from - from % self.window_rows;
            if self.window.load(Ordering::Relaxed) != window {
                self.window.store(window, Ordering::Release);
            }
            if !self.is_adopted(window, gate) {
                return Online::Waiting;
            }
            self.copy_word(word);
        }
        let next = (word + 1) * Bits::ROWS_A_WORD;
        if next >= self.rows {
            self.window.store(NONE, Ordering::Release);
        }
        Online::From(next)
    }

    #[inline]
    fn snapshot_row(&self, row: usize, into: &mut [u64]) -> Result<bool> {
        self.copies[self.up() ^ 1].load(row, into);
        Ok(true)
    }

    fn finish(&self) {}
}
