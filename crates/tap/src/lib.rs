//! In-transit logging: durability for servers that log nothing, implemented at the network layer.
//!
//! A sidecar records the requests that reach a database's port, and restores the database by
//! sending them again as its clients did (paper 001, chapter 6). The server neither knows nor
//! waits.
//!
//! ```text
//!   network ─► packet filter ─► TCP reassembly ─► conversation ─► data classifier ─► log writer ─► log
//!              (in the kernel)   a connection       a protocol      Connection,        another core
//!                                                   requests and    Query, ReadOnly
//!                                                   responses
//!   log ─► log parser ─► recovery sequence ─► log replayer ═ a connection for each original one ═► server
//! ```
//!
//! | file | the paper's part (6.3) |
//! | --- | --- |
//! | [`entry`] | what the log says: connections, requests, completions, gaps |
//! | [`log`] | the log on disk: format, writer, reader |
//! | [`capture`] | the packets of the server's port: filter in the kernel, ring, headers |
//! | [`reassembly`] | TCP: the bytes of both directions of each connection, in order |
//! | [`sidecar`] | the parts together, in two threads; metrics |
//! | [`protocol`] | requests and responses in a stream of bytes, and their class |
//! | [`protocol::mysql`], [`protocol::resp`], [`protocol::raw`] | the protocols |
//! | [`replay`] | the requests, sent again as the clients did |
//!
//! # Invariants
//! 1. A byte that the sidecar did not see is reported as a gap, never silently skipped: after a
//!    gap, a conversation yields no request that might be joined from two.
//! 2. Requests are logged in the order in which they arrived at the server's port; that order is the
//!    recovery sequence.
//! 3. The sidecar never sends to the server while it logs, and the server never waits for it.

pub mod capture;
pub mod entry;
mod error;
pub mod log;
pub mod protocol;
pub mod reassembly;
pub mod replay;
pub mod sidecar;

pub use entry::{Class, ConnectionNumber, Entry, GapReason, Outcome, Position, Time};
pub use env::FileError;
pub use error::{Error, Result};
pub use protocol::{Conversation, Listener, Protocol, UnknownProtocol};
