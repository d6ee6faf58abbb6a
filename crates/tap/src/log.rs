//! The log of requests on disk (docs/format/tap.md).
//!
//! ```text
//!   DIR/0000000001.tap   header │ batch │ batch │ …                    a segment
//!   DIR/0000000002.tap   header │ Connection data carried over │ batch │ … │ torn ╎
//!                                                                     synced ┘    └ cut
//!   Entry ─► Batch ─► Writer ─► segments ─► Reader ─► Entry
//! ```
//!
//! Entries are gathered into a [`Batch`]: one write with one checksum, which a crash keeps as a
//! whole or not at all. The [`Writer`] syncs batches on request, which the sidecar does at an
//! interval; each batch names the last batch that was durable when it was written. The [`Reader`]
//! can therefore tell a torn tail, which a crash may leave and whose contents were never
//! acknowledged, from damage, which it reports with file and place.
//!
//! The paper keeps its log in files that are truncated, completed requests in two more that
//! alternate, and the data of connections in a table with which each new file begins (6.3.1). Here
//! the files are segments of one log that is kept for as long as a restore to a point in time may
//! need it. Completions are entries of the log itself (docs/adr/0010). As in the paper, each new
//! segment repeats the data of connections, so that earlier segments can be removed.
//!
//! # Invariants
//! 1. A segment is durable to its end before the next one has its name.
//! 2. A segment gets its name only after its header and the connections carried over are durable.
//! 3. Batches are numbered through the whole log without gaps.

mod batch;
mod reader;
mod segment;
mod writer;

use std::net::SocketAddr;
use std::time::Duration;

pub use batch::Batch;
pub use reader::{Reader, protocol, read};
pub use writer::{Settings, Writer};

use crate::entry::{ConnectionNumber, Time};

/// A connection as carried over into a new segment: what a reader that begins there must know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Carried {
    /// Its number.
    pub connection: ConnectionNumber,
    /// When it was opened, or first seen.
    pub opened: Time,
    /// The client's end.
    pub client: SocketAddr,
    /// The server's end.
    pub server: SocketAddr,
    /// The requests that established its state, oldest first.
    pub requests: Vec<Vec<u8>>,
}

/// How much of the log is kept when a new segment begins. A segment is removed when either limit
/// demands it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Keep {
    /// At most this many bytes, in addition to the newest segment.
    pub bytes_max: Option<u64>,
    /// Only what is not older than this.
    pub age_max: Option<Duration>,
}
