//! The bytes of a file as a stream.

use std::io::{self, Read};

use env::File;

/// The bytes of a file, up to where they count.
pub(crate) struct Bytes<'a> {
    file: &'a dyn File,
    at: u64,
    end: u64,
}

impl<'a> Bytes<'a> {
    /// Those up to `end`.
    pub(crate) const fn new(file: &'a dyn File, end: u64) -> Self {
        Self { file, at: 0, end }
    }
}

impl Read for Bytes<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = usize::try_from(self.end - self.at).unwrap_or(usize::MAX);
        let wanted = buffer.len().min(left);
        let count = self.file.read_at(&mut buffer[..wanted], self.at)?;
        self.at += count as u64;
        Ok(count)
    }
}
