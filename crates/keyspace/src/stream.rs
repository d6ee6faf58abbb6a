//! Streams: entries in the order of their ids, and the groups of consumers that read them.
//!
//! ```text
//!  entry ─► object ─┬─ entries   [ node ][ node ] … [ node ]     a record a node, of at most NODE_BYTES_MAX
//!                   │                                            bytes; an addition logs the last one
//!                   └─ groups    group ─┬─ consumers             a record each
//!                                       └─ pending               a record an entry
//!                    └─ producers   what they have added lately           a record a message
//! ```
//!
//! A stream is an object from its first entry on: what a group knows changes far more often than a small collection
//! would, and a packed form would log all of it each time. It may have no entry at all, and stays a key then.
//!
//! Commands read a stream through a [`StreamView`] and change it through a [`StreamGuard`]. Everything that changes
//! passes the *tracker* first; when the guard is closed, each node, group, consumer and pending entry
//! that has changed is logged once, however often the command changed it.
//!
//! # Invariants
//! - While a guard is open, elements differ from their records. Otherwise each element's record has its state.
//! - The root's record has what the last node's record does not say: see `entries`.
//!
//! Source: the entries' form, the numbers that XINFO tells of deleted entries, and when a group's count of
//! what it has read is known, are those of Redis 7.2 (`t_stream.c`); how they are logged is ours
//! (`docs/adr/0054-a-stream-is-nodes-and-pending-entries.md`).

mod body;
pub(crate) mod end;
mod entries;
mod group;
mod groups;
mod id;
mod name;
mod node;
mod producers;
mod record;
mod references;
mod tracker;

use base::RecordKind;

use crate::collection::{ALL_SEEN, Cell, Closed, Collection, PackedKind, ValueRef};
use crate::entry::Payload;
use crate::keyspace::{Keyspace, body_of};
use crate::object::Body;
use crate::value_type::Type;

use entries::UnitLimits;
use name::Number;

pub(crate) use body::{LargeStream, is_element};
pub(crate) use entries::is_root;
pub use entries::{Keep, Range, RangeBack, Trim};
pub use group::{ConsumerView, Delivery, GroupView, PendingView};
pub use id::StreamId;
pub use node::{Pairs, StreamEntry};
pub use producers::{MESSAGE_NAME_BYTES_MAX, MessageLimits, PRODUCERS_MAX, ProducersView};
pub use record::{NodeEntries, StreamElement, StreamRecord, StreamRoot};
pub use references::{References, Removal};

/// The marker of streams, for [`crate::Keyspace::read`] and [`crate::Keyspace::update`].
#[derive(Debug, Clone, Copy)]
pub struct Stream;

/// A stream, read.
#[derive(Clone, Copy)]
pub struct StreamView<'a>(&'a LargeStream);

impl<'a> StreamView<'a> {
    /// How many entries there are.
    #[must_use]
    pub const fn len(self) -> usize {
        self.0.entries.len()
    }

    /// Whether there are none.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// The largest id that an entry ever had, or what XSETID has set.
    #[must_use]
    pub const fn last_id(self) -> StreamId {
        self.0.entries.last_id()
    }

    /// How many entries were ever added.
    #[must_use]
    pub const fn entries_added(self) -> u64 {
        self.0.entries.added()
    }

    /// The largest id of an entry that XDEL has deleted; 0-0 if it never did.
    #[must_use]
    pub const fn max_deleted_id(self) -> StreamId {
        self.0.entries.max_deleted_id()
    }

    /// How many nodes there are.
    #[must_use]
    pub const fn node_count(self) -> usize {
        self.0.entries.nodes().len()
    }

    /// In how many units, as XTRIM about cuts them off, the entries lie.
    #[must_use]
    pub const fn unit_count(self) -> usize {
        self.0.entries.units()
    }

    /// Gives out the value of the root's record, and the name and value of each element's.
    ///
    /// # Errors
    /// Those of what takes them.
    pub fn for_each_record<E>(
        self,
        root: impl FnOnce(&[u8]) -> Result<(), E>,
        visit: impl FnMut(&[u8], &[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        self.0.for_each_record(root, visit)
    }

    /// The first entry.
    #[must_use]
    pub fn first(self) -> Option<StreamEntry<'a>> {
        self.0.entries.first()
    }

    /// The last entry.
    #[must_use]
    pub fn last(self) -> Option<StreamEntry<'a>> {
        self.0.entries.last()
    }

    /// The entry with this id.
    #[must_use]
    pub fn get(self, id: StreamId) -> Option<StreamEntry<'a>> {
        self.0.entries.get(id)
    }

    /// The entries from `start` to `end`, both included.
    #[must_use]
    pub fn range(self, start: StreamId, end: StreamId) -> Range<'a> {
        self.0.entries.range(start, end)
    }

    /// The entries from `end` down to `start`, both included.
    #[must_use]
    pub fn range_back(self, start: StreamId, end: StreamId) -> RangeBack<'a> {
        self.0.entries.range_back(start, end)
    }

    /// How many groups there are.
    #[must_use]
    pub fn group_count(self) -> usize {
        self.0.groups.len()
    }

    /// The groups, in the order of their names.
    pub fn groups(self) -> impl Iterator<Item = GroupView<'a>> {
        self.0.groups.iter()
    }

    /// A group.
    #[must_use]
    pub fn group(self, name: &[u8]) -> Option<GroupView<'a>> {
        self.0.groups.number(name).map(|number| self.0.groups.view(number))
    }

    /// How many entries a group has still to be given; `None` if that cannot be told, because some were deleted.
    #[must_use]
    pub fn lag(self, group: GroupView<'_>) -> Option<i64> {
        self.0.lag(group.entries_read(), group.last_id())
    }

    /// What is known of producers, if the stream was ever told of one.
    #[must_use]
    pub fn producers(self) -> Option<ProducersView> {
        self.0.producers.view()
    }

    /// The entry that a producer's message became, if that is known.
    #[must_use]
    pub fn message(self, producer: &[u8], message: &[u8], now_ms: i64) -> Option<StreamId> {
        self.0.producers.find(producer, message, now_ms)
    }

    /// Whether a message of this producer can be added: it is known, or there are fewer than [`PRODUCERS_MAX`].
    #[must_use]
    pub fn has_room_for_message(self, producer: &[u8], now_ms: i64) -> bool {
        self.0.producers.have_room(producer, now_ms)
    }

    /// How many entries were added up to the one with this id, if that can be told.
    #[must_use]
    pub fn added_up_to(self, id: StreamId) -> Option<u64> {
        self.0.added_up_to(id)
    }
}

/// A stream, to be changed.
pub struct StreamGuard<'a> {
    cell: Cell<'a>,
    changed: bool,
    /// An entry came or went, or the stream did.
    is_loud: bool,
}

impl StreamGuard<'_> {
    /// The stream as it is now.
    #[must_use]
    pub fn view(&self) -> StreamView<'_> {
        Stream::view(ValueRef(self.cell.entry.payload(), self.cell.recorder.hasher, ALL_SEEN))
    }

    fn body(&mut self) -> &mut LargeStream {
        body_of_cell(&mut self.cell)
    }

    /// An entry comes or goes, if anything does.
    fn note_entries(&mut self, is_changed: bool) {
        self.changed |= is_changed;
        self.is_loud |= is_changed;
    }

    /// Adds an entry, whose id must be above the last one; `pairs` are names and values in turn.
    pub fn append(&mut self, id: StreamId, pairs: &[&[u8]]) {
        self.add(id, pairs, false);
    }

    /// As [`StreamGuard::append`], of a stream that is brought back from elsewhere, where entries share field names: they
    /// go on doing so, however long these are.
    pub fn restore(&mut self, id: StreamId, pairs: &[&[u8]]) {
        self.add(id, pairs, true);
    }

    fn add(&mut self, id: StreamId, pairs: &[&[u8]], shares_names: bool) {
        let settings = self.cell.settings;
        let limits = UnitLimits {
            entries: settings.stream_node_max_entries,
            bytes: settings.stream_node_max_bytes,
            shares_names,
        };
        self.note_entries(true);
        let LargeStream { entries, tracker, .. } = self.body();
        entries.append(id, pairs, limits, tracker);
    }

    /// Deletes an entry. Whether it was there.
    pub fn delete(&mut self, id: StreamId) -> bool {
        self.delete_with(id, References::Keep) == Removal::Removed
    }

    /// Deletes an entry, and does with what groups know of it as `references` says.
    pub fn delete_with(&mut self, id: StreamId, references: References) -> Removal {
        let removal = self.body().delete(id, references);
        self.note_entries(removal == Removal::Removed);
        self.changed |= references == References::Delete;
        removal
    }

    /// Cuts off the oldest entries. How many went.
    pub fn trim(&mut self, trim: Trim) -> u64 {
        self.trim_with(trim, References::Keep)
    }

    /// Cuts off the oldest entries, and does with what groups know of them as `references` says. How many went.
    pub fn trim_with(&mut self, trim: Trim, references: References) -> u64 {
        let removed = self.body().trim(trim, references);
        self.note_entries(removed > 0);
        removed
    }

    /// Sets the last id, which must not be below that of an entry that is there, and what else is given.
    pub fn set_ids(
        &mut self,
        last_id: StreamId,
        entries_added: Option<u64>,
        max_deleted_id: Option<StreamId>,
    ) {
        self.changed = true;
        let LargeStream { entries, tracker, .. } = self.body();
        entries.set(last_id, entries_added, max_deleted_id, tracker);
    }

    /// The entry with this id, which was just added, at this time, is what became of a producer's message.
    /// Both names have 1 to [`MESSAGE_NAME_BYTES_MAX`] bytes. With the first one the stream gets the limits of the settings.
    pub fn note_message(&mut self, producer: &[u8], message: &[u8], id: StreamId, now_ms: i64) {
        self.changed = true;
        let limits = self.cell.settings.message_limits;
        let LargeStream { producers, tracker, .. } = self.body();
        producers.begin_with(limits, tracker);
        producers.add((producer, message), id, now_ms, tracker);
    }

    /// Sets what is kept of messages, and forgets those that there are.
    pub fn set_message_limits(&mut self, limits: MessageLimits) {
        self.changed = true;
        let LargeStream { producers, tracker, .. } = self.body();
        producers.set_limits(limits, tracker);
    }

    /// Makes the stream, if it is not there, without an entry.
    pub fn create(&mut self) {
        let is_new = !self.body().is_rooted;
        self.note_entries(is_new);
    }

    /// Makes a group that was given the entries up to `last_id`. Whether there was none of this name.
    pub fn create_group(
        &mut self,
        name: &[u8],
        last_id: StreamId,
        entries_read: Option<u64>,
    ) -> bool {
        let LargeStream { groups, tracker, .. } = self.body();
        let is_created = groups.create(name, last_id, entries_read, tracker);
        self.changed |= is_created;
        is_created
    }

    /// Deletes a group with all that it has. Whether it was there.
    pub fn destroy_group(&mut self, name: &[u8]) -> bool {
        let LargeStream { groups, tracker, .. } = self.body();
        let Some(number) = groups.number(name) else { return false };
        groups.destroy(number, tracker);
        self.changed = true;
        true
    }

    /// A group, to be changed.
    pub fn group(&mut self, name: &[u8]) -> Option<GroupGuard<'_>> {
        let Self { cell, changed, .. } = self;
        let stream = body_of_cell(cell);
        let number = stream.groups.number(name)?;
        Some(GroupGuard { stream, changed, number })
    }
}

/// A consumer of the group that a [`GroupGuard`] changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConsumerId(Number);

/// What a group has waited for since long ago.
#[derive(Debug, Default)]
pub struct Idle {
    /// Entries, with when and how often they were given, the longest first.
    pub there: Vec<(StreamId, Delivery)>,
    /// Ids of entries that are deleted.
    pub gone: Vec<StreamId>,
}

impl Idle {
    /// One command logs at most so many deletions, whatever its COUNT.
    pub const GONE_MAX: usize = 1000;
}

/// A group of consumers, to be changed.
pub struct GroupGuard<'a> {
    stream: &'a mut LargeStream,
    changed: &'a mut bool,
    number: Number,
}

impl GroupGuard<'_> {
    /// The group as it is now.
    #[must_use]
    pub fn view(&self) -> GroupView<'_> {
        self.stream.groups.view(self.number)
    }

    /// Sets up to which entry the group was given them, and how many those were, if that is known.
    pub fn set(&mut self, last_id: StreamId, entries_read: Option<u64>) {
        let LargeStream { groups, tracker, .. } = self.stream;
        groups.set(self.number, last_id, entries_read, tracker);
        *self.changed = true;
    }

    /// The group was given the entry with this id, which is the next one behind its last.
    pub fn advance(&mut self, id: StreamId) {
        let entries_read = self.stream.read_with(self.view().entries_read(), id);
        self.set(id, entries_read);
    }

    /// A consumer of this name.
    #[must_use]
    pub fn consumer(&self, name: &[u8]) -> Option<ConsumerId> {
        self.view().number_of(name).map(ConsumerId)
    }

    /// Makes a consumer, whose name no other one has.
    pub fn create_consumer(&mut self, name: &[u8], now_ms: i64) -> ConsumerId {
        let LargeStream { groups, tracker, .. } = self.stream;
        *self.changed = true;
        ConsumerId(groups.create_consumer(self.number, name, now_ms, tracker))
    }

    /// Makes a consumer, whose name no other one has, as it was elsewhere.
    pub fn restore_consumer(
        &mut self,
        name: &[u8],
        seen_ms: i64,
        active_ms: Option<i64>,
    ) -> ConsumerId {
        let id = self.create_consumer(name, seen_ms);
        self.stream.groups.set_active(self.number, id.0, active_ms);
        id
    }

    /// Deletes a consumer, and what it holds. How many entries that was.
    pub fn delete_consumer(&mut self, consumer: ConsumerId) -> usize {
        let LargeStream { groups, tracker, .. } = self.stream;
        *self.changed = true;
        groups.delete_consumer(self.number, consumer.0, tracker)
    }

    /// A consumer has asked for entries, and has got some if it `is_active`.
    pub fn note_seen(&mut self, consumer: ConsumerId, now_ms: i64, is_active: bool) {
        let LargeStream { groups, tracker, .. } = self.stream;
        *self.changed = true;
        groups.note_seen(self.number, consumer.0, now_ms, is_active, tracker);
    }

    /// Gives an entry to a consumer, whichever has held it before.
    pub fn deliver(&mut self, consumer: ConsumerId, id: StreamId, delivery: Delivery) {
        let LargeStream { groups, tracker, .. } = self.stream;
        *self.changed = true;
        groups.deliver(self.number, consumer.0, id, delivery, tracker);
    }

    /// What was given until then and was not acknowledged: the first `count` entries that are there, and those that are
    /// deleted before those. At [`Idle::GONE_MAX`] deleted ones it ends; the caller forgets these, and finds others next.
    pub fn idle_since(&mut self, until_ms: i64, count: usize) -> Idle {
        let LargeStream { entries, groups, .. } = &mut *self.stream;
        let mut idle = Idle::default();
        if count == 0 {
            return idle;
        }
        for (id, delivery) in groups.given_until(self.number, until_ms) {
            if entries.get(id).is_none() {
                idle.gone.push(id);
                if idle.gone.len() == Idle::GONE_MAX {
                    break;
                }
                continue;
            }
            idle.there.push((id, delivery));
            if idle.there.len() == count {
                break;
            }
        }
        idle
    }

    /// When the entry was given that has been pending for the longest time, in Unix milliseconds.
    pub fn oldest_given_ms(&mut self) -> Option<i64> {
        let oldest = self.stream.groups.given_until(self.number, i64::MAX).next();
        oldest.map(|(_, delivery)| delivery.at_ms)
    }

    /// Takes an entry from the consumer that has it, if one has, and leaves it pending: it was given `count` times, and
    /// may be claimed whatever the least idle time is. The caller has seen that the group waits for it or the
    /// stream has it.
    pub fn give_back(&mut self, id: StreamId, count: u64) {
        let LargeStream { groups, tracker, .. } = self.stream;
        *self.changed = true;
        groups.give_back(self.number, id, count, tracker);
    }

    /// An entry waits no longer to be acknowledged. Whether it did.
    pub fn release(&mut self, id: StreamId) -> bool {
        let LargeStream { groups, tracker, .. } = self.stream;
        let is_released = groups.release(self.number, id, tracker);
        *self.changed |= is_released;
        is_released
    }
}

fn body_of_cell<'a>(cell: &'a mut Cell<'_>) -> &'a mut LargeStream {
    match cell.entry.object_mut().map(|object| &mut object.body) {
        Some(Body::Stream(stream)) => stream,
        _ => unreachable!("the type was checked at lookup, and a stream is an object"),
    }
}

impl Keyspace {
    /// Lets streams follow, which an older program does not know. Between blocks only, so in front of all that a
    /// command or transaction logs: the first one of a log begins new files.
    pub fn declare_streams(&mut self) {
        self.had_streams = true;
        self.recorder.journal.declare(RecordKind::Stream);
    }

    /// Lets messages of producers follow, and streams, as [`Keyspace::declare_streams`] does.
    pub fn declare_messages(&mut self) {
        self.declare_streams();
        self.recorder.journal.declare(RecordKind::StreamProducer);
    }

    /// Whether the log may have messages of producers; `None` without a log.
    #[must_use]
    pub fn messages_declared(&self) -> Option<bool> {
        self.recorder.journal.has_declared(RecordKind::StreamProducer)
    }

    /// Whether the log may have streams; `None` without a log.
    #[must_use]
    pub fn streams_declared(&self) -> Option<bool> {
        self.recorder.journal.has_declared(RecordKind::Stream)
    }

    /// Whether there may be a stream.
    #[must_use]
    pub fn may_have_streams(&self) -> bool {
        self.had_streams || self.streams_declared() == Some(true)
    }
}

impl Collection for Stream {
    type View<'a> = StreamView<'a>;
    type Guard<'a> = StreamGuard<'a>;
    const TYPE: Type = Type::Stream;

    fn packed_kind() -> Option<PackedKind> {
        None
    }

    fn view<'a>(value: ValueRef<'a>) -> StreamView<'a> {
        match value.0 {
            Payload::Object(object) => StreamView(body_of!(object, Stream)),
            _ => unreachable!("a stream is an object"),
        }
    }

    fn open<'a>(cell: Cell<'a>) -> StreamGuard<'a> {
        StreamGuard { cell, changed: false, is_loud: false }
    }

    fn close(mut guard: StreamGuard<'_>) -> Closed {
        let was_there = guard.body().is_rooted;
        if guard.changed {
            let Cell { entry, recorder, .. } = &mut guard.cell;
            let object = entry.object_mut().expect("a stream is an object");
            let id = object.id();
            let Body::Stream(stream) = &mut object.body else {
                unreachable!("the type was checked at lookup")
            };
            let (is_logged, is_root_touched) = stream.log(id, recorder);
            if is_root_touched {
                guard.cell.log_key();
            }
            // What was set to what it was is no change: nothing that is read depends on it.
            guard.changed = is_logged || is_root_touched;
        }
        // One without entries stays.
        let empty = !was_there && !guard.changed;
        Closed { changed: guard.changed, empty, is_quiet: was_there && !guard.is_loud }
    }
}
