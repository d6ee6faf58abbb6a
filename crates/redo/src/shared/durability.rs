//! How far the log is written and how far it is durable.
//!
//! Devices write and sync their blocks in any order; what counts are the prefixes:
//!
//! ```text
//!   block      1 2 3 4 5 6 7 8
//!   written    ■ ■ ■ ■ ■ ■ ■ □        written LSN = 7: survives the death of the process
//!   synced     ■ ■ ■ □ ■ ■ □ □        durable LSN = 3: survives the loss of power
//! ```
//!
//! Also here, because flushers ask for it at every step: up to where a sync is wanted, and up to
//! where the executor wants to be woken when a block is written.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use base::{Lsn, Mutex};

/// The longest prefix of the log's blocks that have all come to some state, in any order.
struct Prefix {
    end: AtomicU64,
    /// Whether each block past the prefix has; the first is `end + 1`.
    beyond: Mutex<VecDeque<bool>>,
}

impl Prefix {
    fn new(end: Lsn) -> Self {
        Self { end: AtomicU64::new(end.0), beyond: Mutex::default() }
    }

    /// The largest n such that every block up to n was marked.
    fn end(&self) -> Lsn {
        Lsn(self.end.load(Ordering::SeqCst))
    }

    /// Marks these blocks. Where the prefix ended before, and where it ends now.
    fn mark(&self, lsns: impl Iterator<Item = Lsn>) -> (Lsn, Lsn) {
        let mut beyond = self.beyond.lock();
        let before = self.end.load(Ordering::Relaxed);
        for lsn in lsns {
            let Some(past) = lsn.0.checked_sub(before + 1) else { continue };
            let at = usize::try_from(past).expect("blocks in flight fit in memory");
            if at >= beyond.len() {
                beyond.resize(at + 1, false);
            }
            beyond[at] = true;
        }
        let mut end = before;
        while beyond.front() == Some(&true) {
            beyond.pop_front();
            end += 1;
        }
        self.end.store(end, Ordering::SeqCst);
        (Lsn(before), Lsn(end))
    }
}

/// The two prefixes, and how much more of them is wanted.
pub(crate) struct Durability {
    written: Prefix,
    synced: Prefix,
    sync_always: AtomicBool,
    sync_up_to: AtomicU64,
    /// The executor waits for blocks up to this one to be written.
    write_up_to: AtomicU64,
}

impl Durability {
    pub(crate) fn new(durable: Lsn, sync_always: bool) -> Self {
        Self {
            written: Prefix::new(durable),
            synced: Prefix::new(durable),
            sync_always: AtomicBool::new(sync_always),
            sync_up_to: AtomicU64::new(0),
            write_up_to: AtomicU64::new(0),
        }
    }

    /// The largest n such that every block up to n is synced.
    pub(crate) fn durable_lsn(&self) -> Lsn {
        self.synced.end()
    }

    /// The largest n such that the system was given every block up to n.
    pub(crate) fn written_lsn(&self) -> Lsn {
        self.written.end()
    }

    /// Says that these blocks are synced; whether the durable prefix has grown by it.
    pub(crate) fn mark_synced(&self, lsns: impl Iterator<Item = Lsn>) -> bool {
        let (before, end) = self.synced.mark(lsns);
        end > before
    }

    /// Says that these blocks are written, be it for a second time on another device. Whether the
    /// executor must be woken for it.
    pub(crate) fn mark_written(&self, lsns: impl Iterator<Item = Lsn>) -> bool {
        let (before, end) = self.written.mark(lsns);
        // The executor raises `write_up_to` before it looks at the prefix, and this looks at it
        // after raising the prefix: one of them sees what the other has done.
        end > before && self.write_up_to.load(Ordering::SeqCst) > before.0
    }

    /// Asks for a wake-up as soon as everything up to `lsn` is written.
    pub(crate) fn want_written(&self, lsn: Lsn) {
        self.write_up_to.fetch_max(lsn.0, Ordering::SeqCst);
    }

    pub(crate) fn set_sync_always(&self, always: bool) {
        self.sync_always.store(always, Ordering::Release);
    }

    /// Whether every block is wanted synced as soon as it is written.
    pub(crate) fn is_sync_always(&self) -> bool {
        self.sync_always.load(Ordering::Acquire)
    }

    /// Asks for everything up to `lsn` to be synced.
    pub(crate) fn want_synced(&self, lsn: Lsn) {
        self.sync_up_to.fetch_max(lsn.0, Ordering::AcqRel);
    }

    /// Whether `lsn` is wanted synced.
    pub(crate) fn is_wanted(&self, lsn: Lsn) -> bool {
        self.sync_always.load(Ordering::Acquire) || lsn.0 <= self.sync_up_to.load(Ordering::Acquire)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lsns(numbers: &[u64]) -> impl Iterator<Item = Lsn> {
        numbers.iter().map(|lsn| Lsn(*lsn))
    }

    #[test]
    fn only_a_prefix_is_durable() {
        let durability = Durability::new(Lsn(10), false);
        let mark = |numbers: &[u64]| durability.mark_synced(lsns(numbers));
        assert!(!mark(&[12, 13, 15]));
        assert_eq!(durability.durable_lsn(), Lsn(10));
        assert!(mark(&[11]));
        assert_eq!(durability.durable_lsn(), Lsn(13));
        assert!(!mark(&[11, 12]), "twice is as good as once");
        assert!(mark(&[14]));
        assert_eq!(durability.durable_lsn(), Lsn(15));
    }

    #[test]
    fn the_executor_is_woken_only_for_a_written_prefix_that_it_waits_for() {
        let durability = Durability::new(Lsn(10), false);
        let mark = |numbers: &[u64]| durability.mark_written(lsns(numbers));
        assert!(!mark(&[11]), "nothing waits");
        durability.want_written(Lsn(13));
        assert!(!mark(&[13]), "12 is missing");
        assert_eq!(durability.written_lsn(), Lsn(11));
        assert!(mark(&[12]));
        assert_eq!(durability.written_lsn(), Lsn(13));
        assert_eq!(durability.durable_lsn(), Lsn(10), "written is not durable");
        assert!(!mark(&[14]), "nothing waits for it");
        assert!(!mark(&[12, 13]), "written elsewhere again");
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
