//! A segment on disk, its *image*: header, blocks, and once it is sealed a footer.
//!
//! ```text
//!  0      128                                        data end
//!  ├──────┼────────┬────────┬─────── … ───┬──────────┼────────────────────────────┬─────────┤
//!  │header│ block  │ block  │             │ block    │ footer: survivors, groups  │ trailer │
//! ```
//!
//! A file has one image, or, when compaction has gathered small segments, several compacted ones,
//! one behind the other. It is named after its first. The images are found from the end: a
//! trailer says how long its footer is, and the footer how long the image.
//!
//! The file of a segment that takes the log has no footer yet and may end in a torn block, in
//! zeros, or in blocks that were never acknowledged. A footer is written, and the whole synced,
//! before the device's next segment begins: a file without one that is not the newest of its
//! device is damaged.
//!
//! Compaction replaces the file by one of the next *generation*. When a device fails, blocks that
//! belong to a segment on it go to another device, into a further *part* of the segment.

use std::path::{Path, PathBuf};

use base::bytes::{u32_at, u64_at};
use base::checksum::{crc32c, crc32c_append};
use base::{Lsn, SegmentId};
use env::File;

use crate::error::{Error, IoContext, Result};
use crate::format::block::lsn_at;
use crate::format::groups::Groups;
use crate::format::kinds::Kinds;
use crate::format::manifest::id_at;
use crate::format::survivors::Survivors;
use crate::id::Id;

/// The length of a segment's header.
pub const HEADER_BYTES: usize = 128;

/// Every how many survivors the footer of a file of version 1 holds an offset.
pub const OFFSET_EVERY: u32 = 64;

/// The format of the segments that are written. Files of version 1 are read, and sealed as such.
pub const SEGMENT_VERSION: u32 = 2;

pub(crate) const MAGIC: &[u8; 8] = b"INDELSEG";

/// The first bytes of a footer of version 1. No record and no block begins with a 2.
pub const FOOTER_MARK_V1: [u8; 4] = [0x02, b'F', b'T', b'R'];

/// The first bytes of a footer of version 2.
pub const FOOTER_MARK: [u8; 4] = [0x02, b'F', b'T', b'2'];
const FOOTER_FIXED_BYTES: usize = 64;
pub(crate) const TRAILER_MAGIC: &[u8; 8] = b"INDELEND";
const TRAILER_BYTES: usize = 16;

/// What the first bytes of a segment's file say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SegmentHeader {
    /// The format of the image.
    pub version: u32,
    /// The database that it belongs to.
    pub database: Id,
    /// The device that it was written to.
    pub device: Id,
    /// The segment.
    pub segment: SegmentId,
    /// 0 for the file that the segment began in; 1 + the device's index for blocks that were
    /// moved from a failed device.
    pub part: u32,
    /// How often the segment was compacted.
    pub generation: u32,
    /// It took the log on another device, so its number says nothing about the order here.
    pub is_moved: bool,
    /// A block that was known durable, with all before it, when the file was made.
    pub durable_lsn: Lsn,
    /// The LSN that was open when the validity bitmap for the last compaction was copied: every
    /// record retired below it and up to it is gone. 0 if there was none.
    pub compaction_lsn: Lsn,
    /// The largest LSN that a compacted segment ever had; 0 for the others.
    pub horizon: Lsn,
    /// Which kinds of records there may be, of those that not every program of the format knows.
    pub kinds: Kinds,
}

impl SegmentHeader {
    /// The header as bytes.
    #[must_use]
    pub fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[0..8].copy_from_slice(MAGIC);
        bytes[8..12].copy_from_slice(&self.version.to_le_bytes());
        bytes[16..32].copy_from_slice(&self.database.0);
        bytes[32..48].copy_from_slice(&self.device.0);
        bytes[48..52].copy_from_slice(&self.segment.0.to_le_bytes());
        bytes[52..56].copy_from_slice(&self.part.to_le_bytes());
        bytes[56..60].copy_from_slice(&self.generation.to_le_bytes());
        bytes[60..64].copy_from_slice(&u32::from(self.is_moved).to_le_bytes());
        bytes[64..72].copy_from_slice(&self.durable_lsn.0.to_le_bytes());
        bytes[72..80].copy_from_slice(&self.compaction_lsn.0.to_le_bytes());
        bytes[80..88].copy_from_slice(&self.horizon.0.to_le_bytes());
        bytes[88..96].copy_from_slice(&self.kinds.0.to_le_bytes());
        let crc = crc32c(&bytes[16..]);
        bytes[12..16].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    /// The header that these bytes of `file` are; `None` if they are none.
    ///
    /// # Errors
    /// When the format is newer than this program, or the image has what this program does not know.
    pub fn decode(bytes: &[u8; HEADER_BYTES], file: &Path) -> Result<Option<Self>> {
        if &bytes[0..8] != MAGIC {
            return Ok(None);
        }
        let found = u32_at(bytes, 8);
        if u32_at(bytes, 12) != crc32c(&bytes[16..]) || found == 0 {
            return Ok(None);
        }
        if found > SEGMENT_VERSION {
            return Err(Error::newer(file, found, SEGMENT_VERSION));
        }
        if found >= 2 {
            check_known(Kinds(u64_at(bytes, 88)), u32_at(bytes, 96), file)?;
        }
        Ok(Self::decode_fields(bytes))
    }

    /// `None` for numbers that no log counts to: there must be a next one of each.
    fn decode_fields(bytes: &[u8; HEADER_BYTES]) -> Option<Self> {
        let segment = SegmentId(u32_at(bytes, 48));
        let generation = u32_at(bytes, 56);
        if !(1..=SegmentId::MAX.0).contains(&segment.0) || generation == u32::MAX {
            return None;
        }
        Some(Self {
            version: u32_at(bytes, 8),
            database: id_at(bytes, 16),
            device: id_at(bytes, 32),
            segment,
            part: u32_at(bytes, 52),
            generation,
            is_moved: u32_at(bytes, 60) & 1 != 0,
            durable_lsn: lsn_at(bytes, 64)?,
            compaction_lsn: lsn_at(bytes, 72)?,
            horizon: lsn_at(bytes, 80)?,
            // Images of version 1 have nothing there.
            kinds: Kinds(if u32_at(bytes, 8) >= 2 { u64_at(bytes, 88) } else { 0 }),
        })
    }
}

/// Refuses an image that may have records of `kinds` that this program does not know, or that belongs to
/// another `shard` than the first.
fn check_known(kinds: Kinds, shard: u32, file: &Path) -> Result<()> {
    let path = || file.to_owned();
    if let Some((kind, name)) = kinds.unknown() {
        return Err(Error::UnknownKind { path: path(), kind, name });
    }
    if shard != 0 {
        return Err(Error::OtherShard { path: path(), shard });
    }
    Ok(())
}

/// What stands after the last block of a sealed segment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Footer {
    /// How many blocks the file has.
    pub block_count: u64,
    /// The LSN of the first block; 0 without any.
    pub min_lsn: Lsn,
    /// The LSN of the last block; 0 without any.
    pub max_lsn: Lsn,
    /// Where in the image the last block ends and the footer begins.
    pub data_end: u64,
    /// How many of the records say that an entry is gone.
    pub delete_count: u32,
    /// Which of the segment's ordinals are in the file.
    pub survivors: Survivors,
    /// Where the records are.
    pub table: Table,
}

/// Where the records of an image are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Table {
    /// Version 1: where every 64th record that is there begins in the image.
    Offsets(Vec<u64>),
    /// Version 2: the runs of bytes that can be read by themselves.
    Groups(Groups),
}

impl Table {
    /// Lets go of what only a reader by address needs: the rest says how to build it again.
    pub(crate) fn clear(&mut self) {
        match self {
            Self::Offsets(offsets) => *offsets = Vec::new(),
            Self::Groups(groups) => groups.groups = Vec::new(),
        }
    }
}

impl Footer {
    /// The format of the images that have such a footer.
    #[must_use]
    pub const fn version(&self) -> u32 {
        match self.table {
            Table::Offsets(_) => 1,
            Table::Groups(_) => SEGMENT_VERSION,
        }
    }

    /// The footer and the trailer as bytes, in a file of `database`.
    ///
    /// # Panics
    /// When the footer would be 4 GiB long.
    #[must_use]
    pub fn encode(&self, database: Id) -> Vec<u8> {
        let len_u32 = |len: usize| u32::try_from(len).expect("a footer is far below 4 GiB");
        let mut survivors = Vec::new();
        self.survivors.encode(&mut survivors);
        let mut table = Vec::new();
        // In version 1 the last eight bytes are zero.
        let (mark, table_count, group_bytes) = match &self.table {
            Table::Offsets(offsets) => {
                offsets.iter().for_each(|offset| table.extend_from_slice(&offset.to_le_bytes()));
                (FOOTER_MARK_V1, offsets.len(), 0)
            }
            Table::Groups(groups) => {
                groups.encode(&mut table, self.data_end, self.survivors.count());
                (FOOTER_MARK, groups.groups.len(), groups.group_bytes)
            }
        };
        let table_bytes = if mark == FOOTER_MARK { len_u32(table.len()) } else { 0 };
        let len = FOOTER_FIXED_BYTES + survivors.len() + table.len() + TRAILER_BYTES;
        let mut bytes = Vec::with_capacity(len);
        bytes.extend_from_slice(&mark);
        bytes.extend_from_slice(&self.survivors.len().to_le_bytes());
        bytes.extend_from_slice(&self.survivors.count().to_le_bytes());
        bytes.extend_from_slice(&self.delete_count.to_le_bytes());
        bytes.extend_from_slice(&self.block_count.to_le_bytes());
        bytes.extend_from_slice(&self.min_lsn.0.to_le_bytes());
        bytes.extend_from_slice(&self.max_lsn.0.to_le_bytes());
        bytes.extend_from_slice(&self.data_end.to_le_bytes());
        bytes.extend_from_slice(&len_u32(survivors.len()).to_le_bytes());
        bytes.extend_from_slice(&len_u32(table_count).to_le_bytes());
        bytes.extend_from_slice(&table_bytes.to_le_bytes());
        bytes.extend_from_slice(&group_bytes.to_le_bytes());
        bytes.extend_from_slice(&survivors);
        bytes.extend_from_slice(&table);
        bytes.extend_from_slice(&len_u32(len).to_le_bytes());
        let crc = footer_crc(&bytes, database);
        bytes.extend_from_slice(&crc.to_le_bytes());
        bytes.extend_from_slice(TRAILER_MAGIC);
        bytes
    }

    /// The footer that `bytes`, the whole of it with its trailer, are.
    #[must_use]
    pub fn decode(bytes: &[u8], database: Id) -> Option<Self> {
        let body_end = bytes.len().checked_sub(TRAILER_BYTES)?;
        if body_end < FOOTER_FIXED_BYTES {
            return None;
        }
        let (len, crc) = (u32_at(bytes, body_end), u32_at(bytes, body_end + 4));
        if &bytes[body_end + 8..] != TRAILER_MAGIC
            || len as usize != bytes.len()
            || crc != footer_crc(&bytes[..body_end + 4], database)
        {
            return None;
        }
        let survivors_bytes = u32_at(bytes, 48) as usize;
        let rest = &bytes[FOOTER_FIXED_BYTES..body_end];
        let (survivors, table) = rest.split_at_checked(survivors_bytes)?;
        let survivors = Survivors::decode(survivors, u32_at(bytes, 4))?;
        if survivors.count() != u32_at(bytes, 8) {
            return None;
        }
        let (block_count, min_lsn, max_lsn) =
            (u64_at(bytes, 16), lsn_at(bytes, 24)?, lsn_at(bytes, 32)?);
        // What is behind a cut is counted by them.
        if block_count > 0 && (min_lsn == Lsn::ZERO || min_lsn > max_lsn) {
            return None;
        }
        Some(Self {
            delete_count: u32_at(bytes, 12),
            block_count,
            min_lsn,
            max_lsn,
            data_end: u64_at(bytes, 40),
            table: Self::decode_table(bytes, table, survivors.count())?,
            survivors,
        })
    }

    /// The table that these bytes are, in the footer that begins with `fixed`.
    fn decode_table(fixed: &[u8], table: &[u8], record_count: u32) -> Option<Table> {
        let count = u32_at(fixed, 52);
        if fixed[..4] == FOOTER_MARK_V1 {
            let offsets = table.chunks_exact(8).map(|bytes| u64_at(bytes, 0));
            let is_whole = table.len() as u64 == u64::from(count) * 8;
            return is_whole.then(|| Table::Offsets(offsets.collect()));
        }
        let (data_end, group_bytes) = (u64_at(fixed, 40), u32_at(fixed, 60));
        let is_whole =
            fixed[..4] == FOOTER_MARK && table.len() as u64 == u64::from(u32_at(fixed, 56));
        if !is_whole {
            return None;
        }
        Groups::decode(table, count, group_bytes, data_end, record_count).map(Table::Groups)
    }

    /// Reads the footer of the image that ends at `end` of `file`, and where the image begins;
    /// `None` if there is none that is whole.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn read(
        file: &dyn File,
        end: u64,
        path: &Path,
        database: Id,
    ) -> Result<Option<(u64, Self)>> {
        let Some(trailer_at) = end.checked_sub(TRAILER_BYTES as u64) else { return Ok(None) };
        let mut trailer = [0; TRAILER_BYTES];
        file.read_exact_at(&mut trailer, trailer_at).at(path, "read")?;
        let footer_bytes = u32_at(&trailer, 0) as usize;
        if &trailer[8..] != TRAILER_MAGIC
            || footer_bytes as u64 > end
            || footer_bytes < TRAILER_BYTES + FOOTER_FIXED_BYTES
        {
            return Ok(None);
        }
        let footer_at = end - footer_bytes as u64;
        let mut bytes = vec![0; footer_bytes];
        file.read_exact_at(&mut bytes, footer_at).at(path, "read")?;
        let footer = Self::decode(&bytes, database);
        Ok(footer.and_then(|footer| Some((footer_at.checked_sub(footer.data_end)?, footer))))
    }
}

/// The checksum of a footer begins with the database's id, which no client knows: otherwise a value
/// at the end of a file could pass as a footer.
fn footer_crc(bytes: &[u8], database: Id) -> u32 {
    crc32c_append(crc32c(&database.0), bytes)
}

/// The name of the file of a part of a segment.
#[must_use]
pub fn file_name(segment: SegmentId, part: u32) -> String {
    match part {
        0 => format!("{:010}.redo", segment.0),
        part => format!("{:010}.p{part}.redo", segment.0),
    }
}

/// The segment and part whose file has this name.
#[must_use]
pub fn parse_file_name(name: &str) -> Option<(SegmentId, u32)> {
    let stem = name.strip_suffix(".redo")?;
    let (segment, part) = match stem.split_once(".p") {
        None => (stem, 0),
        Some((segment, part)) => (segment, part.parse().ok().filter(|part| *part > 0)?),
    };
    let segment = SegmentId(segment.parse().ok().filter(|id| *id > 0)?);
    (file_name(segment, part) == name).then_some((segment, part))
}

/// The directory of a device that keeps files which compactions have replaced.
#[must_use]
pub fn history_dir(device: &Path) -> PathBuf {
    device.join("history")
}

/// The name there of the file of a part of a segment that was compacted so often.
#[must_use]
pub fn history_name(segment: SegmentId, part: u32, generation: u32) -> String {
    match part {
        0 => format!("{:010}.g{generation}.redo", segment.0),
        part => format!("{:010}.p{part}.g{generation}.redo", segment.0),
    }
}

/// The segment and part of a file in such a directory; `None` if this program has not put it there.
#[must_use]
pub fn parse_history_name(name: &str) -> Option<(SegmentId, u32)> {
    let (stem, generation) = name.strip_suffix(".redo")?.rsplit_once(".g")?;
    let (segment, part) = parse_file_name(&format!("{stem}.redo"))?;
    (history_name(segment, part, generation.parse().ok()?) == name).then_some((segment, part))
}

/// The name of a device's file of zeros for its next segment: that of a segment which no log comes to, with
/// the ending of files that each start removes.
#[must_use]
pub fn spare_path(device: &Path) -> PathBuf {
    temp_path(&device.join(file_name(SegmentId(u32::MAX), 0)))
}

/// The name under which a compacted segment is written until it is whole.
#[must_use]
pub fn temp_path(path: &Path) -> PathBuf {
    path.with_extension("tmp")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::groups::Group;
    use proptest::prelude::*;

    fn header() -> SegmentHeader {
        SegmentHeader {
            version: SEGMENT_VERSION,
            database: Id([1; 16]),
            device: Id([2; 16]),
            segment: SegmentId(3),
            part: 4,
            generation: 5,
            is_moved: true,
            durable_lsn: Lsn(6),
            compaction_lsn: Lsn(7),
            horizon: Lsn(8),
            kinds: Kinds::KNOWN,
        }
    }

    fn footer(survivors: Survivors, table: Table) -> Footer {
        Footer {
            block_count: 1,
            min_lsn: Lsn(2),
            max_lsn: Lsn(3),
            data_end: 400,
            delete_count: 5,
            survivors,
            table,
        }
    }

    /// Tables of the two versions for four records.
    fn tables() -> [Table; 2] {
        let group = |offset, first_rank| Group { offset, first_rank, crc: 0x1234_5678 };
        let groups = vec![group(128, 0), group(250, 1), group(300, 1), group(399, 3)];
        [Table::Offsets(vec![7, 8]), Table::Groups(Groups { group_bytes: 64, groups })]
    }

    #[test]
    fn a_header_survives_the_disk_and_no_flip_does() {
        let bytes = header().encode();
        let file = Path::new("s");
        assert_eq!(SegmentHeader::decode(&bytes, file).unwrap(), Some(header()));
        for bit in (0..HEADER_BYTES * 8).filter(|bit| !(64..96).contains(bit)) {
            let mut bytes = bytes;
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(SegmentHeader::decode(&bytes, file).unwrap(), None, "bit {bit}");
        }
    }

    #[test]
    fn numbers_that_nobody_counts_to_are_none() {
        let beyond = Lsn::MAX.next();
        for header in [
            SegmentHeader { generation: u32::MAX, ..header() },
            SegmentHeader { segment: SegmentId(0), ..header() },
            SegmentHeader { segment: SegmentId(u32::MAX), ..header() },
            SegmentHeader { durable_lsn: beyond, ..header() },
            SegmentHeader { compaction_lsn: beyond, ..header() },
            SegmentHeader { horizon: beyond, ..header() },
        ] {
            assert_eq!(SegmentHeader::decode(&header.encode(), Path::new("s")).unwrap(), None);
        }
    }

    #[test]
    fn what_this_program_does_not_know_is_refused_by_name() {
        let refusal = |at: usize, byte: u8, version: u32| {
            let mut bytes = SegmentHeader { version, ..header() }.encode();
            bytes[at] = byte;
            let crc = crc32c(&bytes[16..]);
            bytes[12..16].copy_from_slice(&crc.to_le_bytes());
            let decoded = SegmentHeader::decode(&bytes, Path::new("/d/0000000007.redo"));
            decoded.map(|_| ()).map_err(|error| error.to_string())
        };
        for (at, byte, says) in [
            (90, 0x10, "may have records of kind 20 (stream), which this program does not know"),
            (91, 0x80, "may have records of kind 31, which this program does not know"),
            (92, 0x08, "may have records of kind 131, which this program does not know"),
            (96, 3, "belongs to shard 3"),
        ] {
            let error = refusal(at, byte, 2).unwrap_err();
            assert!(error.starts_with("/d/0000000007.redo ") && error.contains(says), "{error}");
            assert_eq!(refusal(at, byte, 1), Ok(()), "version 1 has nothing there");
        }
        assert_eq!(refusal(100, 1, 2), Ok(()), "zero is not interpreted");
    }

    #[test]
    fn a_footer_survives_the_disk_and_no_flip_does() {
        let mut survivors = Survivors::none(200);
        [1, 2, 3, 150].into_iter().for_each(|ordinal| survivors.insert(ordinal));
        for table in tables() {
            let footer = footer(survivors.clone(), table);
            let database = Id([1; 16]);
            let bytes = footer.encode(database);
            assert_eq!(Footer::decode(&bytes, database).as_ref(), Some(&footer));
            assert_eq!(Footer::decode(&bytes, Id([2; 16])), None, "another database's");
            for bit in 0..bytes.len() * 8 {
                let mut bytes = bytes.clone();
                bytes[bit / 8] ^= 1 << (bit % 8);
                assert_eq!(Footer::decode(&bytes, database), None, "bit {bit}");
            }
        }
    }

    #[test]
    fn names_are_read_back() {
        for (segment, part) in [(1, 0), (42, 3), (u32::MAX, 0)] {
            let name = file_name(SegmentId(segment), part);
            assert_eq!(parse_file_name(&name), Some((SegmentId(segment), part)));
        }
        for name in ["1.redo", "0000000000.redo", "0000000001.p0.redo", "0000000001.tmp", "x"] {
            assert_eq!(parse_file_name(name), None, "{name}");
        }
    }

    #[test]
    fn names_of_history_are_told_from_others() {
        for (segment, part, generation) in [(1, 0, 0), (42, 3, 7)] {
            let name = history_name(SegmentId(segment), part, generation);
            assert!(parse_history_name(&name).is_some(), "{name}");
            assert_eq!(parse_file_name(&name), None, "{name}");
        }
        for name in ["0000000001.redo", "0000000001.g.redo", "0000000001.g01.redo", "x.g1.redo"] {
            assert!(parse_history_name(name).is_none(), "{name}");
        }
    }

    #[test]
    fn a_footer_whose_blocks_end_before_they_begin_is_none() {
        for (min, max, is_good) in
            [(2, 3, true), (3, 3, true), (3, 2, false), (1, 0, false), (0, 3, false)]
        {
            let [table, _] = tables();
            let (min_lsn, max_lsn) = (Lsn(min), Lsn(max));
            let survivors = Survivors::all(4);
            let footer = Footer { min_lsn, max_lsn, ..footer(survivors, table) };
            let bytes = footer.encode(Id([1; 16]));
            assert_eq!(Footer::decode(&bytes, Id([1; 16])).is_some(), is_good, "{min} to {max}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_footer_or_not(bytes: Vec<u8>) {
            prop_assert_eq!(Footer::decode(&bytes, Id([1; 16])), None);
        }
    }
}
