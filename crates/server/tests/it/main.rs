//! Tests of what the server offers without a server: see `tests/README.md`.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod import;
mod import_disk;
