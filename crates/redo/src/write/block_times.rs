//! Which block was the last at a time, as long as the process remembers.
//!
//! ```text
//!   blocks      ·· ·  ····|·  ·   ···|        |·····|·        buckets of 100 ms
//!   remembered          └ the last of each    ┘     └ and the last of all
//! ```
//!
//! Of the blocks that were ended in a bucket only the last is remembered. What is found for a time is so a block
//! that was ended by then, and for a time within a bucket perhaps one of the bucket before. When there are too
//! many, older ones are thinned: what is found for a time was ended at most a bucket, or one in [`SHARE`] of how long
//! ago that is, before the block that was the last one then.

use base::Lsn;

/// How long a bucket is, in milliseconds.
const BUCKET_MS: i64 = 100;

/// What lies closer together than one in so many of how old it is may be thinned.
const SHARE: i64 = 512;

/// So many blocks are remembered, and twice as many for a while: 256 KiB of them. Those of a month are about 6,000.
const BLOCKS_MAX: usize = 8192;

/// See the file's top.
#[derive(Debug)]
pub(crate) struct BlockTimes {
    /// Blocks and when they were ended, in Unix milliseconds.
    blocks: Vec<(Lsn, i64)>,
}

impl BlockTimes {
    /// Remembers that a log ends with `last` now.
    pub(crate) fn new(last: Lsn, now_ms: i64) -> Self {
        Self { blocks: vec![(last, now_ms)] }
    }

    /// A block was ended.
    pub(crate) fn note(&mut self, lsn: Lsn, time_ms: i64) {
        let bucket = |time_ms: i64| time_ms.div_euclid(BUCKET_MS);
        match self.blocks.last_mut() {
            // The first one is not replaced: nothing is known of what was before it.
            Some(last) if bucket(last.1) == bucket(time_ms) && last.1 <= time_ms => {
                if self.blocks.len() > 1 {
                    *self.blocks.last_mut().expect("seen above") = (lsn, time_ms);
                } else {
                    self.blocks.push((lsn, time_ms));
                }
            }
            _ => self.blocks.push((lsn, time_ms)),
        }
        if self.blocks.len() > 2 * BLOCKS_MAX {
            self.thin(time_ms);
        }
    }

    fn thin(&mut self, now_ms: i64) {
        let mut kept: Vec<(Lsn, i64)> = Vec::with_capacity(BLOCKS_MAX);
        for pair in self.blocks.windows(2) {
            let [block, next] = [pair[0], pair[1]];
            // What was kept last stands for the time up to the one after this one, if this one goes.
            let is_close = kept.last().is_some_and(|last| {
                let gap_ms = next.1.saturating_sub(last.1);
                (0..=now_ms.saturating_sub(next.1) / SHARE).contains(&gap_ms)
            });
            if !is_close {
                kept.push(block);
            }
        }
        kept.extend(self.blocks.last());
        // A clock that goes back again and again leaves what cannot be thinned.
        let surplus = kept.len().saturating_sub(BLOCKS_MAX);
        kept.drain(..surplus);
        self.blocks = kept;
    }

    /// The last block that was ended by `time_ms`. Where the clock went back there may be several, each before one that was ended later:
    /// the first and the last of them. `None` if it is not known.
    pub(crate) fn find(&self, time_ms: i64) -> Option<(Lsn, Lsn)> {
        let is_later = |block: &(Lsn, i64)| block.1 > time_ms;
        let turns = self.blocks.windows(2).filter(|pair| !is_later(&pair[0]) && is_later(&pair[1]));
        let last = self.blocks.last().filter(|last| !is_later(last));
        let mut found = turns.map(|pair| pair[0].0).chain(last.map(|last| last.0));
        let first = found.next()?;
        Some((first, found.last().unwrap_or(first)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_found_was_ended_by_then() {
        let mut times = BlockTimes::new(Lsn(7), 1000);
        for (lsn, time_ms) in [(8, 1010), (9, 1090), (10, 1110), (11, 1150), (12, 2000)] {
            times.note(Lsn(lsn), time_ms);
        }
        let found = [999, 1000, 1050, 1090, 1130, 1150, 1999, 2000, 9999];
        let found = found.map(|time_ms| times.find(time_ms).map(|(first, last)| (first.0, last.0)));
        let expected =
            [None, Some(7), Some(7), Some(9), Some(9), Some(11), Some(11), Some(12), Some(12)];
        assert_eq!(found, expected.map(|lsn| lsn.map(|lsn| (lsn, lsn))));
    }

    #[test]
    fn a_clock_that_goes_back_leaves_the_choice() {
        let mut times = BlockTimes::new(Lsn(1), 1000);
        for (lsn, time_ms) in [(2, 5000), (3, 2000), (4, 3000)] {
            times.note(Lsn(lsn), time_ms);
        }
        let found = [1500, 4000, 6000].map(|at| times.find(at).unwrap());
        assert_eq!(found, [(1, 1), (1, 4), (4, 4)].map(|(first, last)| (Lsn(first), Lsn(last))));
    }

    /// Blocks as they are ended for a day at full speed, and then for a month.
    #[test]
    fn what_is_long_ago_is_told_less_exactly() {
        for (blocks, every_ms) in [(864_000_u64, 100_i64), (1_000_000, 2600)] {
            let time_of = |lsn: u64| i64::try_from(lsn).unwrap() * every_ms;
            let mut times = BlockTimes::new(Lsn(0), 0);
            (1..blocks).for_each(|lsn| times.note(Lsn(lsn), time_of(lsn)));
            assert!(times.blocks.len() <= 2 * BLOCKS_MAX, "{}", times.blocks.len());
            let now_ms = time_of(blocks - 1);
            for lsn in (1..blocks).step_by(7919) {
                let found = times.find(time_of(lsn)).unwrap().0;
                assert!(found.0 <= lsn);
                let behind_ms = time_of(lsn) - time_of(found.0);
                let bound_ms = every_ms + 2 * (now_ms - time_of(lsn)) / SHARE;
                assert!(behind_ms <= bound_ms, "{behind_ms} > {bound_ms} ms for {lsn}");
            }
            assert_eq!(times.find(0), Some((Lsn(0), Lsn(0))));
        }
    }

    #[test]
    fn a_clock_that_goes_back_and_forth_takes_bounded_memory() {
        let mut times = BlockTimes::new(Lsn(0), 0);
        for lsn in 1..100_000_u64 {
            let time_ms = if lsn % 2 == 0 { 1_000_000 } else { 0 };
            times.note(Lsn(lsn), time_ms + i64::try_from(lsn).unwrap());
        }
        assert!(times.blocks.len() <= 2 * BLOCKS_MAX);
    }
}
