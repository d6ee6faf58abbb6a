//! Versions of the format: the nine bytes that a file begins with, and the number in a payload's footer.
//!
//! | version | first written by | what it brought |
//! | --- | --- | --- |
//! | 1 to 6 | Redis 1.2 to 2.8 | plain forms, zipmaps, ziplists, intsets, LZF; the checksum (5) |
//! | 7, 8 | Redis 3.2, 4.0 | quicklists, AUX and sizes; binary scores, modules, 64-bit lengths |
//! | 9 | Redis 5.0 | streams, idle times and frequencies |
//! | 10, 11 | Redis 7.0, 7.2; Valkey up to 8.1 | listpacks, functions; sets as listpacks |
//! | 12 | Redis 7.4 | fields of hashes that expire, sizes of slots |
//! | 13, 14, 15 | Redis 8.6, 8.8, 8.10 | metadata of keys; arrays; templates of hashes |
//! | 80 | Valkey 9.0 | fields of hashes that expire, in a form of its own |
//!
//! Source: Redis' and Valkey's `rdb.h`. From 22 on the same number means one form in Redis and another
//! one in Valkey: a form is looked up by its number and the version together.

use std::fmt;

/// Bytes of the magic at the beginning of a file.
pub(crate) const MAGIC_BYTES: usize = 9;

/// The newest version of Redis that is read.
pub const REDIS_VERSION_MAX: u16 = 15;

/// The version of Valkey that is read.
pub const VALKEY_VERSION: u16 = 80;

/// A version of the format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// `REDIS0001` to `REDIS0015`: of Redis, and of Valkey up to 8.1.
    Redis(u16),
    /// `VALKEY080`: of Valkey from 9.0 on.
    Valkey(u16),
}

impl Version {
    /// Returns the version that a file's first bytes name, if it is one that is read.
    pub(crate) fn of_magic(magic: &[u8; MAGIC_BYTES]) -> Option<Self> {
        let number = |digits: &[u8]| {
            let is_number = digits.iter().all(u8::is_ascii_digit);
            is_number.then(|| std::str::from_utf8(digits).ok()?.parse::<u16>().ok()).flatten()
        };
        if let Some(digits) = magic.strip_prefix(b"REDIS") {
            number(digits)
                .filter(|number| (1..=REDIS_VERSION_MAX).contains(number))
                .map(Self::Redis)
        } else {
            let digits = magic.strip_prefix(b"VALKEY")?;
            number(digits).filter(|number| *number == VALKEY_VERSION).map(Self::Valkey)
        }
    }

    /// Returns the version that the number in a payload's footer means, if it is one that is read.
    pub(crate) fn of_payload(number: u16) -> Option<Self> {
        match number {
            0..=REDIS_VERSION_MAX => Some(Self::Redis(number)),
            VALKEY_VERSION => Some(Self::Valkey(number)),
            _ => None,
        }
    }

    /// Whether a checksum follows the end mark.
    pub(crate) fn has_checksum(self) -> bool {
        !matches!(self, Self::Redis(..5))
    }
}

/// As at the beginning of a file.
impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Redis(number) => write!(f, "REDIS{number:04}"),
            Self::Valkey(number) => write!(f, "VALKEY{number:03}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_magic_names_its_version() {
        for version in (1..=15).map(Version::Redis).chain([Version::Valkey(80)]) {
            let magic = version.to_string().into_bytes();
            assert_eq!(Version::of_magic(magic.as_slice().try_into().unwrap()), Some(version));
        }
        for other in
            [b"REDIS0000", b"REDIS0016", b"VALKEY081", b"VALKEY011", b"REDIS+001", b"redis0009"]
        {
            assert_eq!(Version::of_magic(other), None, "{}", other.escape_ascii());
        }
    }
}
