//! Clients of a server, over sockets: it fills it, loads it, and compares what it has with what it answered.
//!
//! ```text
//!   client fill     keys one after the other                     ─┐
//!   client run      operations, at a rate or as fast as           │
//!                   the server answers                           ─┼─► one line of JSON, --steps, --samples
//!   client check    reads all keys: is each answered write there? │   --ledger carries it from run to run
//!   client remove   deletes keys one after the other             ─┘
//!
//!   driver ──draws── mix, keys (inserted) ──► books ──writes── records ──► connections ◄── poller
//!                                               └──counts──► meter, live, ledger
//! ```
//!
//! It is for what redis-benchmark does not do: keys spread over all there are, a rate that is kept whatever the
//! server does, YCSB's workloads and distributions, replies that are looked at, and a server that is killed
//! meanwhile. One thread, so that it leaves the other processor alone. The scripts in `bench/cold` run it, and
//! `indelible-bench compare` does.

mod books;
mod connection;
mod driver;
pub mod figures;
mod inserted;
mod keys;
mod ledger;
mod live;
mod load;
mod meter;
mod mix;
mod poller;
mod records;
pub(crate) mod reply;
#[cfg(test)]
mod tests;

use std::num::NonZeroU64;
use std::path::PathBuf;
use std::time::Duration;

use driver::Driver;
use ledger::Comparison;
use live::Live;
use meter::Answer;

use crate::error::Result;
use crate::histogram::Histogram;

pub use keys::Distribution;
pub use load::Load;
pub(crate) use meter::{Latencies, Troubles};
pub use mix::Workload;

/// What a run does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Task {
    /// Writes each key once.
    Fill,
    /// Reads and writes at random, or as a workload of YCSB does.
    Run,
    /// Reads each key once; with a ledger, compares.
    Check,
    /// Deletes each key; with a workload, its entry in the index as well.
    Remove,
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
    /// The server's port.
    #[arg(long)]
    pub port: u16,
    /// The server's host.
    #[arg(long, default_value = "127.0.0.1")]
    pub host: String,
    /// The number of the first key.
    #[arg(long, default_value_t = 0)]
    pub first_key: u64,
    /// What is asked for, and how.
    #[command(flatten)]
    pub load: Load,
    /// What to do when the server is gone.
    #[arg(long, value_enum, default_value = "fail")]
    pub when_away: WhenAway,
    /// A file with what was sent and answered, read at the beginning and written at the end.
    #[arg(long, conflicts_with = "workload")]
    pub ledger: Option<PathBuf>,
    /// A file for the course in steps of 100 ms.
    #[arg(long)]
    pub steps: Option<PathBuf>,
    /// A file for when each request was due and how long it took.
    #[arg(long)]
    pub samples: Option<PathBuf>,
}

/// What a run found.
#[derive(Debug, serde::Serialize)]
pub(crate) struct Outcome {
    task: Task,
    pub(crate) seconds: f64,
    /// Operations: a scan is one.
    pub(crate) per_second: f64,
    /// Replies that came in time; an operation of a workload has one or more.
    pub(crate) requests: u64,
    /// All operations.
    pub(crate) all: Latencies,
    reads: Latencies,
    /// Those of the hundredth of the keys that is asked for most often.
    reads_of_popular: Latencies,
    reads_of_others: Latencies,
    writes: Latencies,
    #[serde(skip_serializing_if = "Option::is_none")]
    inserts: Option<Latencies>,
    #[serde(skip_serializing_if = "Option::is_none")]
    scans: Option<Latencies>,
    #[serde(skip_serializing_if = "Option::is_none")]
    read_modify_writes: Option<Latencies>,
    /// All operations, corrected for those that a stall has kept back.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) corrected: Option<Corrected>,
    /// Quantiles (0 to 1) of all operations, and their latencies in microseconds.
    quantiles_us: Vec<(f64, f64)>,
    /// The share of a processor that this client's thread has used, from 0 to 1: near 1, it is the client that is measured.
    pub(crate) client_processor: f64,
    /// Records that were inserted, from the end of the keys on.
    pub(crate) inserted: u64,
    breaks: u64,
    /// When the server answered for the first time, or for the first time after it was away.
    back_unix_ms: f64,
    #[serde(flatten)]
    pub(crate) troubles: Troubles,
    comparison: Option<Comparison>,
}

/// Latencies as HdrHistogram corrects them.
#[derive(Debug, serde::Serialize)]
pub(crate) struct Corrected {
    /// How often a connection was expected to begin an operation: the mean over the run.
    interval_us: f64,
    #[serde(flatten)]
    pub(crate) latencies: Latencies,
}

/// Runs the task, and prints a line of JSON.
///
/// # Errors
/// A server that closes a connection, unless it may be away; errors of files.
pub fn run(arguments: &Arguments) -> Result<()> {
    let outcome = measure(arguments, "client")?;
    println!("{}", serde_json::to_string(&outcome).expect("it is plain data"));
    Ok(())
}

/// Runs the task; on a terminal, `label` says in front of each line what this is.
///
/// # Errors
/// As [`run`].
pub(crate) fn measure(arguments: &Arguments, label: &str) -> Result<Outcome> {
    // Otherwise sleeps end up to 50 microseconds late. Without the right to it, they do.
    let _ignored = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
    let mut driver = Driver::new(arguments, Live::on_a_terminal(label))?;
    let (used_before, begun_ns) = (used_s(), driver.now_ns());
    driver.run()?;
    let now_ns = driver.now_ns();
    let client_processor =
        (used_s() - used_before) / (now_ns.max(begun_ns + 1) - begun_ns) as f64 * 1e9;
    let load = &arguments.load;
    let seconds = match arguments.task {
        Task::Run if driver.breaks == 0 => load.seconds,
        _ => now_ns as f64 / 1e9 - load.settle(),
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
    let all = meter.all();
    let some = |answer| Some(meter.latencies(answer)).filter(|latencies| latencies.count > 0);
    Ok(Outcome {
        task: arguments.task,
        seconds,
        per_second: (meter.in_time() as f64 / seconds).round(),
        requests: meter.replies_in_time(),
        all: Latencies::of(&all),
        reads: meter.reads(),
        reads_of_popular,
        reads_of_others,
        writes: meter.latencies(Answer::Write),
        inserts: some(Answer::Insert),
        scans: some(Answer::Scan),
        read_modify_writes: some(Answer::ReadModifyWrite),
        corrected: load.corrected.then(|| corrected(&all, load, seconds)),
        quantiles_us: all.quantiles().into_iter().map(|(at, ns)| (at, ns as f64 / 1e3)).collect(),
        client_processor,
        inserted: books.keys.end() - arguments.first_key - load.keys,
        breaks,
        back_unix_ms,
        troubles: meter.troubles,
        comparison: books.comparison,
    })
}

/// The processor time of this thread, in seconds.
fn used_s() -> f64 {
    let used = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    used.tv_sec as f64 + used.tv_nsec as f64 / 1e9
}

/// Corrects by the mean distance between the operations of a slot (a connection has as many as its pipeline
/// holds), as wrk does.
fn corrected(all: &Histogram, load: &Load, seconds: f64) -> Corrected {
    let slots = (load.connections * load.pipeline) as f64;
    let interval = Duration::from_secs_f64(seconds * slots / (all.total() as f64).max(1.0));
    let interval_ns = u64::try_from(interval.as_nanos()).unwrap_or(u64::MAX);
    Corrected {
        interval_us: interval.as_secs_f64() * 1e6,
        latencies: Latencies::of(&all.corrected(interval_ns)),
    }
}
