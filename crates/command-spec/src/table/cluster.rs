//! Redis Cluster: described, and refused as a standalone Redis refuses it.

pub(super) mod slots;

use crate::spec::{Arg, Change, Deprecation, Group, Origin, Propagation, Spec, acl, flags};

const BASE: Spec = Spec { group: Group::Cluster, ..Spec::BLANK };

/// The commands of the group, by name.
pub(super) static COMMANDS: &[Spec] = &[
    Spec {
        name: "asking",
        arity: 1,
        flags: flags![FAST],
        acl: acl![CONNECTION],
        since: "3.0.0",
        summary: "Allows the next command in a hash slot that is being imported.",
        complexity: "O(1)",
        limit: "Refused: there is no cluster.",
        ..BASE
    },
    Spec {
        name: "cluster",
        arity: -2,
        since: "3.0.0",
        summary: "The nodes and hash slots of a cluster.",
        complexity: "Depends on the subcommand.",
        subcommands: CLUSTER,
        ..BASE
    },
    Spec {
        name: "readonly",
        arity: 1,
        flags: flags![LOADING STALE FAST],
        acl: acl![CONNECTION],
        since: "3.0.0",
        summary: "Allows this connection to read from a replica of a cluster.",
        complexity: "O(1)",
        limit: "Refused: there is no cluster.",
        ..BASE
    },
    Spec {
        name: "readwrite",
        arity: 1,
        flags: flags![LOADING STALE FAST],
        acl: acl![CONNECTION],
        since: "3.0.0",
        summary: "Ends READONLY.",
        complexity: "O(1)",
        limit: "Refused: there is no cluster.",
        ..BASE
    },
];

const CLUSTER: &[Spec] = &[
    Spec {
        name: "cluster|addslots",
        arity: -3,
        flags: flags![ADMIN STALE NO_ASYNC_LOADING],
        since: "3.0.0",
        summary: "Assigns hash slots to this node.",
        complexity: "O(N) N the total number of hash slot arguments",
        arguments: &[Arg::integer("slot").multiple()],
        limit: "Refused: there is no cluster.",
        ..BASE
    },
    Spec {
        name: "cluster|addslotsrange",
        arity: -4,
        flags: flags![ADMIN STALE NO_ASYNC_LOADING],
        since: "7.0.0",
        summary: "Assigns ranges of hash slots to this node.",
        complexity: "O(N) N the total number of the slots between the start slot and end slot arguments",
        arguments: &[Arg::block(
            "start-slot_end-slot",
            &[Arg::integer("start-slot"), Arg::integer("end-slot")],
        )
        .multiple()],
        limit: "Refused: there is no cluster.",
        ..BASE
    },
    Spec {
        name: "cluster|bumpepoch",
        arity: 2,
        flags: flags![ADMIN STALE NO_ASYNC_LOADING],
        tips: &["nondeterministic_output"],
        since: "3.0.0",
        summary: "Advances the configuration epoch.",
        complexity: "O(1)",
        limit: "Refused: there is no cluster.",
        ..BASE
    },
    Spec {
        name: "cluster|cancelslotmigrations",
        arity: 2,
        flags: flags![ADMIN STALE NO_ASYNC_LOADING ALL_DBS],
        since: "9.0.0",
        origin: Origin::Valkey,
        summary: "Cancels the migrations of slots that this node has begun.",
        complexity: "O(N), N the number of migrations under way.",
        served: false,
        limit: "There is no cluster.",
        ..BASE
    },
    Spec {
        name: "cluster|count-failure-reports",
        arity: 3,
        flags: flags![ADMIN STALE],
        tips: &["nondeterministic_output"],
        since: "3.0.0",
        history: &[Change::absent(
            Origin::Valkey,
            "9.0.0",
            "Reports of a node that has failed are not counted.",
        )],
        summary: "Returns how many nodes report a node as failing.",
        complexity: "O(N) N the number of failure reports",
        arguments: &[Arg::string("node-id")],
        limit: "Refused: there is no cluster.",
        ..BASE
    },
    Spec {
        name: "cluster|countkeysinslot",
        arity: 3,
        flags: flags![STALE],
        since: "3.0.0",
        summary: "Returns how many keys a hash slot has.",
        complexity: "O(1)",
        arguments: &[Arg::integer("slot")],
        limit: "Refused: there is no cluster.",
        ..BASE
    },
    Spec {
        name: "cluster|delslots",
        arity: -3,
        flags: flags![ADMIN STALE NO_ASYNC_LOADING],
        since: "3.0.0",
        summary: "Takes hash slots away from this node.",
        complexity: "O(N) N the total number of hash slot arguments",
        arguments: &[Arg::integer("slot").multiple()],
        limit: "Refused: there is no cluster.",
        ..BASE
    },
    Spec {
        name: "cluster|delslotsrange",
        arity: -4,
        flags: flags![ADMIN STALE NO_ASYNC_LOADING],
        since: "7.0.0",
        summary: "Takes ranges of hash slots away from this node.",
        complexity: "O(N) N the total number of the slots between the start slot and end slot arguments",
        arguments: &[Arg::block(
            "start-slot_end-slot",
            &[Arg::integer("start-slot"), Arg::integer("end-slot")],
        )
        .multiple()],
        limit: "Refused: there is no cluster.",
        ..BASE
    },
    Spec {
        name: "cluster|failover",
        arity: -2,
        flags: flags![ADMIN STALE NO_ASYNC_LOADING],
        since: "3.0.0",
        summary: "Makes a replica take over from its master.",
        complexity: "O(1)",
        arguments: &[Arg::one_of(
            "options",
            &[Arg::word("force", "FORCE"), Arg::word("takeover", "TAKEOVER")],
        )
        .optional()],
        limit: "Refused: there is no cluster.",
        ..BASE
    },
    Spec {
        name: "cluster|flushslot",
        arity: -3,
        flags: flags![WRITE ADMIN NO_ASYNC_LOADING ALL_DBS],
        acl: acl![KEYSPACE],
        propagation: Propagation::Verbatim,
        since: "9.0.0",
        origin: Origin::Valkey,
        summary: "Removes the keys of a slot.",
        complexity: "O(N), N the number of keys in the slot.",
        arguments: &[
            Arg::integer("slot"),
            Arg::one_of("flush-type", &[Arg::word("async", "ASYNC"), Arg::word("sync", "SYNC")])
                .optional(),
        ],
        served: false,
        limit: "There is no cluster.",
        ..BASE
    },
    Spec {
        name: "cluster|flushslots",
        arity: 2,
        flags: flags![ADMIN STALE NO_ASYNC_LOADING],
        since: "3.0.0",
        summary: "Takes all hash slots away from this node.",
        complexity: "O(1)",
        limit: "Refused: there is no cluster.",
        ..BASE
    },
    Spec {
        name: "cluster|forget",
        arity: 3,
        flags: flags![ADMIN STALE NO_ASYNC_LOADING],
        since: "3.0.0",
        summary: "Removes a node from the nodes table.",
        complexity: "O(1)",
        arguments: &[Arg::string("node-id")],
        limit: "Refused: there is no cluster.",
        ..BASE
    },
    Spec {
        name: "cluster|getkeysinslot",
        arity: 4,
        flags: flags![STALE],
        tips: &["nondeterministic_output"],
        since: "3.0.0",
        summary: "Returns keys of a hash slot.",
        complexity: "O(log(N)) N the number of requested keys",
        arguments: &[Arg::integer("slot"), Arg::integer("count")],
        limit: "Refused: there is no cluster.",
        ..BASE
    },
    Spec {
        name: "cluster|getslotmigrations",
        arity: 2,
        flags: flags![ADMIN STALE NO_ASYNC_LOADING],
        since: "9.0.0",
        origin: Origin::Valkey,
        summary: "Returns the migrations of slots, those under way and the last that ended.",
        complexity: "O(N), N the number of migrations.",
        served: false,
        limit: "There is no cluster.",
        ..BASE
    },
    Spec {
        name: "cluster|help",
        arity: 2,
        flags: flags![LOADING STALE],
        since: "5.0.0",
        summary: "Explains the subcommands.",
        complexity: "O(1)",
        limit: "Refused: there is no cluster.",
        ..BASE
    },
    Spec {
        name: "cluster|info",
        arity: 2,
        flags: flags![STALE],
        tips: &["nondeterministic_output"],
        since: "3.0.0",
        summary: "Describes the cluster.",
        complexity: "O(1)",
        limit: "Refused: there is no cluster.",
        ..BASE
    },
    Spec {
        name: "cluster|keyslot",
        arity: 3,
        flags: flags![STALE],
        since: "3.0.0",
        summary: "Returns the hash slot of a key.",
        complexity: "O(N) N the number of bytes in the key",
        arguments: &[Arg::string("key")],
        limit: "Refused: there is no cluster.",
        ..BASE
    },
    Spec {
        name: "cluster|links",
        arity: 2,
        flags: flags![STALE],
        tips: &["nondeterministic_output"],
        since: "7.0.0",
        summary: "Describes the connections between nodes.",
        complexity: "O(N) N the total number of Cluster nodes",
        limit: "Refused: there is no cluster.",
        ..BASE
    },
    Spec {
        name: "cluster|meet",
        arity: -4,
        flags: flags![ADMIN STALE NO_ASYNC_LOADING],
        since: "3.0.0",
        summary: "Makes two nodes know each other.",
        complexity: "O(1)",
        arguments: &[
            Arg::string("ip"),
            Arg::integer("port"),
            Arg::integer("cluster_bus_port").since("4.0.0").optional(),
        ],
        limit: "Refused: there is no cluster.",
        ..BASE
    },
    Spec {
        name: "cluster|migrateslots",
        arity: -4,
        flags: flags![ADMIN STALE NO_ASYNC_LOADING ALL_DBS],
        since: "9.0.0",
        origin: Origin::Valkey,
        summary: "Begins to move slots to other nodes.",
        complexity: "O(N), N the number of slots.",
        arguments: &[Arg::block(
            "migration-group",
            &[
                Arg::word("slotsrange-token", "SLOTSRANGE"),
                Arg::block("range", &[Arg::integer("start-slot"), Arg::integer("end-slot")])
                    .multiple(),
                Arg::word("node-token", "NODE"),
                Arg::string("node-id"),
            ],
        )
        .multiple()],
        served: false,
        limit: "There is no cluster.",
        ..BASE
    },
    Spec {
        name: "cluster|migration",
        arity: -4,
        flags: flags![ADMIN STALE NO_ASYNC_LOADING],
        since: "8.4.0",
        origin: Origin::Redis,
        summary: "Starts, watches and cancels imports of slots by this node.",
        complexity: "O(N), N the number of slots, to start one; O(N), N the number of migrations, otherwise.",
        arguments: &[Arg::one_of(
            "subcommand",
            &[
                Arg::block("import", &[Arg::integer("start-slot"), Arg::integer("end-slot")])
                    .token("IMPORT")
                    .multiple(),
                Arg::one_of(
                    "cancel",
                    &[Arg::string("task-id").token("ID"), Arg::word("all", "ALL")],
                )
                .token("CANCEL"),
                Arg::one_of(
                    "status",
                    &[
                        Arg::string("task-id").token("ID").optional(),
                        Arg::word("all", "ALL").optional(),
                    ],
                )
                .token("STATUS"),
            ],
        )],
        served: false,
        limit: "There is no cluster.",
        ..BASE
    },
    Spec {
        name: "cluster|myid",
        arity: 2,
        flags: flags![STALE],
        since: "3.0.0",
        summary: "Returns the id of this node.",
        complexity: "O(1)",
        limit: "Refused: there is no cluster.",
        ..BASE
    },
    Spec {
        name: "cluster|myshardid",
        arity: 2,
        flags: flags![STALE],
        tips: &["nondeterministic_output"],
        since: "7.2.0",
        summary: "Returns the id of this node's shard.",
        complexity: "O(1)",
        limit: "Refused: there is no cluster.",
        ..BASE
    },
    Spec {
        name: "cluster|nodes",
        arity: 2,
        flags: flags![STALE],
        tips: &["nondeterministic_output"],
        since: "3.0.0",
        summary: "Describes the nodes.",
        complexity: "O(N) N the total number of Cluster nodes",
        limit: "Refused: there is no cluster.",
        ..BASE
    },
    Spec {
        name: "cluster|replicas",
        arity: 3,
        flags: flags![ADMIN STALE],
        tips: &["nondeterministic_output"],
        since: "5.0.0",
        summary: "Describes the replicas of a node.",
        complexity: "O(1)",
        arguments: &[Arg::string("node-id")],
        limit: "Refused: there is no cluster.",
        ..BASE
    },
    Spec {
        name: "cluster|replicate",
        arity: 3,
        flags: flags![ADMIN STALE NO_ASYNC_LOADING],
        since: "3.0.0",
        history: &[Change::absent(Origin::Valkey, "9.0.0", "`NO ONE`.")],
        summary: "Makes this node a replica of another one.",
        complexity: "O(1)",
        arguments: &[Arg::string("node-id")],
        limit: "Refused: there is no cluster.",
        ..BASE
    },
    Spec {
        name: "cluster|reset",
        arity: -2,
        flags: flags![ADMIN NOSCRIPT STALE],
        since: "3.0.0",
        summary: "Makes this node forget the cluster.",
        complexity: "O(N) N the number of known nodes. The command may execute a FLUSHALL as a side effect",
        arguments: &[Arg::one_of(
            "hard_soft",
            &[Arg::word("hard", "HARD"), Arg::word("soft", "SOFT")],
        )
        .optional()],
        limit: "Refused: there is no cluster.",
        ..BASE
    },
    Spec {
        name: "cluster|saveconfig",
        arity: 2,
        flags: flags![ADMIN STALE NO_ASYNC_LOADING],
        since: "3.0.0",
        summary: "Writes the cluster configuration to disk.",
        complexity: "O(1)",
        limit: "Refused: there is no cluster.",
        ..BASE
    },
    Spec {
        name: "cluster|set-config-epoch",
        arity: 3,
        flags: flags![ADMIN STALE NO_ASYNC_LOADING],
        since: "3.0.0",
        summary: "Sets the configuration epoch of a new node.",
        complexity: "O(1)",
        arguments: &[Arg::integer("config-epoch")],
        limit: "Refused: there is no cluster.",
        ..BASE
    },
    Spec {
        name: "cluster|setslot",
        arity: -4,
        flags: flags![ADMIN STALE NO_ASYNC_LOADING],
        since: "3.0.0",
        history: &[Change::absent(Origin::Valkey, "8.0.0", "`TIMEOUT`.")],
        summary: "Binds a hash slot to a node.",
        complexity: "O(1)",
        arguments: &[
            Arg::integer("slot"),
            Arg::one_of(
                "subcommand",
                &[
                    Arg::string("node-id").token("IMPORTING"),
                    Arg::string("node-id").token("MIGRATING"),
                    Arg::string("node-id").token("NODE"),
                    Arg::word("stable", "STABLE"),
                ],
            ),
        ],
        limit: "Refused: there is no cluster.",
        ..BASE
    },
    Spec {
        name: "cluster|shards",
        arity: 2,
        flags: flags![LOADING STALE],
        tips: &["nondeterministic_output"],
        since: "7.0.0",
        history: &[Change::absent(
            Origin::Valkey,
            "9.1.0",
            "The fields `id` and `availability-zone`.",
        )],
        summary: "Returns which shards have which hash slots.",
        complexity: "O(N) N the total number of cluster nodes",
        limit: "Refused: there is no cluster.",
        ..BASE
    },
    Spec {
        name: "cluster|slaves",
        arity: 3,
        flags: flags![ADMIN STALE],
        tips: &["nondeterministic_output"],
        since: "3.0.0",
        summary: "Describes the replicas of a node.",
        complexity: "O(1)",
        deprecated: Some(Deprecation { since: "5.0.0", replaced_by: "`CLUSTER REPLICAS`" }),
        arguments: &[Arg::string("node-id")],
        limit: "Refused: there is no cluster.",
        ..BASE
    },
    Spec {
        name: "cluster|slot-stats",
        arity: -4,
        flags: flags![LOADING STALE],
        tips: &["nondeterministic_output", "request_policy:all_shards"],
        since: "8.0.0",
        origin: Origin::ValkeyThenRedis("8.2.0"),
        summary: "Returns what slots hold and have cost.",
        complexity: "O(N), N the number of slots; O(N*log(N)) with `ORDERBY`.",
        arguments: &[Arg::one_of(
            "filter",
            &[
                Arg::block("slotsrange", &[Arg::integer("start-slot"), Arg::integer("end-slot")])
                    .token("SLOTSRANGE"),
                Arg::block(
                    "orderby",
                    &[
                        Arg::string("metric"),
                        Arg::integer("limit").token("LIMIT").optional(),
                        Arg::one_of("order", &[Arg::word("asc", "ASC"), Arg::word("desc", "DESC")])
                            .optional(),
                    ],
                )
                .token("ORDERBY"),
            ],
        )],
        served: false,
        limit: "There is no cluster.",
        ..BASE
    },
    Spec {
        name: "cluster|slots",
        arity: 2,
        flags: flags![LOADING STALE],
        tips: &["nondeterministic_output"],
        since: "3.0.0",
        history: &[
            Change::new("4.0.0", "The ids of the nodes."),
            Change::new("7.0.0", "More about how nodes are reached."),
            Change::absent(Origin::Valkey, "9.1.0", "The field `availability-zone`."),
        ],
        summary: "Returns which nodes have which hash slots.",
        complexity: "O(N) N the total number of Cluster nodes",
        deprecated: Some(Deprecation { since: "7.0.0", replaced_by: "`CLUSTER SHARDS`" }),
        limit: "Refused: there is no cluster.",
        ..BASE
    },
    Spec {
        name: "cluster|syncslots",
        arity: -3,
        flags: flags![ADMIN STALE NO_ASYNC_LOADING],
        tips: &["nondeterministic_output"],
        since: "8.4.0",
        origin: Origin::RedisThenValkey("9.0.0"),
        summary: "Carries the migration of slots between two nodes.",
        complexity: "O(1)",
        arguments: &[Arg::one_of(
            "subcommand",
            &[
                Arg::block(
                    "sync",
                    &[
                        Arg::string("task-id"),
                        Arg::block(
                            "slot-range",
                            &[Arg::integer("start-slot"), Arg::integer("end-slot")],
                        )
                        .multiple(),
                    ],
                )
                .token("SYNC"),
                Arg::string("task-id").token("RDBCHANNEL"),
                Arg::word("snapshot-eof", "SNAPSHOT-EOF"),
                Arg::word("stream-eof", "STREAM-EOF"),
                Arg::block("ack", &[Arg::string("state"), Arg::integer("offset")]).token("ACK"),
                Arg::string("error").token("FAIL"),
                Arg::block(
                    "conf",
                    &[Arg::string("option").multiple(), Arg::string("value").multiple()],
                )
                .token("CONF"),
            ],
        )],
        served: false,
        limit: "There is no cluster.",
        ..BASE
    },
];
