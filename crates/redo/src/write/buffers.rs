//! The memory of blocks, used again once they are written.

use crate::format::block;
use crate::format::groups::Mark;

/// Buffers up to this size are used again, and so many bytes of them are kept for it, if nothing else is
/// said.
const BUFFER_BYTES_MAX: usize = 1 << 20;
const BYTES_MAX: usize = 16 << 20;

/// Buffers of records, each with its marks, that no block has now.
pub(crate) struct Buffers {
    spare: Vec<(Vec<u8>, Vec<Mark>)>,
    bytes: usize,
    bytes_max: usize,
}

impl Default for Buffers {
    fn default() -> Self {
        Self { spare: Vec::new(), bytes: 0, bytes_max: BYTES_MAX }
    }
}

impl Buffers {
    /// Keeps at most so many bytes from now on, and never more than by default.
    pub(crate) fn limit(&mut self, bytes_max: usize) {
        self.bytes_max = bytes_max.min(BYTES_MAX);
        while self.bytes > self.bytes_max {
            let (buffer, _) = self.spare.pop().expect("it has the bytes");
            self.bytes -= buffer.capacity();
        }
    }

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
        if bytes <= BUFFER_BYTES_MAX && self.bytes + bytes <= self.bytes_max {
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
        buffers.limit(2 * BUFFER_BYTES_MAX);
        assert_eq!((buffers.spare.len(), buffers.bytes), (2, 2 * BUFFER_BYTES_MAX));
        buffers.keep(vec![7; BUFFER_BYTES_MAX], Vec::new());
        assert_eq!(buffers.spare.len(), 2);
    }
}
