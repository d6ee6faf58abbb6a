//! Latencies, counted in buckets that are at most 3 % wide.

/// Buckets per power of two.
const PARTS: usize = 32;
const PART_BITS: u32 = PARTS.ilog2();
const BUCKETS: usize = (64 - PART_BITS as usize + 1) * PARTS;

/// See the file's top.
pub(crate) struct Histogram {
    counts: Vec<u64>,
    total: u64,
    max: u64,
}

impl Histogram {
    pub(crate) fn new() -> Self {
        Self { counts: vec![0; BUCKETS], total: 0, max: 0 }
    }

    pub(crate) fn add(&mut self, value: u64) {
        self.counts[bucket(value)] += 1;
        self.total += 1;
        self.max = self.max.max(value);
    }

    /// Adds what `other` has counted, and empties that.
    pub(crate) fn take(&mut self, other: &mut Self) {
        for (count, taken) in self.counts.iter_mut().zip(&mut other.counts) {
            *count += std::mem::take(taken);
        }
        self.total += std::mem::take(&mut other.total);
        self.max = self.max.max(std::mem::take(&mut other.max));
    }

    pub(crate) const fn total(&self) -> u64 {
        self.total
    }

    pub(crate) const fn max(&self) -> u64 {
        self.max
    }

    /// The value below or at which `per_mille` of all values are, up to the width of a bucket.
    pub(crate) fn quantile(&self, per_mille: u64) -> u64 {
        let wanted = (self.total * per_mille).div_ceil(1000);
        let mut seen = 0;
        for (index, count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= wanted && seen > 0 {
                return last_of(index).min(self.max);
            }
        }
        0
    }
}

fn bucket(value: u64) -> usize {
    let bits = u64::BITS - value.leading_zeros();
    let shift = bits.saturating_sub(PART_BITS + 1);
    let part = usize::try_from(value >> shift).expect("less than two times PARTS");
    shift as usize * PARTS + part
}

/// The largest value of a bucket.
fn last_of(index: usize) -> u64 {
    if index < 2 * PARTS {
        return index as u64;
    }
    let shift = index / PARTS - 1;
    let part = (index % PARTS + PARTS) as u64;
    ((part + 1) << shift).wrapping_sub(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quantile_is_at_most_one_bucket_too_high() {
        let mut random = fastrand::Rng::with_seed(1);
        let mut values: Vec<u64> =
            (0..10_000).map(|_| random.u64(..) >> random.u32(..64)).collect();
        let mut histogram = Histogram::new();
        values.iter().for_each(|value| histogram.add(*value));
        values.sort_unstable();
        for per_mille in [1, 500, 990, 999, 1000] {
            let rank = (values.len() * per_mille).div_ceil(1000) - 1;
            let (exact, found) = (values[rank], histogram.quantile(per_mille as u64));
            assert!(exact <= found && found - exact <= exact / 32, "{exact} is {found}");
        }
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
}
