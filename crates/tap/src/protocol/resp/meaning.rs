//! What a request is to recovery and to the conversation, by the command table.
//!
//! Commands that change keys are [`Class::Query`], and so is every command that the table does not know
//! (scripts, functions, streams, modules): what is not proven to change nothing is logged. What concerns
//! the server and not its data (CONFIG SET, SAVE, SHUTDOWN, REPLICAOF, ACL) changes nothing that recovery
//! brings back, and would do harm on another server.

use command_spec::spec::Flags;

use crate::entry::Class;

/// Confirmations of the publish/subscribe commands: as many as channels were named.
pub(super) const CONFIRMATIONS: [&[u8]; 6] =
    [b"subscribe", b"psubscribe", b"ssubscribe", b"unsubscribe", b"punsubscribe", b"sunsubscribe"];

/// Of Redis' commands that Indelible does not have, those that change nothing, sorted.
const OTHER_READERS: [&str; 21] = [
    "asking",
    "evalsha_ro",
    "fcall_ro",
    "geodist",
    "geohash",
    "geopos",
    "georadius_ro",
    "georadiusbymember_ro",
    "geosearch",
    "hpexpiretime",
    "hpttl",
    "httl",
    "module",
    "readonly",
    "readwrite",
    "replconf",
    "xinfo",
    "xlen",
    "xpending",
    "xrange",
    "xrevrange",
];

/// The first words of a request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Words<'a> {
    pub(super) name: &'a [u8],
    pub(super) second: &'a [u8],
    pub(super) third: &'a [u8],
    pub(super) len: usize,
}

/// What a client wants to be answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReplyMode {
    On,
    Off,
    SkipNext,
}

/// What part of a connection's state a request sets; a later one takes the place of an earlier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Setting {
    Login,
    Protocol,
    Name,
    Database,
}

/// What a request means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Meaning {
    /// One reply, and nothing that concerns the conversation.
    Plain(Class),
    Set(Setting),
    /// Puts the connection back to its beginning.
    Reset,
    Multi,
    Exec,
    Discard,
    Reply(ReplyMode),
    /// Publish/subscribe: the index of [`CONFIRMATIONS`].
    Subscription(usize),
    Monitor,
    /// The client is a replica: its stream is none of requests from here on.
    Replica,
}

pub(super) fn meaning(words: &Words<'_>) -> Meaning {
    let Some(command) = command_spec::table::lookup(words.name) else {
        return unknown(words);
    };
    if command.flags.has(Flags::WRITE) {
        return Meaning::Plain(Class::Query);
    }
    if command.flags.has(Flags::READONLY) {
        return Meaning::Plain(Class::ReadOnly);
    }
    let second = |word: &str| words.second.eq_ignore_ascii_case(word.as_bytes());
    match command.name {
        "multi" => Meaning::Multi,
        "exec" => Meaning::Exec,
        "discard" => Meaning::Discard,
        // They decide what EXEC does.
        "watch" | "unwatch" => Meaning::Plain(Class::Query),
        "select" => Meaning::Set(Setting::Database),
        "auth" => Meaning::Set(Setting::Login),
        "hello" if words.len > 1 => Meaning::Set(Setting::Protocol),
        "reset" => Meaning::Reset,
        "client" if second("setname") => Meaning::Set(Setting::Name),
        "client" if second("reply") && words.len == 3 => reply_mode(words.third),
        "monitor" => Meaning::Monitor,
        // It fills the keyspace; the other ones look at the server or make it suffer.
        "debug" if second("populate") => Meaning::Plain(Class::Query),
        name => match CONFIRMATIONS.iter().position(|known| *known == name.as_bytes()) {
            Some(kind) => Meaning::Subscription(kind),
            None => Meaning::Plain(Class::ReadOnly),
        },
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

fn unknown(words: &Words<'_>) -> Meaning {
    let mut lower = [0_u8; 24];
    let Some(name) = lower.get_mut(..words.name.len()) else {
        return Meaning::Plain(Class::Query);
    };
    name.copy_from_slice(words.name);
    name.make_ascii_lowercase();
    match &*name {
        b"psync" | b"sync" => Meaning::Replica,
        name if OTHER_READERS.binary_search_by(|known| known.as_bytes().cmp(name)).is_ok() => {
            Meaning::Plain(Class::ReadOnly)
        }
        _ => Meaning::Plain(Class::Query),
    }
}

/// Whether the words are surely a request, and one that is answered by one reply.
pub(super) fn is_certain(words: &Words<'_>) -> bool {
    command_spec::table::lookup(words.name).is_some_and(|command| command.accepts(words.len))
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
        ] {
            assert_eq!(of(reader), Meaning::Plain(Class::ReadOnly), "{reader}");
        }
    }

    #[test]
    fn the_readers_are_sorted() {
        assert!(OTHER_READERS.is_sorted());
    }
}
