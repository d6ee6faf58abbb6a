//! What goes wrong with a simulated disk, and how a call goes then.

use std::io;

/// What goes wrong, and how often. The default is nothing.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Faults {
    /// EIO from any call but a sync, so many times in a million.
    pub error_per_million: u32,
    /// EIO from the call that is the n-th I/O ([`crate::SimDisk::io_count`] counts from 1).
    pub error_at_io: Option<u64>,
    /// EIO from the n-th read ([`crate::SimDisk::read_count`] counts from 1).
    pub error_at_read: Option<u64>,
    /// A sync of a file fails and drops what was dirty, so many times in a million.
    pub sync_error_per_million: u32,
    /// A write is stored at the wrong place, so many times in a million.
    pub misdirect_per_million: u32,
    /// No descriptor for a call that opens something, so many times in a million.
    pub lack_per_million: u32,
    /// Every hard link fails with this error number.
    pub link_error: Option<i32>,
    /// Reads may return less than was asked for.
    pub short_reads: bool,
    /// The size of the disk.
    pub capacity_bytes: Option<u64>,
}

/// How a call that changes the disk shall go.
#[derive(Debug)]
pub(crate) enum Verdict {
    /// Do it.
    Do,
    /// Do it, and then fail all the same.
    DoAndFail(io::Error),
    /// Fail without doing it.
    Fail(io::Error),
}

impl Verdict {
    /// Runs `effect` or not, and gives what the call returns.
    pub(crate) fn carry_out<T>(self, effect: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
        match self {
            Self::Do => effect(),
            Self::DoAndFail(error) => {
                // The call fails either way: how the effect went is not for the caller to know.
                let _unseen = effect();
                Err(error)
            }
            Self::Fail(error) => Err(error),
        }
    }
}
