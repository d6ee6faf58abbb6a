//! The last dump, kept for the next one: `snapshot-algorithm hourglass` merges it with what has changed.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use dump::{LastDump, WholeReason};

type Kept = Result<Arc<LastDump>, WholeReason>;

/// Where engine and savers keep it. It is good as long as the log is open.
#[derive(Clone)]
pub(crate) struct LastDumps(Arc<Mutex<Kept>>);

impl Default for LastDumps {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(Err(WholeReason::First))))
    }
}

impl LastDumps {
    fn kept(&self) -> MutexGuard<'_, Kept> {
        // What is in it is whole, even if a thread has panicked.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns it, or why there is none.
    pub(super) fn get(&self) -> Kept {
        self.kept().clone()
    }

    /// A dump is there under its name.
    pub(super) fn put(&self, last: LastDump) {
        *self.kept() = Ok(Arc::new(last));
    }

    /// The next one is made of the whole log, for this reason.
    pub(crate) fn forget(&self, why: WholeReason) {
        *self.kept() = Err(why);
    }
}
