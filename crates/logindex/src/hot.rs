//! The hint of what is hot: records of keys that a start brings back first.
//!
//! ```text
//!   header (24) │ database │ LSN │ records │ segments │ segment · segment · …
//!                                                        └ number, how many, ordinals: varints of differences
//! ```
//!
//! It is a hint and no part of the index: nothing that is read depends on it, only what is read first. A
//! record that it names may be superseded or deleted meanwhile, which the index knows. So a hint that is
//! missing, damaged, of another database or of a log that has lost its end is as good as none. It goes
//! with the index: [`crate::discard`] removes it, because a log that is repaired has other addresses.
//!
//! # Invariants
//! - The file is the old or the new one, after any crash ([`env::publish()`]).
//! - Records ascend, none is named twice, and there are at most [`HotHint::RECORDS_MAX`].
//!
//! The format is in `docs/format/log-index.md`.

use std::io::ErrorKind;
use std::path::Path;

use base::bytes::{u32_at, u64_at};
use base::checksum::crc32c_append;
use base::{Lsn, RecordAddr, SegmentId, varint};
use env::{Access, Disk, FileError};

use crate::error::{Error, Result};
use crate::run_format::check_version;

const MAGIC: [u8; 8] = *b"INDELHOT";
const VERSION: u32 = 1;
const HEADER_BYTES: usize = 24;
/// The header, and what stands before the segments.
const PREFIX_BYTES: usize = HEADER_BYTES + 16 + 8 + 8 + 4;
/// No hint is longer.
const HINT_BYTES_MAX: u64 = 256 << 20;

/// The hint's name.
pub(crate) const FILE_NAME: &str = "hot";
const TEMPORARY_NAME: &str = "hot.tmp";

/// See the file's top.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HotHint {
    lsn: Lsn,
    /// Ascending.
    records: Vec<RecordAddr>,
}

impl HotHint {
    /// So many records have a place in it: 32 MB or so.
    pub const RECORDS_MAX: usize = 16 << 20;

    /// Of these records, in any order; all of them were durable when the log was durable up to `lsn`. Those
    /// that are too many are left out.
    #[must_use]
    pub fn new(lsn: Lsn, mut records: Vec<RecordAddr>) -> Self {
        records.truncate(Self::RECORDS_MAX);
        records.sort_unstable();
        records.dedup();
        Self { lsn, records }
    }

    /// The records, ascending.
    #[must_use]
    pub fn records(&self) -> &[RecordAddr] {
        &self.records
    }

    /// Reads the hint in the directory of an index, of a log that ends with the block `end`; `None` if there is
    /// none.
    ///
    /// # Errors
    /// Damage, a newer format, another database, a log that had more, or the error of the disk: it is of no use
    /// then.
    pub fn read(disk: &dyn Disk, dir: &Path, database: [u8; 16], end: Lsn) -> Result<Option<Self>> {
        let path = dir.join(FILE_NAME);
        let file = match disk.open(&path, Access::Read) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            opened => opened.map_err(Error::io(&path, "open"))?,
        };
        let len = file.len().map_err(Error::io(&path, "measure"))?;
        if len > HINT_BYTES_MAX {
            return Err(corrupt(&path, 16, "longer than a hint can be"));
        }
        let mut bytes = vec![0; usize::try_from(len).expect("below 2^28")];
        file.read_exact_at(&mut bytes, 0).map_err(Error::io(&path, "read"))?;
        let (hint, of) = Self::decode(&bytes, &path)?;
        if of != database {
            return Err(corrupt(&path, 24, "it is of another database"));
        }
        if hint.lsn > end {
            return Err(corrupt(&path, 40, "it knows a block that the log does not have"));
        }
        Ok(Some(hint))
    }

    /// Makes this the hint in the directory of an index; after an error it is this or the one before.
    ///
    /// # Errors
    /// The error of the disk.
    pub fn publish(&self, disk: &dyn Disk, dir: &Path, database: [u8; 16]) -> Result<()> {
        let (temporary, path) = (dir.join(TEMPORARY_NAME), dir.join(FILE_NAME));
        let _file = env::publish(disk, &temporary, &path, &self.encode(database))?;
        Ok(())
    }

    pub(crate) fn encode(&self, database: [u8; 16]) -> Vec<u8> {
        let segments = || self.records.chunk_by(|a, b| a.segment() == b.segment());
        let mut bytes = Vec::with_capacity(PREFIX_BYTES + self.records.len() * 2);
        bytes.extend_from_slice(&MAGIC);
        bytes.extend_from_slice(&VERSION.to_le_bytes());
        bytes.extend_from_slice(&[0; 12]);
        bytes.extend_from_slice(&database);
        bytes.extend_from_slice(&self.lsn.0.to_le_bytes());
        bytes.extend_from_slice(&(self.records.len() as u64).to_le_bytes());
        let count = u32::try_from(segments().count()).expect("at most a segment a record");
        bytes.extend_from_slice(&count.to_le_bytes());
        let mut before = 0;
        for records in segments() {
            let segment = records[0].segment().0;
            varint::put(&mut bytes, u64::from(segment - before));
            varint::put(&mut bytes, records.len() as u64);
            let mut next = 0;
            for record in records {
                varint::put(&mut bytes, u64::from(record.ordinal()) - next);
                next = u64::from(record.ordinal()) + 1;
            }
            before = segment;
        }
        let body_bytes = (bytes.len() - HEADER_BYTES) as u64;
        bytes[16..24].copy_from_slice(&body_bytes.to_le_bytes());
        let crc = crc_of(&bytes);
        bytes[12..16].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    /// The hint, and the database that it is of.
    pub(crate) fn decode(bytes: &[u8], path: &Path) -> Result<(Self, [u8; 16])> {
        if bytes.len() < PREFIX_BYTES || bytes[..8] != MAGIC {
            return Err(corrupt(path, 0, "not a hint of hot records"));
        }
        check_version(path, u32_at(bytes, 8), VERSION)?;
        if u64_at(bytes, 16) != (bytes.len() - HEADER_BYTES) as u64 {
            return Err(corrupt(path, 16, "another length than the hint says"));
        }
        if u32_at(bytes, 12) != crc_of(bytes) {
            return Err(corrupt(path, 12, "the hint's checksum"));
        }
        let (count, segments) = (u64_at(bytes, 48), u32_at(bytes, 56));
        let records = decode_records(count, segments, &bytes[PREFIX_BYTES..]);
        let records = records.ok_or_else(|| corrupt(path, 48, "records that no hint has"))?;
        let lsn = Some(Lsn(u64_at(bytes, 40))).filter(|lsn| *lsn <= Lsn::MAX);
        let lsn = lsn.ok_or_else(|| corrupt(path, 40, "a block that no log reaches"))?;
        let database = bytes[24..40].try_into().expect("16 bytes");
        Ok((Self { lsn, records }, database))
    }
}

fn decode_records(count: u64, segments: u32, mut body: &[u8]) -> Option<Vec<RecordAddr>> {
    let count = usize::try_from(count).ok().filter(|count| *count <= HotHint::RECORDS_MAX)?;
    // A record takes a byte at least.
    let mut records = Vec::with_capacity(count.min(body.len()));
    let mut segment = 0u32;
    for _ in 0..segments {
        let step = u32::try_from(varint::take(&mut body)?).ok().filter(|step| *step > 0)?;
        segment = segment.checked_add(step).filter(|id| *id <= SegmentId::MAX.0)?;
        let in_segment = varint::take(&mut body)?;
        if in_segment == 0 || in_segment > body.len() as u64 {
            return None;
        }
        let mut next = 0u64;
        for _ in 0..in_segment {
            let ordinal = u32::try_from(next.checked_add(varint::take(&mut body)?)?).ok()?;
            records.push(RecordAddr::new(SegmentId(segment), ordinal));
            next = u64::from(ordinal) + 1;
        }
    }
    (records.len() == count && body.is_empty()).then_some(records)
}

fn crc_of(bytes: &[u8]) -> u32 {
    crc32c_append(crc32c_append(0, &bytes[..12]), &bytes[16..])
}

fn corrupt(path: &Path, offset: u64, what: &str) -> Error {
    let remedy = "there is nothing to be done: it is written anew";
    FileError::Corrupt { path: path.to_owned(), offset, what: what.to_owned(), remedy }.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const DATABASE: [u8; 16] = [0xda; 16];

    fn addr(segment: u32, ordinal: u32) -> RecordAddr {
        RecordAddr::new(SegmentId(segment), ordinal)
    }

    fn decode(bytes: &[u8]) -> Result<HotHint> {
        HotHint::decode(bytes, Path::new("hot")).map(|(hint, _)| hint)
    }

    #[test]
    fn the_bytes_are_those_of_the_document() {
        let records = vec![addr(300, 5), addr(3, 200), addr(3, 7), addr(3, 8), addr(3, 8)];
        let bytes = HotHint::new(Lsn(0x1234), records).encode(DATABASE);
        let header = [b"INDELHOT".as_slice(), &[1, 0, 0, 0]].concat();
        assert_eq!(bytes[..12], header);
        assert_eq!(bytes[12..16], 0xac25_dad7_u32.to_le_bytes());
        assert_eq!(bytes[16..24], [46, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(bytes[24..40], DATABASE);
        assert_eq!(bytes[40..48], [0x34, 0x12, 0, 0, 0, 0, 0, 0]);
        assert_eq!(bytes[48..60], [4, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0]);
        assert_eq!(bytes[60..], [3, 3, 7, 0, 0xbf, 1, 0xa9, 2, 1, 5]);
    }

    #[test]
    fn a_byte_that_is_changed_or_missing_is_found() {
        let bytes = HotHint::new(Lsn(9), vec![addr(1, 0), addr(1, 9), addr(7, 3)]).encode(DATABASE);
        assert!(decode(&bytes).is_ok());
        for at in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[at] ^= 0x10;
            assert!(decode(&changed).is_err(), "byte {at}");
            assert!(decode(&bytes[..at]).is_err(), "{at} bytes");
        }
    }

    #[test]
    fn a_hint_of_another_log_or_of_one_that_had_more_is_of_no_use() {
        let disk = env_sim::SimDisk::new(1, env_sim::Faults::default());
        let dir = Path::new("/index");
        disk.create_dir_all(dir).unwrap();
        let read = |database, end| HotHint::read(&disk, dir, database, Lsn(end));
        assert_eq!(read(DATABASE, 9).unwrap(), None);
        let hint = HotHint::new(Lsn(9), vec![addr(1, 0)]);
        hint.publish(&disk, dir, DATABASE).unwrap();
        assert_eq!(read(DATABASE, 9).unwrap(), Some(hint));
        assert!(read(DATABASE, 8).unwrap_err().to_string().contains("does not have"));
        assert!(read([1; 16], 9).unwrap_err().to_string().contains("another database"));
        crate::discard(&disk, dir).unwrap();
        assert_eq!(read(DATABASE, 9).unwrap(), None);
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(picks in proptest::collection::vec((1u32..9, 0u32..300), 0..200)) {
            let records: Vec<RecordAddr> = picks.iter().map(|(s, o)| addr(*s, *o)).collect();
            let hint = HotHint::new(Lsn(77), records.clone());
            prop_assert!(hint.records().is_sorted_by(|a, b| a < b));
            prop_assert!(records.iter().all(|addr| hint.records().contains(addr)));
            prop_assert_eq!(decode(&hint.encode(DATABASE)).unwrap(), hint);
        }
    }
}
