//! Tests of the crate as a whole.
//!
//! ```text
//!   oracle     random rules and decisions, and what redis-server says of the same
//!   redis      a redis-server on a socket of its own, and its protocol
//!   rules      what a line of rules makes of a user
//! ```

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod oracle;
mod redis;
mod rules;
