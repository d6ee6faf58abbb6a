//! Errors of a store, each with what a person or a program can do about it.

use std::io;
use std::path::{Path, PathBuf};

/// Why an operation failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The operating system returned an error. After a failed write or sync the store is poisoned
    /// as well.
    #[error("cannot {doing} {path}: {reason}", path = path.display(), reason = env::reason(path, source))]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// The operation that failed, as a verb.
        doing: &'static str,
        /// The system's error.
        source: io::Error,
    },

    /// Another handle has the store open.
    #[error("{path} is locked: another process has this store open", path = path.display())]
    InUse {
        /// The lock file.
        path: PathBuf,
    },

    /// The file was written by a newer program.
    #[error(
        "{path} has format {found}, this program supports formats up to {known}; use a newer program",
        path = path.display()
    )]
    NewerFormat {
        /// The file.
        path: PathBuf,
        /// Its format version.
        found: u32,
        /// The newest version known here.
        known: u32,
    },

    /// Durable bytes have changed.
    #[error(
        "{path} is corrupt at byte {offset}: {what}; restore the store from a backup",
        path = file.display()
    )]
    Corrupt {
        /// The file.
        file: PathBuf,
        /// Where in it.
        offset: u64,
        /// What is wrong there.
        what: String,
    },

    /// Waiting for the lock would have closed a cycle of waiting transactions. This transaction is
    /// the victim: abort it and run it again.
    #[error("deadlock: abort this transaction and run it again")]
    Deadlock,

    /// Another transaction holds a lock that this call needs, and [`crate::LockWait::Refuse`]
    /// was chosen. The request keeps its place in the queue: repeat the call later, or abort.
    #[error("locked by another transaction: repeat the call later, or abort")]
    Busy,

    /// A key is longer than [`crate::KEY_BYTES_MAX`].
    #[error("a key of {bytes} bytes is too long: the maximum is {max}")]
    KeyTooLong {
        /// The length of the key.
        bytes: usize,
        /// The maximum.
        max: usize,
    },

    /// The name of a table is longer than [`crate::TABLE_NAME_BYTES_MAX`].
    #[error("a table name of {bytes} bytes is too long: the maximum is {max}")]
    NameTooLong {
        /// The length of the name.
        bytes: usize,
        /// The maximum.
        max: usize,
    },

    /// The changes of one transaction exceed its share of the online log table: a quarter of
    /// [`crate::Options::online_log_bytes`]. The call has changed nothing, and the transaction
    /// remains usable: commit what was done before, and make the other changes in another
    /// transaction.
    #[error(
        "the transaction changes more than {max} bytes: commit in smaller portions, or open the store with more memory (online_log_bytes at least {})",
        .max.saturating_mul(8)
    )]
    TransactionTooLarge {
        /// The most bytes that one transaction may change.
        max: usize,
    },

    /// The transaction failed earlier and can only be aborted.
    #[error("the transaction has failed: abort it and run it again")]
    TransactionFailed,

    /// A write or sync has failed. The contents of memory may never become durable, so the store
    /// refuses all further work; reopen it to continue from the durable state.
    #[error("a write or sync failed ({cause}): open the store again")]
    Poisoned {
        /// The first failure.
        cause: String,
    },
}

/// The result type of this crate.
pub type Result<T> = std::result::Result<T, Error>;

impl From<env::FailedStep> for Error {
    fn from(failed: env::FailedStep) -> Self {
        Self::Io { path: failed.path, doing: failed.doing, source: failed.source }
    }
}

impl Error {
    /// Whether it can help to abort the transaction and run it again.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        matches!(self, Self::Deadlock | Self::Busy | Self::TransactionFailed)
    }

    pub(crate) fn io(path: &Path, doing: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { path: path.to_path_buf(), doing, source }
    }

    pub(crate) fn corrupt(file: &Path, offset: u64, what: impl Into<String>) -> Self {
        Self::Corrupt { file: file.to_path_buf(), offset, what: what.into() }
    }
}
