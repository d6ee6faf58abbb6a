//! Snapshots under concurrent transactions: the benchmark of paper 004, section 5.3.
//!
//! Threads run transactions of some reads and writes, under strict two-phase locking, as fast as
//! they can, while one snapshot after another is taken and traversed. The measures are the number
//! of commits and the longest transaction: a trigger that blocks transactions would be visible.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use ::snapshot::{
    Calc, Checkpoints, Pages, Setup, Shape, TransactionStore, VirtualAlgorithm, VirtualHourglass,
    VirtualPiggyback,
};

use crate::error::{Error, Result};
use crate::json;
use crate::snapshot::direct_disk::DirectDisk;

/// The arguments of `indelible-bench snapshot-transactions`.
#[derive(Debug, Clone, clap::Args, serde::Serialize)]
pub struct Arguments {
    /// The algorithm.
    #[arg(long, value_enum)]
    pub algorithm: Algorithm,
    /// Threads that run transactions; one more takes snapshots.
    #[arg(long, default_value_t = 2)]
    pub threads: usize,
    /// The total size of the rows.
    #[arg(long, default_value_t = 100)]
    pub rows_mb: usize,
    /// The size of a row: a multiple of 64.
    #[arg(long, default_value_t = 64)]
    pub row_bytes: usize,
    /// Rows that a transaction reads.
    #[arg(long, default_value_t = 5)]
    pub reads: usize,
    /// Rows that a transaction writes.
    #[arg(long, default_value_t = 5)]
    pub writes: usize,
    /// The duration of the measurement, in seconds.
    #[arg(long, default_value_t = 4.0)]
    pub seconds: f64,
    /// The directory for the checkpoints.
    #[arg(long)]
    pub dir: PathBuf,
    /// A file for the result.
    #[arg(long)]
    #[serde(skip)]
    pub json: Option<PathBuf>,
}

/// The virtual algorithms of the crate `snapshot`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Algorithm {
    /// Checkpointing asynchronously using logical consistency.
    Calc,
    /// Virtual Hourglass.
    Vhg,
    /// Virtual Piggyback.
    Vpb,
}

/// The counts of a thread.
#[derive(Debug, Default, Clone, Copy)]
struct Count {
    commits: u64,
    conflicts: u64,
    longest: Duration,
}

#[derive(Debug, serde::Serialize)]
struct Outcome<'a> {
    arguments: &'a Arguments,
    commits_per_second: f64,
    conflicts_per_commit: f64,
    longest_transaction_us: f64,
    snapshots: usize,
    /// The time from the trigger until the snapshot can be traversed; no transaction waits for it.
    take_average_ms: f64,
}

fn failed(error: impl std::fmt::Display) -> Error {
    Error::Engine { engine: "snapshot", what: error.to_string() }
}

fn transact<A: VirtualAlgorithm>(
    store: &TransactionStore<A>,
    arguments: &Arguments,
    rows: usize,
    seed: u64,
    stop: &AtomicBool,
) -> Count {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut value = vec![0; arguments.row_bytes / 8];
    let mut count = Count::default();
    while !stop.load(Ordering::Relaxed) {
        let begin = Instant::now();
        let mut transaction = store.begin();
        let mut accesses = || -> ::snapshot::Result<()> {
            for _ in 0..arguments.reads {
                transaction.read(random.usize(0..rows), &mut value)?;
            }
            value.fill(count.commits);
            for _ in 0..arguments.writes {
                transaction.write(random.usize(0..rows), &value)?;
            }
            Ok(())
        };
        if accesses().is_ok() {
            transaction.commit();
            count.commits += 1;
            count.longest = count.longest.max(begin.elapsed());
        } else {
            count.conflicts += 1;
        }
    }
    count
}

fn measure<A: VirtualAlgorithm>(arguments: &Arguments) -> Result<Outcome<'_>> {
    let rows = arguments.rows_mb * (1 << 20) / arguments.row_bytes.max(1);
    let store: TransactionStore<A> = TransactionStore::new(&Setup {
        shape: Shape::new(rows, arguments.row_bytes).map_err(failed)?,
        pages: Pages::Ordinary,
        child_disk: None,
        initial: &|row, value| value.fill(row as u64),
    });
    let checkpoints = Checkpoints::open(Arc::new(DirectDisk), &arguments.dir).map_err(failed)?;
    let stop = AtomicBool::new(false);
    let mut takes_ms = Vec::new();
    let begin = Instant::now();
    let mut counts = Vec::new();
    let made: ::snapshot::Result<()> = std::thread::scope(|scope| {
        let (store, stop) = (&store, &stop);
        let threads: Vec<_> = (0..arguments.threads as u64)
            .map(|seed| scope.spawn(move || transact(store, arguments, rows, seed, stop)))
            .collect();
        let mut snapshots = || -> ::snapshot::Result<()> {
            while begin.elapsed().as_secs_f64() < arguments.seconds {
                let triggered = Instant::now();
                let snapshot = store.take()?;
                takes_ms.push(triggered.elapsed().as_secs_f64() * 1e3);
                checkpoints.make(snapshot)?;
            }
            Ok(())
        };
        let made = snapshots();
        stop.store(true, Ordering::Relaxed);
        counts.extend(threads.into_iter().map(|thread| thread.join().unwrap_or_default()));
        made
    });
    made.map_err(failed)?;
    let seconds = begin.elapsed().as_secs_f64();
    let commits: u64 = counts.iter().map(|count| count.commits).sum();
    let conflicts: u64 = counts.iter().map(|count| count.conflicts).sum();
    let longest = counts.iter().map(|count| count.longest).max().unwrap_or_default();
    #[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
    Ok(Outcome {
        arguments,
        commits_per_second: commits as f64 / seconds,
        conflicts_per_commit: conflicts as f64 / commits.max(1) as f64,
        longest_transaction_us: longest.as_secs_f64() * 1e6,
        snapshots: takes_ms.len(),
        take_average_ms: crate::snapshot::mean(&takes_ms),
    })
}

/// Measures and prints the result.
///
/// # Errors
/// A size that rows cannot have; errors of the disk.
pub fn run(arguments: &Arguments) -> Result<()> {
    let outcome = match arguments.algorithm {
        Algorithm::Calc => measure::<Calc>(arguments),
        Algorithm::Vhg => measure::<VirtualHourglass>(arguments),
        Algorithm::Vpb => measure::<VirtualPiggyback>(arguments),
    }?;
    println!(
        "{:?}, {} threads: {:.0} commits/s, {:.4} conflicts a commit, longest transaction {:.0} us; \
         {} snapshots, {:.2} ms to take one",
        arguments.algorithm,
        arguments.threads,
        outcome.commits_per_second,
        outcome.conflicts_per_commit,
        outcome.longest_transaction_us,
        outcome.snapshots,
        outcome.take_average_ms,
    );
    json::write(arguments.json.as_deref(), &outcome)
}
