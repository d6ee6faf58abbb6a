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
//! Each of these was put into the code by hand once, and seen to fail these tests:
//! MUTATIONS

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod crash;
mod damage;
mod harness;
mod model;
