//! One merge: which runs, and their entries on the way to a new run.
//!
//! Merged are runs that follow one another, so that every other run is newer or older than all of
//! them. Of each name the newest entry stays. Only the merge into the bottom takes all runs: below it
//! there is nothing, so it drops entries that are gone; and it sees every living root, so it drops
//! entries of dead scopes.

use std::path::Path;
use std::sync::Arc;

use base::Lsn;
use env::Disk;

use crate::error::Result;
use crate::index::Index;
use crate::judge::{Court, Judge};
use crate::merge::Merge;
use crate::options::Options;
use crate::run::Run;
use crate::run_format::Level;
use crate::run_writer::{Ended, Output, Target};

/// Runs that are to be merged.
pub(crate) struct Plan {
    /// From the newest to the oldest.
    runs: Vec<Arc<Run>>,
    level: Level,
}

/// Decides what is to be merged, if anything.
pub(crate) fn plan(index: &Index, options: &Options) -> Option<Plan> {
    let runs = index.run_list();
    let bytes_of = |is_bottom: bool| -> u64 {
        let of_kind = runs.iter().filter(|run| (run.info.level == Level::Bottom) == is_bottom);
        of_kind.map(|run| run.info.bytes).sum()
    };
    let count_of = |level| runs.iter().filter(|run| run.info.level == level).count();
    let zero = count_of(Level::Zero);
    if runs.len() > options.merge_max && zero >= 2 {
        // So many at once come after a long merge, or from a log that was written anew.
        let count = zero.min(options.merge_max);
        return Some(Plan { runs: runs[zero - count..zero].to_vec(), level: Level::One });
    }
    let newer_max = (bytes_of(true) * options.newer_per_cent / 100).max(options.newer_min_bytes);
    let is_much_newer = bytes_of(false) > newer_max;
    if is_much_newer || count_of(Level::One) >= options.level_1_max {
        return Some(Plan { runs: runs.to_vec(), level: Level::Bottom });
    }
    (zero >= options.fan_in).then(|| Plan { runs: runs[..zero].to_vec(), level: Level::One })
}

/// A merge under way.
pub(crate) struct MergeJob {
    pub(crate) runs: Vec<Arc<Run>>,
    level: Level,
    pub(crate) id: u64,
    after: Lsn,
    up_to: Lsn,
    merge: Merge,
    court: Court,
    is_read: bool,
    output: Output,
}

impl MergeJob {
    /// Begins a merge. `judge` is as of an installed cut: what is dead there is dead for good.
    pub(crate) fn begin(plan: Plan, id: u64, judge: Judge, chunk_bytes: usize) -> Result<Self> {
        let Plan { runs, level } = plan;
        let merge = Merge::all(runs[..].into(), chunk_bytes)?;
        Ok(Self {
            after: runs.last().expect("a merge has runs").info.after,
            up_to: runs[0].info.up_to,
            runs,
            level,
            id,
            merge,
            court: Court::new(judge),
            is_read: false,
            output: Output::Empty,
        })
    }

    /// Merges some entries, or writes some of the end.
    pub(crate) fn step(
        &mut self,
        disk: &dyn Disk,
        dir: &Path,
        options: &Options,
        database: [u8; 16],
    ) -> Result<Ended> {
        if self.is_read {
            return self.output.end(disk, dir);
        }
        let (id, after, up_to) = (self.id, self.after, self.up_to);
        let target = Target { disk, dir, options, database, id, after, up_to };
        for _ in 0..options.step_entries {
            let Some(entry) = self.merge.next()? else {
                self.is_read = true;
                break;
            };
            let is_needed = match self.level {
                Level::Bottom => entry.place().is_some() && self.court.is_alive(&entry),
                Level::Zero | Level::One => true,
            };
            if is_needed {
                self.output.push(&entry, &target, self.level)?;
            }
        }
        Ok(Ended::NotYet)
    }
}
