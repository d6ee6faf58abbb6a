//! Reads together, of a simulated disk: one by one, the last first, so that a caller that counts on an order fails.

use std::io;

use env::{OnceRead, ReadTogether};

/// See the file's top.
pub(crate) struct Backwards;

impl ReadTogether for Backwards {
    fn read(&mut self, reads: &[OnceRead<'_>], each: &mut dyn FnMut(usize, io::Result<&[u8]>)) {
        for (which, read) in reads.iter().enumerate().rev() {
            let mut bytes = vec![0; read.len];
            let result = read.file.read_once_at(&mut bytes, read.offset);
            each(which, result.map(|()| &bytes[..]));
        }
    }
}
