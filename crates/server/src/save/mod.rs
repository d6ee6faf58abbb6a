//! Dumps of the data as RDB, written next to the executor: a file that appears when it is complete, or a stream
//! to a client.
//!
//! ```text
//!   engine ── Saver ──► SaveRunner: a thread, or a simulator's steps
//!      │                   Saver ─┬─ the log as of a mark, ─┬─► temporary file ─► synced ─► renamed
//!      │                          └─ or a child process ───└─► Desk: chunks for a client
//!      └── Ticket ◄── Desk: how far it is, how it has ended ◄──┘
//! ```
//!
//! The executor makes the mark and hands it over; the rest needs nothing of it. What a stream has not been
//! relieved of stays bounded: its saver waits.
//!
//! # Invariants
//! - A file has its name only when all of it is durable, and everything that it shows is durable in the log.
//! - A saver that fails, or is given up, leaves no file; one that a crash ends leaves a temporary file, which the next start
//!   removes.
//! - What a dump replaces is a dump of this database, or stays (`predecessor`).
//! - When a [`Ticket`] is dropped, its saver ends.

mod child;
mod desk;
mod error;
mod feed;
mod file_sink;
mod last_dumps;
mod pace;
mod predecessor;
mod saver;
mod sink;
mod threads;

pub(crate) use child::dump_into;
pub use desk::{SaveFigures, Ticket};
pub use error::{SaveError, SaveResult};
pub(crate) use feed::Feed;
pub(crate) use file_sink::FileSink;
pub(crate) use last_dumps::LastDumps;
pub(crate) use predecessor::{Fields, Predecessor, is_dump_of};
pub use predecessor::{Kept, KnownDump};
pub(crate) use saver::{SaveJob, SaveSource, SaveTarget};
pub use saver::{Saver, SaverStep};
pub use sink::remove_temporaries;
pub(crate) use sink::temporary_name;
pub use threads::SaveRunner;
pub(crate) use threads::SaveThreads;
