//! Tests of dumps.

#![expect(clippy::unwrap_used, reason = "a test that fails")]

mod commands;
mod crafted;
mod expiring_fields;
mod hourglass;
mod journal;
mod kept;
mod marks;
mod orders;
mod rdb;
mod records;
mod spilling;
mod stored;
mod streams;
mod world;
