//! The faults of a simulated disk, and their effects on calls.

use std::io;

/// The faults and their frequencies. By default there are none.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Faults {
    /// The probability of EIO from any call except a sync, per million.
    pub error_per_million: u32,
    /// The probability of EIO from any call that only reads, in addition, per million.
    pub read_error_per_million: u32,
    /// EIO from the call that is the n-th I/O ([`crate::SimDisk::io_count`] counts from 1).
    pub error_at_io: Option<u64>,
    /// ENOSPC from the call that is the n-th I/O.
    pub full_at_io: Option<u64>,
    /// EIO from the n-th read ([`crate::SimDisk::read_count`] counts from 1).
    pub error_at_read: Option<u64>,
    /// The probability that a sync of a file fails and drops dirty data, per million.
    pub sync_error_per_million: u32,
    /// The probability that a write is stored at the wrong place, per million.
    pub misdirect_per_million: u32,
    /// The probability that a call that opens a file lacks a descriptor, per million.
    pub lack_per_million: u32,
    /// The error number with which every hard link fails.
    pub link_error: Option<i32>,
    /// Whether reads may return less than requested.
    pub short_reads: bool,
    /// The size of the disk.
    pub capacity_bytes: Option<u64>,
}

/// The fate of a call that changes the disk.
#[derive(Debug)]
pub(crate) enum Verdict {
    /// Do it.
    Do,
    /// Do it, then fail nevertheless.
    DoAndFail(io::Error),
    /// Fail without doing it.
    Fail(io::Error),
}

impl Verdict {
    /// Runs `effect` or not. Returns the result of the call.
    pub(crate) fn carry_out<T>(self, effect: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
        match self {
            Self::Do => effect(),
            Self::DoAndFail(error) => {
                // The call fails either way: the caller must not learn how the effect went.
                let _unseen = effect();
                Err(error)
            }
            Self::Fail(error) => Err(error),
        }
    }
}
