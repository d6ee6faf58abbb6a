//! Checks clients' certificates: rustls' check, and before it a bound.
//!
//! A chain is looked at before its client has shown that it has any key, and looking for a way to an authority takes a time
//! that grows with a power of the certificates that may lie on it: one message with many that name each other would hold a
//! loop for seconds. So a chain that is longer than real ones are is not looked at.

use std::sync::Arc;

use rustls::client::danger::HandshakeSignatureValid;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{CertificateError, DigitallySignedStruct, DistinguishedName, Error, SignatureScheme};

/// How many certificates may lie between a client's and its authority's.
const INTERMEDIATES_MAX: usize = 4;

/// How many bytes a chain may have. A certificate has one to two KiB.
const CHAIN_BYTES_MAX: usize = 16 * 1024;

/// See the file's top.
#[derive(Debug)]
pub(super) struct ClientVerifier(pub(super) Arc<dyn ClientCertVerifier>);

impl ClientCertVerifier for ClientVerifier {
    fn offer_client_auth(&self) -> bool {
        self.0.offer_client_auth()
    }

    fn client_auth_mandatory(&self) -> bool {
        self.0.client_auth_mandatory()
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.0.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        let bytes = intermediates.iter().fold(end_entity.len(), |bytes, it| bytes + it.len());
        if intermediates.len() > INTERMEDIATES_MAX || bytes > CHAIN_BYTES_MAX {
            return Err(Error::InvalidCertificate(CertificateError::UnknownIssuer));
        }
        self.0.verify_client_cert(end_entity, intermediates, now)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.0.verify_tls12_signature(message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.0.verify_tls13_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_verify_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes every chain, and would take long for some.
    #[derive(Debug)]
    struct Trusting;

    impl ClientCertVerifier for Trusting {
        fn root_hint_subjects(&self) -> &[DistinguishedName] {
            &[]
        }

        fn verify_client_cert(
            &self,
            _end_entity: &CertificateDer<'_>,
            _intermediates: &[CertificateDer<'_>],
            _now: UnixTime,
        ) -> Result<ClientCertVerified, Error> {
            Ok(ClientCertVerified::assertion())
        }

        fn verify_tls12_signature(
            &self,
            _message: &[u8],
            _certificate: &CertificateDer<'_>,
            _signed: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, Error> {
            Ok(HandshakeSignatureValid::assertion())
        }

        fn verify_tls13_signature(
            &self,
            _message: &[u8],
            _certificate: &CertificateDer<'_>,
            _signed: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, Error> {
            Ok(HandshakeSignatureValid::assertion())
        }

        fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
            Vec::new()
        }
    }

    #[test]
    fn a_chain_that_is_longer_than_real_ones_are_is_not_looked_at() {
        let verifier = ClientVerifier(Arc::new(Trusting));
        let is_taken = |count: usize, bytes: usize| {
            let one = CertificateDer::from(vec![0; bytes]);
            verifier.verify_client_cert(&one, &vec![one.clone(); count], UnixTime::now()).is_ok()
        };
        assert!(is_taken(0, 2000) && is_taken(INTERMEDIATES_MAX, 2000));
        assert!(!is_taken(INTERMEDIATES_MAX + 1, 10), "too many");
        assert!(
            !is_taken(INTERMEDIATES_MAX, 4000) && !is_taken(0, CHAIN_BYTES_MAX + 1),
            "too long"
        );
    }
}
