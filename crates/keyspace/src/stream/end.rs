//! The ends of streams whose values are in the log only.
//!
//! ```text
//!   bare entry ── incarnation ─► end   root's numbers · [ last node ][ node ][ node ] ◄── XADD
//!        │                                                  │            └─ begun since
//!        └─ all nodes, groups, producers: in the log        └─ as it is now: its record in the log is superseded
//! ```
//!
//! An entry that is added to the end of a stream needs two numbers and the last node. Where the rest is not in memory, these
//! come back alone, as an *end*. The entry stays bare, so whatever looks at the value does not find it and brings it back;
//! then the end is put behind it, and is gone. Only the methods of this file change an end.
//!
//! # Invariants
//! - An end belongs to one bare entry, which has the same incarnation; the entry's address is that of the newest root.
//! - The log has, up to the block that the bare entry names, all elements that the end has not: no element of a
//!   stream whose value is in the log only changes but its last nodes, which the end has.
//! - A node leaves an end when the index knows its last record. The last node stays.
//! - While a walk is under way there is no end: nothing is bare then.
//!
//! Decision: `docs/adr/0058-a-stream-in-the-log-is-added-to-at-its-end.md`.

use std::collections::VecDeque;

use base::{DbIndex, Lsn, ObjectId, RecordAddr};
use hashbrown::HashMap;

use super::entries::UnitLimits;
use super::{Stream, StreamId};
use crate::collection::{ALL_SEEN, Collection as _, ValueRef};
use crate::entry::Entry;
use crate::free::FreeQueue;
use crate::journal::Journal;
use crate::keyspace::Keyspace;
use crate::object::{Body, Object};
use crate::recorder::Recorder;
use crate::settings::Settings;
use crate::table::{Keyed, Place};
use crate::value_type::{Type, WrongType, entry_type};

use super::body::LargeStream;

/// So many nodes leave an end at a time.
const COOLED_NODES_MAX: usize = 1000;

/// About how many bytes an end takes when it comes.
pub(crate) const END_BYTES: u64 = 1024;

/// See the file's top.
pub(crate) struct End {
    /// The stream without what is in the log only; its `changed_at` is the block of the last addition.
    object: Box<Object>,
    /// Nodes before this one have not changed after this block; ascending.
    marks: VecDeque<(Lsn, StreamId)>,
}

/// The ends, by the incarnations of their streams.
#[derive(Default)]
pub(crate) struct Ends(HashMap<ObjectId, End>);

impl End {
    /// The end of a stream as it was read.
    pub(crate) fn new(object: Box<Object>) -> Self {
        Self { object, marks: VecDeque::new() }
    }

    fn stream(&self) -> &LargeStream {
        match &self.object.body {
            Body::Stream(stream) => stream,
            _ => unreachable!("no other type has an end"),
        }
    }

    fn stream_mut(&mut self) -> &mut LargeStream {
        match &mut self.object.body {
            Body::Stream(stream) => stream,
            _ => unreachable!("no other type has an end"),
        }
    }

    /// Adds an entry, whose id is above the last one, and logs that.
    fn append(
        &mut self,
        id: StreamId,
        pairs: &[&[u8]],
        settings: &Settings,
        recorder: &mut Recorder,
    ) -> bool {
        let object = self.object.id();
        let limits = UnitLimits {
            entries: settings.stream_node_max_entries,
            bytes: settings.stream_node_max_bytes,
            shares_names: false,
        };
        let LargeStream { entries, tracker, .. } = self.stream_mut();
        entries.append(id, pairs, limits, tracker);
        let (_, is_root_touched) = self.stream_mut().log(object, recorder);
        let lsn = recorder.open_lsn();
        self.object.changed_at = lsn;
        let begun = self.stream().entries.nodes().last().map(|node| node.master);
        if let Some(begun) = begun.filter(|_| is_root_touched) {
            match self.marks.back_mut() {
                Some((last, master)) if *last == lsn => *master = begun,
                _ => self.marks.push_back((lsn, begun)),
            }
        }
        is_root_touched
    }

    /// Drops nodes whose last records the index knows, which has everything up to `indexed`. Returns up to which block the log has
    /// all that was dropped, if anything was.
    fn shorten(&mut self, indexed: Lsn) -> Option<Lsn> {
        let (mut known, mut left) = (None, COOLED_NODES_MAX);
        while let Some(&(lsn, master)) = self.marks.front()
            && lsn <= indexed
        {
            left -= self.stream_mut().entries.drop_before(master, left);
            known = Some(lsn);
            if left == 0 {
                // Some may be left before this mark: those are known, too.
                break;
            }
            self.marks.pop_front();
        }
        known
    }
}

impl Ends {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn has(&self, stream: ObjectId) -> bool {
        self.0.contains_key(&stream)
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether this bare entry has an end.
    pub(crate) fn has_of(&self, entry: &Entry) -> bool {
        !self.is_empty() && entry.bare_object().is_some_and(|(_, id)| self.has(id))
    }

    pub(crate) fn insert(&mut self, object: Box<Object>) {
        self.0.insert(object.id(), End::new(object));
    }

    /// Takes out what is left of the stream in memory.
    pub(crate) fn take(&mut self, stream: ObjectId) -> Option<Box<Object>> {
        self.0.remove(&stream).map(|end| end.object)
    }

    /// About how many bytes the end of a bare entry takes.
    pub(crate) fn bytes_of(&self, entry: &Entry) -> usize {
        let end = entry.bare_object().and_then(|(_, id)| self.0.get(&id));
        end.map_or(0, |end| end.object.allocated_bytes(16))
    }

    /// The value of a bare entry has come back: its end, if it has one, is put behind it.
    pub(crate) fn join(&mut self, entry: &mut Entry) {
        if self.is_empty() {
            return;
        }
        let Some(object) = entry.object_mut() else { return };
        let Some(end) = self.take(object.id()) else { return };
        object.changed_at = object.changed_at.max(end.changed_at);
        match (&mut object.body, end.body) {
            (Body::Stream(stream), Body::Stream(end)) => stream.join(end),
            _ => unreachable!("no other type has an end"),
        }
    }

    /// Whether a record of the end of a bare entry is where `is_there` says.
    pub(crate) fn concerns(&self, entry: &Entry, is_there: impl Fn(RecordAddr) -> bool) -> bool {
        let end = entry.bare_object().and_then(|(_, id)| self.0.get(&id));
        end.is_some_and(|end| {
            let mut nodes = end.stream().entries.nodes().iter();
            nodes.any(|node| node.addr.is_some_and(&is_there))
        })
    }

    /// Takes what may go out of the end of a bare entry: all of it if the index knows all of it and it `goes`, else nodes
    /// that it knows, which has everything up to `indexed`. Whether anything went.
    pub(crate) fn cool(
        &mut self,
        entry: &mut Entry,
        journal: &dyn Journal,
        indexed: Option<Lsn>,
        goes: bool,
        free: &mut FreeQueue,
    ) -> bool {
        let (Some((_, id)), Some(indexed)) = (entry.bare_object(), indexed) else { return false };
        let Some(end) = self.0.get_mut(&id) else { return false };
        let is_durable = entry.addr().is_some_and(|addr| journal.undurable_lsn_of(addr).is_none());
        let changed_at = end.object.changed_at;
        let known = if goes && is_durable && changed_at <= indexed {
            self.take(id).into_iter().for_each(|end| free.spent(*end));
            Some(changed_at)
        } else {
            end.shorten(indexed)
        };
        known.into_iter().for_each(|known| entry.set_bare_changed_at(known));
        known.is_some()
    }
}

impl Keyspace {
    /// Of how many streams memory has the end alone.
    #[must_use]
    pub fn stream_ends(&self) -> usize {
        self.ends.len()
    }

    /// The last id that a stream has had. Of one whose value is in the log only the end alone comes back.
    ///
    /// # Errors
    /// [`WrongType`] when the key holds something else.
    pub fn stream_end(&mut self, db: DbIndex, key: &[u8]) -> Result<Option<StreamId>, WrongType> {
        let Some(place) = self.peek_place(db, key) else { return Ok(None) };
        let entry = self.dbs[db].keys().at(place);
        if entry_type(entry) != Type::Stream {
            return Err(WrongType);
        }
        if entry.is_bare() && self.bring_end(db, place) {
            let (_, id) = self.dbs[db].keys().at(place).bare_object().expect("it has an end");
            let end = &self.ends.0[&id];
            self.recorder.note_read_of(end.object.changed_at);
            return Ok(Some(end.stream().entries.last_id()));
        }
        let Some(place) = self.with_value(db, place) else { return Ok(None) };
        let value = ValueRef(self.dbs[db].keys().at(place).payload(), self.hasher(), ALL_SEEN);
        Ok(Some(Stream::view(value).last_id()))
    }

    /// Adds an entry to a stream, and makes the stream if it is not there; the id is above that of [`Keyspace::stream_end`].
    ///
    /// # Errors
    /// [`WrongType`] when the key holds something else.
    pub fn append_to_stream(
        &mut self,
        db: DbIndex,
        key: &[u8],
        id: StreamId,
        pairs: &[&[u8]],
    ) -> Result<(), WrongType> {
        let hash = self.hash_of(key);
        if !self.ends.is_empty()
            && let Some(place) = self.locate_name(db, hash, key)
            && self.ends.has_of(self.dbs[db].keys().at(place))
        {
            self.append_to_end(db, place, id, pairs);
            self.modified(db, key);
            return Ok(());
        }
        self.update::<Stream, _>(db, key, true, |stream| stream.append(id, pairs)).map(|_| ())
    }

    fn append_to_end(&mut self, db: DbIndex, place: Place, id: StreamId, pairs: &[&[u8]]) {
        debug_assert!(self.walk.is_none(), "nothing is bare during a walk");
        self.mark_used(db, place);
        self.stats.added_to_ends += 1;
        let Self { dbs, ends, recorder, settings, .. } = self;
        let entry = dbs[db].keys().at(place);
        recorder.note_read(entry);
        let (_, stream) = entry.bare_object().expect("it has an end");
        let end = ends.0.get_mut(&stream).expect("the caller has looked");
        if end.append(id, pairs, settings, recorder) {
            dbs[db].log_root(recorder, place, &end.object);
        }
        self.mark_changed(db, place);
    }

    /// Whether the entry at `place` is a bare one with an end, after that was read if it is not in memory.
    fn bring_end(&mut self, db: DbIndex, place: Place) -> bool {
        let Self { source, dbs, ends, .. } = self;
        let entry = dbs[db].keys().at(place);
        let Some((Type::Stream, id)) = entry.bare_object() else { return false };
        if ends.has(id) {
            return true;
        }
        let (Some(source), Some(addr)) = (source, entry.addr()) else { return false };
        let Ok(restored) = source.try_read_end(dbs[db].id, entry.key(), addr) else { return false };
        self.install(restored);
        self.ends.has(id)
    }

    /// Brings the end of a stream into memory that is not there; all of it if its end cannot be read, or is lost.
    pub(crate) fn restore_end(&mut self, db: DbIndex, place: Place) {
        let is_stream = entry_type(self.dbs[db].keys().at(place)) == Type::Stream;
        if is_stream && !self.bring_end(db, place) {
            self.with_value(db, place);
        }
    }
}
