//! A block that the executor has finished, on its way to a device.

use base::checksum::crc32c;
use base::{Lsn, SegmentId};

use crate::format::block::{self, BlockHeader};
use crate::format::footer::{Ordinals, WrittenBlock};
use crate::format::groups::Mark;

/// A block that the executor has finished. Its buffer begins with room for the header.
pub(crate) struct SealedBlock {
    pub(crate) buffer: Vec<u8>,
    /// Where in it a group may begin.
    pub(crate) marks: Vec<Mark>,
    pub(crate) lsn: Lsn,
    pub(crate) time_ms: i64,
    pub(crate) segment: SegmentId,
    /// The index of the device that the segment belongs to.
    pub(crate) home: usize,
    pub(crate) first_ordinal: u32,
    pub(crate) record_count: u32,
    pub(crate) delete_count: u32,
}

impl SealedBlock {
    /// Puts the header in front of the records, checksums included.
    pub(crate) fn complete(&mut self, database_tag: u32, durable_lsn: Lsn) {
        let payload = &self.buffer[block::HEADER_BYTES..];
        let header = BlockHeader {
            payload_crc: crc32c(payload),
            flags: 0,
            lsn: self.lsn,
            time_ms: self.time_ms,
            payload_bytes: payload.len() as u64,
            record_count: self.record_count,
            first_ordinal: self.first_ordinal,
            segment: self.segment,
            database_tag,
            durable_lsn,
        };
        self.buffer[..block::HEADER_BYTES].copy_from_slice(&header.encode());
    }

    /// What a footer says of it, once it is complete.
    pub(crate) fn written(&self) -> WrittenBlock<'_> {
        let (header, records) = self.buffer.split_first_chunk().expect("there is room for it");
        WrittenBlock {
            lsn: self.lsn,
            header,
            records,
            ordinals: Ordinals::From { first: self.first_ordinal, marks: &self.marks },
            record_count: self.record_count,
            delete_count: self.delete_count,
        }
    }
}
