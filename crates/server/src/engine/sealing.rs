//! When the log's open block is sealed, and who goes on when it is durable.

use std::cmp::Reverse;

use super::Engine;
use crate::config::FsyncPolicy;

/// How long a block of the log that replies wait for stays open while there is more input.
const AWAITED_BLOCK_OPEN_US_MAX: u64 = 1000;

/// How long a block that nobody waits for stays open.
const BLOCK_OPEN_US_MAX: u64 = 10_000;

impl Engine {
    /// When the log's open block is to be sealed, on the monotonic clock. A block that replies
    /// wait for stays open while there is more input, and not for long: so clients that write at
    /// the same time share a sync. One that nobody waits for gathers more.
    pub(super) fn seal_at_us(&self, is_idle: bool) -> u64 {
        let Some(since_us) = self.block_since_us else { return u64::MAX };
        match (self.is_block_awaited, is_idle) {
            (true, true) => since_us,
            (true, false) => since_us + AWAITED_BLOCK_OPEN_US_MAX,
            (false, _) => since_us + BLOCK_OPEN_US_MAX,
        }
    }

    pub(super) fn seal(&mut self) {
        self.block_since_us = None;
        self.is_block_awaited = false;
        if let Some(log) = &mut self.log {
            log.seal();
            self.follow_congestion();
        }
    }

    /// Somebody waits until everything so far is durable.
    pub(super) fn await_block(&mut self) {
        self.is_block_awaited = true;
        if self.options.fsync != FsyncPolicy::Always
            && let Some(log) = &mut self.log
        {
            // The server syncs less often than is wanted now.
            log.request_sync();
        }
    }

    /// Ends the log's open block if it has become large. Only between commands: a command's
    /// records lie in one block.
    pub fn seal_if_large(&mut self) {
        let limit = self.options.log.block_bytes;
        if self.log.as_ref().is_some_and(|log| log.open_bytes() as u64 > limit) {
            self.seal();
        }
    }

    /// The log may have become durable further than before: replies that waited may go.
    pub fn log_advanced(&mut self) {
        let Some(log) = &mut self.log else { return };
        let durable = log.durable_lsn();
        if durable == self.durable {
            return;
        }
        self.durable = durable;
        while let Some(Reverse((lsn, key))) = self.held.peek().copied() {
            if lsn > durable {
                break;
            }
            self.held.pop();
            self.note(key);
        }
        self.wake_durable();
    }

    /// Makes everything durable and closes the log: the last thing before the end.
    ///
    /// # Errors
    /// What the log says when it cannot.
    pub fn close(&mut self) -> Result<(), String> {
        self.keyspace.set_journal(Box::new(keyspace::NoJournal));
        self.relogging = None;
        match self.log.take() {
            None => Ok(()),
            Some(mut log) => {
                log.seal();
                let ended = log.shutdown();
                self.durable = log.durable_lsn();
                while let Some(Reverse((_, key))) = self.held.pop() {
                    self.note(key);
                }
                ended
            }
        }
    }
}
