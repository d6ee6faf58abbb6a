//! `indelible log`: looks at a redo log that no server is using, without changing it.

use std::io::{BufWriter, Write as _, stdout};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use clap::{Parser, Subcommand};
use env::Disk;
use env_os::OsDisk;
use redo::DumpFormat;

/// Looks at a redo log that no server is using, without changing it.
#[derive(Parser)]
#[command(name = "indelible log", version)]
struct Arguments {
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
}

/// Does what the arguments behind `indelible` say; the exit code.
pub(crate) fn log(arguments: &[String]) -> ExitCode {
    let arguments = match Arguments::try_parse_from(arguments) {
        Ok(arguments) => arguments,
        Err(error) => {
            // Help goes to standard output, complaints to standard error; clap knows which is which.
            let _ignored = error.print();
            return if error.use_stderr() { ExitCode::FAILURE } else { ExitCode::SUCCESS };
        }
    };
    match arguments.action.run() {
        Ok(code) => code,
        Err(error) => {
            eprintln!("{error:#}");
            ExitCode::FAILURE
        }
    }
}

impl Action {
    fn run(self) -> anyhow::Result<ExitCode> {
        let disk: Arc<dyn Disk> = Arc::new(OsDisk);
        match self {
            Self::Verify { directory, devices } => {
                let report = redo::verify(&disk, &directory, &devices)?;
                print!("{report}");
                Ok(if report.is_good() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
            }
            Self::Dump { directory, json, devices } => {
                let format = if json { DumpFormat::Json } else { DumpFormat::Text };
                let mut out = BufWriter::new(stdout().lock());
                redo::dump(&disk, &directory, &devices, format, &mut out)?;
                out.flush()?;
                Ok(ExitCode::SUCCESS)
            }
        }
    }
}
