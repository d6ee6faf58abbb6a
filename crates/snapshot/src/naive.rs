//! Naive Snapshot (section 3.1.1): copy everything while the client waits.
//!
//! ```text
//!   D   ◄── client reads and writes
//!   D̄   ──► snapshotter          taken phase: D̄ ← D, all of it
//! ```
//!
//! No algorithm is simpler, and none is cheaper between two snapshots. The taken phase lasts as
//! long as copying the data set.

use crate::algorithm::{Algorithm, Content, Setup};
use crate::cells::Rows;
use crate::error::Result;
use crate::gate::Closed;

/// Naive Snapshot; see the module.
pub struct Naive {
    d: Rows,
    shadow: Rows,
}

impl Algorithm for Naive {
    const NAME: &'static str = "naive";
    const CONTENT: Content = Content::Full;

    fn load(setup: &Setup<'_>) -> Self {
        Self { d: setup.initial_rows(), shadow: setup.empty_rows() }
    }

    #[inline]
    fn read(&self, row: usize, into: &mut [u64]) {
        self.d.load(row, into);
    }

    #[inline]
    fn write(&self, row: usize, value: &[u64]) {
        self.d.store(row, value);
    }

    fn take(&self, closed: &Closed<'_>) -> Result<()> {
        self.shadow.copy_all(&self.d, closed);
        Ok(())
    }

    #[inline]
    fn snapshot_row(&self, row: usize, into: &mut [u64]) -> Result<bool> {
        self.shadow.load(row, into);
        Ok(true)
    }

    fn finish(&self) {}
}
