//! The groups of a stream by number and by name: every change of one, and their records.

use std::collections::{BTreeMap, BTreeSet};

use base::RecordAddr;

use super::StreamId;
use super::group::{Consumer, Delivery, Group, GroupView, NO_CONSUMER, Pending, Value};
use super::name::{Name, Number};
use super::tracker::Tracker;

/// All groups of a stream.
#[derive(Default)]
pub(super) struct Groups {
    groups: BTreeMap<Number, Group>,
    by_name: BTreeMap<Box<[u8]>, Number>,
    /// Numbers of groups, and of their consumers, that records name whose group or consumer is lost. They are not given
    /// again: what had one of them next would take these records over.
    orphaned: BTreeMap<Number, BTreeSet<Number>>,
}

/// A record of something whose group or consumer is not there, or has another name.
pub(super) struct NoOwner;

/// What the log says is gone.
#[derive(Default)]
pub(super) struct Gone {
    /// Where its record was.
    pub(super) addr: Option<RecordAddr>,
    /// What belonged to it.
    pub(super) orphans: Vec<(Name, RecordAddr, Vec<u8>)>,
}

impl Gone {
    fn orphan(&mut self, name: Name, addr: Option<RecordAddr>, put: impl FnOnce(&mut Vec<u8>)) {
        if let Some(addr) = addr {
            let mut value = Vec::new();
            put(&mut value);
            self.orphans.push((name, addr, value));
        }
    }
}

/// A number that is not given yet, and is not `kept` either; `last_kept` is the last one that is.
fn next_number<T>(
    given: &BTreeMap<Number, T>,
    last_kept: Option<Number>,
    is_kept: impl Fn(Number) -> bool,
) -> Number {
    let last = given.last_key_value().map(|(last, _)| *last).max(last_kept);
    last.map_or(Some(1), |last| last.checked_add(1)).unwrap_or_else(|| {
        let is_free = |number: &Number| !given.contains_key(number) && !is_kept(*number);
        (1..Number::MAX).find(is_free).expect("memory does not hold so many")
    })
}

impl Groups {
    /// How many records they have: a group's, its consumers', and those of what is pending.
    pub(super) fn elements(&self) -> usize {
        self.groups.values().map(Group::elements).sum()
    }

    /// How many groups there are.
    pub(super) fn len(&self) -> usize {
        self.groups.len()
    }

    /// The number of a group.
    pub(super) fn number(&self, name: &[u8]) -> Option<Number> {
        self.by_name.get(name).copied()
    }

    /// The groups, in the order of their names.
    pub(super) fn iter(&self) -> impl Iterator<Item = GroupView<'_>> {
        self.by_name.values().map(|number| self.view(*number))
    }

    /// A group that is there.
    pub(super) fn view(&self, number: Number) -> GroupView<'_> {
        GroupView(self.groups.get(&number).expect("the number was asked for"))
    }

    fn group_mut(&mut self, number: Number) -> &mut Group {
        self.groups.get_mut(&number).expect("the number was asked for")
    }

    /// Whether a group waits for an entry.
    pub(super) fn have_pending(&self) -> bool {
        self.groups.values().any(|group| !group.pending.is_empty())
    }

    /// The last id that every group was given; `None` without a group.
    pub(super) fn least_last_id(&self) -> Option<StreamId> {
        self.groups.values().map(|group| group.last_id).min()
    }

    /// What a group gave until then and waits for, the longest first.
    pub(super) fn given_until(
        &mut self,
        number: Number,
        until_ms: i64,
    ) -> impl Iterator<Item = (StreamId, Delivery)> {
        self.group_mut(number).given_until(until_ms)
    }

    /// Whether a group was not given the entry with this id, or waits for it to be acknowledged.
    pub(super) fn need(&self, id: StreamId) -> bool {
        self.groups.values().any(|group| id > group.last_id || group.pending(id).is_some())
    }

    // ---- change ---------------------------------------------------------------------------

    /// Makes a group. Whether there was none of this name.
    pub(super) fn create(
        &mut self,
        name: &[u8],
        last_id: StreamId,
        entries_read: Option<u64>,
        tracker: &mut Tracker,
    ) -> bool {
        if self.by_name.contains_key(name) {
            return false;
        }
        let orphaned = &self.orphaned;
        let last_kept = orphaned.last_key_value().map(|(last, _)| *last);
        let number = next_number(&self.groups, last_kept, |it| orphaned.contains_key(&it));
        tracker.touch_new(Name::Group(number));
        self.by_name.insert(name.into(), number);
        self.groups.insert(number, Group::new(name, last_id, entries_read, None));
        true
    }

    /// Sets what a group was given.
    pub(super) fn set(
        &mut self,
        number: Number,
        last_id: StreamId,
        entries_read: Option<u64>,
        tracker: &mut Tracker,
    ) {
        let group = self.group_mut(number);
        if (group.last_id, group.entries_read) != (last_id, entries_read) {
            tracker.touch(Name::Group(number), group.addr, |out| group.put(out));
            (group.last_id, group.entries_read) = (last_id, entries_read);
        }
    }

    /// Deletes a group with all that it has.
    pub(super) fn destroy(&mut self, number: Number, tracker: &mut Tracker) {
        let group = self.groups.remove(&number).expect("the number was asked for");
        self.by_name.remove(&group.name);
        group.pending.iter().for_each(|pending| pending.touch(number, tracker));
        for (consumer, of) in &group.consumers {
            of.touch(Name::Consumer(number, *consumer), tracker);
        }
        tracker.touch(Name::Group(number), group.addr, |out| group.put(out));
    }

    /// Makes a consumer, whose name no other one has.
    pub(super) fn create_consumer(
        &mut self,
        number: Number,
        name: &[u8],
        now_ms: i64,
        tracker: &mut Tracker,
    ) -> Number {
        let kept = self.orphaned.get(&number);
        let group = self.groups.get(&number).expect("the number was asked for");
        let last_kept = kept.and_then(|kept| kept.last().copied());
        let is_kept = |it| kept.is_some_and(|kept| kept.contains(&it));
        let consumer = next_number(&group.consumers, last_kept, is_kept);
        let group = self.group_mut(number);
        tracker.touch_new(Name::Consumer(number, consumer));
        group.consumers_by_name.insert(name.into(), consumer);
        group.consumers.insert(consumer, Consumer::new(name, now_ms, None, None));
        consumer
    }

    /// Says when a consumer that was just made got something last.
    pub(super) fn set_active(&mut self, number: Number, consumer: Number, active_ms: Option<i64>) {
        self.group_mut(number).consumer_mut(consumer).active_ms = active_ms;
    }

    /// Deletes a consumer, and what it holds. How many entries that was.
    pub(super) fn delete_consumer(
        &mut self,
        number: Number,
        consumer: Number,
        tracker: &mut Tracker,
    ) -> usize {
        let group = self.group_mut(number);
        let deleted = group.consumers.remove(&consumer).expect("the number was asked for");
        group.consumers_by_name.remove(&deleted.name);
        for held in deleted.held.iter() {
            let pending = group.take_from_all(held.0).expect("what is held is pending");
            pending.touch(number, tracker);
        }
        deleted.touch(Name::Consumer(number, consumer), tracker);
        deleted.held.len()
    }

    /// A consumer has asked, and has got something if it `is_active`.
    pub(super) fn note_seen(
        &mut self,
        number: Number,
        consumer: Number,
        now_ms: i64,
        is_active: bool,
        tracker: &mut Tracker,
    ) {
        let of = self.group_mut(number).consumer_mut(consumer);
        let active_ms = if is_active { Some(now_ms) } else { of.active_ms };
        if (of.seen_ms, of.active_ms) != (now_ms, active_ms) {
            of.touch(Name::Consumer(number, consumer), tracker);
            (of.seen_ms, of.active_ms) = (now_ms, active_ms);
        }
    }

    /// Gives an entry to a consumer, whichever has held it before.
    pub(super) fn deliver(
        &mut self,
        number: Number,
        consumer: Number,
        id: StreamId,
        delivery: Delivery,
        tracker: &mut Tracker,
    ) {
        let group = self.group_mut(number);
        let before = group.pending(id);
        match before {
            Some(before) => before.touch(number, tracker),
            None => tracker.touch_new(Name::Pending(number, id)),
        }
        let addr = before.and_then(|before| before.addr);
        group.put_pending(Pending { id, addr, delivery, consumer });
    }

    /// An entry waits for a consumer that none holds, whichever has held it before.
    pub(super) fn give_back(
        &mut self,
        number: Number,
        id: StreamId,
        count: u64,
        tracker: &mut Tracker,
    ) {
        let turn = self.group_mut(number).next_turn();
        self.deliver(number, NO_CONSUMER, id, Delivery { at_ms: turn, count }, tracker);
    }

    /// An entry is no longer pending. Whether it was.
    pub(super) fn release(&mut self, number: Number, id: StreamId, tracker: &mut Tracker) -> bool {
        let group = self.group_mut(number);
        let Some(pending) = group.pending(id) else { return false };
        pending.touch(number, tracker);
        group.take_pending(id);
        true
    }

    /// No group waits for this entry any more.
    pub(super) fn forget(&mut self, id: StreamId, tracker: &mut Tracker) {
        for (number, group) in &mut self.groups {
            if let Some(pending) = group.pending(id) {
                pending.touch(*number, tracker);
                group.take_pending(id);
            }
        }
    }

    // ---- log ------------------------------------------------------------------------------

    /// Writes the value of a record, and returns where that is; `None` if there is nothing of this name.
    pub(super) fn put(&self, name: Name, out: &mut Vec<u8>) -> Option<Option<RecordAddr>> {
        match name {
            Name::Node(_) | Name::Message(_) | Name::Limits => None,
            Name::Group(group) => self.groups.get(&group).map(|group| {
                group.put(out);
                group.addr
            }),
            Name::Consumer(group, consumer) => {
                let consumer = self.groups.get(&group)?.consumers.get(&consumer)?;
                consumer.put(out);
                Some(consumer.addr)
            }
            Name::Pending(group, id) => {
                let pending = self.groups.get(&group)?.pending(id)?;
                pending.put(out);
                Some(pending.addr)
            }
        }
    }

    /// The record of what has this name is here now.
    pub(super) fn set_addr(&mut self, name: Name, addr: Option<RecordAddr>) {
        let place = match name {
            Name::Node(_) | Name::Message(_) | Name::Limits => None,
            Name::Group(group) => self.groups.get_mut(&group).map(|group| &mut group.addr),
            Name::Consumer(group, consumer) => self
                .groups
                .get_mut(&group)
                .and_then(|group| group.consumers.get_mut(&consumer))
                .map(|consumer| &mut consumer.addr),
            Name::Pending(group, id) => {
                if let Some(group) = self.groups.get_mut(&group)
                    && let (index, true) = group.find(id)
                {
                    group.pending.update(index, |pending| pending.addr = addr);
                }
                None
            }
        };
        if let Some(place) = place {
            *place = addr;
        }
    }

    /// A record of this name and value was not taken over: it waits for its group or consumer, which may be lost.
    pub(super) fn note_orphan(&mut self, name: Name, value: &[u8]) {
        let (group, consumer) = match (name, Value::read(name, value)) {
            (Name::Group(group), _) => (group, None),
            (Name::Consumer(group, consumer), _) => (group, Some(consumer)),
            (Name::Pending(group, _), Some(Value::Pending { consumer, .. })) => {
                (group, Some(consumer))
            }
            _ => return,
        };
        self.orphaned.entry(group).or_default().extend(consumer);
    }

    /// Takes over a record. Returns where the one was that it supersedes; an error if its group or its consumer is not
    /// there, or what has its name is something else.
    pub(super) fn apply(
        &mut self,
        name: Name,
        value: &[u8],
        addr: RecordAddr,
    ) -> Result<Option<RecordAddr>, NoOwner> {
        match (name, Value::read(name, value).ok_or(NoOwner)?) {
            (Name::Group(number), Value::Group { name, last_id, entries_read }) => {
                if let Some(group) = self.groups.get_mut(&number).filter(|it| *it.name == *name) {
                    (group.last_id, group.entries_read) = (last_id, entries_read);
                    return Ok(group.addr.replace(addr));
                }
                if self.groups.contains_key(&number) || self.by_name.contains_key(name) {
                    return Err(NoOwner);
                }
                self.by_name.insert(name.into(), number);
                self.groups.insert(number, Group::new(name, last_id, entries_read, Some(addr)));
                Ok(None)
            }
            (Name::Consumer(group, number), Value::Consumer { name, seen_ms, active_ms }) => {
                let group = self.groups.get_mut(&group).ok_or(NoOwner)?;
                let known = group.consumers.get_mut(&number);
                if let Some(consumer) = known.filter(|it| *it.name == *name) {
                    (consumer.seen_ms, consumer.active_ms) = (seen_ms, active_ms);
                    return Ok(consumer.addr.replace(addr));
                }
                let is_known = group.consumers.contains_key(&number);
                if is_known || group.consumers_by_name.contains_key(name) {
                    return Err(NoOwner);
                }
                group.consumers_by_name.insert(name.into(), number);
                let consumer = Consumer::new(name, seen_ms, active_ms, Some(addr));
                group.consumers.insert(number, consumer);
                Ok(None)
            }
            (Name::Pending(group, id), Value::Pending { consumer, delivery }) => {
                let group = self.groups.get_mut(&group).ok_or(NoOwner)?;
                if consumer != NO_CONSUMER && !group.consumers.contains_key(&consumer) {
                    return Err(NoOwner);
                }
                Ok(group.put_pending(Pending { id, addr: Some(addr), delivery, consumer }))
            }
            _ => Err(NoOwner),
        }
    }

    /// Takes over that something is gone. Returns what was there: the record's address of it, and of all that belongs
    /// to it and has had no deletion of its own, with their values.
    pub(super) fn apply_deleted(&mut self, name: Name) -> Gone {
        let mut gone = Gone::default();
        match name {
            Name::Node(_) | Name::Message(_) | Name::Limits => {}
            Name::Group(number) => {
                let Some(group) = self.groups.remove(&number) else { return gone };
                self.by_name.remove(&group.name);
                gone.addr = group.addr;
                for (consumer, of) in &group.consumers {
                    gone.orphan(Name::Consumer(number, *consumer), of.addr, |out| of.put(out));
                }
                for of in group.pending.iter() {
                    gone.orphan(Name::Pending(number, of.id), of.addr, |out| of.put(out));
                }
            }
            Name::Consumer(number, consumer) => {
                let Some(group) = self.groups.get_mut(&number) else { return gone };
                let Some(consumer) = group.consumers.remove(&consumer) else { return gone };
                group.consumers_by_name.remove(&consumer.name);
                gone.addr = consumer.addr;
                for held in consumer.held.iter() {
                    let of = group.take_from_all(held.0).expect("what is held is pending");
                    gone.orphan(Name::Pending(number, of.id), of.addr, |out| of.put(out));
                }
            }
            Name::Pending(number, id) => {
                let group = self.groups.get_mut(&number);
                gone.addr = group.and_then(|group| group.take_pending(id)).and_then(|it| it.addr);
            }
        }
        gone
    }

    /// The next name after `after`, which is that of a node or of something here.
    pub(super) fn next_name(&self, after: Option<Name>) -> Option<Name> {
        use std::ops::Bound::{Excluded, Unbounded};
        let next_group = |after| {
            let next = self.groups.range((after, Unbounded)).next();
            next.map(|(group, _)| Name::Group(*group))
        };
        let next_consumer = |from: Number, after: Option<Number>| {
            let after = after.map_or(Unbounded, Excluded);
            self.groups.range(from..).find_map(|(number, group)| {
                let after = if *number == from { after } else { Unbounded };
                let next = group.consumers.range((after, Unbounded)).next()?;
                Some(Name::Consumer(*number, *next.0))
            })
        };
        let next_pending = |from: Number, after: Option<StreamId>| {
            self.groups.range(from..).find_map(|(number, group)| {
                let after = after.filter(|_| *number == from);
                let index =
                    after.map_or(0, |after| group.pending.partition_point(|it| it.id <= after));
                group.pending.get(index).map(|pending| Name::Pending(*number, pending.id))
            })
        };
        match after {
            None | Some(Name::Node(_)) => next_group(Unbounded),
            Some(Name::Group(group)) => next_group(Excluded(group))
                .or_else(|| next_consumer(0, None))
                .or_else(|| next_pending(0, None)),
            Some(Name::Consumer(group, consumer)) => {
                next_consumer(group, Some(consumer)).or_else(|| next_pending(0, None))
            }
            Some(Name::Pending(group, id)) => next_pending(group, Some(id)),
            Some(Name::Message(_) | Name::Limits) => None,
        }
    }

    /// The names of the `piece`th piece: a group with its consumers, or some of what is pending. `None` when there are
    /// fewer pieces.
    pub(super) fn piece(&self, mut piece: usize) -> Option<Vec<Name>> {
        const PENDING: usize = 64;
        for (number, group) in &self.groups {
            if piece == 0 {
                let consumers = group.consumers.keys();
                let consumers = consumers.map(|consumer| Name::Consumer(*number, *consumer));
                return Some(std::iter::once(Name::Group(*number)).chain(consumers).collect());
            }
            piece -= 1;
            let pieces = group.pending.len().div_ceil(PENDING);
            if piece < pieces {
                let range = piece * PENDING..(piece + 1) * PENDING;
                let pending = group.pending.range(range);
                return Some(pending.map(|it| Name::Pending(*number, it.id)).collect());
            }
            piece -= pieces;
        }
        None
    }

    /// A copy without records.
    pub(super) fn copy(&self) -> Self {
        let groups = self.groups.iter().map(|(number, group)| (*number, group.copy()));
        // What waits stays where it is.
        let orphaned = BTreeMap::new();
        Self { groups: groups.collect(), by_name: self.by_name.clone(), orphaned }
    }

    /// Takes them apart, yielding the addresses of the records.
    pub(super) fn into_addrs(self) -> impl Iterator<Item = Option<RecordAddr>> + Send {
        self.groups.into_values().flat_map(Group::into_addrs)
    }

    /// The bytes that they take, about.
    pub(super) fn allocated_bytes(&self) -> usize {
        let consumer = |consumer: &Consumer| {
            size_of::<Consumer>() + 2 * consumer.name.len() + consumer.held.allocated_bytes()
        };
        let group = |group: &Group| {
            let consumers: usize = group.consumers.values().map(consumer).sum();
            /// A time and an id, in a tree that is half full at worst.
            const TIME_BYTES: usize = 2 * size_of::<(i64, StreamId)>();
            let pending = group.pending.allocated_bytes() + group.times() * TIME_BYTES;
            size_of::<Group>() + 2 * group.name.len() + pending + consumers
        };
        self.groups.values().map(group).sum()
    }
}
