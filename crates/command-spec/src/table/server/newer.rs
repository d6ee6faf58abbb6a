//! What newer servers measure, and how they are backed up.

use super::BASE;
use crate::spec::{Arg, Origin, Spec, flags};

/// The commands of the group, by name.
pub(in crate::table) static COMMANDS: &[Spec] = &[
    Spec {
        name: "backup",
        arity: -2,
        since: "8.10.0",
        origin: Origin::Redis,
        summary: "Backups that this server makes of its log.",
        complexity: "Depends on the subcommand.",
        subcommands: BACKUP,
        ..BASE
    },
    Spec {
        name: "commandlog",
        arity: -2,
        since: "8.1.0",
        origin: Origin::Valkey,
        summary: "The commands that were slow, or large as requests or replies.",
        complexity: "Depends on the subcommand.",
        subcommands: COMMANDLOG,
        ..BASE
    },
    Spec {
        name: "hotkeys",
        arity: -2,
        since: "8.6.0",
        origin: Origin::Redis,
        summary: "Measures which keys are used most.",
        complexity: "Depends on the subcommand.",
        subcommands: HOTKEYS,
        served: false,
        limit: "Not yet.",
        ..BASE
    },
];

const BACKUP: &[Spec] = &[
    Spec {
        name: "backup|abort",
        arity: 2,
        flags: flags![ADMIN NOSCRIPT],
        since: "8.10.0",
        origin: Origin::Redis,
        summary: "Ends a backup that is not sealed.",
        complexity: "O(1)",
        ..BASE
    },
    Spec {
        name: "backup|cleanup",
        arity: 2,
        flags: flags![ADMIN NOSCRIPT],
        since: "8.10.0",
        origin: Origin::Redis,
        summary: "Removes the files of a sealed backup.",
        complexity: "O(1)",
        ..BASE
    },
    Spec {
        name: "backup|create",
        arity: -2,
        flags: flags![ADMIN NOSCRIPT],
        since: "0.1.0",
        origin: Origin::Indelible,
        summary: "Keeps a state until it is deleted, for `indelible restore`.",
        complexity: "O(1)",
        arguments: &[
            Arg::string("name").optional(),
            Arg::one_of(
                "at",
                &[
                    Arg::integer("lsn"),
                    Arg::string("time"),
                    Arg::string("-duration"),
                    Arg::word("flush", "FLUSH"),
                ],
            )
            .token("AT")
            .optional(),
        ],
        ..BASE
    },
    Spec {
        name: "backup|delete",
        arity: 3,
        flags: flags![ADMIN NOSCRIPT],
        since: "0.1.0",
        origin: Origin::Indelible,
        summary: "Deletes a backup.",
        complexity: "O(1)",
        arguments: &[Arg::string("name")],
        ..BASE
    },
    Spec {
        name: "backup|help",
        arity: 2,
        flags: flags![LOADING STALE],
        since: "8.10.0",
        origin: Origin::Redis,
        summary: "Explains the subcommands.",
        complexity: "O(1)",
        ..BASE
    },
    Spec {
        name: "backup|list",
        arity: 2,
        flags: flags![ADMIN LOADING STALE],
        since: "8.10.0",
        origin: Origin::Redis,
        limit: "It returns the named backups, and no files: `indelible restore` makes those.",
        summary: "Returns the backups.",
        complexity: "O(1)",
        ..BASE
    },
    Spec {
        name: "backup|seal",
        arity: 2,
        flags: flags![ADMIN NOSCRIPT],
        since: "8.10.0",
        origin: Origin::Redis,
        summary: "Ends a backup: its files stay as they are.",
        complexity: "O(1)",
        ..BASE
    },
    Spec {
        name: "backup|start",
        arity: 2,
        flags: flags![ADMIN NOSCRIPT],
        since: "8.10.0",
        origin: Origin::Redis,
        summary: "Begins a backup.",
        complexity: "O(1)",
        ..BASE
    },
    Spec {
        name: "backup|status",
        arity: -2,
        flags: flags![ADMIN LOADING STALE],
        since: "8.10.0",
        origin: Origin::Redis,
        summary: "Describes the backup.",
        complexity: "O(1)",
        arguments: &[Arg::string("name").optional()],
        ..BASE
    },
    Spec {
        name: "backup|timeline",
        arity: -2,
        flags: flags![ADMIN LOADING STALE],
        since: "0.1.0",
        origin: Origin::Indelible,
        summary: "Returns backups, points before databases were emptied, and dangerous commands.",
        complexity: "O(1)",
        arguments: &[Arg::integer("count").token("COUNT").optional()],
        ..BASE
    },
    Spec {
        name: "backup|verify",
        arity: -2,
        flags: flags![ADMIN NOSCRIPT],
        since: "0.1.0",
        origin: Origin::Indelible,
        summary: "Reads backups in the background, to see whether they can be restored.",
        complexity: "O(1)",
        arguments: &[Arg::string("name").optional()],
        ..BASE
    },
];

const COMMANDLOG: &[Spec] = &[
    Spec {
        name: "commandlog|get",
        arity: 4,
        flags: flags![ADMIN LOADING STALE],
        tips: &["request_policy:all_nodes", "nondeterministic_output"],
        since: "8.1.0",
        origin: Origin::Valkey,
        summary: "Returns entries of one of the command logs.",
        complexity: "O(N), N the number of entries returned.",
        arguments: &[
            Arg::integer("count"),
            Arg::one_of(
                "type",
                &[
                    Arg::word("slow", "slow"),
                    Arg::word("large-request", "large-request"),
                    Arg::word("large-reply", "large-reply"),
                ],
            ),
        ],
        ..BASE
    },
    Spec {
        name: "commandlog|help",
        arity: 2,
        flags: flags![LOADING STALE],
        since: "8.1.0",
        origin: Origin::Valkey,
        summary: "Explains the subcommands.",
        complexity: "O(1)",
        ..BASE
    },
    Spec {
        name: "commandlog|len",
        arity: 3,
        flags: flags![ADMIN LOADING STALE],
        tips: &["request_policy:all_nodes", "response_policy:agg_sum", "nondeterministic_output"],
        since: "8.1.0",
        origin: Origin::Valkey,
        summary: "Returns the number of entries in one of the command logs.",
        complexity: "O(1)",
        arguments: &[Arg::one_of(
            "type",
            &[
                Arg::word("slow", "slow"),
                Arg::word("large-request", "large-request"),
                Arg::word("large-reply", "large-reply"),
            ],
        )],
        ..BASE
    },
    Spec {
        name: "commandlog|reset",
        arity: 3,
        flags: flags![ADMIN LOADING STALE],
        tips: &["request_policy:all_nodes", "response_policy:all_succeeded"],
        since: "8.1.0",
        origin: Origin::Valkey,
        summary: "Empties one of the command logs.",
        complexity: "O(N), N the number of entries.",
        arguments: &[Arg::one_of(
            "type",
            &[
                Arg::word("slow", "slow"),
                Arg::word("large-request", "large-request"),
                Arg::word("large-reply", "large-reply"),
            ],
        )],
        ..BASE
    },
];

const HOTKEYS: &[Spec] = &[
    Spec {
        name: "hotkeys|get",
        arity: 2,
        flags: flags![ADMIN NOSCRIPT],
        tips: &["nondeterministic_output", "request_policy:special", "response_policy:special"],
        since: "8.6.0",
        origin: Origin::Redis,
        summary: "Returns the keys that were used most while it was measured.",
        complexity: "O(N), N the number of keys returned.",
        served: false,
        limit: "Not yet.",
        ..BASE
    },
    Spec {
        name: "hotkeys|help",
        arity: 2,
        flags: flags![LOADING STALE],
        since: "8.6.1",
        origin: Origin::Redis,
        summary: "Explains the subcommands.",
        complexity: "O(1)",
        served: false,
        limit: "Not yet.",
        ..BASE
    },
    Spec {
        name: "hotkeys|reset",
        arity: 2,
        flags: flags![ADMIN NOSCRIPT],
        tips: &["request_policy:special"],
        since: "8.6.0",
        origin: Origin::Redis,
        summary: "Forgets what was measured.",
        complexity: "O(1)",
        served: false,
        limit: "Not yet.",
        ..BASE
    },
    Spec {
        name: "hotkeys|start",
        arity: -2,
        flags: flags![ADMIN NOSCRIPT],
        tips: &["request_policy:special"],
        since: "8.6.0",
        origin: Origin::Redis,
        summary: "Begins to measure which keys are used most.",
        complexity: "O(1)",
        arguments: &[
            Arg::block(
                "metrics",
                &[
                    Arg::integer("count"),
                    Arg::word("cpu", "CPU").optional(),
                    Arg::word("net", "NET").optional(),
                ],
            )
            .token("METRICS"),
            Arg::integer("k").token("COUNT").optional(),
            Arg::integer("seconds").token("DURATION").optional(),
            Arg::integer("ratio").token("SAMPLE").optional(),
            Arg::block("slots", &[Arg::integer("count"), Arg::integer("slot").multiple()])
                .token("SLOTS")
                .optional(),
        ],
        served: false,
        limit: "Not yet.",
        ..BASE
    },
    Spec {
        name: "hotkeys|stop",
        arity: 2,
        flags: flags![ADMIN NOSCRIPT],
        tips: &["request_policy:special"],
        since: "8.6.0",
        origin: Origin::Redis,
        summary: "Ends the measurement.",
        complexity: "O(1)",
        served: false,
        limit: "Not yet.",
        ..BASE
    },
];
