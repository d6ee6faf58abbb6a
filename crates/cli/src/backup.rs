//! What of the log in a data directory can be restored: `indelible backup list` and `timeline`.

use std::fmt::Write as _;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use env_os::OsDisk;
use redo::{
    BlockTime, CheckProgress, CheckRequest, CheckedState, NamedBackup, NotedCommand, StoredHistory,
    TimeOfBlock, Verdict,
};

use crate::archive::code_of;
use crate::progress::Line;
use crate::restore::remove_links_when_ended;

/// Lists the backups of the log in `source`, or says what happened when in it; its server may run meanwhile.
pub(crate) fn tell(
    source: &Path,
    devices: &[PathBuf],
    is_list: bool,
    is_json: bool,
) -> anyhow::Result<ExitCode> {
    let mut line = Line::new();
    let mut progress = |done: u64, all: u64| line.show_bytes("reading the log", done, all);
    let reader = std::process::id();
    let found = redo::stored_history(&OsDisk, source, devices, reader, &mut progress);
    line.end();
    let Some(history) = found? else {
        crate::log::say_no_log(source);
        return Ok(crate::archive::code_without_log(source));
    };
    if is_json {
        let mut said = match is_list {
            true => serde_json::json!({ "backups": backups(&history) }),
            false => json_of(&history),
        };
        if let Some(why) = &history.unread {
            said["unread"] = why.as_str().into();
        }
        println!("{said}");
    } else {
        print!("{}", if is_list { list(&history) } else { timeline(&history) });
    }
    let mut lost = history.backups.iter().filter(|backup| backup.is_lost).peekable();
    let is_damaged = lost.peek().is_some() || history.unread.is_some();
    if let Some(why) = &history.unread {
        eprintln!(
            "a file cannot be read to its end, so what it says of backups, flushes and commands may be missing: {why}. \
             indelible backup verify says which states need it"
        );
    }
    for backup in lost {
        eprintln!(
            "backup {} has lost a file that it needs, and cannot be restored any more",
            backup.name
        );
    }
    Ok(code_of(is_damaged))
}

/// Reads every record of the backups of the log in `source` and of its newest state, or of one backup; its server may run
/// meanwhile. Whether all is good; `None` if there is no log.
pub(crate) fn verify(
    source: &Path,
    devices: &[PathBuf],
    name: Option<&str>,
    is_json: bool,
) -> anyhow::Result<Option<(bool, serde_json::Value)>> {
    let reader = std::process::id();
    remove_links_when_ended(source, devices, reader)?;
    let mut line = Line::new();
    let mut pace = |so_far: CheckProgress| {
        line.show_bytes("verifying", so_far.done_bytes, so_far.all_bytes);
        ControlFlow::Continue(())
    };
    let request = CheckRequest { source, devices, name, reader };
    let states = redo::check_past(&OsDisk, &request, &mut pace);
    line.end();
    let Some(states) = states? else {
        crate::log::say_no_log(source);
        return Ok(None);
    };
    if !is_json {
        states.iter().for_each(|state| println!("{}", checked(state)));
    }
    let said: Vec<_> = states.iter().map(checked_as_json).collect();
    let is_good = states.iter().all(CheckedState::is_good);
    Ok(Some((is_good, serde_json::json!({ "states": said }))))
}

fn checked(state: &CheckedState) -> String {
    let what = state.backup.as_ref().map_or_else(
        || "the newest state".to_owned(),
        |backup| format!("{} {}", backup.number(), backup.name),
    );
    let found = match &state.verdict {
        Verdict::Good { files, records } => {
            format!("good, {records} records in {files} files were read")
        }
        Verdict::Lost => "LOST, a file that it needs is gone".to_owned(),
        Verdict::Damaged(why) => format!("DAMAGED: {why}"),
    };
    format!("{what}: block {}, {found}", state.lsn)
}

fn checked_as_json(state: &CheckedState) -> serde_json::Value {
    let (verdict, records, error) = match &state.verdict {
        Verdict::Good { records, .. } => ("good", Some(*records), None),
        Verdict::Lost => ("lost", None, None),
        Verdict::Damaged(why) => ("damaged", None, Some(why.to_string())),
    };
    serde_json::json!({
        "id": state.backup.as_ref().map(NamedBackup::number),
        "name": state.backup.as_ref().map(|backup| &backup.name),
        "lsn": state.lsn.0,
        "state": verdict,
        "records": records,
        "error": error,
    })
}

fn list(history: &StoredHistory) -> String {
    let mut text = String::new();
    for backup in &history.backups {
        let NamedBackup { name, lsn, time_ms, .. } = backup;
        let (number, state, made) = (backup.number(), backup.state(), TimeOfBlock(*time_ms));
        let _infallible = writeln!(text, "{number} {name}: block {lsn}, made {made}, {state}");
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
        let (made, state) = (TimeOfBlock(backup.time_ms), backup.state());
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
        let user = user.escape_debug();
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
            "id": backup.number(),
            "name": backup.name,
            "lsn": backup.lsn.0,
            "time_ms": backup.time_ms,
            "state": backup.state(),
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
