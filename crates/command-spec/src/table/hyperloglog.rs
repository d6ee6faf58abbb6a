//! HyperLogLog: about how many different elements there are.

use crate::spec::{Arg, Group, KeySpec, Propagation, Spec, acl, flags, key_flags};

const BASE: Spec = Spec { group: Group::HyperLogLog, ..Spec::BLANK };

/// The commands of the group, by name.
pub(super) static COMMANDS: &[Spec] = &[
    Spec {
        name: "pfadd",
        arity: -2,
        flags: flags![WRITE DENYOOM FAST],
        acl: acl![HYPERLOGLOG],
        keys: &[KeySpec::one(1, key_flags![RW INSERT])],
        propagation: Propagation::Verbatim,
        since: "2.8.9",
        summary: "Counts elements in a HyperLogLog, creating it when the key is new.",
        complexity: "O(1) for each element.",
        arguments: &[Arg::key("key", 0), Arg::string("element").optional().multiple()],
        ..BASE
    },
    Spec {
        name: "pfcount",
        arity: -2,
        flags: flags![READONLY MAY_REPLICATE],
        acl: acl![HYPERLOGLOG],
        keys: &[KeySpec::range(1, -1, 1, key_flags![RW ACCESS]).noted(
            "RW because it may change the internal representation of the key, and propagate to replicas",
        )],
        propagation: Propagation::Verbatim,
        since: "2.8.9",
        summary: "Returns about how many different elements HyperLogLogs have counted.",
        complexity: "O(N), N the number of keys.",
        arguments: &[Arg::key("key", 0).multiple()],
        ..BASE
    },
    Spec {
        name: "pfdebug",
        arity: 3,
        flags: flags![WRITE DENYOOM ADMIN],
        acl: acl![HYPERLOGLOG],
        keys: &[KeySpec::one(2, key_flags![RW ACCESS])],
        propagation: Propagation::Verbatim,
        since: "2.8.9",
        summary: "Looks into a HyperLogLog.",
        complexity: "Depends on the subcommand.",
        system: true,
        arguments: &[Arg::string("subcommand"), Arg::key("key", 0)],
        ..BASE
    },
    Spec {
        name: "pfmerge",
        arity: -2,
        flags: flags![WRITE DENYOOM],
        acl: acl![HYPERLOGLOG],
        keys: &[
            KeySpec::one(1, key_flags![RW ACCESS INSERT]),
            KeySpec::range(2, -1, 1, key_flags![RO ACCESS]),
        ],
        propagation: Propagation::Verbatim,
        since: "2.8.9",
        summary: "Merges HyperLogLogs into one.",
        complexity: "O(N), N the number of HyperLogLogs.",
        arguments: &[Arg::key("destkey", 0), Arg::key("sourcekey", 1).optional().multiple()],
        ..BASE
    },
    Spec {
        name: "pfselftest",
        arity: 1,
        flags: flags![ADMIN],
        acl: acl![HYPERLOGLOG],
        since: "2.8.9",
        summary: "Tests the implementation of HyperLogLog.",
        complexity: "Constant, but long.",
        system: true,
        ..BASE
    },
];
