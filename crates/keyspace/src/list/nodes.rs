//! The nodes of a large list, and which of them must be logged.
//!
//! ```text
//!  position ──► RankTree<Node>     weight = elements of the node
//!                 │
//!                 ▼
//!               Node { order, addr, bytes }   ◄──►  record ListNode(object, order) = bytes
//! ```
//!
//! # Invariants
//! - The order keys rise from the first node to the last.
//! - No node is empty; one of more than [`PACKED_BYTES_MAX`] bytes has a single element.
//! - A node whose state is not in its record is marked `is_unlogged` and its key is in
//!   [`Changes::touched`]; a record whose node is gone or renamed is in [`Changes::gone`].

mod walked;

use std::collections::BTreeMap;

use base::{ObjectId, RecordAddr, RecordKind};

use super::order::{self, Window};
use super::{End, span};
use crate::hasher::KeyHasher;
use crate::inspect;
use crate::object::Large;
use crate::packed::{self, PACKED_BYTES_MAX, Packed};
use crate::rank_tree::{RankTree, Weighted};
use crate::recorder::Recorder;
use crate::walk::Stream;

use walked::Nodes;

/// Neighbours that removals have left with fewer bytes than this are joined. Half of what fits,
/// so that the joined node does not overflow at the next insertion.
const JOINED_BYTES_MAX: usize = PACKED_BYTES_MAX / 2;

/// Packed elements with a record of their own.
pub(crate) struct Node {
    order: u64,
    addr: Option<RecordAddr>,
    bytes: Box<[u8]>,
    count: u32,
    is_unlogged: bool,
    /// Only [`Nodes`] looks at it.
    is_early: bool,
}

impl Node {
    fn new(order: u64, bytes: Box<[u8]>, addr: Option<RecordAddr>) -> Self {
        let count = Packed::new(&bytes).count();
        let count = u32::try_from(count).expect("a node of many elements is small");
        Self { order, addr, bytes, count, is_unlogged: false, is_early: false }
    }

    /// The elements, packed.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    fn count(&self) -> usize {
        self.count as usize
    }

    fn replace(&mut self, bytes: Vec<u8>) {
        *self = Self {
            is_unlogged: self.is_unlogged,
            is_early: self.is_early,
            ..Self::new(self.order, bytes.into_boxed_slice(), self.addr)
        };
    }

    fn splice(&mut self, from: usize, count: usize, element: Option<&[u8]>) {
        let added = element.map_or(0, |element| packed::element_bytes(element.len()));
        let replaced = span::of(&self.bytes, from, count);
        let mut out = Vec::with_capacity(self.bytes.len() - replaced.len() + added);
        span::splice(&self.bytes, replaced, element, &mut out);
        self.replace(out);
    }

    /// Cuts off the elements from `offset` on.
    fn split_off(&mut self, offset: usize) -> Box<[u8]> {
        let at = span::skip(&self.bytes, span::FIRST, offset);
        let right = [&self.bytes[..span::FIRST], &self.bytes[at..]].concat();
        self.replace(self.bytes[..at].to_vec());
        right.into_boxed_slice()
    }
}

impl Weighted for Node {
    fn weight(&self) -> usize {
        self.count()
    }
}

/// What one command has changed in a list and not logged yet.
#[derive(Default)]
pub(super) struct Changes {
    /// The order keys of nodes to be logged, if they are still there.
    touched: Vec<u64>,
    /// The records, by order key, whose nodes are gone or have another key now.
    gone: BTreeMap<u64, RecordAddr>,
}

impl Changes {
    /// The list is gone as a whole: no record needs to say that its nodes are.
    pub(super) fn retire(&mut self, recorder: &mut Recorder) {
        for addr in std::mem::take(&mut self.gone).into_values() {
            recorder.retire(Some(addr));
        }
    }
}

/// A list of packed nodes.
pub(crate) struct LargeList {
    nodes: Nodes,
    /// While records are gathered: the nodes, by order key; empty otherwise.
    arrived: BTreeMap<u64, Node>,
}

impl LargeList {
    /// A list of the elements of a packed one.
    pub(super) fn of_packed(bytes: &[u8], changes: &mut Changes) -> Self {
        let mut list = Self::empty();
        if bytes.len() > span::FIRST {
            list.insert_node(0, bytes.into(), changes);
        }
        list
    }

    /// The nodes in their order.
    pub(super) fn nodes(&self) -> &RankTree<Node> {
        &self.nodes
    }

    fn node(&self, index: usize) -> &Node {
        self.nodes.get(index).expect("the index came from the tree")
    }

    fn fits(&self, index: usize, element: &[u8]) -> bool {
        let bytes = self.node(index).bytes.len() + packed::element_bytes(element.len());
        bytes <= PACKED_BYTES_MAX
    }

    /// Adds an element before the one at `position`, or at the end.
    pub(super) fn insert(&mut self, position: usize, element: &[u8], changes: &mut Changes) {
        let (index, offset) = match (self.nodes.find(position), self.nodes.last()) {
            (Some(found), _) => found,
            (None, Some(last)) => (self.nodes.len() - 1, last.count()),
            (None, None) => return self.insert_node(0, packed_one(element), changes),
        };
        if self.fits(index, element) {
            self.change(index, changes, |node| node.splice(offset, 0, Some(element)));
        } else if offset == 0 && index > 0 && self.fits(index - 1, element) {
            let end = self.node(index - 1).count();
            self.change(index - 1, changes, |node| node.splice(end, 0, Some(element)));
        } else if offset == 0 {
            self.insert_node(index, packed_one(element), changes);
        } else if offset == self.node(index).count() {
            self.insert_node(index + 1, packed_one(element), changes);
        } else {
            let right = self.change(index, changes, |node| node.split_off(offset));
            self.insert_node(index + 1, right, changes);
            // Now the position lies between two nodes.
            self.insert(position, element, changes);
        }
    }

    /// Replaces the element at `position`, which must be there.
    pub(super) fn set(&mut self, position: usize, element: &[u8], changes: &mut Changes) {
        let (index, offset) = self.nodes.find(position).expect("the caller checked the position");
        let node = self.node(index);
        let old = span::of(&node.bytes, offset, 1);
        let bytes = node.bytes.len() - old.len() + packed::element_bytes(element.len());
        if bytes <= PACKED_BYTES_MAX || node.count == 1 {
            self.change(index, changes, |node| node.splice(offset, 1, Some(element)));
        } else {
            self.change(index, changes, |node| node.splice(offset, 1, None));
            self.insert(position, element, changes);
        }
    }

    /// Removes `count` elements, which must be there, from an end.
    pub(super) fn cut(&mut self, end: End, mut count: usize, changes: &mut Changes) {
        while count > 0 {
            let index = if end == End::Front { 0 } else { self.nodes.len() - 1 };
            let node_count = self.node(index).count();
            if node_count <= count {
                self.remove_node(index, changes);
                count -= node_count;
            } else {
                let first = if end == End::Front { 0 } else { node_count - count };
                self.change(index, changes, |node| node.splice(first, count, None));
                count = 0;
            }
        }
    }

    /// Removes elements that equal `element`, at most `count_max`, the ones next to `end` first.
    /// How many were removed.
    pub(super) fn remove_equal(
        &mut self,
        element: &[u8],
        end: End,
        count_max: usize,
        changes: &mut Changes,
    ) -> usize {
        let mut removed = 0;
        // Forwards, the nodes before `index` are done with; backwards, those from it on.
        let mut index = if end == End::Front { 0 } else { self.nodes.len() };
        let limit = if end == End::Front { self.nodes.len() } else { 0 };
        for _ in index.min(limit)..index.max(limit) {
            if removed == count_max {
                break;
            }
            if end == End::Back {
                index -= 1;
            }
            let node = self.node(index);
            let found = Packed::new(&node.bytes).iter().filter(|other| *other == element).count();
            let taken = found.min(count_max - removed);
            removed += taken;
            if taken == node.count() {
                self.remove_node(index, changes);
                continue;
            }
            if taken > 0 {
                let kept = if end == End::Front { 0 } else { found - taken };
                self.change(index, changes, |node| {
                    let mut out = Vec::with_capacity(node.bytes.len());
                    span::without(&node.bytes, element, kept, taken, &mut out);
                    node.replace(out);
                });
            }
            let left = if end == End::Front { index.checked_sub(1) } else { Some(index) };
            let is_joined = taken > 0 && left.is_some_and(|left| self.join_next(left, changes));
            if end == End::Front && !is_joined {
                index += 1;
            }
        }
        removed
    }

    /// Moves the elements of the node after `index` into the one at `index`, if both are small.
    fn join_next(&mut self, index: usize, changes: &mut Changes) -> bool {
        let (left, Some(right)) = (self.node(index), self.nodes.get(index + 1)) else {
            return false;
        };
        if left.bytes.len() + right.bytes.len() > JOINED_BYTES_MAX {
            return false;
        }
        let joined = [&left.bytes, &right.bytes[span::FIRST..]].concat();
        self.remove_node(index + 1, changes);
        self.change(index, changes, |node| node.replace(joined));
        true
    }

    /// Changes a node, to be logged later.
    fn change<R>(
        &mut self,
        index: usize,
        changes: &mut Changes,
        change: impl FnOnce(&mut Node) -> R,
    ) -> R {
        self.nodes.update(index, |node| {
            if !node.is_unlogged {
                node.is_unlogged = true;
                changes.touched.push(node.order);
            }
            change(node)
        })
    }

    fn remove_node(&mut self, index: usize, changes: &mut Changes) {
        let (order, addr) = self.nodes.remove(index);
        changes.gone.extend(addr.map(|addr| (order, addr)));
    }

    /// Adds a node before the one at `index`, to be logged later.
    fn insert_node(&mut self, index: usize, bytes: Box<[u8]>, changes: &mut Changes) {
        let before = index.checked_sub(1).map(|before| self.node(before).order);
        let after = self.nodes.get(index).map(|node| node.order);
        let order = order::between(before, after).unwrap_or_else(|| self.make_room(index, changes));
        let mut node = Node::new(order, bytes, None);
        node.is_unlogged = true;
        changes.touched.push(order);
        self.nodes.insert(index, node);
    }

    /// Gives the nodes around `index` other order keys, so that there is one free between the
    /// nodes before and from `index`, which is returned.
    fn make_room(&mut self, index: usize, changes: &mut Changes) -> u64 {
        let len = self.nodes.len();
        let mut window = Window::FIRST;
        let (range, below, spacing) = loop {
            let range = index.saturating_sub(window.reach)..(index + window.reach).min(len);
            let new_count = range.len() as u64 + 1;
            // Past the ends of the list there is as much room as nodes added there would take.
            let outside = order::STEP.saturating_mul(new_count);
            let below = match range.start.checked_sub(1) {
                Some(before) => self.node(before).order,
                None => self.node(0).order.saturating_sub(outside),
            };
            let above = match self.nodes.get(range.end) {
                Some(after) => after.order,
                None => self.node(len - 1).order.saturating_add(outside),
            };
            let spacing = (above - below) / (new_count + 1);
            if spacing >= window.spacing_min || range.len() == len {
                break (range, below, spacing);
            }
            window = window.wider();
        };
        assert!(spacing > 0, "a list has far fewer nodes than there are order keys");
        let nth = |nth: usize| below + spacing * nth as u64;
        let first = range.start;
        for at in range {
            let new_before = usize::from(at >= index);
            self.rename(at, nth(at - first + new_before + 1), changes);
        }
        nth(index - first + 1)
    }

    fn rename(&mut self, index: usize, order: u64, changes: &mut Changes) {
        self.nodes.update(index, |node| {
            changes.gone.extend(node.addr.take().map(|addr| (node.order, addr)));
            node.order = order;
            node.is_unlogged = true;
        });
        changes.touched.push(order);
    }

    /// The index of the node with this order key, or where it would be; and whether it is there.
    fn find(&self, order: u64) -> (usize, bool) {
        let index = self.nodes.partition_point(|node| node.order < order);
        (index, self.nodes.get(index).is_some_and(|node| node.order == order))
    }

    /// Logs what has changed: each node once.
    pub(super) fn log(&mut self, id: ObjectId, recorder: &mut Recorder, changes: Changes) {
        let Changes { touched, mut gone } = changes;
        for order in touched {
            let (index, is_there) = self.find(order);
            if is_there && self.node(index).is_unlogged {
                // A node may have the key of one that is gone: its record supersedes that.
                self.nodes.log(index, id, recorder, |addr| addr.or_else(|| gone.remove(&order)));
            }
        }
        for (order, addr) in gone {
            recorder.log_element_deleted(id, &order.to_be_bytes(), Some(addr));
        }
    }
}

impl Node {
    fn log(&mut self, id: ObjectId, recorder: &mut Recorder, old: Option<RecordAddr>) {
        let sub = self.order.to_be_bytes();
        self.addr = recorder.log_element(RecordKind::ListNode, id, &sub, &self.bytes, old);
        self.is_unlogged = false;
    }
}

/// The bytes of a node of one element.
fn packed_one(element: &[u8]) -> Box<[u8]> {
    let mut bytes = Vec::with_capacity(span::FIRST + packed::element_bytes(element.len()));
    packed::begin(&mut bytes, 0);
    packed::push(&mut bytes, element);
    bytes.into_boxed_slice()
}

/// The node that a record restores. An empty one would be no node: the list never logs one.
fn node_of(sub: &[u8], value: &[u8], addr: RecordAddr) -> Option<Node> {
    let order = order_of(sub)?;
    Packed::check(value, 1).filter(|packed| packed.bytes() > span::FIRST)?;
    Some(Node::new(order, value.into(), Some(addr)))
}

fn order_of(sub: &[u8]) -> Option<u64> {
    sub.try_into().ok().map(u64::from_be_bytes)
}

impl Large for LargeList {
    fn empty() -> Self {
        Self { nodes: Nodes::default(), arrived: BTreeMap::new() }
    }

    fn root_value(&self, out: &mut Vec<u8>) {
        out.push(0);
    }

    fn apply_root(&mut self, _value: &[u8]) {}

    fn gather(
        &mut self,
        _: KeyHasher,
        sub: &[u8],
        value: &[u8],
        addr: RecordAddr,
    ) -> Option<RecordAddr> {
        let node = node_of(sub, value, addr)?;
        self.arrived.insert(node.order, node)?.addr
    }

    fn gather_deleted(&mut self, _: KeyHasher, sub: &[u8]) -> Option<RecordAddr> {
        self.arrived.remove(&order_of(sub)?)?.addr
    }

    fn arrange(&mut self, _: KeyHasher) {
        self.nodes = std::mem::take(&mut self.arrived).into_values().collect();
    }

    fn apply_element(
        &mut self,
        _: KeyHasher,
        sub: &[u8],
        value: &[u8],
        addr: RecordAddr,
    ) -> Option<RecordAddr> {
        let new = node_of(sub, value, addr)?;
        let (index, is_there) = self.find(new.order);
        if !is_there {
            self.nodes.insert(index, new);
            return None;
        }
        self.nodes.update(index, |node| std::mem::replace(node, new)).addr
    }

    fn apply_deleted(&mut self, _: KeyHasher, sub: &[u8]) -> Option<RecordAddr> {
        let (index, is_there) = self.find(order_of(sub)?);
        if is_there { self.nodes.remove(index).1 } else { None }
    }

    fn len(&self) -> usize {
        self.nodes.weight() + self.arrived.len()
    }

    fn duplicate(&self, id: ObjectId, recorder: &mut Recorder) -> Self {
        let copies = self.nodes.iter().map(|node| {
            let mut copy = Node::new(node.order, node.bytes.clone(), None);
            copy.log(id, recorder, None);
            copy
        });
        Self { nodes: copies.collect(), arrived: BTreeMap::new() }
    }

    fn rewrite(&mut self, id: ObjectId, recorder: &mut Recorder, piece: usize) -> Option<usize> {
        if piece >= self.nodes.len() {
            return None;
        }
        self.nodes.log(piece, id, recorder, |_| None);
        Some(1)
    }

    fn rewrite_lost(
        &mut self,
        id: ObjectId,
        recorder: &mut Recorder,
        piece: usize,
        is_lost: &dyn Fn(RecordAddr) -> bool,
    ) -> Option<usize> {
        let old = self.nodes.get(piece)?.addr;
        if old.is_some_and(is_lost) {
            self.nodes.log(piece, id, recorder, |addr| addr);
        }
        Some(1)
    }

    fn encoding(&self) -> &'static str {
        "quicklist"
    }

    fn into_addrs(self) -> Box<dyn Iterator<Item = Option<RecordAddr>> + Send> {
        let Self { mut nodes, arrived } = self;
        let built = std::iter::from_fn(move || nodes.pop_back());
        Box::new(built.chain(arrived.into_values()).map(|node| node.addr))
    }

    fn allocated_bytes(&self, samples: usize) -> usize {
        let node_bytes = |node: &Node| node.bytes.len();
        self.nodes.allocated_bytes()
            + inspect::sampled(self.nodes.iter(), self.nodes.len(), samples, node_bytes)
    }

    fn open_shadow(&mut self) {
        self.nodes.open_shadow();
    }

    fn shadow_bytes(&self) -> Option<usize> {
        self.nodes.shadow_bytes()
    }

    fn emit(&mut self, _: KeyHasher, stream: &mut Stream) -> bool {
        self.nodes.emit(stream)
    }

    fn emit_whole(&self, stream: &mut Stream) {
        self.nodes.emit_whole(stream);
    }
}
