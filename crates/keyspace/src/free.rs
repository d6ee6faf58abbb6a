//! Freeing what was deleted, a slice at a time, and retiring the records of its elements.
//!
//! Deleting a key of a million fields, or every key, is one record and constant work; what it
//! leaves behind is taken apart here between commands.

use std::collections::VecDeque;

use base::{DbId, ObjectId, RecordAddr};

use crate::db::Db;
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

enum Garbage {
    /// Those of this database.
    Entries(DbId, Box<dyn Iterator<Item = Entry> + Send>),
    Elements(Box<dyn Iterator<Item = Option<RecordAddr>> + Send>),
}

/// What waits to be freed.
#[derive(Default)]
pub(crate) struct FreeQueue(VecDeque<Garbage>);

impl FreeQueue {
    /// An entry whose own record is retired already.
    pub(crate) fn entry(&mut self, to: &mut (impl Retire + ?Sized), mut entry: Entry) {
        if let Some(object) = entry.take_object() {
            self.object(to, *object);
        }
    }

    /// An object whose root record is retired already.
    pub(crate) fn object(&mut self, to: &mut (impl Retire + ?Sized), object: Object) {
        let at_once = object.len() <= AT_ONCE_MAX;
        let elements = object.into_addrs();
        if at_once {
            elements.for_each(|addr| to.retire(addr));
        } else {
            self.0.push_back(Garbage::Elements(elements));
        }
    }

    /// All entries of a database that was dropped by one record.
    pub(crate) fn database(&mut self, db: Db) {
        self.0.push_back(Garbage::Entries(db.id, Box::new(db.keys.into_items())));
    }

    /// Records that nothing in memory names any more.
    pub(crate) fn addrs(&mut self, addrs: impl Iterator<Item = RecordAddr> + Send + 'static) {
        self.0.push_back(Garbage::Elements(Box::new(addrs.map(Some))));
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
            let Some(garbage) = self.0.front_mut() else { return false };
            match garbage {
                Garbage::Elements(elements) => match elements.next() {
                    Some(addr) => to.retire(addr),
                    None => drop(self.0.pop_front()),
                },
                Garbage::Entries(db, entries) => match entries.next() {
                    Some(entry) => {
                        to.retire(entry.addr());
                        entry.object().into_iter().for_each(|object| freed(object.id(), *db));
                        self.entry(to, entry);
                    }
                    None => drop(self.0.pop_front()),
                },
            }
        }
        !self.0.is_empty()
    }

    /// How many dropped values and databases wait.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }
}
