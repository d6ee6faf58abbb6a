//! `indelible export`: writes the data of a server that is not running as a dump, an RDB file.

use std::io::{IsTerminal as _, stdout};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

use clap::Parser;
use env::Clock as _;
use env_os::{OsClock, OsDisk};
use rdb::{Version, WriteOptions};
use server::export::{Exported, Exporting, Output, Request};

use crate::progress::Said;

/// The memory for sorting.
const MEMORY_BYTES: usize = 64 << 20;

/// Writes the data of a server that is not running as a dump (an RDB file), from its log alone. Nothing in the
/// data directory is changed. Of a running server BGSAVE and redis-cli --rdb make one.
#[derive(Parser)]
#[command(name = "indelible export", version)]
pub(crate) struct Arguments {
    /// The data directory of the server.
    directory: PathBuf,
    /// The dump, which appears when it is complete; - for standard output.
    file: PathBuf,
    /// The state after this block of the log, instead of the one at its end. indelible log verify says which
    /// blocks there are, log dump when each was written.
    #[arg(long, value_name = "N")]
    lsn: Option<u64>,
    /// How the dump is labelled: 9 to 15 of Redis, or 80 of Valkey. What is in it is the same. Without it 9, or 10
    /// if there are libraries of functions.
    #[arg(long, value_name = "V", value_parser = version)]
    rdb_version: Option<Version>,
    /// The directories of log-devices; without them, those that the log itself names.
    #[arg(long = "device", visible_alias = "log-devices", value_name = "DIRECTORY", num_args = 1..)]
    devices: Vec<PathBuf>,
    /// Where what does not fit into memory is sorted; without it, next to the dump, or where the system has
    /// temporary files if it goes to standard output.
    #[arg(long, value_name = "DIRECTORY")]
    temporary: Option<PathBuf>,
}

/// The version of dumps that is called so.
pub(crate) fn version(text: &str) -> Result<Version, &'static str> {
    match text.parse() {
        Ok(80) => Ok(Version::Valkey(80)),
        Ok(number @ 9..=15) => Ok(Version::Redis(number)),
        _ => Err("choose 9 to 15 (Redis) or 80 (Valkey)"),
    }
}

/// Runs `indelible export` with these arguments, the first of which is `export`.
pub(crate) fn export(arguments: &[String]) -> ExitCode {
    crate::arguments::run(arguments, Arguments::run)
}

impl Arguments {
    fn run(self) -> anyhow::Result<ExitCode> {
        let directory = &self.directory;
        if !redo::is_there(&OsDisk, directory) {
            crate::log::say_no_log(directory);
            return Ok(ExitCode::from(2));
        }
        if redo::is_in_use(&OsDisk, directory)? {
            anyhow::bail!(
                "{} is in use by a server: BGSAVE there, or redis-cli --rdb, writes its data; or stop it first",
                directory.display()
            );
        }
        let dump = Dump {
            directory,
            devices: &self.devices,
            lsn: self.lsn,
            version: self.rdb_version,
            temporary: self.temporary.as_deref(),
        };
        let written = dump.write(&self.file)?;
        let report = report(&written.exported, written.seconds);
        // The dump is there, whether the report can be told or not.
        if written.is_streamed {
            eprint!("{report}")
        } else {
            print!("{report}")
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// A dump of a log that no server has open.
pub(crate) struct Dump<'a> {
    pub(crate) directory: &'a Path,
    pub(crate) devices: &'a [PathBuf],
    pub(crate) lsn: Option<u64>,
    /// How it is labelled; without it as old as what is in it allows.
    pub(crate) version: Option<Version>,
    pub(crate) temporary: Option<&'a Path>,
}

/// A dump that was written.
pub(crate) struct Written {
    pub(crate) exported: Exported,
    pub(crate) is_streamed: bool,
    pub(crate) seconds: f64,
}

impl Dump<'_> {
    /// Writes it to a file, or for `-` to the standard output.
    pub(crate) fn write(&self, to: &Path) -> anyhow::Result<Written> {
        let is_streamed = to == Path::new("-");
        let (output, near) = if is_streamed {
            if stdout().is_terminal() {
                anyhow::bail!("a dump is not for people to read: give a file, or lead it into one");
            }
            (Output::Stream(Box::new(stdout().lock())), std::env::temp_dir())
        } else {
            let file = std::path::absolute(to)?;
            if file.is_dir() {
                anyhow::bail!("{} is a directory: give the name of a file", file.display());
            }
            let parent = file.parent().map(Path::to_owned).unwrap_or_default();
            (Output::File(file), parent)
        };
        let started = Instant::now();
        let exported = self.write_to(output, near)?;
        Ok(Written { exported, is_streamed, seconds: started.elapsed().as_secs_f64() })
    }

    /// Writes it to nowhere: whether it can be.
    pub(crate) fn rehearse(&self) -> anyhow::Result<Exported> {
        self.write_to(Output::Stream(Box::new(std::io::sink())), std::env::temp_dir())
    }

    fn write_to(&self, output: Output, near: PathBuf) -> anyhow::Result<Exported> {
        let request = Request {
            directory: self.directory,
            devices: self.devices,
            lsn: self.lsn,
            form: match self.version {
                Some(version) => WriteOptions { version, ..WriteOptions::default() },
                None => WriteOptions::default(),
            },
            may_raise_version: self.version.is_none(),
            now_ms: OsClock::new().now_ms(),
            disk: Arc::new(OsDisk),
            temporary: self.temporary.map_or(near, Path::to_owned),
            memory_bytes: MEMORY_BYTES,
        };
        let mut said = Said::default();
        let exported = server::export::export(&request, output, &mut |so_far| match so_far {
            Exporting::Reading(percentage) => said.say("reading the log", percentage),
            Exporting::Sorting(percentage) => said.say("finding what is needed", percentage),
            Exporting::Writing(percentage) => said.say("writing", percentage),
        })?;
        Ok(exported)
    }
}

/// How many keys are in all databases of a dump.
pub(crate) fn keys_of(exported: &Exported) -> u64 {
    exported.keys.values().flat_map(|types| types.values()).sum()
}

/// What was exported, for a person.
pub(crate) fn report(exported: &Exported, seconds: f64) -> String {
    use std::fmt::Write as _;
    let Exported { lsn, newest, cut_bytes, bytes, keys, libraries, figures } = exported;
    let mut text = String::new();
    for (database, types) in keys {
        let all: u64 = types.values().sum();
        let types: Vec<String> =
            types.iter().map(|(name, count)| format!("{name} {count}")).collect();
        let _infallible = writeln!(text, "database {database}: {all} keys: {}", types.join(", "));
    }
    if *libraries > 0 {
        let _infallible = writeln!(text, "libraries of functions: {libraries}");
    }
    if figures.lost_keys > 0 {
        let _infallible = writeln!(
            text,
            "not in it: {} keys whose values are lost, see indelible log verify",
            figures.lost_keys
        );
    }
    if *cut_bytes > 0 {
        let _infallible = writeln!(
            text,
            "{cut_bytes} bytes behind block {newest} are torn or follow a gap; the next start cuts them off"
        );
    }
    let what = if lsn == newest { "the end of the log," } else { "the state after" };
    let _infallible = writeln!(
        text,
        "exported {what} block {lsn}: {} keys in {bytes} bytes, in {seconds:.1} s",
        figures.keys
    );
    text
}
