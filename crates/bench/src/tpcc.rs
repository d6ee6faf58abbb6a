//! TPC-C: five transactions over nine tables, as in the specification (revision 5.11) except for
//! terminals with people: no keying, no thinking, no screens.
//!
//! ```text
//!   load ──► DIR/loaded-FORMAT-wN ──copied──► DIR/run-ENGINE ──► terminals ──► conditions 1 to 4
//!            (once, kept)                     (removed after)
//! ```
//!
//! The numbers of orders, the rows and the mix are those of the specification; seeds decide which
//! transactions run. As in the specification, a result counts transactions that were rolled back on
//! purpose; it does not count retries.

mod consistency;
mod dataset;
mod delivery;
mod load;
mod new_order;
mod order_status;
mod outcome;
mod payment;
mod random;
mod schema;
mod stock_level;
mod terminal;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::engine::{Commit, Engine, Kind, Settings};
use crate::error::{Error, Result};
use crate::process_count::ProcessCount;
use dataset::Dataset;
use outcome::{Outcome, Recovery};
use schema::{Scale, TABLES};
use terminal::{Rollbacks, Tally, Terminal};

/// Memory while loading data.
const LOAD_POOL_BYTES: usize = 256 << 20;

/// The arguments of `indelible-bench tpcc`.
#[derive(Debug, Clone, clap::Args, serde::Serialize)]
pub struct Arguments {
    /// The store.
    #[arg(long, value_enum)]
    pub engine: Kind,
    /// The directory for loaded data and runs.
    #[arg(long)]
    pub dir: PathBuf,
    /// Warehouses, of about 100 MB each.
    #[arg(long, default_value_t = 1)]
    pub warehouses: u16,
    /// Memory for the store.
    #[arg(long, default_value_t = 40)]
    pub pool_mb: usize,
    /// What a commit guarantees.
    #[arg(long, value_enum, default_value = "immediate")]
    pub commit: Commit,
    /// Roll back this percentage of the transactions that write (by default one new order in a
    /// hundred, as in the specification).
    #[arg(long)]
    pub abort_percent: Option<f64>,
    /// The duration of the measurement, in seconds.
    #[arg(long, default_value_t = 30.0)]
    pub seconds: f64,
    /// The number of transactions to measure, instead of a duration.
    #[arg(long)]
    pub transactions: Option<u64>,
    /// How long it runs before the measurement, in seconds.
    #[arg(long, default_value_t = 0.0)]
    pub warmup_seconds: f64,
    /// Connections that run transactions.
    #[arg(long, default_value_t = 1)]
    pub threads: u16,
    /// The seed of the data.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// The seed of the transactions.
    #[arg(long, default_value_t = 1)]
    pub run_seed: u64,
    /// A file for the result.
    #[arg(long)]
    pub json: Option<PathBuf>,
    /// Only load the data, unless they exist.
    #[arg(long)]
    pub load_only: bool,
    /// Open the data of a killed run, run a transaction, and check the conditions.
    #[arg(long)]
    pub recover: bool,
    /// Keep the directory of the run.
    #[arg(long)]
    pub keep: bool,
    /// Pages only: the percentage of the memory for the online log table.
    #[arg(long)]
    pub online_log_percent: Option<usize>,
    /// Pages only: group commit writes the log when this many bytes have gathered.
    #[arg(long)]
    pub group_bytes: Option<usize>,
    /// Pages only: the log that a restart may read.
    #[arg(long)]
    pub log_mb: Option<u64>,
    /// Berkeley DB only: takes a checkpoint after this much log.
    #[arg(long, default_value_t = 60)]
    pub checkpoint_mb: u64,
    /// Pages and Berkeley DB only: a file for the trace of reads and writes, for `indelible-bench
    /// flash`.
    #[arg(long)]
    pub trace: Option<PathBuf>,
    /// A few hundred rows instead of 100 MB per warehouse.
    #[arg(long, hide = true)]
    pub tiny: bool,
}

impl Arguments {
    fn scale(&self) -> Scale {
        if self.tiny { Scale::tiny(self.warehouses) } else { Scale::full(self.warehouses) }
    }

    fn rollbacks(&self) -> Rollbacks {
        self.abort_percent.map_or(Rollbacks::Standard, Rollbacks::Percent)
    }

    fn settings(&self, dir: PathBuf) -> Settings {
        Settings {
            pool_bytes: self.pool_mb << 20,
            online_log_percent: self.online_log_percent,
            group_bytes: self.group_bytes,
            log_bytes_max: self.log_mb.map(|mb| mb << 20),
            checkpoint_bytes: self.checkpoint_mb << 20,
            ..Settings::new(dir, TABLES, self.commit)
        }
    }
}

/// Loads, runs and checks.
///
/// # Errors
/// Errors of the store and its files; [`Error::Damaged`] if a condition is violated.
pub fn run(arguments: &Arguments) -> Result<()> {
    let dataset = Dataset::new(arguments);
    if arguments.recover {
        return recover(arguments, &dataset);
    }
    if !dataset.is_loaded() {
        let mut settings = Settings::new(dataset.begin_loading()?, TABLES, Commit::Group);
        settings.pool_bytes = LOAD_POOL_BYTES;
        let engine = arguments.engine.open(&settings)?;
        load::load(engine.as_ref(), arguments.scale(), arguments.seed, arguments.tiny)?;
        engine.checkpoint()?;
        engine.close()?;
        dataset.end_loading()?;
    }
    if arguments.load_only {
        return Ok(());
    }
    let mut settings = arguments.settings(dataset.copy()?);
    settings.trace = arguments.trace.is_some().then(Arc::default);
    let engine = arguments.engine.open(&settings)?;
    if arguments.warmup_seconds > 0.0 {
        let patience = Duration::from_secs_f64(arguments.warmup_seconds);
        work(engine.as_ref(), arguments, arguments.run_seed ^ u64::MAX, Limit::Time(patience))?;
    }
    let outcome = measure(engine.as_ref(), arguments)?;
    if let (Some(path), Some(trace)) = (&arguments.trace, &settings.trace) {
        std::fs::write(path, trace.encode()).map_err(Error::file(path))?;
    }
    consistency::check(engine.as_ref(), arguments.scale())?;
    engine.close()?;
    println!("{outcome}");
    outcome.write(arguments.json.as_deref())?;
    if arguments.keep { Ok(()) } else { dataset.remove_copy() }
}

/// When terminals stop.
#[derive(Clone, Copy)]
enum Limit {
    Time(Duration),
    Transactions(u64),
}

fn measure(engine: &dyn Engine, arguments: &Arguments) -> Result<Outcome> {
    let limit = match arguments.transactions {
        Some(count) => Limit::Transactions(count),
        None => Limit::Time(Duration::from_secs_f64(arguments.seconds)),
    };
    let (counters, process) = (engine.counters(), ProcessCount::now(&arguments.dir));
    let began = Instant::now();
    let tally = work(engine, arguments, arguments.run_seed, limit)?;
    let elapsed = began.elapsed();
    let counters = engine.counters().since(&counters);
    let process = ProcessCount::now(&arguments.dir).since(process);
    Ok(Outcome::new(arguments.clone(), elapsed, &tally, counters, process))
}

/// Runs terminals, one per thread, until the limit.
fn work(engine: &dyn Engine, arguments: &Arguments, seed: u64, limit: Limit) -> Result<Tally> {
    let (began, is_over, ended) = (Instant::now(), AtomicBool::new(false), AtomicU64::new(0));
    let scale = arguments.scale();
    let one = |number: u16| -> Result<Tally> {
        let connection = engine.connect()?;
        let mut terminal = Terminal::new(connection, scale, number, seed, arguments.rollbacks());
        let worked = (|| {
            while !is_over.load(Ordering::Relaxed) {
                let number = ended.fetch_add(1, Ordering::Relaxed);
                let is_enough = match limit {
                    Limit::Time(patience) => began.elapsed() >= patience,
                    Limit::Transactions(count) => number >= count,
                };
                if is_enough {
                    break;
                }
                terminal.step()?;
            }
            Ok(())
        })();
        // One failure ends the whole run.
        is_over.fetch_or(worked.is_err(), Ordering::Relaxed);
        worked.map(|()| terminal.tally)
    };
    let one = &one;
    std::thread::scope(|scope| {
        let threads: Vec<_> =
            (1..=arguments.threads).map(|number| scope.spawn(move || one(number))).collect();
        let mut sum = Tally::default();
        for thread in threads {
            sum.add(&thread.join().expect("a terminal does not panic")?);
        }
        Ok(sum)
    })
}

fn recover(arguments: &Arguments, dataset: &Dataset) -> Result<()> {
    let settings = arguments.settings(dataset.run_dir());
    let began = Instant::now();
    let engine = arguments.engine.open(&settings)?;
    let opened = began.elapsed();
    let mut terminal = Terminal::new(
        engine.connect()?,
        arguments.scale(),
        arguments.threads + 1,
        arguments.run_seed,
        arguments.rollbacks(),
    );
    terminal.step()?;
    let recovery = Recovery::new(arguments.clone(), opened, began.elapsed());
    drop(terminal);
    consistency::check(engine.as_ref(), arguments.scale())?;
    engine.close()?;
    println!("{recovery}");
    recovery.write(arguments.json.as_deref())?;
    if arguments.keep { Ok(()) } else { dataset.remove_copy() }
}

#[cfg(test)]
mod tests;
