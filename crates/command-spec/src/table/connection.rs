//! The connection: the client at the other end, and the protocol.

use crate::spec::{Arg, Change, Deprecation, Group, Origin, Spec, acl, flags};

const BASE: Spec = Spec { group: Group::Connection, ..Spec::BLANK };

/// A filter of CLIENT LIST and CLIENT KILL.
const NOT_TYPE: Arg = Arg::one_of(
    "not-type",
    &[
        Arg::word("normal", "NORMAL"),
        Arg::word("master", "MASTER"),
        Arg::word("primary", "PRIMARY"),
        Arg::word("slave", "SLAVE"),
        Arg::word("replica", "REPLICA"),
        Arg::word("pubsub", "PUBSUB"),
    ],
)
.token("NOT-TYPE")
.since("9.0.0")
.optional();

/// The commands of the group, by name.
pub(super) static COMMANDS: &[Spec] = &[
    Spec {
        name: "auth",
        arity: -2,
        flags: flags![NOSCRIPT LOADING STALE FAST NO_AUTH ALLOW_BUSY],
        acl: acl![CONNECTION],
        since: "1.0.0",
        summary: "Authenticates the connection.",
        complexity: "O(1)",
        arguments: &[Arg::string("username").since("6.0.0").optional(), Arg::string("password")],
        ..BASE
    },
    Spec {
        name: "client",
        arity: -2,
        since: "2.4.0",
        summary: "This connection and the others.",
        complexity: "Depends on the subcommand.",
        subcommands: CLIENT,
        ..BASE
    },
    Spec {
        name: "echo",
        arity: 2,
        flags: flags![LOADING STALE FAST],
        acl: acl![CONNECTION],
        since: "1.0.0",
        summary: "Returns its argument.",
        complexity: "O(1)",
        arguments: &[Arg::string("message")],
        ..BASE
    },
    Spec {
        name: "hello",
        arity: -1,
        flags: flags![NOSCRIPT LOADING STALE FAST NO_AUTH ALLOW_BUSY],
        acl: acl![CONNECTION],
        since: "6.0.0",
        history: &[
            Change::new("6.2.0", "The version may be left out."),
            Change::absent(Origin::Valkey, "8.1.0", "The field `availability_zone`."),
        ],
        summary: "Chooses the protocol version and describes the server.",
        complexity: "O(1)",
        arguments: &[Arg::block(
            "arguments",
            &[
                Arg::integer("protover"),
                Arg::block(
                    "username_password",
                    &[Arg::string("username"), Arg::string("password")],
                )
                .token("AUTH")
                .optional(),
                Arg::string("clientname").token("SETNAME").optional(),
            ],
        )
        .optional()],
        ..BASE
    },
    Spec {
        name: "ping",
        arity: -1,
        flags: flags![FAST],
        acl: acl![CONNECTION],
        tips: &["request_policy:all_shards", "response_policy:all_succeeded"],
        since: "1.0.0",
        summary: "Returns PONG, or its argument.",
        complexity: "O(1)",
        arguments: &[Arg::string("message").optional()],
        ..BASE
    },
    Spec {
        name: "quit",
        arity: -1,
        flags: flags![NOSCRIPT LOADING STALE FAST NO_AUTH ALLOW_BUSY],
        acl: acl![CONNECTION],
        since: "1.0.0",
        summary: "Closes the connection.",
        complexity: "O(1)",
        deprecated: Some(Deprecation {
            since: "7.2.0",
            replaced_by: "just closing the connection",
        }),
        ..BASE
    },
    Spec {
        name: "reset",
        arity: 1,
        flags: flags![NOSCRIPT LOADING STALE FAST NO_AUTH ALLOW_BUSY],
        acl: acl![CONNECTION],
        since: "6.2.0",
        summary: "Puts the connection back to how it was when it was opened.",
        complexity: "O(1)",
        ..BASE
    },
    Spec {
        name: "select",
        arity: 2,
        flags: flags![LOADING STALE FAST],
        acl: acl![CONNECTION],
        since: "1.0.0",
        summary: "Chooses the database of this connection.",
        complexity: "O(1)",
        arguments: &[Arg::integer("index")],
        ..BASE
    },
];

const CLIENT: &[Spec] = &[
    Spec {
        name: "client|caching",
        arity: 3,
        flags: flags![NOSCRIPT LOADING STALE],
        acl: acl![CONNECTION],
        since: "6.0.0",
        summary: "Turns the tracking of the next command's keys on or off.",
        complexity: "O(1)",
        arguments: &[Arg::one_of("mode", &[Arg::word("yes", "YES"), Arg::word("no", "NO")])],
        ..BASE
    },
    Spec {
        name: "client|capa",
        arity: -3,
        flags: flags![NOSCRIPT LOADING STALE ALLOW_BUSY],
        acl: acl![CONNECTION],
        since: "8.0.0",
        origin: Origin::Valkey,
        summary: "Tells the server what the client is capable of.",
        complexity: "O(1)",
        arguments: &[Arg::string("capability").multiple()],
        served: false,
        limit: "It tells a replica that its client follows redirections; there is no replication.",
        ..BASE
    },
    Spec {
        name: "client|durability",
        arity: 3,
        flags: flags![NOSCRIPT LOADING STALE],
        acl: acl![CONNECTION],
        since: "0.1.0",
        origin: Origin::Indelible,
        summary: "Chooses when writes of this connection are answered: when durable, each second, or at once.",
        complexity: "O(1)",
        arguments: &[Arg::one_of(
            "policy",
            &[
                Arg::word("always", "ALWAYS"),
                Arg::word("everysec", "EVERYSEC"),
                Arg::word("no", "NO"),
            ],
        )],
        ..BASE
    },
    Spec {
        name: "client|getname",
        arity: 2,
        flags: flags![NOSCRIPT LOADING STALE],
        acl: acl![CONNECTION],
        since: "2.6.9",
        summary: "Returns the name of this connection.",
        complexity: "O(1)",
        ..BASE
    },
    Spec {
        name: "client|getredir",
        arity: 2,
        flags: flags![NOSCRIPT LOADING STALE],
        acl: acl![CONNECTION],
        since: "6.0.0",
        summary: "Returns the connection to which invalidations of tracked keys go.",
        complexity: "O(1)",
        ..BASE
    },
    Spec {
        name: "client|help",
        arity: 2,
        flags: flags![LOADING STALE],
        acl: acl![CONNECTION],
        since: "5.0.0",
        summary: "Explains the subcommands.",
        complexity: "O(1)",
        ..BASE
    },
    Spec {
        name: "client|id",
        arity: 2,
        flags: flags![NOSCRIPT LOADING STALE],
        acl: acl![CONNECTION],
        since: "5.0.0",
        summary: "Returns the id of this connection.",
        complexity: "O(1)",
        ..BASE
    },
    Spec {
        name: "client|import-source",
        arity: 3,
        flags: flags![NOSCRIPT LOADING STALE],
        acl: acl![CONNECTION],
        since: "8.1.0",
        origin: Origin::Valkey,
        summary: "Marks this connection as one that imports data, for which nothing expires.",
        complexity: "O(1)",
        arguments: &[Arg::one_of("enabled", &[Arg::word("on", "ON"), Arg::word("off", "OFF")])],
        served: false,
        limit: "Keys are imported with `indelible import`.",
        ..BASE
    },
    Spec {
        name: "client|info",
        arity: 2,
        flags: flags![NOSCRIPT LOADING STALE],
        acl: acl![CONNECTION],
        tips: &["nondeterministic_output"],
        since: "6.2.0",
        summary: "Describes this connection.",
        complexity: "O(1)",
        ..BASE
    },
    Spec {
        name: "client|kill",
        arity: -3,
        flags: flags![ADMIN NOSCRIPT LOADING STALE],
        acl: acl![CONNECTION],
        since: "2.4.0",
        history: &[
            Change { origin: Origin::Valkey, ..Change::new("8.0.0", "`TYPE PRIMARY`.") },
            Change { origin: Origin::Valkey, ..Change::new("8.1.0", "`ID` takes several ids.") },
            Change {
                origin: Origin::Valkey,
                ..Change::new(
                    "9.0.0",
                    "`NAME`, `IDLE`, `FLAGS`, `LIB-NAME`, `LIB-VER`, `DB`, `CAPA`, `IP`, and `NOT-` with most filters.",
                )
            },
        ],
        summary: "Closes connections.",
        complexity: "O(N), N the number of connections.",
        arguments: &[Arg::one_of(
            "filter",
            &[
                Arg::string("ip:port").deprecated("2.8.12"),
                Arg::one_of(
                    "new-format",
                    &[
                        Arg::integer("client-id").token("ID").since("2.8.12").multiple().optional(),
                        Arg::one_of(
                            "normal_master_slave_pubsub",
                            &[
                                Arg::word("normal", "NORMAL"),
                                Arg::word("master", "MASTER").since("3.2.0"),
                                Arg::word("primary", "PRIMARY").since("8.0.0"),
                                Arg::word("slave", "SLAVE"),
                                Arg::word("replica", "REPLICA").since("5.0.0"),
                                Arg::word("pubsub", "PUBSUB"),
                            ],
                        )
                        .token("TYPE")
                        .since("2.8.12")
                        .optional(),
                        Arg::string("username").token("USER").optional(),
                        Arg::string("ip:port").token("ADDR").optional(),
                        Arg::string("ip:port").token("LADDR").since("6.2.0").optional(),
                        Arg::string("yes/no").token("SKIPME").optional(),
                        Arg::integer("maxage").token("MAXAGE").since("7.4.0").optional(),
                        Arg::string("name").token("NAME").since("9.0.0").optional(),
                        Arg::integer("idle").token("IDLE").since("9.0.0").optional(),
                        Arg::string("flags").token("FLAGS").since("9.0.0").optional(),
                        Arg::string("lib-name").token("LIB-NAME").since("9.0.0").optional(),
                        Arg::string("lib-ver").token("LIB-VER").since("9.0.0").optional(),
                        Arg::integer("db").token("DB").since("9.0.0").optional(),
                        Arg::string("capa").token("CAPA").since("9.0.0").optional(),
                        Arg::string("ip").token("IP").since("9.0.0").optional(),
                        Arg::integer("not-client-id")
                            .token("NOT-ID")
                            .since("9.0.0")
                            .multiple()
                            .optional(),
                        NOT_TYPE,
                        Arg::string("not-username").token("NOT-USER").since("9.0.0").optional(),
                        Arg::string("not-addr").token("NOT-ADDR").since("9.0.0").optional(),
                        Arg::string("not-laddr").token("NOT-LADDR").since("9.0.0").optional(),
                        Arg::string("not-name").token("NOT-NAME").since("9.0.0").optional(),
                        Arg::string("not-flags").token("NOT-FLAGS").since("9.0.0").optional(),
                        Arg::string("not-lib-name").token("NOT-LIB-NAME").since("9.0.0").optional(),
                        Arg::string("not-lib-ver").token("NOT-LIB-VER").since("9.0.0").optional(),
                        Arg::integer("not-db").token("NOT-DB").since("9.0.0").optional(),
                        Arg::string("not-capa").token("NOT-CAPA").since("9.0.0").optional(),
                        Arg::string("not-ip").token("NOT-IP").since("9.0.0").optional(),
                    ],
                )
                .multiple(),
            ],
        )],
        ..BASE
    },
    Spec {
        name: "client|list",
        arity: -2,
        flags: flags![ADMIN NOSCRIPT LOADING STALE],
        acl: acl![CONNECTION],
        tips: &["nondeterministic_output"],
        since: "2.4.0",
        history: &[
            Change::new("2.8.12", "The field `id`."),
            Change::new("6.0.0", "The field `user`."),
            Change::new("6.2.0", "The fields `argv-mem`, `tot-mem`, `laddr` and `redir`."),
            Change::new("7.0.0", "The fields `resp`, `multi-mem`, `rbs` and `rbp`."),
            Change::new("7.0.3", "The field `ssub`."),
            Change::new("7.2.0", "The fields `lib-name` and `lib-ver`."),
            Change::absent(Origin::Redis, "7.4.0", "The field `watch`."),
            Change::absent(Origin::Redis, "8.0.0", "The field `io-thread`."),
            Change { origin: Origin::Valkey, ..Change::new("8.0.0", "`TYPE PRIMARY`.") },
            Change {
                origin: Origin::Valkey,
                ..Change::new("8.1.0", "`USER`, `ADDR`, `LADDR`, `SKIPME` and `MAXAGE`.")
            },
            Change {
                origin: Origin::Valkey,
                ..Change::new(
                    "9.0.0",
                    "`NAME`, `IDLE`, `FLAGS`, `LIB-NAME`, `LIB-VER`, `DB`, `CAPA`, `IP`, and `NOT-` with most filters.",
                )
            },
        ],
        summary: "Describes all connections.",
        complexity: "O(N), N the number of connections.",
        arguments: &[
            Arg::one_of(
                "normal_master_replica_pubsub",
                &[
                    Arg::word("normal", "NORMAL"),
                    Arg::word("master", "MASTER"),
                    Arg::word("primary", "PRIMARY").since("8.0.0"),
                    Arg::word("replica", "REPLICA"),
                    Arg::word("pubsub", "PUBSUB"),
                ],
            )
            .token("TYPE")
            .since("5.0.0")
            .optional(),
            Arg::block("id", &[Arg::integer("client-id").multiple()])
                .token("ID")
                .since("6.2.0")
                .optional(),
            Arg::string("username").token("USER").since("8.1.0").optional(),
            Arg::string("addr").token("ADDR").since("8.1.0").optional(),
            Arg::string("laddr").token("LADDR").since("8.1.0").optional(),
            Arg::string("yes/no").token("SKIPME").since("8.1.0").optional(),
            Arg::integer("maxage").token("MAXAGE").since("8.1.0").optional(),
            Arg::string("name").token("NAME").since("9.0.0").optional(),
            Arg::integer("idle").token("IDLE").since("9.0.0").optional(),
            Arg::string("flags").token("FLAGS").since("9.0.0").optional(),
            Arg::string("lib-name").token("LIB-NAME").since("9.0.0").optional(),
            Arg::string("lib-ver").token("LIB-VER").since("9.0.0").optional(),
            Arg::integer("db").token("DB").since("9.0.0").optional(),
            Arg::string("capa").token("CAPA").since("9.0.0").optional(),
            Arg::string("ip").token("IP").since("9.0.0").optional(),
            Arg::integer("not-client-id").token("NOT-ID").since("9.0.0").multiple().optional(),
            NOT_TYPE,
            Arg::string("not-username").token("NOT-USER").since("9.0.0").optional(),
            Arg::string("not-addr").token("NOT-ADDR").since("9.0.0").optional(),
            Arg::string("not-laddr").token("NOT-LADDR").since("9.0.0").optional(),
            Arg::string("not-name").token("NOT-NAME").since("9.0.0").optional(),
            Arg::string("not-flags").token("NOT-FLAGS").since("9.0.0").optional(),
            Arg::string("not-lib-name").token("NOT-LIB-NAME").since("9.0.0").optional(),
            Arg::string("not-lib-ver").token("NOT-LIB-VER").since("9.0.0").optional(),
            Arg::integer("not-db").token("NOT-DB").since("9.0.0").optional(),
            Arg::string("not-capa").token("NOT-CAPA").since("9.0.0").optional(),
            Arg::string("not-ip").token("NOT-IP").since("9.0.0").optional(),
        ],
        ..BASE
    },
    Spec {
        name: "client|no-evict",
        arity: 3,
        flags: flags![ADMIN NOSCRIPT LOADING STALE],
        acl: acl![CONNECTION],
        since: "7.0.0",
        summary: "Exempts this connection from being closed when clients need too much memory.",
        complexity: "O(1)",
        arguments: &[Arg::one_of("enabled", &[Arg::word("on", "ON"), Arg::word("off", "OFF")])],
        ..BASE
    },
    Spec {
        name: "client|no-touch",
        arity: 3,
        flags: flags![NOSCRIPT LOADING STALE],
        acl: acl![CONNECTION],
        since: "7.2.0",
        summary: "Makes this connection's commands no use of the keys that they read.",
        complexity: "O(1)",
        arguments: &[Arg::one_of("enabled", &[Arg::word("on", "ON"), Arg::word("off", "OFF")])],
        ..BASE
    },
    Spec {
        name: "client|pause",
        arity: -3,
        flags: flags![ADMIN NOSCRIPT LOADING STALE],
        acl: acl![CONNECTION],
        since: "2.9.50",
        summary: "Makes commands wait for a time.",
        complexity: "O(1)",
        arguments: &[
            Arg::integer("timeout"),
            Arg::one_of("mode", &[Arg::word("write", "WRITE"), Arg::word("all", "ALL")])
                .since("6.2.0")
                .optional(),
        ],
        ..BASE
    },
    Spec {
        name: "client|reply",
        arity: 3,
        flags: flags![NOSCRIPT LOADING STALE],
        acl: acl![CONNECTION],
        since: "3.2.0",
        summary: "Turns the replies to this connection on or off.",
        complexity: "O(1)",
        arguments: &[Arg::one_of(
            "on_off_skip",
            &[Arg::word("on", "ON"), Arg::word("off", "OFF"), Arg::word("skip", "SKIP")],
        )],
        ..BASE
    },
    Spec {
        name: "client|setinfo",
        arity: 4,
        flags: flags![NOSCRIPT LOADING STALE],
        acl: acl![CONNECTION],
        tips: &["request_policy:all_nodes", "response_policy:all_succeeded"],
        since: "7.2.0",
        summary: "Names the client library of this connection, or its version.",
        complexity: "O(1)",
        arguments: &[Arg::one_of(
            "attr",
            &[Arg::string("libname").token("lib-name"), Arg::string("libver").token("lib-ver")],
        )],
        ..BASE
    },
    Spec {
        name: "client|setname",
        arity: 3,
        flags: flags![NOSCRIPT LOADING STALE],
        acl: acl![CONNECTION],
        tips: &["request_policy:all_nodes", "response_policy:all_succeeded"],
        since: "2.6.9",
        summary: "Names this connection.",
        complexity: "O(1)",
        arguments: &[Arg::string("connection-name")],
        ..BASE
    },
    Spec {
        name: "client|tracking",
        arity: -3,
        flags: flags![NOSCRIPT LOADING STALE],
        acl: acl![CONNECTION],
        since: "6.0.0",
        summary: "Turns invalidation messages for the keys this connection reads on or off.",
        complexity: "O(1), or O(N) with prefixes, N their number.",
        arguments: &[
            Arg::one_of("status", &[Arg::word("on", "ON"), Arg::word("off", "OFF")]),
            Arg::integer("client-id").token("REDIRECT").optional(),
            Arg::string("prefix").token("PREFIX").optional().multiple_with_token(),
            Arg::word("bcast", "BCAST").optional(),
            Arg::word("optin", "OPTIN").optional(),
            Arg::word("optout", "OPTOUT").optional(),
            Arg::word("noloop", "NOLOOP").optional(),
        ],
        ..BASE
    },
    Spec {
        name: "client|trackinginfo",
        arity: 2,
        flags: flags![NOSCRIPT LOADING STALE],
        acl: acl![CONNECTION],
        since: "6.2.0",
        summary: "Describes the tracking of this connection.",
        complexity: "O(1)",
        ..BASE
    },
    Spec {
        name: "client|unblock",
        arity: -3,
        flags: flags![ADMIN NOSCRIPT LOADING STALE],
        acl: acl![CONNECTION],
        since: "5.0.0",
        summary: "Ends the waiting of a connection.",
        complexity: "O(log N), N the number of connections.",
        arguments: &[
            Arg::integer("client-id"),
            Arg::one_of(
                "timeout_error",
                &[Arg::word("timeout", "TIMEOUT"), Arg::word("error", "ERROR")],
            )
            .optional(),
        ],
        ..BASE
    },
    Spec {
        name: "client|unpause",
        arity: 2,
        flags: flags![ADMIN NOSCRIPT LOADING STALE],
        acl: acl![CONNECTION],
        since: "6.2.0",
        summary: "Ends CLIENT PAUSE.",
        complexity: "O(N), N the number of paused connections.",
        ..BASE
    },
];
