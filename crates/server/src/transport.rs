//! How a connection's bytes travel: over its socket as they are, or in a TLS session.
//!
//! The loops that read and write, the executor's and those of I/O threads, see no difference but
//! one: a connection that [`Transport::is_handshaking`] has its reads among the
//! [`Handshakes`](crate::handshakes::Handshakes) of the loop, which limit the processor's time for
//! them.

use std::io::{IoSlice, Read as _, Result, Write as _};

use mio::{Registry, Token};

use crate::stream::Stream;
use crate::tls::{Arrival, ReadBuffer, Session};

/// See the file's top.
pub(crate) enum Transport {
    Plain(Stream),
    Tls(Box<Session>),
}

impl Transport {
    /// Whether a read is a step of a handshake.
    pub(crate) fn is_handshaking(&self) -> bool {
        match self {
            Self::Plain(_) => false,
            Self::Tls(session) => session.is_handshaking(),
        }
    }

    /// The common name in the client's certificate, if it has shown one.
    pub(crate) fn peer_name(&self) -> Option<Vec<u8>> {
        match self {
            Self::Plain(_) => None,
            Self::Tls(session) => session.peer_name(),
        }
    }

    /// Has the loop of `registry` told, once each, that there is something to read or room to
    /// write.
    pub(crate) fn register(&mut self, registry: &Registry, token: Token) -> Result<()> {
        match self {
            Self::Plain(stream) => stream.register(registry, token),
            Self::Tls(session) => session.register(registry, token),
        }
    }

    /// Reads what has come, as far as the buffer holds it.
    ///
    /// # Errors
    /// Those of the socket, `WouldBlock` among them, and `InvalidData` from a session.
    pub(crate) fn read(&mut self, buffer: &mut ReadBuffer) -> Result<Arrival> {
        match self {
            Self::Plain(stream) => {
                let into = buffer.plain_mut();
                let room = into.len();
                // Less than there was room for: the socket is empty, and tells when it is not.
                Ok(match stream.read(into)? {
                    0 => Arrival::End,
                    count => Arrival::Bytes { count, is_drained: count < room },
                })
            }
            Self::Tls(session) => session.read(buffer),
        }
    }

    /// Sends the first bytes of `pieces`. Returns how many are on their way.
    ///
    /// # Errors
    /// Those of the socket. After `WouldBlock` and `Interrupted` the same bytes are to be offered
    /// again.
    pub(crate) fn write(&mut self, pieces: &[IoSlice<'_>]) -> Result<usize> {
        match self {
            Self::Plain(stream) => stream.write_vectored(pieces),
            Self::Tls(session) => session.write(pieces),
        }
    }

    /// Whether a write may take less than it is offered while the socket has room for more.
    pub(crate) fn takes_pieces(&self) -> bool {
        matches!(self, Self::Tls(_))
    }

    /// Sends what is left of records, when the socket takes more again.
    ///
    /// # Errors
    /// Those of the socket, but for `WouldBlock`.
    pub(crate) fn flush(&mut self) -> Result<()> {
        match self {
            Self::Plain(_) => Ok(()),
            Self::Tls(session) => session.flush(),
        }
    }
}
