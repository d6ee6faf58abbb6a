//! Items in memory: they come in any order, and are read by object and order key.
//!
//! ```text
//!   slots:   object, root or element, order key, place in the arena     these are sorted
//!   arena:   weight varint │ length varint │ payload                    in the order of coming
//!            weight varint │ ASIDE varint │ place varint │ length varint
//! ```

use base::{ObjectId, varint};

use crate::order::Order;
use crate::run::{Group, Item, Payload};
use crate::spill::Aside;

/// In the place of a length: the payload was put aside.
const ASIDE: u64 = u64::MAX;

/// The most that an item takes next to its payload.
const HEAD_BYTES_MAX: usize = 2 * varint::LEN_MAX;

/// An item in the arena.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Slot {
    /// Twice the object's number, and one for an element: a root is its first.
    subject: u64,
    order: Order,
    at: usize,
}

impl Slot {
    const fn object(&self) -> ObjectId {
        ObjectId(self.subject >> 1)
    }

    const fn order(&self) -> Option<Order> {
        if self.subject & 1 == 1 { Some(self.order) } else { None }
    }
}

/// See the file's top.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    slots: Vec<Slot>,
    arena: Vec<u8>,
    /// The next item that is read.
    at: usize,
    /// The end of the group that is read.
    end: usize,
}

impl Batch {
    /// Takes an item, whose bytes are `parts`.
    pub(crate) fn push(
        &mut self,
        object: ObjectId,
        order: Option<Order>,
        weight: u64,
        parts: &[&[u8]],
    ) {
        self.begin_item(object, order, weight);
        varint::put(&mut self.arena, parts.iter().map(|part| part.len() as u64).sum());
        parts.iter().for_each(|part| self.arena.extend_from_slice(part));
    }

    /// Takes an item whose payload was put aside.
    pub(crate) fn push_aside(
        &mut self,
        object: ObjectId,
        order: Option<Order>,
        weight: u64,
        aside: Aside,
    ) {
        self.begin_item(object, order, weight);
        for number in [ASIDE, aside.at, aside.len] {
            varint::put(&mut self.arena, number);
        }
    }

    fn begin_item(&mut self, object: ObjectId, order: Option<Order>, weight: u64) {
        debug_assert!(object < ObjectId::MAX, "records were checked");
        let subject = object.0 << 1 | u64::from(order.is_some());
        self.slots.push(Slot { subject, order: order.unwrap_or_default(), at: self.arena.len() });
        varint::put(&mut self.arena, weight);
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// Returns how much memory it uses with another item of `payload_bytes`, at most.
    pub(crate) const fn bytes_with(&self, payload_bytes: usize) -> usize {
        let arena_bytes = self.arena.len() + HEAD_BYTES_MAX + payload_bytes;
        arena_bytes + (self.slots.len() + 1) * size_of::<Slot>()
    }

    /// Sorts the items, which can then be read.
    pub(crate) fn sort(&mut self) {
        self.slots.sort_unstable();
    }

    /// Forgets all items. The memory is kept.
    pub(crate) fn clear(&mut self) {
        self.slots.clear();
        self.arena.clear();
        (self.at, self.end) = (0, 0);
    }

    /// Begins the next group.
    ///
    /// REQUIRES: it is sorted, and all items of the group before were read.
    pub(crate) fn group(&mut self) -> Option<Group> {
        debug_assert_eq!(self.at, self.end, "items of a group were left");
        let object = self.slots.get(self.at)?.object();
        let slots = self.slots[self.at..].iter().take_while(|slot| slot.object() == object);
        let (mut weight, mut items) = (0, 0);
        for slot in slots {
            weight += varint::take(&mut &self.arena[slot.at..]).expect("it was put there");
            items += 1;
        }
        self.end += items;
        Some(Group { object, weight, items: items as u64 })
    }

    /// Returns the next item of the group.
    pub(crate) fn item(&mut self) -> Option<Item<'_>> {
        if self.at == self.end {
            return None;
        }
        let slot = &self.slots[self.at];
        self.at += 1;
        let mut bytes = &self.arena[slot.at..];
        let mut number = || varint::take(&mut bytes).expect("it was put there");
        let (_weight, len) = (number(), number());
        let payload = if len == ASIDE {
            Payload::Aside(Aside { at: number(), len: number() })
        } else {
            Payload::Here(&bytes[..usize::try_from(len).expect("it is in memory")])
        };
        Some(Item { order: slot.order(), payload })
    }
}
