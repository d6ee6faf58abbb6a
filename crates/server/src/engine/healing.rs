//! Logs again what lies in damaged segments of the log, a slice at a time.
//!
//! The log says which segments are damaged; memory has what they held. The keyspace is walked as
//! often as it takes until nothing there is needed any more, and the log puts the file aside. A
//! slice is a millisecond in ten, and none is done while the devices cannot keep up or the log
//! takes nothing. Clients notice nothing: no value changes.

use keyspace::Rewrite;

use super::{Engine, LogHealth};

/// How long the executor logs in one slice, and how long after it the next one comes.
const SLICE_US: u64 = 1_000;
const SLICE_EVERY_US: u64 = 10_000;

/// How many entries are looked at between two looks at the clock.
const SLICE_ENTRIES: usize = 256;

/// Where the walk is, if there is one.
#[derive(Debug, Default)]
pub(super) struct Healing {
    walk: Option<Rewrite>,
    next_slice_us: u64,
}

impl Engine {
    /// Says what is new about damage, and goes on with a slice if one is due.
    pub(super) fn heal_log(&mut self) {
        if self.now_us < self.healing.next_slice_us {
            return;
        }
        self.healing.next_slice_us = self.now_us + SLICE_EVERY_US;
        let Some(log) = &mut self.log else { return };
        for news in log.take_news() {
            self.surroundings.logger.warning(&news);
        }
        let segments = log.rewrites();
        if segments.is_empty() {
            self.healing.walk = None;
            return;
        }
        // While the log is being turned on, what was in it before must stay what it is.
        let is_busy = self.relogging.is_some() || self.loading.is_some();
        if is_busy || log.health() != LogHealth::Good {
            return;
        }
        let walk = self.healing.walk.take().unwrap_or_else(|| Rewrite::new(segments));
        self.rewrite_slice(walk);
    }

    fn rewrite_slice(&mut self, mut walk: Rewrite) {
        let clock = std::sync::Arc::clone(&self.surroundings.clock);
        let start_us = clock.monotonic_us();
        while !self.log.as_ref().is_some_and(|log| log.is_congested()) {
            if self.keyspace.rewrite_step(&mut walk, SLICE_ENTRIES) {
                // If anything is left, it was moved about meanwhile: the next walk meets it.
                return;
            }
            self.seal_if_large();
            if clock.monotonic_us() - start_us >= SLICE_US {
                break;
            }
        }
        self.healing.walk = Some(walk);
    }
}
