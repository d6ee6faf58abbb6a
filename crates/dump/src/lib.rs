//! Dumps: every key that a log had at one LSN, streamed out in bounded memory while the log goes on.
//!
//! ```text
//!   redo::Mark ─► MarkReader ─► valid records ─┬─ keys that are one record ──────────────────► Target
//!                                              └─ roots and elements ─► Sorter ─► Merge ─────► Target
//!                                                                         └─ spill file ─┘   a file, …
//! ```
//!
//! The log has an object's root and its elements as records of their own, in any order and anywhere. What takes a dump
//! (Redis' RDB) wants each value in one piece, behind its number of elements. So they are sorted by object: in memory
//! as long as they fit, otherwise in sorted runs of one spill file, which are then merged. Each run says how many
//! elements it has of each object, so their number is known before the first of them is read. The elements of a
//! list and the chunks of a string are merged in their order, others run by run.
//!
//! A dump is a step machine: each step reads a block of the log, or passes on some elements. It needs nothing of the
//! executor once the mark is made. Its memory is a few times [`SpillOptions::memory_bytes`], and while runs are merged twice
//! a frame and the next item of each: fields of many megabytes are what it is not bounded for yet.
//!
//! # Invariants
//! - Of every entry one record comes, the one that was valid at the mark; so order does not matter.
//! - A key counts if its database had an index that clients could name at the mark; an element if its object has
//!   a root that counts. What else is valid waits to be freed, and is left out.
//! - An object has as many elements as its target was told.
//! - What is spilled is checked when it is read back.
//!
//! Source: the paper's section 5.4 wants what a snapshot has to be consistent and its taking to be unnoticed; that the
//! log's validity bitmaps already are such a snapshot is ours (ADR 16, ADR 33).

mod batch;
mod dumper;
mod error;
mod levels;
mod mark_dump;
mod merge;
mod objects;
mod rdb_target;
mod run;
mod sorter;
mod spill;
mod target;

pub use dumper::{Dumper, Figures};
pub use error::{Error, Result};
pub use mark_dump::{MarkDump, Step};
pub use rdb_target::RdbTarget;
pub use spill::{SpillOptions, remove_leftovers};
pub use target::{DumpedKey, Element, Target};
