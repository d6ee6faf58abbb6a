//! The server itself: configuration, figures, the log, databases as a whole.

use crate::generic;
use crate::spec::{Action, Arg, Deprecation, Group, KeySpec, Spec, acl, flags, key_flags};

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
        action: Action::Server,
        ..BASE
    },
    Spec {
        name: "bgrewriteaof",
        arity: 1,
        flags: flags![ADMIN NOSCRIPT NO_ASYNC_LOADING],
        since: "1.0.0",
        summary: "Starts a checkpoint: compacts the log in the background.",
        complexity: "O(1)",
        action: Action::Server,
        ..BASE
    },
    Spec {
        name: "bgsave",
        arity: -1,
        flags: flags![ADMIN NOSCRIPT NO_ASYNC_LOADING],
        since: "1.0.0",
        summary: "Starts a checkpoint in the background.",
        complexity: "O(1)",
        arguments: &[Arg::word("schedule", "SCHEDULE").since("3.2.2").optional()],
        action: Action::Server,
        ..BASE
    },
    Spec {
        name: "checkpoint",
        arity: 1,
        flags: flags![ADMIN NOSCRIPT],
        since: "0.1.0",
        summary: "Starts a checkpoint: compacts the log in the background.",
        complexity: "O(1)",
        action: Action::Server,
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
        action: Action::Server,
        ..BASE
    },
    Spec {
        name: "config",
        arity: -2,
        since: "2.0.0",
        summary: "The configuration of the running server.",
        complexity: "Depends on the subcommand.",
        subcommands: CONFIG,
        action: Action::Server,
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
        action: Action::Data(generic::dbsize),
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
        action: Action::Server,
        ..BASE
    },
    Spec {
        name: "flushall",
        arity: -1,
        flags: flags![WRITE],
        acl: acl![KEYSPACE DANGEROUS],
        tips: &["request_policy:all_shards", "response_policy:all_succeeded"],
        since: "1.0.0",
        summary: "Deletes all keys of all databases.",
        complexity: "O(N), N the number of keys of all databases.",
        arguments: &[Arg::one_of(
            "async",
            &[Arg::word("async", "ASYNC").since("4.0.0"), Arg::word("sync", "SYNC").since("6.2.0")],
        )
        .optional()],
        action: Action::Server,
        ..BASE
    },
    Spec {
        name: "flushdb",
        arity: -1,
        flags: flags![WRITE],
        acl: acl![KEYSPACE DANGEROUS],
        tips: &["request_policy:all_shards", "response_policy:all_succeeded"],
        since: "1.0.0",
        summary: "Deletes all keys of the database.",
        complexity: "O(N), N the number of keys of the database.",
        arguments: &[Arg::one_of(
            "async",
            &[Arg::word("async", "ASYNC").since("4.0.0"), Arg::word("sync", "SYNC").since("6.2.0")],
        )
        .optional()],
        action: Action::Server,
        ..BASE
    },
    Spec {
        name: "info",
        arity: -1,
        flags: flags![LOADING STALE],
        acl: acl![DANGEROUS],
        tips: &["nondeterministic_output", "request_policy:all_shards", "response_policy:special"],
        since: "1.0.0",
        summary: "Returns figures about the server.",
        complexity: "O(1)",
        arguments: &[Arg::string("section").optional().multiple()],
        action: Action::Server,
        ..BASE
    },
    Spec {
        name: "lastsave",
        arity: 1,
        flags: flags![LOADING STALE FAST],
        acl: acl![ADMIN DANGEROUS],
        tips: &["nondeterministic_output"],
        since: "1.0.0",
        summary: "Returns when the last checkpoint was finished.",
        complexity: "O(1)",
        action: Action::Server,
        ..BASE
    },
    Spec {
        name: "latency",
        arity: -2,
        since: "2.8.13",
        summary: "What took long, and when.",
        complexity: "Depends on the subcommand.",
        subcommands: LATENCY,
        action: Action::Server,
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
        action: Action::Server,
        ..BASE
    },
    Spec {
        name: "memory",
        arity: -2,
        since: "4.0.0",
        summary: "Where the memory goes.",
        complexity: "Depends on the subcommand.",
        subcommands: MEMORY,
        action: Action::Server,
        ..BASE
    },
    Spec {
        name: "monitor",
        arity: 1,
        flags: flags![ADMIN NOSCRIPT LOADING STALE],
        since: "1.0.0",
        summary: "Shows every command that the server executes from now on.",
        complexity: "O(1)",
        action: Action::Server,
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
        action: Action::Server,
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
        action: Action::Server,
        ..BASE
    },
    Spec {
        name: "save",
        arity: 1,
        flags: flags![ADMIN NOSCRIPT NO_ASYNC_LOADING NO_MULTI],
        since: "1.0.0",
        summary: "Checkpoints the log and waits until that is done.",
        complexity: "O(N), N the size of the live data.",
        action: Action::Server,
        ..BASE
    },
    Spec {
        name: "shutdown",
        arity: -1,
        flags: flags![ADMIN NOSCRIPT LOADING STALE NO_MULTI ALLOW_BUSY],
        since: "1.0.0",
        summary: "Makes everything durable and ends the server.",
        complexity: "O(1), or O(N) with a checkpoint, N the size of the live data.",
        arguments: &[
            Arg::one_of("nosave_save", &[Arg::word("nosave", "NOSAVE"), Arg::word("save", "SAVE")])
                .optional(),
            Arg::word("now", "NOW").since("7.0.0").optional(),
            Arg::word("force", "FORCE").since("7.0.0").optional(),
            Arg::word("abort", "ABORT").since("7.0.0").optional(),
        ],
        action: Action::Server,
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
        action: Action::Server,
        ..BASE
    },
    Spec {
        name: "slowlog",
        arity: -2,
        since: "2.2.12",
        summary: "The commands that took longest.",
        complexity: "Depends on the subcommand.",
        subcommands: SLOWLOG,
        action: Action::Server,
        ..BASE
    },
    Spec {
        name: "swapdb",
        arity: 3,
        flags: flags![WRITE FAST],
        acl: acl![KEYSPACE DANGEROUS],
        since: "4.0.0",
        summary: "Exchanges two databases.",
        complexity: "O(N), N the number of clients that watch keys or wait for them.",
        arguments: &[Arg::integer("index1"), Arg::integer("index2")],
        action: Action::Server,
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
        action: Action::Server,
        ..BASE
    },
];

const ACL: &[Spec] = &[
    Spec {
        name: "acl|cat",
        arity: -2,
        flags: flags![NOSCRIPT LOADING STALE],
        since: "6.0.0",
        summary: "Returns the categories, or the commands of one.",
        complexity: "O(1)",
        arguments: &[Arg::string("categoryname").optional()],
        action: Action::Server,
        ..BASE
    },
    Spec {
        name: "acl|deluser",
        arity: -3,
        flags: flags![ADMIN NOSCRIPT LOADING STALE],
        since: "6.0.0",
        summary: "Deletes users and closes their connections.",
        complexity: "O(1) for each user.",
        arguments: &[Arg::string("username").multiple()],
        action: Action::Server,
        ..BASE
    },
    Spec {
        name: "acl|dryrun",
        arity: -4,
        flags: flags![ADMIN NOSCRIPT LOADING STALE],
        since: "7.0.0",
        summary: "Tells whether a user may execute a command, without executing it.",
        complexity: "O(1)",
        arguments: &[
            Arg::string("username"),
            Arg::string("command"),
            Arg::string("arg").optional().multiple(),
        ],
        action: Action::Server,
        ..BASE
    },
    Spec {
        name: "acl|genpass",
        arity: -2,
        flags: flags![NOSCRIPT LOADING STALE],
        since: "6.0.0",
        summary: "Returns a random password.",
        complexity: "O(1)",
        arguments: &[Arg::integer("bits").optional()],
        action: Action::Server,
        ..BASE
    },
    Spec {
        name: "acl|getuser",
        arity: 3,
        flags: flags![ADMIN NOSCRIPT LOADING STALE],
        since: "6.0.0",
        summary: "Returns the rules of a user.",
        complexity: "O(N), N the number of rules of the user.",
        arguments: &[Arg::string("username")],
        action: Action::Server,
        ..BASE
    },
    Spec {
        name: "acl|help",
        arity: 2,
        flags: flags![LOADING STALE],
        since: "6.0.0",
        summary: "Explains the subcommands.",
        complexity: "O(1)",
        action: Action::Server,
        ..BASE
    },
    Spec {
        name: "acl|list",
        arity: 2,
        flags: flags![ADMIN NOSCRIPT LOADING STALE],
        since: "6.0.0",
        summary: "Returns all users as lines of a configuration.",
        complexity: "O(N), N the number of users.",
        action: Action::Server,
        ..BASE
    },
    Spec {
        name: "acl|load",
        arity: 2,
        flags: flags![ADMIN NOSCRIPT LOADING STALE],
        since: "6.0.0",
        summary: "Reads the users from their file again.",
        complexity: "O(N), N the number of users.",
        action: Action::Server,
        ..BASE
    },
    Spec {
        name: "acl|log",
        arity: -2,
        flags: flags![ADMIN NOSCRIPT LOADING STALE],
        since: "6.0.0",
        summary: "Returns or clears the latest denials.",
        complexity: "O(N), N the number of entries returned.",
        arguments: &[Arg::one_of(
            "operation",
            &[Arg::integer("count"), Arg::word("reset", "RESET")],
        )
        .optional()],
        action: Action::Server,
        ..BASE
    },
    Spec {
        name: "acl|save",
        arity: 2,
        flags: flags![ADMIN NOSCRIPT LOADING STALE],
        since: "6.0.0",
        summary: "Writes the users into their file.",
        complexity: "O(N), N the number of users.",
        action: Action::Server,
        ..BASE
    },
    Spec {
        name: "acl|setuser",
        arity: -3,
        flags: flags![ADMIN NOSCRIPT LOADING STALE],
        since: "6.0.0",
        summary: "Creates or changes a user.",
        complexity: "O(N), N the number of rules given.",
        arguments: &[Arg::string("username"), Arg::string("rule").optional().multiple()],
        action: Action::Server,
        ..BASE
    },
    Spec {
        name: "acl|users",
        arity: 2,
        flags: flags![ADMIN NOSCRIPT LOADING STALE],
        since: "6.0.0",
        summary: "Returns the names of all users.",
        complexity: "O(N), N the number of users.",
        action: Action::Server,
        ..BASE
    },
    Spec {
        name: "acl|whoami",
        arity: 2,
        flags: flags![NOSCRIPT LOADING STALE],
        since: "6.0.0",
        summary: "Returns the user of this connection.",
        complexity: "O(1)",
        action: Action::Server,
        ..BASE
    },
];

const COMMAND: &[Spec] = &[
    Spec {
        name: "command|count",
        arity: 2,
        flags: flags![LOADING STALE],
        acl: acl![CONNECTION],
        since: "2.8.13",
        summary: "Counts the commands.",
        complexity: "O(1)",
        action: Action::Server,
        ..BASE
    },
    Spec {
        name: "command|docs",
        arity: -2,
        flags: flags![LOADING STALE],
        acl: acl![CONNECTION],
        tips: &["nondeterministic_output_order"],
        since: "7.0.0",
        summary: "Returns the documentation of commands.",
        complexity: "O(N), N the number of commands asked for.",
        arguments: &[Arg::string("command-name").optional().multiple()],
        action: Action::Server,
        ..BASE
    },
    Spec {
        name: "command|getkeys",
        arity: -4,
        flags: flags![LOADING STALE],
        acl: acl![CONNECTION],
        since: "2.8.13",
        summary: "Returns the keys among the arguments of a call.",
        complexity: "O(N), N the number of arguments.",
        action: Action::Server,
        ..BASE
    },
    Spec {
        name: "command|getkeysandflags",
        arity: -4,
        flags: flags![LOADING STALE],
        acl: acl![CONNECTION],
        since: "7.0.0",
        summary: "Returns the keys among the arguments of a call and what happens to them.",
        complexity: "O(N), N the number of arguments.",
        action: Action::Server,
        ..BASE
    },
    Spec {
        name: "command|help",
        arity: 2,
        flags: flags![LOADING STALE],
        acl: acl![CONNECTION],
        since: "5.0.0",
        summary: "Explains the subcommands.",
        complexity: "O(1)",
        action: Action::Server,
        ..BASE
    },
    Spec {
        name: "command|info",
        arity: -2,
        flags: flags![LOADING STALE],
        acl: acl![CONNECTION],
        tips: &["nondeterministic_output_order"],
        since: "2.8.13",
        summary: "Returns the facts about commands.",
        complexity: "O(N), N the number of commands asked for.",
        arguments: &[Arg::string("command-name").optional().multiple()],
        action: Action::Server,
        ..BASE
    },
    Spec {
        name: "command|list",
        arity: -2,
        flags: flags![LOADING STALE],
        acl: acl![CONNECTION],
        tips: &["nondeterministic_output_order"],
        since: "7.0.0",
        summary: "Returns the names of commands.",
        complexity: "O(N), N the number of commands.",
        arguments: &[Arg::one_of(
            "filterby",
            &[
                Arg::string("module-name").token("MODULE"),
                Arg::string("category").token("ACLCAT"),
                Arg::pattern("pattern").token("PATTERN"),
            ],
        )
        .token("FILTERBY")
        .optional()],
        action: Action::Server,
        ..BASE
    },
];

const CONFIG: &[Spec] = &[
    Spec {
        name: "config|get",
        arity: -3,
        flags: flags![ADMIN NOSCRIPT LOADING STALE],
        since: "2.0.0",
        summary: "Returns settings.",
        complexity: "O(N), N the number of settings asked for.",
        arguments: &[Arg::block("parameter", &[Arg::string("parameter")]).multiple()],
        action: Action::Server,
        ..BASE
    },
    Spec {
        name: "config|help",
        arity: 2,
        flags: flags![LOADING STALE],
        since: "5.0.0",
        summary: "Explains the subcommands.",
        complexity: "O(1)",
        action: Action::Server,
        ..BASE
    },
    Spec {
        name: "config|resetstat",
        arity: 2,
        flags: flags![ADMIN NOSCRIPT LOADING STALE],
        since: "2.0.0",
        summary: "Sets the statistics of INFO to zero.",
        complexity: "O(1)",
        action: Action::Server,
        ..BASE
    },
    Spec {
        name: "config|rewrite",
        arity: 2,
        flags: flags![ADMIN NOSCRIPT LOADING STALE],
        since: "2.8.0",
        summary: "Writes the settings in force into the configuration file.",
        complexity: "O(N), N the size of the configuration file.",
        action: Action::Server,
        ..BASE
    },
    Spec {
        name: "config|set",
        arity: -4,
        flags: flags![ADMIN NOSCRIPT LOADING STALE],
        tips: &["request_policy:all_nodes", "response_policy:all_succeeded"],
        since: "2.0.0",
        summary: "Changes settings, all or none.",
        complexity: "O(N), N the number of settings given.",
        arguments: &[Arg::block(
            "parameter_value",
            &[Arg::string("parameter"), Arg::string("value")],
        )
        .multiple()],
        action: Action::Server,
        ..BASE
    },
];

const LATENCY: &[Spec] = &[
    Spec {
        name: "latency|doctor",
        arity: 2,
        flags: flags![ADMIN NOSCRIPT LOADING STALE],
        tips: &["nondeterministic_output", "request_policy:all_nodes", "response_policy:special"],
        since: "2.8.13",
        summary: "Returns advice about the latencies seen.",
        complexity: "O(1)",
        action: Action::Server,
        ..BASE
    },
    Spec {
        name: "latency|graph",
        arity: 3,
        flags: flags![ADMIN NOSCRIPT LOADING STALE],
        tips: &["nondeterministic_output", "request_policy:all_nodes", "response_policy:special"],
        since: "2.8.13",
        summary: "Draws the latencies of an event.",
        complexity: "O(1)",
        arguments: &[Arg::string("event")],
        action: Action::Server,
        ..BASE
    },
    Spec {
        name: "latency|help",
        arity: 2,
        flags: flags![LOADING STALE],
        since: "2.8.13",
        summary: "Explains the subcommands.",
        complexity: "O(1)",
        action: Action::Server,
        ..BASE
    },
    Spec {
        name: "latency|histogram",
        arity: -2,
        flags: flags![ADMIN NOSCRIPT LOADING STALE],
        tips: &["nondeterministic_output", "request_policy:all_nodes", "response_policy:special"],
        since: "7.0.0",
        summary: "Returns how long commands took, as histograms.",
        complexity: "O(N), N the number of commands asked for.",
        arguments: &[Arg::string("command").optional().multiple()],
        action: Action::Server,
        ..BASE
    },
    Spec {
        name: "latency|history",
        arity: 3,
        flags: flags![ADMIN NOSCRIPT LOADING STALE],
        tips: &["nondeterministic_output", "request_policy:all_nodes", "response_policy:special"],
        since: "2.8.13",
        summary: "Returns the latencies of an event, with their times.",
        complexity: "O(1)",
        arguments: &[Arg::string("event")],
        action: Action::Server,
        ..BASE
    },
    Spec {
        name: "latency|latest",
        arity: 2,
        flags: flags![ADMIN NOSCRIPT LOADING STALE],
        tips: &["nondeterministic_output", "request_policy:all_nodes", "response_policy:special"],
        since: "2.8.13",
        summary: "Returns the latest latency of each event.",
        complexity: "O(1)",
        action: Action::Server,
        ..BASE
    },
    Spec {
        name: "latency|reset",
        arity: -2,
        flags: flags![ADMIN NOSCRIPT LOADING STALE],
        tips: &["request_policy:all_nodes", "response_policy:all_succeeded"],
        since: "2.8.13",
        summary: "Forgets the latencies of events.",
        complexity: "O(1)",
        arguments: &[Arg::string("event").optional().multiple()],
        action: Action::Server,
        ..BASE
    },
];

const MEMORY: &[Spec] = &[
    Spec {
        name: "memory|doctor",
        arity: 2,
        tips: &["nondeterministic_output", "request_policy:all_shards", "response_policy:special"],
        since: "4.0.0",
        summary: "Returns advice about the memory in use.",
        complexity: "O(1)",
        action: Action::Server,
        ..BASE
    },
    Spec {
        name: "memory|help",
        arity: 2,
        flags: flags![LOADING STALE],
        since: "4.0.0",
        summary: "Explains the subcommands.",
        complexity: "O(1)",
        action: Action::Server,
        ..BASE
    },
    Spec {
        name: "memory|malloc-stats",
        arity: 2,
        tips: &["nondeterministic_output", "request_policy:all_shards", "response_policy:special"],
        since: "4.0.0",
        summary: "Returns what the allocator knows about itself.",
        complexity: "O(1)",
        action: Action::Server,
        ..BASE
    },
    Spec {
        name: "memory|purge",
        arity: 2,
        tips: &["request_policy:all_shards", "response_policy:all_succeeded"],
        since: "4.0.0",
        summary: "Asks the allocator to give memory back.",
        complexity: "O(1)",
        action: Action::Server,
        ..BASE
    },
    Spec {
        name: "memory|stats",
        arity: 2,
        tips: &["nondeterministic_output", "request_policy:all_shards", "response_policy:special"],
        since: "4.0.0",
        summary: "Returns figures about the memory in use.",
        complexity: "O(1)",
        action: Action::Server,
        ..BASE
    },
    Spec {
        name: "memory|usage",
        arity: -3,
        flags: flags![READONLY],
        keys: &[KeySpec::one(2, key_flags![RO])],
        since: "4.0.0",
        summary: "Estimates the memory that a key needs.",
        complexity: "O(N), N the number of elements sampled.",
        arguments: &[Arg::key("key", 0), Arg::integer("count").token("SAMPLES").optional()],
        action: Action::Server,
        ..BASE
    },
];

const SLOWLOG: &[Spec] = &[
    Spec {
        name: "slowlog|get",
        arity: -2,
        flags: flags![ADMIN LOADING STALE],
        tips: &["request_policy:all_nodes", "nondeterministic_output"],
        since: "2.2.12",
        summary: "Returns the latest slow commands.",
        complexity: "O(N), N the number of entries returned.",
        arguments: &[Arg::integer("count").optional()],
        action: Action::Server,
        ..BASE
    },
    Spec {
        name: "slowlog|help",
        arity: 2,
        flags: flags![LOADING STALE],
        since: "6.2.0",
        summary: "Explains the subcommands.",
        complexity: "O(1)",
        action: Action::Server,
        ..BASE
    },
    Spec {
        name: "slowlog|len",
        arity: 2,
        flags: flags![ADMIN LOADING STALE],
        tips: &["request_policy:all_nodes", "response_policy:agg_sum", "nondeterministic_output"],
        since: "2.2.12",
        summary: "Counts the entries of the slow log.",
        complexity: "O(1)",
        action: Action::Server,
        ..BASE
    },
    Spec {
        name: "slowlog|reset",
        arity: 2,
        flags: flags![ADMIN LOADING STALE],
        tips: &["request_policy:all_nodes", "response_policy:all_succeeded"],
        since: "2.2.12",
        summary: "Forgets the slow commands.",
        complexity: "O(N), N the number of entries.",
        action: Action::Server,
        ..BASE
    },
];
