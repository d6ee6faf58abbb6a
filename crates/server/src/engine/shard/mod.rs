//! One owner of the data and of the log that the data is in.
//!
//! ```text
//!   Engine ─┬─ Sessions        clients and what they wait for; nothing of the data
//!           └─ Shard ─┬─ Keyspace ── its journal: LogState ── the log
//!                     ├─ DataState         is the data there?
//!                     ├─ Sealing, Reach    when a block ends, and how far the log has come
//!                     └─ Cycle, Sweeper, Healing, HotSaving, …    what is done between commands
//! ```
//!
//! A command gets the keyspace with the log in it, lent for as long as it runs; there is nothing to
//! lock and nothing to hand over. What the shard needs of the configuration and of the time it is
//! told; of clients it knows nothing, so what its changes mean for them the engine asks and acts on.
//!
//! # Invariants
//! - While the log is being turned on, the keyspace is frozen and no command writes
//!   ([`LogState::is_copying`]).
//! - Nothing is expired, evicted or logged anew while the log takes no writes.
//! - [`Shard::reach`] is what the log said last: it never says more than is true.

mod checkpoints;
mod chronicle;
mod enable_log;
mod eviction;
mod expiry;
mod healing;
mod hot;
mod loading;
mod log;
mod log_state;
mod notes;
mod reach;
mod restoring;
mod sealing;
mod sweeping;

use keyspace::Keyspace;

use crate::config::Options;

pub(super) use enable_log::EnableStep;
pub(super) use hot::HotPlan;
pub use loading::{DataState, Progress};
pub use log::{CloseError, DevicesError, IndexFigures, LogHealth, ShardLog};
pub use log_state::{BoxedLog, LogState};
pub(crate) use reach::Level;
pub use reach::Reach;
pub(super) use restoring::RestoreFigures;
pub use restoring::{Comeback, Fetched, Fetching, HotNews, Restoration, Wanted};
pub use sweeping::Sweep;

use checkpoints::Checkpoints;
use eviction::Cooling;
use healing::Healing;
use hot::HotSaving;
use restoring::Restoring;
use sealing::Sealing;
use sweeping::Sweeper;

/// See the file's top.
pub(crate) struct Shard {
    pub(super) keyspace: Keyspace<LogState>,
    pub(super) data: DataState,
    /// How far the log has come, as it said last.
    pub(super) reach: Reach,
    /// How the log was at the last tick.
    pub(super) health: LogHealth,
    pub(super) sealing: Sealing,
    pub(super) checkpoints: Checkpoints,
    pub(super) expiry: expiry::Cycle,
    healing: Healing,
    hot: HotSaving,
    cooling: Cooling,
    sweeper: Sweeper,
    is_index_pinned: bool,
    /// In this process it was found out once that the index cannot be of this log.
    is_contradicted: bool,
    /// Reads what memory lacks; none without a log.
    fetching: Option<Box<dyn Fetching>>,
    /// While keys are cold.
    restoring: Option<Restoring>,
    /// How the comeback of keys was, once it has ended.
    restored: Option<RestoreFigures>,
}

/// About how many bytes a deletion takes in the log besides its key.
const DELETION_BYTES: usize = 32;

/// Deletions on a full disk leave so much for what else must be written there.
const KEPT_BYTES: u64 = 256 << 10;

impl Shard {
    /// Nothing, without a log.
    pub(super) fn new(seed: [u8; 16], database_count: usize) -> Self {
        Self {
            keyspace: Keyspace::new(LogState::Off, seed, database_count),
            data: DataState::Ready,
            reach: Reach::default(),
            health: LogHealth::Good,
            sealing: Sealing::default(),
            checkpoints: Checkpoints::default(),
            expiry: expiry::Cycle::default(),
            healing: Healing::default(),
            hot: HotSaving::default(),
            cooling: Cooling::default(),
            sweeper: Sweeper::default(),
            is_index_pinned: false,
            is_contradicted: false,
            fetching: None,
            restoring: None,
            restored: None,
        }
    }

    /// The log, if it is open.
    pub(super) fn log(&self) -> Option<&dyn ShardLog> {
        self.keyspace.journal().log()
    }

    /// The log, if it is open, to be changed.
    pub(super) fn log_mut(&mut self) -> Option<&mut (dyn ShardLog + 'static)> {
        self.keyspace.journal_mut().log_mut()
    }

    /// Whether there is a log, and how far it is on its way to being on.
    pub(super) const fn log_state(&self) -> &LogState {
        self.keyspace.journal()
    }

    /// Whether data is being loaded.
    pub(super) const fn is_loading(&self) -> bool {
        !matches!(self.data, DataState::Ready)
    }

    /// How the log is; good if there is none.
    pub(super) fn log_health(&self) -> LogHealth {
        self.log().map_or(LogHealth::Good, ShardLog::health)
    }

    /// Whether more is on its way to the devices than there should be.
    pub(super) fn is_log_congested(&self) -> bool {
        self.log().is_some_and(ShardLog::is_congested)
    }

    /// Whether the log takes writes, or there is none.
    pub(super) fn is_writable(&self) -> bool {
        self.log().is_none_or(|log| log.health() == LogHealth::Good)
    }

    /// Why nothing can be written now, or `None`.
    pub(super) fn write_refusal(&self) -> Option<String> {
        let health = self.log_health();
        health.reason().map(|why| format!("MISCONF Errors writing to the redo log: {why}"))
    }

    /// Whether the log takes no writes for now, and may again.
    pub(super) fn is_disk_full(&self) -> bool {
        matches!(self.log_health(), LogHealth::ReadOnly(_))
    }

    /// Whether the log, whose disk is full, still takes deletions that were asked for in so many words: they must not wait for
    /// the room that they are to make.
    pub(super) fn takes_deletions(&self, words: &[&[u8]]) -> bool {
        let words_bytes = words.iter().map(|word| word.len() + DELETION_BYTES).sum::<usize>();
        self.is_disk_full()
            && self.log().is_some_and(|log| log.has_room_for(KEPT_BYTES + words_bytes as u64))
    }

    /// Looks at the log's health. Nothing is deleted unasked, neither expired keys nor evicted ones,
    /// while the log cannot take that down, and while clients that write are paused.
    pub(super) fn update_frozen(&mut self, is_paused: bool) {
        self.health = self.log_health();
        let is_paused = is_paused || self.log_state().is_copying();
        self.keyspace.set_frozen(self.health != LogHealth::Good || is_paused);
    }

    /// Why nothing becomes durable any more, if that is so.
    pub(super) fn failure(&self) -> Option<&str> {
        if let LogHealth::Failed(why) = &self.health { Some(why) } else { None }
    }

    /// The log may have come further than before: whether what is written or durable has changed,
    /// and whether what is durable has.
    pub(super) fn advance(&mut self) -> Option<Advance> {
        let reach = self.log_mut()?.reach();
        let before = std::mem::replace(&mut self.reach, reach);
        (before != reach).then_some(Advance { is_more_durable: before.durable != reach.durable })
    }

    /// Tells the log what the configuration says.
    pub(super) fn configure_log(&mut self, options: &Options) {
        if let Some(log) = self.log_mut() {
            log.set_policy(options.fsync);
            log.set_compaction(&options.log);
            log.set_memory(Some(options.maxmemory_bytes).filter(|bytes| *bytes > 0));
        }
    }
}

/// What is new of the log.
#[derive(Clone, Copy, Debug)]
pub(super) struct Advance {
    /// Whether the durable prefix is longer.
    pub(super) is_more_durable: bool,
}
