//! The pass that counts the keys of an index that was built.

use base::DbId;
use logindex::{Entry, Index, Judge, LivePass};

use crate::error::Result;

/// Counts the keys of each database, once; see [`crate::Known`].
#[derive(Default)]
pub(crate) enum Counting {
    /// Nothing is to be counted, or not yet.
    #[default]
    Idle,
    /// A pass is under way.
    Running(Box<LivePass>),
}

impl Counting {
    /// Begins over `index`; `judge` is as of its cut.
    pub(crate) fn begin(index: &Index, judge: Judge) -> Result<Self> {
        Ok(Self::Running(Box::new(index.live_pass(judge)?)))
    }

    pub(crate) const fn is_running(&self) -> bool {
        matches!(self, Self::Running(_))
    }

    /// Counts up to so many entries. Returns the keys of each database when the pass is over.
    ///
    /// # Errors
    /// When the index cannot be read; the pass has ended then.
    pub(crate) fn step(&mut self, entries_max: usize) -> Result<Option<Vec<(DbId, u64)>>> {
        let Self::Running(mut pass) = std::mem::take(self) else { return Ok(None) };
        if pass.step(entries_max, &mut |_: &Entry| {})? {
            return Ok(Some(pass.counts().databases.clone()));
        }
        *self = Self::Running(pass);
        Ok(None)
    }
}
