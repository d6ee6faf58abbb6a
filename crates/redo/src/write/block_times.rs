//! Which block was the last at a time, as long as the process remembers.
//!
//! ```text
//!   blocks      ·· ·  ····|·  ·   ···|        |·····|·        buckets of 100 ms
//!   remembered          └ the last of each    ┘     └ and the last of all
//! ```
//!
//! Of the blocks that were ended in a bucket only the last is remembered. What is found for a time is so a block
//! that was ended by then, and for a time within a bucket perhaps one of the bucket before. When there are too
//! many, buckets become twice as long.

use base::Lsn;

/// How long a bucket is at first, in milliseconds.
const BUCKET_MS: i64 = 100;

/// So many blocks are remembered: 128 KiB of them.
const BLOCKS_MAX: usize = 8192;

/// See the file's top.
#[derive(Debug)]
pub(crate) struct BlockTimes {
    bucket_ms: i64,
    /// Blocks and when they were ended, in Unix milliseconds.
    blocks: Vec<(Lsn, i64)>,
}

impl BlockTimes {
    /// Remembers that a log ends with `last` now.
    pub(crate) fn new(last: Lsn, now_ms: i64) -> Self {
        Self { bucket_ms: BUCKET_MS, blocks: vec![(last, now_ms)] }
    }

    /// A block was ended.
    pub(crate) fn note(&mut self, lsn: Lsn, time_ms: i64) {
        let bucket = |time_ms: i64| time_ms.div_euclid(self.bucket_ms);
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
        if self.blocks.len() > BLOCKS_MAX {
            self.widen();
        }
    }

    fn widen(&mut self) {
        self.bucket_ms *= 2;
        let bucket_ms = self.bucket_ms;
        let old = std::mem::take(&mut self.blocks);
        for pair in old.windows(2) {
            let [block, next] = [pair[0], pair[1]];
            let is_last = block.1.div_euclid(bucket_ms) != next.1.div_euclid(bucket_ms);
            if is_last || self.blocks.is_empty() {
                self.blocks.push(block);
            }
        }
        self.blocks.extend(old.last());
    }

    /// The last block before the first one that was ended later than `time_ms`; `None` if it is not known.
    pub(crate) fn find(&self, time_ms: i64) -> Option<Lsn> {
        let later = self.blocks.iter().position(|(_, at_ms)| *at_ms > time_ms);
        let at = later.unwrap_or(self.blocks.len()).checked_sub(1)?;
        Some(self.blocks[at].0)
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
        let found = found.map(|time_ms| times.find(time_ms).map(|lsn| lsn.0));
        let expected =
            [None, Some(7), Some(7), Some(9), Some(9), Some(11), Some(11), Some(12), Some(12)];
        assert_eq!(found, expected);
    }

    #[test]
    fn a_clock_that_goes_back_hides_what_came_before_it_did() {
        let mut times = BlockTimes::new(Lsn(1), 1000);
        for (lsn, time_ms) in [(2, 5000), (3, 2000), (4, 3000)] {
            times.note(Lsn(lsn), time_ms);
        }
        assert_eq!([1500, 4000, 6000].map(|at| times.find(at).unwrap().0), [1, 1, 4]);
    }

    #[test]
    fn more_blocks_than_are_remembered_are_told_less_exactly() {
        let mut times = BlockTimes::new(Lsn(0), 0);
        for lsn in 1..100_000_u64 {
            times.note(Lsn(lsn), i64::try_from(lsn).unwrap() * 150);
        }
        assert!(times.blocks.len() <= BLOCKS_MAX && times.bucket_ms > BUCKET_MS);
        for lsn in (5000..100_000).step_by(77) {
            let time_ms = i64::try_from(lsn).unwrap() * 150;
            let found = times.find(time_ms).unwrap().0;
            assert!(found <= lsn && lsn - found <= 2 * 3200 / 150, "{found} for {lsn}");
        }
        assert_eq!(times.find(0), Some(Lsn(0)));
    }
}
