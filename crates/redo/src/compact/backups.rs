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
    #[error("there is a backup of this name, {}: give another one, or delete that", NamedBackup::name_of(*id))]
    Taken {
        /// Its number.
        id: u64,
    },
    /// There are too many.
    #[error("there are {BACKUPS_MAX} backups: delete one first")]
    TooMany,
    /// Those that there are keep too many files.
    #[error(
        "backups keep {files} files of the log: delete one first, or wait until there are fewer"
    )]
    TooManyFiles {
        /// How many.
        files: usize,
    },
    /// There is no log that takes any.
    #[error("there is no redo log that takes a backup now")]
    NoLog,
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
        "the server does not know which block was the last then: it knows times since it was started; give a block, see BACKUP TIMELINE and indelible backup timeline"
    )]
    NoTime,
    /// It is not that late yet.
    #[error("that time is still to come; leave AT out for a backup of now")]
    ToCome,
    /// Several blocks were the last ones then.
    #[error(
        "the clock went back: both block {first} and block {last} were the last one at that time; give one of them, or one in between, see indelible backup timeline"
    )]
    ClockWentBack {
        /// The first one.
        first: Lsn,
        /// The last one.
        last: Lsn,
    },
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

/// All backups in a few numbers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BackupFigures {
    /// How many there are.
    pub count: usize,
    /// How many of them have lost something.
    pub lost: usize,
    /// How many bytes are kept that they need.
    pub held_bytes: u64,
    /// The one that was made last.
    pub last: Option<NamedBackup>,
}

/// While so many files are kept for backups, none is made: the manifest names each of them.
pub(crate) const HELD_FILES_MAX: usize = 32_768;

/// The number of a block, or none.
pub(crate) struct Unlisted(pub(crate) AtomicU64);

impl Default for Unlisted {
    fn default() -> Self {
        Self(AtomicU64::new(u64::MAX))
    }
}

/// Writes the manifest with what blocks up to `durable` say of backups, unless another device's flusher has done it
/// meanwhile. After an error it may have that or not; the notes are in the log.
pub(crate) fn list(shared: &Shared, holds: &Holds, durable: Lsn) -> Result<()> {
    shared.manifest.update(|manifest| {
        let is_news = holds.has_unlisted(durable);
        holds.describe(manifest, durable);
        is_news
    })?;
    holds.note_listed(durable, &shared.index_bound);
    Ok(())
}

#[cfg(test)]
mod tests {
    use base::DangerousCommand;

    use super::*;
    use crate::compact::window::Moment;
    use crate::format::manifest::Manifest;
    use crate::format::registry::NotedCommand;
    use crate::id::Id;
    use crate::options::HistoryOptions;
    use crate::shared::index_bound::IndexBound;

    fn manifest() -> Manifest {
        Manifest::new(Id([1; 16]), [2; 16])
    }

    fn holds(manifest: &Manifest) -> Holds {
        let holds = Holds::default();
        holds.begin(HistoryOptions::OFF, manifest, Vec::new(), Moment { us: 0, ms: 0 });
        holds
    }

    fn create(holds: &Holds, bound: &IndexBound, lsn: u64) {
        let (lsn, noted_lsn) = (Lsn(lsn), Lsn(lsn));
        holds.create_backup(NewBackup { name: None, lsn, noted_lsn, time_ms: 0 }, bound).unwrap();
    }

    /// Two devices' flushers write it, and the one that began first comes last.
    #[test]
    fn what_is_listed_stays_listed() {
        let (bound, mut manifest) = (IndexBound::default(), manifest());
        let holds = holds(&manifest);
        create(&holds, &bound, 15);
        holds.describe(&mut manifest, Lsn(20));
        assert_eq!(manifest.durable_lsn, Lsn(20), "a start that finds less misses what is noted");
        holds.note_listed(Lsn(20), &bound);
        holds.describe(&mut manifest, Lsn(14));
        assert_eq!(manifest.registry.backups().len(), 1);
        assert_eq!(manifest.registry.next_id(), 1);
    }

    /// What a start by the index must read stays unindexed until the manifest has it.
    #[test]
    fn notes_that_the_manifest_lacks_hold_the_index_back() {
        let bound = IndexBound::default();
        let holds = holds(&manifest());
        let noted = |lsn, loses_data| NotedCommand {
            lsn: Lsn(lsn),
            time_ms: 0,
            command: DangerousCommand {
                loses_data,
                user: String::new(),
                address: String::new(),
                text: String::new(),
            },
        };
        holds.note_command(noted(11, false), &bound);
        assert_eq!(bound.indexable(), Lsn::MAX);
        holds.note_command(noted(12, true), &bound);
        create(&holds, &bound, 15);
        assert_eq!(bound.indexable(), Lsn(11));
        assert!(!holds.has_unlisted(Lsn(11)) && holds.has_unlisted(Lsn(12)));
        holds.note_listed(Lsn(12), &bound);
        assert_eq!(bound.indexable(), Lsn(14));
        holds.note_listed(Lsn(15), &bound);
        assert_eq!(bound.indexable(), Lsn::MAX);
    }
}
