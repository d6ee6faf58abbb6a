//! Sorted sets.

pub(super) mod algebra;

use crate::spec::{
    Arg, Change, Deprecation, Group, KeySpec, Propagation, Spec, acl, always, flags, key_flags,
    when,
};

const BASE: Spec = Spec { group: Group::SortedSet, ..Spec::BLANK };

/// The commands of the group, by name; those that combine sets are in [`algebra`].
pub(super) static COMMANDS: &[Spec] = &[
    Spec {
        name: "bzmpop",
        arity: -5,
        flags: flags![WRITE BLOCKING MOVABLEKEYS],
        acl: acl![SORTEDSET],
        keys: &[KeySpec::counted(2, key_flags![RW ACCESS DELETE])],
        propagation: Propagation::Rewritten(&[
            when("with MIN", "ZPOPMIN key count"),
            when("with MAX", "ZPOPMAX key count"),
        ]),
        since: "7.0.0",
        summary: "Pops members with the lowest or highest scores from the first sorted set that has any, waiting until one has.",
        complexity: "O(K)+O(M*log(N)), K the number of keys, N the size of the set and M the number of members returned.",
        arguments: &[
            Arg::double("timeout"),
            Arg::integer("numkeys"),
            Arg::key("key", 0).multiple(),
            Arg::one_of("where", &[Arg::word("min", "MIN"), Arg::word("max", "MAX")]),
            Arg::integer("count").token("COUNT").optional(),
        ],
        ..BASE
    },
    Spec {
        name: "bzpopmax",
        arity: -3,
        flags: flags![WRITE BLOCKING FAST],
        acl: acl![SORTEDSET],
        keys: &[KeySpec::range(1, -2, 1, key_flags![RW ACCESS DELETE])],
        propagation: Propagation::Rewritten(&[always("ZPOPMAX key")]),
        since: "5.0.0",
        history: &[Change::new("6.0.0", "The timeout may have a fraction.")],
        summary: "Pops the member with the highest score from the first sorted set that has one, waiting until one has.",
        complexity: "O(log(N)), N the size of the set.",
        arguments: &[Arg::key("key", 0).multiple(), Arg::double("timeout")],
        ..BASE
    },
    Spec {
        name: "bzpopmin",
        arity: -3,
        flags: flags![WRITE BLOCKING FAST],
        acl: acl![SORTEDSET],
        keys: &[KeySpec::range(1, -2, 1, key_flags![RW ACCESS DELETE])],
        propagation: Propagation::Rewritten(&[always("ZPOPMIN key")]),
        since: "5.0.0",
        history: &[Change::new("6.0.0", "The timeout may have a fraction.")],
        summary: "Pops the member with the lowest score from the first sorted set that has one, waiting until one has.",
        complexity: "O(log(N)), N the size of the set.",
        arguments: &[Arg::key("key", 0).multiple(), Arg::double("timeout")],
        ..BASE
    },
    Spec {
        name: "zadd",
        arity: -4,
        flags: flags![WRITE DENYOOM FAST],
        acl: acl![SORTEDSET],
        keys: &[KeySpec::one(1, key_flags![RW UPDATE])],
        propagation: Propagation::Verbatim,
        since: "1.2.0",
        history: &[Change::new("2.4.0", "Several members.")],
        summary: "Adds members to a sorted set or changes their scores.",
        complexity: "O(log(N)) for each member, N the size of the set.",
        arguments: &[
            Arg::key("key", 0),
            Arg::one_of("condition", &[Arg::word("nx", "NX"), Arg::word("xx", "XX")])
                .since("3.0.2")
                .optional(),
            Arg::one_of("comparison", &[Arg::word("gt", "GT"), Arg::word("lt", "LT")])
                .since("6.2.0")
                .optional(),
            Arg::word("change", "CH").since("3.0.2").optional(),
            Arg::word("increment", "INCR").since("3.0.2").optional(),
            Arg::block("score_member", &[Arg::double("score"), Arg::string("member")]).multiple(),
        ],
        ..BASE
    },
    Spec {
        name: "zcard",
        arity: 2,
        flags: flags![READONLY FAST],
        acl: acl![SORTEDSET],
        keys: &[KeySpec::one(1, key_flags![RO])],
        since: "1.2.0",
        summary: "Returns the number of members of a sorted set.",
        complexity: "O(1)",
        arguments: &[Arg::key("key", 0)],
        ..BASE
    },
    Spec {
        name: "zcount",
        arity: 4,
        flags: flags![READONLY FAST],
        acl: acl![SORTEDSET],
        keys: &[KeySpec::one(1, key_flags![RO ACCESS])],
        since: "2.0.0",
        summary: "Counts the members with scores in a range.",
        complexity: "O(log(N)), N the size of the set.",
        arguments: &[Arg::key("key", 0), Arg::double("min"), Arg::double("max")],
        ..BASE
    },
    Spec {
        name: "zincrby",
        arity: 4,
        flags: flags![WRITE DENYOOM FAST],
        acl: acl![SORTEDSET],
        keys: &[KeySpec::one(1, key_flags![RW ACCESS UPDATE])],
        propagation: Propagation::Verbatim,
        since: "1.2.0",
        summary: "Adds to the score of a member.",
        complexity: "O(log(N)), N the size of the set.",
        arguments: &[Arg::key("key", 0), Arg::integer("increment"), Arg::string("member")],
        ..BASE
    },
    Spec {
        name: "zlexcount",
        arity: 4,
        flags: flags![READONLY FAST],
        acl: acl![SORTEDSET],
        keys: &[KeySpec::one(1, key_flags![RO ACCESS])],
        since: "2.8.9",
        summary: "Counts the members between two strings.",
        complexity: "O(log(N)), N the size of the set.",
        arguments: &[Arg::key("key", 0), Arg::string("min"), Arg::string("max")],
        ..BASE
    },
    Spec {
        name: "zmpop",
        arity: -4,
        flags: flags![WRITE MOVABLEKEYS],
        acl: acl![SORTEDSET],
        keys: &[KeySpec::counted(1, key_flags![RW ACCESS DELETE])],
        propagation: Propagation::Rewritten(&[
            when("with MIN", "ZPOPMIN key count"),
            when("with MAX", "ZPOPMAX key count"),
        ]),
        since: "7.0.0",
        summary: "Pops members with the lowest or highest scores from the first sorted set that has any.",
        complexity: "O(K)+O(M*log(N)), K the number of keys, N the size of the set and M the number of members returned.",
        arguments: &[
            Arg::integer("numkeys"),
            Arg::key("key", 0).multiple(),
            Arg::one_of("where", &[Arg::word("min", "MIN"), Arg::word("max", "MAX")]),
            Arg::integer("count").token("COUNT").optional(),
        ],
        ..BASE
    },
    Spec {
        name: "zmscore",
        arity: -3,
        flags: flags![READONLY FAST],
        acl: acl![SORTEDSET],
        keys: &[KeySpec::one(1, key_flags![RO ACCESS])],
        since: "6.2.0",
        summary: "Returns the scores of several members.",
        complexity: "O(N), N the number of members asked for.",
        arguments: &[Arg::key("key", 0), Arg::string("member").multiple()],
        ..BASE
    },
    Spec {
        name: "zpopmax",
        arity: -2,
        flags: flags![WRITE FAST],
        acl: acl![SORTEDSET],
        keys: &[KeySpec::one(1, key_flags![RW ACCESS DELETE])],
        propagation: Propagation::Verbatim,
        since: "5.0.0",
        summary: "Pops the members with the highest scores.",
        complexity: "O(log(N)*M), N the size of the set and M the number of members returned.",
        arguments: &[Arg::key("key", 0), Arg::integer("count").optional()],
        ..BASE
    },
    Spec {
        name: "zpopmin",
        arity: -2,
        flags: flags![WRITE FAST],
        acl: acl![SORTEDSET],
        keys: &[KeySpec::one(1, key_flags![RW ACCESS DELETE])],
        propagation: Propagation::Verbatim,
        since: "5.0.0",
        summary: "Pops the members with the lowest scores.",
        complexity: "O(log(N)*M), N the size of the set and M the number of members returned.",
        arguments: &[Arg::key("key", 0), Arg::integer("count").optional()],
        ..BASE
    },
    Spec {
        name: "zrandmember",
        arity: -2,
        flags: flags![READONLY],
        acl: acl![SORTEDSET],
        tips: &["nondeterministic_output"],
        keys: &[KeySpec::one(1, key_flags![RO ACCESS])],
        since: "6.2.0",
        summary: "Returns random members of a sorted set.",
        complexity: "O(N), N the number of members returned.",
        arguments: &[
            Arg::key("key", 0),
            Arg::block(
                "options",
                &[Arg::integer("count"), Arg::word("withscores", "WITHSCORES").optional()],
            )
            .optional(),
        ],
        ..BASE
    },
    Spec {
        name: "zrange",
        arity: -4,
        flags: flags![READONLY],
        acl: acl![SORTEDSET],
        keys: &[KeySpec::one(1, key_flags![RO ACCESS])],
        since: "1.2.0",
        summary: "Returns a range of members by rank, score or string.",
        complexity: "O(log(N)+M), N the size of the set and M the number of members returned.",
        arguments: &[
            Arg::key("key", 0),
            Arg::string("start"),
            Arg::string("stop"),
            Arg::one_of("sortby", &[Arg::word("byscore", "BYSCORE"), Arg::word("bylex", "BYLEX")])
                .since("6.2.0")
                .optional(),
            Arg::word("rev", "REV").since("6.2.0").optional(),
            Arg::block("offset_count", &[Arg::integer("offset"), Arg::integer("count")])
                .token("LIMIT")
                .since("6.2.0")
                .optional(),
            Arg::word("withscores", "WITHSCORES").optional(),
        ],
        ..BASE
    },
    Spec {
        name: "zrangebylex",
        arity: -4,
        flags: flags![READONLY],
        acl: acl![SORTEDSET],
        keys: &[KeySpec::one(1, key_flags![RO ACCESS])],
        since: "2.8.9",
        summary: "Returns the members between two strings.",
        complexity: "O(log(N)+M), N the size of the set and M the number of members returned.",
        deprecated: Some(Deprecation {
            since: "6.2.0",
            replaced_by: "`ZRANGE` with the `BYLEX` argument",
        }),
        arguments: &[
            Arg::key("key", 0),
            Arg::string("min"),
            Arg::string("max"),
            Arg::block("offset_count", &[Arg::integer("offset"), Arg::integer("count")])
                .token("LIMIT")
                .optional(),
        ],
        ..BASE
    },
    Spec {
        name: "zrangebyscore",
        arity: -4,
        flags: flags![READONLY],
        acl: acl![SORTEDSET],
        keys: &[KeySpec::one(1, key_flags![RO ACCESS])],
        since: "1.0.5",
        summary: "Returns the members with scores in a range.",
        complexity: "O(log(N)+M), N the size of the set and M the number of members returned.",
        deprecated: Some(Deprecation {
            since: "6.2.0",
            replaced_by: "`ZRANGE` with the `BYSCORE` argument",
        }),
        arguments: &[
            Arg::key("key", 0),
            Arg::double("min"),
            Arg::double("max"),
            Arg::word("withscores", "WITHSCORES").since("2.0.0").optional(),
            Arg::block("offset_count", &[Arg::integer("offset"), Arg::integer("count")])
                .token("LIMIT")
                .optional(),
        ],
        ..BASE
    },
    Spec {
        name: "zrangestore",
        arity: -5,
        flags: flags![WRITE DENYOOM],
        acl: acl![SORTEDSET],
        keys: &[KeySpec::one(1, key_flags![OW UPDATE]), KeySpec::one(2, key_flags![RO ACCESS])],
        propagation: Propagation::Verbatim,
        since: "6.2.0",
        summary: "Stores a range of members by rank, score or string.",
        complexity: "O(log(N)+M), N the size of the set and M the number of members stored.",
        arguments: &[
            Arg::key("dst", 0),
            Arg::key("src", 1),
            Arg::string("min"),
            Arg::string("max"),
            Arg::one_of("sortby", &[Arg::word("byscore", "BYSCORE"), Arg::word("bylex", "BYLEX")])
                .optional(),
            Arg::word("rev", "REV").optional(),
            Arg::block("offset_count", &[Arg::integer("offset"), Arg::integer("count")])
                .token("LIMIT")
                .optional(),
        ],
        ..BASE
    },
    Spec {
        name: "zrank",
        arity: -3,
        flags: flags![READONLY FAST],
        acl: acl![SORTEDSET],
        keys: &[KeySpec::one(1, key_flags![RO ACCESS])],
        since: "2.0.0",
        summary: "Returns the rank of a member, counted from the lowest score.",
        complexity: "O(log(N))",
        arguments: &[
            Arg::key("key", 0),
            Arg::string("member"),
            Arg::word("withscore", "WITHSCORE").since("7.2.0").optional(),
        ],
        ..BASE
    },
    Spec {
        name: "zrem",
        arity: -3,
        flags: flags![WRITE FAST],
        acl: acl![SORTEDSET],
        keys: &[KeySpec::one(1, key_flags![RW DELETE])],
        propagation: Propagation::Verbatim,
        since: "1.2.0",
        history: &[Change::new("2.4.0", "Several members.")],
        summary: "Removes members from a sorted set.",
        complexity: "O(M*log(N)), N the size of the set and M the number of members given.",
        arguments: &[Arg::key("key", 0), Arg::string("member").multiple()],
        ..BASE
    },
    Spec {
        name: "zremrangebylex",
        arity: 4,
        flags: flags![WRITE],
        acl: acl![SORTEDSET],
        keys: &[KeySpec::one(1, key_flags![RW DELETE])],
        propagation: Propagation::Verbatim,
        since: "2.8.9",
        summary: "Removes the members between two strings.",
        complexity: "O(log(N)+M), N the size of the set and M the number of members removed.",
        arguments: &[Arg::key("key", 0), Arg::string("min"), Arg::string("max")],
        ..BASE
    },
    Spec {
        name: "zremrangebyrank",
        arity: 4,
        flags: flags![WRITE],
        acl: acl![SORTEDSET],
        keys: &[KeySpec::one(1, key_flags![RW DELETE])],
        propagation: Propagation::Verbatim,
        since: "2.0.0",
        summary: "Removes the members with ranks in a range.",
        complexity: "O(log(N)+M), N the size of the set and M the number of members removed.",
        arguments: &[Arg::key("key", 0), Arg::integer("start"), Arg::integer("stop")],
        ..BASE
    },
    Spec {
        name: "zremrangebyscore",
        arity: 4,
        flags: flags![WRITE],
        acl: acl![SORTEDSET],
        keys: &[KeySpec::one(1, key_flags![RW DELETE])],
        propagation: Propagation::Verbatim,
        since: "1.2.0",
        summary: "Removes the members with scores in a range.",
        complexity: "O(log(N)+M), N the size of the set and M the number of members removed.",
        arguments: &[Arg::key("key", 0), Arg::double("min"), Arg::double("max")],
        ..BASE
    },
    Spec {
        name: "zrevrange",
        arity: -4,
        flags: flags![READONLY],
        acl: acl![SORTEDSET],
        keys: &[KeySpec::one(1, key_flags![RO ACCESS])],
        since: "1.2.0",
        summary: "Returns the members with ranks in a range, the highest score first.",
        complexity: "O(log(N)+M), N the size of the set and M the number of members returned.",
        deprecated: Some(Deprecation {
            since: "6.2.0",
            replaced_by: "`ZRANGE` with the `REV` argument",
        }),
        arguments: &[
            Arg::key("key", 0),
            Arg::integer("start"),
            Arg::integer("stop"),
            Arg::word("withscores", "WITHSCORES").optional(),
        ],
        ..BASE
    },
    Spec {
        name: "zrevrangebylex",
        arity: -4,
        flags: flags![READONLY],
        acl: acl![SORTEDSET],
        keys: &[KeySpec::one(1, key_flags![RO ACCESS])],
        since: "2.8.9",
        summary: "Returns the members between two strings, the last one first.",
        complexity: "O(log(N)+M), N the size of the set and M the number of members returned.",
        deprecated: Some(Deprecation {
            since: "6.2.0",
            replaced_by: "`ZRANGE` with the `REV` and `BYLEX` arguments",
        }),
        arguments: &[
            Arg::key("key", 0),
            Arg::string("max"),
            Arg::string("min"),
            Arg::block("offset_count", &[Arg::integer("offset"), Arg::integer("count")])
                .token("LIMIT")
                .optional(),
        ],
        ..BASE
    },
    Spec {
        name: "zrevrangebyscore",
        arity: -4,
        flags: flags![READONLY],
        acl: acl![SORTEDSET],
        keys: &[KeySpec::one(1, key_flags![RO ACCESS])],
        since: "2.2.0",
        history: &[Change::new("2.1.6", "Ends that are not part of the range.")],
        summary: "Returns the members with scores in a range, the highest score first.",
        complexity: "O(log(N)+M), N the size of the set and M the number of members returned.",
        deprecated: Some(Deprecation {
            since: "6.2.0",
            replaced_by: "`ZRANGE` with the `REV` and `BYSCORE` arguments",
        }),
        arguments: &[
            Arg::key("key", 0),
            Arg::double("max"),
            Arg::double("min"),
            Arg::word("withscores", "WITHSCORES").optional(),
            Arg::block("offset_count", &[Arg::integer("offset"), Arg::integer("count")])
                .token("LIMIT")
                .optional(),
        ],
        ..BASE
    },
    Spec {
        name: "zrevrank",
        arity: -3,
        flags: flags![READONLY FAST],
        acl: acl![SORTEDSET],
        keys: &[KeySpec::one(1, key_flags![RO ACCESS])],
        since: "2.0.0",
        summary: "Returns the rank of a member, counted from the highest score.",
        complexity: "O(log(N))",
        arguments: &[
            Arg::key("key", 0),
            Arg::string("member"),
            Arg::word("withscore", "WITHSCORE").since("7.2.0").optional(),
        ],
        ..BASE
    },
    Spec {
        name: "zscan",
        arity: -3,
        flags: flags![READONLY],
        acl: acl![SORTEDSET],
        tips: &["nondeterministic_output"],
        keys: &[KeySpec::one(1, key_flags![RO ACCESS])],
        since: "2.8.0",
        summary: "Iterates over the members and scores of a sorted set.",
        complexity: "O(1) a call, O(N) for the whole iteration.",
        arguments: &[
            Arg::key("key", 0),
            Arg::integer("cursor"),
            Arg::pattern("pattern").token("MATCH").optional(),
            Arg::integer("count").token("COUNT").optional(),
            Arg::word("noscores", "NOSCORES").since("8.0.0").optional(),
        ],
        ..BASE
    },
    Spec {
        name: "zscore",
        arity: 3,
        flags: flags![READONLY FAST],
        acl: acl![SORTEDSET],
        keys: &[KeySpec::one(1, key_flags![RO ACCESS])],
        since: "1.2.0",
        summary: "Returns the score of a member.",
        complexity: "O(1)",
        arguments: &[Arg::key("key", 0), Arg::string("member")],
        ..BASE
    },
];
