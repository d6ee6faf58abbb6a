//! Lists: packed in the key's entry while they are small, packed nodes in a tree when large.
//!
//! ```text
//!  small   entry ─ [ a b c ]                              one record, logged whole
//!  large   entry ─► nodes ─► [ a b … ][ … ][ … y z ]      a record a node, of at most
//!                                                         PACKED_BYTES_MAX bytes
//! ```
//!
//! # Invariants
//! - A packed list has the same bytes as a node with the same elements; its flags are 0.
//! - While a guard is open, nodes differ from their records; it logs each changed node once when
//!   it is closed, however often the command changed it.
//! - A list that has grown large stays large until it is empty.

mod nodes;
mod order;
mod span;

use base::ObjectId;

use crate::collection::{ALL_SEEN, Cell, Closed, Collection, PackedKind, ValueRef};
use crate::entry::{Kind, Payload};
use crate::keyspace::body_of;
use crate::object::{Body, Object};
use crate::packed::{self, Elements, PACKED_BYTES_MAX, Packed};
use crate::rank_tree;
use crate::value_type::Type;

use nodes::{Changes, Node};

pub(crate) use nodes::LargeList;

/// The marker of lists, for [`crate::Keyspace::read`] and [`crate::Keyspace::update`].
#[derive(Debug, Clone, Copy)]
pub struct List;

/// An end of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// The head, Redis' left.
    Front,
    /// The tail, Redis' right.
    Back,
}

/// A list, read.
#[derive(Clone, Copy)]
pub struct ListView<'a>(View<'a>);

#[derive(Clone, Copy)]
enum View<'a> {
    Packed(&'a [u8]),
    Large(&'a LargeList),
}

impl<'a> ListView<'a> {
    /// How many elements there are.
    #[must_use]
    pub fn len(&self) -> usize {
        match self.0 {
            View::Packed(bytes) => Packed::new(bytes).count(),
            View::Large(list) => list.nodes().weight(),
        }
    }

    /// Whether there are none, which no key ever has.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        match self.0 {
            View::Packed(bytes) => Packed::new(bytes).iter().next().is_none(),
            View::Large(list) => list.nodes().is_empty(),
        }
    }

    /// The element at `position`, counted from the front.
    #[must_use]
    pub fn get(&self, position: usize) -> Option<&'a [u8]> {
        self.iter_from(position).next()
    }

    /// The elements from `position` on, forwards.
    #[must_use]
    pub fn iter_from(&self, position: usize) -> Iter<'a> {
        let (mut iter, skipped) = match self.0 {
            View::Packed(bytes) => {
                (Iter { nodes: None, elements: Packed::new(bytes).iter() }, position)
            }
            View::Large(list) => {
                let nodes = list.nodes();
                let (index, offset) = nodes.find(position).unwrap_or((nodes.len(), 0));
                let elements = Elements::default();
                (Iter { nodes: Some(nodes.iter_from(index)), elements }, offset)
            }
        };
        for _ in 0..skipped {
            // A position can be any number; the list has an end.
            if iter.next().is_none() {
                break;
            }
        }
        iter
    }

    /// The elements from `position` down to the first; from the last when `position` is past it.
    #[must_use]
    pub fn iter_back_from(&self, position: usize) -> IterBack<'a> {
        let mut iter = IterBack { nodes: None, bytes: &[], starts: [0; PACKED_BYTES_MAX], left: 0 };
        match self.0 {
            View::Packed(bytes) => iter.enter(bytes, position),
            View::Large(list) => {
                let nodes = list.nodes();
                let (index, offset) = nodes.find(position).unwrap_or((nodes.len(), usize::MAX));
                let mut back = nodes.iter_from_back(index);
                if let Some(node) = back.next() {
                    iter.enter(node.bytes(), offset);
                }
                iter.nodes = Some(back);
            }
        }
        iter
    }
}

/// Elements of a list, forwards.
pub struct Iter<'a> {
    /// The nodes behind the one that `elements` are of; `None` for a packed list.
    nodes: Option<rank_tree::Iter<'a, Node>>,
    elements: Elements<'a>,
}

impl<'a> Iterator for Iter<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        if let Some(element) = self.elements.next() {
            return Some(element);
        }
        self.elements = Packed::new(self.nodes.as_mut()?.next()?.bytes()).iter();
        self.elements.next()
    }
}

/// Elements of a list, backwards.
pub struct IterBack<'a> {
    /// The nodes before the one that is read; `None` for a packed list.
    nodes: Option<std::iter::Rev<rank_tree::Iter<'a, Node>>>,
    bytes: &'a [u8],
    /// Where the elements of `bytes` begin. There is room for all: an element takes at least a
    /// byte, and more bytes than [`PACKED_BYTES_MAX`] are a single element.
    starts: [u8; PACKED_BYTES_MAX],
    /// How many of them are still to come.
    left: usize,
}

impl<'a> IterBack<'a> {
    /// Goes on with packed `bytes`, from the element at `offset` or the last.
    fn enter(&mut self, bytes: &'a [u8], offset: usize) {
        self.bytes = bytes;
        self.left = 0;
        let mut at = span::FIRST;
        while at < bytes.len() && self.left <= offset {
            self.starts[self.left] =
                u8::try_from(at).expect("an element begins below PACKED_BYTES_MAX");
            self.left += 1;
            at = span::skip(bytes, at, 1);
        }
    }
}

impl<'a> Iterator for IterBack<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        if self.left == 0 {
            let node = self.nodes.as_mut()?.next()?;
            self.enter(node.bytes(), usize::MAX);
        }
        self.left = self.left.checked_sub(1)?;
        Some(span::element(self.bytes, usize::from(self.starts[self.left])))
    }
}

/// A list, to be changed.
pub struct ListGuard<'a> {
    cell: Cell<'a>,
    changed: bool,
    /// The packed bytes, or the root, wait to be logged.
    unlogged: bool,
    /// The nodes that wait to be logged.
    changes: Changes,
}

impl ListGuard<'_> {
    /// The list as it is now.
    #[must_use]
    pub fn view(&self) -> ListView<'_> {
        List::view(ValueRef(self.cell.entry.payload(), self.cell.recorder.hasher, ALL_SEEN))
    }

    /// Adds an element at an end.
    pub fn push(&mut self, end: End, element: &[u8]) {
        let position = match end {
            End::Front => 0,
            End::Back => self.view().len(),
        };
        self.insert(position, element);
    }

    /// Adds an element before the one that is at `position` now; the length appends.
    pub fn insert(&mut self, position: usize, element: &[u8]) {
        self.changed = true;
        if let Some(packed) = self.cell.packed() {
            if packed.bytes() + packed::element_bytes(element.len()) <= PACKED_BYTES_MAX {
                self.repack(|bytes, out| {
                    span::splice(bytes, span::of(bytes, position, 0), Some(element), out);
                });
                return;
            }
            self.unpack();
        }
        let (list, changes) = self.large();
        list.insert(position, element, changes);
    }

    /// Replaces the element at `position`, which must be there.
    pub fn set(&mut self, position: usize, element: &[u8]) {
        self.changed = true;
        if let Payload::Packed(_, bytes) = self.cell.entry.payload() {
            let old = span::of(bytes, position, 1);
            let bytes = bytes.len() - old.len() + packed::element_bytes(element.len());
            if bytes <= PACKED_BYTES_MAX {
                self.repack(|bytes, out| span::splice(bytes, old, Some(element), out));
                return;
            }
            self.unpack();
        }
        let (list, changes) = self.large();
        list.set(position, element, changes);
    }

    /// Removes `count` elements from an end, or all if there are fewer.
    pub fn cut(&mut self, end: End, count: usize) {
        let len = self.view().len();
        let count = count.min(len);
        if count == 0 {
            return;
        }
        self.changed = true;
        if self.cell.packed().is_some() {
            let first = if end == End::Front { 0 } else { len - count };
            self.repack(|bytes, out| {
                span::splice(bytes, span::of(bytes, first, count), None, out);
            });
        } else {
            let (list, changes) = self.large();
            list.cut(end, count, changes);
        }
    }

    /// Removes elements that equal `element`, at most `count_max`, the ones next to `end` first.
    /// How many were removed.
    pub fn remove_equal(&mut self, element: &[u8], end: End, count_max: usize) -> usize {
        let removed = if let Some(packed) = self.cell.packed() {
            let found = packed.iter().filter(|other| *other == element).count();
            let removed = found.min(count_max);
            if removed > 0 {
                let kept = if end == End::Front { 0 } else { found - removed };
                self.repack(|bytes, out| span::without(bytes, element, kept, removed, out));
            }
            removed
        } else {
            let (list, changes) = self.large();
            list.remove_equal(element, end, count_max, changes)
        };
        self.changed |= removed > 0;
        removed
    }

    /// Replaces the packed bytes by what `build` makes of them.
    fn repack(&mut self, build: impl FnOnce(&[u8], &mut Vec<u8>)) {
        let Cell { entry, scratch, .. } = &mut self.cell;
        let Payload::Packed(_, bytes) = entry.payload() else {
            unreachable!("the caller saw that the list is packed")
        };
        scratch.clear();
        build(bytes, scratch);
        self.cell.store_packed(Kind::ListPacked);
        self.unlogged = true;
    }

    /// Makes a packed list a large one.
    fn unpack(&mut self) {
        let Cell { entry, recorder, .. } = &mut self.cell;
        let Payload::Packed(_, bytes) = entry.payload() else { return };
        let list = LargeList::of_packed(bytes, &mut self.changes);
        let object = Object::new(recorder.new_object_id(), Body::List(list));
        entry.replace_object(Box::new(object));
        self.unlogged = true;
    }

    fn large(&mut self) -> (&mut LargeList, &mut Changes) {
        let (_, list) = large_of(&mut self.cell);
        (list, &mut self.changes)
    }
}

fn large_of<'a>(cell: &'a mut Cell<'_>) -> (ObjectId, &'a mut LargeList) {
    let object = cell.entry.object_mut().expect("a list that is not packed is large");
    match (object.id(), &mut object.body) {
        (id, Body::List(list)) => (id, list),
        _ => unreachable!("the type was checked at lookup"),
    }
}

impl Collection for List {
    type View<'a> = ListView<'a>;
    type Guard<'a> = ListGuard<'a>;
    const TYPE: Type = Type::List;

    fn packed_kind() -> Option<PackedKind> {
        Some(PackedKind(Kind::ListPacked))
    }

    fn view<'a>(value: ValueRef<'a>) -> ListView<'a> {
        ListView(match value.0 {
            Payload::Packed(_, bytes) => View::Packed(bytes),
            Payload::Object(object) => View::Large(body_of!(object, List)),
            Payload::Str(_) | Payload::Int(_) => unreachable!("the type was checked at lookup"),
        })
    }

    fn open<'a>(cell: Cell<'a>) -> ListGuard<'a> {
        ListGuard { cell, changed: false, unlogged: false, changes: Changes::default() }
    }

    fn close(mut guard: ListGuard<'_>) -> Closed {
        let empty = guard.view().is_empty();
        let Cell { entry, recorder, .. } = &mut guard.cell;
        if empty {
            // The record that deletes the key will say it for all its nodes.
            guard.changes.retire(recorder);
        } else {
            if let Some(object) = entry.object_mut() {
                let id = object.id();
                let Body::List(list) = &mut object.body else {
                    unreachable!("the type was checked at lookup")
                };
                list.log(id, recorder, guard.changes);
            }
            if guard.unlogged {
                guard.cell.log_key();
            }
        }
        Closed { changed: guard.changed, empty, is_quiet: false }
    }
}
