//! Errors of snapshots.

use std::io;
use std::path::PathBuf;

/// Why a snapshot, a dump or a transaction failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Rows must be whole cache lines.
    #[error("rows of {row_bytes} bytes: the size must be a multiple of 64, and at least 64")]
    Shape {
        /// The requested size.
        row_bytes: usize,
    },

    /// The previous snapshot was dropped before it was traversed to its end.
    #[error(
        "the previous snapshot is unfinished: get it with `unfinished` and traverse it to its end"
    )]
    Unfinished,

    /// The operating system did not fork, or the child process died.
    #[error("the child process that holds the snapshot: {what}")]
    Child {
        /// What happened to the child.
        what: String,
    },

    /// The disk failed.
    #[error("{}: {error}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's error.
        error: io::Error,
    },

    /// A dump is damaged.
    #[error("{}: damaged at byte {offset}: {what}", path.display())]
    Corrupt {
        /// The file.
        path: PathBuf,
        /// Where in it.
        offset: u64,
        /// What is wrong there.
        what: &'static str,
    },

    /// The dump has rows of another shape.
    #[error("{}: this dump has {rows} rows of {row_bytes} bytes, which is not the expected shape", path.display())]
    OtherShape {
        /// The file.
        path: PathBuf,
        /// The rows in it.
        rows: u64,
        /// The bytes of each row.
        row_bytes: u64,
    },

    /// Another transaction holds a lock that this one needs. The transaction has changed nothing;
    /// begin it again.
    #[error("row {row} is locked by another transaction: retry this one")]
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

/// The result type of this crate.
pub type Result<T> = std::result::Result<T, Error>;
