//! A connection's socket, of either kind.

use std::io::{IoSlice, Read, Result, Write};

use mio::net::{TcpStream, UnixStream};
use mio::{Interest, Registry, Token};

/// See the file's top.
#[derive(Debug)]
pub(crate) enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize> {
        match self {
            Self::Tcp(stream) => stream.read(buffer),
            Self::Unix(stream) => stream.read(buffer),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> Result<usize> {
        match self {
            Self::Tcp(stream) => stream.write(bytes),
            Self::Unix(stream) => stream.write(bytes),
        }
    }

    fn write_vectored(&mut self, pieces: &[IoSlice<'_>]) -> Result<usize> {
        match (pieces, self) {
            ([piece], stream) => stream.write(piece),
            (pieces, Self::Tcp(stream)) => stream.write_vectored(pieces),
            (pieces, Self::Unix(stream)) => stream.write_vectored(pieces),
        }
    }

    fn flush(&mut self) -> Result<()> {
        Ok(())
    }
}

impl Stream {
    /// Has the loop of `registry` told, once each, that there is something to read or room to write.
    pub(crate) fn register(&mut self, registry: &Registry, token: Token) -> Result<()> {
        let interest = Interest::READABLE | Interest::WRITABLE;
        match self {
            Self::Tcp(stream) => registry.register(stream, token, interest),
            Self::Unix(stream) => registry.register(stream, token, interest),
        }
    }
}
