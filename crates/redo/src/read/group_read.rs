//! Reading one record by the group that it is in: one read of a few pages, past the page cache.
//!
//! ```text
//!   ordinal ─► rank ─► group (footer) ─► its bytes ─► CRC ─► over headers and records to the rank
//! ```
//!
//! A page for the one record that is wanted of it would be a bad use of the cache, and no budget
//! would count it.

use std::ops::Range;

use env::{Disk, File, ReadBuffer};

use crate::error::{IoContext, Result};
use crate::format::block;
use crate::format::groups::Groups;
use crate::format::record;
use crate::format::segment::{Footer, Table};
use crate::id::Id;
use crate::read::scan::SegmentFile;

use base::SegmentId;
use base::checksum::crc32c;

/// What a read begins and ends at, so that it needs no page that is not asked for.
const ALIGNMENT: u64 = 4096;

/// The groups of `image`, whose file this is; `None` for one of version 1 or without a footer.
pub(crate) fn read_groups(file: &dyn File, image: &SegmentFile) -> Result<Option<Groups>> {
    let Some(known) = &image.footer else { return Ok(None) };
    if matches!(known.table, Table::Offsets(_)) {
        return Ok(None);
    }
    let end = image.start + image.len;
    let found = Footer::read(file, end, &image.path, image.header.database)?;
    match found {
        Some((start, Footer { table: Table::Groups(groups), data_end, .. }))
            if start == image.start && data_end == known.data_end =>
        {
            Ok(Some(groups))
        }
        _ => Err(image.corrupt(known.data_end, "the segment's footer is damaged or missing")),
    }
}

/// Memory for groups.
#[derive(Default)]
pub(crate) struct GroupRead {
    buffer: Option<ReadBuffer>,
    /// The group that is in the buffer, checked, and where.
    kept: Option<(GroupId, Range<usize>)>,
}

/// A group of an image: segment, part, generation, device, offset, checksum.
type GroupId = (SegmentId, u32, u32, Id, u64, u32);

impl GroupRead {
    /// The body of the record with this ordinal, which is among the survivors of the image.
    pub(crate) fn body(
        &mut self,
        disk: &dyn Disk,
        file: &dyn File,
        image: &SegmentFile,
        groups: &Groups,
        ordinal: u32,
    ) -> Result<&[u8]> {
        let footer = image.footer.as_ref().expect("an image with groups has a footer");
        let rank = footer.survivors.rank(ordinal);
        let (group, end) = groups.find(rank, footer.data_end).ok_or_else(|| {
            image.corrupt(footer.data_end, "the footer has no group for a record")
        })?;
        let header = &image.header;
        let (segment, part, generation) = (header.segment, header.part, header.generation);
        let id = (segment, part, generation, header.device, group.offset, group.crc);
        let place = match self.kept.take() {
            Some((kept, place)) if kept == id => place,
            _ => {
                let place = self.read(disk, file, image, group.offset, end)?;
                let buffer = self.buffer.as_ref().expect("it was read into");
                if crc32c(&buffer[place.clone()]) != group.crc {
                    return Err(image.corrupt(group.offset, "a group of records is damaged"));
                }
                place
            }
        };
        self.kept = Some((id, place.clone()));
        let bytes = &self.buffer.as_ref().expect("it was read into")[place];
        find(bytes, rank - group.first_rank).map_err(|what| image.corrupt(group.offset, what))
    }

    /// Reads the image from `from` to `to`; where it is in the buffer.
    fn read(
        &mut self,
        disk: &dyn Disk,
        file: &dyn File,
        image: &SegmentFile,
        from: u64,
        to: u64,
    ) -> Result<Range<usize>> {
        let (from, to) = (image.start + from, image.start + to);
        let read_from = from / ALIGNMENT * ALIGNMENT;
        let read_to = to.next_multiple_of(ALIGNMENT).min(image.start + image.len);
        let len = |from: u64, to: u64| usize::try_from(to - from).expect("it is in a file");
        let read_bytes = len(read_from, read_to);
        if self.buffer.as_ref().is_none_or(|buffer| buffer.len() < read_bytes) {
            self.buffer = Some(disk.read_buffer(read_bytes.next_power_of_two()));
        }
        let buffer = self.buffer.as_mut().expect("made above");
        file.read_once_at(&mut buffer[..read_bytes], read_from).at(&image.path, "read")?;
        Ok(len(read_from, from)..len(read_from, to))
    }
}

/// The body of the record behind so many others.
fn find(mut bytes: &[u8], mut records_before: u32) -> std::result::Result<&[u8], &'static str> {
    loop {
        if bytes.first() == Some(&block::MARK[0]) {
            bytes = bytes.get(block::HEADER_BYTES..).ok_or("a group ends in a block's header")?;
            continue;
        }
        let body = record::take_body(&mut bytes)?;
        if records_before == 0 {
            return Ok(body);
        }
        records_before -= 1;
    }
}
