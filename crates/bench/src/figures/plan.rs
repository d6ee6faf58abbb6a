//! The figures, and the runs behind their points.

use crate::engine::{Commit, Kind};

/// A value of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Measure {
    SecondsPer10k,
    TransactionsPerSecond,
    PageReads,
    PageWrites,
    LogWrites,
}

impl Measure {
    pub(super) fn label(self) -> &'static str {
        match self {
            Self::SecondsPer10k => "seconds for 10,000 transactions",
            Self::TransactionsPerSecond => "transactions a second",
            Self::PageReads => "page reads a transaction",
            Self::PageWrites => "page writes a transaction",
            Self::LogWrites => "log writes a transaction",
        }
    }
}

/// A run of TPC-C.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Run {
    pub(super) engine: Kind,
    pub(super) commit: Commit,
    pub(super) pool_mb: usize,
    /// Further options and their values.
    pub(super) options: Vec<(&'static str, usize)>,
}

impl Run {
    fn new(engine: Kind, commit: Commit, pool_mb: usize) -> Self {
        Self { engine, commit, pool_mb, options: Vec::new() }
    }

    fn with(mut self, option: &'static str, value: usize) -> Self {
        self.options.push((option, value));
        self
    }

    /// The name of its result file; equal for equal runs.
    pub(super) fn name(&self) -> String {
        let commit = commit_name(self.commit);
        let mut name = format!("{}-{commit}-{}mb", self.engine.name(), self.pool_mb);
        for (option, value) in &self.options {
            name += &format!("-{option}-{value}");
        }
        name
    }
}

pub(super) fn commit_name(commit: Commit) -> &'static str {
    match commit {
        Commit::Immediate => "immediate",
        Commit::Group => "group",
    }
}

/// A point of a plot.
#[derive(Debug, Clone)]
pub(super) struct Point {
    pub(super) series: String,
    pub(super) x: usize,
    pub(super) run: Run,
}

/// A figure.
#[derive(Debug, Clone)]
pub(super) struct Figure {
    pub(super) name: &'static str,
    pub(super) title: &'static str,
    /// The paper's finding.
    pub(super) finding: &'static str,
    pub(super) x_label: &'static str,
    pub(super) measures: &'static [Measure],
    pub(super) points: Vec<Point>,
}

/// The paper's pools, in MB.
const POOLS_MB: [usize; 3] = [20, 40, 60];
/// Those of Figures 8 and 9, and one that holds a quarter of the data.
const POOLS_WIDE_MB: [usize; 4] = [20, 40, 60, 240];
/// The log buffer of the page store.
const LOG_BUFFER_BYTES: usize = 64 << 10;
/// Terminals of the runs with more than one.
const THREADS: usize = 4;
/// The pool of the runs in which something else varies.
const POOL_MB: usize = 40;

fn points(series: &[usize], xs: &[usize], run: impl Fn(usize, usize) -> Run) -> Vec<Point> {
    let each = |&pool_mb: &usize| {
        let run = &run;
        xs.iter().map(move |&x| Point { series: format!("{pool_mb} MB"), x, run: run(pool_mb, x) })
    };
    series.iter().flat_map(each).collect()
}

fn stores_by(
    stores: &[(Kind, Commit)],
    xs: &[usize],
    run: impl Fn(Kind, Commit, usize) -> Run,
) -> Vec<Point> {
    let each = |&(kind, commit): &(Kind, Commit)| {
        let run = &run;
        let series = format!("{}, {}", kind.name(), commit_name(commit));
        xs.iter().map(move |&x| Point { series: series.clone(), x, run: run(kind, commit, x) })
    };
    stores.iter().flat_map(each).collect()
}

/// The figures of the page store.
pub(super) fn pages() -> Vec<Figure> {
    use Commit::{Group, Immediate};
    use Kind::{Bdb, Lmdb, Pages, PagesFlush, Redb, Sqlite};
    let compared = [
        (Bdb, Immediate),
        (Pages, Immediate),
        (PagesFlush, Immediate),
        (Bdb, Group),
        (Pages, Group),
    ];
    let mut by_pool = stores_by(&compared, &POOLS_WIDE_MB, Run::new);
    let mut of_threads = stores_by(&compared[..2], &POOLS_WIDE_MB, |kind, commit, pool_mb| {
        Run::new(kind, commit, pool_mb).with("threads", THREADS)
    });
    of_threads.iter_mut().for_each(|point| point.series += &format!(", {THREADS} threads"));
    by_pool.append(&mut of_threads);
    vec![
        Figure {
            name: "figure-06",
            title: "Share of the online log table",
            finding: "Convex: about 30 % of the memory is best at 40 and 60 MB, 50 to 60 % at 20 MB.",
            x_label: "% of the memory that is the online log table",
            measures: &[Measure::SecondsPer10k],
            points: points(&POOLS_MB, &[10, 20, 30, 40, 50, 60], |pool_mb, share| {
                Run::new(Pages, Immediate, pool_mb).with("online-log-percent", share)
            }),
        },
        Figure {
            name: "figure-07",
            title: "How full the log buffer is before it is written",
            finding: "About 80 % of the log buffer is best.",
            x_label: "% of the log buffer",
            measures: &[Measure::SecondsPer10k],
            points: points(&POOLS_MB, &[20, 40, 60, 80, 100], |pool_mb, percent| {
                let bytes = LOG_BUFFER_BYTES * percent / 100;
                Run::new(Pages, Group, pool_mb).with("group-bytes", bytes)
            }),
        },
        Figure {
            name: "figure-08",
            title: "Pool size",
            finding: "20 to 53 % less time than Berkeley DB; group commit takes another 15 to 27 % off.",
            x_label: "MB of memory",
            measures: &[Measure::TransactionsPerSecond],
            points: by_pool.clone(),
        },
        Figure {
            name: "figure-09",
            title: "I/O by pool size",
            finding: "More page reads than Berkeley DB, at least 30 % fewer page writes; log writes are \
                      most with immediate commit and fewest with group commit.",
            x_label: "MB of memory",
            measures: &[Measure::PageReads, Measure::PageWrites, Measure::LogWrites],
            points: by_pool,
        },
        Figure {
            name: "figure-10",
            title: "Transactions that are rolled back",
            finding: "Adapts better than Berkeley DB, even a little faster at high rates: no undo, no \
                      compensation records.",
            x_label: "% of the transactions that write",
            measures: &[Measure::SecondsPer10k, Measure::PageWrites],
            points: stores_by(&compared[..2], &[0, 5, 10, 15, 20], |kind, commit, percent| {
                Run::new(kind, commit, POOL_MB).with("abort-percent", percent)
            }),
        },
        Figure {
            name: "peers",
            title: "Compared with stores that are not in the paper",
            finding: "",
            x_label: "MB of memory",
            measures: &[Measure::TransactionsPerSecond],
            points: stores_by(
                &[
                    (Pages, Immediate),
                    (Lmdb, Immediate),
                    (Redb, Immediate),
                    (Sqlite, Immediate),
                    (Pages, Group),
                    (Lmdb, Group),
                    (Redb, Group),
                    (Sqlite, Group),
                ],
                &[40, 240],
                Run::new,
            ),
        },
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_of_one_name_are_the_same_run() {
        let figures = pages();
        let runs: Vec<&Run> =
            figures.iter().flat_map(|figure| &figure.points).map(|point| &point.run).collect();
        for a in &runs {
            assert!(runs.iter().all(|b| (a == b) == (a.name() == b.name())), "{}", a.name());
        }
    }
}
