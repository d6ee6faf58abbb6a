//! Bytes that are written and read one after the other, in frames of the spill file.
//!
//! ```text
//!   FrameWriter: bytes … ─► whole frames, the last one shorter ─► FrameReader: at most two of them in memory
//! ```

use std::ops::Range;

use crate::error::Result;
use crate::spill::{FRAME_BYTES, Spill};

/// Memory of a [`FrameReader`]: what is left of a frame, and the next one.
pub(crate) const READER_BYTES: usize = 2 * FRAME_BYTES;

/// Writes an extent of the file.
pub(crate) struct FrameWriter {
    from: u64,
    /// What is not in a frame yet.
    pub(crate) bytes: Vec<u8>,
}

impl FrameWriter {
    /// Begins at the end of the file.
    pub(crate) const fn new(spill: &Spill) -> Self {
        Self { from: spill.len(), bytes: Vec::new() }
    }

    /// Writes whole frames.
    pub(crate) fn flush_full(&mut self, spill: &mut Spill) -> Result<()> {
        while let Some((frame, _)) = self.bytes.split_at_checked(FRAME_BYTES) {
            spill.append(frame)?;
            self.bytes.drain(..FRAME_BYTES);
        }
        Ok(())
    }

    /// Ends it. Returns where it is; it can then be read.
    pub(crate) fn finish(self, spill: &mut Spill) -> Result<Range<u64>> {
        if !self.bytes.is_empty() {
            spill.append(&self.bytes)?;
        }
        spill.flush()?;
        Ok(self.from..spill.len())
    }
}

/// Reads an extent of the file.
pub(crate) struct FrameReader {
    /// What is left of it in the file.
    left: Range<u64>,
    pub(crate) buffer: Vec<u8>,
    /// Where in the buffer the next byte is.
    pub(crate) at: usize,
}

impl Clone for FrameReader {
    fn clone(&self) -> Self {
        let mut clone = Self::new(self.left.clone());
        clone.buffer.extend_from_slice(self.rest());
        clone
    }
}

impl FrameReader {
    pub(crate) fn new(extent: Range<u64>) -> Self {
        Self { left: extent, buffer: Vec::with_capacity(READER_BYTES), at: 0 }
    }

    /// Reads until this many bytes are in the buffer, or all that is left.
    pub(crate) fn fill(&mut self, spill: &Spill, bytes: usize) -> Result<()> {
        while self.buffer.len() - self.at < bytes && !self.left.is_empty() {
            self.buffer.drain(..self.at);
            self.at = 0;
            spill.read(&mut self.left, &mut self.buffer)?;
        }
        debug_assert!(self.buffer.capacity() <= READER_BYTES, "as was said");
        Ok(())
    }

    /// What is in the buffer and was not passed.
    pub(crate) fn rest(&self) -> &[u8] {
        &self.buffer[self.at..]
    }

    /// Passes what is in front of the last `rest_bytes` of the buffer.
    pub(crate) const fn pass_to(&mut self, rest_bytes: usize) {
        self.at = self.buffer.len() - rest_bytes;
    }

    /// The error for bytes that nothing wrote.
    pub(crate) fn malformed(&self, spill: &Spill, what: &str) -> crate::Error {
        spill.corrupt(self.left.start, what)
    }
}
