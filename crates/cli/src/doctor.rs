//! `indelible doctor`: looks at what a server stands on, before it runs or while it does, and says what to do.
//!
//! ```text
//!   DIR          the machine (open files, memory, clock), and the directory (file system, its options, room, syncs)
//!   HOST:PORT    what the server says of itself; if it is on this machine, the same of it, and of its directories
//! ```
//!
//! A finding is what was seen, and what to do where that is worse than it could be. Nothing is changed: a small file is made in a
//! directory, to time its syncs, and removed.

mod machine;
mod place;
mod server;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Parser;
use serde_json::json;

use crate::login::Login;

/// Looks at the machine, the file system and the disk of a data directory, or at a server that runs, and says what to do.
/// Exits with 0 if nothing is to be done, with 2 if something is, and with 1 if it could not look.
#[derive(Parser)]
#[command(name = "indelible doctor", version)]
pub(crate) struct Arguments {
    /// A directory for data, or a server: HOST, or HOST:PORT (the password is in REDISCLI_AUTH).
    place: String,
    /// The directories of log-devices; a server names its own.
    #[arg(long = "device", value_name = "DIRECTORY")]
    devices: Vec<PathBuf>,
    #[command(flatten)]
    login: Login,
    /// One JSON object a line.
    #[arg(long)]
    json: bool,
}

/// Something that was looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Finding {
    /// What it is of: a directory, the machine, a server.
    of: String,
    /// What was looked at.
    what: &'static str,
    seen: String,
    /// What to do, if anything is.
    advice: Option<String>,
}

impl Finding {
    fn good(of: &str, what: &'static str, seen: impl Into<String>) -> Self {
        Self { of: of.to_owned(), what, seen: seen.into(), advice: None }
    }

    fn new(of: &str, what: &'static str, seen: impl Into<String>, advice: Option<&str>) -> Self {
        let advice = advice.map(str::to_owned);
        Self { of: of.to_owned(), what, seen: seen.into(), advice }
    }

    fn line(&self) -> String {
        let Self { of, what, seen, advice } = self;
        match advice {
            None => format!("ok    {of}: {what}: {seen}"),
            Some(advice) => format!("LOOK  {of}: {what}: {seen}\n      {advice}"),
        }
    }

    fn json(&self) -> serde_json::Value {
        let Self { of, what, seen, advice } = self;
        json!({ "of": of, "what": what, "seen": seen, "is_good": advice.is_none(), "advice": advice })
    }
}

/// Runs `indelible doctor` with these arguments, the first of which is `doctor`.
pub(crate) fn doctor(arguments: &[String]) -> ExitCode {
    crate::arguments::run(arguments, |arguments: Arguments| {
        let findings = look(&arguments)?;
        for finding in &findings {
            if arguments.json {
                println!("{}", finding.json());
            } else {
                println!("{}", finding.line());
            }
        }
        let is_good = findings.iter().all(|finding| finding.advice.is_none());
        Ok(ExitCode::from(if is_good { 0 } else { 2 }))
    })
}

fn look(arguments: &Arguments) -> anyhow::Result<Vec<Finding>> {
    let Arguments { place, devices, login, .. } = arguments;
    let directory = Path::new(place);
    let mut findings;
    let mut directories = devices.clone();
    if directory.is_dir() {
        findings = machine::look(None);
        directories.insert(0, directory.to_owned());
    } else if place.contains('/') {
        anyhow::bail!(
            "{place}: there is no such directory; give one for data, or HOST[:PORT] of a server"
        );
    } else if !devices.is_empty() {
        anyhow::bail!("--device is for a directory: a server names its own");
    } else {
        let server = server::ask(place, login)?;
        findings = server.findings;
        if server.is_here {
            findings.extend(machine::look(server.process));
            directories = server.directories;
        }
    }
    for directory in directories {
        findings.extend(place::look(&directory)?);
    }
    Ok(findings)
}
