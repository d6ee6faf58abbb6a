//! Tests of whole transfers: both ends in this process, over real sockets.
//!
//! ```text
//!   ends       a server on a free port, and clients of it
//!   wire       a proxy in between that damages or cuts what passes
//!   layers     Table 4.2: faults in host memory, device cache and flash, against each scheme
//!   schedule   the concurrency controller, under random runs
//!   trees      what arrives is what was sent: names, times, permissions, holes, links
//!   refusals   what a receiver does not take
//!   resume     transfers that break off and go on
//!   session    files that are put once, and when they are verified
//! ```

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod ends;
mod layers;
mod refusals;
mod resume;
mod schedule;
mod session;
mod trees;
mod wire;
