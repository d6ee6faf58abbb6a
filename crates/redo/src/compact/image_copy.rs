//! What stays of one segment, copied block by block into a new image of it.
//!
//! ```text
//!   parts, each in LSN order ─► merge ─► records that stay ─► blocks with their LSN ─► Output
//!                                                                  └─► footer at the end
//! ```
//!
//! Nothing is decoded: a record is copied by its length. An image has no header until its first
//! record that stays, so that a segment of which nothing stays leaves no trace.

use std::cell::Cell;
use std::path::Path;

use base::checksum::crc32c;
use base::{Lsn, SegmentId};
use env::{Complete, Disk, Unpublished};

use crate::compact::bitmap::Bitmap;
use crate::error::{IoContext, Result};
use crate::format::block::{self, BlockHeader, COMPACTED};
use crate::format::footer::{FooterBuilder, Ordinals, WrittenBlock};
use crate::format::groups::StreamedBlock;
use crate::format::record;
use crate::format::segment::SegmentHeader;
use crate::read::large_block::{LargeBlock, LargeCopy};
use crate::read::scan::{Block, BlockCursor, Next, SegmentFile, SizedNext};

/// How much is read, and gathered for a write, at a time.
pub(crate) const CHUNK_BYTES: usize = 256 << 10;

/// What is written is synced so many bytes at a time: one large sync at the end would hold up the
/// small ones of a flusher on the same disk.
const SYNC_BYTES: u64 = 1 << 20;

/// The file that images are copied into.
pub(crate) struct Output {
    new: Unpublished,
    buffer: Vec<u8>,
    /// Where the buffer will be written.
    at: u64,
    /// What lies before is synced.
    synced: u64,
}

impl Output {
    /// A new file of the temporary name `path`; one that is there is a leftover of our own.
    pub(crate) fn create(disk: &dyn Disk, path: &Path) -> Result<Self> {
        let new = Unpublished::create(disk, path)?;
        Ok(Self { new, buffer: Vec::with_capacity(CHUNK_BYTES), at: 0, synced: 0 })
    }

    /// Where what is put next will be.
    pub(crate) fn position(&self) -> u64 {
        self.at + self.buffer.len() as u64
    }

    fn write(&self, bytes: &[u8], at: u64) -> Result<()> {
        self.new.file().write_all_at(bytes, at).at(self.new.temporary(), "write")
    }

    fn write_out(&mut self) -> Result<()> {
        self.write(&self.buffer, self.at)?;
        self.at += self.buffer.len() as u64;
        self.buffer.clear();
        if self.at - self.synced < SYNC_BYTES {
            return Ok(());
        }
        self.synced = self.at;
        self.new.file().sync_data().at(self.new.temporary(), "sync")
    }

    /// Writes the rest, and makes everything durable.
    pub(crate) fn complete(mut self) -> Result<Complete> {
        self.write_out()?;
        Ok(self.new.complete()?)
    }
}

/// Which records of a segment stay.
pub(crate) struct Keep {
    /// The copy of the validity bitmap.
    pub(crate) bitmap: Bitmap,
    /// Delete records with a smaller LSN are dropped.
    pub(crate) delete_floor: Lsn,
}

impl Keep {
    fn stays(&self, lsn: Lsn, ordinal: u32, is_delete: bool) -> bool {
        // The bit of a delete record means nothing (`segments`).
        if is_delete { lsn >= self.delete_floor } else { !self.bitmap.is_retired(ordinal) }
    }
}

/// What the segment is now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Copied {
    pub(crate) segment: SegmentId,
    /// 0 when nothing is left.
    pub(crate) present_count: u32,
    pub(crate) delete_count: u32,
    pub(crate) bytes: u64,
    pub(crate) min_lsn: Lsn,
    /// The newest delete record that was dropped, or 0.
    pub(crate) dropped_delete_lsn: Lsn,
}

/// One segment being copied.
pub(crate) struct ImageCopy {
    header: SegmentHeader,
    keep: Keep,
    parts: Vec<Part>,
    /// How many records the segment ever had.
    record_count_ever: u32,
    /// Where the image begins in the output.
    start: u64,
    footer: FooterBuilder,
    kept: Vec<(u32, u64)>,
    last_lsn: Lsn,
    /// A large block that is being copied.
    large: Option<Large>,
    copied: Copied,
}

/// One of the images that the segment has so far.
struct Part {
    cursor: BlockCursor,
    next: Option<Pending>,
    large_bytes: u64,
}

/// A block to be copied.
enum Pending {
    Small(Block),
    Large(LargeBlock),
}

/// How far a large block is.
enum Large {
    Checking(LargeCopy),
    /// The new block begins at `at`.
    Copying {
        copy: LargeCopy,
        at: u64,
        block: StreamedBlock,
    },
}

impl Pending {
    const fn header(&self) -> &BlockHeader {
        match self {
            Self::Small(block) => &block.header,
            Self::Large(block) => &block.header,
        }
    }
}

impl Part {
    fn advance(&mut self) -> Result<()> {
        self.next = match self.cursor.next_up_to(self.large_bytes)? {
            SizedNext::Small(Next::Block(block)) => Some(Pending::Small(block)),
            SizedNext::Large(block) => Some(Pending::Large(block)),
            SizedNext::Small(Next::End | Next::Tail(_)) => None,
        };
        Ok(())
    }
}

impl ImageCopy {
    /// Begins to copy what stays of the segment whose images are `images`, all of them sealed. No
    /// image means that nothing stays and nothing has to be read. Blocks with more than
    /// `large_bytes` of records are copied piece by piece.
    pub(crate) fn begin(
        disk: &dyn Disk,
        header: SegmentHeader,
        keep: Keep,
        images: Vec<SegmentFile>,
        large_bytes: u64,
        footer: FooterBuilder,
    ) -> Result<Self> {
        let mut parts = Vec::new();
        let mut record_count_ever = 0;
        for image in images {
            if let Some(footer) = &image.footer {
                record_count_ever = record_count_ever.max(footer.survivors.len());
            }
            let cursor = BlockCursor::open(disk, image, CHUNK_BYTES)?;
            let mut part = Part { cursor, next: None, large_bytes };
            part.advance()?;
            parts.push(part);
        }
        let copied = Copied {
            segment: header.segment,
            present_count: 0,
            delete_count: 0,
            bytes: 0,
            min_lsn: Lsn::ZERO,
            dropped_delete_lsn: Lsn::ZERO,
        };
        Ok(Self {
            header,
            keep,
            parts,
            record_count_ever,
            start: 0,
            footer,
            kept: Vec::new(),
            last_lsn: Lsn::ZERO,
            large: None,
            copied,
        })
    }

    /// Copies the next block, or the next chunk of a large one. How many bytes were read; `None`
    /// when there are no more.
    pub(crate) fn step(&mut self, disk: &dyn Disk, output: &mut Output) -> Result<Option<u64>> {
        let mut read_bytes = 0;
        if let Some(large) = self.large.take() {
            read_bytes = self.copy_large_block(large, output)?;
        } else {
            match self.take_next_block()? {
                Some((part, Pending::Small(block))) => {
                    read_bytes = block.header.block_bytes();
                    self.copy_block(part, &block, output)?;
                }
                Some((part, Pending::Large(block))) => {
                    let image = self.parts[part].cursor.source.clone();
                    self.large = Some(Large::Checking(LargeCopy::begin(disk, image, block)?));
                }
                None => return Ok(None),
            }
        }
        if output.buffer.len() >= CHUNK_BYTES {
            output.write_out()?;
        }
        Ok(Some(read_bytes))
    }

    /// Ends the image, if anything has stayed, with its footer.
    pub(crate) fn finish(self, output: &mut Output) -> Copied {
        if self.copied.present_count == 0 {
            return self.copied;
        }
        let footer = self.footer.finish_with(self.record_count_ever);
        output.buffer.extend_from_slice(&footer.encode(self.header.database));
        Copied { bytes: output.position() - self.start, ..self.copied }
    }

    /// The oldest block of the parts, and the index of its part; each once, although a part may
    /// repeat what another has.
    fn take_next_block(&mut self) -> Result<Option<(usize, Pending)>> {
        loop {
            let heads = self.parts.iter().enumerate();
            let lsns = heads.filter_map(|(at, part)| Some((part.next.as_ref()?.header().lsn, at)));
            let Some((lsn, at)) = lsns.min() else { return Ok(None) };
            let block = self.parts[at].next.take().expect("it has the smallest LSN");
            self.parts[at].advance()?;
            if lsn > self.last_lsn {
                self.last_lsn = lsn;
                return Ok(Some((at, block)));
            }
        }
    }

    /// Puts the header before the first block.
    fn begin_image(&mut self, output: &mut Output) {
        if self.copied.present_count == 0 {
            self.start = output.position();
            output.buffer.extend_from_slice(&self.header.encode());
        }
    }

    /// Goes on with a large block, as far as one chunk. How many bytes were read.
    fn copy_large_block(&mut self, large: Large, output: &mut Output) -> Result<u64> {
        match large {
            Large::Checking(mut copy) => {
                let (keep, lsn) = (&self.keep, self.last_lsn);
                let has_dropped = Cell::new(false);
                let stays = |ordinal, is_delete| {
                    let stays = keep.stays(lsn, ordinal, is_delete);
                    has_dropped.set(has_dropped.get() || (is_delete && !stays));
                    stays
                };
                let checked_bytes = copy.check_chunk(stays)?;
                if has_dropped.get() {
                    self.copied.dropped_delete_lsn = lsn;
                }
                if checked_bytes > 0 {
                    self.large = Some(Large::Checking(copy));
                } else if copy.keeps_any() {
                    // The header is written when the checksum of what follows it is known.
                    self.begin_image(output);
                    output.write_out()?;
                    let at = output.at;
                    output.at += block::HEADER_BYTES as u64;
                    let block = self.footer.begin_streamed(&copy.kept_offsets());
                    self.large = Some(Large::Copying { copy, at, block });
                }
                Ok(checked_bytes)
            }
            Large::Copying { mut copy, at, mut block } => {
                let before = output.buffer.len();
                let copied_bytes = copy.copy_chunk(&mut output.buffer)?;
                self.footer.add_bytes(&mut block, &output.buffer[before..]);
                if copied_bytes > 0 {
                    self.large = Some(Large::Copying { copy, at, block });
                } else {
                    output.write_out()?;
                    let header = copy.header();
                    output.write(&header.encode(), at)?;
                    self.footer.end_streamed(&block, &header, copy.delete_count);
                    self.note_copied(&header, copy.delete_count);
                }
                Ok(copied_bytes)
            }
        }
    }

    fn copy_block(&mut self, part: usize, block: &Block, output: &mut Output) -> Result<()> {
        let before = output.buffer.len();
        self.begin_image(output);
        let start = output.buffer.len();
        output.buffer.resize(start + block::HEADER_BYTES, 0);
        self.kept.clear();
        let mut delete_count = 0;
        let payload = block.payload();
        for body in block.bodies() {
            let (ordinal, at, body) =
                body.map_err(|what| self.parts[part].cursor.source.corrupt(block.offset, what))?;
            let is_delete = record::is_delete(body);
            if !self.keep.stays(block.header.lsn, ordinal, is_delete) {
                if is_delete {
                    self.copied.dropped_delete_lsn = block.header.lsn;
                }
                continue;
            }
            delete_count += u32::from(is_delete);
            self.kept.push((ordinal, (output.buffer.len() - start) as u64));
            // The record as it is, length included: it ends where its body does.
            let end = body.as_ptr() as usize - payload.as_ptr() as usize + body.len();
            output.buffer.extend_from_slice(&payload[at..end]);
        }
        let Some((first_ordinal, _)) = self.kept.first().copied() else {
            output.buffer.truncate(before);
            return Ok(());
        };
        let copied = &output.buffer[start + block::HEADER_BYTES..];
        let header = BlockHeader {
            payload_crc: crc32c(copied),
            flags: COMPACTED,
            payload_bytes: copied.len() as u64,
            record_count: u32::try_from(self.kept.len()).expect("no more than there were"),
            first_ordinal,
            ..block.header
        };
        let header_bytes = header.encode();
        self.footer.add(&WrittenBlock {
            lsn: header.lsn,
            header: &header_bytes,
            records: copied,
            ordinals: Ordinals::Each(&self.kept),
            record_count: header.record_count,
            delete_count,
        });
        output.buffer[start..start + block::HEADER_BYTES].copy_from_slice(&header_bytes);
        self.note_copied(&header, delete_count);
        Ok(())
    }

    /// Counts in a block.
    fn note_copied(&mut self, header: &BlockHeader, delete_count: u32) {
        if self.copied.present_count == 0 {
            self.copied.min_lsn = header.lsn;
        }
        self.copied.present_count += header.record_count;
        self.copied.delete_count += delete_count;
    }
}
