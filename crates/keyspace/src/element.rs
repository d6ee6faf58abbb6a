//! The entry of one element of a large collection: one block of memory behind a thin pointer.
//!
//! ```text
//!  0        8            12            16
//!  ┌────────┬────────────┬─────────────┬──────┬───────┐
//!  │ record │ name       │ value       │ name │ value │
//!  │ addr   │ length u32 │ length u32  │      │       │
//!  └────────┴────────────┴─────────────┴──────┴───────┘
//! ```
//!
//! A hash field has a name and a value, a set member has a name, a sorted-set member has a name
//! and eight bytes of score.
//!
//! # Invariants
//! - The block was allocated with exactly [`Element::layout`] of its own header.
//! - An [`ElementRef`] is only followed while the table that owns the element holds it; what holds
//!   both (a sorted set) removes the reference before the element. Following one is `unsafe`, so that
//!   each place where it is done says why that holds.
#![expect(unsafe_code, reason = "a thin pointer to a block of variable size has no safe form")]

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::ptr::NonNull;

use base::RecordAddr;

use crate::table::Keyed;

const NAME_LEN_AT: usize = 8;
const VALUE_LEN_AT: usize = 12;
const HEAD_BYTES: usize = 16;
const ALIGN: usize = 8;

/// An owning thin pointer to the block of one element.
pub(crate) struct Element(NonNull<u8>);

// SAFETY: an element owns its block, and shares it with nothing but the sorted set that owns it.
unsafe impl Send for Element {}

impl Element {
    /// An element that has no record yet.
    ///
    /// # Panics
    /// When name or value reach 4 GiB, which the protocol does not let in.
    pub(crate) fn new(name: &[u8], value: &[u8]) -> Self {
        let layout = Self::layout_of(name.len(), value.len());
        let lens = [name.len(), value.len()]
            .map(|len| u32::try_from(len).expect("the protocol bounds an argument below 4 GiB"));
        // SAFETY: the layout has the header, so its size is not 0; all writes are inside it.
        unsafe {
            let block = NonNull::new(alloc(layout)).unwrap_or_else(|| handle_alloc_error(layout));
            let at = block.as_ptr();
            at.cast::<u64>().write(0);
            at.add(NAME_LEN_AT).cast::<u32>().write(lens[0]);
            at.add(VALUE_LEN_AT).cast::<u32>().write(lens[1]);
            at.add(HEAD_BYTES).copy_from_nonoverlapping(name.as_ptr(), name.len());
            at.add(HEAD_BYTES + name.len()).copy_from_nonoverlapping(value.as_ptr(), value.len());
            Self(block)
        }
    }

    fn layout_of(name_len: usize, value_len: usize) -> Layout {
        Layout::from_size_align(HEAD_BYTES + name_len + value_len, ALIGN)
            .expect("an element is far below the address space")
    }

    fn layout(&self) -> Layout {
        Self::layout_of(self.len_at(NAME_LEN_AT), self.len_at(VALUE_LEN_AT))
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

    /// Replaces the value; the block moves when the length differs.
    #[inline]
    pub(crate) fn set_value(&mut self, value: &[u8]) {
        if value.len() == self.len_at(VALUE_LEN_AT) {
            let at = HEAD_BYTES + self.len_at(NAME_LEN_AT);
            // SAFETY: the value's bytes are in the block and `self` is borrowed mutably.
            unsafe {
                self.0.as_ptr().add(at).copy_from_nonoverlapping(value.as_ptr(), value.len());
            }
        } else {
            let mut moved = Self::new(self.name(), value);
            moved.set_addr(self.addr());
            *self = moved;
        }
    }

    /// The address of the record that restores the element.
    pub(crate) fn addr(&self) -> Option<RecordAddr> {
        // SAFETY: every block begins with the address, aligned.
        RecordAddr::from_raw(unsafe { self.0.as_ptr().cast::<u64>().read() })
    }

    /// Stores the address of the record that restores the element.
    pub(crate) fn set_addr(&mut self, addr: Option<RecordAddr>) {
        // SAFETY: every block begins with the address, aligned.
        unsafe { self.0.as_ptr().cast::<u64>().write(RecordAddr::to_raw(addr)) }
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
    use base::SegmentId;

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
}
