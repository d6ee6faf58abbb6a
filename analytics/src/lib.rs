//! Dumps as Parquet files, for DuckDB, pyarrow and all that read those.
//!
//! ```text
//!   file · standard input ──┐
//!   server ── REPLCONF, SYNC ┴► rdb::Reader ──► Event … ──► Table, one a type ──► OUT.tmp/strings.parquet …
//!                                                             │                        │ synced, renamed
//!                                             batch (8 MiB) ──┴► row group (64 MiB)    ▼
//!                                                                                     OUT
//! ```
//!
//! Invariants: OUT is there as a whole, of a dump that was read to its end and found good, or not at
//! all. Memory is bounded by the row groups in progress, one a type, and by the longest string of the dump: a
//! value that is larger than [`Bounds::part_bytes`] is several rows.
//!
//! The form of the files is in `docs/analytics.md`. A server's dump is of one moment between two
//! commands, so is what is exported.

mod error;
mod export;
mod schema;
mod source;
mod sync;
mod table;
mod target;
mod values;

pub use error::Error;
pub use export::{Bounds, Compression, Exported, Options, Progress, Written, export};
pub use schema::{HEAD_COLUMNS, file_name};
pub use source::Source;
