//! The contract that both disks keep, and the faults that only the simulated one has.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod contract;
mod faults;
mod publish;
