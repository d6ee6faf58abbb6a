//! Dumps: every key that a log had at one LSN, streamed out in bounded memory.
//!
//! ```text
//!   redo::Mark ─► MarkReader ─► valid records
//!                    ├─ keys that are one record ───────────────────────────────┐
//!                    └─ roots and elements ─► Sorter ─► Levels ─► Merge ─► Objects ─► Target
//!                                                └── spill file ──┘                  a file, …
//! ```
//!
//! The log has an object's root and its elements as records of their own, in any order and
//! anywhere. Redis' RDB, and any other target, wants each value in one piece, behind its number of
//! elements. So they are sorted by object: in memory if they fit, otherwise in sorted runs of one
//! spill file, which are then merged. Each run says how many elements it has of each object, so
//! their number is known before the first of them is read. The elements of a list and the chunks of
//! a string are merged in their order, others run by run.
//!
//! A dump is a step machine. Each step reads a block of the log, or passes on, writes again or
//! passes over some items; none takes longer because a value is large, or much waits to be freed.
//! The log goes on: a dump needs nothing of the executor once the mark is made.
//!
//! A log that no server has open has no bitmaps that say what is valid. There the newest record of
//! each name is found by sorting, with the same sorter, and then read (ADR 37):
//!
//! ```text
//!   redo::StoredLog ─► Selection ─► Selected ─► StoredDump ─► valid records ─► as above
//! ```
//!
//! A dump may be merged with the one before (ADR 50): then only the blocks since are read, and what is valid still is
//! copied from the last dump's file, whose *companion* says of which records its bytes are:
//!
//! ```text
//!   redo::Mark ─► MarkReader, behind the last dump ─► valid records ─► as above ─┐
//!             └─► Validity ─┐                                                    ▼
//!   last dump, Companion ───┴─► what is valid still ────────────────────────► Merging ─► file, Companion
//! ```
//!
//! # Memory
//! - [`SpillOptions::memory_bytes`] for what is sorted, and afterwards for readers of runs: 64 KiB
//!   each, at least 16 of them. More runs than that are merged into fewer first.
//! - 1 MiB that is gathered before it is written.
//! - Of a stream that is written: a unit of entries (1 MiB, or one entry), and all that its groups know, 48 bytes for
//!   each entry that waits to be acknowledged.
//! - One item (a key, an element, a chunk), however large. At first it is in the block of the log
//!   that is read. If it has more than a frame (32 KiB) it goes to the spill file at once, its place
//!   is sorted instead, and it is read when the target takes it.
//!
//! # Invariants
//! - Of every entry one record comes, the one that was valid at the mark; so order does not matter.
//! - A key counts if its database had an index that clients could name at the mark; an element if
//!   its object has a root that counts. What else is valid waits to be freed, and is left out.
//! - An object has as many elements as its target was told.
//! - What is spilled is checked when it is read back.
//!
//! Source: the paper's section 5.4 wants what a snapshot has to be consistent and its taking to be
//! unnoticed; that the log's validity bitmaps already are such a snapshot is ours (ADR 16, ADR 33).

mod batch;
mod companion;
mod dumper;
mod error;
mod frames;
mod hourglass;
mod last_dump;
mod levels;
mod mark_dump;
mod memory;
mod merge;
mod merging;
mod noted_target;
mod objects;
mod old_dump;
mod order;
mod passing;
mod rdb_target;
mod run;
mod selection;
mod sorter;
mod source;
mod spill;
mod stored_dump;
mod stream_target;
mod target;
mod walked;

pub use dumper::{Dumper, Figures};
pub use error::{Error, LastError, Result};
pub use hourglass::{HourglassDump, HourglassFigures};
pub use last_dump::{LastDump, WholeReason};
pub use mark_dump::{MarkDump, Step};
pub use memory::pass_on;
pub use rdb_target::RdbTarget;
pub use selection::{Selected, Selection};
pub use spill::{SpillOptions, remove_leftovers};
pub use stored_dump::StoredDump;
pub use target::{DumpedKey, Element, Noted, Target};
pub use walked::WalkDump;
