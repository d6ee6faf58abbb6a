//! How far an unfinished log is: a small file next to its manifest.
//!
//! ```text
//!   INTO/restore-tmp/reached: CRC32C of the rest (4) · the manifest's next segment (4)
//!                         · blocks of the images before that (8) · their records (8) · what the maker wrote
//! ```

use std::path::Path;

use base::SegmentId;
use base::checksum::crc32c;
use env::Disk;

use crate::error::{IoContext, Result};
use crate::format::manifest::{read_small, write_small};
use crate::write::publication::reached_path;

/// See the file's top.
pub(crate) struct Reached {
    /// The images before this one have it all. The manifest is written before, and has them.
    pub(crate) next_segment: SegmentId,
    /// How many blocks and records these images have.
    pub(crate) blocks: u64,
    pub(crate) records: u64,
    pub(crate) at: Vec<u8>,
}

impl Reached {
    pub(crate) fn write(&self, disk: &dyn Disk, build: &Path) -> Result<()> {
        let (segment, blocks) = (self.next_segment.0.to_le_bytes(), self.blocks.to_le_bytes());
        let said = [&segment[..], &blocks, &self.records.to_le_bytes(), &self.at].concat();
        let bytes = [&crc32c(&said).to_le_bytes(), &said[..]].concat();
        write_small(disk, &reached_path(build), &bytes)
    }

    /// `None` if there is none, or it is damaged.
    pub(crate) fn read(disk: &dyn Disk, build: &Path) -> Result<Option<Self>> {
        let Some(bytes) = read_small(disk, &reached_path(build))? else { return Ok(None) };
        Ok(Self::decode(&bytes))
    }

    /// Removes what was said, if anything was. Durable on return.
    pub(crate) fn remove(disk: &dyn Disk, build: &Path) -> Result<()> {
        let path = reached_path(build);
        if disk.exists(&path).at(&path, "look for")? {
            disk.remove(&path).at(&path, "remove")?;
            disk.sync_dir(build).at(build, "sync")?;
        }
        Ok(())
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let (crc, said) = bytes.split_first_chunk()?;
        let (segment, rest) = said.split_first_chunk()?;
        let (blocks, rest) = rest.split_first_chunk()?;
        let (records, at) = rest.split_first_chunk()?;
        let is_good = u32::from_le_bytes(*crc) == crc32c(said);
        is_good.then(|| Self {
            next_segment: SegmentId(u32::from_le_bytes(*segment)),
            blocks: u64::from_le_bytes(*blocks),
            records: u64::from_le_bytes(*records),
            at: at.to_vec(),
        })
    }
}
