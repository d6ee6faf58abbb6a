//! How a run goes: a line a second on standard error, if that is a terminal.

use std::io::IsTerminal as _;

use crate::histogram::Histogram;

const SECOND_NS: u64 = 1_000_000_000;

/// See the file's top.
pub(super) struct Live {
    /// What runs.
    label: String,
    /// What was answered since the last line.
    latencies: Histogram,
    troubles: u64,
    shown_ns: u64,
}

impl Live {
    /// `None` if standard error is no terminal.
    pub(super) fn on_a_terminal(label: &str) -> Option<Self> {
        std::io::stderr().is_terminal().then(|| Self::new(label))
    }

    fn new(label: &str) -> Self {
        Self { label: label.to_owned(), latencies: Histogram::new(), troubles: 0, shown_ns: 0 }
    }

    pub(super) fn answered(&mut self, ns: u64) {
        self.latencies.add(ns);
    }

    /// Shows the last second when it is over; `troubles` is the sum since the beginning.
    pub(super) fn show(&mut self, now_ns: u64, troubles: u64) {
        if now_ns - self.shown_ns >= SECOND_NS {
            eprintln!("{}", self.line(now_ns, troubles));
        }
    }

    /// Ends the second.
    fn line(&mut self, now_ns: u64, troubles: u64) -> String {
        let seconds = (now_ns - self.shown_ns) as f64 / SECOND_NS as f64;
        let it = &self.latencies;
        let us = |ns: u64| ns as f64 / 1000.0;
        let line = format!(
            "{} {:>4.0} s {:>9.0}/s  p50 {:>7.0} us  p99 {:>7.0} us  max {:>8.0} us  errors {}",
            self.label,
            now_ns as f64 / SECOND_NS as f64,
            it.total() as f64 / seconds,
            us(it.quantile(500)),
            us(it.quantile(990)),
            us(it.max()),
            troubles - self.troubles,
        );
        self.latencies.clear();
        (self.troubles, self.shown_ns) = (troubles, now_ns);
        line
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_of_its_second() {
        let mut live = Live::new("redis, round 2");
        live.answered(100_000);
        live.answered(900_000);
        let words = |line: String| line.split_whitespace().collect::<Vec<_>>().join(" ");
        let first = words(live.line(2 * SECOND_NS, 3));
        assert_eq!(first, "redis, round 2 2 s 1/s p50 100 us p99 900 us max 900 us errors 3");
        let second = words(live.line(3 * SECOND_NS, 3));
        assert_eq!(second, "redis, round 2 3 s 0/s p50 0 us p99 0 us max 0 us errors 0");
    }
}
