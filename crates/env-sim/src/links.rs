//! Hard links that other programs create to a program's files, and the rule about them: a file with
//! another name must not change.
//!
//! ```text
//!   the program    data/7.redo ─┐
//!                               ├─► one file        opened before the link: may be appended to
//!   a backup       copy/7.redo ─┘                   opened after it: may not be changed at all
//! ```
//!
//! The contents of the file when it got its other name stay as they are, byte by byte: the creator
//! of the link reads them. New bytes may be appended, also over zeros at the end, and what is there may
//! be written again as it is. A test need not link files whose contents are meaningless.
//!
//! [`Trespass`] notes the first violation of the rule. A test that does not ask for it fails when
//! the disk is dropped.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::names::{InodeId, Names};

/// The names that other programs have given to files.
#[derive(Debug, Clone, Default)]
pub(crate) struct Links(BTreeSet<PathBuf>);

impl Links {
    pub(crate) fn add(&mut self, path: &Path) {
        self.0.insert(path.to_owned());
    }

    /// Whether the file, known to the program as `path`, has another name.
    pub(crate) fn is_shared(&self, names: &Names, path: &Path, inode: InodeId) -> bool {
        if self.0.is_empty() {
            return false;
        }
        let is_ours = !self.0.contains(path);
        let mut others = names.of(inode).filter(|name| *name != path);
        others.any(|name| !is_ours || self.0.contains(name))
    }
}

/// The first change of a shared file.
#[derive(Debug, Default)]
pub(crate) struct Trespass(Option<String>);

impl Trespass {
    pub(crate) fn note(&mut self, what: impl FnOnce() -> String) {
        self.0.get_or_insert_with(what);
    }

    pub(crate) fn take(&mut self) -> Option<String> {
        self.0.take()
    }
}

impl Drop for Trespass {
    fn drop(&mut self) {
        if let Some(what) = self.0.take().filter(|_| !std::thread::panicking()) {
            panic!("{what}");
        }
    }
}
