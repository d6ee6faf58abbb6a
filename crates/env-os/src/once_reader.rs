//! Reads of what is needed once, past the page cache.
//!
//! ```text
//!   read               device ─► page cache, which memory is found for ─► buffer
//!   O_DIRECT, pread    device ─► buffer
//! ```
//!
//! The buffer should be of large pages ([`crate::large_pages`]): to the device each page is a place
//! of its own, and a virtual one may take longer for many places than for the bytes.
//!
//! A log that was written past the page cache is not in it when its writer has died, and its
//! reader reads it once. Through the cache that costs the processor more than the device: 60 MB
//! of log are 15,000 pages to be found, filled, and copied from. A file that is there for the most
//! part is read from there. File systems without `O_DIRECT`, and devices with larger sectors, are
//! found out by their refusal, and not asked again for this file; what does not begin at the right
//! places goes through the cache.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::OFlags;

use crate::residency;

/// What offsets and lengths are multiples of, on nearly all devices.
const SECTOR_BYTES: usize = 512;
/// What a buffer's address is a multiple of: all that any device asks for.
const ALIGNMENT: usize = 4096;

/// How a file is read once.
#[derive(Debug, Default)]
pub(crate) struct OnceReader {
    /// The same file, opened again; nothing where the page cache is the better way.
    direct: OnceLock<Option<File>>,
    was_refused: AtomicBool,
}

/// Opens the file by its descriptor, as it may have another name by now. It is a handle of its own:
/// on the first one the flag would hold for every read and write.
fn open_direct(file: &File) -> Option<File> {
    let len = file.metadata().ok()?.len();
    if residency::cached_bytes(file, 0, len).is_some_and(|cached| cached > len / 2) {
        return None;
    }
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    let flags = i32::try_from(OFlags::DIRECT.bits()).expect("a flag is one bit");
    OpenOptions::new().read(true).custom_flags(flags).open(path).ok()
}

fn may_pass(buf: &[u8], offset: u64) -> bool {
    buf.as_ptr().align_offset(ALIGNMENT) == 0
        && buf.len().is_multiple_of(SECTOR_BYTES)
        && offset.is_multiple_of(SECTOR_BYTES as u64)
}

impl OnceReader {
    /// Fills `buf` from `file`, which is the same at every call.
    pub(crate) fn read(&self, file: &File, buf: &mut [u8], offset: u64) -> io::Result<()> {
        let direct = self.direct.get_or_init(|| open_direct(file)).as_ref();
        let direct = direct.filter(|_| !self.was_refused.load(Ordering::Relaxed));
        let Some(direct) = direct.filter(|_| may_pass(buf, offset)) else {
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
        // The end of a file, and errors of the device, are the other way's to say.
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

    /// Reads pieces of all kinds, from the device, and what was just written.
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
        // A directory cannot be read, in place of a device whose sectors are larger.
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
