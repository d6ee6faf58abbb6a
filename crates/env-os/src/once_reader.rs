//! Reads of data that are needed once, past the page cache.
//!
//! ```text
//!   read               device ─► page cache, which memory is found for ─► buffer
//!   O_DIRECT, pread    device ─► buffer
//! ```
//!
//! The buffer should be in large pages ([`crate::large_pages`]): each page is a separate segment to
//! the device, and a virtual device may need more time for many segments than for the bytes.
//!
//! A log written past the page cache is not in it when its writer has died, and a restart reads it
//! once. Through the cache, that costs the processor more than the device: 60 MB of log are 15,000
//! pages to find, fill and copy from. A file that is mostly cached is read from the cache. File
//! systems without `O_DIRECT`, and devices with larger sectors, are detected when they refuse a
//! read, and not tried again for this file; unaligned reads go through the cache.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::OFlags;

use crate::residency;

/// The alignment of offsets and lengths on nearly all devices.
const SECTOR_BYTES: usize = 512;
/// The alignment of a buffer, sufficient for every device.
const ALIGNMENT: usize = 4096;

/// The way in which a file is read once.
#[derive(Debug, Default)]
pub(crate) struct OnceReader {
    /// The same file, opened again; `None` if the page cache is better.
    direct: OnceLock<Option<File>>,
    was_refused: AtomicBool,
}

/// Opens the file by its descriptor, because it may have another name by now. A separate handle is
/// needed: on the first one, the flag would apply to every read and write.
fn open_direct(file: &File) -> Option<File> {
    let len = file.metadata().ok()?.len();
    if residency::cached_bytes(file, 0, len).is_some_and(|cached| cached > len / 2) {
        return None;
    }
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    let flags = i32::try_from(OFlags::DIRECT.bits()).expect("a flag is one bit");
    OpenOptions::new().read(true).custom_flags(flags).open(path).ok()
}

/// Whether a read into `buf` is one that every device takes.
pub(crate) fn may_pass(buf: &[u8], offset: u64) -> bool {
    buf.as_ptr().align_offset(ALIGNMENT) == 0
        && buf.len().is_multiple_of(SECTOR_BYTES)
        && offset.is_multiple_of(SECTOR_BYTES as u64)
}

impl OnceReader {
    /// The handle that passes the page cache, if that is the better way for `file`, which must be the same
    /// at every call.
    pub(crate) fn direct(&self, file: &File) -> Option<&File> {
        let direct = self.direct.get_or_init(|| open_direct(file)).as_ref();
        direct.filter(|_| !self.was_refused.load(Ordering::Relaxed))
    }

    /// Fills `buf` from `file`, which must be the same at every call.
    pub(crate) fn read(&self, file: &File, buf: &mut [u8], offset: u64) -> io::Result<()> {
        let Some(direct) = self.direct(file).filter(|_| may_pass(buf, offset)) else {
            return file.read_exact_at(buf, offset);
        };
        let read = loop {
            match direct.read_at(buf, offset) {
                Ok(read) => break read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => {
                    self.was_refused.store(true, Ordering::Relaxed);
                    break 0;
                }
            }
        };
        // The buffered read reports the end of the file and errors of the device.
        if read == buf.len() {
            Ok(())
        } else {
            file.read_exact_at(&mut buf[read..], offset + read as u64)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::num::NonZeroU64;
    use std::path::Path;

    use rustix::fs::{Advice, fadvise};

    const FILE_BYTES: usize = (1 << 20) + 700;

    /// Reads pieces of all kinds, from the device and just after a write.
    fn read_pieces(dir: &Path) {
        let file = tempfile::tempfile_in(dir).unwrap();
        let mut expected: Vec<u8> =
            (0..FILE_BYTES).map(|i| ((i / 512 + i % 7) % 251).to_le_bytes()[0]).collect();
        file.write_all_at(&expected, 0).unwrap();
        file.sync_all().unwrap();
        let all = NonZeroU64::new(FILE_BYTES as u64);
        let _refused = fadvise(&file, 0, all, Advice::DontNeed);
        let reader = OnceReader::default();
        let mut memory = vec![0; FILE_BYTES + 2 * ALIGNMENT];
        let aligned = memory.as_ptr().align_offset(ALIGNMENT);
        for (fill, (at, offset, len)) in (1..).zip([
            (0, 0, 65_536),
            (0, 2048, 262_144),
            (1, 2048, 512),
            (512, 4096, 4096),
            (0, 1, 511),
            (0, 1 << 20, 700),
            (0, (1 << 20) - 512, 1024),
            (0, 0, 0),
            (0, 0, FILE_BYTES),
        ]) {
            let buf = &mut memory[aligned + at..aligned + at + len];
            reader.read(&file, buf, offset as u64).unwrap();
            assert!(*buf == expected[offset..offset + len], "{len} bytes at {offset}");
            expected[offset..offset + len.min(3)].fill(fill);
            file.write_all_at(&expected[offset..offset + len.min(3)], offset as u64).unwrap();
        }
        let past = reader.read(&file, &mut memory[aligned..aligned + 512], 1 << 21).unwrap_err();
        assert_eq!(past.kind(), io::ErrorKind::UnexpectedEof);
    }

    #[test]
    fn what_was_written_is_read_on_every_file_system() {
        read_pieces(&std::env::temp_dir());
        read_pieces(Path::new(env!("CARGO_MANIFEST_DIR")));
        let in_memory = Path::new("/dev/shm");
        if in_memory.is_dir() {
            read_pieces(in_memory);
        }
    }

    #[test]
    fn a_refusal_is_quiet_and_asked_for_once() {
        let file = tempfile::tempfile().unwrap();
        file.write_all_at(&[7; 8192], 0).unwrap();
        // A directory, which cannot be read, stands in for a device with larger sectors.
        let refusing = File::open("/").unwrap();
        let reader =
            OnceReader { direct: OnceLock::from(Some(refusing)), was_refused: false.into() };
        let mut memory = vec![0; 2 * ALIGNMENT];
        let aligned = memory.as_ptr().align_offset(ALIGNMENT);
        reader.read(&file, &mut memory[aligned..aligned + 512], 512).unwrap();
        assert_eq!(memory[aligned..aligned + 512], [7; 512]);
        assert!(reader.was_refused.load(Ordering::Relaxed));
    }
}
