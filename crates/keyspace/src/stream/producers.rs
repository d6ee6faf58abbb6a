//! What producers have added lately, so that what one adds again is recognised.
//!
//! ```text
//!   messages    [ entry's id · producer · message ] …     a record each, in the order of ids
//!   by turn     turn · entry's id                         the order in which they were added
//!   producers   producer ─┬─ its messages by name
//!                         └─ its messages by turn
//! ```
//!
//! A producer that does not know whether an addition was heard repeats it, under the message's name. The name
//! is logged in the block that has the entry, so it is known as long as the entry is: also after a crash.
//!
//! A message is known for a *duration* from when it was added, and as one of a producer's newest; what is older goes as
//! others come. Neither is told by the entry's id: one ahead of the clock makes all later ones be, and XSETID lets
//! them begin anew. So each has a *turn*, one above the last, which says what is older, and the time.
//!
//! One that was added at a time that is further ahead than the duration is known no longer, either: the clock was put
//! back. What is wanted then is that no entry is lost; one may be added twice.
//!
//! # Invariants
//! - Each message is of one producer, and no producer has more than the limit says.
//! - A name leads to the newest entry that was added under it.
//! - No message goes because of itself: it has the last turn.
//!
//! Source: `XADD … IDMP` and XCFGSET of Redis 8.6.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use base::{RecordAddr, varint};

use super::StreamId;
use super::name::Name;
use super::tracker::Tracker;
use crate::rank_tree::{RankTree, Weighted};

/// A producer and a message have names of so many bytes at most: each record has both.
pub const MESSAGE_NAME_BYTES_MAX: usize = 160;

/// A stream knows so many producers, unless names that have expired are to go with what comes.
pub const PRODUCERS_MAX: usize = 1 << 16;

/// So many messages that are too old go with each that comes, at most.
const EXPIRED_PER_MESSAGE: usize = 4;

/// What is known of messages, and for how long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MessageLimits {
    /// For so many seconds.
    pub duration_s: u32,
    /// So many of each producer.
    pub messages_max: u32,
}

impl MessageLimits {
    /// The longest duration, in seconds.
    pub const DURATION_S_MAX: u32 = 86_400;
    /// The most messages of a producer.
    pub const MESSAGES_MAX: u32 = 10_000;
}

/// Those of a stream whose log has none.
impl Default for MessageLimits {
    fn default() -> Self {
        Self { duration_s: 100, messages_max: 100 }
    }
}

/// What a stream says of producers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProducersView {
    /// What is kept.
    pub limits: MessageLimits,
    /// How many producers there are.
    pub producers: usize,
    /// How many messages of theirs are known.
    pub messages: usize,
}

/// When a message was added.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Added {
    /// One above that of the message before.
    turn: u64,
    /// Unix milliseconds.
    pub(super) at_ms: u64,
}

/// A message: the entry that it became, and its name.
struct Message {
    entry: StreamId,
    added: Added,
    producer: Arc<[u8]>,
    name: Arc<[u8]>,
    addr: Option<RecordAddr>,
}

impl Weighted for Message {
    fn weight(&self) -> usize {
        1
    }
}

/// A message by its turn. Damage may leave two of one turn.
type Turn = (u64, StreamId);

#[derive(Default)]
struct Producer {
    by_name: BTreeMap<Arc<[u8]>, Turn>,
    turns: BTreeSet<Turn>,
}

/// See the file's top. There is nothing before something was set or added.
#[derive(Default)]
pub(super) struct Producers(Option<Box<Known>>);

/// What is known of producers.
#[derive(Default)]
struct Known {
    messages: RankTree<Message>,
    turns: BTreeSet<Turn>,
    producers: BTreeMap<Arc<[u8]>, Producer>,
    limits: MessageLimits,
    /// Where the record of the limits is.
    limits_addr: Option<RecordAddr>,
    has_limits: bool,
    /// The bytes of all names.
    bytes: usize,
}

/// What the value of a record says.
pub(super) enum Value<'a> {
    Message { added: Added, producer: &'a [u8], name: &'a [u8] },
    Limits(MessageLimits),
}

impl<'a> Value<'a> {
    /// Reads the value of what has this name, and is a message or the limits.
    pub(super) fn read(name: Name, mut value: &'a [u8]) -> Option<Self> {
        let read = match name {
            Name::Message(_) => Self::Message {
                added: Added { turn: varint::take(&mut value)?, at_ms: varint::take(&mut value)? },
                producer: varint::take_bytes(&mut value).filter(|name| is_name(name))?,
                name: varint::take_bytes(&mut value).filter(|name| is_name(name))?,
            },
            Name::Limits => Self::Limits(MessageLimits {
                duration_s: take_to(&mut value, MessageLimits::DURATION_S_MAX)?,
                messages_max: take_to(&mut value, MessageLimits::MESSAGES_MAX)?,
            }),
            Name::Node(_) | Name::Group(_) | Name::Consumer(..) | Name::Pending(..) => return None,
        };
        value.is_empty().then_some(read)
    }
}

/// Whether a producer or a message can be called so.
fn is_name(name: &[u8]) -> bool {
    (1..=MESSAGE_NAME_BYTES_MAX).contains(&name.len())
}

/// Takes a number from 1 to `max`.
fn take_to(value: &mut &[u8], max: u32) -> Option<u32> {
    u32::try_from(varint::take(value)?).ok().filter(|number| (1..=max).contains(number))
}

impl Message {
    const fn turn(&self) -> Turn {
        (self.added.turn, self.entry)
    }

    fn put(&self, out: &mut Vec<u8>) {
        varint::put(out, self.added.turn);
        varint::put(out, self.added.at_ms);
        varint::put_bytes(out, &self.producer);
        varint::put_bytes(out, &self.name);
    }
}

impl MessageLimits {
    fn put(self, out: &mut Vec<u8>) {
        varint::put(out, self.duration_s.into());
        varint::put(out, self.messages_max.into());
    }

    /// Whether a message that was added then is known no longer.
    fn has_expired(self, added: Added, now_ms: i64) -> bool {
        let duration_ms = u64::from(self.duration_s) * 1000;
        let now_ms = u64::try_from(now_ms).unwrap_or(0);
        now_ms.abs_diff(added.at_ms) >= duration_ms
    }
}

impl Producers {
    fn known(&mut self) -> &mut Known {
        self.0.get_or_insert_default()
    }

    /// What there is, if anything ever was set or added.
    pub(super) fn view(&self) -> Option<ProducersView> {
        self.0.as_ref()?.view()
    }

    /// How many records they have.
    pub(super) fn elements(&self) -> usize {
        self.0.as_ref().map_or(0, |known| known.elements())
    }

    /// The entry that a message became, if that is known.
    pub(super) fn find(&self, producer: &[u8], name: &[u8], now_ms: i64) -> Option<StreamId> {
        self.0.as_ref()?.find(producer, name, now_ms)
    }

    /// Whether a message of this producer can be added: it is known, or there is room for one more.
    pub(super) fn have_room(&self, producer: &[u8], now_ms: i64) -> bool {
        self.0.as_ref().is_none_or(|known| known.has_room(producer, now_ms))
    }

    /// A message of a producer, by both names, has become an entry.
    pub(super) fn add(
        &mut self,
        message: (&[u8], &[u8]),
        entry: StreamId,
        now_ms: i64,
        tracker: &mut Tracker,
    ) {
        self.known().add(message, entry, now_ms, tracker);
    }

    /// Has these limits from now on, if there is nothing yet: what a log has without a record of limits is the default,
    /// whatever the configuration says when it is read.
    pub(super) fn begin_with(&mut self, limits: MessageLimits, tracker: &mut Tracker) {
        if limits != MessageLimits::default() && self.view().is_none() {
            self.set_limits(limits, tracker);
        }
    }

    /// Sets what is kept, and forgets all that there is if that is something else: programs set the same whenever they begin.
    pub(super) fn set_limits(&mut self, limits: MessageLimits, tracker: &mut Tracker) {
        self.known().set_limits(limits, tracker);
    }

    /// Writes the value of a record, and returns where that is; `None` if there is nothing of this name.
    pub(super) fn put(&self, name: Name, out: &mut Vec<u8>) -> Option<Option<RecordAddr>> {
        self.0.as_ref()?.put(name, out)
    }

    /// The record of what has this name is here now.
    pub(super) fn set_addr(&mut self, name: Name, addr: Option<RecordAddr>) {
        if let Some(known) = &mut self.0 {
            known.set_addr(name, addr);
        }
    }

    /// Takes over a record, which was checked. Returns where the one was that it supersedes.
    pub(super) fn apply(
        &mut self,
        name: Name,
        value: &[u8],
        addr: RecordAddr,
    ) -> Option<RecordAddr> {
        self.known().apply(name, value, addr)
    }

    /// Takes over that something is gone. Returns where its record was.
    pub(super) fn apply_deleted(&mut self, name: Name) -> Option<RecordAddr> {
        self.0.as_mut()?.apply_deleted(name)
    }

    /// The next name after `after`.
    pub(super) fn next_name(&self, after: Option<Name>) -> Option<Name> {
        self.0.as_ref()?.next_name(after)
    }

    /// How many pieces [`Producers::piece`] has.
    pub(super) fn pieces(&self) -> usize {
        self.0.as_ref().map_or(0, |known| known.pieces())
    }

    /// The names of the `piece`th piece, of those that there are.
    pub(super) fn piece(&self, piece: usize) -> Vec<Name> {
        self.0.as_ref().map_or_else(Vec::new, |known| known.piece(piece))
    }

    /// A copy without records.
    pub(super) fn copy(&self) -> Self {
        Self(self.0.as_ref().map(|known| Box::new(known.copy())))
    }

    /// Takes them apart, yielding the addresses of the records.
    pub(super) fn into_addrs(self) -> impl Iterator<Item = Option<RecordAddr>> + Send {
        self.0.into_iter().flat_map(|known| known.into_addrs())
    }

    /// The bytes that they take, about.
    pub(super) fn allocated_bytes(&self) -> usize {
        self.0.as_ref().map_or(0, |known| size_of::<Known>() + known.allocated_bytes())
    }
}

impl Known {
    /// What there is, if anything ever was set or added.
    fn view(&self) -> Option<ProducersView> {
        let Self { limits, has_limits, .. } = *self;
        let (producers, messages) = (self.producers.len(), self.messages.len());
        (has_limits || messages > 0).then_some(ProducersView { limits, producers, messages })
    }

    /// How many records they have.
    fn elements(&self) -> usize {
        self.messages.len() + usize::from(self.has_limits)
    }

    /// The entry that a message became, if that is known.
    fn find(&self, producer: &[u8], name: &[u8], now_ms: i64) -> Option<StreamId> {
        let (_, entry) = self.producers.get(producer)?.by_name.get(name).copied()?;
        (!self.has_expired(entry, now_ms)).then_some(entry)
    }

    /// Whether the message that became this entry is known no longer.
    fn has_expired(&self, entry: StreamId, now_ms: i64) -> bool {
        let message = self.index_of(entry).and_then(|index| self.messages.get(index));
        message.is_none_or(|message| self.limits.has_expired(message.added, now_ms))
    }

    /// Whether a message of this producer can be added. Where names have expired, it can: more of them go with it than
    /// come.
    fn has_room(&self, producer: &[u8], now_ms: i64) -> bool {
        let oldest = self.turns.first().map(|(_, entry)| *entry);
        self.producers.len() < PRODUCERS_MAX
            || self.producers.contains_key(producer)
            || oldest.is_some_and(|oldest| self.has_expired(oldest, now_ms))
    }

    fn index_of(&self, entry: StreamId) -> Option<usize> {
        let index = self.messages.partition_point(|message| message.entry < entry);
        self.messages.get(index).is_some_and(|message| message.entry == entry).then_some(index)
    }

    // ---- change ---------------------------------------------------------------------------

    /// A message has become an entry.
    fn add(
        &mut self,
        (producer, name): (&[u8], &[u8]),
        entry: StreamId,
        now_ms: i64,
        tracker: &mut Tracker,
    ) {
        assert!(is_name(producer) && is_name(name), "the caller has checked the names");
        for _ in 0..EXPIRED_PER_MESSAGE {
            let oldest = self.turns.first().map(|(_, entry)| *entry);
            let Some(oldest) = oldest.filter(|it| self.has_expired(*it, now_ms)) else { break };
            self.forget(oldest, tracker);
        }
        // XSETID may have let an id be given again.
        self.forget(entry, tracker);
        // It has expired, or its producer would have been told.
        let before = self.producers.get(producer).and_then(|it| it.by_name.get(name)).copied();
        before.into_iter().for_each(|(_, before)| self.forget(before, tracker));
        tracker.touch_new(Name::Message(entry));
        let turn = self.turns.last().map_or(0, |(turn, _)| turn.saturating_add(1));
        let added = Added { turn, at_ms: u64::try_from(now_ms).unwrap_or(0) };
        self.insert((producer, name), entry, added, None);
        let max = self.limits.messages_max as usize;
        while let Some(of) = self.producers.get(producer)
            && of.turns.len() > max
            && let Some((_, oldest)) = of.turns.iter().find(|(_, it)| *it != entry).copied()
        {
            self.forget(oldest, tracker);
        }
    }

    fn insert(
        &mut self,
        (producer, name): (&[u8], &[u8]),
        entry: StreamId,
        added: Added,
        addr: Option<RecordAddr>,
    ) {
        let known = self.producers.get_key_value(producer).map(|(known, _)| Arc::clone(known));
        let producer = known.unwrap_or_else(|| {
            self.bytes += producer.len();
            producer.into()
        });
        let name: Arc<[u8]> = name.into();
        self.bytes += name.len();
        let turn = (added.turn, entry);
        let of = self.producers.entry(Arc::clone(&producer)).or_default();
        of.turns.insert(turn);
        let newest = of.by_name.entry(Arc::clone(&name)).or_insert(turn);
        *newest = turn.max(*newest);
        self.turns.insert(turn);
        let index = self.messages.partition_point(|message| message.entry < entry);
        self.messages.insert(index, Message { entry, added, producer, name, addr });
    }

    /// A message is known no longer.
    fn forget(&mut self, entry: StreamId, tracker: &mut Tracker) {
        if let Some(message) = self.remove(entry) {
            tracker.touch(Name::Message(entry), message.addr, |out| message.put(out));
        }
    }

    fn remove(&mut self, entry: StreamId) -> Option<Message> {
        let message = self.messages.remove(self.index_of(entry)?);
        let turn = message.turn();
        self.bytes -= message.name.len();
        self.turns.remove(&turn);
        if let Some(of) = self.producers.get_mut(&message.producer) {
            of.turns.remove(&turn);
            if of.by_name.get(&message.name) == Some(&turn) {
                of.by_name.remove(&message.name);
            }
            if of.turns.is_empty() {
                self.producers.remove(&message.producer);
                self.bytes -= message.producer.len();
            }
        }
        Some(message)
    }

    /// See [`Producers::set_limits`].
    fn set_limits(&mut self, limits: MessageLimits, tracker: &mut Tracker) {
        if limits == self.limits {
            if !std::mem::replace(&mut self.has_limits, true) {
                tracker.touch_new(Name::Limits);
            }
            return;
        }
        while let Some(first) = self.messages.first().map(|message| message.entry) {
            self.forget(first, tracker);
        }
        if self.has_limits {
            let before = self.limits;
            tracker.touch(Name::Limits, self.limits_addr, |out| before.put(out));
        } else {
            tracker.touch_new(Name::Limits);
        }
        (self.limits, self.has_limits) = (limits, true);
    }

    // ---- log ------------------------------------------------------------------------------

    /// Writes the value of a record, and returns where that is; `None` if there is nothing of this name.
    fn put(&self, name: Name, out: &mut Vec<u8>) -> Option<Option<RecordAddr>> {
        match name {
            Name::Message(entry) => {
                let message = self.messages.get(self.index_of(entry)?)?;
                message.put(out);
                Some(message.addr)
            }
            Name::Limits if self.has_limits => {
                self.limits.put(out);
                Some(self.limits_addr)
            }
            _ => None,
        }
    }

    /// The record of what has this name is here now.
    fn set_addr(&mut self, name: Name, addr: Option<RecordAddr>) {
        match name {
            Name::Message(entry) => {
                if let Some(index) = self.index_of(entry) {
                    self.messages.update(index, |message| message.addr = addr);
                }
            }
            Name::Limits => self.limits_addr = addr,
            _ => {}
        }
    }

    /// Takes over a record, which was checked. Returns where the one was that it supersedes.
    fn apply(&mut self, name: Name, value: &[u8], addr: RecordAddr) -> Option<RecordAddr> {
        match (name, Value::read(name, value)?) {
            (Name::Message(entry), Value::Message { added, producer, name }) => {
                let old = self.remove(entry).and_then(|message| message.addr);
                self.insert((producer, name), entry, added, Some(addr));
                old
            }
            (Name::Limits, Value::Limits(limits)) => {
                (self.limits, self.has_limits) = (limits, true);
                self.limits_addr.replace(addr)
            }
            _ => None,
        }
    }

    /// Takes over that something is gone. Returns where its record was.
    fn apply_deleted(&mut self, name: Name) -> Option<RecordAddr> {
        match name {
            Name::Message(entry) => self.remove(entry)?.addr,
            Name::Limits => {
                (self.limits, self.has_limits) = (MessageLimits::default(), false);
                self.limits_addr.take()
            }
            _ => None,
        }
    }

    /// The next name after `after`.
    fn next_name(&self, after: Option<Name>) -> Option<Name> {
        let index = match after {
            Some(Name::Limits) => return None,
            Some(Name::Message(entry)) => {
                self.messages.partition_point(|message| message.entry <= entry)
            }
            _ => 0,
        };
        let message = self.messages.get(index).map(|message| Name::Message(message.entry));
        message.or(self.has_limits.then_some(Name::Limits))
    }

    /// How many pieces [`Known::piece`] has.
    fn pieces(&self) -> usize {
        self.messages.len().div_ceil(Self::PIECE) + usize::from(self.has_limits)
    }

    /// How many messages a piece of what is logged anew has.
    const PIECE: usize = 64;

    /// The names of the `piece`th piece, of those that there are.
    fn piece(&self, piece: usize) -> Vec<Name> {
        let range = piece * Self::PIECE..(piece + 1) * Self::PIECE;
        if range.start >= self.messages.len() {
            return vec![Name::Limits];
        }
        self.messages.range(range).map(|message| Name::Message(message.entry)).collect()
    }

    /// A copy without records.
    fn copy(&self) -> Self {
        let Self { limits, has_limits, .. } = *self;
        let mut copy = Self { limits, has_limits, ..Self::default() };
        for message in self.messages.iter() {
            let Message { entry, added, .. } = *message;
            copy.insert((&message.producer, &message.name), entry, added, None);
        }
        copy
    }

    /// Takes them apart, yielding the addresses of the records.
    fn into_addrs(self) -> impl Iterator<Item = Option<RecordAddr>> + Send {
        let Self { mut messages, limits_addr, .. } = self;
        let messages = std::iter::from_fn(move || messages.pop_back()).map(|message| message.addr);
        messages.chain(std::iter::once(limits_addr))
    }

    /// The bytes that they take, about.
    fn allocated_bytes(&self) -> usize {
        /// A name with its counts, in a tree, and its turn in two.
        const MESSAGE_BYTES: usize =
            16 + 2 * size_of::<(Arc<[u8]>, Turn)>() + 4 * size_of::<Turn>();
        const PRODUCER_BYTES: usize = 16 + 2 * size_of::<(Arc<[u8]>, Producer)>();
        self.messages.allocated_bytes()
            + self.messages.len() * MESSAGE_BYTES
            + self.producers.len() * PRODUCER_BYTES
            + self.bytes
    }
}
