//! Checkpoints and saves, as Redis' users know them: BGREWRITEAOF compacts the log, SAVE makes sure
//! that it is durable.

use base::Lsn;

use super::chronicle::Chronicle;
use super::{Level, LogHealth, Shard};
use crate::logger::Logger;

/// Which of them are under way, and what was told of them.
#[derive(Debug)]
pub(crate) struct Checkpoints {
    chronicle: Chronicle,
    /// SAVE or BGSAVE has asked for everything up to this block to be durable.
    saving: Option<Lsn>,
    /// When such a block was durable last.
    pub(in crate::engine) last_save_unix_s: i64,
    /// How many changes there were when that was asked for.
    pub(in crate::engine) dirty_at_save: u64,
}

impl Checkpoints {
    pub(super) fn new(unix_s: i64) -> Self {
        Self {
            chronicle: Chronicle::default(),
            saving: None,
            last_save_unix_s: unix_s,
            dirty_at_save: 0,
        }
    }

    /// Forgets what was to be saved: the log is closed.
    pub(in crate::engine) fn abandon(&mut self) {
        self.saving = None;
    }
}

/// Why nothing is saved.
pub(in crate::engine) enum NotSaved {
    /// A crash brings back what the log held before, however durable what it gets now is.
    TurningOn,
    /// There is no log.
    NoLog,
    /// The log takes nothing, for this reason.
    Failed(String),
}

impl Shard {
    /// Asks for everything so far to be safe. Returns the block up to which it must be durable for
    /// that.
    pub(in crate::engine) fn begin_to_save(&mut self) -> Result<Lsn, NotSaved> {
        if self.log_state().is_turning_on() {
            return Err(NotSaved::TurningOn);
        }
        let Some(log) = self.log_mut() else { return Err(NotSaved::NoLog) };
        if let LogHealth::ReadOnly(why) | LogHealth::Failed(why) = log.health() {
            return Err(NotSaved::Failed(why));
        }
        // The open block, which a transaction may still be filling, is sealed soon.
        let lsn = log.request_sync();
        self.sealing.is_awaited = true;
        self.checkpoints.saving = Some(lsn);
        self.checkpoints.dirty_at_save = self.keyspace.dirty();
        Ok(lsn)
    }

    /// Notes the time of the last save if it is complete now.
    pub(in crate::engine) fn note_saved(&mut self, unix_s: i64, logger: &Logger) {
        if self.checkpoints.saving.is_some_and(|lsn| self.reach.has(Level::Durable, lsn)) {
            self.checkpoints.saving = None;
            self.checkpoints.last_save_unix_s = unix_s;
            logger.notice("DB saved on disk: the redo log is durable");
        }
    }

    /// Compacts every segment of the log that has something to lose. `false` when that is being done
    /// already.
    pub(in crate::engine) fn start_checkpoint(&mut self, now_us: u64, logger: &Logger) -> bool {
        let Self { keyspace, checkpoints, .. } = self;
        // Without a log there is nothing to compact; tools must not fail on it.
        let Some(log) = keyspace.journal_mut().log_mut() else { return true };
        let is_new = log.compact_all();
        if is_new {
            logger.notice(&checkpoints.chronicle.begin_checkpoint(now_us, &*log));
        }
        is_new
    }

    /// Lets the log do what is due, and tells what is new about it.
    pub(in crate::engine) fn tick_log(&mut self, now_us: u64, logger: &Logger) {
        let Self { keyspace, checkpoints, .. } = self;
        let Some(log) = keyspace.journal_mut().log_mut() else { return };
        log.tick();
        if let Some(news) = checkpoints.chronicle.look(now_us, &*log) {
            logger.notice(&news);
        }
    }
}
