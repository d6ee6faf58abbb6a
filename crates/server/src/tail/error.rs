//! Why changes are not told.

use std::io;

use base::Lsn;
use keyspace::BadRecord;

/// What comes of a request.
pub type TailResult<T> = Result<T, TailError>;

/// Why changes are not told.
#[derive(Debug, thiserror::Error)]
pub enum TailError {
    /// The log does not have all of them any more.
    #[error(
        "block {from} is gone: compactions have dropped records of it, or what is needed to read it; the blocks from {whole_from} on are whole. What was missed is in a dump (BGSAVE, SYNC), which says as of which block it is"
    )]
    Gone {
        /// The block that was asked for.
        from: Lsn,
        /// The first that can be asked for.
        whole_from: Lsn,
    },
    /// The block is not there yet.
    #[error(
        "block {from} is ahead of the log, whose last durable block is {durable}: was it another database that had it?"
    )]
    Ahead {
        /// The block that was asked for.
        from: Lsn,
        /// The last that can be.
        durable: Lsn,
    },
    /// The log cannot be read.
    #[error(transparent)]
    Log(#[from] redo::Error),
    /// A record says what no record says.
    #[error("block {lsn} of the log: {bad}")]
    Record {
        /// The block.
        lsn: Lsn,
        /// What is wrong.
        bad: BadRecord,
    },
    /// What was read cannot be passed on.
    #[error("cannot write: {0}")]
    Output(#[from] io::Error),
    /// The log is being closed.
    #[error("the redo log is being closed")]
    Closed,
}
