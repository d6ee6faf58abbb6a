//! Errors of a store, each with what a person or a program can do about it.

use std::io;
use std::path::Path;

use env::FileError;

/// Why an operation failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file of the store cannot be used. After a failed write or sync the store is poisoned as
    /// well.
    #[error(transparent)]
    File(#[from] FileError),

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

impl Error {
    /// Whether it can help to abort the transaction and run it again.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        matches!(self, Self::Deadlock | Self::Busy | Self::TransactionFailed)
    }

    pub(crate) fn io(path: &Path, doing: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| FileError::io(path, doing)(source).into()
    }

    pub(crate) fn corrupt(path: &Path, offset: u64, what: impl Into<String>) -> Self {
        let remedy = "restore the store from a backup";
        FileError::Corrupt { path: path.to_owned(), offset, what: what.into(), remedy }.into()
    }
}
