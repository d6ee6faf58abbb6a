//! The four ways in which a file is refused, in the same words for every format.
//!
//! ```text
//!   FileError   Io · InUse · NewerFormat · Corrupt      which file, what, what to do
//!       ▲
//!   Error::File of the crates that have files: redo, pages, snapshot, tap, transfer
//! ```
//!
//! The remedy for a lock or for damage depends on the purpose of the file, so its crate supplies
//! the words. An I/O error carries the system's message, and a newer format needs a newer program.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use crate::error::reason;

/// Why a file cannot be used.
#[derive(Debug)]
pub enum FileError {
    /// The operating system returned an error.
    Io {
        /// The file or directory.
        path: PathBuf,
        /// The operation that failed, as a verb.
        doing: &'static str,
        /// The system's error.
        source: io::Error,
    },
    /// Another process or another handle has the file locked.
    InUse {
        /// The lock file.
        path: PathBuf,
        /// What is in use, and what to do.
        what: &'static str,
    },
    /// The file was written by a newer program.
    NewerFormat {
        /// The file.
        path: PathBuf,
        /// Its format version.
        found: u32,
        /// The newest version known here.
        known: u32,
    },
    /// Durable bytes have changed.
    Corrupt {
        /// The file.
        path: PathBuf,
        /// Where in it.
        offset: u64,
        /// What is wrong there.
        what: String,
        /// What to do.
        remedy: &'static str,
    },
}

impl FileError {
    /// Returns a constructor for the error of a failed operation, for `map_err`.
    pub fn io(path: &Path, doing: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { path: path.to_owned(), doing, source }
    }

    /// Whether the disk is full: the call may succeed once there is room.
    #[must_use]
    pub fn is_storage_full(&self) -> bool {
        matches!(self, Self::Io { source, .. } if source.kind() == io::ErrorKind::StorageFull)
    }
}

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io { path, doing, source } => {
                write!(f, "cannot {doing} {}: {}", path.display(), reason(path, source))
            }
            Self::InUse { path, what } => write!(f, "{} is locked: {what}", path.display()),
            Self::NewerFormat { path, found, known } => write!(
                f,
                "{} has format {found}, this program supports formats up to {known}; use a newer \
                 program",
                path.display()
            ),
            Self::Corrupt { path, offset, what, remedy } => {
                write!(f, "{} is corrupt at byte {offset}: {what}; {remedy}", path.display())
            }
        }
    }
}

impl std::error::Error for FileError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io { source, .. } => Some(source),
            Self::InUse { .. } | Self::NewerFormat { .. } | Self::Corrupt { .. } => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::about;

    #[test]
    fn the_texts_say_which_file_what_and_what_to_do() {
        let path = Path::new("/d/f");
        let texts = [
            (
                FileError::io(path, "open")(about(path, io::ErrorKind::NotFound.into())),
                "cannot open /d/f: entity not found",
            ),
            (
                FileError::InUse { path: path.to_owned(), what: "another process has it; stop it" },
                "/d/f is locked: another process has it; stop it",
            ),
            (
                FileError::NewerFormat { path: path.to_owned(), found: 3, known: 2 },
                "/d/f has format 3, this program supports formats up to 2; use a newer program",
            ),
            (
                FileError::Corrupt {
                    path: path.to_owned(),
                    offset: 12,
                    what: "no header".to_owned(),
                    remedy: "restore it from a backup",
                },
                "/d/f is corrupt at byte 12: no header; restore it from a backup",
            ),
        ];
        for (error, text) in texts {
            assert_eq!(error.to_string(), text);
        }
    }

    #[test]
    fn a_full_disk_is_told_from_a_broken_one() {
        let path = Path::new("/d/f");
        let error = |kind: io::ErrorKind| FileError::io(path, "write")(about(path, kind.into()));
        assert!(error(io::ErrorKind::StorageFull).is_storage_full());
        assert!(!error(io::ErrorKind::Other).is_storage_full());
    }
}
