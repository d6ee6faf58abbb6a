//! How one client tracks.

use std::collections::BTreeSet;

/// Which keys a client is told of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Those that it has read.
    #[default]
    Read,
    /// OPTIN: those that it has read with the command or transaction after CLIENT CACHING YES.
    OptIn,
    /// OPTOUT: those that it has read, but for the command or transaction after CLIENT CACHING NO.
    OptOut,
    /// BCAST: those with its prefixes, read or not.
    Broadcast,
}

/// See the file's top.
#[derive(Debug, Default)]
pub(crate) struct Tracker {
    pub(crate) mode: Mode,
    /// It is not told of its own changes.
    pub(crate) is_own_kept: bool,
    /// The id of the client that is told in its place.
    pub(crate) redirect: Option<u64>,
    /// That one had gone when there was something to tell.
    pub(crate) is_broken: bool,
    /// CLIENT CACHING was said, for the next command or transaction.
    pub(crate) is_caching_said: bool,
    pub(crate) prefixes: BTreeSet<Box<[u8]>>,
    prefix_bytes: usize,
}

/// What a prefix takes in addition to its bytes: with its client, and its place among all prefixes.
const PREFIX_OVERHEAD_BYTES: usize = 64;

impl Tracker {
    /// As CLIENT TRACKING says, but for prefixes.
    pub(crate) fn new(mode: Mode, redirect: Option<u64>, is_own_kept: bool) -> Self {
        Self { mode, redirect, is_own_kept, ..Self::default() }
    }

    /// Whether what its client reads now is remembered.
    pub(crate) const fn remembers(&self) -> bool {
        match self.mode {
            Mode::Read => true,
            Mode::OptIn => self.is_caching_said,
            Mode::OptOut => !self.is_caching_said,
            Mode::Broadcast => false,
        }
    }

    pub(super) fn add_prefix(&mut self, prefix: &[u8]) {
        if self.prefixes.insert(prefix.into()) {
            self.prefix_bytes += PREFIX_OVERHEAD_BYTES + prefix.len();
        }
    }

    /// The memory that it takes, in bytes.
    pub(crate) const fn memory_bytes(&self) -> usize {
        size_of::<Self>() + self.prefix_bytes
    }
}
