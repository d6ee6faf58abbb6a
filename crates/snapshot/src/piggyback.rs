//! Piggyback (Algorithm 3): swap the copies, and bring the new one up to date in the background.
//!
//! ```text
//!   D, D̄     client writes *pU;  reads D̄ if D̄b[i] = 2, else D
//!            taken phase: swap(pU, pD)
//!            WriteToOnline: rows that only *pD has the latest of are copied to *pU
//!            TraverseSnapshot: *pD, all of it: nobody writes there until the next swap
//! ```
//!
//! At the end of a period `*pU` is the latest of everything, either because the client wrote a row or
//! because it was copied: so snapshots are full, and nothing has to be merged.
//!
//! # Where this is not what the paper says
//!
//! The paper's two halves race. `WriteToOnline` tests `D̄b[k]`, sets it to 0 and then copies. A client
//! that writes row `k` in between has its new value overwritten by the old one, and a client that
//! reads it after the 0 and before the copy reads what is not there yet. So the flag is a hand-over:
//!
//! ```text
//!            client: first write in the period
//!         ┌───────────────────────────────────────────────┐
//!         ▼                                               │
//!   latest in *pU ◄──────── latest in *pD ──────► copying │
//!         ▲                        snapshotter       │    │
//!         │                                          ▼    │
//!         └───────────────────────────────────── both the same
//! ```
//!
//! Each arrow out of "latest in *pD" is a compare-and-swap, so one of them wins. The client marks the
//! row *before* it writes it, and waits for a copy under way: that of one row. The snapshotter says
//! "both the same" *after* it has copied. When the pass is over nobody but the client changes flags
//! until the next swap, and a plain store does: a compare-and-swap makes the processor wait for the
//! stores before it, which for rows that are in no cache is most of the cost of an update.

use crate::algorithm::{Algorithm, Content, Online, Setup};
use crate::cells::{Flags, Rows};
use crate::error::Result;
use crate::gate::{Closed, Gate};
use crate::sync::{AtomicBool, AtomicU8, Backoff, Ordering};

/// Both copies have the row.
const SAME: u8 = 0;
/// The latest value is in D; in D̄ it is `LATEST_IN_D + 1`.
const LATEST_IN_D: u8 = 1;
/// Bit of a flag: the latest value is in D̄.
const IN_SHADOW: u8 = 2;
/// Bit of a flag: it is being copied to the other one.
const COPYING: u8 = 4;

/// See the module.
pub struct Piggyback {
    /// D and D̄.
    copies: [Rows; 2],
    /// D̄b: where the latest value of each row is.
    state: Flags,
    /// pU: the copy that the client writes. Changes under the closed gate only.
    up: AtomicU8,
    /// Whether `WriteToOnline` still has rows to copy.
    copying: AtomicBool,
    rows: usize,
}

impl Piggyback {
    #[inline]
    fn up(&self) -> u8 {
        self.up.load(Ordering::Relaxed) & 1
    }

    /// Makes the row the client's before the snapshotter begins to copy it, or after it is copied.
    #[inline]
    fn claim(&self, row: usize, own: u8) {
        let mut backoff = Backoff::new();
        loop {
            let state = self.state.look(row);
            if state == own {
                return;
            }
            if state & COPYING != 0 {
                backoff.wait();
            } else if self.state.claim(row, state, own) {
                return;
            }
        }
    }
}

impl Algorithm for Piggyback {
    const NAME: &'static str = "piggyback";
    const CONTENT: Content = Content::Full;

    fn load(setup: &Setup<'_>) -> Self {
        Self {
            copies: [setup.initial_rows(), setup.initial_rows()],
            state: Flags::new(setup.shape.rows(), SAME),
            up: AtomicU8::new(0),
            copying: AtomicBool::new(false),
            rows: setup.shape.rows(),
        }
    }

    #[inline]
    fn write(&self, row: usize, value: &[u64]) {
        let up = self.up();
        if self.copying.load(Ordering::Acquire) {
            self.claim(row, LATEST_IN_D + up);
        } else {
            self.state.set(row, LATEST_IN_D + up);
        }
        self.copies[usize::from(up)].store(row, value);
    }

    #[inline]
    fn read(&self, row: usize, into: &mut [u64]) {
        let in_shadow = self.state.look(row) & IN_SHADOW != 0;
        self.copies[usize::from(in_shadow)].load(row, into);
    }

    fn take(&self, _closed: &Closed<'_>) -> Result<()> {
        self.up.fetch_xor(1, Ordering::Relaxed);
        self.copying.store(true, Ordering::Relaxed);
        Ok(())
    }

    #[inline]
    fn write_to_online(&self, from: usize, _gate: &Gate) -> Online {
        let up = self.up();
        let down = up ^ 1;
        let latest_down = LATEST_IN_D + down;
        if self.state.get(from) == latest_down
            && self.state.claim(from, latest_down, latest_down | COPYING)
        {
            self.copies[usize::from(up)].copy_row(from, &self.copies[usize::from(down)]);
            self.state.hand_over(from, SAME);
        }
        if from + 1 == self.rows {
            self.copying.store(false, Ordering::Release);
        }
        Online::From(from + 1)
    }

    #[inline]
    fn snapshot_row(&self, row: usize, into: &mut [u64]) -> Result<bool> {
        self.copies[usize::from(self.up() ^ 1)].load(row, into);
        Ok(true)
    }

    fn finish(&self) {}
}
