//! Why a dump has failed.

use std::io;
use std::sync::Arc;

use env::FileError;

use super::desk::SaveFigures;

/// Why a dump has failed. The log and the data are as they were, and so is an older file.
#[derive(Debug, thiserror::Error)]
pub enum SaveError {
    /// The log cannot be read, or what is spilled or written cannot be.
    #[error(transparent)]
    Dump(#[from] dump::Error),
    /// The dump cannot be begun or ended.
    #[error(transparent)]
    Write(#[from] rdb::WriteError),
    /// The file cannot be made, or get its name.
    #[error(transparent)]
    File(#[from] FileError),
    /// The walk of memory did not come to its end.
    #[error("the data was replaced while it was dumped; begin another one")]
    Interrupted,
    /// Memory cannot be walked.
    #[error(transparent)]
    Refused(#[from] keyspace::walk::Refused),
    /// The process that dumps its memory has ended or cannot be heard.
    #[error("the child process: {0}; see the kernel's log, it may lack memory")]
    Child(#[source] io::Error),
    /// The system has no thread for it.
    #[error("no thread for it: {0}; try again later")]
    NoThread(#[source] io::Error),
    /// Nothing writes dumps here.
    #[error("this server has nothing that writes dumps")]
    NoRunner,
    /// It can be no more: the log has failed, or the configuration has changed.
    #[error("{0}")]
    Impossible(String),
    /// SHUTDOWN has taken its place, and was aborted.
    #[error("SHUTDOWN was begun and aborted meanwhile; ask again")]
    ShutdownAborted,
    /// The log was closed before it was complete.
    #[error("the log was closed; begin another one when it is open")]
    LogClosed,
}

impl SaveError {
    /// Whether it is the dump's before, which another one, made of the whole log, does not need.
    pub(crate) const fn is_of_last(&self) -> bool {
        matches!(self, Self::Dump(dump::Error::Last { .. }))
    }
}

/// How a dump has ended.
pub type SaveResult = Result<SaveFigures, Arc<SaveError>>;
