//! What is exported, read back with the parquet crate.
//!
//! ```text
//!   forms        columns, types and metadata of the files; values in parts
//!   round_trip   any data, written as a dump, exported and read back
//!   damage       dumps that are cut short or damaged, and targets that cannot be written
//!   servers      a dump that a server is asked for
//! ```
//!
//! `analytics/tests/test_readers.py` reads the files with DuckDB and pyarrow.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod damage;
mod data;
mod forms;
mod read_back;
mod round_trip;
mod servers;
