//! Deletes keys that have expired and that no command asks for.
//!
//! Each time, some databases are sampled; as long as more than a tenth of a sample had expired it
//! pays to go on, within a bounded time. So the memory that expired keys take stays a bounded share.

use base::DbIndex;
use env::Clock;

use super::Shard;

/// How many keys a sample has.
const SAMPLE_KEYS: usize = 20;

/// How long a cycle may take, in microseconds: a quarter of the time at the usual ten a second.
const CYCLE_US_MAX: u64 = 1_000;

/// Where the next cycle begins, and what INFO shows.
#[derive(Debug)]
pub(crate) struct Cycle {
    /// DEBUG SET-ACTIVE-EXPIRE.
    pub(crate) is_on: bool,
    next_db: DbIndex,
    /// An estimate of the share of keys that have expired and are still there, in percent.
    pub(crate) stale_percent: f64,
    pub(crate) time_cap_count: u64,
    pub(crate) cpu_us: u64,
}

impl Default for Cycle {
    fn default() -> Self {
        Self {
            is_on: true,
            next_db: DbIndex::FIRST,
            stale_percent: 0.0,
            time_cap_count: 0,
            cpu_us: 0,
        }
    }
}

impl Shard {
    /// One cycle; how many microseconds it took, if it was due.
    pub(in crate::engine) fn expire_cycle(
        &mut self,
        clock: &dyn Clock,
        effort: u32,
    ) -> Option<u64> {
        if !self.may_expire() {
            return None;
        }
        let start_us = clock.monotonic_us();
        let end_us = start_us + CYCLE_US_MAX * u64::from(effort);
        let samples =
            SAMPLE_KEYS + SAMPLE_KEYS / 4 * usize::try_from(effort - 1).expect("at most ten");
        let (mut seen, mut expired) = (0, 0);
        'databases: for _ in self.keyspace.databases() {
            let db = self.keyspace.database(self.expiry.next_db.get()).unwrap_or_default();
            self.expiry.next_db = db.next();
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
        #[expect(clippy::cast_precision_loss, reason = "counts of samples are small")]
        let share = if seen == 0 { 0.0 } else { expired as f64 / seen as f64 };
        self.expiry.stale_percent = share * 5.0 + self.expiry.stale_percent * 0.95;
        Some(duration_us)
    }
}
