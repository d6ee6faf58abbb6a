//! The contents of the log of requests: one entry per event, in the order of capture.
//!
//! ```text
//!   Opened c ─► Request c #7 ─► Request d #8 ─► Completed #7 ─► … ─► Gap c ─► Closed c
//! ```
//!
//! Requests are numbered through the whole log, from 1: their [`Position`] is the paper's global
//! recovery sequence number. A client's port can be reused after a close, so connections have
//! numbers of their own.

use std::net::SocketAddr;

/// Nanoseconds since 1970, by the clock of the capturing machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(pub u64);

/// A connection, numbered from 1 through the whole log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionNumber(pub u64);

/// A request's place in the recovery sequence, from 1. 0 for requests repeated where reading
/// begins: they happened earlier and restore the state of older connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position(pub u64);

/// The role of a request in recovery (section 6.3.1, "Data Classifier").
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Class {
    /// Establishes the state of the connection. Kept as long as the connection lives, and carried
    /// over into each new file (login, the chosen database, session variables, prepared
    /// statements).
    Connection,
    /// May change the database, or belongs to a transaction that may.
    Query,
    /// Changes nothing: not logged unless asked for.
    ReadOnly,
}

/// How the server answered a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// With a result other than an error.
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
    /// The connection is older than the sidecar.
    MidStream,
    /// The bytes waiting for a missing one exceeded the limit.
    OutOfBuffer,
    /// The bytes violate the protocol.
    Unintelligible,
    /// The sidecar did not run for a while. Earlier connections do not occur in the log again.
    Stopped,
    /// The disk was full for longer than requests can wait in memory.
    DiskFull,
}

/// One event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Entry {
    /// A connection was opened, or first seen.
    Opened {
        /// Its number.
        connection: ConnectionNumber,
        /// The time.
        at: Time,
        /// The client's end.
        client: SocketAddr,
        /// The server's end.
        server: SocketAddr,
    },
    /// A complete request, byte for byte.
    Request {
        /// Its place in the recovery sequence.
        position: Position,
        /// The connection on which it came.
        connection: ConnectionNumber,
        /// When its last byte was captured.
        at: Time,
        /// Its role in recovery.
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
        /// The kind of answer.
        outcome: Outcome,
    },
    /// Bytes are missing. `connection` is `None` if it is unknown.
    Gap {
        /// The connection, if known.
        connection: Option<ConnectionNumber>,
        /// The time at which it was noticed.
        at: Time,
        /// The missing bytes, or packets if the connection is unknown; 0 if even that is unknown.
        missing: u64,
        /// The reason.
        reason: GapReason,
    },
    /// A connection ended.
    Closed {
        /// The connection.
        connection: ConnectionNumber,
        /// The time.
        at: Time,
    },
}
