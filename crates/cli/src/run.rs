//! `indelible server`: reads the configuration and runs the server in the real world.

use std::process::ExitCode;
use std::sync::Arc;

use env_os::{OsClock, OsDisk, OsEntropy};
use server::World;
use server::config;

use crate::host::JemallocHost;

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
