//! When the log's open block is sealed.

use super::{Level, Shard};
use crate::config::FsyncPolicy;

/// How long a block of the log that replies wait for stays open while there is more input.
const AWAITED_BLOCK_OPEN_US_MAX: u64 = 1000;

/// How long a block that no reply waits for stays open.
const BLOCK_OPEN_US_MAX: u64 = 10_000;

/// So many blocks are ended early behind a device that is still busy.
const EARLY_BLOCKS_MAX: u32 = 64;

/// The open block, as far as its end is concerned.
#[derive(Debug, Default)]
pub(crate) struct Sealing {
    /// Since when it could have been sealed, on the monotonic clock.
    open_since_us: Option<u64>,
    /// Whether replies wait for it.
    pub(super) is_awaited: bool,
    /// How many blocks were ended although the device was busy, since it was not.
    early_count: u32,
}

impl Sealing {
    /// When the block is to be sealed, on the monotonic clock. A block that replies wait for stays
    /// open while there is more input, and not for long: so clients that write at the same time
    /// share a sync. One that none waits for gathers more.
    pub(crate) fn due_us(&self, is_idle: bool) -> u64 {
        let Some(since_us) = self.open_since_us else { return u64::MAX };
        match (self.is_awaited, is_idle) {
            (true, true) => since_us,
            (true, false) => since_us + AWAITED_BLOCK_OPEN_US_MAX,
            (false, _) => since_us + BLOCK_OPEN_US_MAX,
        }
    }
}

impl Shard {
    /// Whether the open block is to be sealed now.
    pub(in crate::engine) fn is_seal_due(&mut self, now_us: u64, is_idle: bool) -> bool {
        if !self.log().is_some_and(super::ShardLog::takes_block_now) {
            return false;
        }
        self.sealing.open_since_us.get_or_insert(now_us);
        now_us >= self.sealing.due_us(is_idle)
    }

    /// Ends the open block.
    pub(in crate::engine) fn seal(&mut self) {
        self.sealing = Sealing { early_count: self.sealing.early_count, ..Sealing::default() };
        if let Some(log) = self.log_mut() {
            log.seal();
        }
    }

    /// Ends the open block, so that what comes next has one of its own, if that may be. Between commands only.
    pub(in crate::engine) fn begin_block(&mut self) {
        if self.is_block_empty() || self.may_end_block() {
            self.end_block();
        }
    }

    /// Ends the open block, whatever the devices do. Between commands only.
    pub(in crate::engine) fn end_block(&mut self) {
        let early_count = match (self.is_device_free(), self.is_block_empty()) {
            (true, _) => 0,
            (false, true) => self.sealing.early_count,
            (false, false) => self.sealing.early_count + 1,
        };
        self.sealing = Sealing { early_count, ..Sealing::default() };
        if let Some(log) = self.log_mut() {
            log.begin_block();
        }
    }

    /// Whether a block may be ended for the sake of a command. A block costs more than such a command takes to send:
    /// behind a device that does not get further only some are ended early.
    pub(in crate::engine) fn may_end_block(&self) -> bool {
        let is_congested = self.log().is_none_or(super::ShardLog::is_congested);
        self.is_device_free() || (self.sealing.early_count < EARLY_BLOCKS_MAX && !is_congested)
    }

    fn is_block_empty(&self) -> bool {
        self.log().is_none_or(|log| log.last_lsn() < log.open_lsn())
    }

    /// Whether a device waits for a block.
    fn is_device_free(&self) -> bool {
        self.log()
            .is_some_and(|log| log.takes_block_now() || self.reach.written.next() >= log.open_lsn())
    }

    /// Ends the open block if it has become larger than `bytes_max`; returns whether it had. Only
    /// between commands: a command's records lie in one block.
    pub(in crate::engine) fn seal_if_large(&mut self, bytes_max: u64) -> bool {
        let is_large = self.log().is_some_and(|log| log.open_bytes() as u64 > bytes_max);
        if is_large {
            self.seal();
        }
        is_large
    }

    /// A client waits until everything so far has come to `level`.
    pub(in crate::engine) fn await_block(&mut self, level: Level, policy: FsyncPolicy) {
        self.sealing.is_awaited = true;
        if level == Level::Durable
            && policy != FsyncPolicy::Always
            && let Some(log) = self.log_mut()
        {
            // The server syncs less often than is wanted now.
            log.request_sync();
        }
    }
}
