//! How to connect to a server that speaks the Redis protocol: as which user, and in plain or over
//! TLS.

use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use clap::Args;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

/// As which user, and how.
#[derive(Args, Debug, Default)]
pub(crate) struct Login {
    /// Logs in as this user; the password is in the environment's REDISCLI_AUTH.
    #[arg(long)]
    pub(crate) user: Option<String>,
    #[command(flatten)]
    pub(crate) way: Way,
}

/// In plain or over TLS. The names are redis-cli's.
#[derive(Args, Debug, Default)]
pub(crate) struct Way {
    /// Connects to the server over TLS, and checks that its certificate is of this host.
    #[arg(long, requires = "cacert")]
    tls: bool,
    /// With --tls: the authorities that may have signed it (PEM).
    #[arg(long, value_name = "FILE", requires = "tls")]
    cacert: Option<PathBuf>,
    /// With --tls: the certificate to show (PEM).
    #[arg(long, value_name = "FILE", requires = "tls", requires = "key")]
    cert: Option<PathBuf>,
    /// With --tls: its key (PEM).
    #[arg(long, value_name = "FILE", requires = "cert")]
    key: Option<PathBuf>,
}

/// Bytes to a server and from it.
pub(crate) trait Stream: Read + Write {}

impl<T: Read + Write> Stream for T {}

impl Way {
    /// Connects to HOST:PORT.
    pub(crate) fn connect(&self, address: &str) -> anyhow::Result<Box<dyn Stream>> {
        let socket =
            TcpStream::connect(address).with_context(|| format!("cannot connect to {address}"))?;
        self.over(socket, address)
    }

    /// Connects to HOST:PORT. Connecting, sending and reading fail when one of them takes longer than `patience`.
    pub(crate) fn connect_within(
        &self,
        address: &str,
        patience: Duration,
    ) -> anyhow::Result<Box<dyn Stream>> {
        let socket = connect_to_any(address, patience)
            .with_context(|| format!("cannot connect to {address}"))?;
        socket.set_read_timeout(Some(patience))?;
        socket.set_write_timeout(Some(patience))?;
        self.over(socket, address)
    }

    fn over(&self, socket: TcpStream, address: &str) -> anyhow::Result<Box<dyn Stream>> {
        socket.set_nodelay(true)?;
        let Some(authorities) = self.cacert.as_deref().filter(|_| self.tls) else {
            return Ok(Box::new(socket));
        };
        let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
        let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        let name = ServerName::try_from(host)?;
        let tls = ClientConnection::new(Arc::new(self.config(authorities)?), name)?;
        let mut stream = StreamOwned::new(tls, socket);
        while stream.conn.is_handshaking() {
            let shaken = stream.conn.complete_io(&mut stream.sock);
            shaken.with_context(|| format!("no TLS with {address}"))?;
        }
        Ok(Box::new(stream))
    }

    fn config(&self, authorities: &Path) -> anyhow::Result<ClientConfig> {
        let mut store = RootCertStore::empty();
        for certificate in certificates(authorities)? {
            store.add(certificate).with_context(|| authorities.display().to_string())?;
        }
        let provider = Arc::new(ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_root_certificates(store);
        let (Some(certificate), Some(key)) = (&self.cert, &self.key) else {
            return Ok(builder.with_no_client_auth());
        };
        let own = PrivateKeyDer::from_pem_file(key).with_context(|| key.display().to_string())?;
        Ok(builder.with_client_auth_cert(certificates(certificate)?, own)?)
    }
}

/// Connects to the first of a name's addresses that answers.
fn connect_to_any(address: &str, patience: Duration) -> io::Result<TcpStream> {
    let mut failure = io::Error::from(io::ErrorKind::AddrNotAvailable);
    for to in address.to_socket_addrs()? {
        match TcpStream::connect_timeout(&to, patience) {
            Ok(stream) => return Ok(stream),
            Err(error) => failure = error,
        }
    }
    Err(failure)
}

fn certificates(file: &Path) -> anyhow::Result<Vec<CertificateDer<'static>>> {
    let read = || CertificateDer::pem_file_iter(file)?.collect::<Result<Vec<_>, _>>();
    read().with_context(|| file.display().to_string())
}
