//! Sets of vectors, which a module of Redis 8 brings along.

use crate::spec::{Arg, Group, KeySpec, Origin, Propagation, Spec, flags, key_flags};

const BASE: Spec = Spec {
    group: Group::VectorSet,
    limit: "A type of its own, for search by similarity.",
    ..Spec::BLANK
};

/// The commands of the group, by name.
pub(super) static COMMANDS: &[Spec] = &[
    Spec {
        name: "vadd",
        arity: -5,
        flags: flags![WRITE DENYOOM],
        keys: &[KeySpec::one(1, key_flags![RW ACCESS UPDATE])],
        propagation: Propagation::Verbatim,
        since: "8.0.0",
        origin: Origin::Redis,
        summary: "Adds an element with its vector to a vector set, creating it when the key is new.",
        complexity: "O(log(N)), N the size of the set.",
        arguments: &[
            Arg::key("key", 0),
            Arg::block("reduce", &[Arg::integer("dim")]).token("REDUCE").optional(),
            Arg::one_of("format", &[Arg::word("fp32", "FP32"), Arg::word("values", "VALUES")]),
            Arg::string("vector"),
            Arg::string("element"),
            Arg::word("cas", "CAS").optional(),
            Arg::one_of(
                "quant_type",
                &[Arg::word("noquant", "NOQUANT"), Arg::word("bin", "BIN"), Arg::word("q8", "Q8")],
            )
            .optional(),
            Arg::integer("build-exploration-factor").token("EF").optional(),
            Arg::string("attributes").token("SETATTR").optional(),
            Arg::integer("numlinks").token("M").optional(),
        ],
        served: false,
        ..BASE
    },
    Spec {
        name: "vcard",
        arity: 2,
        flags: flags![READONLY FAST],
        keys: &[KeySpec::one(1, key_flags![RO ACCESS])],
        since: "8.0.0",
        origin: Origin::Redis,
        summary: "Counts the elements of a vector set.",
        complexity: "O(1)",
        arguments: &[Arg::key("key", 0)],
        served: false,
        ..BASE
    },
    Spec {
        name: "vdim",
        arity: 2,
        flags: flags![READONLY FAST],
        keys: &[KeySpec::one(1, key_flags![RO ACCESS])],
        since: "8.0.0",
        origin: Origin::Redis,
        summary: "Returns the number of dimensions of a vector set.",
        complexity: "O(1)",
        arguments: &[Arg::key("key", 0)],
        served: false,
        ..BASE
    },
    Spec {
        name: "vemb",
        arity: -3,
        flags: flags![READONLY],
        keys: &[KeySpec::one(1, key_flags![RO ACCESS])],
        since: "8.0.0",
        origin: Origin::Redis,
        summary: "Returns the vector of an element.",
        complexity: "O(1)",
        arguments: &[
            Arg::key("key", 0),
            Arg::string("element"),
            Arg::word("raw", "RAW").optional(),
        ],
        served: false,
        ..BASE
    },
    Spec {
        name: "vgetattr",
        arity: 3,
        flags: flags![READONLY],
        keys: &[KeySpec::one(1, key_flags![RO ACCESS])],
        since: "8.0.0",
        origin: Origin::Redis,
        summary: "Returns the attributes of an element.",
        complexity: "O(1)",
        arguments: &[Arg::key("key", 0), Arg::string("element")],
        served: false,
        ..BASE
    },
    Spec {
        name: "vinfo",
        arity: 2,
        flags: flags![READONLY FAST],
        keys: &[KeySpec::one(1, key_flags![RO ACCESS])],
        since: "8.0.0",
        origin: Origin::Redis,
        summary: "Describes a vector set.",
        complexity: "O(1)",
        arguments: &[Arg::key("key", 0)],
        served: false,
        ..BASE
    },
    Spec {
        name: "vismember",
        arity: 3,
        flags: flags![READONLY],
        keys: &[KeySpec::one(1, key_flags![RO ACCESS])],
        since: "8.2.0",
        origin: Origin::Redis,
        summary: "Tells whether an element is in a vector set.",
        complexity: "O(1)",
        arguments: &[Arg::key("key", 0), Arg::string("element")],
        served: false,
        ..BASE
    },
    Spec {
        name: "vlinks",
        arity: -3,
        flags: flags![READONLY],
        keys: &[KeySpec::one(1, key_flags![RO ACCESS])],
        since: "8.0.0",
        origin: Origin::Redis,
        summary: "Returns the neighbours of an element in each layer of the graph.",
        complexity: "O(1)",
        arguments: &[
            Arg::key("key", 0),
            Arg::string("element"),
            Arg::word("withscores", "WITHSCORES").optional(),
        ],
        served: false,
        ..BASE
    },
    Spec {
        name: "vrandmember",
        arity: -2,
        flags: flags![READONLY],
        keys: &[KeySpec::one(1, key_flags![RO ACCESS])],
        since: "8.0.0",
        origin: Origin::Redis,
        summary: "Returns random elements of a vector set.",
        complexity: "O(N), N the number of elements returned.",
        arguments: &[Arg::key("key", 0), Arg::integer("count").optional()],
        served: false,
        ..BASE
    },
    Spec {
        name: "vrange",
        arity: -4,
        flags: flags![READONLY],
        keys: &[KeySpec::one(1, key_flags![RO ACCESS])],
        since: "8.4.0",
        origin: Origin::Redis,
        summary: "Returns the elements between two strings.",
        complexity: "O(log(N)+M), N the size of the set and M the number of elements returned.",
        arguments: &[
            Arg::key("key", 0),
            Arg::string("start"),
            Arg::string("end"),
            Arg::integer("count").optional(),
        ],
        served: false,
        ..BASE
    },
    Spec {
        name: "vrem",
        arity: 3,
        flags: flags![WRITE],
        keys: &[KeySpec::one(1, key_flags![RW ACCESS UPDATE])],
        propagation: Propagation::Verbatim,
        since: "8.0.0",
        origin: Origin::Redis,
        summary: "Removes an element from a vector set.",
        complexity: "O(log(N)), N the size of the set.",
        arguments: &[Arg::key("key", 0), Arg::string("element")],
        served: false,
        ..BASE
    },
    Spec {
        name: "vsetattr",
        arity: 4,
        flags: flags![WRITE],
        keys: &[KeySpec::one(1, key_flags![RW ACCESS UPDATE])],
        propagation: Propagation::Verbatim,
        since: "8.0.0",
        origin: Origin::Redis,
        summary: "Sets the attributes of an element.",
        complexity: "O(1)",
        arguments: &[Arg::key("key", 0), Arg::string("element"), Arg::string("json")],
        served: false,
        ..BASE
    },
    Spec {
        name: "vsim",
        arity: -4,
        flags: flags![READONLY],
        keys: &[KeySpec::one(1, key_flags![RO ACCESS])],
        since: "8.0.0",
        origin: Origin::Redis,
        summary: "Returns the elements most similar to a vector or an element.",
        complexity: "O(log(N)), N the size of the set.",
        arguments: &[
            Arg::key("key", 0),
            Arg::one_of(
                "format",
                &[
                    Arg::word("ele", "ELE"),
                    Arg::word("fp32", "FP32"),
                    Arg::word("values", "VALUES"),
                ],
            ),
            Arg::string("vector_or_element"),
            Arg::word("withscores", "WITHSCORES").optional(),
            Arg::word("withattribs", "WITHATTRIBS").optional(),
            Arg::integer("count").token("COUNT").optional(),
            Arg::double("max_distance").token("EPSILON").optional(),
            Arg::integer("search-exploration-factor").token("EF").optional(),
            Arg::string("expression").token("FILTER").optional(),
            Arg::integer("max-filtering-effort").token("FILTER-EF").optional(),
            Arg::word("truth", "TRUTH").optional(),
            Arg::word("nothread", "NOTHREAD").optional(),
        ],
        served: false,
        ..BASE
    },
];
