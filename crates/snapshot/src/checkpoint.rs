//! Checkpoints: a sequence of full dumps, also from snapshots that contain only changes.
//!
//! ```text
//!   full snapshot      ─────────────────────────────► dump n
//!   changes since n-1  ─────────┐ merged by row       ▲
//!   dump n-1           ─────────┴─────────────────────┘   read and written in one pass
//! ```
//!
//! The paper's *Merge*: the last checkpoint and the changes are read in the same order, and each
//! row comes from the changes if they contain it. The last checkpoint is removed when its successor
//! is durable; a crash in between leaves both, and [`Checkpoints::latest`] finds the newer one.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use env::Disk;

use crate::algorithm::Content;
use crate::cells::Shape;
use crate::dump::{Reader, Summary, Writer};
use crate::error::{Error, Result};

const SUFFIX: &str = ".snapshot";

/// A snapshot from which a checkpoint can be made.
pub trait Source: Sized {
    /// Whether it contains all rows or only changes.
    const CONTENT: Content;

    /// The size and number of the rows.
    fn shape(&self) -> Shape;

    /// The number of snapshots so far, including this one.
    fn sequence(&self) -> u64;

    /// Passes every row of the snapshot to `visit`, in ascending order.
    ///
    /// # Errors
    /// The first error of `visit`.
    fn traverse(&mut self, visit: impl FnMut(usize, &[u64]) -> Result<()>) -> Result<()>;

    /// Dumps the snapshot without traversing it if another process can do that.
    fn dump_elsewhere(&mut self, path: &Path) -> Option<Result<Summary>> {
        let _ = path;
        None
    }

    /// Ends the snapshot.
    fn finish(self);
}

/// A directory of checkpoints.
pub struct Checkpoints {
    disk: Arc<dyn Disk>,
    directory: PathBuf,
}

impl Checkpoints {
    /// Opens the checkpoints in `directory`, creating it if missing.
    ///
    /// # Errors
    /// The error of the disk.
    pub fn open(disk: Arc<dyn Disk>, directory: impl Into<PathBuf>) -> Result<Self> {
        let directory = directory.into();
        disk.create_dir_all(&directory).map_err(Error::io(&directory, "create"))?;
        Ok(Self { disk, directory })
    }

    fn path(&self, sequence: u64) -> PathBuf {
        self.directory.join(format!("{sequence:010}{SUFFIX}"))
    }

    fn sequences(&self) -> Result<Vec<u64>> {
        let names = self.disk.list(&self.directory).map_err(Error::io(&self.directory, "list"))?;
        let parse = |name: &std::ffi::OsString| name.to_str()?.strip_suffix(SUFFIX)?.parse().ok();
        let mut sequences: Vec<u64> = names.iter().filter_map(parse).collect();
        sequences.sort_unstable();
        Ok(sequences)
    }

    /// Returns the path of the newest checkpoint.
    ///
    /// # Errors
    /// The error of the disk.
    pub fn latest(&self) -> Result<Option<PathBuf>> {
        Ok(self.sequences()?.last().map(|sequence| self.path(*sequence)))
    }

    /// Makes a full checkpoint of a snapshot, finishes the snapshot, and removes older checkpoints.
    /// If it fails, the snapshot is unfinished and the older checkpoints remain.
    ///
    /// # Errors
    /// The error of the disk; [`crate::FileError::Corrupt`] if the last checkpoint is needed for
    /// merging and is damaged.
    pub fn make<S: Source>(&self, mut snapshot: S) -> Result<Summary> {
        let sequence = snapshot.sequence();
        let path = self.path(sequence);
        let summary = match snapshot.dump_elsewhere(&path) {
            Some(summary) => summary?,
            None => {
                let disk = self.disk.as_ref();
                let mut writer =
                    Writer::create(disk, &path, snapshot.shape(), Content::Full, sequence)?;
                if S::CONTENT == Content::Changes && sequence > 1 {
                    self.merge(&mut snapshot, &mut writer)?;
                } else {
                    snapshot.traverse(|row, value| writer.row(row, value))?;
                }
                writer.finish()?
            }
        };
        snapshot.finish();
        self.remove_before(sequence)?;
        Ok(summary)
    }

    /// Writes the rows of a snapshot of changes merged with those of the previous checkpoint.
    fn merge<S: Source>(&self, snapshot: &mut S, writer: &mut Writer<'_>) -> Result<()> {
        let shape = snapshot.shape();
        let mut before = Reader::open(self.disk.as_ref(), &self.path(snapshot.sequence() - 1))?;
        before.expect_shape(shape)?;
        let mut old = vec![0; shape.row_words()];
        let mut next = 0;
        snapshot.traverse(|changed, value| {
            while next < changed {
                before.next_row(&mut old)?;
                writer.row(next, &old)?;
                next += 1;
            }
            // The row that the change replaces.
            before.next_row(&mut old)?;
            writer.row(changed, value)?;
            next += 1;
            Ok(())
        })?;
        while let Some(row) = before.next_row(&mut old)? {
            writer.row(row, &old)?;
        }
        Ok(())
    }

    fn remove_before(&self, sequence: u64) -> Result<()> {
        let mut removed = false;
        for old in self.sequences()?.into_iter().filter(|old| *old < sequence) {
            let path = self.path(old);
            self.disk.remove(&path).map_err(Error::io(&path, "remove"))?;
            removed = true;
        }
        if removed {
            self.disk.sync_dir(&self.directory).map_err(Error::io(&self.directory, "sync"))?;
        }
        Ok(())
    }
}
