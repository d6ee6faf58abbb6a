//! The files that the log was made of when a block was its last.
//!
//! ```text
//!   in place    7.g2 ────────────[from ───────────────────────────────────►
//!   kept        7.g1 ───[from ───────until)
//!   kept        9.g0 ─[from ───────────────until)      a segment that is gone
//!                                  X
//! ```
//!
//! A compaction is ordered when one before it has ended, and what it drops was not needed after the block
//! that was the last one then. So the files with X between their `from` and their `until` are together a
//! directory that there was: what could be concluded there, as that a delete record may go, holds for
//! them. What they have of blocks behind X is cut, as a start cuts what is behind a hole.
//!
//! Completeness comes from the lists: what the manifest says of images in place, and of kept files. Gaps
//! up to X, as far as the horizon of today goes, say nothing.

use base::Lsn;

use crate::error::{Error, Result};
use crate::format::manifest::HistoryPoint;
use crate::format::registry::NamedBackup;
use crate::read::catalog::{Catalog, KeptImages, KeptState};
use crate::read::scan::SegmentFile;

/// Which of its past the log can still tell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reach {
    /// The state after every block from this one on.
    pub floor: Lsn,
    /// When the log was at the floor, at the latest, in Unix milliseconds; 0 if unknown.
    pub floor_ms: i64,
    /// The states after these blocks, before FLUSHALL and its like; some may be above the floor.
    pub points: Vec<HistoryPoint>,
    /// Backups that have all that they need; of blocks below the floor or above it.
    pub backups: Vec<NamedBackup>,
}

impl Reach {
    /// Whether the state after this block can be told, if there is such a block.
    #[must_use]
    pub fn has(&self, lsn: Lsn) -> bool {
        lsn >= self.floor || self.singles().any(|single| single == lsn)
    }

    /// The nearest block before this one that can be told, unless it can itself.
    fn before(&self, lsn: Lsn) -> Option<Lsn> {
        self.singles().filter(|single| *single < lsn).max()
    }

    fn after(&self, lsn: Lsn) -> Lsn {
        self.singles().filter(|single| *single > lsn).fold(self.floor, Lsn::min)
    }

    /// Blocks that can be told whether or not the floor is above them.
    fn singles(&self) -> impl Iterator<Item = Lsn> {
        let points = self.points.iter().map(|point| point.lsn);
        points.chain(self.backups.iter().map(|backup| backup.lsn))
    }

    /// Refuses a block that cannot be told.
    pub(crate) fn check(&self, lsn: Lsn) -> Result<()> {
        if self.has(lsn) {
            return Ok(());
        }
        Err(Error::OutOfReach { lsn, before: self.before(lsn), after: self.after(lsn) })
    }
}

/// Blocks that lack a file: from the first of each pair up to before the second.
pub(crate) struct Lost(Vec<(Lsn, Lsn)>);

impl Lost {
    /// Whether the block lacks none.
    pub(crate) fn has_left(&self, lsn: Lsn) -> bool {
        !self.0.iter().any(|(from, until)| *from <= lsn && lsn < *until)
    }

    /// From here on none does.
    fn end(&self) -> Lsn {
        self.0.iter().map(|(_, until)| *until).max().unwrap_or(Lsn::ZERO)
    }
}

impl Catalog {
    /// Which of its past the log can tell, with what is kept.
    pub(crate) fn reach(&self, kept: &[KeptImages]) -> Reach {
        let Some(manifest) = &self.manifest else {
            let (points, backups) = (Vec::new(), Vec::new());
            return Reach { floor: Lsn::ZERO, floor_ms: 0, points, backups };
        };
        let lost = Self::lost(kept);
        let points = manifest.history_points.iter().filter(|point| lost.has_left(point.lsn));
        let backups = manifest.registry.backups().iter();
        let backups = backups.filter(|backup| !backup.is_lost && lost.has_left(backup.lsn));
        let floor = manifest.history_floor.max(lost.end());
        let floor_ms = if floor > manifest.history_floor { 0 } else { manifest.history_floor_ms };
        Reach {
            floor,
            floor_ms,
            points: points.copied().collect(),
            backups: backups.cloned().collect(),
        }
    }

    /// Of which blocks a file is missing that they need.
    pub(crate) fn lost(kept: &[KeptImages]) -> Lost {
        let is_there =
            |it: &&KeptImages| matches!(it.state, KeptState::There(_) | KeptState::InPlace);
        let lost = kept.iter().filter(|it| !is_there(it));
        Lost(lost.map(|it| (it.file.from, it.file.until)).collect())
    }

    /// Returns that of the log when `lsn` was its last block.
    pub(crate) fn as_of(&self, kept: &[KeptImages], lsn: Lsn) -> Result<Self> {
        self.reach(kept).check(lsn)?;
        self.told_as_of(kept, lsn)
    }

    /// As [`Catalog::as_of`], of a block that is known to be one that the log can tell.
    pub(crate) fn told_as_of(&self, kept: &[KeptImages], lsn: Lsn) -> Result<Self> {
        let is_there = |image: &SegmentFile| image.from() <= lsn;
        let kept = kept.iter().filter(|kept| kept.file.from <= lsn && lsn < kept.file.until);
        let kept = kept.filter_map(|kept| match &kept.state {
            KeptState::There(images) => Some(images),
            _ => None,
        });
        let images = self.files.iter().chain(kept.flatten());
        let mut files: Vec<SegmentFile> = images.filter(|image| is_there(image)).cloned().collect();
        files.sort_by_key(|file| (file.header.segment, file.header.part));
        let as_of = Self {
            manifest: self.manifest.clone(),
            devices: self.devices.clone(),
            files,
            unborn: Vec::new(),
            leftovers: Vec::new(),
            history: Vec::new(),
            limit: Some(lsn),
        };
        as_of.check_parts()?;
        Ok(as_of)
    }
}
