//! `indelible backup`: what of a log can be restored.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use env_os::OsDisk;
use redo::{BlockTime, NamedBackup, NotedCommand, StoredHistory, TimeOfBlock};

use crate::progress::Said;

/// Says what `indelible restore` can restore of the log in a data directory. Its server may run meanwhile.
#[derive(Parser)]
#[command(name = "indelible backup", version)]
struct Arguments {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// Lists the backups.
    List(Source),
    /// Shows from which block on every state can be restored, backups, the points before databases were emptied or
    /// exchanged, and the last dangerous commands.
    Timeline(Source),
}

#[derive(clap::Args)]
struct Source {
    /// The data directory of the server.
    source: PathBuf,
    /// Says it as an object of JSON.
    #[arg(long)]
    json: bool,
    /// The directories of log-devices; without them, those that the log itself names.
    #[arg(long = "device", visible_alias = "log-devices", value_name = "DIRECTORY", num_args = 1..)]
    devices: Vec<PathBuf>,
}

/// Runs `indelible backup` with these arguments, the first of which is `backup`.
pub(crate) fn backup(arguments: &[String]) -> ExitCode {
    let arguments: Arguments = match crate::arguments::parse(arguments, ExitCode::FAILURE) {
        Ok(arguments) => arguments,
        Err(code) => return code,
    };
    match arguments.run() {
        Ok(code) => code,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

impl Arguments {
    fn run(self) -> redo::Result<ExitCode> {
        let (source, is_list) = match self.what {
            What::List(source) => (source, true),
            What::Timeline(source) => (source, false),
        };
        let mut said = Said::default();
        let mut progress = |done: u64, all: u64| {
            said.say("reading the log", done.saturating_mul(100) / all.max(1));
        };
        let Source { source, json, devices } = source;
        let reader = std::process::id();
        let found = redo::stored_history(&OsDisk, &source, &devices, reader, &mut progress)?;
        let Some(history) = found else {
            crate::log::say_no_log(&source);
            return Ok(ExitCode::from(2));
        };
        match (json, is_list) {
            (true, true) => println!("{}", serde_json::json!({ "backups": backups(&history) })),
            (true, false) => println!("{}", json_of(&history)),
            (false, true) => print!("{}", list(&history)),
            (false, false) => print!("{}", timeline(&history)),
        }
        Ok(ExitCode::SUCCESS)
    }
}

const fn state_of(backup: &NamedBackup) -> &'static str {
    if backup.is_lost { "lost" } else { "restorable" }
}

fn list(history: &StoredHistory) -> String {
    let mut text = String::new();
    for backup in &history.backups {
        let NamedBackup { id, name, lsn, time_ms, .. } = backup;
        let (made, state) = (TimeOfBlock(*time_ms), state_of(backup));
        let _infallible = writeln!(text, "b-{id:06} {name}: block {lsn}, made {made}, {state}");
    }
    if history.backups.is_empty() {
        text.push_str("there are no backups\n");
    }
    text
}

fn timeline(history: &StoredHistory) -> String {
    let StoredHistory { floor, floor_ms, last: (last, last_ms), flushes, commands, .. } = history;
    let mut entries: Vec<((u64, u8), String)> = Vec::new();
    for backup in &history.backups {
        let (made, state) = (TimeOfBlock(backup.time_ms), state_of(backup));
        let what = format!("{made}  backup {}, {state}", backup.name);
        entries.push(((backup.lsn.0, 1), what));
    }
    for BlockTime { lsn, time_ms } in flushes {
        let at = TimeOfBlock(*time_ms);
        entries.push(((lsn.0, 2), format!("{at}  before databases were emptied or exchanged")));
    }
    for NotedCommand { lsn, time_ms, command } in commands {
        let (at, redo::DangerousCommand { user, address, text, .. }) =
            (TimeOfBlock(*time_ms), command);
        entries.push(((lsn.0, 0), format!("{at}  {text} by {user} from {address}")));
    }
    entries.sort_by_key(|(place, _)| *place);
    let mut shown = String::new();
    let since =
        if *floor_ms == 0 { String::new() } else { format!(", since {}", TimeOfBlock(*floor_ms)) };
    let _infallible = writeln!(shown, "every block from {floor} on can be restored{since}");
    for ((lsn, _), what) in entries {
        let _infallible = writeln!(shown, "{lsn:>12}  {what}");
    }
    let ended = last_ms.map_or(String::new(), |ms| format!("{}  ", TimeOfBlock(ms)));
    let _infallible = writeln!(shown, "{last:>12}  {ended}the last block");
    shown
}

fn backups(history: &StoredHistory) -> Vec<serde_json::Value> {
    let backups = history.backups.iter().map(|backup| {
        serde_json::json!({
            "id": format!("b-{:06}", backup.id),
            "name": backup.name,
            "lsn": backup.lsn.0,
            "time_ms": backup.time_ms,
            "state": state_of(backup),
        })
    });
    backups.collect()
}

fn json_of(history: &StoredHistory) -> serde_json::Value {
    let points = history.flushes.iter();
    let points = points.map(|it| serde_json::json!({ "lsn": it.lsn.0, "time_ms": it.time_ms }));
    let commands = history.commands.iter().map(|noted| {
        serde_json::json!({
            "lsn": noted.lsn.0,
            "time_ms": noted.time_ms,
            "user": noted.command.user,
            "address": noted.command.address,
            "command": noted.command.text,
            "loses_data": noted.command.loses_data,
        })
    });
    serde_json::json!({
        "from_lsn": history.floor.0,
        "from_time_ms": history.floor_ms,
        "last_lsn": history.last.0.0,
        "last_time_ms": history.last.1,
        "running": history.is_running,
        "backups": backups(history),
        "points": points.collect::<Vec<_>>(),
        "commands": commands.collect::<Vec<_>>(),
    })
}
