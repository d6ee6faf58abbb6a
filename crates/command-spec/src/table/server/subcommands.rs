//! The subcommands of the server group's containers: ACL, COMMAND, CONFIG, LATENCY, MEMORY, MODULE, SLOWLOG.

use super::BASE;
use crate::spec::{Arg, Change, KeySpec, Origin, Spec, acl, flags, key_flags};

/// Subcommands of ACL.
pub(super) const ACL: &[Spec] = &[
    Spec {
        name: "acl|cat",
        arity: -2,
        flags: flags![NOSCRIPT LOADING STALE],
        since: "6.0.0",
        summary: "Returns the categories, or the commands of one.",
        complexity: "O(1)",
        arguments: &[Arg::string("categoryname").optional()],
        ..BASE
    },
    Spec {
        name: "acl|deluser",
        arity: -3,
        flags: flags![ADMIN NOSCRIPT LOADING STALE],
        tips: &["request_policy:all_nodes", "response_policy:all_succeeded"],
        since: "6.0.0",
        summary: "Deletes users and closes their connections.",
        complexity: "O(1) for each user.",
        arguments: &[Arg::string("username").multiple()],
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
        ..BASE
    },
    Spec {
        name: "acl|getuser",
        arity: 3,
        flags: flags![ADMIN NOSCRIPT LOADING STALE],
        since: "6.0.0",
        history: &[
            Change::new("6.2.0", "Patterns of channels."),
            Change::new("7.0.0", "Selectors, and patterns as the rules that set them."),
            Change::absent(Origin::Valkey, "9.1.0", "Databases that the user may use."),
        ],
        summary: "Returns the rules of a user.",
        complexity: "O(N), N the number of rules of the user.",
        arguments: &[Arg::string("username")],
        ..BASE
    },
    Spec {
        name: "acl|help",
        arity: 2,
        flags: flags![LOADING STALE],
        since: "6.0.0",
        summary: "Explains the subcommands.",
        complexity: "O(1)",
        ..BASE
    },
    Spec {
        name: "acl|list",
        arity: 2,
        flags: flags![ADMIN NOSCRIPT LOADING STALE],
        since: "6.0.0",
        summary: "Returns all users as lines of a configuration.",
        complexity: "O(N), N the number of users.",
        ..BASE
    },
    Spec {
        name: "acl|load",
        arity: 2,
        flags: flags![ADMIN NOSCRIPT LOADING STALE],
        since: "6.0.0",
        summary: "Reads the users from their file again.",
        complexity: "O(N), N the number of users.",
        ..BASE
    },
    Spec {
        name: "acl|log",
        arity: -2,
        flags: flags![ADMIN NOSCRIPT LOADING STALE],
        since: "6.0.0",
        history: &[Change::new(
            "7.2.0",
            "The id of an entry, and when it was created and updated.",
        )],
        summary: "Returns or clears the latest denials.",
        complexity: "O(N), N the number of entries returned.",
        arguments: &[Arg::one_of(
            "operation",
            &[Arg::integer("count"), Arg::word("reset", "RESET")],
        )
        .optional()],
        ..BASE
    },
    Spec {
        name: "acl|save",
        arity: 2,
        flags: flags![ADMIN NOSCRIPT LOADING STALE],
        tips: &["request_policy:all_nodes", "response_policy:all_succeeded"],
        since: "6.0.0",
        summary: "Writes the users into their file.",
        complexity: "O(N), N the number of users.",
        ..BASE
    },
    Spec {
        name: "acl|setuser",
        arity: -3,
        flags: flags![ADMIN NOSCRIPT LOADING STALE],
        tips: &["request_policy:all_nodes", "response_policy:all_succeeded"],
        since: "6.0.0",
        history: &[
            Change::new("6.2.0", "Patterns of channels."),
            Change::new("7.0.0", "Selectors, and permissions by kind of access."),
            Change::absent(Origin::Valkey, "9.1.0", "Databases that the user may use."),
        ],
        summary: "Creates or changes a user.",
        complexity: "O(N), N the number of rules given.",
        arguments: &[Arg::string("username"), Arg::string("rule").optional().multiple()],
        ..BASE
    },
    Spec {
        name: "acl|users",
        arity: 2,
        flags: flags![ADMIN NOSCRIPT LOADING STALE],
        since: "6.0.0",
        summary: "Returns the names of all users.",
        complexity: "O(N), N the number of users.",
        ..BASE
    },
    Spec {
        name: "acl|whoami",
        arity: 2,
        flags: flags![NOSCRIPT LOADING STALE],
        since: "6.0.0",
        summary: "Returns the user of this connection.",
        complexity: "O(1)",
        ..BASE
    },
];

/// Subcommands of COMMAND.
pub(super) const COMMAND: &[Spec] = &[
    Spec {
        name: "command|count",
        arity: 2,
        flags: flags![LOADING STALE],
        acl: acl![CONNECTION],
        since: "2.8.13",
        summary: "Counts the commands.",
        complexity: "O(1)",
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
        ..BASE
    },
    Spec {
        name: "command|getkeys",
        arity: -3,
        flags: flags![LOADING STALE],
        acl: acl![CONNECTION],
        since: "2.8.13",
        summary: "Returns the keys among the arguments of a call.",
        complexity: "O(N), N the number of arguments.",
        arguments: &[Arg::string("command"), Arg::string("arg").optional().multiple()],
        ..BASE
    },
    Spec {
        name: "command|getkeysandflags",
        arity: -3,
        flags: flags![LOADING STALE],
        acl: acl![CONNECTION],
        since: "7.0.0",
        summary: "Returns the keys among the arguments of a call and what happens to them.",
        complexity: "O(N), N the number of arguments.",
        arguments: &[Arg::string("command"), Arg::string("arg").optional().multiple()],
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
        ..BASE
    },
    Spec {
        name: "command|info",
        arity: -2,
        flags: flags![LOADING STALE],
        acl: acl![CONNECTION],
        tips: &["nondeterministic_output_order"],
        since: "2.8.13",
        history: &[Change::new("7.0.0", "Without names it tells of all commands.")],
        summary: "Returns the facts about commands.",
        complexity: "O(N), N the number of commands asked for.",
        arguments: &[Arg::string("command-name").optional().multiple()],
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
        ..BASE
    },
];

/// Subcommands of CONFIG.
pub(super) const CONFIG: &[Spec] = &[
    Spec {
        name: "config|get",
        arity: -3,
        flags: flags![ADMIN NOSCRIPT LOADING STALE],
        since: "2.0.0",
        history: &[Change::new("7.0.0", "Several patterns.")],
        summary: "Returns settings.",
        complexity: "O(N), N the number of settings asked for.",
        arguments: &[Arg::block("parameter", &[Arg::string("parameter")]).multiple()],
        ..BASE
    },
    Spec {
        name: "config|help",
        arity: 2,
        flags: flags![LOADING STALE],
        since: "5.0.0",
        summary: "Explains the subcommands.",
        complexity: "O(1)",
        ..BASE
    },
    Spec {
        name: "config|resetstat",
        arity: 2,
        flags: flags![ADMIN NOSCRIPT LOADING STALE],
        tips: &["request_policy:all_nodes", "response_policy:all_succeeded"],
        since: "2.0.0",
        summary: "Sets the statistics of INFO to zero.",
        complexity: "O(1)",
        ..BASE
    },
    Spec {
        name: "config|rewrite",
        arity: 2,
        flags: flags![ADMIN NOSCRIPT LOADING STALE],
        tips: &["request_policy:all_nodes", "response_policy:all_succeeded"],
        since: "2.8.0",
        summary: "Writes the settings in force into the configuration file.",
        complexity: "O(N), N the size of the configuration file.",
        ..BASE
    },
    Spec {
        name: "config|set",
        arity: -4,
        flags: flags![ADMIN NOSCRIPT LOADING STALE],
        tips: &["request_policy:all_nodes", "response_policy:all_succeeded"],
        since: "2.0.0",
        history: &[Change::new("7.0.0", "Several parameters.")],
        summary: "Changes settings, all or none.",
        complexity: "O(N), N the number of settings given.",
        arguments: &[Arg::block(
            "parameter_value",
            &[Arg::string("parameter"), Arg::string("value")],
        )
        .multiple()],
        ..BASE
    },
];

/// Subcommands of LATENCY.
pub(super) const LATENCY: &[Spec] = &[
    Spec {
        name: "latency|doctor",
        arity: 2,
        flags: flags![ADMIN NOSCRIPT LOADING STALE],
        tips: &["nondeterministic_output", "request_policy:all_nodes", "response_policy:special"],
        since: "2.8.13",
        summary: "Returns advice about the latencies seen.",
        complexity: "O(1)",
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
        ..BASE
    },
    Spec {
        name: "latency|help",
        arity: 2,
        flags: flags![LOADING STALE],
        since: "2.8.13",
        summary: "Explains the subcommands.",
        complexity: "O(1)",
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
        ..BASE
    },
    Spec {
        name: "latency|reset",
        arity: -2,
        flags: flags![ADMIN NOSCRIPT LOADING STALE],
        tips: &["request_policy:all_nodes", "response_policy:agg_sum"],
        since: "2.8.13",
        summary: "Forgets the latencies of events.",
        complexity: "O(1)",
        arguments: &[Arg::string("event").optional().multiple()],
        ..BASE
    },
];

/// Subcommands of MEMORY.
pub(super) const MEMORY: &[Spec] = &[
    Spec {
        name: "memory|doctor",
        arity: 2,
        tips: &["nondeterministic_output", "request_policy:all_shards", "response_policy:special"],
        since: "4.0.0",
        summary: "Returns advice about the memory in use.",
        complexity: "O(1)",
        ..BASE
    },
    Spec {
        name: "memory|help",
        arity: 2,
        flags: flags![LOADING STALE],
        since: "4.0.0",
        summary: "Explains the subcommands.",
        complexity: "O(1)",
        ..BASE
    },
    Spec {
        name: "memory|malloc-stats",
        arity: 2,
        tips: &["nondeterministic_output", "request_policy:all_shards", "response_policy:special"],
        since: "4.0.0",
        summary: "Returns what the allocator knows about itself.",
        complexity: "O(1)",
        ..BASE
    },
    Spec {
        name: "memory|purge",
        arity: 2,
        tips: &["request_policy:all_shards", "response_policy:all_succeeded"],
        since: "4.0.0",
        summary: "Asks the allocator to give memory back.",
        complexity: "O(1)",
        ..BASE
    },
    Spec {
        name: "memory|stats",
        arity: 2,
        tips: &["nondeterministic_output", "request_policy:all_shards", "response_policy:special"],
        since: "4.0.0",
        summary: "Returns figures about the memory in use.",
        complexity: "O(1)",
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
        ..BASE
    },
];

/// Subcommands of MODULE.
pub(super) const MODULE: &[Spec] = &[
    Spec {
        name: "module|help",
        arity: 2,
        flags: flags![LOADING STALE],
        since: "5.0.0",
        summary: "Explains the subcommands.",
        complexity: "O(1)",
        ..BASE
    },
    Spec {
        name: "module|list",
        arity: 2,
        flags: flags![ADMIN NOSCRIPT],
        tips: &["nondeterministic_output_order"],
        since: "4.0.0",
        summary: "Returns the loaded modules: none.",
        complexity: "O(1)",
        limit: "Always empty.",
        ..BASE
    },
    Spec {
        name: "module|load",
        arity: -3,
        flags: flags![ADMIN NOSCRIPT NO_ASYNC_LOADING PROTECTED],
        since: "4.0.0",
        summary: "Loads a module: refused.",
        complexity: "O(1)",
        arguments: &[Arg::string("path"), Arg::string("arg").optional().multiple()],
        limit: "Refused: there are no modules.",
        ..BASE
    },
    Spec {
        name: "module|loadex",
        arity: -3,
        flags: flags![ADMIN NOSCRIPT NO_ASYNC_LOADING PROTECTED],
        since: "7.0.0",
        summary: "Loads a module with its configuration: refused.",
        complexity: "O(1)",
        arguments: &[
            Arg::string("path"),
            Arg::block("configs", &[Arg::string("name"), Arg::string("value")])
                .token("CONFIG")
                .optional()
                .multiple_with_token(),
            Arg::block("args", &[Arg::string("arg")]).token("ARGS").optional().multiple(),
        ],
        limit: "Refused: there are no modules.",
        ..BASE
    },
    Spec {
        name: "module|unload",
        arity: 3,
        flags: flags![ADMIN NOSCRIPT NO_ASYNC_LOADING PROTECTED],
        since: "4.0.0",
        summary: "Unloads a module: refused.",
        complexity: "O(1)",
        arguments: &[Arg::string("name")],
        limit: "Refused: there are no modules.",
        ..BASE
    },
];

/// Subcommands of SLOWLOG.
pub(super) const SLOWLOG: &[Spec] = &[
    Spec {
        name: "slowlog|get",
        arity: -2,
        flags: flags![ADMIN LOADING STALE],
        tips: &["request_policy:all_nodes", "nondeterministic_output"],
        since: "2.2.12",
        history: &[
            Change::new("4.0.0", "The client's address and name."),
            Change::absent(Origin::Redis, "8.10.0", "How many arguments the call had."),
        ],
        summary: "Returns the latest slow commands.",
        complexity: "O(N), N the number of entries returned.",
        arguments: &[Arg::integer("count").optional()],
        ..BASE
    },
    Spec {
        name: "slowlog|help",
        arity: 2,
        flags: flags![LOADING STALE],
        since: "6.2.0",
        summary: "Explains the subcommands.",
        complexity: "O(1)",
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
        ..BASE
    },
];
