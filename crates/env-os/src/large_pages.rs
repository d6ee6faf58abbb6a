//! Memory in large pages, for reads that bypass the page cache.
//!
//! # `unsafe`
//!
//! `madvise(2)` is unsafe in general, because some advice changes the contents of memory.
//! `MADV_HUGEPAGE` does not: it permits the kernel to use pages of 2 MiB at the same addresses.

#![expect(unsafe_code, reason = "madvise(2) has no safe name")]

use rustix::mm::{Advice, madvise};

/// The size of a large page.
const LARGE_PAGE_BYTES: usize = 2 << 20;

/// Requests large pages for the part of `memory` that consists of whole ones. The memory must be
/// untouched; otherwise its small pages remain.
pub(crate) fn advise(memory: &mut [u8]) {
    let skip = memory.as_ptr().align_offset(LARGE_PAGE_BYTES).min(memory.len());
    let memory = &mut memory[skip..];
    let bytes = memory.len() / LARGE_PAGE_BYTES * LARGE_PAGE_BYTES;
    if bytes > 0 {
        // SAFETY: the bytes are exclusively borrowed, and the advice does not change them. If it is
        // refused, reading is merely slower.
        let _refused = unsafe { madvise(memory.as_mut_ptr().cast(), bytes, Advice::LinuxHugepage) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_what_it_was() {
        for bytes in [0, 1, LARGE_PAGE_BYTES - 1, 2 * LARGE_PAGE_BYTES, 5 * LARGE_PAGE_BYTES + 7] {
            let mut memory: Vec<u8> = (0..bytes).map(|at| at.to_le_bytes()[0]).collect();
            let expected = memory.clone();
            advise(&mut memory);
            assert!(memory == expected);
            memory.fill(9);
            assert!(memory.iter().all(|byte| *byte == 9));
        }
    }
}
