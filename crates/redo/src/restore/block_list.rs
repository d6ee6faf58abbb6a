//! Blocks and when they were ended, in few bytes each.
//!
//! ```text
//!   first block · runs: so often, so many numbers and milliseconds later · runs …
//!        anchor ┘                                    anchor ┘   every 512 runs: the block before, and where it is
//! ```
//!
//! Most blocks follow the one before by one number and some milliseconds: a run of one takes three bytes, and one in which nothing
//! changes as much in all. A log of a hundred million blocks is looked through in some hundreds of megabytes.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use base::{Lsn, varint};

use crate::restore::timeline::BlockTime;

/// So many runs are looked through at most to find a block.
const ANCHOR_EVERY: usize = 512;

/// See the file's top. Ascending; no block is in it twice.
#[derive(Debug, Default)]
pub(crate) struct BlockList {
    anchors: Vec<Anchor>,
    /// Runs: how many, and both steps, as varints, that of the time in zigzag.
    bytes: Vec<u8>,
    runs_since_anchor: usize,
    last: Option<BlockTime>,
    /// The last run, which may grow.
    run: Run,
}

/// Where runs begin that follow this block.
#[derive(Debug)]
struct Anchor {
    block: BlockTime,
    at: usize,
}

/// Blocks at equal distances.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Run {
    count: u64,
    lsns: u64,
    ms: i64,
}

impl Run {
    /// The block so many steps behind `block`.
    const fn step(self, block: BlockTime, count: u64) -> BlockTime {
        let ms = self.ms.wrapping_mul(count.cast_signed());
        BlockTime {
            lsn: Lsn(block.lsn.0 + self.lsns * count),
            time_ms: block.time_ms.wrapping_add(ms),
        }
    }
}

impl BlockList {
    /// Appends a block. `false` if it does not follow the last one.
    pub(crate) fn push(&mut self, block: BlockTime) -> bool {
        let Some(last) = self.last else {
            self.anchors.push(Anchor { block, at: 0 });
            self.last = Some(block);
            return true;
        };
        if block.lsn <= last.lsn {
            return false;
        }
        let (lsns, ms) = (block.lsn.0 - last.lsn.0, block.time_ms.wrapping_sub(last.time_ms));
        if self.run.count > 0 && (self.run.lsns, self.run.ms) == (lsns, ms) {
            self.run.count += 1;
        } else {
            self.end_run(last);
            self.run = Run { count: 1, lsns, ms };
        }
        self.last = Some(block);
        true
    }

    fn end_run(&mut self, last: BlockTime) {
        let Run { count, lsns, ms } = self.run;
        if count == 0 {
            return;
        }
        varint::put(&mut self.bytes, count);
        varint::put(&mut self.bytes, lsns);
        varint::put(&mut self.bytes, ((ms << 1) ^ (ms >> 63)).cast_unsigned());
        self.runs_since_anchor += 1;
        if self.runs_since_anchor == ANCHOR_EVERY {
            self.runs_since_anchor = 0;
            self.anchors.push(Anchor { block: last, at: self.bytes.len() });
        }
    }

    /// The first block.
    pub(crate) fn first(&self) -> Option<BlockTime> {
        self.anchors.first().map(|anchor| anchor.block)
    }

    /// The last one.
    pub(crate) const fn last(&self) -> Option<BlockTime> {
        self.last
    }

    /// The last block that is not behind `lsn`.
    pub(crate) fn at_or_before(&self, lsn: Lsn) -> Option<BlockTime> {
        let anchor = self.anchor_of(lsn)?;
        let mut block = anchor.block;
        for run in self.runs(anchor.at) {
            let count = ((lsn.0 - block.lsn.0) / run.lsns).min(run.count);
            block = run.step(block, count);
            if count < run.count {
                break;
            }
        }
        Some(block)
    }

    /// The first block behind `lsn`.
    pub(crate) fn after(&self, lsn: Lsn) -> Option<BlockTime> {
        let Some(anchor) = self.anchor_of(lsn) else { return self.first() };
        let mut block = anchor.block;
        for run in self.runs(anchor.at) {
            let count = ((lsn.0 - block.lsn.0) / run.lsns).min(run.count);
            if count < run.count {
                return Some(run.step(block, count + 1));
            }
            block = run.step(block, count);
        }
        None
    }

    /// When the block was ended, if it is here.
    pub(crate) fn time_of(&self, lsn: Lsn) -> Option<i64> {
        self.at_or_before(lsn).filter(|block| block.lsn == lsn).map(|block| block.time_ms)
    }

    /// All of them.
    pub(crate) fn iter(&self) -> impl Iterator<Item = BlockTime> + '_ {
        let first = self.first();
        let rest = self.runs(0).flat_map(|run| {
            std::iter::repeat_n(run, usize::try_from(run.count).unwrap_or(usize::MAX))
        });
        let mut block = first;
        first.into_iter().chain(rest.filter_map(move |run| {
            block = block.map(|block| run.step(block, 1));
            block
        }))
    }

    fn anchor_of(&self, lsn: Lsn) -> Option<&Anchor> {
        let behind = self.anchors.partition_point(|anchor| anchor.block.lsn <= lsn);
        self.anchors.get(behind.checked_sub(1)?)
    }

    fn runs(&self, at: usize) -> impl Iterator<Item = Run> + '_ {
        let mut bytes = &self.bytes[at..];
        let stored = std::iter::from_fn(move || {
            let (count, lsns) = (varint::take(&mut bytes)?, varint::take(&mut bytes)?);
            let ms = varint::take(&mut bytes)?;
            let ms = (ms >> 1).cast_signed() ^ -(ms & 1).cast_signed();
            Some(Run { count, lsns, ms })
        });
        stored.chain(Some(self.run).filter(|run| run.count > 0))
    }

    /// What it takes in memory, in bytes.
    #[cfg(test)]
    fn size(&self) -> usize {
        self.bytes.capacity() + self.anchors.capacity() * size_of::<Anchor>()
    }
}

/// The blocks of several lists in their order, each once.
pub(crate) fn merged(lists: &[BlockList]) -> impl Iterator<Item = BlockTime> + '_ {
    let mut rests: Vec<_> = lists.iter().map(BlockList::iter).collect();
    let mut heads = BinaryHeap::new();
    for (index, rest) in rests.iter_mut().enumerate() {
        heads.extend(rest.next().map(|block| Reverse((block.lsn, index, block.time_ms))));
    }
    let mut last = None;
    std::iter::from_fn(move || {
        loop {
            let Reverse((lsn, index, time_ms)) = heads.pop()?;
            heads.extend(
                rests[index].next().map(|block| Reverse((block.lsn, index, block.time_ms))),
            );
            if last.replace(lsn) != Some(lsn) {
                return Some(BlockTime { lsn, time_ms });
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn list(blocks: &[BlockTime]) -> BlockList {
        let mut list = BlockList::default();
        blocks.iter().for_each(|block| assert!(list.push(*block)));
        list
    }

    fn ascending() -> impl Strategy<Value = Vec<BlockTime>> {
        let step = (
            prop_oneof![9 => Just(1_u64), 1 => 1..1000_u64],
            prop_oneof![5 => Just(0_i64), 5 => -5..500_i64, 1 => any::<i64>()],
        );
        (0..5_u64, proptest::collection::vec(step, 0..3000)).prop_map(|(first, steps)| {
            let mut block = BlockTime { lsn: Lsn(first), time_ms: 0 };
            let blocks = steps.into_iter().map(|(lsns, ms)| {
                block = BlockTime {
                    lsn: Lsn(block.lsn.0 + lsns),
                    time_ms: block.time_ms.wrapping_add(ms),
                };
                block
            });
            blocks.collect()
        })
    }

    proptest! {
        #[test]
        fn it_says_what_a_vector_says(blocks in ascending(), asked in proptest::collection::vec(0..60_000_u64, 20)) {
            let list = list(&blocks);
            prop_assert_eq!(list.iter().collect::<Vec<_>>(), blocks.clone());
            prop_assert_eq!((list.first(), list.last()), (blocks.first().copied(), blocks.last().copied()));
            let there = blocks.iter().step_by(97).map(|block| block.lsn.0);
            for lsn in asked.into_iter().chain(there).map(Lsn) {
                let at = blocks.partition_point(|block| block.lsn <= lsn);
                prop_assert_eq!(list.at_or_before(lsn), blocks[..at].last().copied());
                prop_assert_eq!(list.after(lsn), blocks.get(at).copied());
                let time = blocks[..at].last().filter(|block| block.lsn == lsn).map(|block| block.time_ms);
                prop_assert_eq!(list.time_of(lsn), time);
            }
        }

        #[test]
        fn several_are_one_in_order(parts in proptest::collection::vec(ascending(), 0..5)) {
            let lists: Vec<BlockList> = parts.iter().map(|part| list(part)).collect();
            let mut all: Vec<Lsn> = parts.iter().flatten().map(|block| block.lsn).collect();
            all.sort_unstable();
            all.dedup();
            prop_assert_eq!(merged(&lists).map(|block| block.lsn).collect::<Vec<_>>(), all);
        }
    }

    #[test]
    fn a_block_takes_few_bytes() {
        let blocks = 1_000_000_u64;
        let mut list = BlockList::default();
        // Times as a log under load has them: no two steps alike.
        for lsn in 1..=blocks {
            let time_ms = i64::try_from(lsn * 3 + lsn * lsn % 7).unwrap();
            assert!(list.push(BlockTime { lsn: Lsn(lsn), time_ms }));
        }
        assert!(!list.push(BlockTime { lsn: Lsn(blocks), time_ms: 0 }));
        assert!(list.size() < 8 * usize::try_from(blocks).unwrap(), "{}", list.size());
        // Where times are not kept, all of them are one run.
        let mut list = BlockList::default();
        (1..=blocks).for_each(|lsn| assert!(list.push(BlockTime { lsn: Lsn(lsn), time_ms: 0 })));
        assert!(list.size() < 1024, "{}", list.size());
    }
}
