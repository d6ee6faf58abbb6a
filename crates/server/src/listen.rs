//! The sockets that clients connect to, and what is set on the connections.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, ToSocketAddrs};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::time::Duration;

use rustix::net::{AddressFamily, SocketFlags, SocketType, sockopt};

/// Opens a listening socket for each address of `bind`. An address with a minus sign in front may
/// be unavailable.
///
/// # Errors
/// The address that cannot be listened on, and why.
pub(crate) fn tcp(bind: &[&str], port: u16, backlog: i32) -> Result<Vec<TcpListener>, String> {
    let mut listeners = Vec::new();
    for name in bind {
        let (name, is_optional) =
            name.strip_prefix('-').map_or((*name, false), |name| (name, true));
        match resolve(name, port).and_then(|address| open(address, backlog)) {
            Ok(listener) => listeners.push(listener),
            Err(_) if is_optional => {}
            Err(error) => {
                return Err(format!(
                    "Could not create server TCP listening socket {name}:{port}: {error}"
                ));
            }
        }
    }
    if listeners.is_empty() && !bind.is_empty() {
        return Err(format!("Failed listening on port {port} (TCP), aborting."));
    }
    Ok(listeners)
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
pub(crate) fn unix(path: &Path, permissions: u32) -> Result<UnixListener, String> {
    let refused =
        |error: std::io::Error| format!("Failed opening Unix socket {}: {error}", path.display());
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
