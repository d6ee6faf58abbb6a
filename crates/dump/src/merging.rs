//! Merges what has changed with the last dump.
//!
//! ```text
//!   last dump, companion ── is the record valid still? ─┬─ yes: its bytes are copied
//!                                                       └─ no: they are passed over
//!   sorted records of blocks since ─────────────────────── are written
//!
//!   Keys ─► Between ─┬─ an object only the log has: New ──────────────────────────────────────┐
//!      ▲       ▲     ├─ only the last dump, or both: Counting ─► Mixing (a string: at once) ──┤
//!      │       │     └─ neither has a root of it: Dropping ───────────────────────────────────┤
//!      │       └──────────────────────────────────────────────────────────────────────────────┘
//!      └ keys that are one record: no question but that one
//! ```
//!
//! Of every entry one record was valid at the mark. Those of blocks behind the last dump's come out of the log; all
//! others were valid at the last dump, and are in it. So nothing is compared by name, and nothing need be known of what
//! was deleted, renamed, flushed or moved.
//!
//! An object is merged part by part: the parts of the last dump that are valid still, and the new ones; nodes of a
//! list and chunks of a string in their order. How many elements that are must be said before the first of them, so the
//! companion's parts are counted first.

use std::io::Write;

use base::ObjectId;
use keyspace::Type;
use keyspace::string::CHUNK_BYTES;
use rdb::Limits;

use crate::companion::{Entry, Head, Part};
use crate::dumper::{ITEM_BYTES, STEP_BYTES};
use crate::error::{Error, LastError, Result};
use crate::last_dump::LastFile;
use crate::noted_target::NotedTarget;
use crate::objects::resolve;
use crate::old_dump::{Old, small};
use crate::order::Order;
use crate::passing::Passing;
use crate::rdb_target::is_in_parts;
use crate::run::{Group, Item};
use crate::source::Source;
use crate::target::Noted;

/// A buffer of more than this is not kept.
const KEPT_BYTES: usize = 1 << 20;

/// What was merged, in addition to what every dump counts.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Merged {
    /// What was copied of the last dump, in bytes.
    pub(crate) copied_bytes: u64,
}

/// See the file's top.
pub(crate) struct Merging<W> {
    source: Source,
    /// The object that the source has next.
    group: Option<Group>,
    /// An item of its that was read and is not passed on.
    held: Option<Held>,
    old: Option<Old>,
    /// The object that the last dump has next.
    head: Option<Head>,
    pub(crate) passing: Passing<NotedTarget<W>>,
    pub(crate) merged: Merged,
    /// The largest object that was met.
    pub(crate) last_object: ObjectId,
    state: State,
    buffer: Vec<u8>,
}

struct Held {
    /// `None` of a root.
    order: Option<Order>,
    payload: Vec<u8>,
}

enum State {
    /// Keys that are one record are copied.
    Keys,
    Between,
    /// An object that only the log has: what it has is passed on.
    New,
    Counting(Counting),
    Mixing(Mixing),
    /// What is left of the last dump's object is passed over.
    Dropping(Mixing),
    /// What is left of the log's.
    Orphaned,
    /// So much of a string is copied still.
    Copying(u64),
    Over,
}

/// Counts what of an object is valid still.
struct Counting {
    head: Head,
    left: u64,
    parts: u64,
    elements: u64,
}

/// What is to come of an object of the last dump.
struct Mixing {
    head: Head,
    /// How many parts.
    left: u64,
    /// One that was read and is valid.
    next: Option<Part>,
    /// Of a string.
    string: OldString,
}

/// The value of a string in the last dump.
enum OldString {
    None,
    /// It was compressed, or could have been.
    Here(Vec<u8>),
    /// It comes as it is; so many bytes of it were passed.
    InParts(u64),
}

impl<W: Write> Merging<W> {
    pub(crate) fn new(
        source: Source,
        passing: Passing<NotedTarget<W>>,
        old: Option<Old>,
    ) -> Result<Self> {
        let state = if old.is_some() { State::Keys } else { State::Between };
        let last_object = old.as_ref().map_or(ObjectId::NONE, |old| old.last_object);
        let mut merging = Self {
            source,
            group: None,
            held: None,
            old,
            head: None,
            passing,
            merged: Merged::default(),
            last_object,
            state,
            buffer: Vec::new(),
        };
        merging.next_group()?;
        Ok(merging)
    }

    /// How much was spilled, in bytes.
    pub(crate) fn spilled_bytes(&self) -> u64 {
        self.source.spilled_bytes()
    }

    /// How much was read of the last dump.
    pub(crate) fn read_bytes(&self) -> u64 {
        self.old.as_ref().map_or(0, Old::read_bytes)
    }

    /// Passes on some of it. Returns whether that was all.
    pub(crate) fn step(&mut self) -> Result<bool> {
        let mut left = STEP_BYTES;
        while left > 0 {
            if let Some(old) = self.old.as_mut().filter(|old| old.skipped > 0) {
                left = left.saturating_sub(old.skip_some()?);
                continue;
            }
            let bytes = match std::mem::replace(&mut self.state, State::Over) {
                State::Over => return Ok(true),
                State::Keys => self.key()?,
                State::Between => self.begin_object()?,
                State::New => self.new_item()?,
                State::Counting(counting) => self.count(counting)?,
                State::Mixing(mixing) => self.mix(mixing)?,
                State::Dropping(mixing) => self.drop_part(mixing)?,
                State::Orphaned => self.pass_orphan()?,
                State::Copying(bytes) => self.copy_some(bytes)?,
            };
            left = left.saturating_sub(bytes.saturating_add(ITEM_BYTES));
        }
        Ok(false)
    }

    fn next_group(&mut self) -> Result<()> {
        self.group = self.source.group()?;
        if let Some(group) = &self.group {
            self.last_object = self.last_object.max(group.object);
        }
        Ok(())
    }

    /// Reads the next item of the group, unless one is held. Returns whether there was one.
    fn hold(&mut self) -> Result<bool> {
        if self.held.is_some() {
            return Ok(true);
        }
        let Some((Item { order, payload }, spill)) = self.source.item()? else { return Ok(false) };
        let mut large = Vec::new();
        let payload = resolve(payload, spill, &mut large)?.to_vec();
        self.held = Some(Held { order, payload });
        Ok(true)
    }

    /// Copies, or passes over, a key that is one record. Keys come before objects.
    fn key(&mut self) -> Result<usize> {
        let old = self.old.as_mut().expect("there is a last dump");
        let entry = old.entry()?;
        self.state = State::Keys;
        match entry {
            Entry::Database { index, bytes } => old.begin_database(index, bytes)?,
            Entry::Key { addr, bytes } => {
                let index = old.index.filter(|_| old.validity.is_valid(addr));
                let Some(index) = index else {
                    old.file.skip(bytes)?;
                    return Ok(small(bytes));
                };
                let target = &mut self.passing.target;
                target.select(index)?;
                old.file.pass(bytes, &mut |piece| target.copy(piece))?;
                target.key_copied(addr, bytes)?;
                self.merged.copied_bytes += bytes;
                self.passing.figures.keys += 1;
                return Ok(small(bytes));
            }
            Entry::Lost { addr, db } => {
                if old.databases.contains(&db) && old.validity.is_valid(addr) {
                    self.passing.lost(addr, db)?;
                }
            }
            Entry::Object(head) => {
                old.begin_objects();
                (self.head, self.state) = (Some(head), State::Between);
            }
            Entry::End => self.state = State::Between,
        }
        Ok(0)
    }

    /// The next object of the last dump.
    fn next_head(&mut self) -> Result<()> {
        let Some(old) = &mut self.old else { return Ok(()) };
        let before = self.head.take();
        loop {
            match old.entry()? {
                Entry::Database { index, bytes } => old.begin_database(index, bytes)?,
                Entry::Object(head) if before.is_none_or(|it| it.object < head.object) => {
                    self.head = Some(head);
                    return Ok(());
                }
                Entry::End => return Ok(()),
                _ => return Err(old.unlike("objects in another order")),
            }
        }
    }

    /// Begins the next object, of the log, of the last dump, or of both.
    fn begin_object(&mut self) -> Result<usize> {
        let is_new = match (&self.group, &self.head) {
            (None, None) => {
                if let Some(old) = &mut self.old {
                    old.file.finish()?;
                }
                return Ok(0);
            }
            (Some(group), Some(head)) => group.object < head.object,
            (Some(_), None) => true,
            (None, Some(_)) => false,
        };
        if is_new {
            return self.begin_new();
        }
        let head = self.head.expect("it was asked");
        let (left, parts, elements) = (head.parts, 0, 0);
        self.state = State::Counting(Counting { head, left, parts, elements });
        Ok(0)
    }

    /// Begins an object that only the log has.
    fn begin_new(&mut self) -> Result<usize> {
        let Group { object, weight, items } = self.group.expect("it was asked");
        self.hold()?;
        let Some(held) = self.held.take_if(|held| held.order.is_none()) else {
            self.state = State::Orphaned;
            return Ok(0);
        };
        // All that it has must be in blocks since: objects get their numbers in order.
        if let Some(old) = self.old.as_ref().filter(|old| object <= old.last_object) {
            return Err(old.unlike("no object, of which the log has a part,"));
        }
        self.passing.root(object, &held.payload, weight, items - 1)?;
        self.state = State::New;
        Ok(held.payload.len())
    }

    fn new_item(&mut self) -> Result<usize> {
        let Some((Item { order, payload }, spill)) = self.source.item()? else {
            self.passing.end_object()?;
            self.next_group()?;
            self.state = State::Between;
            return Ok(0);
        };
        let object = self.group.expect("its items come").object;
        let order = order.ok_or(Error::Object { object, what: "two roots" })?;
        let payload = resolve(payload, spill, &mut self.buffer)?;
        self.passing.element_of(order, payload)?;
        let bytes = payload.len();
        self.forget_large();
        self.state = State::New;
        Ok(bytes)
    }

    fn forget_large(&mut self) {
        if self.buffer.capacity() > KEPT_BYTES {
            self.buffer = Vec::new();
        }
    }

    fn pass_orphan(&mut self) -> Result<usize> {
        if self.hold()? {
            let held = self.held.take().expect("it is held");
            self.passing.figures.orphans += 1;
            self.state = State::Orphaned;
            return Ok(held.payload.len());
        }
        self.next_group()?;
        self.state = State::Between;
        Ok(0)
    }

    /// Counts a part of the last dump's object.
    fn count(&mut self, mut counting: Counting) -> Result<usize> {
        let old = self.old.as_mut().expect("it has the object");
        if counting.left == 0 {
            return self.begin_mixed(&counting);
        }
        let part = old.part_ahead(counting.head.value_type)?;
        counting.left -= 1;
        if old.validity.is_valid(part.addr) {
            counting.parts += 1;
            counting.elements += part.elements;
        }
        self.state = State::Counting(counting);
        Ok(0)
    }

    /// It is known how much of the last dump's object is valid.
    fn begin_mixed(&mut self, counting: &Counting) -> Result<usize> {
        let head = counting.head;
        let is_string = head.value_type == Type::String;
        let new = self.group.filter(|group| group.object == head.object);
        let has_new = new.is_some() && self.hold()?;
        let root = if has_new { self.held.take_if(|held| held.order.is_none()) } else { None };
        let old = self.old.as_mut().expect("it has the object");
        let index = old.index.filter(|_| old.validity.is_valid(head.addr));
        let value_bytes = if is_string { old.end_string_ahead()? } else { 0 };
        let mut mixing = Mixing { head, left: head.parts, next: None, string: OldString::None };
        // What stands between the head and the first part.
        let count_bytes = if is_string { 0 } else { rdb::length_bytes(head.count) };
        let Group { weight, items, .. } =
            new.unwrap_or(Group { object: head.object, weight: 0, items: 0 });
        let parts = counting.parts + items - u64::from(root.is_some());
        match (&root, index) {
            (None, None) => {
                old.skipped = head.bytes + count_bytes + value_bytes;
                self.state = State::Dropping(mixing);
                return Ok(0);
            }
            (None, Some(index)) => {
                let is_whole = counting.parts == head.parts && new.is_none();
                if is_string && is_whole {
                    return self.copy_string(index, &head, value_bytes);
                }
                let count = if is_string { head.count } else { counting.elements + weight };
                let target = &mut self.passing.target;
                target.select(index)?;
                old.file.pass(head.bytes, &mut |piece| target.copy(piece))?;
                old.file.skip(count_bytes)?;
                target.head_copied(&Head { count, parts, ..head })?;
                self.merged.copied_bytes += head.bytes;
                self.passing.begun(head.object, head.value_type, count);
            }
            (Some(held), _) => {
                old.file.skip(head.bytes + count_bytes)?;
                let weight = counting.elements + weight;
                self.passing.root(head.object, &held.payload, weight, parts)?;
            }
        }
        if is_string {
            mixing.string = old_string(&mut old.file, &head, value_bytes)?;
        }
        self.state = State::Mixing(mixing);
        Ok(small(head.bytes))
    }

    /// Copies a string of which nothing has changed.
    fn copy_string(&mut self, index: u32, head: &Head, value_bytes: u64) -> Result<usize> {
        let old = self.old.as_mut().expect("it has the string");
        let target = &mut self.passing.target;
        target.select(index)?;
        old.file.pass(head.bytes, &mut |piece| target.copy(piece))?;
        let chunks = (0..head.parts).map(|_| old.part(Type::String).map(|part| part.addr));
        target.string_copied(head, chunks, value_bytes)?;
        old.end_string()?;
        self.merged.copied_bytes += head.bytes + value_bytes;
        self.passing.figures.keys += 1;
        self.state = State::Copying(value_bytes);
        Ok(small(head.bytes))
    }

    fn copy_some(&mut self, left: u64) -> Result<usize> {
        let old = self.old.as_mut().expect("it has the string");
        let (target, bytes) = (&mut self.passing.target, left.min(STEP_BYTES as u64));
        old.file.pass(bytes, &mut |piece| target.copy(piece))?;
        if left > bytes {
            self.state = State::Copying(left - bytes);
        } else {
            self.next_head()?;
            self.state = State::Between;
        }
        Ok(small(bytes))
    }

    /// Passes on a part of the object, of the last dump or of the log.
    fn mix(&mut self, mut mixing: Mixing) -> Result<usize> {
        let Head { object, value_type, .. } = mixing.head;
        let old = self.old.as_mut().expect("it has the object");
        if mixing.next.is_none() && mixing.left > 0 {
            mixing.left -= 1;
            let part = old.part(value_type)?;
            if old.validity.is_valid(part.addr) {
                mixing.next = Some(part);
            } else {
                old.file.skip(part.bytes)?;
            }
            self.state = State::Mixing(mixing);
            return Ok(small(part.bytes));
        }
        let is_new = self.group.is_some_and(|group| group.object == object) && self.hold()?;
        let new_order = match &self.held {
            Some(Held { order: None, .. }) => {
                return Err(Error::Object { object, what: "two roots" });
            }
            Some(Held { order, .. }) if is_new => *order,
            _ => None,
        };
        let is_ordered = matches!(value_type, Type::List | Type::String);
        let old_first =
            |part: Part| !is_ordered || new_order.is_none_or(|new| part.order < new.major);
        let bytes = if let Some(part) = mixing.next.take_if(|part| old_first(*part)) {
            self.copy_part(&mut mixing, &part)?
        } else if let Some(order) = new_order {
            let held = self.held.take().expect("it is held");
            self.passing.element_of(order, &held.payload)?;
            held.payload.len()
        } else {
            return self.end_mixed(&mixing);
        };
        self.state = State::Mixing(mixing);
        Ok(bytes)
    }

    /// Copies a part of the last dump.
    fn copy_part(&mut self, mixing: &mut Mixing, part: &Part) -> Result<usize> {
        let old = self.old.as_mut().expect("it has the part");
        let passing = &mut self.passing;
        let Head { value_type, count, .. } = mixing.head;
        if value_type != Type::String {
            passing.count(part.elements)?;
            passing.target.end_part()?;
            old.file.pass(part.bytes, &mut |piece| passing.target.copy(piece))?;
            passing.target.part_copied(part)?;
            self.merged.copied_bytes += part.bytes;
            return Ok(small(part.bytes));
        }
        let from = part.order * CHUNK_BYTES as u64;
        let to = count.min(from + CHUNK_BYTES as u64);
        let len = to.checked_sub(from).ok_or_else(|| old.unlike("fewer chunks"))?;
        self.buffer.clear();
        match &mut mixing.string {
            OldString::Here(value) => {
                let range = usize::try_from(from).ok().zip(usize::try_from(to).ok());
                let chunk = range.and_then(|(from, to)| value.get(from..to));
                self.buffer.extend_from_slice(chunk.ok_or_else(|| old.unlike("a shorter string"))?);
            }
            OldString::InParts(passed) => {
                let skipped = from.checked_sub(*passed);
                let skipped = skipped.ok_or_else(|| old.unlike("chunks in another order"))?;
                if skipped > 0 {
                    // Chunks that are not valid any more are passed over in steps of their own.
                    (old.skipped, *passed, mixing.next) = (skipped, from, Some(*part));
                    return Ok(0);
                }
                old.file.take(len, &mut self.buffer)?;
                *passed = to;
            }
            OldString::None => unreachable!("it is a string"),
        }
        passing.note(Noted::Part { addr: part.addr, order: part.order })?;
        passing.chunk(part.order, &self.buffer)?;
        self.merged.copied_bytes += len;
        Ok(small(len))
    }

    fn end_mixed(&mut self, mixing: &Mixing) -> Result<usize> {
        let old = self.old.as_mut().expect("it has the object");
        let head = &mixing.head;
        if head.value_type == Type::String {
            if let OldString::InParts(passed) = mixing.string {
                old.skipped = head.count - passed;
            }
            old.end_string()?;
        }
        self.passing.end_object()?;
        self.end_both(head.object)
    }

    /// The object of the last dump is behind, and that of the log, too.
    fn end_both(&mut self, object: ObjectId) -> Result<usize> {
        if self.group.is_some_and(|group| group.object == object) {
            self.next_group()?;
        }
        self.next_head()?;
        self.state = State::Between;
        Ok(0)
    }

    /// Passes over a part of an object that is gone, of the last dump and then of the log.
    fn drop_part(&mut self, mut mixing: Mixing) -> Result<usize> {
        let Head { object, value_type, .. } = mixing.head;
        let bytes;
        if mixing.left > 0 {
            let old = self.old.as_mut().expect("it has the object");
            mixing.left -= 1;
            let part = old.part(value_type)?;
            if old.validity.is_valid(part.addr) {
                self.passing.figures.orphans += 1;
            }
            old.file.skip(part.bytes)?;
            bytes = small(part.bytes);
        } else if self.group.is_some_and(|group| group.object == object) && self.hold()? {
            let held = self.held.take().expect("it is held");
            self.passing.figures.orphans += 1;
            bytes = held.payload.len();
        } else {
            if value_type == Type::String {
                self.old.as_mut().expect("it has the object").end_string()?;
            }
            return self.end_both(object);
        }
        self.state = State::Dropping(mixing);
        Ok(bytes)
    }
}

/// Reads of a string's value what is read before its chunks.
fn old_string(file: &mut LastFile, head: &Head, value_bytes: u64) -> Result<OldString> {
    if is_in_parts(head.count) {
        let prefix = value_bytes.checked_sub(head.count);
        let prefix = prefix.ok_or_else(|| file.wrong(LastError::Unlike("a shorter string")))?;
        file.skip(prefix)?;
        return Ok(OldString::InParts(0));
    }
    let mut bytes = Vec::new();
    file.take(value_bytes, &mut bytes)?;
    let value = rdb::decode_string(&bytes, Limits { string_bytes_max: head.count });
    value.map(OldString::Here).ok_or_else(|| file.wrong(LastError::Unlike("another string")))
}
