//! Properties of the index.
//!
//! ```text
//!   harness   a database that logs, its model by cut, and an index of tiny runs
//!   model     random pushes, cuts, merges, scopes that die, reopening: against the model
//!   crash     a crash at each I/O, second crashes, failing disks, many random ones
//!   damage    each byte flipped, each length, each file lost
//!   format    the format document as code, golden files
//!   reading   what readers see while runs are replaced; what needs no I/O
//! ```
//!
//! Each of these was put into the code by hand once, and seen to fail these tests, or those next to
//! the code:
//!
//! - a cut installed before the log is durable up to it; a merge that judges by a cut that is not
//!   installed; scopes judged while a log is written anew; a database judged without a place
//! - the older run wins, in a merge or in a probe; the first of several pushes wins
//! - entries that are gone dropped above the bottom; elements of a dead object alive, those of
//!   one of which a root was overlooked dead; the result of a merge replaces newer runs
//! - the CRC of a block or of the filter unchecked; a filter without one of its names; a wrong last
//!   fence; hashes added up across scopes; the smallest expiry forgotten
//! - a run, its name, or the removal of the manifest not synced; files removed before the manifest is
//!   published; unnamed files left; a run continued after a failed sync

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod crash;
mod damage;
mod format;
mod harness;
mod model;
mod reading;
