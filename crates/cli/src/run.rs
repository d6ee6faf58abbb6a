//! `indelible server`: reads the configuration and runs the server in the real world.

use std::os::unix::process::CommandExt as _;
use std::process::{Command, ExitCode, Stdio};
use std::sync::Arc;

use env_os::{OsClock, OsDisk, OsEntropy};
use server::World;
use server::config;

use crate::host::JemallocHost;

/// Set in the environment of a server that has gone to the background already.
const DAEMON_MARK: &str = "INDELIBLE_DAEMON";

/// Runs the server; its exit code.
pub(crate) fn server(arguments: &[String]) -> ExitCode {
    let (file, options) = match arguments {
        [file, options @ ..] if file == "-" || !file.starts_with('-') => {
            (Some(file.as_str()), options)
        }
        options => (None, options),
    };
    let config = match config::load(file, options) {
        Ok(config) => config,
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::FAILURE;
        }
    };
    if config.is_yes("daemonize") && std::env::var_os(DAEMON_MARK).is_none() {
        return daemonize(arguments);
    }
    let world = World {
        clock: Arc::new(OsClock::new()),
        disk: Arc::new(OsDisk),
        entropy: || Box::new(OsEntropy),
        host: Box::new(JemallocHost::new()),
    };
    match server::serve(config, world) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("{why}");
            ExitCode::FAILURE
        }
    }
}

/// Starts the server again in the background, out of this terminal's reach (`daemonize yes`).
fn daemonize(arguments: &[String]) -> ExitCode {
    let started = std::env::current_exe().and_then(|program| {
        Command::new(program)
            .arg("server")
            .args(arguments)
            .env(DAEMON_MARK, "1")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
    });
    match started {
        Ok(_) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("cannot go to the background: {error}");
            ExitCode::FAILURE
        }
    }
}
