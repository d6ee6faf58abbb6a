//! A disk whose new files are written past the page cache.
//!
//! Checkpoints of gigabytes in the page cache are written back by kernel threads on any processor,
//! including the client's. On a machine with two processors, that adds latency of tens and hundreds
//! of milliseconds for any algorithm, and hides the algorithm's own cost. So files are written with
//! `O_DIRECT`, from an aligned buffer. A partial sector at the time of a sync is written through
//! the cache, and again when it is full. Reads are as usual.

use std::ffi::OsString;
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use env::{Access, Disk, File, Lock};
use env_os::OsDisk;

/// The alignment that `O_DIRECT` requires of addresses, offsets and lengths.
const ALIGNMENT: usize = 4096;
/// Bytes written at once.
const BUFFER_BYTES: usize = 1 << 20;

/// The operating system's disk, except for files that are created.
pub(crate) struct DirectDisk;

/// The end of a file, not written yet. `bytes` has room to align `BUFFER_BYTES` inside it.
struct Tail {
    bytes: Vec<u8>,
    aligned: usize,
    length: usize,
    offset: u64,
}

struct DirectFile {
    direct: std::fs::File,
    cached: Box<dyn File>,
    tail: Mutex<Tail>,
}

impl DirectFile {
    fn flush(&self, tail: &mut Tail) -> io::Result<()> {
        let whole = tail.length / ALIGNMENT * ALIGNMENT;
        let at = tail.aligned;
        self.direct.write_all_at(&tail.bytes[at..at + whole], tail.offset)?;
        tail.bytes.copy_within(at + whole..at + tail.length, at);
        tail.length -= whole;
        tail.offset += whole as u64;
        Ok(())
    }
}

impl File for DirectFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        self.cached.read_at(buf, offset)
    }

    /// Each write continues where the previous one ended.
    fn write_all_at(&self, mut bytes: &[u8], offset: u64) -> io::Result<()> {
        let mut tail = self.tail.lock().unwrap_or_else(PoisonError::into_inner);
        if offset != tail.offset + tail.length as u64 {
            return Err(io::ErrorKind::Unsupported.into());
        }
        while !bytes.is_empty() {
            let count = bytes.len().min(BUFFER_BYTES - tail.length);
            let at = tail.aligned + tail.length;
            tail.bytes[at..at + count].copy_from_slice(&bytes[..count]);
            tail.length += count;
            bytes = &bytes[count..];
            if tail.length == BUFFER_BYTES {
                self.flush(&mut tail)?;
            }
        }
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        let mut tail = self.tail.lock().unwrap_or_else(PoisonError::into_inner);
        self.flush(&mut tail)?;
        let rest = &tail.bytes[tail.aligned..tail.aligned + tail.length];
        self.cached.write_all_at(rest, tail.offset)?;
        self.cached.sync_data()
    }

    fn len(&self) -> io::Result<u64> {
        self.cached.len()
    }

    fn set_len(&self, _len: u64) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn allocate(&self, offset: u64, len: u64) -> io::Result<()> {
        self.cached.allocate(offset, len)
    }
}

impl Disk for DirectDisk {
    fn create_dir_all(&self, path: &Path) -> io::Result<()> {
        OsDisk.create_dir_all(path)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<OsString>> {
        OsDisk.list(dir)
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn File>> {
        let cached = OsDisk.create(path)?;
        let flags = i32::try_from(rustix::fs::OFlags::DIRECT.bits()).expect("a flag is one bit");
        let direct = std::fs::OpenOptions::new().write(true).custom_flags(flags).open(path);
        // A file system in memory has no cache to bypass.
        let Ok(direct) = direct else { return Ok(cached) };
        let bytes = vec![0_u8; BUFFER_BYTES + ALIGNMENT];
        let aligned = bytes.as_ptr().align_offset(ALIGNMENT);
        let tail = Mutex::new(Tail { bytes, aligned, length: 0, offset: 0 });
        Ok(Box::new(DirectFile { direct, cached, tail }))
    }

    fn open(&self, path: &Path, access: Access) -> io::Result<Box<dyn File>> {
        OsDisk.open(path, access)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        OsDisk.rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        OsDisk.remove(path)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        OsDisk.sync_dir(dir)
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        OsDisk.exists(path)
    }

    fn lock(&self, path: &Path) -> io::Result<Box<dyn Lock>> {
        OsDisk.lock(path)
    }

    fn available_bytes(&self, dir: &Path) -> io::Result<u64> {
        OsDisk.available_bytes(dir)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_in_pieces_is_read_whole() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        let file = DirectDisk.create(&path).unwrap();
        let bytes: Vec<u8> = (0..3_000_000_u32).map(|i| i.to_le_bytes()[i as usize % 3]).collect();
        let mut offset = 0;
        for (i, piece) in bytes.chunks(99_991).enumerate() {
            file.write_all_at(piece, offset).unwrap();
            offset += piece.len() as u64;
            if i % 5 == 0 {
                file.sync_data().unwrap();
            }
        }
        file.sync_data().unwrap();
        assert!(std::fs::read(&path).unwrap() == bytes);
    }
}
