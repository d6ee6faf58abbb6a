//! Logs again what lies in damaged segments of the log, a slice at a time.
//!
//! The log says which segments are damaged; memory has what they held, or reads it where it is not
//! damaged, or gives it up by name. The keyspace is walked as often as it takes until nothing there is
//! needed any more, and the log puts the file aside. A slice is a millisecond in ten, and none is done
//! while the devices cannot keep up or the log takes nothing. No value changes.

use env::Clock;
use keyspace::{LostNews, RewriteLost};

use super::{LogHealth, Shard};
use crate::logger::Logger;

/// How long the executor logs in one slice, and how long after it the next one comes.
const SLICE_US: u64 = 1_000;
const SLICE_EVERY_US: u64 = 10_000;

/// How many entries are looked at between two looks at the clock.
const SLICE_ENTRIES: usize = 256;

/// So much of a key's name is told.
const NAME_BYTES_MAX: usize = 128;

/// Where the walk is, if there is one.
#[derive(Debug, Default)]
pub(super) struct Healing {
    walk: Option<RewriteLost>,
    next_slice_us: u64,
    /// Walks that have ended since there was no damage.
    walks: u32,
}

impl Shard {
    /// Says what is new about damage, and goes on with a slice if one is due.
    pub(in crate::engine) fn heal(
        &mut self,
        now_us: u64,
        clock: &dyn Clock,
        logger: &Logger,
        block_bytes_max: u64,
    ) {
        if now_us < self.healing.next_slice_us {
            return;
        }
        self.healing.next_slice_us = now_us + SLICE_EVERY_US;
        let Some(log) = self.log_mut() else { return };
        for event in log.drain_events() {
            logger.warning(&event);
        }
        let segments = log.rewrites();
        self.tell_lost(logger);
        if segments.is_empty() {
            (self.healing.walk, self.healing.walks) = (None, 0);
            return;
        }
        // While the log is being turned on, what was in it before must stay what it is. And what is cold
        // is not in the tables that are walked, until all of it has come that comes.
        let is_busy = self.log_state().is_turning_on() || self.is_loading() || self.is_warming();
        if is_busy || self.log_health() != LogHealth::Good {
            return;
        }
        let is_thorough = self.healing.walks > 0;
        let begin = || RewriteLost::new(segments, is_thorough);
        let walk = self.healing.walk.take().unwrap_or_else(begin);
        self.healing.walk = self.rewrite_slice(walk, clock, block_bytes_max);
        if self.healing.walk.is_none() {
            // What cannot be read now stays where it is: walking on and on does not help it.
            self.healing.next_slice_us = now_us + (SLICE_EVERY_US << self.healing.walks.min(10));
            self.healing.walks += 1;
        }
    }

    /// Says whose values are lost.
    fn tell_lost(&mut self, logger: &Logger) {
        let LostNews { keys, others, unnamed, added } = self.keyspace.take_lost();
        for (db, key) in keys {
            let name = key[..key.len().min(NAME_BYTES_MAX)].escape_ascii();
            logger.warning(&format!(
                "The value of key '{name}' in database {db} was in a damaged part of the log and is lost"
            ));
        }
        if others > 0 {
            logger.warning(&format!("The values of {others} other keys are lost as well"));
        }
        if added > 0 {
            logger.warning(&format!(
                "At least {added} entries that were added to the end of such a stream before the damage was found are lost with it"
            ));
        }
        if unnamed > 0 {
            logger.warning(&format!(
                "{unnamed} keys were in a damaged part of the log and are lost, with their names; a client \
                 that asks for one is told so"
            ));
        }
    }

    /// Returns the walk if it goes on.
    fn rewrite_slice(
        &mut self,
        mut walk: RewriteLost,
        clock: &dyn Clock,
        block_bytes_max: u64,
    ) -> Option<RewriteLost> {
        let start_us = clock.monotonic_us();
        while !self.is_log_congested() {
            if self.keyspace.rewrite_lost_step(&mut walk, SLICE_ENTRIES) {
                // If anything is left, it was moved about meanwhile: the next walk meets it.
                return None;
            }
            self.seal_if_large(block_bytes_max);
            if clock.monotonic_us() - start_us >= SLICE_US {
                break;
            }
        }
        Some(walk)
    }
}
