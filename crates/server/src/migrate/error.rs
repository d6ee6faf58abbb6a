//! Why keys are still here.

use std::io::{self, ErrorKind};

/// Why a migration has failed, as its client is told. Redis' own words where it has some.
#[derive(Debug, thiserror::Error)]
pub enum MigrateError {
    /// The target cannot be reached.
    #[error("IOERR error or timeout connecting to the client")]
    Connect(#[source] io::Error),
    /// The target takes nothing more.
    #[error("IOERR error or timeout writing to target instance")]
    Write(#[source] io::Error),
    /// The target does not answer.
    #[error("IOERR error or timeout reading to target instance")]
    Read(#[source] io::Error),
    /// The target refuses.
    #[error("ERR Target instance replied with error: {0}")]
    Refused(String),
    /// What answers does not speak the protocol.
    #[error("ERR Target instance replied with error: it is no answer to {command}: {line}")]
    Unexpected {
        /// What was sent.
        command: &'static str,
        /// What came back.
        line: String,
    },
    /// The courier was told to stop.
    #[error("IOERR the migration was given up")]
    GivenUp,
    /// The server ends.
    #[error(
        "IOERR the server is shutting down: the keys are still here, and the target may have them, too"
    )]
    ShuttingDown,
    /// The log is turned off.
    #[error(
        "IOERR the log is turned off: the keys are still here, and the target may have them, too"
    )]
    Closing,
    /// All data is read again.
    #[error(
        "IOERR the data is loaded again: the keys are still here, and the target may have them, too"
    )]
    Reloading,
    /// The keys cannot be deleted.
    #[error("{0}; the keys are still here, and the target may have them, too")]
    NotDeleted(String),
    /// The keys cannot be taken.
    #[error("{0}")]
    NotTaken(String),
    /// The system has no thread for it.
    #[error("ERR no thread for it: {0}; try again later")]
    NoThread(#[source] io::Error),
    /// Nothing brings keys to other servers here.
    #[error("ERR this server has nothing that brings keys to others")]
    NoRunner,
}

impl MigrateError {
    /// What Redis tells: it notices that nothing listens when it writes.
    pub(super) fn of_connecting(error: io::Error) -> Self {
        match error.kind() {
            ErrorKind::ConnectionRefused
            | ErrorKind::ConnectionReset
            | ErrorKind::HostUnreachable => Self::Write(error),
            _ => Self::Connect(error),
        }
    }
}
