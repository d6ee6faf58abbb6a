//! Certificates and keys out of PEM files.
//!
//! They are read as a whole, so what is no file, or larger than such a file can be, is not read: a
//! pipe would hold up the executor.

use std::fs;
use std::io;
use std::path::Path;

use pkcs8::{EncryptedPrivateKeyInfoRef, SecretDocument};
use rustls::RootCertStore;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};

use super::error::TlsError;
use super::settings::TlsSettings;

/// All authorities of a system are half a megabyte.
const FILE_BYTES_MAX: u64 = 16 << 20;

/// How many files of `tls-ca-cert-dir` are looked at.
const DIRECTORY_FILES_MAX: usize = 10_000;

/// The lines around a key with a pass phrase.
const ENCRYPTED_BEGIN: &str = "-----BEGIN ENCRYPTED PRIVATE KEY-----";
const ENCRYPTED_END: &str = "-----END ENCRYPTED PRIVATE KEY-----";

/// Returns the certificate of the server, and behind it those that lead to its authority.
pub(super) fn chain(settings: &TlsSettings) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let path = &settings.certificate;
    if path.is_empty() {
        return Err(TlsError::NoCertificate);
    }
    certificates("tls-cert-file", path, &read("tls-cert-file", path)?)
}

/// Returns the key of that certificate.
pub(super) fn key(settings: &TlsSettings) -> Result<PrivateKeyDer<'static>, TlsError> {
    let path = &settings.key;
    if path.is_empty() {
        return Err(TlsError::NoKey);
    }
    let pem = read("tls-key-file", path)?;
    let has = |text: &[u8]| pem.windows(text.len()).any(|window| window == text);
    if has(ENCRYPTED_BEGIN.as_bytes()) {
        return decrypted(path, &pem, &settings.key_pass);
    }
    if has(b"Proc-Type: 4,ENCRYPTED") {
        return Err(TlsError::OldEncryption { path: path.clone() });
    }
    PrivateKeyDer::from_pem_slice(&pem).map_err(|why| match why {
        rustls::pki_types::pem::Error::NoItemsFound => TlsError::Nothing {
            directive: "tls-key-file",
            path: path.clone(),
            wanted: "private key (PKCS #8, PKCS #1 or SEC 1)",
        },
        why => TlsError::NotPem { directive: "tls-key-file", path: path.clone(), why },
    })
}

fn decrypted(path: &str, pem: &[u8], pass: &str) -> Result<PrivateKeyDer<'static>, TlsError> {
    if pass.is_empty() {
        return Err(TlsError::NoPass { path: path.to_owned() });
    }
    let wrong = |why| TlsError::WrongPass { path: path.to_owned(), why };
    let text = String::from_utf8_lossy(pem);
    // What is in front of it, or behind, is no part of it.
    let begin = text.find(ENCRYPTED_BEGIN).unwrap_or(0);
    let end = text[begin..]
        .find(ENCRYPTED_END)
        .map_or(text.len(), |end| begin + end + ENCRYPTED_END.len());
    let document = SecretDocument::from_pem(&text[begin..end]);
    let (_, document) = document.map_err(|why| wrong(why.into()))?;
    let encrypted = EncryptedPrivateKeyInfoRef::try_from(document.as_bytes()).map_err(wrong)?;
    let key = encrypted.decrypt(pass).map_err(wrong)?;
    Ok(PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.as_bytes().to_vec())))
}

/// Returns the authorities that sign the certificates of clients.
pub(super) fn authorities(settings: &TlsSettings) -> Result<RootCertStore, TlsError> {
    let (file, directory) = (&settings.authorities, &settings.authorities_directory);
    if file.is_empty() && directory.is_empty() {
        return Err(TlsError::NoAuthorities);
    }
    let mut authorities = RootCertStore::empty();
    if !file.is_empty() {
        let directive = "tls-ca-cert-file";
        for certificate in certificates(directive, file, &read(directive, file)?)? {
            authorities.add(certificate).map_err(|why| TlsError::Authority {
                directive,
                path: file.clone(),
                why,
            })?;
        }
    }
    if !directory.is_empty() {
        add_directory(&mut authorities, directory)?;
    }
    Ok(authorities)
}

/// Adds the certificates of all files of a directory. What else is there, or cannot be used, is
/// left out, as in one that the system keeps.
fn add_directory(authorities: &mut RootCertStore, path: &str) -> Result<(), TlsError> {
    let directive = "tls-ca-cert-dir";
    let unreadable = |source| TlsError::Unreadable { directive, path: path.to_owned(), source };
    let mut added = 0;
    for entry in fs::read_dir(path).map_err(unreadable)?.take(DIRECTORY_FILES_MAX) {
        let Ok(pem) = read_whole(&entry.map_err(unreadable)?.path()) else { continue };
        let certificates = CertificateDer::pem_slice_iter(&pem).flatten();
        let (usable, _) = authorities.add_parsable_certificates(certificates);
        added += usable;
    }
    // A certificate and the link to it that has its hash as its name are the same authority.
    authorities.roots.sort_by(|one, other| one.subject.as_ref().cmp(other.subject.as_ref()));
    authorities.roots.dedup();
    if added == 0 {
        let wanted = "certificate (PEM) of an authority";
        return Err(TlsError::Nothing { directive, path: path.to_owned(), wanted });
    }
    Ok(())
}

fn certificates(
    directive: &'static str,
    path: &str,
    pem: &[u8],
) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    let all = all.map_err(|why| TlsError::NotPem { directive, path: path.to_owned(), why })?;
    if all.is_empty() {
        let wanted = "certificate (PEM)";
        return Err(TlsError::Nothing { directive, path: path.to_owned(), wanted });
    }
    Ok(all)
}

fn read(directive: &'static str, path: &str) -> Result<Vec<u8>, TlsError> {
    let unreadable = |source| TlsError::Unreadable { directive, path: path.to_owned(), source };
    read_whole(Path::new(path)).map_err(unreadable)
}

fn read_whole(path: &Path) -> io::Result<Vec<u8>> {
    let about = fs::metadata(path)?;
    if !about.is_file() {
        return Err(io::Error::other("it is no regular file"));
    }
    if about.len() > FILE_BYTES_MAX {
        return Err(io::Error::other("it has more than 16 MiB"));
    }
    fs::read(path)
}
