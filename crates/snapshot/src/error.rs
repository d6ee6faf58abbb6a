//! Errors of snapshots.

use std::io;
use std::path::{Path, PathBuf};

use env::FileError;

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

    /// A dump, or the directory of the checkpoints, cannot be used.
    #[error(transparent)]
    File(#[from] FileError),

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

/// The result type of this crate.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// Returns a constructor for the error of a failed operation on a file, for `map_err`.
    pub(crate) fn io(path: &Path, doing: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| FileError::io(path, doing)(source).into()
    }

    /// Creates an error for damage to a dump.
    pub(crate) fn corrupt(path: &Path, offset: u64, what: &str) -> Self {
        let remedy = "restore the dump from a copy, or make a new one";
        FileError::Corrupt { path: path.to_owned(), offset, what: what.to_owned(), remedy }.into()
    }
}
