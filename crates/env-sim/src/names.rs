//! Directories: the file of each name, now and after a crash.
//!
//! The same two states as in a file: calls see `cached`, a crash returns to `stored`, and the
//! changes in between wait for a sync of their directory. A crash keeps either a prefix of the
//! waiting changes, as a journaling file system would, or any subset. Directories themselves are
//! durable immediately, as [`env::Disk::create_dir_all`] promises.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

use crate::entropy::SimEntropy;

/// The identity of a file.
pub(crate) type InodeId = u64;

pub(crate) fn not_found(path: &Path) -> io::Error {
    io::Error::new(io::ErrorKind::NotFound, format!("{}: not found", path.display()))
}

/// All names of a disk.
#[derive(Debug, Clone, Default)]
pub(crate) struct Names {
    cached: BTreeMap<PathBuf, InodeId>,
    stored: BTreeMap<PathBuf, InodeId>,
    pending: Vec<Change>,
    dirs: BTreeSet<PathBuf>,
}

/// A change of names. It is durable with the next sync of the directory of `to`, or of `from` for a
/// removal.
#[derive(Debug, Clone)]
struct Change {
    from: Option<PathBuf>,
    to: Option<(PathBuf, InodeId)>,
}

impl Change {
    fn dir(&self) -> Option<&Path> {
        self.to.as_ref().map(|(path, _)| path).or(self.from.as_ref()).and_then(|path| path.parent())
    }

    fn apply(&self, names: &mut BTreeMap<PathBuf, InodeId>) {
        if let Some(from) = &self.from {
            names.remove(from);
        }
        if let Some((to, inode)) = &self.to {
            names.insert(to.clone(), *inode);
        }
    }
}

impl Names {
    pub(crate) fn get(&self, path: &Path) -> Option<InodeId> {
        self.cached.get(path).copied()
    }

    pub(crate) fn is_dir(&self, path: &Path) -> bool {
        path.parent().is_none_or(|parent| parent == path) || self.dirs.contains(path)
    }

    pub(crate) fn make_dirs(&mut self, path: &Path) {
        for dir in path.ancestors() {
            self.dirs.insert(dir.to_path_buf());
        }
    }

    /// Removes a directory that has nothing in it, nor may have again after a crash.
    pub(crate) fn remove_dir(&mut self, path: &Path) -> io::Result<()> {
        if !self.is_dir(path) {
            return Err(not_found(path));
        }
        let names = self.cached.keys().chain(self.stored.keys()).chain(&self.dirs);
        if names.into_iter().any(|name| name.parent() == Some(path)) {
            return Err(io::ErrorKind::DirectoryNotEmpty.into());
        }
        self.dirs.remove(path);
        Ok(())
    }

    pub(crate) fn list(&self, dir: &Path) -> Vec<OsString> {
        let names: BTreeSet<OsString> = self
            .cached
            .keys()
            .chain(&self.dirs)
            .filter(|path| path.parent() == Some(dir))
            .filter_map(|path| path.file_name().map(OsString::from))
            .collect();
        names.into_iter().collect()
    }

    pub(crate) fn link(&mut self, path: &Path, inode: InodeId) {
        self.change(Change { from: None, to: Some((path.to_path_buf(), inode)) });
    }

    pub(crate) fn unlink(&mut self, path: &Path) {
        self.change(Change { from: Some(path.to_path_buf()), to: None });
    }

    pub(crate) fn rename(&mut self, from: &Path, to: &Path, inode: InodeId) {
        if from != to {
            let to = Some((to.to_path_buf(), inode));
            self.change(Change { from: Some(from.to_path_buf()), to });
        }
    }

    fn change(&mut self, change: Change) {
        change.apply(&mut self.cached);
        self.pending.push(change);
    }

    pub(crate) fn sync(&mut self, dir: &Path) {
        let stored = &mut self.stored;
        self.pending.retain(|change| {
            let due = change.dir() == Some(dir);
            if due {
                change.apply(stored);
            }
            !due
        });
    }

    pub(crate) fn crash(&mut self, rng: &mut SimEntropy) {
        let pending = std::mem::take(&mut self.pending);
        let journaled = rng.coin();
        let edge = rng.below(pending.len() as u64 + 1);
        for (i, change) in (0..).zip(&pending) {
            if if journaled { i < edge } else { rng.coin() } {
                change.apply(&mut self.stored);
            }
        }
        self.cached.clone_from(&self.stored);
    }

    /// Returns the names of the file.
    pub(crate) fn of(&self, inode: InodeId) -> impl Iterator<Item = &Path> {
        let names = self.cached.iter().filter(move |(_, id)| **id == inode);
        names.map(|(path, _)| path.as_path())
    }

    /// Whether the file has a name, or may have one again after a crash.
    pub(crate) fn refers_to(&self, inode: InodeId) -> bool {
        let waits = |change: &Change| change.to.as_ref().is_some_and(|(_, id)| *id == inode);
        self.cached.values().chain(self.stored.values()).any(|id| *id == inode)
            || self.pending.iter().any(waits)
    }
}
