//! How long something took, over many times: counts in buckets that grow with the value.
//!
//! ```text
//!   value   0 1 2 … 31 | 32 33 … 63 | 64 66 … 126 | 128 132 … 252 | …
//!   width        1     |     1      |      2      |       4       | …    32 buckets a power of two
//! ```
//!
//! So a bucket is never wider than 1/32 of its values, and adding a value is a few instructions.

/// Buckets for each power of two, as a power of two.
const SUB_BITS: u32 = 5;
const SUB_COUNT: usize = 1 << SUB_BITS;
/// Values up to 2^40: in microseconds that is two weeks.
const GROUP_COUNT: usize = 36;

/// See the file's top.
#[derive(Clone, Debug)]
pub(crate) struct Histogram {
    counts: Vec<u64>,
    total: u64,
    sum: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self { counts: vec![0; GROUP_COUNT * SUB_COUNT], total: 0, sum: 0 }
    }
}

fn bucket_of(value: u64) -> usize {
    let group = (u64::BITS - value.leading_zeros()).saturating_sub(SUB_BITS);
    let within = usize::try_from(value >> group.saturating_sub(1)).expect("has at most six bits");
    let index = match group {
        0 => within,
        group => group as usize * SUB_COUNT + (within - SUB_COUNT),
    };
    index.min(GROUP_COUNT * SUB_COUNT - 1)
}

/// The largest value of a bucket.
fn upper_of(bucket: usize) -> u64 {
    let (group, within) = (bucket / SUB_COUNT, (bucket % SUB_COUNT) as u64);
    match group {
        0 => within,
        group => ((within + SUB_COUNT as u64 + 1) << (group - 1)) - 1,
    }
}

impl Histogram {
    pub(crate) fn add(&mut self, value: u64) {
        self.counts[bucket_of(value)] += 1;
        self.total += 1;
        self.sum = self.sum.saturating_add(value);
    }

    /// How many values were added.
    pub(crate) fn count(&self) -> u64 {
        self.total
    }

    /// What the values add up to.
    pub(crate) fn sum(&self) -> u64 {
        self.sum
    }

    /// The value that `percentile` percent of the values do not exceed.
    pub(crate) fn percentile(&self, percentile: f64) -> u64 {
        if self.total == 0 {
            return 0;
        }
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            clippy::cast_precision_loss,
            reason = "a rank of a count; a rounding error moves it by one"
        )]
        let rank = ((percentile / 100.0 * self.total as f64).ceil() as u64).clamp(1, self.total);
        let mut seen = 0;
        let bucket = self.counts.iter().position(|count| {
            seen += count;
            seen >= rank
        });
        upper_of(bucket.expect("the counts add up to the total"))
    }

    /// For each power of two up to 2 to the power of `last`: how many values do not exceed it. Those above it are in
    /// [`Histogram::count`] only.
    pub(crate) fn up_to_powers(&self, last: u32) -> Vec<(u64, u64)> {
        let (mut seen, mut bucket) = (0, 0);
        let up_to = |power: u32| {
            while bucket < self.counts.len() && upper_of(bucket) <= 1 << power {
                seen += self.counts[bucket];
                bucket += 1;
            }
            (1 << power, seen)
        };
        (0..=last).map(up_to).collect()
    }

    /// For each power of two up to the largest value: how many values do not exceed it. Powers
    /// that add nothing are left out.
    pub(crate) fn cumulative_powers(&self) -> Vec<(u64, u64)> {
        let mut powers = Vec::new();
        let (mut seen, mut bucket, mut power) = (0, 0, 1_u64);
        while seen < self.total {
            let before = seen;
            while bucket < self.counts.len() && upper_of(bucket) <= power {
                seen += self.counts[bucket];
                bucket += 1;
            }
            if seen > before {
                powers.push((power, seen));
            }
            if power > 1 << 41 {
                break;
            }
            power *= 2;
        }
        powers
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_lies_in_its_bucket() {
        for value in (0..5000).chain([1 << 20, (1 << 20) + 12345, (1 << 39) + 7]) {
            let bucket = bucket_of(value);
            assert!(value <= upper_of(bucket), "{value}");
            assert!(bucket == 0 || value > upper_of(bucket - 1), "{value}");
            assert!(upper_of(bucket) <= value + value / 32 + 1, "{value}");
        }
    }

    #[test]
    fn percentiles_are_close() {
        let mut histogram = Histogram::default();
        for value in 1..=1000 {
            histogram.add(value);
        }
        assert!((495..=515).contains(&histogram.percentile(50.0)));
        assert!((985..=1023).contains(&histogram.percentile(99.0)));
        assert_eq!((histogram.count(), histogram.sum()), (1000, 500_500));
        assert_eq!(histogram.cumulative_powers().last().unwrap().1, 1000);
        let up_to = histogram.up_to_powers(12);
        assert_eq!((up_to[0], up_to[4], up_to[12]), ((1, 1), (16, 16), (4096, 1000)));
    }
}
