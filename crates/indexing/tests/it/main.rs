//! An index that follows a log while it is written, compacted, moved and cut by crashes.

#![expect(clippy::unwrap_used, reason = "a test that fails")]

mod lives;
mod scan;
mod starts;
mod world;
