//! Parses a protocol as an observer: a [`Conversation`] gets the bytes of both directions of one
//! connection, and tells a [`Listener`] the requests and responses in them.
//!
//! # Invariants
//! 1. Bytes arrive in the order in which the ends sent them, without holes; [`Conversation::gap`]
//!    announces a hole before the bytes after it.
//! 2. Each request is reported once, when its last byte has arrived; each response answers the
//!    oldest unanswered request, unless the protocol says otherwise.
//! 3. The division of the bytes into calls makes no difference.

#[cfg(test)]
mod heard;
pub mod mysql;
pub mod raw;
pub mod resp;

use std::fmt;
use std::str::FromStr;

use crate::entry::{Class, Outcome, Time};

/// The supported protocols.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Protocol {
    /// MySQL and MariaDB.
    Mysql,
    /// Redis, Valkey, Indelible.
    Resp,
    /// None: each piece of a client's stream is a request.
    Raw,
}

impl Protocol {
    /// Begins a conversation for a new connection.
    #[must_use]
    pub fn conversation(self) -> Box<dyn Conversation + Send> {
        match self {
            Self::Mysql => Box::new(mysql::Mysql::new()),
            Self::Resp => Box::new(resp::Resp::new()),
            Self::Raw => Box::new(raw::Raw::new()),
        }
    }

    /// Its name in the log.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Mysql => "mysql",
            Self::Resp => "resp",
            Self::Raw => "raw",
        }
    }
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A name that no protocol has.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
#[error("unknown protocol '{0}'; known are mysql, resp and raw")]
pub struct UnknownProtocol(String);

impl FromStr for Protocol {
    type Err = UnknownProtocol;

    fn from_str(name: &str) -> Result<Self, UnknownProtocol> {
        [Self::Mysql, Self::Resp, Self::Raw]
            .into_iter()
            .find(|protocol| protocol.name() == name)
            .ok_or_else(|| UnknownProtocol(name.to_owned()))
    }
}

/// A direction of a connection, named after its sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Side {
    /// From the client to the server.
    Client,
    /// From the server to the client.
    Server,
}

impl Side {
    /// The other direction.
    #[must_use]
    pub const fn other(self) -> Self {
        match self {
            Self::Client => Self::Server,
            Self::Server => Self::Client,
        }
    }
}

/// Receives the requests and responses of a conversation.
pub trait Listener {
    /// Reports a complete request of `payload`; its first byte is the client's `offset`th (from 0).
    fn request(&mut self, class: Class, payload: &[u8], offset: u64, at: Time);

    /// Reports the answer to the `number`th request of this conversation (from 0, in the order
    /// reported).
    fn response(&mut self, number: u64, outcome: Outcome, at: Time);

    /// Reports that the bytes of a side violate the protocol. Also reports that their meaning is
    /// lost after a gap, until it is found again.
    fn unintelligible(&mut self, side: Side, why: &str, at: Time);

    /// Reports that the connection switches to TLS, or began with it: nothing more can be read.
    fn encrypted(&mut self, at: Time);
}

/// One connection in one protocol.
pub trait Conversation {
    /// Parses the next `bytes` that `side` sent, captured at `at`.
    fn bytes(&mut self, side: Side, bytes: &[u8], at: Time, listener: &mut dyn Listener);

    /// Announces that `missing` bytes of `side` will never arrive (0 if the number is unknown).
    fn gap(&mut self, side: Side, missing: u64, at: Time, listener: &mut dyn Listener);

    /// The bytes that establish the connection's current state, for a new log file. They are the
    /// complete requests of [`Class::Connection`] that are still in force, oldest first.
    fn connection_requests(&self) -> Vec<Vec<u8>>;
}
