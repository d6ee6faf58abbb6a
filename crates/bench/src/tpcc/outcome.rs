//! The result of a run, for people and as JSON.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::time::Duration;

use super::Arguments;
use super::terminal::{Kind, Tally};
use crate::engine::Counters;
use crate::error::Result;
use crate::json;
use crate::process_count::ProcessCount;

/// Latencies of one kind of transaction, in microseconds.
#[derive(Debug, serde::Serialize)]
struct Latency {
    count: usize,
    p50_us: u32,
    p99_us: u32,
    p999_us: u32,
    max_us: u32,
}

/// A measured run.
#[derive(Debug, serde::Serialize)]
pub(super) struct Outcome {
    arguments: Arguments,
    version: &'static str,
    seconds: f64,
    /// Transactions that ended, including those rolled back on purpose.
    transactions: u64,
    per_second: f64,
    new_orders_per_minute: f64,
    rolled_back: u64,
    conflicts: u64,
    latencies: BTreeMap<&'static str, Latency>,
    counters: Counters,
    process: ProcessCount,
}

fn latency(mut latencies_us: Vec<u32>) -> Latency {
    latencies_us.sort_unstable();
    let count = latencies_us.len();
    let at = |permille: usize| {
        let rank = (count * permille).div_ceil(1000).saturating_sub(1);
        latencies_us.get(rank).copied().unwrap_or_default()
    };
    Latency { count, p50_us: at(500), p99_us: at(990), p999_us: at(999), max_us: at(1000) }
}

#[expect(clippy::cast_precision_loss, reason = "rates are for people and plots")]
fn rate(count: u64, seconds: f64) -> f64 {
    count as f64 / seconds
}

impl Outcome {
    pub(super) fn new(
        arguments: Arguments,
        elapsed: Duration,
        tally: &Tally,
        counters: Counters,
        process: ProcessCount,
    ) -> Self {
        let seconds = elapsed.as_secs_f64();
        let new_orders = tally.latencies_us[Kind::NewOrder as usize].len() as u64;
        let latencies = Kind::ALL
            .map(|kind| (kind.name(), latency(tally.latencies_us[kind as usize].clone())))
            .into();
        Self {
            arguments,
            version: env!("CARGO_PKG_VERSION"),
            seconds,
            transactions: tally.ended(),
            per_second: rate(tally.ended(), seconds),
            new_orders_per_minute: rate(new_orders, seconds) * 60.0,
            rolled_back: tally.rolled_back,
            conflicts: tally.conflicts,
            latencies,
            counters,
            process,
        }
    }

    pub(super) fn write(&self, path: Option<&Path>) -> Result<()> {
        json::write(path, self)
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Arguments { engine, warehouses, pool_mb, threads, .. } = &self.arguments;
        writeln!(
            f,
            "{}: {warehouses} warehouses, {pool_mb} MB, {threads} threads: {:.0} transactions/s \
             ({} in {:.1} s, {} rolled back, {} conflicts), conditions 1 to 4 hold",
            engine.name(),
            self.per_second,
            self.transactions,
            self.seconds,
            self.rolled_back,
            self.conflicts
        )?;
        for (name, latency) in &self.latencies {
            let Latency { count, p50_us, p99_us, max_us, .. } = latency;
            writeln!(
                f,
                "  {name:<13} {count:>8}  p50 {p50_us} us, p99 {p99_us} us, max {max_us} us"
            )?;
        }
        let Counters { page_reads, page_writes, log_writes, log_bytes, more } = &self.counters;
        writeln!(
            f,
            "  {page_reads} page reads, {page_writes} page writes, {log_writes} log writes of \
             {log_bytes} bytes; {more:?}"
        )?;
        write!(f, "  {}", self.process)
    }
}

/// The measurements of a start after a crash.
#[derive(Debug, serde::Serialize)]
pub(super) struct Recovery {
    arguments: Arguments,
    open_ms: f64,
    first_transaction_ms: f64,
}

impl Recovery {
    pub(super) fn new(arguments: Arguments, opened: Duration, first: Duration) -> Self {
        let (open_ms, first_transaction_ms) =
            (opened.as_secs_f64() * 1e3, first.as_secs_f64() * 1e3);
        Self { arguments, open_ms, first_transaction_ms }
    }

    pub(super) fn write(&self, path: Option<&Path>) -> Result<()> {
        json::write(path, self)
    }
}

impl fmt::Display for Recovery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}: open after {:.1} ms, first transaction ended after {:.1} ms, conditions 1 to 4 hold",
            self.arguments.engine.name(),
            self.open_ms,
            self.first_transaction_ms
        )
    }
}
