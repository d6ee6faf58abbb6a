//! Where the server listens, as the engine sees it: CONFIG SET port and bind.

use std::io;
use std::path::PathBuf;

use thiserror::Error;

/// Why the server cannot listen; displayed for the operator, in Redis' words.
#[derive(Debug, Error)]
pub enum ListenError {
    /// An address of `bind` cannot be listened on.
    #[error("Could not create server TCP listening socket {name}:{port}: {source}")]
    Address {
        /// The address, as `bind` has it.
        name: String,
        /// The port.
        port: u16,
        /// What the system says.
        source: io::Error,
    },
    /// All addresses of `bind` may be unavailable, and they are.
    #[error("Failed listening on port {port} (TCP), aborting.")]
    NoAddress {
        /// The port.
        port: u16,
    },
    /// The unix socket cannot be made.
    #[error("Failed opening Unix socket {path}: {source}", path = path.display())]
    UnixSocket {
        /// Where it was to be.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// The event loop cannot accept at a socket that is open.
    #[error(transparent)]
    Register(io::Error),
}

/// The addresses that clients connect to.
pub trait Network {
    /// Listens on `port` of the addresses in `bind` from now on, and nowhere else. When that is not
    /// possible nothing changes.
    ///
    /// # Errors
    /// Why it is not possible.
    fn listen(&mut self, bind: &[&str], port: u16, backlog: i32) -> Result<(), ListenError>;

    /// Makes room for `clients` next to a log on `devices`; returns how many there may be.
    fn allow_clients(&mut self, wanted: usize, device_count: usize) -> usize;
}

/// A network without sockets: every address will do.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoNetwork;

impl Network for NoNetwork {
    fn listen(&mut self, _bind: &[&str], _port: u16, _backlog: i32) -> Result<(), ListenError> {
        Ok(())
    }

    fn allow_clients(&mut self, wanted: usize, _device_count: usize) -> usize {
        wanted
    }
}
