//! What keeps the index of a log: it follows the log, and is fed by nothing else.
//!
//! ```text
//!   start    index's manifest ─► peek ─► Believed ─► Tail ◄── records behind the cut ── redo
//!                                                     │
//!   running  durable blocks ─► Follower ── records ─► Tail ── cut ─► logindex
//!                ▲                          Namer: a record's name     Known: maps, ids, counts
//!                └──────── IndexBound: what is not in the index is not compacted
//!   at rest  Build: the same steps, until a start may believe what is installed
//!   behind   ValidityPass ─► redo::LiveRecords      what is live, for a log that was not read
//! ```
//!
//! The *Indexer* of paper 002 (section 4.1): it copies from the sequential log to the indexed one,
//! asynchronously to commits. Here it reads back the blocks that have become durable, on its own
//! thread. So the executor does nothing for the index, a restart goes on with the same code at the
//! block behind the last cut, building an index anew is following from block 1, and what is in an
//! index depends on the log alone ([ADR 22](../../../docs/adr/0022-the-index-follows-the-log.md)).
//!
//! # Invariants
//! 1. **What is cut is durable** (rule I of `logindex`): only durable blocks are read. So a cut is a
//!    witness: a log that ends before it has lost blocks, and no start accepts that by itself.
//! 2. **What is not in the index is in the log** (rule II): before the log compacts anything, it has
//!    been told the installed cut; blocks behind that are compacted by nothing. So following never
//!    misses a record, deletions included: if blocks behind the cut were compacted nevertheless (by a
//!    program that knows no index), the log refuses to be read from there, and the index is built anew.
//! 3. **A scope is judged only while all that lives has a name.** What compactions have left of a log has
//!    elements in front of their roots, if those were logged again; so until all that was logged before
//!    the index was begun was read, an index that is built judges nothing. And while a log is written anew
//!    for a living keyspace, entries are logged in databases that no map names yet. The follower sees
//!    that in the log: an entry in a database that the newest map has given out and does not name. Until
//!    the next map, or a start, nothing is judged ([`logindex::Judge::Relogging`]).
//! 4. **Counts of keys are exact or unknown.** See `keys`.
//!
//! # Why a build goes on after a restart
//!
//! A build reads a log that was compacted before it began. Blocks from the middle of such a log are
//! refused to a reader in general: a delete record D in them may have been dropped, with the older
//! record R that it deletes, and the reader may have R. Suppose that the build has R, in a block up to its
//! cut b, and that D was behind b. D was there when the build read R, or R would not have been: a
//! compaction drops D only when no file has R any more. So D was dropped later, by a compaction in a life
//! of the log since then. In each of these the build has bounded compaction by its installed cut, which
//! was at most b, and D's segment has a block above that: no such compaction was possible. So D is there.
//!
//! That needs every life since to have been bounded. The log counts how often it was opened; a build keeps
//! that count with its cut, and renews it at each start before anything can be compacted. A start that
//! finds another count than the one before its own begins the build anew.

mod build;
mod compare;
mod counting;
mod error;
mod follower;
mod index;
mod keys;
mod known;
mod namer;
mod peek;
mod tail;
mod validity;

pub use build::{Build, Built};
pub use compare::{Compared, Difference, compare};
pub use error::{Error, Result};
pub use follower::{Before, Followed, Follower};
pub use index::{LogIndex, Options, Step, discard};
pub use known::Known;
pub use namer::{Namer, hash_of, identity_of};
pub use peek::{Believed, Peeked, Unusable, peek};
pub use tail::Tail;
pub use validity::ValidityPass;
