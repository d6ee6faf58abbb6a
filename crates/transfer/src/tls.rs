//! TLS between two ends that share a token.
//!
//! Both derive the same Ed25519 key from it. There are no certificates and no authorities: each end
//! presents the public half as a raw public key (RFC 7250) and signs the handshake with the private
//! half, and each accepts exactly that key from the other. An attacker in between does not have it,
//! and cannot reflect a signature either, because in TLS 1.3 client and server sign different
//! messages.
//!
//! The token is never sent, sessions are never resumed, and versions before 1.3 are not supported.
//!
//! The connection is one state for both directions, used by two threads: one reads, one writes.
//! Neither holds the lock while it waits for the socket.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{AlwaysResolvesClientRawPublicKeys, Resumption};
use rustls::crypto::{CryptoProvider, ring, verify_tls13_signature_with_raw_key};
use rustls::pki_types::{
    CertificateDer, PrivatePkcs8KeyDer, ServerName, SubjectPublicKeyInfoDer, UnixTime,
};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::{AlwaysResolvesServerRawPublicKeys, NoServerSessionStorage};
use rustls::sign::CertifiedKey;
use rustls::version::TLS13;
use rustls::{
    CertificateError, ClientConfig, ClientConnection, DigitallySignedStruct, DistinguishedName,
    ServerConfig, ServerConnection, SignatureScheme,
};

use crate::error::{Error, Result};
use crate::token::Token;

/// The bytes before the 32 secret bytes of an Ed25519 key in PKCS #8 (RFC 8410).
const PKCS8_PREFIX: [u8; 16] = [
    0x30, 0x2e, 0x02, 0x01, 0x00, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x04, 0x22, 0x04, 0x20,
];
/// Bytes encrypted or read at a time.
const PIECE_BYTES: usize = 128 * 1024;

/// Accepts exactly one public key.
#[derive(Debug)]
struct ThisKey {
    public_key: Vec<u8>,
    provider: Arc<CryptoProvider>,
}

impl ThisKey {
    fn check(&self, shown: &CertificateDer<'_>) -> std::result::Result<(), rustls::Error> {
        if shown.as_ref() == self.public_key {
            Ok(())
        } else {
            Err(CertificateError::ApplicationVerificationFailure.into())
        }
    }

    fn check_signature(
        &self,
        message: &[u8],
        key: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature_with_raw_key(
            message,
            &SubjectPublicKeyInfoDer::from(key.as_ref()),
            signature,
            &self.provider.signature_verification_algorithms,
        )
    }
}

fn no_tls12() -> rustls::Error {
    rustls::Error::General("TLS 1.2 is not supported".to_owned())
}

impl ServerCertVerifier for ThisKey {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> std::result::Result<ServerCertVerified, rustls::Error> {
        self.check(end_entity).map(|()| ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _cert: &CertificateDer<'_>,
        _dss: &DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, rustls::Error> {
        Err(no_tls12())
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, rustls::Error> {
        self.check_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![SignatureScheme::ED25519]
    }

    fn requires_raw_public_keys(&self) -> bool {
        true
    }
}

impl ClientCertVerifier for ThisKey {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _now: UnixTime,
    ) -> std::result::Result<ClientCertVerified, rustls::Error> {
        self.check(end_entity).map(|()| ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _cert: &CertificateDer<'_>,
        _dss: &DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, rustls::Error> {
        Err(no_tls12())
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, rustls::Error> {
        self.check_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![SignatureScheme::ED25519]
    }

    fn requires_raw_public_keys(&self) -> bool {
        true
    }
}

/// Derives the key of a token, and the verifier that accepts only this key.
fn identity(token: &Token) -> (Arc<CertifiedKey>, Arc<ThisKey>, Arc<CryptoProvider>) {
    let provider = Arc::new(ring::default_provider());
    let pkcs8 = [PKCS8_PREFIX.as_slice(), token.secret()].concat();
    let key = ring::sign::any_eddsa_type(&PrivatePkcs8KeyDer::from(pkcs8))
        .expect("any 32 bytes are an Ed25519 key");
    let public_key = key.public_key().expect("an Ed25519 key has a public half").to_vec();
    let shown = CertifiedKey::new(vec![CertificateDer::from(public_key.clone())], key);
    let accepts = ThisKey { public_key, provider: Arc::clone(&provider) };
    (Arc::new(shown), Arc::new(accepts), provider)
}

fn client(token: &Token) -> Result<rustls::Connection> {
    let (key, accepts, provider) = identity(token);
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&TLS13])
        .map_err(refused)?
        .dangerous()
        .with_custom_certificate_verifier(accepts)
        .with_client_cert_resolver(Arc::new(AlwaysResolvesClientRawPublicKeys::new(key)));
    config.resumption = Resumption::disabled();
    let name = ServerName::try_from("indelible-transfer").expect("it is a name");
    Ok(ClientConnection::new(Arc::new(config), name).map_err(refused)?.into())
}

fn server(token: &Token) -> Result<rustls::Connection> {
    let (key, accepts, provider) = identity(token);
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&TLS13])
        .map_err(refused)?
        .with_client_cert_verifier(accepts)
        .with_cert_resolver(Arc::new(AlwaysResolvesServerRawPublicKeys::new(key)));
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    Ok(ServerConnection::new(Arc::new(config)).map_err(refused)?.into())
}

fn refused(error: impl std::fmt::Display) -> Error {
    Error::Token(format!("{error}; is it the same on both ends?"))
}

/// Which end of the connection this process is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    /// The end that has connected.
    Client,
    /// The end that has accepted.
    Server,
}

/// Performs the handshake over a new socket. Returns the reading and the writing half.
pub(crate) fn halves(socket: &TcpStream, token: &Token, side: Side) -> Result<(TlsRead, TlsWrite)> {
    let mut tls = if side == Side::Client { client(token)? } else { server(token)? };
    tls.set_buffer_limit(None);
    let mut handshake = socket;
    while tls.is_handshaking() {
        tls.complete_io(&mut handshake).map_err(refused)?;
    }
    while tls.wants_write() {
        tls.write_tls(&mut handshake).map_err(refused)?;
    }
    let clone = || socket.try_clone().map_err(|error| Error::io("socket", error));
    let tls = Arc::new(Mutex::new(tls));
    let raw = vec![0; PIECE_BYTES];
    let read = TlsRead { tls: Arc::clone(&tls), socket: clone()?, raw, at: 0, filled: 0 };
    Ok((read, TlsWrite { tls, socket: clone()?, ciphertext: Vec::new() }))
}

fn lock(tls: &Mutex<rustls::Connection>) -> MutexGuard<'_, rustls::Connection> {
    tls.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The reading half.
pub(crate) struct TlsRead {
    tls: Arc<Mutex<rustls::Connection>>,
    socket: TcpStream,
    raw: Vec<u8>,
    at: usize,
    filled: usize,
}

impl Read for TlsRead {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        loop {
            let mut tls = lock(&self.tls);
            match tls.reader().read(buf) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                other => return other,
            }
            if self.at < self.filled {
                self.at += tls.read_tls(&mut &self.raw[self.at..self.filled])?;
                tls.process_new_packets()
                    .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
                continue;
            }
            drop(tls);
            self.at = 0;
            self.filled = self.socket.read(&mut self.raw)?;
            if self.filled == 0 {
                // The peer closed without an alert; the protocol above has its own end, so
                // truncation cannot go unnoticed.
                return Ok(0);
            }
        }
    }
}

/// The writing half.
pub(crate) struct TlsWrite {
    tls: Arc<Mutex<rustls::Connection>>,
    socket: TcpStream,
    ciphertext: Vec<u8>,
}

impl Write for TlsWrite {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let bytes = &bytes[..bytes.len().min(PIECE_BYTES)];
        self.ciphertext.clear();
        let mut tls = lock(&self.tls);
        tls.writer().write_all(bytes)?;
        while tls.wants_write() {
            tls.write_tls(&mut self.ciphertext)?;
        }
        drop(tls);
        self.socket.write_all(&self.ciphertext)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
