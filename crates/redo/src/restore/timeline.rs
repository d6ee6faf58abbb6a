//! The blocks whose states can be told, with the time at which each was ended.
//!
//! Blocks behind the floor are in some file, in place or kept: what has them was written behind the floor, and
//! what was replaced behind the floor is kept. A block of which nothing was needed when its file was replaced may be in none;
//! it is not above the horizon. So the first number above the horizon that is missing is the end of the log. A block that is not awaited stays open for some milliseconds: what it says was executed
//! before its time, and what was executed before its time may be in the next one.
//!
//! Of a log that was set back in place, what was set back is told by block, time and name; what is looked for in its past
//! (a flush, the deletion of a key) is looked for in the past of what it is now.
//!
//! A block may be in several files, with fewer records in each that a compaction has made: what the one with the
//! most says counts, because notes are dropped by the first.

use std::cmp::Reverse;
use std::ops::ControlFlow;
use std::sync::Arc;

use base::{Lsn, Note, RecordKind};
use env::Disk;

use crate::block_time::TimeOfBlock;
use crate::error::{Error, Result};
use crate::format::manifest::Rewinds;
use crate::format::record;
use crate::format::registry::{NamedBackup, NotedCommand, Registry};
use crate::read::as_of::Reach;
use crate::read::catalog::{Catalog, KeptState};
use crate::read::reader_links::of_linked;
use crate::read::scan::{Block, SegmentFile};
use crate::read::side_by_side::side_by_side;
use crate::restore::block_list::{BlockList, merged};
use crate::restore::deletions::{Deletions, Fact, WantedKey};
use crate::restore::source::{ImageBlocks, Source};

/// How much is read between two looks at whether to go on.
pub(crate) const STEP_BYTES: u64 = 1 << 20;

/// Which state is meant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RestorePoint {
    /// The newest.
    Latest,
    /// The one after this block.
    Lsn(u64),
    /// The one at this time, in Unix milliseconds: nothing later is in it.
    Time(i64),
    /// The one before databases were emptied or exchanged: for the last time with 1, for the time before
    /// with 2.
    BeforeFlush(usize),
    /// That of the backup of this name.
    Backup(String),
    /// The one before the block that has lost the key last: that has deleted it, or emptied its database.
    BeforeDelete(WantedKey),
}

/// A block and its time, in Unix milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockTime {
    /// The block.
    pub lsn: Lsn,
    /// When it was ended.
    pub time_ms: i64,
}

/// See the file's top.
#[derive(Debug)]
pub(crate) struct Timeline {
    /// What can be told at all.
    pub(crate) reach: Reach,
    /// Nothing above it was ever dropped.
    horizon: Lsn,
    /// The blocks behind the floor, and it if it is known, to the end of the log.
    blocks: BlockList,
    /// Blocks behind which databases were emptied or exchanged. Ascending.
    pub(crate) flushes: Vec<BlockTime>,
    /// What the manifest and notes say.
    pub(crate) registry: Registry,
    /// The key that is looked for, and the block that has lost it last.
    lost_key: Option<(WantedKey, Option<Lsn>)>,
    /// Why a file could not be read to its end, the first one if there are several: of what is behind there
    /// neither times nor notes are known.
    pub(crate) unread: Option<Arc<Error>>,
}

/// Which blocks were found, and what some of them say.
#[derive(Default)]
struct Found {
    /// One of each image, or more where its blocks are in disorder.
    lists: Vec<BlockList>,
    told: Vec<Told>,
}

/// How blocks are looked at.
#[derive(Clone, Copy)]
struct Looking<'a> {
    floor: Lsn,
    wanted: Option<&'a WantedKey>,
    /// Whether all is read again afterwards: then it need not be known when they were ended, and damage is found there.
    is_read_again: bool,
    /// On how many threads at most.
    threads: usize,
}

impl Default for Looking<'_> {
    fn default() -> Self {
        Self { floor: Lsn::ZERO, wanted: None, is_read_again: false, threads: 1 }
    }
}

/// What a block says.
#[derive(Default)]
struct Told {
    lsn: Lsn,
    record_count: u32,
    notes: Vec<Note>,
    /// What it says of the key that is looked for.
    facts: Vec<Fact>,
}

impl Found {
    fn push(&mut self, block: BlockTime) {
        if !self.lists.last_mut().is_some_and(|list| list.push(block)) {
            self.begin_list();
            let list = self.lists.last_mut().expect("made just now");
            assert!(list.push(block), "the first one follows none");
        }
    }

    fn begin_list(&mut self) {
        self.lists.push(BlockList::default());
    }
}

impl Told {
    fn of(image: &SegmentFile, block: &Block, wanted: Option<&WantedKey>) -> Result<Self> {
        let (mut notes, mut facts) = (Vec::new(), Vec::new());
        for body in block.bodies() {
            let decoded = body.and_then(|(_, _, body)| record::decode_body(body));
            let record = decoded.map_err(|what| image.corrupt(block.offset, what))?;
            if record.kind == RecordKind::Note {
                notes.extend(Note::decode(record.value));
            }
            facts.extend(wanted.and_then(|wanted| Fact::of(&record, wanted)));
        }
        Ok(Self { lsn: block.header.lsn, record_count: block.header.record_count, notes, facts })
    }
}

/// Takes what is to be known of the blocks of an image. `pace` is told bytes that were read, and whether it goes on is for it
/// to say.
fn take_blocks(
    disk: &dyn Disk,
    image: &SegmentFile,
    looking: Looking<'_>,
    found: &mut Found,
    pace: &mut dyn FnMut(u64) -> ControlFlow<()>,
) -> Result<ControlFlow<()>> {
    let Looking { floor, wanted, is_read_again, .. } = looking;
    let (mut blocks, mut read_bytes) = (ImageBlocks::open(disk, image)?, 0);
    found.begin_list();
    while let Some(block) = blocks.next()? {
        let is_told = block.header.lsn >= floor;
        read_bytes += block.header.block_bytes();
        if wanted.is_some() || is_told {
            let told = Told::of(image, &block, wanted)?;
            // What a compaction has left of a block says no more than all of it does.
            let says = (is_told && !told.notes.is_empty()) || !told.facts.is_empty();
            found.told.extend(says.then_some(told));
        }
        if is_told {
            let time_ms = if is_read_again { 0 } else { block.header.time_ms };
            found.push(BlockTime { lsn: block.header.lsn, time_ms });
        }
        if read_bytes >= STEP_BYTES && pace(std::mem::take(&mut read_bytes)).is_break() {
            return Ok(ControlFlow::Break(()));
        }
    }
    Ok(pace(read_bytes))
}

/// The same of several images, on a thread each.
fn take_together(
    disk: &dyn Disk,
    images: &[&SegmentFile],
    looking: Looking<'_>,
    found: &mut Found,
) -> Vec<Result<ControlFlow<()>>> {
    let taken = side_by_side(images, looking.threads, |image| {
        let (mut found, mut pace) = (Found::default(), |_| ControlFlow::Continue(()));
        (take_blocks(disk, image, looking, &mut found, &mut pace), found)
    });
    let take = |(taken, of_image): (_, Found)| {
        found.lists.extend(of_image.lists);
        found.told.extend(of_image.told);
        taken
    };
    taken.into_iter().map(take).collect()
}

impl Timeline {
    /// Looks at all blocks of the source that can be told, on up to so many threads; where a key is looked for, at all that there are.
    /// What is damaged of a sealed file is taken for blocks of which nothing is known: the state that is wanted may not need them.
    /// `progress` is told bytes done, and in all.
    pub(crate) fn read(
        disk: &dyn Disk,
        source: &Source,
        (wanted, threads): (Option<&WantedKey>, usize),
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<Self> {
        let mut pace = |_, done, all| {
            progress(done, all);
            ControlFlow::Continue(())
        };
        let looking = Looking { wanted, threads, ..Looking::default() };
        let read = Self::look_with(disk, source, looking, &mut pace)?;
        Ok(read.expect("it is not told to end"))
    }

    /// The same for what reads all of it afterwards, without the times of blocks. `pace` is told bytes that were read since, bytes done, and in all; `None` if it was to end.
    pub(crate) fn look(
        disk: &dyn Disk,
        source: &Source,
        pace: &mut dyn FnMut(u64, u64, u64) -> ControlFlow<()>,
    ) -> Result<Option<Self>> {
        let looking = Looking { is_read_again: true, ..Looking::default() };
        Self::look_with(disk, source, looking, pace)
    }

    fn look_with(
        disk: &dyn Disk,
        source: &Source,
        looking: Looking<'_>,
        pace: &mut dyn FnMut(u64, u64, u64) -> ControlFlow<()>,
    ) -> Result<Option<Self>> {
        let reach = source.catalog.reach(&source.kept);
        let looking = Looking { floor: reach.floor, ..looking };
        let wanted = looking.wanted;
        let kept = source.kept.iter().filter_map(|kept| match &kept.state {
            KeptState::There(images) => Some(images),
            _ => None,
        });
        let is_new = |image: &&SegmentFile| {
            wanted.is_some()
                || image.footer.as_ref().is_none_or(|footer| footer.max_lsn >= reach.floor)
        };
        let images = source.catalog.files.iter().chain(kept.flatten()).filter(is_new);
        let images: Vec<&SegmentFile> = images.collect();
        let bytes: u64 = images.iter().map(|image| image.len).sum();
        let (mut found, mut done, mut damaged_to) = (Found::default(), 0, Lsn::ZERO);
        let mut unread = None;
        for together in images.chunks(looking.threads) {
            let mut pace_in_it = |read_bytes| pace(read_bytes, done, bytes);
            let all_taken = match together {
                [image] => vec![take_blocks(disk, image, looking, &mut found, &mut pace_in_it)],
                _ => take_together(disk, together, looking, &mut found),
            };
            for (taken, image) in all_taken.into_iter().zip(together) {
                match (taken, &image.footer) {
                    (Err(why), Some(footer)) if why.is_damage() => {
                        damaged_to = damaged_to.max(footer.max_lsn);
                        unread.get_or_insert_with(|| Arc::new(of_linked(why)));
                    }
                    (taken, _) => {
                        if taken?.is_break() {
                            return Ok(None);
                        }
                    }
                }
                done += image.len;
            }
            if together.len() > 1 && pace(0, done, bytes).is_break() {
                return Ok(None);
            }
        }
        if pace(0, done, bytes).is_break() {
            return Ok(None);
        }
        let Found { lists, mut told } = found;
        told.sort_by_key(|block| (block.lsn, Reverse(block.record_count)));
        told.dedup_by_key(|block| block.lsn);
        let manifest = source.catalog.manifest.as_ref();
        let registry = manifest.map(|manifest| manifest.registry.clone());
        let none = Rewinds::NONE;
        let rewinds = manifest.map_or(&none, |manifest| &manifest.rewinds);
        let lost_key = wanted.map(|wanted| {
            let mut deletions = Deletions::new(wanted);
            let past = told.iter().filter(|block| !rewinds.is_abandoned(block.lsn));
            past.for_each(|block| deletions.take(block.lsn, &block.facts));
            (wanted.clone(), deletions.last)
        });
        told.retain(|block| block.lsn >= reach.floor);
        let registry = registry.unwrap_or_default();
        let horizon = source.catalog.horizon().max(damaged_to);
        let mut timeline = Self::of(reach, horizon, (&lists, told), (registry, rewinds));
        // Notes say of some that the manifest does not have yet.
        let lost = Catalog::lost(&source.kept);
        let backups = timeline.registry.backups().iter();
        let backups = backups.filter(|backup| !backup.is_lost && lost.has_left(backup.lsn));
        timeline.reach.backups = backups.cloned().collect();
        Ok(Some(Self { lost_key, unread, ..timeline }))
    }

    fn of(
        reach: Reach,
        horizon: Lsn,
        (lists, told): (&[BlockList], Vec<Told>),
        (mut registry, rewinds): (Registry, &Rewinds),
    ) -> Self {
        let mut blocks = BlockList::default();
        let mut told = told.into_iter().peekable();
        let mut flushes: Vec<BlockTime> = reach
            .points
            .iter()
            .filter(|point| !rewinds.is_abandoned(point.lsn.next()))
            .map(|point| BlockTime { lsn: point.lsn, time_ms: point.time_ms })
            .collect();
        let (mut last, known) = (reach.floor, registry.last_command());
        for BlockTime { lsn, time_ms } in merged(lists) {
            if lsn > last.max(horizon).next() {
                break;
            }
            let before = Lsn(lsn.0.saturating_sub(1));
            let notes = told.next_if(|block| block.lsn == lsn).map(|block| block.notes);
            for note in notes.iter().flatten() {
                let is_known = flushes.iter().any(|flush| flush.lsn == before);
                if note.loses_data()
                    && before >= reach.floor
                    && !is_known
                    && !rewinds.is_abandoned(lsn)
                {
                    flushes.push(BlockTime { lsn: before, time_ms: note.time_ms });
                }
                registry.take(lsn, note, known);
            }
            let _follows = blocks.push(BlockTime { lsn, time_ms });
            last = lsn;
        }
        flushes.retain(|flush| flush.lsn <= last.max(horizon));
        flushes.sort_by_key(|flush| flush.lsn);
        Self { reach, horizon, blocks, flushes, registry, lost_key: None, unread: None }
    }

    /// The end of the log.
    pub(crate) fn last(&self) -> Lsn {
        let last = self.blocks.last().map_or(self.reach.floor, |block| block.lsn);
        last.max(self.horizon)
    }

    /// When the block was ended, if that is known.
    pub(crate) fn time_of(&self, lsn: Lsn) -> Option<i64> {
        self.blocks.time_of(lsn)
    }

    /// The blocks next to this one, before it and behind it, that are known.
    pub(crate) fn neighbours(&self, lsn: Lsn) -> (Option<BlockTime>, Option<BlockTime>) {
        let before = lsn.0.checked_sub(1).and_then(|before| self.blocks.at_or_before(Lsn(before)));
        (before, self.blocks.after(lsn))
    }

    /// The block that is meant; an error if there is none, or it cannot be told any more.
    ///
    /// Where a file could not be read, only what is named by its block or as a backup is found: of all else it may
    /// be the file that tells which block is meant.
    pub(crate) fn find(&self, point: &RestorePoint) -> Result<Lsn> {
        match *point {
            RestorePoint::Time(_)
            | RestorePoint::BeforeFlush(_)
            | RestorePoint::BeforeDelete(_)
                if let Some(why) = &self.unread =>
            {
                Err(Error::NotDated { why: Arc::clone(why) })
            }
            RestorePoint::Latest => Ok(self.last()),
            RestorePoint::Lsn(lsn) if lsn > self.last().0 => {
                Err(Error::BehindEnd { lsn: Lsn(lsn), last: self.last() })
            }
            RestorePoint::Lsn(lsn) => self.reach.check(Lsn(lsn)).map(|()| Lsn(lsn)),
            RestorePoint::Time(time_ms) => self.find_time(time_ms),
            RestorePoint::BeforeFlush(count) => {
                let flush = self.flushes.iter().rev().nth(count.max(1) - 1);
                flush.map(|flush| flush.lsn).ok_or(Error::NoFlush {
                    wanted: count,
                    known: self.flushes.len(),
                    floor: self.reach.floor,
                })
            }
            RestorePoint::Backup(ref name) => self.find_backup(name),
            RestorePoint::BeforeDelete(ref wanted) => self.find_delete(wanted),
        }
    }

    /// The backup of this name or number.
    fn backup(&self, name: &str) -> Option<&NamedBackup> {
        let by_number = |backup: &&NamedBackup| backup.number() == name;
        let found = self.registry.find(name);
        found.or_else(|| self.registry.backups().iter().find(by_number))
    }

    /// How the server was configured when the backup was made that is meant, if it is one and that is known.
    pub(crate) fn configuration(&self, point: &RestorePoint) -> Option<String> {
        let RestorePoint::Backup(name) = point else { return None };
        let backup = self.backup(name)?;
        self.registry.configuration(backup.id).map(str::to_owned)
    }

    /// The block of the backup of this name or number.
    pub(crate) fn find_backup(&self, name: &str) -> Result<Lsn> {
        let Some(backup) = self.backup(name) else {
            let names = self.registry.backups().iter().map(|backup| backup.name.as_str());
            let known = match names.collect::<Vec<_>>() {
                names if names.is_empty() => "there are none".to_owned(),
                names => format!("there are: {}", names.join(", ")),
            };
            return Err(Error::NoBackup { name: name.to_owned(), known });
        };
        match self.can_tell(backup) {
            true => Ok(backup.lsn),
            false => Err(Error::BackupLost { name: name.to_owned(), lsn: backup.lsn }),
        }
    }

    /// Whether what a backup is of can be told.
    pub(crate) fn can_tell(&self, backup: &NamedBackup) -> bool {
        !backup.is_lost && backup.lsn <= self.last() && self.reach.has(backup.lsn)
    }

    fn find_delete(&self, wanted: &WantedKey) -> Result<Lsn> {
        let lost = self.lost_key.as_ref().filter(|(key, _)| key == wanted);
        let lost = lost.and_then(|(_, lost)| *lost).filter(|lost| *lost > Lsn::ZERO);
        match lost.map(|lost| Lsn(lost.0 - 1)) {
            Some(before) if before <= self.last() => self.reach.check(before).map(|()| before),
            _ => Err(Error::NoDelete {
                key: wanted.key.escape_ascii().to_string(),
                database: wanted.database,
                floor: self.reach.floor,
            }),
        }
    }

    /// The commands that notes tell of. Ascending.
    pub(crate) fn commands(&self) -> &[NotedCommand] {
        self.registry.commands()
    }

    /// The last block that is not later, before the first one that is.
    fn find_time(&self, time_ms: i64) -> Result<Lsn> {
        let is_later = |block: &BlockTime| block.time_ms > time_ms;
        let floor = BlockTime { lsn: self.reach.floor, time_ms: self.reach.floor_ms };
        let is_floor_known = floor.time_ms != 0 || floor.lsn == Lsn::ZERO;
        let floor = Some(floor).filter(|it| is_floor_known && self.time_of(it.lsn).is_none());
        let (mut count, mut first, mut last, mut before) = (0, None, None, None);
        let all = floor.into_iter().chain(self.blocks.iter()).map(Some).chain([None]);
        for block in all {
            // A turn: one that is not later, before one that is or the end.
            let turn = before.filter(|before| !is_later(before));
            if let Some(turn) = turn.filter(|_| block.as_ref().is_none_or(is_later)) {
                (count, last) = (count + 1, Some(turn.lsn));
                first = first.or(last);
            }
            before = block;
        }
        match (first, last) {
            (Some(first), Some(last)) if first == last => Ok(first),
            (Some(first), Some(last)) => {
                Err(Error::ClockWentBack { time: TimeOfBlock(time_ms), first, last, count })
            }
            _ => Err(Error::BeforeReach {
                time: TimeOfBlock(time_ms),
                first: self.blocks.first().map_or(self.reach.floor, |block| block.lsn),
                first_time: TimeOfBlock(self.blocks.first().map_or(0, |block| block.time_ms)),
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn timeline(floor: u64, times: &[i64]) -> Timeline {
        let (points, backups) = (Vec::new(), Vec::new());
        let reach = Reach { floor: Lsn(floor), floor_ms: 0, points, backups };
        let mut found = Found::default();
        let blocks = times.iter().zip(floor + 1..);
        blocks.for_each(|(&time_ms, lsn)| found.push(BlockTime { lsn: Lsn(lsn), time_ms }));
        let found = (&found.lists[..], found.told);
        Timeline::of(reach, Lsn(floor), found, (Registry::EMPTY, &Rewinds::NONE))
    }

    #[test]
    fn a_time_means_the_last_block_that_is_not_later() {
        let timeline = timeline(10, &[100, 105, 105, 120]);
        let found = [100, 104, 105, 119, 120, 999].map(|time| timeline.find_time(time).unwrap().0);
        assert_eq!(found, [11, 11, 13, 13, 14, 14]);
        assert!(matches!(timeline.find_time(99), Err(Error::BeforeReach { .. })));
    }

    #[test]
    fn a_clock_that_went_back_leaves_the_choice() {
        let timeline = timeline(0, &[100, 200, 150, 160, 300]);
        assert!(matches!(
            timeline.find_time(170),
            Err(Error::ClockWentBack { first: Lsn(1), last: Lsn(4), count: 2, .. })
        ));
        assert_eq!(timeline.find_time(250).unwrap(), Lsn(4));
    }

    #[test]
    fn the_log_ends_before_the_first_number_above_the_horizon_that_is_missing() {
        let last = |horizon, lsns: &[u64]| {
            let mut found = Found::default();
            lsns.iter().for_each(|lsn| found.push(BlockTime { lsn: Lsn(*lsn), time_ms: 1 }));
            let (points, backups) = (Vec::new(), Vec::new());
            let reach = Reach { floor: Lsn(5), floor_ms: 0, points, backups };
            let found = (&found.lists[..], found.told);
            Timeline::of(reach, Lsn(horizon), found, (Registry::EMPTY, &Rewinds::NONE)).last()
        };
        assert_eq!(last(5, &[6, 7, 9]), Lsn(7));
        assert_eq!(last(8, &[6, 7, 9]), Lsn(9));
        assert_eq!(last(8, &[6, 7]), Lsn(8));
    }
}
