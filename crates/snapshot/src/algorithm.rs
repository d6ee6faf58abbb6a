//! The trait that all physical snapshot algorithms implement: the paper's Interface 1.
//!
//! ```text
//!   paper                               here
//!   Snapshotter::Trigger                database::Snapshotter::take, and the use of the Snapshot
//!   Snapshotter::TakeSnapshot           Algorithm::take             the gate is closed
//!   Snapshotter::WriteToOnline          Algorithm::write_to_online  in steps, before the traversal
//!   Snapshotter::TraverseSnapshot       Algorithm::snapshot_row     for each row in turn
//!   Client::Read, Client::Write         Algorithm::read, Algorithm::write
//! ```
//!
//! All methods take `&self`: the client's thread and the snapshotter's use the algorithm
//! concurrently. Types enforce the order of calls: [`crate::database`] hands out a client that can
//! read and write only inside a tick, and a snapshot that can be traversed only after it was taken.

use std::path::Path;
use std::sync::Arc;

use crate::cells::{Pages, Rows, Shape};
use crate::dump::Summary;
use crate::error::Result;
use crate::gate::{Closed, Gate};

/// The rows that a snapshot contains.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Content {
    /// Every row.
    Full,
    /// The rows written since the previous snapshot. The first snapshot has every row.
    Changes,
}

/// The initial rows, and where they are stored.
pub struct Setup<'a> {
    /// The number and size of the rows.
    pub shape: Shape,
    /// The pages of virtual memory for the rows.
    pub pages: Pages,
    /// The disk to which the child process of [`crate::Fork`] writes dumps itself. Without one, its
    /// rows come to the parent through a pipe.
    pub child_disk: Option<Arc<dyn env::Disk>>,
    /// Writes the initial value of a row.
    pub initial: &'a dyn Fn(usize, &mut [u64]),
}

impl Setup<'_> {
    /// Returns rows with their initial values.
    #[must_use]
    pub fn initial_rows(&self) -> Rows {
        let rows = self.empty_rows();
        let mut value = vec![0; self.shape.row_words()];
        for row in 0..self.shape.rows() {
            (self.initial)(row, &mut value);
            rows.store(row, &value);
        }
        rows
    }

    /// Returns rows of zeros, for a copy that is filled later.
    #[must_use]
    pub fn empty_rows(&self) -> Rows {
        Rows::zeroed(self.shape, self.pages)
    }
}

/// The progress of [`Algorithm::write_to_online`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Online {
    /// Continue with this row; past the last one, the work is complete.
    From(usize),
    /// The client must act first: try again a little later.
    Waiting,
}

/// A way to take consistent snapshots of rows in memory.
///
/// Calls come in this order: `take`, then `write_to_online` until it is past the last row, then
/// `snapshot_row` for rows in ascending order (the whole of it possibly again, after `rewind`),
/// then `finish`, and then the next `take`. `read` and `write` come from one thread, at any time
/// except during `take`.
pub trait Algorithm: Send + Sync + Sized + 'static {
    /// The name in commands, files and figures.
    const NAME: &'static str;
    /// The rows that its snapshots contain.
    const CONTENT: Content;

    /// Loads the rows. No snapshot has been taken yet.
    fn load(setup: &Setup<'_>) -> Self;

    /// Called after the client has passed the gate.
    fn enter(&self) {}

    /// Copies out the latest value of a row.
    fn read(&self, row: usize, into: &mut [u64]);

    /// Gives a row a new value.
    fn write(&self, row: usize, value: &[u64]);

    /// Runs the taken phase: from now on, the snapshot is the state of this moment.
    ///
    /// # Errors
    /// If the operating system denies a resource; no snapshot is taken then.
    fn take(&self, closed: &Closed<'_>) -> Result<()>;

    /// Updates the copy that the client writes with rows that it has not written. Begins with row
    /// `from` and updates some rows. Most algorithms have nothing to do here.
    fn write_to_online(&self, from: usize, gate: &Gate) -> Online {
        let _ = (from, gate);
        Online::From(usize::MAX)
    }

    /// Copies a row out of the snapshot; `false` if the snapshot does not have it.
    ///
    /// # Errors
    /// If the snapshot is in another process and cannot be read.
    fn snapshot_row(&self, row: usize, into: &mut [u64]) -> Result<bool>;

    /// Goes back to the first row.
    ///
    /// # Errors
    /// If the snapshot is in another process and cannot be read.
    fn rewind(&self) -> Result<()> {
        Ok(())
    }

    /// Dumps the snapshot without [`Algorithm::snapshot_row`] if another process can do that.
    fn dump_elsewhere(&self, path: &Path, sequence: u64) -> Option<Result<Summary>> {
        let _ = (path, sequence);
        None
    }

    /// Ends the snapshot.
    fn finish(&self);
}
