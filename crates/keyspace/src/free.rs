//! Freeing what was deleted, a slice at a time, and retiring the records of its elements.
//!
//! Deleting a key of a million fields, or every key, is one record and constant work; what it
//! leaves behind is taken apart here between commands.

use std::collections::VecDeque;

use base::RecordAddr;

use crate::entry::Entry;
use crate::object::Object;
use crate::recorder::Recorder;
use crate::table::Table;

/// An object of at most so many elements is freed at once.
const AT_ONCE_MAX: usize = 64;

enum Garbage {
    Entries(Box<dyn Iterator<Item = Entry> + Send>),
    Elements(Box<dyn Iterator<Item = Option<RecordAddr>> + Send>),
}

/// What waits to be freed.
#[derive(Default)]
pub(crate) struct FreeQueue(VecDeque<Garbage>);

impl FreeQueue {
    /// An entry whose own record is retired already.
    pub(crate) fn entry(&mut self, recorder: &mut Recorder, mut entry: Entry) {
        if let Some(object) = entry.take_object() {
            self.object(recorder, *object);
        }
    }

    /// An object whose root record is retired already.
    pub(crate) fn object(&mut self, recorder: &mut Recorder, object: Object) {
        let at_once = object.len() <= AT_ONCE_MAX;
        let elements = object.into_addrs();
        if at_once {
            elements.for_each(|addr| recorder.retire(addr));
        } else {
            self.0.push_back(Garbage::Elements(elements));
        }
    }

    /// All entries of a database that was dropped by one record.
    pub(crate) fn keys(&mut self, keys: Table<Entry>) {
        self.0.push_back(Garbage::Entries(Box::new(keys.into_items())));
    }

    /// Records that nothing in memory names any more.
    pub(crate) fn addrs(&mut self, addrs: impl Iterator<Item = RecordAddr> + Send + 'static) {
        self.0.push_back(Garbage::Elements(Box::new(addrs.map(Some))));
    }

    /// Frees at most `items_max` entries or elements. Whether there is more.
    pub(crate) fn step(&mut self, recorder: &mut Recorder, items_max: usize) -> bool {
        for _ in 0..items_max {
            let Some(garbage) = self.0.front_mut() else { return false };
            match garbage {
                Garbage::Elements(elements) => match elements.next() {
                    Some(addr) => recorder.retire(addr),
                    None => drop(self.0.pop_front()),
                },
                Garbage::Entries(entries) => match entries.next() {
                    Some(entry) => {
                        recorder.retire(entry.addr());
                        self.entry(recorder, entry);
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
