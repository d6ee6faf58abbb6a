//! What was answered, when, and after how long.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::ops::Range;
use std::path::Path;

use super::live::Live;
use crate::error::{Error, Result};
use crate::histogram::Histogram;

const STEP_NS: u64 = 100_000_000;

/// Latencies of one kind of request, from when each was due to its reply.
#[derive(Debug, serde::Serialize)]
pub(crate) struct Latencies {
    pub(crate) count: u64,
    pub(crate) p50_us: f64,
    pub(crate) p99_us: f64,
    pub(crate) p999_us: f64,
    pub(crate) max_us: f64,
}

impl Latencies {
    pub(super) fn of(histogram: &Histogram) -> Self {
        let us = |ns: u64| ns as f64 / 1e3;
        let quantile = |per_mille| us(histogram.quantile(per_mille));
        Self {
            count: histogram.total(),
            p50_us: quantile(500),
            p99_us: quantile(990),
            p999_us: quantile(999),
            max_us: us(histogram.max()),
        }
    }
}

/// What was not as it should be.
#[derive(Debug, Default, serde::Serialize)]
pub(crate) struct Troubles {
    /// Records that were not there.
    pub(super) missing: u64,
    /// Replies that belong to no record, or to another one.
    pub(super) wrong: u64,
    /// Reads without a write that was answered before they were sent.
    pub(super) stale: u64,
    /// Requests whose connection ended before their reply.
    pub(super) broken: u64,
    /// Operations that were due and not over when the run was. They are in no latency, and would be the longest.
    pub(super) unanswered: u64,
    /// Errors, by their first word.
    pub(super) errors: BTreeMap<String, u64>,
}

impl Troubles {
    /// Whether something was wrong besides that the server is slower than it was asked.
    pub(crate) fn has_faults(&self) -> bool {
        self.sum() > self.unanswered
    }

    /// How many there were.
    pub(crate) fn sum(&self) -> u64 {
        let errors: u64 = self.errors.values().sum();
        self.missing + self.wrong + self.stale + self.broken + self.unanswered + errors
    }
}

/// An operation that is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Answer {
    Write,
    Read {
        /// The key is one of those that are asked for most often.
        is_popular: bool,
    },
    Insert,
    Scan,
    ReadModifyWrite,
}

impl Answer {
    const KINDS: usize = 5;

    const fn kind(self) -> usize {
        match self {
            Self::Write => 0,
            Self::Read { .. } => 1,
            Self::Insert => 2,
            Self::Scan => 3,
            Self::ReadModifyWrite => 4,
        }
    }
}

/// See the file's top.
pub(super) struct Meter {
    /// Operations that were due before this are in no latency; what was over before is no throughput.
    counted_from_ns: u64,
    /// Nor is what came after this.
    counted_to_ns: u64,
    in_time: u64,
    replies_in_time: u64,
    unix_start_ns: u64,
    /// By [`Answer::kind`].
    kinds: [Histogram; Answer::KINDS],
    /// Reads of keys that are asked for most often, and of all others.
    reads_by_popularity: [Histogram; 2],
    steps: Steps,
    /// Lines of `unix_us,latency_us,is_write`, if they are wanted.
    samples: Option<String>,
    /// On a terminal.
    live: Option<Live>,
    pub(super) troubles: Troubles,
}

impl Meter {
    pub(super) fn new(
        counted_ns: Range<u64>,
        unix_start_ns: u64,
        has_samples: bool,
        live: Option<Live>,
    ) -> Self {
        Self {
            counted_from_ns: counted_ns.start,
            counted_to_ns: counted_ns.end,
            in_time: 0,
            replies_in_time: 0,
            unix_start_ns,
            kinds: std::array::from_fn(|_| Histogram::new()),
            reads_by_popularity: [Histogram::new(), Histogram::new()],
            steps: Steps::new(unix_start_ns / STEP_NS),
            samples: has_samples.then(String::new),
            live,
            troubles: Troubles::default(),
        }
    }

    /// Counts a reply: one request of an operation.
    pub(super) fn replied(&mut self, now_ns: u64) {
        self.replies_in_time += u64::from(self.is_in_time(now_ns));
    }

    fn is_in_time(&self, now_ns: u64) -> bool {
        (self.counted_from_ns..=self.counted_to_ns).contains(&now_ns)
    }

    /// Counts an operation that is over.
    pub(super) fn answered(&mut self, due_ns: u64, now_ns: u64, answer: Answer) {
        let ns = now_ns.saturating_sub(due_ns);
        self.steps.at((self.unix_start_ns + now_ns) / STEP_NS).add(ns);
        if let Some(live) = &mut self.live {
            live.answered(ns);
        }
        self.in_time += u64::from(self.is_in_time(now_ns));
        if due_ns < self.counted_from_ns {
            return;
        }
        self.kinds[answer.kind()].add(ns);
        if let Answer::Read { is_popular } = answer {
            self.reads_by_popularity[usize::from(!is_popular)].add(ns);
        }
        if let Some(samples) = &mut self.samples {
            let due_us = (self.unix_start_ns + due_ns) / 1000;
            let is_write = !matches!(answer, Answer::Read { .. } | Answer::Scan);
            writeln!(samples, "{due_us},{},{}", ns / 1000, u8::from(is_write))
                .expect("a string takes everything");
        }
    }

    /// Counts an error.
    pub(super) fn refused(&mut self, error: &str) {
        let word = error.split(' ').next().unwrap_or_default();
        *self.troubles.errors.entry(word.to_owned()).or_default() += 1;
    }

    /// Shows how it goes, once a second on a terminal.
    pub(super) fn show(&mut self, now_ns: u64) {
        if let Some(live) = &mut self.live {
            live.show(now_ns, self.troubles.sum());
        }
    }

    /// Latencies of a kind of operations.
    pub(super) fn latencies(&self, answer: Answer) -> Latencies {
        Latencies::of(&self.kinds[answer.kind()])
    }

    pub(super) fn reads(&self) -> Latencies {
        self.latencies(Answer::Read { is_popular: false })
    }

    pub(super) fn reads_by_popularity(&self) -> [Latencies; 2] {
        self.reads_by_popularity.each_ref().map(Latencies::of)
    }

    /// All operations, of whatever kind.
    pub(super) fn all(&self) -> Histogram {
        let mut all = Histogram::new();
        self.kinds.iter().for_each(|kind| all.add_all(kind));
        all
    }

    /// Operations that were over in time.
    pub(super) fn in_time(&self) -> u64 {
        self.in_time
    }

    /// Replies that came in time: an operation has one or more.
    pub(super) fn replies_in_time(&self) -> u64 {
        self.replies_in_time
    }

    /// Writes the course in steps of 100 ms to `path`, up to now.
    pub(super) fn save_steps(&mut self, path: &Path, now_ns: u64) -> Result<()> {
        self.steps.at((self.unix_start_ns + now_ns) / STEP_NS);
        let text = "unix_ms,answered,p50_us,p99_us,max_us\n".to_owned() + &self.steps.lines;
        std::fs::write(path, text).map_err(Error::file(path))
    }

    /// Writes each counted operation to `path`.
    pub(super) fn save_samples(&self, path: &Path) -> Result<()> {
        let lines = self.samples.as_deref().unwrap_or_default();
        let text = format!("unix_us,latency_us,is_write\n{lines}");
        std::fs::write(path, text).map_err(Error::file(path))
    }
}

/// The course, in steps of 100 ms since 1970.
struct Steps {
    number: u64,
    latencies: Histogram,
    /// The steps that are over: when each began.
    lines: String,
}

impl Steps {
    fn new(number: u64) -> Self {
        Self { number, latencies: Histogram::new(), lines: String::new() }
    }

    /// Ends the steps before this one, and returns its latencies.
    fn at(&mut self, number: u64) -> &mut Histogram {
        while self.number < number {
            let ended = &self.latencies;
            writeln!(
                self.lines,
                "{},{},{},{},{}",
                self.number * STEP_NS / 1_000_000,
                ended.total(),
                ended.quantile(500) / 1000,
                ended.quantile(990) / 1000,
                ended.max() / 1000
            )
            .expect("a string takes everything");
            self.latencies.clear();
            self.number += 1;
        }
        &mut self.latencies
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_without_a_reply_are_there() {
        let mut meter = Meter::new(0..1_000_000_000, 1_000_000_000, true, None);
        meter.answered(10_000_000, 20_000_000, Answer::Read { is_popular: false });
        meter.answered(10_000_000, 310_000_000, Answer::Write);
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("steps");
        meter.save_steps(&path, 400_000_000).unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        let lines: Vec<&str> = text.lines().skip(1).collect();
        let expected = ["1000,1,10", "1100,0,0", "1200,0,0", "1300,1,300"];
        assert_eq!(lines.len(), 4, "{text}");
        assert!(lines.iter().zip(expected).all(|(line, begin)| line.starts_with(begin)), "{text}");
        meter.save_samples(&path).unwrap();
        let samples = std::fs::read_to_string(&path).unwrap();
        assert!(samples.ends_with("\n1010000,10000,0\n1010000,300000,1\n"), "{samples}");
    }

    #[test]
    fn what_was_due_before_is_in_no_latency_and_what_comes_late_is_no_throughput() {
        let mut meter = Meter::new(1000..3000, 0, false, None);
        let read = |is_popular| Answer::Read { is_popular };
        meter.answered(999, 999, read(false));
        meter.answered(999, 2000, read(false));
        meter.answered(1000, 2000, read(true));
        meter.answered(1000, 3001, read(false));
        assert_eq!((meter.in_time(), meter.reads().count), (2, 2));
        assert_eq!(meter.reads_by_popularity().map(|it| it.count), [1, 1]);
        meter.answered(1000, 2000, Answer::Scan);
        assert_eq!((meter.all().total(), meter.latencies(Answer::Scan).count), (3, 1));
        [999, 1000, 3000, 3001].into_iter().for_each(|now_ns| meter.replied(now_ns));
        assert_eq!(meter.replies_in_time(), 2);
    }
}
