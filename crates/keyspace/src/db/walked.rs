//! The side of a database that a walk sees: what it has visited, and what is handed over to it.

use base::ObjectId;

use super::Db;
use crate::entry::Entry;
use crate::limbo::Home;
use crate::object::Object;
use crate::table::{Keyed, Place};
use crate::walk::Walk;

/// What a walk has not visited yet.
pub(super) struct Unvisited {
    /// The first hash.
    from: u64,
    /// The index that the database had when the walk began.
    index: u32,
}

impl Db {
    /// Begins to be walked as the database with this index, unless it has no keys. Whether it does.
    pub(crate) fn begin_walk(&mut self, index: u32) -> bool {
        self.unvisited = (!self.keys.is_empty()).then_some(Unvisited { from: 0, index });
        self.unvisited.is_some()
    }

    /// Whether a walk has nothing to visit here.
    pub(crate) const fn is_visited(&self) -> bool {
        self.unvisited.is_none()
    }

    /// The index under which the walk emits an entry whose key has this hash; `None` if it has, or does not.
    fn index_if_due(&self, hash: u64, entry: &Entry) -> Option<u32> {
        let unvisited = self.unvisited.as_ref()?;
        (hash >= unvisited.from && !entry.is_early()).then_some(unvisited.index)
    }

    /// The entry at `place` is about to change.
    #[cold]
    #[inline(never)]
    pub(super) fn hand_over(&mut self, walk: &mut Walk, place: Place, hash: u64) {
        let index = self.index_if_due(hash, self.keys.at(place));
        let entry = self.keys.at_mut(place);
        match index {
            None => walk.note_further_change(entry),
            Some(index) => {
                entry.set_early(true);
                walk.hand_over(index, self.id, entry);
            }
        }
    }

    /// An entry was taken out, and is on its way to be freed, or to another key.
    #[cold]
    #[inline(never)]
    pub(super) fn hand_over_gone(&self, walk: &mut Walk, hash: u64, entry: &mut Entry) {
        if let Some(index) = self.index_if_due(hash, entry) {
            walk.hand_over(index, self.id, entry);
        }
    }

    /// An entry is about to be put in.
    #[cold]
    #[inline(never)]
    pub(super) fn note_inserted(&self, walk: &mut Walk, hash: u64, entry: &mut Entry) {
        entry.set_early(self.index_if_due(hash, entry).is_some());
        if let Some(object) = entry.object().filter(|object| object.is_shadowed()) {
            walk.note_moved(object.id(), Home { db: self.id, hash });
        }
    }

    /// Emits the entries of the next page, or as many of them as the step has room for.
    pub(crate) fn visit_page(&mut self, walk: &mut Walk) {
        let Some(Unvisited { from, index }) = self.unvisited else { return };
        let hasher = walk.hasher();
        // One that was visited may have become a part of it.
        let is_joined = self.keys.page_start(from) != from;
        let mut has_emitted = false;
        for entry in self.keys.page_items_mut(from) {
            walk.note_look();
            if entry.is_early() || (is_joined && hasher.hash(entry.key()) < from) {
                continue;
            }
            // However little a step may do, it gets on.
            if has_emitted && walk.has_enough() {
                return;
            }
            entry.set_early(true);
            walk.visit(index, self.id, entry);
            has_emitted = true;
        }
        self.keys.page_items_mut(from).for_each(|entry| entry.set_early(false));
        let next = self.keys.page_end(from);
        self.unvisited = next.map(|from| Unvisited { from, index });
    }

    /// The object with this number, which has a shadow and lies in the entry of a key with this hash.
    pub(crate) fn shadowed_object(&mut self, hash: u64, id: ObjectId) -> Option<&mut Object> {
        let holds = |entry: &Entry| entry.object().is_some_and(|object| object.id() == id);
        self.keys.find_mut_by(hash, holds)?.object_mut()
    }
}
