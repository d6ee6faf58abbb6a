//! `indelible index`: looks at the index of a redo log.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use env_os::OsDisk;
use logindex::Stats;

/// Looks at the index of a redo log (log-index yes). It changes nothing but by `rebuild`.
#[derive(Parser)]
#[command(name = "indelible index", version)]
struct Arguments {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Reads every byte of the index; exits with 0 when it is good. The server may be running.
    Verify {
        /// The data directory of the server.
        directory: PathBuf,
    },
    /// Shows how far the index is and what runs it has.
    Stats {
        /// The data directory of the server.
        directory: PathBuf,
    },
    /// Removes the index: the next start builds it anew from the log. The server must not be running.
    Rebuild {
        /// The data directory of the server.
        directory: PathBuf,
    },
}

/// Runs `indelible index` with these arguments, the first of which is `index`.
pub(crate) fn index(arguments: &[String]) -> ExitCode {
    let arguments: Arguments = match crate::arguments::parse(arguments, ExitCode::FAILURE) {
        Ok(arguments) => arguments,
        Err(code) => return code,
    };
    match arguments.action.run() {
        Ok(code) => code,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

/// The directory of the index below a data directory.
pub(crate) fn below(directory: &Path) -> PathBuf {
    directory.join("index")
}

impl Action {
    fn run(self) -> anyhow::Result<ExitCode> {
        let stats = match &self {
            Self::Verify { directory } => logindex::verify(&OsDisk, &below(directory))?,
            Self::Stats { directory } => logindex::stats(&OsDisk, &below(directory))?,
            Self::Rebuild { directory } => return rebuild(directory),
        };
        let (Self::Verify { directory } | Self::Stats { directory } | Self::Rebuild { directory }) =
            &self;
        let Some(stats) = stats else {
            eprintln!(
                "there is no log index in {}: give the data directory of a server that runs with \
                 log-index yes",
                directory.display()
            );
            return Ok(ExitCode::from(2));
        };
        show(&stats);
        if let Self::Verify { .. } = self {
            println!("good: every byte of {} runs was read", stats.runs.len());
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn show(stats: &Stats) {
    match stats.cut {
        Some(cut) => println!("knows the log up to block {cut}"),
        None => println!("knows nothing of the log yet"),
    }
    for run in &stats.runs {
        let info = run.info;
        println!(
            "run {} {:?}: {} entries ({} gone) in {} bytes, {} blocks, {} segments",
            info.id, info.level, info.entries, run.gone, info.bytes, run.blocks, run.segments
        );
    }
}

fn rebuild(directory: &Path) -> anyhow::Result<ExitCode> {
    if redo::is_in_use(&OsDisk, directory)? {
        anyhow::bail!("{} is in use: stop its server first", directory.display());
    }
    logindex::discard(&OsDisk, &below(directory))?;
    println!("the index is removed; a start with log-index yes builds it anew");
    Ok(ExitCode::SUCCESS)
}
