//! Connections to targets over TCP.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream, ToSocketAddrs};
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, mpsc};
use std::thread::Builder;
use std::time::{Duration, Instant};

use super::desk::GivenUp;
use super::threads::Held;
use super::wire::{Dialer, Wire};

/// An answer is a line, and none is longer.
const LINE_BYTES_MAX: usize = 64 << 10;

const READ_BYTES: usize = 4096;

/// After so long it is looked whether a connection is still wanted.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// See the file's top.
pub(super) struct TcpDialer {
    given_up: Arc<GivenUp>,
    threads: Arc<AtomicUsize>,
}

impl TcpDialer {
    /// Connections that end when they are given up; what looks up names counts in `threads`.
    pub(super) fn new(given_up: GivenUp, threads: Arc<AtomicUsize>) -> Self {
        Self { given_up: Arc::new(given_up), threads }
    }
}

impl Dialer for TcpDialer {
    fn dial(&mut self, host: &str, port: u16, timeout: Duration) -> io::Result<Box<dyn Wire>> {
        let until = Instant::now() + timeout;
        let mut failure = ErrorKind::NotFound.into();
        for address in self.resolve(host, port, timeout)? {
            let connected = left(until).and_then(|left| TcpStream::connect_timeout(&address, left));
            match connected {
                Ok(stream) => {
                    stream.set_nodelay(true)?;
                    let (received, at) = (Vec::new(), 0);
                    let given_up = Arc::clone(&self.given_up);
                    return Ok(Box::new(TcpWire { stream, timeout, given_up, received, at }));
                }
                Err(error) => failure = error,
            }
        }
        Err(failure)
    }
}

impl TcpDialer {
    /// The addresses of a host. The system's resolver has timeouts of its own: it is left to itself when it takes longer than
    /// ours.
    fn resolve(&self, host: &str, port: u16, timeout: Duration) -> io::Result<Vec<SocketAddr>> {
        if let Ok(address) = host.parse::<IpAddr>() {
            return Ok(vec![SocketAddr::new(address, port)]);
        }
        let held = Held::of(&self.threads)?;
        let (told, answer) = mpsc::channel();
        let host = host.to_owned();
        let ask = move || {
            let _held = held;
            let found = (host.as_str(), port).to_socket_addrs().map(Vec::from_iter);
            // It may be too late.
            let _gone = told.send(found);
        };
        Builder::new().name("resolver".to_owned()).spawn(ask)?;
        answer.recv_timeout(timeout).map_err(|_| ErrorKind::TimedOut)?
    }
}

/// How long it is until then.
fn left(until: Instant) -> io::Result<Duration> {
    let left = until.saturating_duration_since(Instant::now());
    if left.is_zero() { Err(ErrorKind::TimedOut.into()) } else { Ok(left) }
}

struct TcpWire {
    stream: TcpStream,
    timeout: Duration,
    given_up: Arc<GivenUp>,
    /// What has come, and how much of it was returned.
    received: Vec<u8>,
    at: usize,
}

impl TcpWire {
    /// How long to wait at a time.
    fn wait(&self, until: Instant) -> io::Result<Option<Duration>> {
        if self.given_up.is() {
            return Err(ErrorKind::TimedOut.into());
        }
        Ok(Some(left(until)?.min(LOOK_EVERY)))
    }
}

/// Whether a wait has come to its end, or was interrupted: the next one says whether it goes on.
fn is_over(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted)
}

impl Wire for TcpWire {
    fn send(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        let until = Instant::now() + self.timeout;
        while !bytes.is_empty() {
            self.stream.set_write_timeout(self.wait(until)?)?;
            match self.stream.write(bytes) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(count) => bytes = &bytes[count..],
                Err(error) if is_over(&error) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn line(&mut self) -> io::Result<Vec<u8>> {
        let until = Instant::now() + self.timeout;
        let mut looked_at = self.at;
        loop {
            if let Some(end) = self.received[looked_at..].iter().position(|byte| *byte == b'\n') {
                let line = &self.received[self.at..looked_at + end];
                let line = line.strip_suffix(b"\r").unwrap_or(line).to_vec();
                self.at = looked_at + end + 1;
                return Ok(line);
            }
            self.received.drain(..std::mem::take(&mut self.at));
            looked_at = self.received.len();
            if looked_at > LINE_BYTES_MAX {
                return Err(ErrorKind::InvalidData.into());
            }
            self.stream.set_read_timeout(self.wait(until)?)?;
            self.received.resize(looked_at + READ_BYTES, 0);
            let read = self.stream.read(&mut self.received[looked_at..]);
            self.received.truncate(looked_at + read.as_ref().map_or(0, |count| *count));
            match read {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Err(error) if !is_over(&error) => return Err(error),
                _ => {}
            }
        }
    }
}
