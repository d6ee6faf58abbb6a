//! Where the server listens, as the engine sees it: CONFIG SET port, tls-port and bind, and what secures connections.

use std::io;
use std::path::PathBuf;

use thiserror::Error;

use crate::config::Config;
use crate::tls::{Acceptor, TlsError, TlsSettings};

/// What connections speak that come in at a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wire {
    /// Redis' protocol as it is.
    Plain,
    /// The same within TLS.
    Tls,
}

impl Wire {
    /// Redis' name for it in messages.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Plain => "TCP",
            Self::Tls => "TLS",
        }
    }
}

/// Where to listen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listening<'a> {
    /// Addresses; one with a minus sign in front may be unavailable.
    pub bind: Vec<&'a str>,
    /// What is spoken at which port; 0 for none.
    pub ports: [(Wire, u16); 2],
    /// How many connections may wait to be accepted.
    pub backlog: i32,
}

impl<'a> Listening<'a> {
    /// What a configuration says.
    #[must_use]
    pub fn of(config: &'a Config) -> Self {
        Self {
            bind: config.words("bind").collect(),
            ports: [(Wire::Plain, config.number("port")), (Wire::Tls, config.number("tls-port"))],
            backlog: config.number("tcp-backlog"),
        }
    }

    /// The ports that are listened at.
    pub fn open_ports(&self) -> impl Iterator<Item = (Wire, u16)> {
        self.ports.into_iter().filter(|(_, port)| *port != 0)
    }
}

/// Why the server cannot listen; displayed for the operator, in Redis' words.
#[derive(Debug, Error)]
pub enum ListenError {
    /// An address of `bind` cannot be listened on.
    #[error(
        "Could not create server {wire} listening socket {name}:{port}: {source}",
        wire = wire.name()
    )]
    Address {
        /// What would be spoken there.
        wire: Wire,
        /// The address, as `bind` has it.
        name: String,
        /// The port.
        port: u16,
        /// What the system says.
        source: io::Error,
    },
    /// All addresses of `bind` may be unavailable, and they are.
    #[error("Failed listening on port {port} ({wire}), aborting.", wire = wire.name())]
    NoAddress {
        /// What would be spoken there.
        wire: Wire,
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
    /// Listens there from now on, and nowhere else. When that is not possible nothing changes.
    ///
    /// # Errors
    /// Why it is not possible.
    fn listen(&mut self, at: &Listening<'_>) -> Result<(), ListenError>;

    /// Reads the files that secure connections, of which a network without sockets has none.
    ///
    /// # Errors
    /// What is wrong with them.
    fn load_tls(&self, settings: &TlsSettings) -> Result<Option<Acceptor>, TlsError>;

    /// Secures the connections that come from now on so.
    fn secure(&mut self, acceptor: Acceptor);

    /// Makes room for `clients` next to a log on `devices`; returns how many there may be.
    fn allow_clients(&mut self, wanted: usize, device_count: usize) -> usize;
}

/// A network without sockets: every address will do.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoNetwork;

impl Network for NoNetwork {
    fn listen(&mut self, _at: &Listening<'_>) -> Result<(), ListenError> {
        Ok(())
    }

    fn load_tls(&self, _settings: &TlsSettings) -> Result<Option<Acceptor>, TlsError> {
        Ok(None)
    }

    fn secure(&mut self, _acceptor: Acceptor) {}

    fn allow_clients(&mut self, wanted: usize, _device_count: usize) -> usize {
        wanted
    }
}
