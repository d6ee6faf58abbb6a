//! What Indelible needs from the outside world.
//!
//! ```text
//!      redo · keyspace · server
//!               │  only these traits
//!   Disk ─ File ─ Lock    Clock    Entropy
//!               │
//!      env-os ──┴── env-sim
//!      the real     seeded, virtual,
//!      ones         faulty on purpose
//! ```
//!
//! [`publish()`] is the one way to create a file that appears under its name complete and durable.
//! [`FileError`] says why a file cannot be used.
//!
//! Everything that has an effect, or whose result differs from run to run, goes through here. So a
//! whole database can run inside a test with a disk that loses, tears and reorders writes, and the
//! same seed repeats the same run. The traits are object safe: a program holds an `Arc<dyn Disk>`
//! and does not know its implementation.

mod clock;
mod disk;
mod entropy;
mod error;
mod file_error;
mod publish;
mod room;

pub use clock::Clock;
pub use disk::{Access, Disk, File, FileVersion, Lock, OnceRead, ReadBuffer, ReadTogether};
pub use entropy::Entropy;
pub use error::{about, lacks_descriptor, opening, reason, system_number};
pub use file_error::FileError;
pub use publish::{Complete, Renamed, Unpublished, publish};
pub use room::leave_room;
