//! Errors of the log index.

use std::path::{Path, PathBuf};

use env::FileError;

/// Why the index, or a part of it, cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file, or the directory, cannot be used.
    #[error(transparent)]
    File(#[from] FileError),

    /// The index belongs to another database.
    #[error(
        "{} is the index of another database: remove it, and the index is built anew from the log",
        path.display()
    )]
    OtherDatabase {
        /// The manifest.
        path: PathBuf,
    },

    /// A pass, or the range of a scope, was continued after an error.
    #[error("this pass over the log index has failed before: begin another one")]
    Interrupted,
}

/// The result type of this crate.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// Returns a constructor for the error of a failed operation on a file, for `map_err`.
    pub(crate) fn io(path: &Path, doing: &'static str) -> impl FnOnce(std::io::Error) -> Self {
        move |source| FileError::io(path, doing)(source).into()
    }

    /// Creates an error for damage to a file of the index.
    pub(crate) fn corrupt(path: &Path, offset: u64, what: impl Into<String>) -> Self {
        let remedy = "remove the index's manifest, and the index is built anew from the log";
        FileError::Corrupt { path: path.to_owned(), offset, what: what.into(), remedy }.into()
    }

    /// Whether durable bytes have changed: trying again does not help.
    #[must_use]
    pub const fn is_corrupt(&self) -> bool {
        matches!(self, Self::File(FileError::Corrupt { .. }))
    }
}
