//! Threads that read what a test says, when it says so.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use base::{DbId, Lsn};

use crate::engine::{Fetched, Fetching, Wanted};

/// See the file's top.
#[derive(Clone, Default)]
pub(super) struct Threads(Arc<Mutex<Desk>>);

#[derive(Default)]
struct Desk {
    asked: VecDeque<Wanted>,
    done: VecDeque<Fetched>,
}

impl Threads {
    /// What was asked for first and was not looked at yet.
    pub(super) fn asked(&self) -> Option<Wanted> {
        self.0.lock().unwrap().asked.pop_front()
    }

    pub(super) fn answer(&self, fetched: Fetched) {
        self.0.lock().unwrap().done.push_back(fetched);
    }
}

impl Fetching for Threads {
    fn ask(&mut self, wanted: Wanted) -> bool {
        self.0.lock().unwrap().asked.push_back(wanted);
        true
    }

    fn indexed_lsn(&mut self) -> Option<Lsn> {
        None
    }

    fn pin(&mut self, _: bool) {}

    fn pin_dropped(&mut self, _: DbId) {}

    fn take(&mut self) -> Option<Fetched> {
        self.0.lock().unwrap().done.pop_front()
    }

    fn take_garbage(&mut self) -> Option<Fetched> {
        None
    }
}
