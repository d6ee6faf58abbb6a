//! The keys for which waiting clients are called again: see [`blocking`](super::blocking).

use std::collections::{BTreeSet, VecDeque};

use keyspace::effects::DbKey;

/// Keys that clients wait for and that are there, or have changed: each once, in the order in which they came.
#[derive(Debug, Default)]
pub(crate) struct ReadyKeys {
    queue: VecDeque<DbKey>,
    queued: BTreeSet<DbKey>,
}

impl ReadyKeys {
    pub(super) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    pub(super) fn pop_front(&mut self) -> Option<DbKey> {
        let key = self.queue.pop_front()?;
        self.queued.remove(&key);
        Some(key)
    }
}

impl Extend<DbKey> for ReadyKeys {
    fn extend<I: IntoIterator<Item = DbKey>>(&mut self, keys: I) {
        for key in keys {
            if self.queued.insert(key.clone()) {
                self.queue.push_back(key);
            }
        }
    }
}
