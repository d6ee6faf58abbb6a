//! Ping-Pong (section 3.1.4): writes everything twice, and swaps the owners of the second copies.
//!
//! ```text
//!   D       ◄── client reads; every write goes to D and to D̄u
//!   D̄u, bu  ◄── client: the changes of this period        ┐ taken phase: swapped
//!   D̄d, bd  ──► snapshotter: the changes of the last one  ┘
//! ```
//!
//! The taken phase is two stores. The price is three copies in memory, two writes for each one, and
//! snapshots that contain only changes: a full checkpoint is merged on disk
//! ([`crate::checkpoint`]).
//!
//! Loading the rows counts as period 0, in which all of them were written; so the first snapshot is
//! full, and later ones can be merged with it.

use crate::algorithm::{Algorithm, Content, Setup};
use crate::cells::{Flags, Rows};
use crate::error::Result;
use crate::gate::Closed;
use crate::sync::{AtomicUsize, Ordering};

/// Ping-Pong; see the module.
pub struct PingPong {
    d: Rows,
    /// D̄u and D̄d: `up` says which is which.
    changes: [Rows; 2],
    /// 1 if the row is in the changes of the same number.
    changed: [Flags; 2],
    /// The changes that the client writes. It changes only under the closed gate.
    up: AtomicUsize,
}

impl PingPong {
    #[inline]
    fn up(&self) -> usize {
        self.up.load(Ordering::Relaxed) & 1
    }
}

impl Algorithm for PingPong {
    const NAME: &'static str = "ping-pong";
    const CONTENT: Content = Content::Changes;

    fn load(setup: &Setup<'_>) -> Self {
        let rows = setup.shape.rows();
        Self {
            d: setup.initial_rows(),
            changes: [setup.initial_rows(), setup.empty_rows()],
            changed: [Flags::new(rows, 1, setup.pages), Flags::new(rows, 0, setup.pages)],
            up: AtomicUsize::new(0),
        }
    }

    #[inline]
    fn read(&self, row: usize, into: &mut [u64]) {
        self.d.load(row, into);
    }

    #[inline]
    fn write(&self, row: usize, value: &[u64]) {
        let up = self.up();
        self.d.store(row, value);
        self.changes[up].store(row, value);
        self.changed[up].set(row, 1);
    }

    fn take(&self, _closed: &Closed<'_>) -> Result<()> {
        self.up.store(self.up() ^ 1, Ordering::Relaxed);
        Ok(())
    }

    #[inline]
    fn snapshot_row(&self, row: usize, into: &mut [u64]) -> Result<bool> {
        let down = self.up() ^ 1;
        if self.changed[down].get(row) == 0 {
            return Ok(false);
        }
        self.changes[down].load(row, into);
        Ok(true)
    }

    /// The bits are cleared after the changes are safe, not during the traversal, so that a failed
    /// traversal can be repeated.
    fn finish(&self) {
        self.changed[self.up() ^ 1].clear();
    }
}
