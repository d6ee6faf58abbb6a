//! The part of a file in the page cache: `cachestat(2)`, for which std and rustix have no wrapper.
//!
//! # `unsafe`
//!
//! One system call by its number. It reads one structure and writes another; both outlive the call.
//! Kernels before 6.5, and sandboxes, do not support it: then the answer is unknown.

#![expect(unsafe_code, reason = "cachestat(2) has no safe name")]

use std::fs::File;
use std::os::fd::AsRawFd;

/// The number of the call, the same on every architecture except Alpha.
const CACHESTAT: libc::c_long = 451;

/// `struct cachestat_range`: bytes of a file.
#[repr(C)]
struct Range {
    offset: u64,
    len: u64,
}

/// `struct cachestat`: pages of a file by their state in the cache.
#[repr(C)]
#[derive(Default)]
struct Pages {
    cached: u64,
    dirty: u64,
    in_writeback: u64,
    evicted: u64,
    recently_evicted: u64,
}

/// How many of `len` bytes at `offset` the page cache holds, in whole pages.
pub(crate) fn cached_bytes(file: &File, offset: u64, len: u64) -> Option<u64> {
    if len == 0 {
        // To the kernel, a length of 0 means the rest of the file.
        return Some(0);
    }
    let range = Range { offset, len };
    let mut pages = Pages::default();
    // SAFETY: the descriptor is open as long as `file` is borrowed; the call reads `range` and writes
    // `pages`, both of the kernel's own layout (linux/mman.h), and keeps neither.
    let returned =
        unsafe { libc::syscall(CACHESTAT, file.as_raw_fd(), &raw const range, &raw mut pages, 0) };
    (returned == 0).then(|| pages.cached * rustix::param::page_size() as u64)
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU64;
    use std::os::unix::fs::FileExt;

    use rustix::fs::{Advice, fadvise};

    use super::*;

    #[test]
    fn a_file_is_cached_when_written_and_not_when_dropped() {
        // Not in /tmp, which may be in memory.
        let file = tempfile::tempfile_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        file.write_all_at(&[7; 1 << 16], 0).unwrap();
        let Some(cached) = cached_bytes(&file, 0, 1 << 16) else {
            println!("skipped: this kernel has no cachestat");
            return;
        };
        assert_eq!(cached, 1 << 16);
        assert_eq!(cached_bytes(&file, 0, 1), Some(4096));
        file.sync_all().unwrap();
        // The whole file: the kernel may hold it as one large folio, which is dropped or kept as a
        // whole.
        fadvise(&file, 0, NonZeroU64::new(1 << 16), Advice::DontNeed).unwrap();
        assert_eq!(cached_bytes(&file, 0, 1 << 16), Some(0));
        assert_eq!(cached_bytes(&file, 0, 0), Some(0));
    }
}
