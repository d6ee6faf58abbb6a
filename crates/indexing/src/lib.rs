//! What keeps the index of a log: it follows the log, and is fed by nothing else.
//!
//! ```text
//!   executor ─► redo log ─► durable blocks ─► Follower ─── entries ─► Delta ── cut ─► logindex
//!                   ▲                          Namer: a record's name    Known: maps, ids
//!                   └──────── IndexBound: what is not in the index is not compacted
//! ```
//!
//! The *Indexer* of paper 002 (section 4.1): it copies from the sequential log to the indexed one,
//! asynchronously to commits. Here it reads back the blocks that have become durable, on its own
//! thread. So the executor does nothing for the index, a restart goes on with the same code at the
//! block behind the last cut, building an index anew is following from block 1, and what is in an
//! index depends on the log alone ([ADR 22](../../../docs/adr/0022-the-index-follows-the-log.md)).
//!
//! # Invariants
//! 1. **What is cut is durable** (rule I of `logindex`): only durable blocks are read.
//! 2. **What is not in the index is in the log** (rule II): before the log compacts anything, it has
//!    been told the installed cut; blocks behind that are compacted by nothing. So following never
//!    misses a record, deletions included: if blocks behind the cut were compacted nevertheless (by a
//!    program that knows no index), the log refuses to be read from there, and the index is built anew.
//! 3. **A scope is judged only while all that lives has a name.** What compactions have left of a log has
//!    elements in front of their roots, if those were logged again; so until all that was logged before
//!    the start was read, an index that is built judges nothing. And while a log is written anew for a
//!    living keyspace, entries are logged in databases that no map names yet. The follower sees that in
//!    the log: an entry in a database that the newest map has given out and does not name. Until the next
//!    map nothing is judged ([`logindex::Judge::Relogging`]).

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

pub use error::{Error, Result};
pub use follower::{Before, Followed, Follower};
pub use index::{LogIndex, Options, Step, discard};
pub use known::Known;
pub use namer::Namer;
pub use peek::{Believed, Peeked, peek};
pub use tail::Tail;
pub use validity::ValidityPass;
