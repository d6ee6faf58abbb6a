//! Writes that are durable when they return, as cheap as the device allows.
//!
//! ```text
//!   write, fdatasync        page cache ─► pages looked for, written back, waited for; device flush
//!   O_DIRECT, RWF_DSYNC     aligned buffer ─► device; device flush
//! ```
//!
//! A log writes each sector once and does not read it: the page cache has no use. Bypassing it, a
//! write of a log page with its sync takes a tenth less time and a fifth less processor time, and a
//! block that has left the cache need not be read before a partial overwrite. This file meets the
//! requirements of `O_DIRECT`: it copies bytes into an aligned buffer, and writes partial sectors
//! through the cache. File systems without `O_DIRECT`, and devices with larger sectors, are
//! detected when they refuse a write, and not tried again for this file.
//!
//! A file system may take `RWF_DSYNC` and ignore it. It is believed only of those that are known to
//! honour it (`file_systems`); on all others a write through the cache and a sync follow each other.

use std::fs::{File, OpenOptions};
use std::io::{self, IoSlice};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::sync::{Mutex, PoisonError};

use rustix::fs::{OFlags, fcntl_getfl, fstatfs};
use rustix::io::{Errno, ReadWriteFlags, pwritev2, retry_on_intr};

use crate::file_systems;

/// The alignment of offsets and lengths on nearly all devices.
const SECTOR_BYTES: usize = 512;
/// The alignment of the buffer, sufficient for every device.
const ALIGNMENT: usize = 4096;
/// Larger writes go through the page cache: the device takes most of their time.
const BUFFER_BYTES: usize = 64 << 10;

/// The way in which a file is written durably.
#[derive(Debug, Default)]
pub(crate) struct DurableWriter {
    way: Mutex<Way>,
}

#[derive(Debug, Default)]
enum Way {
    /// Nothing was written yet.
    #[default]
    Unknown,
    PastCache(Direct),
    ThroughCache,
    /// As every file system can.
    Synced,
}

impl Way {
    /// The cheapest way that the file system of `file` is known to honour.
    fn of(file: &File) -> Self {
        match retry_on_intr(|| fstatfs(file)) {
            Ok(stat) if file_systems::honours_dsync(&stat) => {
                Direct::open(file).map_or(Self::ThroughCache, Self::PastCache)
            }
            _ => Self::Synced,
        }
    }
}

/// A handle that bypasses the page cache: the same file, opened again.
#[derive(Debug)]
struct Direct {
    file: File,
    /// Has room to align `BUFFER_BYTES` inside it, from `aligned` on.
    buffer: Vec<u8>,
    aligned: usize,
}

impl Direct {
    /// Opens the file by its descriptor, because it may have another name by now. A separate handle
    /// is needed: on the first one, the flag would apply to every read and write.
    fn open(file: &File) -> io::Result<Self> {
        if (fcntl_getfl(file)? & OFlags::ACCMODE) == OFlags::RDONLY {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        let path = format!("/proc/self/fd/{}", file.as_raw_fd());
        let flags = i32::try_from(OFlags::DIRECT.bits()).expect("a flag is one bit");
        let file = OpenOptions::new().write(true).custom_flags(flags).open(path)?;
        let buffer = vec![0; BUFFER_BYTES + ALIGNMENT];
        let aligned = buffer.as_ptr().align_offset(ALIGNMENT);
        Ok(Self { file, buffer, aligned })
    }

    /// Writes as much as the kernel accepts at once.
    fn write(&mut self, bytes: &[u8], offset: u64) -> rustix::io::Result<usize> {
        let buffer = &mut self.buffer[self.aligned..self.aligned + bytes.len()];
        buffer.copy_from_slice(bytes);
        pwritev2(&self.file, &[IoSlice::new(buffer)], offset, ReadWriteFlags::DSYNC)
    }
}

fn is_whole_sectors(bytes: &[u8], offset: u64) -> bool {
    bytes.len().is_multiple_of(SECTOR_BYTES) && offset.is_multiple_of(SECTOR_BYTES as u64)
}

fn write_and_sync(file: &File, bytes: &[u8], offset: u64) -> io::Result<()> {
    file.write_all_at(bytes, offset)?;
    file.sync_data().map_err(of_sync)
}

/// An error of a sync, or perhaps of one: it is no lack of room after which the same may be tried again.
fn of_sync(error: io::Error) -> io::Error {
    use io::ErrorKind::{OutOfMemory, QuotaExceeded, StorageFull};
    match error.kind() {
        StorageFull | QuotaExceeded | OutOfMemory => io::Error::other(format!("sync: {error}")),
        _ => error,
    }
}

impl DurableWriter {
    /// Writes `bytes` to `file`, which must be the same at every call.
    pub(crate) fn write(&self, file: &File, mut bytes: &[u8], mut offset: u64) -> io::Result<()> {
        let mut way = self.way.lock().unwrap_or_else(PoisonError::into_inner);
        if matches!(*way, Way::Unknown) {
            *way = Way::of(file);
        }
        if matches!(*way, Way::Synced) {
            return write_and_sync(file, bytes, offset);
        }
        while !bytes.is_empty() {
            let may_pass = bytes.len() <= BUFFER_BYTES && is_whole_sectors(bytes, offset);
            let (is_direct, written) = match &mut *way {
                Way::PastCache(direct) if may_pass => (true, direct.write(bytes, offset)),
                _ => {
                    let slices = [IoSlice::new(bytes)];
                    (false, pwritev2(file, &slices, offset, ReadWriteFlags::DSYNC))
                }
            };
            match written {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => {
                    bytes = &bytes[count..];
                    offset += count as u64;
                }
                Err(Errno::INTR) => {}
                Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP | Errno::PERM) if is_direct => {
                    *way = Way::ThroughCache;
                }
                // The kernel, the file system or a filter of system calls does not have the flag, or the call.
                Err(Errno::NOSYS | Errno::OPNOTSUPP | Errno::INVAL | Errno::PERM) => {
                    *way = Way::Synced;
                    return write_and_sync(file, bytes, offset);
                }
                // Past the cache nothing was written that was not written durably.
                Err(error) if is_direct => return Err(error.into()),
                Err(error) => return Err(of_sync(error.into())),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    /// Writes pieces of all kinds, overlapping and past the end, with other writes in between.
    fn write_pieces(dir: &Path) {
        let dir = tempfile::tempdir_in(dir).unwrap();
        let (path, renamed) = (dir.path().join("old"), dir.path().join("new"));
        let file = File::options().read(true).write(true).create_new(true).open(&path).unwrap();
        let writer = DurableWriter::default();
        std::fs::rename(&path, &renamed).unwrap();
        let mut expected: Vec<u8> = Vec::new();
        let pieces = [
            (0, 8192),
            (512, 2048),
            (2048, 1),
            (2047, 513),
            (8192, 66_000),
            (4096, 512),
            (131_072, 65_536),
            (1 << 20, 300),
            (65_536, 4096),
        ];
        for (fill, (offset, len)) in (1..).zip(pieces) {
            let end = offset + len;
            expected.resize(expected.len().max(end), 0);
            expected[offset..end].fill(fill);
            writer.write(&file, &expected[offset..end], offset as u64).unwrap();
            expected[offset] = 0xff;
            file.write_all_at(&[0xff], offset as u64).unwrap();
        }
        assert!(std::fs::read(&renamed).unwrap() == expected);
    }

    #[test]
    fn what_is_written_is_read_on_every_file_system() {
        write_pieces(&std::env::temp_dir());
        let in_memory = Path::new("/dev/shm");
        if in_memory.is_dir() {
            write_pieces(in_memory);
        }
    }

    #[test]
    fn a_refusal_is_quiet_and_asked_for_once() {
        let file = tempfile::tempfile().unwrap();
        let writer = DurableWriter::default();
        writer.write(&file, &[1; 512], 0).unwrap();
        // A file that supports no flags stands in for a device with larger sectors.
        let refusing = File::options().write(true).open("/proc/self/coredump_filter").unwrap();
        let buffer = vec![0; BUFFER_BYTES];
        let refusing = Direct { file: refusing, buffer, aligned: 0 };
        *writer.way.lock().unwrap() = Way::PastCache(refusing);
        writer.write(&file, &[2; 512], 512).unwrap();
        writer.write(&file, &[3; 512], 1024).unwrap();
        let mut bytes = [0; 1536];
        file.read_exact_at(&mut bytes, 0).unwrap();
        assert_eq!((bytes[0], bytes[512], bytes[1024]), (1, 2, 3));
        assert!(matches!(*writer.way.lock().unwrap(), Way::ThroughCache));
    }

    #[test]
    fn a_file_opened_for_reading_is_not_written() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let reader = File::open(file.path()).unwrap();
        let error = DurableWriter::default().write(&reader, &[1; 512], 0).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(Errno::BADF.raw_os_error()));
        assert_eq!(file.as_file().metadata().unwrap().len(), 0);
    }
}
