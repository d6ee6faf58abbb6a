//! In which leaves keys were found lately, so that who gets a key and then writes it, or goes from
//! one key to the next, need not descend again.
//!
//! ```text
//!   key      ─► leaf          a hint: good if the key is between two keys of that leaf,
//!   root     ─► last leaf              or behind the last one and below the end of the leaf
//!   leaf     ─► its end: no key of it is above; the leaf that is next
//! ```
//!
//! All of it is good only as long as the page's shape is the same ([`crate::pool::Pool::shape`]):
//! what a leaf may hold changes when it is split, merged or made anew, and never otherwise. It may
//! be forgotten at any time.

use crate::page::{Kind, Page, Place};
use crate::position::PageId;

/// Ways down that are remembered.
const HINTS: usize = 1024;
/// Ends of leaves that are remembered.
const ENDS: usize = 512;

#[derive(Clone, Copy)]
struct Hint {
    root: PageId,
    hash: u64,
    shape: u64,
    leaf: PageId,
}

/// Where a leaf ends.
#[derive(Clone)]
pub(crate) struct LeafEnd {
    pub(crate) leaf: PageId,
    pub(crate) shape: u64,
    /// Every key of the leaf is below this; none is the end of the tree.
    pub(crate) high: Option<Vec<u8>>,
    /// The leaf with the keys from `high` on, and its shape.
    pub(crate) next: Option<(PageId, u64)>,
}

/// What is remembered.
pub(crate) struct LeafHints {
    hints: Vec<Hint>,
    ends: Vec<LeafEnd>,
}

/// The same in every run, as what is evicted depends on it.
pub(crate) fn hash(of: PageId, key: &[u8]) -> u64 {
    const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
    let mut hash = of.0.wrapping_mul(FACTOR);
    for part in key.chunks(8) {
        let mut word = [0; 8];
        word[..part.len()].copy_from_slice(part);
        hash = (hash ^ u64::from_le_bytes(word)).wrapping_mul(FACTOR);
        hash ^= hash >> 32;
    }
    hash
}

#[expect(clippy::cast_possible_truncation, reason = "any bits will do")]
fn slot(of: u64, slots: usize) -> usize {
    of as usize % slots
}

impl Default for LeafHints {
    fn default() -> Self {
        let none = Hint { root: PageId::META, hash: 0, shape: 0, leaf: PageId::META };
        // The meta page is no leaf: nobody asks for its end.
        let no_end = LeafEnd { leaf: PageId::META, shape: 0, high: None, next: None };
        Self { hints: vec![none; HINTS], ends: vec![no_end; ENDS] }
    }
}

impl LeafHints {
    /// The leaf that the key of this hash was found in, and the shape that it had then.
    pub(crate) fn get(&self, root: PageId, hash: u64) -> Option<(PageId, u64)> {
        let hint = self.hints[slot(hash, HINTS)];
        let is_it = hint.root == root && hint.hash == hash;
        is_it.then_some((hint.leaf, hint.shape))
    }

    pub(crate) fn set(&mut self, root: PageId, hash: u64, leaf: PageId, shape: u64) {
        self.hints[slot(hash, HINTS)] = Hint { root, hash, shape, leaf };
    }

    /// The end of a leaf of this shape.
    pub(crate) fn end(&self, leaf: PageId, shape: u64) -> Option<&LeafEnd> {
        let end = &self.ends[slot(leaf.0, ENDS)];
        (end.leaf == leaf && end.shape == shape).then_some(end)
    }

    pub(crate) fn set_end(&mut self, end: LeafEnd) {
        let slot = slot(end.leaf.0, ENDS);
        self.ends[slot] = end;
    }

    /// Where `key` is in a leaf of this shape, or would be, if that leaves no doubt.
    pub(crate) fn place_inside(
        &self,
        leaf: PageId,
        shape: u64,
        page: &Page,
        key: &[u8],
    ) -> Option<Place> {
        if page.kind() != Some(Kind::Leaf) {
            return None;
        }
        let place = page.search(key);
        let is_inside = match place {
            Ok(_) => true,
            Err(0) => false,
            Err(i) if i < page.count() => true,
            Err(_) => self
                .end(leaf, shape)
                .is_some_and(|end| end.high.as_deref().is_none_or(|high| key < high)),
        };
        is_inside.then_some(place)
    }
}
