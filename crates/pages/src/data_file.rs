//! The data file: a header, two master records, and two slots per page.
//!
//! ```text
//!   0        4096      8192      16384
//!   | header | master  | master  | page 0   page 0 | page 1   page 1 | …
//!   |        |    0    |    1    | slot 0   slot 1 | slot 0   slot 1 |
//! ```
//!
//! **Twin slots** protect against torn pages. The *stable* slot of a page is the one that the last
//! checkpoint names; it is not written until a later durable checkpoint names the other one. A
//! crash may do anything to the other slot: recovery does not read it. So no page is written twice,
//! and none is logged whole (ADR 9 has the alternatives).

use std::io;
use std::path::{Path, PathBuf};

use base::bytes;
use base::checksum::crc32c;
use env::{Access, Disk, File};

use crate::FileError;
use crate::error::{Error, Result};
use crate::page::{PAGE_BYTES, Page};
use crate::position::{LogOffset, PageId};

/// The version of all formats of the store.
pub(crate) const FORMAT_VERSION: u32 = 1;
const MAGIC: &[u8; 8] = b"INDELPGS";
const MASTER_MAGIC: &[u8; 8] = b"INDELMST";
const BLOCK_BYTES: usize = 4096;
const PAGES_AT: u64 = 4 * BLOCK_BYTES as u64;
/// The file's name.
pub(crate) const NAME: &str = "pages.data";

/// The master record: the position of the last checkpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Master {
    /// Grows by one with every master record; the record overwrites the older of the two.
    pub(crate) sequence: u64,
    /// The log offset of the checkpoint record; 0 before the first checkpoint.
    pub(crate) checkpoint: LogOffset,
    /// Everything before this was durable when the master record was written.
    pub(crate) durable_end: LogOffset,
}

/// One bit a page: the slot it is in. Pages past the end have slot 0.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Slots {
    bits: Vec<u8>,
}

impl Slots {
    pub(crate) fn from_bytes(bytes: &[u8]) -> Self {
        Self { bits: bytes.to_vec() }
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bits
    }

    fn place(id: PageId) -> (usize, u8) {
        let byte = usize::try_from(id.0 / 8).expect("pages are bounded by PageId::END");
        (byte, 1 << (id.0 % 8))
    }

    pub(crate) fn get(&self, id: PageId) -> bool {
        let (byte, mask) = Self::place(id);
        self.bits.get(byte).is_some_and(|bits| bits & mask != 0)
    }

    pub(crate) fn set(&mut self, id: PageId, slot: bool) {
        let (byte, mask) = Self::place(id);
        if byte >= self.bits.len() {
            if !slot {
                return;
            }
            self.bits.resize(byte + 1, 0);
        }
        if slot {
            self.bits[byte] |= mask;
        } else {
            self.bits[byte] &= !mask;
        }
    }
}

/// The data file.
pub(crate) struct DataFile {
    file: Box<dyn File>,
    path: PathBuf,
    salt: u64,
    segment_bytes: u64,
}

fn block(magic: &[u8; 8], words: &[u64]) -> Vec<u8> {
    let mut bytes = vec![0; BLOCK_BYTES];
    bytes[..8].copy_from_slice(magic);
    bytes[8..12].copy_from_slice(&FORMAT_VERSION.to_le_bytes());
    for (at, word) in (16..).step_by(8).zip(words) {
        bytes[at..at + 8].copy_from_slice(&word.to_le_bytes());
    }
    let crc = crc32c(&bytes[16..]);
    bytes[12..16].copy_from_slice(&crc.to_le_bytes());
    bytes
}

/// Reads the words of a block; `Err` with the version if it is not ours.
fn words(bytes: &[u8], magic: &[u8; 8]) -> std::result::Result<Option<[u64; 4]>, u32> {
    let u32_at = |at| bytes::u32_at(bytes, at);
    let u64_at = |at| bytes::u64_at(bytes, at);
    if bytes[..8] != magic[..] || crc32c(&bytes[16..]) != u32_at(12) {
        return Ok(None);
    }
    match u32_at(8) {
        FORMAT_VERSION => Ok(Some([u64_at(16), u64_at(24), u64_at(32), u64_at(40)])),
        0 => Ok(None),
        other => Err(other),
    }
}

impl DataFile {
    /// Opens the file in `dir`. If there is none and no log either (`is_log`), creates it
    /// atomically, with `salt` and an empty log.
    pub(crate) fn open(
        disk: &dyn Disk,
        dir: &Path,
        salt: u64,
        first: LogOffset,
        segment_bytes: u64,
        is_log: bool,
    ) -> Result<Self> {
        let path = dir.join(NAME);
        if !disk.exists(&path).map_err(Error::io(&path, "look for"))? {
            if is_log {
                let what = "the data file is missing although there is a log";
                return Err(Error::corrupt(&path, 0, what));
            }
            Self::create(disk, dir, &[salt, segment_bytes], first)?;
        }
        let file = disk.open(&path, Access::ReadWrite).map_err(Error::io(&path, "open"))?;
        let mut header = vec![0; BLOCK_BYTES];
        file.read_exact_at(&mut header, 0).map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => Error::corrupt(&path, 0, "the file has no header"),
            _ => Error::io(&path, "read")(error),
        })?;
        match words(&header, MAGIC) {
            Ok(Some([salt, segment_bytes, ..])) => Ok(Self { file, path, salt, segment_bytes }),
            Ok(None) => Err(Error::corrupt(&path, 0, "the header of the file is damaged")),
            Err(found) => Err(FileError::NewerFormat { path, found, known: FORMAT_VERSION }.into()),
        }
    }

    fn create(disk: &dyn Disk, dir: &Path, header: &[u64; 2], first: LogOffset) -> Result<()> {
        let (path, tmp) = (dir.join(NAME), dir.join("pages.data.tmp"));
        let mut bytes = block(MAGIC, header);
        bytes.extend(block(MASTER_MAGIC, &[1, 0, first.0, header[0]]));
        bytes.resize(4 * BLOCK_BYTES, 0);
        env::publish(disk, &tmp, &path, &bytes)?;
        Ok(())
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The random number that ties the log to this file.
    pub(crate) fn salt(&self) -> u64 {
        self.salt
    }

    /// The size of the log's segments, fixed when the store was created.
    pub(crate) fn segment_bytes(&self) -> u64 {
        self.segment_bytes
    }

    /// The newest master record.
    pub(crate) fn master(&self) -> Result<Master> {
        let mut newest: Option<Master> = None;
        for slot in 0..2 {
            let mut bytes = vec![0; BLOCK_BYTES];
            let offset = (1 + slot) * BLOCK_BYTES as u64;
            self.file
                .read_exact_at(&mut bytes, offset)
                .map_err(Error::io(&self.path, "read the master record of"))?;
            if let Ok(Some([sequence, checkpoint, durable_end, salt])) = words(&bytes, MASTER_MAGIC)
                && salt == self.salt
                && sequence < u64::MAX
                && newest.is_none_or(|newest| newest.sequence < sequence)
            {
                let (checkpoint, durable_end) = (LogOffset(checkpoint), LogOffset(durable_end));
                newest = Some(Master { sequence, checkpoint, durable_end });
            }
        }
        let offset = BLOCK_BYTES as u64;
        newest.ok_or_else(|| Error::corrupt(&self.path, offset, "both master records are damaged"))
    }

    /// Writes and syncs a master record.
    pub(crate) fn write_master(&self, master: &Master) -> Result<()> {
        let words = [master.sequence, master.checkpoint.0, master.durable_end.0, self.salt];
        // The first master record, number 1, is in slot 0.
        let slot = 1 + (master.sequence + 1) % 2;
        self.file
            .write_all_at(&block(MASTER_MAGIC, &words), slot * BLOCK_BYTES as u64)
            .map_err(Error::io(&self.path, "write the master record of"))?;
        self.sync()
    }

    /// The offset of a slot of a page.
    pub(crate) fn offset(id: PageId, slot: bool) -> u64 {
        PAGES_AT + (id.0.min(PageId::END.0) * 2 + u64::from(slot)) * PAGE_BYTES as u64
    }

    /// Reads and verifies the image of a page.
    pub(crate) fn read_page(&self, id: PageId, slot: bool, page: &mut Page) -> Result<()> {
        let offset = Self::offset(id, slot);
        match self.file.read_exact_at(page.bytes_mut(), offset) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                return Err(Error::corrupt(&self.path, offset, format!("page {id} is missing")));
            }
            other => other.map_err(Error::io(&self.path, "read"))?,
        }
        let wrong = |what| Error::corrupt(&self.path, offset, format!("page {id}: {what}"));
        page.verify(id).map_err(wrong)
    }

    /// Writes an image.
    pub(crate) fn write_page(&self, id: PageId, slot: bool, page: &Page) -> Result<()> {
        self.file
            .write_all_at(page.bytes(), Self::offset(id, slot))
            .map_err(Error::io(&self.path, "write"))
    }

    pub(crate) fn sync(&self) -> Result<()> {
        self.file.sync_data().map_err(Error::io(&self.path, "sync"))
    }
}
