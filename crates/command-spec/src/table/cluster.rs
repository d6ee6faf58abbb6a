//! Redis Cluster: described, and refused as a standalone Redis refuses it.

use crate::spec::{Arg, Deprecation, Group, Spec, acl, flags};

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
        ..BASE
    },
    Spec {
        name: "cluster|count-failure-reports",
        arity: 3,
        flags: flags![ADMIN STALE],
        tips: &["nondeterministic_output"],
        since: "3.0.0",
        summary: "Returns how many nodes report a node as failing.",
        complexity: "O(N) N the number of failure reports",
        arguments: &[Arg::string("node-id")],
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
        ..BASE
    },
    Spec {
        name: "cluster|flushslots",
        arity: 2,
        flags: flags![ADMIN STALE NO_ASYNC_LOADING],
        since: "3.0.0",
        summary: "Takes all hash slots away from this node.",
        complexity: "O(1)",
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
        ..BASE
    },
    Spec {
        name: "cluster|help",
        arity: 2,
        flags: flags![LOADING STALE],
        since: "5.0.0",
        summary: "Explains the subcommands.",
        complexity: "O(1)",
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
        ..BASE
    },
    Spec {
        name: "cluster|myid",
        arity: 2,
        flags: flags![STALE],
        since: "3.0.0",
        summary: "Returns the id of this node.",
        complexity: "O(1)",
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
        ..BASE
    },
    Spec {
        name: "cluster|replicate",
        arity: 3,
        flags: flags![ADMIN STALE NO_ASYNC_LOADING],
        since: "3.0.0",
        summary: "Makes this node a replica of another one.",
        complexity: "O(1)",
        arguments: &[Arg::string("node-id")],
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
        ..BASE
    },
    Spec {
        name: "cluster|saveconfig",
        arity: 2,
        flags: flags![ADMIN STALE NO_ASYNC_LOADING],
        since: "3.0.0",
        summary: "Writes the cluster configuration to disk.",
        complexity: "O(1)",
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
        ..BASE
    },
    Spec {
        name: "cluster|setslot",
        arity: -4,
        flags: flags![ADMIN STALE NO_ASYNC_LOADING],
        since: "3.0.0",
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
        ..BASE
    },
    Spec {
        name: "cluster|shards",
        arity: 2,
        flags: flags![STALE],
        tips: &["nondeterministic_output"],
        since: "7.0.0",
        summary: "Returns which shards have which hash slots.",
        complexity: "O(N) N the total number of cluster nodes",
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
        ..BASE
    },
    Spec {
        name: "cluster|slots",
        arity: 2,
        flags: flags![STALE],
        tips: &["nondeterministic_output"],
        since: "3.0.0",
        summary: "Returns which nodes have which hash slots.",
        complexity: "O(N) N the total number of Cluster nodes",
        deprecated: Some(Deprecation { since: "7.0.0", replaced_by: "`CLUSTER SHARDS`" }),
        ..BASE
    },
];
