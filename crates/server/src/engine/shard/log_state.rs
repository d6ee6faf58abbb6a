//! Whether there is a log, and how far it is on its way to being on.
//!
//! ```text
//!           CONFIG SET appendonly yes             opened             all is freed
//!   Off ───────────────────────────► Opening ──────────────► Freeing ───────────► Copying
//!    ▲                                                                               │ all is logged
//!    │ CONFIG SET appendonly no, or the end           durable                        ▼
//!    └──────────────────────────── On ◄──────────────────────────────────────── Switching
//! ```
//!
//! The state is the keyspace's journal. From Switching on it passes records on to the log; before,
//! nothing is logged but what [`FullRewrite`] logs itself, to the log that it holds. See
//! [`super::enable_log`] for what happens in which state.

use base::{Lsn, Record, RecordAddr, RecordKind};
use keyspace::{FullRewrite, Journal, NoJournal, Survey};

use super::log::ShardLog;

/// A log that is open.
pub type BoxedLog = Box<dyn ShardLog>;

/// See the file's top.
#[derive(Default)]
pub enum LogState {
    /// Nothing is logged.
    #[default]
    Off,
    /// The owner of the engine reads what is in the log.
    Opening {
        /// Whether it was not turned off again.
        is_wanted: bool,
    },
    /// What was deleted is freed first.
    Freeing {
        /// The log, which takes nothing yet.
        log: BoxedLog,
        /// What it held before.
        survey: Survey,
    },
    /// The keyspace is being logged.
    Copying(Box<FullRewrite<BoxedLog>>),
    /// All of it is logged.
    Switching {
        /// The log.
        log: BoxedLog,
        /// What is logged counts when this block is durable.
        lsn: Lsn,
        /// What the log held before.
        survey: Survey,
    },
    /// Everything is logged.
    On(BoxedLog),
}

impl LogState {
    /// The log, if it is open.
    pub fn log(&self) -> Option<&dyn ShardLog> {
        match self {
            Self::Off | Self::Opening { .. } => None,
            Self::Freeing { log, .. } | Self::Switching { log, .. } | Self::On(log) => {
                Some(log.as_ref())
            }
            Self::Copying(rewrite) => Some(rewrite.journal().as_ref()),
        }
    }

    /// The log, if it is open, to be changed.
    pub fn log_mut(&mut self) -> Option<&mut (dyn ShardLog + 'static)> {
        match self {
            Self::Off | Self::Opening { .. } => None,
            Self::Freeing { log, .. } | Self::Switching { log, .. } | Self::On(log) => {
                Some(log.as_mut())
            }
            Self::Copying(rewrite) => Some(rewrite.journal_mut().as_mut()),
        }
    }

    /// The log, if it is open; the rest of the state is dropped.
    pub(super) fn into_log(self) -> Option<BoxedLog> {
        match self {
            Self::Off | Self::Opening { .. } => None,
            Self::Freeing { log, .. } | Self::Switching { log, .. } | Self::On(log) => Some(log),
            Self::Copying(rewrite) => Some(rewrite.finish().0),
        }
    }

    /// Whether it is neither off nor on.
    pub const fn is_turning_on(&self) -> bool {
        !matches!(self, Self::Off | Self::On(_))
    }

    /// Whether everything is being logged, and writers wait for the end of it.
    pub const fn is_copying(&self) -> bool {
        matches!(self, Self::Freeing { .. } | Self::Copying(_))
    }

    /// The log that takes what changes.
    fn journal(&self) -> Option<&BoxedLog> {
        match self {
            Self::On(log) | Self::Switching { log, .. } => Some(log),
            _ => None,
        }
    }
}

impl Journal for LogState {
    fn append(&mut self, record: &Record<'_>) -> Option<RecordAddr> {
        match self {
            Self::On(log) | Self::Switching { log, .. } => log.append(record),
            _ => None,
        }
    }

    fn declare(&mut self, kind: RecordKind) {
        if let Self::On(log) | Self::Switching { log, .. } = self {
            log.declare(kind);
        }
    }

    fn has_declared(&self, kind: RecordKind) -> Option<bool> {
        self.journal()?.has_declared(kind)
    }

    fn retire(&mut self, addr: RecordAddr) {
        if let Self::On(log) | Self::Switching { log, .. } = self {
            log.retire(addr);
        }
    }

    fn open_lsn(&self) -> Lsn {
        self.journal().map_or_else(|| NoJournal.open_lsn(), |log| log.open_lsn())
    }

    fn last_lsn(&self) -> Lsn {
        self.journal().map_or_else(|| NoJournal.last_lsn(), |log| log.last_lsn())
    }

    fn durable_lsn(&self) -> Lsn {
        self.journal().map_or_else(|| NoJournal.durable_lsn(), |log| log.durable_lsn())
    }

    fn undurable_lsn_of(&self, addr: RecordAddr) -> Option<Lsn> {
        self.journal()?.undurable_lsn_of(addr)
    }

    fn is_retired(&self, addr: RecordAddr) -> bool {
        self.journal().is_some_and(|log| log.is_retired(addr))
    }

    fn lsn_bound_of(&self, addr: RecordAddr) -> Option<Lsn> {
        self.journal()?.lsn_bound_of(addr)
    }

    fn indexed_lsn(&self) -> Option<Lsn> {
        self.journal()?.indexed_lsn()
    }
}
