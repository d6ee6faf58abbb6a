//! The groups of consumers of a stream: what each was given, and what it has not acknowledged.
//!
//! ```text
//!   group ─┬─ pending     all entries that wait to be acknowledged, by id: 48 bytes each
//!          ├─ by_time     their ids by when they were given, once that was asked for: 24 bytes each
//!          └─ consumers ── held     the ids of those that it was given: 16 bytes each
//! ```
//!
//! A pending entry, a consumer and a group have a record each: an acknowledgement logs that one entry is gone.
//!
//! # Invariants
//! - Each pending entry is held by the consumer that it names, and by no other one; by none if it names [`NO_CONSUMER`].
//! - No two groups, and no two consumers of a group, have one name, or one number.

mod value;
mod view;

use std::collections::{BTreeMap, BTreeSet};

use base::{RecordAddr, varint};

use super::StreamId;
use super::name::{Name, Number};
use super::tracker::Tracker;
use crate::rank_tree::{RankTree, Weighted};

pub(super) use value::{Value, is_value};
pub use view::{ConsumerView, GroupView, PendingView};

/// An entry that was given to a consumer, and that a group waits to be acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Delivery {
    /// When it was given to the consumer, in Unix milliseconds.
    pub at_ms: i64,
    /// How often it was given to one.
    pub count: u64,
}

impl Delivery {
    /// The largest count: in Redis it is a number of 64 bits with a sign.
    pub const COUNT_MAX: u64 = i64::MAX.unsigned_abs();

    /// The entry is given once more, at that time.
    #[must_use]
    pub const fn again(self, at_ms: i64) -> Self {
        let count = if self.count < Self::COUNT_MAX { self.count + 1 } else { Self::COUNT_MAX };
        Self { at_ms, count }
    }
}

/// The number that no consumer has: what a pending entry names that was given back, and that none holds.
pub(super) const NO_CONSUMER: Number = 0;

/// An entry that waits to be acknowledged.
pub(super) struct Pending {
    pub(super) id: StreamId,
    pub(super) addr: Option<RecordAddr>,
    /// Of one that was given back, it says in place of the time which was given back before which.
    pub(super) delivery: Delivery,
    pub(super) consumer: Number,
}

impl Weighted for Pending {
    fn weight(&self) -> usize {
        1
    }
}

/// The id of one, in the order in which a consumer holds them.
pub(super) struct Held(pub(super) StreamId);

impl Weighted for Held {
    fn weight(&self) -> usize {
        1
    }
}

/// A consumer of a group.
pub(super) struct Consumer {
    pub(super) name: Box<[u8]>,
    pub(super) addr: Option<RecordAddr>,
    pub(super) seen_ms: i64,
    pub(super) active_ms: Option<i64>,
    pub(super) held: RankTree<Held>,
}

/// A group of consumers.
pub(super) struct Group {
    pub(super) name: Box<[u8]>,
    pub(super) addr: Option<RecordAddr>,
    pub(super) last_id: StreamId,
    pub(super) entries_read: Option<u64>,
    pub(super) pending: RankTree<Pending>,
    by_time: Option<BTreeSet<(i64, StreamId)>>,
    /// What was given back last has it, or had.
    last_turn: i64,
    pub(super) consumers: BTreeMap<Number, Consumer>,
    pub(super) consumers_by_name: BTreeMap<Box<[u8]>, Number>,
}

impl Consumer {
    pub(super) fn put(&self, out: &mut Vec<u8>) {
        varint::put_bytes(out, &self.name);
        out.extend_from_slice(&self.seen_ms.to_le_bytes());
        out.extend(self.active_ms.iter().flat_map(|ms| ms.to_le_bytes()));
    }

    pub(super) fn touch(&self, name: Name, tracker: &mut Tracker) {
        tracker.touch(name, self.addr, |out| self.put(out));
    }

    pub(super) fn hold(&mut self, id: StreamId) {
        let index = self.held.partition_point(|held| held.0 < id);
        self.held.insert(index, Held(id));
    }

    pub(super) fn release(&mut self, id: StreamId) {
        let index = self.held.partition_point(|held| held.0 < id);
        self.held.remove(index);
    }
}

impl Pending {
    pub(super) fn put(&self, out: &mut Vec<u8>) {
        varint::put(out, u64::from(self.consumer));
        varint::put(out, self.delivery.count);
        out.extend_from_slice(&self.delivery.at_ms.to_le_bytes());
    }

    /// Its place among those that wait for a consumer: one that was given back has waited longer than all others.
    const fn since_ms(&self) -> i64 {
        if self.consumer == NO_CONSUMER {
            i64::MIN.saturating_add(self.delivery.at_ms)
        } else {
            self.delivery.at_ms
        }
    }

    /// When and how often it was given; one that was given back was given at 0.
    pub(super) const fn delivery(&self) -> Delivery {
        let at_ms = if self.consumer == NO_CONSUMER { 0 } else { self.delivery.at_ms };
        Delivery { at_ms, count: self.delivery.count }
    }

    pub(super) fn touch(&self, group: Number, tracker: &mut Tracker) {
        tracker.touch(Name::Pending(group, self.id), self.addr, |out| self.put(out));
    }
}

impl Group {
    pub(super) fn put(&self, out: &mut Vec<u8>) {
        varint::put_bytes(out, &self.name);
        self.last_id.put(out);
        varint::put(out, self.entries_read.map_or(0, |count| count.saturating_add(1)));
    }

    /// The index of a pending entry, or where it would be; and whether it is there.
    pub(super) fn find(&self, id: StreamId) -> (usize, bool) {
        let index = self.pending.partition_point(|pending| pending.id < id);
        (index, self.pending.get(index).is_some_and(|pending| pending.id == id))
    }

    pub(super) fn pending(&self, id: StreamId) -> Option<&Pending> {
        let (index, is_there) = self.find(id);
        self.pending.get(index).filter(|_| is_there)
    }

    pub(super) fn consumer_mut(&mut self, number: Number) -> &mut Consumer {
        self.consumers.get_mut(&number).expect("the number was asked for")
    }

    fn hold(&mut self, consumer: Number, id: StreamId) {
        if consumer != NO_CONSUMER {
            self.consumer_mut(consumer).hold(id);
        }
    }

    fn let_go(&mut self, consumer: Number, id: StreamId) {
        if consumer != NO_CONSUMER {
            self.consumer_mut(consumer).release(id);
        }
    }

    /// The turn of what is given back next.
    pub(super) const fn next_turn(&self) -> i64 {
        self.last_turn.saturating_add(1)
    }

    /// Takes over a pending entry. Returns where its record was.
    pub(super) fn put_pending(&mut self, pending: Pending) -> Option<RecordAddr> {
        let (index, is_there) = self.find(pending.id);
        let (id, consumer) = (pending.id, pending.consumer);
        if consumer == NO_CONSUMER {
            self.last_turn = self.last_turn.max(pending.delivery.at_ms);
        }
        if let Some(by_time) = &mut self.by_time {
            by_time.insert((pending.since_ms(), id));
        }
        if !is_there {
            self.pending.insert(index, pending);
            self.hold(consumer, id);
            return None;
        }
        let since_ms = pending.since_ms();
        let old = self.pending.update(index, |old| std::mem::replace(old, pending));
        if old.since_ms() != since_ms {
            self.forget_time(&old);
        }
        if old.consumer != consumer {
            self.let_go(old.consumer, id);
            self.hold(consumer, id);
        }
        old.addr
    }

    /// Takes out a pending entry.
    pub(super) fn take_pending(&mut self, id: StreamId) -> Option<Pending> {
        let pending = self.take_from_all(id)?;
        self.let_go(pending.consumer, id);
        Some(pending)
    }

    /// Takes out a pending entry of a consumer that is gone.
    pub(super) fn take_from_all(&mut self, id: StreamId) -> Option<Pending> {
        let (index, is_there) = self.find(id);
        let pending = is_there.then(|| self.pending.remove(index))?;
        self.forget_time(&pending);
        Some(pending)
    }

    fn forget_time(&mut self, pending: &Pending) {
        if let Some(by_time) = &mut self.by_time {
            by_time.remove(&(pending.since_ms(), pending.id));
        }
    }

    /// What was given until then and is pending, the longest first, behind what was given back.
    pub(super) fn given_until(
        &mut self,
        until_ms: i64,
    ) -> impl Iterator<Item = (StreamId, Delivery)> {
        if self.by_time.is_none() {
            let by_time = self.pending.iter().map(|it| (it.since_ms(), it.id));
            self.by_time = Some(by_time.collect());
        }
        let Self { by_time, pending, .. } = &*self;
        let until = by_time.iter().flat_map(move |it| it.range(..=(until_ms, StreamId::MAX)));
        until.map(move |(_, id)| {
            let index = pending.partition_point(|pending| pending.id < *id);
            (*id, pending.get(index).expect("it is pending").delivery())
        })
    }

    /// How many times are kept.
    pub(super) fn times(&self) -> usize {
        self.by_time.as_ref().map_or(0, BTreeSet::len)
    }

    pub(super) fn elements(&self) -> usize {
        1 + self.consumers.len() + self.pending.len()
    }

    pub(super) fn copy(&self) -> Self {
        let consumers = self.consumers.iter().map(|(number, consumer)| {
            let Consumer { name, seen_ms, active_ms, held, .. } = consumer;
            let held = held.iter().map(|held| Held(held.0)).collect();
            let (name, seen_ms, active_ms) = (name.clone(), *seen_ms, *active_ms);
            (*number, Consumer { name, addr: None, seen_ms, active_ms, held })
        });
        let pending = self.pending.iter().map(|pending| {
            let Pending { id, delivery, consumer, .. } = *pending;
            Pending { id, addr: None, delivery, consumer }
        });
        Self {
            name: self.name.clone(),
            addr: None,
            last_id: self.last_id,
            entries_read: self.entries_read,
            pending: pending.collect(),
            by_time: None,
            last_turn: self.last_turn,
            consumers: consumers.collect(),
            consumers_by_name: self.consumers_by_name.clone(),
        }
    }

    pub(super) fn into_addrs(self) -> impl Iterator<Item = Option<RecordAddr>> + Send {
        let Self { addr, mut pending, consumers, .. } = self;
        let consumers = consumers.into_values().map(|consumer| consumer.addr);
        let pending = std::iter::from_fn(move || pending.pop_back()).map(|pending| pending.addr);
        std::iter::once(addr).chain(consumers).chain(pending)
    }
}

impl Group {
    pub(super) fn new(
        name: &[u8],
        last_id: StreamId,
        entries_read: Option<u64>,
        addr: Option<RecordAddr>,
    ) -> Self {
        Self {
            name: name.into(),
            addr,
            last_id,
            entries_read,
            pending: RankTree::new(),
            by_time: None,
            last_turn: 0,
            consumers: BTreeMap::new(),
            consumers_by_name: BTreeMap::new(),
        }
    }
}

impl Consumer {
    pub(super) fn new(
        name: &[u8],
        seen_ms: i64,
        active_ms: Option<i64>,
        addr: Option<RecordAddr>,
    ) -> Self {
        Self { name: name.into(), addr, seen_ms, active_ms, held: RankTree::new() }
    }
}
