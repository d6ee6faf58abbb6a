//! An order-statistic B+tree: a sequence of weighted items that can be cut anywhere cheaply.
//!
//! Sorted sets keep their members in it (every weight is 1, so that an index is a rank), lists
//! their nodes (the weight is the node's element count, so that a list index finds its node).
//!
//! ```text
//!                 ┌ len, weight of the subtree next to each pointer ┐
//!  inner          [ 64·64 │ 45·45 │ 51·51 ]
//!                     │       │       └──────────────┐
//!  leaves      [ T T T … ]  [ T T … ]            [ T T … ]      items inline, at most 64
//! ```
//!
//! The tree knows no keys: it is ordered by whatever the caller's indexes say, and
//! [`RankTree::partition_point`] searches it with the caller's predicate.
//!
//! **Bounds.** Every call touches one path of nodes and at most one neighbour a level, so its work
//! is O(log n) in the worst case; no call ever moves or reallocates more than a node's 64 entries.
//!
//! **Invariants.** All leaves have one depth. A node holds at most 64 entries and, unless it lies
//! on the left or right edge of the tree, at least half as many. A node on an edge holds at least
//! one: when such a node overflows at its outer end it stays full and its new neighbour starts
//! with the one entry, so that appending (or prepending) in order leaves full nodes behind, and
//! popping at an end never merges. A root that is an inner node has two children or more, and
//! more than 32 entries below them if there are just two; this keeps the depth logarithmic.

mod iter;
mod node;
#[cfg(test)]
mod tests;

use std::ops::Range;

pub use iter::Iter;
use node::{Edges, NODE_MIN, Node, Subtree, descend, merge_with_next, pack, weight_of};

/// An item of a [`RankTree`].
pub trait Weighted {
    /// How many positions the item covers; at least 1, and unchanged while the item is in a tree,
    /// except through [`RankTree::update`].
    fn weight(&self) -> usize;
}

/// A sequence of items, addressed by index and by cumulated weight.
#[derive(Debug)]
pub struct RankTree<T> {
    root: Subtree<T>,
    heap_bytes: usize,
}

impl<T> Default for RankTree<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> RankTree<T> {
    /// An empty sequence; allocates nothing.
    #[must_use]
    pub const fn new() -> Self {
        Self { root: Subtree { len: 0, weight: 0, node: Node::Leaf(Vec::new()) }, heap_bytes: 0 }
    }

    /// How many items there are.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.root.len
    }

    /// The sum of all items' weights.
    #[must_use]
    pub const fn weight(&self) -> usize {
        self.root.weight
    }

    /// Whether there are no items.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.root.len == 0
    }

    /// Bytes that the nodes occupy on the heap, without what the items own. Costs nothing to ask.
    #[must_use]
    pub const fn allocated_bytes(&self) -> usize {
        self.heap_bytes
    }

    /// The item at `index`.
    #[must_use]
    pub fn get(&self, index: usize) -> Option<&T> {
        if index >= self.root.len {
            return None;
        }
        let (leaf, within) = self.leaf_at(index);
        leaf.get(within)
    }

    /// The first item.
    #[must_use]
    pub fn first(&self) -> Option<&T> {
        self.get(0)
    }

    /// The last item.
    #[must_use]
    pub fn last(&self) -> Option<&T> {
        self.get(self.root.len.checked_sub(1)?)
    }

    /// The index of the first item for which `holds` is false, or `len()`. All items for which it
    /// is true must come before all others. Compares O(log n) items.
    pub fn partition_point(&self, mut holds: impl FnMut(&T) -> bool) -> usize {
        let mut subtree = &self.root;
        let mut before = 0;
        loop {
            match &subtree.node {
                Node::Leaf(items) => return before + items.partition_point(holds),
                Node::Inner(children) => {
                    // The first child of whose successor the first item does not hold.
                    let at = children[1..].partition_point(|child| holds(child.first_item()));
                    before += children[..at].iter().map(|child| child.len).sum::<usize>();
                    subtree = &children[at];
                }
            }
        }
    }

    /// All items in order.
    #[must_use]
    pub fn iter(&self) -> Iter<'_, T> {
        self.range(0..self.root.len)
    }

    /// The items from `index` on, forwards. Past the end there are none.
    #[must_use]
    pub fn iter_from(&self, index: usize) -> Iter<'_, T> {
        self.range(index..self.root.len)
    }

    /// The items from `index` down to the first, backwards. Past the end it starts at the last.
    pub fn iter_from_back(&self, index: usize) -> std::iter::Rev<Iter<'_, T>> {
        self.range(0..index.saturating_add(1)).rev()
    }

    /// The items with these indexes, from both ends; clamped to what there is.
    #[must_use]
    pub fn range(&self, range: Range<usize>) -> Iter<'_, T> {
        let end = range.end.min(self.root.len);
        let start = range.start.min(end);
        Iter::new(self, start..end)
    }

    /// The leaf that holds the item at `index`, which must exist, and the item's place in it.
    fn leaf_at(&self, index: usize) -> (&[T], usize) {
        let mut subtree = &self.root;
        let mut within = index;
        loop {
            match &subtree.node {
                Node::Leaf(items) => return (items, within),
                Node::Inner(children) => {
                    let at = descend(children, &mut within);
                    subtree = &children[at];
                }
            }
        }
    }
}

impl<T: Weighted> RankTree<T> {
    /// Puts `item` before the one that is at `index` now; `len()` appends.
    ///
    /// # Panics
    /// If `index` is past the end.
    pub fn insert(&mut self, index: usize, item: T) {
        assert!(index <= self.root.len, "insertion past the end of a rank tree");
        let Some(right) = self.root.insert(index, item, Edges::ROOT, &mut self.heap_bytes) else {
            return;
        };
        let left = std::mem::replace(&mut self.root, Subtree::of(Node::Leaf(Vec::new())));
        self.root = Subtree::of(Node::Inner(vec![left, right]));
        self.heap_bytes += self.root.own_bytes();
    }

    /// Appends `item`.
    pub fn push_back(&mut self, item: T) {
        self.insert(self.root.len, item);
    }

    /// Puts `item` before all others.
    pub fn push_front(&mut self, item: T) {
        self.insert(0, item);
    }

    /// Takes out the item at `index`.
    ///
    /// # Panics
    /// If there is none.
    pub fn remove(&mut self, index: usize) -> T {
        assert!(index < self.root.len, "removal past the end of a rank tree");
        let item = self.root.remove(index, Edges::ROOT, &mut self.heap_bytes);
        self.lower_root();
        item
    }

    /// Takes out the first item.
    pub fn pop_front(&mut self) -> Option<T> {
        (!self.is_empty()).then(|| self.remove(0))
    }

    /// Takes out the last item. Freeing a large tree in slices is calling this in a loop.
    pub fn pop_back(&mut self) -> Option<T> {
        (!self.is_empty()).then(|| self.remove(self.root.len - 1))
    }

    /// Lets `change` alter the item at `index`, its weight included.
    ///
    /// # Panics
    /// If there is none.
    pub fn update<R>(&mut self, index: usize, change: impl FnOnce(&mut T) -> R) -> R {
        assert!(index < self.root.len, "update past the end of a rank tree");
        self.root.update(index, change).0
    }

    /// The index of the item that covers `position`, counted by weight, and the offset in it.
    #[must_use]
    pub fn find(&self, position: usize) -> Option<(usize, usize)> {
        if position >= self.root.weight {
            return None;
        }
        let mut subtree = &self.root;
        let (mut index, mut rest) = (0, position);
        loop {
            match &subtree.node {
                Node::Inner(children) => {
                    let mut children = children.iter();
                    subtree = children.next().expect("an inner node has children");
                    while rest >= subtree.weight {
                        rest -= subtree.weight;
                        index += subtree.len;
                        subtree = children.next().expect("a parent's weight is its children's");
                    }
                }
                Node::Leaf(items) => {
                    for item in items {
                        if rest < item.weight() {
                            return Some((index, rest));
                        }
                        rest -= item.weight();
                        index += 1;
                    }
                    return None;
                }
            }
        }
    }

    /// The weight of all items before `index`; of all items if `index` is past the end.
    #[must_use]
    pub fn weight_before(&self, index: usize) -> usize {
        if index >= self.root.len {
            return self.root.weight;
        }
        let mut subtree = &self.root;
        let (mut weight, mut within) = (0, index);
        loop {
            match &subtree.node {
                Node::Leaf(items) => return weight + weight_of(&items[..within]),
                Node::Inner(children) => {
                    let at = descend(children, &mut within);
                    weight += children[..at].iter().map(|child| child.weight).sum::<usize>();
                    subtree = &children[at];
                }
            }
        }
    }

    /// Restores the root's invariants after a removal.
    fn lower_root(&mut self) {
        while let Node::Inner(children) = &mut self.root.node {
            if let [left, right] = children.as_slice()
                && left.entry_count() + right.entry_count() <= NODE_MIN
            {
                let before = left.own_bytes() + right.own_bytes();
                merge_with_next(children, 0);
                self.heap_bytes = self.heap_bytes + children[0].own_bytes() - before;
            }
            if children.len() > 1 {
                return;
            }
            let only = children.pop().unwrap_or_else(|| Subtree::of(Node::Leaf(Vec::new())));
            self.heap_bytes -= self.root.own_bytes();
            self.root = only;
        }
    }
}

/// Builds packed nodes from the bottom, without searching: O(n) in all.
impl<T: Weighted> FromIterator<T> for RankTree<T> {
    fn from_iter<I: IntoIterator<Item = T>>(items: I) -> Self {
        let mut level = pack(items.into_iter(), Node::Leaf);
        let mut heap_bytes = level.iter().map(Subtree::own_bytes).sum::<usize>();
        while level.len() > 1 {
            level = pack(level.into_iter(), Node::Inner);
            heap_bytes += level.iter().map(Subtree::own_bytes).sum::<usize>();
        }
        level.pop().map_or_else(Self::new, |root| Self { root, heap_bytes })
    }
}

/// Appends in order; leaves full nodes behind.
impl<T: Weighted> Extend<T> for RankTree<T> {
    fn extend<I: IntoIterator<Item = T>>(&mut self, items: I) {
        for item in items {
            self.push_back(item);
        }
    }
}

impl<'a, T> IntoIterator for &'a RankTree<T> {
    type Item = &'a T;
    type IntoIter = Iter<'a, T>;

    fn into_iter(self) -> Iter<'a, T> {
        self.iter()
    }
}
