//! Reading a segment's file that may be damaged anywhere: what is good in it, and what is not.
//!
//! ```text
//!   header · block · block · ▒▒▒▒▒▒▒ · block · ▒▒ · footer │ header · …
//!              │       │     wound      │    wound         │
//!              └───────┴───── good ─────┘
//! ```
//!
//! Unlike [`crate::read::scan`], which stops at the first thing that is wrong, this goes on: behind a
//! block that is not good the bytes are looked through for the next header of a block of the same
//! segment and database that is newer than the one before. A block counts as good only as a whole,
//! because it is a transaction; what can be read of a bad one is for people, to know what was lost.
//!
//! Where the images of a file cannot be found from its end, because a footer is damaged, every
//! footer that is whole is looked for: it says where its image begins. What lies between is an
//! image without a footer.

use std::collections::BTreeSet;
use std::ops::Range;
use std::path::{Path, PathBuf};

use base::checksum::crc32c;
use base::{Lsn, SegmentId};
use env::{Access, Disk, File, FileError};

use crate::error::{Error, IoContext, Result};
use crate::format::block::{self, BlockHeader, COMPACTED};
use crate::format::kinds::Kinds;
use crate::format::listing::Listed;
use crate::format::record;
use crate::format::segment::{self, Footer, SegmentHeader};
use crate::id::Id;
use crate::read::scan::{SegmentFile, find_block_header, read_header};

/// So much of a bad block is looked at for the keys in it.
const LOOKED_AT_BYTES: u64 = 64 << 20;

/// A block that is good.
#[derive(Clone, Copy)]
pub(crate) struct GoodBlock {
    /// Where it begins in the file.
    pub(crate) offset: u64,
    pub(crate) header: BlockHeader,
}

/// Bytes of the file where a good block should be.
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

/// A file of segments that may be damaged.
pub(crate) struct DamagedFile<'a> {
    pub(crate) disk: &'a dyn Disk,
    pub(crate) path: &'a Path,
    /// The index of the device that it is on.
    pub(crate) device: usize,
    /// What its name says that it is.
    pub(crate) name: (SegmentId, u32),
    pub(crate) database: Id,
}

/// An image in a file, and what is good of it.
pub(crate) struct Salvage {
    pub(crate) path: PathBuf,
    pub(crate) device: usize,
    pub(crate) name: (SegmentId, u32),
    /// Why recovery could not even tell the file's images, and where.
    pub(crate) unreadable: Option<(u64, String)>,
    /// The image as recovery would see it.
    pub(crate) source: Option<SegmentFile>,
    pub(crate) segment: SegmentId,
    pub(crate) header: Option<SegmentHeader>,
    pub(crate) footer: Option<Footer>,
    pub(crate) blocks: Vec<GoodBlock>,
    pub(crate) wounds: Vec<Wound>,
    /// Whether there is nothing in it but zeros, and not more of those than a header.
    pub(crate) is_blank: bool,
    /// Where in the file the image is.
    pub(crate) range: Range<u64>,
}

impl DamagedFile<'_> {
    /// What is good of the file, image by image.
    pub(crate) fn read(&self) -> Result<Vec<Salvage>> {
        let file = self.disk.open(self.path, Access::Read).at(self.path, "open")?;
        let len = file.len().at(self.path, "read")?;
        let (sources, unreadable) = match SegmentFile::read(self.disk, self.path, self.device) {
            Ok(sources) => (sources, None),
            Err(Error::File(FileError::Corrupt { offset, what, .. })) => {
                (Vec::new(), Some((offset, what)))
            }
            Err(error) => return Err(error),
        };
        // Without its last footer a file of several images looks like one of one.
        let is_cut = |source: &SegmentFile| source.header.generation > 0 && source.footer.is_none();
        let ranges = if sources.is_empty() || sources.iter().any(is_cut) {
            find_images(&*file, self.path, len, self.database)?
        } else {
            sources.iter().map(|source| source.start..source.start + source.len).collect()
        };
        let mut salvages = Vec::new();
        for range in ranges {
            let source = sources.iter().find(|source| source.start == range.start);
            salvages.push(self.read_image(&*file, range, source, unreadable.clone())?);
        }
        Ok(salvages)
    }

    fn read_image(
        &self,
        file: &dyn File,
        range: Range<u64>,
        source: Option<&SegmentFile>,
        unreadable: Option<(u64, String)>,
    ) -> Result<Salvage> {
        let header = read_header(file, range.start, range.end, self.path)?;
        let footer = match Footer::read(file, range.end, self.path, self.database)? {
            Some((start, footer)) if start == range.start => Some(footer),
            _ => None,
        };
        let is_ours = |header: &BlockHeader| header.database_tag == self.database.tag();
        let segment = match &header {
            Some(header) => Some(header.segment),
            None => find_block_header(file, self.path, range.clone(), is_ours)?
                .map(|(_, header)| header.segment),
        };
        let is_short = range.end - range.start <= segment::HEADER_BYTES as u64;
        let mut salvage = Salvage {
            path: self.path.to_owned(),
            device: self.device,
            name: self.name,
            unreadable,
            source: source.cloned(),
            segment: segment.unwrap_or(self.name.0),
            header,
            footer,
            blocks: Vec::new(),
            wounds: Vec::new(),
            is_blank: is_short && is_zero(file, self.path, range.clone())?,
            range,
        };
        salvage.read_blocks(file, self.database)?;
        Ok(salvage)
    }
}

/// Where the images of a file are, by the footers that are whole, and by the headers in between.
fn find_images(file: &dyn File, path: &Path, len: u64, database: Id) -> Result<Vec<Range<u64>>> {
    let mut images: Vec<Range<u64>> = Vec::new();
    for end in find_magic(file, path, len, segment::TRAILER_MAGIC)? {
        let end = end + segment::TRAILER_MAGIC.len() as u64;
        let free_from = images.last().map_or(0, |image| image.end);
        if let Some((start, _)) = Footer::read(file, end, path, database)?
            && start >= free_from
        {
            images.push(start..end);
        }
    }
    let mut headers = find_magic(file, path, len, segment::MAGIC)?;
    headers.retain(|at| {
        let header = read_header(file, *at, len, path);
        header.is_ok_and(|header| header.is_some_and(|header| header.database == database))
    });
    // Whatever is between whole images begins where they end, or with a header.
    let mut borders: BTreeSet<u64> =
        images.iter().flat_map(|image| [image.start, image.end]).collect();
    borders.extend([0, len]);
    let is_inside = |at: &u64| images.iter().any(|image| image.start < *at && *at < image.end);
    borders.extend(headers.into_iter().filter(|at| !is_inside(at)));
    let borders: Vec<u64> = borders.into_iter().collect();
    if len == 0 {
        return Ok(std::iter::once(0..0).collect());
    }
    Ok(borders.windows(2).map(|pair| pair[0]..pair[1]).collect())
}

/// Where in the file these eight bytes are.
fn find_magic(file: &dyn File, path: &Path, len: u64, magic: &[u8; 8]) -> Result<Vec<u64>> {
    const WINDOW_BYTES: u64 = 1 << 20;
    let (mut found, mut at) = (Vec::new(), 0);
    while at < len {
        // Windows overlap, so that none cuts in two what is sought.
        let bytes = read_range(file, path, at..len.min(at + WINDOW_BYTES + 7))?;
        let places = bytes.windows(8).enumerate().filter(|(_, bytes)| bytes == magic);
        found.extend(places.map(|(place, _)| at + place as u64));
        at += WINDOW_BYTES;
    }
    Ok(found)
}

impl Salvage {
    /// Which kinds of records there may be; without a header, any.
    pub(crate) fn kinds(&self) -> Kinds {
        self.header.map_or(Kinds::KNOWN, |header| header.kinds)
    }

    /// The first block whose state may need it. One that was put back, which its file's first image says, was elsewhere before.
    /// A log that was restored up to block `parent` has files that were begun behind their blocks.
    pub(crate) fn from(&self, put_back: Option<Lsn>, parent: Option<Lsn>) -> Lsn {
        let Some(header) = &self.header else { return Lsn::ZERO };
        let begins_well = self.wounds.first().is_none_or(|wound| wound.after > Lsn::ZERO);
        put_back.unwrap_or_else(|| match (&self.footer, self.blocks.first()) {
            _ if header.generation > 0 => header.durable_lsn,
            (Some(footer), _) => footer.min_lsn,
            (None, Some(first)) if begins_well => first.header.lsn,
            (None, _) if parent.is_some_and(|parent| header.durable_lsn <= parent) => Lsn::ZERO,
            // All blocks up to that one were in other files when it was begun.
            (None, _) => header.durable_lsn.next(),
        })
    }

    /// How often the segment was compacted when this was made; only whether, without a header.
    pub(crate) fn generation(&self) -> u32 {
        let is_compacted = |block: &GoodBlock| block.header.flags & COMPACTED != 0;
        let guess = || u32::from(self.blocks.iter().any(is_compacted));
        self.header.map_or_else(guess, |header| header.generation)
    }

    /// Whether it may have taken the log on another device.
    pub(crate) fn is_moved(&self) -> bool {
        self.header.is_none_or(|header| header.is_moved)
    }

    /// Whether it is the image that is listed, or has taken its place, as far as can be told.
    pub(crate) fn may_be(&self, entry: &Listed) -> bool {
        let part = self.header.map_or(self.name.1, |header| header.part);
        self.segment == entry.segment
            && (part == entry.part || (part == 0 && self.generation() > 0))
    }

    /// How it is to be listed if it stays as it is.
    pub(crate) fn listed(&self) -> Option<Listed> {
        let header = self.header?;
        let last_lsn = if self.footer.is_some() { Listed::SEALED } else { Lsn::ZERO };
        Some(Listed { segment: header.segment, part: header.part, last_lsn })
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

    fn read_blocks(&mut self, file: &dyn File, database: Id) -> Result<()> {
        let data_end = match &self.footer {
            Some(footer) => self.range.start + footer.data_end,
            None => self.range.end,
        };
        let mut at = self.range.start + segment::HEADER_BYTES as u64;
        let mut last_lsn = Lsn::ZERO;
        while at < data_end {
            let (what, header) = match self.look_at_block(file, database, at..data_end, last_lsn)? {
                Look::Good(header) => {
                    self.blocks.push(GoodBlock { offset: at, header });
                    last_lsn = header.lsn;
                    at += header.block_bytes();
                    continue;
                }
                Look::Unwritten => break,
                Look::Bad(what, header) => (what, header),
            };
            let next = find_block_header(file, &self.path, at + 1..data_end, |header| {
                self.is_ours(header, database) && header.lsn > last_lsn
            })?;
            let to = next.map_or(data_end, |(offset, _)| offset);
            let names = self.read_names(file, at..to)?;
            let before = next.map_or(Lsn::ZERO, |(_, header)| header.lsn);
            self.wounds.push(Wound { from: at, to, what, header, after: last_lsn, before, names });
            at = to;
        }
        Ok(())
    }

    fn is_ours(&self, header: &BlockHeader, database: Id) -> bool {
        header.segment == self.segment && header.database_tag == database.tag()
    }

    fn look_at_block(
        &self,
        file: &dyn File,
        database: Id,
        range: Range<u64>,
        last_lsn: Lsn,
    ) -> Result<Look> {
        let left = range.end - range.start;
        let mut decoded = None;
        if left >= block::HEADER_BYTES as u64 {
            let mut bytes = [0; block::HEADER_BYTES];
            file.read_exact_at(&mut bytes, range.start).at(&self.path, "read")?;
            decoded = BlockHeader::decode(&bytes);
        }
        let Some(header) = decoded else {
            let is_open = self.footer.is_none();
            let is_unwritten = is_open && is_zero(file, &self.path, range)?;
            let bad = Look::Bad("a block's header is damaged", None);
            return Ok(if is_unwritten { Look::Unwritten } else { bad });
        };
        if !self.is_ours(&header, database) {
            return Ok(Look::Bad("a block belongs to another segment or database", None));
        }
        if header.lsn <= last_lsn {
            return Ok(Look::Bad("a block is older than the one before it", None));
        }
        if header.block_bytes() > left {
            return Ok(Look::Bad("a block is longer than its file", Some(header)));
        }
        let records = range.start + block::HEADER_BYTES as u64;
        let payload = read_range(file, &self.path, records..records + header.payload_bytes)?;
        let is_good = crc32c(&payload) == header.payload_crc
            && record_count(&payload) == Some(header.record_count);
        let bad = Look::Bad("a block's records are damaged", Some(header));
        Ok(if is_good { Look::Good(header) } else { bad })
    }

    /// What the records of a bad block were about, as far as they can be read one after the other.
    fn read_names(&self, file: &dyn File, range: Range<u64>) -> Result<Vec<String>> {
        let start = range.start + block::HEADER_BYTES as u64;
        let mut names = Vec::new();
        if start >= range.end {
            return Ok(names);
        }
        let bytes = read_range(file, &self.path, start..range.end.min(start + LOOKED_AT_BYTES))?;
        let mut rest = &bytes[..];
        while let Ok(body) = record::take_body(&mut rest) {
            let Ok(record) = record::decode_body(body) else { continue };
            let doing = if record.kind.is_delete() { " deleted" } else { "" };
            names.push(if record.kind.is_element() {
                format!("\"{}\" of object {}{doing}", record.sub.escape_ascii(), record.object.0)
            } else if record.kind.is_library() {
                format!("library \"{}\"{doing}", record.key.escape_ascii())
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

pub(crate) fn read_range(file: &dyn File, path: &Path, range: Range<u64>) -> Result<Vec<u8>> {
    let len = usize::try_from(range.end - range.start).expect("what a file holds fits in memory");
    let mut bytes = vec![0; len];
    file.read_exact_at(&mut bytes, range.start).at(path, "read")?;
    Ok(bytes)
}

fn is_zero(file: &dyn File, path: &Path, mut range: Range<u64>) -> Result<bool> {
    while range.start < range.end {
        let end = range.end.min(range.start + (1 << 20));
        if read_range(file, path, range.start..end)?.iter().any(|byte| *byte != 0) {
            return Ok(false);
        }
        range.start = end;
    }
    Ok(true)
}
