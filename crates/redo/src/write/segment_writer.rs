//! Writing one segment's file, block after block, and its footer.
//!
//! ```text
//!   a file that grows     header │ blocks │ ◄─ write, and a sync with the file's metadata
//!   one of zeros          header │ blocks │ 0 0 0 0 0 0 0     ◄─ one durable write of whole pages
//! ```
//!
//! Over zeros the last page, as far as it is filled, is written again with what follows, as it is: whichever of its
//! sectors a crash leaves, the blocks before are in them. Behind the new blocks the rest of the page is zeros, which
//! is what was there. At its end the file is cut to its length.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use base::{Lsn, SegmentId};
use env::{Disk, File};

use crate::error::{IoContext, Result};
use crate::format::footer::{FooterBuilder, write_footer};
use crate::format::segment::{self, SegmentHeader};
use crate::id::Id;
use crate::shared::device::Shared;
use crate::shared::sealed_block::SealedBlock;
use crate::shared::spare::Zeros;

/// What is written over zeros begins and ends at a multiple of this: a sector of every device, and a block of most
/// file systems.
pub(crate) const PAGE_BYTES: u64 = 4096;

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
    /// Up to here the file is zeros behind its blocks; 0 in one that grows.
    zeros_end: u64,
    /// What is in the page that the blocks end in; empty in a file that grows.
    tail: Vec<u8>,
    /// Another segment is to be begun for want of zeros in this one.
    pub(crate) is_left: bool,
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
        group_bytes: u32,
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
                // Reserving is an optimisation; where it cannot be done, a write says so.
                _ => {}
            }
        }
        file.write_all_at(&header.encode(), 0).at(&path, "write")?;
        file.sync_data().at(&path, "sync")?;
        disk.sync_dir(dir).at(dir, "sync")?;
        Ok(Self::new(path, Arc::from(file), header, group_bytes))
    }

    /// Makes the file of one of zeros, as [`SegmentWriter::create`] does.
    ///
    /// The header is durable before the file gets its name: a file of that name that has none and is not
    /// empty is damage.
    pub(crate) fn over_zeros(
        disk: &dyn Disk,
        dir: &Path,
        header: &SegmentHeader,
        zeros: Zeros,
        group_bytes: u32,
    ) -> Result<Self> {
        let path = dir.join(segment::file_name(header.segment, header.part));
        let Zeros { path: from, file, bytes } = zeros;
        let header_bytes = header.encode();
        file.write_all_at(&header_bytes, 0).at(&from, "write")?;
        file.sync_data().at(&from, "sync")?;
        disk.rename(&from, &path).at(&from, "rename")?;
        disk.sync_dir(dir).at(dir, "sync")?;
        let (zeros_end, tail) = (bytes, header_bytes.to_vec());
        Ok(Self { zeros_end, tail, ..Self::new(path, file, header, group_bytes) })
    }

    fn new(path: PathBuf, file: Arc<dyn File>, header: &SegmentHeader, group_bytes: u32) -> Self {
        Self {
            path,
            database: header.database,
            segment: header.segment,
            part: header.part,
            file,
            end: segment::HEADER_BYTES as u64,
            is_dirty: false,
            zeros_end: 0,
            tail: Vec::new(),
            is_left: false,
            is_listed: false,
            unsynced: Vec::new(),
            footer: FooterBuilder::new(group_bytes),
        }
    }

    /// Whether there were zeros before its blocks.
    pub(crate) const fn is_over_zeros(&self) -> bool {
        self.zeros_end > 0
    }

    /// Whether there are zeros behind its blocks.
    pub(crate) const fn has_zeros(&self) -> bool {
        self.end + PAGE_BYTES < self.zeros_end
    }

    /// From now on blocks are written as in a file that grows.
    pub(crate) fn grow(&mut self) {
        self.zeros_end = 0;
        self.tail = Vec::new();
    }

    /// The write that puts these blocks, `bytes` long together, at the end, durably; `None` if there are
    /// no zeros for them, or something before them is not synced. The caller then says which blocks they were.
    pub(crate) fn overwrite<'a>(
        &self,
        blocks: impl Iterator<Item = &'a [u8]>,
        bytes: usize,
    ) -> Option<Overwrite> {
        if self.is_dirty || self.end + bytes as u64 > self.zeros_end {
            return None;
        }
        let page_bytes = usize::try_from(PAGE_BYTES).expect("a page");
        let mut pages = Vec::with_capacity((self.tail.len() + bytes).next_multiple_of(page_bytes));
        pages.extend_from_slice(&self.tail);
        blocks.for_each(|block| pages.extend_from_slice(block));
        pages.resize(pages.len().next_multiple_of(page_bytes), 0);
        let at = self.end - self.tail.len() as u64;
        Some(Overwrite { file: Arc::clone(&self.file), path: self.path.clone(), pages, at })
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
    pub(crate) fn add(&mut self, block: &SealedBlock) {
        self.footer.add(&block.written());
        self.unsynced.push(block.lsn);
        self.end += block.buffer.len() as u64;
        if self.is_over_zeros() {
            self.follow_tail(&block.buffer);
        }
    }

    /// The blocks end with `bytes` now.
    fn follow_tail(&mut self, bytes: &[u8]) {
        let kept = usize::try_from(self.end % PAGE_BYTES).expect("less than a page");
        match bytes.len().checked_sub(kept) {
            Some(before) => {
                self.tail.clear();
                self.tail.extend_from_slice(&bytes[before..]);
            }
            None => self.tail.extend_from_slice(bytes),
        }
        debug_assert_eq!(self.tail.len(), kept, "the page begins where the last one ended");
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
        let footer = self.footer.finish().encode(self.database);
        write_footer(&*self.file, &self.path, self.end, &footer)?;
        self.is_dirty = false;
        Ok(self.end + footer.len() as u64)
    }
}

/// Blocks on their way to their place over zeros.
pub(crate) struct Overwrite {
    file: Arc<dyn File>,
    path: PathBuf,
    /// Whole pages: what the first one has already, the blocks, zeros.
    pages: Vec<u8>,
    at: u64,
}

impl Overwrite {
    /// Has the device make them durable; takes as long as that takes.
    pub(crate) fn run(&self) -> Result<()> {
        // A lack of room is an answer here, as for any write: all that this is about is written again.
        self.file.write_durably_at(&self.pages, self.at).at(&self.path, "write")
    }
}
