//! The two ends: a server that serves one directory in both directions, and a client that sends to
//! it and fetches from it.
//!
//! Without a token, any program that can connect may read and write the directory. So every address
//! except loopback requires a token, unless the user explicitly disables it ([`Trust::Anybody`]).

use std::fmt;
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::connection::Connection;
use crate::error::{Error, Result};
use crate::expectations::Expectations;
use crate::greetings::Greetings;
use crate::message::{Message, Verification, Wish};
use crate::progress::Progress;
use crate::receiver::{read_entries, receive};
use crate::relative_path::{PathError, RelativePath};
use crate::report::Report;
use crate::scheme::Scheme;
use crate::sender;
use crate::session::{Session, Shared};
use crate::source::Source;
use crate::staging::Staging;
use crate::tls::Side;
use crate::token::Token;
use crate::tree::{Limits, Tree};

/// The delay before accepting is retried, and the interval of log lines about failures.
const ACCEPT_AGAIN: Duration = Duration::from_millis(50);
const SAID_AGAIN: Duration = Duration::from_secs(1);
/// Simultaneous transfers, at most; further clients are refused.
const TRANSFERS_MAX: usize = 64;
/// The time that an address has to answer a connection.
const CONNECT_PATIENCE: Duration = Duration::from_secs(20);

/// Which peers an end trusts.
#[derive(Debug, Clone)]
pub enum Trust {
    /// Peers with the same token; everything is encrypted.
    Token(Token),
    /// Peers on this machine.
    Loopback,
    /// Any peer that can connect, unencrypted.
    Anybody,
}

impl Trust {
    fn token(&self) -> Option<&Token> {
        match self {
            Trust::Token(token) => Some(token),
            Trust::Loopback | Trust::Anybody => None,
        }
    }

    /// Checks whether an address is trusted.
    fn check(&self, address: IpAddr) -> Result<()> {
        if matches!(self, Trust::Loopback) && !address.to_canonical().is_loopback() {
            return Err(Error::Refusing(format!(
                "{address} is not loopback: a token is wanted (`indelible transfer token` makes one; \
                 give it to both ends with --token-file or in INDELIBLE_TRANSFER_TOKEN)"
            )));
        }
        Ok(())
    }
}

/// What holders of the token may do in sessions, in which archives are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Sessions {
    /// There are none.
    No,
    /// Files are put and read, and nothing is removed or replaced: so nothing is received but in sessions.
    Append,
    /// Everything.
    #[default]
    All,
}

/// The configuration of a server.
#[derive(Debug, Clone)]
pub struct Service {
    /// The directory to receive into and send from.
    pub dir: PathBuf,
    /// The peers that it trusts.
    pub trust: Trust,
    /// Limits on what it receives.
    pub limits: Limits,
    /// Memory for the buffers of one transfer.
    pub memory_bytes: u64,
    /// The size of the device's cache, for sessions; 0 means a thousandth of its capacity.
    pub device_cache_bytes: u64,
    /// What may be done in sessions.
    pub sessions: Sessions,
}

impl Service {
    /// Why what is wished for is not done here; `None` if it is.
    const fn refusal(&self, wish: &Wish) -> Option<&'static str> {
        match (wish, self.sessions) {
            (Wish::Session { .. }, Sessions::No) => {
                Some("this server serves no sessions, so no archives (--sessions)")
            }
            (Wish::Send { .. }, Sessions::Append) => Some(
                "this server keeps archives, and nothing is replaced there (--sessions append): send to another one",
            ),
            _ => None,
        }
    }
}

/// A server, listening.
pub struct Server {
    listener: TcpListener,
    service: Service,
    staging: Arc<Staging>,
    expectations: Arc<Expectations>,
    greetings: Greetings,
    failed_greetings: FailedGreetings,
    transfers: AtomicUsize,
}

impl Server {
    /// Listens on `address`, and locks the directory.
    ///
    /// # Errors
    /// If the address is unavailable or requires a token; if the directory cannot be used, or
    /// another process receives into it.
    pub fn bind(address: &str, service: Service) -> Result<Self> {
        let failed = |error| Error::io(address, error);
        let addresses: Vec<SocketAddr> = address.to_socket_addrs().map_err(failed)?.collect();
        addresses.iter().try_for_each(|address| service.trust.check(address.ip()))?;
        let staging = Staging::open(&service.dir)?;
        let listener = TcpListener::bind(addresses.as_slice()).map_err(failed)?;
        Ok(Self {
            listener,
            service,
            staging,
            expectations: Arc::default(),
            greetings: Greetings::default(),
            failed_greetings: FailedGreetings::default(),
            transfers: AtomicUsize::new(0),
        })
    }

    /// The address on which it listens.
    ///
    /// # Errors
    /// The error of the operating system.
    pub fn address(&self) -> Result<SocketAddr> {
        self.listener.local_addr().map_err(|error| Error::io("socket", error))
    }

    /// Serves until the process ends; `log` receives a line for each transfer.
    ///
    /// # Errors
    /// If the socket can never accept connections.
    pub fn run(&self, log: &(dyn Fn(&str) + Sync)) -> Result<()> {
        thread::scope(|scope| {
            scope.spawn(|| self.greetings.watch());
            let mut said_at = None;
            let why = loop {
                let accepted = self.listener.accept().and_then(|(socket, peer)| {
                    thread::Builder::new().spawn_scoped(scope, move || {
                        match self.transfer(socket) {
                            Ok((what, summary)) => log(&format!("{peer}: {what}: {summary}")),
                            Err(Failure::Greeting(error)) => {
                                if let Some(before) = self.failed_greetings.tell() {
                                    log(&format!("{peer}: {error}{before}"));
                                }
                            }
                            Err(Failure::Transfer(error)) => log(&format!("{peer}: {error}")),
                        }
                    })
                });
                let Err(error) = accepted else { continue };
                if is_of_the_listener(&error) {
                    break error;
                }
                // No descriptors, no memory, no thread, a peer that is gone: temporary failures.
                if said_at.is_none_or(|at: Instant| at.elapsed() >= SAID_AGAIN) {
                    said_at = Some(Instant::now());
                    log(&format!("cannot accept a connection: {error}; retrying"));
                }
                thread::sleep(ACCEPT_AGAIN);
            };
            self.greetings.close();
            Err(Error::io("accept", why))
        })
    }

    /// Serves one connection.
    fn transfer(&self, socket: TcpStream) -> std::result::Result<(&'static str, String), Failure> {
        let (connection, verification, wish) = self.greet(socket).map_err(Failure::Greeting)?;
        self.serve(connection, verification, wish).map_err(Failure::Transfer)
    }

    /// Authenticates the client and reads its request.
    fn greet(&self, socket: TcpStream) -> Result<(Connection, Verification, Wish)> {
        let _greeting =
            self.greetings.begin(&socket).map_err(|error| Error::io("socket", error))?;
        let mut connection = Connection::new(socket, self.service.trust.token(), Side::Server)?;
        let Message::Hello { verification, wish } = connection.reader.next()? else {
            return Err(Error::protocol("no greeting"));
        };
        connection.hangup.greeted()?;
        Ok((connection, verification, wish))
    }

    /// Serves the request.
    fn serve(
        &self,
        mut connection: Connection,
        verification: Verification,
        wish: Wish,
    ) -> Result<(&'static str, String)> {
        let Some(_place) = Place::take(&self.transfers) else {
            let why = format!("{TRANSFERS_MAX} transfers are running; retry later");
            return Err(refuse(&mut connection, Error::Refusing(why)));
        };
        if let Some(why) = self.service.refusal(&wish) {
            return Err(refuse(&mut connection, Error::Refusing(why.to_owned())));
        }
        connection.writer.send(&Message::Welcome)?;
        match wish {
            Wish::Send { into } => {
                let report = receive_into(
                    connection,
                    &self.staging,
                    into,
                    verification,
                    &self.service.limits,
                    self.service.memory_bytes,
                    &Progress::default(),
                )?;
                Ok(("received", summary(&report)))
            }
            Wish::Session { into } => {
                let own = Some(self.service.device_cache_bytes).filter(|bytes| *bytes > 0);
                let device_cache_bytes = own.unwrap_or(verification.device_cache_bytes);
                let shared = Shared {
                    staging: Arc::clone(&self.staging),
                    expectations: Arc::clone(&self.expectations),
                    limits: self.service.limits,
                    may_remove: self.service.sessions == Sessions::All,
                };
                let session = Session::new(connection, shared, into, device_cache_bytes);
                Ok(("served a session", session.run()?.to_string()))
            }
            Wish::Fetch { paths } => {
                let source = Source::below(&self.service.dir, &paths);
                let source = source.map_err(|error| refuse(&mut connection, error))?;
                let progress = Progress::default();
                let report = sender::send(connection, &source, verification.scheme, &progress)?;
                Ok(("sent", summary(&report)))
            }
        }
    }
}

/// The stage at which a connection has failed.
enum Failure {
    /// Before authentication.
    Greeting(Error),
    Transfer(Error),
}

/// Logs failed greetings at most once a second, because clients determine their number.
#[derive(Default)]
struct FailedGreetings(Mutex<(Option<Instant>, u64)>);

impl FailedGreetings {
    /// Returns the suffix about unlogged failures if this one is to be logged.
    fn tell(&self) -> Option<String> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (told_at, untold) = &mut *state;
        if told_at.is_some_and(|at| at.elapsed() < SAID_AGAIN) {
            *untold += 1;
            return None;
        }
        *told_at = Some(Instant::now());
        Some(match std::mem::take(untold) {
            0 => String::new(),
            before => format!(" ({before} more before it)"),
        })
    }
}

/// One of the slots for simultaneous transfers.
struct Place<'a>(&'a AtomicUsize);

impl<'a> Place<'a> {
    fn take(taken: &'a AtomicUsize) -> Option<Self> {
        let place = Self(taken);
        // Dropping it corrects the count.
        (taken.fetch_add(1, Ordering::Relaxed) < TRANSFERS_MAX).then_some(place)
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Whether the listener can never accept again.
fn is_of_the_listener(error: &std::io::Error) -> bool {
    use rustix::io::Errno;
    let of_the_listener = [Errno::BADF, Errno::INVAL, Errno::NOTSOCK, Errno::OPNOTSUPP];
    Errno::from_io_error(error).is_some_and(|error| of_the_listener.contains(&error))
}

fn summary(report: &Report) -> String {
    let failed = match report.failures.len() {
        0 => String::new(),
        failed => format!(", {failed} failed"),
    };
    format!(
        "{} files, {} bytes, {} verified{failed}, {:.1} s",
        report.files, report.bytes, report.verified_bytes, report.seconds
    )
}

/// Sends the other end the reason for the refusal, and hangs up.
fn refuse(connection: &mut Connection, error: Error) -> Error {
    // If the connection is what failed, this does not arrive.
    let _unsent = connection.writer.send(&Message::Refuse { why: error.to_string() });
    connection.hangup.after_refusal(&mut connection.reader);
    error
}

/// Receives a transfer over a connection into a directory.
fn receive_into(
    mut connection: Connection,
    staging: &Arc<Staging>,
    into: Option<RelativePath>,
    verification: Verification,
    limits: &Limits,
    memory_bytes: u64,
    progress: &Progress,
) -> Result<Report> {
    let prepared = read_entries(&mut connection.reader).and_then(|entries| {
        let entries = Arc::new(entries);
        let displaces = verification.scheme.waits_for_displacement();
        let filler = displaces.then_some(verification.device_cache_bytes);
        Ok((Tree::prepare(staging, into, &entries, limits, filler)?, entries))
    });
    let (tree, entries) = match prepared {
        Err(error @ (Error::BrokenOff | Error::Refused(_))) => return Err(error),
        other => other.map_err(|error| refuse(&mut connection, error))?,
    };
    receive(connection, entries, &tree, verification, memory_bytes, progress)
}

/// A server as a client names it: `HOST:PORT`, or `HOST:PORT/path` for something below its directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Remote {
    address: String,
    path: Option<RelativePath>,
}

/// Why a text names no server.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
pub enum RemoteError {
    /// There is no host, or no port.
    #[error("'{0}' is not HOST:PORT or HOST:PORT/path")]
    Address(String),
    /// The path behind the port is refused.
    #[error(transparent)]
    Path(#[from] PathError),
}

impl Remote {
    /// The directory, or file, below the server's own.
    #[must_use]
    pub fn path(&self) -> Option<&RelativePath> {
        self.path.as_ref()
    }
}

impl FromStr for Remote {
    type Err = RemoteError;

    fn from_str(text: &str) -> std::result::Result<Self, RemoteError> {
        let (address, path) = text.split_once('/').unwrap_or((text, ""));
        let port = address.rsplit_once(':').map(|(_, port)| port.parse::<u16>());
        if !matches!(port, Some(Ok(_))) {
            return Err(RemoteError::Address(text.to_owned()));
        }
        let path = path.trim_end_matches('/');
        let path = if path.is_empty() { None } else { Some(RelativePath::new(path)?) };
        Ok(Self { address: address.to_owned(), path })
    }
}

impl fmt::Display for Remote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.address)
    }
}

/// Connects and sends the request.
pub(crate) fn connect(
    remote: &Remote,
    trust: &Trust,
    verification: Verification,
    wish: Wish,
) -> Result<Connection> {
    let failed = |error| Error::io(remote.to_string(), error);
    let mut last = None;
    for address in remote.address.to_socket_addrs().map_err(failed)? {
        trust.check(address.ip())?;
        match TcpStream::connect_timeout(&address, CONNECT_PATIENCE) {
            Err(error) => last = Some(error),
            Ok(socket) => {
                let mut connection = Connection::new(socket, trust.token(), Side::Client)?;
                connection.writer.send(&Message::Hello { verification, wish })?;
                return match connection.reader.next()? {
                    Message::Welcome => {
                        connection.hangup.greeted()?;
                        Ok(connection)
                    }
                    Message::Refuse { why } => Err(Error::Refused(why)),
                    _ => Err(Error::protocol("no greeting")),
                };
            }
        }
    }
    Err(failed(last.unwrap_or_else(|| std::io::ErrorKind::NotFound.into())))
}

/// Sends files and trees to a server.
///
/// # Errors
/// If the transfer as a whole failed; failures of single files are in the report.
pub fn send(
    paths: &[PathBuf],
    remote: &Remote,
    trust: &Trust,
    verification: Verification,
    progress: &Progress,
) -> Result<Report> {
    let source = Source::of_paths(paths)?;
    let wish = Wish::Send { into: remote.path.clone() };
    let connection = connect(remote, trust, verification, wish)?;
    sender::send(connection, &source, verification.scheme, progress)
}

/// Fetches what [`Remote`] names from a server into a directory.
///
/// # Errors
/// As [`send`].
pub fn fetch(
    remote: &Remote,
    dir: &Path,
    trust: &Trust,
    verification: Verification,
    limits: &Limits,
    memory_bytes: u64,
    progress: &Progress,
) -> Result<Report> {
    let staging = Staging::open(dir)?;
    let wish = Wish::Fetch { paths: remote.path.iter().cloned().collect() };
    let connection = connect(remote, trust, verification, wish)?;
    receive_into(connection, &staging, None, verification, limits, memory_bytes, progress)
}

/// Receives one transfer from a connected socket into any [`crate::Destination`]: for tests on
/// simulated devices. `destination` builds it from the announced entries.
///
/// # Errors
/// As [`send`].
pub fn receive_one<D: crate::Destination>(
    socket: TcpStream,
    memory_bytes: u64,
    destination: impl FnOnce(Arc<Vec<crate::Entry>>) -> D,
) -> Result<Report> {
    let mut connection = Connection::new(socket, None, Side::Server)?;
    let Message::Hello { verification, .. } = connection.reader.next()? else {
        return Err(Error::protocol("no greeting"));
    };
    connection.hangup.greeted()?;
    connection.writer.send(&Message::Welcome)?;
    let entries = Arc::new(read_entries(&mut connection.reader)?);
    let destination = destination(Arc::clone(&entries));
    receive(connection, entries, &destination, verification, memory_bytes, &Progress::default())
}

impl Default for Verification {
    fn default() -> Self {
        Self { scheme: Scheme::default(), verifiers: 0, resends_max: 3, device_cache_bytes: 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remotes_are_named_as_people_name_them() {
        let remote: Remote = "host:1234/a/b/".parse().unwrap();
        assert_eq!(
            (remote.address.as_str(), remote.path.unwrap().as_bytes()),
            ("host:1234", &b"a/b"[..])
        );
        assert_eq!("[::1]:80".parse::<Remote>().unwrap().path, None);
        for bad in ["host", "host:", "host:x/a", "host:1/../a", "host:99999"] {
            assert!(bad.parse::<Remote>().is_err(), "{bad}");
        }
    }

    #[test]
    fn only_loopback_does_without_a_token() {
        let loopback = ["127.0.0.1", "::1", "::ffff:127.0.0.1"];
        assert!(loopback.iter().all(|ip| Trust::Loopback.check(ip.parse().unwrap()).is_ok()));
        assert!(Trust::Loopback.check("192.168.1.1".parse().unwrap()).is_err());
        assert!(Trust::Loopback.check("0.0.0.0".parse().unwrap()).is_err());
    }
}
