//! Named backups as they are asked for, and the writing of the manifest that has them.

use std::sync::atomic::AtomicU64;

use base::Lsn;
use thiserror::Error;

use crate::compact::holds::Holds;
use crate::error::{Result, nearest};
use crate::format::registry::{BACKUPS_MAX, NamedBackup};
use crate::shared::device::Shared;

/// A backup that is to be made.
#[derive(Debug, Clone)]
pub(crate) struct NewBackup {
    /// `None` for one after its number.
    pub(crate) name: Option<String>,
    /// The block after which the log was what it is of; not behind the open one.
    pub(crate) lsn: Lsn,
    /// The open block, which will say that it was made.
    pub(crate) noted_lsn: Lsn,
    pub(crate) time_ms: i64,
}

/// Why a backup is not made.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum BackupRefusal {
    /// There is one of this name.
    #[error("there is a backup of this name, b-{id:06}: give another one, or delete that")]
    Taken {
        /// Its number.
        id: u64,
    },
    /// There are too many.
    #[error("there are {BACKUPS_MAX} backups: delete one first")]
    TooMany,
    /// The block cannot be told any more.
    #[error("the log does not tell any more what it was after block {lsn}; {nearest}", nearest = nearest(*before, *after))]
    OutOfReach {
        /// The block.
        lsn: Lsn,
        /// The nearest one before it that can be told.
        before: Option<Lsn>,
        /// The nearest one behind it.
        after: Lsn,
    },
    /// There is no such block yet.
    #[error("the log ends with block {last}: there is no block {lsn}")]
    BehindEnd {
        /// The block.
        lsn: Lsn,
        /// The last one.
        last: Lsn,
    },
    /// It was never emptied or exchanged.
    #[error("no FLUSHALL, FLUSHDB or SWAPDB is known before which the log can still be told")]
    NoFlush,
    /// The log does not know what its blocks' times were then.
    #[error(
        "the server does not know which block was the last then: it knows times since it was started, and not without end; give a block, see BACKUP TIMELINE and indelible backup timeline"
    )]
    NoTime,
}

/// A backup, and what it takes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BackupState {
    /// The backup.
    pub backup: NamedBackup,
    /// How many files are kept that it needs, perhaps among others.
    pub files: usize,
    /// Their length.
    pub bytes: u64,
}

/// The number of a block, or none.
pub(crate) struct Unlisted(pub(crate) AtomicU64);

impl Default for Unlisted {
    fn default() -> Self {
        Self(AtomicU64::new(u64::MAX))
    }
}

/// Writes the manifest with what blocks up to `durable` say of backups. After an error it may have that or not; the
/// notes are in the log.
pub(crate) fn list(shared: &Shared, holds: &Holds, durable: Lsn) -> Result<()> {
    shared.manifest.update(|manifest| {
        holds.describe(manifest, durable);
        manifest.durable_lsn = manifest.durable_lsn.max(durable);
        true
    })?;
    holds.note_listed(durable, &shared.index_bound);
    Ok(())
}
