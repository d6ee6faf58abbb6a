//! A model of a flash device: the cost of a run's page I/O (`indelible-bench flash`).
//!
//! ```text
//!   run with --trace FILE ──► reads, writes, files removed ──► Device ──► erases, amplification, time
//!                                                               │
//!      logical page ──map──► page of an erase block;  a write goes to the open block,
//!      what it replaces is garbage;  few free blocks: the block with the least valid
//!      pages is copied to the open block and erased (greedy garbage collection)
//! ```
//!
//! The device is the kind of SSD in the paper, with a page-mapped translation layer. Pages are 4
//! KiB, a block has 256 of them, and 7 % of the blocks are spare. Files occupy logical pages as
//! they grow; removing a file trims its pages. The initial contents of files were written before
//! the trace and are not counted.

mod device;
pub(crate) mod trace;

use std::path::PathBuf;

use crate::error::{Error, Result};
use crate::json;
use device::{Costs, Device};

/// The arguments of `indelible-bench flash`.
#[derive(Debug, Clone, clap::Args)]
pub struct Arguments {
    /// The trace of a run, from `indelible-bench tpcc --trace`.
    pub trace: PathBuf,
    /// Pages per erase block.
    #[arg(long, default_value_t = 256)]
    pub block_pages: usize,
    /// Spare blocks, in percent of those that the data need.
    #[arg(long, default_value_t = 7.0)]
    pub over_provisioning_percent: f64,
    /// Time to read a page, in microseconds.
    #[arg(long, default_value_t = 60.0)]
    pub read_us: f64,
    /// Time to program a page, in microseconds.
    #[arg(long, default_value_t = 600.0)]
    pub program_us: f64,
    /// Time to erase a block, in microseconds.
    #[arg(long, default_value_t = 3000.0)]
    pub erase_us: f64,
    /// A file for the result.
    #[arg(long)]
    pub json: Option<PathBuf>,
}

/// The operations of the device.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
struct Outcome {
    logical_pages: usize,
    blocks: usize,
    host_reads: u64,
    host_writes: u64,
    page_programs: u64,
    erases: u64,
    write_amplification: f64,
    seconds: f64,
}

/// Runs a trace through the model.
///
/// # Errors
/// If the trace cannot be read or the result cannot be written.
pub fn run(arguments: &Arguments) -> Result<()> {
    let text = std::fs::read(&arguments.trace).map_err(Error::file(&arguments.trace))?;
    let outcome = simulate(arguments, &trace::decode(&text)?);
    println!(
        "{} pages on {} blocks: {} reads, {} writes; {} programs (amplification {:.2}), {} erases, \
         {:.1} s",
        outcome.logical_pages,
        outcome.blocks,
        outcome.host_reads,
        outcome.host_writes,
        outcome.page_programs,
        outcome.write_amplification,
        outcome.erases,
        outcome.seconds
    );
    json::write(arguments.json.as_deref(), &outcome)
}

#[expect(clippy::cast_precision_loss, reason = "counts of a model, for people and plots")]
fn simulate(arguments: &Arguments, events: &[trace::Event]) -> Outcome {
    let accesses = trace::lay_out(events);
    let logical_pages = accesses.logical_pages;
    let mut device =
        Device::new(logical_pages, arguments.block_pages, arguments.over_provisioning_percent);
    accesses.before.iter().for_each(|&page| device.write(page));
    let before = device.counts();
    accesses.during.iter().for_each(|&access| device.access(access));
    let counts = device.counts().since(before);
    let costs = Costs {
        read_us: arguments.read_us,
        program_us: arguments.program_us,
        erase_us: arguments.erase_us,
    };
    Outcome {
        logical_pages,
        blocks: device.block_count(),
        host_reads: counts.host_reads,
        host_writes: counts.host_writes,
        page_programs: counts.programs,
        erases: counts.erases,
        write_amplification: counts.programs as f64 / counts.host_writes.max(1) as f64,
        seconds: counts.time_us(costs) / 1e6,
    }
}
