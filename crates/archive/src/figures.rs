//! What an archiver tells of itself.

use base::Lsn;

use crate::error::Error;
use crate::picture::Picture;

/// What it is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum State {
    /// There is none.
    #[default]
    Off,
    /// It looks at what is there, and claims it.
    Claiming,
    /// The first copy of the data is made: nothing can be restored before it is complete.
    Filling,
    /// Blocks are shipped as they become durable.
    Streaming,
    /// The target cannot be used, or the log not be read; it is tried again.
    Away,
    /// Blocks were compacted before they were shipped, or are damaged: a new copy is made, behind which the stream goes on.
    Gap,
    /// Another writer has claimed the archive.
    Fenced,
    /// The archive is not that of this log.
    Failed,
}

impl State {
    /// Its name in INFO.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Claiming => "claiming",
            Self::Filling => "filling",
            Self::Streaming => "streaming",
            Self::Away => "away",
            Self::Gap => "gap",
            Self::Fenced => "fenced",
            Self::Failed => "failed",
        }
    }

    /// The one in which it ends with this error; `None` if it is tried again.
    pub(crate) const fn after(error: &Error) -> Option<Self> {
        match error {
            Error::Fenced { .. } => Some(Self::Fenced),
            Error::Ahead { .. }
            | Error::Diverged { .. }
            | Error::Different { .. }
            | Error::Damaged { .. }
            | Error::NoNumber { .. }
            | Error::Newer { .. }
            | Error::NoKey { .. }
            | Error::NotEncrypted { .. } => Some(Self::Failed),
            _ => None,
        }
    }
}

/// How thinning out goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TidyState {
    /// Everything is kept.
    #[default]
    Off,
    /// It is done every hour.
    Idle,
    /// It is done.
    Working,
    /// What it removes stays for a while, so that restores can end.
    Waiting,
    /// The wall clock was set: nothing is done before it has gone as the other clock for an hour.
    ClockSet,
    /// Ages are counted from an earlier time than the clock's, and go on by a few hours each time: the server was away for
    /// long, or its clock is ahead. Or no time is known to count from: then nothing goes.
    Behind,
    /// The target lets nothing be removed: it is not tried again by this process as long as the rules are the same.
    Refused,
}

impl TidyState {
    /// Its name in INFO.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Idle => "idle",
            Self::Working => "working",
            Self::Waiting => "waiting",
            Self::ClockSet => "clock-set",
            Self::Behind => "behind",
            Self::Refused => "refused",
        }
    }
}

/// How an archive was thinned out, by this process.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TidyFigures {
    /// How it goes on.
    pub state: TidyState,
    /// What was known to be damaged when it was thinned out last: what only that leads to stays as it is.
    pub damaged: u64,
    /// How often it was thinned out.
    pub times: u64,
    /// Objects that went by that.
    pub objects: u64,
    /// When it was done last, in Unix milliseconds; 0 for never.
    pub time_ms: i64,
}

/// What an archiver has done.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Figures {
    /// What it is doing.
    pub state: State,
    /// Its number; 0 before it has claimed.
    pub writer: u64,
    /// The last block that can be restored: this one, and all from [`Self::restorable_from`] on. 0 if none can.
    pub archived: Lsn,
    /// When that block was ended, in Unix milliseconds; 0 if that is not known.
    pub archived_time_ms: i64,
    /// The last block that was archived since the start and read back from its medium, with all objects that were put before it; 0 where
    /// the target does not do that.
    pub verified: Lsn,
    /// Objects that were read back as something else.
    pub damaged: u64,
    /// The first block of those up to `archived` without a gap.
    pub restorable_from: Lsn,
    /// The last block that was shipped.
    pub shipped: Lsn,
    /// How many blocks are durable and not shipped.
    pub lag_blocks: u64,
    /// About how many bytes those have, of what was written since the log was opened.
    pub lag_bytes: u64,
    /// Since when there are some, in milliseconds.
    pub lag_ms: u64,
    /// Since when there are blocks that are durable and could not be restored, in milliseconds: also what is shipped, while there is no copy that it is
    /// behind. Counted from the start of the process, and of damage from when it was found, if that is later.
    pub behind_ms: u64,
    /// Objects that were put.
    pub objects: u64,
    /// Their bytes, as they are put.
    pub bytes: u64,
    /// The same before they were compressed.
    pub raw_bytes: u64,
    /// Copies that were completed.
    pub fills: u64,
    /// Records of the copy that is being made that were read, of how many.
    pub fill_done: u64,
    /// See `fill_done`.
    pub fill_total: u64,
    /// How often blocks were gone before they were shipped.
    pub gaps: u64,
    /// How it was thinned out.
    pub tidy: TidyFigures,
    /// What has failed.
    pub errors: u64,
    /// What has failed last.
    pub last_error: Option<String>,
}

impl Figures {
    /// Everything up to this block can be restored.
    pub(crate) fn raise_archived(&mut self, last: Lsn, time_ms: i64) {
        if last > self.archived {
            (self.archived, self.archived_time_ms) = (last, time_ms);
        }
    }

    /// Nothing before this block is said to be there, if there is one.
    pub(crate) fn raise_restorable(&mut self, from: Option<Lsn>) {
        self.restorable_from = from.unwrap_or_default().max(self.restorable_from);
    }

    /// Only what this has is said to be archived: something that there was is damaged.
    pub(crate) fn fall_back(&mut self, picture: &Picture) {
        let range = picture.ranges.iter().rfind(|range| range.first <= self.archived);
        let (first, last) = range.map_or_else(Default::default, |range| (range.first, range.last));
        if last < self.archived {
            (self.archived, self.archived_time_ms, self.restorable_from) = (last, 0, first);
        }
        self.raise_restorable(Some(first));
        self.verified = self.verified.min(self.archived);
    }
}
