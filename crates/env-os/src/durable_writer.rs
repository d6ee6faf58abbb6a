//! Writes that are durable when they return, as cheap as the device allows.
//!
//! ```text
//!   write, fdatasync        page cache ─► pages looked for, written back, waited for; device flush
//!   O_DIRECT, RWF_DSYNC     aligned buffer ─► device; device flush
//! ```
//!
//! A log writes each sector once and does not read it: the page cache only stands between. Past it
//! a write of a log page and its sync take a tenth less time, a fifth less of the processor, and a
//! block that has left the cache need not be read to be overwritten in part. What `O_DIRECT` asks
//! for is seen to here: bytes are copied into a buffer that is aligned, and what is not whole
//! sectors goes through the cache. File systems without `O_DIRECT`, and devices with larger
//! sectors, are found out by their refusal, and not asked again for this file.

use std::fs::{File, OpenOptions};
use std::io::{self, IoSlice};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::sync::{Mutex, PoisonError};

use rustix::fs::{OFlags, fcntl_getfl};
use rustix::io::{Errno, ReadWriteFlags, pwritev2};

/// What offsets and lengths are multiples of, on nearly all devices.
const SECTOR_BYTES: usize = 512;
/// What the buffer's address is a multiple of: all that any device asks for.
const ALIGNMENT: usize = 4096;
/// What is larger goes through the page cache: the device takes most of its time.
const BUFFER_BYTES: usize = 64 << 10;

/// How a file is written durably.
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
}

/// The way past the page cache: the same file, opened again.
#[derive(Debug)]
struct Direct {
    file: File,
    /// Has room for aligning `BUFFER_BYTES` in it, from `aligned` on.
    buffer: Vec<u8>,
    aligned: usize,
}

impl Direct {
    /// Opens the file by its descriptor, as it may have another name by now. It is a handle of its
    /// own: on the first one the flag would hold for every read and write.
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

    /// Writes what the kernel takes at once.
    fn write(&mut self, bytes: &[u8], offset: u64) -> rustix::io::Result<usize> {
        let buffer = &mut self.buffer[self.aligned..self.aligned + bytes.len()];
        buffer.copy_from_slice(bytes);
        pwritev2(&self.file, &[IoSlice::new(buffer)], offset, ReadWriteFlags::DSYNC)
    }
}

fn is_whole_sectors(bytes: &[u8], offset: u64) -> bool {
    bytes.len().is_multiple_of(SECTOR_BYTES) && offset.is_multiple_of(SECTOR_BYTES as u64)
}

impl DurableWriter {
    /// Writes `bytes` to `file`, which is the same at every call.
    pub(crate) fn write(&self, file: &File, mut bytes: &[u8], mut offset: u64) -> io::Result<()> {
        let mut way = self.way.lock().unwrap_or_else(PoisonError::into_inner);
        if matches!(*way, Way::Unknown) {
            *way = Direct::open(file).map_or(Way::ThroughCache, Way::PastCache);
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
                Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) if is_direct => {
                    *way = Way::ThroughCache;
                }
                // The kernel, or the file system, does not know the flag.
                Err(Errno::NOSYS | Errno::OPNOTSUPP) => {
                    file.write_all_at(bytes, offset)?;
                    return file.sync_data();
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    /// Writes pieces of all kinds, over one another and past the end, with other writes between.
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
        // A file that knows no flags, in place of a device whose sectors are larger.
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
