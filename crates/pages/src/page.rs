//! One page: 8 KiB with a header, and for pages of trees a slotted body.
//!
//! ```text
//!   0      40                                                             8192
//!   | header | slot 0 | slot 1 | … ──►      free      ◄── … | cell | cell |
//!                 offsets of cells in the order of their keys
//!
//!   cell = key length u16 · value length u16 (bit 15: the value is in overflow pages) · key · value
//! ```
//!
//! Every change is a function of the bytes before and of one redo record, so that the same
//! records on the same image give the same bytes wherever that happens (`redo`); `check` relies
//! on it. An image read from storage is believed only after [`Page::verify`], which also proves
//! that every offset lies within the page and that the keys ascend: nothing after it can fail.
//! Byte by byte: `docs/format/pages.md`.

use crate::position::{Lsn, PageId};

/// The size of a page.
pub const PAGE_BYTES: usize = 8192;
/// The longest key.
pub const KEY_BYTES_MAX: usize = 1024;
/// The largest cell: four of them and their slots fit on a page.
pub(crate) const CELL_BYTES_MAX: usize = (PAGE_BYTES - HEADER_BYTES) / 4 - SLOT_BYTES;
/// What a page has beside its header.
pub(crate) const BODY_BYTES: usize = PAGE_BYTES - HEADER_BYTES;

const HEADER_BYTES: usize = 40;
const SLOT_BYTES: usize = 2;
const CELL_HEADER_BYTES: usize = 4;
const OVERFLOW_FLAG: u16 = 1 << 15;

const AT_KIND: usize = 4;
const AT_LEVEL: usize = 5;
const AT_COUNT: usize = 6;
const AT_ID: usize = 8;
const AT_LSN: usize = 16;
const AT_HEAP: usize = 24;
const AT_GARBAGE: usize = 26;
const AT_NEXT: usize = 32;

/// What a page is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Page 0.
    Meta,
    /// Keys and values.
    Leaf,
    /// Separators and children; the first separator is empty and stands for the lowest key.
    Branch,
    /// A part of a large value.
    Overflow,
    /// Free, and linked to the next free page.
    Free,
}

impl Kind {
    fn of(byte: u8) -> Option<Self> {
        Some(match byte {
            1 => Self::Meta,
            2 => Self::Leaf,
            3 => Self::Branch,
            4 => Self::Overflow,
            5 => Self::Free,
            _ => return None,
        })
    }

    pub(crate) const fn byte(self) -> u8 {
        match self {
            Self::Meta => 1,
            Self::Leaf => 2,
            Self::Branch => 3,
            Self::Overflow => 4,
            Self::Free => 5,
        }
    }
}

/// A key with what belongs to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Cell<'a> {
    pub(crate) key: &'a [u8],
    pub(crate) value: &'a [u8],
    /// The value is where in overflow pages the real one is.
    pub(crate) is_overflow: bool,
}

impl Cell<'_> {
    /// What it takes on a page, its slot included.
    pub(crate) fn bytes(&self) -> usize {
        SLOT_BYTES + CELL_HEADER_BYTES + self.key.len() + self.value.len()
    }

    /// Whether it may be on a page at all.
    pub(crate) fn is_small(&self) -> bool {
        self.key.len() <= KEY_BYTES_MAX && self.bytes() <= CELL_BYTES_MAX + SLOT_BYTES
    }
}

/// What page 0 knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Meta {
    /// How many pages there are, itself included.
    pub(crate) page_count: u64,
    /// The first free page, or 0.
    pub(crate) free_head: u64,
    /// How many pages are free.
    pub(crate) free_count: u64,
}

/// The image of a page. The default is none: it stands where a page was taken from.
#[derive(Clone, PartialEq, Eq, Default)]
pub(crate) struct Page {
    bytes: Box<[u8]>,
}

#[expect(clippy::cast_possible_truncation, reason = "offsets within a page fit 16 bits")]
const fn short(value: usize) -> u16 {
    debug_assert!(value <= PAGE_BYTES);
    value as u16
}

impl Page {
    /// A page of zeros: what there is before the first record.
    pub(crate) fn blank() -> Self {
        Self { bytes: vec![0; PAGE_BYTES].into_boxed_slice() }
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.bytes
    }

    fn u16_at(&self, at: usize) -> usize {
        usize::from(u16::from_le_bytes([self.bytes[at], self.bytes[at + 1]]))
    }

    fn u64_at(&self, at: usize) -> u64 {
        u64::from_le_bytes(self.bytes[at..at + 8].try_into().expect("eight bytes"))
    }

    fn put_u16(&mut self, at: usize, value: usize) {
        self.bytes[at..at + 2].copy_from_slice(&short(value).to_le_bytes());
    }

    fn put_u64(&mut self, at: usize, value: u64) {
        self.bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
    }

    pub(crate) fn kind(&self) -> Option<Kind> {
        Kind::of(self.bytes[AT_KIND])
    }

    pub(crate) fn level(&self) -> u8 {
        self.bytes[AT_LEVEL]
    }

    pub(crate) fn count(&self) -> usize {
        self.u16_at(AT_COUNT)
    }

    pub(crate) fn lsn(&self) -> Lsn {
        Lsn(self.u64_at(AT_LSN))
    }

    pub(crate) fn set_lsn(&mut self, lsn: Lsn) {
        self.put_u64(AT_LSN, lsn.0);
    }

    /// The next page of a chain of overflow or free pages, or 0.
    pub(crate) fn next(&self) -> u64 {
        self.u64_at(AT_NEXT)
    }

    /// Sets the checksum; for the moment before the image is written.
    pub(crate) fn seal(&mut self) {
        let crc = base::checksum::crc32c(&self.bytes[4..]);
        self.bytes[..4].copy_from_slice(&crc.to_le_bytes());
    }

    /// Whether this is an image of page `id`, as it was sealed, and one that can be worked with.
    pub(crate) fn verify(&self, id: PageId) -> Result<(), &'static str> {
        let crc = base::checksum::crc32c(&self.bytes[4..]);
        if self.bytes[..4] != crc.to_le_bytes() {
            return Err("the checksum of the page does not match");
        }
        if self.u64_at(AT_ID) != id.0 {
            return Err("the page is another page's");
        }
        self.verify_shape()
    }

    /// Whether the body is one that can be worked with.
    pub(crate) fn verify_shape(&self) -> Result<(), &'static str> {
        match self.kind() {
            None => Err("the page is of no known kind"),
            Some(Kind::Meta | Kind::Free) => Ok(()),
            Some(Kind::Overflow) if self.count() <= BODY_BYTES => Ok(()),
            Some(Kind::Overflow) => Err("the overflow page is longer than a page"),
            Some(Kind::Leaf | Kind::Branch) => self.verify_cells(),
        }
    }

    fn verify_cells(&self) -> Result<(), &'static str> {
        let heap = self.u16_at(AT_HEAP);
        let slots_end = HEADER_BYTES + self.count() * SLOT_BYTES;
        if heap > PAGE_BYTES || slots_end > heap {
            return Err("the slots run into the cells");
        }
        let mut used = 0;
        let mut previous: Option<&[u8]> = None;
        for i in 0..self.count() {
            let at = self.u16_at(HEADER_BYTES + i * SLOT_BYTES);
            if at < heap || at + CELL_HEADER_BYTES > PAGE_BYTES {
                return Err("a slot points outside of the cells");
            }
            let value_len = self.u16_at(at + 2) & usize::from(!OVERFLOW_FLAG);
            let len = CELL_HEADER_BYTES + self.u16_at(at) + value_len;
            if at + len > PAGE_BYTES {
                return Err("a cell runs over the end of the page");
            }
            used += len;
            let key = &self.bytes[at + CELL_HEADER_BYTES..][..self.u16_at(at)];
            if previous.is_some_and(|previous| previous >= key) {
                return Err("the keys of the page do not ascend");
            }
            if self.kind() == Some(Kind::Branch) && (value_len != 8 || (i == 0) != key.is_empty()) {
                return Err("the branch has a cell that is no separator and child");
            }
            previous = Some(key);
        }
        if used + self.u16_at(AT_GARBAGE) != PAGE_BYTES - heap {
            return Err("the cells do not add up");
        }
        if self.kind() == Some(Kind::Branch) && self.count() == 0 {
            return Err("the branch has no child");
        }
        Ok(())
    }

    /// Makes it an empty page of `kind`.
    pub(crate) fn format(&mut self, id: PageId, kind: Kind, level: u8, next: u64) {
        self.bytes.fill(0);
        self.bytes[AT_KIND] = kind.byte();
        self.bytes[AT_LEVEL] = level;
        self.put_u64(AT_ID, id.0);
        self.put_u16(AT_HEAP, PAGE_BYTES);
        self.put_u64(AT_NEXT, next);
    }

    pub(crate) fn meta(&self) -> Meta {
        Meta {
            page_count: self.u64_at(HEADER_BYTES),
            free_head: self.u64_at(HEADER_BYTES + 8),
            free_count: self.u64_at(HEADER_BYTES + 16),
        }
    }

    pub(crate) fn set_meta(&mut self, id: PageId, meta: Meta) {
        self.format(id, Kind::Meta, 0, 0);
        self.put_u64(HEADER_BYTES, meta.page_count);
        self.put_u64(HEADER_BYTES + 8, meta.free_head);
        self.put_u64(HEADER_BYTES + 16, meta.free_count);
    }

    /// The part of a value that an overflow page holds.
    pub(crate) fn overflow(&self) -> &[u8] {
        &self.bytes[HEADER_BYTES..HEADER_BYTES + self.count()]
    }

    pub(crate) fn set_overflow(&mut self, part: &[u8]) {
        self.put_u16(AT_COUNT, part.len());
        self.bytes[HEADER_BYTES..HEADER_BYTES + part.len()].copy_from_slice(part);
    }

    /// The cell at place `i` in the order of keys.
    pub(crate) fn cell(&self, i: usize) -> Cell<'_> {
        let at = self.u16_at(HEADER_BYTES + i * SLOT_BYTES);
        let key_len = self.u16_at(at);
        let lengths = self.u16_at(at + 2);
        let value_len = lengths & usize::from(!OVERFLOW_FLAG);
        let key_at = at + CELL_HEADER_BYTES;
        Cell {
            key: &self.bytes[key_at..key_at + key_len],
            value: &self.bytes[key_at + key_len..key_at + key_len + value_len],
            is_overflow: lengths & usize::from(OVERFLOW_FLAG) != 0,
        }
    }

    /// The key of the cell at place `i`: all that a search looks at.
    fn key(&self, i: usize) -> &[u8] {
        let at = self.u16_at(HEADER_BYTES + i * SLOT_BYTES);
        let key_at = at + CELL_HEADER_BYTES;
        &self.bytes[key_at..key_at + self.u16_at(at)]
    }

    /// The child of a branch at place `i`.
    pub(crate) fn child(&self, i: usize) -> PageId {
        PageId(u64::from_le_bytes(self.cell(i).value.try_into().expect("verified: eight bytes")))
    }

    pub(crate) fn cells(&self) -> impl Iterator<Item = Cell<'_>> {
        (0..self.count()).map(|i| self.cell(i))
    }

    /// Where `key` is, or where it would be.
    pub(crate) fn search(&self, key: &[u8]) -> Result<usize, usize> {
        let (mut low, mut high) = (0, self.count());
        while low < high {
            let middle = usize::midpoint(low, high);
            match self.key(middle).cmp(key) {
                std::cmp::Ordering::Less => low = middle + 1,
                std::cmp::Ordering::Equal => return Ok(middle),
                std::cmp::Ordering::Greater => high = middle,
            }
        }
        Err(low)
    }

    /// Bytes of the body that are in use, slots included.
    pub(crate) fn used_bytes(&self) -> usize {
        let cells = PAGE_BYTES - self.u16_at(AT_HEAP) - self.u16_at(AT_GARBAGE);
        cells + self.count() * SLOT_BYTES
    }

    /// Whether `cell` fits, in place of the one with its key if there is one.
    pub(crate) fn fits(&self, cell: &Cell<'_>) -> bool {
        self.fits_at(self.search(cell.key), cell)
    }

    /// As [`Page::fits`], for who has searched.
    pub(crate) fn fits_at(&self, place: Result<usize, usize>, cell: &Cell<'_>) -> bool {
        let replaced = place.map_or(0, |i| self.cell(i).bytes());
        self.used_bytes() - replaced + cell.bytes() <= BODY_BYTES
    }

    /// Inserts a cell, or replaces the one of its key; false if it does not fit.
    #[must_use]
    pub(crate) fn put(&mut self, cell: &Cell<'_>) -> bool {
        let len = CELL_HEADER_BYTES + cell.key.len() + cell.value.len();
        let flag = if cell.is_overflow { OVERFLOW_FLAG } else { 0 };
        let lengths = (short(cell.value.len()) | flag).to_le_bytes();
        let i = match self.search(cell.key) {
            Ok(i) => {
                let old = self.cell(i);
                if old.value.len() == cell.value.len() {
                    let at = self.u16_at(HEADER_BYTES + i * SLOT_BYTES);
                    self.bytes[at + 2..at + 4].copy_from_slice(&lengths);
                    let value_at = at + CELL_HEADER_BYTES + cell.key.len();
                    self.bytes[value_at..at + len].copy_from_slice(cell.value);
                    return true;
                }
                if self.used_bytes() - old.bytes() + cell.bytes() > BODY_BYTES {
                    return false;
                }
                self.remove_at(i);
                i
            }
            Err(_) if self.used_bytes() + cell.bytes() > BODY_BYTES => return false,
            Err(i) => i,
        };
        let slots_end = HEADER_BYTES + (self.count() + 1) * SLOT_BYTES;
        if slots_end + len > self.u16_at(AT_HEAP) {
            self.compact();
        }
        let at = self.u16_at(AT_HEAP) - len;
        self.put_u16(at, cell.key.len());
        self.bytes[at + 2..at + 4].copy_from_slice(&lengths);
        let key_at = at + CELL_HEADER_BYTES;
        self.bytes[key_at..key_at + cell.key.len()].copy_from_slice(cell.key);
        self.bytes[key_at + cell.key.len()..at + len].copy_from_slice(cell.value);
        let from = HEADER_BYTES + i * SLOT_BYTES;
        let to = HEADER_BYTES + self.count() * SLOT_BYTES;
        self.bytes.copy_within(from..to, from + SLOT_BYTES);
        self.put_u16(from, at);
        self.put_u16(AT_HEAP, at);
        self.put_u16(AT_COUNT, self.count() + 1);
        true
    }

    /// Removes the cell at place `i`.
    pub(crate) fn remove_at(&mut self, i: usize) {
        let len = self.cell(i).bytes() - SLOT_BYTES;
        let from = HEADER_BYTES + (i + 1) * SLOT_BYTES;
        let to = HEADER_BYTES + self.count() * SLOT_BYTES;
        self.bytes.copy_within(from..to, from - SLOT_BYTES);
        self.put_u16(AT_GARBAGE, self.u16_at(AT_GARBAGE) + len);
        self.put_u16(AT_COUNT, self.count() - 1);
    }

    /// Removes every cell from place `i` on.
    pub(crate) fn truncate(&mut self, i: usize) {
        self.put_u16(AT_COUNT, i.min(self.count()));
        self.compact();
    }

    /// Moves the cells together, in the order of their keys.
    fn compact(&mut self) {
        let old = self.clone();
        let mut at = PAGE_BYTES;
        self.bytes[HEADER_BYTES + old.count() * SLOT_BYTES..].fill(0);
        for i in 0..old.count() {
            let from = old.u16_at(HEADER_BYTES + i * SLOT_BYTES);
            let len = old.cell(i).bytes() - SLOT_BYTES;
            at -= len;
            self.bytes[at..at + len].copy_from_slice(&old.bytes[from..from + len]);
            self.put_u16(HEADER_BYTES + i * SLOT_BYTES, at);
        }
        self.put_u16(AT_HEAP, at);
        self.put_u16(AT_GARBAGE, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use env_sim::SimEntropy;
    use std::collections::BTreeMap;

    #[test]
    fn behaves_as_a_map_until_it_is_full() {
        for seed in 0..50 {
            let mut rng = SimEntropy::new(seed);
            let mut page = Page::blank();
            page.format(PageId(7), Kind::Leaf, 0, 0);
            let mut model: BTreeMap<Vec<u8>, Vec<u8>> = BTreeMap::new();
            for _ in 0..600 {
                let key = vec![b'k'; usize::try_from(rng.below(60)).expect("small")];
                if rng.below(3) == 0 {
                    let removed = page.search(&key).ok().map(|i| page.remove_at(i)).is_some();
                    assert_eq!(removed, model.remove(&key).is_some());
                } else {
                    let value = vec![1; usize::try_from(rng.below(300)).expect("small")];
                    let cell = Cell { key: &key, value: &value, is_overflow: false };
                    let fits = page.fits(&cell);
                    assert_eq!(page.put(&cell), fits);
                    if fits {
                        model.insert(key, value);
                    }
                }
                assert_eq!(page.verify_shape(), Ok(()), "seed {seed}");
            }
            let found: Vec<_> = page.cells().map(|c| (c.key.to_vec(), c.value.to_vec())).collect();
            assert_eq!(found, model.into_iter().collect::<Vec<_>>(), "seed {seed}");
        }
    }

    #[test]
    fn every_flipped_bit_is_seen() {
        let mut page = Page::blank();
        page.format(PageId(7), Kind::Leaf, 0, 0);
        assert!(page.put(&Cell { key: b"key", value: b"value", is_overflow: false }));
        page.seal();
        assert_eq!(page.verify(PageId(7)), Ok(()));
        assert!(page.verify(PageId(8)).is_err());
        for at in 0..PAGE_BYTES {
            page.bytes_mut()[at] ^= 4;
            assert!(page.verify(PageId(7)).is_err(), "byte {at}");
            page.bytes_mut()[at] ^= 4;
        }
    }
}
