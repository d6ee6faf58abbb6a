//! The sockets that clients connect to, and what is set on the connections.

use std::cell::RefCell;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, ToSocketAddrs};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

use mio::net::TcpListener as MioListener;
use mio::{Interest, Registry, Token};
use rustix::net::{AddressFamily, SocketFlags, SocketType, sockopt};

use crate::descriptors::Descriptors;
use crate::network::{ListenError, Network};

/// Opens a listening socket for each address of `bind`. An address with a minus sign in front may
/// be unavailable.
///
/// # Errors
/// The address that cannot be listened on, and why.
pub(crate) fn tcp(bind: &[&str], port: u16, backlog: i32) -> Result<Vec<TcpListener>, ListenError> {
    tcp_but(&[], bind, port, backlog)
}

/// As [`tcp`], without the addresses that another process listens on.
fn tcp_but(
    kept: &[SocketAddr],
    bind: &[&str],
    port: u16,
    backlog: i32,
) -> Result<Vec<TcpListener>, ListenError> {
    let mut listeners = Vec::new();
    for name in bind {
        let (name, is_optional) = split_optional(name);
        let opened = resolve(name, port).and_then(|address| match kept.contains(&address) {
            true => Ok(None),
            false => open(address, backlog).map(Some),
        });
        match opened {
            Ok(listener) => listeners.extend(listener),
            Err(_) if is_optional => {}
            Err(source) => {
                return Err(ListenError::Address { name: name.to_owned(), port, source });
            }
        }
    }
    if listeners.is_empty() && kept.is_empty() && !bind.is_empty() {
        return Err(ListenError::NoAddress { port });
    }
    Ok(listeners)
}

fn split_optional(name: &str) -> (&str, bool) {
    name.strip_prefix('-').map_or((name, false), |name| (name, true))
}

/// The sockets that the event loop accepts TCP connections at, which CONFIG SET may exchange.
pub(crate) struct Listeners {
    registry: Registry,
    first_token: usize,
    /// By token; a place is free when its listener was closed.
    places: Vec<Option<(SocketAddr, MioListener)>>,
}

impl Listeners {
    /// Listeners for an event loop; their tokens are `first_token` and those after it.
    pub(crate) fn new(
        registry: Registry,
        first_token: usize,
        sockets: Vec<TcpListener>,
    ) -> std::io::Result<Self> {
        let mut listeners = Self { registry, first_token, places: Vec::new() };
        listeners.add(sockets)?;
        Ok(listeners)
    }

    /// The listener with this token.
    pub(crate) fn by_token(&self, token: Token) -> Option<&MioListener> {
        let place = self.places.get(token.0.checked_sub(self.first_token)?)?;
        place.as_ref().map(|(_, listener)| listener)
    }

    fn add(&mut self, sockets: Vec<TcpListener>) -> std::io::Result<()> {
        for socket in sockets {
            let address = socket.local_addr()?;
            let mut listener = MioListener::from_std(socket);
            let free = self.places.iter().position(Option::is_none);
            let place = free.unwrap_or(self.places.len());
            let token = Token(self.first_token + place);
            self.registry.register(&mut listener, token, Interest::READABLE)?;
            if free.is_none() {
                self.places.push(None);
            }
            self.places[place] = Some((address, listener));
        }
        Ok(())
    }

    fn addresses(&self) -> Vec<SocketAddr> {
        self.places.iter().flatten().map(|(address, _)| *address).collect()
    }

    fn close_others(&mut self, kept: &[SocketAddr]) {
        for place in &mut self.places {
            // Dropping the socket closes it, which also ends its registration.
            if place.as_ref().is_some_and(|(address, _)| !kept.contains(address)) {
                *place = None;
            }
        }
    }

    /// See [`Network::listen`]. New sockets are opened before old ones are closed, unless one
    /// stands in the way of the other, as an address does in that of all addresses.
    fn listen(&mut self, bind: &[&str], port: u16, backlog: i32) -> Result<(), ListenError> {
        let bind = if port == 0 { &[] } else { bind };
        let wanted: Vec<SocketAddr> =
            bind.iter().flat_map(|name| resolve(split_optional(name).0, port)).collect();
        let before = self.addresses();
        let (kept, left): (Vec<_>, Vec<_>) =
            before.into_iter().partition(|address| wanted.contains(address));
        let opened = match tcp_but(&kept, bind, port, backlog) {
            Err(_) if left.iter().any(|address| address.port() == port) => {
                self.close_others(&kept);
                tcp_but(&kept, bind, port, backlog).inspect_err(|_| {
                    // They were free a moment ago.
                    let again = left.iter().flat_map(|address| open(*address, backlog));
                    let _ignored = self.add(again.collect());
                })?
            }
            opened => opened?,
        };
        self.close_others(&kept);
        self.add(opened).map_err(ListenError::Register)
    }
}

/// The listeners, for the event loop and for the engine.
#[derive(Clone)]
pub(crate) struct SharedListeners(pub(crate) Rc<RefCell<Listeners>>);

impl Network for SharedListeners {
    fn listen(&mut self, bind: &[&str], port: u16, backlog: i32) -> Result<(), ListenError> {
        self.0.borrow_mut().listen(bind, port, backlog)
    }

    fn allow_clients(&mut self, wanted: usize, device_count: usize) -> usize {
        Descriptors::with_devices(device_count).allow_clients(wanted)
    }
}

fn resolve(name: &str, port: u16) -> std::io::Result<SocketAddr> {
    match name {
        "*" => Ok(SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), port)),
        "::*" => Ok(SocketAddr::new(IpAddr::V6(Ipv6Addr::UNSPECIFIED), port)),
        name => (name, port).to_socket_addrs()?.next().ok_or(std::io::ErrorKind::NotFound.into()),
    }
}

fn open(address: SocketAddr, backlog: i32) -> std::io::Result<TcpListener> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(family, SocketType::STREAM, flags, None)?;
    sockopt::set_socket_reuseaddr(&socket, true)?;
    if address.is_ipv6() {
        sockopt::set_ipv6_v6only(&socket, true)?;
    }
    rustix::net::bind(&socket, &address)?;
    rustix::net::listen(&socket, backlog)?;
    Ok(TcpListener::from(socket))
}

/// Opens the unix socket, in the place of what a previous server has left there.
///
/// # Errors
/// When the system refuses.
pub(crate) fn unix(path: &Path, permissions: u32) -> Result<UnixListener, ListenError> {
    let refused = |source| ListenError::UnixSocket { path: path.to_owned(), source };
    if let Err(error) = std::fs::remove_file(path)
        && error.kind() != std::io::ErrorKind::NotFound
    {
        return Err(refused(error));
    }
    let listener = UnixListener::bind(path).map_err(refused)?;
    listener.set_nonblocking(true).map_err(refused)?;
    if permissions != 0 {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(permissions))
            .map_err(refused)?;
    }
    Ok(listener)
}

/// Sends small replies at once, and finds dead peers after `keepalive_s` seconds (0: never).
pub(crate) fn prepare(stream: &mio::net::TcpStream, keepalive_s: u64) {
    // A connection without these works all the same.
    let _ignored = stream.set_nodelay(true);
    if keepalive_s > 0 {
        let _ignored = sockopt::set_socket_keepalive(stream, true)
            .and_then(|()| sockopt::set_tcp_keepidle(stream, Duration::from_secs(keepalive_s)))
            .and_then(|()| {
                sockopt::set_tcp_keepintvl(stream, Duration::from_secs((keepalive_s / 3).max(1)))
            })
            .and_then(|()| sockopt::set_tcp_keepcnt(stream, 3));
    }
}
