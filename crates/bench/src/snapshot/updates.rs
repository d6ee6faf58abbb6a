//! The rows that are written: uniform or Zipf, generated before the measurement.

use std::str::FromStr;

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

/// Zipf-distributed numbers, after Gray et al., *Quickly generating billion-record synthetic
/// databases*.
struct Zipf {
    rows: f64,
    theta: f64,
    alpha: f64,
    zeta: f64,
    eta: f64,
}

impl Zipf {
    fn new(rows: usize, theta: f64) -> Self {
        #[expect(clippy::cast_precision_loss, reason = "far below 2^52 rows")]
        let rows = rows as f64;
        let (zeta, zeta_2) = (zeta(rows, theta), zeta(2.0, theta));
        let eta = (1.0 - (2.0 / rows).powf(1.0 - theta)) / (1.0 - zeta_2 / zeta);
        Self { rows, theta, alpha: 1.0 / (1.0 - theta), zeta, eta }
    }

    /// Returns the popularity rank, from 0, of the next row.
    fn next(&self, random: &mut fastrand::Rng) -> u64 {
        let u = random.f64();
        let uz = u * self.zeta;
        if uz < 1.0 {
            return 0;
        }
        if uz < 1.0 + 0.5_f64.powf(self.theta) {
            return 1;
        }
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "between 0 and the number of rows"
        )]
        let rank = (self.rows * (self.eta * u - self.eta + 1.0).powf(self.alpha)) as u64;
        rank
    }
}

/// Returns the sum of `1 / k^theta` for k up to `rows`. The first terms are exact, the rest is an
/// integral (by the midpoint rule, with an error below a millionth here).
fn zeta(rows: f64, theta: f64) -> f64 {
    let exact = rows.min(100_000.0);
    let mut sum = 0.0;
    let mut k = 1.0;
    while k <= exact {
        sum += f64::powf(k, -theta);
        k += 1.0;
    }
    if rows > exact {
        let integral = |x: f64| x.powf(1.0 - theta) / (1.0 - theta);
        sum += integral(rows + 0.5) - integral(exact + 0.5);
    }
    sum
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
            let zipf = Zipf::new(rows, theta);
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
    fn zipf_has_the_shares_that_it_should() {
        let rows = 1000;
        let zipf = Zipf::new(rows, 0.9);
        let mut random = fastrand::Rng::with_seed(7);
        let mut first = 0;
        for _ in 0..100_000 {
            let rank = zipf.next(&mut random);
            assert!(rank < rows as u64);
            first += i32::from(rank == 0);
        }
        let share = f64::from(first) / 100_000.0;
        assert!((share * zeta(1000.0, 0.9) - 1.0).abs() < 0.05, "{share}");
    }

    #[test]
    fn zeta_of_many_is_near_the_sum() {
        let sum: f64 = (1..=400_000).map(|k| f64::from(k).powf(-0.5)).sum();
        assert!((zeta(400_000.0, 0.5) / sum - 1.0).abs() < 1e-6);
    }

    #[test]
    fn names_of_distributions() {
        assert_eq!("uniform".parse(), Ok(Distribution::Uniform));
        assert_eq!("zipf:0.5".parse(), Ok(Distribution::Zipf(0.5)));
        assert!("zipf:1".parse::<Distribution>().is_err() && "".parse::<Distribution>().is_err());
    }
}
