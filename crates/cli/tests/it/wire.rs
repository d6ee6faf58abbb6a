//! A small RESP client that keeps the exact bytes of every reply, so that two servers can be compared.
//!
//! It is deliberately not the `resp` crate: a test that shares its parser with the program under test
//! would share its mistakes.

use crate::process::PATIENCE;
use crate::tls_client::{self, TlsStream};
use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

/// One reply: the RESP type byte and what it holds. Maps are flat lists of keys and values.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Reply {
    /// `+ - : , # (` and the text of the line.
    Line(u8, Vec<u8>),
    /// `$ =` and the bytes.
    Blob(u8, Vec<u8>),
    /// `_`, `$-1` or `*-1`, by their first byte.
    Null(u8),
    /// `* ~ % >` and the elements.
    Many(u8, Vec<Reply>),
}

impl Reply {
    /// The type byte.
    pub(crate) fn kind(&self) -> u8 {
        match self {
            Reply::Line(kind, _) | Reply::Blob(kind, _) | Reply::Null(kind) => *kind,
            Reply::Many(kind, _) => *kind,
        }
    }

    /// The text of a scalar reply, empty for the others.
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(self.bytes()).into_owned()
    }

    /// The bytes of a scalar reply, none for the others.
    pub(crate) fn bytes(&self) -> &[u8] {
        match self {
            Reply::Line(_, bytes) | Reply::Blob(_, bytes) => bytes,
            Reply::Null(_) | Reply::Many(..) => &[],
        }
    }

    /// The elements of an aggregate, none for the others.
    pub(crate) fn elements(&self) -> &[Reply] {
        match self {
            Reply::Many(_, elements) => elements,
            _ => &[],
        }
    }

    /// Whether it is an error.
    pub(crate) fn is_error(&self) -> bool {
        self.kind() == b'-'
    }

    /// Reads one reply from the start of `bytes`: the reply and how many bytes it took, or nothing
    /// while it is incomplete.
    pub(crate) fn parse(bytes: &[u8]) -> Option<(Reply, usize)> {
        let end = bytes.windows(2).position(|pair| pair == b"\r\n")?;
        let (kind, line) = (*bytes.first()?, &bytes[1..end]);
        let after = end + 2;
        let length = || std::str::from_utf8(line).ok()?.parse::<i64>().ok();
        match kind {
            b'$' | b'=' => {
                let Ok(length) = usize::try_from(length()?) else {
                    return Some((Reply::Null(kind), after));
                };
                let body = bytes.get(after..after + length + 2)?;
                Some((Reply::Blob(kind, body[..length].to_vec()), after + length + 2))
            }
            b'*' | b'~' | b'%' | b'>' | b'|' => {
                let Ok(count) = usize::try_from(length()?) else {
                    return Some((Reply::Null(kind), after));
                };
                let count = if matches!(kind, b'%' | b'|') { count * 2 } else { count };
                let (mut elements, mut at) = (Vec::new(), after);
                for _ in 0..count {
                    let (element, taken) = Reply::parse(&bytes[at..])?;
                    elements.push(element);
                    at += taken;
                }
                Some((Reply::Many(kind, elements), at))
            }
            b'_' => Some((Reply::Null(kind), after)),
            _ => Some((Reply::Line(kind, line.to_vec()), after)),
        }
    }
}

/// A command as the array of bulk strings that clients send.
pub(crate) fn encode<A: AsRef<[u8]>>(arguments: &[A]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", arguments.len()).into_bytes();
    for argument in arguments {
        let argument = argument.as_ref();
        bytes.extend_from_slice(format!("${}\r\n", argument.len()).as_bytes());
        bytes.extend_from_slice(argument);
        bytes.extend_from_slice(b"\r\n");
    }
    bytes
}

/// What a connection's bytes travel over.
enum Stream {
    Plain(TcpStream),
    Tls(TlsStream),
}

impl Stream {
    fn socket(&self) -> &TcpStream {
        match self {
            Stream::Plain(socket) => socket,
            Stream::Tls(stream) => stream.socket(),
        }
    }

    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Stream::Plain(socket) => socket.read(buffer),
            Stream::Tls(stream) => stream.read(buffer),
        }
    }

    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Stream::Plain(socket) => socket.write_all(bytes),
            Stream::Tls(stream) => stream.write_all(bytes),
        }
    }
}

/// A connection to a server.
pub(crate) struct Connection {
    stream: Stream,
    received: Vec<u8>,
}

impl Connection {
    /// Connects to a port of this machine, over TLS where all tests of this process do.
    pub(crate) fn open(port: u16) -> io::Result<Connection> {
        let socket = TcpStream::connect(("127.0.0.1", port))?;
        match tls_client::everywhere() {
            None => Connection::over(socket),
            Some(certificates) => Connection::over_tls(socket, certificates.client()),
        }
    }

    /// The protocol over TLS over a stream that is connected.
    pub(crate) fn over_tls(
        socket: TcpStream,
        config: std::sync::Arc<rustls::ClientConfig>,
    ) -> io::Result<Connection> {
        let mut connection = Connection::over(socket)?;
        let Stream::Plain(socket) = connection.stream else { unreachable!("it was made so") };
        connection.stream = Stream::Tls(TlsStream::over(socket, config)?);
        Ok(connection)
    }

    /// The protocol over a stream that is connected.
    pub(crate) fn over(stream: TcpStream) -> io::Result<Connection> {
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        Ok(Connection { stream: Stream::Plain(stream), received: Vec::new() })
    }

    /// A second handle on the same connection, for a thread that only receives.
    pub(crate) fn split(&self) -> Connection {
        let stream = match &self.stream {
            Stream::Plain(socket) => {
                Stream::Plain(socket.try_clone().expect("a socket can be duplicated"))
            }
            Stream::Tls(stream) => Stream::Tls(stream.split()),
        };
        Connection { stream, received: Vec::new() }
    }

    /// Sends bytes as they are.
    pub(crate) fn send_bytes(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes)
    }

    /// Sends a command without waiting for its reply.
    pub(crate) fn send<A: AsRef<[u8]>>(&mut self, arguments: &[A]) -> io::Result<()> {
        self.send_bytes(&encode(arguments))
    }

    /// Waits for the next reply or push and gives it with its exact bytes.
    pub(crate) fn receive_exact(&mut self) -> io::Result<(Reply, Vec<u8>)> {
        let mut chunk = [0; 64 * 1024];
        loop {
            if let Some((reply, taken)) = Reply::parse(&self.received) {
                return Ok((reply, self.received.drain(..taken).collect()));
            }
            match self.stream.read(&mut chunk) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(count) => self.received.extend_from_slice(&chunk[..count]),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Waits this long for the next reply; nothing if none has come.
    pub(crate) fn receive_within(&mut self, patience: Duration) -> io::Result<Option<Reply>> {
        self.stream.socket().set_read_timeout(Some(patience))?;
        let received = self.receive();
        self.stream.socket().set_read_timeout(Some(PATIENCE))?;
        match received {
            Ok(reply) => Ok(Some(reply)),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// Waits for the next reply.
    pub(crate) fn receive(&mut self) -> io::Result<Reply> {
        self.receive_exact().map(|(reply, _)| reply)
    }

    /// Sends a command and waits for its reply.
    pub(crate) fn call<A: AsRef<[u8]>>(&mut self, arguments: &[A]) -> io::Result<Reply> {
        self.send(arguments)?;
        self.receive()
    }

    /// Sends a command written as words and waits for its reply; panics if none comes.
    pub(crate) fn words(&mut self, words: &str) -> Reply {
        let arguments: Vec<&str> = words.split_whitespace().collect();
        self.call(&arguments).unwrap_or_else(|error| panic!("no reply to {words}: {error}"))
    }

    /// Waits until the server closes the connection; false if it sends something instead.
    pub(crate) fn is_closed(&mut self) -> bool {
        let mut byte = [0];
        loop {
            match self.stream.read(&mut byte) {
                Ok(0) => return self.received.is_empty(),
                Ok(_) => return false,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return error.kind() == ErrorKind::ConnectionReset,
            }
        }
    }
}
