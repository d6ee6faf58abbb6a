//! Which blocks the records of the segment that is being written are in, about.
//!
//! ```text
//!   ordinals   0 ────────┬──────────┬─────────┬────────► the end
//!   a rung:          block 17   block 33   block 49      begins here
//! ```
//!
//! A segment knows its newest block, which says little of its older records while it takes more. So
//! some of the blocks are noted as they are sealed: one of `stride`, and of half as many again whenever there are
//! too many.
//!
//! # Invariants
//! - Rungs ascend, in ordinals and in blocks; all are of one segment.

use base::{Lsn, RecordAddr, SegmentId};

/// So many are kept at most.
const RUNGS_MAX: usize = 256;

/// See the file's top.
#[derive(Debug, Default)]
pub(crate) struct Rungs {
    segment: Option<SegmentId>,
    /// The first record of a block, and the block.
    rungs: Vec<(u32, Lsn)>,
    /// A block of so many is noted; a power of two.
    stride: u64,
    /// Blocks of the segment so far.
    blocks: u64,
}

impl Rungs {
    /// Notes that a block is sealed whose first record is at `first`.
    pub(crate) fn note(&mut self, first: RecordAddr, lsn: Lsn) {
        if self.segment != Some(first.segment()) {
            let segment = Some(first.segment());
            *self = Self { segment, rungs: std::mem::take(&mut self.rungs), stride: 1, blocks: 0 };
            self.rungs.clear();
        }
        self.blocks += 1;
        if !self.blocks.is_multiple_of(self.stride) {
            return;
        }
        if self.rungs.len() >= RUNGS_MAX {
            let mut is_odd = false;
            self.rungs.retain(|_| {
                is_odd = !is_odd;
                !is_odd
            });
            self.stride *= 2;
        }
        self.rungs.push((first.ordinal(), lsn));
    }

    /// A block that is not older than the one that has the record; `None` if none that is noted tells.
    pub(crate) fn bound_of(&self, addr: RecordAddr) -> Option<Lsn> {
        if self.segment != Some(addr.segment()) {
            return None;
        }
        let behind = self.rungs.partition_point(|(ordinal, _)| *ordinal <= addr.ordinal());
        self.rungs.get(behind).map(|(_, lsn)| Lsn(lsn.0 - 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bound_is_never_older_than_the_block_and_mostly_not_much_newer() {
        let mut rungs = Rungs::default();
        for (segment, blocks) in [(SegmentId(3), 10_u32), (SegmentId(9), 5_000)] {
            for block in 0..blocks {
                // Three records each, and every second block of the log is on another device.
                rungs.note(RecordAddr::new(segment, 3 * block), Lsn(u64::from(2 * block + 7)));
                for of in 0..=block {
                    let Some(bound) = rungs.bound_of(RecordAddr::new(segment, 3 * of + 1)) else {
                        assert!(block - of < 64, "of block {of} nothing is known after {block}");
                        continue;
                    };
                    assert!(bound >= Lsn(u64::from(2 * of + 7)), "block {of}, after {block}");
                    assert!(
                        bound <= Lsn(u64::from(2 * (of + 64) + 7)),
                        "block {of}, after {block}"
                    );
                    if block % 97 != 0 {
                        break;
                    }
                }
            }
            assert!(rungs.rungs.len() <= RUNGS_MAX);
        }
        assert_eq!(rungs.bound_of(RecordAddr::new(SegmentId(3), 0)), None);
    }
}
