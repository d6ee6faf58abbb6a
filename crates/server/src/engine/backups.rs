//! What the engine knows of named backups beyond what the log does.
//!
//! ```text
//!           START                  SEAL
//!   idle ─────────► incrementing ────────► sealed: there is a backup of the name `sealed`
//!    ▲                   │ ABORT             │
//!    ├────── CLEANUP ── failed               │ it is deleted
//!    └───────────────── CLEANUP ─────────────┘
//! ```
//!
//! These are the states of Redis 8.10, whose backup is what there is when it is sealed. So nothing begins
//! with START here: SEAL makes the backup.

use base::Lsn;

/// The backup that SEAL makes.
pub(super) const SEALED: &str = "sealed";

/// How far the backup of Redis' verbs is, unless it is sealed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Cycle {
    #[default]
    Idle,
    /// It was begun then, in Unix seconds.
    Incrementing(i64),
    /// It was begun then, and given up.
    Aborted(i64),
}

/// See the file's top.
#[derive(Debug, Default)]
pub(super) struct Backups {
    pub(super) cycle: Cycle,
    /// A command inside the transaction has made or deleted a backup: its block ends with the transaction.
    pub(super) ends_block: bool,
    /// The block that says that the last one was made, and when that was asked for, until it is durable.
    asked: Option<(Lsn, u64)>,
    /// How long the last one took until it was durable, in microseconds; 0 if none was made in this life.
    pub(super) last_us: u64,
}

impl Backups {
    /// A backup was asked for, and is one when `lsn` is durable.
    pub(super) const fn note_asked(&mut self, lsn: Lsn, now_us: u64) {
        self.asked = Some((lsn, now_us));
    }

    /// The log is durable up to a block.
    pub(super) fn note_durable(&mut self, durable: Lsn, now_us: u64) {
        if let Some((_, asked_us)) = self.asked.take_if(|(lsn, _)| *lsn <= durable) {
            self.last_us = now_us.saturating_sub(asked_us).max(1);
        }
    }
}
