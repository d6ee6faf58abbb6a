//! What a footer says, collected while the blocks of its image go by, and how it is written.

use std::path::Path;

use base::Lsn;
use env::File;

use crate::error::{IoContext, Result};
use crate::format::block;
use crate::format::groups::{GroupBuilder, Groups, Mark, Marker, StreamedBlock};
use crate::format::segment::{self, Footer, OFFSET_EVERY, SEGMENT_VERSION, Table};
use crate::format::survivors::Survivors;

/// What the footer needs to know of a block.
pub(crate) struct WrittenBlock<'a> {
    pub(crate) lsn: Lsn,
    pub(crate) header: &'a [u8; block::HEADER_BYTES],
    pub(crate) records: &'a [u8],
    pub(crate) ordinals: Ordinals<'a>,
    pub(crate) record_count: u32,
    pub(crate) delete_count: u32,
}

/// Where the records of a block are.
pub(crate) enum Ordinals<'a> {
    /// Consecutive from `first`, and where a group may begin.
    From {
        /// The ordinal of the first record.
        first: u32,
        /// In order.
        marks: &'a [Mark],
    },
    /// Each record with its ordinal and its offset within the block.
    Each(&'a [(u32, u64)]),
}

/// Collects what a footer says while the blocks go by.
pub(crate) struct FooterBuilder {
    block_count: u64,
    min_lsn: Lsn,
    max_lsn: Lsn,
    /// Where the blocks end that went by.
    data_end: u64,
    delete_count: u32,
    ordinal_end: u32,
    record_count: u32,
    /// The ordinals, as ranges, of a file that does not have all of them from 0 on.
    ranges: Vec<(u32, u32)>,
    table: TableBuilder,
}

enum TableBuilder {
    /// Of a file of version 1.
    Offsets(Vec<u64>),
    Groups(GroupBuilder),
}

impl FooterBuilder {
    /// For a file that is written now, with groups of `group_bytes`.
    pub(crate) const fn new(group_bytes: u32) -> Self {
        Self::with(TableBuilder::Groups(GroupBuilder::new(group_bytes)))
    }

    /// For a file whose header says `version`.
    pub(crate) const fn of_version(version: u32, group_bytes: u32) -> Self {
        match version {
            SEGMENT_VERSION => Self::new(group_bytes),
            _ => Self::with(TableBuilder::Offsets(Vec::new())),
        }
    }

    /// For a file whose footer was `footer`.
    pub(crate) const fn like(footer: &Footer) -> Self {
        match &footer.table {
            Table::Groups(Groups { group_bytes, .. }) => Self::new(*group_bytes),
            Table::Offsets(_) => Self::with(TableBuilder::Offsets(Vec::new())),
        }
    }

    const fn with(table: TableBuilder) -> Self {
        Self {
            block_count: 0,
            min_lsn: Lsn::ZERO,
            max_lsn: Lsn::ZERO,
            data_end: segment::HEADER_BYTES as u64,
            delete_count: 0,
            ordinal_end: 0,
            record_count: 0,
            ranges: Vec::new(),
            table,
        }
    }

    /// Counts in the next block.
    pub(crate) fn add(&mut self, block: &WrittenBlock<'_>) {
        match (&mut self.table, &block.ordinals) {
            (TableBuilder::Groups(groups), Ordinals::From { marks, .. }) => {
                groups.add_block(block.header, block.records, marks, block.record_count);
            }
            (TableBuilder::Groups(groups), Ordinals::Each(records)) => {
                let marks = marks_of(groups, records);
                groups.add_block(block.header, block.records, &marks, block.record_count);
            }
            (TableBuilder::Offsets(offsets), Ordinals::Each(records)) => {
                let ranks = self.record_count..;
                let every = ranks.zip(*records).filter(|(rank, _)| rank % OFFSET_EVERY == 0);
                offsets.extend(every.map(|(_, (_, at))| self.data_end + at));
            }
            (TableBuilder::Offsets(_), Ordinals::From { .. }) => {
                unreachable!("blocks are written to files of the newest version")
            }
        }
        match block.ordinals {
            Ordinals::From { first, .. } => self.add_range(first, first + block.record_count),
            Ordinals::Each(records) => self.add_ordinals(records),
        }
        let bytes = (block.header.len() + block.records.len()) as u64;
        self.count(block.lsn, bytes, block.record_count, block.delete_count);
    }

    /// Begins a block with these records that comes in pieces, and its header at the end.
    pub(crate) fn begin_streamed(&mut self, records: &[(u32, u64)]) -> StreamedBlock {
        self.add_ordinals(records);
        let groups = self.groups();
        let marks = marks_of(groups, records);
        groups.begin_streamed(marks)
    }

    /// Takes the next bytes of its records.
    pub(crate) fn add_bytes(&mut self, block: &mut StreamedBlock, bytes: &[u8]) {
        self.groups().add_bytes(block, bytes);
    }

    /// Ends the block.
    pub(crate) fn end_streamed(
        &mut self,
        block: &StreamedBlock,
        header: &block::BlockHeader,
        delete_count: u32,
    ) {
        self.groups().end_streamed(block, &header.encode(), header.record_count);
        self.count(header.lsn, header.block_bytes(), header.record_count, delete_count);
    }

    fn groups(&mut self) -> &mut GroupBuilder {
        match &mut self.table {
            TableBuilder::Groups(groups) => groups,
            TableBuilder::Offsets(_) => unreachable!("only compaction streams blocks"),
        }
    }

    fn count(&mut self, lsn: Lsn, bytes: u64, record_count: u32, delete_count: u32) {
        if self.block_count == 0 {
            self.min_lsn = lsn;
        }
        self.max_lsn = lsn;
        self.block_count += 1;
        self.data_end += bytes;
        self.record_count += record_count;
        self.delete_count += delete_count;
    }

    fn add_ordinals(&mut self, records: &[(u32, u64)]) {
        records.iter().for_each(|(ordinal, _)| self.add_range(*ordinal, ordinal + 1));
    }

    fn add_range(&mut self, from: u32, to: u32) {
        match self.ranges.last_mut() {
            Some((_, end)) if *end == from => *end = to,
            _ => self.ranges.push((from, to)),
        }
        self.ordinal_end = to;
    }

    /// The footer of a file with these blocks.
    pub(crate) fn finish(&self) -> Footer {
        self.finish_with(self.ordinal_end)
    }

    /// The same for a segment that has had `record_count_ever` records.
    pub(crate) fn finish_with(&self, record_count_ever: u32) -> Footer {
        let survivors = match self.ranges[..] {
            [] if record_count_ever == 0 => Survivors::all(0),
            [(0, end)] if end == record_count_ever => Survivors::all(end),
            _ => {
                let mut set = Survivors::none(record_count_ever);
                for (from, to) in &self.ranges {
                    (*from..*to).for_each(|ordinal| set.insert(ordinal));
                }
                set
            }
        };
        Footer {
            block_count: self.block_count,
            min_lsn: self.min_lsn,
            max_lsn: self.max_lsn,
            data_end: self.data_end,
            delete_count: self.delete_count,
            survivors,
            table: match &self.table {
                TableBuilder::Offsets(offsets) => Table::Offsets(offsets.clone()),
                TableBuilder::Groups(groups) => Table::Groups(groups.groups().clone()),
            },
        }
    }
}

/// Where a group may begin in a block with these records.
fn marks_of(groups: &GroupBuilder, records: &[(u32, u64)]) -> Vec<Mark> {
    Marker::marks(groups.groups().group_bytes, records.iter().map(|(_, at)| *at))
}

/// Puts `footer` at `end` as the last thing in the file, durably.
pub(crate) fn write_footer(file: &dyn File, path: &Path, end: u64, footer: &[u8]) -> Result<()> {
    // What may be beyond is no block of this log, and a trailer must be the file's last bytes.
    file.set_len(end).at(path, "cut")?;
    file.write_all_at(footer, end).at(path, "write")?;
    file.sync_data().at(path, "sync")
}
