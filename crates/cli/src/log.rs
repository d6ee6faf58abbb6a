//! `indelible log`: looks at a redo log that no server is using, and mends it if it is told to.

use std::io::{BufWriter, ErrorKind, Write as _, stdout};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use clap::{Parser, Subcommand};
use env::{Clock as _, Disk};
use env_os::{OsClock, OsDisk, OsEntropy};
use redo::{DumpFormat, RecordAddr, RepairMode, RepairRequest};

use crate::archive_places::KeyFiles;
use crate::login::Login;
use crate::restore::threads;
use crate::tail::{Start, Tail};

/// Looks at a redo log that no server is using; nothing is changed but by `repair --yes`.
#[derive(Parser)]
#[command(name = "indelible log", version)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Checks every byte of the log; exits with 0 when it is good.
    Verify {
        /// The data directory of the server.
        directory: PathBuf,
        /// The directories of log-devices; without them, those that the log itself names.
        #[arg(long = "device", value_name = "DIRECTORY")]
        devices: Vec<PathBuf>,
    },
    /// Shows every record of the log in order.
    Dump {
        /// The data directory of the server.
        directory: PathBuf,
        /// One JSON object a line.
        #[arg(long)]
        json: bool,
        /// The directories of log-devices; without them, those that the log itself names.
        #[arg(long = "device", value_name = "DIRECTORY")]
        devices: Vec<PathBuf>,
    },
    /// Shows one record of the log, reading no more than it needs; exits with 1 if there is none.
    Get {
        /// The data directory of the server.
        directory: PathBuf,
        /// Segment and ordinal of the record, as `dump` shows them: 7:130.
        #[arg(value_name = "SEGMENT:ORDINAL")]
        address: RecordAddr,
        /// As a JSON object.
        #[arg(long)]
        json: bool,
        /// The directories of log-devices; without them, those that the log itself names.
        #[arg(long = "device", value_name = "DIRECTORY")]
        devices: Vec<PathBuf>,
    },
    /// Gives out what has changed, a JSON line a block (docs/change-stream.md): from the data directory of a server
    /// that is not running, or from a running one. Exits with 3 if the first block is gone.
    Tail {
        /// The data directory, HOST:PORT, or an archive: file:///path, s3://bucket/prefix or transfer:HOST:PORT/name.
        source: String,
        /// The first block; now for those that come from here on.
        #[arg(long, value_name = "LSN|now", default_value = "1")]
        from: Start,
        /// Goes on with what changes later; of a running server only.
        #[arg(long)]
        follow: bool,
        /// The log that the blocks before the first one were read of, as their lines say (log): of another one nothing is
        /// given out (exit code 3).
        #[arg(long, value_name = "ID")]
        log: Option<redo::Id>,
        /// One JSON object a line, which is the only format.
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        login: Login,
        /// The directories of log-devices; without them, those that the log itself names.
        #[arg(long = "device", value_name = "DIRECTORY")]
        devices: Vec<PathBuf>,
        /// Of an archive: the database, if it has several.
        #[arg(long, value_name = "ID")]
        database: Option<String>,
        #[command(flatten)]
        keys: KeyFiles,
    },
    /// Says what of a damaged log is good and what is lost; with --yes makes it start again.
    Repair {
        /// The data directory of the server.
        directory: PathBuf,
        /// Only says it; the default.
        #[arg(long, conflicts_with = "yes")]
        dry_run: bool,
        /// Does it. The old files are kept next to it, in directories called damaged-TIME.
        #[arg(long)]
        yes: bool,
        /// The directories of log-devices; without them, those that the log itself names.
        #[arg(long = "device", value_name = "DIRECTORY")]
        devices: Vec<PathBuf>,
        /// One of log-devices whose disk is gone for good: what is on it is given up, and the log does without it.
        #[arg(long = "lost", value_name = "DIRECTORY")]
        lost: Vec<PathBuf>,
    },
}

/// Does what the arguments behind `indelible` say; the exit code.
pub(crate) fn log(arguments: &[String]) -> ExitCode {
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

const fn format(json: bool) -> DumpFormat {
    if json { DumpFormat::Json } else { DumpFormat::Text }
}

/// Says why there is no log in a directory.
pub(crate) fn say_no_log(directory: &Path) {
    if let Err(error) = directory.read_dir()
        && error.kind() == ErrorKind::PermissionDenied
    {
        eprintln!("cannot read {}: {error}", directory.display());
        return;
    }
    if lacks_its_manifest(directory) {
        eprintln!(
            "{dir} has files of a redo log, and {manifest} is missing: bring it back, or indelible log repair {dir} makes one \
             of what the other files say (with --device for each of its log-devices)",
            dir = directory.display(),
            manifest = redo::manifest::path_in(directory).display()
        );
        return;
    }
    eprintln!(
        "there is no redo log in {}: give the data directory of the server (dir in its \
         configuration), and --device for each of its log-devices",
        directory.display()
    );
    crate::archive::say_if_archive(directory);
}

/// Whether a data directory has files of a log and nothing that says which.
pub(crate) fn lacks_its_manifest(directory: &Path) -> bool {
    !redo::is_there(&OsDisk, directory) && has_segments(&directory.join("redo"))
}

/// Whether there are files of a log in a directory.
fn has_segments(device: &Path) -> bool {
    let entries = device.read_dir().into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).any(|path| path.extension().is_some_and(|it| it == "redo"))
}

impl Action {
    fn run(mut self) -> anyhow::Result<ExitCode> {
        let disk: Arc<dyn Disk> = Arc::new(OsDisk);
        if let Self::Tail { source, from, follow, log, json: _, login, devices, database, keys } =
            self
        {
            let follows = follow;
            return Tail { source, from, follows, log, login, devices, database, keys }.run(disk);
        }
        let (Self::Verify { directory, devices }
        | Self::Dump { directory, devices, .. }
        | Self::Get { directory, devices, .. }
        | Self::Repair { directory, devices, .. }) = &mut self
        else {
            unreachable!("it has returned above");
        };
        let has_manifest = redo::is_there(&*disk, directory);
        if !has_manifest && devices.is_empty() {
            // Nothing says where the log is: then it is where a server without log-devices has it.
            devices.push(directory.join("redo"));
        }
        if !has_manifest && !devices.iter().any(|device| has_segments(device)) {
            say_no_log(directory);
            return Ok(ExitCode::from(2));
        }
        match self {
            Self::Tail { .. } => unreachable!("it has returned above"),
            Self::Verify { directory, devices } => {
                let report = redo::verify_on(&disk, &directory, &devices, threads().get())?;
                print!("{report}");
                Ok(if report.is_good() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
            }
            Self::Dump { directory, json, devices } => {
                let mut out = BufWriter::new(stdout().lock());
                redo::dump(&disk, &directory, &devices, format(json), &mut out)?;
                out.flush()?;
                Ok(ExitCode::SUCCESS)
            }
            Self::Get { directory, address, json, devices } => {
                let mut out = stdout().lock();
                let found =
                    redo::get(&disk, &directory, &devices, address, format(json), &mut out)?;
                if found {
                    return Ok(ExitCode::SUCCESS);
                }
                eprintln!(
                    "there is no record {address} in the log: a compaction has dropped it, or it \
                     never was; indelible log dump shows which there are"
                );
                Ok(ExitCode::FAILURE)
            }
            Self::Repair { directory, dry_run, yes, devices, lost } => {
                let request = RepairRequest { dir: &directory, devices: &devices, lost: &lost };
                let code = repair(&disk, &request, yes)?;
                if code == ExitCode::FAILURE && !dry_run {
                    println!(
                        "nothing was changed; to repair it like this, run it again with --yes"
                    );
                }
                Ok(code)
            }
        }
    }
}

/// Shows what a repair does, or makes it. It fails when there is something left to repair.
fn repair(
    disk: &Arc<dyn Disk>,
    request: &RepairRequest<'_>,
    yes: bool,
) -> anyhow::Result<ExitCode> {
    let directory = request.dir;
    if yes && !redo::is_in_use(&**disk, directory)? {
        // Records get new addresses.
        logindex::discard(&**disk, &crate::index::below(directory))?;
    }
    let now_ms = OsClock::new().now_ms();
    let mode = if yes { RepairMode::CarryOut { now_ms } } else { RepairMode::Show };
    let repair = redo::repair(disk, request, &mut OsEntropy, mode)?;
    print!("{repair}");
    let is_good = yes || !repair.is_needed();
    Ok(if is_good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
