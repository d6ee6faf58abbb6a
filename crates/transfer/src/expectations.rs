//! Files that are to be read back: which of them sessions of a server still want, and the memory that their checksums may take.
//!
//! ```text
//!   put or expected ─► wanted ─┬─► read back ─► the session lets go
//!                              └─► removed, by a request of any session ─► not wanted: what is found there is no damage
//! ```
//!
//! A file that is gone and was not removed by a request is lost: after a power cut of a machine whose device lied, or by hand.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::relative_path::RelativePath;

/// About what a file that is expected takes of memory, next to its path and its checksums.
const FILE_BYTES: u64 = 128;

/// What those of one frame take next to them.
const FRAME_BYTES: u64 = 64;

/// What all sessions of a server want to read back.
#[derive(Debug, Default)]
pub(crate) struct Expectations(Mutex<Inner>);

#[derive(Debug, Default)]
struct Inner {
    files: HashMap<RelativePath, File>,
    /// The last number that was given.
    last: u64,
}

/// A file from when it was put to when it is removed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct File {
    number: u64,
    /// How many sessions want it.
    wanted: usize,
}

impl Expectations {
    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A session wants this file, as it is named from the server's directory.
    pub(crate) fn add(self: &Arc<Self>, path: RelativePath) -> Expectation {
        let mut inner = self.inner();
        let next = inner.last + 1;
        let file = inner.files.entry(path.clone()).or_insert(File { number: next, wanted: 0 });
        file.wanted += 1;
        let number = file.number;
        inner.last = inner.last.max(number);
        drop(inner);
        Expectation { all: Arc::clone(self), path, number }
    }

    /// The file is about to be removed by a request: none wants it any more.
    pub(crate) fn remove(&self, path: &RelativePath) -> Option<File> {
        self.inner().files.remove(path)
    }

    /// It could not be removed.
    pub(crate) fn put_back(&self, path: RelativePath, file: File) {
        self.inner().files.entry(path).or_insert(file);
    }
}

/// That a session wants a file; dropped, it does not.
#[derive(Debug)]
pub(crate) struct Expectation {
    all: Arc<Expectations>,
    path: RelativePath,
    number: u64,
}

impl Expectation {
    /// Whether it was not removed by a request since.
    pub(crate) fn is_wanted(&self) -> bool {
        let inner = self.all.inner();
        inner.files.get(&self.path).is_some_and(|file| file.number == self.number)
    }
}

impl Drop for Expectation {
    fn drop(&mut self) {
        let mut inner = self.all.inner();
        let Some(file) = inner.files.get_mut(&self.path) else { return };
        if file.number != self.number {
            return;
        }
        file.wanted -= 1;
        if file.wanted == 0 {
            inner.files.remove(&self.path);
        }
    }
}

/// The memory that what is to be read back takes.
#[derive(Debug)]
pub(crate) struct Room {
    used_bytes: u64,
    most_bytes: u64,
}

impl Room {
    pub(crate) const fn new(most_bytes: u64) -> Self {
        Self { used_bytes: 0, most_bytes }
    }

    /// Whether there is so much.
    pub(crate) const fn has(&self, bytes: u64) -> bool {
        bytes <= self.most_bytes - self.used_bytes
    }

    /// Takes so much, if there is.
    pub(crate) const fn take(&mut self, bytes: u64) -> bool {
        let has = self.has(bytes);
        if has {
            self.used_bytes += bytes;
        }
        has
    }

    pub(crate) const fn give_back(&mut self, bytes: u64) {
        self.used_bytes -= bytes;
    }
}

/// About what it takes to expect a file with so many checksums.
pub(crate) fn cost_bytes(path: &RelativePath, checksums: usize) -> u64 {
    FILE_BYTES + path.as_bytes().len() as u64 + 4 * checksums as u64
}

/// About what the checksums of so many pages take that came together: a client may send each page alone.
pub(crate) const fn cost_of_frame(pages: usize) -> u64 {
    FRAME_BYTES + 4 * pages as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_removed_is_not_wanted_and_what_comes_after_it_is_another_file() {
        let (all, path) = (Arc::new(Expectations::default()), RelativePath::new("a/b").unwrap());
        let (first, second) = (all.add(path.clone()), all.add(path.clone()));
        assert!(first.is_wanted() && second.is_wanted());
        all.remove(&path);
        assert!(!first.is_wanted() && !second.is_wanted());
        let later = all.add(path.clone());
        drop(first);
        assert!(later.is_wanted() && !second.is_wanted());
        let file = all.remove(&path).unwrap();
        all.put_back(path, file);
        assert!(later.is_wanted(), "it could not be removed");
        drop((second, later));
        assert!(all.inner().files.is_empty());
    }
}
