//! Deletes keys that have expired and that nobody asks for.
//!
//! Each time, some databases are sampled; as long as more than a tenth of a sample had expired it
//! pays to go on, within a bounded time. So the memory that expired keys take stays a bounded share.

use super::{Engine, LogHealth};

/// How many keys a sample has.
const SAMPLE_KEYS: usize = 20;

/// How long a cycle may take, in microseconds: a quarter of the time at the usual ten a second.
const CYCLE_US_MAX: u64 = 1_000;

/// Where the next cycle begins, and what INFO shows.
#[derive(Debug, Default)]
pub(crate) struct Cycle {
    next_db: usize,
    /// An estimate of the share of keys that have expired and are still there, in percent.
    pub(crate) stale_percent: f64,
    pub(crate) time_cap_count: u64,
    pub(crate) cpu_us: u64,
}

impl Engine {
    /// Nothing is deleted unasked, neither expired keys nor evicted ones, while the log cannot
    /// take that down, and while clients that write are paused.
    pub(super) fn freeze_or_thaw(&mut self) {
        let health = self.log.as_ref().map_or(LogHealth::Good, |log| log.health());
        let is_paused = self.pause.is_some() || self.is_copying();
        self.keyspace.set_frozen(health != LogHealth::Good || is_paused);
        self.log_failure = if let LogHealth::Failed(why) = health { Some(why) } else { None };
    }

    /// One cycle.
    pub(super) fn expire_cycle(&mut self) {
        if !self.active_expire || self.loading.is_some() || self.keyspace.is_frozen() {
            return;
        }
        let clock = std::sync::Arc::clone(&self.surroundings.clock);
        let start_us = clock.monotonic_us();
        let effort = u64::from(self.options.active_expire_effort);
        let end_us = start_us + CYCLE_US_MAX * effort;
        let samples =
            SAMPLE_KEYS + SAMPLE_KEYS / 4 * usize::try_from(effort - 1).expect("at most ten");
        let (mut seen, mut expired) = (0, 0);
        'databases: for _ in 0..self.keyspace.database_count() {
            let db = self.expiry.next_db % self.keyspace.database_count();
            self.expiry.next_db = db + 1;
            loop {
                let (looked, deleted) = self.keyspace.expire_sample(db, samples);
                seen += looked;
                expired += deleted;
                if clock.monotonic_us() >= end_us {
                    self.expiry.time_cap_count += 1;
                    break 'databases;
                }
                if deleted * 10 <= looked {
                    break;
                }
            }
        }
        let duration_us = clock.monotonic_us() - start_us;
        self.expiry.cpu_us += duration_us;
        self.note_latency("expire-cycle", duration_us);
        #[expect(clippy::cast_precision_loss, reason = "counts of samples are small")]
        let share = if seen == 0 { 0.0 } else { expired as f64 / seen as f64 };
        self.expiry.stale_percent = share * 5.0 + self.expiry.stale_percent * 0.95;
    }
}
