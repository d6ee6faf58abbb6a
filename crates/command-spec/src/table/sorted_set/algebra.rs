//! Unions, intersections and differences of sorted sets.

use super::BASE;
use crate::spec::{Arg, KeySpec, Propagation, Spec, acl, flags, key_flags};

/// The commands, by name.
pub(in crate::table) static COMMANDS: &[Spec] = &[
    Spec {
        name: "zdiff",
        arity: -3,
        flags: flags![READONLY MOVABLEKEYS],
        acl: acl![SORTEDSET],
        keys: &[KeySpec::counted(1, key_flags![RO ACCESS])],
        since: "6.2.0",
        summary: "Returns the members of the first sorted set that are in none of the others.",
        complexity: "O(L+(N-K)log(N)) at worst, L the number of members of all the sets, N the size of the first and K the size of the result.",
        arguments: &[
            Arg::integer("numkeys"),
            Arg::key("key", 0).multiple(),
            Arg::word("withscores", "WITHSCORES").optional(),
        ],
        ..BASE
    },
    Spec {
        name: "zdiffstore",
        arity: -4,
        flags: flags![WRITE DENYOOM MOVABLEKEYS],
        acl: acl![SORTEDSET],
        keys: &[KeySpec::one(1, key_flags![OW UPDATE]), KeySpec::counted(2, key_flags![RO ACCESS])],
        propagation: Propagation::Verbatim,
        since: "6.2.0",
        summary: "Stores the members of the first sorted set that are in none of the others.",
        complexity: "O(L+(N-K)log(N)) at worst, L the number of members of all the sets, N the size of the first and K the size of the result.",
        arguments: &[
            Arg::key("destination", 0),
            Arg::integer("numkeys"),
            Arg::key("key", 1).multiple(),
        ],
        ..BASE
    },
    Spec {
        name: "zinter",
        arity: -3,
        flags: flags![READONLY MOVABLEKEYS],
        acl: acl![SORTEDSET],
        keys: &[KeySpec::counted(1, key_flags![RO ACCESS])],
        since: "6.2.0",
        summary: "Returns the members that all the sorted sets have.",
        complexity: "O(N*K)+O(M*log(M)) at worst, N the size of the smallest set, K the number of sets and M the size of the result.",
        arguments: &[
            Arg::integer("numkeys"),
            Arg::key("key", 0).multiple(),
            Arg::integer("weight").token("WEIGHTS").optional().multiple(),
            Arg::one_of(
                "aggregate",
                &[
                    Arg::word("sum", "SUM"),
                    Arg::word("min", "MIN"),
                    Arg::word("max", "MAX"),
                    Arg::word("count", "COUNT").since("8.8.0"),
                ],
            )
            .token("AGGREGATE")
            .optional(),
            Arg::word("withscores", "WITHSCORES").optional(),
        ],
        ..BASE
    },
    Spec {
        name: "zintercard",
        arity: -3,
        flags: flags![READONLY MOVABLEKEYS],
        acl: acl![SORTEDSET],
        keys: &[KeySpec::counted(1, key_flags![RO ACCESS])],
        since: "7.0.0",
        summary: "Counts the members that all the sorted sets have.",
        complexity: "O(N*K) at worst, N the size of the smallest set and K the number of sets.",
        arguments: &[
            Arg::integer("numkeys"),
            Arg::key("key", 0).multiple(),
            Arg::integer("limit").token("LIMIT").optional(),
        ],
        ..BASE
    },
    Spec {
        name: "zinterstore",
        arity: -4,
        flags: flags![WRITE DENYOOM MOVABLEKEYS],
        acl: acl![SORTEDSET],
        keys: &[KeySpec::one(1, key_flags![OW UPDATE]), KeySpec::counted(2, key_flags![RO ACCESS])],
        propagation: Propagation::Verbatim,
        since: "2.0.0",
        summary: "Stores the members that all the sorted sets have.",
        complexity: "O(N*K)+O(M*log(M)) at worst, N the size of the smallest set, K the number of sets and M the size of the result.",
        arguments: &[
            Arg::key("destination", 0),
            Arg::integer("numkeys"),
            Arg::key("key", 1).multiple(),
            Arg::integer("weight").token("WEIGHTS").optional().multiple(),
            Arg::one_of(
                "aggregate",
                &[
                    Arg::word("sum", "SUM"),
                    Arg::word("min", "MIN"),
                    Arg::word("max", "MAX"),
                    Arg::word("count", "COUNT").since("8.8.0"),
                ],
            )
            .token("AGGREGATE")
            .optional(),
        ],
        ..BASE
    },
    Spec {
        name: "zunion",
        arity: -3,
        flags: flags![READONLY MOVABLEKEYS],
        acl: acl![SORTEDSET],
        keys: &[KeySpec::counted(1, key_flags![RO ACCESS])],
        since: "6.2.0",
        summary: "Returns the members that any of the sorted sets has.",
        complexity: "O(N)+O(M*log(M)), N the number of members of all the sets and M the size of the result.",
        arguments: &[
            Arg::integer("numkeys"),
            Arg::key("key", 0).multiple(),
            Arg::integer("weight").token("WEIGHTS").optional().multiple(),
            Arg::one_of(
                "aggregate",
                &[
                    Arg::word("sum", "SUM"),
                    Arg::word("min", "MIN"),
                    Arg::word("max", "MAX"),
                    Arg::word("count", "COUNT").since("8.8.0"),
                ],
            )
            .token("AGGREGATE")
            .optional(),
            Arg::word("withscores", "WITHSCORES").optional(),
        ],
        ..BASE
    },
    Spec {
        name: "zunionstore",
        arity: -4,
        flags: flags![WRITE DENYOOM MOVABLEKEYS],
        acl: acl![SORTEDSET],
        keys: &[KeySpec::one(1, key_flags![OW UPDATE]), KeySpec::counted(2, key_flags![RO ACCESS])],
        propagation: Propagation::Verbatim,
        since: "2.0.0",
        summary: "Stores the members that any of the sorted sets has.",
        complexity: "O(N)+O(M*log(M)), N the number of members of all the sets and M the size of the result.",
        arguments: &[
            Arg::key("destination", 0),
            Arg::integer("numkeys"),
            Arg::key("key", 1).multiple(),
            Arg::integer("weight").token("WEIGHTS").optional().multiple(),
            Arg::one_of(
                "aggregate",
                &[
                    Arg::word("sum", "SUM"),
                    Arg::word("min", "MIN"),
                    Arg::word("max", "MAX"),
                    Arg::word("count", "COUNT").since("8.8.0"),
                ],
            )
            .token("AGGREGATE")
            .optional(),
        ],
        ..BASE
    },
];
