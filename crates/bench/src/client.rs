//! Clients of a server, over sockets: it fills it, loads it, and compares what it has with what it answered.
//!
//! ```text
//!   client fill   keys one after the other                     ─┐
//!   client run    reads and writes, at a rate or as fast as    ─┼─► one line of JSON, --steps, --samples
//!                 the server answers                            │
//!   client check  reads all keys: is each answered write there? ┘   --ledger carries it from run to run
//! ```
//!
//! It is for what redis-benchmark does not do: a rate that is kept whatever the server does, YCSB's
//! distribution, replies that are looked at, and a server that is killed meanwhile. One thread, so that it
//! leaves the other processor alone. The scripts in `bench/cold` run it.

mod connection;
mod driver;
pub mod figures;
mod keys;
mod ledger;
mod meter;
mod records;
mod reply;
#[cfg(test)]
mod tests;

use std::num::NonZeroU64;
use std::path::PathBuf;

use driver::Driver;
use ledger::Comparison;
use meter::{Latencies, Troubles};

use crate::error::Result;

pub use keys::Distribution;

/// What a run does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Task {
    /// Writes each key once.
    Fill,
    /// Reads and writes at random.
    Run,
    /// Reads each key once; with a ledger, compares.
    Check,
}

/// What a run does when the server closes its connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum WhenAway {
    /// Fails.
    Fail,
    /// Ends.
    Stop,
    /// Asks until the server is there again. Keys that were written before are not written any more.
    Wait,
}

/// The arguments of `indelible-bench client`.
#[derive(Debug, Clone, clap::Args)]
pub struct Arguments {
    /// What to do.
    #[arg(value_enum)]
    pub task: Task,
    /// The server's port on this machine.
    #[arg(long)]
    pub port: u16,
    /// The number of keys.
    #[arg(long)]
    pub keys: u64,
    /// The number of the first one.
    #[arg(long, default_value_t = 0)]
    pub first_key: u64,
    /// The bytes of a record's values.
    #[arg(long, default_value_t = 200)]
    pub value_bytes: usize,
    /// A record is a hash with so many fields; 0: a string.
    #[arg(long, default_value_t = 0)]
    pub fields: usize,
    /// Which keys are read and written.
    #[arg(long, value_enum, default_value = "uniform")]
    pub distribution: Distribution,
    /// The share of reads. The rest are writes: of a whole string, or of one field.
    #[arg(long, default_value_t = 1.0)]
    pub reads: f64,
    /// How long, in seconds.
    #[arg(long, default_value_t = 10.0)]
    pub seconds: f64,
    /// How long before that without counting.
    #[arg(long, default_value_t = 0.0)]
    pub settle: f64,
    /// The number of connections.
    #[arg(long, default_value_t = 50)]
    pub connections: usize,
    /// Requests under way on each.
    #[arg(long, default_value_t = 1)]
    pub pipeline: usize,
    /// Requests a second, sent whether or not others were answered; 0: the next after each reply.
    #[arg(long, default_value_t = 0.0)]
    pub rate: f64,
    /// What to do when the server is gone.
    #[arg(long, value_enum, default_value = "fail")]
    pub when_away: WhenAway,
    /// A file with what was sent and answered, read at the beginning and written at the end.
    #[arg(long)]
    pub ledger: Option<PathBuf>,
    /// A file for the course in steps of 100 ms.
    #[arg(long)]
    pub steps: Option<PathBuf>,
    /// A file for when each request was due and how long it took.
    #[arg(long)]
    pub samples: Option<PathBuf>,
    /// The seed of the random numbers.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
}

#[derive(Debug, serde::Serialize)]
struct Outcome {
    task: Task,
    seconds: f64,
    per_second: f64,
    reads: Latencies,
    /// Those of the hundredth of the keys that is asked for most often.
    reads_of_popular: Latencies,
    reads_of_others: Latencies,
    writes: Latencies,
    breaks: u64,
    /// When the server answered for the first time, or for the first time after it was away.
    back_unix_ms: f64,
    #[serde(flatten)]
    troubles: Troubles,
    comparison: Option<Comparison>,
}

/// Runs the task, and prints a line of JSON.
///
/// # Errors
/// A server that closes a connection, unless it may be away; errors of files.
pub fn run(arguments: &Arguments) -> Result<()> {
    // Otherwise sleeps end up to 50 microseconds late. Without the right to it, they do.
    let _ignored = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
    let outcome = measure(arguments)?;
    println!("{}", serde_json::to_string(&outcome).expect("it is plain data"));
    Ok(())
}

fn measure(arguments: &Arguments) -> Result<Outcome> {
    let mut driver = Driver::new(arguments)?;
    driver.run()?;
    let now_ns = driver.now_ns();
    let seconds = match arguments.task {
        Task::Run if driver.breaks == 0 => arguments.seconds,
        _ => now_ns as f64 / 1e9 - arguments.settle,
    };
    let (breaks, back_unix_ms) = (driver.breaks, driver.unix_ms(driver.back_ns));
    let books = driver.books;
    let mut meter = books.meter;
    if let Some(path) = &arguments.steps {
        meter.save_steps(path, now_ns)?;
    }
    if let Some(path) = &arguments.samples {
        meter.save_samples(path)?;
    }
    if let (Some(path), Some(ledger)) = (&arguments.ledger, &books.ledger) {
        ledger.save(path)?;
    }
    let [reads_of_popular, reads_of_others] = meter.reads_by_popularity();
    Ok(Outcome {
        task: arguments.task,
        seconds,
        per_second: (meter.in_time() as f64 / seconds).round(),
        reads: meter.reads(),
        reads_of_popular,
        reads_of_others,
        writes: meter.writes(),
        breaks,
        back_unix_ms,
        troubles: meter.troubles,
        comparison: books.comparison,
    })
}
