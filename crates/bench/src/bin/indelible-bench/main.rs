//! The binary `indelible-bench`: the laboratory next to the product.
//!
//! ```text
//!   indelible-bench tpcc|kv|flash|figures                       the page store and its peers
//!   indelible-bench snapshot|snapshot-transactions|snapshot-figures   the snapshot algorithms
//!   indelible-bench recovery|recovery-figures                   recovery by scheme, under load
//!   indelible-bench client|client-figures                       loads a server, over sockets
//!   indelible-bench compare                                     loads servers in turn, and says what it costs them
//!   indelible-bench vtc-figures                                 checkpoints next to Redis' (bench/vtc/run)
//!   indelible-bench locks                                       takes and gives back locks of one
//!   indelible-bench pages check|stats|dump DIR                  the files of a page store
//! ```
//!
//! `indelible` is the installed program and links none of this: no plots, no peers, no store that
//! the server does not use. Measurements run on the product's allocator.

mod pages;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// Measures stores and algorithms next to each other.
#[derive(Parser)]
#[command(name = "indelible-bench", version)]
struct Arguments {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// TPC-C: orders, payments and deliveries of a wholesaler.
    Tpcc(bench::tpcc::Arguments),
    /// Random point reads, writes and scans of one table.
    Kv(bench::kv::Arguments),
    /// Computes the cost of a run's trace on a modelled flash device.
    Flash(bench::flash::Arguments),
    /// Reruns the figures of a paper; resumes where it was interrupted.
    Figures(bench::figures::Arguments),
    /// Measures snapshot algorithms under a client that writes in ticks.
    Snapshot(bench::snapshot::Arguments),
    /// Measures snapshots under concurrent transactions.
    SnapshotTransactions(bench::snapshot_transactions::Arguments),
    /// Draws figures and tables from the runs of `bench/snapshot/sweep`.
    SnapshotFigures(bench::snapshot::figures::Arguments),
    /// Measures what clients see of a recovery, by scheme.
    Recovery(bench::recovery::Arguments),
    /// Draws figures and tables from the runs of `bench/recovery/sweep`.
    RecoveryFigures(bench::recovery::figures::Arguments),
    /// Fills, loads and checks a server, over sockets.
    Client(bench::client::Arguments),
    /// Compares servers: the same load on each in turn, interleaved, and what it costs them.
    Compare(bench::compare::Arguments),
    /// Takes locks of a server on this machine and gives them back, over sockets.
    Locks(bench::locks::Arguments),
    /// Draws the timelines of `bench/cold/timeline`.
    ClientFigures(bench::client::figures::Arguments),
    /// Draws figures and tables from the lines of `bench/vtc/run`.
    VtcFigures(bench::vtc::Arguments),
    /// Inspects a page store that no process has open; changes nothing.
    Pages(pages::Arguments),
}

fn main() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => {
            // Help goes to standard output, errors to standard error; clap knows which is which.
            let _ignored = error.print();
            return if error.use_stderr() { ExitCode::FAILURE } else { ExitCode::SUCCESS };
        }
    };
    let done = match arguments.action {
        Action::Tpcc(arguments) => bench::tpcc::run(&arguments),
        Action::Kv(arguments) => bench::kv::run(&arguments),
        Action::Flash(arguments) => bench::flash::run(&arguments),
        Action::Figures(arguments) => bench::figures::run(&arguments),
        Action::Snapshot(arguments) => bench::snapshot::run(&arguments),
        Action::SnapshotTransactions(arguments) => bench::snapshot_transactions::run(&arguments),
        Action::SnapshotFigures(arguments) => bench::snapshot::figures::run(&arguments),
        Action::Recovery(arguments) => bench::recovery::run(&arguments),
        Action::RecoveryFigures(arguments) => bench::recovery::figures::run(&arguments),
        Action::Client(arguments) => bench::client::run(&arguments),
        Action::Compare(arguments) => bench::compare::run(&arguments),
        Action::Locks(arguments) => bench::locks::run(&arguments),
        Action::ClientFigures(arguments) => bench::client::figures::run(&arguments),
        Action::VtcFigures(arguments) => bench::vtc::run(&arguments),
        Action::Pages(arguments) => return pages::run(arguments),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
