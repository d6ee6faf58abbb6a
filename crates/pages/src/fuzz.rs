//! Entry points for the fuzzer: decoders given correct checksums, and the properties of what they
//! accept. Not part of the API.

use base::checksum::crc32c;

use crate::checkpoint::CheckpointRecord;
use crate::log_page::{self, GroupKind, HEADER_BYTES, LOG_PAGE_BYTES, LogPage, take_record};
use crate::page::{PAGE_BYTES, Page};
use crate::position::{LogOffset, PageId};
use crate::redo_record::Op;

/// Puts the right checksum into the first four bytes of a page or log page.
pub fn seal(bytes: &mut [u8]) {
    let crc = crc32c(&bytes[4..]);
    bytes[..4].copy_from_slice(&crc.to_le_bytes());
}

/// Parses a page, reads everything in it, and applies a record to it.
///
/// # Panics
/// If an accepted page cannot be used.
pub fn page(image: &[u8; PAGE_BYTES], record: &[u8]) {
    let mut page = Page::blank();
    page.bytes_mut().copy_from_slice(image);
    page.bytes_mut()[8..16].copy_from_slice(&7_u64.to_le_bytes());
    seal(page.bytes_mut());
    if page.verify(PageId(7)).is_err() {
        return;
    }
    if matches!(page.kind(), Some(crate::page::Kind::Leaf | crate::page::Kind::Branch)) {
        for (i, cell) in page.cells().enumerate() {
            assert_eq!(page.search(cell.key), Ok(i));
        }
        assert!(page.used_bytes() <= PAGE_BYTES);
    }
    let Some(op) = Op::decode(record) else { return };
    let mut again = Vec::new();
    op.encode(&mut again);
    assert_eq!(Op::decode(&again), Some(op), "a record means the same when it is written again");
    let mut other = page.clone();
    let applied = op.apply(&mut page, PageId(7), LogOffset(9), None);
    assert_eq!(op.apply(&mut other, PageId(7), LogOffset(9), None), applied);
    assert!(page.bytes() == other.bytes(), "redo is a function of the page and the record");
    if applied.is_ok() && page.verify_shape().is_ok() {
        page.seal();
        assert_eq!(page.verify(PageId(7)), Ok(()));
    }
}

/// Parses a page of the log and the groups in it.
///
/// # Panics
/// If accepted bytes do not parse to the same result again.
pub fn log_page(image: &[u8; 2048]) {
    let mut bytes: [u8; LOG_PAGE_BYTES] = *image;
    bytes[8..16].copy_from_slice(&3_u64.to_le_bytes());
    bytes[16..24].copy_from_slice(&3_u64.to_le_bytes());
    bytes[32..40].copy_from_slice(&5_u64.to_le_bytes());
    seal(&mut bytes);
    let Some(page) = LogPage::parse(&bytes, 3, 5) else { return };
    assert!(page.payload.len() <= LOG_PAGE_BYTES - HEADER_BYTES);
    let start = LogOffset(3 * LOG_PAGE_BYTES as u64 + HEADER_BYTES as u64);
    let _damage = log_page::groups(page.payload, &[(0, start)], |group| {
        assert!(group.offset >= start);
        if group.kind == GroupKind::Checkpoint
            && let Some(record) = CheckpointRecord::decode(group.body)
        {
            assert_eq!(CheckpointRecord::decode(&record.encode()), Some(record));
        }
        let mut body = group.body;
        let _transaction = base::varint::take(&mut body);
        while let Some((_page, op)) = take_record(&mut body) {
            let _any = Op::decode(op);
        }
        Ok(())
    });
}
