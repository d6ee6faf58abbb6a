//! Why there is no admin page.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use thiserror::Error;

use crate::token::TOKEN_CHARS_MIN;

/// The result of what can fail here.
pub type Result<T> = std::result::Result<T, AdminError>;

/// See the file's top.
#[derive(Debug, Error)]
pub enum AdminError {
    /// The port cannot be listened to.
    #[error("admin page: cannot listen on {address}: {source}")]
    Listen {
        /// Where.
        address: SocketAddr,
        /// What the system says.
        source: io::Error,
    },
    /// `admin-bind` is no address.
    #[error("admin-bind '{text}' is no address: give one as in 127.0.0.1 or ::1")]
    Address {
        /// What it is.
        text: String,
    },
    /// The file of the token can be neither read nor made.
    #[error("admin-token-file {path}: {source}", path = path.display())]
    TokenFile {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// The file has no token that is safe to use.
    #[error(
        "admin-token-file {path} has no token: at least {TOKEN_CHARS_MIN} letters, digits or signs on one line; remove \
         the file to have one made",
        path = path.display()
    )]
    NoToken {
        /// The file.
        path: PathBuf,
    },
    /// The file is none to keep a token in, or another user could replace what it says.
    #[error("admin-token-file {path} {why}", path = path.display())]
    UnsafeTokenFile {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: &'static str,
    },
    /// The system gives no random bytes.
    #[error("admin page: the system has no random bytes for a token")]
    NoRandomness,
    /// The system gives no thread, or no event loop.
    #[error("admin page: cannot start its thread: {0}")]
    Thread(#[source] io::Error),
}
