//! What a certificate says: whose it is, and whether it may sign others.

use thiserror::Error;
use x509_parser::asn1_rs::Tag;
use x509_parser::certificate::X509Certificate;
use x509_parser::prelude::FromDer as _;
use x509_parser::x509::X509Version;

/// Longer names are no names: X.520 has 64 letters at most.
const NAME_BYTES_MAX: usize = 256;

/// Text in UTF-8 or a part of it, and as OpenSSL takes it.
const TEXTS: [Tag; 4] = [Tag::Utf8String, Tag::PrintableString, Tag::Ia5String, Tag::T61String];

/// Why a certificate is none of an authority.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum NoAuthority {
    /// Its form is wrong.
    #[error("its form is wrong")]
    Malformed,
    /// It is a client's or a server's: what its key signs would count as the authority's.
    #[error("it is of no authority (no basicConstraints with CA:TRUE)")]
    NotCa,
    /// Its time is not now.
    #[error("its time is over, or has not come")]
    NotNow,
}

/// Checks that a certificate is one of an authority, and counts now.
///
/// # Errors
/// Why not.
pub(super) fn check_authority(certificate: &[u8]) -> Result<(), NoAuthority> {
    let (_, certificate) =
        X509Certificate::from_der(certificate).map_err(|_| NoAuthority::Malformed)?;
    // The first version of X.509 has no extensions.
    let is_old_root =
        certificate.version == X509Version::V1 && certificate.subject() == certificate.issuer();
    if !certificate.is_ca() && !is_old_root {
        return Err(NoAuthority::NotCa);
    }
    if certificate.validity().is_valid() { Ok(()) } else { Err(NoAuthority::NotNow) }
}

/// Returns the common name of the subject, the first one if there are several. What could be taken for another name, or is
/// very long, is none.
pub(super) fn common_name(certificate: &[u8]) -> Option<Vec<u8>> {
    let (_, certificate) = X509Certificate::from_der(certificate).ok()?;
    let name = certificate.subject().iter_common_name().next()?.attr_value();
    let is_short = (1..=NAME_BYTES_MAX).contains(&name.data.len());
    let is_text = TEXTS.contains(&name.tag()) && !name.data.contains(&0);
    (is_short && is_text).then(|| name.data.to_vec())
}

#[cfg(test)]
mod tests {
    use rcgen::{BasicConstraints, CertificateParams, DnType, DnValue, IsCa, KeyPair};

    use super::*;

    fn signed(params: &CertificateParams) -> Vec<u8> {
        params.self_signed(&KeyPair::generate().unwrap()).unwrap().der().to_vec()
    }

    fn with_name(name: impl Into<DnValue>) -> CertificateParams {
        let mut params = CertificateParams::default();
        params.distinguished_name = rcgen::DistinguishedName::new();
        params.distinguished_name.push(DnType::OrganizationName, "Example");
        params.distinguished_name.push(DnType::CommonName, name);
        params
    }

    #[test]
    fn the_subjects_common_name_is_found() {
        assert_eq!(common_name(&signed(&with_name("alice"))), Some(b"alice".to_vec()));
        let mut unnamed = with_name("alice");
        unnamed.distinguished_name.remove(DnType::CommonName);
        assert_eq!(common_name(&signed(&unnamed)), None);
    }

    #[test]
    fn what_could_be_taken_for_another_name_is_none() {
        for name in ["alice\0.example".to_owned(), String::new(), "a".repeat(257)] {
            assert_eq!(common_name(&signed(&with_name(name.clone()))), None, "{name:?}");
        }
        let utf16 = DnValue::BmpString("alice".try_into().unwrap());
        assert_eq!(common_name(&signed(&with_name(utf16))), None);
    }

    #[test]
    fn what_is_cut_off_anywhere_has_no_name_and_does_no_harm() {
        let whole = signed(&with_name("alice"));
        for end in 0..whole.len() {
            assert_eq!(common_name(&whole[..end]), None);
            assert_eq!(check_authority(&whole[..end]), Err(NoAuthority::Malformed));
        }
        for at in 0..whole.len() {
            for byte in [0, 0x7f, 0x80, 0x81, 0x84, 0xff] {
                let mut changed = whole.clone();
                changed[at] = byte;
                let _whatever_it_is = (common_name(&changed), check_authority(&changed));
            }
        }
    }

    #[test]
    fn an_authority_says_so_and_its_time_is_now() {
        let mut params = with_name("authority");
        assert_eq!(check_authority(&signed(&params)), Err(NoAuthority::NotCa));
        params.is_ca = IsCa::ExplicitNoCa;
        assert_eq!(check_authority(&signed(&params)), Err(NoAuthority::NotCa));
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        assert_eq!(check_authority(&signed(&params)), Ok(()));
        params.not_after = rcgen::date_time_ymd(2020, 1, 1);
        assert_eq!(check_authority(&signed(&params)), Err(NoAuthority::NotNow));
    }
}
