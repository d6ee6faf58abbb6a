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
//! - The index knows, up to the block that the bare entry names, all elements that the end has not: no element of a
//!   stream whose value is in the log only changes but its last nodes, which the end has.
//! - A node leaves an end when the index knows its last record, and the one that is pinned if one is. The last node stays.
//! - An end whose value or rest was asked for stays as it is until that was told of, also if it was asked for before there
//!   was an end: otherwise it would not fit what comes.
//! - While a walk is under way there is no end: nothing is bare then.
//!
//! Decision: `docs/adr/0058-a-stream-in-the-log-is-added-to-at-its-end.md`.

use std::collections::{BTreeMap, HashMap, VecDeque, hash_map};
use std::ops::Bound;

use base::{DbId, DbIndex, Lsn, ObjectId, RecordAddr};

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
use crate::source::{Missing, Need};
use crate::table::{Keyed, Place};
use crate::value_type::{Type, WrongType, entry_type};

use super::body::LargeStream;

/// So many nodes leave an end at a time.
const COOLED_NODES_MAX: usize = 1000;

/// Of an end of more nodes some leave with each that is begun, if the index knows them, whether memory is short or not: all
/// of them are put behind the value in one piece.
const NODES_MAX: usize = 1024;

/// So many at most.
const NODES_GONE_WITH_ONE: usize = 4;

/// See the file's top.
pub(crate) struct End {
    /// The stream without what is in the log only; its `changed_at` is the block of the last addition.
    object: Box<Object>,
    /// Nodes before this one have not changed after this block; ascending.
    marks: VecDeque<(Lsn, StreamId)>,
    /// How many entries were added to it.
    added: u64,
    /// The rest was asked for and has not come.
    is_awaited: bool,
    /// Whose end it is.
    db: DbId,
    key: Box<[u8]>,
}

/// The ends, by the incarnations of their streams.
#[derive(Default)]
pub(crate) struct Ends {
    all: BTreeMap<ObjectId, End>,
    /// Of how many the rest was asked for.
    awaited: usize,
    /// How often the value of a key was asked for that is a stream's, or may be, and has not come.
    asked: HashMap<(DbId, Box<[u8]>), u32>,
}

/// What has become of an end that was to be made smaller.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct EndCooled {
    /// Something has left memory.
    pub(crate) is_less: bool,
    /// More could leave it if the index knew all.
    pub(crate) lacks_index: bool,
}

impl End {
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

    fn nodes(&self) -> usize {
        self.stream().entries.nodes().len()
    }

    /// Adds an entry, whose id is above the last one, and logs that. Whether the root must be logged, too.
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
        self.added += 1;
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

    /// Drops nodes whose last records the index knows, which has everything up to `indexed`; at most so many. Returns up to
    /// which block the log has all that was dropped, if anything was.
    fn shorten(&mut self, indexed: Lsn, nodes_max: usize) -> Option<Lsn> {
        let (mut known, mut left) = (None, nodes_max);
        while !self.is_awaited
            && let Some(&(lsn, master)) = self.marks.front()
            && lsn <= indexed
        {
            let dropped = self.stream_mut().entries.drop_before(master, left);
            left -= dropped;
            if dropped > 0 {
                known = Some(lsn);
            }
            if left == 0 {
                // Some may be left before this mark: those are known, too.
                break;
            }
            self.marks.pop_front();
        }
        known
    }

    fn allocated_bytes(&self) -> usize {
        let marks = self.marks.capacity() * size_of::<(Lsn, StreamId)>();
        size_of::<Self>() + self.key.len() + marks + self.object.allocated_bytes(16)
    }
}

impl Ends {
    pub(crate) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    pub(crate) fn has(&self, stream: ObjectId) -> bool {
        self.all.contains_key(&stream)
    }

    pub(crate) fn len(&self) -> usize {
        self.all.len()
    }

    /// Of a bare entry.
    fn of(&self, entry: &Entry) -> Option<&End> {
        if self.is_empty() {
            return None;
        }
        entry.bare_object().and_then(|(_, id)| self.all.get(&id))
    }

    /// Whether this bare entry has an end.
    pub(crate) fn has_of(&self, entry: &Entry) -> bool {
        self.of(entry).is_some()
    }

    /// Takes over the end of a stream as it was read, whose key this is.
    pub(crate) fn insert(&mut self, object: Box<Object>, db: DbId, key: &[u8]) {
        let (id, marks, key) = (object.id(), VecDeque::new(), Box::from(key));
        let asked = (db, key);
        let is_awaited = self.asked.contains_key(&asked);
        self.awaited += usize::from(is_awaited);
        let key = asked.1;
        self.all.insert(id, End { object, marks, added: 0, is_awaited, db, key });
    }

    /// Notes that the value of a key was asked for, which is this stream's, if that is known.
    fn note_asked(&mut self, key: (DbId, Box<[u8]>), stream: Option<ObjectId>) {
        *self.asked.entry(key).or_default() += 1;
        self.set_awaited(stream, true);
    }

    /// Notes that it has come, or cannot.
    fn note_told(&mut self, key: (DbId, Box<[u8]>), stream: Option<ObjectId>) {
        let hash_map::Entry::Occupied(mut asked) = self.asked.entry(key) else { return };
        *asked.get_mut() -= 1;
        if *asked.get() == 0 {
            asked.remove();
            self.set_awaited(stream, false);
        }
    }

    /// Takes out what is left of the stream in memory.
    pub(crate) fn take(&mut self, stream: ObjectId) -> Option<Box<Object>> {
        let end = self.all.remove(&stream)?;
        self.awaited -= usize::from(end.is_awaited);
        Some(end.object)
    }

    /// Takes them apart, node by node: nothing needs them any more.
    pub(crate) fn into_pieces(self) -> impl Iterator<Item = Option<RecordAddr>> + Send {
        self.all.into_values().flat_map(|end| end.object.into_addrs())
    }

    /// About how many bytes the end of a bare entry takes.
    pub(crate) fn bytes_of(&self, entry: &Entry) -> usize {
        self.of(entry).map_or(0, End::allocated_bytes)
    }

    /// The block of the last addition to the end of a bare entry.
    pub(crate) fn changed_at(&self, entry: &Entry) -> Option<Lsn> {
        self.of(entry).map(|end| end.object.changed_at)
    }

    /// How many nodes the end of a bare entry has.
    pub(crate) fn nodes_of(&self, entry: &Entry) -> usize {
        self.of(entry).map_or(0, End::nodes)
    }

    /// How many entries were added to the end of a bare entry.
    pub(crate) fn added_to(&self, entry: &Entry) -> u64 {
        self.of(entry).map_or(0, |end| end.added)
    }

    /// Notes whether the rest of a stream was asked for and has not come.
    fn set_awaited(&mut self, stream: Option<ObjectId>, is_awaited: bool) {
        let Some(end) = stream.and_then(|id| self.all.get_mut(&id)) else { return };
        self.awaited -= usize::from(end.is_awaited);
        self.awaited += usize::from(is_awaited);
        end.is_awaited = is_awaited;
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

    /// Whether a record of the end of a bare entry is where `is_there` says. Looks at all of its nodes.
    pub(crate) fn concerns(&self, entry: &Entry, is_there: impl Fn(RecordAddr) -> bool) -> bool {
        self.of(entry).is_some_and(|end| {
            let mut nodes = end.stream().entries.nodes().iter();
            nodes.any(|node| node.addr.is_some_and(&is_there))
        })
    }

    /// Takes what may go out of the end of a bare entry: all of it if the index knows all of it and it `goes`, else nodes
    /// that it knows. See [`Known`] for what it knows.
    pub(crate) fn cool(
        &mut self,
        entry: &mut Entry,
        journal: &dyn Journal,
        known: Known,
        goes: bool,
        free: &mut FreeQueue,
    ) -> EndCooled {
        let Some((_, id)) = entry.bare_object() else { return EndCooled::default() };
        let Some(end) = self.all.get_mut(&id) else { return EndCooled::default() };
        let changed_at = end.object.changed_at;
        let lacks_index = known.indexed.is_none_or(|indexed| changed_at > indexed);
        let Some(up_to) = known.up_to() else { return EndCooled { is_less: false, lacks_index } };
        let gone = if goes && !end.is_awaited && changed_at <= up_to {
            debug_assert!(
                entry.addr().is_some_and(|addr| journal.undurable_lsn_of(addr).is_none()),
                "the root is as old as what the index knows"
            );
            self.take(id).into_iter().for_each(|end| free.spent(*end));
            Some(changed_at)
        } else {
            end.shorten(up_to, COOLED_NODES_MAX)
        };
        gone.into_iter().for_each(|gone| entry.set_bare_changed_at(gone));
        EndCooled { is_less: gone.is_some(), lacks_index }
    }
}

/// Which blocks the index knows that what leaves an end is found by.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Known {
    /// Up to this one.
    pub(crate) indexed: Option<Lsn>,
    /// An index is pinned that knows less: what is deleted now may be found by that alone.
    pub(crate) pinned: Option<Lsn>,
}

impl Known {
    fn up_to(self) -> Option<Lsn> {
        Some(self.indexed?.min(self.pinned.unwrap_or(Lsn(u64::MAX))))
    }
}

impl Keyspace {
    /// Of how many streams memory has the end alone.
    #[must_use]
    pub fn stream_ends(&self) -> usize {
        self.ends.len()
    }

    /// Of how many of these the rest was asked for and has not come.
    #[must_use]
    pub fn awaited_rests(&self) -> usize {
        self.ends.awaited
    }

    /// The rest of the first stream behind `after`, in an order of its own, of which memory has the end alone.
    pub fn rest_after(&mut self, after: Option<ObjectId>) -> Option<(ObjectId, Missing)> {
        let mut from = after.map_or(Bound::Unbounded, Bound::Excluded);
        while let Some((id, end)) = self.ends.all.range((from, Bound::Unbounded)).next() {
            let (id, db, key) = (*id, self.dbs.index_of(end.db), end.key.clone());
            let missing = db.and_then(|db| self.missing(db, &key, Need::Value));
            if let Some(missing) = missing.filter(|missing| missing.rest_of == Some(id)) {
                return Some((id, missing));
            }
            // It is about to be freed.
            from = Bound::Excluded(id);
        }
        None
    }

    /// This was asked for: what it is to be put together with stays as it is, until [`Keyspace::note_told`].
    pub fn note_asked(&mut self, missing: &Missing) {
        if missing.need != Need::Value {
            return;
        }
        let stream = match self.bare_object_of(missing) {
            Some(Some((Type::Stream, id))) => Some(id),
            Some(_) => return,
            // It is cold, and may be one.
            None => None,
        };
        self.ends.note_asked((missing.db, missing.key.clone()), stream);
    }

    /// This was asked for, and has come, or cannot.
    pub fn note_told(&mut self, missing: &Missing) {
        if missing.need != Need::Value {
            return;
        }
        let found = self.bare_object_of(missing).flatten().map(|(_, id)| id);
        self.ends.note_told((missing.db, missing.key.clone()), found.or(missing.rest_of));
    }

    /// What the key is whose value is missing, if that is in the log; `None` if memory has no such key.
    fn bare_object_of(&self, missing: &Missing) -> Option<Option<(Type, ObjectId)>> {
        let db = self.dbs.index_of(missing.db)?;
        let entry = self.dbs[db].keys().find(self.hash_of(&missing.key), &missing.key)?;
        Some(entry.bare_object())
    }

    /// Nothing that was asked for will be told of.
    pub fn forget_asked(&mut self) {
        self.ends.all.values_mut().for_each(|end| end.is_awaited = false);
        (self.ends.awaited, self.ends.asked) = (0, HashMap::new());
    }

    /// The last id that a stream has had. Of one whose value is in the log only the end alone comes back. `None` also if
    /// that cannot be read: see [`Keyspace::has_restore_failure`].
    ///
    /// # Errors
    /// [`WrongType`] when the key holds something else.
    pub fn stream_end(&mut self, db: DbIndex, key: &[u8]) -> Result<Option<StreamId>, WrongType> {
        let hash = self.hash_of(key);
        if self.may_lack() && self.dbs[db].keys().locate(hash, key).is_none() {
            self.locate_cold(db, hash, key, Need::End);
        }
        let Some(place) = self.peek_place(db, key) else { return Ok(None) };
        let entry = self.dbs[db].keys().at(place);
        if entry_type(entry) != Type::Stream {
            return Err(WrongType);
        }
        if entry.bare_object().is_some() {
            let Some(id) = self.bring_end(db, place) else { return Ok(None) };
            return Ok(Some(self.ends.all[&id].stream().entries.last_id()));
        }
        let Some(place) = self.with_value(db, place) else { return Ok(None) };
        let value = ValueRef(self.dbs[db].keys().at(place).payload(), self.hasher(), ALL_SEEN);
        Ok(Some(Stream::view(value).last_id()))
    }

    /// Adds an entry to a stream, and makes the stream if it is not there; the id is above that of [`Keyspace::stream_end`].
    ///
    /// # Errors
    /// [`WrongType`] when the key holds something else.
    ///
    /// # Panics
    /// When the id is not above it. Nothing is logged then.
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
        let append = |stream: &mut super::StreamGuard<'_>| {
            assert!(id > stream.view().last_id(), "the caller has asked for the last id");
            stream.append(id, pairs);
        };
        self.update::<Stream, _>(db, key, true, append).map(|_| ())
    }

    fn append_to_end(&mut self, db: DbIndex, place: Place, id: StreamId, pairs: &[&[u8]]) {
        debug_assert!(self.walk.is_none(), "nothing is bare during a walk");
        self.mark_used(db, place);
        self.stats.added_to_ends += 1;
        let known = self.known_of_ends();
        let Self { dbs, ends, recorder, settings, .. } = self;
        let entry = dbs[db].keys().at(place);
        recorder.note_read(entry);
        let (_, stream) = entry.bare_object().expect("it has an end");
        let end = ends.all.get_mut(&stream).expect("the caller has looked");
        assert!(id > end.stream().entries.last_id(), "the caller has asked for the last id");
        if end.append(id, pairs, settings, recorder) {
            dbs[db].log_root(recorder, place, &end.object);
            let gone = known.up_to().filter(|_| end.nodes() > NODES_MAX);
            let gone = gone.and_then(|up_to| end.shorten(up_to, NODES_GONE_WITH_ONE));
            gone.into_iter().for_each(|gone| dbs[db].entry_mut(place).set_bare_changed_at(gone));
        }
        self.mark_changed(db, place);
    }

    /// The incarnation of the stream at `place`, whose value is in the log only, and whose end is in memory then; `None` also if
    /// it cannot be read, which is noted.
    fn bring_end(&mut self, db: DbIndex, place: Place) -> Option<ObjectId> {
        let Self { source, dbs, ends, .. } = self;
        let entry = dbs[db].keys().at(place);
        let Some((Type::Stream, id)) = entry.bare_object() else { return None };
        if !ends.has(id) {
            let (db_id, key) = (dbs[db].id, entry.key());
            let end = source.as_mut()?.read_end(db_id, key, entry.addr()?, id)?;
            ends.insert(end, db_id, key);
            dbs[db].entry_mut(place).note_returned();
        }
        Some(id)
    }

    /// Brings the end of a stream into memory that is not there.
    pub(crate) fn restore_end(&mut self, db: DbIndex, place: Place) {
        let entry = self.dbs[db].keys().at(place);
        match entry_type(entry) {
            Type::Stream if entry.is_lost() => self.lost.fail(),
            Type::Stream => _ = self.bring_end(db, place),
            // The command refuses it.
            _ => {}
        }
    }
}
