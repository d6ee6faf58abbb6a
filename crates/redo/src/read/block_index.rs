//! Where in an image each block begins, and which ordinal it begins with.
//!
//! Segments of format version 1 say neither: their blocks are found by going from header to header,
//! once for each image, past the records. That takes a small read a block, and is what makes the
//! first record by its address slow. An image that still takes blocks is gone on with.

use std::path::Path;

use base::Lsn;
use env::File;

use crate::error::{IoContext, Result};
use crate::format::block::{BlockHeader, COMPACTED, HEADER_BYTES};
use crate::format::segment;
use crate::read::scan::SegmentFile;

/// How much is read at a time.
const CHUNK_BYTES: usize = 16 << 10;

/// The blocks of one image so far.
pub(crate) struct BlockIndex {
    /// The first ordinal and the offset of each, ascending in both.
    blocks: Vec<(u32, u64)>,
    end: u64,
    last_lsn: Lsn,
}

impl Default for BlockIndex {
    fn default() -> Self {
        Self { blocks: Vec::new(), end: segment::HEADER_BYTES as u64, last_lsn: Lsn::ZERO }
    }
}

impl BlockIndex {
    pub(crate) fn len(&self) -> usize {
        self.blocks.len()
    }

    /// The offset of the block that has the record with this ordinal, if any has.
    pub(crate) fn find(&self, ordinal: u32) -> Option<u64> {
        let after = self.blocks.partition_point(|(first, _)| *first <= ordinal);
        Some(self.blocks[after.checked_sub(1)?].1)
    }

    /// Where a block is damaged that must be there, as all up to `last_block` are: behind what is known.
    pub(crate) fn damage(&self, last_block: Lsn) -> Option<u64> {
        (self.last_lsn < last_block).then_some(self.end)
    }

    /// Goes on to the last block that is not above `durable`, or to what is no block.
    pub(crate) fn extend(
        &mut self,
        file: &dyn File,
        image: &SegmentFile,
        durable: Lsn,
    ) -> Result<()> {
        let path = &image.path;
        let limit = match &image.footer {
            Some(footer) => footer.data_end,
            None => file.len().at(path, "read")?,
        };
        let mut window = Window { file, path, start: image.start, limit, at: 0, bytes: Vec::new() };
        while self.end + HEADER_BYTES as u64 <= limit {
            let header = BlockHeader::decode(window.header_at(self.end)?);
            let good = header.filter(|header| {
                header.segment == image.header.segment
                    && header.database_tag == image.header.database.tag()
                    && (header.flags & COMPACTED != 0) == (image.header.generation > 0)
                    && header.lsn > self.last_lsn
                    && header.block_bytes() <= limit - self.end
            });
            let Some(header) = good else {
                if image.footer.is_some() {
                    return Err(image.corrupt(self.end, "a block's header is damaged"));
                }
                return Ok(());
            };
            if header.lsn > durable {
                return Ok(());
            }
            self.blocks.push((header.first_ordinal, self.end));
            self.end += header.block_bytes();
            self.last_lsn = header.lsn;
        }
        Ok(())
    }
}

/// Part of an image, read ahead of what is asked for.
struct Window<'a> {
    file: &'a dyn File,
    path: &'a Path,
    start: u64,
    limit: u64,
    at: u64,
    bytes: Vec<u8>,
}

impl Window<'_> {
    fn header_at(&mut self, offset: u64) -> Result<&[u8; HEADER_BYTES]> {
        let end = self.at + self.bytes.len() as u64;
        if offset < self.at || offset + HEADER_BYTES as u64 > end {
            let rest = usize::try_from(self.limit - offset).unwrap_or(usize::MAX);
            self.bytes.resize(rest.min(CHUNK_BYTES), 0);
            let at = self.start + offset;
            self.file.read_exact_at(&mut self.bytes, at).at(self.path, "read")?;
            self.at = offset;
        }
        let from = usize::try_from(offset - self.at).expect("within the window");
        Ok(self.bytes[from..from + HEADER_BYTES].try_into().expect("that many bytes"))
    }
}
