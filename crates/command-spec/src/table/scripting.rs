//! Scripts and functions.

use crate::spec::{Arg, Group, KeySpec, Origin, Propagation, Spec, acl, flags, key_flags};

const BASE: Spec = Spec { group: Group::Scripting, ..Spec::BLANK };

/// What Redis notes of the keys of scripts.
const WORST: &str =
    "We cannot tell how the keys will be used so we assume the worst, RW and UPDATE";
const WORST_READ: &str =
    "We cannot tell how the keys will be used so we assume the worst, RO and ACCESS";

/// The commands of the group, by name.
pub(super) static COMMANDS: &[Spec] = &[
    Spec {
        name: "eval",
        arity: -3,
        flags: flags![NOSCRIPT STALE SKIP_MONITOR MAY_REPLICATE MAY_WRITE NO_MANDATORY_KEYS MOVABLEKEYS],
        acl: acl![SCRIPTING],
        keys: &[KeySpec::counted(2, key_flags![RW ACCESS UPDATE]).noted(WORST)],
        propagation: Propagation::Effects,
        since: "2.6.0",
        summary: "Executes a script.",
        complexity: "Depends on the script.",
        arguments: &[
            Arg::string("script"),
            Arg::integer("numkeys"),
            Arg::key("key", 0).optional().multiple(),
            Arg::string("arg").optional().multiple(),
        ],
        ..BASE
    },
    Spec {
        name: "eval_ro",
        arity: -3,
        flags: flags![READONLY NOSCRIPT STALE SKIP_MONITOR NO_MANDATORY_KEYS MOVABLEKEYS],
        acl: acl![SCRIPTING],
        keys: &[KeySpec::counted(2, key_flags![RO ACCESS]).noted(WORST_READ)],
        since: "7.0.0",
        summary: "Executes a script that writes nothing.",
        complexity: "Depends on the script.",
        arguments: &[
            Arg::string("script"),
            Arg::integer("numkeys"),
            Arg::key("key", 0).optional().multiple(),
            Arg::string("arg").optional().multiple(),
        ],
        ..BASE
    },
    Spec {
        name: "evalsha",
        arity: -3,
        flags: flags![NOSCRIPT STALE SKIP_MONITOR MAY_REPLICATE MAY_WRITE NO_MANDATORY_KEYS MOVABLEKEYS],
        acl: acl![SCRIPTING],
        keys: &[KeySpec::counted(2, key_flags![RW ACCESS UPDATE])],
        propagation: Propagation::Effects,
        since: "2.6.0",
        summary: "Executes a script that the server has, by its SHA1 digest.",
        complexity: "Depends on the script.",
        arguments: &[
            Arg::string("sha1"),
            Arg::integer("numkeys"),
            Arg::key("key", 0).optional().multiple(),
            Arg::string("arg").optional().multiple(),
        ],
        ..BASE
    },
    Spec {
        name: "evalsha_ro",
        arity: -3,
        flags: flags![READONLY NOSCRIPT STALE SKIP_MONITOR NO_MANDATORY_KEYS MOVABLEKEYS],
        acl: acl![SCRIPTING],
        keys: &[KeySpec::counted(2, key_flags![RO ACCESS])],
        since: "7.0.0",
        summary: "Executes a script that the server has and that writes nothing, by its SHA1 digest.",
        complexity: "Depends on the script.",
        arguments: &[
            Arg::string("sha1"),
            Arg::integer("numkeys"),
            Arg::key("key", 0).optional().multiple(),
            Arg::string("arg").optional().multiple(),
        ],
        ..BASE
    },
    Spec {
        name: "fcall",
        arity: -3,
        flags: flags![NOSCRIPT STALE SKIP_MONITOR MAY_REPLICATE MAY_WRITE NO_MANDATORY_KEYS MOVABLEKEYS],
        acl: acl![SCRIPTING],
        keys: &[KeySpec::counted(2, key_flags![RW ACCESS UPDATE]).noted(WORST)],
        propagation: Propagation::Effects,
        since: "7.0.0",
        summary: "Calls a function.",
        complexity: "Depends on the function.",
        arguments: &[
            Arg::string("function"),
            Arg::integer("numkeys"),
            Arg::key("key", 0).optional().multiple(),
            Arg::string("arg").optional().multiple(),
        ],
        ..BASE
    },
    Spec {
        name: "fcall_ro",
        arity: -3,
        flags: flags![READONLY NOSCRIPT STALE SKIP_MONITOR NO_MANDATORY_KEYS MOVABLEKEYS],
        acl: acl![SCRIPTING],
        keys: &[KeySpec::counted(2, key_flags![RO ACCESS]).noted(WORST_READ)],
        since: "7.0.0",
        summary: "Calls a function that writes nothing.",
        complexity: "Depends on the function.",
        arguments: &[
            Arg::string("function"),
            Arg::integer("numkeys"),
            Arg::key("key", 0).optional().multiple(),
            Arg::string("arg").optional().multiple(),
        ],
        ..BASE
    },
    Spec {
        name: "function",
        arity: -2,
        since: "7.0.0",
        summary: "Functions: scripts that the server keeps with its data.",
        complexity: "Depends on the subcommand.",
        subcommands: FUNCTION,
        ..BASE
    },
    Spec {
        name: "script",
        arity: -2,
        since: "2.6.0",
        summary: "The scripts that the server has by their digests.",
        complexity: "Depends on the subcommand.",
        subcommands: SCRIPT,
        ..BASE
    },
];

const FUNCTION: &[Spec] = &[
    Spec {
        name: "function|delete",
        arity: 3,
        flags: flags![WRITE NOSCRIPT],
        acl: acl![SCRIPTING],
        tips: &["request_policy:all_shards", "response_policy:all_succeeded"],
        propagation: Propagation::Verbatim,
        since: "7.0.0",
        summary: "Deletes a library and its functions.",
        complexity: "O(1)",
        arguments: &[Arg::string("library-name")],
        ..BASE
    },
    Spec {
        name: "function|dump",
        arity: 2,
        flags: flags![NOSCRIPT],
        acl: acl![SCRIPTING],
        since: "7.0.0",
        summary: "Returns all libraries in a form that FUNCTION RESTORE takes.",
        complexity: "O(N), N the number of functions.",
        ..BASE
    },
    Spec {
        name: "function|flush",
        arity: -2,
        flags: flags![WRITE NOSCRIPT],
        acl: acl![SCRIPTING],
        tips: &["request_policy:all_shards", "response_policy:all_succeeded"],
        propagation: Propagation::Verbatim,
        since: "7.0.0",
        summary: "Deletes all libraries.",
        complexity: "O(N), N the number of functions.",
        arguments: &[Arg::one_of(
            "flush-type",
            &[Arg::word("async", "ASYNC"), Arg::word("sync", "SYNC")],
        )
        .optional()],
        ..BASE
    },
    Spec {
        name: "function|help",
        arity: 2,
        flags: flags![LOADING STALE],
        acl: acl![SCRIPTING],
        since: "7.0.0",
        summary: "Explains the subcommands.",
        complexity: "O(1)",
        ..BASE
    },
    Spec {
        name: "function|kill",
        arity: 2,
        flags: flags![NOSCRIPT ALLOW_BUSY],
        acl: acl![SCRIPTING],
        tips: &["request_policy:all_shards", "response_policy:one_succeeded"],
        since: "7.0.0",
        summary: "Ends the function that is running, unless it has written.",
        complexity: "O(1)",
        ..BASE
    },
    Spec {
        name: "function|list",
        arity: -2,
        flags: flags![NOSCRIPT],
        acl: acl![SCRIPTING],
        tips: &["nondeterministic_output_order"],
        since: "7.0.0",
        summary: "Describes the libraries and their functions.",
        complexity: "O(N), N the number of functions.",
        arguments: &[
            Arg::string("library-name-pattern").token("LIBRARYNAME").optional(),
            Arg::word("withcode", "WITHCODE").optional(),
        ],
        ..BASE
    },
    Spec {
        name: "function|load",
        arity: -3,
        flags: flags![WRITE DENYOOM NOSCRIPT],
        acl: acl![SCRIPTING],
        tips: &["request_policy:all_shards", "response_policy:all_succeeded"],
        propagation: Propagation::Verbatim,
        since: "7.0.0",
        summary: "Creates a library from its source.",
        complexity: "O(1), and the compilation of the source.",
        arguments: &[Arg::word("replace", "REPLACE").optional(), Arg::string("function-code")],
        ..BASE
    },
    Spec {
        name: "function|restore",
        arity: -3,
        flags: flags![WRITE DENYOOM NOSCRIPT],
        acl: acl![SCRIPTING],
        tips: &["request_policy:all_shards", "response_policy:all_succeeded"],
        propagation: Propagation::Verbatim,
        since: "7.0.0",
        summary: "Creates libraries from what FUNCTION DUMP returned.",
        complexity: "O(N), N the number of functions in the payload.",
        arguments: &[
            Arg::string("serialized-value"),
            Arg::one_of(
                "policy",
                &[
                    Arg::word("flush", "FLUSH"),
                    Arg::word("append", "APPEND"),
                    Arg::word("replace", "REPLACE"),
                ],
            )
            .optional(),
        ],
        ..BASE
    },
    Spec {
        name: "function|stats",
        arity: 2,
        flags: flags![NOSCRIPT ALLOW_BUSY],
        acl: acl![SCRIPTING],
        tips: &["nondeterministic_output", "request_policy:all_shards", "response_policy:special"],
        since: "7.0.0",
        summary: "Describes the function that is running, and the engines.",
        complexity: "O(1)",
        ..BASE
    },
];

const SCRIPT: &[Spec] = &[
    Spec {
        name: "script|debug",
        arity: 3,
        flags: flags![NOSCRIPT],
        acl: acl![SCRIPTING],
        since: "3.2.0",
        summary: "Chooses how scripts of this connection are debugged.",
        complexity: "O(1)",
        arguments: &[Arg::one_of(
            "mode",
            &[Arg::word("yes", "YES"), Arg::word("sync", "SYNC"), Arg::word("no", "NO")],
        )],
        ..BASE
    },
    Spec {
        name: "script|exists",
        arity: -3,
        flags: flags![NOSCRIPT],
        acl: acl![SCRIPTING],
        tips: &["request_policy:all_shards", "response_policy:agg_logical_and"],
        since: "2.6.0",
        summary: "Tells which scripts the server has.",
        complexity: "O(N), N the number of scripts asked for.",
        arguments: &[Arg::string("sha1").multiple()],
        ..BASE
    },
    Spec {
        name: "script|flush",
        arity: -2,
        flags: flags![NOSCRIPT],
        acl: acl![SCRIPTING],
        tips: &["request_policy:all_nodes", "response_policy:all_succeeded"],
        since: "2.6.0",
        summary: "Forgets all scripts.",
        complexity: "O(N), N the number of scripts.",
        arguments: &[Arg::one_of(
            "flush-type",
            &[Arg::word("async", "ASYNC"), Arg::word("sync", "SYNC")],
        )
        .since("6.2.0")
        .optional()],
        ..BASE
    },
    Spec {
        name: "script|help",
        arity: 2,
        flags: flags![LOADING STALE],
        acl: acl![SCRIPTING],
        since: "5.0.0",
        summary: "Explains the subcommands.",
        complexity: "O(1)",
        ..BASE
    },
    Spec {
        name: "script|kill",
        arity: 2,
        flags: flags![NOSCRIPT ALLOW_BUSY],
        acl: acl![SCRIPTING],
        tips: &["request_policy:all_shards", "response_policy:one_succeeded"],
        since: "2.6.0",
        summary: "Ends the script that is running, unless it has written.",
        complexity: "O(1)",
        ..BASE
    },
    Spec {
        name: "script|load",
        arity: 3,
        flags: flags![NOSCRIPT STALE],
        acl: acl![SCRIPTING],
        tips: &["request_policy:all_nodes", "response_policy:all_succeeded"],
        since: "2.6.0",
        summary: "Gives the server a script to keep, and returns its digest.",
        complexity: "O(N), N the length of the script.",
        arguments: &[Arg::string("script")],
        ..BASE
    },
    Spec {
        name: "script|show",
        arity: 3,
        flags: flags![NOSCRIPT STALE],
        acl: acl![SCRIPTING],
        since: "8.0.0",
        origin: Origin::Valkey,
        summary: "Returns the source of a script that the server has.",
        complexity: "O(1)",
        arguments: &[Arg::string("sha1")],
        ..BASE
    },
];
