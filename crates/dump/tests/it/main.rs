//! Tests of dumps.

#![expect(clippy::unwrap_used, reason = "a test that fails")]

mod journal;
mod records;
