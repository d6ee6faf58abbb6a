//! The nodes of a rank tree: inserting into them, removing from them, keeping them full enough.
//!
//! ```text
//!  full at its outer end   [64] + x     ──►  [64] [x]       only on that edge of the tree
//!  full elsewhere          [64] + x     ──►  [32] [33]
//!  too small               [31] [40]    ──►  [35] [36]      shared with a neighbour
//!                          [31] [33]    ──►  [64]           merged with it
//! ```
//!
//! Bytes on the heap are counted where nodes change: `heap_bytes` is the whole tree's.

use super::Weighted;

/// Most entries of a node: items of a leaf, children of an inner node.
pub(super) const NODE_MAX: usize = 64;
/// Fewest entries of a node that is not on an edge of the tree.
pub(super) const NODE_MIN: usize = NODE_MAX / 2;
/// How much spare capacity a large node grows by.
const GROWTH: usize = 16;

/// A node and what its parent keeps next to the pointer to it.
#[derive(Debug)]
pub(super) struct Subtree<T> {
    pub(super) len: usize,
    pub(super) weight: usize,
    pub(super) node: Node<T>,
}

#[derive(Debug)]
pub(super) enum Node<T> {
    Leaf(Vec<T>),
    Inner(Vec<Subtree<T>>),
}

/// Whether a node lies on the left or right edge of the tree.
#[derive(Clone, Copy)]
pub(super) struct Edges {
    pub(super) left: bool,
    pub(super) right: bool,
}

impl Edges {
    pub(super) const ROOT: Self = Self { left: true, right: true };

    pub(super) fn of_child(self, at: usize, child_count: usize) -> Self {
        Self { left: self.left && at == 0, right: self.right && at + 1 == child_count }
    }

    pub(super) fn none(self) -> bool {
        !self.left && !self.right
    }
}

impl<T> Subtree<T> {
    pub(super) fn entry_count(&self) -> usize {
        match &self.node {
            Node::Leaf(items) => items.len(),
            Node::Inner(children) => children.len(),
        }
    }

    /// The heap bytes of the node itself, without those of its children.
    pub(super) fn own_bytes(&self) -> usize {
        match &self.node {
            Node::Leaf(items) => items.capacity() * size_of::<T>(),
            Node::Inner(children) => children.capacity() * size_of::<Self>(),
        }
    }

    pub(super) fn first_item(&self) -> &T {
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
    pub(super) fn of(node: Node<T>) -> Self {
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
    pub(super) fn insert(
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

    pub(super) fn remove(&mut self, index: usize, edges: Edges, heap_bytes: &mut usize) -> T {
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
    pub(super) fn update<R>(
        &mut self,
        index: usize,
        change: impl FnOnce(&mut T) -> R,
    ) -> (R, usize, usize) {
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

pub(super) fn weight_of<T: Weighted>(items: &[T]) -> usize {
    items.iter().map(Weighted::weight).sum()
}

/// The child that holds the item at `within`, which becomes relative to that child.
pub(super) fn descend<T>(children: &[Subtree<T>], within: &mut usize) -> usize {
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
pub(super) fn merge_with_next<T>(children: &mut Vec<Subtree<T>>, at: usize) {
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
pub(super) fn pack<T: Weighted, E>(
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
