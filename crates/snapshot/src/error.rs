//! What can go wrong with a snapshot.

use std::io;
use std::path::PathBuf;

/// Why a snapshot, a dump or a transaction failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Rows are whole cache lines.
    #[error("a row of {row_bytes} bytes: rows have a multiple of 64 bytes, and at least 64")]
    Shape {
        /// What was asked for.
        row_bytes: usize,
    },

    /// The snapshot before was dropped before it was traversed to its end.
    #[error("the snapshot before is not done: get it with `unfinished` and traverse it to its end")]
    Unfinished,

    /// The operating system did not fork, or the child died.
    #[error("the child process that holds the snapshot: {what}")]
    Child {
        /// What happened to it.
        what: String,
    },

    /// The disk failed.
    #[error("{}: {error}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the operating system said.
        error: io::Error,
    },

    /// A dump is not what was written.
    #[error("{}: damaged at byte {offset}: {what}", path.display())]
    Corrupt {
        /// The file.
        path: PathBuf,
        /// Where in it.
        offset: u64,
        /// What is wrong there.
        what: &'static str,
    },

    /// A dump of other rows than these.
    #[error("{}: a dump of {rows} rows of {row_bytes} bytes, which is not what is asked for", path.display())]
    OtherShape {
        /// The file.
        path: PathBuf,
        /// Rows in it.
        rows: u64,
        /// Bytes of each.
        row_bytes: u64,
    },

    /// Another transaction has a lock that this one needs. Everything is as if it had not begun;
    /// begin it again.
    #[error("row {row} is locked by another transaction: run this one again")]
    Conflict {
        /// The row.
        row: usize,
    },
}

impl From<env::FailedStep> for Error {
    fn from(failed: env::FailedStep) -> Self {
        Self::Io { path: failed.path, error: failed.source }
    }
}

/// A result of this crate.
pub type Result<T> = std::result::Result<T, Error>;
