//! A connection: frames in both directions over TCP, inside TLS if there is a token.

use std::io::{BufReader, BufWriter, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::net::sockopt;

use crate::error::{Error, Result};
use crate::frame::{FrameReader, FrameWriter};
use crate::message::Message;
use crate::tls::{self, Side};
use crate::token::Token;

/// Bytes gathered before a write to the socket.
const BUFFER_BYTES: usize = 256 * 1024;
/// How long a peer may be silent before it has identified itself.
const GREETING: Duration = Duration::from_secs(20);
/// How long the other end has to read the reason for a hangup.
const FAREWELL: Duration = Duration::from_secs(2);
/// How long sent data may stay unacknowledged before the other machine counts as gone.
const GONE_MS: u32 = 60_000;
/// The first byte of a TLS connection: a handshake record.
const TLS_HANDSHAKE: u8 = 0x16;

/// The reader of frames from a socket.
pub(crate) type Input = FrameReader<BufReader<Box<dyn Read + Send>>>;

/// Both halves, and a handle that ends them.
pub(crate) struct Connection {
    pub(crate) reader: Input,
    pub(crate) writer: Arc<FrameWriter>,
    pub(crate) hangup: Hangup,
}

/// Ends a connection from any thread; threads that wait for it stop waiting.
pub(crate) struct Hangup(TcpStream);

impl Hangup {
    /// Ends both directions.
    pub(crate) fn all(&self) {
        // If the socket is already gone, the goal is reached.
        let _gone = self.0.shutdown(Shutdown::Both);
    }

    /// Stops reading; what was sent still arrives.
    pub(crate) fn reading(&self) {
        let _gone = self.0.shutdown(Shutdown::Read);
    }

    /// Stops writing.
    pub(crate) fn writing(&self) {
        let _gone = self.0.shutdown(Shutdown::Write);
    }

    /// Hangs up after a message that the other end should read. Closing a socket with unread data
    /// resets the connection, and the other end may then lose what it has not read; so incoming
    /// data are read and dropped for a while.
    pub(crate) fn after_refusal(&self, reader: &mut Input) {
        self.writing();
        if self.0.set_read_timeout(Some(FAREWELL)).is_ok() {
            reader.drain(Instant::now() + FAREWELL);
        }
        self.all();
    }

    /// Lets this end wait for so long at most for the other one, each time.
    pub(crate) fn be_patient(&self, most: Duration) -> Result<()> {
        let failed = |error| Error::io("socket", error);
        self.0.set_read_timeout(Some(most)).map_err(failed)?;
        self.0.set_write_timeout(Some(most)).map_err(failed)
    }

    /// Ends the greeting. From now on silence is allowed, and the kernel probes whether the peer
    /// still exists.
    pub(crate) fn greeted(&self) -> Result<()> {
        self.0.set_read_timeout(None).map_err(|error| Error::io("socket", error))
    }
}

impl Connection {
    /// Wraps a connected socket; `side` says which end has connected.
    pub(crate) fn new(socket: TcpStream, token: Option<&Token>, side: Side) -> Result<Self> {
        let failed = |error: std::io::Error| Error::io("socket", error);
        socket.set_nodelay(true).map_err(failed)?;
        socket.set_read_timeout(Some(GREETING)).map_err(failed)?;
        sockopt::set_socket_keepalive(&socket, true).map_err(|error| failed(error.into()))?;
        sockopt::set_tcp_keepidle(&socket, Duration::from_secs(20))
            .and_then(|()| sockopt::set_tcp_user_timeout(&socket, GONE_MS))
            .map_err(|error| failed(error.into()))?;
        if side == Side::Server {
            check_first_byte(&socket, token)?;
        }
        let (read, write): (Box<dyn Read + Send>, Box<dyn Write + Send>) = match token {
            Some(token) => {
                let (read, write) = tls::halves(&socket, token, side)?;
                (Box::new(read), Box::new(write))
            }
            None => (
                Box::new(socket.try_clone().map_err(failed)?),
                Box::new(socket.try_clone().map_err(failed)?),
            ),
        };
        let write = BufWriter::with_capacity(BUFFER_BYTES, write);
        Ok(Self {
            reader: FrameReader::new(BufReader::with_capacity(BUFFER_BYTES, read)),
            writer: Arc::new(FrameWriter::new(Box::new(write))),
            hangup: Hangup(socket),
        })
    }
}

/// Tells a client without TLS the reason, instead of letting a handshake fail.
fn check_first_byte(socket: &TcpStream, token: Option<&Token>) -> Result<()> {
    let mut first = [0];
    let seen = socket.peek(&mut first).map_err(Error::connection)?;
    let is_tls = first[0] == TLS_HANDSHAKE;
    match token {
        _ if seen == 0 => Err(Error::BrokenOff),
        Some(_) if !is_tls => {
            let why = "this server wants a token (--token-file, or INDELIBLE_TRANSFER_TOKEN)";
            let out = socket.try_clone().map_err(Error::connection)?;
            let writer = FrameWriter::new(Box::new(out));
            // The client may be anything; it need not read this.
            let _unread = writer.send(&Message::Refuse { why: why.to_owned() });
            Err(Error::Token("the client has no token".to_owned()))
        }
        None if is_tls => {
            Err(Error::Token("the client has a token, this server has none".to_owned()))
        }
        _ => Ok(()),
    }
}
