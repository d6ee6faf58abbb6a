//! `indelible tap`: records a server's requests from the network, shows what was recorded, and brings the
//! server back from it.

mod inspect;
mod keep;
mod log;
mod metrics;
mod replay;
mod timestamp;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Durability for servers that log nothing: records their requests from the network layer.
#[derive(Parser)]
#[command(name = "indelible tap", version)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Records the requests that reach a server's port until it is told to stop.
    Log(log::Log),
    /// Shows what was recorded.
    Inspect(inspect::Inspect),
    /// Brings a server back by sending the recorded requests again.
    Replay(Box<replay::Replay>),
}

/// Does what the arguments behind `indelible` say; the exit code: 0 when all is well, 1 when there are
/// gaps or differences, 2 when it did not take place, 3 when nothing can be read because of TLS.
pub(crate) fn tap(arguments: &[String]) -> ExitCode {
    let arguments: Arguments = match crate::arguments::parse(arguments, ExitCode::from(2)) {
        Ok(arguments) => arguments,
        Err(code) => return code,
    };
    let done = match arguments.action {
        Action::Log(log) => log::run(&log),
        Action::Inspect(inspect) => inspect::run(&inspect),
        Action::Replay(replay) => replay::run(&replay),
    };
    done.unwrap_or_else(|error| {
        eprintln!("{error}");
        ExitCode::from(2)
    })
}
