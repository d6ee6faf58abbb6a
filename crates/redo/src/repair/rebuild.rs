//! Writing segments anew from their good blocks, as a compaction would that knows of no garbage.
//!
//! Segments that shared a file share the new one: it then replaces the old one by one rename, and
//! what else held parts of them is told by its older generation, as after a compaction. Records
//! get new ordinals, without gaps; nothing on disk refers to the old ones.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use base::checksum::crc32c;
use base::{Lsn, SegmentId};
use env::{Access, Complete, Disk, File, Unpublished};

use crate::error::{Error, IoContext, Result};
use crate::format::block::{BlockHeader, COMPACTED, HEADER_BYTES};
use crate::format::footer::{FooterBuilder, Ordinals, WrittenBlock};
use crate::format::groups::GROUP_BYTES;
use crate::format::kinds::Kinds;
use crate::format::listing::Listed;
use crate::format::manifest::KeptFile;
use crate::format::record;
use crate::format::segment::{self, SEGMENT_VERSION, SegmentHeader};
use crate::id::Id;
use crate::repair::salvage::{GoodBlock, Salvage, read_range};

/// A segment, and what there is of it.
pub(crate) struct DamagedSegment {
    pub(crate) segment: SegmentId,
    /// All of its images that count, good or not.
    pub(crate) images: Vec<Salvage>,
    pub(crate) complaints: Vec<String>,
}

impl DamagedSegment {
    /// How it is to be listed, if anything of it is good.
    pub(crate) fn listed(&self) -> Option<Listed> {
        let is_good = self.images.iter().any(|image| !image.blocks.is_empty());
        is_good.then_some(Listed { segment: self.segment, part: 0, last_lsn: Listed::SEALED })
    }

    /// The good blocks by LSN, each once, with the image that has them.
    fn blocks(&self) -> BTreeMap<Lsn, (usize, GoodBlock)> {
        let images = self.images.iter().enumerate();
        let blocks = images.flat_map(|(image, salvage)| {
            salvage.blocks.iter().map(move |block| (block.header.lsn, (image, *block)))
        });
        blocks.collect()
    }
}

/// What all segments that are written anew have in common.
pub(crate) struct Rebuilder<'a> {
    pub(crate) disk: &'a dyn Disk,
    pub(crate) database: Id,
    /// The device that the new file goes to, and its directory.
    pub(crate) device: Id,
    pub(crate) dir: &'a Path,
    /// Blocks up to here were durable, and may be missing.
    pub(crate) durable_lsn: Lsn,
    /// What is kept of the past, under names that must not be used again.
    pub(crate) kept: &'a [KeptFile],
}

impl Rebuilder<'_> {
    /// Writes what is good of `damaged`, in ascending order, under a temporary name; the file and
    /// the name that it is to get. `None` if nothing is good.
    pub(crate) fn write(&self, damaged: &[DamagedSegment]) -> Result<Option<(Complete, PathBuf)>> {
        let Some(leader) = damaged.iter().find(|segment| !segment.blocks().is_empty()) else {
            return Ok(None);
        };
        let path = self.dir.join(segment::file_name(leader.segment, 0));
        let new = Unpublished::create(self.disk, &segment::temp_path(&path))?;
        let mut end = 0;
        for segment in damaged {
            end = self.write_image(segment, new.file(), new.temporary(), end)?;
        }
        Ok(Some((new.complete()?, path)))
    }

    /// Writes an image at `start`; where it ends.
    fn write_image(
        &self,
        damaged: &DamagedSegment,
        output: &dyn File,
        temp: &Path,
        start: u64,
    ) -> Result<u64> {
        let blocks = damaged.blocks();
        if blocks.is_empty() {
            return Ok(start);
        }
        let header = SegmentHeader {
            version: SEGMENT_VERSION,
            database: self.database,
            device: self.device,
            segment: damaged.segment,
            part: 0,
            generation: self.generation(damaged),
            is_moved: self.is_moved(damaged),
            durable_lsn: self.durable_lsn,
            compaction_lsn: Lsn::ZERO,
            horizon: self.durable_lsn,
            kinds: Kinds::all(damaged.images.iter().map(Salvage::kinds)),
        };
        output.write_all_at(&header.encode(), start).at(temp, "write")?;
        let mut end = segment::HEADER_BYTES as u64;
        let mut first_ordinal = 0;
        let mut footer = FooterBuilder::new(GROUP_BYTES);
        for (image, block) in blocks.values() {
            let path = &damaged.images[*image].path;
            let input = self.disk.open(path, Access::Read).at(path, "open")?;
            let records_at = block.offset + HEADER_BYTES as u64;
            let records = records_at..records_at + block.header.payload_bytes;
            let payload = read_range(&*input, path, records)?;
            if crc32c(&payload) != block.header.payload_crc {
                return Err(Error::corrupt(path, block.offset, "it changes while it is read"));
            }
            let header = BlockHeader { flags: COMPACTED, first_ordinal, ..block.header };
            let (at, header_bytes) = (start + end, header.encode());
            output.write_all_at(&header_bytes, at).at(temp, "write")?;
            output.write_all_at(&payload, at + HEADER_BYTES as u64).at(temp, "write")?;
            let (offsets, delete_count) = offsets(&payload, first_ordinal);
            let written = WrittenBlock {
                lsn: header.lsn,
                header: &header_bytes,
                records: &payload,
                ordinals: Ordinals::Each(&offsets),
                record_count: header.record_count,
                delete_count,
            };
            footer.add(&written);
            end += header.block_bytes();
            first_ordinal += header.record_count;
        }
        let footer = footer.finish().encode(self.database);
        output.write_all_at(&footer, start + end).at(temp, "write")?;
        Ok(start + end + footer.len() as u64)
    }

    /// A generation that no file of the segment has, in place or kept.
    fn generation(&self, damaged: &DamagedSegment) -> u32 {
        let kept = self.kept.iter().filter(|kept| kept.segment == damaged.segment);
        let kept = kept.map(|kept| kept.generation);
        kept.chain(damaged.images.iter().map(Salvage::generation)).max().unwrap_or(0) + 1
    }

    /// Whether the segment says nothing about how far the device had come: it did not begin there,
    /// so that an older one of the device may still have been taking the log.
    fn is_moved(&self, damaged: &DamagedSegment) -> bool {
        let began_here = |image: &Salvage| {
            image.header.is_some_and(|header| header.part == 0 && header.device == self.device)
        };
        damaged.images.iter().any(Salvage::is_moved) || !damaged.images.iter().any(began_here)
    }
}

/// The ordinals of the records with their offsets in the block, and how many are deletes.
fn offsets(payload: &[u8], first_ordinal: u32) -> (Vec<(u32, u64)>, u32) {
    let (mut rest, mut offsets, mut delete_count) = (payload, Vec::new(), 0);
    for ordinal in first_ordinal.. {
        let at = HEADER_BYTES + payload.len() - rest.len();
        let Ok(body) = record::take_body(&mut rest) else { break };
        delete_count += u32::from(record::is_delete(body));
        offsets.push((ordinal, at as u64));
    }
    (offsets, delete_count)
}
