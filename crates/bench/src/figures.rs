//! `indelible-bench figures`: reruns the figures of a paper, and writes them next to its findings.
//!
//! ```text
//!   plan: figures → points → runs ──► rounds of all runs, A B C A B C ──► DIR/runs/*.json
//!                                     (each a process of its own)              │
//!                                     tables.md, FIGURE/{data.csv,plot.svg} ◄──┘
//! ```
//!
//! Runs with existing results are not repeated, so that an interrupted session can be resumed;
//! `--minutes` ends one early on purpose. Points of several figures share a run if they need the
//! same one. Values are medians of the rounds, with minimum and maximum.

mod plan;
mod plot;
mod report;
mod runs;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use crate::error::Result;

/// The arguments of `indelible-bench figures`.
#[derive(Debug, Clone, clap::Args)]
pub struct Arguments {
    /// Which figures to run.
    #[arg(value_enum)]
    pub what: What,
    /// Where loaded data, runs and their results are kept.
    #[arg(long)]
    pub dir: PathBuf,
    /// Where data, plots and tables are written.
    #[arg(long)]
    pub results: PathBuf,
    /// How often every run is repeated.
    #[arg(long, default_value_t = 5)]
    pub rounds: usize,
    /// Transactions of a run.
    #[arg(long, default_value_t = 20_000)]
    pub transactions: u64,
    /// Warehouses; the paper's 1 GB are about ten.
    #[arg(long, default_value_t = 10)]
    pub warehouses: u16,
    /// Only the figures whose names begin with this.
    #[arg(long)]
    pub only: Option<String>,
    /// Begin no run after this time; results so far are written.
    #[arg(long)]
    pub minutes: Option<f64>,
}

/// A set of figures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum What {
    /// The page store's: Figures 6 to 10 of paper 003, and those of other stores.
    Pages,
}

/// Makes the missing runs, and writes the figures.
///
/// # Errors
/// Errors of files; a failed run.
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
