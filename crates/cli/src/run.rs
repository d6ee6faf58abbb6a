//! `indelible server`: reads the configuration and runs the server in the real world.

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use env_os::{OsClock, OsDisk, OsEntropy};
use server::World;
use server::config::{self, Config};

use crate::host::JemallocHost;
use crate::{archive_places, daemon};

/// The commit that the program was built from.
pub(crate) const COMMIT: &str = env!("INDELIBLE_COMMIT");

/// What `indelible server --help` says.
pub(crate) const HELP: &str = "\
Runs the server: it speaks the Redis protocol, and its redo log is the database.

Usage:
  indelible server [FILE | -] [--NAME VALUE ...]
  redis-server [FILE | -] [--NAME VALUE ...]        when the program is called by that name

  FILE is a configuration in the format of redis.conf, - reads one from the standard input.
  Every directive can be given as an option; options come after the file and replace its lines.
  -v, --version   Says which version this is.
  -h, --help      Says this.

The most important directives (default):
  port 6379                  where clients connect; bind (*), unixsocket PATH
  dir .                      the data directory, which must exist
  appendonly yes             whether there is a redo log; off only together with save \"\"
  appendfsync always         when a write is answered: always (durable), everysec, no (written)
  log-devices                directories on several disks for the log (one below dir)
  tls-port 0                 a port with TLS; tls-cert-file, tls-key-file, tls-ca-cert-file (docs/tls.md)
  requirepass                a password; without one only this machine is served (protected-mode)
  maxmemory 0                the limit of memory, 0 for none; maxmemory-policy (noeviction)
  maxclients 10000           how many clients at once
  logfile \"\"                 where messages go, the standard output when empty; loglevel
  daemonize no               go to the background; pidfile, supervised
  rename-command OLD NEW     call a command otherwise, or by no name (\"\")
  ignore-redis-files no      start empty in a directory with the files of a Redis server; otherwise they
                             are imported (import-skip-unknown no)

The rest: docs/configuration.md; CONFIG GET * shows all of them with their values.
A directive of Redis that has no effect here is accepted and named at the start; one that
must not be ignored (replication, cluster, modules) is refused with a reason.

Examples:
  indelible server                          port 6379, data in the current directory
  indelible server redis.conf --port 7000
  indelible server --port 7000 --dir /var/lib/indelible --appendfsync everysec
  echo 'port 7000' | indelible server -

What else the program does (redo logs, files to other machines, other servers' requests):
indelible --help
";

/// Runs the server; its exit code.
pub(crate) fn server(arguments: &[String]) -> ExitCode {
    let (file, options) = match arguments {
        [file, options @ ..] if file == "-" || !file.starts_with('-') => {
            (Some(file.as_str()), options)
        }
        options => (None, options),
    };
    let clock = Arc::new(OsClock::new());
    let mut config = Config::default();
    if let Err(error) = config::load_into(&mut config, file, options) {
        eprintln!("{error}");
        server::log_wrong_configuration(&config, &error, clock);
        return ExitCode::FAILURE;
    }
    if config.is_yes("daemonize") && !daemon::is_child() {
        // The child reads the configuration again, and must find the same.
        if let Some(path) = file
            && !Path::new(path).is_file()
        {
            let why = format!(
                "{path}: daemonize yes needs a configuration in a file, as it is read again in the \
                 background; use a file, or daemonize no"
            );
            eprintln!("{why}");
            return ExitCode::FAILURE;
        }
        return daemon::start(arguments);
    }
    let world = World {
        clock,
        disk: Arc::new(OsDisk),
        entropy: || Box::new(OsEntropy),
        host: Box::new(JemallocHost::new()),
        open_archive: archive_places::open,
        commit: COMMIT,
        on_ready: if daemon::is_child() { daemon::report_ready } else { || {} },
    };
    match server::serve(config, world) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("{why}");
            ExitCode::FAILURE
        }
    }
}
