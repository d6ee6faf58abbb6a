//! Workloads, the stores that they compare, and the results.
//!
//! ```text
//!   workloads: tpcc, kv ──► trait Engine ──► pages, pages-flush        always
//!                                        ──► bdb, lmdb, redb, sqlite   behind features
//!   client, locks: loads for servers, over sockets; compare: the client on several servers in turn
//! ```
//!
//! The binary `indelible-bench` is in `src/bin`: the laboratory, which the product does not link. A
//! workload is written once, against [`engine::Engine`], and is independent of the store; a store
//! is one file in `engine`, which documents its configuration and what its commit guarantees.

pub mod client;
pub mod compare;
pub mod engine;
pub mod figures;
pub mod flash;
pub mod kv;
pub mod locks;
pub mod recovery;
pub mod snapshot;
pub mod snapshot_transactions;
pub mod tpcc;
pub mod vtc;

mod error;
mod histogram;
mod json;
mod plot;
mod process_count;
mod zipf;

pub use error::{Error, Result};
