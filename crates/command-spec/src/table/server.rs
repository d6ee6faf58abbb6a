//! The server itself: configuration, figures, the log, databases as a whole.

pub(super) mod newer;
pub(super) mod replication;
mod subcommands;

use crate::spec::{Arg, Change, Deprecation, Group, Origin, Propagation, Spec, acl, flags};
use subcommands::{ACL, COMMAND, CONFIG, LATENCY, MEMORY, MODULE, SLOWLOG};

const BASE: Spec = Spec { group: Group::Server, ..Spec::BLANK };

/// The commands of the group, by name.
pub(super) static COMMANDS: &[Spec] = &[
    Spec {
        name: "acl",
        arity: -2,
        since: "6.0.0",
        summary: "Who may do what.",
        complexity: "Depends on the subcommand.",
        subcommands: ACL,
        ..BASE
    },
    Spec {
        name: "bgrewriteaof",
        arity: 1,
        flags: flags![ADMIN NOSCRIPT NO_ASYNC_LOADING],
        since: "1.0.0",
        summary: "Starts a checkpoint: compacts the log in the background.",
        complexity: "O(1)",
        ..BASE
    },
    Spec {
        name: "bgsave",
        arity: -1,
        flags: flags![ADMIN NOSCRIPT NO_ASYNC_LOADING],
        since: "1.0.0",
        history: &[Change::absent(Origin::Valkey, "8.1.0", "`CANCEL`.")],
        summary: "Writes the data into an RDB file, in the background.",
        complexity: "O(1); a thread next to the executor writes O(N), N the size of the data.",
        arguments: &[Arg::word("schedule", "SCHEDULE").since("3.2.2").optional()],
        ..BASE
    },
    Spec {
        name: "checkpoint",
        arity: 1,
        flags: flags![ADMIN NOSCRIPT],
        since: "0.1.0",
        origin: Origin::Indelible,
        summary: "Starts a checkpoint: compacts the log in the background.",
        complexity: "O(1)",
        ..BASE
    },
    Spec {
        name: "command",
        arity: -1,
        flags: flags![LOADING STALE],
        acl: acl![CONNECTION],
        tips: &["nondeterministic_output_order"],
        since: "2.8.13",
        summary: "Returns the facts about all commands.",
        complexity: "O(N), N the number of commands.",
        subcommands: COMMAND,
        ..BASE
    },
    Spec {
        name: "config",
        arity: -2,
        since: "2.0.0",
        summary: "The configuration of the running server.",
        complexity: "Depends on the subcommand.",
        subcommands: CONFIG,
        ..BASE
    },
    Spec {
        name: "dbsize",
        arity: 1,
        flags: flags![READONLY FAST],
        acl: acl![KEYSPACE],
        tips: &["request_policy:all_shards", "response_policy:agg_sum"],
        since: "1.0.0",
        summary: "Counts the keys of the database.",
        complexity: "O(1)",
        ..BASE
    },
    Spec {
        name: "debug",
        arity: -2,
        flags: flags![ADMIN NOSCRIPT LOADING STALE PROTECTED],
        since: "1.0.0",
        summary: "What tests and developers need.",
        complexity: "Depends on the subcommand.",
        system: true,
        limit: "Some of the subcommands.",
        ..BASE
    },
    Spec {
        name: "flushall",
        arity: -1,
        flags: flags![WRITE],
        acl: acl![KEYSPACE DANGEROUS],
        tips: &["request_policy:all_shards", "response_policy:all_succeeded"],
        propagation: Propagation::Always,
        since: "1.0.0",
        summary: "Deletes all keys of all databases.",
        complexity: "O(N), N the number of keys of all databases.",
        arguments: &[Arg::one_of(
            "async",
            &[Arg::word("async", "ASYNC").since("4.0.0"), Arg::word("sync", "SYNC").since("6.2.0")],
        )
        .optional()],
        ..BASE
    },
    Spec {
        name: "flushdb",
        arity: -1,
        flags: flags![WRITE],
        acl: acl![KEYSPACE DANGEROUS],
        tips: &["request_policy:all_shards", "response_policy:all_succeeded"],
        propagation: Propagation::Always,
        since: "1.0.0",
        summary: "Deletes all keys of the database.",
        complexity: "O(N), N the number of keys of the database.",
        arguments: &[Arg::one_of(
            "async",
            &[Arg::word("async", "ASYNC").since("4.0.0"), Arg::word("sync", "SYNC").since("6.2.0")],
        )
        .optional()],
        ..BASE
    },
    Spec {
        name: "info",
        arity: -1,
        flags: flags![LOADING STALE],
        acl: acl![DANGEROUS],
        tips: &["nondeterministic_output", "request_policy:all_shards", "response_policy:special"],
        since: "1.0.0",
        history: &[Change::new("7.0.0", "Several sections.")],
        summary: "Returns figures about the server.",
        complexity: "O(1)",
        arguments: &[Arg::string("section").optional().multiple()],
        ..BASE
    },
    Spec {
        name: "lastsave",
        arity: 1,
        flags: flags![LOADING STALE FAST],
        acl: acl![ADMIN DANGEROUS],
        tips: &["nondeterministic_output"],
        since: "1.0.0",
        summary: "Returns when the last dump was complete, or the server was started.",
        complexity: "O(1)",
        ..BASE
    },
    Spec {
        name: "latency",
        arity: -2,
        since: "2.8.13",
        summary: "What took long, and when.",
        complexity: "Depends on the subcommand.",
        subcommands: LATENCY,
        ..BASE
    },
    Spec {
        name: "logtail",
        arity: -2,
        flags: flags![ADMIN NOSCRIPT BLOCKING NO_MULTI],
        reads_all: true,
        since: "0.1.0",
        origin: Origin::Indelible,
        summary: "Returns what has changed behind a block of the log, waiting for it if wanted.",
        complexity: "O(1); a thread next to the executor reads O(N), N what is returned, and once all of the log before it.",
        arguments: &[
            Arg::one_of("position", &[Arg::integer("lsn"), Arg::word("now", "NOW")]),
            Arg::integer("count").token("COUNT").optional(),
            Arg::integer("milliseconds").token("BLOCK").optional(),
            Arg::string("id").token("LOG").optional(),
        ],
        ..BASE
    },
    Spec {
        name: "lolwut",
        arity: -1,
        flags: flags![READONLY FAST],
        since: "5.0.0",
        summary: "Shows a piece of computer art and the version.",
        complexity: "O(1)",
        arguments: &[Arg::integer("version").token("VERSION").optional()],
        ..BASE
    },
    Spec {
        name: "memory",
        arity: -2,
        since: "4.0.0",
        summary: "Where the memory goes.",
        complexity: "Depends on the subcommand.",
        subcommands: MEMORY,
        ..BASE
    },
    Spec {
        name: "module",
        arity: -2,
        since: "4.0.0",
        summary: "Extensions of the server: there are none.",
        complexity: "Depends on the subcommand.",
        subcommands: MODULE,
        ..BASE
    },
    Spec {
        name: "monitor",
        arity: 1,
        flags: flags![ADMIN NOSCRIPT LOADING STALE],
        since: "1.0.0",
        summary: "Shows every command that the server executes from now on.",
        complexity: "O(1)",
        ..BASE
    },
    Spec {
        name: "replicaof",
        arity: 3,
        flags: flags![ADMIN NOSCRIPT STALE NO_ASYNC_LOADING],
        since: "5.0.0",
        summary: "Makes the server a replica of another one, or a master again.",
        complexity: "O(1)",
        arguments: &[Arg::one_of(
            "args",
            &[
                Arg::block("host-port", &[Arg::string("host"), Arg::integer("port")]),
                Arg::block("no-one", &[Arg::word("no", "NO"), Arg::word("one", "ONE")]),
            ],
        )],
        limit: "`NO ONE` only: there is no replication.",
        ..BASE
    },
    Spec {
        name: "role",
        arity: 1,
        flags: flags![NOSCRIPT LOADING STALE FAST],
        acl: acl![ADMIN DANGEROUS],
        since: "2.8.12",
        summary: "Returns the part the server plays in replication.",
        complexity: "O(1)",
        ..BASE
    },
    Spec {
        name: "save",
        arity: 1,
        flags: flags![ADMIN NOSCRIPT NO_ASYNC_LOADING NO_MULTI],
        since: "1.0.0",
        summary: "Writes the data into an RDB file and waits until that is done; other clients are served meanwhile.",
        complexity: "O(1); a thread next to the executor writes O(N), N the size of the data.",
        ..BASE
    },
    Spec {
        name: "shutdown",
        arity: -1,
        flags: flags![ADMIN NOSCRIPT LOADING STALE NO_MULTI ALLOW_BUSY],
        since: "1.0.0",
        history: &[Change::absent(Origin::Valkey, "9.0.0", "`SAFE` and `FAILOVER`.")],
        summary: "Makes everything durable and ends the server.",
        complexity: "O(1), or O(N) with a dump, N the size of the data.",
        arguments: &[
            Arg::one_of("nosave_save", &[Arg::word("nosave", "NOSAVE"), Arg::word("save", "SAVE")])
                .optional(),
            Arg::word("now", "NOW").since("7.0.0").optional(),
            Arg::word("force", "FORCE").since("7.0.0").optional(),
            Arg::word("abort", "ABORT").since("7.0.0").optional(),
        ],
        ..BASE
    },
    Spec {
        name: "slaveof",
        arity: 3,
        flags: flags![ADMIN NOSCRIPT STALE NO_ASYNC_LOADING],
        since: "1.0.0",
        summary: "Makes the server a replica of another one, or a master again.",
        complexity: "O(1)",
        deprecated: Some(Deprecation { since: "5.0.0", replaced_by: "`REPLICAOF`" }),
        arguments: &[Arg::one_of(
            "args",
            &[
                Arg::block("host-port", &[Arg::string("host"), Arg::integer("port")]),
                Arg::block("no-one", &[Arg::word("no", "NO"), Arg::word("one", "ONE")]),
            ],
        )],
        limit: "`NO ONE` only: there is no replication.",
        ..BASE
    },
    Spec {
        name: "slowlog",
        arity: -2,
        since: "2.2.12",
        summary: "The commands that took longest.",
        complexity: "Depends on the subcommand.",
        subcommands: SLOWLOG,
        ..BASE
    },
    Spec {
        name: "swapdb",
        arity: 3,
        flags: flags![WRITE FAST],
        acl: acl![KEYSPACE DANGEROUS],
        propagation: Propagation::Verbatim,
        since: "4.0.0",
        summary: "Exchanges two databases.",
        complexity: "O(N), N the number of clients that watch keys or wait for them.",
        arguments: &[Arg::integer("index1"), Arg::integer("index2")],
        ..BASE
    },
    Spec {
        name: "time",
        arity: 1,
        flags: flags![LOADING STALE FAST],
        tips: &["nondeterministic_output"],
        since: "2.6.0",
        summary: "Returns the server's time.",
        complexity: "O(1)",
        ..BASE
    },
];
