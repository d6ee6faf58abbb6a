//! The real world: the operating system's disk, clock and randomness behind the traits of
//! [`mod@env`].
//!
//! ```text
//!   OsDisk      files by pread/pwrite, fdatasync, fallocate, flock, cachestat;
//!               past the page cache for logs: pwritev2(RWF_DSYNC), pread into large
//!               pages (madvise), several reads at a time (io_uring)
//!   OsClock     CLOCK_REALTIME and CLOCK_MONOTONIC
//!   OsEntropy   getrandom
//!   Child       fork, a pipe
//! ```
//!
//! This crate decides nothing, except when to bypass the page cache: each call is one system call,
//! or a loop around one that completes partial work of the kernel (short writes, EINTR). Errors are
//! the kernel's, with the path they are about.

mod child;
mod clock;
mod disk;
mod durable_writer;
mod entropy;
mod file_systems;
mod large_pages;
mod once_reader;
mod residency;
mod ring;

pub use child::Child;
pub use clock::OsClock;
pub use disk::{OsDisk, OsFile};
pub use entropy::OsEntropy;
