//! One file of the log: its name, its header, and its batches as they are found.

use std::path::{Path, PathBuf};

use base::bytes::{u32_at, u64_at};
use base::checksum::{crc32c, crc32c_append};
use env::{Access, Disk, File};

use super::batch::{HEADER_BYTES as BATCH_HEADER_BYTES, Header as BatchHeader, MAGIC};
use crate::FileError;
use crate::entry::{ConnectionNumber, Position, Time};
use crate::error::{Error, Result};

/// Bytes before the first batch.
pub(super) const HEADER_BYTES: usize = 72;
const SEGMENT_MAGIC: [u8; 8] = *b"INDELTAP";
const VERSION: u32 = 1;
/// The longest name of a protocol, in bytes.
const PROTOCOL_BYTES: usize = 16;
/// A bound that the numbers of batches, requests and connections never reach.
pub(super) const NUMBER_MAX: u64 = 1 << 62;
/// Bytes searched at once for a batch behind damage.
const SEARCH_BYTES: usize = 1 << 20;

/// The header of a segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Header {
    /// Its number, from 1, which is also its name.
    pub(super) segment: u64,
    /// The number of its first batch.
    pub(super) first_batch: u64,
    /// The position of the last request before it.
    pub(super) position: Position,
    /// The last connection numbered before it.
    pub(super) connection: ConnectionNumber,
    /// When it was created.
    pub(super) created: Time,
    /// The name of the protocol.
    pub(super) protocol: String,
}

impl Header {
    pub(super) fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[..8].copy_from_slice(&SEGMENT_MAGIC);
        bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.segment.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.first_batch.to_le_bytes());
        bytes[32..40].copy_from_slice(&self.position.0.to_le_bytes());
        bytes[40..48].copy_from_slice(&self.connection.0.to_le_bytes());
        bytes[48..56].copy_from_slice(&self.created.0.to_le_bytes());
        bytes[56..56 + self.protocol.len()].copy_from_slice(self.protocol.as_bytes());
        let crc = crc32c(&bytes[16..]);
        bytes[12..16].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    fn decode(bytes: &[u8; HEADER_BYTES], path: &Path, segment: u64) -> Result<Self> {
        let corrupt = |offset, what: &str| Error::corrupt(path, offset, what);
        if bytes[..8] != SEGMENT_MAGIC {
            return Err(corrupt(0, "this is not a segment of a log of requests"));
        }
        let version = u32_at(bytes, 8);
        if version > VERSION {
            let path = path.to_owned();
            return Err(FileError::NewerFormat { path, found: version, known: VERSION }.into());
        }
        if version != VERSION {
            return Err(corrupt(8, "no version of the format has this number"));
        }
        if u32_at(bytes, 12) != crc32c(&bytes[16..]) {
            return Err(corrupt(12, "the checksum of the header does not match"));
        }
        if u64_at(bytes, 16) != segment {
            return Err(corrupt(16, "the number of the segment does not match its name"));
        }
        for at in [24, 32, 40] {
            let is_possible = u64_at(bytes, at) < NUMBER_MAX && (at != 24 || u64_at(bytes, at) > 0);
            if !is_possible {
                return Err(corrupt(at as u64, "a number that no log can reach"));
            }
        }
        let name = &bytes[56..];
        let end = name.iter().position(|byte| *byte == 0).unwrap_or(PROTOCOL_BYTES);
        Ok(Self {
            segment,
            first_batch: u64_at(bytes, 24),
            position: Position(u64_at(bytes, 32)),
            connection: ConnectionNumber(u64_at(bytes, 40)),
            created: Time(u64_at(bytes, 48)),
            protocol: String::from_utf8_lossy(&name[..end]).into_owned(),
        })
    }
}

/// Returns the path of segment `number` of the log in `dir`.
pub(super) fn path(dir: &Path, number: u64) -> PathBuf {
    dir.join(format!("{number:010}.tap"))
}

/// Returns the numbers of the segments in `dir`, ascending.
pub(super) fn list(disk: &dyn Disk, dir: &Path) -> Result<Vec<u64>> {
    let names = match disk.list(dir) {
        Ok(names) => names,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(Error::on(dir, "list")(error)),
    };
    let number = |name: &std::ffi::OsString| name.to_str()?.strip_suffix(".tap")?.parse().ok();
    let mut numbers: Vec<u64> = names.iter().filter_map(number).collect();
    numbers.sort_unstable();
    Ok(numbers)
}

/// A batch that was found.
pub(super) struct Found {
    pub(super) header: BatchHeader,
    /// Its offset in the file.
    pub(super) offset: u64,
    pub(super) body: Vec<u8>,
}

/// A segment being read.
pub(super) struct Segment {
    pub(super) header: Header,
    pub(super) path: PathBuf,
    pub(super) file: Box<dyn File>,
    /// The offset of the next batch, if there is one.
    pub(super) offset: u64,
    /// The number of the next batch.
    pub(super) batch: u64,
}

impl Segment {
    /// Opens segment `number` and reads its header.
    pub(super) fn open(disk: &dyn Disk, dir: &Path, number: u64, access: Access) -> Result<Self> {
        let path = path(dir, number);
        let file = disk.open(&path, access).map_err(Error::on(&path, "open"))?;
        let mut bytes = [0; HEADER_BYTES];
        if let Err(error) = file.read_exact_at(&mut bytes, 0) {
            return Err(if error.kind() == std::io::ErrorKind::UnexpectedEof {
                Error::corrupt(&path, 0, "the header is truncated")
            } else {
                Error::on(&path, "read")(error)
            });
        }
        let header = Header::decode(&bytes, &path, number)?;
        let batch = header.first_batch;
        Ok(Self { header, path, file, offset: HEADER_BYTES as u64, batch })
    }

    /// Returns the next batch; `None` after the last complete one.
    pub(super) fn next_batch(&mut self) -> Result<Option<Found>> {
        let Some(found) = self.batch_at(self.offset)? else { return Ok(None) };
        if found.header.number != self.batch {
            return Ok(None);
        }
        self.offset += found.header.batch_bytes();
        self.batch += 1;
        Ok(Some(found))
    }

    /// Returns the complete batch at `offset`, if there is one.
    fn batch_at(&self, offset: u64) -> Result<Option<Found>> {
        let len = self.len()?;
        let mut bytes = [0; BATCH_HEADER_BYTES];
        if len.saturating_sub(offset) < bytes.len() as u64 {
            return Ok(None);
        }
        self.read(&mut bytes, offset)?;
        let Some(header) = BatchHeader::decode(&bytes) else { return Ok(None) };
        if len - offset < header.batch_bytes() {
            return Ok(None);
        }
        let mut body = vec![0; header.length as usize];
        self.read(&mut body, offset + bytes.len() as u64)?;
        if crc32c_append(crc32c(&bytes[4..]), &body) != header.crc {
            return Ok(None);
        }
        Ok(Some(Found { header, offset, body }))
    }

    /// Checks the place where [`Segment::next_batch`] found no more. Fails if later batches of the
    /// segment show that the next one was durable once.
    pub(super) fn must_be_torn(&self) -> Result<()> {
        let len = self.len()?;
        let mut at = self.offset;
        let mut bytes = vec![0; SEARCH_BYTES];
        while at < len {
            let wanted = usize::try_from(len - at).map_or(SEARCH_BYTES, |n| n.min(SEARCH_BYTES));
            let window = &mut bytes[..wanted];
            self.read(window, at)?;
            for found in window.windows(MAGIC.len()).enumerate().filter(|(_, word)| *word == MAGIC)
            {
                // The magic word is the second of a batch.
                let Some(begin) = (at + found.0 as u64).checked_sub(4) else { continue };
                if self.batch_at(begin)?.is_some_and(|later| {
                    later.header.number > self.batch && later.header.synced >= self.batch
                }) {
                    return Err(self.corrupt("a batch that was durable is damaged"));
                }
            }
            if wanted < SEARCH_BYTES {
                break;
            }
            // The word may span two windows.
            at += (SEARCH_BYTES - MAGIC.len() + 1) as u64;
        }
        Ok(())
    }

    /// Creates an error for damage where the next batch should be.
    pub(super) fn corrupt(&self, what: &str) -> Error {
        Error::corrupt(&self.path, self.offset, what)
    }

    /// The length of the file.
    pub(super) fn len(&self) -> Result<u64> {
        self.file.len().map_err(Error::on(&self.path, "measure"))
    }

    fn read(&self, bytes: &mut [u8], offset: u64) -> Result<()> {
        self.file.read_exact_at(bytes, offset).map_err(Error::on(&self.path, "read"))
    }
}
