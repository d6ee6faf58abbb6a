//! Windowed Piggyback: Piggyback, with rows handed over a window at a time instead of one by one.
//!
//! This goes beyond the paper. Piggyback loses time in its hand-over: while `WriteToOnline` runs,
//! each write needs a compare-and-swap, which makes the processor finish all earlier stores first,
//! so that their cache misses and page walks no longer overlap. The byte that each write sets next
//! to the row costs far less, because nothing waits for a store (`docs/snapshots.md` has the
//! numbers, also of the alternatives to that byte).
//!
//! ```text
//!   D, D̄     client writes *pU;  reads D̄ if D̄b[i] = 2, else D
//!            taken phase: swap(pU, pD)
//!            WriteToOnline: for each window of rows: wait for its adoption; copy the rows that
//!                           only *pD has the latest of to *pU, past the caches
//!            TraverseSnapshot: all of *pD, which is not written until the next swap
//! ```
//!
//! The hand-over is in [`crate::window`]. Inside the window, both threads take a lock, and the flag
//! becomes 0 *after* the copy. Everywhere else the client's code is the paper's: a row and a flag.

use crate::algorithm::{Algorithm, Content, Online, Setup};
use crate::cells::{Flags, Rows};
use crate::error::Result;
use crate::gate::{Closed, Gate};
use crate::sync::{AtomicU8, Ordering};
use crate::window::Window;

/// Both copies have the row.
const SAME: u8 = 0;
/// The latest value is in D; in D̄ it is `LATEST_IN_D + 1`.
const LATEST_IN_D: u8 = 1;

/// Windowed Piggyback; see the module.
pub struct Windowed {
    /// D and D̄.
    copies: [Rows; 2],
    /// D̄b: where the latest value of each row is.
    latest: Flags,
    /// pU: the copy that the client writes. It changes only under the closed gate.
    up: AtomicU8,
    window: Window,
    rows: usize,
}

impl Windowed {
    #[inline]
    fn up(&self) -> u8 {
        self.up.load(Ordering::Relaxed) & 1
    }

    /// Writes a row of the window.
    #[cold]
    fn write_in_window(&self, up: u8, row: usize, value: &[u64]) {
        let _held = self.window.hold();
        self.copies[usize::from(up)].store(row, value);
        self.latest.set(row, LATEST_IN_D + up);
    }

    /// The rows of a group whose latest value is only in `*pD`. The client removes rows from this
    /// set and adds none.
    fn stale(&self, first: usize) -> impl Iterator<Item = usize> {
        let latest_down = LATEST_IN_D + (self.up() ^ 1);
        let end = (first + Window::GROUP_ROWS).min(self.rows);
        (first..end).filter(move |row| self.latest.get(*row) == latest_down)
    }

    /// Copies the rows of a group whose window is adopted.
    fn copy_group(&self, first: usize) {
        let up = usize::from(self.up());
        let _held = self.window.hold();
        self.copies[up].stream_rows(self.stale(first), &self.copies[up ^ 1]);
        for row in self.stale(first) {
            self.latest.hand_over(row, SAME);
        }
    }
}

impl Algorithm for Windowed {
    const NAME: &'static str = "windowed";
    const CONTENT: Content = Content::Full;

    fn load(setup: &Setup<'_>) -> Self {
        let rows = setup.shape.rows();
        Self {
            copies: [setup.initial_rows(), setup.initial_rows()],
            latest: Flags::new(rows, SAME, setup.pages),
            up: AtomicU8::new(0),
            window: Window::new(rows),
            rows,
        }
    }

    fn enter(&self) {
        self.window.adopt();
    }

    #[inline]
    fn write(&self, row: usize, value: &[u64]) {
        let up = self.up();
        if self.window.has(row) {
            self.write_in_window(up, row, value);
        } else {
            self.copies[usize::from(up)].store(row, value);
            self.latest.set(row, LATEST_IN_D + up);
        }
    }

    #[inline]
    fn read(&self, row: usize, into: &mut [u64]) {
        let in_shadow = self.latest.look(row) > LATEST_IN_D;
        self.copies[usize::from(in_shadow)].load(row, into);
    }

    fn take(&self, _closed: &Closed<'_>) -> Result<()> {
        self.up.fetch_xor(1, Ordering::Relaxed);
        Ok(())
    }

    /// Snapshotter::WriteToOnline for a group of rows.
    #[inline]
    fn write_to_online(&self, from: usize, gate: &Gate) -> Online {
        if self.stale(from).next().is_some() {
            if !self.window.open(from, gate) {
                return Online::Waiting;
            }
            self.copy_group(from);
        }
        let next = from + Window::GROUP_ROWS;
        if next >= self.rows {
            self.window.close();
        }
        Online::From(next)
    }

    #[inline]
    fn snapshot_row(&self, row: usize, into: &mut [u64]) -> Result<bool> {
        self.copies[usize::from(self.up() ^ 1)].load(row, into);
        Ok(true)
    }

    fn finish(&self) {}
}
