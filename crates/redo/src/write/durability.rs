//! How far the log is durable.
//!
//! Devices sync their blocks in any order; what counts is the prefix:
//!
//! ```text
//!   block      1 2 3 4 5 6 7 8
//!   synced     ■ ■ ■ □ ■ ■ □ □        durable LSN = 3
//! ```
//!
//! Also here, because flushers ask for it at every step: up to where somebody wants a sync.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use base::Lsn;

/// The durable prefix, and who wants more of it.
pub(crate) struct Durability {
    durable: AtomicU64,
    /// Whether each block past the durable ones is synced; the first is `durable + 1`.
    beyond: Mutex<VecDeque<bool>>,
    sync_always: AtomicBool,
    sync_up_to: AtomicU64,
}

impl Durability {
    pub(crate) fn new(durable: Lsn, sync_always: bool) -> Self {
        Self {
            durable: AtomicU64::new(durable.0),
            beyond: Mutex::default(),
            sync_always: AtomicBool::new(sync_always),
            sync_up_to: AtomicU64::new(0),
        }
    }

    /// The largest n such that every block up to n is synced.
    pub(crate) fn durable_lsn(&self) -> Lsn {
        Lsn(self.durable.load(Ordering::Acquire))
    }

    /// Says that these blocks are synced; whether the durable prefix has grown by it.
    pub(crate) fn mark_synced(&self, lsns: impl Iterator<Item = Lsn>) -> bool {
        let mut beyond = self.beyond.lock().unwrap_or_else(PoisonError::into_inner);
        let before = self.durable.load(Ordering::Relaxed);
        for lsn in lsns {
            let Some(past) = lsn.0.checked_sub(before + 1) else { continue };
            let at = usize::try_from(past).expect("blocks in flight fit in memory");
            if at >= beyond.len() {
                beyond.resize(at + 1, false);
            }
            beyond[at] = true;
        }
        let mut durable = before;
        while beyond.front() == Some(&true) {
            beyond.pop_front();
            durable += 1;
        }
        self.durable.store(durable, Ordering::Release);
        durable > before
    }

    pub(crate) fn set_sync_always(&self, always: bool) {
        self.sync_always.store(always, Ordering::Release);
    }

    /// Asks for everything up to `lsn` to be synced.
    pub(crate) fn want_synced(&self, lsn: Lsn) {
        self.sync_up_to.fetch_max(lsn.0, Ordering::AcqRel);
    }

    /// Whether somebody wants `lsn` synced.
    pub(crate) fn is_wanted(&self, lsn: Lsn) -> bool {
        self.sync_always.load(Ordering::Acquire) || lsn.0 <= self.sync_up_to.load(Ordering::Acquire)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_prefix_is_durable() {
        let durability = Durability::new(Lsn(10), false);
        let mark = |lsns: &[u64]| durability.mark_synced(lsns.iter().map(|lsn| Lsn(*lsn)));
        assert!(!mark(&[12, 13, 15]));
        assert_eq!(durability.durable_lsn(), Lsn(10));
        assert!(mark(&[11]));
        assert_eq!(durability.durable_lsn(), Lsn(13));
        assert!(!mark(&[11, 12]), "twice is as good as once");
        assert!(mark(&[14]));
        assert_eq!(durability.durable_lsn(), Lsn(15));
    }

    #[test]
    fn syncs_are_wanted_up_to_the_largest_request() {
        let durability = Durability::new(Lsn(0), false);
        durability.want_synced(Lsn(5));
        durability.want_synced(Lsn(3));
        assert!(durability.is_wanted(Lsn(5)) && !durability.is_wanted(Lsn(6)));
        durability.set_sync_always(true);
        assert!(durability.is_wanted(Lsn(6)));
    }
}
