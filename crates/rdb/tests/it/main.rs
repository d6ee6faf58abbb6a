//! Dumps as their users see them: what was written is read, and what is damaged is refused.
//!
//! ```text
//!   forms       every form of a value, and everything that is no value, by hand
//!   damage      flips, cuts and lies: refused where there is a checksum, survived where there is none
//!   round_trip  what the writer writes, the reader reads
//!   digest      Redis' own fingerprints
//!   dump ── dumps made by hand, and events as lines
//! ```

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod damage;
mod digest;
mod dump;
mod forms;
mod round_trip;
