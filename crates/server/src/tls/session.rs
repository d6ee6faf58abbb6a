//! A TLS session over a socket that does not wait.
//!
//! ```text
//!             read                                    write
//!   Handshake: one step a call, then Opened           nothing to send yet
//!   Open:      socket ─► records ─► plaintext         plaintext ─► records ─► socket
//!   Ended:     the other side has said goodbye        what is left goes out
//! ```
//!
//! Writing is as with a socket, but for one thing: what was encrypted cannot be taken back. So
//! [`Session::write`] takes a piece of what it is offered, encrypts it and sends the records. As
//! long as the socket does not take all of them it says `WouldBlock`, and the caller offers the
//! same bytes again, more behind them or not; they count as written when the last of their records
//! is gone.
//!
//! # Invariants
//! - At most one piece of plaintext is encrypted and not sent, and it is what the caller offers
//!   first next time.
//! - After a read nothing that has come lies in the session but a part of a record, unless the read
//!   says that there may be more.

use std::io::{self, ErrorKind, IoSlice, Read as _, Result, Write as _};

use mio::{Registry, Token};
use rustls::ServerConnection;

use super::certificate_name;
use crate::stream::Stream;

/// How much is encrypted at once, and so how much may wait to be sent.
pub(super) const BUFFERED_BYTES_MAX: usize = 64 * 1024;

/// The largest record on the wire, and some.
const RECORD_BYTES_MAX: usize = 20 * 1024;

/// What has come from a connection.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Arrival {
    /// So many bytes, at the beginning of the buffer. `is_drained`: the socket is empty, and tells
    /// when it is not.
    Bytes { count: usize, is_drained: bool },
    /// The handshake is done, and there may be more.
    Opened,
    /// The other side sends nothing more.
    End,
}

/// Memory for reading, one for all connections of a thread.
pub(crate) struct ReadBuffer {
    plain: Vec<u8>,
    /// What a socket had, encrypted; of no size before the first session.
    wire: Vec<u8>,
}

impl ReadBuffer {
    /// Memory for reads of up to `bytes`.
    pub(crate) fn new(bytes: usize) -> Self {
        assert!(bytes > 2 * RECORD_BYTES_MAX, "what a read of records yields fits in");
        Self { plain: vec![0; bytes], wire: Vec::new() }
    }

    /// Where plaintext is read to.
    pub(crate) fn plain_mut(&mut self) -> &mut [u8] {
        &mut self.plain
    }

    /// The first `count` bytes that were read.
    pub(crate) fn first(&self, count: usize) -> &[u8] {
        &self.plain[..count]
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Handshake,
    Open,
    /// A close_notify has come.
    Ended,
}

/// See the file's top.
pub(crate) struct Session {
    tls: ServerConnection,
    socket: Stream,
    state: State,
    /// How many bytes of plaintext the records are of that the socket has not taken.
    unsent: usize,
}

impl Session {
    pub(super) fn new(mut tls: ServerConnection, socket: Stream) -> Self {
        tls.set_buffer_limit(Some(BUFFERED_BYTES_MAX));
        Self { tls, socket, state: State::Handshake, unsent: 0 }
    }

    /// Whether the handshake is not done: reading is then work for the processor.
    pub(crate) fn is_handshaking(&self) -> bool {
        self.state == State::Handshake
    }

    /// The common name in the client's certificate, if it has shown one.
    pub(crate) fn peer_name(&self) -> Option<Vec<u8>> {
        let certificate = self.tls.peer_certificates()?.first()?;
        certificate_name::common_name(certificate).map(<[u8]>::to_vec)
    }

    pub(crate) fn register(&mut self, registry: &Registry, token: Token) -> Result<()> {
        self.socket.register(registry, token)
    }

    /// Reads what the socket has, as far as the buffer holds it, or does a step of the handshake.
    ///
    /// # Errors
    /// Those of the socket, `WouldBlock` among them; `InvalidData` for what is no TLS, or not as it
    /// must be. The other side was told then as far as the socket took it.
    pub(crate) fn read(&mut self, buffer: &mut ReadBuffer) -> Result<Arrival> {
        match self.state {
            State::Handshake => self.shake_hands(),
            State::Open => self.read_open(buffer),
            State::Ended => Ok(Arrival::End),
        }
    }

    fn shake_hands(&mut self) -> Result<Arrival> {
        if self.tls.read_tls(&mut self.socket)? == 0 {
            return Ok(Arrival::End);
        }
        self.process()?;
        if self.tls.is_handshaking() {
            return Ok(Arrival::Bytes { count: 0, is_drained: false });
        }
        self.state = State::Open;
        Ok(Arrival::Opened)
    }

    fn read_open(&mut self, buffer: &mut ReadBuffer) -> Result<Arrival> {
        // Came with the end of the handshake.
        let waiting = self.take_plain(&mut buffer.plain)?;
        if waiting > 0 {
            return Ok(Arrival::Bytes { count: waiting, is_drained: false });
        }
        buffer.wire.resize(buffer.plain.len() - RECORD_BYTES_MAX, 0);
        let came = self.socket.read(&mut buffer.wire)?;
        if came == 0 {
            return Ok(Arrival::End);
        }
        let is_drained = came < buffer.wire.len();
        let (mut wire, mut count) = (&buffer.wire[..came], 0);
        while !wire.is_empty() && self.state == State::Open {
            self.tls.read_tls(&mut wire)?;
            self.process()?;
            count += self.take_plain(&mut buffer.plain[count..])?;
        }
        match (self.state, count) {
            (State::Ended, 0) => Ok(Arrival::End),
            (State::Ended, _) => Ok(Arrival::Bytes { count, is_drained: false }),
            _ => Ok(Arrival::Bytes { count, is_drained }),
        }
    }

    /// Decrypts what was read, and answers what asks for an answer.
    fn process(&mut self) -> Result<()> {
        let processed = self.tls.process_new_packets();
        let is_no_tls = self.state == State::Handshake
            && matches!(processed, Err(rustls::Error::InvalidMessage(_)));
        // An alert says what is wrong. If the socket takes nothing now, a write follows when it
        // does. To what speaks another language it would be a reply.
        let flushed = if is_no_tls { Ok(()) } else { ignore_wait(self.send_records()) };
        let state = processed.map_err(|why| io::Error::new(ErrorKind::InvalidData, why))?;
        if state.peer_has_closed() && self.state == State::Open {
            self.state = State::Ended;
        }
        flushed
    }

    fn take_plain(&mut self, into: &mut [u8]) -> Result<usize> {
        let mut count = 0;
        while count < into.len() {
            match self.tls.reader().read(&mut into[count..]) {
                Ok(0) => break,
                Ok(more) => count += more,
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            }
        }
        Ok(count)
    }

    /// Sends the first bytes of `pieces`. Returns how many the socket has taken, in records.
    ///
    /// # Errors
    /// Those of the socket. After `WouldBlock` and `Interrupted` the same bytes are to be offered
    /// again.
    pub(crate) fn write(&mut self, pieces: &[IoSlice<'_>]) -> Result<usize> {
        if self.unsent == 0 {
            // What is left of the handshake goes first, or the limit would leave no room.
            self.send_records()?;
            self.unsent = self.tls.writer().write_vectored(pieces)?;
        }
        let offered: usize = pieces.iter().map(|piece| piece.len()).sum();
        assert!(offered >= self.unsent, "what was encrypted is offered again");
        self.send_records()?;
        Ok(std::mem::take(&mut self.unsent))
    }

    /// Sends what is left of records, when the socket takes more again.
    ///
    /// # Errors
    /// Those of the socket, but for `WouldBlock`.
    pub(crate) fn flush(&mut self) -> Result<()> {
        ignore_wait(self.send_records())
    }

    fn send_records(&mut self) -> Result<()> {
        while self.tls.wants_write() {
            if self.tls.write_tls(&mut self.socket)? == 0 {
                return Err(ErrorKind::WriteZero.into());
            }
        }
        Ok(())
    }
}

/// A session that ends says so, if the socket takes it: the other side can tell that nothing was
/// cut off.
impl Drop for Session {
    fn drop(&mut self) {
        if self.state != State::Handshake {
            self.tls.send_close_notify();
            let _is_best_effort = self.send_records();
        }
    }
}

fn ignore_wait(result: Result<()>) -> Result<()> {
    match result {
        Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {
            Ok(())
        }
        result => result,
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;
    use std::sync::Arc;

    use rustls::crypto::ring;
    use rustls::pki_types::{PrivateKeyDer, ServerName};
    use rustls::{ClientConfig, ClientConnection, RootCertStore, ServerConfig};

    use super::*;

    /// Both ends of a connection, in one thread.
    struct Ends {
        session: Session,
        buffer: ReadBuffer,
        client: ClientConnection,
        socket: UnixStream,
    }

    impl Ends {
        /// Connected, and no hands shaken.
        fn new() -> Self {
            let certified = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
            let key = PrivateKeyDer::Pkcs8(certified.signing_key.serialize_der().into());
            let provider = Arc::new(ring::default_provider());
            let server = ServerConfig::builder_with_provider(Arc::clone(&provider))
                .with_safe_default_protocol_versions()
                .unwrap()
                .with_no_client_auth()
                .with_single_cert(vec![certified.cert.der().clone()], key)
                .unwrap();
            let mut authorities = RootCertStore::empty();
            authorities.add(certified.cert.der().clone()).unwrap();
            let client = ClientConfig::builder_with_provider(provider)
                .with_safe_default_protocol_versions()
                .unwrap()
                .with_root_certificates(authorities)
                .with_no_client_auth();
            let name = ServerName::try_from("localhost").unwrap();
            let mut client = ClientConnection::new(Arc::new(client), name).unwrap();
            client.set_buffer_limit(None);
            let (here, socket) = UnixStream::pair().unwrap();
            here.set_nonblocking(true).unwrap();
            socket.set_nonblocking(true).unwrap();
            let here = Stream::Unix(mio::net::UnixStream::from_std(here));
            let tls = ServerConnection::new(Arc::new(server)).unwrap();
            let buffer = ReadBuffer::new(64 * 1024);
            Self { session: Session::new(tls, here), buffer, client, socket }
        }

        fn open() -> Self {
            let mut ends = Self::new();
            while ends.session.is_handshaking() || ends.client.is_handshaking() {
                ends.client_turn();
                while !matches!(ends.read(), Err(ErrorKind::WouldBlock)) {}
            }
            ends
        }

        fn read(&mut self) -> std::result::Result<Arrival, ErrorKind> {
            self.session.read(&mut self.buffer).map_err(|error| error.kind())
        }

        /// The client sends what it has to send, and returns what has come.
        fn client_turn(&mut self) -> Vec<u8> {
            let mut came = Vec::new();
            loop {
                while self.client.wants_write() && self.client.write_tls(&mut self.socket).is_ok() {
                }
                if !matches!(self.client.read_tls(&mut self.socket), Ok(1..)) {
                    return came;
                }
                self.client.process_new_packets().unwrap();
                let _until_it_would_wait = self.client.reader().read_to_end(&mut came);
            }
        }

        fn client_sends(&mut self, bytes: &[u8]) {
            self.client.writer().write_all(bytes).unwrap();
        }
    }

    #[test]
    fn what_is_written_counts_when_the_socket_has_taken_it_and_comes_once() {
        let mut ends = Ends::open();
        let all: Vec<u8> = (0..3_000_000_u32).map(|at| (at % 251) as u8).collect();
        let (mut sent, mut came, mut waits) = (0, Vec::new(), 0);
        while sent < all.len() {
            // In pieces, and less each time than the socket takes.
            let middle = (sent + 1000).min(all.len());
            let end = (middle + 200_000).min(all.len());
            let pieces = [IoSlice::new(&all[sent..middle]), IoSlice::new(&all[middle..end])];
            match ends.session.write(&pieces) {
                Ok(count) => {
                    assert!((1..=BUFFERED_BYTES_MAX).contains(&count), "{count}");
                    sent += count;
                }
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::WouldBlock);
                    waits += 1;
                    came.extend(ends.client_turn());
                    assert!(came.len() >= sent, "what was sent has come");
                }
            }
        }
        came.extend(ends.client_turn());
        assert!(waits > 3 && came == all, "{waits} {}", came.len());
    }

    #[test]
    fn what_comes_with_the_handshake_and_with_the_end_is_read() {
        let mut ends = Ends::new();
        ends.client_sends(b"early");
        let mut arrivals = Vec::new();
        while arrivals.len() < 2 {
            ends.client_turn();
            match ends.read() {
                Ok(Arrival::Bytes { count: 0, .. }) | Err(ErrorKind::WouldBlock) => {}
                arrival => arrivals.push(arrival.unwrap()),
            }
        }
        let early = Arrival::Bytes { count: 5, is_drained: false };
        assert_eq!(arrivals, [Arrival::Opened, early]);
        assert_eq!(ends.buffer.first(5), b"early");
        // A large piece comes in several, each of which says that there is more, but the last.
        let large = vec![7; 150_000];
        ends.client_sends(&large);
        let mut total = 0;
        while total < large.len() {
            ends.client_turn();
            match ends.read() {
                Ok(Arrival::Bytes { count, .. }) => total += count,
                other => assert_eq!(other, Err(ErrorKind::WouldBlock)),
            }
        }
        ends.client_sends(b"last");
        ends.client.send_close_notify();
        ends.client_turn();
        let last = Arrival::Bytes { count: 4, is_drained: false };
        assert_eq!((ends.read(), ends.read()), (Ok(last), Ok(Arrival::End)));
        // The other direction is open still, and then the end is said.
        assert_eq!(ends.session.write(&[IoSlice::new(b"bye")]).unwrap(), 3);
        let Ends { session, client, socket, .. } = ends;
        drop(session);
        let mut stream = rustls::StreamOwned::new(client, socket);
        let mut said = String::new();
        stream.read_to_string(&mut said).unwrap();
        assert_eq!(said, "bye");
    }

    #[test]
    fn what_is_no_tls_is_an_error_and_is_not_answered() {
        for bytes in [&b"PING\r\n"[..], b"*1\r\n$4\r\nPING\r\n", &[0x16, 3, 1, 0, 4, 1, 0, 0, 0]] {
            let mut ends = Ends::new();
            ends.socket.write_all(bytes).unwrap();
            assert_eq!(ends.read(), Err(ErrorKind::InvalidData));
            let Ends { session, mut socket, .. } = ends;
            drop(session);
            let mut said = Vec::new();
            // The end, or a reset.
            let _end = socket.read_to_end(&mut said);
            assert!(said.is_empty(), "{said:?}");
        }
    }
}
