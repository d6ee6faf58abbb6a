//! Connections to targets over TCP.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream, ToSocketAddrs};
use std::sync::mpsc;
use std::thread::Builder;
use std::time::{Duration, Instant};

use super::wire::{Dialer, Wire};

/// An answer is a line, and none is longer.
const LINE_BYTES_MAX: usize = 64 << 10;

const READ_BYTES: usize = 4096;

/// See the file's top.
pub(super) struct TcpDialer;

impl Dialer for TcpDialer {
    fn dial(&mut self, host: &str, port: u16, timeout: Duration) -> io::Result<Box<dyn Wire>> {
        let until = Instant::now() + timeout;
        let mut failure = ErrorKind::NotFound.into();
        for address in resolve(host, port, timeout)? {
            let connected = left(until).and_then(|left| TcpStream::connect_timeout(&address, left));
            match connected {
                Ok(stream) => {
                    stream.set_nodelay(true)?;
                    let (received, at) = (Vec::new(), 0);
                    return Ok(Box::new(TcpWire { stream, timeout, received, at }));
                }
                Err(error) => failure = error,
            }
        }
        Err(failure)
    }
}

/// The addresses of a host. The system's resolver has timeouts of its own: it is left to itself when it takes longer than
/// ours.
fn resolve(host: &str, port: u16, timeout: Duration) -> io::Result<Vec<SocketAddr>> {
    if let Ok(address) = host.parse::<IpAddr>() {
        return Ok(vec![SocketAddr::new(address, port)]);
    }
    let (told, answer) = mpsc::channel();
    let host = host.to_owned();
    let ask = move || {
        let found = (host.as_str(), port).to_socket_addrs().map(Vec::from_iter);
        // It may be too late.
        let _gone = told.send(found);
    };
    Builder::new().name("resolver".to_owned()).spawn(ask)?;
    answer.recv_timeout(timeout).map_err(|_| ErrorKind::TimedOut)?
}

/// How long it is until then.
fn left(until: Instant) -> io::Result<Duration> {
    let left = until.saturating_duration_since(Instant::now());
    if left.is_zero() { Err(ErrorKind::TimedOut.into()) } else { Ok(left) }
}

struct TcpWire {
    stream: TcpStream,
    timeout: Duration,
    /// What has come, and how much of it was returned.
    received: Vec<u8>,
    at: usize,
}

impl Wire for TcpWire {
    fn send(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        let until = Instant::now() + self.timeout;
        while !bytes.is_empty() {
            self.stream.set_write_timeout(Some(left(until)?))?;
            match self.stream.write(bytes) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(count) => bytes = &bytes[count..],
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
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
            self.stream.set_read_timeout(Some(left(until)?))?;
            self.received.resize(looked_at + READ_BYTES, 0);
            let read = self.stream.read(&mut self.received[looked_at..]);
            self.received.truncate(looked_at + read.as_ref().map_or(0, |count| *count));
            match read {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Err(error) if error.kind() != ErrorKind::Interrupted => return Err(error),
                _ => {}
            }
        }
    }
}
