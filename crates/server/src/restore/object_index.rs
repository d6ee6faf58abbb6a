//! Where the elements of large values are.

use std::sync::Arc;

use base::{Lsn, Mutex};
use logindex::{Index, Published};

/// The newest index that was ever installed in this life.
///
/// An index that is begun anew knows less for a while. What has left memory before is found by the one
/// before, which stays true for it: an object that is not in memory does not change.
///
/// An index forgets what is deleted. So one is pinned from the moment at which objects are deleted, that are
/// not in memory, until their elements are listed. It does not know those that have left memory since; the
/// newest one may have forgotten the others; both are asked.
#[derive(Clone)]
pub struct ObjectIndex {
    published: Published,
    newest: Arc<Mutex<Index>>,
    pinned: Arc<Mutex<Option<Index>>>,
}

impl ObjectIndex {
    /// Of the log's index.
    #[must_use]
    pub fn new(published: Published) -> Self {
        let newest = published.get();
        Self::behind(published, newest)
    }

    /// The same, as long as `newest` knows more.
    #[must_use]
    pub fn behind(published: Published, newest: Index) -> Self {
        Self { published, newest: Arc::new(Mutex::new(newest)), pinned: Arc::default() }
    }

    /// The block up to which it finds elements from now on.
    #[must_use]
    pub fn cut(&self) -> Option<Lsn> {
        self.get().cut()
    }

    /// Pins it as it is now, if none is pinned.
    pub fn pin(&self) {
        let mut pinned = self.pinned.lock();
        if pinned.is_none() {
            *pinned = Some(self.get());
        }
    }

    /// Pins none any more.
    pub fn unpin(&self) {
        *self.pinned.lock() = None;
    }

    /// The one that is pinned, if one is.
    #[must_use]
    pub fn pinned(&self) -> Option<Index> {
        self.pinned.lock().clone()
    }

    /// It as it is now.
    #[must_use]
    pub fn get(&self) -> Index {
        let index = self.published.get();
        let mut newest = self.newest.lock();
        if index.cut() >= newest.cut() {
            *newest = index;
        }
        newest.clone()
    }
}
