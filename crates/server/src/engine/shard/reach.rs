//! How far the log has come.
//!
//! ```text
//!   block             1 2 3 4 5 6 7 8 9
//!   durable ──────────────┘       │       what `always` waits for: survives the loss of power
//!   written ──────────────────────┘       what the rest waits for: survives the process
//! ```

use base::Lsn;

use crate::config::FsyncPolicy;

/// What a reply promises of the write that it answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Level {
    /// The system has it: a `kill -9` right after the reply does not lose it.
    Written,
    /// A device has it: a power failure does not lose it either.
    Durable,
}

impl From<FsyncPolicy> for Level {
    fn from(policy: FsyncPolicy) -> Self {
        match policy {
            FsyncPolicy::Always => Self::Durable,
            FsyncPolicy::EverySecond | FsyncPolicy::No => Self::Written,
        }
    }
}

/// The last block of each prefix of the log: `durable` ≤ `written`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reach {
    /// Everything up to this block survives the death of the process.
    pub written: Lsn,
    /// Everything up to this block survives the loss of power.
    pub durable: Lsn,
}

impl Reach {
    /// Whether everything up to `lsn` has come to `level`.
    pub(crate) fn has(&self, level: Level, lsn: Lsn) -> bool {
        lsn <= match level {
            Level::Written => self.written,
            Level::Durable => self.durable,
        }
    }
}
