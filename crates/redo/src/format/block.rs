//! A block: what is written and synced at once, and is there after a crash as a whole or not at all.
//!
//! ```text
//!  0        8         12       16       24        32       40      44       48       52       56        64
//!  ├────────┼─────────┼────────┼────────┼─────────┼────────┼───────┼────────┼────────┼────────┼─────────┼── … ──┤
//!  │mark CRC│ payload │ flags  │  LSN   │ time ms │payload │record │ first  │segment │database│ durable │records│
//!  │        │   CRC   │        │        │         │ bytes  │ count │ordinal │        │  tag   │   LSN   │       │
//! ```
//!
//! The header has a checksum of its own, so that a length is believed before that many bytes are
//! read, and so that a damaged payload can still be named by its LSN. Segment and database tag
//! make a block that belongs elsewhere (a misdirected write, a reused sector) no block here.

use base::bytes::{u32_at, u64_at};
use base::checksum::crc32c;
use base::{Lsn, SegmentId};

/// The length of a block's header.
pub const HEADER_BYTES: usize = 64;

/// The first four bytes of a block. No record begins with a 1.
pub const MARK: [u8; 4] = [0x01, b'B', b'L', b'K'];

/// The flag of a block that compaction has copied: its records' ordinals are the segment's next
/// survivors from `first_ordinal` on instead of consecutive numbers.
pub const COMPACTED: u32 = 1;

/// The header of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockHeader {
    /// The CRC32C of the records.
    pub payload_crc: u32,
    /// [`COMPACTED`] or 0.
    pub flags: u32,
    /// The number of the block in the log.
    pub lsn: Lsn,
    /// Wall-clock time of the sealing, in Unix milliseconds. For people; nothing depends on it.
    pub time_ms: i64,
    /// How many bytes of records follow.
    pub payload_bytes: u64,
    /// How many records that is.
    pub record_count: u32,
    /// The ordinal of the first of them.
    pub first_ordinal: u32,
    /// The segment that the block is in.
    pub segment: SegmentId,
    /// The first four bytes of the database's id.
    pub database_tag: u32,
    /// A block that was known durable, with all before it, when this one was written.
    pub durable_lsn: Lsn,
}

impl BlockHeader {
    /// The header as bytes.
    #[must_use]
    pub fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[0..4].copy_from_slice(&MARK);
        bytes[8..12].copy_from_slice(&self.payload_crc.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.flags.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.lsn.0.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.time_ms.to_le_bytes());
        bytes[32..40].copy_from_slice(&self.payload_bytes.to_le_bytes());
        bytes[40..44].copy_from_slice(&self.record_count.to_le_bytes());
        bytes[44..48].copy_from_slice(&self.first_ordinal.to_le_bytes());
        bytes[48..52].copy_from_slice(&self.segment.0.to_le_bytes());
        bytes[52..56].copy_from_slice(&self.database_tag.to_le_bytes());
        bytes[56..64].copy_from_slice(&self.durable_lsn.0.to_le_bytes());
        let crc = crc32c(&bytes[8..]);
        bytes[4..8].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    /// The header that these bytes are, if they are one.
    #[must_use]
    pub fn decode(bytes: &[u8; HEADER_BYTES]) -> Option<Self> {
        if bytes[0..4] != MARK || u32_at(bytes, 4) != crc32c(&bytes[8..]) {
            return None;
        }
        let (lsn, durable_lsn) = (lsn_at(bytes, 16)?, lsn_at(bytes, 56)?);
        Some(Self {
            payload_crc: u32_at(bytes, 8),
            flags: u32_at(bytes, 12),
            lsn,
            time_ms: u64_at(bytes, 24).cast_signed(),
            payload_bytes: u64_at(bytes, 32),
            record_count: u32_at(bytes, 40),
            first_ordinal: u32_at(bytes, 44),
            segment: SegmentId(u32_at(bytes, 48)),
            database_tag: u32_at(bytes, 52),
            durable_lsn,
        })
    }

    /// The length of the whole block.
    #[must_use]
    pub const fn block_bytes(&self) -> u64 {
        // What a header says may be anything; a reader compares it with what is left of the file.
        (HEADER_BYTES as u64).saturating_add(self.payload_bytes)
    }
}

/// The LSN at `at`, unless it is one that no log reaches.
///
/// # Panics
/// When the bytes end before it does.
pub(crate) fn lsn_at(bytes: &[u8], at: usize) -> Option<Lsn> {
    Some(Lsn(u64_at(bytes, at))).filter(|lsn| *lsn <= Lsn::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn header() -> BlockHeader {
        BlockHeader {
            payload_crc: 1,
            flags: COMPACTED,
            lsn: Lsn(3),
            time_ms: -4,
            payload_bytes: 5,
            record_count: 6,
            first_ordinal: 7,
            segment: SegmentId(8),
            database_tag: 9,
            durable_lsn: Lsn(10),
        }
    }

    #[test]
    fn a_header_survives_the_disk() {
        assert_eq!(BlockHeader::decode(&header().encode()), Some(header()));
    }

    #[test]
    fn no_flipped_bit_goes_unseen() {
        for bit in 0..HEADER_BYTES * 8 {
            let mut bytes = header().encode();
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(BlockHeader::decode(&bytes), None, "bit {bit}");
        }
    }

    #[test]
    fn an_lsn_that_nobody_counts_to_is_no_lsn() {
        let last = BlockHeader { lsn: Lsn::MAX, ..header() };
        assert_eq!(BlockHeader::decode(&last.encode()), Some(last));
        let beyond = BlockHeader { lsn: Lsn::MAX.next(), ..header() };
        assert_eq!(BlockHeader::decode(&beyond.encode()), None);
    }

    #[test]
    fn a_block_longer_than_any_file_is_not_short() {
        let header = BlockHeader { payload_bytes: u64::MAX, ..header() };
        assert_eq!(header.block_bytes(), u64::MAX);
    }

    proptest! {
        #[test]
        fn any_bytes_are_decoded_or_refused(bytes in proptest::array::uniform32(any::<u8>())) {
            let mut whole = [0; HEADER_BYTES];
            whole[..32].copy_from_slice(&bytes);
            whole[32..].copy_from_slice(&bytes);
            prop_assert_eq!(BlockHeader::decode(&whole), None);
        }
    }
}
