//! The shared token: 256 random bits known to both ends.
//!
//! It is never sent. Each end derives the same Ed25519 key from it, proves that it has the key, and
//! requires the same proof of the other ([`crate::tls`]). So it must be random: an attacker could
//! test guesses of a weak token against a server. That is why tokens are generated here rather than
//! chosen by a person.

use std::fmt;
use std::io;
use std::str::FromStr;

use rustix::rand::{GetRandomFlags, getrandom};

/// Bytes of a token.
const TOKEN_BYTES: usize = 32;

/// A secret by which two ends of a connection trust each other.
#[derive(Clone, PartialEq, Eq)]
pub struct Token([u8; TOKEN_BYTES]);

impl Token {
    /// Generates a new token.
    ///
    /// # Errors
    /// If the system has no randomness.
    pub fn random() -> io::Result<Self> {
        let mut bytes = [0; TOKEN_BYTES];
        let mut filled = 0;
        while filled < TOKEN_BYTES {
            filled += getrandom(&mut bytes[filled..], GetRandomFlags::empty())?;
        }
        Ok(Self(bytes))
    }

    /// The secret itself.
    pub(crate) fn secret(&self) -> &[u8; TOKEN_BYTES] {
        &self.0
    }
}

/// 64 hexadecimal digits, to be copied from one machine to the other.
impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// Never the secret: debug output ends up in logs.
impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(..)")
    }
}

/// A text that is no token; it is not shown, because it may nearly be one.
#[derive(Clone, Copy, Debug, thiserror::Error, PartialEq, Eq)]
#[error("a token is 64 hexadecimal digits, as `indelible transfer token` prints them")]
pub struct NotAToken;

impl FromStr for Token {
    type Err = NotAToken;

    fn from_str(text: &str) -> Result<Self, NotAToken> {
        let text = text.trim();
        if text.len() != 2 * TOKEN_BYTES || !text.is_ascii() {
            return Err(NotAToken);
        }
        let mut bytes = [0; TOKEN_BYTES];
        for (index, byte) in bytes.iter_mut().enumerate() {
            let digits = &text[2 * index..2 * index + 2];
            *byte = u8::from_str_radix(digits, 16).map_err(|_not_hexadecimal| NotAToken)?;
        }
        Ok(Self(bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_printed_can_be_read_and_is_not_shown_in_debug_output() {
        let token = Token::random().unwrap();
        assert_eq!(format!("{token}\n").parse(), Ok(token.clone()));
        assert_ne!(token, Token::random().unwrap());
        assert_eq!(format!("{token:?}"), "Token(..)");
    }

    #[test]
    fn a_password_is_no_token() {
        for text in ["", "secret", &"g".repeat(64), &"é".repeat(32)] {
            assert!(text.parse::<Token>().is_err(), "{text}");
        }
    }
}
