//! An image of a log, as it was when a block was the last, written for another database.
//!
//! Blocks and records stay as they are, with their numbers, times and ordinals; headers, tags and
//! footers name the new database. Every image gets a file of its own, and is sealed.

use std::path::Path;

use base::{Lsn, SegmentId};
use env::{Disk, Unpublished};

use crate::error::{IoContext, Result};
use crate::format::block::{self, BlockHeader};
use crate::format::footer::{FooterBuilder, Ordinals, WrittenBlock};
use crate::format::groups::GROUP_BYTES;
use crate::format::record;
use crate::format::segment::{self, SegmentHeader};
use crate::id::Id;
use crate::inspect::verify::{Report, check_image};
use crate::read::catalog::Catalog;
use crate::read::scan::{Block, SegmentFile};
use crate::restore::building::whole_image;
use crate::restore::expiry::ExpiryRule;
use crate::restore::image_writer::ImageWriter;
use crate::restore::source::ImageBlocks;

/// What was copied.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct CopyCount {
    pub(crate) bytes: u64,
    pub(crate) blocks: u64,
    pub(crate) records: u64,
}

/// The log that is written.
pub(crate) struct Branch<'a> {
    pub(crate) disk: &'a dyn Disk,
    pub(crate) database: Id,
    pub(crate) device: Id,
    /// The directory of the device.
    pub(crate) path: &'a Path,
    /// The last block.
    pub(crate) last: Lsn,
    /// What becomes of the times at which keys expire.
    pub(crate) expiry: ExpiryRule,
}

impl Branch<'_> {
    /// Copies the image, as far as it goes, and reads what it has written; nothing is made of one without a block. Where several
    /// are copied side by side, one is read while another waits for the disk. What a restore of the same state that was cut off has made of it is
    /// read, and stays.
    pub(crate) fn copy(
        &self,
        catalog: &Catalog,
        image: &SegmentFile,
    ) -> Result<(CopyCount, Report)> {
        let header = &image.header;
        if let Some(kept) = self.kept(image)? {
            return Ok(kept);
        }
        let (count, written) = self.write(catalog, image, header.segment)?;
        if count.blocks == 0 {
            self.disk.remove(written.temporary()).at(written.temporary(), "remove")?;
            return Ok((count, Report::default()));
        }
        let name = segment::file_name(header.segment, header.part);
        let path = self.path.join(&name);
        written.publish(self.disk, &path)?;
        Ok((count, check_image(self.disk, &path)?))
    }

    /// What is there of the image already. One that has another header is of a segment that has been compacted since: what it has not must
    /// not be in the others either.
    fn kept(&self, image: &SegmentFile) -> Result<Option<(CopyCount, Report)>> {
        let path = self.path.join(segment::file_name(image.header.segment, image.header.part));
        let Some((header, found)) = whole_image(self.disk, &path)? else { return Ok(None) };
        let count = CopyCount { bytes: found.bytes, blocks: found.blocks, records: found.records };
        Ok((header == self.header(image, image.header.segment)).then_some((count, found)))
    }

    /// What the copy says of itself.
    fn header(&self, image: &SegmentFile, number: SegmentId) -> SegmentHeader {
        SegmentHeader {
            database: self.database,
            device: self.device,
            segment: number,
            durable_lsn: image.header.durable_lsn.min(self.last),
            ..image.header
        }
    }

    /// Copies the image, as far as it goes, as one of the segment `number`, to a file that has its name not yet.
    pub(crate) fn write(
        &self,
        catalog: &Catalog,
        image: &SegmentFile,
        number: SegmentId,
    ) -> Result<(CopyCount, Unpublished)> {
        let header = &image.header;
        let path = self.path.join(segment::file_name(number, header.part));
        let output = Unpublished::create(self.disk, &segment::temp_path(&path))?;
        let mut writer = ImageWriter::new(output);
        writer.put(&self.header(image, number).encode())?;
        let mut footer = match &image.footer {
            Some(footer) => FooterBuilder::like(footer),
            None => FooterBuilder::of_version(header.version, GROUP_BYTES),
        };
        let mut count = CopyCount::default();
        let mut blocks = ImageBlocks::open(self.disk, image)?;
        let mut last_read = Lsn::ZERO;
        while let Some(block) = blocks.next()? {
            last_read = block.header.lsn;
            if last_read > self.last {
                break;
            }
            self.copy_block((image, number), &block, &mut footer, &mut writer, &mut count)?;
        }
        check_whole(catalog, image, last_read, self.last)?;
        if count.blocks == 0 {
            return Ok((count, writer.finish()?));
        }
        let footer = match &image.footer {
            Some(old) if header.generation > 0 => footer.finish_with(old.survivors.len()),
            _ => footer.finish(),
        };
        writer.put(&footer.encode(self.database))?;
        count.bytes = writer.len();
        Ok((count, writer.finish()?))
    }

    fn copy_block(
        &self,
        (image, number): (&SegmentFile, SegmentId),
        block: &Block,
        footer: &mut FooterBuilder,
        writer: &mut ImageWriter,
        count: &mut CopyCount,
    ) -> Result<()> {
        let corrupt = |what: &str| image.corrupt(block.offset, what);
        let changed = self.expiry.apply(block.payload()).map_err(corrupt)?;
        let records = changed.as_ref().map_or(block.payload(), |changed| &changed.records[..]);
        let (mut rest, mut offsets, mut delete_count) = (records, Vec::new(), 0);
        for body in block.bodies() {
            let at = records.len() - rest.len();
            let (ordinal, ..) = body.map_err(corrupt)?;
            let body = record::take_body(&mut rest).map_err(corrupt)?;
            offsets.push((ordinal, (block::HEADER_BYTES + at) as u64));
            delete_count += u32::from(record::is_delete(body));
        }
        let header = BlockHeader {
            database_tag: self.database.tag(),
            segment: number,
            durable_lsn: block.header.durable_lsn.min(self.last),
            payload_bytes: records.len() as u64,
            payload_crc: changed.as_ref().map_or(block.header.payload_crc, |changed| changed.crc),
            ..block.header
        };
        let encoded = header.encode();
        footer.add(&WrittenBlock {
            lsn: header.lsn,
            header: &encoded,
            records,
            ordinals: Ordinals::Each(&offsets),
            record_count: header.record_count,
            delete_count,
        });
        writer.put(&encoded)?;
        writer.put(records)?;
        count.blocks += 1;
        count.records += offsets.len() as u64;
        Ok(())
    }
}

/// Whether an image that is written yet has what the manifest knows to have been durable in it.
pub(crate) fn check_whole(
    catalog: &Catalog,
    image: &SegmentFile,
    last_read: Lsn,
    end: Lsn,
) -> Result<()> {
    let listed = catalog.manifest.iter().flat_map(|manifest| &manifest.listed);
    let mut listed = listed.filter(|entry| entry.is_met_by(&image.header) && !entry.is_sealed());
    // It is sealed by now perhaps, and read behind the end is nothing.
    listed.try_for_each(|entry| {
        image.check_listed(entry, if last_read > end { Lsn::MAX } else { last_read })
    })
}
