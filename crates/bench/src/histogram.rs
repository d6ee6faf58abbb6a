//! Latencies in an HdrHistogram of three significant digits: a quantile is at most 0.1 % too high.

use hdrhistogram::Histogram as Hdr;

/// See the file's top.
pub(crate) struct Histogram {
    counts: Hdr<u64>,
    /// The largest value as it was: HdrHistogram has it rounded up like all others.
    max: u64,
}

impl Histogram {
    pub(crate) fn new() -> Self {
        Self { counts: Hdr::new(3).expect("three digits are allowed"), max: 0 }
    }

    pub(crate) fn add(&mut self, value: u64) {
        self.counts.record(value).expect("it grows");
        self.max = self.max.max(value);
    }

    /// Adds what `other` has counted.
    pub(crate) fn add_all(&mut self, other: &Self) {
        self.counts.add(&other.counts).expect("it grows");
        self.max = self.max.max(other.max);
    }

    /// Adds what `other` has counted, and empties that.
    pub(crate) fn take(&mut self, other: &mut Self) {
        self.add_all(other);
        other.clear();
    }

    /// Forgets everything, and keeps the memory.
    pub(crate) fn clear(&mut self) {
        self.counts.reset();
        self.max = 0;
    }

    pub(crate) fn total(&self) -> u64 {
        self.counts.len()
    }

    pub(crate) const fn max(&self) -> u64 {
        self.max
    }

    /// The value below or at which `per_mille` of all values are, up to the width of a bucket.
    pub(crate) fn quantile(&self, per_mille: u64) -> u64 {
        self.counts.value_at_quantile(per_mille as f64 / 1000.0).min(self.max)
    }

    /// Pairs of a quantile (0 to 1) and its value: two for each halving of what is above, as HdrHistogram's
    /// own reports have them.
    pub(crate) fn quantiles(&self) -> Vec<(f64, u64)> {
        let values = self.counts.iter_quantiles(2);
        let pair = |it: hdrhistogram::iterators::IterationValue<u64>| {
            (it.quantile_iterated_to(), it.value_iterated_to().min(self.max))
        };
        values.map(pair).collect()
    }

    /// Returns the values that would have been seen if a request had been due each `interval`: for a value `v` above
    /// it also `v - interval`, `v - 2 * interval`, …, down to the interval.
    pub(crate) fn corrected(&self, interval: u64) -> Self {
        Self { counts: self.counts.clone_correct(interval), max: self.max }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quantile_is_at_most_one_bucket_too_high() {
        let mut random = fastrand::Rng::with_seed(1);
        let mut values: Vec<u64> =
            (0..10_000).map(|_| random.u64(..) >> random.u32(1..64)).collect();
        let mut histogram = Histogram::new();
        values.iter().for_each(|value| histogram.add(*value));
        values.sort_unstable();
        for per_mille in [1, 500, 990, 999, 1000] {
            let rank = (values.len() * per_mille).div_ceil(1000) - 1;
            let (exact, found) = (values[rank], histogram.quantile(per_mille as u64));
            assert!(exact <= found && found - exact <= exact / 1000, "{exact} is {found}");
        }
        assert_eq!(histogram.max(), values[9999]);
        let quantiles = histogram.quantiles();
        assert_eq!(quantiles.last(), Some(&(1.0, values[9999])));
        assert!(quantiles.is_sorted() && quantiles.len() < 60, "{quantiles:?}");
    }

    #[test]
    fn what_is_taken_is_counted_once() {
        let (mut all, mut some) = (Histogram::new(), Histogram::new());
        some.add(7);
        all.take(&mut some);
        all.take(&mut some);
        assert_eq!((all.total(), all.max(), all.quantile(500)), (1, 7, 7));
        assert_eq!((some.total(), some.quantile(500)), (0, 0));
    }

    #[test]
    fn a_long_wait_is_corrected_by_the_requests_that_it_kept_back() {
        let mut histogram = Histogram::new();
        (0..99).for_each(|_| histogram.add(100));
        histogram.add(1000);
        let corrected = histogram.corrected(100);
        // 1,000, and 900, 800, …, 100.
        assert_eq!((corrected.total(), corrected.max()), (109, 1000));
        assert_eq!((histogram.quantile(990), corrected.quantile(990)), (100, 900));
    }
}
