//! An order-statistic B+tree: a sequence of weighted items that can be cut anywhere cheaply.
//!
//! Sorted sets keep their members in it (every weight is 1, so that an index is a rank), lists
//! their nodes (the weight is the node's element count, so that a list index finds its node).
//!
//! ```text
//!                 ┌ len, weight of the subtree beside each pointer ┐
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

use std::ops::Range;

/// Most entries of a node: items of a leaf, children of an inner node.
const NODE_MAX: usize = 64;
/// Fewest entries of a node that is not on an edge of the tree.
const NODE_MIN: usize = NODE_MAX / 2;
/// How much spare capacity a large node grows by.
const GROWTH: usize = 16;

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

/// A node and what its parent keeps beside the pointer to it.
#[derive(Debug)]
struct Subtree<T> {
    len: usize,
    weight: usize,
    node: Node<T>,
}

#[derive(Debug)]
enum Node<T> {
    Leaf(Vec<T>),
    Inner(Vec<Subtree<T>>),
}

/// Whether a node lies on the left or right edge of the tree.
#[derive(Clone, Copy)]
struct Edges {
    left: bool,
    right: bool,
}

impl Edges {
    const ROOT: Self = Self { left: true, right: true };

    fn of_child(self, at: usize, child_count: usize) -> Self {
        Self { left: self.left && at == 0, right: self.right && at + 1 == child_count }
    }

    fn none(self) -> bool {
        !self.left && !self.right
    }
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
        Iter { tree: self, unread: start..end, front: [].iter(), back: [].iter() }
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

impl<T> Subtree<T> {
    fn entry_count(&self) -> usize {
        match &self.node {
            Node::Leaf(items) => items.len(),
            Node::Inner(children) => children.len(),
        }
    }

    /// The heap bytes of the node itself, without those of its children.
    fn own_bytes(&self) -> usize {
        match &self.node {
            Node::Leaf(items) => items.capacity() * size_of::<T>(),
            Node::Inner(children) => children.capacity() * size_of::<Self>(),
        }
    }

    fn first_item(&self) -> &T {
        let mut subtree = self;
        loop {
            match &subtree.node {
                Node::Leaf(items) => return &items[0],
                Node::Inner(children) => subtree = &children[0],
            }
        }
    }
}

impl<T: Weighted> Subtree<T> {
    fn of(node: Node<T>) -> Self {
        let mut subtree = Self { len: 0, weight: 0, node };
        subtree.recount();
        subtree
    }

    fn recount(&mut self) {
        (self.len, self.weight) = match &self.node {
            Node::Leaf(items) => (items.len(), weight_of(items)),
            Node::Inner(children) => children
                .iter()
                .fold((0, 0), |(len, weight), child| (len + child.len, weight + child.weight)),
        };
    }

    /// Inserts, and gives back the right part if the node had to be split.
    fn insert(
        &mut self,
        index: usize,
        item: T,
        edges: Edges,
        heap_bytes: &mut usize,
    ) -> Option<Self> {
        self.len += 1;
        self.weight += item.weight();
        let before = self.own_bytes();
        let right = match &mut self.node {
            Node::Leaf(items) => insert_entry(items, index, item, edges, 0).map(Node::Leaf),
            Node::Inner(children) => {
                let mut within = index;
                let at = descend_to_insert(children, &mut within);
                let child_edges = edges.of_child(at, children.len());
                let split = children[at].insert(within, item, child_edges, heap_bytes)?;
                insert_entry(children, at + 1, split, edges, 1).map(Node::Inner)
            }
        };
        let right = right.map(Self::of);
        if right.is_some() {
            self.recount();
        }
        let right_bytes = right.as_ref().map_or(0, Self::own_bytes);
        *heap_bytes = *heap_bytes + self.own_bytes() + right_bytes - before;
        right
    }

    fn remove(&mut self, index: usize, edges: Edges, heap_bytes: &mut usize) -> T {
        let item = match &mut self.node {
            Node::Leaf(items) => {
                let before = items.capacity();
                let item = items.remove(index);
                if items.capacity() - items.len() > NODE_MIN {
                    items.shrink_to(items.len() + GROWTH);
                }
                *heap_bytes -= (before - items.capacity()) * size_of::<T>();
                item
            }
            Node::Inner(children) => {
                let mut within = index;
                let at = descend(children, &mut within);
                let child_edges = edges.of_child(at, children.len());
                let item = children[at].remove(within, child_edges, heap_bytes);
                repair(children, at, child_edges, heap_bytes);
                item
            }
        };
        self.len -= 1;
        self.weight -= item.weight();
        item
    }

    /// Applies `change`; also gives the item's weight before and after it.
    fn update<R>(&mut self, index: usize, change: impl FnOnce(&mut T) -> R) -> (R, usize, usize) {
        let (answer, before, after) = match &mut self.node {
            Node::Leaf(items) => {
                let before = items[index].weight();
                let answer = change(&mut items[index]);
                (answer, before, items[index].weight())
            }
            Node::Inner(children) => {
                let mut within = index;
                let at = descend(children, &mut within);
                children[at].update(within, change)
            }
        };
        self.weight = self.weight + after - before;
        (answer, before, after)
    }
}

fn weight_of<T: Weighted>(items: &[T]) -> usize {
    items.iter().map(Weighted::weight).sum()
}

/// The child that holds the item at `within`, which becomes relative to that child.
fn descend<T>(children: &[Subtree<T>], within: &mut usize) -> usize {
    let mut at = 0;
    while *within >= children[at].len {
        *within -= children[at].len;
        at += 1;
    }
    at
}

/// The child to insert into so that the item gets index `within`; between two children, the left.
fn descend_to_insert<T>(children: &[Subtree<T>], within: &mut usize) -> usize {
    let mut at = 0;
    while *within > children[at].len {
        *within -= children[at].len;
        at += 1;
    }
    at
}

/// Inserts into a node's entries, and gives back the right part if that splits the node.
///
/// `leftmost` is the place at which an insertion counts as one at the node's left end: 0 for
/// items; 1 for children, whose new entry is always the right half of a split child.
fn insert_entry<E>(
    entries: &mut Vec<E>,
    at: usize,
    entry: E,
    edges: Edges,
    leftmost: usize,
) -> Option<Vec<E>> {
    if entries.len() < NODE_MAX {
        reserve_one(entries);
        entries.insert(at, entry);
        return None;
    }
    if edges.right && at == entries.len() {
        return Some(vec![entry]);
    }
    if edges.left && at == leftmost {
        let left: Vec<E> = entries.drain(..leftmost).collect();
        let mut right = std::mem::replace(entries, left);
        if leftmost == 0 {
            entries.push(entry);
        } else {
            right.insert(0, entry);
        }
        return Some(right);
    }
    let mut right = entries.split_off(NODE_MIN);
    entries.shrink_to(NODE_MIN + GROWTH);
    if at <= NODE_MIN {
        entries.insert(at, entry);
    } else {
        reserve_one(&mut right);
        right.insert(at - NODE_MIN, entry);
    }
    Some(right)
}

/// Makes room for one more: by doubling while small, then in steps, so that no more than a step
/// of a large node is empty capacity.
fn reserve_one<E>(entries: &mut Vec<E>) {
    if entries.len() == entries.capacity() {
        entries.reserve_exact(entries.len().clamp(4, GROWTH).min(NODE_MAX - entries.len()));
    }
}

/// Restores the invariants of the child at `at` after a removal in it.
fn repair<T: Weighted>(
    children: &mut Vec<Subtree<T>>,
    at: usize,
    child_edges: Edges,
    heap_bytes: &mut usize,
) {
    if children[at].len == 0 {
        *heap_bytes -= children.remove(at).own_bytes();
    } else if child_edges.none() && children[at].entry_count() < NODE_MIN {
        // A node off the edges has a neighbour: its parent is at least half full, or on an edge
        // itself and then its outermost child is as well.
        let left = at.saturating_sub(1);
        let bytes = |pair: &[Subtree<T>]| pair.iter().map(Subtree::own_bytes).sum::<usize>();
        let before = bytes(&children[left..=left + 1]);
        if children[left].entry_count() + children[left + 1].entry_count() <= NODE_MAX {
            merge_with_next(children, left);
            *heap_bytes = *heap_bytes + children[left].own_bytes() - before;
        } else {
            let (head, tail) = children.split_at_mut(left + 1);
            balance(&mut head[left], &mut tail[0]);
            *heap_bytes = *heap_bytes + bytes(&children[left..=left + 1]) - before;
        }
    }
}

/// Moves everything of the child after `at` to the child at `at`.
fn merge_with_next<T>(children: &mut Vec<Subtree<T>>, at: usize) {
    fn append<E>(left: &mut Vec<E>, mut right: Vec<E>) {
        left.reserve_exact(right.len());
        left.append(&mut right);
    }
    let right = children.remove(at + 1);
    let left = &mut children[at];
    left.len += right.len;
    left.weight += right.weight;
    match (&mut left.node, right.node) {
        (Node::Leaf(left), Node::Leaf(right)) => append(left, right),
        (Node::Inner(left), Node::Inner(right)) => append(left, right),
        _ => unreachable!("all leaves have one depth"),
    }
}

/// Shares the entries of two neighbours evenly.
fn balance<T: Weighted>(left: &mut Subtree<T>, right: &mut Subtree<T>) {
    fn share<E>(left: &mut Vec<E>, right: &mut Vec<E>) {
        let half = (left.len() + right.len()) / 2;
        if left.len() > half {
            right.reserve_exact(left.len() - half);
            right.splice(0..0, left.drain(half..));
        } else {
            let moved = half - left.len();
            left.reserve_exact(moved);
            left.extend(right.drain(..moved));
        }
    }
    match (&mut left.node, &mut right.node) {
        (Node::Leaf(left), Node::Leaf(right)) => share(left, right),
        (Node::Inner(left), Node::Inner(right)) => share(left, right),
        _ => unreachable!("all leaves have one depth"),
    }
    left.recount();
    right.recount();
}

/// Full nodes over `entries`; the last takes the rest.
fn pack<T: Weighted, E>(
    mut entries: impl Iterator<Item = E>,
    node: impl Fn(Vec<E>) -> Node<T>,
) -> Vec<Subtree<T>> {
    let mut nodes = Vec::new();
    loop {
        let mut packed: Vec<E> = Vec::with_capacity(NODE_MAX);
        packed.extend(entries.by_ref().take(NODE_MAX));
        let last = packed.len() < NODE_MAX;
        if !packed.is_empty() {
            packed.shrink_to_fit();
            nodes.push(Subtree::of(node(packed)));
        }
        if last {
            return nodes;
        }
    }
}

/// Items of a [`RankTree`] in order, from both ends, without allocating: it walks along a leaf and
/// finds the next one from the root.
#[derive(Debug)]
pub struct Iter<'a, T> {
    tree: &'a RankTree<T>,
    /// The indexes that are in neither leaf below.
    unread: Range<usize>,
    front: std::slice::Iter<'a, T>,
    back: std::slice::Iter<'a, T>,
}

impl<T> Clone for Iter<'_, T> {
    fn clone(&self) -> Self {
        Self {
            tree: self.tree,
            unread: self.unread.clone(),
            front: self.front.clone(),
            back: self.back.clone(),
        }
    }
}

impl<'a, T> Iterator for Iter<'a, T> {
    type Item = &'a T;

    fn next(&mut self) -> Option<&'a T> {
        if let Some(item) = self.front.next() {
            return Some(item);
        }
        if self.unread.is_empty() {
            return self.back.next();
        }
        let (leaf, within) = self.tree.leaf_at(self.unread.start);
        let end = leaf.len().min(within + self.unread.len());
        self.unread.start += end - within;
        self.front = leaf[within..end].iter();
        self.front.next()
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = self.front.len() + self.unread.len() + self.back.len();
        (left, Some(left))
    }
}

impl<'a, T> DoubleEndedIterator for Iter<'a, T> {
    fn next_back(&mut self) -> Option<&'a T> {
        if let Some(item) = self.back.next_back() {
            return Some(item);
        }
        if self.unread.is_empty() {
            return self.front.next_back();
        }
        let (leaf, within) = self.tree.leaf_at(self.unread.end - 1);
        let start = (within + 1).saturating_sub(self.unread.len());
        self.unread.end -= within + 1 - start;
        self.back = leaf[start..=within].iter();
        self.back.next_back()
    }
}

impl<T> ExactSizeIterator for Iter<'_, T> {}

impl<'a, T> IntoIterator for &'a RankTree<T> {
    type Item = &'a T;
    type IntoIter = Iter<'a, T>;

    fn into_iter(self) -> Iter<'a, T> {
        self.iter()
    }
}

#[cfg(test)]
mod tests;
