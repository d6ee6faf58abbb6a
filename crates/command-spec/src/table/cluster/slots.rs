//! What a node of a cluster does with its slots and their keys.

use super::BASE;
use crate::spec::{Arg, Group, KeySpec, Origin, Propagation, Spec, acl, always, flags, key_flags};

/// The commands of the group, by name.
pub(in crate::table) static COMMANDS: &[Spec] = &[
    Spec {
        name: "clusterscan",
        arity: -2,
        flags: flags![READONLY TOUCHES_ARBITRARY_KEYS],
        acl: acl![KEYSPACE],
        tips: &["nondeterministic_output", "request_policy:special", "response_policy:special"],
        keys: &[KeySpec::one(1, key_flags![NOT_KEY])],
        since: "9.1.0",
        origin: Origin::Valkey,
        summary: "Iterates over the keys of a cluster, slot by slot.",
        complexity: "O(1) a call, O(N) for the whole iteration.",
        arguments: &[
            Arg::string("cursor"),
            Arg::pattern("match-pattern").token("MATCH").optional(),
            Arg::integer("count").token("COUNT").optional(),
            Arg::string("type").token("TYPE").optional(),
            Arg::integer("slot").token("SLOT").optional(),
        ],
        served: false,
        limit: "There is no cluster.",
        ..BASE
    },
    Spec {
        name: "sflush",
        arity: -3,
        flags: flags![WRITE EXPERIMENTAL],
        acl: acl![KEYSPACE DANGEROUS],
        propagation: Propagation::Rewritten(&[always(
            "TRIMSLOTS RANGES numranges start-slot end-slot ...",
        )]),
        group: Group::Server,
        since: "8.0.0",
        origin: Origin::Redis,
        summary: "Removes the keys of ranges of slots.",
        complexity: "O(N), N the number of keys removed.",
        arguments: &[
            Arg::block("data", &[Arg::integer("slot-start"), Arg::integer("slot-last")]).multiple(),
            Arg::one_of("flush-type", &[Arg::word("async", "ASYNC"), Arg::word("sync", "SYNC")])
                .optional(),
        ],
        served: false,
        limit: "There is no cluster.",
        ..BASE
    },
    Spec {
        name: "trimslots",
        arity: -5,
        flags: flags![WRITE],
        acl: acl![KEYSPACE DANGEROUS],
        propagation: Propagation::Always,
        group: Group::Server,
        since: "8.4.0",
        origin: Origin::Redis,
        summary: "Removes the keys of slots that this node no longer serves.",
        complexity: "O(N), N the number of keys removed.",
        arguments: &[Arg::block(
            "ranges",
            &[
                Arg::integer("numranges"),
                Arg::block("slots", &[Arg::integer("startslot"), Arg::integer("endslot")])
                    .multiple(),
            ],
        )
        .token("RANGES")],
        served: false,
        limit: "There is no cluster.",
        ..BASE
    },
];
