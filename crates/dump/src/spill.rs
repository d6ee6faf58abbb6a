//! The file in which sorted runs lie, in frames with a checksum each.
//!
//! ```text
//!   frame:  length u32 │ CRC32C u32 │ bytes       up to FRAME_BYTES, or a larger item's end
//!   run:    frames one behind the other; a run is a range of the file
//! ```
//!
//! The file loses its name as soon as it is there, so nothing is left of it whatever happens.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use base::checksum::crc32c;
use env::{Disk, File, FileError};

use crate::error::Result;

/// How much is written and read at a time: of each run that is merged so much is in memory.
pub(crate) const FRAME_BYTES: usize = 32 << 10;

/// Length and checksum.
const HEADER_BYTES: usize = 8;

/// Frames are written together while they have no more than this.
const WRITTEN_BYTES: usize = 1 << 20;

/// Where large values are sorted, and in how much memory.
#[derive(Clone)]
pub struct SpillOptions {
    /// The disk.
    pub disk: Arc<dyn Disk>,
    /// The directory of the spill file, which exists.
    pub directory: PathBuf,
    /// What is sorted in memory at a time, in bytes; while runs are merged there are 32 KiB for each.
    pub memory_bytes: usize,
}

/// The file, open.
pub(crate) struct Spill {
    file: Box<dyn File>,
    path: PathBuf,
    len: u64,
    /// Frames that are not written yet.
    gathered: Vec<u8>,
}

impl Spill {
    pub(crate) fn create(options: &SpillOptions) -> Result<Self> {
        let path = options.directory.join("dump.spill");
        let failed = |doing| FileError::io(&path, doing);
        if options.disk.exists(&path).map_err(failed("look for"))? {
            options.disk.remove(&path).map_err(failed("remove"))?;
        }
        let file = options.disk.create(&path).map_err(failed("create"))?;
        options.disk.remove(&path).map_err(failed("remove"))?;
        Ok(Self { file, path, len: 0, gathered: Vec::new() })
    }

    /// How much has been spilled, in bytes.
    pub(crate) const fn len(&self) -> u64 {
        self.len + self.gathered.len() as u64
    }

    /// Appends a frame.
    pub(crate) fn append(&mut self, bytes: &[u8]) -> Result<()> {
        let len = u32::try_from(bytes.len()).expect("frames are cut before");
        self.gathered.extend_from_slice(&len.to_le_bytes());
        self.gathered.extend_from_slice(&crc32c(bytes).to_le_bytes());
        self.gathered.extend_from_slice(bytes);
        if self.gathered.len() >= WRITTEN_BYTES { self.flush() } else { Ok(()) }
    }

    /// Writes what was gathered.
    pub(crate) fn flush(&mut self) -> Result<()> {
        let written = self.file.write_all_at(&self.gathered, self.len);
        written.map_err(FileError::io(&self.path, "write"))?;
        self.len += self.gathered.len() as u64;
        self.gathered.clear();
        Ok(())
    }

    /// Reads the frame at the beginning of `range` and appends its bytes to `out`; the rest is left in `range`.
    pub(crate) fn read(&self, range: &mut Range<u64>, out: &mut Vec<u8>) -> Result<()> {
        let mut header = [0; HEADER_BYTES];
        let read = self.file.read_exact_at(&mut header, range.start);
        read.map_err(FileError::io(&self.path, "read"))?;
        let [len, sum] = [0, 4].map(|at| {
            u32::from_le_bytes(*header[at..].first_chunk().expect("there are eight bytes"))
        });
        let begin = range.start + HEADER_BYTES as u64;
        let end = begin + u64::from(len);
        if end > range.end {
            return Err(self.corrupt(range.start, "a frame is longer than its run"));
        }
        let at = out.len();
        out.resize(at + len as usize, 0);
        let read = self.file.read_exact_at(&mut out[at..], begin);
        read.map_err(FileError::io(&self.path, "read"))?;
        if crc32c(&out[at..]) != sum {
            return Err(self.corrupt(range.start, "a frame is damaged"));
        }
        range.start = end;
        Ok(())
    }

    /// What was spilled here is not what comes back.
    pub(crate) fn corrupt(&self, offset: u64, what: &str) -> crate::Error {
        let path = Path::to_path_buf(&self.path);
        let remedy =
            "the device gives back other bytes than were written to it; dump to another one";
        FileError::Corrupt { path, offset, what: what.to_owned(), remedy }.into()
    }
}

#[cfg(test)]
mod tests {
    use env_sim::{Faults, SimDisk};

    use super::*;

    #[test]
    fn each_bit_is_looked_at() {
        let disk = SimDisk::new(1, Faults::default());
        let path = PathBuf::from("/spill");
        disk.create_dir_all(Path::new("/")).expect("it can");
        let file = disk.create(&path).expect("it can");
        let mut spill = Spill { file, path: path.clone(), len: 0, gathered: Vec::new() };
        for frame in [&b"one"[..], b"two two", b""] {
            spill.append(frame).expect("it can");
        }
        spill.flush().expect("it can");
        let read = |spill: &Spill| {
            let (mut range, mut bytes) = (0..spill.len(), Vec::new());
            while !range.is_empty() {
                spill.read(&mut range, &mut bytes)?;
            }
            Ok::<_, crate::Error>(bytes)
        };
        assert_eq!(read(&spill).expect("it is sound"), b"onetwo two");
        for bit in 0..spill.len() * 8 {
            let (at, bit) = (bit / 8, u8::try_from(bit % 8).expect("one of eight"));
            assert!(disk.flip_bit(&path, at, bit));
            assert!(read(&spill).is_err(), "bit {bit} of byte {at}");
            assert!(disk.flip_bit(&path, at, bit));
        }
    }
}
