//! The ways to recover that are compared, and what each keeps on disk.

use std::path::{Path, PathBuf};

/// A way to log and to recover; the names of the first three are the paper's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Scheme {
    /// A sequential log, read as a whole before anything is served.
    Slr,
    /// The log, and a tree of all records of every key, fed after the commit.
    Ailir,
    /// The log, and a tree of the newest record of every key, fed after the commit.
    AilirNewest,
    /// No log: a commit writes its records to the tree.
    Silir,
    /// The log and its index in sorted runs, as the server has them.
    Runs,
}

/// A directory of a scheme.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    Log,
    /// All records of every key.
    Tree,
    /// The newest record of every key.
    Newest,
    /// The sorted runs.
    Index,
}

impl Scheme {
    /// What it keeps on disk.
    pub(super) const fn parts(self) -> &'static [Part] {
        match self {
            Self::Slr => &[Part::Log],
            Self::Ailir => &[Part::Log, Part::Tree],
            Self::AilirNewest => &[Part::Log, Part::Newest],
            Self::Silir => &[Part::Tree],
            Self::Runs => &[Part::Log, Part::Index],
        }
    }

    /// Whether its log may be compacted: the paper's trees point to nothing, but never shrink.
    pub(super) const fn may_compact(self) -> bool {
        matches!(self, Self::Slr | Self::Runs)
    }
}

impl Part {
    /// The directory of this part in `dir`.
    pub(super) fn dir(self, dir: &Path) -> PathBuf {
        dir.join(match self {
            Self::Log => "log",
            Self::Tree => "tree",
            Self::Newest => "newest",
            Self::Index => "index",
        })
    }
}
