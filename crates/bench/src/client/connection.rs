//! A connection that does not block: requests on their way out, and replies in the order of requests.

use std::collections::VecDeque;
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::TcpStream;

use super::reply::whole_bytes;

/// How much is read at once.
const READ_BYTES: usize = 1 << 16;

/// What a request was for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Purpose {
    /// Asks whether the server is there. Any reply will do; it is not counted.
    Probe,
    /// Reads a record, which must have at least this version.
    Read(u32),
    /// Writes a record in this version.
    Write(u32),
    /// Writes a new record. Its entry in the index follows.
    Insert,
    /// Writes the entry of a new record.
    Index,
    /// Asks the index for the keys of a scan. The records follow, one after the other.
    Scan,
    /// Reads a record of a scan; these follow, the last one first.
    ScanRecord(Vec<u64>),
    /// Reads a record, whose update follows.
    ReadToModify,
    /// Updates a record that was read.
    Modify,
    /// Removes a record. The removal of its entry follows, if there is an index.
    Remove,
    /// Removes an entry.
    Unindex,
}

/// A request without its reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Request {
    pub(super) key: u64,
    pub(super) purpose: Purpose,
    /// When its operation was to begin, in nanoseconds of the run.
    pub(super) due_ns: u64,
}

/// See the file's top.
pub(super) struct Connection {
    stream: TcpStream,
    out: Vec<u8>,
    /// What was read is before `input_end`, the rest is room.
    input: Vec<u8>,
    input_end: usize,
    requests: VecDeque<Request>,
}

impl Connection {
    pub(super) fn open(host: &str, port: u16) -> std::io::Result<Self> {
        let stream = TcpStream::connect((host, port))?;
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
        Ok(Self {
            stream,
            out: Vec::new(),
            input: Vec::new(),
            input_end: 0,
            requests: VecDeque::new(),
        })
    }

    pub(super) fn stream(&self) -> &TcpStream {
        &self.stream
    }

    /// Operations under way: each has one request without a reply.
    pub(super) fn waiting(&self) -> usize {
        self.requests.len()
    }

    /// Appends a request, which `encode` writes.
    pub(super) fn push(&mut self, encode: impl FnOnce(&mut Vec<u8>) -> Request) {
        let request = encode(&mut self.out);
        self.requests.push_back(request);
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

    /// Reads all that the socket has, and gives each whole reply to `take`, which may write the request that follows it.
    pub(super) fn receive(
        &mut self,
        mut take: impl FnMut(Request, &[u8], &mut Vec<u8>) -> Option<Request>,
    ) -> std::io::Result<()> {
        loop {
            self.input.resize(self.input.len().max(self.input_end + READ_BYTES), 0);
            let room = self.input.len() - self.input_end;
            let read = match self.stream.read(&mut self.input[self.input_end..]) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(read) => read,
                Err(error) if error.kind() == ErrorKind::WouldBlock => 0,
                Err(error) => return Err(error),
            };
            self.input_end += read;
            let mut taken = 0;
            while let Some(bytes) = whole_bytes(&self.input[taken..self.input_end]) {
                let Some(request) = self.requests.pop_front() else {
                    return Err(std::io::Error::other("a reply that nothing was asked for"));
                };
                let reply = &self.input[taken..taken + bytes];
                self.requests.extend(take(request, reply, &mut self.out));
                taken += bytes;
            }
            self.input.copy_within(taken..self.input_end, 0);
            self.input_end -= taken;
            if read < room {
                return Ok(());
            }
        }
    }
}
