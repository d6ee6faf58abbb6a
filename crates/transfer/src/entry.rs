//! What is transferred: files, directories and symbolic links, each with its path.

use crate::frame::PAGE_BYTES;
use crate::relative_path::RelativePath;

/// A time as file systems store it: seconds since 1970 and nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Time {
    /// Seconds; negative before 1970.
    pub seconds: i64,
    /// Nanoseconds after that.
    pub nanoseconds: u32,
}

/// The kind of an entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    /// A directory; its files are separate, later entries.
    Directory,
    /// A regular file.
    File {
        /// Its length.
        size_bytes: u64,
        /// The part of the length that is not holes.
        data_bytes: u64,
    },
    /// A symbolic link.
    Link {
        /// The target, as stored in the link.
        target: Vec<u8>,
    },
}

/// One file, directory or link of a transfer. Its number is its index in the list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The destination path.
    pub path: RelativePath,
    /// The kind of entry.
    pub kind: Kind,
    /// The permission bits (`rwxrwxrwx`; set-user-id and its like are not transferred).
    pub mode: u32,
    /// The time of the last modification.
    pub modified: Time,
}

impl Entry {
    /// The length of a file, otherwise 0.
    #[must_use]
    pub fn size_bytes(&self) -> u64 {
        match self.kind {
            Kind::File { size_bytes, .. } => size_bytes,
            _ => 0,
        }
    }

    /// The memory of its names, in addition to the entry itself.
    pub(crate) fn names_bytes(&self) -> usize {
        let target = if let Kind::Link { target } = &self.kind { target.len() } else { 0 };
        self.path.as_bytes().len() + target
    }

    /// The part of the length that is not holes.
    #[must_use]
    pub fn data_bytes(&self) -> u64 {
        match self.kind {
            Kind::File { data_bytes, .. } => data_bytes,
            _ => 0,
        }
    }

    /// The number of pages; the last one may be short.
    #[must_use]
    pub fn page_count(&self) -> u64 {
        self.size_bytes().div_ceil(PAGE_BYTES as u64)
    }

    /// The total bytes of the pages `first..first + count`.
    #[must_use]
    pub fn bytes_of_pages(&self, first: u64, count: u64) -> u64 {
        let end = (first + count).saturating_mul(PAGE_BYTES as u64).min(self.size_bytes());
        end.saturating_sub(first.saturating_mul(PAGE_BYTES as u64))
    }

    /// Whether this is a file.
    #[must_use]
    pub fn is_file(&self) -> bool {
        matches!(self.kind, Kind::File { .. })
    }
}
