//! The rows that are written: uniform or Zipf, generated before the measurement.

use std::str::FromStr;

use crate::zipf::Zipf;

/// How the written rows are distributed.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Distribution {
    /// All rows are equally likely.
    Uniform,
    /// The k-th most popular row with a probability proportional to `1 / k^theta`.
    Zipf(f64),
}

impl FromStr for Distribution {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "uniform" {
            return Ok(Self::Uniform);
        }
        let theta = text.strip_prefix("zipf:").and_then(|theta| theta.parse::<f64>().ok());
        match theta {
            Some(theta) if theta > 0.0 && theta < 1.0 => Ok(Self::Zipf(theta)),
            _ => Err("`uniform`, or `zipf:` and a number between 0 and 1".into()),
        }
    }
}

/// Generates the numbers of `count` written rows, out of `rows`.
pub(super) fn make_up(
    rows: usize,
    count: usize,
    distribution: Distribution,
    seed: u64,
) -> Vec<u32> {
    let mut random = fastrand::Rng::with_seed(seed);
    let bound = u32::try_from(rows).expect("fewer than 2^32 rows");
    match distribution {
        Distribution::Uniform => (0..count).map(|_| random.u32(0..bound)).collect(),
        Distribution::Zipf(theta) => {
            let zipf = Zipf::new(rows as u64, theta);
            // Popular rows are scattered: neighbours are unrelated.
            let scatter = |rank: u64| {
                let hash = rank.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
                let row = (u128::from(hash) * u128::from(bound)) >> 64;
                u32::try_from(row).expect("below the number of rows")
            };
            (0..count).map(|_| scatter(zipf.next(&mut random))).collect()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_distributions() {
        assert_eq!("uniform".parse(), Ok(Distribution::Uniform));
        assert_eq!("zipf:0.5".parse(), Ok(Distribution::Zipf(0.5)));
        assert!("zipf:1".parse::<Distribution>().is_err() && "".parse::<Distribution>().is_err());
    }
}
