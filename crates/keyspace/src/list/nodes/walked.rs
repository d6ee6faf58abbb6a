//! The nodes of a large list in a tree, and what a walk has still to emit of them.
//!
//! ```text
//!   tree    ■ ■ ■ ■ │ □ □ ◆ □ ◆ ◆ □       ■ emitted   □ as it was   ◆ early: changed or added since
//!               visited
//!   old                  3   5  6         what was in the place of those that changed or are gone, by the
//!                                         order keys that they had
//! ```
//!
//! No command exchanges two nodes, and a node whose order key changes counts as changed. So what is
//! as it was has the order keys that it had, and the two rising sequences are merged.
//!
//! # Invariants
//! - `visited` nodes at the front are of no concern: they were emitted, or are among those that were,
//!   and none of them is early.
//! - Behind them a node is early, or is as it was when the shadow was opened.

use std::collections::BTreeMap;
use std::ops::Deref;

use base::{ObjectId, RecordAddr};

use super::Node;
use crate::rank_tree::RankTree;
use crate::recorder::Recorder;
use crate::walk::Stream;

/// What an old node takes besides its bytes.
const OLD_BYTES: usize = 48;

/// See the file's top. What it dereferences to is for reading.
#[derive(Default)]
pub(super) struct Nodes {
    tree: RankTree<Node>,
    shadow: Option<Box<Shadow>>,
}

#[derive(Default)]
struct Shadow {
    visited: usize,
    old: BTreeMap<u64, Box<[u8]>>,
    bytes: usize,
}

impl Shadow {
    fn keep(&mut self, order: u64, bytes: Box<[u8]>) {
        self.bytes += OLD_BYTES + bytes.len();
        self.old.insert(order, bytes);
    }

    /// Emits what was before the node with this order key, or all. Whether that was everything.
    fn emit_old(&mut self, before: Option<u64>, stream: &mut Stream) -> bool {
        while let Some(first) = self.old.first_entry() {
            if before.is_some_and(|order| *first.key() >= order) {
                break;
            }
            if stream.is_spent() {
                return false;
            }
            let bytes = first.remove();
            self.bytes -= OLD_BYTES + bytes.len();
            stream.node(&bytes);
        }
        true
    }
}

impl Nodes {
    /// Lets `change` alter the node at `index`.
    pub(super) fn update<R>(&mut self, index: usize, change: impl FnOnce(&mut Node) -> R) -> R {
        if self.shadow.is_some() {
            self.keep(index);
        }
        self.tree.update(index, change)
    }

    /// The node at `index` is about to change.
    #[cold]
    fn keep(&mut self, index: usize) {
        let Self { tree, shadow } = self;
        let Some(shadow) = shadow.as_mut().filter(|shadow| index >= shadow.visited) else { return };
        tree.update(index, |node| {
            if !std::mem::replace(&mut node.is_early, true) {
                shadow.keep(node.order, node.bytes.clone());
            }
        });
    }

    /// Logs the node at `index`. `old` makes the address of the record that is retired then of the one
    /// that the node has.
    pub(super) fn log(
        &mut self,
        index: usize,
        id: ObjectId,
        recorder: &mut Recorder,
        old: impl FnOnce(Option<RecordAddr>) -> Option<RecordAddr>,
    ) {
        self.tree.update(index, |node| {
            let old = old(node.addr);
            node.log(id, recorder, old);
        });
    }

    /// Puts a node before the one that is at `index` now.
    pub(super) fn insert(&mut self, index: usize, mut node: Node) {
        if let Some(shadow) = &mut self.shadow {
            // One between what was emitted and what was not belongs to neither.
            node.is_early = index > shadow.visited;
            shadow.visited += usize::from(index <= shadow.visited);
        }
        self.tree.insert(index, node);
    }

    /// Takes out the node at `index`. Returns its order key and where its record is.
    pub(super) fn remove(&mut self, index: usize) -> (u64, Option<RecordAddr>) {
        let node = self.tree.remove(index);
        if let Some(shadow) = &mut self.shadow {
            if index < shadow.visited {
                shadow.visited -= 1;
            } else if !node.is_early {
                shadow.keep(node.order, node.bytes);
            }
        }
        (node.order, node.addr)
    }

    /// Takes out the last node, when the list is gone.
    pub(super) fn pop_back(&mut self) -> Option<Node> {
        self.tree.pop_back()
    }

    /// See [`crate::object::Large::open_shadow`].
    pub(super) fn open_shadow(&mut self) {
        self.shadow = Some(Box::default());
    }

    /// See [`crate::object::Large::shadow_bytes`].
    pub(super) fn shadow_bytes(&self) -> Option<usize> {
        self.shadow.as_ref().map(|shadow| shadow.bytes)
    }

    /// See [`crate::object::Large::emit`].
    pub(super) fn emit(&mut self, stream: &mut Stream) -> bool {
        let Some(shadow) = &mut self.shadow else { return true };
        let (mut index, mut early) = (shadow.visited, Vec::new());
        for node in self.tree.iter_from(index) {
            if stream.is_spent() || !node.is_early && !shadow.emit_old(Some(node.order), stream) {
                break;
            }
            if node.is_early {
                early.push(index);
                stream.note_look();
            } else if stream.is_spent() {
                break;
            } else {
                stream.node(&node.bytes);
            }
            index += 1;
        }
        shadow.visited = index;
        let is_last = index == self.tree.len() && shadow.emit_old(None, stream);
        for index in early {
            self.tree.update(index, |node| node.is_early = false);
        }
        if is_last {
            self.shadow = None;
        }
        is_last
    }

    /// See [`crate::object::Large::emit_whole`].
    pub(super) fn emit_whole(&self, stream: &mut Stream) {
        self.tree.iter().for_each(|node| stream.node(&node.bytes));
    }
}

impl Deref for Nodes {
    type Target = RankTree<Node>;

    fn deref(&self) -> &RankTree<Node> {
        &self.tree
    }
}

impl FromIterator<Node> for Nodes {
    fn from_iter<I: IntoIterator<Item = Node>>(nodes: I) -> Self {
        Self { tree: nodes.into_iter().collect(), shadow: None }
    }
}
