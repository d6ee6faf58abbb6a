//! Errors of a transfer as a whole. Failures of single files are in the [`crate::Report`]; the
//! other files continue.

use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use env::FileError;

use crate::relative_path::{PathError, printable};

/// Why a transfer did not start, or broke off.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file or directory of this end cannot be used.
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
    /// The other end has refused the transfer, with this reason.
    #[error("the other end refuses: {0}")]
    Refused(String),
    /// This end refuses: too many bytes, no room.
    #[error("{0}")]
    Refusing(String),
    /// This end refuses a path.
    #[error(transparent)]
    Path(#[from] PathError),
    /// The other end has violated the protocol.
    #[error("the other end violates the transfer protocol: {0}")]
    Protocol(String),
    /// The connection ended before the transfer did.
    #[error("the connection broke off; run the same command again to resume")]
    BrokenOff,
    /// The two ends have different tokens, or one of them has none.
    #[error("the tokens of the two ends do not match: {0}")]
    Token(String),
}

/// The result type of this crate.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// Wraps the error of a failed call with its context.
    pub(crate) fn io(what: impl Into<String>, source: impl Into<io::Error>) -> Self {
        Self::Io { what: what.into(), source: source.into() }
    }

    /// Returns a constructor for the error of a failed operation on a file, for `map_err`. A path
    /// may be the other end's: what would control a terminal is escaped.
    pub(crate) fn on<E: Into<io::Error>>(
        path: impl AsRef<Path>,
        doing: &'static str,
    ) -> impl FnOnce(E) -> Self {
        move |source| {
            let path = printable(path.as_ref().as_os_str().as_bytes());
            FileError::io(Path::new(&path), doing)(source.into()).into()
        }
    }

    /// Creates an error for bytes that no correct peer sends.
    pub(crate) fn protocol(what: impl Into<String>) -> Self {
        Self::Protocol(what.into())
    }

    /// Converts an error of the socket: its end means a transfer that broke off.
    pub(crate) fn connection(source: io::Error) -> Self {
        match source.kind() {
            io::ErrorKind::UnexpectedEof
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::ConnectionAborted
            | io::ErrorKind::NotConnected
            | io::ErrorKind::BrokenPipe => Self::BrokenOff,
            io::ErrorKind::InvalidData => Self::Token(source.to_string()),
            _ => Self::io("connection", source),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_named_and_its_name_controls_no_terminal() {
        let error = Error::on("a/\x1b[2Jb", "open")(io::Error::from(io::ErrorKind::NotFound));
        assert_eq!(error.to_string(), "cannot open a/\\u{1b}[2Jb: entity not found");
        assert!(matches!(error, Error::File(FileError::Io { doing: "open", .. })), "{error:?}");
    }
}
