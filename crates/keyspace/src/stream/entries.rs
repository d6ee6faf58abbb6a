//! The entries of a stream: nodes in the order of their ids, and what is known of entries that are gone.
//!
//! ```text
//!   unit              unit                          trimming "about" cuts units off, as Redis does its nodes
//!   [ node ][ node ]  [ node ][ node ][ node ] ◄── the last node takes what is added
//!   in_unit 0   16            0   17
//! ```
//!
//! A *unit* is what would be one node in Redis, `stream-node-max-entries` entries or
//! `stream-node-max-bytes` bytes. Nodes are smaller, because each change logs one; units keep the numbers that
//! `XTRIM … ~` leaves what they are in Redis. A dump has a unit as one node.
//!
//! # What says which entry was the last
//! An addition logs its node alone. The node's record has the number of entries that the stream has had, and its
//! last entry has the last id. What else changes these numbers logs the root, which has them all. So they
//! are those of the root, or of the last node if that has a later id.
//!
//! # Invariants
//! - No entry has an id above `last_id`, and none but the last node's last one has a later id than the root's
//!   record says.
//! - A unit's first node has `in_unit` 0, also when the one that was has gone; no other node has.
//! - `entries_added` counts every entry that was ever added, unless XSETID has set it.

use base::{RecordAddr, varint};

use super::StreamId;
use super::name::Name;
use super::node::{self, NODE_BYTES_MAX, Node, StreamEntry};
use super::tracker::Tracker;
use crate::inspect;
use crate::rank_tree::{self, RankTree};

/// The first byte of a root's value: nothing else is known yet.
const ROOT_VERSION: u8 = 0;

/// No unit takes an entry that would make it larger, whatever the settings say: a dump has all of a unit in memory.
const UNIT_BYTES_MAX: u64 = 1 << 20;

/// How large a unit may become, as the settings say.
#[derive(Debug, Clone, Copy)]
pub(super) struct UnitLimits {
    /// `stream-node-max-entries`; 0 for no limit.
    pub(super) entries: u64,
    /// `stream-node-max-bytes`; 0 for no limit.
    pub(super) bytes: u64,
    /// The entries share field names where they come from. A unit and a node take as many bytes of entries as the names
    /// of the last one, whatever the limits say: of few bytes that share long names come few bytes.
    pub(super) shares_names: bool,
}

/// What a trim leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keep {
    /// The newest entries, so many.
    Newest(u64),
    /// The entries from this id on.
    From(StreamId),
}

/// How the oldest entries are cut off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Trim {
    /// What is left.
    pub keep: Keep,
    /// Only whole units go, and no more entries than these (0: any number): `~` with LIMIT.
    pub about: Option<u64>,
}

/// The unit that the last node is in.
#[derive(Debug, Clone, Copy, Default)]
struct OpenUnit {
    entries: u64,
    bytes: u64,
    /// Not all of its nodes are in memory: how many bytes it has is not known, and it gets no other node.
    is_partial: bool,
}

/// See the file's top.
#[derive(Default)]
pub(super) struct Entries {
    nodes: RankTree<Node>,
    last_id: StreamId,
    added: u64,
    max_deleted_id: StreamId,
    unit: OpenUnit,
    units: usize,
    /// As `added`, as the record of the last node says it.
    added_of_last: u64,
    /// The last node, as the newest record of the root says it; 0-0 for none.
    last_of_root: StreamId,
}

impl Entries {
    /// The nodes in their order; the tree's weight is the number of entries.
    pub(super) const fn nodes(&self) -> &RankTree<Node> {
        &self.nodes
    }

    /// How many units there are.
    pub(super) const fn units(&self) -> usize {
        self.units
    }

    /// How many entries there are.
    pub(super) const fn len(&self) -> usize {
        self.nodes.weight()
    }

    /// The largest id that an entry ever had, or that XSETID has set.
    pub(super) const fn last_id(&self) -> StreamId {
        self.last_id
    }

    /// How many entries were ever added.
    pub(super) const fn added(&self) -> u64 {
        self.added
    }

    /// The largest id of those that XDEL has deleted; 0-0 for none.
    pub(super) const fn max_deleted_id(&self) -> StreamId {
        self.max_deleted_id
    }

    /// The first entry.
    pub(super) fn first(&self) -> Option<StreamEntry<'_>> {
        self.nodes.first()?.entries().next()
    }

    /// The last entry.
    pub(super) fn last(&self) -> Option<StreamEntry<'_>> {
        self.nodes.last()?.entries().last()
    }

    /// The entry with this id.
    pub(super) fn get(&self, id: StreamId) -> Option<StreamEntry<'_>> {
        self.nodes.get(self.index_of(id)?)?.find(id)
    }

    /// The entries from `start` to `end`, both included.
    pub(super) fn range(&self, start: StreamId, end: StreamId) -> Range<'_> {
        let nodes = self.nodes.iter_from(self.index_of(start).unwrap_or(0));
        Range { nodes, entries: node::Entries::NONE, start, end }
    }

    /// The entries from `end` down to `start`, both included.
    pub(super) fn range_back(&self, start: StreamId, end: StreamId) -> RangeBack<'_> {
        let nodes = match self.index_of(end) {
            Some(index) => self.nodes.iter_from_back(index),
            None => self.nodes.range(0..0).rev(),
        };
        RangeBack { nodes, entries: Vec::new(), start, end }
    }

    /// The index of the node that has the entry with this id, if any has.
    fn index_of(&self, id: StreamId) -> Option<usize> {
        // Mostly the last one is meant, and no other need be looked at.
        if self.nodes.last()?.master <= id {
            return Some(self.nodes.len() - 1);
        }
        self.nodes.partition_point(|node| node.master <= id).checked_sub(1)
    }

    /// The index of the node with this name.
    fn index_of_master(&self, master: StreamId) -> Option<usize> {
        let index = self.index_of(master)?;
        self.nodes.get(index).is_some_and(|node| node.master == master).then_some(index)
    }

    // ---- change ---------------------------------------------------------------------------

    /// Adds an entry; its id is above `last_id`. `pairs` are names and values in turn.
    pub(super) fn append(
        &mut self,
        id: StreamId,
        pairs: &[&[u8]],
        limits: UnitLimits,
        tracker: &mut Tracker,
    ) {
        debug_assert!(id > self.last_id, "the caller has checked the id");
        let bytes: u64 = pairs.iter().map(|part| part.len() as u64).sum();
        let shared_bytes = match self.nodes.last() {
            Some(last) if limits.shares_names => 2 * last.names_bytes(),
            _ => 0,
        };
        let is_full = self.unit.bytes >= shared_bytes as u64 && self.unit.is_full(limits, bytes);
        let is_new_unit = self.nodes.is_empty() || is_full;
        let bytes_max = shared_bytes.max(NODE_BYTES_MAX);
        if is_new_unit || !self.append_to_last(id, pairs, bytes_max, tracker) {
            if is_new_unit || self.unit.is_partial {
                self.unit = OpenUnit::default();
                self.units += 1;
            }
            tracker.touch_new(Name::Node(id));
            // It names the last node.
            tracker.is_root_touched = true;
            let in_unit = u32::try_from(self.unit.entries).unwrap_or(u32::MAX);
            let node = Node::of_entry(id, pairs, in_unit);
            self.unit.bytes += node.bytes() as u64;
            self.nodes.push_back(node);
        }
        self.unit.entries += 1;
        (self.last_id, self.added) = (id, self.added.saturating_add(1));
    }

    /// Adds an entry to the last node, if there is room for it among so many bytes. Whether there was.
    fn append_to_last(
        &mut self,
        id: StreamId,
        pairs: &[&[u8]],
        bytes_max: usize,
        tracker: &mut Tracker,
    ) -> bool {
        let Some(index) = self.nodes.len().checked_sub(1) else { return false };
        let node = self.nodes.get(index).expect("there is a last node");
        let Some(entry) = node.fitted(id, pairs, bytes_max) else { return false };
        self.touch(index, tracker);
        self.nodes.update(index, |node| node.append(&entry));
        self.unit.bytes += entry.len() as u64;
        true
    }

    /// The node at `index` is about to change, or to go.
    fn touch(&self, index: usize, tracker: &mut Tracker) {
        let node = self.nodes.get(index).expect("the index came from the tree");
        tracker.touch(Name::Node(node.master), node.addr, |out| node.put(self.added, out));
    }

    fn remove_node(&mut self, index: usize, tracker: &mut Tracker) {
        self.touch(index, tracker);
        let node = self.nodes.remove(index);
        if node.in_unit > 0 {
            return;
        }
        match self.nodes.get(index) {
            Some(next) if next.in_unit > 0 => {
                // The unit begins with it now.
                self.touch(index, tracker);
                self.nodes.update(index, |node| node.in_unit = 0);
            }
            Some(_) => self.units -= 1,
            None => {
                // The unit before it is the last one again.
                self.units -= 1;
                self.count_unit();
            }
        }
    }

    /// Deletes an entry. Whether it was there.
    pub(super) fn delete(&mut self, id: StreamId, tracker: &mut Tracker) -> bool {
        let is_deleted = self.remove(id, tracker);
        if is_deleted {
            self.max_deleted_id = self.max_deleted_id.max(id);
        }
        is_deleted
    }

    /// Takes out an entry, as a trim does. Whether it was there.
    pub(super) fn remove(&mut self, id: StreamId, tracker: &mut Tracker) -> bool {
        let Some(index) = self.index_of(id) else { return false };
        let node = self.nodes.get(index).expect("the index came from the tree");
        if node.find(id).is_none() {
            return false;
        }
        if node.count() == 1 {
            self.remove_node(index, tracker);
        } else {
            self.touch(index, tracker);
            self.nodes.update(index, |node| node.remove(id));
        }
        tracker.is_root_touched = true;
        true
    }

    /// The ids of those that a trim cuts off.
    pub(super) fn ids_to_go(&self, trim: Trim) -> impl Iterator<Item = StreamId> {
        let (end, count) = match (trim.about, trim.keep) {
            (None, Keep::Newest(count)) => {
                (Some(StreamId::MAX), (self.len() as u64).saturating_sub(count))
            }
            (None, Keep::From(id)) => (id.previous(), u64::MAX),
            (Some(limit), keep) => (self.end_of_units(keep, limit), u64::MAX),
        };
        let range = end.map(|end| self.range(StreamId::MIN, end));
        let ids = range.into_iter().flatten().map(|entry| entry.id);
        ids.take(usize::try_from(count).unwrap_or(usize::MAX))
    }

    /// Cuts off the oldest entries. How many went.
    pub(super) fn trim(&mut self, trim: Trim, tracker: &mut Tracker) -> u64 {
        let before = self.len();
        match trim.about {
            Some(limit) => self.trim_units(trim.keep, limit, tracker),
            None => self.trim_exactly(trim.keep, tracker),
        }
        let removed = (before - self.len()) as u64;
        tracker.is_root_touched |= removed > 0;
        removed
    }

    fn trim_units(&mut self, keep: Keep, limit: u64, tracker: &mut Tracker) {
        let Some(end) = self.end_of_units(keep, limit) else { return };
        while self.nodes.first().is_some_and(|node| node.master <= end) {
            self.remove_node(0, tracker);
        }
    }

    /// The last id of the units that go as a whole, no more than `limit` entries (0: any number).
    pub(super) fn end_of_units(&self, keep: Keep, limit: u64) -> Option<StreamId> {
        // Most have nothing to lose, and a unit may have thousands of nodes.
        let is_short = match keep {
            Keep::Newest(count) => self.len() as u64 <= count,
            Keep::From(id) => self.first().is_none_or(|first| first.id >= id),
        };
        if is_short {
            return None;
        }
        let (mut index, mut removed, mut end) = (0, 0, None);
        while let Some((nodes, entries, last_id)) = self.unit_from(index) {
            let len = self.len() as u64 - removed;
            let goes = match keep {
                Keep::Newest(count) => len > count && len - entries >= count,
                Keep::From(id) => last_id < id,
            };
            if !goes || limit > 0 && removed + entries > limit {
                break;
            }
            (index, removed, end) = (index + nodes, removed + entries, Some(last_id));
        }
        end
    }

    /// The last id of all the units that go as a whole. Looks at one of them, at most.
    pub(super) fn end_of_all_units(&self, keep: Keep) -> Option<StreamId> {
        // The node of the first entry that stays.
        let index = match keep {
            Keep::Newest(count) => {
                let goes = (self.len() as u64).saturating_sub(count);
                let found = self.nodes.find(usize::try_from(goes).ok()?);
                found.map_or(self.nodes.len(), |(index, _)| index)
            }
            Keep::From(id) => self.nodes.partition_point(|node| node.last_id() < id),
        };
        let within_unit = match self.nodes.get(index) {
            None => 0,
            Some(_) => {
                let back = self.nodes.iter_from_back(index);
                back.take_while(|node| node.in_unit > 0).count()
            }
        };
        self.nodes.get((index - within_unit).checked_sub(1)?).map(Node::last_id)
    }

    /// Of the unit whose first node has this index: how many nodes and entries it has, and its last id.
    fn unit_from(&self, index: usize) -> Option<(usize, u64, StreamId)> {
        let first = self.nodes.get(index)?;
        let (mut nodes, mut entries, mut last) = (1, u64::from(first.count()), first);
        for node in self.nodes.iter_from(index + 1).take_while(|node| node.in_unit > 0) {
            (nodes, entries, last) = (nodes + 1, entries + u64::from(node.count()), node);
        }
        Some((nodes, entries, last.last_id()))
    }

    fn trim_exactly(&mut self, keep: Keep, tracker: &mut Tracker) {
        while let Some(node) = self.nodes.first() {
            let goes = match keep {
                Keep::Newest(count) => (self.len() as u64).saturating_sub(count),
                Keep::From(id) => node.entries().take_while(|entry| entry.id < id).count() as u64,
            };
            match u32::try_from(goes) {
                Ok(0) => return,
                Ok(goes) if goes < node.count() => {
                    self.touch(0, tracker);
                    self.nodes.update(0, |node| node.cut_front(goes));
                    return;
                }
                _ => self.remove_node(0, tracker),
            }
        }
    }

    /// Sets what XSETID does.
    pub(super) fn set(
        &mut self,
        last_id: StreamId,
        added: Option<u64>,
        max_deleted_id: Option<StreamId>,
        tracker: &mut Tracker,
    ) {
        self.last_id = last_id;
        self.added = added.unwrap_or(self.added);
        self.max_deleted_id = max_deleted_id.unwrap_or(self.max_deleted_id);
        tracker.is_root_touched = true;
    }

    // ---- log ------------------------------------------------------------------------------

    /// Writes the value of the root's record.
    pub(super) fn put_root(&self, out: &mut Vec<u8>) {
        out.push(ROOT_VERSION);
        self.last_id.put(out);
        varint::put(out, self.added);
        self.max_deleted_id.put(out);
        self.last_node().put(out);
    }

    /// The name of the last node; 0-0 if there is none.
    fn last_node(&self) -> StreamId {
        self.nodes.last().map_or(StreamId::MIN, |node| node.master)
    }

    /// Whether the newest record of the root names another node as the last one: blocks of the log were lost.
    pub(super) fn has_stale_root(&self) -> bool {
        self.last_of_root != self.last_node()
    }

    /// The root is logged as it is now.
    pub(super) fn note_root(&mut self) {
        self.last_of_root = self.last_node();
    }

    /// The name of the last node, as the value of a root's record says it; `None` if there is none.
    pub(super) fn last_node_of(root: &[u8]) -> Option<StreamId> {
        let last = Root::read(root)?.last_node;
        (last != StreamId::MIN).then_some(last)
    }

    /// Takes over the value of a root's record.
    pub(super) fn apply_root(&mut self, value: &[u8]) {
        let root = Root::read(value).expect("it was checked");
        (self.last_id, self.added) = (root.last_id, root.added);
        self.max_deleted_id = root.max_deleted_id;
        self.last_of_root = root.last_node;
        self.catch_up();
    }

    /// Takes over the records of all nodes, in their order, each with the number that it says of the stream.
    pub(super) fn arrange(&mut self, nodes: impl Iterator<Item = (Node, u64)>) {
        let mut added = 0;
        let nodes = nodes.map(|(node, of_node)| {
            added = of_node;
            node
        });
        self.nodes = nodes.collect();
        self.units = self.nodes.iter().filter(|node| node.in_unit == 0).count();
        self.added_of_last = added;
        self.count_unit();
        self.catch_up();
    }

    /// Takes over the record of a node of a stream that is read. Returns where its record was.
    pub(super) fn apply(&mut self, node: Node, added: u64) -> Option<RecordAddr> {
        self.units += usize::from(node.in_unit == 0);
        let old = match self.index_of_master(node.master) {
            Some(index) => {
                let old = self.nodes.update(index, |old| std::mem::replace(old, node));
                self.units -= usize::from(old.in_unit == 0);
                old.addr
            }
            None => {
                let index = self.nodes.partition_point(|other| other.master < node.master);
                self.nodes.insert(index, node);
                None
            }
        };
        self.added_of_last = added;
        self.count_unit();
        self.catch_up();
        old
    }

    /// Takes over that a node is gone. Returns where its record was.
    pub(super) fn apply_deleted(&mut self, master: StreamId) -> Option<RecordAddr> {
        let index = self.index_of_master(master)?;
        let node = self.nodes.remove(index);
        self.units -= usize::from(node.in_unit == 0);
        self.count_unit();
        node.addr
    }

    /// The last node may know of later entries than the root.
    fn catch_up(&mut self) {
        let newest = self.nodes.last().map(Node::last_id);
        if let Some(newest) = newest.filter(|newest| *newest > self.last_id) {
            (self.last_id, self.added) = (newest, self.added_of_last);
        }
    }

    /// Of the last unit the last node alone is here.
    pub(super) fn note_partial_unit(&mut self) {
        self.unit.is_partial = self.nodes.last().is_some_and(|last| last.in_unit > 0);
    }

    /// Puts `end` behind these, node by node: it has the numbers as they are now, and all nodes from its first one on.
    pub(super) fn join(&mut self, end: Self) {
        let Self { mut nodes, last_id, added, max_deleted_id, added_of_last, last_of_root, .. } =
            end;
        let first = nodes.first().map_or(StreamId::MAX, |node| node.master);
        while self.nodes.last().is_some_and(|node| node.master >= first) {
            // As it was when it was read.
            let old = self.nodes.pop_back().expect("there is a last one");
            self.units -= usize::from(old.in_unit == 0);
        }
        while let Some(node) = nodes.pop_front() {
            self.units += usize::from(node.in_unit == 0);
            self.nodes.push_back(node);
        }
        (self.last_id, self.added, self.max_deleted_id) = (last_id, added, max_deleted_id);
        (self.added_of_last, self.last_of_root) = (added_of_last, last_of_root);
        self.count_unit();
    }

    /// Drops nodes before this one from memory, at most so many. How many.
    pub(super) fn drop_before(&mut self, master: StreamId, nodes_max: usize) -> usize {
        let mut dropped = 0;
        while dropped < nodes_max && self.nodes.first().is_some_and(|node| node.master < master) {
            let node = self.nodes.pop_front().expect("there is a first one");
            self.units -= usize::from(node.in_unit == 0);
            dropped += 1;
        }
        dropped
    }

    /// Counts the last unit again.
    fn count_unit(&mut self) {
        let Some(last) = self.nodes.last() else { return };
        let entries = u64::from(last.in_unit) + u64::from(last.count());
        self.unit = OpenUnit { entries, ..OpenUnit::default() };
        for node in self.nodes.iter_from_back(self.nodes.len()) {
            self.unit.bytes += node.bytes() as u64;
            if node.in_unit == 0 {
                break;
            }
        }
    }

    /// Writes the value of a node's record, and returns where that is; `None` if there is no such node.
    pub(super) fn put(&self, master: StreamId, out: &mut Vec<u8>) -> Option<Option<RecordAddr>> {
        let node = self.nodes.get(self.index_of_master(master)?)?;
        node.put(self.added, out);
        Some(node.addr)
    }

    /// The record of a node is here now.
    pub(super) fn set_addr(&mut self, master: StreamId, addr: Option<RecordAddr>) {
        if let Some(index) = self.index_of_master(master) {
            self.nodes.update(index, |node| node.addr = addr);
        }
    }

    /// The master of the node after `after`, or of the first one.
    pub(super) fn next_master(&self, after: Option<StreamId>) -> Option<StreamId> {
        let index =
            after.map_or(0, |after| self.nodes.partition_point(|node| node.master <= after));
        self.nodes.get(index).map(|node| node.master)
    }

    /// A copy without records.
    pub(super) fn copy(&self) -> Self {
        let Self { last_id, added, max_deleted_id, unit, units, added_of_last, .. } = *self;
        let nodes = self.nodes.iter().map(Node::copy).collect();
        // Its root is logged as it is now.
        let last_of_root = self.last_node();
        Self { nodes, last_id, added, max_deleted_id, unit, units, added_of_last, last_of_root }
    }

    /// Takes it apart, yielding the addresses of the records.
    pub(super) fn into_addrs(self) -> impl Iterator<Item = Option<RecordAddr>> + Send {
        let mut nodes = self.nodes;
        std::iter::from_fn(move || nodes.pop_back()).map(|node| node.addr)
    }

    /// The bytes that they take; see [`crate::object::Large::allocated_bytes`].
    pub(super) fn allocated_bytes(&self, samples: usize) -> usize {
        self.nodes.allocated_bytes()
            + inspect::sampled(self.nodes.iter(), self.nodes.len(), samples, Node::bytes)
    }
}

impl OpenUnit {
    /// Whether an entry with so many bytes of names and values begins another one.
    const fn is_full(self, limits: UnitLimits, bytes: u64) -> bool {
        let bytes_max = match limits.bytes {
            1..UNIT_BYTES_MAX => limits.bytes,
            _ => UNIT_BYTES_MAX,
        };
        self.bytes.saturating_add(bytes) >= bytes_max
            || (limits.entries > 0 && self.entries >= limits.entries)
    }
}

/// What the record of a root says.
pub(super) struct Root {
    pub(super) last_id: StreamId,
    pub(super) added: u64,
    pub(super) max_deleted_id: StreamId,
    /// For a reader that has the root alone; 0-0 if there is no node.
    pub(super) last_node: StreamId,
}

impl Root {
    pub(super) fn read(mut value: &[u8]) -> Option<Self> {
        let (version, rest) = value.split_first()?;
        value = rest;
        let last_id = StreamId::take(&mut value)?;
        let added = varint::take(&mut value)?;
        let max_deleted_id = StreamId::take(&mut value)?;
        let last_node = StreamId::take(&mut value)?;
        (*version == ROOT_VERSION && value.is_empty()).then_some(Self {
            last_id,
            added,
            max_deleted_id,
            last_node,
        })
    }
}

/// Whether the root of a stream can have this value.
pub(crate) fn is_root(value: &[u8]) -> bool {
    Root::read(value).is_some()
}

/// Entries of a stream, forwards.
#[derive(Clone)]
pub struct Range<'a> {
    nodes: rank_tree::Iter<'a, Node>,
    entries: node::Entries<'a>,
    start: StreamId,
    end: StreamId,
}

impl<'a> Iterator for Range<'a> {
    type Item = StreamEntry<'a>;

    fn next(&mut self) -> Option<StreamEntry<'a>> {
        loop {
            for entry in self.entries.by_ref() {
                if entry.id > self.end {
                    // All others are behind it.
                    self.start = StreamId::MAX;
                    return None;
                }
                if entry.id >= self.start {
                    return Some(entry);
                }
            }
            self.entries = self.nodes.next().filter(|node| node.master <= self.end)?.entries();
        }
    }
}

/// Entries of a stream, backwards.
pub struct RangeBack<'a> {
    nodes: std::iter::Rev<rank_tree::Iter<'a, Node>>,
    /// Of the node that is read: those that are still to come.
    entries: Vec<StreamEntry<'a>>,
    start: StreamId,
    end: StreamId,
}

impl<'a> Iterator for RangeBack<'a> {
    type Item = StreamEntry<'a>;

    fn next(&mut self) -> Option<StreamEntry<'a>> {
        loop {
            if let Some(entry) = self.entries.pop() {
                if entry.id > self.end {
                    continue;
                }
                return (entry.id >= self.start).then_some(entry);
            }
            self.entries.extend(self.nodes.next()?.entries());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: UnitLimits = UnitLimits { entries: 10, bytes: 4096, shares_names: false };

    fn filled(count: u64) -> Entries {
        let mut entries = Entries::default();
        for seq in 1..=count {
            let value = [b'v'; 30];
            let pairs: [&[u8]; 2] = [b"field", &value];
            entries.append(StreamId::new(5, seq), &pairs, LIMITS, &mut Tracker::default());
        }
        entries
    }

    fn keep(count: u64, about: Option<u64>) -> Trim {
        Trim { keep: Keep::Newest(count), about }
    }

    #[test]
    fn a_trim_about_leaves_what_redis_leaves() {
        // The numbers of Redis with stream-node-max-entries 10.
        for (limit, left) in [(0, 560), (30, 970), (9, 1000)] {
            let mut entries = filled(1000);
            let removed = entries.trim(keep(555, Some(limit)), &mut Tracker::default());
            assert_eq!((entries.len(), removed), (left, 1000 - left as u64), "LIMIT {limit}");
        }
        let mut entries = filled(1000);
        let from = Keep::From(StreamId::new(5, 446));
        entries.trim(Trim { keep: from, about: Some(0) }, &mut Tracker::default());
        assert_eq!(entries.len(), 560);
        entries.trim(keep(0, Some(0)), &mut Tracker::default());
        assert_eq!((entries.len(), entries.last_id()), (0, StreamId::new(5, 1000)));
    }

    #[test]
    fn the_end_of_all_units_is_the_one_that_is_found_unit_by_unit() {
        let mut entries = filled(1000);
        for seq in (1..1000).step_by(3) {
            entries.remove(StreamId::new(5, seq), &mut Tracker::default());
        }
        for count in 0..=1001 {
            let keep = Keep::Newest(count);
            assert_eq!(entries.end_of_all_units(keep), entries.end_of_units(keep, 0), "{keep:?}");
            let keep = Keep::From(StreamId::new(5, count));
            assert_eq!(entries.end_of_all_units(keep), entries.end_of_units(keep, 0), "{keep:?}");
        }
        assert_eq!(Entries::default().end_of_all_units(Keep::Newest(0)), None);
    }

    #[test]
    fn units_are_those_of_redis_also_when_they_are_brought_back() {
        let entries = filled(995);
        let nodes = entries.nodes.iter().map(|node| (node.copy(), 995));
        let mut again = Entries::default();
        again.arrange(nodes.collect::<Vec<_>>().into_iter());
        for (mut entries, add) in [(entries, 10), (again, 10)] {
            for seq in 0..add {
                let pairs: [&[u8]; 2] = [b"field", b"value"];
                entries.append(StreamId::new(6, seq), &pairs, LIMITS, &mut Tracker::default());
            }
            entries.trim(keep(1, Some(0)), &mut Tracker::default());
            assert_eq!((entries.len(), entries.added()), (5, 1005));
        }
    }

    #[test]
    fn a_range_ends_where_it_should() {
        let entries = filled(100);
        let ids = |start, end| {
            let range = entries.range(StreamId::new(5, start), StreamId::new(5, end));
            let forwards: Vec<u64> = range.map(|entry| entry.id.seq).collect();
            let range = entries.range_back(StreamId::new(5, start), StreamId::new(5, end));
            let mut backwards: Vec<u64> = range.map(|entry| entry.id.seq).collect();
            backwards.reverse();
            assert_eq!(forwards, backwards);
            forwards
        };
        assert_eq!(ids(0, 3), [1, 2, 3]);
        assert_eq!(ids(98, 200), [98, 99, 100]);
        assert_eq!(ids(50, 50), [50]);
        assert!(ids(60, 50).is_empty() && ids(101, 200).is_empty() && ids(0, 0).is_empty());
        assert_eq!(ids(1, 100).len(), 100);
        assert_eq!(entries.range(StreamId::MIN, StreamId::MAX).count(), 100);
        assert_eq!(entries.range_back(StreamId::MIN, StreamId::MAX).count(), 100);
    }

    #[test]
    fn an_addition_touches_the_last_node_alone() {
        let mut entries = filled(1000);
        let mut tracker = Tracker::default();
        let pairs: [&[u8]; 2] = [b"field", b"value"];
        entries.append(
            StreamId::new(6, 1),
            &pairs,
            UnitLimits { entries: 0, bytes: 0, shares_names: false },
            &mut tracker,
        );
        assert_eq!(tracker.take_touched().len(), 1);
    }
}
