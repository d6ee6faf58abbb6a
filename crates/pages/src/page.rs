//! One page: 8 KiB with a header and, in tree pages, a slotted body.
//!
//! ```text
//!   0      40                                                             8192
//!   | header | slot 0 | slot 1 | … ──►      free      ◄── … | cell | cell |
//!                 in the order of the keys
//!
//!   slot = offset of the cell u16 · head: the first 4 bytes of the key behind the common prefix
//!   cell = key length u16 · value length u16 (bit 15: the value is in overflow pages) · key · value
//! ```
//!
//! A search that compared keys would wait for memory at every step, once per cell. So it compares
//! the heads, which are adjacent, and reads only cells with equal heads, usually one. The heads
//! begin where the keys begin to differ: the header stores the length of the prefix that all keys
//! of the page share (except the empty key, which is below all others and has no bytes to compare;
//! every branch has one). A new key without the prefix shortens it, and all heads are recomputed.
//! Removing a key does not lengthen it; compacting the page does.
//!
//! Every change is a function of the previous bytes and one redo record, so that the same records
//! on the same image give the same bytes everywhere (`redo`); `check` relies on it. An image read
//! from storage is trusted only after [`Page::verify`]. That also proves that every offset lies
//! within the page, that the keys ascend, and that the heads match: nothing after it can fail. Byte
//! by byte: `docs/format/pages.md`.

use std::cmp::Ordering;

use base::bytes;

use crate::position::{LogOffset, PageId};

/// The size of a page.
pub const PAGE_BYTES: usize = 8192;
/// The longest key, in bytes.
pub const KEY_BYTES_MAX: usize = 1024;
/// The largest cell: four of them, with their slots, fit on a page.
pub(crate) const CELL_BYTES_MAX: usize = (PAGE_BYTES - HEADER_BYTES) / 4 - SLOT_BYTES;
/// The bytes of a page after its header.
pub(crate) const BODY_BYTES: usize = PAGE_BYTES - HEADER_BYTES;

const HEADER_BYTES: usize = 40;
const HEAD_BYTES: usize = 4;
const SLOT_BYTES: usize = 2 + HEAD_BYTES;
const CELL_HEADER_BYTES: usize = 4;
const OVERFLOW_FLAG: u16 = 1 << 15;

const AT_KIND: usize = 4;
const AT_LEVEL: usize = 5;
const AT_COUNT: usize = 6;
const AT_ID: usize = 8;
const AT_LOG_OFFSET: usize = 16;
const AT_HEAP: usize = 24;
const AT_GARBAGE: usize = 26;
const AT_PREFIX: usize = 28;
const AT_NEXT: usize = 32;

/// The kind of a page.
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

/// A key and its value or child.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Cell<'a> {
    pub(crate) key: &'a [u8],
    pub(crate) value: &'a [u8],
    /// Whether the value is a reference to overflow pages.
    pub(crate) is_overflow: bool,
}

impl Cell<'_> {
    /// The bytes that the cell takes on a page, its slot included.
    pub(crate) fn bytes(&self) -> usize {
        SLOT_BYTES + CELL_HEADER_BYTES + self.key.len() + self.value.len()
    }

    /// The second half of the cell's header.
    fn lengths(&self) -> [u8; 2] {
        let flag = if self.is_overflow { OVERFLOW_FLAG } else { 0 };
        (short(self.value.len()) | flag).to_le_bytes()
    }

    /// Whether the cell is small enough for any page.
    pub(crate) fn is_small(&self) -> bool {
        self.key.len() <= KEY_BYTES_MAX && self.bytes() <= CELL_BYTES_MAX + SLOT_BYTES
    }
}

/// The contents of page 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Meta {
    /// The number of pages, page 0 included.
    pub(crate) page_count: u64,
    /// The first free page, or 0.
    pub(crate) free_head: u64,
    /// The number of free pages.
    pub(crate) free_count: u64,
}

/// The place of a key on a page, or the place where it would be inserted.
pub(crate) type Place = Result<usize, usize>;

/// The image of a page. The default is empty: it replaces a page that was moved out.
#[derive(Clone, PartialEq, Eq, Default)]
pub(crate) struct Page {
    bytes: Box<[u8]>,
}

#[expect(clippy::cast_possible_truncation, reason = "offsets within a page fit 16 bits")]
const fn short(value: usize) -> u16 {
    debug_assert!(value <= PAGE_BYTES);
    value as u16
}

/// The head of a key: its first bytes after the prefix, padded with zeros. Heads are equal or in
/// the order of their keys.
fn head_of(key: &[u8], prefix_len: usize) -> u32 {
    let rest = key.get(prefix_len..).unwrap_or_default();
    if let Some(head) = rest.first_chunk() {
        return u32::from_be_bytes(*head);
    }
    // No loop and no branch to mispredict: this runs for every key of each page that is read.
    if let Some(last) = key.last_chunk() {
        let last = u64::from(u32::from_be_bytes(*last)) << (8 * (HEAD_BYTES - rest.len()));
        #[expect(clippy::cast_possible_truncation, reason = "what is behind the head")]
        return last as u32;
    }
    let byte = |i: usize| rest.get(i).copied().unwrap_or_default();
    u32::from_be_bytes([byte(0), byte(1), byte(2), 0])
}

/// The offset of a slot's cell.
fn slot_cell_at(slot: &[u8; SLOT_BYTES]) -> usize {
    usize::from(u16::from_le_bytes([slot[0], slot[1]]))
}

/// The head in a slot, as a number that compares as its bytes do.
fn slot_head(slot: &[u8; SLOT_BYTES]) -> u32 {
    u32::from_be_bytes([slot[2], slot[3], slot[4], slot[5]])
}

/// The number of slots with a head below this. The page is probably in no processor cache: the
/// reads of a binary search would wait for memory one after another, these wait together.
fn heads_below(slots: &[[u8; SLOT_BYTES]], head: u32) -> usize {
    const STEP: usize = 16;
    let below = |slot: &&[u8; SLOT_BYTES]| slot_head(slot) < head;
    let steps = slots.chunks_exact(STEP).map(|step| &step[STEP - 1]).filter(below).count();
    let rest = &slots[steps * STEP..];
    steps * STEP + rest[..rest.len().min(STEP)].iter().filter(below).count()
}

/// The length of the common prefix of two keys.
fn common_len(a: &[u8], b: &[u8]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

impl Page {
    /// A page of zeros: the state before the first record.
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
        usize::from(bytes::u16_at(&self.bytes[..], at))
    }

    fn u64_at(&self, at: usize) -> u64 {
        bytes::u64_at(&self.bytes[..], at)
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

    pub(crate) fn log_offset(&self) -> LogOffset {
        LogOffset(self.u64_at(AT_LOG_OFFSET))
    }

    pub(crate) fn set_log_offset(&mut self, offset: LogOffset) {
        self.put_u64(AT_LOG_OFFSET, offset.0);
    }

    /// The next page of a chain of overflow or free pages, or 0.
    pub(crate) fn next(&self) -> u64 {
        self.u64_at(AT_NEXT)
    }

    /// Sets the checksum, immediately before the image is written.
    pub(crate) fn seal(&mut self) {
        let crc = base::checksum::crc32c(&self.bytes[4..]);
        self.bytes[..4].copy_from_slice(&crc.to_le_bytes());
    }

    /// Whether this is an intact image of page `id` with a valid body.
    pub(crate) fn verify(&self, id: PageId) -> Result<(), &'static str> {
        let crc = base::checksum::crc32c(&self.bytes[4..]);
        if self.bytes[..4] != crc.to_le_bytes() {
            return Err("the checksum of the page does not match");
        }
        if self.u64_at(AT_ID) != id.0 {
            return Err("the image belongs to another page");
        }
        self.verify_shape()
    }

    /// Whether the body is valid.
    pub(crate) fn verify_shape(&self) -> Result<(), &'static str> {
        match self.kind() {
            None => Err("the kind of the page is unknown"),
            Some(Kind::Meta | Kind::Free) => Ok(()),
            Some(Kind::Overflow) if self.count() <= BODY_BYTES => Ok(()),
            Some(Kind::Overflow) => Err("the value part of the overflow page does not fit"),
            Some(Kind::Leaf | Kind::Branch) => self.verify_cells(),
        }
    }

    fn verify_cells(&self) -> Result<(), &'static str> {
        let heap = self.u16_at(AT_HEAP);
        let slots_end = HEADER_BYTES + self.count() * SLOT_BYTES;
        if heap > PAGE_BYTES || slots_end > heap {
            return Err("the slots overlap the cells");
        }
        let is_branch = self.kind() == Some(Kind::Branch);
        let prefix_len = self.prefix_len();
        let mut used = 0;
        let mut previous: Option<&[u8]> = None;
        for (i, slot) in self.slots().iter().enumerate() {
            let at = slot_cell_at(slot);
            if at < heap || at + CELL_HEADER_BYTES > PAGE_BYTES {
                return Err("a slot points outside the cells");
            }
            let key_len = self.u16_at(at);
            let value_len = self.u16_at(at + 2) & usize::from(!OVERFLOW_FLAG);
            let len = CELL_HEADER_BYTES + key_len + value_len;
            if at + len > PAGE_BYTES {
                return Err("a cell extends past the end of the page");
            }
            used += len;
            let key = &self.bytes[at + CELL_HEADER_BYTES..][..key_len];
            if previous.is_some_and(|previous| previous >= key) {
                return Err("the keys of the page are out of order");
            }
            if is_branch && (value_len != 8 || (i == 0) != key.is_empty()) {
                return Err("a cell of the branch is not a separator with a child");
            }
            if slot_head(slot) != head_of(key, prefix_len) {
                return Err("a slot has the head of another key");
            }
            previous = Some(key);
        }
        if used + self.u16_at(AT_GARBAGE) != PAGE_BYTES - heap {
            return Err("the cells do not fill the used part of the page");
        }
        if self.longest_prefix().is_some_and(|longest| prefix_len > longest) {
            return Err("a key of the page lacks the common prefix");
        }
        if is_branch && self.count() == 0 {
            return Err("the branch has no child");
        }
        Ok(())
    }

    /// Makes this an empty page of `kind`.
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

    fn slots(&self) -> &[[u8; SLOT_BYTES]] {
        self.bytes[HEADER_BYTES..][..self.count() * SLOT_BYTES].as_chunks().0
    }

    /// The offset of the cell of slot `i`.
    fn cell_at(&self, i: usize) -> usize {
        slot_cell_at(&self.slots()[i])
    }

    fn put_slot(&mut self, i: usize, cell_at: usize, head: u32) {
        let slot_at = HEADER_BYTES + i * SLOT_BYTES;
        self.put_u16(slot_at, cell_at);
        self.bytes[slot_at + 2..slot_at + SLOT_BYTES].copy_from_slice(&head.to_be_bytes());
    }

    /// The cell at place `i` in the order of keys.
    pub(crate) fn cell(&self, i: usize) -> Cell<'_> {
        let at = self.cell_at(i);
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

    /// The value of the cell at place `i`, for changing some of its bytes.
    pub(crate) fn value_mut(&mut self, i: usize) -> &mut [u8] {
        let at = self.cell_at(i);
        let value_len = self.u16_at(at + 2) & usize::from(!OVERFLOW_FLAG);
        let value_at = at + CELL_HEADER_BYTES + self.u16_at(at);
        &mut self.bytes[value_at..value_at + value_len]
    }

    /// The key of the cell at place `i`.
    fn key(&self, i: usize) -> &[u8] {
        self.key_of(&self.slots()[i])
    }

    fn key_of(&self, slot: &[u8; SLOT_BYTES]) -> &[u8] {
        let at = slot_cell_at(slot);
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

    /// Returns the place of `key`, or where it would be.
    pub(crate) fn search(&self, key: &[u8]) -> Place {
        let slots = self.slots();
        let head = head_of(key, self.prefix_len());
        let low = heads_below(slots, head);
        let has_head = |slot: &[u8; SLOT_BYTES]| slot_head(slot) == head;
        let is_tied = slots.get(low).is_some_and(has_head);
        if is_tied && self.key(low) == key {
            return Ok(low);
        }
        // Heads say nothing about keys without the prefix. Compare the prefix with a cell that was
        // read just now, or that a descent reads next.
        let near = if is_tied { low } else { low.saturating_sub(1) };
        match self.compare_prefix(near, key) {
            Ordering::Less => return Err(self.count()),
            Ordering::Equal if is_tied => {}
            Ordering::Equal => return Err(low),
            Ordering::Greater => return Err(usize::from(self.key(0).is_empty())),
        }
        let ties = slots[low..].partition_point(has_head);
        let found = slots[low..low + ties].binary_search_by(|slot| self.key_of(slot).cmp(key));
        found.map(|i| low + i).map_err(|i| low + i)
    }

    /// Compares the prefix with the corresponding bytes of `key`.
    fn compare_prefix(&self, near: usize, key: &[u8]) -> Ordering {
        let prefix_len = self.prefix_len();
        match self.key_with_bytes(near) {
            Some(other) if prefix_len > 0 => {
                other[..prefix_len].cmp(&key[..key.len().min(prefix_len)])
            }
            _ => Ordering::Equal,
        }
    }

    /// The key at place `near` or, if that is empty or missing, another one. `None` if there is
    /// none.
    fn key_with_bytes(&self, near: usize) -> Option<&[u8]> {
        let last = self.count().checked_sub(1)?;
        let some = |i| Some(self.key(i)).filter(|key| !key.is_empty());
        some(near.min(last)).or_else(|| some(last))
    }

    /// The length of the prefix that all keys but the empty one share, which the heads omit.
    fn prefix_len(&self) -> usize {
        self.u16_at(AT_PREFIX)
    }

    /// The longest possible prefix, if any key has one.
    fn longest_prefix(&self) -> Option<usize> {
        let first = (0..self.count().min(2)).map(|i| self.key(i)).find(|key| !key.is_empty())?;
        Some(common_len(first, self.key(self.count() - 1)))
    }

    /// Changes the length of the prefix, and recomputes all heads.
    fn set_prefix_len(&mut self, prefix_len: usize) {
        self.put_u16(AT_PREFIX, prefix_len);
        for i in 0..self.count() {
            let head = head_of(self.key(i), prefix_len);
            self.put_slot(i, self.cell_at(i), head);
        }
    }

    /// Shortens the prefix to what it shares with `key`, which will be inserted at place `i`.
    fn share_prefix_with(&mut self, key: &[u8], i: usize) {
        if key.is_empty() {
            return;
        }
        let prefix_len = self.prefix_len();
        match self.key_with_bytes(i.saturating_sub(1)) {
            None => self.set_prefix_len(key.len()),
            Some(other) if other.get(..prefix_len) == key.get(..prefix_len) => {}
            Some(other) => {
                let common_len = common_len(other, key);
                self.set_prefix_len(common_len);
            }
        }
    }

    /// The used bytes of the body, slots included.
    pub(crate) fn used_bytes(&self) -> usize {
        let cells = PAGE_BYTES - self.u16_at(AT_HEAP) - self.u16_at(AT_GARBAGE);
        cells + self.count() * SLOT_BYTES
    }

    /// Whether `cell` fits, replacing the one with the same key if there is one.
    pub(crate) fn fits(&self, cell: &Cell<'_>) -> bool {
        self.fits_at(self.search(cell.key), cell)
    }

    /// Whether `cell` fits at the place of its key.
    pub(crate) fn fits_at(&self, place: Place, cell: &Cell<'_>) -> bool {
        let replaced = place.map_or(0, |i| self.cell(i).bytes());
        self.used_bytes() - replaced + cell.bytes() <= BODY_BYTES
    }

    /// Inserts or replaces a cell at the place that a search has found. Returns false if it does
    /// not fit.
    #[must_use]
    pub(crate) fn put_at(&mut self, place: Place, cell: &Cell<'_>) -> bool {
        debug_assert_eq!(place, self.search(cell.key));
        let lengths = cell.lengths();
        if let Ok(i) = place
            && self.cell(i).value.len() == cell.value.len()
        {
            let at = self.cell_at(i);
            self.bytes[at + 2..at + 4].copy_from_slice(&lengths);
            self.value_mut(i).copy_from_slice(cell.value);
            return true;
        }
        if !self.fits_at(place, cell) {
            return false;
        }
        if let Ok(i) = place {
            self.remove_at(i);
        }
        let i = place.unwrap_or_else(|i| i);
        let len = cell.bytes() - SLOT_BYTES;
        let slots_end = HEADER_BYTES + (self.count() + 1) * SLOT_BYTES;
        if slots_end + len > self.u16_at(AT_HEAP) {
            self.compact();
        }
        self.share_prefix_with(cell.key, i);
        let at = self.u16_at(AT_HEAP) - len;
        self.put_u16(at, cell.key.len());
        self.bytes[at + 2..at + 4].copy_from_slice(&lengths);
        let key_at = at + CELL_HEADER_BYTES;
        self.bytes[key_at..key_at + cell.key.len()].copy_from_slice(cell.key);
        self.bytes[key_at + cell.key.len()..at + len].copy_from_slice(cell.value);
        let from = HEADER_BYTES + i * SLOT_BYTES;
        let to = HEADER_BYTES + self.count() * SLOT_BYTES;
        self.bytes.copy_within(from..to, from + SLOT_BYTES);
        self.put_slot(i, at, head_of(cell.key, self.prefix_len()));
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

    /// Moves the cells together, in key order, and makes the prefix as long as possible.
    fn compact(&mut self) {
        let old = self.clone();
        let mut at = PAGE_BYTES;
        self.bytes[HEADER_BYTES + old.count() * SLOT_BYTES..].fill(0);
        for i in 0..old.count() {
            let from = old.cell_at(i);
            let len = old.cell(i).bytes() - SLOT_BYTES;
            at -= len;
            self.bytes[at..at + len].copy_from_slice(&old.bytes[from..from + len]);
            self.put_u16(HEADER_BYTES + i * SLOT_BYTES, at);
        }
        self.put_u16(AT_HEAP, at);
        self.put_u16(AT_GARBAGE, 0);
        self.set_prefix_len(self.longest_prefix().unwrap_or(0));
    }
}

#[cfg(test)]
mod tests;
