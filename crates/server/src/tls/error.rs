//! Why connections cannot be secured as the configuration says, each with what to do.

use std::io;

use thiserror::Error;

/// See the file's top.
#[derive(Debug, Error)]
pub enum TlsError {
    /// There is no certificate.
    #[error(
        "No tls-cert-file configured! It names a PEM file with the server's certificate, and behind it those that lead to its \
         authority"
    )]
    NoCertificate,
    /// There is no key.
    #[error(
        "No tls-key-file configured! It names a PEM file with the private key of the certificate"
    )]
    NoKey,
    /// Clients shall have certificates, and no authority is named that could have signed them.
    #[error(
        "Either tls-ca-cert-file or tls-ca-cert-dir must be specified when tls-auth-clients is enabled! To let clients \
         connect without certificates: tls-auth-clients no"
    )]
    NoAuthorities,
    /// A file cannot be read.
    #[error("{directive}: cannot read {path}: {source}")]
    Unreadable {
        /// The directive that names it.
        directive: &'static str,
        /// The file or directory, as the directive has it.
        path: String,
        /// What the system says.
        source: io::Error,
    },
    /// A file is no PEM.
    #[error("{directive}: {path} is no PEM file: {why}")]
    NotPem {
        /// The directive that names it.
        directive: &'static str,
        /// The file.
        path: String,
        /// What is wrong with it.
        why: rustls::pki_types::pem::Error,
    },
    /// A file or directory has nothing of what is looked for.
    #[error("{directive}: there is no {wanted} in {path}")]
    Nothing {
        /// The directive that names it.
        directive: &'static str,
        /// The file or directory.
        path: String,
        /// What it should have.
        wanted: &'static str,
    },
    /// A key is encrypted and no pass phrase is there.
    #[error("tls-key-file: the key in {path} is encrypted: set tls-key-file-pass, too")]
    NoPass {
        /// The file.
        path: String,
    },
    /// A key is encrypted in a way that is not supported.
    #[error(
        "tls-key-file: the key in {path} is encrypted as OpenSSL did before PKCS #8, which is not supported; this makes one that \
         is: openssl pkcs8 -topk8 -v2 aes-256-cbc -in {path} -out NEW"
    )]
    OldEncryption {
        /// The file.
        path: String,
    },
    /// A key cannot be decrypted.
    #[error("tls-key-file: the key in {path} cannot be decrypted with tls-key-file-pass: {why}")]
    WrongPass {
        /// The file.
        path: String,
        /// What the decryption says.
        why: pkcs8::Error,
    },
    /// Certificate and key do not go together, or one of them cannot be used.
    #[error(
        "the certificate in {certificate} (tls-cert-file) cannot be used with the key in {key} (tls-key-file): {why}. Needed are \
         an X.509 certificate of version 3 and its own key, which is RSA with 2048 bits or more, ECDSA (P-256 or P-384) or \
         Ed25519; to change both, set them in one CONFIG SET"
    )]
    Pair {
        /// The file with the certificate.
        certificate: String,
        /// The file with the key.
        key: String,
        /// What rustls says.
        why: rustls::Error,
    },
    /// An authority cannot be used.
    #[error("{directive}: a certificate in {path} cannot be used as an authority: {why}")]
    Authority {
        /// The directive that names the file.
        directive: &'static str,
        /// The file.
        path: String,
        /// What rustls says.
        why: rustls::Error,
    },
    /// A version of the protocol that is broken.
    #[error(
        "tls-protocols: {0} is not supported, as it is not secure (RFC 8996): use TLSv1.2 and TLSv1.3"
    )]
    OldProtocol(String),
    /// No version of the protocol.
    #[error("Invalid tls-protocols specified. Use a combination of 'TLSv1.2' and 'TLSv1.3'.")]
    Protocol,
    /// A cipher that is not there.
    #[error("{directive}: {name} is not supported; these are: {}", known.join(":"))]
    Cipher {
        /// The directive.
        directive: &'static str,
        /// The part of its value.
        name: String,
        /// What it may name.
        known: Vec<&'static str>,
    },
    /// Nothing is left that clients could agree to.
    #[error("{directive} leaves no cipher for a version of TLS that tls-protocols has")]
    NoCipher {
        /// The directive.
        directive: &'static str,
    },
    /// What is configured does not go together, says rustls.
    #[error(transparent)]
    Other(#[from] rustls::Error),
    /// Clients' certificates cannot be checked.
    #[error("certificates of clients cannot be checked: {0}")]
    Verifier(#[from] rustls::server::VerifierBuilderError),
}
