//! The validity bitmap of one segment: which of its records are no longer needed.
//!
//! ```text
//!   dense    a bit a record that the segment ever had, set when it is no longer needed
//!   sparse   the ordinals that are still needed, compressed
//! ```
//!
//! Retiring a record in a dense bitmap is an array access. A segment that compaction has left few
//! records of would pay a bit for each that is long gone: below one in [`SPARSE_SHARE`] the few are
//! listed instead.

use roaring::RoaringBitmap;

use crate::format::survivors::Survivors;

/// A bitmap is sparse when at most one in so many of a segment's records is needed: about two
/// bytes for each of them are then less than half of a bit for all.
const SPARSE_SHARE: u32 = 32;

/// See the file's top.
#[derive(Debug, Clone)]
pub(crate) enum Bitmap {
    /// Set bits are garbage; what is beyond the end is needed.
    Dense(Vec<u64>),
    /// What is not in it is garbage.
    Sparse(RoaringBitmap),
}

impl Default for Bitmap {
    fn default() -> Self {
        Self::Dense(Vec::new())
    }
}

impl Bitmap {
    /// The bitmap of a segment of which these records are still there, all of them needed.
    pub(crate) fn of_survivors(survivors: &Survivors) -> Self {
        if survivors.count() > survivors.len() / SPARSE_SHARE {
            return Self::default();
        }
        let mut needed = RoaringBitmap::new();
        let mut next = survivors.next(0);
        while let Some(ordinal) = next {
            needed.insert(ordinal);
            next = survivors.next(ordinal + 1);
        }
        Self::Sparse(needed)
    }

    /// Marks a record as garbage; whether it was not before.
    #[inline]
    pub(crate) fn retire(&mut self, ordinal: u32) -> bool {
        match self {
            Self::Dense(words) => {
                let at = ordinal as usize / 64;
                if at >= words.len() {
                    grow(words, at);
                }
                let mask = 1 << (ordinal % 64);
                let is_new = words[at] & mask == 0;
                words[at] |= mask;
                is_new
            }
            Self::Sparse(needed) => needed.remove(ordinal),
        }
    }

    /// Marks all of `record_count` records as garbage that are not in `live`, a set of `live_count` of
    /// them. Returns how many of these were garbage already.
    pub(crate) fn retire_all_but(
        &mut self,
        live: &[u64],
        live_count: u32,
        record_count: u32,
    ) -> u32 {
        let is_live = |ordinal: u32| {
            live.get(ordinal as usize / 64).is_some_and(|word| word & (1 << (ordinal % 64)) != 0)
        };
        match self {
            Self::Dense(words) => {
                words.resize((record_count as usize).div_ceil(64), 0);
                let mut both_count = 0;
                for (at, word) in words.iter_mut().enumerate() {
                    let live = live.get(at).copied().unwrap_or(0);
                    both_count += (*word & live).count_ones();
                    *word |= !live;
                }
                both_count
            }
            Self::Sparse(needed) => {
                let kept: RoaringBitmap = needed.iter().filter(|at| is_live(*at)).collect();
                let kept_count = u32::try_from(kept.len()).expect("no more than ordinals");
                *needed = kept;
                live_count - kept_count
            }
        }
    }

    /// Takes back that a record is garbage; whether it was.
    pub(crate) fn take_back(&mut self, ordinal: u32) -> bool {
        match self {
            Self::Dense(words) => {
                let Some(word) = words.get_mut(ordinal as usize / 64) else { return false };
                let mask = 1 << (ordinal % 64);
                let was_retired = *word & mask != 0;
                *word &= !mask;
                was_retired
            }
            Self::Sparse(needed) => needed.insert(ordinal),
        }
    }

    /// How many records before `ordinal` are garbage.
    pub(crate) fn retired_below(&self, ordinal: u32) -> u32 {
        match self {
            Self::Dense(words) => {
                let whole = ordinal as usize / 64;
                let below: u32 = words.iter().take(whole).map(|word| word.count_ones()).sum();
                let rest = words.get(whole).map_or(0, |word| word & !(u64::MAX << (ordinal % 64)));
                below + rest.count_ones()
            }
            Self::Sparse(needed) => {
                let kept = if ordinal == 0 { 0 } else { needed.rank(ordinal - 1) };
                ordinal - u32::try_from(kept).expect("no more than ordinals")
            }
        }
    }

    /// Whether a record is garbage.
    pub(crate) fn is_retired(&self, ordinal: u32) -> bool {
        match self {
            Self::Dense(words) => words
                .get(ordinal as usize / 64)
                .is_some_and(|word| word & (1 << (ordinal % 64)) != 0),
            Self::Sparse(needed) => !needed.contains(ordinal),
        }
    }

    /// Chooses the shorter form, now that the segment is sealed and has had `record_count` records,
    /// of which `needed_count` at most are needed.
    pub(crate) fn compress(&mut self, record_count: u32, needed_count: u32) {
        if let Self::Dense(words) = self
            && needed_count <= record_count / SPARSE_SHARE
        {
            words.resize((record_count as usize).div_ceil(64), 0);
            // By words: most of them have nothing that is needed.
            let needed = (0u32..).zip(&*words).flat_map(|(at, word)| {
                let mut left = !word;
                std::iter::from_fn(move || {
                    let bit = (left != 0).then(|| left.trailing_zeros())?;
                    left &= left - 1;
                    Some(at * 64 + bit)
                })
            });
            let needed = needed.take_while(|ordinal| *ordinal < record_count);
            *self = Self::Sparse(needed.collect());
        }
    }

    /// How much memory it takes.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Self::Dense(words) => words.capacity() * 8,
            Self::Sparse(needed) => needed.serialized_size(),
        }
    }
}

#[cold]
fn grow(words: &mut Vec<u64>, at: usize) {
    // By doubling: it happens a handful of times in the life of a segment.
    words.resize((at + 1).next_power_of_two().max(64), 0);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn both_forms_are_the_same_set(
            len in 1u32..5000,
            retired: Vec<proptest::sample::Index>,
            needed in proptest::collection::btree_set(0u32..5000, 0..200),
        ) {
            let mut bitmap = Bitmap::default();
            let mut model = BTreeSet::new();
            for ordinal in (0..len).filter(|ordinal| !needed.contains(ordinal)) {
                prop_assert!(bitmap.retire(ordinal));
                model.insert(ordinal);
            }
            let needed_count = len - u32::try_from(model.len()).unwrap();
            bitmap.compress(len, needed_count);
            let is_sparse = matches!(bitmap, Bitmap::Sparse(_));
            prop_assert_eq!(is_sparse, needed_count <= len / SPARSE_SHARE);
            for index in retired {
                let ordinal = u32::try_from(index.index(len as usize)).unwrap();
                prop_assert_eq!(bitmap.retire(ordinal), model.insert(ordinal));
            }
            for ordinal in 0..len {
                prop_assert_eq!(bitmap.is_retired(ordinal), model.contains(&ordinal));
            }
            for ordinal in (0..len).step_by(97) {
                let below = model.range(..ordinal).count();
                prop_assert_eq!(bitmap.retired_below(ordinal) as usize, below);
            }
            let mut live = vec![0u64; 80];
            let mut live_count = 0;
            for ordinal in (0..len).step_by(5) {
                live[ordinal as usize / 64] |= 1 << (ordinal % 64);
                live_count += 1;
            }
            let both = model.iter().filter(|ordinal| *ordinal % 5 == 0).count();
            let mut taken = bitmap.clone();
            prop_assert_eq!(taken.retire_all_but(&live, live_count, len) as usize, both);
            for ordinal in 0..len {
                let is_needed = ordinal % 5 == 0 && !model.contains(&ordinal);
                prop_assert_eq!(taken.is_retired(ordinal), !is_needed);
            }
            for ordinal in (0..len).step_by(3) {
                prop_assert_eq!(bitmap.take_back(ordinal), model.remove(&ordinal));
                prop_assert!(!bitmap.is_retired(ordinal));
            }
        }

        #[test]
        fn survivors_are_what_is_needed(picks: BTreeSet<u16>) {
            let mut survivors = Survivors::none(1 << 16);
            picks.iter().for_each(|ordinal| survivors.insert(u32::from(*ordinal)));
            let bitmap = Bitmap::of_survivors(&survivors);
            prop_assert!(matches!(bitmap, Bitmap::Sparse(_)));
            prop_assert!(bitmap.bytes() < 1000, "a dense one has 8192 bytes");
            for ordinal in 0..1 << 16 {
                prop_assert_eq!(bitmap.is_retired(ordinal), !survivors.contains(ordinal));
            }
        }
    }
}
