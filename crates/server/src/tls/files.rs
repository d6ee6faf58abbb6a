//! Certificates and keys out of PEM files.
//!
//! They are read as a whole, by the executor, so what is no file, or larger than such a file can be, is not read, and
//! a directory as far as a system's goes.

use std::fs::{self, OpenOptions};
use std::io::{self, Read as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use pkcs8::{EncryptedPrivateKeyInfoRef, SecretDocument};
use rustix::fs::OFlags;
use rustls::RootCertStore;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};

use super::certificate;
use super::error::TlsError;
use super::settings::TlsSettings;

/// All authorities of a system are half a megabyte.
const FILE_BYTES_MAX: u64 = 16 << 20;

/// How many files of `tls-ca-cert-dir` there may be, and how many bytes in them.
const DIRECTORY_FILES_MAX: usize = 10_000;
const DIRECTORY_BYTES_MAX: u64 = 64 << 20;

/// The lines around a key with a pass phrase.
const ENCRYPTED_BEGIN: &str = "-----BEGIN ENCRYPTED PRIVATE KEY-----";
const ENCRYPTED_END: &str = "-----END ENCRYPTED PRIVATE KEY-----";

/// Returns the certificate of the server, and behind it those that lead to its authority.
pub(super) fn chain(settings: &TlsSettings) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let path = &settings.certificate;
    if path.is_empty() {
        return Err(TlsError::NoCertificate);
    }
    certificates("tls-cert-file", path, &read("tls-cert-file", path, settings)?)
}

/// Returns the key of that certificate.
pub(super) fn key(settings: &TlsSettings) -> Result<PrivateKeyDer<'static>, TlsError> {
    let path = &settings.key;
    if path.is_empty() {
        return Err(TlsError::NoKey);
    }
    let pem = read("tls-key-file", path, settings)?;
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
        for certificate in certificates(directive, file, &read(directive, file, settings)?)? {
            certificate::check_authority(&certificate)
                .map_err(|why| TlsError::NoAuthority { path: file.clone(), why })?;
            authorities.add(certificate).map_err(|why| TlsError::Authority {
                directive,
                path: file.clone(),
                why,
            })?;
        }
    }
    if !directory.is_empty() {
        add_directory(&mut authorities, directory, &settings.directory.join(directory))?;
    }
    Ok(authorities)
}

/// Adds the authorities of all files of a directory. What else is there is left out, as in one that the system keeps; so is a certificate of no authority,
/// or what a client's key has signed would count.
fn add_directory(authorities: &mut RootCertStore, name: &str, path: &Path) -> Result<(), TlsError> {
    let directive = "tls-ca-cert-dir";
    let unreadable = |source| TlsError::Unreadable { directive, path: name.to_owned(), source };
    let (mut bytes, mut unread) = (0, None);
    for (count, entry) in fs::read_dir(path).map_err(unreadable)?.enumerate() {
        let file = entry.map_err(unreadable)?.path();
        if count >= DIRECTORY_FILES_MAX || bytes > DIRECTORY_BYTES_MAX {
            return Err(unreadable(io::Error::other("it has more than 10,000 files, or 64 MiB")));
        }
        let pem = match read_whole(&file) {
            Ok(pem) => pem,
            Err(why) => {
                unread = unread.or(Some(io::Error::other(format!("{}: {why}", file.display()))));
                continue;
            }
        };
        bytes += pem.len() as u64;
        let certificates = CertificateDer::pem_slice_iter(&pem).flatten();
        let of_authorities = certificates.filter(|it| certificate::check_authority(it).is_ok());
        authorities.add_parsable_certificates(of_authorities);
    }
    // A certificate and the link to it that has its hash as its name are the same authority.
    authorities.roots.sort_by(|one, other| one.subject.as_ref().cmp(other.subject.as_ref()));
    authorities.roots.dedup();
    if authorities.is_empty() {
        if let Some(why) = unread {
            return Err(unreadable(why));
        }
        let wanted = "certificate (PEM) of an authority whose time is now";
        return Err(TlsError::Nothing { directive, path: name.to_owned(), wanted });
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

fn read(directive: &'static str, path: &str, settings: &TlsSettings) -> Result<Vec<u8>, TlsError> {
    let unreadable = |source| TlsError::Unreadable { directive, path: path.to_owned(), source };
    read_whole(&settings.directory.join(path)).map_err(unreadable)
}

/// What is in a regular file. Opening another one does not wait, either.
fn read_whole(path: &Path) -> io::Result<Vec<u8>> {
    let no_wait = OFlags::NONBLOCK.bits().cast_signed();
    let file = OpenOptions::new().read(true).custom_flags(no_wait).open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("it is no regular file"));
    }
    let mut bytes = Vec::new();
    file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        return Err(io::Error::other("it has more than 16 MiB"));
    }
    Ok(bytes)
}
