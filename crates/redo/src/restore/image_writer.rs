//! An image that is written from its beginning to its end.

use env::Unpublished;

use crate::error::{IoContext, Result};

/// How much is gathered for a write.
const WRITE_BYTES: usize = 1 << 20;

/// Gathers what an image has, and writes it in large pieces.
pub(crate) struct ImageWriter {
    output: Unpublished,
    gathered: Vec<u8>,
    /// How far the image is written.
    written: u64,
}

impl ImageWriter {
    pub(crate) const fn new(output: Unpublished) -> Self {
        Self { output, gathered: Vec::new(), written: 0 }
    }

    /// How long the image is so far.
    pub(crate) const fn len(&self) -> u64 {
        self.written + self.gathered.len() as u64
    }

    pub(crate) fn put(&mut self, bytes: &[u8]) -> Result<()> {
        self.gathered.extend_from_slice(bytes);
        if self.gathered.len() >= WRITE_BYTES { self.flush() } else { Ok(()) }
    }

    /// Writes what is left. Returns the file, which has its name not yet.
    pub(crate) fn finish(mut self) -> Result<Unpublished> {
        self.flush()?;
        Ok(self.output)
    }

    fn flush(&mut self) -> Result<()> {
        let path = self.output.temporary();
        self.output.file().write_all_at(&self.gathered, self.written).at(path, "write")?;
        self.written += self.gathered.len() as u64;
        self.gathered.clear();
        Ok(())
    }
}
