//! `indelible view`: serves the past, for reading.
//!
//! What a restore makes is made in a temporary directory and served by a server in which nothing can be
//! written, and for which the time stands still: a key that had not expired then has not now.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::bail;
use clap::Parser;
use env::Clock;
use env_os::{OsClock, OsDisk, OsEntropy};
use server::World;
use server::config::{self, Config};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use tempfile::TempDir;

use crate::archive::NOT_NEWEST;
use crate::client::password;
use crate::host::JemallocHost;
use crate::moment::Moment;
use crate::run::COMMIT;

/// Serves a log as it was, to look at and to compare: from a copy in a temporary directory, which takes as much room as the
/// data did then and is removed at the end. Commands that write are refused, and the time stands still at that moment: what had not
/// expired is there. The server of the log may run meanwhile.
#[derive(Parser)]
#[command(name = "indelible view", version)]
pub(crate) struct Arguments {
    #[command(flatten)]
    moment: Moment,
    /// Where clients connect; 0 for no port.
    #[arg(long, default_value_t = 6400)]
    port: u16,
    /// The directory in which the copy is made; without it, the system's for temporary files.
    #[arg(long, value_name = "DIR")]
    temporary: Option<PathBuf>,
    /// Ends when the standard input does.
    #[arg(long, hide = true)]
    until_input_ends: bool,
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

    fn stands_still(&self) -> bool {
        true
    }

    fn monotonic_us(&self) -> u64 {
        self.running.monotonic_us()
    }
}

/// Runs `indelible view` with these arguments, the first of which is `view`.
pub(crate) fn view(arguments: &[String]) -> ExitCode {
    crate::arguments::run(arguments, Arguments::run)
}

impl Arguments {
    fn run(self) -> anyhow::Result<ExitCode> {
        let near = room_for_a_copy(self.temporary.as_deref())?;
        let is_given_up = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            signal_hook::flag::register(signal, Arc::clone(&is_given_up))?;
        }
        if self.until_input_ends {
            end_with_input(&is_given_up)?;
        }
        let temporary = tempfile::Builder::new().prefix("indelible-view-").tempdir_in(near)?;
        let directory = temporary.path().join("data");
        let Some(made) = self.moment.restore_into(&directory, &is_given_up)? else {
            return Ok(ExitCode::FAILURE);
        };
        if is_given_up.load(Ordering::Acquire) {
            return Ok(ExitCode::FAILURE);
        }
        if made.time_ms.is_none() {
            eprintln!(
                "when that block was ended is not known: keys that have expired since are not shown"
            );
        }
        if self.port > 0 {
            let how = if password().is_some() {
                "with the password of REDISCLI_AUTH"
            } else {
                "without a password (REDISCLI_AUTH sets one)"
            };
            eprintln!(
                "the state after block {}, to be read: redis-cli -p {}, {how}",
                made.lsn, self.port
            );
        }
        let is_newest = made.is_newest;
        self.serve(&directory, made.time_ms, temporary)?;
        // Why it is not was said when it was restored.
        Ok(if is_newest { ExitCode::SUCCESS } else { ExitCode::from(NOT_NEWEST) })
    }

    fn serve(
        self,
        directory: &Path,
        time_ms: Option<i64>,
        temporary: TempDir,
    ) -> anyhow::Result<()> {
        let port = self.port.to_string();
        let password = password().unwrap_or_default();
        let first = [
            ["--port", &port],
            ["--bind", "127.0.0.1"],
            ["--requirepass", &password],
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
            open_archive: crate::archive_places::open,
            commit: COMMIT,
            on_ready: || {},
        };
        let served = server::serve(config, world);
        temporary.close()?;
        Ok(served?)
    }
}

/// The directory for a copy of a log: the one that was given, or the system's for temporary files, unless that is memory.
pub(crate) fn room_for_a_copy(given: Option<&Path>) -> anyhow::Result<PathBuf> {
    /// What statfs says of a file system in memory.
    const TMPFS: i64 = 0x0102_1994;
    if let Some(given) = given {
        return Ok(std::path::absolute(given)?);
    }
    let near = std::env::temp_dir();
    let is_memory = rustix::fs::statfs(&near).is_ok_and(|it| it.f_type == TMPFS);
    if is_memory {
        bail!(
            "{} is in memory: say where the copy of the log is to be made, with --temporary DIR",
            near.display()
        );
    }
    Ok(near)
}

/// Ends this process as a signal does, when nothing more comes in: what has started it has ended.
fn end_with_input(is_given_up: &Arc<AtomicBool>) -> std::io::Result<()> {
    let is_given_up = Arc::clone(is_given_up);
    std::thread::Builder::new().name("input".to_owned()).spawn(move || {
        let _ended = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
        is_given_up.store(true, Ordering::Release);
        let _gone =
            rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::TERM);
    })?;
    Ok(())
}
