//! The client's side of TLS: certificates that are made for a test, and a stream that two threads
//! may use.

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, PKCS_ECDSA_P256_SHA256,
};
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore};
use std::fs;
use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use tempfile::TempDir;

/// Where a process that runs tests over TLS has its certificates; set by a test that starts such a
/// process.
pub(crate) const EVERYWHERE: &str = "INDELIBLE_TEST_OVER_TLS";

/// An authority and what it has signed, in files.
pub(crate) struct Certificates {
    directory: PathBuf,
    _made: Option<TempDir>,
}

impl Certificates {
    /// An authority, `server.crt` and `client.crt` (of `client`), with their keys.
    pub(crate) fn make() -> Certificates {
        let made = tempfile::tempdir().unwrap();
        let certificates = Certificates { directory: made.path().to_owned(), _made: Some(made) };
        let key = new_key();
        let certificate = authority_params("Test authority").self_signed(&key).unwrap();
        certificates.write("ca.crt", &certificate.pem());
        certificates.write("ca.key", &key.serialize_pem());
        certificates.sign("server", "localhost", ExtendedKeyUsagePurpose::ServerAuth);
        certificates.sign("client", "client", ExtendedKeyUsagePurpose::ClientAuth);
        certificates
    }

    /// Those that another process has made.
    fn at(directory: PathBuf) -> Certificates {
        Certificates { directory, _made: None }
    }

    /// Makes a certificate of this common name, `FILE.crt` and `FILE.key`, that the authority has
    /// signed.
    pub(crate) fn sign(&self, file: &str, name: &str, purpose: ExtendedKeyUsagePurpose) {
        let key = KeyPair::from_pem(&self.read("ca.key")).unwrap();
        let authority = Issuer::new(authority_params("Test authority"), key);
        self.sign_by(&authority, file, name, purpose);
    }

    /// The same, signed by an authority that no side knows.
    pub(crate) fn sign_by_stranger(&self, file: &str, name: &str) {
        let stranger = Issuer::new(authority_params("Stranger"), new_key());
        self.sign_by(&stranger, file, name, ExtendedKeyUsagePurpose::ClientAuth);
    }

    fn sign_by(
        &self,
        authority: &Issuer<'_, KeyPair>,
        file: &str,
        name: &str,
        purpose: ExtendedKeyUsagePurpose,
    ) {
        let key = new_key();
        let names = vec!["localhost".to_owned(), "127.0.0.1".to_owned()];
        let mut params = CertificateParams::new(names).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        params.extended_key_usages.push(purpose);
        let certificate = params.signed_by(&key, authority).unwrap();
        self.write(&format!("{file}.crt"), &certificate.pem());
        self.write(&format!("{file}.key"), &key.serialize_pem());
    }

    /// The path of a file.
    pub(crate) fn path(&self, file: &str) -> String {
        self.directory.join(file).to_str().unwrap().to_owned()
    }

    pub(crate) fn read(&self, file: &str) -> String {
        fs::read_to_string(self.path(file)).unwrap()
    }

    pub(crate) fn write(&self, file: &str, text: &str) {
        fs::write(self.path(file), text).unwrap();
    }

    /// The options of a server with these.
    pub(crate) fn options(&self) -> Vec<String> {
        [
            ("--tls-cert-file", "server.crt"),
            ("--tls-key-file", "server.key"),
            ("--tls-ca-cert-file", "ca.crt"),
        ]
        .into_iter()
        .flat_map(|(name, file)| [name.to_owned(), self.path(file)])
        .collect()
    }

    /// A client that shows `client.crt`.
    pub(crate) fn client(&self) -> Arc<ClientConfig> {
        self.client_with(Some("client"))
    }

    /// A client that shows this certificate, if any, and checks the server's.
    pub(crate) fn client_with(&self, file: Option<&str>) -> Arc<ClientConfig> {
        self.client_of(file, rustls::ALL_VERSIONS)
    }

    /// The same, with these versions of TLS only.
    pub(crate) fn client_of(
        &self,
        file: Option<&str>,
        versions: &[&'static rustls::SupportedProtocolVersion],
    ) -> Arc<ClientConfig> {
        let mut authorities = RootCertStore::empty();
        authorities
            .add(CertificateDer::from_pem_slice(self.read("ca.crt").as_bytes()).unwrap())
            .unwrap();
        let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_protocol_versions(versions)
            .unwrap()
            .with_root_certificates(authorities);
        let config = match file {
            None => builder.with_no_client_auth(),
            Some(file) => {
                let pem = self.read(&format!("{file}.crt"));
                let chain = CertificateDer::pem_slice_iter(pem.as_bytes()).map(Result::unwrap);
                let key = self.read(&format!("{file}.key"));
                let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap();
                builder.with_client_auth_cert(chain.collect(), key).unwrap()
            }
        };
        Arc::new(config)
    }
}

fn authority_params(name: &str) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    params.distinguished_name.push(DnType::CommonName, name);
    params
}

fn new_key() -> KeyPair {
    KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).unwrap()
}

/// The certificates of a process in which all connections are over TLS.
pub(crate) fn everywhere() -> Option<&'static Certificates> {
    static CERTIFICATES: OnceLock<Option<Certificates>> = OnceLock::new();
    let find = || std::env::var_os(EVERYWHERE).map(|path| Certificates::at(PathBuf::from(path)));
    CERTIFICATES.get_or_init(find).as_ref()
}

/// The options of a server that listens on this port of the loopback.
pub(crate) fn listening_options(port: u16) -> Vec<String> {
    let port = port.to_string();
    match everywhere() {
        None => vec!["--port".to_owned(), port],
        Some(certificates) => {
            let options = ["--port", "0", "--tls-port", &port].map(str::to_owned);
            [options.to_vec(), certificates.options()].concat()
        }
    }
}

/// TLS over a socket, which one thread reads from and another one may write to.
pub(crate) struct TlsStream {
    tls: Arc<Mutex<ClientConnection>>,
    socket: TcpStream,
}

impl TlsStream {
    /// Shakes hands.
    pub(crate) fn over(mut socket: TcpStream, config: Arc<ClientConfig>) -> io::Result<TlsStream> {
        let name = ServerName::try_from("localhost").unwrap();
        let mut tls = ClientConnection::new(config, name).map_err(io::Error::other)?;
        tls.set_buffer_limit(None);
        while tls.is_handshaking() {
            tls.complete_io(&mut socket)?;
        }
        Ok(TlsStream { tls: Arc::new(Mutex::new(tls)), socket })
    }

    pub(crate) fn socket(&self) -> &TcpStream {
        &self.socket
    }

    pub(crate) fn split(&self) -> TlsStream {
        TlsStream { tls: Arc::clone(&self.tls), socket: self.socket.try_clone().unwrap() }
    }

    fn lock(&self) -> MutexGuard<'_, ClientConnection> {
        self.tls.lock().unwrap()
    }

    /// Whether the server has resumed a session of before.
    pub(crate) fn is_resumed(&self) -> bool {
        self.lock().handshake_kind() == Some(rustls::HandshakeKind::Resumed)
    }

    /// The server's certificate.
    pub(crate) fn server_certificate(&self) -> Vec<u8> {
        self.lock().peer_certificates().unwrap()[0].to_vec()
    }

    /// The version and the cipher that both sides have agreed to.
    pub(crate) fn agreed(&self) -> String {
        let tls = self.lock();
        format!("{:?}", tls.negotiated_cipher_suite().unwrap().suite())
    }

    fn send(&mut self) -> io::Result<()> {
        let mut records = Vec::new();
        let mut tls = self.lock();
        while tls.wants_write() {
            tls.write_tls(&mut records)?;
        }
        drop(tls);
        // The lock is not held, as the server may take nothing before it is read from.
        self.socket.write_all(&records)
    }
}

impl Read for TlsStream {
    /// An end without close_notify is an error, `UnexpectedEof`.
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        // Less than a record: what it yields fits into what rustls keeps.
        let mut wire = [0; 4096];
        loop {
            match self.lock().reader().read(buffer) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                read => return read,
            }
            let count = self.socket.read(&mut wire)?;
            let mut tls = self.lock();
            let mut wire = &wire[..count];
            loop {
                tls.read_tls(&mut wire)?;
                tls.process_new_packets()
                    .map_err(|why| io::Error::new(ErrorKind::InvalidData, why))?;
                if wire.is_empty() {
                    break;
                }
            }
        }
    }
}

impl Write for TlsStream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let bytes = &bytes[..bytes.len().min(128 * 1024)];
        self.lock().writer().write_all(bytes)?;
        self.send()?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
