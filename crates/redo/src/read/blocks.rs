//! Blocks in the order of their LSNs, of a log that goes on meanwhile.
//!
//! The images that there are now are merged. When one of them is replaced under the reader it finds
//! the new ones and goes on behind the last block that it gave out. A number that is missing above
//! the horizon is no end and no gap but a sign of the same; only if it is missing again and again it
//! is an error.
//!
//! **No deletion is missed.** A compaction drops a delete record when no older file has what it
//! deletes; but the caller may have read that, from here or from a mark. Where a delete record from the
//! next block on was dropped since the caller's state was there, the blocks are refused.
//!
//! **Every record**, also what is garbage by now, is in the blocks above the horizon, and in those that history has
//! kept as they were written: see `past`. To a caller that wants every one, blocks below both are refused, whenever the files
//! are looked up.
//!
//! **A state of the past** is what the files tell that were in place then, as far as history has them.

use std::collections::BTreeSet;
use std::sync::Arc;

use base::Lsn;
use env::FileError;

use crate::error::{Error, Result};
use crate::read::extent;
use crate::read::images::{self, ATTEMPTS_MAX};
use crate::read::merge::{DeviceStream, Merge};
use crate::read::past::{self, Past};
use crate::read::reader::LogBlock;
use crate::read::scan::SegmentFile;
use crate::shared::device::Shared;
use crate::shared::dropped_deletes::DropCount;

/// See the file's top.
pub struct Blocks {
    shared: Arc<Shared>,
    /// The first block that was not given out.
    next: Lsn,
    /// The last one that will be.
    end: Lsn,
    pass: Option<Pass>,
    /// How often in a row something was replaced before anything was read.
    failures: usize,
    wanted: Wanted,
}

/// What the blocks must have.
enum Wanted {
    /// What has changed since the caller's state.
    ///
    /// Delete records that were dropped by the first so many drops are not missed: when the files were
    /// looked up first those had ended, and no file had an older record of theirs any more. `None`: the caller has what
    /// comes before `next` from elsewhere, from before all drops perhaps.
    Changes(Option<DropCount>),
    /// Every record that they ever had.
    EveryRecord,
    /// What was needed after the last of them; as far as history does not tell that, what is left.
    State,
}

/// A merge of the images that there were at one time.
struct Pass {
    images: Vec<Arc<SegmentFile>>,
    merge: Merge,
    /// Blocks up to this one may be missing.
    horizon: Lsn,
    /// Set if some are read from history.
    past: Option<PastPass>,
}

/// What a pass has of history.
#[derive(Clone, Copy)]
struct PastPass {
    /// Blocks up to this one may be missing in the files in place.
    horizon: Lsn,
    /// Images from here on are kept ones.
    first_kept: usize,
}

impl Blocks {
    pub(crate) fn new(shared: Arc<Shared>, from: Lsn) -> Self {
        let end = shared.durability.durable_lsn();
        let wanted = Wanted::Changes(None);
        Self { shared, next: from.max(Lsn(1)), end, pass: None, failures: 0, wanted }
    }

    /// See [`crate::Reader::blocks_of_index`].
    pub(crate) fn of_index(shared: Arc<Shared>, from: Lsn) -> Self {
        Self { wanted: Wanted::Changes(Some(DropCount::default())), ..Self::new(shared, from) }
    }

    /// See [`crate::Reader::whole_blocks`].
    pub(crate) fn whole(shared: Arc<Shared>, from: Lsn) -> Self {
        Self { wanted: Wanted::EveryRecord, ..Self::new(shared, from) }
    }

    /// See [`crate::Reader::blocks_of_state`].
    pub(crate) fn of_state(shared: Arc<Shared>, last: Lsn) -> Self {
        Self { wanted: Wanted::State, ..Self::new(shared, Lsn(1)) }.up_to(last)
    }

    /// Gives out no block behind this one.
    #[must_use]
    pub fn up_to(mut self, last: Lsn) -> Self {
        self.end = self.end.min(last);
        self
    }

    /// Returns the last block that will be given out: what was durable when the reading began.
    #[must_use]
    pub const fn end(&self) -> Lsn {
        self.end
    }

    /// Returns the next block; `None` behind the last one.
    ///
    /// # Errors
    /// When a file cannot be read, is damaged or missing: calling it again tries again. And when
    /// deletions would be missed.
    #[expect(clippy::should_implement_trait, reason = "after an error it can go on")]
    pub fn next(&mut self) -> Result<Option<LogBlock>> {
        loop {
            if self.next > self.end {
                return Ok(None);
            }
            match self.step() {
                Ok(block) => {
                    self.failures = 0;
                    self.next = block.as_ref().map_or(self.end, LogBlock::lsn).next();
                    return Ok(block);
                }
                Err(error) => {
                    let pass = self.pass.take();
                    let lost = pass.as_ref().and_then(|pass| pass.lost_by(&error, self.next));
                    let error = lost.unwrap_or(error);
                    self.failures += 1;
                    let is_final =
                        matches!(error, Error::DeletesDropped { .. } | Error::BlocksGone { .. });
                    if is_final || self.failures >= ATTEMPTS_MAX {
                        self.failures = 0;
                        return Err(error);
                    }
                }
            }
        }
    }

    fn step(&mut self) -> Result<Option<LogBlock>> {
        if self.pass.is_none() {
            self.pass = Some(self.begin_pass()?);
        }
        let pass = self.pass.as_mut().expect("begun above");
        loop {
            let found = pass.merge.next()?;
            let lsn = found.as_ref().map_or(self.end.next(), |(_, block)| block.header.lsn);
            if lsn < self.next {
                continue;
            }
            // Every number above the horizon is there, or a file of it was not seen.
            let first_needed = self.next.max(pass.horizon.next());
            if first_needed < lsn && first_needed <= self.end {
                if pass.past.is_some_and(|past| first_needed <= past.horizon) {
                    let (from, whole_from) = (first_needed, lsn);
                    return Err(Error::BlocksGone { from, whole_from });
                }
                let file = crate::format::manifest::path_in(self.shared.manifest.dir());
                let durable = self.end;
                return Err(Error::Hole { missing: first_needed, durable, next: lsn, file });
            }
            return Ok(found
                .filter(|_| lsn <= self.end)
                .map(|(file, block)| LogBlock { block, source: Arc::clone(&pass.images[file]) }));
        }
    }
}

impl Blocks {
    /// Looks the files up, and whether they have what is wanted.
    fn begin_pass(&mut self) -> Result<Pass> {
        let is_first = self.next == Lsn(1);
        if is_first && let Wanted::Changes(drops_seen) = &mut self.wanted {
            *drops_seen = Some(self.shared.dropped_deletes.count());
        }
        match self.wanted {
            Wanted::Changes(drops_seen) => {
                let pass = Pass::begin(&self.shared, self.next)?;
                // After the images: before a file goes away, what is dropped from it is noted.
                let last = self.shared.dropped_deletes.newest(drops_seen);
                if !is_first && last >= self.next {
                    return Err(Error::DeletesDropped { from: self.next, last });
                }
                Ok(pass)
            }
            Wanted::EveryRecord => Pass::of_every_record(&self.shared, self.next),
            Wanted::State => Pass::of_state(&self.shared, self.next, self.end),
        }
    }
}

impl Pass {
    fn begin(shared: &Shared, from: Lsn) -> Result<Self> {
        let images = images::find_all(shared)?;
        // After the images: before a file goes away the horizon covers what was in it.
        let horizon = extent::horizon(&shared.manifest.get(), &images);
        Self::over(shared, from, images, horizon)
    }

    /// With every record of the blocks.
    fn of_every_record(shared: &Shared, from: Lsn) -> Result<Self> {
        let mut images = images::find_all(shared)?;
        let horizon = extent::horizon(&shared.manifest.get(), &images);
        if from > horizon {
            // What is read later is of these files, or they are looked up again.
            return Self::over(shared, from, images, horizon);
        }
        let is_original = |generation: u32| generation == 0;
        let past = Past::find(shared, |file| is_original(file.generation) && file.until >= from)?;
        let floor = past.floor.min(horizon);
        if from <= floor {
            return Err(Error::BlocksGone { from, whole_from: floor.next() });
        }
        images.retain(|image| is_original(image.header.generation));
        let past_pass = PastPass { horizon, first_kept: images.len() };
        join(&mut images, past.images);
        Ok(Self { past: Some(past_pass), ..Self::over(shared, from, images, floor)? })
    }

    /// With what the files have that were in place when `last` was the last block.
    fn of_state(shared: &Shared, from: Lsn, last: Lsn) -> Result<Self> {
        let mut images = images::find_all(shared)?;
        let manifest = shared.manifest.get();
        let horizon = extent::horizon(&manifest, &images);
        let is_told = extent::told_from(&manifest, &images) <= last;
        if is_told || last < past::floor(&manifest) {
            return Self::over(shared, from, images, horizon);
        }
        let past = Past::find(shared, |file| file.from <= last && last < file.until)?;
        if last < past.floor {
            return Err(Error::BlocksGone { from: last.next(), whole_from: past.floor.next() });
        }
        join(&mut images, past.images);
        images.retain(|image| image.from() <= last);
        // The lists say that nothing is missing.
        Self::over(shared, from, images, last)
    }

    fn over(shared: &Shared, from: Lsn, images: Vec<SegmentFile>, horizon: Lsn) -> Result<Self> {
        let ends_before =
            |image: &SegmentFile| image.footer.as_ref().is_some_and(|f| f.max_lsn < from);
        let mut by_device = vec![Vec::new(); shared.devices.len()];
        for (index, image) in images.iter().enumerate().filter(|(_, image)| !ends_before(image)) {
            by_device[image.device].push((index, image.clone()));
        }
        let streams = by_device
            .into_iter()
            .map(|files| DeviceStream::of_running_log(Arc::clone(&shared.disk), files));
        let merge = Merge::sequential(streams.collect::<Result<_>>()?)?;
        let images = images.into_iter().map(Arc::new).collect();
        Ok(Self { images, merge, horizon, past: None })
    }

    /// What it means that reading has failed so, if a kept file is damaged: no copy of it will be better.
    fn lost_by(&self, error: &Error, from: Lsn) -> Option<Error> {
        let Error::File(FileError::Corrupt { path, .. }) = error else { return None };
        let kept = &self.images[self.past?.first_kept..];
        let file = kept.iter().find(|image| image.path == *path)?;
        let whole_from = file.footer.as_ref().map_or(from, |footer| footer.max_lsn).next();
        Some(Error::BlocksGone { from, whole_from })
    }
}

/// Adds kept images to those in place: a file that is about to be replaced is both.
fn join(images: &mut Vec<SegmentFile>, kept: Vec<SegmentFile>) {
    let name = |image: &SegmentFile| {
        let header = &image.header;
        (header.segment, header.part, header.generation)
    };
    let in_place: BTreeSet<_> = images.iter().map(name).collect();
    images.extend(kept.into_iter().filter(|image| !in_place.contains(&name(image))));
}
