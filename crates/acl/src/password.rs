//! Passwords: SHA-256 of them, and nothing else.

use std::fmt::Write;

use sha2::{Digest, Sha256};

use crate::error::RuleError;

/// The length above which nothing is a password: what a client may send in one argument before it has
/// authenticated.
pub(crate) const PASSWORD_BYTES_MAX: usize = 16 * 1024;

/// Refuses what is too long for a password.
///
/// # Errors
/// [`RuleError::PasswordTooLong`].
pub fn check_password(password: &[u8]) -> Result<(), RuleError> {
    if password.len() > PASSWORD_BYTES_MAX { Err(RuleError::PasswordTooLong) } else { Ok(()) }
}

/// SHA-256 of a password. Two are compared in a time that does not depend on them.
#[derive(Clone)]
pub(crate) struct PasswordHash([u8; 32]);

impl PasswordHash {
    /// Hashes a password.
    ///
    /// # Errors
    /// [`RuleError::PasswordTooLong`].
    pub(crate) fn of(password: &[u8]) -> Result<Self, RuleError> {
        check_password(password)?;
        Ok(Self(Sha256::digest(password).into()))
    }

    /// Reads 64 lower-case hexadecimal digits.
    ///
    /// # Errors
    /// [`RuleError::BadHash`].
    pub(crate) fn from_hex(digits: &[u8]) -> Result<Self, RuleError> {
        let is_digit = |digit: &u8| matches!(digit, b'0'..=b'9' | b'a'..=b'f');
        if digits.len() != 64 || !digits.iter().all(is_digit) {
            return Err(RuleError::BadHash);
        }
        let value = |digit: u8| if digit <= b'9' { digit - b'0' } else { digit - b'a' + 10 };
        let mut hash = [0; 32];
        for (byte, pair) in hash.iter_mut().zip(digits.chunks_exact(2)) {
            *byte = value(pair[0]) << 4 | value(pair[1]);
        }
        Ok(Self(hash))
    }

    /// The 64 digits.
    pub(crate) fn to_hex(&self) -> String {
        self.0.iter().fold(String::with_capacity(64), |mut text, byte| {
            let _infallible = write!(text, "{byte:02x}");
            text
        })
    }
}

impl PartialEq for PasswordHash {
    fn eq(&self, other: &Self) -> bool {
        let difference =
            self.0.iter().zip(&other.0).fold(0, |all, (left, right)| all | (left ^ right));
        // What the optimizer cannot see through it does not turn into a loop that ends early.
        std::hint::black_box(difference) == 0
    }
}

impl Eq for PasswordHash {}

impl std::fmt::Debug for PasswordHash {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("(redacted)")
    }
}
