//! Reading a segment's file block by block, believing nothing.
//!
//! One cursor serves recovery, compaction, the verifier and the dump. A block that it gives out
//! has a good header and a good payload, belongs to this segment of this database, and continues
//! the blocks before it. Where that ends, a *sealed* file is corrupt; in one without a footer it
//! is the tail, which the caller judges.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use base::checksum::crc32c;
use base::{Lsn, SegmentId};
use env::{Access, Disk, File};

use crate::error::{Error, IoContext, Result};
use crate::format::block::{self, BlockHeader, COMPACTED};
use crate::format::listing::Listed;
use crate::format::record;
use crate::format::segment::{self, Footer, SegmentHeader};
use crate::format::survivors::Survivors;
use crate::read::large_block::LargeBlock;

/// A segment's image in a file, as it was found.
#[derive(Clone)]
pub(crate) struct SegmentFile {
    pub(crate) path: PathBuf,
    /// Where in the file the image begins. All other offsets are counted from here.
    pub(crate) start: u64,
    /// The segment that the file is named after: the first that it has.
    pub(crate) leader: SegmentId,
    /// The index of the device that it is on.
    pub(crate) device: usize,
    pub(crate) header: SegmentHeader,
    /// Without its table.
    pub(crate) footer: Option<Arc<Footer>>,
    /// The length of the image.
    pub(crate) len: u64,
    /// Since when it is in place, if it was put back there.
    pub(crate) put_back: Option<Lsn>,
}

impl SegmentFile {
    /// Reads headers and footers of the images in the file at `path`, in the file's order; none
    /// if the file does not begin with a header.
    pub(crate) fn read(disk: &dyn Disk, path: &Path, device: usize) -> Result<Vec<Self>> {
        Self::read_before(disk, path, device, false)
    }

    /// The same at a start, which reads all of a file without a footer next: that begins here.
    pub(crate) fn read_at_start(disk: &dyn Disk, path: &Path, device: usize) -> Result<Vec<Self>> {
        Self::read_before(disk, path, device, true)
    }

    fn read_before(
        disk: &dyn Disk,
        path: &Path,
        device: usize,
        is_read_next: bool,
    ) -> Result<Vec<Self>> {
        let file = disk.open(path, Access::Read).at(path, "open")?;
        let mut end = file.len().at(path, "read")?;
        let Some(first) = read_header(&*file, 0, end, path)? else { return Ok(Vec::new()) };
        let leader = first.segment;
        let image = |header: SegmentHeader, start, end, footer: Option<Footer>| {
            if footer.as_ref().is_some_and(|footer| footer.version() != header.version) {
                let what = "the segment's header and its footer are of different formats";
                return Err(Error::corrupt(path, start, what));
            }
            let footer = footer.map(|mut footer| {
                // What reads all of a file does not need it, and there may be many files.
                footer.table.clear();
                Arc::new(footer)
            });
            let path = path.to_owned();
            let (len, put_back) = (end - start, None);
            Ok(Self { path, start, leader, device, header, footer, len, put_back })
        };
        let mut found = Footer::read(&*file, end, path, first.database)?;
        if found.is_none() && is_read_next {
            file.fetch_ahead(0, end);
        }
        if first.generation == 0 || found.is_none() {
            // Only compacted segments share a file; what looks like a footer of another length is
            // part of a value.
            let footer = found.filter(|(start, _)| *start == 0).map(|(_, footer)| footer);
            return Ok(vec![image(first, 0, end, footer)?]);
        }
        let mut images = Vec::new();
        while let Some((start, footer)) = found {
            let header = read_header(&*file, start, end, path)?
                .filter(|header| header.generation > 0 && header.part == 0)
                .ok_or_else(|| Error::corrupt(path, start, "the segment's header is damaged"))?;
            images.push(image(header, start, end, Some(footer))?);
            end = start;
            found = if start > 0 { Footer::read(&*file, end, path, first.database)? } else { None };
        }
        if end > 0 {
            return Err(Error::corrupt(path, end, "the footer of a segment is damaged"));
        }
        images.reverse();
        Ok(images)
    }

    /// The first block that needs it: before the compaction that has made it, others were there; and one that was
    /// written as it is has nothing before its first block. Before it was put back, others were there, too.
    pub(crate) fn from(&self) -> Lsn {
        self.put_back.unwrap_or_else(|| match &self.footer {
            _ if self.header.generation > 0 => self.header.durable_lsn,
            Some(footer) => footer.min_lsn,
            None => Lsn::ZERO,
        })
    }

    /// The same, of a log that is open: a compacted image without its footer is an error, because
    /// only that says which ordinals its records have.
    pub(crate) fn read_running(disk: &dyn Disk, path: &Path, device: usize) -> Result<Vec<Self>> {
        let images = Self::read(disk, path, device)?;
        let is_damaged = |image: &&Self| image.header.generation > 0 && image.footer.is_none();
        match images.iter().find(is_damaged) {
            Some(image) => {
                Err(image.corrupt(image.len, "the segment's footer is damaged or missing"))
            }
            None => Ok(images),
        }
    }

    /// Checks that `file`, opened under the image's name, is the one that it was found in.
    pub(crate) fn check_same(&self, file: &dyn File) -> Result<()> {
        let end = file.len().at(&self.path, "read")?;
        let header =
            if end < self.start { None } else { read_header(file, self.start, end, &self.path)? };
        if header == Some(self.header) {
            return Ok(());
        }
        Err(self.corrupt(0, "the file was replaced while it was read"))
    }

    /// Checks that the image, whose last good block is `last_lsn`, has what `entry` lists.
    pub(crate) fn check_listed(&self, entry: &Listed, last_lsn: Lsn) -> Result<()> {
        if self.footer.is_some() {
            return Ok(());
        }
        if entry.is_sealed() {
            let what = "the segment was sealed, and its footer is damaged or missing";
            return Err(self.corrupt(self.len, what));
        }
        if entry.last_lsn > last_lsn {
            let what = format!("block {} was durable in it, and it ends before", entry.last_lsn);
            return Err(self.corrupt(self.len, what));
        }
        Ok(())
    }

    /// Whether the record with this ordinal is in it, or may be.
    pub(crate) fn may_have(&self, ordinal: u32) -> bool {
        self.footer.as_ref().is_none_or(|footer| footer.survivors.contains(ordinal))
    }

    /// The error that says what is wrong at `offset` of the image.
    pub(crate) fn corrupt(&self, offset: u64, what: impl Into<String>) -> Error {
        Error::corrupt(&self.path, self.start + offset, what)
    }
}

pub(crate) fn read_header(
    file: &dyn File,
    start: u64,
    end: u64,
    path: &Path,
) -> Result<Option<SegmentHeader>> {
    let mut bytes = [0; segment::HEADER_BYTES];
    if end - start < bytes.len() as u64 {
        return Ok(None);
    }
    file.read_exact_at(&mut bytes, start).at(path, "read")?;
    SegmentHeader::decode(&bytes, path)
}

/// A good block.
#[derive(Clone)]
pub(crate) struct Block {
    pub(crate) header: BlockHeader,
    /// Where it begins in the image.
    pub(crate) offset: u64,
    chunk: Arc<Vec<u8>>,
    payload: Range<usize>,
    survivors: Option<Arc<Footer>>,
}

impl Block {
    /// Reads the block at `offset` of an image, and compares it with its checksums.
    pub(crate) fn read(file: &dyn File, image: &SegmentFile, offset: u64) -> Result<Self> {
        let path = &image.path;
        let mut bytes = [0; block::HEADER_BYTES];
        file.read_exact_at(&mut bytes, image.start + offset).at(path, "read")?;
        let is_ours = |header: &BlockHeader| {
            header.segment == image.header.segment
                && header.database_tag == image.header.database.tag()
        };
        let header = BlockHeader::decode(&bytes)
            .filter(is_ours)
            .ok_or_else(|| image.corrupt(offset, "a block's header is damaged"))?;
        let payload_bytes = usize::try_from(header.payload_bytes).unwrap_or(usize::MAX);
        let at = image.start + offset + bytes.len() as u64;
        let rest = file.len().at(path, "read")?.saturating_sub(at);
        if header.payload_bytes > rest {
            return Err(image.corrupt(offset, "a block is longer than its file"));
        }
        let mut payload = vec![0; payload_bytes];
        file.read_exact_at(&mut payload, at).at(path, "read")?;
        if crc32c(&payload) != header.payload_crc {
            return Err(image.corrupt(offset, "a block's records are damaged"));
        }
        let survivors = image.footer.clone().filter(|_| header.flags & COMPACTED != 0);
        let chunk = Arc::new(payload);
        Ok(Self { header, offset, chunk, payload: 0..payload_bytes, survivors })
    }

    /// The records as bytes.
    pub(crate) fn payload(&self) -> &[u8] {
        &self.chunk[self.payload.clone()]
    }

    /// The bodies of the records with their ordinals and offsets in the payload.
    pub(crate) fn bodies(&self) -> Bodies<'_> {
        Bodies {
            rest: self.payload(),
            len: self.payload.len(),
            left: self.header.record_count,
            ordinal: Some(self.header.first_ordinal),
            survivors: self.survivors.as_ref().map(|footer| &footer.survivors),
        }
    }
}

/// See [`Block::bodies`]. As many as the header says, or an error.
pub(crate) struct Bodies<'a> {
    rest: &'a [u8],
    len: usize,
    /// How many records the header says are still to come.
    left: u32,
    /// Of the next record, if the segment has room for one.
    ordinal: Option<u32>,
    /// Set in compacted blocks.
    survivors: Option<&'a Survivors>,
}

impl<'a> Iterator for Bodies<'a> {
    type Item = std::result::Result<(u32, usize, &'a [u8]), &'static str>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() && self.left == 0 {
            return None;
        }
        let taken = self.take();
        if taken.is_err() {
            (self.rest, self.left) = (&[], 0);
        }
        Some(taken)
    }
}

impl<'a> Bodies<'a> {
    #[inline]
    fn take(&mut self) -> std::result::Result<(u32, usize, &'a [u8]), &'static str> {
        let count_is_wrong = "a block has other than the number of records that it says";
        if self.rest.is_empty() {
            return Err(count_is_wrong);
        }
        self.left = self.left.checked_sub(1).ok_or(count_is_wrong)?;
        let ordinal = self.ordinal.ok_or("a block has more records than its segment")?;
        let at = self.len - self.rest.len();
        let body = record::take_body(&mut self.rest)?;
        self.ordinal = match self.survivors {
            None => ordinal.checked_add(1),
            Some(survivors) => survivors.next(ordinal.saturating_add(1)),
        };
        Ok((ordinal, at, body))
    }
}

/// Where the good blocks of a file without a footer end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Tail {
    /// The end of the last good block.
    pub(crate) offset: u64,
    /// The LSN of the block that is damaged there, if its header is good.
    pub(crate) damaged_lsn: Option<Lsn>,
    /// What is there; `None` for nothing but unwritten space.
    pub(crate) what: Option<&'static str>,
}

/// What comes next in a file.
pub(crate) enum Next {
    Block(Block),
    /// A sealed file has no more blocks.
    End,
    /// A file without a footer has no more good blocks.
    Tail(Tail),
}

/// What comes next, when large blocks are not to be read at once.
pub(crate) enum SizedNext {
    Small(Next),
    Large(LargeBlock),
}

enum Head {
    Good(BlockHeader),
    /// There is no further block.
    None(Next),
}

/// Goes through the blocks of a file.
pub(crate) struct BlockCursor {
    pub(crate) source: SegmentFile,
    file: Box<dyn File>,
    /// Where the next block begins.
    offset: u64,
    /// Where the blocks must end.
    end: u64,
    last_lsn: Lsn,
    next_ordinal: u32,
    block_count: u64,
    chunk: Arc<Vec<u8>>,
    /// The chunk before it, which blocks that were given out may still hold.
    previous: Arc<Vec<u8>>,
    /// Where in the image the chunk begins.
    chunk_at: u64,
    chunk_bytes: usize,
}

impl BlockCursor {
    /// A cursor before the first block, which reads `chunk_bytes` at a time.
    pub(crate) fn open(disk: &dyn Disk, source: SegmentFile, chunk_bytes: usize) -> Result<Self> {
        let file = disk.open(&source.path, Access::Read).at(&source.path, "open")?;
        file.advise_sequential();
        let end = source.footer.as_ref().map_or(source.len, |footer| footer.data_end);
        Ok(Self {
            source,
            file,
            offset: segment::HEADER_BYTES as u64,
            end,
            last_lsn: Lsn::ZERO,
            next_ordinal: 0,
            block_count: 0,
            chunk: Arc::default(),
            previous: Arc::default(),
            chunk_at: 0,
            chunk_bytes,
        })
    }

    /// Checks that the file is the one that the image was found in: its name may have come to
    /// stand for another.
    pub(crate) fn check_same(&self) -> Result<()> {
        self.source.check_same(&*self.file)
    }

    /// How many bytes lie behind.
    pub(crate) const fn offset(&self) -> u64 {
        self.offset
    }

    /// The next block.
    ///
    /// # Errors
    /// When the file cannot be read, or is sealed and damaged.
    pub(crate) fn next(&mut self) -> Result<Next> {
        match self.head()? {
            Head::Good(header) => self.next_with(header),
            Head::None(next) => Ok(next),
        }
    }

    /// The next block, its records unread if they are longer than `payload_bytes_max`.
    ///
    /// # Errors
    /// As for [`BlockCursor::next`].
    pub(crate) fn next_up_to(&mut self, payload_bytes_max: u64) -> Result<SizedNext> {
        match self.head()? {
            Head::Good(header) if header.payload_bytes > payload_bytes_max => {
                let (offset, survivors) = (self.offset, self.survivors_of(&header));
                self.pass(&header);
                Ok(SizedNext::Large(LargeBlock { header, offset, survivors }))
            }
            Head::Good(header) => self.next_with(header).map(SizedNext::Small),
            Head::None(next) => Ok(SizedNext::Small(next)),
        }
    }

    /// The header of the next block.
    fn head(&mut self) -> Result<Head> {
        let left = self.end - self.offset;
        if left == 0 {
            return self.finish().map(Head::None);
        }
        let offset = self.offset;
        if left < block::HEADER_BYTES as u64 {
            return self.stop(offset, None, "a block's header is cut off").map(Head::None);
        }
        let start = self.load(offset, block::HEADER_BYTES)?;
        let bytes: &[u8; block::HEADER_BYTES] =
            self.chunk[start..start + block::HEADER_BYTES].try_into().expect("that many bytes");
        let Some(header) = BlockHeader::decode(bytes) else {
            if bytes.iter().all(|byte| *byte == 0) && self.source.footer.is_none() {
                return Ok(Head::None(Next::Tail(Tail { offset, damaged_lsn: None, what: None })));
            }
            return self.stop(offset, None, "a block's header is damaged").map(Head::None);
        };
        match self.check(&header, left) {
            Ok(()) => Ok(Head::Good(header)),
            Err(what) => self.stop(offset, None, what).map(Head::None),
        }
    }

    /// Reads the records of the block with this header.
    fn next_with(&mut self, header: BlockHeader) -> Result<Next> {
        let offset = self.offset;
        let payload_bytes = usize::try_from(header.payload_bytes).expect("bounded by the file");
        let start = self.load(offset, block::HEADER_BYTES + payload_bytes)? + block::HEADER_BYTES;
        let payload = start..start + payload_bytes;
        if crc32c(&self.chunk[payload.clone()]) != header.payload_crc {
            return self.stop(offset, Some(header.lsn), "a block's records are damaged");
        }
        let survivors = self.survivors_of(&header);
        self.pass(&header);
        Ok(Next::Block(Block { header, offset, chunk: self.chunk.clone(), payload, survivors }))
    }

    fn survivors_of(&self, header: &BlockHeader) -> Option<Arc<Footer>> {
        let is_compacted = header.flags & COMPACTED != 0;
        if is_compacted { self.source.footer.clone() } else { None }
    }

    /// Goes behind the block with this header.
    fn pass(&mut self, header: &BlockHeader) {
        self.offset += header.block_bytes();
        self.last_lsn = header.lsn;
        self.block_count += 1;
        self.next_ordinal = match self.survivors_of(header) {
            None => header.first_ordinal.saturating_add(header.record_count),
            Some(footer) => {
                let mut ordinal = header.first_ordinal;
                for _ in 1..header.record_count {
                    ordinal = footer.survivors.next(ordinal + 1).unwrap_or(u32::MAX - 1);
                }
                ordinal + 1
            }
        };
    }

    /// Whether the header belongs here.
    fn check(&self, header: &BlockHeader, left: u64) -> std::result::Result<(), &'static str> {
        let segment = &self.source.header;
        let is_compacted = header.flags & COMPACTED != 0;
        let expected_ordinal = match &self.source.footer {
            Some(footer) if is_compacted => footer.survivors.next(self.next_ordinal),
            _ if segment.part > 0 => Some(self.next_ordinal.max(header.first_ordinal)),
            _ => Some(self.next_ordinal),
        };
        if header.segment != segment.segment || header.database_tag != segment.database.tag() {
            Err("a block belongs to another segment or database")
        } else if header.flags & !COMPACTED != 0 || is_compacted != (segment.generation > 0) {
            Err("a block's flags are not those of its segment")
        } else if header.lsn <= self.last_lsn {
            Err("a block is older than the one before it")
        } else if expected_ordinal != Some(header.first_ordinal) {
            Err("a block's first ordinal does not continue the block before it")
        } else if header.first_ordinal.checked_add(header.record_count).is_none() {
            Err("a block has more records than a segment can have")
        } else if header.block_bytes() > left {
            Err("a block is longer than its file")
        } else if u64::from(header.record_count) * (record::BODY_BYTES_MIN as u64 + 1)
            > header.payload_bytes
        {
            Err("a block has more records than fit into it")
        } else {
            Ok(())
        }
    }

    /// The blocks of a file without footer end here, those of a sealed one must not.
    fn stop(&self, offset: u64, lsn: Option<Lsn>, what: &'static str) -> Result<Next> {
        if self.source.footer.is_some() {
            return Err(self.source.corrupt(offset, what));
        }
        Ok(Next::Tail(Tail { offset, damaged_lsn: lsn, what: Some(what) }))
    }

    fn finish(&self) -> Result<Next> {
        let Some(footer) = &self.source.footer else {
            return Ok(Next::Tail(Tail { offset: self.offset, damaged_lsn: None, what: None }));
        };
        if footer.block_count != self.block_count || footer.max_lsn != self.last_lsn {
            let what = "the footer counts other blocks than the file has";
            return Err(self.source.corrupt(self.offset, what));
        }
        Ok(Next::End)
    }

    /// Makes `bytes` bytes at `offset` be in the chunk; where in it. The caller has checked that
    /// the file has them.
    fn load(&mut self, offset: u64, bytes: usize) -> Result<usize> {
        let chunk_end = self.chunk_at + self.chunk.len() as u64;
        if offset >= self.chunk_at && offset + bytes as u64 <= chunk_end {
            return Ok(usize::try_from(offset - self.chunk_at).expect("within the chunk"));
        }
        let rest = usize::try_from(self.end - offset).unwrap_or(usize::MAX);
        let want = self.chunk_bytes.max(bytes).min(rest);
        // A caller that reads blocks in turn has let go of the one before the last.
        let previous = std::mem::replace(&mut self.previous, std::mem::take(&mut self.chunk));
        let mut buffer = Arc::try_unwrap(previous).unwrap_or_default();
        buffer.resize(want, 0);
        let at = self.source.start + offset;
        self.file.read_exact_at(&mut buffer, at).at(&self.source.path, "read")?;
        self.chunk = Arc::new(buffer);
        self.chunk_at = offset;
        Ok(0)
    }
}

/// The first good header of a block of this segment at or after `offset`, by looking at every
/// byte: evidence that what is damaged before it was not the end.
pub(crate) fn find_block_after(
    disk: &dyn Disk,
    source: &SegmentFile,
    offset: u64,
    mut is_sought: impl FnMut(&BlockHeader) -> bool,
) -> Result<Option<(u64, BlockHeader)>> {
    let path = &source.path;
    let file = disk.open(path, Access::Read).at(path, "open")?;
    let range = source.start + offset..source.start + source.len;
    let found = find_block_header(&*file, path, range, |header| {
        header.segment == source.header.segment
            && header.database_tag == source.header.database.tag()
            && is_sought(header)
    })?;
    Ok(found.map(|(at, header)| (at - source.start, header)))
}

/// Whether there are only zeros; it looks at all of them, which is faster than to look for another.
pub(crate) fn is_zero(bytes: &[u8]) -> bool {
    bytes.iter().fold(0, |any, byte| any | byte) == 0
}

/// The first good header of a block that is sought and lies in `range` of the file.
pub(crate) fn find_block_header(
    file: &dyn File,
    path: &Path,
    range: Range<u64>,
    mut is_sought: impl FnMut(&BlockHeader) -> bool,
) -> Result<Option<(u64, BlockHeader)>> {
    const WINDOW_BYTES: usize = 1 << 20;
    let mut offset = range.start;
    let mut window = Vec::new();
    while offset + block::HEADER_BYTES as u64 <= range.end {
        let len = usize::try_from(range.end - offset).unwrap_or(usize::MAX).min(WINDOW_BYTES);
        window.resize(len, 0);
        file.read_exact_at(&mut window, offset).at(path, "read")?;
        if is_zero(&window) {
            offset += (len - block::HEADER_BYTES + 1) as u64;
            continue;
        }
        for at in 0..=len - block::HEADER_BYTES {
            if window[at] != block::MARK[0] || window[at..at + 4] != block::MARK {
                continue;
            }
            let bytes = window[at..at + block::HEADER_BYTES].try_into().expect("that many bytes");
            if let Some(header) = BlockHeader::decode(bytes)
                && is_sought(&header)
            {
                return Ok(Some((offset + at as u64, header)));
            }
        }
        offset += (len - block::HEADER_BYTES + 1) as u64;
    }
    Ok(None)
}
