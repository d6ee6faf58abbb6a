//! One segment, block by block, while the log goes on.
//!
//! Every record of the segment that is durable and needed from the beginning to the end of the scan is
//! met once. A compaction changes no LSN and drops only what is not needed: when it has replaced the
//! file, the scan goes on in the new one behind the last block that it gave out. A segment that is gone
//! had nothing left that was needed.

use std::sync::Arc;

use base::{Lsn, SegmentId};

use crate::error::Result;
use crate::read::images::{self, ATTEMPTS_MAX};
use crate::read::parts::Parts;
use crate::read::reader::LogBlock;
use crate::shared::device::Shared;

/// See the file's top. Made by [`crate::Reader::scan`].
pub struct SegmentScan {
    shared: Arc<Shared>,
    segment: SegmentId,
    parts: Option<Parts>,
    /// The last block that was given out.
    last: Lsn,
    /// The last block that is given out at all: what was durable when the scan began.
    end: Lsn,
    failures: usize,
}

impl SegmentScan {
    pub(crate) fn new(shared: Arc<Shared>, segment: SegmentId) -> Self {
        let end = shared.durability.durable_lsn();
        Self { shared, segment, parts: None, last: Lsn::ZERO, end, failures: 0 }
    }

    /// Returns the segment.
    #[must_use]
    pub const fn segment(&self) -> SegmentId {
        self.segment
    }

    /// Returns the next block that was durable when the scan began; `None` behind the last one.
    ///
    /// Records that a compaction has dropped are missing, and blocks of nothing else.
    ///
    /// # Errors
    /// When a file cannot be read, or is damaged: calling it again tries again.
    #[expect(clippy::should_implement_trait, reason = "after an error it can go on")]
    pub fn next(&mut self) -> Result<Option<LogBlock>> {
        loop {
            match self.step() {
                Ok(block) => {
                    self.failures = 0;
                    self.last = block.as_ref().map_or(self.last, LogBlock::lsn);
                    return Ok(block);
                }
                Err(error) => {
                    self.parts = None;
                    self.failures += 1;
                    if self.failures >= ATTEMPTS_MAX {
                        self.failures = 0;
                        return Err(error);
                    }
                }
            }
        }
    }

    fn step(&mut self) -> Result<Option<LogBlock>> {
        let parts = match &mut self.parts {
            Some(parts) => parts,
            None => {
                let images = images::find_segment(&self.shared, self.segment)?;
                let last_block = |image: &_| images::last_block(&self.shared, image, self.end);
                self.parts.insert(Parts::open(&*self.shared.disk, images, last_block)?)
            }
        };
        parts.next(self.last, self.end)
    }
}
