//! Checkpoints, as Redis' users know them: BGREWRITEAOF compacts the log.

use super::Shard;
use super::chronicle::Chronicle;
use crate::logger::Logger;

/// What was told of them.
#[derive(Debug, Default)]
pub(crate) struct Checkpoints {
    chronicle: Chronicle,
}

impl Shard {
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
