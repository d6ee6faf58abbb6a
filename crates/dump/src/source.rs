//! Sorted items, from wherever they are: in memory, or in runs of the spill file.
//!
//! ```text
//!   Sorter ─finish─► Sorted ─ step … ─► Source ─► groups, and the items of each
//!                      └ many runs are merged into fewer
//! ```

use crate::batch::Batch;
use crate::error::Result;
use crate::levels::Levels;
use crate::merge::Merge;
use crate::run::{Group, Item};
use crate::spill::Spill;

/// Everything that was pushed into a sorter.
pub(crate) enum Sorted {
    /// It fits in memory, except for what was put aside.
    InMemory(Batch, Option<Spill>),
    InRuns(Levels),
}

impl Sorted {
    /// Does some of what is to be done before it can be read. Returns the bytes that were merged;
    /// `None` if nothing is left to do.
    pub(crate) fn step(&mut self) -> Result<Option<usize>> {
        match self {
            Self::InMemory(..) => Ok(None),
            Self::InRuns(levels) => levels.step(),
        }
    }

    /// Becomes what can be read. REQUIRES: [`Sorted::step`] said that nothing is left to do.
    pub(crate) fn into_source(self) -> Result<Source> {
        match self {
            Self::InMemory(batch, spill) => Ok(Source::Batch(batch, spill)),
            Self::InRuns(levels) => {
                let (merge, spill) = levels.finish()?;
                Ok(Source::Runs(merge, spill))
            }
        }
    }

    /// How much was spilled, in bytes.
    pub(crate) fn spilled_bytes(&self) -> u64 {
        match self {
            Self::InMemory(_, spill) => spill.as_ref().map_or(0, Spill::len),
            Self::InRuns(levels) => levels.spilled_bytes(),
        }
    }
}

/// Where sorted items come from, and what was put aside.
pub(crate) enum Source {
    Batch(Batch, Option<Spill>),
    Runs(Merge, Spill),
}

impl Source {
    /// Begins the next group; `None` behind the last one.
    ///
    /// REQUIRES: all items of the group before were read.
    pub(crate) fn group(&mut self) -> Result<Option<Group>> {
        match self {
            Self::Batch(batch, _) => Ok(batch.group()),
            Self::Runs(merge, spill) => merge.group(spill),
        }
    }

    /// Returns the next item of the group, and the file that has what was put aside.
    pub(crate) fn item(&mut self) -> Result<Option<(Item<'_>, Option<&Spill>)>> {
        match self {
            Self::Batch(batch, spill) => Ok(batch.item().map(|item| (item, spill.as_ref()))),
            Self::Runs(merge, spill) => Ok(merge.item(spill)?.map(|item| (item, Some(&*spill)))),
        }
    }

    /// How much was spilled, in bytes.
    pub(crate) fn spilled_bytes(&self) -> u64 {
        match self {
            Self::Batch(_, spill) => spill.as_ref().map_or(0, Spill::len),
            Self::Runs(_, spill) => spill.len(),
        }
    }
}
