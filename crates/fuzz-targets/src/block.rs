//! The header of a block: with a right checksum it is what it was before.

use base::{Lsn, SegmentId};
use redo::block::{BlockHeader, COMPACTED, HEADER_BYTES};

use crate::checksums;

pub(crate) fn run(input: &[u8]) {
    let Some(first) = input.first_chunk::<HEADER_BYTES>() else { return };
    if let Some(header) = BlockHeader::decode(first) {
        assert_eq!(header.encode(), *first);
    }
    let mut bytes = *first;
    checksums::seal_block_header(&mut bytes);
    let Some(header) = BlockHeader::decode(&bytes) else {
        let lsn = |at: usize| u64::from_le_bytes(*bytes[at..].first_chunk().expect("it is longer"));
        assert!(Lsn(lsn(16)).max(Lsn(lsn(56))) > Lsn::MAX, "all else is right");
        return;
    };
    assert_eq!(header.encode(), bytes);
    let _must_not_overflow = header.block_bytes();
}

pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let header = BlockHeader {
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
    };
    let huge = BlockHeader { payload_bytes: u64::MAX, record_count: u32::MAX, ..header };
    vec![header.encode().to_vec(), huge.encode().to_vec()]
}
