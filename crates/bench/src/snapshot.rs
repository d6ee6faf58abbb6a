//! Snapshot algorithms under a client that writes in ticks: the benchmark of paper 004, section 5.2.
//!
//! ```text
//!   client       │ updates │ idle ····│ updates │ idle ····│ waits: taken phase │ updates │ ···
//!                0 ms                10 ms               20 ms: trigger
//!   snapshotter                                          │ taken │ write to online, dump ·····
//! ```
//!
//! A tick begins every 10 ms and has a fixed number of updates, generated beforehand. Its latency
//! is the time until they are done. A checkpoint is triggered at the beginning of a tick, so the
//! latency of that tick includes the taken phase; later ticks overlap with the snapshotter's
//! background work. Client and snapshotter each have their own processor.

pub(crate) mod direct_disk;
pub mod figures;
mod handshake;
mod memory;
mod nowhere;
mod ticks;
mod updates;

use std::path::PathBuf;

use crate::error::{Error, Result};
use crate::json;

pub use updates::Distribution;

/// The arguments of `indelible-bench snapshot`.
#[derive(Debug, Clone, clap::Args, serde::Serialize)]
pub struct Arguments {
    /// The algorithm.
    #[arg(long, value_enum)]
    pub algorithm: Algorithm,
    /// The total size of the rows.
    #[arg(long, default_value_t = 1024)]
    pub rows_mb: usize,
    /// The size of a row: a multiple of 64.
    #[arg(long, default_value_t = 64)]
    pub row_bytes: usize,
    /// Rows written per tick.
    #[arg(long, default_value_t = 32 * 1024)]
    pub updates_per_tick: usize,
    /// The distribution of written rows: `uniform` or `zipf:0.9`.
    #[arg(long, default_value = "uniform")]
    pub distribution: Distribution,
    /// The number of ticks of 10 ms; more if the checkpoints are not complete by then.
    #[arg(long, default_value_t = 1000)]
    pub ticks: usize,
    /// The number of checkpoints, one after another.
    #[arg(long, default_value_t = 5)]
    pub checkpoints: usize,
    /// Put rows and flags into huge pages.
    #[arg(long)]
    pub huge_pages: bool,
    /// Traverse the snapshots and write nothing: the cost of the algorithm without the disk.
    #[arg(long)]
    pub discard: bool,
    /// The directory for the checkpoints.
    #[arg(long)]
    pub dir: PathBuf,
    /// The seed of the random numbers.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// A file for the result, with the latency of each tick.
    #[arg(long)]
    #[serde(skip)]
    pub json: Option<PathBuf>,
}

/// The algorithms of the crate `snapshot`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Algorithm {
    /// Naive Snapshot.
    Naive,
    /// Copy-on-Update.
    Cou,
    /// The operating system's copy-on-write.
    Fork,
    /// Zigzag.
    Zigzag,
    /// Ping-Pong.
    PingPong,
    /// Hourglass.
    Hourglass,
    /// Piggyback.
    Piggyback,
    /// Windowed Piggyback.
    Windowed,
}

/// The measurements of a run.
#[derive(Debug, serde::Serialize)]
struct Outcome<'a> {
    arguments: &'a Arguments,
    average_us: f64,
    maximum_us: f64,
    p50_us: f64,
    p99_us: f64,
    p999_us: f64,
    /// The largest latency that every checkpoint has caused: the smallest of their maxima. It
    /// excludes occasional disturbances by the host.
    repeated_maximum_us: f64,
    /// The same two without the time for which the client was runnable and had no processor, or the host took it: what the
    /// algorithm, and what it asks of the kernel, has caused.
    own_maximum_us: f64,
    own_repeated_maximum_us: f64,
    taken_average_us: f64,
    taken_maximum_us: f64,
    dump_average_ms: f64,
    peak_memory_mb: f64,
    run: &'a ticks::Run,
}

impl<'a> Outcome<'a> {
    fn of(arguments: &'a Arguments, run: &'a ticks::Run) -> Self {
        let counted = &run.tick_us[ticks::WARM_UP_TICKS.min(run.tick_us.len())..];
        let mut sorted = counted.to_vec();
        sorted.sort_by(f64::total_cmp);
        let rank = |share: f64| {
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                clippy::cast_precision_loss,
                reason = "a rank among some thousands"
            )]
            let rank = ((sorted.len() as f64 * share).ceil() as usize).max(1);
            sorted[rank.min(sorted.len()) - 1]
        };
        let triggers: Vec<usize> = run.checkpoints.iter().map(|c| c.tick).collect();
        let of_all = |ticks_us: &[f64]| ticks_us.iter().copied().fold(0.0, f64::max);
        let of_every = |ticks_us: &[f64]| {
            let ends = triggers.iter().skip(1).copied().chain([ticks_us.len()]);
            let maxima =
                triggers.iter().zip(ends).map(|(begin, end)| of_all(&ticks_us[*begin..end]));
            maxima.reduce(f64::min).unwrap_or(0.0)
        };
        let own = run.tick_us.iter().zip(&run.tick_waited_us);
        let own_us: Vec<f64> = own.map(|(tick, waited)| (tick - waited).max(0.0)).collect();
        let taken: Vec<f64> = run.checkpoints.iter().map(|c| c.taken_us).collect();
        let dumps: Vec<f64> = run.checkpoints.iter().map(|c| c.dump_ms).collect();
        Self {
            arguments,
            average_us: mean(counted),
            maximum_us: rank(1.0),
            p50_us: rank(0.5),
            p99_us: rank(0.99),
            p999_us: rank(0.999),
            repeated_maximum_us: of_every(&run.tick_us),
            own_maximum_us: of_all(&own_us[ticks::WARM_UP_TICKS.min(own_us.len())..]),
            own_repeated_maximum_us: of_every(&own_us),
            taken_average_us: mean(&taken),
            taken_maximum_us: taken.iter().copied().fold(0.0, f64::max),
            dump_average_ms: mean(&dumps),
            peak_memory_mb: run.peak_memory_mb,
            run,
        }
    }
}

pub(crate) fn mean(values: &[f64]) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "some thousands")]
    let count = values.len().max(1) as f64;
    values.iter().sum::<f64>() / count
}

/// Measures and prints the result.
///
/// # Errors
/// A size that rows cannot have; errors of the disk.
pub fn run(arguments: &Arguments) -> Result<()> {
    use ::snapshot::{CopyOnUpdate, Fork, Hourglass, Naive, Piggyback, PingPong, Windowed, Zigzag};
    if arguments.ticks <= ticks::WARM_UP_TICKS || arguments.updates_per_tick == 0 {
        let what = format!("more than {} ticks, with updates in them", ticks::WARM_UP_TICKS);
        return Err(Error::Engine { engine: "snapshot", what });
    }
    let run = match arguments.algorithm {
        Algorithm::Naive => ticks::run::<Naive>(arguments),
        Algorithm::Cou => ticks::run::<CopyOnUpdate>(arguments),
        Algorithm::Fork => ticks::run::<Fork>(arguments),
        Algorithm::Zigzag => ticks::run::<Zigzag>(arguments),
        Algorithm::PingPong => ticks::run::<PingPong>(arguments),
        Algorithm::Hourglass => ticks::run::<Hourglass>(arguments),
        Algorithm::Piggyback => ticks::run::<Piggyback>(arguments),
        Algorithm::Windowed => ticks::run::<Windowed>(arguments),
    }?;
    let outcome = Outcome::of(arguments, &run);
    println!(
        "{:?}: tick average {:.0} us, maximum {:.0} us (in every checkpoint {:.0} us; with a processor of its own {:.0} \
         and {:.0} us), p99 {:.0} us; taken {:.1} us; dump {:.0} ms; peak memory {:.0} MB",
        arguments.algorithm,
        outcome.average_us,
        outcome.maximum_us,
        outcome.repeated_maximum_us,
        outcome.own_maximum_us,
        outcome.own_repeated_maximum_us,
        outcome.p99_us,
        outcome.taken_average_us,
        outcome.dump_average_ms,
        outcome.peak_memory_mb,
    );
    json::write(arguments.json.as_deref(), &outcome)
}
