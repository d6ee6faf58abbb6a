//! `indelible bench`: workloads and the stores that they compare.

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Measures stores side by side.
#[derive(Parser)]
#[command(name = "indelible bench", version)]
struct Arguments {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Random point reads, writes and scans of one table.
    Kv(bench::kv::Arguments),
    /// Snapshot algorithms under a client that writes in ticks.
    Snapshot(bench::snapshot::Arguments),
    /// Reruns the figures of a paper; goes on where it was interrupted.
    Figures(bench::figures::Arguments),
    /// What the trace of a run costs a flash device, by a model of one.
    Flash(bench::flash::Arguments),
    /// Figures and tables of the runs of `bench/snapshot/sweep`.
    SnapshotFigures(bench::snapshot::figures::Arguments),
    /// Snapshots under concurrent transactions.
    SnapshotTransactions(bench::snapshot_transactions::Arguments),
    /// TPC-C: orders, payments and deliveries of a wholesaler.
    Tpcc(bench::tpcc::Arguments),
}

/// Does what the arguments behind `indelible` say; the exit code.
pub(crate) fn bench(arguments: &[String]) -> ExitCode {
    let arguments: Arguments = match crate::arguments::parse(arguments, ExitCode::FAILURE) {
        Ok(arguments) => arguments,
        Err(code) => return code,
    };
    let done = match arguments.action {
        Action::Kv(arguments) => bench::kv::run(&arguments),
        Action::Snapshot(arguments) => bench::snapshot::run(&arguments),
        Action::Figures(arguments) => bench::figures::run(&arguments),
        Action::Flash(arguments) => bench::flash::run(&arguments),
        Action::SnapshotFigures(arguments) => bench::snapshot::figures::run(&arguments),
        Action::SnapshotTransactions(arguments) => bench::snapshot_transactions::run(&arguments),
        Action::Tpcc(arguments) => bench::tpcc::run(&arguments),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
