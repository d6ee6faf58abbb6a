//! A world for tests: the traits of [`mod@env`] without an operating system underneath.
//!
//! ```text
//!   SimDisk      files in memory, each with what is cached and what is stored;
//!     │          faults by seed, by count, by hand          (fault model: disk.rs)
//!     ├ names    directories: which name is which file, and what is not yet synced of that
//!     ├ links    names that others have given to files, and what may not be changed therefore
//!     └ inode    one file: cached bytes, stored bytes, writes in between
//!   LayeredDevice  another one: host memory, the device's cache and flash, each of which may damage
//!     │          what passes; it never crashes
//!     └ cells    its flash, in memory or in a file
//!   sweep        every damage to every file, a crash at every I/O: what each format's tests run
//!   SimClock     stands still until a test moves it, forward or back
//!   SimEntropy   the generator behind it all
//! ```
//!
//! Invariant: with the same seed and the same calls in the same order, every answer, every fault
//! and everything that a crash leaves behind is the same, which [`SimDisk::trace_hash`] sums up.
//! This requires that one thread at a time makes the calls.

mod cells;
mod clock;
mod disk;
mod entropy;
mod faults;
mod file;
mod inode;
mod layers;
mod links;
mod names;
pub mod sweep;
mod together;

pub use clock::SimClock;
pub use disk::SimDisk;
pub use entropy::SimEntropy;
pub use faults::Faults;
pub use layers::{Damage, Fault, Layer, LayeredDevice};
