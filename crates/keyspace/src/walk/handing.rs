//! What is handed over: entries that are about to change, and objects that were.

use std::collections::VecDeque;

use base::{DbId, ObjectId};
use hashbrown::HashMap;

use super::stream::{Head, Stream};
use super::{Algorithm, Options, Outcome, Progress};
use crate::db::Db;
use crate::entry::Entry;
use crate::hasher::KeyHasher;
use crate::limbo::Home;
use crate::object::Object;
use crate::table::Keyed;
use crate::value_type::{Type, entry_type};

/// An object of more elements than these is not emitted as a whole, however small they are.
const WHOLE_ELEMENTS_MAX: usize = 64;
/// What a root in the queue takes besides its name.
const ROOT_BYTES: usize = 128;

/// The walk of a keyspace, if one is under way.
pub(crate) type Walker = Option<Box<Walk>>;

/// An object that is emitted in parts: its key as it was at the trigger.
pub(super) struct Root {
    pub(super) id: ObjectId,
    index: u32,
    key: Box<[u8]>,
    access: u32,
    expires_at_ms: Option<i64>,
    value_type: Type,
    has_expiring_fields: bool,
    count: u64,
    /// It was emitted in part.
    is_begun: bool,
}

impl Root {
    fn of(index: u32, entry: &Entry, object: &Object) -> Self {
        let Head { index, key, access, expires_at_ms } = Head::of(index, entry);
        Self {
            id: object.id(),
            index,
            key: key.into(),
            access,
            expires_at_ms,
            value_type: object.value_type(),
            has_expiring_fields: object.has_expiring_fields(),
            count: object.walked_count(),
            is_begun: false,
        }
    }

    /// Emits what comes before the elements.
    pub(super) fn begin(&mut self, stream: &mut Stream) {
        if !std::mem::replace(&mut self.is_begun, true) {
            let Self { index, access, expires_at_ms, .. } = *self;
            let head = Head { index, key: &self.key, access, expires_at_ms };
            stream.large(head, self.value_type, self.has_expiring_fields, self.count);
        }
    }
}

/// What is known of an object with a shadow.
pub(super) struct Shadowed {
    /// Where it is, unless it waits to be freed.
    pub(super) home: Home,
    root_bytes: usize,
    /// What was counted of it.
    bytes: usize,
}

/// See [`crate::walk`].
pub(crate) struct Walk {
    options: Options,
    pub(super) hasher: KeyHasher,
    pub(super) stream: Stream,
    /// Whole keys that were handed over in the middle of another one.
    aside: Stream,
    /// The objects that have shadows.
    pub(super) queue: VecDeque<Root>,
    pub(super) shadows: HashMap<ObjectId, Shadowed>,
    /// Of all shadows and roots.
    shadow_bytes: usize,
    /// Databases that were flushed.
    pub(super) detached: Vec<Db>,
    keys_emitted: u64,
    keys_total: u64,
    /// Everything was emitted; the last chunks are to be taken.
    pub(super) outcome: Option<Outcome>,
}

impl Walk {
    pub(super) fn new(options: Options, hasher: KeyHasher, keys_total: u64) -> Self {
        Self {
            options,
            hasher,
            stream: Stream::new(options.chunk_bytes),
            aside: Stream::new(options.chunk_bytes),
            queue: VecDeque::new(),
            shadows: HashMap::new(),
            shadow_bytes: 0,
            detached: Vec::new(),
            keys_emitted: 0,
            keys_total,
            outcome: None,
        }
    }

    pub(super) const fn progress(&self) -> Progress {
        Progress { keys_emitted: self.keys_emitted, keys_total: self.keys_total }
    }

    /// The bytes that wait to be emitted, or to be taken by the consumer.
    pub(super) const fn handed_bytes(&self) -> usize {
        self.stream.bytes() + self.aside.bytes() + self.shadow_bytes
    }

    pub(super) const fn is_congested(&self) -> bool {
        self.handed_bytes() > self.options.handed_bytes_max
    }

    /// From now on nothing is emitted.
    pub(super) fn mute(&mut self) {
        self.stream.mute();
        self.aside.mute();
        // What was emitted last may not have been taken.
        self.outcome = self.outcome.map(|_| Outcome::Ended);
    }

    pub(crate) const fn hasher(&self) -> KeyHasher {
        self.hasher
    }

    /// Whether the visit of a page pauses.
    pub(crate) fn has_enough(&self) -> bool {
        self.stream.is_spent() || !self.queue.is_empty()
    }

    /// Notes that an entry was looked at.
    pub(crate) const fn note_look(&mut self) {
        self.stream.note_look();
    }

    /// An entry of the snapshot is visited.
    pub(crate) fn visit(&mut self, index: u32, db: DbId, entry: &mut Entry) {
        let is_whole = entry.object().is_none_or(|object| self.is_small(object));
        self.take(index, db, entry, is_whole);
    }

    /// An entry of the snapshot changes or goes for the first time.
    pub(crate) fn hand_over(&mut self, index: u32, db: DbId, entry: &mut Entry) {
        let is_whole = self.options.algorithm == Algorithm::CopyOnUpdate
            || entry.object().is_none_or(|object| self.is_small(object));
        self.take(index, db, entry, is_whole);
    }

    fn is_small(&self, object: &Object) -> bool {
        object.len() <= WHOLE_ELEMENTS_MAX
            && object.allocated_bytes(0) <= self.options.whole_bytes_max
    }

    fn take(&mut self, index: u32, db: DbId, entry: &mut Entry, is_whole: bool) {
        if is_whole {
            self.emit_whole(Head::of(index, entry), entry);
            return;
        }
        let home = Home { db, hash: self.hasher.hash(entry.key()) };
        let root = entry.object().map(|object| Root::of(index, entry, object));
        let (Some(root), Some(object)) = (root, entry.object_mut()) else { return };
        object.open_shadow();
        let root_bytes = ROOT_BYTES + root.key.len();
        self.shadow_bytes += root_bytes;
        self.shadows.insert(root.id, Shadowed { home, root_bytes, bytes: root_bytes });
        self.queue.push_back(root);
    }

    fn emit_whole(&mut self, head: Head<'_>, entry: &Entry) {
        let is_in_key = self.queue.front().is_some_and(|root| root.is_begun);
        let stream = if is_in_key { &mut self.aside } else { &mut self.stream };
        match entry.object() {
            None => stream.small(head, entry_type(entry), entry.payload()),
            Some(object) => {
                let may_expire = object.has_expiring_fields();
                stream.large(head, object.value_type(), may_expire, object.walked_count());
                object.emit_whole(stream);
                stream.end();
            }
        }
        self.keys_emitted += 1;
    }

    /// An entry changes that was visited or handed over before.
    pub(crate) fn note_further_change(&mut self, entry: &mut Entry) {
        if self.options.algorithm == Algorithm::CopyOnUpdate
            && let Some(object) = entry.object_mut().filter(|object| object.is_shadowed())
            && let Some(root) = self.queue.front_mut()
        {
            assert_eq!(root.id, object.id(), "only the walk itself opens shadows, one at a time");
            self.stream.begin_step(usize::MAX);
            root.begin(&mut self.stream);
            while !object.emit(self.hasher, &mut self.stream) {}
            self.end_first();
        }
    }

    /// The object with a shadow is somewhere else.
    pub(crate) fn note_moved(&mut self, object: ObjectId, home: Home) {
        if let Some(shadowed) = self.shadows.get_mut(&object) {
            shadowed.home = home;
        }
    }

    /// The object has changed.
    pub(crate) fn note_changed(&mut self, object: &Object) {
        self.recount(object.id(), object.shadow_bytes());
    }

    /// The shadow of an object takes so many bytes now; `None` if it has none.
    pub(super) fn recount(&mut self, object: ObjectId, bytes: Option<usize>) {
        if let Some(bytes) = bytes
            && let Some(shadowed) = self.shadows.get_mut(&object)
        {
            let counted = std::mem::replace(&mut shadowed.bytes, shadowed.root_bytes + bytes);
            self.shadow_bytes = self.shadow_bytes + shadowed.bytes - counted;
        }
    }

    /// The first of the queue was emitted to its end.
    pub(super) fn end_first(&mut self) {
        self.stream.end();
        self.keys_emitted += 1;
        if let Some(root) = self.queue.pop_front()
            && let Some(shadowed) = self.shadows.remove(&root.id)
        {
            self.shadow_bytes -= shadowed.bytes;
        }
        self.stream.append(&mut self.aside);
    }

    /// Takes over a database that was flushed, if something of it may still have to be emitted.
    pub(crate) fn detach(&mut self, db: Db) -> Option<Db> {
        // An object with a shadow may be in any database.
        if db.is_visited() && self.shadows.is_empty() {
            return Some(db);
        }
        self.detached.push(db);
        None
    }
}
