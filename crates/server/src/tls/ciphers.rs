//! Ciphers and versions of the protocol by OpenSSL's names, which Redis' configuration has.
//!
//! ```text
//!   tls-ciphers       ECDHE-RSA-AES128-GCM-SHA256:!aNULL     TLS 1.2: names, DEFAULT, what is taken away
//!   tls-ciphersuites  TLS_AES_128_GCM_SHA256                 TLS 1.3: names
//! ```
//!
//! rustls has only ciphers with forward secrecy and authenticated encryption. A list that names
//! another one is refused: to leave it out could leave out all that a client has. To take away what
//! is not there is always possible.

use rustls::crypto::ring::ALL_CIPHER_SUITES;
use rustls::version::{TLS12, TLS13};
use rustls::{CipherSuite, SupportedCipherSuite, SupportedProtocolVersion};

use super::error::TlsError;
use super::settings::TlsSettings;

/// OpenSSL's names of what rustls has, and its own.
const TLS12_NAMES: &[(&str, CipherSuite)] = &[
    ("ECDHE-ECDSA-AES256-GCM-SHA384", CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384),
    ("ECDHE-RSA-AES256-GCM-SHA384", CipherSuite::TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384),
    ("ECDHE-ECDSA-CHACHA20-POLY1305", CipherSuite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256),
    ("ECDHE-RSA-CHACHA20-POLY1305", CipherSuite::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256),
    ("ECDHE-ECDSA-AES128-GCM-SHA256", CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256),
    ("ECDHE-RSA-AES128-GCM-SHA256", CipherSuite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256),
];

const TLS13_NAMES: &[(&str, CipherSuite)] = &[
    ("TLS_AES_256_GCM_SHA384", CipherSuite::TLS13_AES_256_GCM_SHA384),
    ("TLS_CHACHA20_POLY1305_SHA256", CipherSuite::TLS13_CHACHA20_POLY1305_SHA256),
    ("TLS_AES_128_GCM_SHA256", CipherSuite::TLS13_AES_128_GCM_SHA256),
];

/// Words that stand for many ciphers, all of what rustls has among them.
const ALL_WORDS: &[&str] =
    &["DEFAULT", "ALL", "HIGH", "SECURE", "TLSV1.2", "ECDHE", "EECDH", "KECDHE", "AEAD"];

/// Returns the versions of `tls-protocols`; TLS 1.2 and 1.3 if it is empty.
pub(super) fn versions(
    settings: &TlsSettings,
) -> Result<Vec<&'static SupportedProtocolVersion>, TlsError> {
    let words: Vec<&str> = settings.protocols.split_whitespace().collect();
    if words.is_empty() {
        return Ok(vec![&TLS13, &TLS12]);
    }
    let version = |word: &str| match word.to_ascii_lowercase().as_str() {
        "tlsv1.2" => Ok(&TLS12),
        "tlsv1.3" => Ok(&TLS13),
        "tlsv1" | "tlsv1.1" | "sslv2" | "sslv3" => Err(TlsError::OldProtocol(word.to_owned())),
        _ => Err(TlsError::Protocol),
    };
    words.into_iter().map(version).collect()
}

/// Returns the ciphers of both versions, in the order of `tls-ciphersuites` and `tls-ciphers`.
pub(super) fn suites(settings: &TlsSettings) -> Result<Vec<SupportedCipherSuite>, TlsError> {
    let mut chosen = chosen_suites("tls-ciphersuites", &settings.ciphersuites, TLS13_NAMES)?;
    chosen.extend(chosen_suites("tls-ciphers", &settings.ciphers, TLS12_NAMES)?);
    let by_name = |suite: &CipherSuite| ALL_CIPHER_SUITES.iter().find(|it| it.suite() == *suite);
    Ok(chosen.iter().filter_map(by_name).copied().collect())
}

fn chosen_suites(
    directive: &'static str,
    list: &str,
    known: &[(&'static str, CipherSuite)],
) -> Result<Vec<CipherSuite>, TlsError> {
    let all = || known.iter().map(|(_, suite)| *suite);
    let words = list.split([':', ',', ' ']).filter(|word| !word.is_empty());
    let (mut chosen, mut is_empty): (Vec<CipherSuite>, bool) = (Vec::new(), true);
    for word in words {
        is_empty = false;
        if word.starts_with('@') {
            // @STRENGTH and @SECLEVEL order and limit what OpenSSL has.
            continue;
        }
        let taken_away = word.strip_prefix(['!', '-']);
        let name = taken_away.unwrap_or(word).trim_start_matches('+');
        let found = known.iter().find(|(it, _)| it.eq_ignore_ascii_case(name));
        match (found, taken_away) {
            (Some((_, suite)), Some(_)) => chosen.retain(|it| it != suite),
            (Some((_, suite)), None) if !chosen.contains(suite) => chosen.push(*suite),
            (Some(_), None) => {}
            (None, Some(_)) => chosen.retain(|suite| !is_kind(known, *suite, name)),
            (None, None) if ALL_WORDS.contains(&name.to_ascii_uppercase().as_str()) => {
                let others: Vec<_> = all().filter(|suite| !chosen.contains(suite)).collect();
                chosen.extend(others);
            }
            (None, None) => {
                let known = known.iter().map(|(name, _)| *name).collect();
                return Err(TlsError::Cipher { directive, name: name.to_owned(), known });
            }
        }
    }
    if is_empty {
        return Ok(all().collect());
    }
    if chosen.is_empty() { Err(TlsError::NoCipher { directive }) } else { Ok(chosen) }
}

/// Whether a cipher is of a kind that is taken away: `ECDSA`, `AES128`, `CHACHA20`. A kind that it
/// does not have in its name is none of its own.
fn is_kind(known: &[(&'static str, CipherSuite)], suite: CipherSuite, kind: &str) -> bool {
    let kind = kind.to_ascii_uppercase();
    let kind =
        kind.strip_prefix('A').filter(|kind| matches!(*kind, "RSA" | "ECDSA")).unwrap_or(&kind);
    if ALL_WORDS.contains(&kind) {
        return true;
    }
    let (name, _) =
        known.iter().find(|(_, it)| *it == suite).expect("only what is known is chosen");
    let parts: Vec<&str> = name.split(['-', '_']).collect();
    match kind {
        "AES" | "AESGCM" => name.contains("AES"),
        kind => parts.contains(&kind),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(list: &str) -> Result<Vec<&'static str>, String> {
        let chosen =
            chosen_suites("tls-ciphers", list, TLS12_NAMES).map_err(|why| why.to_string())?;
        let name = |suite| TLS12_NAMES.iter().find(|(_, it)| it == suite).map(|(name, _)| *name);
        Ok(chosen.iter().filter_map(name).collect())
    }

    #[test]
    fn a_list_is_taken_in_its_order() {
        assert_eq!(names("").unwrap().len(), 6);
        assert_eq!(
            names("ECDHE-RSA-AES128-GCM-SHA256:ecdhe-ecdsa-chacha20-poly1305").unwrap(),
            ["ECDHE-RSA-AES128-GCM-SHA256", "ECDHE-ECDSA-CHACHA20-POLY1305"]
        );
        let first_then_all = names("ECDHE-RSA-AES128-GCM-SHA256:DEFAULT").unwrap();
        assert_eq!((first_then_all[0], first_then_all.len()), ("ECDHE-RSA-AES128-GCM-SHA256", 6));
    }

    #[test]
    fn what_is_taken_away_is_gone_and_may_not_have_been_there() {
        assert_eq!(names("DEFAULT:!MEDIUM").unwrap().len(), 6, "the example of redis.conf");
        assert_eq!(names("HIGH:!aNULL:!MD5:!RC4:!kRSA:@STRENGTH").unwrap().len(), 6);
        assert_eq!(names("DEFAULT:!ECDSA").unwrap().len(), 3);
        assert_eq!(names("ALL:!aRSA:-CHACHA20").unwrap().len(), 2);
        assert_eq!(names("DEFAULT:-ECDHE-RSA-AES128-GCM-SHA256").unwrap().len(), 5);
        assert_eq!(
            names("DEFAULT:!AES:!CHACHA20").unwrap_err(),
            "tls-ciphers leaves no cipher for a version of TLS that tls-protocols has"
        );
    }

    #[test]
    fn what_is_not_there_is_refused_by_its_name() {
        for (list, name) in [
            ("DHE-RSA-AES128-GCM-SHA256", "DHE-RSA-AES128-GCM-SHA256"),
            ("DEFAULT:AES128-SHA256", "AES128-SHA256"),
        ] {
            let why = names(list).unwrap_err();
            assert!(
                why.starts_with(&format!(
                    "tls-ciphers: {name} is not supported; these are: ECDHE-"
                )),
                "{why}"
            );
        }
    }
}
