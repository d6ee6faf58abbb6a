//! Verified transfer of files: every byte is checked on the medium where it finally rests.
//!
//! A copy checked against the receiver's memory says nothing about the receiver's disk. A copy read
//! back past the host's cache says nothing about a flash device's cells, because the device answers
//! from its own cache until it has moved the data. So this crate reads a file back only after
//! writing so much newer data that the device's cache must have evicted it (paper 001, chapter 4).
//!
//! ```text
//!   sender                            receiver
//!   source ─► pages, CRC32C ══TCP, TLS══► receiver ─► I/O manager ─► staged file
//!                  ▲                        │            │ fsync
//!                  │                        ▼            ▼
//!                  │               memory manager   concurrency controller: waiting list
//!                  │                buffers, page        │ when displaced
//!                  └── pages sent again  cache           ▼
//!                             ◄───────────────── data verifiers ─► all good: rename into place
//! ```
//!
//! | file | the paper's part (4.3) |
//! | --- | --- |
//! | [`memory_manager`] | buffers within a bound, invalidation of the host's cache |
//! | [`concurrency_controller`] | accumulated size, waiting list, what may be verified when |
//! | `io_manager`, `syncer` | writing, syncing what was written meanwhile, filler at the end |
//! | `data_verifier` | reading back past the cache, checksums of pages by several threads |
//! | [`scheme`] | the schemes that the paper compares, as data |
//!
//! Around them: `message` and `frame` (the protocol, docs/format/transfer.md), `connection` and
//! `tls`, `source` and `sender`, `receiver` and `incoming`, [`destination`] and `tree` (where files
//! go), `staging` (where they wait), [`service`] (server and client). `session` and `store` are the two ends of a conversation in which
//! single files are put, read, listed and removed: an archive on another machine.
//!
//! # Invariants
//! 1. A file appears under its name only after each of its pages was read back with the checksum
//!    that the sender computed; it appears as a whole, by a rename.
//! 2. With `sp` and `spc`, no range is read back until as many bytes as the device's cache holds
//!    were written *and synced* after the end of the range's sync.
//! 3. Buffers of file data never exceed the configured memory.
//! 4. Nothing outside the destination directory is written, read or followed, whatever the other
//!    end says; and what it says is verified before it is used.
//! 5. A transfer that breaks off leaves only files in the staging directory; the next transfer does
//!    not send their pages again.
//!
//! 6. What a session has put is durable under its name when it is answered, and not in the place of anything.
//!
//! # Locks
//! Each part has its own lock and calls no other part while holding it.

mod beneath;
pub mod concurrency_controller;
mod connection;
mod data_verifier;
pub mod destination;
mod device_capacity;
mod entry;
mod error;
mod expectations;
mod frame;
mod greetings;
mod incoming;
mod io_manager;
pub mod memory_manager;
mod message;
mod progress;
mod receiver;
mod relative_path;
mod report;
pub mod scheme;
mod sender;
pub mod service;
mod session;
mod source;
mod staging;
mod store;
mod syncer;
mod tls;
mod token;
mod tree;

pub use destination::Destination;
pub use entry::{Entry, Kind, Time};
pub use error::{Error, Result};
pub use frame::{PAGE_BYTES, check_frames};
pub use message::{Origin, Verification};
pub use progress::Progress;
pub use relative_path::{PathError, PathFault, RelativePath, STAGING};
pub use report::{Failure, Report};
pub use scheme::{Scheme, UnknownScheme};
pub use service::{Remote, RemoteError, Server, Service, Sessions, Trust, fetch, send};
pub use store::{Stand, Store};
pub use token::{NotAToken, Token};
pub use tree::Limits;
