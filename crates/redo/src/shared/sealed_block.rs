//! A block that the executor has finished, on its way to a device.

use base::checksum::crc32c;
use base::{Lsn, SegmentId};

use crate::format::block::{self, BlockHeader};
use crate::format::record;

/// A block that the executor has finished. Its buffer begins with room for the header.
pub(crate) struct SealedBlock {
    pub(crate) buffer: Vec<u8>,
    /// Where in the buffer the records with ordinals divisible by 64 begin.
    pub(crate) marks: Vec<u64>,
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

    /// Each record's ordinal and offset in the block: the slow way, for blocks on their second
    /// device.
    pub(crate) fn record_offsets(&self) -> Vec<(u32, u64)> {
        let mut rest = &self.buffer[block::HEADER_BYTES..];
        (self.first_ordinal..)
            .map_while(|ordinal| {
                let at = (self.buffer.len() - rest.len()) as u64;
                record::take_body(&mut rest).ok().map(|_| (ordinal, at))
            })
            .collect()
    }
}
