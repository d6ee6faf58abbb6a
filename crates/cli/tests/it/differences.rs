//! Where Indelible may answer otherwise than Redis 7.0.15, and why. What is not here must be the same.

use crate::wire::Reply;

/// How much of a reply is compared. Whatever it is, an error must meet the same error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Comparison {
    /// All of it.
    Exact,
    /// All of it, groups of so many elements in any order.
    Unordered(usize),
    /// Numbers may be so far apart.
    Near(i64),
    /// Only its type, and how many elements it has.
    Length,
    /// Only its type.
    Kind,
}

/// Why commands of streams are not.
const STREAMS: &str =
    "ids and times are the clock's, consumers those of Redis 7.2: command/tests/it/stream.txt";

/// Commands that are not sent, with the reason.
pub(crate) const NOT_SENT: &[(&str, &str)] = &[
    ("acl|", "there is one user: what would make another is refused"),
    ("bgrewriteaof", "writes files of its own kind; its state depends on the time"),
    ("bgsave", "its state depends on the time: dumps.rs"),
    ("save", "a server without a log refuses it: dumps.rs"),
    ("sync", "makes the connection one that is sent data: dumps.rs"),
    ("replconf", "makes the connection a replica's: dumps.rs"),
    ("client|help", "lists our own subcommands too"),
    ("client|pause", "stops both servers"),
    ("client|reply", "answers nothing: conformance/client.txt"),
    ("command", "the tables differ by what is not there yet: command/tests/it/table.rs"),
    ("command|count", "the tables differ by what is not there yet"),
    ("command|docs", "has summaries of its own"),
    ("command|info", "command/tests/it/table.rs compares all facts"),
    ("command|list", "the tables differ by what is not there yet"),
    ("config|set", "conformance/config.txt"),
    ("debug", "looks into the implementation"),
    ("debug|", "looks into the implementation"),
    ("latency|doctor", "prose about this run"),
    ("latency|histogram", "times of this run"),
    ("memory|doctor", "prose about this run"),
    ("memory|malloc-stats", "prose about this run"),
    ("migrate", "sends data to other servers: migrate.rs, conformance/migrate.txt"),
    ("monitor", "a connection that is sent what others do: conformance/server.txt"),
    ("pfselftest", "takes seconds of Redis' time"),
    ("replicaof", "replication is not there yet"),
    ("slaveof", "replication is not there yet"),
    ("script|debug", "there is no debugger"),
    ("script|help", "lists SCRIPT SHOW, too"),
    ("shutdown", "ends the server"),
    ("exec", "conformance/multi.txt"),
    ("xack", STREAMS),
    ("xadd", STREAMS),
    ("xautoclaim", STREAMS),
    ("xclaim", STREAMS),
    ("xdel", STREAMS),
    ("xgroup", STREAMS),
    ("xgroup|", STREAMS),
    ("xinfo", STREAMS),
    ("xinfo|", STREAMS),
    ("xlen", STREAMS),
    ("xpending", STREAMS),
    ("xrange", STREAMS),
    ("xread", STREAMS),
    ("xreadgroup", STREAMS),
    ("xrevrange", STREAMS),
    ("xsetid", STREAMS),
    ("xtrim", STREAMS),
];

/// Commands of which less than everything is compared, with the reason.
const LESS: &[(&str, Comparison, &str)] = &[
    ("client|id", Comparison::Kind, "ids of connections"),
    ("client|info", Comparison::Kind, "facts of this run"),
    ("client|list", Comparison::Kind, "facts of this run"),
    ("client|kill", Comparison::Kind, "other connections are still being closed"),
    ("config|get", Comparison::Kind, "directives of our own"),
    ("dbsize", Comparison::Kind, "a key that has expired counts until it is met"),
    ("dump", Comparison::Kind, "the same value may be encoded in several ways"),
    ("expiretime", Comparison::Near(5), "the servers got their commands one after the other"),
    ("hello", Comparison::Kind, "ids and versions"),
    ("hgetall", Comparison::Unordered(2), "hashes have no order"),
    ("hkeys", Comparison::Unordered(1), "hashes have no order"),
    ("hrandfield", Comparison::Length, "random"),
    ("hscan", Comparison::Kind, "cursors differ: conformance/scan.txt"),
    ("hvals", Comparison::Unordered(1), "hashes have no order"),
    ("info", Comparison::Kind, "facts of this run"),
    ("keys", Comparison::Unordered(1), "keys have no order"),
    ("lastsave", Comparison::Kind, "a time"),
    ("latency|graph", Comparison::Kind, "times of this run"),
    ("latency|history", Comparison::Kind, "times of this run"),
    ("latency|latest", Comparison::Kind, "times of this run"),
    ("latency|reset", Comparison::Kind, "times of this run"),
    ("lolwut", Comparison::Kind, "art"),
    ("memory|stats", Comparison::Kind, "facts of this run"),
    ("memory|usage", Comparison::Kind, "memory is laid out otherwise"),
    (
        "object|idletime",
        Comparison::Kind,
        "a time; Redis shares small numbers, and when they were used",
    ),
    (
        "object|refcount",
        Comparison::Kind,
        "COPY makes a small number of its own: conformance/keys.txt",
    ),
    ("pexpiretime", Comparison::Near(5000), "the servers got their commands one after the other"),
    ("psubscribe", Comparison::Kind, "the confirmation of the first: conformance/pubsub.txt"),
    ("pubsub|channels", Comparison::Kind, "a connection that was closed may not be forgotten yet"),
    ("pubsub|numpat", Comparison::Kind, "a connection that was closed may not be forgotten yet"),
    ("pubsub|numsub", Comparison::Kind, "a connection that was closed may not be forgotten yet"),
    (
        "pubsub|shardchannels",
        Comparison::Kind,
        "a connection that was closed may not be forgotten yet",
    ),
    (
        "pubsub|shardnumsub",
        Comparison::Kind,
        "a connection that was closed may not be forgotten yet",
    ),
    ("pttl", Comparison::Near(5000), "the servers got their commands one after the other"),
    ("randomkey", Comparison::Kind, "random"),
    ("scan", Comparison::Kind, "cursors differ: conformance/scan.txt"),
    ("sdiff", Comparison::Unordered(1), "sets have no order"),
    ("sinter", Comparison::Unordered(1), "sets have no order"),
    ("slowlog|get", Comparison::Kind, "times of this run"),
    ("slowlog|len", Comparison::Kind, "times of this run"),
    ("smembers", Comparison::Unordered(1), "sets have no order"),
    ("spop", Comparison::Length, "random"),
    ("srandmember", Comparison::Length, "random"),
    ("sscan", Comparison::Kind, "cursors differ: conformance/scan.txt"),
    ("sunion", Comparison::Unordered(1), "sets have no order"),
    ("time", Comparison::Kind, "a time"),
    ("ttl", Comparison::Near(5), "the servers got their commands one after the other"),
    ("zrandmember", Comparison::Length, "random"),
    ("zscan", Comparison::Kind, "cursors differ: conformance/scan.txt"),
];

/// Tells some calls of a command from the others.
type IsOne = fn(&[Vec<u8>]) -> bool;

/// Calls that are not sent: of a command, whether it is one, and the reason.
const CALLS_NOT_SENT: &[(&str, IsOne, &str)] = &[
    (
        "COMMAND",
        |words| words.len() == 3 && words[1].to_ascii_lowercase().starts_with(b"getkeys"),
        "a call without arguments, which Redis 7.2 takes: conformance/later_8_2.txt",
    ),
    ("CLIENT", has_later_filters, "Valkey's filters: server/src/engine/tests/connections.rs"),
    (
        "WAIT",
        |words| number(words, 1).is_some_and(|replicas| replicas > i64::from(i32::MAX)),
        "Redis keeps the number of replicas in 32 bits: a larger one may be reached at once",
    ),
    (
        "RESTORE",
        |words| number(words, 2).is_some_and(|ttl| ttl > i64::MAX / 2),
        "past the end of time Redis answers OK and drops the value; here it does not expire",
    ),
    (
        "SORT",
        |words| is_sorted_by_texts(words) && words.iter().any(|word| word == b"STORE"),
        "in which order it stores what compares as equal is by chance in Redis",
    ),
];

/// Whether a call of CLIENT has a filter that only Valkey has: another one, or another id, behind the first.
fn has_later_filters(words: &[Vec<u8>]) -> bool {
    let is = |at: usize, name: &str| {
        words.get(at).is_some_and(|word| word.eq_ignore_ascii_case(name.as_bytes()))
    };
    let has_ids = |at: usize| is(at, "ID") && number(words, at + 1).is_some();
    let other = |at: usize| has_ids(at) && number(words, at + 2).is_some();
    match words.get(1).map(|word| word.to_ascii_lowercase()).as_deref() {
        Some(b"list") if is(2, "ID") => (3..words.len()).any(|at| number(words, at).is_none()),
        Some(b"list") => words.len() > 4 || (words.len() > 2 && !is(2, "TYPE")),
        Some(b"kill") => (2..words.len()).any(other),
        _ => false,
    }
}

/// Whether a SORT compares texts that keys name, which may be the same, or not be there.
fn is_sorted_by_texts(words: &[Vec<u8>]) -> bool {
    let has = |name: &str| words.iter().any(|word| word.eq_ignore_ascii_case(name.as_bytes()));
    has("BY") && has("ALPHA")
}

/// Commands after which the key is deleted on both sides, with the reason.
const FORGETTING: &[(&str, &str)] = &[
    ("spop", "the members that are left are random"),
    ("sort", "Redis makes a skiplist of a sorted set that it sorts: OBJECT ENCODING tells"),
    ("sort_ro", "Redis makes a skiplist of a sorted set that it sorts: OBJECT ENCODING tells"),
];

/// Whether the first key of a call is deleted after it.
pub(crate) fn is_forgetting(name: &str, words: &[Vec<u8>]) -> bool {
    FORGETTING.iter().any(|(listed, _)| *listed == name) || is_by_name(name, words)
}

/// Whether a call means a range of the names in a sorted set.
fn is_by_name(name: &str, words: &[Vec<u8>]) -> bool {
    let is_option = |word: &Vec<u8>| word.eq_ignore_ascii_case(b"BYLEX");
    name.starts_with('z') && (name.contains("lex") || words.iter().any(is_option))
}

fn number(words: &[Vec<u8>], at: usize) -> Option<i64> {
    std::str::from_utf8(words.get(at)?).ok()?.parse().ok()
}

/// Whether a call is not sent.
pub(crate) fn is_not_sent(words: &[Vec<u8>]) -> bool {
    CALLS_NOT_SENT
        .iter()
        .any(|(name, is_one, _)| words[0].eq_ignore_ascii_case(name.as_bytes()) && is_one(words))
}

/// Why a command is not sent, if so.
pub(crate) fn reason_not_to_send(name: &str) -> Option<&'static str> {
    let is_meant = |listed: &str| {
        if listed.ends_with('|') { name.starts_with(listed) } else { name == listed }
    };
    NOT_SENT.iter().find(|(listed, _)| is_meant(listed)).map(|(_, reason)| *reason)
}

/// How the replies to a call are compared.
pub(crate) fn comparison(name: &str, words: &[Vec<u8>]) -> Comparison {
    if name.starts_with("sort") && (is_sorted_by_nothing(words) || is_sorted_by_texts(words)) {
        // Which elements these are depends on the order of a set, which has none, or on that of
        // elements that compare as equal, which is by chance in Redis.
        return Comparison::Length;
    }
    if is_by_name(name, words) {
        // A range of names means nothing where scores differ: conformance/zset.txt has equal ones.
        return Comparison::Kind;
    }
    LESS.iter().find(|(listed, ..)| *listed == name).map_or(Comparison::Exact, |it| it.1)
}

/// Whether a SORT has a BY without a place for the element, and no STORE.
fn is_sorted_by_nothing(words: &[Vec<u8>]) -> bool {
    let is = |word: &Vec<u8>, name: &str| word.eq_ignore_ascii_case(name.as_bytes());
    words.windows(2).any(|pair| is(&pair[0], "BY") && !pair[1].contains(&b'*'))
}

/// Whether two replies are the same, as far as they are compared.
pub(crate) fn are_same(comparison: Comparison, expected: &Reply, found: &Reply) -> bool {
    if expected.is_error() || found.is_error() {
        return expected == found;
    }
    let number = |reply: &Reply| reply.text().parse::<i64>().ok();
    match comparison {
        Comparison::Exact => expected == found,
        Comparison::Unordered(width) => sorted(expected, width) == sorted(found, width),
        Comparison::Near(distance) => match (number(expected), number(found)) {
            (Some(a), Some(b)) => {
                a == b || (a.min(b) >= 0 && a.abs_diff(b) <= distance.unsigned_abs())
            }
            _ => expected == found,
        },
        Comparison::Length => {
            expected.kind() == found.kind() && expected.elements().len() == found.elements().len()
        }
        Comparison::Kind => expected.kind() == found.kind(),
    }
}

fn sorted(reply: &Reply, width: usize) -> Vec<Vec<Reply>> {
    let mut groups: Vec<Vec<Reply>> =
        reply.elements().chunks(width).map(<[Reply]>::to_vec).collect();
    groups.sort();
    groups
}
