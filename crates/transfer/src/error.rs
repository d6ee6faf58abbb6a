//! What can go wrong with a transfer as a whole. What goes wrong with one file of it is in the
//! [`crate::Report`], and the others go on.

use std::io;

/// Why a transfer did not take place, or broke off.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A call of the operating system failed.
    #[error("{what}: {source}")]
    Io {
        /// What was being done, and to which file.
        what: String,
        /// How it failed.
        source: io::Error,
    },
    /// The other end will not have it, and says why.
    #[error("the other end refuses: {0}")]
    Refused(String),
    /// This end will not have it: a path that escapes, too many bytes, no room.
    #[error("{0}")]
    Refusing(String),
    /// The other end sent what the protocol does not allow.
    #[error("what came over the connection is not the transfer protocol: {0}")]
    Protocol(String),
    /// The connection ended before the transfer did.
    #[error("the connection broke off; the same command again goes on where this one stopped")]
    BrokenOff,
    /// The two ends do not have the same token, or one of them has none.
    #[error("no agreement on the token: {0}")]
    Token(String),
}

/// A result of this crate.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// A failed call, with what it was about.
    pub(crate) fn io(what: impl Into<String>, source: impl Into<io::Error>) -> Self {
        Self::Io { what: what.into(), source: source.into() }
    }

    /// Bytes that no well-behaved peer sends.
    pub(crate) fn protocol(what: impl Into<String>) -> Self {
        Self::Protocol(what.into())
    }

    /// An error of the socket: an end of it is a transfer that broke off.
    pub(crate) fn connection(source: io::Error) -> Self {
        match source.kind() {
            io::ErrorKind::UnexpectedEof
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::ConnectionAborted
            | io::ErrorKind::NotConnected
            | io::ErrorKind::BrokenPipe => Self::BrokenOff,
            io::ErrorKind::InvalidData => Self::Token(source.to_string()),
            _ => Self::io("connection", source),
        }
    }
}
