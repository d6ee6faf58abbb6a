//! The trait that all physical snapshot algorithms implement: the paper's Interface 1.
//!
//! ```text
//!   paper                               here
//!   Snapshotter::Trigger                database::Snapshotter::take, and what one does with the Snapshot
//!   Snapshotter::TakeSnapshot           Algorithm::take             the gate is closed
//!   Snapshotter::WriteToOnline          Algorithm::write_to_online  in steps, before the traversal
//!   Snapshotter::TraverseSnapshot       Algorithm::snapshot_row     for each row in turn
//!   Client::Read, Client::Write         Algorithm::read, Algorithm::write
//! ```
//!
//! All methods take `&self`: the client's thread and the snapshotter's use the algorithm at the
//! same time. Which of them may be called when is not left to callers: [`crate::database`] hands
//! out a client that can only read and write inside a tick, and a snapshot that can only be
//! traversed after it was taken.

use std::path::Path;
use std::sync::Arc;

use crate::cells::{Pages, Rows, Shape};
use crate::dump::Summary;
use crate::error::Result;
use crate::gate::{Closed, Gate};

/// What a snapshot has in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Content {
    /// Every row.
    Full,
    /// The rows that were written since the snapshot before. The first snapshot has every row.
    Changes,
}

/// What the rows are to be at the beginning, and where they are put.
pub struct Setup<'a> {
    /// How many rows of what size.
    pub shape: Shape,
    /// Pages of virtual memory for the rows.
    pub pages: Pages,
    /// The disk that the child process of [`crate::Fork`] writes dumps to by itself. Without one,
    /// its rows come to the parent through a pipe.
    pub child_disk: Option<Arc<dyn env::Disk>>,
    /// Writes the first value of a row.
    pub initial: &'a dyn Fn(usize, &mut [u64]),
}

impl Setup<'_> {
    /// Rows with their first values.
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

    /// Rows of zeros, for a copy whose content comes later.
    #[must_use]
    pub fn empty_rows(&self) -> Rows {
        Rows::zeroed(self.shape, self.pages)
    }
}

/// How far [`Algorithm::write_to_online`] has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Online {
    /// Go on with this row; past the last one there is nothing left to do.
    From(usize),
    /// The client has to make a move first: try again a little later.
    Waiting,
}

/// A way to take consistent snapshots of rows in memory.
///
/// Calls come in this order: `take`, then `write_to_online` until it is past the last row, then
/// `snapshot_row` for rows in ascending order (the whole of it possibly again, after `rewind`),
/// then `finish`, and then the next `take`. `read` and `write` come at any time but during `take`,
/// from one thread.
pub trait Algorithm: Send + Sync + Sized + 'static {
    /// The name in commands, files and figures.
    const NAME: &'static str;
    /// What is in its snapshots.
    const CONTENT: Content;

    /// Loads the rows. No snapshot was taken yet.
    fn load(setup: &Setup<'_>) -> Self;

    /// The client has passed the gate.
    fn enter(&self) {}

    /// The latest value of a row.
    fn read(&self, row: usize, into: &mut [u64]);

    /// Gives a row a new value.
    fn write(&self, row: usize, value: &[u64]);

    /// The taken phase: from now on the snapshot is the state of this moment.
    ///
    /// # Errors
    /// If the operating system refuses what it needs; then no snapshot is taken.
    fn take(&self, closed: &Closed<'_>) -> Result<()>;

    /// Brings the copy that the client writes up to date with the rows that it has not written,
    /// from row `from` on, for some rows. Most algorithms have nothing to do here.
    fn write_to_online(&self, from: usize, gate: &Gate) -> Online {
        let _ = (from, gate);
        Online::From(usize::MAX)
    }

    /// Copies out what the snapshot has of a row: `false` if nothing.
    ///
    /// # Errors
    /// If the snapshot is somewhere else and does not come.
    fn snapshot_row(&self, row: usize, into: &mut [u64]) -> Result<bool>;

    /// Goes back to the first row.
    ///
    /// # Errors
    /// If the snapshot is somewhere else and does not come.
    fn rewind(&self) -> Result<()> {
        Ok(())
    }

    /// Dumps the snapshot without [`Algorithm::snapshot_row`], where another process can do that.
    fn dump_elsewhere(&self, path: &Path, sequence: u64) -> Option<Result<Summary>> {
        let _ = (path, sequence);
        None
    }

    /// The snapshot is not needed any more.
    fn finish(&self);
}
