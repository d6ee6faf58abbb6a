//! Groups, their consumers, and what they wait for, read.

use super::{Consumer, Delivery, Group, NO_CONSUMER, Pending};
use crate::stream::StreamId;
use crate::stream::name::Number;

/// A group of consumers, read.
#[derive(Clone, Copy)]
pub struct GroupView<'a>(pub(in crate::stream) &'a Group);

/// A consumer, read.
#[derive(Clone, Copy)]
pub struct ConsumerView<'a>(&'a Consumer);

/// An entry that waits to be acknowledged, read.
#[derive(Clone, Copy)]
pub struct PendingView<'a> {
    /// Its id; the entry itself may be deleted.
    pub id: StreamId,
    /// When and how often it was given.
    pub delivery: Delivery,
    /// The name of the consumer that holds it; `None` if it was given back.
    pub consumer: Option<&'a [u8]>,
}

impl<'a> GroupView<'a> {
    /// Its name.
    #[must_use]
    pub fn name(self) -> &'a [u8] {
        &self.0.name
    }

    /// The last entry that it was given.
    #[must_use]
    pub const fn last_id(self) -> StreamId {
        self.0.last_id
    }

    /// How many entries of the stream are up to that one, deleted ones too; `None` if that is not known.
    #[must_use]
    pub const fn entries_read(self) -> Option<u64> {
        self.0.entries_read
    }

    /// How many entries wait to be acknowledged.
    #[must_use]
    pub const fn pending_count(self) -> usize {
        self.0.pending.len()
    }

    /// How many consumers there are.
    #[must_use]
    pub fn consumer_count(self) -> usize {
        self.0.consumers.len()
    }

    /// A consumer.
    #[must_use]
    pub fn consumer(self, name: &[u8]) -> Option<ConsumerView<'a>> {
        let number = self.number_of(name)?;
        self.0.consumers.get(&number).map(ConsumerView)
    }

    /// The number of a consumer.
    pub(in crate::stream) fn number_of(self, name: &[u8]) -> Option<Number> {
        self.0.consumers_by_name.get(name).copied()
    }

    /// The consumers, in the order of their names.
    pub fn consumers(self) -> impl Iterator<Item = ConsumerView<'a>> {
        let group = self.0;
        group.consumers_by_name.values().map(|number| ConsumerView(&group.consumers[number]))
    }

    /// What waits to be acknowledged and has this id.
    #[must_use]
    pub fn pending(self, id: StreamId) -> Option<PendingView<'a>> {
        self.0.pending(id).map(|pending| self.pending_view(pending))
    }

    /// What waits to be acknowledged, from this id on.
    pub fn pending_from(self, id: StreamId) -> impl Iterator<Item = PendingView<'a>> {
        let (index, _) = self.0.find(id);
        self.0.pending.iter_from(index).map(move |pending| self.pending_view(pending))
    }

    /// The first and the last id that wait to be acknowledged.
    #[must_use]
    pub fn pending_bounds(self) -> Option<(StreamId, StreamId)> {
        Some((self.0.pending.first()?.id, self.0.pending.last()?.id))
    }

    /// What a consumer of this group holds, from this id on.
    pub fn held_from(
        self,
        consumer: ConsumerView<'a>,
        id: StreamId,
    ) -> impl Iterator<Item = PendingView<'a>> {
        let held = &consumer.0.held;
        let index = held.partition_point(|held| held.0 < id);
        held.iter_from(index)
            .map(move |held| self.pending(held.0).expect("what is held is pending"))
    }

    fn pending_view(self, pending: &Pending) -> PendingView<'a> {
        let Pending { id, consumer, .. } = *pending;
        let delivery = pending.delivery();
        let is_held = consumer != NO_CONSUMER;
        let consumer = is_held.then(|| &*self.0.consumers[&consumer].name);
        PendingView { id, delivery, consumer }
    }
}

impl<'a> ConsumerView<'a> {
    /// Its name.
    #[must_use]
    pub fn name(self) -> &'a [u8] {
        &self.0.name
    }

    /// When it was last heard of, in Unix milliseconds.
    #[must_use]
    pub const fn seen_ms(self) -> i64 {
        self.0.seen_ms
    }

    /// When it last got something, in Unix milliseconds; `None` if it never did.
    #[must_use]
    pub const fn active_ms(self) -> Option<i64> {
        self.0.active_ms
    }

    /// How many entries it holds.
    #[must_use]
    pub const fn held_count(self) -> usize {
        self.0.held.len()
    }
}
