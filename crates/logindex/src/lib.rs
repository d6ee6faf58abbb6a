//! The log index: where the newest record of every name is, in sorted runs on disk.
//!
//! ```text
//!  follower ── push ─► Delta ── cut(LSN) ─► Batch ─► Indexer ─┬─ runs      0000000007.run …
//!                                                             └─ manifest  which runs, which cut
//!                                                                   │
//!  readers ◄── probe · scope_range · live_pass ── Index ◄── Published
//! ```
//!
//! An LSM tree of addresses, never of values. A **name** is a scope (a database or an object) and 96
//! bits of a keyed hash. An **entry** says of a name where its
//! newest record is, or that it is gone. A **cut** is a boundary between two blocks of the log: an
//! index that is installed with a cut says of every name what the log says up to it, and nothing of
//! what follows. A **run** is an immutable file of entries in the order of their names; the newest
//! run that has a name is right. Keys, values and segment files are not known here: addresses
//! and tags are the caller's.
//!
//! After *Instant Recovery* (paper 002): its indexed log maps a tuple to all of its records, in a
//! B-tree. Here a record is an entry's complete state, so one address is enough, and runs take its
//! place ([ADR 20](../../../docs/adr/0020-runs-instead-of-a-b-tree.md)). The files are described in
//! `docs/format/log-index.md`.
//!
//! # Files of this crate
//!
//! | what | where |
//! |---|---|
//! | words | `name`, `judge`, `delta`, `options`, `error` |
//! | a block, and what is in it | `bits`, `block`, `filter` |
//! | a run | `run_format`, `run_writer`, `run`, `cache` |
//! | a run in memory | `unwritten` |
//! | all runs | `manifest`, `sort_key`, `merge`, `pass`, `index`, `verify` |
//! | the work | `merge_job`, `indexer` |
//! | what a start reads first | `hot` |
//!
//! # Why no wrong address is ever answered
//!
//! 1. **A run knows an interval of the log, completely.** A batch has exactly what was pushed
//!    between two cuts, of each name the last. Level 0 is one batch. A merge takes runs that follow
//!    one another, keeps of each name the newest entry, and becomes their interval. The manifest lists the runs from the newest to the oldest, refused if they overlap.
//! 2. **So the first run that has a name is right**, and a name that no run has is not in the log up
//!    to the cut, or is gone. Entries that are gone stay as long as an older run may have the name:
//!    only the merge into the bottom, which takes all runs, drops them.
//! 3. **Runs, cut and state change together.** One published file names them; a run is durable,
//!    its name included, before it is named. A crash leaves the old list or the new one, and files
//!    that no manifest names, which the next start removes.
//! 4. **A run is read as it was written.** Every CRC of a run is begun with its header's; the
//!    manifest has the CRC of the trailer, which has those of header, dictionary, fences and filter.
//!    A block must begin with the name in its fence, which no other block of the run does. So bytes
//!    of another place, run or life of the index do not pass. A block that was verified is not read again
//!    while it is in memory.
//! 5. **A filter can only say no** to names that were not put in when the block was written, and it
//!    is not asked before its CRC was verified.
//!
//! # Rules between the index and the log
//!
//! **Rule I: a cut is installed only when the log is durable up to it.** [`Indexer::step`] is told
//! the durable LSN and compares. Therefore, after a crash, the log has every block that the index
//! knows: no entry names a record that the crash took back. Without it, a crash would cut the log
//! back and give the same LSNs and ordinals to other records.
//!
//! **Rule II: nothing that is not indexed is compacted.** The log keeps it, with
//! [`Indexer::installed_cut`]: it compacts no segment that has blocks behind the cut. So all blocks
//! behind the cut are there physically, delete records too, and index and tail together are the
//! whole log. An older entry can name a record that a compaction has dropped since: only one that is
//! superseded, by an entry of the tail that is found first.
//!
//! # When a scope is dead
//!
//! Nothing is written when a database is flushed or an object deleted: its entries are dead because
//! no lookup names their scope again. A database is judged by [`Scopes`], an object by the
//! entries of the living databases, which come first in the order ([`Scope`]). A merge judges as of
//! a cut that is installed, with the [`Judge`] of that cut. Neither id is ever used twice, and at a
//! cut every living object has its root (blocks have whole commands); so what is dead at a cut is
//! dead for good, whatever the log says later, and a crash does not go back behind an installed
//! cut. While a log is written anew for a living keyspace this is not so: [`Judge::Relogging`].
//!
//! # Threads
//!
//! [`Delta`] belongs to whatever reads the log, [`Indexer`] to its own thread. [`Index`] is immutable and
//! shared. There is one lock, in [`Published`], held to copy or replace a pointer; the block cache
//! has its own inside.

mod bits;
mod block;
mod cache;
mod damage;
mod delta;
mod error;
mod filter;
#[doc(hidden)]
pub mod fuzz;
mod hot;
mod index;
mod indexer;
mod judge;
mod manifest;
mod merge;
mod merge_job;
mod name;
mod options;
mod pass;
mod run;
mod run_format;
mod run_writer;
mod sort_key;
mod unwritten;
mod verify;

pub use delta::{Batch, Cut, Delta};
pub use error::{Error, Result};
pub use hot::HotHint;
pub use index::{Cached, Index, discard, installed_cut, open};
pub use indexer::{Indexer, Published, Step};
pub use judge::{Judge, Scopes};
pub use name::{EXPIRY_MS_MAX, Entry, Hash96, Name, Place, Scope, ScopeKind, TAG_MAX, What};
pub use options::Options;
pub use pass::{Counts, LivePass, ScopeRange, Visit};
pub use run::RunInfo;
pub use run_format::Level;
pub use verify::{RunStats, Stats, stats, verify};
