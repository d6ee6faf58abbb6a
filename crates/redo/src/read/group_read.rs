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

/// The memory for a larger group is given back when what was asked for was copied: values are up to 512 MB long, and each
/// thread that reads has such memory.
const KEPT_BYTES_MAX: usize = 1 << 20;

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

/// Where a record is: in which group of its image, and behind how many others.
pub(crate) struct GroupPlace {
    pub(crate) id: GroupId,
    /// The group in the image.
    offset: u64,
    /// The read that has it, from where in the file on and how much.
    pub(crate) read_from: u64,
    pub(crate) read_bytes: usize,
    /// The group in what was read.
    inside: Range<usize>,
    records_before: u32,
}

/// A group of an image: segment, part, generation, device, offset, checksum.
type GroupId = (SegmentId, u32, u32, Id, u64, u32);

impl GroupPlace {
    /// The place of the record with this ordinal, which is among the survivors of the image.
    pub(crate) fn of(image: &SegmentFile, groups: &Groups, ordinal: u32) -> Result<Self> {
        let footer = image.footer.as_ref().expect("an image with groups has a footer");
        let rank = footer.survivors.rank(ordinal);
        let (group, end) = groups.find(rank, footer.data_end).ok_or_else(|| {
            image.corrupt(footer.data_end, "the footer has no group for a record")
        })?;
        let header = &image.header;
        let (segment, part, generation) = (header.segment, header.part, header.generation);
        let id = (segment, part, generation, header.device, group.offset, group.crc);
        let (from, to) = (image.start + group.offset, image.start + end);
        let read_from = from / ALIGNMENT * ALIGNMENT;
        let read_to = to.next_multiple_of(ALIGNMENT).min(image.start + image.len);
        let len = |from: u64, to: u64| usize::try_from(to - from).expect("it is in a file");
        Ok(Self {
            id,
            offset: group.offset,
            read_from,
            read_bytes: len(read_from, read_to),
            inside: len(read_from, from)..len(read_from, to),
            records_before: rank - group.first_rank,
        })
    }

    /// Compares the group with its checksum.
    pub(crate) fn check(&self, read: &[u8], image: &SegmentFile) -> Result<()> {
        let (.., crc) = self.id;
        match crc32c(&read[self.inside.clone()]) == crc {
            true => Ok(()),
            false => Err(image.corrupt(self.offset, "a group of records is damaged")),
        }
    }

    /// A walk over the group, in what was read and checked.
    pub(crate) fn walk<'a>(&self, read: &'a [u8]) -> GroupWalk<'a> {
        let group = &read[self.inside.clone()];
        GroupWalk { group, rest: group, passed: 0 }
    }

    /// The body of the record, by a walk over its group.
    pub(crate) fn body<'a>(
        &self,
        walk: &mut GroupWalk<'a>,
        image: &SegmentFile,
    ) -> Result<&'a [u8]> {
        walk.body(self.records_before).map_err(|what| image.corrupt(self.offset, what))
    }
}

/// Finds records of a group; those that are asked for in their order in one walk.
pub(crate) struct GroupWalk<'a> {
    group: &'a [u8],
    rest: &'a [u8],
    /// How many records are before the rest.
    passed: u32,
}

impl<'a> GroupWalk<'a> {
    /// The body of the record behind so many others.
    fn body(&mut self, records_before: u32) -> std::result::Result<&'a [u8], &'static str> {
        if records_before < self.passed {
            (self.rest, self.passed) = (self.group, 0);
        }
        loop {
            if self.rest.first() == Some(&block::MARK[0]) {
                let rest = self.rest.get(block::HEADER_BYTES..);
                self.rest = rest.ok_or("a group ends in a block's header")?;
                continue;
            }
            let body = record::take_body(&mut self.rest)?;
            self.passed += 1;
            if self.passed > records_before {
                return Ok(body);
            }
        }
    }
}

/// Memory for groups.
#[derive(Default)]
pub(crate) struct GroupRead {
    buffer: Option<ReadBuffer>,
    /// The group that is in the buffer, checked.
    kept: Option<GroupId>,
}

impl GroupRead {
    /// Gives back what is too large to be kept.
    pub(crate) fn shrink(&mut self) {
        if self.buffer.as_ref().is_some_and(|buffer| buffer.len() > KEPT_BYTES_MAX) {
            *self = Self::default();
        }
    }

    /// The body of the record with this ordinal, which is among the survivors of the image.
    pub(crate) fn body(
        &mut self,
        disk: &dyn Disk,
        file: &dyn File,
        image: &SegmentFile,
        groups: &Groups,
        ordinal: u32,
    ) -> Result<&[u8]> {
        let place = GroupPlace::of(image, groups, ordinal)?;
        if self.kept.take() != Some(place.id) {
            if self.buffer.as_ref().is_none_or(|buffer| buffer.len() < place.read_bytes) {
                self.buffer = Some(disk.read_buffer(place.read_bytes.next_power_of_two()));
            }
            let buffer = self.buffer.as_mut().expect("made above");
            let read = &mut buffer[..place.read_bytes];
            file.read_once_at(read, place.read_from).at(&image.path, "read")?;
            place.check(read, image)?;
        }
        self.kept = Some(place.id);
        let read = self.buffer.as_ref().expect("it was read into");
        place.body(&mut place.walk(read), image)
    }
}
