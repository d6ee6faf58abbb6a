//! Errors, each with what a person needs to do about it.

use std::io;
use std::path::{Path, PathBuf};

use env::FileError;

use crate::entry::Position;

/// Why the log of requests cannot be written, read, filled or replayed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file of the log cannot be used.
    #[error(transparent)]
    File(#[from] FileError),
    /// A call of the operating system failed that is about no file.
    #[error("{what}: {source}")]
    Io {
        /// The operation.
        what: String,
        /// The system's error.
        source: io::Error,
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

impl Error {
    /// Wraps the error of a failed call with its context.
    pub(crate) fn io(what: impl Into<String>, source: impl Into<io::Error>) -> Self {
        Self::Io { what: what.into(), source: source.into() }
    }

    /// Wraps the error of a failed call on a file; for `map_err`.
    pub(crate) fn on(path: &Path, doing: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| FileError::io(path, doing)(source).into()
    }

    /// Creates an error for damage.
    pub(crate) fn corrupt(path: &Path, offset: u64, what: &str) -> Self {
        let remedy = "restore the file from a backup, or begin a new log in another directory";
        FileError::Corrupt { path: path.to_owned(), offset, what: what.to_owned(), remedy }.into()
    }

    /// Whether the disk is full: the call may succeed once there is room.
    #[must_use]
    pub fn is_storage_full(&self) -> bool {
        matches!(self, Self::File(error) if error.is_storage_full())
    }
}
