//! The binary `indelible`.
//!
//! ```text
//!   indelible server [redis.conf | -] [--name value ...]     runs the server
//!   indelible ping [HOST:PORT|SOCKET]                        says whether a server serves
//!   indelible log verify|dump|repair DIR                     looks at a redo log, or repairs it
//!   indelible log tail DIR|HOST:PORT                         gives out what has changed, block by block
//!   indelible index verify|stats|rebuild DIR                 looks at the index of a redo log
//!   indelible export DIR FILE                                writes the data of a redo log as a dump
//!   indelible restore SOURCE --into DIR | --in-place ...     makes a data directory of a log as it was
//!   indelible view SOURCE ...                                serves a log as it was, for reading
//!   indelible backup list|timeline|show|verify|export ...    says what can be restored of a log, or an archive
//!   indelible backup tidy|key ...                            thins out an archive, makes its key
//!   indelible transfer serve|send|fetch|token ...            files, verified on the medium they rest on
//!   indelible import SRC DIR                               makes a data directory of a Redis server's files
//!   indelible rdb check|digest|diff FILE ...                 looks at dumps of Redis and Valkey
//!   indelible doctor DIR | HOST[:PORT]                       looks at what a server stands on
//!   indelible tap log|inspect|replay ...                     records a server's requests from the network
//!   indelible --version | --help
//! ```
//!
//! The server's arguments are redis-server's: a file and directives with two dashes in front, so
//! they are read by the configuration's own reader and not by an argument parser.

mod allocator;
mod archive;
mod archive_places;
mod archive_transfer;
mod arguments;
mod backup;
mod backup_moment;
mod backup_tidy;
mod client;
mod daemon;
mod doctor;
mod expiry;
mod export;
mod give_back;
mod host;
mod import;
mod in_place;
mod index;
mod log;
mod login;
#[cfg(test)]
mod man;
mod moment;
mod ping;
mod progress;
mod rdb;
mod restore;
mod run;
mod size;
mod tail;
mod tap;
mod transfer;
mod view;

use std::ffi::OsString;
use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

const HELP: &str = "\
Indelible: an in-memory database that speaks the Redis protocol and loses nothing.

Usage:
  indelible server [FILE | -] [--NAME VALUE ...]
      Runs the server with a configuration in the format of redis.conf. Every directive
      of redis.conf can be given as an option; indelible server --help shows the most important.
  indelible ping [HOST:PORT|SOCKET] [--timeout SECONDS]
      Says whether a server serves, for health checks. Exit code 1: there is no answer; 2: it answers that
      it does not serve, because it loads its data.
  indelible log verify DIR [--device DIR ...]
      Checks the redo log of a server that is not running; the exit code says whether it is good.
  indelible log dump DIR [--json] [--device DIR ...]
      Shows what is in it.
  indelible log get DIR SEGMENT:ORDINAL [--json] [--device DIR ...]
      Shows one record of it, by the address that dump shows.
  indelible log tail DIR|HOST:PORT [--from LSN|now] [--follow]
      Gives out what has changed, one JSON line a block: from the log of a server that is not
      running, or from a running server, also what changes later.
  indelible log repair DIR [--dry-run | --yes] [--device DIR ...]
      Says what of a damaged log is good and what is lost; with --yes makes it start again
      with what is good. The old files are kept.
  indelible index verify|stats DIR
      Checks the index of a redo log (log-index yes), or shows what it has; verify --log compares
      it with the log of a server that is not running.
  indelible index rebuild DIR [--device DIR ...]
      Reads and checks the log of a server that is not running, and builds its index anew.
  indelible export DIR FILE [--lsn N] [--rdb-version V] [--device DIR ...]
      Writes the data of a server that is not running as a dump (an RDB file of Redis), from its
      log alone: as it is, or as it was after block N.
  indelible restore SOURCE --into DIR --at NAME|LSN|TIME | --before flush | --before-delete KEY | --latest
                           [--dry-run] [--expiry absolute|relative|never] [--json]
      Makes a new data directory of another one's log as it was: at a backup, after a block, at a time,
      before the last FLUSHALL, before a key was lost, or now. Its server may run meanwhile. SOURCE may be
      an archive, too: file:///path, transfer:HOST:PORT/name with the token of the environment, or
      s3://bucket/prefix with its credentials; with its --key-file FILE, if it has one.
  indelible restore DIR --in-place --at ... [--device DIR ...] [--json]
      Sets the data directory of a server that has ended back; what it is now is kept as a backup.
  indelible restore SOURCE --at ... --keys PATTERN --to HOST:PORT [--replace] [--expiry absolute|relative|never]
      Brings single keys of the past into a server that runs.
  indelible view SOURCE --at NAME|LSN|TIME | --before flush | --before-delete KEY | --latest [--port 6400]
      Serves the past, to be read: a copy of it, in which nothing expires any more.
  indelible backup list SOURCE [--key-file FILE ...] [--json]
  indelible backup timeline SOURCE [--key-file FILE ...] [--json]
      Says what can be restored: backups, and what happened when.
  indelible backup show NAME|LSN|TIME SOURCE [--json]
      Says what a restore of that state would read; of a backup also the server's configuration then.
  indelible backup verify SOURCE [--backup NAME] [--restore [--at NAME|LSN|TIME]] [--json]
      Reads all of an archive, or every record of the backups of a log and of its newest state; with
      --restore a restore is rehearsed, too. Exit code 2: something is damaged; 3: the
      newest state of an archive cannot be restored.
  indelible backup export SOURCE FILE --at NAME|LSN|TIME | --before flush | --before-delete KEY | --latest
      Writes that state as a dump (an RDB file of Redis).
  indelible backup tidy URL --keep RULES [--forget NAME] [--dry-run] [--json]
      Thins out an archive: --keep \"24h:all 7d:hour 30d:day forever:month\".
  indelible backup key
      Prints a new key for the directive archive-key-file.
  indelible import SRC DIR [--check-only]
      Makes a new data directory of what a Redis or Valkey server has saved: an RDB file, an AOF, or the
      directory of an AOF in several files. All of it is checked first.
  indelible rdb check|digest FILE
      Reads every byte of a dump (an RDB file of Redis or Valkey) and shows what is in it, or its
      fingerprint: what DEBUG DIGEST says of a server that has loaded it.
  indelible doctor DIR | HOST[:PORT] [--device DIR ...] [--user NAME] [--json]
      Looks at the machine, the file system and the disk of a data directory, or at a server that runs,
      and says what to do. Exit code 2: something is to be done.
  indelible rdb diff FILE FILE
      Names the keys in which two dumps differ.
  indelible transfer serve DIR [--listen ADDRESS]
      Receives files into a directory, and gives out what is in it.
  indelible transfer send PATH... HOST:PORT[/DIR]
  indelible transfer fetch HOST:PORT[/PATH] DIR
      Sends or fetches files and trees; every byte is verified on the device on which it rests.
  indelible transfer token
      Prints a new token, for both ends.
  indelible tap log --interface NAME --port PORT --protocol NAME --dir DIR
      Records the requests that reach a server's port, from the network, for replay.
  indelible tap inspect --dir DIR
      Shows what was recorded.
  indelible tap replay --dir DIR --to HOST:PORT [--since POSITION] [--until TIME|POSITION] [--parallel]
      Brings a server back by sending the recorded requests again.
  indelible --version
  indelible --help

Examples:
  indelible server                          port 6379, data in the current directory
  indelible server redis.conf --port 7000
  indelible server --port 7000 --dir /var/lib/indelible --appendfsync everysec
  echo 'port 7000' | indelible server -
";

fn main() -> ExitCode {
    let arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
    if arguments.first().is_some_and(|first| first == "transfer") {
        // Files may have names of any bytes.
        return transfer::transfer(&arguments);
    }
    let arguments = arguments_as_called(std::env::args());
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["server", "--version" | "-v"] | ["--version" | "-v" | "-V"] => {
            println!(
                "Indelible server v={} redis={} sha={} malloc=jemalloc-5 bits={}",
                server::VERSION,
                server::REDIS_VERSION,
                run::COMMIT,
                usize::BITS
            );
            ExitCode::SUCCESS
        }
        ["server", "--help" | "-h"] => {
            print!("{}", run::HELP);
            ExitCode::SUCCESS
        }
        [] | ["--help" | "-h" | "help"] => {
            print!("{HELP}");
            ExitCode::SUCCESS
        }
        ["server", ..] => run::server(&arguments[1..]),
        ["ping", ..] => ping::ping(&arguments),
        ["log", ..] => log::log(&arguments),
        ["index", ..] => index::index(&arguments),
        ["export", ..] => export::export(&arguments),
        ["restore", ..]
            if words.iter().any(|word| *word == "--keys" || word.starts_with("--keys=")) =>
        {
            give_back::give_back(&arguments)
        }
        ["restore", ..] => restore::restore(&arguments),
        ["view", ..] => view::view(&arguments),
        ["backup", ..] => archive::backup(&arguments),
        ["import", ..] => import::import(&arguments),
        ["rdb", ..] => rdb::rdb(&arguments),
        ["doctor", ..] => doctor::doctor(&arguments),
        ["tap", ..] => tap::tap(&arguments),
        [unknown, ..] => {
            eprintln!("unknown command '{unknown}'; try: indelible --help");
            ExitCode::FAILURE
        }
    }
}

/// The arguments behind the program's name. One that is called redis-server is the server: unit
/// files and images that start Redis work as they are.
fn arguments_as_called(mut all: impl Iterator<Item = String>) -> Vec<String> {
    let name = all.next().unwrap_or_default();
    let is_server = std::path::Path::new(&name).file_name().is_some_and(|n| n == "redis-server");
    is_server.then(|| "server".to_owned()).into_iter().chain(all).collect()
}
