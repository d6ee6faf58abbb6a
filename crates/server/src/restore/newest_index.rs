//! The index of the log, as what reads from the log needs it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use base::{DbId, Lsn, Mutex};
use keyspace::RestoreError;
use logindex::{Index, Published};

/// The newest index that was ever installed in this life.
///
/// An index that is begun anew knows less for a while. What has left memory before is found by the one
/// before, which stays true for it: what of an object is not in memory does not change.
///
/// An index forgets what is deleted. So one is pinned from the moment at which objects are deleted, that are
/// not in memory, until their elements are listed. It does not know those that have left memory since; the
/// newest one may have forgotten the others; both are asked. For a database that is emptied, the one of
/// that moment is kept, which knows all keys that were not in memory then.
#[derive(Clone)]
pub struct NewestIndex {
    published: Published,
    newest: Arc<Mutex<Index>>,
    pinned: Arc<Mutex<Option<Index>>>,
    dropped: Arc<Mutex<BTreeMap<DbId, Index>>>,
    /// One that was kept turned out to be damaged.
    leaves_garbage: Arc<AtomicBool>,
    /// What the log says otherwise.
    contradiction: Arc<Mutex<Option<String>>>,
}

impl NewestIndex {
    /// Of the log's index.
    #[must_use]
    pub fn new(published: Published) -> Self {
        let newest = published.get();
        Self::behind(published, newest)
    }

    /// The same, as long as `newest` knows more.
    #[must_use]
    pub fn behind(published: Published, newest: Index) -> Self {
        Self {
            published,
            newest: Arc::new(Mutex::new(newest)),
            pinned: Arc::default(),
            dropped: Arc::default(),
            leaves_garbage: Arc::default(),
            contradiction: Arc::default(),
        }
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

    /// Keeps it as it is now for a database that is emptied, if none is kept for it.
    pub fn pin_dropped(&self, db: DbId) {
        self.dropped.lock().entry(db).or_insert_with(|| self.get());
    }

    /// What is kept for a database that was emptied.
    #[must_use]
    pub fn dropped(&self, db: DbId) -> Option<Index> {
        self.dropped.lock().get(&db).cloned()
    }

    /// All was told of a database that was emptied.
    pub fn forget_dropped(&self, db: DbId) {
        self.dropped.lock().remove(&db);
    }

    /// One that was kept is damaged, and so it will stay: what it alone knows is garbage that is not
    /// retired before the next start.
    pub(super) fn note_garbage_left(&self) {
        self.leaves_garbage.store(true, Ordering::Relaxed);
    }

    /// Whether there may be such garbage.
    #[must_use]
    pub fn leaves_garbage(&self) -> bool {
        self.leaves_garbage.load(Ordering::Relaxed)
    }

    /// Notes that no checksum is wrong and the log says otherwise all the same: what the index has told of live records
    /// is not to be believed either.
    pub(super) fn contradict(&self, what: &str) {
        self.contradiction.lock().get_or_insert_with(|| what.to_owned());
    }

    /// What the log says otherwise, if it does; told once.
    #[must_use]
    pub fn take_contradiction(&self) -> Option<String> {
        self.contradiction.lock().take()
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

/// Tells the index if it has taken a record for that of another key. What an object lacks is no contradiction: an index that
/// was begun anew knows less for a while.
pub(super) fn note_contradiction<T>(index: Option<&NewestIndex>, found: &Result<T, RestoreError>) {
    if let (Some(index), Err(RestoreError::Unlisted(what))) = (index, found) {
        index.contradict(what);
    }
}
