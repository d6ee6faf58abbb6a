//! What the configuration says of TLS.

use std::time::Duration;

use crate::config::Config;

/// More sessions than these are not kept, whatever `tls-session-cache-size` says: each takes one to
/// two KiB.
pub(super) const SESSIONS_MAX: usize = 100_000;

/// What is asked of clients: `tls-auth-clients`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ClientAuth {
    /// Nothing.
    No,
    /// A certificate is looked at if there is one, and must be good then.
    Optional,
    /// A good certificate.
    Required,
}

/// The sessions that clients may resume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct KeptSessions {
    /// How many at most.
    pub(super) count: usize,
    /// For how long.
    pub(super) lifetime: Duration,
}

/// See the file's top. The texts are the directives' own, and paths are relative to the data
/// directory.
#[derive(Clone)]
pub struct TlsSettings {
    /// `tls-cert-file`.
    pub(super) certificate: String,
    /// `tls-key-file`.
    pub(super) key: String,
    /// `tls-key-file-pass`.
    pub(super) key_pass: String,
    /// `tls-ca-cert-file`.
    pub(super) authorities: String,
    /// `tls-ca-cert-dir`.
    pub(super) authorities_directory: String,
    pub(super) client_auth: ClientAuth,
    /// `tls-protocols`.
    pub(super) protocols: String,
    /// `tls-ciphers`, for TLS 1.2.
    pub(super) ciphers: String,
    /// `tls-ciphersuites`, for TLS 1.3.
    pub(super) ciphersuites: String,
    /// Of the ciphers that a client offers the first of ours is taken, not the first of its own.
    pub(super) prefers_own_order: bool,
    pub(super) sessions: Option<KeptSessions>,
}

impl TlsSettings {
    /// Reads the settings of a configuration that has a `tls-port`.
    #[must_use]
    pub fn of(config: &Config) -> Option<Self> {
        if config.value("tls-port") == "0" {
            return None;
        }
        let text = |name| config.value(name).to_owned();
        Some(Self {
            certificate: text("tls-cert-file"),
            key: text("tls-key-file"),
            key_pass: text("tls-key-file-pass"),
            authorities: text("tls-ca-cert-file"),
            authorities_directory: text("tls-ca-cert-dir"),
            client_auth: match config.value("tls-auth-clients") {
                "no" => ClientAuth::No,
                "optional" => ClientAuth::Optional,
                _ => ClientAuth::Required,
            },
            protocols: text("tls-protocols"),
            ciphers: text("tls-ciphers"),
            ciphersuites: text("tls-ciphersuites"),
            prefers_own_order: config.value("tls-prefer-server-ciphers") == "yes",
            sessions: kept_sessions(config),
        })
    }
}

fn kept_sessions(config: &Config) -> Option<KeptSessions> {
    let lifetime = Duration::from_secs(config.number("tls-session-cache-timeout"));
    // For OpenSSL 0 means that there is no limit.
    let count = match config.number("tls-session-cache-size") {
        0 => SESSIONS_MAX,
        count => SESSIONS_MAX.min(count),
    };
    let is_on = config.value("tls-session-caching") == "yes" && !lifetime.is_zero();
    is_on.then_some(KeptSessions { count, lifetime })
}
