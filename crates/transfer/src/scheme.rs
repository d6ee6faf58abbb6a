//! The schemes that the paper compares (4.4), as parameters of the same code.
//!
//! Each scheme is a row of [`TABLE`], and whatever depends on the scheme is read from its row.
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

/// What is read to verify a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ReadBack {
    /// The host's cache.
    HostCache,
    /// The device, which may answer from a cache of its own.
    Device,
    /// The device, once newer data has displaced the file from the device's cache.
    DisplacedDevice,
}

/// A row of the table: the parameters of a scheme.
struct Row {
    scheme: Scheme,
    name: &'static str,
    /// The number in the protocol.
    code: u8,
    waits_for_each: bool,
    by_whole_files: bool,
    read_back: ReadBack,
    has_many_verifiers: bool,
}

/// All schemes, in the order of the paper and of the enumeration.
#[rustfmt::skip]
const TABLE: [Row; 5] = [
    Row { scheme: Scheme::Sequential, name: "sequential", code: 0, waits_for_each: true,
          by_whole_files: true, read_back: ReadBack::Device, has_many_verifiers: false },
    Row { scheme: Scheme::Pipelined, name: "pipelined", code: 1, waits_for_each: false,
          by_whole_files: true, read_back: ReadBack::HostCache, has_many_verifiers: false },
    Row { scheme: Scheme::Riva, name: "riva", code: 2, waits_for_each: false,
          by_whole_files: true, read_back: ReadBack::Device, has_many_verifiers: false },
    Row { scheme: Scheme::Sp, name: "sp", code: 3, waits_for_each: false,
          by_whole_files: false, read_back: ReadBack::DisplacedDevice, has_many_verifiers: false },
    Row { scheme: Scheme::Spc, name: "spc", code: 4, waits_for_each: false,
          by_whole_files: false, read_back: ReadBack::DisplacedDevice, has_many_verifiers: true },
];

impl Scheme {
    /// All schemes, in the paper's order.
    pub const ALL: [Scheme; TABLE.len()] = {
        let mut all = [Scheme::Sequential; TABLE.len()];
        let mut at = 0;
        while at < TABLE.len() {
            assert!(TABLE[at].scheme as usize == at, "a row is found by its scheme");
            all[at] = TABLE[at].scheme;
            at += 1;
        }
        all
    };

    fn row(self) -> &'static Row {
        &TABLE[self as usize]
    }

    /// Whether the sender waits for the verdict on each file.
    #[must_use]
    pub fn waits_for_each(self) -> bool {
        self.row().waits_for_each
    }

    /// Whether verification of a file begins only after all of it is written.
    #[must_use]
    pub fn by_whole_files(self) -> bool {
        self.row().by_whole_files
    }

    /// Whether files are evicted from the host's cache and read past it.
    #[must_use]
    pub fn reads_the_medium(self) -> bool {
        self.row().read_back != ReadBack::HostCache
    }

    /// Whether verification waits until newer data has displaced the file from the device's cache.
    #[must_use]
    pub fn waits_for_displacement(self) -> bool {
        self.row().read_back == ReadBack::DisplacedDevice
    }

    /// The number of verifiers if `wanted` are requested.
    #[must_use]
    pub fn verifiers(self, wanted: usize) -> usize {
        if self.row().has_many_verifiers { wanted.max(1) } else { 1 }
    }

    /// The number of the scheme in the protocol.
    pub(crate) fn code(self) -> u8 {
        self.row().code
    }

    /// Returns the scheme with a number.
    pub(crate) fn from_code(code: u8) -> Option<Self> {
        TABLE.iter().find(|row| row.code == code).map(|row| row.scheme)
    }
}

impl fmt::Display for Scheme {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.row().name)
    }
}

/// A name that no scheme has.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
#[error("'{0}' is not a scheme: {names}", names = known_names())]
pub struct UnknownScheme(String);

/// The names of all schemes, as a sentence has them.
fn known_names() -> String {
    let names = TABLE.each_ref().map(|row| row.name);
    let (last, others) = names.split_last().expect("there are schemes");
    format!("{} or {last}", others.join(", "))
}

impl FromStr for Scheme {
    type Err = UnknownScheme;

    fn from_str(name: &str) -> Result<Self, UnknownScheme> {
        let row = TABLE.iter().find(|row| row.name == name);
        row.map(|row| row.scheme).ok_or_else(|| UnknownScheme(name.to_owned()))
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
        let said = "scp".parse::<Scheme>().unwrap_err();
        assert_eq!(
            said.to_string(),
            "'scp' is not a scheme: sequential, pipelined, riva, sp or spc"
        );
    }

    #[test]
    fn the_names_and_numbers_of_the_protocol_never_change() {
        let rows = Scheme::ALL.map(|scheme| (scheme.to_string(), scheme.code()));
        let rows: Vec<_> = rows.iter().map(|(name, code)| (name.as_str(), *code)).collect();
        assert_eq!(rows, [("sequential", 0), ("pipelined", 1), ("riva", 2), ("sp", 3), ("spc", 4)]);
    }

    /// The table of the paper: waits for each file, reads the medium, after displacement, verifiers.
    #[test]
    fn the_schemes_are_those_of_the_paper() {
        for (scheme, waits, reads, displaced, verifiers) in [
            (Scheme::Sequential, true, true, false, 1),
            (Scheme::Pipelined, false, false, false, 1),
            (Scheme::Riva, false, true, false, 1),
            (Scheme::Sp, false, true, true, 1),
            (Scheme::Spc, false, true, true, 8),
        ] {
            assert_eq!(scheme.waits_for_each(), waits, "{scheme}");
            assert_eq!(scheme.reads_the_medium(), reads, "{scheme}");
            assert_eq!(scheme.waits_for_displacement(), displaced, "{scheme}");
            assert_eq!(scheme.verifiers(8), verifiers, "{scheme}");
            assert_eq!(scheme.by_whole_files(), !displaced, "{scheme}");
        }
    }
}
