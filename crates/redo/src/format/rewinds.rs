//! What the manifest says of a log that was set back in place: section `RWND`.
//!
//! ```text
//!   blocks   1 ──────── to ─────────── end    at ─────────────►
//!                        └── the state after `at` is that after `to`
//!                              └ abandoned ┘   the log goes on behind `at`, which is no block
//! ```
//!
//! No number is used twice: the log goes on behind all that it ever had, and what was in place before is kept up to before
//! `at`, as if one compaction had replaced it. What is in place since then may be files which a compaction
//! had replaced: their headers say since when they were in place the first time, and here is since when they are again.
//!
//! While files change their places the log is *unfinished*, and nothing but the same restore may open it.

use base::bytes::{u32_at, u64_at};
use base::{Lsn, SegmentId};

use crate::format::manifest::{KeptFile, id_at};
use crate::format::segment::SegmentHeader;
use crate::id::Id;

/// So many times are remembered: the oldest is forgotten first.
pub(crate) const REWINDS_MAX: usize = 64;

const REWIND_BYTES: usize = 24;
const PUT_BACK_BYTES: usize = 36;
const PLACED_BYTES: usize = 24;

/// The log was set back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rewind {
    /// To the state after this block.
    pub to: Lsn,
    /// The number that stands for it: no block has it, and the next one is behind it.
    pub at: Lsn,
    /// When, in Unix milliseconds.
    pub time_ms: i64,
}

/// A file that was put in place when the log was set back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PutBack {
    /// The segment that it is named after, the part, and the generation, as its header says.
    pub segment: SegmentId,
    /// Its part.
    pub part: u32,
    /// How often that segment had been compacted.
    pub generation: u32,
    /// The device that has it.
    pub device: Id,
    /// The first block that the log was made of it for, this time.
    pub since: Lsn,
}

impl PutBack {
    /// Whether it is the same file as one that is kept.
    pub(crate) fn is_of(&self, kept: &KeptFile) -> bool {
        (self.segment, self.part, self.generation, self.device)
            == (kept.segment, kept.part, kept.generation, kept.device)
    }
}

/// The place of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Placed {
    /// The device.
    pub device: Id,
    /// The segment that the file is named after.
    pub segment: SegmentId,
    /// Its part.
    pub part: u32,
}

/// See the file's top.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rewinds {
    /// When the log was set back, ascending.
    pub list: Vec<Rewind>,
    /// Files that are in place since then, and do not say so themselves. Ascending by segment and part.
    pub put_back: Vec<PutBack>,
    /// Set while files change their places: those that are still to be removed.
    pub unfinished: Option<Vec<Placed>>,
}

impl Rewinds {
    /// That of a log that was never set back.
    pub const NONE: Self = Self { list: Vec::new(), put_back: Vec::new(), unfinished: None };

    /// Whether there is nothing to say.
    pub(crate) fn is_empty(&self) -> bool {
        *self == Self::NONE
    }

    /// Whether a program that overlooked it would do harm.
    pub(crate) fn must_be_known(&self) -> bool {
        !self.put_back.is_empty() || self.unfinished.is_some()
    }

    /// Adds a time.
    pub(crate) fn add(&mut self, rewind: Rewind) {
        if self.list.len() >= REWINDS_MAX {
            self.list.remove(0);
        }
        self.list.push(rewind);
    }

    /// Whether what the log is now has nothing of the block: it was set back behind it.
    #[must_use]
    pub fn is_abandoned(&self, lsn: Lsn) -> bool {
        let mut end = Lsn::MAX;
        for rewind in self.list.iter().rev() {
            if rewind.at > end {
                // In a life of the log that was set back itself.
                continue;
            }
            if lsn >= rewind.at {
                return false;
            }
            if lsn > rewind.to {
                return true;
            }
            end = rewind.to;
        }
        false
    }

    /// Since when the file with this header, of its first image, is in place, if it was put back there.
    pub(crate) fn since(&self, header: &SegmentHeader) -> Option<Lsn> {
        self.file(header).map(|file| file.since)
    }

    /// The file with this header, of its first image, if it was put back.
    pub(crate) fn file(&self, header: &SegmentHeader) -> Option<&PutBack> {
        let name = (header.segment, header.part);
        let place = self.put_back.partition_point(|file| (file.segment, file.part) < name);
        let file = self.put_back.get(place)?;
        let is_same = (file.segment, file.part, file.generation, file.device)
            == (header.segment, header.part, header.generation, header.device);
        is_same.then_some(file)
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut bytes = count_of(self.list.len()).to_vec();
        for Rewind { to, at, time_ms } in &self.list {
            bytes.extend_from_slice(&to.0.to_le_bytes());
            bytes.extend_from_slice(&at.0.to_le_bytes());
            bytes.extend_from_slice(&time_ms.to_le_bytes());
        }
        bytes.extend_from_slice(&count_of(self.put_back.len()));
        for PutBack { segment, part, generation, device, since } in &self.put_back {
            bytes.extend_from_slice(&segment.0.to_le_bytes());
            bytes.extend_from_slice(&part.to_le_bytes());
            bytes.extend_from_slice(&generation.to_le_bytes());
            bytes.extend_from_slice(&device.0);
            bytes.extend_from_slice(&since.0.to_le_bytes());
        }
        // A section that ends here is of a log that is finished.
        if let Some(removed) = &self.unfinished {
            bytes.extend_from_slice(&count_of(removed.len()));
            for Placed { device, segment, part } in removed {
                bytes.extend_from_slice(&device.0);
                bytes.extend_from_slice(&segment.0.to_le_bytes());
                bytes.extend_from_slice(&part.to_le_bytes());
            }
        }
        bytes
    }

    /// What these bytes say; `None` if they make no sense. None at all say nothing.
    pub(crate) fn decode(mut bytes: &[u8]) -> Option<Self> {
        if bytes.is_empty() {
            return Some(Self::NONE);
        }
        let list = take_entries(&mut bytes, REWIND_BYTES)?.map(|entry| Rewind {
            to: Lsn(u64_at(entry, 0)),
            at: Lsn(u64_at(entry, 8)),
            time_ms: u64_at(entry, 16).cast_signed(),
        });
        let list: Vec<Rewind> = list.collect();
        let put_back = take_entries(&mut bytes, PUT_BACK_BYTES)?.map(|entry| PutBack {
            segment: SegmentId(u32_at(entry, 0)),
            part: u32_at(entry, 4),
            generation: u32_at(entry, 8),
            device: id_at(entry, 12),
            since: Lsn(u64_at(entry, 28)),
        });
        let put_back: Vec<PutBack> = put_back.collect();
        let unfinished = if bytes.is_empty() {
            None
        } else {
            let removed = take_entries(&mut bytes, PLACED_BYTES)?.map(|entry| Placed {
                device: id_at(entry, 0),
                segment: SegmentId(u32_at(entry, 16)),
                part: u32_at(entry, 20),
            });
            Some(removed.collect())
        };
        let rewinds = Self { list, put_back, unfinished };
        (bytes.is_empty() && rewinds.makes_sense()).then_some(rewinds)
    }

    fn makes_sense(&self) -> bool {
        self.list.len() <= REWINDS_MAX
            && self.list.iter().all(|rewind| rewind.to < rewind.at && rewind.at <= Lsn::MAX)
            && self.list.is_sorted_by(|a, b| a.at < b.at)
            && self.put_back.iter().all(|file| file.since <= Lsn::MAX)
            && self.put_back.is_sorted_by_key(|file| (file.segment, file.part))
    }
}

fn count_of(count: usize) -> [u8; 4] {
    u32::try_from(count).expect("files are far fewer").to_le_bytes()
}

/// Entries of so many bytes, with their number before them.
fn take_entries<'a>(
    bytes: &mut &'a [u8],
    entry_bytes: usize,
) -> Option<impl Iterator<Item = &'a [u8]>> {
    let (count, rest) = bytes.split_at_checked(4)?;
    let len = (u32_at(count, 0) as usize).checked_mul(entry_bytes)?;
    let (entries, rest) = rest.split_at_checked(len)?;
    *bytes = rest;
    Some(entries.chunks_exact(entry_bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rewind(to: u64, at: u64) -> Rewind {
        Rewind { to: Lsn(to), at: Lsn(at), time_ms: -7 }
    }

    fn abandoned(rewinds: &Rewinds) -> Vec<u64> {
        (0..30).filter(|lsn| rewinds.is_abandoned(Lsn(*lsn))).collect()
    }

    #[test]
    fn what_is_abandoned_is_what_the_log_of_now_has_nothing_of() {
        let mut rewinds = Rewinds::default();
        assert!(abandoned(&rewinds).is_empty());
        rewinds.add(rewind(5, 11));
        assert_eq!(abandoned(&rewinds), [6, 7, 8, 9, 10]);
        rewinds.add(rewind(13, 16));
        assert_eq!(abandoned(&rewinds), [6, 7, 8, 9, 10, 14, 15]);
        // The first one is undone: what came of it is no part of the log.
        rewinds.add(rewind(10, 21));
        assert_eq!(abandoned(&rewinds), (11..21).collect::<Vec<u64>>());
    }

    #[test]
    fn what_is_encoded_is_decoded_and_nothing_that_makes_no_sense() {
        let put_back = PutBack {
            segment: SegmentId(3),
            part: 1,
            generation: 2,
            device: Id([4; 16]),
            since: Lsn(11),
        };
        let placed = Placed { device: Id([5; 16]), segment: SegmentId(9), part: 0 };
        let mut all = Rewinds::default();
        all.add(rewind(5, 11));
        for put_back in [Vec::new(), vec![put_back]] {
            for unfinished in [None, Some(Vec::new()), Some(vec![placed])] {
                let rewinds = Rewinds { put_back: put_back.clone(), unfinished, ..all.clone() };
                let bytes = rewinds.encode();
                assert_eq!(Rewinds::decode(&bytes), Some(rewinds));
                assert_eq!(Rewinds::decode(&bytes[..bytes.len() - 1]), None);
            }
        }
        assert_eq!(Rewinds::decode(&[]), Some(Rewinds::NONE));
        for list in [vec![rewind(5, 5)], vec![rewind(1, 9), rewind(2, 9)]] {
            let bad = Rewinds { list, ..Rewinds::default() };
            assert_eq!(Rewinds::decode(&bad.encode()), None);
        }
    }

    #[test]
    fn the_oldest_is_forgotten_first() {
        let mut rewinds = Rewinds::default();
        (1..=70).for_each(|n| rewinds.add(rewind(2 * n, 2 * n + 1)));
        assert_eq!((rewinds.list.len(), rewinds.list[0].to), (REWINDS_MAX, Lsn(14)));
    }
}
