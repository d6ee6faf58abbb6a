//! The file of what does not fit in memory, in frames with a checksum each.
//!
//! ```text
//!   frame:   CRC32C u32 │ FRAME_BYTES bytes, fewer in the last one of its extent
//!   extent:  frames one behind the other: a sorted run, or an item that was put aside
//! ```
//!
//! A checksum covers the place of its frame as well: one that was written elsewhere is not believed.
//!
//! The file loses its name as soon as it exists, so the system frees it whatever happens. A crash
//! in between leaves an empty file, `dump.spill.` and a number, which the next dump that spills to
//! the directory removes. If that was not left by a crash but is another dump's that has just begun,
//! no harm is done: it needs the open file and not the name.

use std::ffi::OsStr;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use base::checksum::{crc32c, crc32c_append};
use env::{Disk, File, FileError, leave_room};

use crate::error::Result;

/// How much is written and read at a time.
pub(crate) const FRAME_BYTES: usize = 32 << 10;

/// The checksum.
const HEADER_BYTES: usize = 4;

/// Frames are written together when they have this much.
const WRITTEN_BYTES: usize = 1 << 20;

/// What the file is called for a moment, before its number.
const NAME_PREFIX: &str = "dump.spill.";

/// How many names are tried, if other dumps have them at the same moment.
const NAMES_MAX: u64 = 1000;

/// Where large values are sorted, and in how much memory.
#[derive(Clone)]
pub struct SpillOptions {
    /// The disk.
    pub disk: Arc<dyn Disk>,
    /// The directory of the spill file, which exists.
    pub directory: PathBuf,
    /// The memory for sorting, in bytes. What a dump takes in addition is some MiB and the largest
    /// item: see the crate's essay.
    pub memory_bytes: usize,
    /// What is left for others on the file system of the directory, in bytes; 0 if that does not matter.
    pub kept_bytes: u64,
}

/// Removes the spill files that a crash has left in `directory`. Returns how many there were.
///
/// Every dump that spills does so first. Dumps that are going on in the directory are not disturbed.
///
/// # Errors
/// When the directory cannot be read, or a file not be removed.
pub fn remove_leftovers(disk: &dyn Disk, directory: &Path) -> Result<usize> {
    let names = match disk.list(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(0),
        names => names.map_err(FileError::io(directory, "list"))?,
    };
    let leftovers = names.iter().filter(|name| is_spill(name));
    leftovers.map(|name| remove_name(disk, &directory.join(name)).map(|()| 1)).sum()
}

/// Whether a file of this name is a spill file.
fn is_spill(name: &OsStr) -> bool {
    let number = name.to_str().and_then(|name| name.strip_prefix(NAME_PREFIX));
    number.is_some_and(|number| !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit()))
}

/// Removes the name of a spill file. Another dump may have done so already.
fn remove_name(disk: &dyn Disk, path: &Path) -> Result<()> {
    match disk.remove(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => Ok(removed.map_err(FileError::io(path, "remove"))?),
    }
}

/// An item that was put aside: where it begins, and how many bytes it has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Aside {
    pub(crate) at: u64,
    pub(crate) len: u64,
}

/// The file, open.
pub(crate) struct Spill {
    options: SpillOptions,
    file: Box<dyn File>,
    path: PathBuf,
    len: u64,
    /// Frames that are not written yet.
    gathered: Vec<u8>,
}

impl Spill {
    /// Creates the file, which has no name on return.
    pub(crate) fn create(options: &SpillOptions) -> Result<Self> {
        let disk = &*options.disk;
        remove_leftovers(disk, &options.directory)?;
        let mut number = 0;
        loop {
            let path = options.directory.join(format!("{NAME_PREFIX}{number}"));
            number += 1;
            match disk.create(&path) {
                Err(error)
                    if error.kind() == io::ErrorKind::AlreadyExists && number < NAMES_MAX => {}
                created => {
                    let file = created.map_err(FileError::io(&path, "create"))?;
                    remove_name(disk, &path)?;
                    let options = options.clone();
                    return Ok(Self { options, file, path, len: 0, gathered: Vec::new() });
                }
            }
        }
    }

    /// How much has been spilled, in bytes.
    pub(crate) const fn len(&self) -> u64 {
        self.len + self.gathered.len() as u64
    }

    /// Appends a frame.
    pub(crate) fn append(&mut self, bytes: &[u8]) -> Result<()> {
        debug_assert!(bytes.len() <= FRAME_BYTES, "readers expect no more");
        let sum = checksum(self.len(), bytes);
        self.gathered.extend_from_slice(&sum.to_le_bytes());
        self.gathered.extend_from_slice(bytes);
        if self.gathered.len() >= WRITTEN_BYTES { self.flush() } else { Ok(()) }
    }

    /// Appends an item that is too large to be sorted, in parts.
    pub(crate) fn put_aside(&mut self, parts: &[&[u8]]) -> Result<Aside> {
        let (at, mut len) = (self.len(), 0);
        let mut frame = Vec::with_capacity(FRAME_BYTES);
        for part in parts {
            let mut rest = *part;
            len += rest.len() as u64;
            while !rest.is_empty() {
                let (taken, behind) = rest.split_at(rest.len().min(FRAME_BYTES - frame.len()));
                frame.extend_from_slice(taken);
                rest = behind;
                if frame.len() == FRAME_BYTES {
                    self.append(&frame)?;
                    frame.clear();
                }
            }
        }
        if !frame.is_empty() {
            self.append(&frame)?;
        }
        Ok(Aside { at, len })
    }

    /// Writes what was gathered.
    pub(crate) fn flush(&mut self) -> Result<()> {
        let SpillOptions { disk, directory, kept_bytes, .. } = &self.options;
        let len = self.gathered.len() as u64;
        let written = leave_room(&**disk, directory, len, *kept_bytes)
            .and_then(|()| self.file.write_all_at(&self.gathered, self.len));
        written.map_err(FileError::io(&self.path, "write"))?;
        self.len += len;
        self.gathered.clear();
        Ok(())
    }

    /// Reads the frame at the beginning of `extent` and appends its bytes to `out`. The rest of the
    /// extent is left.
    pub(crate) fn read(&self, extent: &mut Range<u64>, out: &mut Vec<u8>) -> Result<()> {
        let left = usize::try_from(extent.end - extent.start).unwrap_or(usize::MAX);
        let len = left.min(HEADER_BYTES + FRAME_BYTES).saturating_sub(HEADER_BYTES);
        let mut header = [0; HEADER_BYTES];
        let at = out.len();
        out.resize(at + len, 0);
        let begin = extent.start + HEADER_BYTES as u64;
        self.file
            .read_exact_at(&mut header, extent.start)
            .and_then(|()| self.file.read_exact_at(&mut out[at..], begin))
            .map_err(FileError::io(&self.path, "read"))?;
        if checksum(extent.start, &out[at..]) != u32::from_le_bytes(header) {
            return Err(self.corrupt(extent.start, "a frame is damaged"));
        }
        extent.start = begin + len as u64;
        Ok(())
    }

    /// Reads an item that was put aside into `out`.
    pub(crate) fn read_aside(&self, aside: Aside, out: &mut Vec<u8>) -> Result<()> {
        let frames = aside.len.div_ceil(FRAME_BYTES as u64);
        let mut extent = aside.at..aside.at + aside.len + frames * HEADER_BYTES as u64;
        out.clear();
        out.reserve_exact(usize::try_from(aside.len).expect("it was in memory before"));
        while !extent.is_empty() {
            self.read(&mut extent, out)?;
        }
        Ok(())
    }

    /// Returns the error for bytes that are not those that were spilled.
    pub(crate) fn corrupt(&self, offset: u64, what: &str) -> crate::Error {
        let path = self.path.clone();
        let remedy =
            "the device gives back other bytes than were written to it; dump to another one";
        FileError::Corrupt { path, offset, what: what.to_owned(), remedy }.into()
    }
}

/// Returns the checksum of a frame that begins at `at`.
fn checksum(at: u64, bytes: &[u8]) -> u32 {
    crc32c_append(crc32c(&at.to_le_bytes()), bytes)
}

#[cfg(test)]
mod tests {
    use env_sim::{Faults, SimDisk};

    use super::*;

    const PATH: &str = "/spill";

    /// A spill file that has kept its name.
    fn named(disk: &SimDisk) -> Spill {
        disk.create_dir_all(Path::new("/")).expect("it can");
        let file = disk.create(Path::new(PATH)).expect("it can");
        let directory = PathBuf::from("/");
        let disk: Arc<dyn Disk> = Arc::new(disk.clone());
        let options = SpillOptions { disk, directory, memory_bytes: 0, kept_bytes: 0 };
        Spill { options, file, path: PathBuf::from(PATH), len: 0, gathered: Vec::new() }
    }

    /// Reads a whole extent.
    fn read(spill: &Spill, mut extent: Range<u64>) -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        while !extent.is_empty() {
            spill.read(&mut extent, &mut bytes)?;
        }
        Ok(bytes)
    }

    #[test]
    fn each_bit_is_looked_at() {
        let disk = SimDisk::new(1, Faults::default());
        let mut spill = named(&disk);
        let frame: Vec<u8> = (0..=u8::MAX).cycle().take(FRAME_BYTES).collect();
        for bytes in [&frame[..], b"the last one"] {
            spill.append(bytes).expect("it can");
        }
        spill.flush().expect("it can");
        let end = spill.len();
        assert_eq!(read(&spill, 0..end).expect("it is sound").len(), FRAME_BYTES + 12);
        for at in (0..end).filter(|at| at % 97 == 0 || *at < 9 || *at > end - 20) {
            for bit in 0..8 {
                assert!(disk.flip_bit(Path::new(PATH), at, bit));
                let error = read(&spill, 0..end).expect_err("it is damaged").to_string();
                let frame = if at < (HEADER_BYTES + FRAME_BYTES) as u64 { 0 } else { 32_772 };
                assert!(error.contains(&format!("{PATH} is corrupt at byte {frame}: ")), "{error}");
                assert!(disk.flip_bit(Path::new(PATH), at, bit));
            }
        }
        // A part of a frame is none, nor is an empty one.
        for cut in [1, 3, 4, 5, 11] {
            assert!(read(&spill, 0..end - cut).is_err(), "{cut}");
        }
    }

    #[test]
    fn a_frame_of_another_place_is_not_believed() {
        let disk = SimDisk::new(1, Faults::default());
        let mut spill = named(&disk);
        let extents = [b"one", b"two"].map(|bytes| {
            let from = spill.len();
            spill.append(bytes).expect("it can");
            from..spill.len()
        });
        spill.flush().expect("it can");
        let mut first = [0; HEADER_BYTES + 3];
        spill.file.read_exact_at(&mut first, extents[0].start).expect("it can");
        spill.file.write_all_at(&first, extents[1].start).expect("it can");
        assert_eq!(read(&spill, extents[0].clone()).expect("it is sound"), b"one");
        assert!(read(&spill, extents[1].clone()).is_err());
    }

    #[test]
    fn what_is_put_aside_comes_back_in_one_piece() {
        let disk = SimDisk::new(1, Faults::default());
        let mut spill = named(&disk);
        let bytes: Vec<u8> = (0..=250).cycle().take(5 * FRAME_BYTES).collect();
        let lens = [1, FRAME_BYTES - 1, FRAME_BYTES, FRAME_BYTES + 1, 3 * FRAME_BYTES, 160_000];
        let asides = lens.map(|len| {
            let (first, second) = bytes[..len].split_at(len / 3);
            spill.put_aside(&[first, b"", second]).expect("it can")
        });
        spill.flush().expect("it can");
        let mut read = vec![7; 9];
        for (aside, len) in asides.into_iter().zip(lens) {
            spill.read_aside(aside, &mut read).expect("it is sound");
            assert!(read == bytes[..len], "{len}");
        }
    }
}
