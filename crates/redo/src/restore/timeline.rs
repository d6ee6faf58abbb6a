//! The blocks whose states can be told, with the time at which each was ended.
//!
//! Blocks behind the floor are in some file, in place or kept: what has them was written behind the floor, and
//! what was replaced behind the floor is kept. A block of which nothing was needed when its file was replaced may be in none;
//! it is not above the horizon. So the first number above the horizon that is missing is the end of the log. A block that is not awaited stays open for some milliseconds: what it says was executed
//! before its time, and what was executed before its time may be in the next one.

use base::{Lsn, RecordKind};
use env::Disk;

use crate::block_time::TimeOfBlock;
use crate::error::{Error, Result};
use crate::format::record;
use crate::read::as_of::Reach;
use crate::read::catalog::KeptState;
use crate::read::scan::{Block, SegmentFile};
use crate::restore::source::{ImageBlocks, Source};

/// Which state is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
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
    /// The blocks behind the floor, and it if it is known, to the end of the log. Ascending.
    pub(crate) blocks: Vec<BlockTime>,
    /// Blocks behind which databases were emptied or exchanged. Ascending.
    pub(crate) flushes: Vec<BlockTime>,
}

/// A block as it was found.
struct Found {
    lsn: Lsn,
    time_ms: i64,
    /// The map of databases, if it has one.
    map: Option<Vec<u8>>,
}

impl Found {
    fn of(image: &SegmentFile, block: &Block) -> Result<Self> {
        let mut map = None;
        for body in block.bodies() {
            let decoded = body.and_then(|(_, _, body)| record::decode_body(body));
            let record = decoded.map_err(|what| image.corrupt(block.offset, what))?;
            if record.kind == RecordKind::Databases {
                map = Some(record.value.to_vec());
            }
        }
        Ok(Self { lsn: block.header.lsn, time_ms: block.header.time_ms, map })
    }
}

impl Timeline {
    /// Looks at all blocks of the source. `progress` is told bytes done, and in all.
    pub(crate) fn read(
        disk: &dyn Disk,
        source: &Source,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<Self> {
        let reach = source.catalog.reach(&source.kept);
        let kept = source.kept.iter().filter_map(|kept| match &kept.state {
            KeptState::There(images) => Some(images),
            _ => None,
        });
        let images: Vec<&SegmentFile> = source.catalog.files.iter().chain(kept.flatten()).collect();
        let is_new = |image: &&&SegmentFile| {
            image.footer.as_ref().is_none_or(|footer| footer.max_lsn >= reach.floor)
        };
        let bytes: u64 = images.iter().filter(is_new).map(|image| image.len).sum();
        let (mut found, mut done) = (Vec::new(), 0);
        for image in images.iter().filter(is_new) {
            let mut blocks = ImageBlocks::open(disk, image)?;
            while let Some(block) = blocks.next()? {
                if block.header.lsn >= reach.floor {
                    found.push(Found::of(image, &block)?);
                }
            }
            done += image.len;
            progress(done, bytes);
        }
        found.sort_by_key(|block| block.lsn);
        found.dedup_by_key(|block| block.lsn);
        Ok(Self::of(reach, source.catalog.horizon(), found))
    }

    fn of(reach: Reach, horizon: Lsn, found: Vec<Found>) -> Self {
        let mut blocks: Vec<BlockTime> = Vec::new();
        let mut flushes: Vec<BlockTime> = reach
            .points
            .iter()
            .map(|point| BlockTime { lsn: point.lsn, time_ms: point.time_ms })
            .collect();
        let (mut last, mut map) = (reach.floor, None);
        for Found { lsn, time_ms, map: new } in found {
            if lsn > last.max(horizon).next() {
                break;
            }
            if new.is_some() && new != map {
                let before = Lsn(lsn.0 - 1);
                if before >= reach.floor && flushes.iter().all(|flush| flush.lsn != before) {
                    flushes.push(BlockTime { lsn: before, time_ms });
                }
                map = new;
            }
            blocks.push(BlockTime { lsn, time_ms });
            last = lsn;
        }
        flushes.retain(|flush| flush.lsn <= last.max(horizon));
        flushes.sort_by_key(|flush| flush.lsn);
        Self { reach, horizon, blocks, flushes }
    }

    /// The end of the log.
    pub(crate) fn last(&self) -> Lsn {
        let last = self.blocks.last().map_or(self.reach.floor, |block| block.lsn);
        last.max(self.horizon)
    }

    /// When the block was ended, if that is known.
    pub(crate) fn time_of(&self, lsn: Lsn) -> Option<i64> {
        let at = self.blocks.binary_search_by_key(&lsn, |block| block.lsn).ok();
        at.map(|at| self.blocks[at].time_ms)
    }

    /// The block that is meant; an error if there is none, or it cannot be told any more.
    pub(crate) fn find(&self, point: RestorePoint) -> Result<Lsn> {
        match point {
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
        }
    }

    /// The last block that is not later, before the first one that is.
    fn find_time(&self, time_ms: i64) -> Result<Lsn> {
        let is_later = |block: &BlockTime| block.time_ms > time_ms;
        let floor = BlockTime { lsn: self.reach.floor, time_ms: self.reach.floor_ms };
        let is_floor_known = floor.time_ms != 0 || floor.lsn == Lsn::ZERO;
        let floor = Some(floor).filter(|it| is_floor_known && self.time_of(it.lsn).is_none());
        let all: Vec<BlockTime> = floor.into_iter().chain(self.blocks.iter().copied()).collect();
        let turns = all.windows(2).filter(|pair| !is_later(&pair[0]) && is_later(&pair[1]));
        let mut candidates: Vec<BlockTime> = turns.map(|pair| pair[0]).collect();
        candidates.extend(all.last().filter(|last| !is_later(last)));
        match candidates[..] {
            [only] => Ok(only.lsn),
            [] => Err(Error::BeforeReach {
                time: TimeOfBlock(time_ms),
                first: self.blocks.first().map_or(self.reach.floor, |block| block.lsn),
                first_time: TimeOfBlock(self.blocks.first().map_or(0, |block| block.time_ms)),
            }),
            [first, ..] => Err(Error::ClockWentBack {
                time: TimeOfBlock(time_ms),
                first: first.lsn,
                last: candidates.last().map_or(first.lsn, |last| last.lsn),
                count: candidates.len(),
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn timeline(floor: u64, times: &[i64]) -> Timeline {
        let reach = Reach { floor: Lsn(floor), floor_ms: 0, points: Vec::new() };
        let found = times.iter().zip(floor + 1..).map(|(time_ms, lsn)| Found {
            lsn: Lsn(lsn),
            time_ms: *time_ms,
            map: None,
        });
        Timeline::of(reach, Lsn(floor), found.collect())
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
            let found = |lsn: &u64| Found { lsn: Lsn(*lsn), time_ms: 1, map: None };
            let reach = Reach { floor: Lsn(5), floor_ms: 0, points: Vec::new() };
            Timeline::of(reach, Lsn(horizon), lsns.iter().map(found).collect()).last()
        };
        assert_eq!(last(5, &[6, 7, 9]), Lsn(7));
        assert_eq!(last(8, &[6, 7, 9]), Lsn(9));
        assert_eq!(last(8, &[6, 7]), Lsn(8));
    }
}
