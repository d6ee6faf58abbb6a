//! What can go wrong, each with what a person needs to do about it.

use std::io;
use std::path::{Path, PathBuf};

use crate::entry::Position;

/// Why the log of requests cannot be written, read, filled or replayed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A call of the operating system failed.
    #[error("{what}: {source}")]
    Io {
        /// What was being done, and to which file.
        what: String,
        /// How it failed.
        source: io::Error,
    },
    /// Bytes of the log that were durable are not what was written.
    #[error("{}: damaged at byte {offset}: {what}", path.display())]
    Corrupt {
        /// The file.
        path: PathBuf,
        /// Where in it.
        offset: u64,
        /// What is wrong there.
        what: String,
    },
    /// The log was written by a program that came after this one.
    #[error("{}: version {version} of the format; this program reads version 1", path.display())]
    Newer {
        /// The file.
        path: PathBuf,
        /// Its version.
        version: u32,
    },
    /// Another process writes the log already.
    #[error("{}: another process writes this log", dir.display())]
    InUse {
        /// The directory.
        dir: PathBuf,
    },
    /// There is no log.
    #[error("{}: no log of requests is here", dir.display())]
    NoLog {
        /// The directory.
        dir: PathBuf,
    },
    /// Requests that were asked for have been removed, as they were older than what is kept.
    #[error(
        "{}: the log begins with request {}; requests after {} were removed",
        dir.display(), first.0, since.0
    )]
    Removed {
        /// The directory.
        dir: PathBuf,
        /// After which request reading should have begun.
        since: Position,
        /// The first request that is there.
        first: Position,
    },
    /// The directory has the log of another protocol.
    #[error("{}: is a log of {found}, not of {wanted}", dir.display())]
    OtherProtocol {
        /// The directory.
        dir: PathBuf,
        /// What it is a log of.
        found: String,
        /// What was asked for.
        wanted: String,
    },
    /// The server that requests are sent to does not do what it must.
    #[error("{what}")]
    Server {
        /// What it does, or does not.
        what: String,
    },
    /// The kernel does not let this process see packets.
    #[error(
        "capturing packets needs the capability CAP_NET_RAW: run this as root, from the systemd unit, or \
         after `setcap cap_net_raw+ep` on the program"
    )]
    MayNotCapture,
    /// There is no network interface of that name.
    #[error("there is no network interface '{interface}'; `ip link` lists them")]
    NoInterface {
        /// The name.
        interface: String,
    },
    /// A connection is encrypted: nothing in it can be read.
    #[error(
        "the connection of {client} to {server} is encrypted (TLS), so its requests cannot be read: let \
         clients connect without TLS on this machine's side of whatever ends it, or use a real log"
    )]
    Encrypted {
        /// The client's end.
        client: std::net::SocketAddr,
        /// The server's end.
        server: std::net::SocketAddr,
    },
    /// The interface is down, or has gone.
    #[error("the network interface '{interface}' is down or has gone")]
    InterfaceDown {
        /// The name.
        interface: String,
    },
}

/// A result of this crate.
pub type Result<T> = std::result::Result<T, Error>;

impl From<env::FailedStep> for Error {
    fn from(failed: env::FailedStep) -> Self {
        Self::io(failed.path.display().to_string(), failed.source)
    }
}

impl Error {
    /// A failed call, with what it was about.
    pub(crate) fn io(what: impl Into<String>, source: impl Into<io::Error>) -> Self {
        Self::Io { what: what.into(), source: source.into() }
    }

    /// A failed call on a file; for use in `map_err`.
    pub(crate) fn on(path: &Path) -> impl FnOnce(io::Error) -> Self + '_ {
        move |source| Self::io(path.display().to_string(), source)
    }

    /// Whether the disk is full: the same call may go well once there is room again.
    #[must_use]
    pub fn is_storage_full(&self) -> bool {
        matches!(self, Self::Io { source, .. } if source.kind() == io::ErrorKind::StorageFull)
    }
}
