//! Which keys are asked for.

use std::collections::HashSet;
use std::ops::Range;

use super::inserted::Inserted;
use crate::zipf::Zipf;

/// The exponent of YCSB's zipfian distribution.
const THETA: f64 = 0.99;
/// The numbers that YCSB draws from, however many records there are, before it hashes them.
const YCSB_ITEMS: u64 = 10_000_000_000;
/// Where records are inserted, hashed numbers are spread over as many keys more as there are at first; those
/// that are not there yet are drawn again. YCSB computes the number from its count of operations.
const ROOM: u64 = 2;

/// How requests are distributed over the keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Distribution {
    /// All keys are equally likely.
    Uniform,
    /// Zipf with exponent 0.99 over the keys, scattered.
    Zipf,
    /// What YCSB calls zipfian: Zipf with exponent 0.99 over 10^10 numbers, which are hashed to keys.
    #[value(alias = "zipfian")]
    Ycsb,
    /// YCSB's latest: Zipf with exponent 0.99, the key that was inserted last is the likeliest one.
    Latest,
}

/// Draws keys of a range, which inserts make longer.
pub(super) struct Keys {
    first: u64,
    inserted: Inserted,
    chooser: Chooser,
}

enum Chooser {
    Uniform,
    /// Ranks are hashed to so many keys.
    Scattered {
        zipf: Zipf,
        keys: u64,
    },
    /// A rank is the distance from the last key.
    Latest(Zipf),
}

impl Keys {
    /// All keys of `range` are there.
    pub(super) fn new(range: Range<u64>, distribution: Distribution, has_inserts: bool) -> Self {
        let count = range.end - range.start;
        let keys = if has_inserts { count * ROOM } else { count };
        let chooser = match distribution {
            Distribution::Uniform => Chooser::Uniform,
            Distribution::Zipf => Chooser::Scattered { zipf: Zipf::new(keys, THETA), keys },
            Distribution::Ycsb => Chooser::Scattered { zipf: Zipf::new(YCSB_ITEMS, THETA), keys },
            Distribution::Latest => Chooser::Latest(Zipf::new(count, THETA)),
        };
        Self { first: range.start, inserted: Inserted::new(range.end), chooser }
    }

    /// Draws a key that is there.
    pub(super) fn draw(&self, random: &mut fastrand::Rng) -> u64 {
        let end = self.inserted.limit();
        match &self.chooser {
            Chooser::Uniform => random.u64(self.first..end),
            Chooser::Scattered { zipf, keys } => loop {
                let key = self.of_rank(zipf.next(random), *keys);
                if key < end {
                    return key;
                }
            },
            Chooser::Latest(zipf) => end - 1 - zipf.next(random).min(end - 1 - self.first),
        }
    }

    /// Returns the key of a record to insert.
    pub(super) fn begin_insert(&mut self) -> u64 {
        self.inserted.begin()
    }

    /// Notes that an insert has ended: its key can be drawn.
    pub(super) fn end_insert(&mut self, key: u64) {
        self.inserted.end(key);
        self.grow();
    }

    /// Ends all inserts that are under way: their connections are closed.
    pub(super) fn end_inserts(&mut self) {
        self.inserted.end_all();
        self.grow();
    }

    fn grow(&mut self) {
        if let Chooser::Latest(zipf) = &mut self.chooser {
            zipf.grow(self.inserted.limit() - self.first);
        }
    }

    /// The end of all keys, those included that are being inserted.
    pub(super) fn end(&self) -> u64 {
        self.inserted.next()
    }

    /// The keys that are asked for most often: at most a hundredth of all; none if all are equally likely, or
    /// not the same ones all the time.
    pub(super) fn popular(&self) -> HashSet<u64> {
        match &self.chooser {
            Chooser::Scattered { keys, .. } => {
                (0..keys / 100).map(|rank| self.of_rank(rank, *keys)).collect()
            }
            Chooser::Uniform | Chooser::Latest(_) => HashSet::new(),
        }
    }

    fn of_rank(&self, rank: u64, keys: u64) -> u64 {
        self.first + fnv(rank) % keys
    }
}

/// The hash of YCSB: FNV-1a with 64 bits of the number's bytes, the lowest first, without its sign.
pub(super) fn fnv(number: u64) -> u64 {
    let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(1_099_511_628_211);
    let hash = number.to_le_bytes().into_iter().fold(0xcbf2_9ce4_8422_2325, step);
    hash.cast_signed().unsigned_abs()
}

#[cfg(test)]
mod tests {
    use super::*;

    const DRAWS: u32 = 200_000;

    /// How often each of 10,000 keys is drawn.
    fn counts(keys: &Keys) -> Vec<u32> {
        let mut random = fastrand::Rng::with_seed(3);
        let mut counts = vec![0_u32; 10_000];
        for _ in 0..DRAWS {
            counts[usize::try_from(keys.draw(&mut random) - 1000).unwrap()] += 1;
        }
        counts
    }

    /// The share of the requests that the most popular hundredth of 10,000 keys gets.
    fn share(distribution: Distribution) -> f64 {
        let keys = Keys::new(1000..11_000, distribution, false);
        let mut counts = counts(&keys);
        let popular = keys.popular();
        let popular = popular.iter().map(|key| counts[usize::try_from(*key - 1000).unwrap()]);
        let popular = f64::from(popular.sum::<u32>()) / f64::from(DRAWS);
        counts.sort_unstable();
        let share = f64::from(counts[9900..].iter().sum::<u32>()) / f64::from(DRAWS);
        let is_uniform = distribution == Distribution::Uniform;
        assert!(is_uniform && popular == 0.0 || popular > share * 0.9, "{popular} of {share}");
        share
    }

    #[test]
    fn popular_keys_get_their_share() {
        let shares = [Distribution::Uniform, Distribution::Ycsb, Distribution::Zipf].map(share);
        assert!(shares[0] < 0.02, "{shares:?}");
        assert!((0.15..0.3).contains(&shares[1]), "{shares:?}");
        assert!((0.45..0.65).contains(&shares[2]), "{shares:?}");
    }

    /// The sum of (drawn - expected)^2 / expected, over its degrees of freedom: near 1 if the draws follow
    /// `weights`; its standard deviation is the root of 2 / degrees.
    fn chi_square(counts: &[u32], weights: &[f64]) -> f64 {
        let all: f64 = weights.iter().sum();
        let part = |(count, weight): (&u32, &f64)| {
            let expected = weight / all * f64::from(DRAWS);
            (f64::from(*count) - expected).powi(2) / expected
        };
        counts.iter().zip(weights).map(part).sum::<f64>() / (counts.len() - 1) as f64
    }

    #[test]
    fn uniform_keys_are_equally_likely() {
        let counts = counts(&Keys::new(1000..11_000, Distribution::Uniform, false));
        let found = chi_square(&counts, &vec![1.0; 10_000]);
        assert!((0.9..1.1).contains(&found), "{found}");
    }

    #[test]
    fn the_latest_key_is_the_likeliest_one_also_after_inserts() {
        let zipf = |ranks: u32| (1..=ranks).map(|rank| f64::from(rank).powf(-THETA));
        for inserts in [0, 4000] {
            let mut keys = Keys::new(1000..11_000 - inserts, Distribution::Latest, true);
            (0..inserts).for_each(|_| {
                let key = keys.begin_insert();
                keys.end_insert(key);
            });
            // One that has not ended is not drawn: it would be outside of the counts.
            keys.begin_insert();
            let mut counts = counts(&keys);
            counts.reverse();
            // The method of Gray et al. is exact for the first two ranks, and near for the others: by spans.
            let spans = |values: &[f64]| -> Vec<f64> {
                let ends = [0, 1, 2, 10, 100, 1000, 10_000];
                ends.windows(2).map(|it| values[it[0]..it[1]].iter().sum()).collect()
            };
            let expected: Vec<f64> = zipf(10_000).collect();
            let all: f64 = expected.iter().sum();
            let drawn: Vec<f64> = counts.iter().map(|count| f64::from(*count)).collect();
            for (drawn, expected) in spans(&drawn).iter().zip(spans(&expected)) {
                let ratio = drawn / f64::from(DRAWS) / (expected / all);
                assert!((0.9..1.1).contains(&ratio), "{inserts} inserts: {ratio}");
            }
        }
    }

    #[test]
    fn numbers_are_hashed_as_in_ycsb() {
        // FNV-1a of eight zeros, and of a one before seven, from a program of its own.
        assert_eq!(fnv(0), 6_284_781_860_667_377_211);
        assert_eq!(fnv(1), 8_517_097_267_634_966_620);
    }

    #[test]
    fn inserted_keys_are_drawn_once_they_are_there() {
        for distribution in [Distribution::Ycsb, Distribution::Zipf, Distribution::Uniform] {
            let mut keys = Keys::new(0..100, distribution, true);
            let mut random = fastrand::Rng::with_seed(3);
            assert!((0..10_000).all(|_| keys.draw(&mut random) < 100));
            (0..50).for_each(|_| assert!(keys.begin_insert() < keys.end()));
            assert!((0..10_000).all(|_| keys.draw(&mut random) < 100));
            keys.end_inserts();
            let mut drawn: HashSet<u64> = (0..10_000).map(|_| keys.draw(&mut random)).collect();
            drawn.retain(|key| *key >= 100);
            assert!(drawn.len() > 20, "{distribution:?}: {drawn:?}");
        }
    }
}
