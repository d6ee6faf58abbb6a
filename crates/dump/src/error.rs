//! Why a dump fails.

use std::error::Error as StdError;
use std::path::PathBuf;

use base::{Lsn, ObjectId, RecordAddr, SegmentId};
use env::FileError;
use keyspace::BadRecord;

/// Why a dump fails. The log is as it was, and another one may be begun.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The log cannot be read.
    #[error(transparent)]
    Log(#[from] redo::Error),

    /// A record is whole, and has what no keyspace wrote.
    #[error("the record at {addr} cannot be used: {bad}; a newer program may have written it")]
    Record {
        /// The record.
        addr: RecordAddr,
        /// What is wrong with it.
        bad: BadRecord,
    },

    /// The elements of an object are not what its root says.
    #[error("the log has {what} of the large value {object:?}, so the dump would be wrong; see `indelible log verify`", object = object.0)]
    Object {
        /// The object.
        object: ObjectId,
        /// What is the matter.
        what: &'static str,
    },

    /// The file in which large values are sorted cannot be used.
    #[error(transparent)]
    Spill(#[from] FileError),

    /// A stored log does not tell the state after the block.
    #[error(
        "the log does not tell the state after block {lsn}: {why}; it tells those after blocks {oldest} to {newest}",
        why = if lsn < oldest {
            "compactions have dropped some of it"
        } else {
            "it ends before"
        }
    )]
    NotTold {
        /// The block that was asked for.
        lsn: Lsn,
        /// The first one that may be asked for.
        oldest: Lsn,
        /// The last one.
        newest: Lsn,
    },

    /// A stored log is not the one that was read before.
    #[error(
        "record {segment}:{ordinal} is not where it was when the log was read first: something has changed the log meanwhile; begin again"
    )]
    Changed {
        /// The segment.
        segment: SegmentId,
        /// The record's ordinal.
        ordinal: u32,
    },

    /// The log was closed before the mark was made.
    #[error("the log was closed before the dump could begin; begin another one")]
    GivenUp,

    /// The chunks of a walk are not those of one, in their order: a mistake in the program.
    #[error("a walk of memory cannot be read: its chunks have {what}")]
    Walk {
        /// What is wrong with them.
        what: &'static str,
    },

    /// The dump that this one is merged with is not what it was. Another one, made of the whole log, does not need it.
    #[error("the last dump, {path}, cannot be merged with what has changed: {why}", path = path.display())]
    Last {
        /// The last dump.
        path: PathBuf,
        /// What is the matter with it.
        #[source]
        why: LastError,
    },

    /// What takes the dump refuses it.
    #[error(transparent)]
    Target(Box<dyn StdError + Send + Sync>),
}

/// What is wrong with the dump that another one is merged with.
#[derive(Debug, thiserror::Error)]
pub enum LastError {
    /// It cannot be read.
    #[error(transparent)]
    File(#[from] FileError),
    /// It was changed, or its device gives back other bytes.
    #[error("its checksum is wrong; see `indelible rdb check`")]
    Sum,
    /// What was noted of it cannot be read.
    #[error("what was noted of it: {0}")]
    Notes(#[source] Box<Error>),
    /// It is not made as was noted.
    #[error("it has {0} where something else was noted")]
    Unlike(&'static str),
    /// With what has changed it does not make whole values.
    #[error(transparent)]
    Merged(Box<Error>),
}

/// The result type of this crate.
pub type Result<T> = std::result::Result<T, Error>;
