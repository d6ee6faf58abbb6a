//! The sockets that clients connect to, and what is set on the connections.

use std::cell::RefCell;
use std::io::{self, ErrorKind};
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
use crate::network::{ListenError, Listening, Network, Wire};
use crate::stream::Stream;
use crate::tls::{Acceptor, TlsError, TlsSettings};
use crate::transport::Transport;

/// A socket that connections come in at.
pub(crate) struct Opened {
    wire: Wire,
    socket: TcpListener,
}

/// Opens a listening socket for each address and port.
///
/// # Errors
/// The address that cannot be listened on, and why.
pub(crate) fn tcp(at: &Listening<'_>) -> Result<Vec<Opened>, ListenError> {
    tcp_but(&[], at)
}

/// As [`tcp`], without the addresses that are listened on already.
fn tcp_but(kept: &[SocketAddr], at: &Listening<'_>) -> Result<Vec<Opened>, ListenError> {
    let mut all = Vec::new();
    for (wire, port) in at.open_ports() {
        let mut is_somewhere = at.bind.is_empty();
        for name in &at.bind {
            let (name, is_optional) = split_optional(name);
            let opened = resolve(name, port).and_then(|address| match kept.contains(&address) {
                true => Ok(None),
                false => open(address, at.backlog).map(Some),
            });
            match opened {
                Ok(socket) => {
                    is_somewhere = true;
                    all.extend(socket.map(|socket| Opened { wire, socket }));
                }
                Err(_) if is_optional => {}
                Err(source) => {
                    return Err(ListenError::Address { wire, name: name.to_owned(), port, source });
                }
            }
        }
        if !is_somewhere {
            return Err(ListenError::NoAddress { wire, port });
        }
    }
    Ok(all)
}

fn split_optional(name: &str) -> (&str, bool) {
    name.strip_prefix('-').map_or((name, false), |name| (name, true))
}

/// A listening socket of the event loop.
pub(crate) struct Listener {
    address: SocketAddr,
    wire: Wire,
    socket: MioListener,
}

/// A connection that has come in.
pub(crate) struct Accepted {
    pub(crate) stream: mio::net::TcpStream,
    pub(crate) address: SocketAddr,
    pub(crate) wire: Wire,
}

/// The sockets that the event loop accepts TCP connections at, which CONFIG SET may exchange, and what secures them.
pub(crate) struct Listeners {
    registry: Registry,
    first_token: usize,
    /// By token; a place is free when its listener was closed.
    places: Vec<Option<Listener>>,
    acceptor: Option<Acceptor>,
}

impl Listeners {
    /// Listeners for an event loop; their tokens are `first_token` and those after it.
    pub(crate) fn new(
        registry: Registry,
        first_token: usize,
        sockets: Vec<Opened>,
        acceptor: Option<Acceptor>,
    ) -> io::Result<Self> {
        let mut listeners = Self { registry, first_token, places: Vec::new(), acceptor };
        listeners.add(sockets)?;
        Ok(listeners)
    }

    /// Accepts a connection at the listener with this token.
    pub(crate) fn accept(&self, token: Token) -> io::Result<Accepted> {
        let place = token.0.checked_sub(self.first_token).and_then(|place| self.places.get(place));
        let listener = place.and_then(Option::as_ref).ok_or(ErrorKind::WouldBlock)?;
        let (stream, address) = listener.socket.accept()?;
        Ok(Accepted { stream, address, wire: listener.wire })
    }

    /// How the bytes of a connection travel that has come in.
    pub(crate) fn transport(&self, wire: Wire, stream: Stream) -> io::Result<Transport> {
        if wire == Wire::Plain {
            return Ok(Transport::Plain(stream));
        }
        let acceptor = self.acceptor.as_ref().ok_or(ErrorKind::NotConnected)?;
        Ok(Transport::Tls(Box::new(acceptor.session(stream)?)))
    }

    fn add(&mut self, sockets: Vec<Opened>) -> io::Result<()> {
        for Opened { wire, socket } in sockets {
            let address = socket.local_addr()?;
            let mut socket = MioListener::from_std(socket);
            let free = self.places.iter().position(Option::is_none);
            let place = free.unwrap_or(self.places.len());
            let token = Token(self.first_token + place);
            self.registry.register(&mut socket, token, Interest::READABLE)?;
            if free.is_none() {
                self.places.push(None);
            }
            self.places[place] = Some(Listener { address, wire, socket });
        }
        Ok(())
    }

    fn close_others(&mut self, kept: &[SocketAddr]) {
        for place in &mut self.places {
            // Dropping the socket closes it, which also ends its registration.
            if place.as_ref().is_some_and(|listener| !kept.contains(&listener.address)) {
                *place = None;
            }
        }
    }

    /// See [`Network::listen`]. New sockets are opened before old ones are closed, unless one
    /// stands in the way of the other, as an address does in that of all addresses. One that stays may speak another language.
    fn listen(&mut self, at: &Listening<'_>) -> Result<(), ListenError> {
        let [(_, plain), (wire, tls)] = at.ports;
        if plain == tls && plain != 0 {
            let (name, source) = (at.bind.join(" "), ErrorKind::AddrInUse.into());
            return Err(ListenError::Address { wire, name, port: tls, source });
        }
        let addresses =
            |port| at.bind.iter().flat_map(move |name| resolve(split_optional(name).0, port));
        let wanted: Vec<(SocketAddr, Wire)> = at
            .open_ports()
            .flat_map(|(wire, port)| addresses(port).map(move |address| (address, wire)))
            .collect();
        let is_wanted = |address: &SocketAddr| wanted.iter().any(|(it, _)| it == address);
        let before = self.places.iter().flatten().map(|it| (it.address, it.wire));
        let (kept, left): (Vec<_>, Vec<_>) = before.partition(|(address, _)| is_wanted(address));
        let kept: Vec<SocketAddr> = kept.into_iter().map(|(address, _)| address).collect();
        let is_in_the_way =
            |address: &SocketAddr| at.open_ports().any(|(_, port)| port == address.port());
        let opened = match tcp_but(&kept, at) {
            Err(_) if left.iter().any(|(address, _)| is_in_the_way(address)) => {
                self.close_others(&kept);
                tcp_but(&kept, at).inspect_err(|_| {
                    // They were free a moment ago.
                    let again = left.iter().flat_map(|(address, wire)| {
                        let socket = open(*address, at.backlog)?;
                        io::Result::Ok(Opened { wire: *wire, socket })
                    });
                    let _ignored = self.add(again.collect());
                })?
            }
            opened => opened?,
        };
        self.close_others(&kept);
        for listener in self.places.iter_mut().flatten() {
            let wire = wanted.iter().find(|(address, _)| *address == listener.address);
            listener.wire = wire.map_or(listener.wire, |(_, wire)| *wire);
        }
        self.add(opened).map_err(ListenError::Register)
    }
}

/// The listeners, for the event loop and for the engine.
#[derive(Clone)]
pub(crate) struct SharedListeners(pub(crate) Rc<RefCell<Listeners>>);

impl Network for SharedListeners {
    fn listen(&mut self, at: &Listening<'_>) -> Result<(), ListenError> {
        self.0.borrow_mut().listen(at)
    }

    fn load_tls(&self, settings: &TlsSettings) -> Result<Option<Acceptor>, TlsError> {
        Acceptor::load(settings).map(Some)
    }

    fn secure(&mut self, acceptor: Acceptor) {
        self.0.borrow_mut().acceptor = Some(acceptor);
    }

    fn allow_clients(&mut self, wanted: usize, device_count: usize) -> usize {
        Descriptors::with_devices(device_count).allow_clients(wanted)
    }
}

fn resolve(name: &str, port: u16) -> io::Result<SocketAddr> {
    match name {
        "*" => Ok(SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), port)),
        "::*" => Ok(SocketAddr::new(IpAddr::V6(Ipv6Addr::UNSPECIFIED), port)),
        name => (name, port).to_socket_addrs()?.next().ok_or(ErrorKind::NotFound.into()),
    }
}

fn open(address: SocketAddr, backlog: i32) -> io::Result<TcpListener> {
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
        && error.kind() != ErrorKind::NotFound
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
