//! The certificate, its key and the authorities, as one set for all connections that come.

use std::sync::Arc;

use rustls::crypto::{CryptoProvider, ring};
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use rustls::{ServerConfig, ServerConnection};

use super::error::TlsError;
use super::session::Session;
use super::session_cache::SessionCache;
use super::settings::{ClientAuth, TlsSettings};
use super::{ciphers, files};
use crate::stream::Stream;

/// See the file's top.
#[derive(Clone)]
pub struct Acceptor {
    config: Arc<ServerConfig>,
}

impl Acceptor {
    /// Reads the files and puts together what they have.
    ///
    /// # Errors
    /// The first thing that is wrong.
    pub fn load(settings: &TlsSettings) -> Result<Self, TlsError> {
        let suites = ciphers::suites(settings)?;
        let versions = ciphers::versions(settings)?;
        let provider =
            Arc::new(CryptoProvider { cipher_suites: suites, ..ring::default_provider() });
        let (chain, key) = (files::chain(settings)?, files::key(settings)?);
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(&versions)?;
        let builder = if settings.client_auth == ClientAuth::No {
            builder.with_no_client_auth()
        } else {
            let authorities = Arc::new(files::authorities(settings)?);
            // Clients choose a certificate by themselves, as with Redis: a list of a system's
            // authorities has 20 KB.
            let verifier = WebPkiClientVerifier::builder_with_provider(authorities, provider)
                .clear_root_hint_subjects();
            let verifier = match settings.client_auth {
                ClientAuth::Optional => verifier.allow_unauthenticated(),
                ClientAuth::Required | ClientAuth::No => verifier,
            };
            builder.with_client_cert_verifier(verifier.build()?)
        };
        let mut config = builder.with_single_cert(chain, key).map_err(|why| TlsError::Pair {
            certificate: settings.certificate.clone(),
            key: settings.key.clone(),
            why,
        })?;
        config.ignore_client_order = settings.prefers_own_order;
        if let Some(limits) = settings.sessions {
            config.session_storage = Arc::new(SessionCache::new(limits));
        } else {
            config.session_storage = Arc::new(NoServerSessionStorage {});
            config.send_tls13_tickets = 0;
        }
        Ok(Self { config: Arc::new(config) })
    }

    /// Begins a session over the socket of a new connection.
    ///
    /// # Errors
    /// When rustls refuses its own configuration.
    pub(crate) fn session(&self, socket: Stream) -> std::io::Result<Session> {
        let tls = ServerConnection::new(Arc::clone(&self.config)).map_err(std::io::Error::other)?;
        Ok(Session::new(tls, socket))
    }
}
