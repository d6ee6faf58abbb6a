//! `indelible-bench figures`: reruns the figures of a paper and writes them next to its findings.
//!
//! ```text
//!   plan: figures → points → runs ──► rounds of all runs, A B C A B C ──► DIR/runs/*.json
//!                                     (each a process of its own)              │
//!                                     tables.md, FIGURE/{data.csv,plot.svg} ◄──┘
//! ```
//!
//! A run whose result is there is not made again, so that what was interrupted can be gone on with,
//! and `--minutes` ends it early on purpose. Points of several figures that want the same run share
//! it. Values are medians of the rounds, with minimum and maximum.

mod plan;
mod plot;
mod report;
mod runs;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use crate::error::Result;

/// What `indelible-bench figures` is told.
#[derive(Debug, Clone, clap::Args)]
pub struct Arguments {
    /// Which figures.
    #[arg(value_enum)]
    pub what: What,
    /// Where loaded data, runs and their results are kept.
    #[arg(long)]
    pub dir: PathBuf,
    /// Where data, plots and tables go.
    #[arg(long)]
    pub results: PathBuf,
    /// How often every run is made.
    #[arg(long, default_value_t = 5)]
    pub rounds: usize,
    /// Transactions of a run.
    #[arg(long, default_value_t = 20_000)]
    pub transactions: u64,
    /// Warehouses; the paper's 1 GB are about ten.
    #[arg(long, default_value_t = 10)]
    pub warehouses: u16,
    /// Only the figures whose names begin so.
    #[arg(long)]
    pub only: Option<String>,
    /// Begins no run after so long; what was measured until then is written.
    #[arg(long)]
    pub minutes: Option<f64>,
}

/// Whose figures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum What {
    /// The page store's: Figures 6 to 10 of paper 003, and those of other stores.
    Pages,
}

/// Makes the runs that are missing, and writes the figures.
///
/// # Errors
/// Those of files; a run that fails.
pub fn run(arguments: &Arguments) -> Result<()> {
    let What::Pages = arguments.what;
    let mut figures = plan::pages();
    if let Some(only) = &arguments.only {
        figures.retain(|figure| figure.name.starts_with(only.as_str()));
    }
    let patience = arguments.minutes.map(|minutes| Duration::from_secs_f64(minutes * 60.0));
    runs::make(arguments, &figures, Instant::now(), patience)?;
    report::write(arguments, &figures)
}
