//! The entry of one element of a large collection: one block of memory behind a thin pointer.
//!
//! ```text
//!  0        8            12            16
//!  ┌────────┬────────────┬─────────────┬──────┬───────┬──────────────┐
//!  │ record │ name       │ value       │ name │ value │ expiry i64   │
//!  │ addr   │ length u32 │ length u32  │      │       │ (if flagged) │
//!  └────────┴────────────┴─────────────┴──────┴───────┴──────────────┘
//! ```
//!
//! A hash field has a name and a value, and may expire; a set member has a name, a sorted-set member
//! has a name and eight bytes of score. The flag is the highest bit of the address: no log reaches a segment
//! that has it.
//!
//! # Invariants
//! - The block was allocated with exactly [`Element::layout`] of its own header.
//! - An [`ElementRef`] is only followed while the table that owns the element holds it; what holds
//!   both (a sorted set) removes the reference before the element. Following one is `unsafe`, so that
//!   each place where it is done says why that holds.
#![expect(unsafe_code, reason = "a thin pointer to a block of variable size has no safe form")]

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::ptr::NonNull;

use base::{RecordAddr, SegmentId};

use crate::table::Keyed;

const NAME_LEN_AT: usize = 8;
const VALUE_LEN_AT: usize = 12;
const HEAD_BYTES: usize = 16;
const EXPIRY_BYTES: usize = 8;
const ALIGN: usize = 8;

/// The bit of the address's word that says that the element expires.
const EXPIRES: u64 = 1 << 63;
const _: () = assert!(SegmentId::MAX.0 <= u32::MAX >> 1, "the bit is free");

/// An owning thin pointer to the block of one element.
pub(crate) struct Element(NonNull<u8>);

// SAFETY: an element owns its block, and shares it with nothing but the sorted set that owns it.
unsafe impl Send for Element {}

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
        let layout = Self::layout_of(name.len(), value.len(), expires_at_ms.is_some());
        let lens = [name.len(), value.len()]
            .map(|len| u32::try_from(len).expect("the protocol bounds an argument below 4 GiB"));
        // SAFETY: the layout has the header, so its size is not 0, and room for the expiry, if there is
        // one; all writes are inside it.
        unsafe {
            let block = NonNull::new(alloc(layout)).unwrap_or_else(|| handle_alloc_error(layout));
            let at = block.as_ptr();
            at.cast::<u64>().write(if expires_at_ms.is_some() { EXPIRES } else { 0 });
            at.add(NAME_LEN_AT).cast::<u32>().write(lens[0]);
            at.add(VALUE_LEN_AT).cast::<u32>().write(lens[1]);
            at.add(HEAD_BYTES).copy_from_nonoverlapping(name.as_ptr(), name.len());
            let end = at.add(HEAD_BYTES + name.len());
            end.copy_from_nonoverlapping(value.as_ptr(), value.len());
            if let Some(expires_at_ms) = expires_at_ms {
                end.add(value.len()).cast::<i64>().write_unaligned(expires_at_ms);
            }
            Self(block)
        }
    }

    fn layout_of(name_len: usize, value_len: usize, expires: bool) -> Layout {
        let expiry = if expires { EXPIRY_BYTES } else { 0 };
        Layout::from_size_align(HEAD_BYTES + name_len + value_len + expiry, ALIGN)
            .expect("an element is far below the address space")
    }

    fn layout(&self) -> Layout {
        let lens = (self.len_at(NAME_LEN_AT), self.len_at(VALUE_LEN_AT));
        Self::layout_of(lens.0, lens.1, self.expires())
    }

    fn head_word(&self) -> u64 {
        // SAFETY: every block begins with the word of the address, aligned.
        unsafe { self.0.as_ptr().cast::<u64>().read() }
    }

    fn expires(&self) -> bool {
        self.head_word() & EXPIRES != 0
    }

    fn expiry_at(&self) -> usize {
        HEAD_BYTES + self.len_at(NAME_LEN_AT) + self.len_at(VALUE_LEN_AT)
    }

    /// When the element expires, in Unix milliseconds.
    pub(crate) fn expires_at_ms(&self) -> Option<i64> {
        self.expires().then(|| {
            // SAFETY: the flag says that the expiry follows the value.
            unsafe { self.0.as_ptr().add(self.expiry_at()).cast::<i64>().read_unaligned() }
        })
    }

    fn len_at(&self, at: usize) -> usize {
        // SAFETY: `at` is a header offset; every block has the header, aligned.
        unsafe { self.0.as_ptr().add(at).cast::<u32>().read() as usize }
    }

    /// The bytes of the block.
    pub(crate) fn block_bytes(&self) -> usize {
        self.layout().size()
    }

    /// The element's name: the field, or the member.
    pub(crate) fn name(&self) -> &[u8] {
        // SAFETY: the name lies in the block and lives as long as `self`.
        unsafe {
            std::slice::from_raw_parts(self.0.as_ptr().add(HEAD_BYTES), self.len_at(NAME_LEN_AT))
        }
    }

    /// The element's value: of a field, or the eight bytes of a score.
    pub(crate) fn value(&self) -> &[u8] {
        let at = HEAD_BYTES + self.len_at(NAME_LEN_AT);
        // SAFETY: the value lies in the block, behind the name, and lives as long as `self`.
        unsafe { std::slice::from_raw_parts(self.0.as_ptr().add(at), self.len_at(VALUE_LEN_AT)) }
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
        if value.len() == self.len_at(VALUE_LEN_AT) && self.expires() == expires_at_ms.is_some() {
            let at = HEAD_BYTES + self.len_at(NAME_LEN_AT);
            // SAFETY: the value's bytes are in the block, and so is the expiry if there was one; `self` is
            // borrowed mutably.
            unsafe {
                let at = self.0.as_ptr().add(at);
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
        // SAFETY: the block is there, as the caller promises, and begins with its lengths.
        unsafe {
            let at = self.0.as_ptr();
            let len = at.add(NAME_LEN_AT).cast::<u32>().read() as usize;
            std::slice::from_raw_parts(at.add(HEAD_BYTES), len)
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
