//! What is transferred: files, directories and symbolic links, each with its path.

use crate::frame::PAGE_BYTES;
use crate::relative_path::RelativePath;

/// A moment: seconds since 1970 and nanoseconds, as files have them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Time {
    /// Seconds; negative before 1970.
    pub seconds: i64,
    /// Nanoseconds behind them.
    pub nanoseconds: u32,
}

/// What an entry is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    /// A directory; its files are entries of their own, behind it.
    Directory,
    /// A regular file.
    File {
        /// Its length.
        size_bytes: u64,
        /// How much of that is not holes.
        data_bytes: u64,
    },
    /// A symbolic link.
    Link {
        /// What it points to, as it stands in the link.
        target: Vec<u8>,
    },
}

/// One file, directory or link of a transfer. Its number is its place in the list of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Where it goes.
    pub path: RelativePath,
    /// What it is.
    pub kind: Kind,
    /// Permission bits (`rwxrwxrwx`; set-user-id and its like are not transferred).
    pub mode: u32,
    /// When it was last modified.
    pub modified: Time,
}

impl Entry {
    /// The length if it is a file, otherwise 0.
    #[must_use]
    pub fn size_bytes(&self) -> u64 {
        match self.kind {
            Kind::File { size_bytes, .. } => size_bytes,
            _ => 0,
        }
    }

    /// The memory that its names take in addition to itself.
    pub(crate) fn names_bytes(&self) -> usize {
        let target = if let Kind::Link { target } = &self.kind { target.len() } else { 0 };
        self.path.as_bytes().len() + target
    }

    /// How much of it is not holes.
    #[must_use]
    pub fn data_bytes(&self) -> u64 {
        match self.kind {
            Kind::File { data_bytes, .. } => data_bytes,
            _ => 0,
        }
    }

    /// How many pages it has; the last one may be short.
    #[must_use]
    pub fn page_count(&self) -> u64 {
        self.size_bytes().div_ceil(PAGE_BYTES as u64)
    }

    /// How many bytes the pages `first..first + count` of it have together.
    #[must_use]
    pub fn bytes_of_pages(&self, first: u64, count: u64) -> u64 {
        let end = (first + count).saturating_mul(PAGE_BYTES as u64).min(self.size_bytes());
        end.saturating_sub(first.saturating_mul(PAGE_BYTES as u64))
    }

    /// Whether it is a file.
    #[must_use]
    pub fn is_file(&self) -> bool {
        matches!(self.kind, Kind::File { .. })
    }
}
