//! A store on a simulated disk.

use std::sync::Arc;

use env_sim::{Faults, SimClock, SimDisk, SimEntropy};
use pages::{Env, LockWait, Options, PageStore, Upkeep};

pub(crate) const DIR: &str = "/store";

/// A small world: few frames and a small online log table, so that everything happens often.
pub(crate) struct World {
    pub(crate) disk: SimDisk,
    pub(crate) clock: SimClock,
    pub(crate) rng: SimEntropy,
}

impl World {
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            disk: SimDisk::new(seed, Faults::default()),
            clock: SimClock::new(1_700_000_000_000),
            rng: SimEntropy::new(seed ^ 0xabcd_ef01),
        }
    }

    pub(crate) fn env(&self) -> Env {
        Env { disk: Arc::new(self.disk.clone()), clock: Arc::new(self.clock.clone()) }
    }

    pub(crate) fn open(&self, options: Options) -> PageStore {
        PageStore::open(&self.env(), options).expect("nothing is damaged")
    }

    pub(crate) fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.rng.below(end as u64)).expect("it was one")
    }
}

/// 16 frames, a 64 KiB table, transactions refused rather than blocked.
pub(crate) fn small() -> Options {
    Options {
        pool_bytes: 16 * 8192,
        online_log_bytes: 64 << 10,
        log_buffer_bytes: 8 << 10,
        log_segment_bytes: 16 << 10,
        log_bytes_max: 1 << 20,
        lock_wait: LockWait::Refuse,
        upkeep: Upkeep::Inline,
        ..Options::new(DIR)
    }
}
