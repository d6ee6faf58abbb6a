//! Zipf-distributed numbers, after Gray et al., *Quickly generating billion-record synthetic
//! databases*.

/// See the file's top.
pub(crate) struct Zipf {
    rows: f64,
    theta: f64,
    alpha: f64,
    zeta: f64,
    eta: f64,
}

impl Zipf {
    pub(crate) fn new(rows: u64, theta: f64) -> Self {
        #[expect(clippy::cast_precision_loss, reason = "far below 2^52 rows")]
        let rows = rows as f64;
        let zeta = zeta(rows, theta);
        Self { rows, theta, alpha: 1.0 / (1.0 - theta), zeta, eta: eta(rows, theta, zeta) }
    }

    /// Makes it as if it had been made with so many rows, which are not less than it has.
    pub(crate) fn grow(&mut self, rows: u64) {
        #[expect(clippy::cast_precision_loss, reason = "far below 2^52 rows")]
        let rows = rows as f64;
        if rows <= self.rows {
            return;
        }
        while self.rows < rows {
            self.rows += 1.0;
            self.zeta += self.rows.powf(-self.theta);
        }
        self.eta = eta(self.rows, self.theta, self.zeta);
    }

    /// Returns the popularity rank, from 0, of the next row.
    pub(crate) fn next(&self, random: &mut fastrand::Rng) -> u64 {
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

fn eta(rows: f64, theta: f64, zeta_of_rows: f64) -> f64 {
    (1.0 - (2.0 / rows).powf(1.0 - theta)) / (1.0 - zeta(2.0, theta) / zeta_of_rows)
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
            assert!(rank < rows);
            first += i32::from(rank == 0);
        }
        let share = f64::from(first) / 100_000.0;
        assert!((share * zeta(1000.0, 0.9) - 1.0).abs() < 0.05, "{share}");
    }

    #[test]
    fn a_zipf_that_grew_is_one_that_was_made_so() {
        let (mut grown, made) = (Zipf::new(100, 0.99), Zipf::new(5000, 0.99));
        [100, 101, 4000, 5000].into_iter().for_each(|rows| grown.grow(rows));
        let (mut one, mut other) = (fastrand::Rng::with_seed(2), fastrand::Rng::with_seed(2));
        let near = (0..1000).filter(|_| grown.next(&mut one).abs_diff(made.next(&mut other)) <= 1);
        assert_eq!(near.count(), 1000);
    }

    #[test]
    fn zeta_of_many_is_near_the_sum() {
        let sum: f64 = (1..=400_000).map(|k| f64::from(k).powf(-0.5)).sum();
        assert!((zeta(400_000.0, 0.5) / sum - 1.0).abs() < 1e-6);
    }
}
