//! Piggyback (Algorithm 3): swaps the copies, and updates the new one in the background.
//!
//! ```text
//!   D, D̄     client writes *pU;  reads D̄ if D̄b[i] = 2, else D
//!            taken phase: swap(pU, pD)
//!            WriteToOnline: rows that only *pD has the latest of are copied to *pU
//!            TraverseSnapshot: all of *pD, which is not written until the next swap
//! ```
//!
//! At the end of a period, `*pU` has the latest value of every row, because the client wrote it or
//! because it was copied: so snapshots are full, and nothing needs merging.
//!
//! # Where this is not what the paper says
//!
//! In the paper, the two halves race. `WriteToOnline` tests `D̄b[k]`, sets it to 0 and then copies.
//! If a client writes row `k` in between, the old value overwrites its new one; a client that reads
//! it after the 0 and before the copy reads a value that has not arrived. So the flag is a
//! hand-over:
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
//! Each arrow out of "latest in *pD" is a compare-and-swap, so exactly one wins. The client marks
//! the row *before* writing it, and waits for a copy in progress, which is of one row. The
//! snapshotter sets "both the same" *after* copying. After the pass, only the client changes flags
//! until the next swap, and a plain store suffices: a compare-and-swap makes the processor wait for
//! earlier stores, which for rows that are in no cache is most of the cost of an update.

use crate::algorithm::{Algorithm, Content, Online, Setup};
use crate::cells::{Flags, Rows};
use crate::error::Result;
use crate::gate::{Closed, Gate};
use crate::sync::{AtomicBool, AtomicU8, Backoff, Ordering};

/// Both copies have the row.
const SAME: u8 = 0;
/// The latest value is in D; in D̄ it is `LATEST_IN_D + 1`.
const LATEST_IN_D: u8 = 1;
/// Flag bit: the latest value is in D̄.
const IN_SHADOW: u8 = 2;
/// Flag bit: the row is being copied to the other copy.
const COPYING: u8 = 4;

/// Both copies of the rows, and where the latest value of each is. Shared by [`Piggyback`] and
/// [`crate::transactions::piggyback`]. The caller says which copy is `*pU`.
pub(crate) struct Copies {
    /// D and D̄.
    copies: [Rows; 2],
    /// D̄b: where the latest value of each row is.
    state: Flags,
    /// Whether `WriteToOnline` still has rows to copy.
    copying: AtomicBool,
    rows: usize,
}

impl Copies {
    pub(crate) fn load(setup: &Setup<'_>) -> Self {
        Self {
            copies: [setup.initial_rows(), setup.initial_rows()],
            state: Flags::new(setup.shape.rows(), SAME, setup.pages),
            copying: AtomicBool::new(false),
            rows: setup.shape.rows(),
        }
    }

    pub(crate) fn rows(&self) -> usize {
        self.rows
    }

    /// Reserves the row for the client, before the snapshotter begins to copy it or after it has
    /// copied it.
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

    /// Client::Write, to the copy `up`.
    #[inline]
    pub(crate) fn write(&self, up: u8, row: usize, value: &[u64]) {
        if self.copying.load(Ordering::Acquire) {
            self.claim(row, LATEST_IN_D + up);
        } else {
            self.state.set(row, LATEST_IN_D + up);
        }
        self.copies[usize::from(up)].store(row, value);
    }

    /// Client::Read.
    #[inline]
    pub(crate) fn read(&self, row: usize, into: &mut [u64]) {
        let in_shadow = self.state.look(row) & IN_SHADOW != 0;
        self.copies[usize::from(in_shadow)].load(row, into);
    }

    /// Makes all later writes hand rows over. Comes before the client sees the swap.
    pub(crate) fn begin_to_copy(&self) {
        self.copying.store(true, Ordering::Release);
    }

    /// Snapshotter::WriteToOnline for one row, to the copy `up`.
    #[inline]
    pub(crate) fn write_to_online(&self, up: u8, row: usize) {
        let down = up ^ 1;
        let latest_down = LATEST_IN_D + down;
        if self.state.get(row) == latest_down
            && self.state.claim(row, latest_down, latest_down | COPYING)
        {
            self.copies[usize::from(up)].copy_row(row, &self.copies[usize::from(down)]);
            self.state.hand_over(row, SAME);
        }
        if row + 1 == self.rows {
            self.copying.store(false, Ordering::Release);
        }
    }

    /// Snapshotter::TraverseSnapshot for one row.
    #[inline]
    pub(crate) fn load_row(&self, copy: u8, row: usize, into: &mut [u64]) {
        self.copies[usize::from(copy)].load(row, into);
    }
}

/// Piggyback; see the module.
pub struct Piggyback {
    copies: Copies,
    /// pU: the copy that the client writes. It changes only under the closed gate.
    up: AtomicU8,
}

impl Piggyback {
    #[inline]
    fn up(&self) -> u8 {
        self.up.load(Ordering::Relaxed) & 1
    }
}

impl Algorithm for Piggyback {
    const NAME: &'static str = "piggyback";
    const CONTENT: Content = Content::Full;

    fn load(setup: &Setup<'_>) -> Self {
        Self { copies: Copies::load(setup), up: AtomicU8::new(0) }
    }

    #[inline]
    fn write(&self, row: usize, value: &[u64]) {
        self.copies.write(self.up(), row, value);
    }

    #[inline]
    fn read(&self, row: usize, into: &mut [u64]) {
        self.copies.read(row, into);
    }

    fn take(&self, _closed: &Closed<'_>) -> Result<()> {
        self.up.fetch_xor(1, Ordering::Relaxed);
        self.copies.begin_to_copy();
        Ok(())
    }

    #[inline]
    fn write_to_online(&self, from: usize, _gate: &Gate) -> Online {
        self.copies.write_to_online(self.up(), from);
        Online::From(from + 1)
    }

    #[inline]
    fn snapshot_row(&self, row: usize, into: &mut [u64]) -> Result<bool> {
        self.copies.load_row(self.up() ^ 1, row, into);
        Ok(true)
    }

    fn finish(&self) {}
}
