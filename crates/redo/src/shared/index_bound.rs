//! How far the log is indexed, and that nothing beyond is compacted.
//!
//! ```text
//!   log     ──────────────── installed cut ──────────────────► end
//!   may be compacted                       only read: the index comes for it yet
//! ```
//!
//! An index that is kept next to the log knows every record up to its installed cut, and after a crash
//! reads the blocks behind it. So those must all be there, those with delete records above all: no
//! compaction takes a segment that has one of them, nor puts one aside (rule II of `logindex`). A log
//! without an index has no such bound.
//!
//! What a start by the index has to read, and that the log is compacted at last, is bounded too: writers wait
//! for an index that lags (`write::index_lag`), and after some starts in vain until it is known what is
//! garbage ([`IndexBound::note_unfinished`]).
//!
//! What cannot be compacted for this reason is wanted in the index: else, on a log that has come to
//! rest, a compaction of its newest segments would wait for ever for a cut that has no other reason.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use base::Lsn;

/// See the file's top. Shared by the executor, which orders compactions, and the index's thread.
#[derive(Debug)]
pub struct IndexBound {
    installed: AtomicU64,
    /// The highest cut that was installed in this life.
    reached: AtomicU64,
    wanted: AtomicU64,
    /// The last block that there was when a compaction was ordered last.
    ordered: AtomicU64,
    is_compacting: AtomicBool,
    is_believed: AtomicBool,
    before_bytes: AtomicU64,
    is_garbage_known: AtomicBool,
    unfinished_starts: AtomicU64,
    log_bytes: AtomicU64,
    held_back: AtomicU64,
}

/// After so many starts in a row that have compacted nothing, writers wait until it is known what is garbage.
const UNFINISHED_STARTS_MAX: u64 = 3;

impl Default for IndexBound {
    fn default() -> Self {
        Self {
            installed: AtomicU64::new(u64::MAX),
            reached: AtomicU64::new(0),
            wanted: AtomicU64::new(0),
            ordered: AtomicU64::new(0),
            is_compacting: AtomicBool::new(false),
            is_believed: AtomicBool::new(false),
            before_bytes: AtomicU64::new(0),
            is_garbage_known: AtomicBool::new(false),
            unfinished_starts: AtomicU64::new(0),
            log_bytes: AtomicU64::new(0),
            held_back: AtomicU64::new(u64::MAX),
        }
    }
}

impl IndexBound {
    /// Lets compaction take what has no block above `installed`. Before the first call it takes
    /// everything; call it before the log has compacted anything that the index does not know.
    ///
    /// REQUIRES: the index is durable up to there.
    pub fn set(&self, installed: Lsn) {
        self.reached.fetch_max(installed.0, Ordering::Relaxed);
        self.installed.store(installed.0, Ordering::SeqCst);
    }

    /// There is no index any more: everything may be compacted.
    ///
    /// REQUIRES: it is durable that there is none.
    pub fn lift(&self) {
        self.set_believed(false);
        self.installed.store(u64::MAX, Ordering::Release);
    }

    /// The installed cut; `None` if there is no index.
    #[must_use]
    pub fn installed(&self) -> Option<Lsn> {
        let installed = self.installed.load(Ordering::SeqCst);
        (installed != u64::MAX).then_some(Lsn(installed))
    }

    /// The highest cut that was installed in this life, whatever has become of that index; `None` if none
    /// was. Addresses do not change, so what it says of a record that is still needed stays true.
    #[must_use]
    pub fn reached(&self) -> Option<Lsn> {
        let reached = self.reached.load(Ordering::Relaxed);
        (reached > 0).then_some(Lsn(reached))
    }

    /// Whether a start would believe the index as it is installed, and read only what is behind its cut.
    /// Then that is bounded: see [`crate::IndexStats::lag_bytes`].
    pub fn set_believed(&self, is_believed: bool) {
        self.is_believed.store(is_believed, Ordering::Relaxed);
    }

    pub(crate) fn is_believed(&self) -> bool {
        self.is_believed.load(Ordering::Relaxed)
    }

    /// The start has found so much behind the cut.
    pub fn note_before(&self, bytes: u64) {
        self.before_bytes.store(bytes, Ordering::Relaxed);
    }

    pub(crate) fn before_bytes(&self) -> u64 {
        self.before_bytes.load(Ordering::Relaxed)
    }

    /// How large the log is: whether an index of it is worth its price.
    #[must_use]
    pub fn log_bytes(&self) -> u64 {
        self.log_bytes.load(Ordering::Relaxed)
    }

    pub(crate) fn note_log_bytes(&self, bytes: u64) {
        self.log_bytes.store(bytes, Ordering::Relaxed);
    }

    /// Blocks from `first` on are not to be indexed yet: a start must read them. `None` for no such block.
    pub(crate) fn hold_back(&self, first: Option<Lsn>) {
        self.held_back.store(first.map_or(u64::MAX, |lsn| lsn.0), Ordering::SeqCst);
    }

    /// The last block that may be indexed, as of now.
    #[must_use]
    pub fn indexable(&self) -> Lsn {
        Lsn(self.held_back.load(Ordering::SeqCst).saturating_sub(1)).min(Lsn::MAX)
    }

    /// Whether it is known what of the log is garbage, so that it can be compacted.
    #[must_use]
    pub fn is_garbage_known(&self) -> bool {
        self.is_garbage_known.load(Ordering::Relaxed)
    }

    pub(crate) fn note_garbage_known(&self) {
        self.is_garbage_known.store(true, Ordering::Relaxed);
    }

    /// So many starts before this one have ended before it was known what is garbage.
    pub fn note_unfinished(&self, starts: u64) {
        self.unfinished_starts.store(starts, Ordering::Relaxed);
    }

    pub(crate) fn unfinished_starts(&self) -> u64 {
        self.unfinished_starts.load(Ordering::Relaxed)
    }

    /// Whether nothing may be written before it is known what is garbage: a server that dies soon after each of
    /// its starts would write and never compact.
    pub(crate) fn is_garbage_overdue(&self) -> bool {
        self.unfinished_starts() >= UNFINISHED_STARTS_MAX && !self.is_garbage_known()
    }

    /// The block up to which a compaction waits for a cut; below the last one installed for none.
    #[must_use]
    pub fn wanted(&self) -> Lsn {
        Lsn(self.wanted.load(Ordering::Relaxed))
    }

    /// A compaction is about to be ordered, when `last` is the last block that there is. Called before
    /// the bound is asked.
    pub(crate) fn note_order(&self, last: Lsn) {
        self.ordered.fetch_max(last.0, Ordering::SeqCst);
        self.is_compacting.store(true, Ordering::SeqCst);
    }

    /// It was not ordered, or has ended.
    pub(crate) fn note_ended(&self) {
        self.is_compacting.store(false, Ordering::SeqCst);
    }

    /// Whether a compaction runs that may have been ordered under an earlier bound; see
    /// [`IndexBound::ordered`].
    #[must_use]
    pub fn is_compacting(&self) -> bool {
        self.is_compacting.load(Ordering::SeqCst)
    }

    /// All that compactions which were ordered under an earlier bound took for garbage was superseded up
    /// to here. Call it after [`IndexBound::set`]: what is ordered later knows that bound.
    #[must_use]
    pub fn ordered(&self) -> Lsn {
        Lsn(self.ordered.load(Ordering::SeqCst))
    }

    /// Whether a segment whose newest block is `max_lsn` may be compacted.
    pub(crate) fn allows(&self, max_lsn: Lsn) -> bool {
        max_lsn.0 <= self.installed.load(Ordering::SeqCst)
    }

    /// Whether it may be; if not, a cut behind it is wanted.
    pub(crate) fn allows_or_wants(&self, max_lsn: Lsn) -> bool {
        let is_allowed = self.allows(max_lsn);
        if !is_allowed {
            self.wanted.fetch_max(max_lsn.0, Ordering::Relaxed);
        }
        is_allowed
    }
}
