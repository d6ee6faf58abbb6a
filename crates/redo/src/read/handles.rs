//! Files that are kept open, because a read by address that must open its file takes twice as long.
//!
//! Descriptors are few, and some are kept back for the log: so there are at most so many, and the
//! one that was used least recently makes way.

use std::sync::Arc;

use env::{Access, Disk, File};

use crate::error::{IoContext, Result};
use crate::read::scan::SegmentFile;

/// See the file's top.
pub(crate) struct Handles {
    pub(crate) count_max: usize,
    open: Vec<Handle>,
    /// How often one was asked for.
    uses: u64,
}

struct Handle {
    image: SegmentFile,
    file: Arc<dyn File>,
    /// When it was asked for last.
    used: u64,
}

impl Handles {
    pub(crate) const fn new(count_max: usize) -> Self {
        Self { count_max, open: Vec::new(), uses: 0 }
    }

    /// The file of an image, which is the one that the image was found in: it may be kept open from
    /// before its name came to stand for another.
    pub(crate) fn get(&mut self, disk: &dyn Disk, image: &SegmentFile) -> Result<Arc<dyn File>> {
        self.uses += 1;
        let is_same = |handle: &&mut Handle| {
            handle.image.header == image.header
                && handle.image.path == image.path
                && handle.image.start == image.start
        };
        if let Some(handle) = self.open.iter_mut().find(is_same) {
            handle.used = self.uses;
            return Ok(Arc::clone(&handle.file));
        }
        let file = disk.open(&image.path, Access::Read).at(&image.path, "open")?;
        image.check_same(&*file)?;
        let file: Arc<dyn File> = Arc::from(file);
        if self.open.len() >= self.count_max {
            let oldest = self.open.iter().enumerate().min_by_key(|(_, handle)| handle.used);
            if let Some((at, _)) = oldest {
                self.open.swap_remove(at);
            }
        }
        let handle = Handle { image: image.clone(), file: Arc::clone(&file), used: self.uses };
        self.open.push(handle);
        Ok(file)
    }

    /// Closes the files of a segment.
    pub(crate) fn forget(&mut self, segment: base::SegmentId) {
        self.open.retain(|handle| handle.image.header.segment != segment);
    }
}
