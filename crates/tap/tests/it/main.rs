//! The tap as its users see it: what was captured is in the log, whatever happens.
//!
//! ```text
//!   log_format      the log byte by byte, as docs/format/tap.md says; damage anywhere is found
//!   log_round_trip  entries go in and come out, over segments, from any position on
//!   log_crash       power fails at every single I/O
//!   reassembly      segments cut, doubled, late, early and lost: the bytes themselves, or a gap
//!   replay          servers are brought back from what was recorded, and compared with the originals
//! ```

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod log_crash;
mod log_format;
mod log_round_trip;
mod reassembly;
mod replay;
mod samples;
