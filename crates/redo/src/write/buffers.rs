//! The memory of blocks, used again once they are written.

use crate::format::block;
use crate::format::groups::Mark;

/// Buffers up to this size are used again, and so many bytes of them are kept for it.
const BUFFER_BYTES_MAX: usize = 1 << 20;
const BYTES_MAX: usize = 16 << 20;

/// Buffers of records, each with its marks, that no block has now.
#[derive(Default)]
pub(crate) struct Buffers {
    spare: Vec<(Vec<u8>, Vec<Mark>)>,
    bytes: usize,
}

impl Buffers {
    /// A buffer with nothing but room for a block's header.
    pub(crate) fn take(&mut self) -> (Vec<u8>, Vec<Mark>) {
        let (mut buffer, mut marks) = self.spare.pop().unwrap_or_default();
        self.bytes -= buffer.capacity();
        buffer.clear();
        buffer.resize(block::HEADER_BYTES, 0);
        marks.clear();
        (buffer, marks)
    }

    /// Keeps a buffer, unless it is large or there are many.
    pub(crate) fn keep(&mut self, buffer: Vec<u8>, marks: Vec<Mark>) {
        let bytes = buffer.capacity();
        if bytes <= BUFFER_BYTES_MAX && self.bytes + bytes <= BYTES_MAX {
            self.bytes += bytes;
            self.spare.push((buffer, marks));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_buffers_and_too_many_are_let_go() {
        let mut buffers = Buffers::default();
        buffers.keep(Vec::with_capacity(BUFFER_BYTES_MAX + 1), Vec::new());
        assert_eq!((buffers.spare.len(), buffers.bytes), (0, 0));
        for _ in 0..20 {
            buffers.keep(vec![7; BUFFER_BYTES_MAX], vec![Mark { at: 1, records_before: 1 }]);
        }
        assert_eq!((buffers.spare.len(), buffers.bytes), (16, BYTES_MAX));
        let (buffer, marks) = buffers.take();
        assert_eq!((buffer, marks), (vec![0; block::HEADER_BYTES], vec![]));
        assert_eq!(buffers.bytes, BYTES_MAX - BUFFER_BYTES_MAX);
    }
}
