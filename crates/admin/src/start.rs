//! Starts the page: token, socket, thread.

use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::Builder;

use tokio::sync::oneshot;

use crate::access::Access;
use crate::error::{AdminError, Result};
use crate::house::{self, GUESTS_MAX};
use crate::http::Site;
use crate::report::Server;
use crate::token::TokenFile;
use crate::watch::Watch;

/// How many connections there are at most, with the one that waits for room: so many descriptors it takes, and some more.
pub const CONNECTIONS_MAX: usize = GUESTS_MAX + 1;

/// Where it is, and what opens it.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The address that it listens on, without the port.
    pub bind: String,
    /// The port; 0 for one that the system chooses.
    pub port: u16,
    /// The file of the token, which is made if it is not there.
    pub token_file: PathBuf,
    /// Names that a request may be for, besides addresses and `localhost`.
    pub hosts: Vec<String>,
}

/// A page that is served until this is dropped.
pub struct Admin {
    address: SocketAddr,
    has_new_token: bool,
    is_token_open: bool,
    _end: oneshot::Sender<()>,
}

impl Admin {
    /// Where it listens.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Whether the file of the token was made.
    #[must_use]
    pub const fn has_new_token(&self) -> bool {
        self.has_new_token
    }

    /// Whether others than its owner can read the file of the token.
    #[must_use]
    pub const fn is_token_open(&self) -> bool {
        self.is_token_open
    }
}

/// Serves the page of `server`.
///
/// # Errors
/// When there is no token, or the system gives no socket or thread.
pub fn start(settings: Settings, server: Arc<dyn Server>) -> Result<Admin> {
    let Settings { bind, port, token_file, hosts } = settings;
    let ip: IpAddr = bind.parse().map_err(|_| AdminError::Address { text: bind })?;
    let file = TokenFile::open(&token_file)?;
    let access = Access::new(&file.token)?;
    let wanted = SocketAddr::new(ip, port);
    let listen = || -> io::Result<(TcpListener, SocketAddr)> {
        let listener = TcpListener::bind(wanted)?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        Ok((listener, address))
    };
    let (listener, address) =
        listen().map_err(|source| AdminError::Listen { address: wanted, source })?;
    let site = Arc::new(Site::new(access, Watch::new(server), hosts, address.port()));
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let runtime = builder.enable_io().enable_time().build().map_err(AdminError::Thread)?;
    let (end, ends) = oneshot::channel();
    let run = move || {
        runtime.block_on(async {
            // It was made for this: nothing is wrong with it.
            if let Ok(listener) = tokio::net::TcpListener::from_std(listener) {
                house::serve(listener, site, ends).await;
            }
        });
    };
    Builder::new().name("admin".to_owned()).spawn(run).map_err(AdminError::Thread)?;
    Ok(Admin {
        address,
        has_new_token: file.is_new,
        is_token_open: file.is_open_to_others,
        _end: end,
    })
}
