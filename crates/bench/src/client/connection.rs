//! A connection that does not block: requests on their way out, and replies in the order of requests.

use std::collections::VecDeque;
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::TcpStream;

use super::reply::whole_bytes;

/// How much is read at once.
const READ_BYTES: usize = 1 << 16;

/// What a request was for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    /// Asks whether the server is there. Any reply will do; it is not counted.
    Probe,
    /// Reads a record, which must have at least this version.
    Read(u32),
    /// Writes a record in this version.
    Write(u32),
}

/// A request without its reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Request {
    pub(super) key: u64,
    pub(super) purpose: Purpose,
    /// When it was to be sent, in nanoseconds of the run.
    pub(super) due_ns: u64,
}

/// See the file's top.
pub(super) struct Connection {
    stream: TcpStream,
    out: Vec<u8>,
    input: Vec<u8>,
    requests: VecDeque<Request>,
}

impl Connection {
    pub(super) fn open(port: u16) -> std::io::Result<Self> {
        let stream = TcpStream::connect(("127.0.0.1", port))?;
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
        Ok(Self { stream, out: Vec::new(), input: Vec::new(), requests: VecDeque::new() })
    }

    pub(super) fn stream(&self) -> &TcpStream {
        &self.stream
    }

    /// Requests without a reply.
    pub(super) fn waiting(&self) -> usize {
        self.requests.len()
    }

    /// Whether something must still be written.
    pub(super) fn has_output(&self) -> bool {
        !self.out.is_empty()
    }

    /// Appends a request, which `encode` writes.
    pub(super) fn push(&mut self, request: Request, encode: impl FnOnce(&mut Vec<u8>)) {
        self.requests.push_back(request);
        encode(&mut self.out);
    }

    /// Writes what the socket takes.
    pub(super) fn flush(&mut self) -> std::io::Result<()> {
        let mut written = 0;
        while written < self.out.len() {
            match self.stream.write(&self.out[written..]) {
                Ok(bytes) => written += bytes,
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            }
        }
        self.out.drain(..written);
        Ok(())
    }

    /// Reads what the socket has once, and gives each whole reply to `take`.
    pub(super) fn receive(&mut self, mut take: impl FnMut(Request, &[u8])) -> std::io::Result<()> {
        let had = self.input.len();
        self.input.resize(had + READ_BYTES, 0);
        let read = self.stream.read(&mut self.input[had..]);
        self.input.truncate(had + *read.as_ref().unwrap_or(&0));
        match read {
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Err(error) if error.kind() != ErrorKind::WouldBlock => return Err(error),
            _ => {}
        }
        let mut taken = 0;
        while let Some(bytes) = whole_bytes(&self.input[taken..]) {
            let Some(request) = self.requests.pop_front() else {
                return Err(std::io::Error::other("a reply that nothing was asked for"));
            };
            take(request, &self.input[taken..taken + bytes]);
            taken += bytes;
        }
        self.input.drain(..taken);
        Ok(())
    }
}
