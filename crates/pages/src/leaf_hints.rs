//! Remembers which leaves recent keys were in, so that a get followed by a put, or a walk from key
//! to key, need not descend again.
//!
//! ```text
//!   key      ─► leaf          a hint: good if the key is between two keys of that leaf,
//!   root     ─► last leaf              or behind the last one and below the end of the leaf
//!   leaf     ─► its end: no key of it is above; the leaf that is next
//! ```
//!
//! A hint is valid only while the page's shape is unchanged ([`crate::pool::Pool::shape`]): the
//! keys that a leaf may hold change when it is split, merged or rebuilt, and never otherwise. Any
//! hint may be forgotten at any time. Each entry has its own lock because many readers use them
//! concurrently.

use std::sync::{Mutex, MutexGuard};

use crate::position::PageId;

/// Remembered paths from a root to a leaf.
const HINTS: usize = 1024;
/// Remembered ends of leaves.
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
    /// Every key of the leaf is below this; `None` at the end of the tree.
    pub(crate) high: Option<Vec<u8>>,
    /// The leaf with the keys from `high` on, and that leaf's shape.
    pub(crate) next: Option<(PageId, u64)>,
}

/// The hints of a store.
pub(crate) struct LeafHints {
    hints: Vec<Mutex<Hint>>,
    ends: Vec<Mutex<LeafEnd>>,
}

/// Deterministic across runs, because the hints decide what is evicted.
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

fn locked<T>(entry: &Mutex<T>) -> MutexGuard<'_, T> {
    entry.lock().expect("nothing panics while it holds an entry")
}

impl Default for LeafHints {
    fn default() -> Self {
        let none = Hint { root: PageId::META, hash: 0, shape: 0, leaf: PageId::META };
        // The meta page is no leaf, so no lookup asks for its end.
        let no_end = LeafEnd { leaf: PageId::META, shape: 0, high: None, next: None };
        Self {
            hints: (0..HINTS).map(|_| Mutex::new(none)).collect(),
            ends: (0..ENDS).map(|_| Mutex::new(no_end.clone())).collect(),
        }
    }
}

impl LeafHints {
    /// The leaf in which the key with this hash was found, and its shape at that time.
    pub(crate) fn get(&self, root: PageId, hash: u64) -> Option<(PageId, u64)> {
        let hint = *locked(&self.hints[slot(hash, HINTS)]);
        let is_it = hint.root == root && hint.hash == hash;
        is_it.then_some((hint.leaf, hint.shape))
    }

    pub(crate) fn set(&self, root: PageId, hash: u64, leaf: PageId, shape: u64) {
        *locked(&self.hints[slot(hash, HINTS)]) = Hint { root, hash, shape, leaf };
    }

    /// The entry for the end of a leaf, if it is for this shape.
    fn end(&self, leaf: PageId, shape: u64) -> Option<MutexGuard<'_, LeafEnd>> {
        let end = locked(&self.ends[slot(leaf.0, ENDS)]);
        (end.leaf == leaf && end.shape == shape).then_some(end)
    }

    /// The leaf after one of this shape, and its own shape, if known.
    pub(crate) fn next(&self, leaf: PageId, shape: u64) -> Option<(PageId, u64)> {
        self.end(leaf, shape)?.next
    }

    pub(crate) fn set_end(&self, end: LeafEnd) {
        let slot = slot(end.leaf.0, ENDS);
        *locked(&self.ends[slot]) = end;
    }

    /// Whether a key above all keys of a leaf of this shape certainly belongs in that leaf.
    pub(crate) fn is_before_end(&self, leaf: PageId, shape: u64, key: &[u8]) -> bool {
        let end = self.end(leaf, shape);
        end.is_some_and(|end| end.high.as_deref().is_none_or(|high| key < high))
    }
}
