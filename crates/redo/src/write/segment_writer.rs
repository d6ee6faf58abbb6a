//! Writing one segment's file, block after block, and its footer.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use base::{Lsn, SegmentId};
use env::{Disk, File};

use crate::error::{Error, IoContext, Result};
use crate::format::manifest::Id;
use crate::format::segment::{self, Footer, OFFSET_EVERY, SegmentHeader};
use crate::format::survivors::Survivors;
use crate::write::device::Shared;

/// A segment's file that still takes blocks.
pub(crate) struct SegmentWriter {
    pub(crate) path: PathBuf,
    database: Id,
    pub(crate) segment: SegmentId,
    pub(crate) part: u32,
    pub(crate) file: Arc<dyn File>,
    /// Where the next block goes.
    pub(crate) end: u64,
    pub(crate) is_dirty: bool,
    /// Whether the manifest lists it.
    pub(crate) is_listed: bool,
    /// Its blocks that were written and not yet noted as synced.
    pub(crate) unsynced: Vec<Lsn>,
    footer: FooterBuilder,
}

impl SegmentWriter {
    /// Makes the file, with its header, durable and still without a block.
    pub(crate) fn create(
        disk: &dyn Disk,
        dir: &Path,
        header: &SegmentHeader,
        allocate_bytes: u64,
    ) -> Result<Self> {
        let path = dir.join(segment::file_name(header.segment, header.part));
        // A name is used once: a file that is there is our own, from an attempt that failed.
        if disk.exists(&path).at(&path, "look for")? {
            disk.remove(&path).at(&path, "remove")?;
        }
        let file = disk.create(&path).at(&path, "create")?;
        if allocate_bytes > 0 {
            match file.allocate(0, allocate_bytes) {
                Err(error) if error.kind() == ErrorKind::StorageFull => {
                    return Err(error).at(&path, "reserve space for");
                }
                // Reserving is an optimisation; whoever cannot do it says so when writing.
                _ => {}
            }
        }
        file.write_all_at(&header.encode(), 0).at(&path, "write")?;
        file.sync_data().at(&path, "sync")?;
        disk.sync_dir(dir).at(dir, "sync")?;
        Ok(Self {
            path,
            database: header.database,
            segment: header.segment,
            part: header.part,
            file: Arc::from(file),
            end: segment::HEADER_BYTES as u64,
            is_dirty: false,
            is_listed: false,
            unsynced: Vec::new(),
            footer: FooterBuilder::default(),
        })
    }

    /// Lets the manifest list the file, if it does not yet: before its first block is written.
    pub(crate) fn list(&mut self, shared: &Shared) -> Result<()> {
        if self.is_listed {
            return Ok(());
        }
        let durable_lsn = shared.durability.durable_lsn();
        shared.manifest.listing().note_made(self.segment, self.part);
        shared.manifest.update(|manifest| {
            manifest.durable_lsn = manifest.durable_lsn.max(durable_lsn);
            true
        })?;
        self.is_listed = true;
        Ok(())
    }

    /// Writes `bytes` after what is there. The caller then says which blocks they were.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.is_dirty = true;
        self.file.write_all_at(bytes, self.end).at(&self.path, "write")
    }

    /// Counts a block in that [`SegmentWriter::write`] has put at the end.
    pub(crate) fn add(&mut self, block: &WrittenBlock<'_>) {
        self.footer.add(block, self.end);
        self.unsynced.push(block.lsn);
        self.end += block.bytes;
    }

    pub(crate) fn sync(&mut self) -> Result<()> {
        if self.is_dirty {
            self.file.sync_data().at(&self.path, "sync")?;
            self.is_dirty = false;
        }
        Ok(())
    }

    /// Writes the footer, cuts the space that was reserved and not used, and syncs. May be tried
    /// again after an error. The length of the file.
    ///
    /// The blocks are synced before the footer is written: a footer on disk promises that they are
    /// there too, and of two writes under one sync a crash may leave the second one alone.
    pub(crate) fn seal(&mut self) -> Result<u64> {
        self.sync()?;
        let footer = self.footer.finish(self.end).encode(self.database);
        write_footer(&*self.file, &self.path, self.end, &footer)?;
        self.is_dirty = false;
        Ok(self.end + footer.len() as u64)
    }
}

/// Puts `footer` at `end` as the last thing in the file, durably.
pub(crate) fn write_footer(file: &dyn File, path: &Path, end: u64, footer: &[u8]) -> Result<()> {
    // What may be beyond is no block of this log, and a trailer must be the file's last bytes.
    file.set_len(end).at(path, "cut")?;
    file.write_all_at(footer, end).at(path, "write")?;
    file.sync_data().at(path, "sync")
}

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

/// Whether the error says that there is no room, so that the same may be tried again. Not when it
/// comes from a sync: what was dirty may have been dropped, whatever the reason was.
pub(crate) fn is_full(error: &Error) -> bool {
    lacks_descriptor(error)
        || matches!(error, Error::Io { source, doing, .. } if *doing != "sync"
            && matches!(source.kind(),
                ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::OutOfMemory))
}

/// Whether there was no descriptor to open something with: it says nothing of the disk.
pub(crate) fn lacks_descriptor(error: &Error) -> bool {
    matches!(error, Error::Io { source, .. } if env::lacks_descriptor(source))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_is_an_answer_to_a_write_and_a_failure_of_a_sync() {
        let path = PathBuf::from("f");
        let error = |doing| {
            let source = ErrorKind::StorageFull.into();
            Error::Io { path: path.clone(), doing, source }
        };
        assert!(is_full(&error("write")) && is_full(&error("reserve space for")));
        assert!(!is_full(&error("sync")));
        let no_descriptor = |number, doing| {
            let source = env::opening(&path, std::io::Error::from_raw_os_error(number));
            Error::Io { path: path.clone(), doing, source }
        };
        for doing in ["create", "open", "sync"] {
            assert!([12, 23, 24].into_iter().all(|number| is_full(&no_descriptor(number, doing))));
        }
        assert!(!is_full(&no_descriptor(5, "create")), "an I/O error is one");
    }
}
