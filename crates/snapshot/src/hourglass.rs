//! Hourglass (Algorithm 2): Zigzag's bits and Ping-Pong's pointers.
//!
//! ```text
//!   D, D̄       client writes *pU, and pU_b[i] ← 1; reads the copy that D̄br[i] names
//!              snapshotter reads the rows of *pD whose bit pD_b[i] is set
//!              taken phase: swap(pU, pD), swap(pU_b, pD_b)
//! ```
//!
//! Two copies and a taken phase of two swaps. Snapshots contain only changes: a full checkpoint is
//! merged on disk ([`crate::checkpoint`]).
//!
//! No variable is written by both threads in one period: `*pU`, `pU_b` and `D̄br` belong to the
//! client, `pD_b` to the snapshotter, and both read `*pD`. So the gate is the only hand-over.
//!
//! The paper starts with the bits of the shadow copy set, so that the snapshot in progress at the
//! start is full. Here, loading the rows counts as period 0, in which all of them were written: the
//! same, seen one swap earlier.

use crate::algorithm::{Algorithm, Content, Setup};
use crate::cells::{Flags, Rows};
use crate::error::Result;
use crate::gate::Closed;
use crate::sync::{AtomicU8, Ordering};

/// Hourglass; see the module.
pub struct Hourglass {
    /// D and D̄.
    copies: [Rows; 2],
    /// D̄b1 and D̄b2: 1 if the row of this copy was written in its period.
    changed: [Flags; 2],
    /// D̄br: the copy with the latest value. Only the client uses it.
    latest: Flags,
    /// pU: the copy that the client writes. It changes only under the closed gate.
    up: AtomicU8,
    /// pU_b: the bits that the client sets.
    up_bits: AtomicU8,
}

impl Algorithm for Hourglass {
    const NAME: &'static str = "hourglass";
    const CONTENT: Content = Content::Changes;

    fn load(setup: &Setup<'_>) -> Self {
        let rows = setup.shape.rows();
        Self {
            copies: [setup.initial_rows(), setup.empty_rows()],
            changed: [Flags::new(rows, 1, setup.pages), Flags::new(rows, 0, setup.pages)],
            latest: Flags::new(rows, 0, setup.pages),
            up: AtomicU8::new(0),
            up_bits: AtomicU8::new(0),
        }
    }

    #[inline]
    fn write(&self, row: usize, value: &[u64]) {
        let up = self.up.load(Ordering::Relaxed) & 1;
        let up_bits = self.up_bits.load(Ordering::Relaxed) & 1;
        self.changed[usize::from(up_bits)].set(row, 1);
        self.copies[usize::from(up)].store(row, value);
        self.latest.set(row, up);
    }

    #[inline]
    fn read(&self, row: usize, into: &mut [u64]) {
        self.copies[usize::from(self.latest.get(row) & 1)].load(row, into);
    }

    fn take(&self, _closed: &Closed<'_>) -> Result<()> {
        self.up.fetch_xor(1, Ordering::Relaxed);
        self.up_bits.fetch_xor(1, Ordering::Relaxed);
        Ok(())
    }

    #[inline]
    fn snapshot_row(&self, row: usize, into: &mut [u64]) -> Result<bool> {
        let down = self.up.load(Ordering::Relaxed) & 1 ^ 1;
        let down_bits = self.up_bits.load(Ordering::Relaxed) & 1 ^ 1;
        if self.changed[usize::from(down_bits)].get(row) == 0 {
            return Ok(false);
        }
        self.copies[usize::from(down)].load(row, into);
        Ok(true)
    }

    /// Line 5 of TraverseSnapshot, for all rows at once after the changes are safe, so that a
    /// failed traversal can be repeated.
    fn finish(&self) {
        let down_bits = self.up_bits.load(Ordering::Relaxed) & 1 ^ 1;
        self.changed[usize::from(down_bits)].clear();
    }
}
