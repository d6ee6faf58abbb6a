//! `indelible rdb`: looks at dumps, the RDB files of any server of the family.

mod check;
mod diff;

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context as _;
use clap::{Parser, Subcommand};
use rdb::{Checksum, Digest, Event, Limits, Reader, Version};

use crate::arguments::with_causes;
use crate::progress::Said;
use crate::size::Size;

/// Smaller dumps are read before a person wonders how far that is.
const SAID_BYTES_MIN: u64 = 256 << 20;

/// Looks at dumps (RDB files) of Redis up to 8.10 and Valkey up to 9.0. Nothing is changed.
#[derive(Parser)]
#[command(name = "indelible rdb", version)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    action: Action,
    /// The longest string or packed value that is read.
    #[arg(long, global = true, default_value = "512M", value_name = "SIZE")]
    string_bytes_max: Size,
}

#[derive(Subcommand)]
enum Action {
    /// Reads every byte of a dump and shows what is in it; exits with 0 when it is good.
    Check {
        /// The dump.
        file: PathBuf,
    },
    /// Prints the fingerprint of a dump's data: what DEBUG DIGEST says of a server that has loaded it; of Redis from
    /// 7.2 on only where no score of a sorted set is a fraction. Streams, modules' values and arrays are not in it.
    Digest {
        /// The dump.
        file: PathBuf,
    },
    /// Compares the data of two dumps, in any order, and names the first hundred keys that differ; exits with 0
    /// when none does. Takes 20 bytes of memory for each key of the first one, for a moment up to twice that.
    /// Streams, modules' values and arrays are compared by name and type only, idle times not at all.
    Diff {
        /// One dump.
        first: PathBuf,
        /// The other one.
        second: PathBuf,
    },
}

/// Runs `indelible rdb` with these arguments, the first of which is `rdb`.
pub(crate) fn rdb(arguments: &[String]) -> ExitCode {
    let arguments: Arguments = match crate::arguments::parse(arguments, ExitCode::FAILURE) {
        Ok(arguments) => arguments,
        Err(code) => return code,
    };
    let limits = Limits { string_bytes_max: arguments.string_bytes_max.0 };
    let done = match &arguments.action {
        Action::Check { file } => check::check(&Dump::new(file, limits)),
        Action::Digest { file } => digest(&Dump::new(file, limits)),
        Action::Diff { first, second } => {
            diff::diff(&Dump::new(first, limits), &Dump::new(second, limits))
        }
    };
    match done {
        Ok(code) => code,
        Err(error) => {
            eprintln!("{}", with_causes(&error));
            ExitCode::FAILURE
        }
    }
}

/// A dump to be read, perhaps more than once.
struct Dump<'a> {
    path: &'a Path,
    limits: Limits,
}

/// What is known of a dump that was read to its end.
struct Whole {
    version: Version,
    bytes: u64,
    checksum: Checksum,
}

impl<'a> Dump<'a> {
    fn new(path: &'a Path, limits: Limits) -> Self {
        Self { path, limits }
    }

    /// Reads it from beginning to end, and shows each event.
    fn read(&self, mut each: impl FnMut(&Event<'_>)) -> anyhow::Result<Whole> {
        let path = self.path.display();
        let file = File::open(self.path).with_context(|| format!("cannot open {path}"))?;
        let file_bytes = file.metadata().map(|metadata| metadata.len()).unwrap_or_default();
        let wrong = |error: rdb::Error| anyhow::anyhow!("{path} {error}");
        let mut reader = Reader::new(file, self.limits).map_err(wrong)?;
        let is_long = file_bytes >= SAID_BYTES_MIN;
        let (mut said, mut said_next) = (Said::default(), if is_long { 0 } else { u64::MAX });
        loop {
            let event = reader.next().map_err(wrong)?;
            each(&event);
            if let Event::End { checksum } = event {
                let (version, bytes) = (reader.version(), reader.offset());
                return Ok(Whole { version, bytes, checksum });
            }
            if reader.offset() >= said_next {
                said.say("reading", reader.offset() * 100 / file_bytes);
                said_next = reader.offset() + file_bytes / 1000;
            }
        }
    }
}

fn digest(dump: &Dump<'_>) -> anyhow::Result<ExitCode> {
    let (mut digest, mut foreign) = (Digest::default(), 0_u64);
    dump.read(|event| {
        digest.take(event);
        foreign += u64::from(matches!(event, Event::Foreign { .. }));
    })?;
    if foreign > 0 {
        eprintln!(
            "not in the fingerprint: {foreign} keys that are streams of Redis 8.6 or newer, modules' values or arrays"
        );
    }
    println!("{}", digest.finish().text());
    Ok(ExitCode::SUCCESS)
}
