//! Tests of buckets: what a target of archives must do, with a store in this process, and with a bad way to it.

#![expect(clippy::unwrap_used, reason = "a test that fails")]

mod contract;
mod proxy;
mod store;
