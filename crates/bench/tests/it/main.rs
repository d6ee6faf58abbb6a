//! Tests of `indelible-bench` as a process.
//!
//! ```text
//!   recovery     every scheme of paper 002, killed: what was acknowledged is there
//!   tpcc_kill    a run of TPC-C that is killed: what is left opens, its conditions hold
//!   compare      two servers of Redis under one load, in turn
//!   page_store   the files of page stores: checked, shown, damaged, open
//! ```

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod compare;
mod page_store;
mod recovery;
mod tpcc_kill;
