//! Which keys are asked for.

use std::collections::HashSet;
use std::ops::Range;

use crate::zipf::Zipf;

/// The exponent of YCSB's zipfian distribution.
const THETA: f64 = 0.99;
/// The numbers that YCSB draws from, however many records there are, before it hashes them.
const YCSB_ITEMS: u64 = 10_000_000_000;

/// How requests are distributed over the keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Distribution {
    /// All keys are equally likely.
    Uniform,
    /// Zipf with exponent 0.99 over the keys, scattered.
    Zipf,
    /// What YCSB calls zipfian: Zipf with exponent 0.99 over 10^10 numbers, which are hashed to keys.
    Ycsb,
}

/// Draws keys of a range.
pub(super) struct Keys {
    range: Range<u64>,
    /// `None`: uniform.
    zipf: Option<Zipf>,
}

impl Keys {
    pub(super) fn new(range: Range<u64>, distribution: Distribution) -> Self {
        let zipf = match distribution {
            Distribution::Uniform => None,
            Distribution::Zipf => Some(Zipf::new(range.end - range.start, THETA)),
            Distribution::Ycsb => Some(Zipf::new(YCSB_ITEMS, THETA)),
        };
        Self { range, zipf }
    }

    pub(super) fn draw(&self, random: &mut fastrand::Rng) -> u64 {
        match &self.zipf {
            None => random.u64(self.range.clone()),
            Some(zipf) => self.of_rank(zipf.next(random)),
        }
    }

    /// The keys that are asked for most often: at most a hundredth of all; none if all are equally likely.
    pub(super) fn popular(&self) -> HashSet<u64> {
        let count = self.zipf.as_ref().map_or(0, |_| (self.range.end - self.range.start) / 100);
        (0..count).map(|rank| self.of_rank(rank)).collect()
    }

    fn of_rank(&self, rank: u64) -> u64 {
        let count = self.range.end - self.range.start;
        self.range.start + mixed(rank) % count
    }
}

/// A hash of a number (the end of SplitMix64).
fn mixed(number: u64) -> u64 {
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The share of the requests that the most popular hundredth of 10,000 keys gets.
    fn share(distribution: Distribution) -> f64 {
        let keys = Keys::new(1000..11_000, distribution);
        let mut random = fastrand::Rng::with_seed(3);
        let mut counts = vec![0_u32; 10_000];
        for _ in 0..200_000 {
            counts[usize::try_from(keys.draw(&mut random) - 1000).unwrap()] += 1;
        }
        let popular = keys.popular();
        let popular = popular.iter().map(|key| counts[usize::try_from(*key - 1000).unwrap()]);
        let popular = f64::from(popular.sum::<u32>()) / 200_000.0;
        counts.sort_unstable();
        let share = f64::from(counts[9900..].iter().sum::<u32>()) / 200_000.0;
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
}
