//! Deletes keys that have expired and that no command asks for, and fields of hashes.
//!
//! Fields are in order, so no hash is looked at that has none to lose. They have half of a cycle, and keys the rest.
//!
//! Each time, some databases are sampled; as long as more than a tenth of what was looked at had expired
//! it pays to go on. A cycle is short, so that clients notice it little; one that ends before that comes again
//! soon, so that cycles take up to half of the time: Redis' take a quarter of it in pieces of 25 ms, and up to
//! half of the rest in short ones. So the memory that expired keys take stays a bounded share, unless more expire
//! than can be deleted in that time.

use base::DbIndex;
use env::Clock;

use super::Shard;

/// How many keys a sample has.
const SAMPLE_KEYS: usize = 20;

/// How many fields of a hash are removed before the clock is looked at.
const FIELDS_AT_ONCE: usize = 32;

/// How long a cycle may take, in microseconds.
const CYCLE_US_MAX: u64 = 1_000;

/// How much of the time cycles may take at the least effort, in percent, and how much more at each further
/// one.
const SHARE_PERCENT: u64 = 50;
const SHARE_PERCENT_MORE: u64 = 2;

/// Where the next cycle begins, and what INFO shows.
#[derive(Debug)]
pub(crate) struct Cycle {
    /// DEBUG SET-ACTIVE-EXPIRE.
    pub(crate) is_on: bool,
    next_db: DbIndex,
    /// When it goes on, if the last cycle had not time enough.
    pub(crate) again_us: Option<u64>,
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
            again_us: None,
            stale_percent: 0.0,
            time_cap_count: 0,
            cpu_us: 0,
        }
    }
}

impl Shard {
    /// One cycle; how many microseconds it took, if keys may expire.
    pub(in crate::engine) fn expire_cycle(
        &mut self,
        clock: &dyn Clock,
        effort: u32,
    ) -> Option<u64> {
        self.expiry.again_us = None;
        // Each deletion is a record, and clients that write wait then, too.
        if !self.may_expire() || self.is_log_congested() {
            return None;
        }
        let start_us = clock.monotonic_us();
        let end_us = start_us + CYCLE_US_MAX;
        let samples =
            SAMPLE_KEYS + SAMPLE_KEYS / 4 * usize::try_from(effort - 1).expect("at most ten");
        let (mut seen, mut expired) = (0, 0);
        'databases: for _ in self.keyspace.databases() {
            let db = self.keyspace.database(self.expiry.next_db.get()).unwrap_or_default();
            self.expiry.next_db = db.next();
            while self.keyspace.expire_due_fields(db, FIELDS_AT_ONCE) > 0 {
                let now_us = clock.monotonic_us();
                if now_us >= start_us + CYCLE_US_MAX / 2 {
                    self.expiry.again_us = Some(now_us + pause_us(now_us - start_us, effort));
                    break;
                }
            }
            let (mut seen_here, mut expired_here) = (0, 0);
            loop {
                let (looked, deleted) = self.keyspace.expire_sample(db, samples);
                if looked == 0 {
                    break;
                }
                (seen, expired) = (seen + looked, expired + deleted);
                (seen_here, expired_here) = (seen_here + looked, expired_here + deleted);
                let now_us = clock.monotonic_us();
                if now_us >= end_us {
                    self.expiry.time_cap_count += 1;
                    self.expiry.again_us = Some(now_us + pause_us(now_us - start_us, effort));
                    break 'databases;
                }
                if expired_here * 10 <= seen_here {
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

/// How long others have after a cycle that took so long, in microseconds.
fn pause_us(duration_us: u64, effort: u32) -> u64 {
    let share = SHARE_PERCENT + SHARE_PERCENT_MORE * u64::from(effort - 1);
    duration_us * (100 - share) / share
}
