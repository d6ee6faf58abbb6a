//! Why changes are not told.

use std::io;

use base::Lsn;
use keyspace::BadRecord;
use redo::{Id, Origin};

/// What comes of a request.
pub type TailResult<T> = Result<T, TailError>;

/// Why changes are not told.
#[derive(Debug, thiserror::Error)]
pub enum TailError {
    /// The log does not have all of them any more.
    #[error(
        "block {from} is gone: compactions have dropped records of it, or what is needed to read it, or the log was set back over it (restore --in-place); the blocks from {whole_from} on are whole. What was missed is in a dump (BGSAVE, SYNC), which says as of which block it is"
    )]
    Gone {
        /// The block that was asked for.
        from: Lsn,
        /// The first that can be asked for.
        whole_from: Lsn,
    },
    /// The archive does not have all of them.
    #[error(
        "the archive does not have block {from} whole, with what comes before it; the blocks from {whole_from} on are whole. What was missed is in a state of block {before} or a later one (indelible restore --at {before})", before = whole_from.0 - 1
    )]
    NotArchived {
        /// The block that was asked for, or is the next.
        from: Lsn,
        /// The first that can be asked for.
        whole_from: Lsn,
    },
    /// The archive cannot be read.
    #[error(transparent)]
    Archive(#[from] archive::Error),
    /// What was followed is another log.
    #[error(
        "block {after} of log {asked} is not one of this log, which is {log}: begin anew with a dump of this one (BGSAVE, SYNC), which says as of which block it is"
    )]
    OtherLog {
        /// The last block that was seen.
        after: Lsn,
        /// The log that it was of.
        asked: Id,
        /// This one.
        log: Id,
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

/// Whether what follows block `after` of the log `asked` follows it here, too.
pub(crate) fn check_log(origin: Origin, asked: Option<Id>, after: Lsn) -> TailResult<()> {
    match asked {
        Some(asked) if !origin.has(asked, after) => {
            Err(TailError::OtherLog { after, asked, log: origin.database })
        }
        _ => Ok(()),
    }
}
