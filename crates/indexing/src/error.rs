//! Errors of keeping an index.

/// Why the index does not keep up with the log.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The log cannot be read.
    #[error(transparent)]
    Log(#[from] redo::Error),
    /// The index cannot be read or written.
    #[error(transparent)]
    Index(#[from] logindex::Error),
    /// The log holds a record that makes no sense.
    #[error("the log cannot be indexed: {0}")]
    Record(#[from] keyspace::BadRecord),
}

/// The result type of this crate.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// Whether the index must be built anew; otherwise trying again may help.
    #[must_use]
    pub const fn is_final(&self) -> bool {
        match self {
            Self::Log(error) => matches!(error, redo::Error::DeletesDropped { .. }),
            Self::Index(error) => {
                error.is_corrupt() || matches!(error, logindex::Error::OtherDatabase { .. })
            }
            Self::Record(_) => false,
        }
    }
}
