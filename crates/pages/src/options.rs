//! The options and statistics of a store.

use std::path::PathBuf;
use std::sync::Arc;

/// The environment of a store: everything outside the process.
#[derive(Clone)]
pub struct Env {
    /// The disk that holds the files.
    pub disk: Arc<dyn env::Disk>,
    /// The clock that times group commit.
    pub clock: Arc<dyn env::Clock>,
}

/// What a call does when another transaction holds the lock it needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LockWait {
    /// Blocks the thread until the lock is free.
    Block,
    /// Returns [`crate::Error::Busy`]; the request stays in the queue until the call is repeated.
    /// For programs (and simulations) that run many transactions on one thread.
    Refuse,
}

/// What a commit waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// The transaction is durable when the commit returns. The log is written immediately;
    /// concurrent commits share the next write.
    Immediate,
    /// The paper's group commit: the commit returns when the transaction is durable. The log is
    /// written when its buffer is 80 % full, when [`Options::group_delay_ms`] have passed, or when
    /// no other transaction is left to wait for.
    ///
    /// With [`Upkeep::Inline`] the commit returns at once. The log is written when its buffer is
    /// full, or at the first commit, [`crate::PageStore::tick`] or
    /// [`crate::PageStore::wait_durable`] after the delay.
    Group,
    /// The commit returns at once. Until the log is written, a crash may lose the transaction as a
    /// whole together with all later ones. It is written when its buffer is 80 % full, when another
    /// commit waits for it, or after the delay (only with [`Upkeep::Background`]). Call
    /// [`crate::PageStore::wait_durable`] to be sure.
    None,
}

/// Which thread takes checkpoints, and writes the log when no commit waits for that.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Upkeep {
    /// A background thread.
    Background,
    /// The committing threads, a little at a time. The store starts no thread: its behaviour
    /// depends on the calls alone, which makes it possible to simulate.
    Inline,
}

/// How a store is opened. Sizes are in bytes.
#[derive(Debug, Clone)]
pub struct Options {
    /// The directory of the store; created if missing.
    pub dir: PathBuf,
    /// Memory for page frames; at least 16 pages.
    pub pool_bytes: usize,
    /// Memory for the online log table: records of pages whose image in storage is older. The paper
    /// finds 30 % of the memory, and no less than 10 MB, to be best. One transaction may change a
    /// quarter of this; keys, values and 64 bytes per change count.
    pub online_log_bytes: usize,
    /// Group commit writes the log when this buffer is 80 % full.
    pub log_buffer_bytes: usize,
    /// Group commit writes the log when a commit has waited this long.
    pub group_delay_ms: u32,
    /// A checkpoint writes a page with at least this many records (Algorithm 1, *`min_del`*).
    pub min_del: usize,
    /// A checkpoint writes a page whose oldest record is this many bytes of log old. This is
    /// *`max_age`* of Algorithm 1; 0 stands for four times the online log table.
    pub max_age_bytes: u64,
    /// A checkpoint advances by this many pages at a time, so that no commit waits for all of it.
    pub checkpoint_step_pages: usize,
    /// The size of one log file of a new store; an existing store keeps its own.
    pub log_segment_bytes: u64,
    /// The most log that a restart should read. A checkpoint begins before there is more, even if
    /// the online log table is not full, and writes the pages with the oldest records. A restart
    /// takes about 0.7 ms per MB on two processors, up to 0.9 ms on a device with slow minutes. A
    /// larger value lets pages gather more records before they are written: at TPC-C with 240 MB of
    /// memory, 1.02 page writes per transaction with 40 MiB, 0.87 with 48 and 0.78 with 64.
    pub log_bytes_max: u64,
    /// Evicts dirty pages by writing them, as conventional stores do; for comparison.
    pub flush_on_eviction: bool,
    /// What a call does when another transaction holds the lock.
    pub lock_wait: LockWait,
    /// Which thread takes checkpoints.
    pub upkeep: Upkeep,
}

impl Default for Options {
    /// As [`Options::new`], for [`crate::PageStore::open_path`], which takes the directory.
    fn default() -> Self {
        Self::new(PathBuf::new())
    }
}

impl Options {
    /// The defaults for a store in `dir`. It gets 64 MiB of memory, 30 % of it for the online log
    /// table.
    #[must_use]
    pub fn new(dir: impl Into<PathBuf>) -> Self {
        Self::with_memory(dir, 64 << 20)
    }

    /// The defaults with `memory_bytes` for frames and online log table together. They are divided
    /// as in the paper's Figure 6: 30 % for the table, at least 10 MB, at most half.
    #[must_use]
    pub fn with_memory(dir: impl Into<PathBuf>, memory_bytes: usize) -> Self {
        let online_log_bytes = (memory_bytes / 10 * 3).max(10 << 20).min(memory_bytes / 2);
        Self {
            dir: dir.into(),
            pool_bytes: memory_bytes - online_log_bytes,
            online_log_bytes,
            log_buffer_bytes: 64 << 10,
            group_delay_ms: 10,
            min_del: 16,
            max_age_bytes: 0,
            checkpoint_step_pages: 128,
            log_segment_bytes: 8 << 20,
            log_bytes_max: 48 << 20,
            flush_on_eviction: false,
            lock_wait: LockWait::Block,
            upkeep: Upkeep::Background,
        }
    }
}

/// Counters since the store was opened, and how full it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Stats {
    /// Pages read from the data file.
    pub page_reads: u64,
    /// Pages written to the data file.
    pub page_writes: u64,
    /// Log pages (2 KiB) written.
    pub log_page_writes: u64,
    /// Calls that wrote and synced the log.
    pub log_flushes: u64,
    /// Pages found in a frame.
    pub page_hits: u64,
    /// Clean pages evicted.
    pub evictions_clean: u64,
    /// Dirty pages evicted by dropping them.
    pub evictions_flushing_less: u64,
    /// Dirty pages evicted by writing them.
    pub evictions_flushed: u64,
    /// Pages made from an image in storage, if any, and records of the online log table.
    pub redos: u64,
    /// Checkpoints completed.
    pub checkpoints: u64,
    /// Committed transactions that had changed something.
    pub commits: u64,
    /// Page splits.
    pub splits: u64,
    /// Page merges.
    pub merges: u64,
    /// Transactions refused because of a deadlock.
    pub deadlocks: u64,
    /// Bytes of the online log table in use.
    pub online_log_bytes: u64,
    /// Pages with records in the online log table.
    pub dirty_pages: u64,
    /// Pages of the store, free ones included.
    pub pages: u64,
    /// Free pages.
    pub free_pages: u64,
}
