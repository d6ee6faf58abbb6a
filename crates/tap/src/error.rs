//! Errors, each with what a person needs to do about it.

use std::io;
use std::path::{Path, PathBuf};

use crate::entry::Position;

/// Why the log of requests cannot be written, read, filled or replayed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A call of the operating system failed.
    #[error("{what}: {source}")]
    Io {
        /// The operation, and its file.
        what: String,
        /// The system's error.
        source: io::Error,
    },
    /// Durable bytes of the log have changed.
    #[error("{}: damaged at byte {offset}: {what}", path.display())]
    Corrupt {
        /// The file.
        path: PathBuf,
        /// Where in it.
        offset: u64,
        /// What is wrong there.
        what: String,
    },
    /// The log was written by a newer program.
    #[error("{}: version {version} of the format; this program reads version 1", path.display())]
    Newer {
        /// The file.
        path: PathBuf,
        /// Its version.
        version: u32,
    },
    /// Another process is writing the log.
    #[error("{}: another process writes this log", dir.display())]
    InUse {
        /// The directory.
        dir: PathBuf,
    },
    /// There is no log.
    #[error("{}: there is no log of requests here", dir.display())]
    NoLog {
        /// The directory.
        dir: PathBuf,
    },
    /// Requested entries have been removed because they exceeded the retention limits.
    #[error(
        "{}: the log begins with request {}; requests after {} were removed",
        dir.display(), first.0, since.0
    )]
    Removed {
        /// The directory.
        dir: PathBuf,
        /// The request after which reading should have begun.
        since: Position,
        /// The first request in the log.
        first: Position,
    },
    /// The directory has the log of another protocol.
    #[error("{}: this is a log of {found}, not of {wanted}", dir.display())]
    OtherProtocol {
        /// The directory.
        dir: PathBuf,
        /// The protocol of the log.
        found: String,
        /// The requested protocol.
        wanted: String,
    },
    /// The target server misbehaves.
    #[error("{what}")]
    Server {
        /// What it does, or fails to do.
        what: String,
    },
    /// The kernel does not let this process see packets.
    #[error(
        "capturing packets needs the capability CAP_NET_RAW: run this as root, from the systemd unit, or \
         after `setcap cap_net_raw+ep` on the program"
    )]
    MayNotCapture,
    /// No network interface has this name.
    #[error("there is no network interface '{interface}'; `ip link` lists them")]
    NoInterface {
        /// The name.
        interface: String,
    },
    /// A connection is encrypted, so nothing in it can be read.
    #[error(
        "the connection of {client} to {server} is encrypted (TLS), so its requests cannot be read: \
         terminate TLS in front of this machine, or use a log in the server"
    )]
    Encrypted {
        /// The client's end.
        client: std::net::SocketAddr,
        /// The server's end.
        server: std::net::SocketAddr,
    },
    /// The interface is down, or has disappeared.
    #[error("the network interface '{interface}' is down or has disappeared")]
    InterfaceDown {
        /// The name.
        interface: String,
    },
}

/// The result type of this crate.
pub type Result<T> = std::result::Result<T, Error>;

impl From<env::FailedStep> for Error {
    fn from(failed: env::FailedStep) -> Self {
        Self::io(failed.path.display().to_string(), failed.source)
    }
}

impl Error {
    /// Wraps the error of a failed call with its context.
    pub(crate) fn io(what: impl Into<String>, source: impl Into<io::Error>) -> Self {
        Self::Io { what: what.into(), source: source.into() }
    }

    /// Wraps the error of a failed call on a file; for `map_err`.
    pub(crate) fn on(path: &Path) -> impl FnOnce(io::Error) -> Self + '_ {
        move |source| Self::io(path.display().to_string(), source)
    }

    /// Whether the disk is full: the call may succeed once there is room.
    #[must_use]
    pub fn is_storage_full(&self) -> bool {
        matches!(self, Self::Io { source, .. } if source.kind() == io::ErrorKind::StorageFull)
    }
}
