//! What the log of requests says: one entry a happening, in the order in which they were captured.
//!
//! ```text
//!   Opened c ─► Request c #7 ─► Request d #8 ─► Completed #7 ─► … ─► Gap c ─► Closed c
//! ```
//!
//! Requests are numbered through the whole log, from 1: their [`Position`] is the paper's global
//! recovery sequence number. A client's port is used again after it was closed, so connections have
//! numbers of their own.

use std::net::SocketAddr;

/// Nanoseconds since 1970, by the clock of the machine that captures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(pub u64);

/// A connection, numbered from 1 through the whole log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionNumber(pub u64);

/// A request's place in the recovery sequence, from 1. 0 for requests that are repeated where reading
/// begins: they make the state of connections that were there before, and happened earlier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position(pub u64);

/// What a request is to recovery (section 6.3.1, "Data Classifier").
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Class {
    /// Establishes the state of the connection: kept for as long as the connection lives, and carried
    /// over into each new file (login, the chosen database, session variables, prepared statements).
    Connection,
    /// May change the database, or belongs to a transaction that may.
    Query,
    /// Changes nothing: not logged unless asked for.
    ReadOnly,
}

/// How the server answered a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// With anything but an error.
    Ok,
    /// With an error.
    Error,
}

/// Why bytes are missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum GapReason {
    /// The kernel's ring was full.
    RingOverflow,
    /// The other end acknowledged bytes that the sidecar never saw.
    Lost,
    /// The connection was there before the sidecar.
    MidStream,
    /// More bytes waited for a missing one than are kept.
    OutOfBuffer,
    /// The bytes are not what the protocol allows.
    Unintelligible,
    /// The sidecar did not run for a while. Connections from before do not occur in the log again.
    Stopped,
    /// There was no room to write for longer than requests can wait in memory.
    DiskFull,
}

/// One happening.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Entry {
    /// A connection was made, or was first seen.
    Opened {
        /// Its number.
        connection: ConnectionNumber,
        /// When.
        at: Time,
        /// The client's end.
        client: SocketAddr,
        /// The server's end.
        server: SocketAddr,
    },
    /// A whole request, as its bytes were.
    Request {
        /// Its place in the recovery sequence.
        position: Position,
        /// The connection on which it came.
        connection: ConnectionNumber,
        /// When its last byte was captured.
        at: Time,
        /// What it is to recovery.
        class: Class,
        /// The TCP sequence number of its first byte.
        sequence: u32,
        /// Its bytes.
        payload: Vec<u8>,
    },
    /// A logged request was answered.
    Completed {
        /// The request.
        position: Position,
        /// When the first byte of the answer was captured.
        at: Time,
        /// How.
        outcome: Outcome,
    },
    /// Bytes are missing. `connection` is `None` when it is not known whose.
    Gap {
        /// The connection, if it is known.
        connection: Option<ConnectionNumber>,
        /// When it was noticed.
        at: Time,
        /// How many bytes, or packets if the connection is not known; 0 if that is not known.
        missing: u64,
        /// Why.
        reason: GapReason,
    },
    /// A connection ended.
    Closed {
        /// The connection.
        connection: ConnectionNumber,
        /// When.
        at: Time,
    },
}
