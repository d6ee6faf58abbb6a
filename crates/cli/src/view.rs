//! `indelible view`: serves the past, for reading.
//!
//! What a restore makes is made in a temporary directory and served by a server in which nothing can be
//! written, and for which the time stands still: a key that had not expired then has not now.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use clap::Parser;
use env::Clock;
use env_os::{OsClock, OsDisk, OsEntropy};
use server::World;
use server::config::{self, Config};
use tempfile::TempDir;

use crate::host::JemallocHost;
use crate::moment::Moment;
use crate::run::COMMIT;

/// Serves a log as it was, to look at and to compare: from a copy in a temporary directory, which takes as much room as the
/// data did then and is removed at the end. Commands that write are refused, and the time stands still at that moment: what had not
/// expired is there. The server of the log may run meanwhile.
#[derive(Parser)]
#[command(name = "indelible view", version)]
struct Arguments {
    #[command(flatten)]
    moment: Moment,
    /// Where clients connect; 0 for no port.
    #[arg(long, default_value_t = 6400)]
    port: u16,
    /// The directory in which the copy is made; without it, the system's for temporary files.
    #[arg(long, value_name = "DIR")]
    temporary: Option<PathBuf>,
    /// More directives for the server, behind --, as in: -- --bind 0.0.0.0 --requirepass secret
    #[arg(last = true)]
    directives: Vec<String>,
}

/// A clock whose time of day stands still.
struct Standing {
    now_ms: i64,
    running: OsClock,
}

impl Clock for Standing {
    fn now_ms(&self) -> i64 {
        self.now_ms
    }

    fn monotonic_us(&self) -> u64 {
        self.running.monotonic_us()
    }
}

/// Runs `indelible view` with these arguments, the first of which is `view`.
pub(crate) fn view(arguments: &[String]) -> ExitCode {
    let arguments: Arguments = match crate::arguments::parse(arguments, ExitCode::FAILURE) {
        Ok(arguments) => arguments,
        Err(code) => return code,
    };
    match arguments.run() {
        Ok(code) => code,
        Err(error) => {
            eprintln!("{error:#}");
            ExitCode::FAILURE
        }
    }
}

impl Arguments {
    fn run(self) -> anyhow::Result<ExitCode> {
        let near = self.temporary.clone().unwrap_or_else(std::env::temp_dir);
        let temporary = tempfile::Builder::new().prefix("indelible-view-").tempdir_in(near)?;
        let directory = temporary.path().join("data");
        let Some(made) = self.moment.restore_into(&directory)? else {
            return Ok(ExitCode::FAILURE);
        };
        eprintln!("the state after block {}, to be read: redis-cli -p {}", made.lsn, self.port);
        self.serve(&directory, made.time_ms, temporary)
    }

    fn serve(
        self,
        directory: &Path,
        time_ms: Option<i64>,
        temporary: TempDir,
    ) -> anyhow::Result<ExitCode> {
        let port = self.port.to_string();
        let first = [
            ["--port", &port],
            ["--bind", "127.0.0.1"],
            // The copy is thrown away.
            ["--appendfsync", "no"],
            ["--log-compaction", "no"],
            ["--log-history-seconds", "0"],
            ["--save", ""],
        ];
        let mut words: Vec<String> = first.into_iter().flatten().map(str::to_owned).collect();
        words.extend(self.directives);
        let dir = directory.display().to_string();
        words.extend(["--dir", &dir, "--read-only", "yes"].map(str::to_owned));
        let mut config = Config::default();
        config::load_into(&mut config, None, &words)?;
        let running = OsClock::new();
        let now_ms = time_ms.unwrap_or_else(|| running.now_ms());
        let world = World {
            clock: Arc::new(Standing { now_ms, running }),
            disk: Arc::new(OsDisk),
            entropy: || Box::new(OsEntropy),
            host: Box::new(JemallocHost::new()),
            commit: COMMIT,
            on_ready: || {},
        };
        let served = server::serve(config, world);
        temporary.close()?;
        served?;
        Ok(ExitCode::SUCCESS)
    }
}
