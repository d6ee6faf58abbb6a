//! Runs seed after seed for a while, says how it goes, and ends with figures to quote.

use std::time::{Duration, Instant};

use crate::run::{Plan, Violation, run};
use crate::tally::Tally;

/// How often progress is shown.
const PROGRESS_EVERY: Duration = Duration::from_secs(10);

/// How many lives a run has.
pub const LIVES: u32 = 8;

/// What a soak came to.
#[derive(Debug, Clone)]
pub struct Report {
    /// The first seed.
    pub first_seed: u64,
    /// How long it took.
    pub elapsed: Duration,
    /// What was done.
    pub tally: Tally,
    /// What must not happen and has.
    pub violations: Vec<Violation>,
}

/// Runs one seed after the other until the time is up, or one fails.
pub fn soak(
    seeds: impl IntoIterator<Item = u64>,
    time: Duration,
    mut show: impl FnMut(&str),
) -> Report {
    let start = Instant::now();
    let mut shown = start;
    let mut seeds = seeds.into_iter().peekable();
    let first_seed = seeds.peek().copied().unwrap_or_default();
    let mut report =
        Report { first_seed, elapsed: Duration::ZERO, tally: Tally::default(), violations: vec![] };
    while start.elapsed() < time
        && report.violations.is_empty()
        && let Some(seed) = seeds.next()
    {
        match run(Plan { seed, lives: LIVES, is_traced: false }) {
            Ok(outcome) => report.tally.add(&outcome.tally),
            Err(violation) => {
                report.tally.violations += 1;
                report.violations.push(violation);
            }
        }
        report.elapsed = start.elapsed();
        if shown.elapsed() >= PROGRESS_EVERY {
            shown = Instant::now();
            show(&report.progress());
        }
    }
    report
}

impl Report {
    fn per_second(&self, count: u64) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "counts of a soak are far below 2^52")]
        let count = count as f64;
        count / self.elapsed.as_secs_f64().max(0.001)
    }

    /// A line of progress.
    #[must_use]
    pub fn progress(&self) -> String {
        let Tally { seeds, crashes, commands, promises, violations, .. } = self.tally;
        format!(
            "{:4} s: {seeds} seeds, {crashes} crashes ({:.0}/s), {commands} commands, {promises} promises, \
             {violations} violations",
            self.elapsed.as_secs(),
            self.per_second(crashes)
        )
    }

    /// All figures as one line of JSON.
    #[must_use]
    pub fn json(&self) -> String {
        let mut line = format!(
            "{{\"first_seed\":{},\"seconds\":{},\"crashes_per_second\":{:.1}",
            self.first_seed,
            self.elapsed.as_secs(),
            self.per_second(self.tally.crashes)
        );
        for (name, count) in self.tally.figures() {
            line.push_str(&format!(",\"{name}\":{count}"));
        }
        line.push('}');
        line
    }

    /// All figures as a table for a document.
    #[must_use]
    pub fn markdown(&self) -> String {
        let mut table = format!(
            "| from seed {}, {} s | |\n| --- | ---: |\n",
            self.first_seed,
            self.elapsed.as_secs()
        );
        for (name, count) in self.tally.figures() {
            table.push_str(&format!("| {} | {count} |\n", name.replace('_', " ")));
        }
        table
    }
}
