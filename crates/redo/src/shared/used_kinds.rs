//! The kinds of records that a header must name, of which the log has some, or will have the next moment.
//!
//! Headers are written before their records are known. So every file that is begun says all kinds that the
//! log has by then; and a kind that is new to the log begins new files: see [`crate::Log::declare`].

use std::sync::atomic::{AtomicU64, Ordering};

use base::RecordKind;

use crate::format::kinds::Kinds;

/// See the file's top.
#[derive(Debug, Default)]
pub(crate) struct UsedKinds(AtomicU64);

impl UsedKinds {
    /// Adds some. Whether one of them is new.
    pub(crate) fn add(&self, kinds: Kinds) -> bool {
        if self.get().and(kinds) == self.get() {
            return false;
        }
        // Flushers are told by what they are handed afterwards, under a lock.
        let before = self.0.fetch_or(kinds.0, Ordering::Relaxed);
        before | kinds.0 != before
    }

    /// Whether a record of this kind may follow.
    pub(crate) fn has(&self, kind: RecordKind) -> bool {
        self.has_all(Kinds::of(kind))
    }

    /// Whether all of these may follow.
    pub(crate) fn has_all(&self, kinds: Kinds) -> bool {
        self.get().and(kinds) == self.get()
    }

    /// What the header of a file says that is begun now.
    pub(crate) fn get(&self) -> Kinds {
        Kinds(self.0.load(Ordering::Relaxed))
    }
}
