//! `indelible import`: data of a Redis server as a new data directory.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context as _;
use clap::Parser;
use env::{Clock as _, Disk};
use env_os::{OsClock, OsDisk, OsEntropy};
use server::config::{self, Config};
use server::import::{Built, Checked, Place, Progress, Source};
use server::{import, start_log};

use crate::arguments::with_causes;
use crate::progress::Line;
use crate::size::Size;

/// Makes a new data directory of what a Redis or Valkey server has saved.
///
/// SRC is an RDB file, an AOF (with or without an RDB preamble), or the directory of an AOF in several files
/// (appendonlydir, a backup set) or its manifest. It is only read, twice: first all of it is checked, then it is
/// imported. DIR appears as a whole, when everything in it is durable; what an interrupted import has left is
/// removed by the next one.
#[derive(Parser)]
#[command(name = "indelible import", version)]
pub(crate) struct Arguments {
    /// What is imported.
    #[arg(value_name = "SRC")]
    source: PathBuf,
    /// The new data directory: it must not exist, or be empty.
    #[arg(value_name = "DIR", required_unless_present = "check_only")]
    directory: Option<PathBuf>,
    /// Checks all of SRC, shows what is in it, and imports nothing.
    #[arg(long)]
    check_only: bool,
    /// Leaves out what is not served (streams, modules' values, arrays, hashes with fields that expire, their
    /// commands in an AOF) instead of refusing it.
    #[arg(long)]
    import_skip_unknown: bool,
    /// How many databases there may be; the server needs the same.
    #[arg(long, default_value_t = 16, value_name = "N")]
    databases: u32,
    /// Whether the last AOF may end in the middle of a command, which is left out then: yes or no.
    #[arg(long, default_value = "yes", value_name = "YES|NO", value_parser = ["yes", "no"])]
    aof_load_truncated: String,
    /// The longest string that is read.
    #[arg(long, default_value = "512M", value_name = "SIZE")]
    string_bytes_max: Size,
    /// A directory for the log, on a disk of its own; the server needs the same as log-devices.
    #[arg(long = "device", value_name = "DIR")]
    devices: Vec<PathBuf>,
}

impl Arguments {
    /// What a server would be told.
    fn config(&self) -> anyhow::Result<Config> {
        let yes_no = |is: bool| if is { "yes" } else { "no" };
        let mut words: Vec<String> = [
            "--databases",
            &self.databases.to_string(),
            "--proto-max-bulk-len",
            &self.string_bytes_max.0.to_string(),
            "--aof-load-truncated",
            &self.aof_load_truncated,
            "--import-skip-unknown",
            yes_no(self.import_skip_unknown),
        ]
        .map(str::to_owned)
        .to_vec();
        if !self.devices.is_empty() {
            words.push("--log-devices".to_owned());
            for device in &self.devices {
                let path = std::path::absolute(device)?;
                words
                    .push(path.to_str().context("a device has a name that is no text")?.to_owned());
            }
        }
        Ok(config::load(None, &words)?)
    }
}

/// Runs `indelible import` with these arguments, the first of which is `import`.
pub(crate) fn import(arguments: &[String]) -> ExitCode {
    let arguments: Arguments = match crate::arguments::parse(arguments, ExitCode::FAILURE) {
        Ok(arguments) => arguments,
        Err(code) => return code,
    };
    match run(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{}", with_causes(&error));
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let config = arguments.config()?;
    let disk: Arc<dyn Disk> = Arc::new(OsDisk);
    let clock = Arc::new(OsClock::new());
    let directory = arguments.directory.as_deref().map(std::path::absolute).transpose()?;
    if let Some(directory) = directory.as_deref().filter(|_| !arguments.check_only) {
        refuse_files(&*disk, directory, &arguments.devices)?;
    }
    let started_us = clock.monotonic_us();
    let source = Source::open(&*disk, &arguments.source)?;
    let mut line = Line::new();
    let mut tell = |so_far: Progress| {
        line.show(so_far.stage.name(), so_far.bytes_done, so_far.bytes_total, so_far.items);
    };
    let checked = import::check(&source, &config, &mut tell)?;
    let Some(directory) = directory.filter(|_| !arguments.check_only) else {
        line.end();
        show(&checked);
        return Ok(());
    };
    let is_new = !directory.exists();
    let place = Place {
        disk,
        clock: Arc::clone(&clock) as _,
        entropy: || Box::new(OsEntropy),
        directory: directory.clone(),
        start: start_log,
    };
    let built = import::build(&place, None, &source, &checked, &config, &mut tell);
    line.end();
    if built.is_err() && is_new {
        remove_new(&directory);
    }
    let Built { mut report, keyspace } = built?;
    // The process ends: nothing needs its memory.
    std::mem::forget(keyspace);
    report.micros = clock.monotonic_us() - started_us;
    report.lines().iter().for_each(|line| println!("{line}"));
    Ok(())
}

fn show(checked: &Checked) {
    checked.warnings.iter().for_each(|warning| println!("WARNING: {warning}"));
    checked.contents.lines().iter().for_each(|line| println!("{line}"));
    println!("good");
}

/// What an import may have left in a directory in which there was nothing before, or a file system begins with.
const LEFTOVERS: [&str; 5] = ["import-tmp", "redo", "redo.lock", "redo.tmp", "lost+found"];

/// Refuses a directory with anything in it that no interrupted import has left.
fn refuse_files(disk: &dyn Disk, directory: &Path, devices: &[PathBuf]) -> anyhow::Result<()> {
    if !directory.exists() {
        return Ok(());
    }
    let names =
        disk.list(directory).with_context(|| format!("cannot use {}", directory.display()))?;
    let is_unfinished = import::is_unfinished(disk, directory);
    let mut below = vec![directory.join("redo")];
    for device in devices {
        let device = std::path::absolute(device)?;
        below.extend(device.starts_with(directory).then_some(device));
    }
    // Directories of devices, and those in which they are.
    let is_on_the_way = |path: &Path| below.iter().any(|device| device.starts_with(path));
    let is_other = |name: &&OsString| {
        !LEFTOVERS.iter().any(|left| **name == *left) && !is_on_the_way(&directory.join(name))
    };
    let mut segments = below.iter().flat_map(|device| disk.list(device).unwrap_or_default());
    let has_segments = segments.any(|name| name != "lost+found");
    if names.iter().any(|name| is_other(&name)) || (has_segments && !is_unfinished) {
        anyhow::bail!(
            "{} is not empty: data is imported into a new directory, as one log cannot be added to another",
            directory.display()
        );
    }
    Ok(())
}

/// Removes a directory that an import has made, and that has nothing in it any more.
fn remove_new(directory: &Path) {
    let _kept = std::fs::remove_file(directory.join("redo.lock"));
    let _kept = std::fs::remove_dir(directory);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_import_leaves_is_not_in_its_way() {
        let place = tempfile::tempdir().unwrap();
        let directory = place.path().join("data");
        let devices = [directory.join("on/disk1"), place.path().join("elsewhere")];
        let is_refused = || refuse_files(&OsDisk, &directory, &devices).is_err();
        let make = |name: &str| std::fs::create_dir_all(directory.join(name)).unwrap();
        assert!(!is_refused());
        for name in ["lost+found", "redo", "on/disk1", "on/disk1/lost+found"] {
            make(name);
            assert!(!is_refused(), "{name}");
        }
        std::fs::write(directory.join("redo.tmp"), "x").unwrap();
        std::fs::write(directory.join("redo.lock"), "").unwrap();
        assert!(!is_refused());
        for segment in ["redo/00000001.redo", "on/disk1/00000002.redo"] {
            std::fs::write(directory.join(segment), "x").unwrap();
            assert!(is_refused(), "{segment}");
            make("import-tmp");
            assert!(!is_refused(), "{segment}");
            std::fs::remove_dir(directory.join("import-tmp")).unwrap();
            std::fs::remove_file(directory.join(segment)).unwrap();
        }
        make("import-tmp");
        make("other");
        assert!(is_refused());
    }
}
