//! Row cells and flags: memory shared by two threads. Only this file knows how.
//!
//! ```text
//!   Rows    row 0                     row 1                  …   a row: 1, 2, … lines of 64 bytes
//!           ├ line ┼ line ┤           ├ line ┼ line ┤            a line: 8 words, each an atomic
//!   Flags   one byte a row                                       the paper's "bit arrays"
//! ```
//!
//! # Hazards
//!
//! A client may write a row while the snapshotter reads or copies it. With plain memory, that would
//! be undefined behaviour even if the bytes were then ignored. Here every word of a row is an
//! `AtomicU64`, read and written with `Relaxed`. On x86-64 and AArch64 these are the instructions
//! of plain loads and stores, so the only cost is that the compiler may not use wider ones. The
//! possible error is therefore not a memory error but a *torn row* (words of two values), which
//! each algorithm prevents by its own hand-over.
//!
//! # Orderings
//!
//! - Words of rows are always `Relaxed`. Their order follows from what surrounds them: the gate (a
//!   mutex) between periods, and the flag or lock of the row within a period.
//! - A flag that *hands over a row* is stored with `Release` after the row's words, and loaded with
//!   `Acquire` before them: [`Flags::hand_over`], [`Flags::look`], [`Flags::claim`].
//! - A flag that only one thread uses during a period is `Relaxed`: [`Flags::get`], [`Flags::set`].
//!   The gate orders it for the other thread.
//!
//! # `unsafe`
//!
//! - *Lines are copied by machine code.* A row is written with stores of 16 or 32 bytes instead of
//!   8 (on x86-64). The reason is not the number of instructions. The queue of stores that wait for
//!   their cache lines has 64 places, so with 8 stores a row only 8 rows can miss at a time, and an
//!   update of a row that is in no cache takes two to three times as long. To the compiler, the
//!   `asm!` blocks are equivalent to relaxed loads and stores of each word: aligned words are never
//!   torn, and stores are seen in order. Elsewhere, and under Miri and loom, they *are* those.
//! - *Streaming copies* ([`Rows::stream_rows`]) write past the caches, because the snapshotter's
//!   background copies would otherwise evict what the client needs. Such stores become visible in
//!   no particular order, so the function ends with a fence: to its callers, it is a copy like any
//!   other.
//! - *In bulk under the closed gate.* Filling or negating all flags, or copying all rows, with
//!   single atomic stores is several times slower than `memset` and `memcpy`, which would be unfair
//!   to Copy-on-Update, Zigzag and Naive. While the gate is closed, no other thread uses the
//!   memory, and [`Flags::exclusively`] and [`Rows::copy_all`] treat it as plain memory.
//! - `madvise` selects the page size for rows and flags.

#![cfg_attr(
    not(loom),
    expect(unsafe_code, reason = "lines copied at once; bulk access under a closed gate; madvise")
)]

use crate::error::Error;
use crate::gate::Closed;
use crate::sync::{AtomicU8, AtomicU64, Ordering};

/// Words of 8 bytes in a cache line.
#[cfg(not(loom))]
pub const LINE_WORDS: usize = 8;
/// One word is enough to see every order; more would only multiply the orders.
#[cfg(loom)]
pub const LINE_WORDS: usize = 1;

/// Bytes in a cache line. Rows begin at a multiple of it, so that no row touches more cache lines
/// than necessary.
pub const LINE_BYTES: usize = LINE_WORDS * 8;

/// The number and size of rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    rows: usize,
    row_lines: usize,
}

impl Shape {
    /// Creates a shape of `rows` rows of `row_bytes` each.
    ///
    /// # Errors
    /// [`Error::Shape`] if a row is empty or not a multiple of [`LINE_BYTES`].
    pub fn new(rows: usize, row_bytes: usize) -> Result<Self, Error> {
        if row_bytes == 0 || !row_bytes.is_multiple_of(LINE_BYTES) {
            return Err(Error::Shape { row_bytes });
        }
        Ok(Self { rows, row_lines: row_bytes / LINE_BYTES })
    }

    /// The number of rows.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// The bytes of a row.
    #[must_use]
    pub fn row_bytes(&self) -> usize {
        self.row_lines * LINE_BYTES
    }

    /// The words of 8 bytes of a row.
    #[must_use]
    pub fn row_words(&self) -> usize {
        self.row_lines * LINE_WORDS
    }
}

/// The pages of virtual memory that hold rows and flags.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Pages {
    /// 4 KiB (`MADV_NOHUGEPAGE`).
    #[default]
    Ordinary,
    /// 2 MiB, where the kernel provides them (`MADV_HUGEPAGE`).
    Huge,
}

/// The 64 bytes of one cache line.
#[repr(align(64))]
struct Line([AtomicU64; LINE_WORDS]);

impl Line {
    fn zero() -> Self {
        Self(std::array::from_fn(|_| AtomicU64::new(0)))
    }
}

/// Lines copied by relaxed loads and stores of their words.
#[cfg(any(loom, miri, not(target_arch = "x86_64")))]
mod lines {
    use super::{LINE_WORDS, Line, Ordering};

    pub(super) fn load(from: &Line, into: &mut [u64; LINE_WORDS]) {
        for (word, cell) in into.iter_mut().zip(&from.0) {
            *word = cell.load(Ordering::Relaxed);
        }
    }

    pub(super) fn store(to: &Line, value: &[u64; LINE_WORDS]) {
        for (cell, word) in to.0.iter().zip(value) {
            cell.store(*word, Ordering::Relaxed);
        }
    }

    pub(super) fn copy(to: &Line, from: &Line) {
        for (to, from) in to.0.iter().zip(&from.0) {
            to.store(from.load(Ordering::Relaxed), Ordering::Relaxed);
        }
    }

    pub(super) fn stream(to: &Line, from: &Line) {
        copy(to, from);
    }

    pub(super) fn end_stream() {}
}

/// Lines copied 16 or 32 bytes at a time. The module says what this means to the compiler.
#[cfg(not(any(loom, miri, not(target_arch = "x86_64"))))]
mod lines {
    use std::arch::asm;

    use super::{LINE_WORDS, Line};

    /// Copies as a relaxed load and a relaxed store of each word would.
    ///
    /// # Safety
    /// `from` has 64 readable bytes and `to` has 64 writable ones, through atomics or because no
    /// other thread uses them.
    #[inline]
    unsafe fn copy_64_bytes(to: *mut u64, from: *const u64) {
        if std::arch::is_x86_feature_detected!("avx") {
            // SAFETY: reads and writes only what the caller allows. `vzeroupper`, which later code
            // without AVX needs to be fast, changes all of these registers.
            unsafe {
                asm!(
                    "vmovups ymm0, [{from}]",
                    "vmovups ymm1, [{from} + 32]",
                    "vmovups [{to}], ymm0",
                    "vmovups [{to} + 32], ymm1",
                    "vzeroupper",
                    from = in(reg) from, to = in(reg) to,
                    out("xmm0") _, out("xmm1") _, out("xmm2") _, out("xmm3") _,
                    out("xmm4") _, out("xmm5") _, out("xmm6") _, out("xmm7") _,
                    out("xmm8") _, out("xmm9") _, out("xmm10") _, out("xmm11") _,
                    out("xmm12") _, out("xmm13") _, out("xmm14") _, out("xmm15") _,
                    options(nostack, preserves_flags),
                );
            }
        } else {
            // SAFETY: as above; the registers used are declared.
            unsafe {
                asm!(
                    "movups {a}, [{from}]",
                    "movups {b}, [{from} + 16]",
                    "movups {c}, [{from} + 32]",
                    "movups {d}, [{from} + 48]",
                    "movups [{to}], {a}",
                    "movups [{to} + 16], {b}",
                    "movups [{to} + 32], {c}",
                    "movups [{to} + 48], {d}",
                    from = in(reg) from, to = in(reg) to,
                    a = out(xmm_reg) _, b = out(xmm_reg) _, c = out(xmm_reg) _, d = out(xmm_reg) _,
                    options(nostack, preserves_flags),
                );
            }
        }
    }

    #[inline]
    pub(super) fn load(from: &Line, into: &mut [u64; LINE_WORDS]) {
        // SAFETY: a line is 64 bytes of atomics; `into` is exclusively borrowed.
        unsafe { copy_64_bytes(into.as_mut_ptr(), from.0.as_ptr().cast()) }
    }

    #[inline]
    pub(super) fn store(to: &Line, value: &[u64; LINE_WORDS]) {
        // SAFETY: as in `load`; atomics may be changed through a shared reference.
        unsafe { copy_64_bytes(to.0.as_ptr().cast_mut().cast(), value.as_ptr()) }
    }

    #[inline]
    pub(super) fn copy(to: &Line, from: &Line) {
        // SAFETY: both are 64 bytes of atomics.
        unsafe { copy_64_bytes(to.0.as_ptr().cast_mut().cast(), from.0.as_ptr().cast()) }
    }

    /// As `copy`, past the caches. [`end_stream`] must come before anything that hands the line
    /// over.
    #[inline]
    pub(super) fn stream(to: &Line, from: &Line) {
        // SAFETY: both are 64 bytes of atomics, aligned to 64. The caller ends the stream.
        unsafe {
            asm!(
                "movups {a}, [{from}]",
                "movups {b}, [{from} + 16]",
                "movups {c}, [{from} + 32]",
                "movups {d}, [{from} + 48]",
                "movntps [{to}], {a}",
                "movntps [{to} + 16], {b}",
                "movntps [{to} + 32], {c}",
                "movntps [{to} + 48], {d}",
                from = in(reg) from, to = in(reg) to,
                a = out(xmm_reg) _, b = out(xmm_reg) _, c = out(xmm_reg) _, d = out(xmm_reg) _,
                options(nostack, preserves_flags),
            );
        }
    }

    /// Orders all lines streamed so far before everything after.
    #[inline]
    pub(super) fn end_stream() {
        // SAFETY: orders stores and touches no memory.
        unsafe { asm!("sfence", options(nostack, preserves_flags)) }
    }
}

/// An array of rows.
pub struct Rows {
    lines: Vec<Line>,
    row_lines: usize,
}

impl Rows {
    /// Creates rows of zeros, with all of their memory already present.
    #[must_use]
    pub fn zeroed(shape: Shape, pages: Pages) -> Self {
        let lines = filled(shape.rows * shape.row_lines, pages, Line::zero);
        Self { lines, row_lines: shape.row_lines }
    }

    #[inline]
    fn lines_of(&self, row: usize) -> &[Line] {
        &self.lines[row * self.row_lines..(row + 1) * self.row_lines]
    }

    /// Copies a row out.
    ///
    /// # Panics
    /// If there is no such row, or `into` is shorter than a row.
    #[inline]
    pub fn load(&self, row: usize, into: &mut [u64]) {
        let (into, _) = into.as_chunks_mut();
        for (line, into) in self.lines_of(row).iter().zip(into) {
            lines::load(line, into);
        }
    }

    /// Writes a row.
    ///
    /// # Panics
    /// If there is no such row.
    #[inline]
    pub fn store(&self, row: usize, value: &[u64]) {
        let (value, _) = value.as_chunks();
        for (line, value) in self.lines_of(row).iter().zip(value) {
            lines::store(line, value);
        }
    }

    /// Copies a row from `from`.
    #[inline]
    pub fn copy_row(&self, row: usize, from: &Rows) {
        for (to, from) in self.lines_of(row).iter().zip(from.lines_of(row)) {
            lines::copy(to, from);
        }
    }

    /// Copies some rows from `from` without changing the caches: for rows that no thread reads
    /// soon.
    #[inline]
    pub(crate) fn stream_rows(&self, rows: impl Iterator<Item = usize>, from: &Rows) {
        for row in rows {
            for (to, from) in self.lines_of(row).iter().zip(from.lines_of(row)) {
                lines::stream(to, from);
            }
        }
        lines::end_stream();
    }

    /// Copies every row from `from`. The gate is closed, so no other thread uses the rows.
    #[cfg(not(loom))]
    pub(crate) fn copy_all(&self, from: &Rows, _closed: &Closed<'_>) {
        assert_eq!(self.lines.len(), from.lines.len(), "rows of one shape");
        // SAFETY: different allocations of the same length. Lines are atomics and may therefore be
        // written through a shared reference. No other thread uses either: they are private to an
        // algorithm whose client the gate keeps out, and its one snapshotter is the caller.
        unsafe {
            let to = self.lines.as_ptr().cast_mut();
            std::ptr::copy_nonoverlapping(from.lines.as_ptr(), to, self.lines.len());
        }
    }

    /// loom's atomics are not bytes.
    #[cfg(loom)]
    pub(crate) fn copy_all(&self, from: &Rows, _closed: &Closed<'_>) {
        for (to, from) in self.lines.iter().zip(&from.lines) {
            lines::copy(to, from);
        }
    }
}

/// One byte per row.
pub(crate) struct Flags {
    cells: Vec<AtomicU8>,
}

impl Flags {
    /// Creates a flag for each of `rows` rows, all with the same value.
    pub(crate) fn new(rows: usize, value: u8, pages: Pages) -> Self {
        Self { cells: filled(rows, pages, || AtomicU8::new(value)) }
    }

    /// Returns a flag that no other thread changes in this period.
    #[inline]
    pub(crate) fn get(&self, row: usize) -> u8 {
        self.cells[row].load(Ordering::Relaxed)
    }

    /// Sets a flag that no other thread uses in this period.
    #[inline]
    pub(crate) fn set(&self, row: usize, value: u8) {
        self.cells[row].store(value, Ordering::Relaxed);
    }

    /// Returns a flag that the other thread may be handing over. What that thread did before is
    /// visible after.
    #[inline]
    pub(crate) fn look(&self, row: usize) -> u8 {
        self.cells[row].load(Ordering::Acquire)
    }

    /// Hands a row over with the flag. A thread that sees the flag sees the changes of the row.
    #[inline]
    pub(crate) fn hand_over(&self, row: usize, value: u8) {
        self.cells[row].store(value, Ordering::Release);
    }

    /// Changes a flag from `from` to `to` if it is `from`, ordered before all that follows.
    #[inline]
    pub(crate) fn claim(&self, row: usize, from: u8, to: u8) -> bool {
        self.cells[row].compare_exchange(from, to, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    /// Sets every flag to 0. Only one thread uses them in this period.
    pub(crate) fn clear(&self) {
        for cell in &self.cells {
            cell.store(0, Ordering::Relaxed);
        }
    }

    /// Sets every flag to the same value while no other thread uses them.
    pub(crate) fn fill(&self, value: u8, closed: &Closed<'_>) {
        self.exclusively(closed, |flags| flags.fill(value));
    }

    /// Sets each flag to 1 where `from` has 0, and to 0 elsewhere, while no other thread uses them.
    pub(crate) fn fill_with_negation(&self, from: &Flags, closed: &Closed<'_>) {
        self.exclusively(closed, |flags| {
            from.exclusively(closed, |from| {
                for (to, from) in flags.iter_mut().zip(from) {
                    *to = u8::from(*from == 0);
                }
            });
        });
    }

    /// Passes all flags as plain bytes while the gate is closed.
    #[cfg(not(loom))]
    fn exclusively(&self, _closed: &Closed<'_>, change: impl FnOnce(&mut [u8])) {
        // SAFETY: `AtomicU8` is a byte that may be changed through a shared reference, so the
        // pointer may be written through; it covers `len` of them. No other thread uses the flags:
        // they are private to an algorithm, and algorithms are private to a `Database` with one
        // gate, whose client is kept out while a `Closed` exists; the one snapshotter is the
        // caller. The two arrays of `fill_with_negation` are distinct arrays of one algorithm.
        let flags = unsafe {
            std::slice::from_raw_parts_mut(self.cells.as_ptr().cast_mut().cast(), self.cells.len())
        };
        change(flags);
    }

    /// loom's atomics are not bytes: copy them out and in.
    #[cfg(loom)]
    fn exclusively(&self, _closed: &Closed<'_>, change: impl FnOnce(&mut [u8])) {
        let mut flags: Vec<u8> = (0..self.cells.len()).map(|row| self.get(row)).collect();
        change(&mut flags);
        for (row, flag) in flags.into_iter().enumerate() {
            self.set(row, flag);
        }
    }
}

/// Allocates an array in pages of a given size, with all of its memory already present.
fn filled<T>(length: usize, pages: Pages, value: impl FnMut() -> T) -> Vec<T> {
    let mut array = Vec::with_capacity(length);
    advise(&mut array, pages);
    array.resize_with(length, value);
    array
}

/// Requests a page size for memory that has not been touched yet.
#[cfg(not(any(loom, miri)))]
fn advise<T>(array: &mut Vec<T>, pages: Pages) {
    use rustix::mm::{Advice, madvise};
    let advice = match pages {
        Pages::Ordinary => Advice::LinuxNoHugepage,
        Pages::Huge => Advice::LinuxHugepage,
    };
    // A multiple of every page size that Linux uses on any processor.
    const PAGE_BYTES_MAX: usize = 64 * 1024;
    let start = array.as_mut_ptr().addr();
    let aligned = start.next_multiple_of(PAGE_BYTES_MAX);
    let end = (start + array.capacity() * size_of::<T>()) / PAGE_BYTES_MAX * PAGE_BYTES_MAX;
    if aligned < end {
        let first = array.as_mut_ptr().wrapping_byte_add(aligned - start);
        // SAFETY: whole pages inside the allocation of `array`; this advice changes the size of the
        // pages that back them, never their contents. If the kernel refuses it (a kernel without
        // huge pages), the array works as well, so the result does not matter.
        let _ = unsafe { madvise(first.cast(), end - aligned, advice) };
    }
}

#[cfg(any(loom, miri))]
fn advise<T>(_array: &mut Vec<T>, _pages: Pages) {}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::gate::Gate;

    #[test]
    fn a_row_comes_back_and_its_neighbours_stay() {
        let shape = Shape::new(3, 128).unwrap();
        let rows = Rows::zeroed(shape, Pages::Huge);
        let value: Vec<u64> = (1..=16).collect();
        rows.store(1, &value);
        let mut read = vec![9; 16];
        for row in [0, 2] {
            rows.load(row, &mut read);
            assert_eq!(read, [0; 16], "row {row}");
        }
        let copy = Rows::zeroed(shape, Pages::Ordinary);
        copy.copy_row(1, &rows);
        copy.load(1, &mut read);
        assert_eq!(read, value);
        copy.store(1, &[5; 16]);
        rows.stream_rows([1, 2].into_iter(), &copy);
        let contents = [0, 1, 2].map(|row| {
            rows.load(row, &mut read);
            read.clone()
        });
        assert_eq!(contents, [[0; 16], [5; 16], [0; 16]]);
        copy.copy_all(&rows, &Gate::new().close());
        copy.load(1, &mut read);
        assert_eq!(read, [5; 16]);
    }

    #[test]
    fn rows_are_whole_cache_lines() {
        assert!(Shape::new(1, 0).is_err());
        assert!(Shape::new(1, 72).is_err());
        let rows = Rows::zeroed(Shape::new(2, 64).unwrap(), Pages::Ordinary);
        assert_eq!(rows.lines.as_ptr().addr() % 64, 0);
    }

    #[test]
    fn flags_in_bulk() {
        let gate = Gate::new();
        let (a, b) = (Flags::new(5, 1, Pages::Huge), Flags::new(5, 1, Pages::Huge));
        a.set(2, 0);
        b.fill_with_negation(&a, &gate.close());
        assert_eq!([0, 1, 2, 3, 4].map(|row| b.get(row)), [0, 0, 1, 0, 0]);
        b.fill(7, &gate.close());
        assert_eq!(b.get(4), 7);
        assert!(b.claim(4, 7, 8) && !b.claim(4, 7, 9));
    }
}
