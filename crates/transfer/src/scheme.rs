//! The schemes that the paper compares (4.4), as parameters of the same code.
//!
//! ```text
//!                 waits for each file   reads the medium   after displacement   verifiers
//!   sequential            yes                 yes                  no               1
//!   pipelined             no                  no                   no               1
//!   riva                  no                  yes                  no               1
//!   sp                    no                  yes                  yes              1
//!   spc                   no                  yes                  yes              n
//! ```
//!
//! S, P and C stand for scheduling, pipelining and concurrent verification.

use std::fmt;
use std::str::FromStr;

/// The way in which the receiver verifies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Scheme {
    /// Each file is sent, written, read back and verified before the next one is sent.
    Sequential,
    /// A file is verified from the host's cache while the next ones arrive (file-level pipelining).
    Pipelined,
    /// As pipelined, but read from the device (RIVA).
    Riva,
    /// Read from the device after its own cache must have evicted it, by one verifier (SP).
    Sp,
    /// As SP, by several verifiers (SPC).
    #[default]
    Spc,
}

impl Scheme {
    /// All schemes, in the paper's order.
    pub const ALL: [Scheme; 5] =
        [Scheme::Sequential, Scheme::Pipelined, Scheme::Riva, Scheme::Sp, Scheme::Spc];

    /// Whether the sender waits for the verdict on each file.
    #[must_use]
    pub fn waits_for_each(self) -> bool {
        self == Scheme::Sequential
    }

    /// Whether verification of a file begins only after all of it is written.
    #[must_use]
    pub fn by_whole_files(self) -> bool {
        matches!(self, Scheme::Sequential | Scheme::Pipelined | Scheme::Riva)
    }

    /// Whether files are evicted from the host's cache and read past it.
    #[must_use]
    pub fn reads_the_medium(self) -> bool {
        self != Scheme::Pipelined
    }

    /// Whether verification waits until newer data has displaced the file from the device's cache.
    #[must_use]
    pub fn waits_for_displacement(self) -> bool {
        matches!(self, Scheme::Sp | Scheme::Spc)
    }

    /// The number of verifiers if `wanted` are requested.
    #[must_use]
    pub fn verifiers(self, wanted: usize) -> usize {
        if self == Scheme::Spc { wanted.max(1) } else { 1 }
    }

    /// The number of the scheme in the protocol.
    pub(crate) fn code(self) -> u8 {
        match self {
            Scheme::Sequential => 0,
            Scheme::Pipelined => 1,
            Scheme::Riva => 2,
            Scheme::Sp => 3,
            Scheme::Spc => 4,
        }
    }

    /// Returns the scheme with a number.
    pub(crate) fn from_code(code: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|scheme| scheme.code() == code)
    }
}

impl fmt::Display for Scheme {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Scheme::Sequential => "sequential",
            Scheme::Pipelined => "pipelined",
            Scheme::Riva => "riva",
            Scheme::Sp => "sp",
            Scheme::Spc => "spc",
        })
    }
}

impl FromStr for Scheme {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        Self::ALL.into_iter().find(|scheme| scheme.to_string() == name).ok_or_else(|| {
            format!("'{name}' is not a scheme: sequential, pipelined, riva, sp or spc")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_numbers_lead_back() {
        for scheme in Scheme::ALL {
            assert_eq!(scheme.to_string().parse(), Ok(scheme));
            assert_eq!(Scheme::from_code(scheme.code()), Some(scheme));
        }
        assert_eq!(Scheme::from_code(9), None);
    }
}
