//! Compacting a block that is larger than is good to hold in memory.
//!
//! A value of half a gigabyte is one command, and so one block. It is read twice, a chunk at a
//! time: once to check it and to see which records stay, once to copy those. What is kept in
//! memory is a place for each record that stays.

use std::sync::Arc;

use base::checksum::{crc32c, crc32c_append};
use base::varint;
use env::{Access, Disk, File};

use crate::error::{Error, IoContext, Result};
use crate::format::block::{self, BlockHeader};
use crate::format::record::{self, BODY_BYTES_MIN};
use crate::format::segment::Footer;
use crate::read::scan::SegmentFile;

/// How much is read at a time.
const CHUNK_BYTES: usize = 256 << 10;

/// As much of a record as must be seen to know its length and whether it is a delete.
const HEAD_BYTES_MAX: u64 = varint::LEN_MAX as u64 + 1;

/// A block whose header is good and whose records were not read.
pub(crate) struct LargeBlock {
    pub(crate) header: BlockHeader,
    pub(crate) offset: u64,
    /// The footer with the survivors, if the block is of a compacted segment.
    pub(crate) survivors: Option<Arc<Footer>>,
}

/// A record that stays, in the payload of the old block.
struct Kept {
    ordinal: u32,
    at: u64,
    bytes: u64,
}

/// A large block on its way.
pub(crate) struct LargeCopy {
    file: Box<dyn File>,
    source: SegmentFile,
    block: LargeBlock,
    buffer: Vec<u8>,
    /// How much of the payload was checked, and its checksum.
    checked_bytes: u64,
    checked_crc: u32,
    /// The next record.
    record_at: u64,
    ordinal: u32,
    record_count: u32,
    kept: Vec<Kept>,
    pub(crate) delete_count: u32,
    /// The kept record that is being copied, and how much of it was.
    copying: usize,
    copied_of_it: u64,
    copied_crc: u32,
    copied_bytes: u64,
}

impl LargeCopy {
    pub(crate) fn begin(disk: &dyn Disk, source: SegmentFile, block: LargeBlock) -> Result<Self> {
        let file = disk.open(&source.path, Access::Read).at(&source.path, "open")?;
        Ok(Self {
            file,
            source,
            ordinal: block.header.first_ordinal,
            block,
            buffer: Vec::new(),
            checked_bytes: 0,
            checked_crc: crc32c(&[]),
            record_at: 0,
            record_count: 0,
            kept: Vec::new(),
            delete_count: 0,
            copying: 0,
            copied_of_it: 0,
            copied_crc: crc32c(&[]),
            copied_bytes: 0,
        })
    }

    fn corrupt(&self, what: &str) -> Error {
        self.source.corrupt(self.block.offset, what)
    }

    fn read(&mut self, at: u64, bytes: u64) -> Result<()> {
        self.buffer.resize(usize::try_from(bytes).expect("a chunk at most"), 0);
        let at = self.source.start + self.block.offset + block::HEADER_BYTES as u64 + at;
        self.file.read_exact_at(&mut self.buffer, at).at(&self.source.path, "read")
    }

    /// Checks a chunk; `stays` says of an ordinal, and whether it is a delete, what becomes of it.
    /// How many bytes that were: 0 when all is checked.
    pub(crate) fn check_chunk(&mut self, stays: impl Fn(u32, bool) -> bool) -> Result<u64> {
        let payload_bytes = self.block.header.payload_bytes;
        let left = payload_bytes - self.checked_bytes;
        if left == 0 {
            if self.checked_crc != self.block.header.payload_crc {
                return Err(self.corrupt("a block's records are damaged"));
            }
            if self.record_count != self.block.header.record_count {
                return Err(self.corrupt("a block has another number of records than it says"));
            }
            return Ok(0);
        }
        let start = self.checked_bytes;
        let mut bytes = left.min(CHUNK_BYTES as u64);
        self.read(start, bytes)?;
        while self.record_at < start + bytes {
            if bytes < left && start + bytes - self.record_at < HEAD_BYTES_MAX {
                // The head of this record is cut: it begins the next chunk.
                bytes = self.record_at - start;
                break;
            }
            self.take_record(start, payload_bytes, &stays)?;
        }
        let chunk = &self.buffer[..usize::try_from(bytes).expect("a chunk at most")];
        self.checked_crc = crc32c_append(self.checked_crc, chunk);
        self.checked_bytes += bytes;
        Ok(bytes)
    }

    /// Looks at the head of the next record in the chunk that begins at `start`.
    fn take_record(
        &mut self,
        start: u64,
        payload_bytes: u64,
        stays: &impl Fn(u32, bool) -> bool,
    ) -> Result<()> {
        if self.record_count == self.block.header.record_count {
            return Err(self.corrupt("a block has more records than it says"));
        }
        let at = usize::try_from(self.record_at - start).expect("within the chunk");
        let mut head = &self.buffer[at..];
        let before = head.len();
        let body_bytes = varint::take(&mut head).filter(|bytes| *bytes >= BODY_BYTES_MIN as u64);
        let length_bytes = (before - head.len()) as u64;
        let bytes = body_bytes.and_then(|bytes| bytes.checked_add(length_bytes));
        let end = bytes.and_then(|bytes| bytes.checked_add(self.record_at));
        let (Some(bytes), Some(end)) = (bytes, end.filter(|end| *end <= payload_bytes)) else {
            return Err(self.corrupt("a record is longer than its block"));
        };
        let is_delete = record::is_delete(head);
        if stays(self.ordinal, is_delete) {
            self.kept.push(Kept { ordinal: self.ordinal, at: self.record_at, bytes });
            self.delete_count += u32::from(is_delete);
        }
        self.ordinal = match &self.block.survivors {
            None => self.ordinal + 1,
            Some(footer) => footer.survivors.next(self.ordinal + 1).unwrap_or(u32::MAX - 1),
        };
        self.record_count += 1;
        self.record_at = end;
        Ok(())
    }

    /// Whether any record stays; known when all is checked.
    pub(crate) fn keeps_any(&self) -> bool {
        !self.kept.is_empty()
    }

    /// The records that stay, with their offsets in the block as it will be.
    pub(crate) fn kept_offsets(&self) -> Vec<(u32, u64)> {
        let mut at = block::HEADER_BYTES as u64;
        let places = self.kept.iter().map(|kept| {
            let place = (kept.ordinal, at);
            at += kept.bytes;
            place
        });
        places.collect()
    }

    /// Appends the next bytes that stay to `out`. How many: 0 when there are no more.
    pub(crate) fn copy_chunk(&mut self, out: &mut Vec<u8>) -> Result<u64> {
        let Some(kept) = self.kept.get(self.copying) else { return Ok(0) };
        let at = kept.at + self.copied_of_it;
        let bytes = (kept.bytes - self.copied_of_it).min(CHUNK_BYTES as u64);
        self.copied_of_it += bytes;
        if self.copied_of_it == kept.bytes {
            self.copying += 1;
            self.copied_of_it = 0;
        }
        self.read(at, bytes)?;
        self.copied_crc = crc32c_append(self.copied_crc, &self.buffer);
        self.copied_bytes += bytes;
        out.extend_from_slice(&self.buffer);
        Ok(bytes)
    }

    /// The header of the block as it is now.
    pub(crate) fn header(&self) -> BlockHeader {
        BlockHeader {
            payload_crc: self.copied_crc,
            flags: block::COMPACTED,
            payload_bytes: self.copied_bytes,
            record_count: u32::try_from(self.kept.len()).expect("no more than there were"),
            first_ordinal: self.kept.first().map_or(0, |kept| kept.ordinal),
            ..self.block.header
        }
    }
}
