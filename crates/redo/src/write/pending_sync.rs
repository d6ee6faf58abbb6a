//! A sync that is under way while the executor goes on writing.
//!
//! ```text
//!   flusher      begins ─────── device syncs, nothing is locked ─────── notes what is durable
//!   executor        └ write_now, write_now, write_now: blocks that this sync is not for ┘
//! ```
//!
//! It is for the blocks that were written when it began, and for no other: those that come while it
//! runs may or may not be on the device when it returns. Of a segment over zeros it is the write itself;
//! the executor writes nothing then.

use std::path::PathBuf;
use std::sync::Arc;

use base::SegmentId;
use env::File;

use crate::error::{IoContext, Result};
use crate::write::segment_writer::{Overwrite, SegmentWriter};
use crate::write::unsynced::Written;

/// What a turn of a flusher has come to.
pub enum Turn {
    /// It is over.
    Step(crate::Step),
    /// It is over when this has run and [`Flusher::synced`](crate::Flusher::synced) has its result.
    Sync(PendingSync),
}

/// See the file's top.
pub struct PendingSync {
    files: Vec<FileSync>,
    overwrite: Option<Overwrite>,
    pub(crate) written: Written,
    /// When it began, on the monotonic clock.
    pub(crate) begun_us: u64,
}

/// One file of it.
pub(crate) struct FileSync {
    pub(crate) id: (SegmentId, u32),
    file: Arc<dyn File>,
    path: PathBuf,
    /// How many of the file's unsynced blocks it is for.
    pub(crate) block_count: usize,
}

impl PendingSync {
    /// Of what these files have by now.
    pub(crate) fn begin<'a>(
        writers: impl Iterator<Item = &'a mut SegmentWriter>,
        written: Written,
        begun_us: u64,
    ) -> Self {
        let unsynced = writers.filter_map(|writer| {
            let is_dirty = std::mem::take(&mut writer.is_dirty);
            (is_dirty || !writer.unsynced.is_empty()).then(|| FileSync {
                id: (writer.segment, writer.part),
                file: Arc::clone(&writer.file),
                path: writer.path.clone(),
                block_count: writer.unsynced.len(),
            })
        });
        Self { files: unsynced.collect(), overwrite: None, written, begun_us }
    }

    /// Of blocks that are not written yet.
    pub(crate) const fn of_overwrite(
        overwrite: Overwrite,
        written: Written,
        begun_us: u64,
    ) -> Self {
        Self { files: Vec::new(), overwrite: Some(overwrite), written, begun_us }
    }

    /// Has the device make it durable; takes as long as that takes.
    ///
    /// # Errors
    /// When the device does not. Nothing of it can be believed then.
    pub fn run(&self) -> Result<()> {
        self.overwrite.iter().try_for_each(Overwrite::run)?;
        self.files.iter().try_for_each(|it| it.file.sync_data().at(&it.path, "sync"))
    }

    /// Whether there was nothing to make durable.
    pub(crate) const fn is_empty(&self) -> bool {
        self.files.is_empty() && self.overwrite.is_none()
    }

    /// How many of the unsynced blocks of this file it was for.
    pub(crate) fn block_count_of(&self, id: (SegmentId, u32)) -> usize {
        self.files.iter().find(|file| file.id == id).map_or(0, |file| file.block_count)
    }
}
