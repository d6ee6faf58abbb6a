//! The real world: the operating system's disk, clock and randomness behind the traits of [`env`].
//!
//! ```text
//!   OsDisk      files by pread/pwrite, fdatasync, fallocate, flock
//!   OsClock     CLOCK_REALTIME and CLOCK_MONOTONIC
//!   OsEntropy   getrandom
//! ```
//!
//! Nothing is decided here: each call is one system call or a loop around one that finishes what
//! the kernel left half done (short writes, EINTR). Errors come back as the kernel gave them, with
//! the path they are about.

mod clock;
mod disk;
mod entropy;

pub use clock::OsClock;
pub use disk::OsDisk;
pub use entropy::OsEntropy;
