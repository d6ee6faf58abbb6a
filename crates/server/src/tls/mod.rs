//! TLS for the connections of clients: certificates and keys out of files, and a session over a
//! socket.
//!
//! ```text
//!   TlsSettings   what the configuration says           tls-cert-file, tls-ca-cert-dir, tls-ciphers …
//!      │ load: at the start, and by CONFIG SET
//!      ▼
//!   Acceptor      the certificate, its key, the authorities, one set for all new connections
//!      │ session: for each connection that is accepted
//!      ▼
//!   Session       ciphertext ◄──► socket, plaintext ◄──► the loop that reads and writes
//!                 Handshake ─► Open ─► Ended
//! ```
//!
//! The protocol is rustls', with the cryptography of ring. What this module adds is what a server
//! needs around it: names and files of Redis' configuration, errors that say what to do, bounds,
//! and reading and writing without waiting.
//!
//! A session belongs to one thread, the loop that has its socket: the executor's, or an I/O thread
//! ([`crate::front`]). The engine sees plaintext only, and learns of a session once: when its
//! handshake is done.
//!
//! # Invariants
//! - No byte of plaintext reaches the engine, and none leaves it, before the handshake is done.
//!   With `tls-auth-clients yes` that needs a certificate that one of the authorities has signed.
//! - A session keeps the acceptor that it began with, so another certificate ends no connection.
//! - An acceptor is complete or it does not exist: files that are missing, do not belong together
//!   or cannot be decrypted are found before anything is listened to, or changed.
//! - Bytes count as sent when the socket has taken the records that they are in
//!   ([`Session::write`]), so that limits of output, and the end of a connection, know nothing of
//!   TLS.
//! - A session holds at most [`session::BUFFERED_BYTES_MAX`] to be sent and one record to be
//!   received; a handshake at most one message, which has 64 KiB at most. What has not finished its
//!   handshake is ended by the engine after ten seconds.

mod acceptor;
mod certificate_name;
mod ciphers;
mod error;
mod files;
mod session;
mod session_cache;
mod settings;

pub use acceptor::Acceptor;
pub use error::TlsError;
pub(crate) use session::{Arrival, ReadBuffer, Session};
pub use settings::TlsSettings;
