//! What is done to the redo log in the background, told in the server's log.
//!
//! A checkpoint that was asked for is told at its start and at its end. Compactions of single
//! segments come by the hundred: they are told together, at most every [`TOLD_EVERY_US`].

use super::ShardLog;

/// How often compactions are told at most.
const TOLD_EVERY_US: u64 = 10_000_000;

/// See the file's top.
#[derive(Debug, Default)]
pub(super) struct Chronicle {
    /// When the checkpoint began that runs.
    checkpoint_since_us: Option<u64>,
    /// Compactions that were told.
    told_compactions: u64,
    /// When that was.
    told_us: u64,
}

impl Chronicle {
    /// A checkpoint begins; what to say.
    pub(super) fn begin_checkpoint(&mut self, now_us: u64, log: &dyn ShardLog) -> String {
        self.checkpoint_since_us = Some(now_us);
        format!("Checkpoint started: compacting the redo log, {} bytes", log.stats().bytes)
    }

    /// What is new, if anything is.
    pub(super) fn look(&mut self, now_us: u64, log: &dyn ShardLog) -> Option<String> {
        if let Some(since_us) = self.checkpoint_since_us {
            if log.is_compacting() {
                return None;
            }
            self.checkpoint_since_us = None;
            (self.told_compactions, self.told_us) = (log.stats().compactions, now_us);
            let elapsed_ms = now_us.saturating_sub(since_us) / 1000;
            let bytes = log.stats().bytes;
            return Some(format!(
                "Checkpoint finished after {elapsed_ms} ms: the redo log has {bytes} bytes"
            ));
        }
        let count = log.stats().compactions;
        // After a reload the log counts from zero again.
        self.told_compactions = self.told_compactions.min(count);
        let is_time = self.told_us == 0 || now_us.saturating_sub(self.told_us) >= TOLD_EVERY_US;
        if count == self.told_compactions || !is_time {
            return None;
        }
        let new = count - std::mem::replace(&mut self.told_compactions, count);
        self.told_us = now_us;
        let bytes = log.stats().bytes;
        Some(format!("Compaction finished: {new} segments, the redo log has {bytes} bytes"))
    }
}
