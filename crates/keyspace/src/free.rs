//! Freeing what was deleted, a slice at a time, and retiring the records of its elements.
//!
//! Deleting a key of a million fields, or every key, is one record and constant work; what it
//! leaves behind is taken apart here between commands.

use std::collections::VecDeque;

use base::{DbId, ObjectId, RecordAddr};
use hashbrown::HashMap;

use crate::db::{Db, TakenValue};
use crate::entry::Entry;
use crate::object::Object;
use crate::recorder::Recorder;

/// Takes the addresses of records that are no longer needed.
pub(crate) trait Retire {
    /// Nothing needs the record at `addr`.
    fn retire(&mut self, addr: Option<RecordAddr>);
}

impl Retire for Vec<RecordAddr> {
    fn retire(&mut self, addr: Option<RecordAddr>) {
        self.extend(addr);
    }
}

impl Retire for Recorder {
    fn retire(&mut self, addr: Option<RecordAddr>) {
        Self::retire(self, addr);
    }
}

/// An object of at most this many elements is freed at once.
const AT_ONCE_MAX: usize = 64;

/// How many elements of an object are looked at to tell its bytes.
const HELD_SAMPLES: usize = 16;

enum Garbage {
    /// Those of this database.
    Entries(DbId, Box<dyn Iterator<Item = Entry> + Send>),
    Elements(Box<dyn Iterator<Item = Option<RecordAddr>> + Send>),
    /// Memory alone: what is named stays needed.
    Spent(Box<dyn Iterator<Item = Option<RecordAddr>> + Send>),
    /// The end of this object is freed, which was in memory; the rest was not.
    Rest(ObjectId),
}

/// What waits to be freed.
#[derive(Default)]
pub(crate) struct FreeQueue {
    garbage: VecDeque<Garbage>,
    /// Objects that are gone and were not in memory: their elements are still to be listed.
    bare: Vec<ObjectId>,
    /// How many more are when their ends have been freed, which were.
    ending: usize,
    /// How many of these are being listed.
    listing: usize,
    /// Objects that a walk has still to emit.
    held: HashMap<ObjectId, Object>,
    /// About how many bytes they take.
    held_bytes: usize,
}

impl FreeQueue {
    /// An entry whose own record is retired already.
    pub(crate) fn entry(&mut self, to: &mut (impl Retire + ?Sized), mut entry: Entry) {
        self.bare.extend(entry.bare_object().map(|(_, id)| id));
        if let Some(object) = entry.take_object() {
            self.object(to, *object);
        }
    }

    /// An object that is gone and was not in memory.
    pub(crate) fn bare_object(&mut self, object: Option<ObjectId>) {
        self.bare.extend(object);
    }

    /// An object whose root record is retired already.
    pub(crate) fn object(&mut self, to: &mut (impl Retire + ?Sized), object: Object) {
        if object.is_shadowed() {
            self.held_bytes += object.allocated_bytes(HELD_SAMPLES);
            self.held.insert(object.id(), object);
        } else {
            self.elements(to, object);
        }
    }

    /// Whether they were freed at once.
    fn elements(&mut self, to: &mut (impl Retire + ?Sized), object: Object) -> bool {
        let at_once = object.len() <= AT_ONCE_MAX;
        let elements = object.into_addrs();
        if at_once {
            elements.for_each(|addr| to.retire(addr));
        } else {
            self.garbage.push_back(Garbage::Elements(elements));
        }
        at_once
    }

    /// An object that a walk has still to emit.
    pub(crate) fn held_mut(&mut self, object: ObjectId) -> Option<&mut Object> {
        self.held.get_mut(&object)
    }

    /// A walk has emitted an object, which may have waited for that.
    pub(crate) fn release(&mut self, to: &mut (impl Retire + ?Sized), object: ObjectId) {
        if let Some(object) = self.held.remove(&object) {
            if self.held.is_empty() {
                self.held_bytes = 0;
            } else {
                let bytes = object.allocated_bytes(HELD_SAMPLES);
                self.held_bytes = self.held_bytes.saturating_sub(bytes);
            }
            self.object(to, object);
        }
    }

    /// About how many bytes such objects take.
    pub(crate) const fn held_bytes(&self) -> usize {
        self.held_bytes
    }

    /// What was the value of a key whose own record is retired already.
    pub(crate) fn value(&mut self, to: &mut (impl Retire + ?Sized), value: TakenValue) {
        self.bare.extend(value.bare_object);
        if let Some(object) = value.object {
            self.object(to, *object);
        }
    }

    /// An object that has left memory, and stays in the log.
    pub(crate) fn spent(&mut self, object: Object) {
        if object.len() > AT_ONCE_MAX {
            self.garbage.push_back(Garbage::Spent(object.into_addrs()));
        }
    }

    /// What has left memory, in pieces, and stays in the log.
    pub(crate) fn spent_pieces(
        &mut self,
        pieces: impl Iterator<Item = Option<RecordAddr>> + Send + 'static,
    ) {
        self.garbage.push_back(Garbage::Spent(Box::new(pieces)));
    }

    /// Objects whose elements are garbage that only an index can list.
    pub(crate) fn take_bare(&mut self) -> Vec<ObjectId> {
        self.listing += self.bare.len();
        std::mem::take(&mut self.bare)
    }

    /// The elements of one of them; `None` if they could not be listed.
    pub(crate) fn listed(&mut self, object: ObjectId, elements: Option<Vec<RecordAddr>>) {
        self.listing -= 1;
        match elements {
            None => self.bare.push(object),
            Some(elements) if elements.is_empty() => {}
            Some(elements) => self.addrs(elements.into_iter()),
        }
    }

    /// The end of one of them, which was in memory: what is freed is retired, and listed no more. Whether the rest can be
    /// listed now; otherwise it is among those of a later [`FreeQueue::take_bare`].
    pub(crate) fn end_of(&mut self, to: &mut (impl Retire + ?Sized), end: Object) -> bool {
        let id = end.id();
        let at_once = self.elements(to, end);
        if !at_once {
            self.listing -= 1;
            self.ending += 1;
            self.garbage.push_back(Garbage::Rest(id));
        }
        at_once
    }

    /// How many of them there are.
    pub(crate) fn unlisted(&self) -> usize {
        self.bare.len() + self.ending + self.listing
    }

    /// Nothing lists them any more.
    pub(crate) fn forget_bare(&mut self) {
        (self.bare, self.listing) = (Vec::new(), 0);
        self.ending = 0;
        self.garbage.retain(|garbage| !matches!(garbage, Garbage::Rest(_)));
    }

    /// All entries of a database that was dropped by one record.
    pub(crate) fn database(&mut self, mut db: Db) {
        if !db.lost_names.is_empty() {
            let lost_names = std::mem::take(&mut db.lost_names);
            self.addrs(lost_names.into_values().filter_map(|lost| lost.addr));
        }
        let id = db.id;
        let (keys, due_hashes) = db.into_keys();
        self.garbage.push_back(Garbage::Entries(id, Box::new(keys.into_items())));
        if due_hashes.len() > 0 {
            let pieces = due_hashes.into_pieces().map(|()| None);
            self.garbage.push_back(Garbage::Spent(Box::new(pieces)));
        }
    }

    /// Records that nothing in memory names any more.
    pub(crate) fn addrs(&mut self, addrs: impl Iterator<Item = RecordAddr> + Send + 'static) {
        self.garbage.push_back(Garbage::Elements(Box::new(addrs.map(Some))));
    }

    /// Frees at most `items_max` entries or elements, and names the objects of the entries with the
    /// database that they were in. Whether there is more.
    pub(crate) fn step(
        &mut self,
        to: &mut (impl Retire + ?Sized),
        items_max: usize,
        freed: &mut dyn FnMut(ObjectId, DbId),
    ) -> bool {
        for _ in 0..items_max {
            let Some(garbage) = self.garbage.front_mut() else { return false };
            match garbage {
                Garbage::Elements(elements) => match elements.next() {
                    Some(addr) => to.retire(addr),
                    None => drop(self.garbage.pop_front()),
                },
                Garbage::Rest(id) => {
                    self.bare.push(*id);
                    self.ending -= 1;
                    self.garbage.pop_front();
                }
                Garbage::Spent(elements) => {
                    if elements.next().is_none() {
                        self.garbage.pop_front();
                    }
                }
                Garbage::Entries(db, entries) => match entries.next() {
                    Some(entry) => {
                        to.retire(entry.addr());
                        entry.object().into_iter().for_each(|object| freed(object.id(), *db));
                        self.entry(to, entry);
                    }
                    None => drop(self.garbage.pop_front()),
                },
            }
        }
        !self.garbage.is_empty()
    }

    /// How many dropped values and databases wait, without those that a walk has still to emit: nothing can
    /// hurry those.
    pub(crate) fn len(&self) -> usize {
        self.garbage.len()
    }
}
