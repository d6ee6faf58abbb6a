//! The meaning of a request for recovery and for the conversation, by the command table.
//!
//! Commands that change keys are [`Class::Query`], and so is every command that the table does not
//! contain (those of modules): what is not proven to change nothing is logged. The class includes
//! what later commands need even though it changes no key: scripts that the server keeps. Commands
//! that concern the server rather than its data (CONFIG SET, SAVE, SHUTDOWN, REPLICAOF, ACL) change
//! nothing that recovery restores, and would be harmful on another server.

use command_spec::spec::{Flags, Propagation};
use command_spec::table::{self, Command};

use crate::entry::Class;

/// Confirmations of the publish/subscribe commands: one per named channel.
pub(super) const CONFIRMATIONS: [&[u8]; 6] =
    [b"subscribe", b"psubscribe", b"ssubscribe", b"unsubscribe", b"punsubscribe", b"sunsubscribe"];

/// Commands that change no key but affect later ones: what a server or connection keeps for EVALSHA
/// and HIMPORT SET.
const NEEDED_LATER: [&str; 6] = [
    "eval_ro",
    "script|load",
    "script|flush",
    "himport|prepare",
    "himport|discard",
    "himport|discardall",
];

/// The first words of a request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Words<'a> {
    pub(super) name: &'a [u8],
    pub(super) second: &'a [u8],
    pub(super) third: &'a [u8],
    pub(super) len: usize,
}

impl Words<'_> {
    /// The command of the table that they invoke.
    fn command(&self) -> Option<Command> {
        table::find_call(&[self.name, self.second])
    }
}

/// A client's reply mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReplyMode {
    On,
    Off,
    SkipNext,
}

/// The part of a connection's state that a request sets; a later one replaces an earlier one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Setting {
    Login,
    Protocol,
    Name,
    Database,
}

/// The meaning of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Meaning {
    /// Has one reply, and no effect on the conversation.
    Plain(Class),
    Set(Setting),
    /// Resets the connection.
    Reset,
    Multi,
    Exec,
    Discard,
    Reply(ReplyMode),
    /// Publish/subscribe: the index of [`CONFIRMATIONS`].
    Subscription(usize),
    Monitor,
    /// Turns the client into a replica: its stream contains no requests from here on.
    Replica,
}

pub(super) fn meaning(words: &Words<'_>) -> Meaning {
    let Some(command) = words.command() else { return Meaning::Plain(Class::Query) };
    match command.name {
        "multi" => Meaning::Multi,
        "exec" => Meaning::Exec,
        "discard" => Meaning::Discard,
        // They determine the effect of EXEC.
        "watch" | "unwatch" => Meaning::Plain(Class::Query),
        "select" => Meaning::Set(Setting::Database),
        "auth" => Meaning::Set(Setting::Login),
        "hello" if words.len > 1 => Meaning::Set(Setting::Protocol),
        "reset" => Meaning::Reset,
        "client|setname" => Meaning::Set(Setting::Name),
        "client|reply" if words.len == 3 => reply_mode(words.third),
        "monitor" => Meaning::Monitor,
        "psync" | "sync" => Meaning::Replica,
        // It fills the keyspace; the other subcommands inspect the server or disturb it.
        "debug" if words.second.eq_ignore_ascii_case(b"populate") => Meaning::Plain(Class::Query),
        name => match CONFIRMATIONS.iter().position(|known| *known == name.as_bytes()) {
            Some(kind) => Meaning::Subscription(kind),
            None => Meaning::Plain(class(command)),
        },
    }
}

fn class(command: Command) -> Class {
    // A subcommand missing from the table may be any of its container's.
    let changes = changes(command) || command.known_subcommands().any(changes);
    if changes { Class::Query } else { Class::ReadOnly }
}

/// Whether a command changes data or the effect of later commands.
fn changes(command: Command) -> bool {
    match command.propagation {
        Propagation::Verbatim | Propagation::Rewritten(_) | Propagation::Effects => true,
        // A message is gone after its delivery.
        Propagation::Always => command.flags.has(Flags::WRITE),
        Propagation::None => NEEDED_LATER.contains(&command.name),
    }
}

fn reply_mode(word: &[u8]) -> Meaning {
    let is = |name: &str| word.eq_ignore_ascii_case(name.as_bytes());
    match () {
        () if is("on") => Meaning::Reply(ReplyMode::On),
        () if is("off") => Meaning::Reply(ReplyMode::Off),
        () if is("skip") => Meaning::Reply(ReplyMode::SkipNext),
        () => Meaning::Plain(Class::ReadOnly),
    }
}

/// Whether the words are certainly a request, and one with exactly one reply.
pub(super) fn is_certain(words: &Words<'_>) -> bool {
    // A replica's REPLCONF ACK has no answer.
    words.command().is_some_and(|command| command.accepts(words.len) && command.name != "replconf")
        && matches!(
            meaning(words),
            Meaning::Plain(_) | Meaning::Set(_) | Meaning::Multi | Meaning::Exec | Meaning::Discard
        )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(request: &str) -> Meaning {
        let words: Vec<&[u8]> = request.split(' ').map(str::as_bytes).collect();
        let at = |index: usize| words.get(index).copied().unwrap_or_default();
        meaning(&Words { name: at(0), second: at(1), third: at(2), len: words.len() })
    }

    #[test]
    fn what_may_change_something_is_logged() {
        for query in [
            "SET k v",
            "get_not_a_command",
            "EVAL x 0",
            "eval_ro x 0",
            "XADD s * a b",
            "watch k",
            "GETEX k",
            "SORT k",
            "SCRIPT LOAD x",
            "FUNCTION LOAD x",
            "flushall",
            "swapdb 0 1",
            "DEBUG POPULATE 10",
            "PFCOUNT k",
            "XREADGROUP GROUP g c STREAMS s >",
            "XGROUP CREATE s g 0",
            "XGROUP NEWER s",
            "SCRIPT FLUSH",
            "FCALL f 0",
            "HIMPORT PREPARE f a",
            "HEXPIRE k 1 FIELDS 1 f",
            "JSON.GET k",
            "SPOP k",
            "BLPOP k 0",
        ] {
            assert_eq!(of(query), Meaning::Plain(Class::Query), "{query}");
        }
    }

    #[test]
    fn what_changes_no_data_is_not() {
        for reader in [
            "GET k",
            "ping",
            "XRANGE s - +",
            "xlen s",
            "CONFIG SET a b",
            "SAVE",
            "SHUTDOWN",
            "INFO",
            "DEBUG SLEEP 1",
            "PUBLISH c m",
            "CLIENT LIST",
            "HELLO",
            "WAIT 0 0",
            "SORT_RO k",
            "ECHO x",
            "REPLICAOF no one",
            "CLIENT REPLY nonsense",
            "OBJECT ENCODING k",
            "evalsha_ro x 0",
            "XREAD STREAMS s 0",
            "XINFO STREAM s",
            "SCRIPT EXISTS x",
            "FUNCTION LIST",
            "HTTL k FIELDS 1 f",
            "VSIM k ELE a",
            "REPLCONF listening-port 1",
            "CLIENT NEWER x",
            "SPUBLISH c m",
        ] {
            assert_eq!(of(reader), Meaning::Plain(Class::ReadOnly), "{reader}");
        }
    }

    #[test]
    fn what_is_needed_later_is_in_the_table_and_no_write() {
        for name in NEEDED_LATER {
            let command = table::find(name.as_bytes()).expect(name);
            assert!(!command.flags.has(Flags::WRITE), "{name}");
        }
    }

    #[test]
    fn what_is_not_answered_is_not_certain() {
        let is_certain = |request: &str| {
            let words: Vec<&[u8]> = request.split(' ').map(str::as_bytes).collect();
            let at = |index: usize| words.get(index).copied().unwrap_or_default();
            is_certain(&Words { name: at(0), second: at(1), third: at(2), len: words.len() })
        };
        for certain in ["GET k", "XADD s * a b", "EVAL x 0", "XINFO STREAM s", "MULTI"] {
            assert!(is_certain(certain), "{certain}");
        }
        for uncertain in
            ["GET", "FT.SEARCH i q", "REPLCONF ACK 12", "PSYNC ? -1", "SUBSCRIBE c", "XINFO STREAM"]
        {
            assert!(!is_certain(uncertain), "{uncertain}");
        }
    }
}
