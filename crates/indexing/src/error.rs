//! Errors of keeping an index.

use std::path::{Path, PathBuf};

use base::Lsn;

use crate::peek::Unusable;

/// Why the index does not keep up with the log, or a start refuses it.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The log cannot be read.
    #[error(transparent)]
    Log(#[from] redo::Error),
    /// The index cannot be read or written.
    #[error(transparent)]
    Index(#[from] logindex::Error),
    /// The directory of the index cannot be used.
    #[error(
        "{source}; if that cannot be mended, remove the directory {}: the index is built anew from the log",
        dir.display()
    )]
    Unreadable {
        /// The directory.
        dir: PathBuf,
        /// What does not work.
        source: logindex::Error,
    },
    /// The index knows blocks that the log has lost.
    #[error(
        "the log ends at block {end}, but the index in {} knows that it was durable up to block {cut}: \
         its end is lost. Restore what is missing of the log; or, to go on without it, remove the \
         directory {}",
        dir.display(),
        dir.display()
    )]
    AheadOfLog {
        /// The directory of the index.
        dir: PathBuf,
        /// The last block that the index knows.
        cut: Lsn,
        /// The last block of the log.
        end: Lsn,
    },
    /// The log holds a record that makes no sense.
    #[error("the log cannot be indexed: {0}")]
    Record(#[from] keyspace::BadRecord),
    /// The index has other entries than it says.
    #[error(
        "the log index is not what the log says: database {db} has {found} keys in it, and {known} by the log"
    )]
    Miscounted {
        /// A database that differs.
        db: u64,
        /// The keys that the index has.
        found: u64,
        /// The keys that the log says.
        known: u64,
    },
    /// It was brought up to the end of the log, and no start can believe it.
    #[error("the log index is built, and cannot be used: {0}")]
    Unusable(#[from] Unusable),
}

/// The result type of this crate.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// Returns a constructor for an error with the directory that is to be removed, for `map_err`.
    pub(crate) fn unreadable(dir: &Path) -> impl FnOnce(logindex::Error) -> Self {
        move |source| Self::Unreadable { dir: dir.to_owned(), source }
    }

    /// Whether the index must be built anew; otherwise trying again may help.
    #[must_use]
    pub const fn is_final(&self) -> bool {
        match self {
            Self::Log(error) => matches!(error, redo::Error::DeletesDropped { .. }),
            Self::Index(error) => {
                error.is_corrupt() || matches!(error, logindex::Error::OtherDatabase { .. })
            }
            Self::Miscounted { .. } => true,
            Self::Record(_)
            | Self::Unreadable { .. }
            | Self::AheadOfLog { .. }
            | Self::Unusable(_) => false,
        }
    }

    /// Whether the log has lost blocks that were durable: going on would accept that.
    #[must_use]
    pub const fn is_loss(&self) -> bool {
        matches!(self, Self::AheadOfLog { .. })
    }
}
