//! What a footer says, collected while the blocks of its image go by, and how it is written.

use std::path::Path;

use base::Lsn;
use env::File;

use crate::error::{IoContext, Result};
use crate::format::segment::{Footer, OFFSET_EVERY};
use crate::format::survivors::Survivors;

/// What the footer needs to know of a block.
pub(crate) struct WrittenBlock<'a> {
    pub(crate) lsn: Lsn,
    pub(crate) bytes: u64,
    pub(crate) ordinals: Ordinals<'a>,
    pub(crate) record_count: u32,
    pub(crate) delete_count: u32,
}

/// Where the records of a block are.
pub(crate) enum Ordinals<'a> {
    /// Consecutive from `first`, and where each that is divisible by 64 begins in the block.
    From {
        /// The ordinal of the first record.
        first: u32,
        /// Offsets within the block.
        marks: &'a [u64],
    },
    /// Each record with its ordinal and its offset within the block.
    Each(&'a [(u32, u64)]),
}

/// Collects what a footer says while the blocks go by.
#[derive(Default)]
pub(crate) struct FooterBuilder {
    block_count: u64,
    min_lsn: Lsn,
    max_lsn: Lsn,
    delete_count: u32,
    ordinal_end: u32,
    record_count: u32,
    offsets: Vec<u64>,
    /// The ordinals, as ranges, of a file that does not have all of them from 0 on.
    ranges: Vec<(u32, u32)>,
}

impl FooterBuilder {
    /// Counts in the block that begins at `at`.
    pub(crate) fn add(&mut self, block: &WrittenBlock<'_>, at: u64) {
        if self.block_count == 0 {
            self.min_lsn = block.lsn;
        }
        self.max_lsn = block.lsn;
        self.block_count += 1;
        self.delete_count += block.delete_count;
        match &block.ordinals {
            Ordinals::From { first, marks } => {
                self.add_range(*first, first + block.record_count);
                self.offsets.extend(marks.iter().map(|mark| at + mark));
            }
            Ordinals::Each(records) => {
                for (rank, (ordinal, offset)) in (self.record_count..).zip(records.iter()) {
                    self.add_range(*ordinal, ordinal + 1);
                    if rank % OFFSET_EVERY == 0 {
                        self.offsets.push(at + offset);
                    }
                }
            }
        }
        self.record_count += block.record_count;
    }

    fn add_range(&mut self, from: u32, to: u32) {
        match self.ranges.last_mut() {
            Some((_, end)) if *end == from => *end = to,
            _ => self.ranges.push((from, to)),
        }
        self.ordinal_end = to;
    }

    /// The footer of a file whose blocks end at `data_end`.
    pub(crate) fn finish(&self, data_end: u64) -> Footer {
        self.finish_with(data_end, self.ordinal_end)
    }

    /// The same for a segment that has had `record_count_ever` records.
    pub(crate) fn finish_with(&self, data_end: u64, record_count_ever: u32) -> Footer {
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
            data_end,
            delete_count: self.delete_count,
            survivors,
            offsets: self.offsets.clone(),
        }
    }
}

/// Puts `footer` at `end` as the last thing in the file, durably.
pub(crate) fn write_footer(file: &dyn File, path: &Path, end: u64, footer: &[u8]) -> Result<()> {
    // What may be beyond is no block of this log, and a trailer must be the file's last bytes.
    file.set_len(end).at(path, "cut")?;
    file.write_all_at(footer, end).at(path, "write")?;
    file.sync_data().at(path, "sync")
}
