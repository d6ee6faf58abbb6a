//! The parts of a run's file other than its blocks. The format is in `docs/format/log-index.md`.
//!
//! ```text
//!   header (64, then zeros up to a block) · block · … · dictionary · fences · filter · trailer (96)
//! ```
//!
//! The header says what the run is, the trailer what is in it and where. The CRC of the header
//! begins every other CRC of the file but the trailer's, which contains it; the manifest contains
//! the trailer's. So no part of another file passes for one of this.

use std::path::Path;

use base::bytes::{array_at, u32_at, u64_at};
use base::checksum::{crc32c, crc32c_append};
use base::{Lsn, SegmentId};
use env::FileError;

use crate::error::{Error, Result};
use crate::filter::{LINE_BYTES, lines_for};
use crate::name::{Hash96, Name, Scope};
use crate::options::Options;

const MAGIC: [u8; 8] = *b"INDELRUN";
const TRAILER_MAGIC: [u8; 8] = *b"INDELRTR";
const VERSION: u32 = 1;

/// The bytes of a header, without the zeros behind it.
pub(crate) const HEADER_BYTES: usize = 64;
/// The bytes of a trailer.
pub(crate) const TRAILER_BYTES: usize = 96;
/// The bytes of a segment in the dictionary.
pub(crate) const SEGMENT_BYTES: usize = 4;
/// The bytes of a fence: the first name of a block, and its entries.
pub(crate) const FENCE_BYTES: usize = 22;
const NAME_BYTES: usize = 20;

/// How far down a run is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Made of one batch.
    Zero,
    /// Merged from runs of level 0.
    One,
    /// Merged from everything: nothing older is left.
    Bottom,
}

impl Level {
    pub(crate) const fn raw(self) -> u8 {
        match self {
            Self::Zero => 0,
            Self::One => 1,
            Self::Bottom => 2,
        }
    }

    pub(crate) const fn from_raw(raw: u8) -> Option<Self> {
        match raw {
            0 => Some(Self::Zero),
            1 => Some(Self::One),
            2 => Some(Self::Bottom),
            _ => None,
        }
    }
}

/// The first bytes of a run's file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) database: [u8; 16],
    pub(crate) id: u64,
    pub(crate) level: Level,
    pub(crate) block_bytes: u32,
    /// The run knows the blocks of the log after this one,
    pub(crate) after: Lsn,
    /// and up to this one.
    pub(crate) up_to: Lsn,
}

impl Header {
    pub(crate) fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
        bytes[16..32].copy_from_slice(&self.database);
        bytes[32..40].copy_from_slice(&self.id.to_le_bytes());
        bytes[40] = self.level.raw();
        bytes[44..48].copy_from_slice(&self.block_bytes.to_le_bytes());
        bytes[48..56].copy_from_slice(&self.after.0.to_le_bytes());
        bytes[56..64].copy_from_slice(&self.up_to.0.to_le_bytes());
        let crc = Self::crc(&bytes);
        bytes[12..16].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    /// The CRC of a header, which begins the others.
    pub(crate) fn crc(bytes: &[u8; HEADER_BYTES]) -> u32 {
        crc32c_append(crc32c(&bytes[..12]), &bytes[16..])
    }

    pub(crate) fn decode(bytes: &[u8; HEADER_BYTES], path: &Path) -> Result<Self> {
        let corrupt = |offset, what| Err(Error::corrupt(path, offset, what));
        if bytes[..8] != MAGIC {
            return corrupt(0, "not a run of a log index");
        }
        check_version(path, u32_at(bytes, 8), VERSION)?;
        if u32_at(bytes, 12) != Self::crc(bytes) {
            return corrupt(12, "the header's checksum");
        }
        let Some(level) = Level::from_raw(bytes[40]) else {
            return corrupt(40, "a level that no run has");
        };
        let block_bytes = u32_at(bytes, 44);
        if !Options::is_block_size(block_bytes) {
            return corrupt(44, "a block size that no run has");
        }
        let (after, up_to) = (Lsn(u64_at(bytes, 48)), Lsn(u64_at(bytes, 56)));
        if after >= up_to || up_to > Lsn::MAX {
            return corrupt(48, "an interval of the log that cannot be");
        }
        let (database, id) = (array_at(bytes, 16), u64_at(bytes, 32));
        Ok(Self { database, id, level, block_bytes, after, up_to })
    }
}

/// Refuses a version that this program does not know.
pub(crate) fn check_version(path: &Path, found: u32, known: u32) -> Result<()> {
    match found {
        0 => Err(Error::corrupt(path, 8, "a format version that never was")),
        _ if found > known => {
            Err(FileError::NewerFormat { path: path.to_owned(), found, known }.into())
        }
        _ => Ok(()),
    }
}

/// The last bytes of a run's file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Trailer {
    pub(crate) header_crc: u32,
    pub(crate) entries: u64,
    pub(crate) gone: u64,
    pub(crate) blocks: u32,
    pub(crate) segments: u32,
    pub(crate) dictionary_crc: u32,
    pub(crate) fences_crc: u32,
    pub(crate) filter_crc: u32,
    pub(crate) filter_lines: u64,
    pub(crate) last: Name,
    pub(crate) file_bytes: u64,
}

impl Trailer {
    pub(crate) fn encode(&self) -> [u8; TRAILER_BYTES] {
        let mut bytes = [0; TRAILER_BYTES];
        bytes[..8].copy_from_slice(&TRAILER_MAGIC);
        bytes[12..16].copy_from_slice(&self.header_crc.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.entries.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.gone.to_le_bytes());
        bytes[32..36].copy_from_slice(&self.blocks.to_le_bytes());
        bytes[36..40].copy_from_slice(&self.segments.to_le_bytes());
        bytes[40..44].copy_from_slice(&self.dictionary_crc.to_le_bytes());
        bytes[44..48].copy_from_slice(&self.fences_crc.to_le_bytes());
        bytes[48..52].copy_from_slice(&self.filter_crc.to_le_bytes());
        bytes[56..64].copy_from_slice(&self.filter_lines.to_le_bytes());
        bytes[64..84].copy_from_slice(&encode_name(self.last));
        bytes[84..92].copy_from_slice(&self.file_bytes.to_le_bytes());
        let crc = Self::crc(&bytes);
        bytes[8..12].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    /// The CRC of a trailer, which the manifest repeats.
    pub(crate) fn crc(bytes: &[u8; TRAILER_BYTES]) -> u32 {
        crc32c_append(crc32c(&bytes[..8]), &bytes[12..])
    }

    /// Decodes a trailer; what is wrong with it, and where in it.
    pub(crate) fn decode(
        bytes: &[u8; TRAILER_BYTES],
    ) -> std::result::Result<Self, (u64, &'static str)> {
        if bytes[..8] != TRAILER_MAGIC {
            return Err((0, "no trailer"));
        }
        if u32_at(bytes, 8) != Self::crc(bytes) {
            return Err((8, "the trailer's checksum"));
        }
        Ok(Self {
            header_crc: u32_at(bytes, 12),
            entries: u64_at(bytes, 16),
            gone: u64_at(bytes, 24),
            blocks: u32_at(bytes, 32),
            segments: u32_at(bytes, 36),
            dictionary_crc: u32_at(bytes, 40),
            fences_crc: u32_at(bytes, 44),
            filter_crc: u32_at(bytes, 48),
            filter_lines: u64_at(bytes, 56),
            last: decode_name(&bytes[64..]),
            file_bytes: u64_at(bytes, 84),
        })
    }

    /// Where the dictionary begins, behind the header and the blocks.
    pub(crate) fn dictionary_at(&self, block_bytes: u32) -> u64 {
        (u64::from(self.blocks) + 1) * u64::from(block_bytes)
    }

    /// Where the fences begin.
    pub(crate) fn fences_at(&self, block_bytes: u32) -> u64 {
        self.dictionary_at(block_bytes) + u64::from(self.segments) * SEGMENT_BYTES as u64
    }

    /// Where the filter begins.
    pub(crate) fn filter_at(&self, block_bytes: u32) -> u64 {
        self.fences_at(block_bytes) + u64::from(self.blocks) * FENCE_BYTES as u64
    }

    /// Where the file ends, unless the parts are too long for any file.
    pub(crate) fn end(&self, block_bytes: u32) -> Option<u64> {
        let filter = self.filter_lines.checked_mul(LINE_BYTES as u64)?;
        self.filter_at(block_bytes).checked_add(filter)?.checked_add(TRAILER_BYTES as u64)
    }
}

fn encode_name(name: Name) -> [u8; NAME_BYTES] {
    let mut bytes = [0; NAME_BYTES];
    bytes[..8].copy_from_slice(&name.scope.raw().to_le_bytes());
    bytes[8..16].copy_from_slice(&name.hash.high().to_le_bytes());
    bytes[16..].copy_from_slice(&name.hash.low().to_le_bytes());
    bytes
}

fn decode_name(bytes: &[u8]) -> Name {
    let hash = Hash96::new(u64_at(bytes, 8), u32_at(bytes, 16));
    Name::new(Scope::from_raw(u64_at(bytes, 0)), hash)
}

/// Appends the fence of a block.
pub(crate) fn encode_fence(first: Name, entries: u16, out: &mut Vec<u8>) {
    out.extend_from_slice(&encode_name(first));
    out.extend_from_slice(&entries.to_le_bytes());
}

/// The fences of a run: the first name of each block, and where its filter is.
#[derive(Debug)]
pub(crate) struct Fences {
    firsts: Vec<Name>,
    /// The first line of each block's filter, and the end of the last one.
    lines: Vec<u32>,
}

impl Fences {
    /// Decodes the fences and compares them with what the trailer says.
    pub(crate) fn decode(
        bytes: &[u8],
        trailer: &Trailer,
    ) -> std::result::Result<Self, &'static str> {
        let mut firsts = Vec::with_capacity(bytes.len() / FENCE_BYTES);
        let mut lines = Vec::with_capacity(bytes.len() / FENCE_BYTES + 1);
        let (mut entries, mut line) = (0, 0);
        for fence in bytes.chunks_exact(FENCE_BYTES) {
            let count = u16::from_le_bytes([fence[20], fence[21]]);
            firsts.push(decode_name(fence));
            lines.push(u32::try_from(line).map_err(|_| "more filter than a run has")?);
            entries += u64::from(count);
            line += lines_for(count.into());
        }
        lines.push(u32::try_from(line).map_err(|_| "more filter than a run has")?);
        if !firsts.is_sorted_by(|a, b| a < b) {
            return Err("fences that do not ascend");
        }
        if firsts.last().is_none_or(|first| *first > trailer.last) {
            return Err("a last name before the last fence");
        }
        if entries != trailer.entries || line as u64 != trailer.filter_lines {
            return Err("fences and trailer disagree on the number of entries");
        }
        Ok(Self { firsts, lines })
    }

    pub(crate) const fn len(&self) -> usize {
        self.firsts.len()
    }

    /// The first name of a block.
    pub(crate) fn first(&self, block: usize) -> Name {
        self.firsts[block]
    }

    /// The block that the name is in, if it is in any.
    pub(crate) fn block_of(&self, name: Name) -> Option<usize> {
        self.firsts.partition_point(|first| *first <= name).checked_sub(1)
    }

    /// The bytes of a block's filter in the part with all of them.
    pub(crate) fn filter_of(&self, block: usize) -> std::ops::Range<usize> {
        self.lines[block] as usize * LINE_BYTES..self.lines[block + 1] as usize * LINE_BYTES
    }
}

/// Decodes the dictionary: the segments, each once.
pub(crate) fn decode_dictionary(bytes: &[u8]) -> std::result::Result<Vec<SegmentId>, &'static str> {
    let segments: Vec<SegmentId> =
        bytes.chunks_exact(SEGMENT_BYTES).map(|bytes| SegmentId(u32_at(bytes, 0))).collect();
    if segments.iter().any(|segment| segment.0 == 0 || *segment > SegmentId::MAX) {
        return Err("a segment that no log has");
    }
    Ok(segments)
}
