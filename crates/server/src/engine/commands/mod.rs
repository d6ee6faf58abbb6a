//! The commands that the server executes itself: everything that is about clients, configuration,
//! transactions, publish/subscribe, the log and the server's own state.

mod acl;
mod client_info;
pub(super) mod client_pause;
mod clients;
mod cluster;
mod config;
mod connection;
mod databases;
mod debug;
mod digest;
mod durability;
mod help;
mod info;
mod info_redo;
mod latency;
mod memory;
mod modules;
mod monitor;
mod publish;
mod slowlog;
mod state;

use std::borrow::Cow;

use command::argument;
use command::error::{CommandError, Done};
use command::table::Command;

use super::call::ServerHandler;
use super::{ClientKey, Engine};
use crate::config::Config;
pub(super) use modules::REFUSAL as MODULE_REFUSAL;

/// Who executes the server command of this name.
pub(super) fn handler(name: &str) -> Option<ServerHandler> {
    let handler: ServerHandler = match name {
        "multi" => Engine::multi,
        "exec" => Engine::exec,
        "discard" => Engine::discard_command,
        "watch" => Engine::watch,
        "unwatch" => Engine::unwatch,
        "ping" => connection::ping,
        "echo" => connection::echo,
        "quit" => connection::quit,
        "select" => connection::select,
        "auth" => connection::auth,
        "hello" => connection::hello,
        "reset" => connection::reset,
        "dbsize" => databases::dbsize,
        "flushdb" => databases::flushdb,
        "flushall" => databases::flushall,
        "swapdb" => databases::swapdb,
        "time" => state::time,
        "lastsave" => state::lastsave,
        "save" => state::save,
        "bgsave" => state::bgsave,
        "role" => state::role,
        "replicaof" | "slaveof" => state::replicaof,
        "lolwut" => state::lolwut,
        "shutdown" => state::shutdown,
        "info" => info::info,
        "monitor" => monitor::monitor,
        "bgrewriteaof" => durability::bgrewriteaof,
        "checkpoint" => durability::checkpoint,
        "wait" => durability::wait,
        "waitaof" => durability::waitaof,
        "publish" => publish::publish,
        "spublish" => publish::spublish,
        "subscribe" => publish::subscribe,
        "psubscribe" => publish::psubscribe,
        "ssubscribe" => publish::ssubscribe,
        "unsubscribe" => publish::unsubscribe,
        "punsubscribe" => publish::punsubscribe,
        "sunsubscribe" => publish::sunsubscribe,
        "debug" => debug::debug,
        "command" => command_itself,
        _ => return subcommand_handler(name),
    };
    Some(handler)
}

fn subcommand_handler(name: &str) -> Option<ServerHandler> {
    let handler: ServerHandler = match name {
        "client|caching" => clients::caching,
        "client|durability" => durability::client_durability,
        "client|getname" => clients::getname,
        "client|getredir" => clients::getredir,
        "client|id" => clients::id,
        "client|info" => clients::info,
        "client|kill" => clients::kill,
        "client|list" => clients::list,
        "client|no-evict" => clients::no_evict,
        "client|no-touch" => clients::no_touch,
        "client|pause" => client_pause::pause,
        "client|unpause" => client_pause::unpause,
        "client|reply" => clients::reply,
        "client|setinfo" => clients::setinfo,
        "client|setname" => clients::setname,
        "client|tracking" => clients::tracking,
        "client|trackinginfo" => clients::trackinginfo,
        "client|unblock" => clients::unblock,
        "config|get" => config::get,
        "config|set" => config::set,
        "config|resetstat" => config::resetstat,
        "config|rewrite" => config::rewrite,
        "slowlog|get" => slowlog::get,
        "slowlog|len" => slowlog::len,
        "slowlog|reset" => slowlog::reset,
        "latency|doctor" => latency::doctor,
        "latency|graph" => latency::graph,
        "latency|histogram" => latency::histogram,
        "latency|history" => latency::history,
        "latency|latest" => latency::latest,
        "latency|reset" => latency::reset,
        "memory|doctor" => memory::doctor,
        "memory|malloc-stats" => memory::malloc_stats,
        "memory|purge" => memory::purge,
        "memory|stats" => memory::stats,
        "memory|usage" => memory::usage,
        "module|list" => modules::list,
        "module|load" | "module|loadex" | "module|unload" => modules::refused,
        "asking" | "readonly" | "readwrite" => cluster::disabled,
        _ if name.starts_with("cluster|") => cluster::disabled,
        "pubsub|channels" => publish::channels,
        "pubsub|numpat" => publish::numpat,
        "pubsub|numsub" => publish::numsub,
        "pubsub|shardchannels" => publish::shardchannels,
        "pubsub|shardnumsub" => publish::shardnumsub,
        _ if name.starts_with("acl|") => acl::acl,
        _ if name.starts_with("command|") => command_itself,
        _ if name.ends_with("|help") => help::help,
        _ => return None,
    };
    Some(handler)
}

/// COMMAND and its subcommands: answered from the table.
fn command_itself(engine: &mut Engine, key: ClientKey, args: &[&[u8]]) -> Done {
    let names = engine.config.commands();
    let command = names.resolve(args).map_err(|unknown| error(format!("ERR {unknown}")))?;
    let reply = engine.sessions[key].connection.output.writer();
    command::introspect::execute(command, names, args, reply);
    Ok(())
}

/// The arguments of a call as the slow log may show them: without secrets.
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
