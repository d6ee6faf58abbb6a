//! Copy-on-Update (section 3.1.2): the first write to a row keeps its old value.
//!
//! ```text
//!   D      ◄── client        first write to a row in a period: lock; D̄[i] ← D[i]; D̄b[i] ← 1; unlock
//!   D̄, D̄b  ──► snapshotter   lock; D̄b[i] ? D̄[i] : D[i]; unlock
//!                            taken phase: all D̄b ← 0
//! ```
//!
//! The latency-spike-free variant: the taken phase clears the bits and copies no rows. The client
//! makes the copies later, one at a time. The row lock prevents the snapshotter from reading `D[i]`
//! after the client has found the bit clear and is about to write. Once the bit is set, the
//! snapshotter reads `D̄[i]`, which no longer changes, so later writes in the period need no lock.

use crate::algorithm::{Algorithm, Content, Setup};
use crate::cells::{Flags, Rows};
use crate::error::Result;
use crate::gate::Closed;
use crate::sync::Backoff;

/// Copy-on-Update; see the module.
pub struct CopyOnUpdate {
    d: Rows,
    shadow: Rows,
    /// 1 if the row was written in this period, so that its old value is in `shadow`. Only the
    /// client sets it.
    copied: Flags,
    /// 1 if a thread has locked the row.
    locks: Flags,
}

impl CopyOnUpdate {
    #[inline]
    fn lock(&self, row: usize) {
        let mut backoff = Backoff::new();
        while !self.locks.claim(row, 0, 1) {
            backoff.wait();
        }
    }

    #[inline]
    fn unlock(&self, row: usize) {
        self.locks.hand_over(row, 0);
    }
}

impl Algorithm for CopyOnUpdate {
    const NAME: &'static str = "cou";
    const CONTENT: Content = Content::Full;

    /// Before the first snapshot, no old value needs to be kept, as if all had been copied.
    fn load(setup: &Setup<'_>) -> Self {
        let rows = setup.shape.rows();
        Self {
            d: setup.initial_rows(),
            shadow: setup.empty_rows(),
            copied: Flags::new(rows, 1, setup.pages),
            locks: Flags::new(rows, 0, setup.pages),
        }
    }

    #[inline]
    fn read(&self, row: usize, into: &mut [u64]) {
        self.d.load(row, into);
    }

    #[inline]
    fn write(&self, row: usize, value: &[u64]) {
        if self.copied.get(row) == 0 {
            self.lock(row);
            self.shadow.copy_row(row, &self.d);
            self.copied.set(row, 1);
            self.unlock(row);
        }
        self.d.store(row, value);
    }

    fn take(&self, closed: &Closed<'_>) -> Result<()> {
        self.copied.fill(0, closed);
        Ok(())
    }

    #[inline]
    fn snapshot_row(&self, row: usize, into: &mut [u64]) -> Result<bool> {
        self.lock(row);
        let from = if self.copied.get(row) == 0 { &self.d } else { &self.shadow };
        from.load(row, into);
        self.unlock(row);
        Ok(true)
    }

    fn finish(&self) {}
}
