//! Keys of any type: existence, expiry, names, iteration, order.

pub(super) mod transfer;

use crate::spec::{
    Arg, Change, EXPIRED, Group, KeySpec, Propagation, Spec, acl, always, flags, key_flags, when,
};

const BASE: Spec = Spec { group: Group::Generic, ..Spec::BLANK };

/// What Redis notes of the keys that SORT finds.
const SORTED_BY: &str = "For the optional BY/GET keyword. It is marked 'unknown' because the key names derive from \
    the content of the key we sort";
const SORTED_TO: &str = "For the optional STORE keyword. It is marked 'unknown' because the keyword can appear \
    anywhere in the argument array";

/// The commands of the group, by name.
pub(super) static COMMANDS: &[Spec] = &[
    Spec {
        name: "copy",
        arity: -3,
        flags: flags![WRITE DENYOOM],
        acl: acl![KEYSPACE],
        keys: &[KeySpec::one(1, key_flags![RO ACCESS]), KeySpec::one(2, key_flags![OW UPDATE])],
        propagation: Propagation::Verbatim,
        since: "6.2.0",
        summary: "Copies the value of a key to another key.",
        complexity: "O(N) at worst, N the number of elements of the value.",
        arguments: &[
            Arg::key("source", 0),
            Arg::key("destination", 1),
            Arg::integer("destination-db").token("DB").optional(),
            Arg::word("replace", "REPLACE").optional(),
        ],
        ..BASE
    },
    Spec {
        name: "del",
        arity: -2,
        flags: flags![WRITE],
        acl: acl![KEYSPACE],
        tips: &["request_policy:multi_shard", "response_policy:agg_sum"],
        keys: &[KeySpec::range(1, -1, 1, key_flags![RM DELETE])],
        propagation: Propagation::Verbatim,
        since: "1.0.0",
        summary: "Deletes keys.",
        complexity: "O(N), N the number of keys.",
        arguments: &[Arg::key("key", 0).multiple()],
        ..BASE
    },
    Spec {
        name: "dump",
        arity: 2,
        flags: flags![READONLY],
        acl: acl![KEYSPACE],
        tips: &["nondeterministic_output"],
        keys: &[KeySpec::one(1, key_flags![RO ACCESS])],
        since: "2.6.0",
        summary: "Returns the value of a key in a form that RESTORE takes.",
        complexity: "O(N*M), N the number of elements of the value and M their average size.",
        arguments: &[Arg::key("key", 0)],
        ..BASE
    },
    Spec {
        name: "exists",
        arity: -2,
        flags: flags![READONLY FAST],
        acl: acl![KEYSPACE],
        tips: &["request_policy:multi_shard", "response_policy:agg_sum"],
        keys: &[KeySpec::range(1, -1, 1, key_flags![RO])],
        since: "1.0.0",
        history: &[Change::new("3.0.3", "Several keys.")],
        summary: "Counts which of the keys exist.",
        complexity: "O(N), N the number of keys.",
        arguments: &[Arg::key("key", 0).multiple()],
        ..BASE
    },
    Spec {
        name: "expire",
        arity: -3,
        flags: flags![WRITE FAST],
        acl: acl![KEYSPACE],
        keys: &[KeySpec::one(1, key_flags![RW UPDATE])],
        propagation: Propagation::Rewritten(&[
            EXPIRED,
            always("PEXPIREAT key unix-time-milliseconds"),
        ]),
        since: "1.0.0",
        summary: "Sets the expiry of a key, in seconds from now.",
        complexity: "O(1)",
        arguments: &[
            Arg::key("key", 0),
            Arg::integer("seconds"),
            Arg::one_of(
                "condition",
                &[
                    Arg::word("nx", "NX"),
                    Arg::word("xx", "XX"),
                    Arg::word("gt", "GT"),
                    Arg::word("lt", "LT"),
                ],
            )
            .since("7.0.0")
            .optional(),
        ],
        ..BASE
    },
    Spec {
        name: "expireat",
        arity: -3,
        flags: flags![WRITE FAST],
        acl: acl![KEYSPACE],
        keys: &[KeySpec::one(1, key_flags![RW UPDATE])],
        propagation: Propagation::Rewritten(&[
            EXPIRED,
            always("PEXPIREAT key unix-time-milliseconds"),
        ]),
        since: "1.2.0",
        summary: "Sets the expiry of a key, as a point in time in seconds.",
        complexity: "O(1)",
        arguments: &[
            Arg::key("key", 0),
            Arg::unix_time("unix-time-seconds"),
            Arg::one_of(
                "condition",
                &[
                    Arg::word("nx", "NX"),
                    Arg::word("xx", "XX"),
                    Arg::word("gt", "GT"),
                    Arg::word("lt", "LT"),
                ],
            )
            .since("7.0.0")
            .optional(),
        ],
        ..BASE
    },
    Spec {
        name: "expiretime",
        arity: 2,
        flags: flags![READONLY FAST],
        acl: acl![KEYSPACE],
        keys: &[KeySpec::one(1, key_flags![RO ACCESS])],
        since: "7.0.0",
        summary: "Returns when a key expires, in seconds since the epoch.",
        complexity: "O(1)",
        arguments: &[Arg::key("key", 0)],
        ..BASE
    },
    Spec {
        name: "keys",
        arity: 2,
        flags: flags![READONLY],
        acl: acl![KEYSPACE DANGEROUS],
        tips: &["request_policy:all_shards", "nondeterministic_output_order"],
        since: "1.0.0",
        summary: "Returns the keys that match a pattern.",
        complexity: "O(N), N the number of keys of the database.",
        arguments: &[Arg::pattern("pattern")],
        ..BASE
    },
    Spec {
        name: "move",
        arity: 3,
        flags: flags![WRITE FAST],
        acl: acl![KEYSPACE],
        keys: &[KeySpec::one(1, key_flags![RW ACCESS UPDATE])],
        propagation: Propagation::Verbatim,
        since: "1.0.0",
        summary: "Moves a key to another database.",
        complexity: "O(1)",
        arguments: &[Arg::key("key", 0), Arg::integer("db")],
        ..BASE
    },
    Spec {
        name: "object",
        arity: -2,
        since: "2.2.3",
        summary: "What the server knows about a value besides its content.",
        complexity: "Depends on the subcommand.",
        subcommands: OBJECT,
        ..BASE
    },
    Spec {
        name: "persist",
        arity: 2,
        flags: flags![WRITE FAST],
        acl: acl![KEYSPACE],
        keys: &[KeySpec::one(1, key_flags![RW UPDATE])],
        propagation: Propagation::Verbatim,
        since: "2.2.0",
        summary: "Removes the expiry of a key.",
        complexity: "O(1)",
        arguments: &[Arg::key("key", 0)],
        ..BASE
    },
    Spec {
        name: "pexpire",
        arity: -3,
        flags: flags![WRITE FAST],
        acl: acl![KEYSPACE],
        keys: &[KeySpec::one(1, key_flags![RW UPDATE])],
        propagation: Propagation::Rewritten(&[
            EXPIRED,
            always("PEXPIREAT key unix-time-milliseconds"),
        ]),
        since: "2.6.0",
        summary: "Sets the expiry of a key, in milliseconds from now.",
        complexity: "O(1)",
        arguments: &[
            Arg::key("key", 0),
            Arg::integer("milliseconds"),
            Arg::one_of(
                "condition",
                &[
                    Arg::word("nx", "NX"),
                    Arg::word("xx", "XX"),
                    Arg::word("gt", "GT"),
                    Arg::word("lt", "LT"),
                ],
            )
            .since("7.0.0")
            .optional(),
        ],
        ..BASE
    },
    Spec {
        name: "pexpireat",
        arity: -3,
        flags: flags![WRITE FAST],
        acl: acl![KEYSPACE],
        keys: &[KeySpec::one(1, key_flags![RW UPDATE])],
        propagation: Propagation::Rewritten(&[EXPIRED]),
        since: "2.6.0",
        summary: "Sets the expiry of a key, as a point in time in milliseconds.",
        complexity: "O(1)",
        arguments: &[
            Arg::key("key", 0),
            Arg::unix_time("unix-time-milliseconds"),
            Arg::one_of(
                "condition",
                &[
                    Arg::word("nx", "NX"),
                    Arg::word("xx", "XX"),
                    Arg::word("gt", "GT"),
                    Arg::word("lt", "LT"),
                ],
            )
            .since("7.0.0")
            .optional(),
        ],
        ..BASE
    },
    Spec {
        name: "pexpiretime",
        arity: 2,
        flags: flags![READONLY FAST],
        acl: acl![KEYSPACE],
        keys: &[KeySpec::one(1, key_flags![RO ACCESS])],
        since: "7.0.0",
        summary: "Returns when a key expires, in milliseconds since the epoch.",
        complexity: "O(1)",
        arguments: &[Arg::key("key", 0)],
        ..BASE
    },
    Spec {
        name: "pttl",
        arity: 2,
        flags: flags![READONLY FAST],
        acl: acl![KEYSPACE],
        tips: &["nondeterministic_output"],
        keys: &[KeySpec::one(1, key_flags![RO ACCESS])],
        since: "2.6.0",
        history: &[Change::new("2.8.0", "-2 when there is no such key.")],
        summary: "Returns the milliseconds until a key expires.",
        complexity: "O(1)",
        arguments: &[Arg::key("key", 0)],
        ..BASE
    },
    Spec {
        name: "randomkey",
        arity: 1,
        flags: flags![READONLY],
        acl: acl![KEYSPACE],
        tips: &["request_policy:all_shards", "response_policy:special", "nondeterministic_output"],
        since: "1.0.0",
        summary: "Returns a random key.",
        complexity: "O(1)",
        ..BASE
    },
    Spec {
        name: "rename",
        arity: 3,
        flags: flags![WRITE],
        acl: acl![KEYSPACE],
        keys: &[
            KeySpec::one(1, key_flags![RW ACCESS DELETE]),
            KeySpec::one(2, key_flags![OW UPDATE]),
        ],
        propagation: Propagation::Verbatim,
        since: "1.0.0",
        summary: "Gives a key another name, replacing the key that has it.",
        complexity: "O(1)",
        arguments: &[Arg::key("key", 0), Arg::key("newkey", 1)],
        ..BASE
    },
    Spec {
        name: "renamenx",
        arity: 3,
        flags: flags![WRITE FAST],
        acl: acl![KEYSPACE],
        keys: &[
            KeySpec::one(1, key_flags![RW ACCESS DELETE]),
            KeySpec::one(2, key_flags![OW INSERT]),
        ],
        propagation: Propagation::Verbatim,
        since: "1.0.0",
        history: &[Change::new("3.2.0", "No error when both names are the same.")],
        summary: "Gives a key another name that no key has.",
        complexity: "O(1)",
        arguments: &[Arg::key("key", 0), Arg::key("newkey", 1)],
        ..BASE
    },
    Spec {
        name: "restore",
        arity: -4,
        flags: flags![WRITE DENYOOM],
        acl: acl![KEYSPACE DANGEROUS],
        keys: &[KeySpec::one(1, key_flags![OW UPDATE])],
        propagation: Propagation::Rewritten(&[
            when("the time is past, with REPLACE", "DEL key"),
            when(
                "with a time to live",
                "RESTORE key unix-time-milliseconds serialized-value ABSTTL",
            ),
        ]),
        since: "2.6.0",
        summary: "Creates a key from what DUMP returned.",
        complexity: "O(N*M), N the number of elements of the value and M their average size.",
        arguments: &[
            Arg::key("key", 0),
            Arg::integer("ttl"),
            Arg::string("serialized-value"),
            Arg::word("replace", "REPLACE").since("3.0.0").optional(),
            Arg::word("absttl", "ABSTTL").since("5.0.0").optional(),
            Arg::integer("seconds").token("IDLETIME").since("5.0.0").optional(),
            Arg::integer("frequency").token("FREQ").since("5.0.0").optional(),
        ],
        ..BASE
    },
    Spec {
        name: "scan",
        arity: -2,
        flags: flags![READONLY],
        acl: acl![KEYSPACE],
        tips: &["nondeterministic_output", "request_policy:special", "response_policy:special"],
        since: "2.8.0",
        summary: "Iterates over the keys of the database.",
        complexity: "O(1) a call, O(N) for the whole iteration.",
        arguments: &[
            Arg::integer("cursor"),
            Arg::pattern("pattern").token("MATCH").optional(),
            Arg::integer("count").token("COUNT").optional(),
            Arg::string("type").token("TYPE").since("6.0.0").optional(),
        ],
        ..BASE
    },
    Spec {
        name: "sort",
        arity: -2,
        flags: flags![WRITE DENYOOM MOVABLEKEYS],
        acl: acl![SET SORTEDSET LIST DANGEROUS],
        keys: &[
            KeySpec::one(1, key_flags![RO ACCESS]),
            KeySpec::unknown(key_flags![RO ACCESS]).noted(SORTED_BY),
            KeySpec::unknown(key_flags![OW UPDATE]).noted(SORTED_TO),
        ],
        propagation: Propagation::Verbatim,
        since: "1.0.0",
        summary: "Returns or stores the elements of a list, set or sorted set in order.",
        complexity: "O(N+M*log(M)), N the number of elements and M the number of elements returned.",
        arguments: &[
            Arg::key("key", 0),
            Arg::pattern("pattern").key_spec(1).token("BY").optional(),
            Arg::block("offset_count", &[Arg::integer("offset"), Arg::integer("count")])
                .token("LIMIT")
                .optional(),
            Arg::pattern("pattern").key_spec(1).token("GET").optional().multiple_with_token(),
            Arg::one_of("order", &[Arg::word("asc", "ASC"), Arg::word("desc", "DESC")]).optional(),
            Arg::word("sorting", "ALPHA").optional(),
            Arg::key("destination", 2).token("STORE").optional(),
        ],
        ..BASE
    },
    Spec {
        name: "sort_ro",
        arity: -2,
        flags: flags![READONLY MOVABLEKEYS],
        acl: acl![SET SORTEDSET LIST DANGEROUS],
        keys: &[
            KeySpec::one(1, key_flags![RO ACCESS]),
            KeySpec::unknown(key_flags![RO ACCESS]).noted(SORTED_BY),
        ],
        since: "7.0.0",
        summary: "Returns the elements of a list, set or sorted set in order.",
        complexity: "O(N+M*log(M)), N the number of elements and M the number of elements returned.",
        arguments: &[
            Arg::key("key", 0),
            Arg::pattern("pattern").key_spec(1).token("BY").optional(),
            Arg::block("offset_count", &[Arg::integer("offset"), Arg::integer("count")])
                .token("LIMIT")
                .optional(),
            Arg::pattern("pattern").key_spec(1).token("GET").optional().multiple_with_token(),
            Arg::one_of("order", &[Arg::word("asc", "ASC"), Arg::word("desc", "DESC")]).optional(),
            Arg::word("sorting", "ALPHA").optional(),
        ],
        ..BASE
    },
    Spec {
        name: "touch",
        arity: -2,
        flags: flags![READONLY FAST],
        acl: acl![KEYSPACE],
        tips: &["request_policy:multi_shard", "response_policy:agg_sum"],
        keys: &[KeySpec::range(1, -1, 1, key_flags![RO])],
        since: "3.2.1",
        summary: "Marks keys as used just now and counts those that exist.",
        complexity: "O(N), N the number of keys.",
        arguments: &[Arg::key("key", 0).multiple()],
        ..BASE
    },
    Spec {
        name: "ttl",
        arity: 2,
        flags: flags![READONLY FAST],
        acl: acl![KEYSPACE],
        tips: &["nondeterministic_output"],
        keys: &[KeySpec::one(1, key_flags![RO ACCESS])],
        since: "1.0.0",
        history: &[Change::new("2.8.0", "-2 when there is no such key.")],
        summary: "Returns the seconds until a key expires.",
        complexity: "O(1)",
        arguments: &[Arg::key("key", 0)],
        ..BASE
    },
    Spec {
        name: "type",
        arity: 2,
        flags: flags![READONLY FAST],
        acl: acl![KEYSPACE],
        keys: &[KeySpec::one(1, key_flags![RO])],
        since: "1.0.0",
        summary: "Returns the type of the value at a key.",
        complexity: "O(1)",
        arguments: &[Arg::key("key", 0)],
        ..BASE
    },
    Spec {
        name: "unlink",
        arity: -2,
        flags: flags![WRITE FAST],
        acl: acl![KEYSPACE],
        tips: &["request_policy:multi_shard", "response_policy:agg_sum"],
        keys: &[KeySpec::range(1, -1, 1, key_flags![RM DELETE])],
        propagation: Propagation::Verbatim,
        since: "4.0.0",
        summary: "Deletes keys and frees their memory in the background.",
        complexity: "O(1) for each key; the memory is freed later.",
        arguments: &[Arg::key("key", 0).multiple()],
        ..BASE
    },
    Spec {
        name: "wait",
        arity: 3,
        acl: acl![CONNECTION],
        tips: &["request_policy:all_shards", "response_policy:agg_min"],
        since: "3.0.0",
        summary: "Waits until replicas have what this connection wrote.",
        complexity: "O(1)",
        arguments: &[Arg::integer("numreplicas"), Arg::integer("timeout")],
        limit: "No replica answers: it ends with its timeout.",
        ..BASE
    },
    Spec {
        name: "waitaof",
        arity: 4,
        flags: flags![BLOCKING],
        acl: acl![CONNECTION],
        tips: &["request_policy:all_shards", "response_policy:agg_min"],
        since: "7.2.0",
        summary: "Waits until the log of this server, and of replicas, has what this connection wrote.",
        complexity: "O(1)",
        arguments: &[
            Arg::integer("numlocal"),
            Arg::integer("numreplicas"),
            Arg::integer("timeout"),
        ],
        ..BASE
    },
];

const OBJECT: &[Spec] = &[
    Spec {
        name: "object|encoding",
        arity: 3,
        flags: flags![READONLY],
        acl: acl![KEYSPACE],
        tips: &["nondeterministic_output"],
        keys: &[KeySpec::one(2, key_flags![RO])],
        since: "2.2.3",
        summary: "Returns how a value is represented in memory.",
        complexity: "O(1)",
        arguments: &[Arg::key("key", 0)],
        limit: "Names of encodings are those of Redis 7.0: a small list is a `quicklist`, and a small set of strings a `hashtable`.",
        ..BASE
    },
    Spec {
        name: "object|freq",
        arity: 3,
        flags: flags![READONLY],
        acl: acl![KEYSPACE],
        tips: &["nondeterministic_output"],
        keys: &[KeySpec::one(2, key_flags![RO])],
        since: "4.0.0",
        summary: "Returns how often a key is used, on a logarithmic scale.",
        complexity: "O(1)",
        arguments: &[Arg::key("key", 0)],
        ..BASE
    },
    Spec {
        name: "object|help",
        arity: 2,
        flags: flags![LOADING STALE],
        acl: acl![KEYSPACE],
        since: "6.2.0",
        summary: "Explains the subcommands.",
        complexity: "O(1)",
        ..BASE
    },
    Spec {
        name: "object|idletime",
        arity: 3,
        flags: flags![READONLY],
        acl: acl![KEYSPACE],
        tips: &["nondeterministic_output"],
        keys: &[KeySpec::one(2, key_flags![RO])],
        since: "2.2.3",
        summary: "Returns the seconds since a key was last used.",
        complexity: "O(1)",
        arguments: &[Arg::key("key", 0)],
        ..BASE
    },
    Spec {
        name: "object|refcount",
        arity: 3,
        flags: flags![READONLY],
        acl: acl![KEYSPACE],
        tips: &["nondeterministic_output"],
        keys: &[KeySpec::one(2, key_flags![RO])],
        since: "2.2.3",
        summary: "Returns the number of references to a value.",
        complexity: "O(1)",
        arguments: &[Arg::key("key", 0)],
        ..BASE
    },
];
