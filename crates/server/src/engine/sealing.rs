//! When the log's open block is sealed, and which replies go when the log has come further.

use base::Lsn;

use super::reach::Level;
use super::{ClientKey, Engine};
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

    /// A client waits until everything so far has come to `level`.
    pub(super) fn await_block(&mut self, level: Level) {
        self.is_block_awaited = true;
        if level == Level::Durable
            && self.options.fsync != FsyncPolicy::Always
            && let Some(log) = &mut self.log
        {
            // The server syncs less often than is wanted now.
            log.request_sync();
        }
    }

    /// A reply waits behind a new gate.
    pub(super) fn hold(&mut self, key: ClientKey, level: Level, lsn: Lsn) {
        let id = self.clients[key].id;
        if self.held.push(level, lsn, key, id)
            && let Some(log) = &mut self.log
        {
            log.want_written(lsn);
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

    /// The log may have come further than before: replies that waited may go.
    pub fn log_advanced(&mut self) {
        let Some(log) = &mut self.log else { return };
        let reach = log.reach();
        if reach == self.reach {
            return;
        }
        let is_more_durable = reach.durable != self.reach.durable;
        self.reach = reach;
        while let Some(key) = self.held.pop_reached(&reach) {
            self.note(key);
        }
        if is_more_durable {
            self.wake_durable();
            self.note_saved();
        }
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
                self.reach = log.reach();
                self.note_saved();
                self.saving = None;
                for (key, _) in self.held.take_all() {
                    self.note(key);
                }
                ended
            }
        }
    }
}
