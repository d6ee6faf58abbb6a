//! The commands that the server executes itself: everything that is about clients, configuration,
//! transactions, publish/subscribe, the log and the server's own state.

mod acl;
mod backup;
mod client_filter;
mod client_info;
pub(super) mod client_pause;
mod clients;
mod cluster;
mod commandlog;
mod config;
mod connection;
mod databases;
mod debug;
mod debug_layout;
mod digest;
mod durability;
mod functions;
mod handlers;
mod help;
mod info;
mod info_backup;
mod info_redo;
mod info_saves;
mod latency;
mod logtail;
mod memory;
mod migrate;
mod modules;
mod monitor;
mod publish;
mod saving;
mod scripts;
mod state;
mod tracking;
mod transactions;

use std::borrow::Cow;

use command::argument;
use command::error::{CommandError, Done};
use command::table::Command;

use super::{ClientKey, Engine};
use crate::config::Config;
pub(super) use handlers::{Executor, executor};
pub use info::REDIS_VERSION;
pub(super) use info::everything as info_everything;
pub(super) use modules::REFUSAL as MODULE_REFUSAL;

/// COMMAND and its subcommands: answered from the table.
fn command_itself(engine: &mut Engine, key: ClientKey, args: &[&[u8]]) -> Done {
    let names = engine.config.commands();
    let command = names.resolve(args).map_err(|unknown| error(format!("ERR {unknown}")))?;
    let reply = engine.sessions[key].connection.output.writer();
    command::introspect::execute(command, names, args, reply);
    Ok(())
}

/// The arguments of a call as the command logs may show them: without secrets.
pub(super) fn redacted<'a>(command: Command, args: &[&'a [u8]]) -> Vec<&'a [u8]> {
    const HIDDEN: &[u8] = b"(redacted)";
    let mut shown = args.to_vec();
    match command.name {
        "auth" => shown[1..].fill(HIDDEN),
        "hello" => {
            // HELLO version [AUTH user password] [SETNAME name], in any order and however often.
            let mut at = 2;
            while at < args.len() {
                let is_auth = argument::is(args[at], "auth");
                let end = (at + if is_auth { 3 } else { 2 }).min(shown.len());
                if is_auth {
                    shown[at + 1..end].fill(HIDDEN);
                }
                at = end;
            }
        }
        "migrate" => {
            let mut at = 6;
            while at < args.len() && !argument::is(args[at], "keys") {
                let hidden = match args[at] {
                    word if argument::is(word, "auth") => 1,
                    word if argument::is(word, "auth2") => 2,
                    _ => 0,
                };
                let end = (at + 1 + hidden).min(shown.len());
                shown[at + 1..end].fill(HIDDEN);
                at = end;
            }
        }
        "acl|setuser" | "acl|deluser" => shown[2..].fill(HIDDEN),
        "config|set" => {
            for at in (2..args.len().saturating_sub(1)).step_by(2) {
                if std::str::from_utf8(args[at]).is_ok_and(Config::is_sensitive) {
                    shown[at + 1] = HIDDEN;
                }
            }
        }
        _ => {}
    }
    shown
}

/// Appends bytes in double quotes, with escapes for what cannot be shown.
pub(super) fn quote(bytes: &[u8], out: &mut Vec<u8>) {
    out.push(b'"');
    for &byte in bytes {
        match byte {
            b'\\' | b'"' => out.extend_from_slice(&[b'\\', byte]),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            0x07 => out.extend_from_slice(b"\\a"),
            0x08 => out.extend_from_slice(b"\\b"),
            b' '..=b'~' => out.push(byte),
            _ => out.extend_from_slice(format!("\\x{byte:02x}").as_bytes()),
        }
    }
    out.push(b'"');
}

/// An error with its whole line.
fn error(line: impl Into<Cow<'static, str>>) -> CommandError {
    CommandError::Other(line.into())
}

/// An argument as text; what is not UTF-8 is shown as it can be.
fn text(argument: &[u8]) -> Cow<'_, str> {
    String::from_utf8_lossy(argument)
}
