//! Where the elements of large values are.

use std::sync::Arc;

use base::Mutex;
use logindex::{Index, Published};

/// The newest index that was ever installed in this life.
///
/// An index that is begun anew knows less for a while. What has left memory before is found by the one
/// before, which stays true for it: an object that is not in memory does not change.
#[derive(Clone)]
pub struct ObjectIndex {
    published: Published,
    newest: Arc<Mutex<Index>>,
}

impl ObjectIndex {
    /// Of the log's index.
    #[must_use]
    pub fn new(published: Published) -> Self {
        let newest = Arc::new(Mutex::new(published.get()));
        Self { published, newest }
    }

    /// It as it is now.
    #[must_use]
    pub fn get(&self) -> Index {
        let index = self.published.get();
        let mut newest = self.newest.lock();
        if index.installed_cut() >= newest.installed_cut() {
            *newest = index;
        }
        newest.clone()
    }
}
