//! Writing one segment's file, block after block, and its footer.

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
            footer: FooterBuilder::new(group_bytes),
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
    pub(crate) fn add(&mut self, block: &SealedBlock) {
        self.footer.add(&block.written());
        self.unsynced.push(block.lsn);
        self.end += block.buffer.len() as u64;
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
