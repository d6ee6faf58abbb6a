//! `indelible index`: looks at the index of a redo log.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use clap::{Parser, Subcommand};
use env::Disk;
use env_os::{OsClock, OsDisk, OsEntropy};
use logindex::Stats;
use server::Rebuilding;

use crate::progress::Said;

/// Looks at the index of a redo log (log-index yes). Nothing is changed but by rebuild.
#[derive(Parser)]
#[command(name = "indelible index", version)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Reads every byte of the index; exits with 0 when it is good. The server may be running, but for --log.
    Verify {
        /// The data directory of the server.
        directory: PathBuf,
        /// Compares it with the log, too, all of which is indexed once more, in a directory that is removed
        /// again. The server must not be running.
        #[arg(long)]
        log: bool,
        /// The directories of log-devices; without them, those that the log itself names.
        #[arg(long = "device", value_name = "DIRECTORY", requires = "log")]
        devices: Vec<PathBuf>,
    },
    /// Shows how far the index is and what runs it has.
    Stats {
        /// The data directory of the server.
        directory: PathBuf,
    },
    /// Reads and checks the log as a start does, and builds its index anew. The server must not be running.
    Rebuild {
        /// The data directory of the server.
        directory: PathBuf,
        /// The directories of log-devices; without them, those that the log itself names.
        #[arg(long = "device", value_name = "DIRECTORY")]
        devices: Vec<PathBuf>,
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
            Self::Verify { directory, .. } => logindex::verify(&OsDisk, &below(directory))?,
            Self::Stats { directory } => logindex::stats(&OsDisk, &below(directory))?,
            Self::Rebuild { directory, devices } => return rebuild(directory, devices),
        };
        let (Self::Verify { directory, .. }
        | Self::Stats { directory }
        | Self::Rebuild { directory, .. }) = &self;
        let Some(stats) = stats else {
            eprintln!(
                "there is no log index in {}: give the data directory of a server that runs with \
                 log-index yes",
                directory.display()
            );
            return Ok(ExitCode::from(2));
        };
        show(&stats);
        if let Self::Verify { directory, log, devices } = &self {
            println!("good: every byte of {} runs was read", stats.runs.len());
            if *log {
                return compare(directory, devices);
            }
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

/// Compares the index with its log.
fn compare(directory: &Path, devices: &[PathBuf]) -> anyhow::Result<ExitCode> {
    let disk: Arc<dyn Disk> = Arc::new(OsDisk);
    let Some(log) = redo::StoredLog::open(Arc::clone(&disk), directory, devices)? else {
        crate::log::say_no_log(directory);
        return Ok(ExitCode::from(2));
    };
    let (index, scratch) = (below(directory), directory.join("index.compared"));
    let options = indexing::Options::default();
    let mut said = Said::default();
    let compared = indexing::compare(&disk, &index, &scratch, &log, options, &mut |so_far| {
        said.say("reading the log", so_far.bytes_done * 100 / so_far.bytes_total.max(1));
    });
    // Empty, unless it could not be emptied.
    let _kept = std::fs::remove_dir(&scratch);
    let compared = compared?;
    if let Some(first) = compared.first {
        println!("bad: of {} entries it does not say what the log says", compared.different);
        println!("{first}");
        println!("indelible index rebuild builds it anew");
        return Ok(ExitCode::FAILURE);
    }
    println!(
        "good: it says what the log says, up to block {}, of {} entries",
        compared.end, compared.same
    );
    Ok(ExitCode::SUCCESS)
}

fn rebuild(directory: &Path, devices: &[PathBuf]) -> anyhow::Result<ExitCode> {
    if !redo::is_there(&OsDisk, directory) {
        crate::log::say_no_log(directory);
        return Ok(ExitCode::from(2));
    }
    if redo::is_in_use(&OsDisk, directory)? {
        anyhow::bail!("{} is in use: stop its server first", directory.display());
    }
    let disk: Arc<dyn Disk> = Arc::new(OsDisk);
    let mut options = redo::Options::new(directory);
    options.history = redo::HistoryOptions::ALL;
    options.devices = match devices {
        [] => redo::devices_of(&*disk, directory)?,
        given => given.to_vec(),
    };
    let env = redo::Env {
        disk,
        clock: Arc::new(OsClock::new()),
        entropy: Box::new(OsEntropy),
        waker: Arc::new(|| {}),
    };
    let mut said = Said::default();
    let summary = server::rebuild_index(env, options, &mut |so_far| match so_far {
        Rebuilding::Reading(percentage) => said.say("reading the log", percentage),
        Rebuilding::Building(percentage) => said.say("building its index", percentage),
    })?;
    println!("the index is built: it knows the log up to block {}", summary.last_lsn);
    Ok(ExitCode::SUCCESS)
}
