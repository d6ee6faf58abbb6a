//! Dumps: a snapshot in a file, written and read in one pass. The format is in
//! `docs/format/snapshot.md`.
//!
//! ```text
//!   header (64) · block · block · … · footer
//!   block = length (4) · CRC (4) · cells     a cell: the row, or its number (8) and the row
//! ```
//!
//! A dump is written under a temporary name, synced, and renamed: a file with the final name is
//! complete. Nothing of a block is returned before its CRC was verified; the CRCs also detect
//! missing, repeated and misplaced blocks.

use std::path::{Path, PathBuf};

use base::bytes::{u32_at, u64_at};
use base::checksum::{crc32c, crc32c_append};
use env::{Access, Disk, File, Unpublished};

use crate::algorithm::Content;
use crate::cells::Shape;
use crate::error::{Error, Result};

const MAGIC: [u8; 8] = *b"INDELSNP";
const VERSION: u32 = 1;
const HEADER_BYTES: usize = 64;
const BLOCK_HEADER_BYTES: usize = 8;
/// A block is closed at this size.
const BLOCK_BYTES: usize = 1 << 20;
/// No block is longer. A block has at least one cell, and rows are at most this long.
const BLOCK_BYTES_MAX: usize = 1 << 26;
/// Written bytes are synced, and dropped from the cache, in portions of this size. A dump neither
/// evicts everything else from memory nor ends with a long sync.
const SYNC_BYTES: u64 = 64 << 20;

/// The size of a dump.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Summary {
    /// The rows in it.
    pub rows: u64,
    /// The bytes of the file.
    pub bytes: u64,
}

/// The header of a dump.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// The rows of the table; a dump of changes contains fewer.
    pub table_rows: u64,
    /// The bytes of each row.
    pub row_bytes: u64,
    /// All rows, or the changes since the previous snapshot.
    pub content: Content,
    /// The number of the snapshot, from 1. Changes are those since the previous number.
    pub sequence: u64,
}

impl Header {
    fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.table_rows.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.row_bytes.to_le_bytes());
        bytes[32..40].copy_from_slice(&self.sequence.to_le_bytes());
        bytes[40] = match self.content {
            Content::Full => 1,
            Content::Changes => 2,
        };
        let crc = crc32c_append(crc32c(&bytes[..12]), &bytes[16..]);
        bytes[12..16].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    fn decode(bytes: &[u8; HEADER_BYTES]) -> std::result::Result<Self, (u64, &'static str)> {
        if bytes[..8] != MAGIC {
            return Err((0, "not a dump of a snapshot"));
        }
        if u32_at(bytes, 8) != VERSION {
            return Err((8, "a format version that this program does not know"));
        }
        if u32_at(bytes, 12) != crc32c_append(crc32c(&bytes[..12]), &bytes[16..]) {
            return Err((12, "the header's checksum"));
        }
        let content = match bytes[40] {
            1 => Content::Full,
            2 => Content::Changes,
            _ => return Err((40, "neither full nor changes")),
        };
        let header = Self {
            table_rows: u64_at(bytes, 16),
            row_bytes: u64_at(bytes, 24),
            content,
            sequence: u64_at(bytes, 32),
        };
        if header.row_bytes == 0
            || !header.row_bytes.is_multiple_of(8)
            || header.row_bytes > (BLOCK_BYTES_MAX / 2) as u64
        {
            return Err((24, "a length that no row has"));
        }
        Ok(header)
    }

    fn cell_bytes(&self) -> usize {
        let number = if self.content == Content::Changes { 8 } else { 0 };
        usize::try_from(self.row_bytes).expect("checked: far below 2^32") + number
    }
}

/// Computes the CRC of a block over its position, length and contents.
fn block_crc(offset: u64, length: u32, cells: &[u8]) -> u32 {
    crc32c_append(crc32c_append(crc32c(&offset.to_le_bytes()), &length.to_le_bytes()), cells)
}

/// Writes a dump. Dropped before [`Writer::finish`], it leaves only a file with a temporary name,
/// which the next writer replaces.
pub struct Writer<'a> {
    disk: &'a dyn Disk,
    path: PathBuf,
    unpublished: Unpublished,
    header: Header,
    block: Vec<u8>,
    offset: u64,
    synced: u64,
    rows: u64,
}

impl<'a> Writer<'a> {
    /// Begins a dump with the final name `path`.
    ///
    /// # Errors
    /// The error of the disk.
    pub fn create(
        disk: &'a dyn Disk,
        path: &Path,
        shape: Shape,
        content: Content,
        sequence: u64,
    ) -> Result<Self> {
        let mut temporary = path.as_os_str().to_owned();
        temporary.push(".tmp");
        let temporary = PathBuf::from(temporary);
        let unpublished = Unpublished::create(disk, &temporary)?;
        let header = Header {
            table_rows: shape.rows() as u64,
            row_bytes: shape.row_bytes() as u64,
            content,
            sequence,
        };
        let written = unpublished.file().write_all_at(&header.encode(), 0);
        written.map_err(Error::io(&temporary, "write"))?;
        let mut block =
            Vec::with_capacity(BLOCK_BYTES + shape.row_bytes() + BLOCK_HEADER_BYTES * 2);
        block.resize(BLOCK_HEADER_BYTES, 0);
        let (path, offset) = (path.to_owned(), HEADER_BYTES as u64);
        Ok(Self { disk, path, unpublished, header, block, offset, synced: 0, rows: 0 })
    }

    fn io<T>(&self, result: std::io::Result<T>) -> Result<T> {
        result.map_err(Error::io(self.unpublished.temporary(), "write"))
    }

    /// Adds a row. Rows come in ascending order; a full dump contains all of them.
    ///
    /// # Errors
    /// The error of the disk.
    pub fn row(&mut self, row: usize, value: &[u64]) -> Result<()> {
        match self.header.content {
            Content::Full => assert_eq!(row as u64, self.rows, "a full dump skips no row"),
            Content::Changes => self.block.extend_from_slice(&(row as u64).to_le_bytes()),
        }
        for word in value {
            self.block.extend_from_slice(&word.to_le_bytes());
        }
        self.rows += 1;
        if self.block.len() >= BLOCK_BYTES + BLOCK_HEADER_BYTES { self.end_block() } else { Ok(()) }
    }

    fn end_block(&mut self) -> Result<()> {
        let cells = self.block.len() - BLOCK_HEADER_BYTES;
        let length = u32::try_from(cells).expect("a block is closed at a megabyte");
        let crc = block_crc(self.offset, length, &self.block[BLOCK_HEADER_BYTES..]);
        self.block[..4].copy_from_slice(&length.to_le_bytes());
        self.block[4..8].copy_from_slice(&crc.to_le_bytes());
        self.io(self.unpublished.file().write_all_at(&self.block, self.offset))?;
        self.offset += self.block.len() as u64;
        self.block.truncate(BLOCK_HEADER_BYTES);
        if self.offset - self.synced >= SYNC_BYTES { self.sync() } else { Ok(()) }
    }

    fn sync(&mut self) -> Result<()> {
        let file = self.unpublished.file();
        self.io(file.sync_data())?;
        file.drop_cache(self.synced, self.offset - self.synced);
        self.synced = self.offset;
        Ok(())
    }

    /// Completes the dump under its final name; it is durable on return.
    ///
    /// # Errors
    /// The error of the disk.
    pub fn finish(mut self) -> Result<Summary> {
        if self.header.content == Content::Full {
            assert_eq!(self.rows, self.header.table_rows, "a full dump has every row");
        }
        if self.block.len() > BLOCK_HEADER_BYTES {
            self.end_block()?;
        }
        let rows = self.rows.to_le_bytes();
        let mut footer = [0; BLOCK_HEADER_BYTES + 8];
        footer[4..8].copy_from_slice(&block_crc(self.offset, 0, &rows).to_le_bytes());
        footer[8..].copy_from_slice(&rows);
        self.io(self.unpublished.file().write_all_at(&footer, self.offset))?;
        self.offset += footer.len() as u64;
        let file = self.unpublished.publish(self.disk, &self.path)?;
        file.drop_cache(self.synced, self.offset - self.synced);
        Ok(Summary { rows: self.rows, bytes: self.offset })
    }
}

/// Reads a dump row by row, verifying everything before returning it.
pub struct Reader {
    file: Box<dyn File>,
    path: PathBuf,
    header: Header,
    offset: u64,
    block: Vec<u8>,
    at: usize,
    rows: u64,
    last_row: Option<u64>,
    ended: bool,
}

impl Reader {
    /// Opens the dump `path`.
    ///
    /// # Errors
    /// [`crate::FileError::Io`] if it cannot be opened, [`crate::FileError::Corrupt`] if its header
    /// is damaged.
    pub fn open(disk: &dyn Disk, path: &Path) -> Result<Self> {
        let file = disk.open(path, Access::Read).map_err(Error::io(path, "open"))?;
        file.advise_sequential();
        let mut bytes = [0; HEADER_BYTES];
        let corrupt = |(offset, what)| Error::corrupt(path, offset, what);
        if file.len().map_err(Error::io(path, "measure"))? < HEADER_BYTES as u64 {
            return Err(corrupt((0, "shorter than a header")));
        }
        file.read_exact_at(&mut bytes, 0).map_err(Error::io(path, "read"))?;
        let header = Header::decode(&bytes).map_err(corrupt)?;
        Ok(Self {
            file,
            path: path.to_owned(),
            header,
            offset: HEADER_BYTES as u64,
            block: Vec::new(),
            at: 0,
            rows: 0,
            last_row: None,
            ended: false,
        })
    }

    /// The header.
    #[must_use]
    pub fn header(&self) -> Header {
        self.header
    }

    /// Returns an error unless the rows of the dump have this shape.
    ///
    /// # Errors
    /// [`Error::OtherShape`].
    pub fn expect_shape(&self, shape: Shape) -> Result<()> {
        let Header { table_rows: rows, row_bytes, .. } = self.header;
        if rows == shape.rows() as u64 && row_bytes == shape.row_bytes() as u64 {
            return Ok(());
        }
        Err(Error::OtherShape { path: self.path.clone(), rows, row_bytes })
    }

    fn corrupt(&self, offset: u64, what: &'static str) -> Error {
        Error::corrupt(&self.path, offset, what)
    }

    fn read(&self, into: &mut [u8], offset: u64) -> Result<()> {
        self.file.read_exact_at(into, offset).map_err(|error| match error.kind() {
            std::io::ErrorKind::UnexpectedEof => self.corrupt(offset, "the file ends here"),
            _ => Error::io(&self.path, "read")(error),
        })
    }

    /// Reads the next row and its number. Returns `None` after the last one, once all of the file
    /// was verified.
    ///
    /// # Errors
    /// [`crate::FileError::Corrupt`], [`crate::FileError::Io`].
    pub fn next_row(&mut self, into: &mut [u64]) -> Result<Option<usize>> {
        if self.at == self.block.len() {
            if !self.ended {
                self.next_block()?;
            }
            if self.ended {
                return Ok(None);
            }
        }
        let cell = self.header.cell_bytes();
        let start = self.offset - self.block.len() as u64 + self.at as u64;
        let bytes = &self.block[self.at..self.at + cell];
        let (row, value) = match self.header.content {
            Content::Full => (self.rows, bytes),
            Content::Changes => (u64_at(bytes, 0), &bytes[8..]),
        };
        if row >= self.header.table_rows || self.last_row.is_some_and(|last| row <= last) {
            return Err(self.corrupt(start, "rows out of order, or more than the table has"));
        }
        for (word, bytes) in into.iter_mut().zip(value.chunks_exact(8)) {
            *word = u64_at(bytes, 0);
        }
        self.at += cell;
        self.rows += 1;
        self.last_row = Some(row);
        Ok(Some(usize::try_from(row).expect("64-bit machine")))
    }

    fn next_block(&mut self) -> Result<()> {
        let start = self.offset;
        let mut head = [0; BLOCK_HEADER_BYTES];
        self.read(&mut head, start)?;
        let (length, crc) = (u32_at(&head, 0), u32_at(&head, 4));
        let bytes = if length == 0 { 8 } else { length as usize };
        if bytes > BLOCK_BYTES_MAX {
            return Err(self.corrupt(start, "a block longer than the maximum"));
        }
        let mut block = std::mem::take(&mut self.block);
        block.resize(bytes, 0);
        self.read(&mut block, start + BLOCK_HEADER_BYTES as u64)?;
        if block_crc(start, length, &block) != crc {
            return Err(self.corrupt(start, "the checksum of a block does not match"));
        }
        self.offset += (BLOCK_HEADER_BYTES + bytes) as u64;
        if length == 0 {
            return self.check_end(start, u64_at(&block, 0));
        }
        if !bytes.is_multiple_of(self.header.cell_bytes()) {
            return Err(self.corrupt(start, "a block that ends inside a row"));
        }
        self.block = block;
        self.at = 0;
        // The bytes are not needed again: leave the cache to other readers.
        self.file.drop_cache(start, (BLOCK_HEADER_BYTES + bytes) as u64);
        Ok(())
    }

    fn check_end(&mut self, start: u64, rows: u64) -> Result<()> {
        let full = self.header.content == Content::Full;
        if rows != self.rows || (full && rows != self.header.table_rows) {
            return Err(self.corrupt(start, "wrong number of rows"));
        }
        let length = self.file.len();
        if length.map_err(Error::io(&self.path, "measure"))? != self.offset {
            return Err(self.corrupt(self.offset, "the file continues after its footer"));
        }
        self.at = 0;
        self.ended = true;
        Ok(())
    }
}

/// Reads and verifies a whole dump.
///
/// # Errors
/// [`crate::FileError::Corrupt`] with the first damage found, [`crate::FileError::Io`].
pub fn verify(disk: &dyn Disk, path: &Path) -> Result<(Header, Summary)> {
    let mut reader = Reader::open(disk, path)?;
    let words = usize::try_from(reader.header.row_bytes / 8).expect("checked: far below 2^32");
    let mut value = vec![0; words];
    while reader.next_row(&mut value)?.is_some() {}
    Ok((reader.header, Summary { rows: reader.rows, bytes: reader.offset }))
}
