//! Reading a segment's file that may be damaged anywhere: what is good in it, and what is not.
//!
//! ```text
//!   header · block · block · ▒▒▒▒▒▒▒ · block · ▒▒ · footer
//!              │       │     wound      │    wound
//!              └───────┴───── good ─────┘
//! ```
//!
//! Unlike [`crate::scan`], which stops at the first thing that is wrong, this goes on: behind a
//! block that is not good the bytes are looked through for the next header of a block of the same
//! segment and database that is newer than the one before. A block counts as good only as a whole,
//! because it is a transaction; what can be read of a bad one is for people, to know what was lost.

use std::path::{Path, PathBuf};

use base::checksum::crc32c;
use base::{Lsn, SegmentId};
use env::{Access, Disk, File};

use crate::block::{self, BlockHeader, COMPACTED};
use crate::error::{IoContext, Result};
use crate::manifest::Id;
use crate::record;
use crate::scan::{SegmentFile, find_block_after};
use crate::segment::{self, Footer, SegmentHeader};

/// So much of a bad block is looked at for the keys in it.
const LOOKED_AT_BYTES: u64 = 64 << 20;

/// A block that is good.
#[derive(Clone, Copy)]
pub(crate) struct GoodBlock {
    pub(crate) offset: u64,
    pub(crate) header: BlockHeader,
}

/// Bytes where a good block should be.
pub(crate) struct Wound {
    pub(crate) from: u64,
    pub(crate) to: u64,
    pub(crate) what: &'static str,
    /// The header of the block, if that is good.
    pub(crate) header: Option<BlockHeader>,
    /// The last good block before it and the first behind it; 0 where there is none.
    pub(crate) after: Lsn,
    pub(crate) before: Lsn,
    /// What its records are about, as far as it can still be read.
    pub(crate) names: Vec<String>,
}

/// A file, and what is good of it.
pub(crate) struct Salvage {
    pub(crate) path: PathBuf,
    /// The index of the device that it is on.
    pub(crate) device: usize,
    pub(crate) len: u64,
    /// What its name says that it is.
    pub(crate) name: (SegmentId, u32),
    pub(crate) header: Option<SegmentHeader>,
    pub(crate) footer: Option<Footer>,
    pub(crate) blocks: Vec<GoodBlock>,
    pub(crate) wounds: Vec<Wound>,
    /// Whether there is nothing in it but zeros, and not more of those than a header.
    pub(crate) is_blank: bool,
    /// Where the blocks end: the footer, or unwritten space, or the file.
    pub(crate) end: u64,
}

impl Salvage {
    /// Reads the file at `path` of a database that is known to be `database`.
    pub(crate) fn read(
        disk: &dyn Disk,
        path: &Path,
        device: usize,
        name: (SegmentId, u32),
        database: Id,
    ) -> Result<Self> {
        let file = disk.open(path, Access::Read).at(path, "open")?;
        let len = file.len().at(path, "read")?;
        let mut bytes = [0; segment::HEADER_BYTES];
        let mut header = None;
        if len >= bytes.len() as u64 {
            file.read_exact_at(&mut bytes, 0).at(path, "read")?;
            header = SegmentHeader::decode(&bytes, path)?;
        }
        let footer = Footer::read(&*file, len, path)?;
        let end = footer.as_ref().map_or(len, |footer| footer.data_end);
        let is_blank = len <= segment::HEADER_BYTES as u64 && is_zero(&*file, path, 0, len)?;
        let path = path.to_owned();
        let (blocks, wounds) = (Vec::new(), Vec::new());
        let mut salvage =
            Self { path, device, len, name, header, footer, blocks, wounds, is_blank, end };
        salvage.read_blocks(disk, &*file, database)?;
        Ok(salvage)
    }

    /// The segment whose blocks these are.
    pub(crate) fn segment(&self) -> SegmentId {
        self.header.map_or(self.name.0, |header| header.segment)
    }

    /// How often the segment was compacted when this file was made; only whether, without a header.
    pub(crate) fn generation(&self) -> u32 {
        let is_compacted = |block: &GoodBlock| block.header.flags & COMPACTED != 0;
        let guess = || u32::from(self.blocks.iter().any(is_compacted));
        self.header.map_or_else(guess, |header| header.generation)
    }

    /// How many records are good.
    pub(crate) fn good_record_count(&self) -> u64 {
        self.blocks.iter().map(|block| u64::from(block.header.record_count)).sum()
    }

    /// How many records there were in what is not good. Only the footer knows.
    pub(crate) fn lost_record_count(&self) -> Option<u64> {
        let count = u64::from(self.footer.as_ref()?.survivors.count());
        Some(count.saturating_sub(self.good_record_count()))
    }

    fn source(&self, database: Id) -> SegmentFile {
        let header = self.header.unwrap_or(SegmentHeader {
            database,
            device: Id([0; 16]),
            segment: self.name.0,
            part: self.name.1,
            generation: 0,
            durable_lsn: Lsn::ZERO,
            compaction_lsn: Lsn::ZERO,
            horizon: Lsn::ZERO,
        });
        let (path, device) = (self.path.clone(), self.device);
        SegmentFile { path, device, header, footer: None, len: self.end }
    }

    fn read_blocks(&mut self, disk: &dyn Disk, file: &dyn File, database: Id) -> Result<()> {
        let source = self.source(database);
        let mut at = segment::HEADER_BYTES as u64;
        let mut last_lsn = Lsn::ZERO;
        while at < self.end {
            let (what, header) = match self.look_at_block(file, &source, at, last_lsn)? {
                Look::Good(header) => {
                    self.blocks.push(GoodBlock { offset: at, header });
                    last_lsn = header.lsn;
                    at += header.block_bytes();
                    continue;
                }
                Look::Unwritten => {
                    self.end = at;
                    break;
                }
                Look::Bad(what, header) => (what, header),
            };
            let next = find_block_after(disk, &source, at + 1, |header| header.lsn > last_lsn)?;
            let to = next.map_or(self.end, |(offset, _)| offset);
            let names = self.read_names(file, at, to)?;
            let before = next.map_or(Lsn::ZERO, |(_, header)| header.lsn);
            self.wounds.push(Wound { from: at, to, what, header, after: last_lsn, before, names });
            at = to;
        }
        Ok(())
    }

    fn look_at_block(
        &self,
        file: &dyn File,
        source: &SegmentFile,
        at: u64,
        last_lsn: Lsn,
    ) -> Result<Look> {
        let left = self.end - at;
        let mut bytes = [0; block::HEADER_BYTES];
        if left < bytes.len() as u64 {
            let is_zero = is_zero(file, &self.path, at, self.end)?;
            let is_unwritten = is_zero && self.footer.is_none();
            return Ok(if is_unwritten {
                Look::Unwritten
            } else {
                Look::Bad("a block's header is cut off", None)
            });
        }
        file.read_exact_at(&mut bytes, at).at(&self.path, "read")?;
        let Some(header) = BlockHeader::decode(&bytes) else {
            let is_unwritten = self.footer.is_none() && is_zero(file, &self.path, at, self.end)?;
            return Ok(if is_unwritten {
                Look::Unwritten
            } else {
                Look::Bad("a block's header is damaged", None)
            });
        };
        if header.segment != source.header.segment
            || header.database_tag != source.header.database.tag()
        {
            return Ok(Look::Bad("a block belongs to another segment or database", None));
        }
        if header.lsn <= last_lsn {
            return Ok(Look::Bad("a block is older than the one before it", None));
        }
        if header.block_bytes() > left {
            return Ok(Look::Bad("a block is longer than its file", Some(header)));
        }
        let payload = read_range(
            file,
            &self.path,
            at + block::HEADER_BYTES as u64,
            at + header.block_bytes(),
        )?;
        let is_good = crc32c(&payload) == header.payload_crc
            && record_count(&payload) == Some(header.record_count);
        Ok(if is_good {
            Look::Good(header)
        } else {
            Look::Bad("a block's records are damaged", Some(header))
        })
    }

    /// What the records of a bad block were about, as far as they can be read one after the other.
    fn read_names(&self, file: &dyn File, from: u64, to: u64) -> Result<Vec<String>> {
        let start = from + block::HEADER_BYTES as u64;
        let mut names = Vec::new();
        if start >= to {
            return Ok(names);
        }
        let bytes = read_range(file, &self.path, start, to.min(start + LOOKED_AT_BYTES))?;
        let mut rest = &bytes[..];
        while let Ok(body) = record::take_body(&mut rest) {
            let Ok(record) = record::decode_body(body) else { continue };
            let doing = if record.kind.is_delete() { " deleted" } else { "" };
            names.push(if record.kind.is_element() {
                format!("\"{}\" of object {}{doing}", record.sub.escape_ascii(), record.object.0)
            } else {
                format!("\"{}\" in database {}{doing}", record.key.escape_ascii(), record.db.0)
            });
        }
        Ok(names)
    }
}

enum Look {
    Good(BlockHeader),
    Bad(&'static str, Option<BlockHeader>),
    /// Nothing but zeros until the end.
    Unwritten,
}

/// How many records these bytes are, if they are nothing but good records.
fn record_count(mut payload: &[u8]) -> Option<u32> {
    let mut count = 0;
    while !payload.is_empty() {
        record::decode(&mut payload).ok()?;
        count += 1;
    }
    Some(count)
}

pub(crate) fn read_range(file: &dyn File, path: &Path, from: u64, to: u64) -> Result<Vec<u8>> {
    let mut bytes = vec![0; usize::try_from(to - from).expect("what a file holds fits in memory")];
    file.read_exact_at(&mut bytes, from).at(path, "read")?;
    Ok(bytes)
}

fn is_zero(file: &dyn File, path: &Path, mut from: u64, to: u64) -> Result<bool> {
    while from < to {
        let end = to.min(from + (1 << 20));
        if read_range(file, path, from, end)?.iter().any(|byte| *byte != 0) {
            return Ok(false);
        }
        from = end;
    }
    Ok(true)
}
