//! The entry of one element of a large collection: one block of memory behind a thin pointer.
//!
//! ```text
//!  0        8        9        10
//!  ┌────────┬────────┬────────┬──────┬───────┬──────────────┐
//!  │ record │ name   │ value  │ name │ value │ expiry i64   │
//!  │ addr   │ length │ length │      │       │ (if flagged) │
//!  └────────┴────────┴────────┴──────┴───────┴──────────────┘
//!
//!  8     9            13            17
//!  ┬─────┬────────────┬─────────────┬──                          with a name or a value too long for a byte
//!  │ 255 │ name       │ value       │ name …
//!  │     │ length u32 │ length u32  │
//!  ┴─────┴────────────┴─────────────┴──
//! ```
//!
//! Most names and values are short, and the allocator's sizes are 16 bytes apart: six bytes less are a block of the next smaller
//! size in three of eight cases.
//!
//! A hash field has a name and a value, and may expire; a set member has a name, a sorted-set member
//! has a name and eight bytes of score. The flag is the highest bit of the address: no log reaches a segment
//! that has it.
//!
//! # Invariants
//! - The block was allocated with exactly [`Parts::layout`] of its own header, which never changes.
//! - An [`ElementRef`] is only followed while the table that owns the element holds it; what holds
//!   both (a sorted set) removes the reference before the element. Following one is `unsafe`, so that
//!   each place where it is done says why that holds.
#![expect(unsafe_code, reason = "a thin pointer to a block of variable size has no safe form")]

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::ptr::NonNull;

use base::{RecordAddr, SegmentId};

use crate::table::Keyed;

const LENGTHS_AT: usize = 8;
/// In place of a name's length: the lengths follow in four bytes each.
const LONG: u8 = u8::MAX;
const SHORT_HEAD_BYTES: usize = LENGTHS_AT + 2;
const LONG_HEAD_BYTES: usize = LENGTHS_AT + 1 + 2 * size_of::<u32>();
const EXPIRY_BYTES: usize = 8;
const ALIGN: usize = 8;

/// The bit of the address's word that says that the element expires.
const EXPIRES: u64 = 1 << 63;
const _: () = assert!(SegmentId::MAX.0 <= u32::MAX >> 1, "the bit is free");

/// An owning thin pointer to the block of one element.
pub(crate) struct Element(NonNull<u8>);

// SAFETY: an element owns its block, and shares it with nothing but the sorted set that owns it.
unsafe impl Send for Element {}

/// Where the parts of a block are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Parts {
    name_at: usize,
    name_len: usize,
    value_len: usize,
}

impl Parts {
    fn of(name_len: usize, value_len: usize) -> Self {
        let is_short = name_len < usize::from(LONG) && u8::try_from(value_len).is_ok();
        let name_at = if is_short { SHORT_HEAD_BYTES } else { LONG_HEAD_BYTES };
        Self { name_at, name_len, value_len }
    }

    /// Reads them from a header.
    ///
    /// # Safety
    /// There is the block of an element at `at`.
    unsafe fn at(at: *const u8) -> Self {
        // SAFETY: a block has the short header, and the long one if the first length says so.
        unsafe {
            let lengths = at.add(LENGTHS_AT);
            match lengths.read() {
                LONG => {
                    let lengths = lengths.add(1).cast::<u32>();
                    let name_len = lengths.read_unaligned() as usize;
                    let value_len = lengths.add(1).read_unaligned() as usize;
                    Self { name_at: LONG_HEAD_BYTES, name_len, value_len }
                }
                name_len => {
                    let [name_len, value_len] = [name_len, lengths.add(1).read()].map(usize::from);
                    Self { name_at: SHORT_HEAD_BYTES, name_len, value_len }
                }
            }
        }
    }

    /// Writes the lengths of a header.
    ///
    /// # Panics
    /// When one reaches 4 GiB.
    ///
    /// # Safety
    /// There is a block of this layout at `at`.
    unsafe fn write(self, at: *mut u8) {
        let lengths = [self.name_len, self.value_len];
        // SAFETY: the header is of the block.
        unsafe {
            let at = at.add(LENGTHS_AT);
            if self.name_at == SHORT_HEAD_BYTES {
                let byte = |len| u8::try_from(len).expect("it is short");
                at.cast::<[u8; 2]>().write(lengths.map(byte));
                return;
            }
            let word =
                |len| u32::try_from(len).expect("the protocol bounds an argument below 4 GiB");
            at.write(LONG);
            at.add(1).cast::<[u32; 2]>().write_unaligned(lengths.map(word));
        }
    }

    const fn value_at(self) -> usize {
        self.name_at + self.name_len
    }

    const fn expiry_at(self) -> usize {
        self.value_at() + self.value_len
    }

    fn layout(self, expires: bool) -> Layout {
        let expiry = if expires { EXPIRY_BYTES } else { 0 };
        Layout::from_size_align(self.expiry_at() + expiry, ALIGN)
            .expect("an element is far below the address space")
    }
}

impl Element {
    /// An element that has no record yet and does not expire.
    ///
    /// # Panics
    /// When name or value reach 4 GiB, which the protocol does not let in.
    pub(crate) fn new(name: &[u8], value: &[u8]) -> Self {
        Self::until(name, value, None)
    }

    /// An element that has no record yet and expires then, in Unix milliseconds.
    ///
    /// # Panics
    /// As [`Element::new`].
    pub(crate) fn until(name: &[u8], value: &[u8], expires_at_ms: Option<i64>) -> Self {
        let parts = Parts::of(name.len(), value.len());
        let layout = parts.layout(expires_at_ms.is_some());
        // SAFETY: the layout has the header, so its size is not 0, and room for the expiry, if there is
        // one; all writes are inside it.
        unsafe {
            let block = NonNull::new(alloc(layout)).unwrap_or_else(|| handle_alloc_error(layout));
            let at = block.as_ptr();
            at.cast::<u64>().write(if expires_at_ms.is_some() { EXPIRES } else { 0 });
            parts.write(at);
            at.add(parts.name_at).copy_from_nonoverlapping(name.as_ptr(), name.len());
            at.add(parts.value_at()).copy_from_nonoverlapping(value.as_ptr(), value.len());
            if let Some(expires_at_ms) = expires_at_ms {
                at.add(parts.expiry_at()).cast::<i64>().write_unaligned(expires_at_ms);
            }
            Self(block)
        }
    }

    fn parts(&self) -> Parts {
        // SAFETY: an element owns its block.
        unsafe { Parts::at(self.0.as_ptr()) }
    }

    fn layout(&self) -> Layout {
        self.parts().layout(self.expires())
    }

    fn head_word(&self) -> u64 {
        // SAFETY: every block begins with the word of the address, aligned.
        unsafe { self.0.as_ptr().cast::<u64>().read() }
    }

    fn expires(&self) -> bool {
        self.head_word() & EXPIRES != 0
    }

    /// When the element expires, in Unix milliseconds.
    pub(crate) fn expires_at_ms(&self) -> Option<i64> {
        self.expires().then(|| {
            // SAFETY: the flag says that the expiry follows the value.
            unsafe { self.0.as_ptr().add(self.parts().expiry_at()).cast::<i64>().read_unaligned() }
        })
    }

    /// The bytes of the block.
    pub(crate) fn block_bytes(&self) -> usize {
        self.layout().size()
    }

    /// The element's name: the field, or the member.
    pub(crate) fn name(&self) -> &[u8] {
        let Parts { name_at, name_len, .. } = self.parts();
        // SAFETY: the name lies in the block and lives as long as `self`.
        unsafe { std::slice::from_raw_parts(self.0.as_ptr().add(name_at), name_len) }
    }

    /// The element's value: of a field, or the eight bytes of a score.
    pub(crate) fn value(&self) -> &[u8] {
        let parts = self.parts();
        // SAFETY: the value lies in the block, behind the name, and lives as long as `self`.
        unsafe {
            std::slice::from_raw_parts(self.0.as_ptr().add(parts.value_at()), parts.value_len)
        }
    }

    /// Replaces the value of an element that does not expire; the block moves when the length differs.
    #[inline]
    pub(crate) fn set_value(&mut self, value: &[u8]) {
        self.set(value, None);
    }

    /// Replaces the value, and when it expires; the block moves when the length of the value differs, or
    /// whether it expires.
    #[inline]
    pub(crate) fn set(&mut self, value: &[u8], expires_at_ms: Option<i64>) {
        let parts = self.parts();
        if value.len() == parts.value_len && self.expires() == expires_at_ms.is_some() {
            // SAFETY: the value's bytes are in the block, and so is the expiry if there was one; `self` is
            // borrowed mutably.
            unsafe {
                let at = self.0.as_ptr().add(parts.value_at());
                at.copy_from_nonoverlapping(value.as_ptr(), value.len());
                if let Some(expires_at_ms) = expires_at_ms {
                    at.add(value.len()).cast::<i64>().write_unaligned(expires_at_ms);
                }
            }
        } else {
            let mut moved = Self::until(self.name(), value, expires_at_ms);
            moved.set_addr(self.addr());
            *self = moved;
        }
    }

    /// The address of the record that restores the element.
    pub(crate) fn addr(&self) -> Option<RecordAddr> {
        RecordAddr::from_raw(self.head_word() & !EXPIRES)
    }

    /// Stores the address of the record that restores the element.
    pub(crate) fn set_addr(&mut self, addr: Option<RecordAddr>) {
        let word = RecordAddr::to_raw(addr) | (self.head_word() & EXPIRES);
        // SAFETY: every block begins with the word of the address, aligned.
        unsafe { self.0.as_ptr().cast::<u64>().write(word) }
    }

    /// A second pointer to the block, for an order next to the table that owns the element.
    pub(crate) fn as_ref(&self) -> ElementRef {
        ElementRef(self.0)
    }
}

impl Keyed for Element {
    fn key(&self) -> &[u8] {
        self.name()
    }
}

impl Drop for Element {
    fn drop(&mut self) {
        // SAFETY: the block was allocated with this layout.
        unsafe { dealloc(self.0.as_ptr(), self.layout()) }
    }
}

/// A pointer to an [`Element`] that a table owns. It cannot be copied, so that the order which holds
/// it knows of every one that there is.
pub(crate) struct ElementRef(NonNull<u8>);

// SAFETY: it moves between threads only together with the table that owns the element.
unsafe impl Send for ElementRef {}

impl ElementRef {
    /// The element's name.
    ///
    /// # Safety
    /// As long as the name is used the element must live, and its value must keep its length: a name
    /// lies in the element's block, which moves when the length of the value changes.
    pub(crate) unsafe fn name<'a>(&self) -> &'a [u8] {
        // SAFETY: the block is there, as the caller promises, and begins with its header.
        unsafe {
            let at = self.0.as_ptr();
            let Parts { name_at, name_len, .. } = Parts::at(at);
            std::slice::from_raw_parts(at.add(name_at), name_len)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_element_keeps_its_parts_when_its_value_grows_and_shrinks() {
        let mut element = Element::new(b"field", b"value");
        element.set_addr(Some(RecordAddr::new(SegmentId(1), 2)));
        element.set_value(b"other");
        assert_eq!(element.value(), b"other");
        element.set_value(&[7; 1000]);
        element.set_value(b"");
        assert_eq!((element.name(), element.value()), (&b"field"[..], &b""[..]));
        assert_eq!(element.addr(), Some(RecordAddr::new(SegmentId(1), 2)));
        // SAFETY: the element lives, and does not change.
        assert_eq!(unsafe { element.as_ref().name() }, b"field");
    }
    /// Lengths have a byte each up to 254 and 255, and four each above.
    #[test]
    fn an_element_has_names_and_values_of_any_length() {
        for (name_len, value_len, head_bytes) in
            [(0, 0, 10), (254, 255, 10), (255, 0, 17), (0, 256, 17), (70_000, 80_000, 17)]
        {
            let (name, value) = (vec![b'n'; name_len], vec![b'v'; value_len]);
            let mut element = Element::new(&name, &value);
            assert_eq!(element.block_bytes(), head_bytes + name_len + value_len);
            assert_eq!((element.name(), element.value()), (&*name, &*value));
            element.set(&value, Some(7));
            assert_eq!((element.name(), element.value()), (&*name, &*value));
            assert_eq!(element.expires_at_ms(), Some(7));
            element.set(&[1; 300], None);
            assert_eq!((element.name(), element.value()), (&*name, &[1; 300][..]));
            // SAFETY: the element lives, and does not change.
            assert_eq!(unsafe { element.as_ref().name() }, &*name);
        }
    }

    #[test]
    fn an_expiry_comes_changes_and_goes_and_leaves_the_rest() {
        let mut element = Element::new(b"field", b"value");
        let bytes = element.block_bytes();
        let addr = Some(RecordAddr::new(SegmentId::MAX, u32::MAX));
        element.set_addr(addr);
        for (value, at_ms) in [
            (&b"value"[..], Some(-1)),
            (b"value", Some(i64::MAX)),
            (b"longer value", Some(7)),
            (b"longer value", None),
            (b"value", None),
        ] {
            element.set(value, at_ms);
            assert_eq!((element.value(), element.expires_at_ms()), (value, at_ms));
            assert_eq!((element.name(), element.addr()), (&b"field"[..], addr));
        }
        element.set_addr(None);
        assert_eq!((element.addr(), element.block_bytes()), (None, bytes));
    }
}
