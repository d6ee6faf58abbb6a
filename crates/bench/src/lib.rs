//! Workloads, the stores that they compare, and what came out.
//!
//! ```text
//!   workloads: tpcc, kv ──► trait Engine ──► pages, pages-flush        always
//!                                        ──► bdb, lmdb, redb, sqlite   behind features
//! ```
//!
//! The binary `indelible-bench` is below `src/bin`: the laboratory, which the product does not link.
//! A workload is written once, against [`engine::Engine`], and knows nothing of the store beneath;
//! a store is one file below `engine`, which says how it is set up and what its commit promises.

pub mod engine;
pub mod figures;
pub mod flash;
pub mod kv;
pub mod snapshot;
pub mod snapshot_transactions;
pub mod tpcc;

mod error;
mod json;
mod process_count;

pub use error::{Error, Result};
