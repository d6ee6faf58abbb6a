//! A protocol, seen from the middle: a [`Conversation`] is given the bytes of both directions of
//! one connection and tells a [`Listener`] which requests and responses they are.
//!
//! # Invariants
//! 1. Bytes are given in the order in which the ends sent them, without a hole; a hole is told by
//!    [`Conversation::gap`] before what follows it.
//! 2. Each request is told once, when its last byte is there; each response refers to the oldest request
//!    without one, unless the protocol says otherwise.
//! 3. How the bytes are cut into calls makes no difference.

#[cfg(test)]
mod heard;
pub mod mysql;
pub mod raw;
pub mod resp;

use std::fmt;
use std::str::FromStr;

use crate::entry::{Class, Outcome, Time};

/// The protocols that are understood.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Protocol {
    /// MySQL and MariaDB.
    Mysql,
    /// Redis, Valkey, Indelible.
    Resp,
    /// None: each piece of what a client sends is a request.
    Raw,
}

impl Protocol {
    /// Hears a connection that begins.
    #[must_use]
    pub fn conversation(self) -> Box<dyn Conversation + Send> {
        match self {
            Self::Mysql => Box::new(mysql::Mysql::new()),
            Self::Resp => Box::new(resp::Resp::new()),
            Self::Raw => Box::new(raw::Raw::new()),
        }
    }

    /// Its name, as the log has it.
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

impl FromStr for Protocol {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        [Self::Mysql, Self::Resp, Self::Raw]
            .into_iter()
            .find(|protocol| protocol.name() == name)
            .ok_or_else(|| format!("unknown protocol '{name}'; known are mysql, resp and raw"))
    }
}

/// A direction of a connection, by its sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Side {
    /// From the client to the server.
    Client,
    /// From the server to the client.
    Server,
}

impl Side {
    /// The other one.
    #[must_use]
    pub const fn other(self) -> Self {
        match self {
            Self::Client => Self::Server,
            Self::Server => Self::Client,
        }
    }
}

/// Hears what is said in a conversation.
pub trait Listener {
    /// A whole request of `payload`, whose first byte is the `offset`th of the client's (from 0).
    fn request(&mut self, class: Class, payload: &[u8], offset: u64, at: Time);

    /// The `number`th request of this conversation (from 0, in the order told) was answered.
    fn response(&mut self, number: u64, outcome: Outcome, at: Time);

    /// The bytes of a side are not what the protocol allows, or their meaning is lost after a gap,
    /// up to where it can be found again.
    fn unintelligible(&mut self, side: Side, why: &str, at: Time);

    /// The connection goes over to TLS, or began with it: nothing more can be read.
    fn encrypted(&mut self, at: Time);
}

/// One connection in one protocol.
pub trait Conversation {
    /// Takes the next `bytes` that `side` sent, captured at `at`.
    fn bytes(&mut self, side: Side, bytes: &[u8], at: Time, listener: &mut dyn Listener);

    /// `missing` bytes of `side` will never come (0 if it is not known how many).
    fn gap(&mut self, side: Side, missing: u64, at: Time, listener: &mut dyn Listener);

    /// Bytes that establish the state of the connection so far, for a new log file: whole requests
    /// of [`Class::Connection`] that are still in force, oldest first.
    fn connection_requests(&self) -> Vec<Vec<u8>>;
}
