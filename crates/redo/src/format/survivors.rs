//! Which of a segment's records are still in its file.
//!
//! A record's ordinal is fixed for life; its place in the file is `rank(ordinal)`, the number of
//! survivors before it. A segment that was never compacted has all its records, and says so in one
//! byte. Otherwise the footer holds the bitmap, raw or as runs, whichever is shorter.

use std::sync::OnceLock;

use base::bytes::u64_at;
use base::varint;

/// A set of ordinals below `len`.
#[derive(Debug, Clone)]
pub struct Survivors {
    len: u32,
    count: u32,
    /// `None` when all are there.
    bits: Option<Vec<u64>>,
    /// How many there are before every so many words, once a rank was asked for.
    ranks: OnceLock<Box<[u32]>>,
}

/// Every how many words the survivors before them are known.
const RANK_WORDS: usize = 16;

impl PartialEq for Survivors {
    fn eq(&self, other: &Self) -> bool {
        (self.len, self.count, &self.bits) == (other.len, other.count, &other.bits)
    }
}

impl Eq for Survivors {}

const ALL: u8 = 0;
const RAW: u8 = 1;
const RUNS: u8 = 2;

impl Survivors {
    /// All of `len` records.
    #[must_use]
    pub const fn all(len: u32) -> Self {
        Self { len, count: len, bits: None, ranks: OnceLock::new() }
    }

    /// None of `len` records, to [`Survivors::insert`] into.
    #[must_use]
    pub fn none(len: u32) -> Self {
        let bits = Some(vec![0; (len as usize).div_ceil(64)]);
        Self { len, count: 0, bits, ranks: OnceLock::new() }
    }

    /// How many records the segment ever had.
    #[must_use]
    pub const fn len(&self) -> u32 {
        self.len
    }

    /// Whether the segment never had a record.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// How many are still there.
    #[must_use]
    pub const fn count(&self) -> u32 {
        self.count
    }

    /// Whether none was ever removed.
    #[must_use]
    pub const fn is_all(&self) -> bool {
        self.bits.is_none()
    }

    /// How much memory the set takes.
    #[must_use]
    pub(crate) fn bitmap_bytes(&self) -> usize {
        self.bits.as_ref().map_or(0, |bits| bits.len() * 8)
    }

    /// Adds `ordinal`.
    ///
    /// # Panics
    /// When `ordinal` is not below `len`.
    pub fn insert(&mut self, ordinal: u32) {
        assert!(ordinal < self.len, "an ordinal lies within its segment");
        self.ranks.take();
        let Some(bits) = &mut self.bits else { return };
        let word = &mut bits[ordinal as usize / 64];
        let mask = 1 << (ordinal % 64);
        if *word & mask == 0 {
            *word |= mask;
            self.count += 1;
        }
    }

    /// Adds the ordinals from `first` to before `end`, none of which is there, a word at a time:
    /// a run of four billion is two bytes long.
    fn insert_run(&mut self, first: u32, end: u32) {
        self.ranks.take();
        let Some(bits) = &mut self.bits else { return };
        let (from, to) = (first as usize, end as usize);
        let words = bits.iter_mut().enumerate().take(to.div_ceil(64)).skip(from / 64);
        for (at, word) in words {
            let low = u64::MAX << from.saturating_sub(at * 64);
            let high = u64::MAX >> ((at + 1) * 64).saturating_sub(to);
            *word |= low & high;
        }
        self.count += end - first;
    }

    /// Whether `ordinal` is still there.
    #[must_use]
    pub fn contains(&self, ordinal: u32) -> bool {
        match &self.bits {
            _ if ordinal >= self.len => false,
            None => true,
            Some(bits) => bits[ordinal as usize / 64] & (1 << (ordinal % 64)) != 0,
        }
    }

    /// The first survivor from `ordinal` on.
    #[must_use]
    #[expect(clippy::cast_possible_truncation, reason = "an ordinal, below len")]
    pub fn next(&self, ordinal: u32) -> Option<u32> {
        if ordinal >= self.len {
            return None;
        }
        let Some(bits) = &self.bits else { return Some(ordinal) };
        let mut at = ordinal as usize / 64;
        let mut word = bits[at] & (u64::MAX << (ordinal % 64));
        while word == 0 {
            at += 1;
            word = *bits.get(at)?;
        }
        Some(at as u32 * 64 + word.trailing_zeros())
    }

    /// How many survivors are before `ordinal`.
    #[must_use]
    pub fn rank(&self, ordinal: u32) -> u32 {
        let ordinal = ordinal.min(self.len);
        let Some(bits) = &self.bits else { return ordinal };
        let whole = ordinal as usize / 64;
        let ranks = self.ranks.get_or_init(|| ranks_of(bits));
        let counted = whole / RANK_WORDS;
        let words = &bits[counted * RANK_WORDS..whole];
        let before = ranks[counted] + words.iter().map(|word| word.count_ones()).sum::<u32>();
        match ordinal % 64 {
            0 => before,
            rest => before + (bits[whole] & !(u64::MAX << rest)).count_ones(),
        }
    }

    /// Appends the set to `out`; its `len` is written elsewhere.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let Some(bits) = &self.bits else {
            out.push(ALL);
            return;
        };
        let start = out.len();
        out.push(RUNS);
        let raw_bytes = bits.len() * 8;
        let mut at = 0;
        while let Some(first) = self.next(at) {
            let mut end = first + 1;
            while self.contains(end) {
                end += 1;
            }
            varint::put(out, u64::from(first - at));
            varint::put(out, u64::from(end - first));
            at = end;
            if out.len() - start > raw_bytes {
                break;
            }
        }
        if out.len() - start > raw_bytes {
            out.truncate(start);
            out.push(RAW);
            for word in bits {
                out.extend_from_slice(&word.to_le_bytes());
            }
        }
    }

    /// The set of ordinals below `len` that these bytes are.
    #[must_use]
    pub fn decode(bytes: &[u8], len: u32) -> Option<Self> {
        let (&how, mut rest) = bytes.split_first()?;
        match how {
            ALL if rest.is_empty() => Some(Self::all(len)),
            RAW => {
                let words = (len as usize).div_ceil(64);
                if rest.len() != words * 8 {
                    return None;
                }
                let bits: Vec<u64> = rest.chunks_exact(8).map(|word| u64_at(word, 0)).collect();
                let beyond = (words * 64) as u64 - u64::from(len);
                if beyond > 0 && bits.last()?.leading_zeros() < u32::try_from(beyond).ok()? {
                    return None;
                }
                let count = bits.iter().map(|word| word.count_ones()).sum();
                Some(Self { len, count, bits: Some(bits), ranks: OnceLock::new() })
            }
            RUNS => {
                let mut set = Self::none(len);
                let mut at = 0u32;
                while !rest.is_empty() {
                    let gap = u32::try_from(varint::take(&mut rest)?).ok()?;
                    let run = u32::try_from(varint::take(&mut rest)?).ok()?;
                    let first = at.checked_add(gap)?;
                    at = first.checked_add(run).filter(|end| *end <= len && run > 0)?;
                    set.insert_run(first, at);
                }
                Some(set)
            }
            _ => None,
        }
    }
}

/// How many ordinals are before every [`RANK_WORDS`] words, and before the end.
fn ranks_of(bits: &[u64]) -> Box<[u32]> {
    let mut ranks = vec![0];
    let mut before = 0;
    for words in bits.chunks(RANK_WORDS) {
        before += words.iter().map(|word| word.count_ones()).sum::<u32>();
        ranks.push(before);
    }
    ranks.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn behaves_like_a_set(len in 0u32..2500, picks: Vec<proptest::sample::Index>) {
            let mut set = Survivors::none(len);
            let mut model = BTreeSet::new();
            if len > 0 {
                for pick in picks {
                    let ordinal = u32::try_from(pick.index(len as usize)).unwrap();
                    prop_assert_eq!(set.rank(len) as usize, model.len());
                    set.insert(ordinal);
                    model.insert(ordinal);
                }
            }
            prop_assert_eq!(set.count() as usize, model.len());
            for ordinal in 0..len + 70 {
                prop_assert_eq!(set.contains(ordinal), model.contains(&ordinal));
                prop_assert_eq!(set.next(ordinal), model.range(ordinal..).next().copied());
                prop_assert_eq!(set.rank(ordinal) as usize, model.range(..ordinal).count());
            }
            let mut bytes = Vec::new();
            set.encode(&mut bytes);
            prop_assert!(bytes.len() <= 1 + (len as usize).div_ceil(64) * 8);
            prop_assert_eq!(Survivors::decode(&bytes, len), Some(set));
        }

        #[test]
        fn any_bytes_are_decoded_or_refused(bytes: Vec<u8>, len in 0u32..5000) {
            if let Some(set) = Survivors::decode(&bytes, len) {
                prop_assert!(set.count() <= len);
                prop_assert_eq!(set.next(len), None);
            }
        }
    }

    #[test]
    fn everything_is_one_byte() {
        let mut bytes = Vec::new();
        Survivors::all(1 << 20).encode(&mut bytes);
        assert_eq!(bytes, [ALL]);
        assert_eq!(Survivors::decode(&bytes, 1 << 20), Some(Survivors::all(1 << 20)));
    }
}
