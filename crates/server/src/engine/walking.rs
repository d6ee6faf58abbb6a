//! The walk of memory for a dump: a slice of it between commands.
//!
//! ```text
//!   Engine::end_iteration ─► Walking::slice ─► Keyspace::walk_step ─► chunks ─► Feed ─► a saver
//! ```
//!
//! A slice is a quarter of a millisecond. Under load walks take `snapshot-cpu-percent` of the executor's time; while
//! nothing else is to be done, all of it.

use env::Clock;
use keyspace::Keyspace;
use keyspace::walk::{Algorithm, Options, Outcome, Refused, Step};

use super::LogState;
use crate::save::Feed;

/// How long a slice takes, in microseconds.
const SLICE_US: u64 = 250;

/// So long writers wait at most because what a walk has passed on is not taken.
const CONGESTED_US_MAX: u64 = 1_000_000;

/// How many steps it has at most.
const STEPS_MAX: usize = 64;

/// Of the memory that snapshots may take, what is walked between two looks at the clock is one in so many bytes; of
/// chunks, and of objects that are copied as a whole, others.
const STEP_SHARE: usize = 2048;
const CHUNK_SHARE: usize = 256;
const WHOLE_SHARE: usize = 16_384;

/// See the file's top.
#[derive(Default)]
pub(super) struct Walking {
    feed: Option<Feed>,
    /// What is walked in a step, in bytes that are copied.
    step_bytes: usize,
    /// Since when commands have handed over more than may wait, on the monotonic clock.
    congested_since_us: Option<u64>,
    /// When the next slice is due under load, on the monotonic clock.
    due_us: u64,
    /// The most that commands have handed over at a time, in bytes.
    pub(super) handed_bytes_max: usize,
}

impl Walking {
    /// Begins a walk in `memory_bytes`; what is walked goes to the feed that is returned.
    ///
    /// # Errors
    /// Why the keyspace cannot be walked.
    pub(super) fn begin(
        &mut self,
        keyspace: &mut Keyspace<LogState>,
        algorithm: Algorithm,
        memory_bytes: usize,
    ) -> Result<Feed, Refused> {
        keyspace.begin_walk(Options {
            algorithm,
            chunk_bytes: (memory_bytes / CHUNK_SHARE).max(1),
            whole_bytes_max: memory_bytes / WHOLE_SHARE,
            handed_bytes_max: memory_bytes,
        })?;
        let feed = Feed::default();
        self.step_bytes = (memory_bytes / STEP_SHARE).max(1);
        (self.feed, self.due_us, self.handed_bytes_max) = (Some(feed.clone()), 0, 0);
        Ok(feed)
    }

    /// Whether a walk is under way.
    pub(super) const fn is_on(&self) -> bool {
        self.feed.is_some()
    }

    /// When the next slice is due, on the monotonic clock; `None` if there is nothing to do, or no room for it.
    pub(super) fn due_us(&self) -> Option<u64> {
        let feed = self.feed.as_ref()?;
        (feed.has_room() || feed.is_closed()).then_some(self.due_us)
    }

    /// Takes note of whether commands wait for the walk. Whether they do for long.
    pub(super) fn is_congested_for_long(&mut self, is_congested: bool, now_us: u64) -> bool {
        if let Some(feed) = &self.feed {
            feed.set_waited_for(is_congested);
        }
        if !is_congested {
            self.congested_since_us = None;
            return false;
        }
        now_us.saturating_sub(*self.congested_since_us.get_or_insert(now_us)) > CONGESTED_US_MAX
    }

    /// Bytes of the walk that are not the data's.
    pub(super) fn bytes(&self, keyspace: &Keyspace<LogState>) -> u64 {
        let Some(feed) = &self.feed else { return 0 };
        (keyspace.handed_bytes() + keyspace.held_bytes() + feed.bytes()) as u64
    }

    /// Walks for a slice, if one is due or the executor `is_idle`.
    pub(super) fn slice(
        &mut self,
        keyspace: &mut Keyspace<LogState>,
        clock: &dyn Clock,
        is_idle: bool,
        cpu_percent: u64,
    ) {
        let Some(feed) = self.feed.clone() else { return };
        let start_us = clock.monotonic_us();
        if feed.is_closed() {
            // Nothing more is wanted: what the walk has marked is cleaned up.
            keyspace.end_walk();
        }
        if start_us < self.due_us && !is_idle {
            return;
        }
        self.handed_bytes_max = self.handed_bytes_max.max(keyspace.handed_bytes());
        let mut now_us = start_us;
        for _ in 0..STEPS_MAX {
            if !(feed.has_room() || feed.is_closed()) || now_us - start_us >= SLICE_US {
                break;
            }
            match keyspace.walk_step(self.step_bytes) {
                Step::Chunk(chunk) if feed.is_closed() => drop(chunk),
                Step::Chunk(chunk) => feed.push(chunk),
                Step::More => {}
                Step::Idle | Step::Over(Outcome::Complete | Outcome::Ended | Outcome::Lost) => {
                    feed.end();
                    self.feed = None;
                    return;
                }
            }
            now_us = clock.monotonic_us();
        }
        feed.note_walked(now_us - start_us);
        let rest_us = (now_us - start_us) * (100 - cpu_percent) / cpu_percent.max(1);
        self.due_us = now_us + rest_us;
    }
}
