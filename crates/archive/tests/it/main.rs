//! Tests of archives.

#![expect(clippy::unwrap_used, reason = "a test that fails")]

mod coding;
mod damage;
mod damaged_log;
mod expiring_fields;
mod fencing;
mod golden;
mod known_damage;
mod model;
mod points;
mod readback;
mod resuming;
mod tidy;
mod tidy_copies;
mod tidy_doubts;
mod tidy_limits;
mod world;
