//! Bringing keys back from the log by its index, when they are asked for and when they are not.
//!
//! ```text
//!              name ──► Index ──► address ──► Reader ──► records ──► Restored
//!                         │  an object: all of its elements' addresses, in the order of the log
//!   LogRestorer   one key, or the value of one whose address is known; names of keys; what is garbage
//!   LastNodes     ends of streams, several with one wait for the device
//!   NewestIndex   the index as it is, or as it was when something was deleted that was not in memory
//!   FetchThreads  some LogRestorers, for what the executor has asked for
//!   Warmup        which records are needed, then keys that were hot, then all, the newest segments first
//!   HotWalk       reads what was hot; a step machine, as Warmup is
//!   WarmupThread  runs a Warmup; what it says waits in a short queue
//! ```
//!
//! After paper 002, sections 4.1 and 4.2: the *Restorer* reads what is asked for at once, and
//! everything else in the background. Here the two are not one thread.
//!
//! # Invariants
//! - The index is the newest: a key that was changed behind its cut is in memory, and found there.
//! - A record is given out only after its checksum and its name were compared.
//! - What a compaction has dropped meanwhile was changed meanwhile: it is left out, and whether
//!   that was right shows in the end, when all keys are counted.

mod fetch_threads;
mod hot_walk;
mod last_nodes;
mod log_restorer;
mod newest_index;
mod warmup;
mod warmup_thread;

pub(crate) use fetch_threads::FetchThreads;
pub use log_restorer::LogRestorer;
pub use newest_index::NewestIndex;
pub use warmup::{WarmStep, Warmup};
pub(crate) use warmup_thread::WarmupThread;
