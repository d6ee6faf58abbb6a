//! Strings: values of bytes, numbers among them.

use crate::spec::{
    Arg, BeginSearch, Change, Deprecation, EXPIRED, FindKeys, Group, KeySpec, Origin, Propagation,
    Spec, acl, always, flags, key_flags, when,
};

const BASE: Spec = Spec { group: Group::String, ..Spec::BLANK };

/// The commands of the group, by name.
pub(super) static COMMANDS: &[Spec] = &[
    Spec {
        name: "append",
        arity: 3,
        flags: flags![WRITE DENYOOM FAST],
        acl: acl![STRING],
        keys: &[KeySpec::one(1, key_flags![RW INSERT])],
        propagation: Propagation::Verbatim,
        since: "2.0.0",
        summary: "Appends to a string, creating it when the key is new.",
        complexity: "O(1) amortized: the value grows by doubling.",
        arguments: &[Arg::key("key", 0), Arg::string("value")],
        ..BASE
    },
    Spec {
        name: "decr",
        arity: 2,
        flags: flags![WRITE DENYOOM FAST],
        acl: acl![STRING],
        keys: &[KeySpec::one(1, key_flags![RW ACCESS UPDATE])],
        propagation: Propagation::Verbatim,
        since: "1.0.0",
        summary: "Subtracts one from the number at a key.",
        complexity: "O(1)",
        arguments: &[Arg::key("key", 0)],
        ..BASE
    },
    Spec {
        name: "decrby",
        arity: 3,
        flags: flags![WRITE DENYOOM FAST],
        acl: acl![STRING],
        keys: &[KeySpec::one(1, key_flags![RW ACCESS UPDATE])],
        propagation: Propagation::Verbatim,
        since: "1.0.0",
        summary: "Subtracts from the number at a key.",
        complexity: "O(1)",
        arguments: &[Arg::key("key", 0), Arg::integer("decrement")],
        ..BASE
    },
    Spec {
        name: "delex",
        arity: -2,
        flags: flags![WRITE FAST],
        acl: acl![STRING],
        keys: &[KeySpec::one(1, key_flags![RW DELETE VARIABLE_FLAGS])],
        propagation: Propagation::Rewritten(&[always("DEL key")]),
        since: "8.4.0",
        origin: Origin::RedisThenValkey("9.2.0"),
        summary: "Deletes a key if its value compares as asked.",
        complexity: "O(1); O(N) for `IFDEQ` and `IFDNE`, N the length of the string.",
        arguments: &[
            Arg::key("key", 0),
            Arg::one_of(
                "condition",
                &[
                    Arg::string("ifeq-value").token("IFEQ"),
                    Arg::string("ifne-value").token("IFNE"),
                    Arg::string("ifdeq-digest").token("IFDEQ"),
                    Arg::string("ifdne-digest").token("IFDNE"),
                ],
            )
            .optional(),
        ],
        ..BASE
    },
    Spec {
        name: "delifeq",
        arity: 3,
        flags: flags![WRITE FAST],
        acl: acl![STRING],
        keys: &[KeySpec::one(1, key_flags![RM DELETE])],
        propagation: Propagation::Rewritten(&[always("DEL key")]),
        since: "9.0.0",
        origin: Origin::Valkey,
        summary: "Deletes a key if it holds this string.",
        complexity: "O(1)",
        arguments: &[Arg::key("key", 0), Arg::string("value")],
        ..BASE
    },
    Spec {
        name: "digest",
        arity: 2,
        flags: flags![READONLY FAST],
        acl: acl![STRING],
        keys: &[KeySpec::one(1, key_flags![RO ACCESS])],
        since: "8.4.0",
        origin: Origin::Redis,
        summary: "Returns a digest of the string at a key.",
        complexity: "O(N), N the length of the string.",
        arguments: &[Arg::key("key", 0)],
        ..BASE
    },
    Spec {
        name: "get",
        arity: 2,
        flags: flags![READONLY FAST],
        acl: acl![STRING],
        keys: &[KeySpec::one(1, key_flags![RO ACCESS])],
        since: "1.0.0",
        summary: "Returns the string at a key.",
        complexity: "O(1)",
        arguments: &[Arg::key("key", 0)],
        ..BASE
    },
    Spec {
        name: "getdel",
        arity: 2,
        flags: flags![WRITE FAST],
        acl: acl![STRING],
        keys: &[KeySpec::one(1, key_flags![RW ACCESS DELETE])],
        propagation: Propagation::Rewritten(&[always("DEL key")]),
        since: "6.2.0",
        summary: "Returns the string at a key and deletes the key.",
        complexity: "O(1)",
        arguments: &[Arg::key("key", 0)],
        ..BASE
    },
    Spec {
        name: "getex",
        arity: -2,
        flags: flags![WRITE FAST],
        acl: acl![STRING],
        keys: &[KeySpec::one(1, key_flags![RW ACCESS UPDATE])
            .noted("RW and UPDATE because it changes the TTL")],
        propagation: Propagation::Rewritten(&[
            EXPIRED,
            when("with a time to come", "PEXPIREAT key unix-time-milliseconds"),
            when("with PERSIST", "PERSIST key"),
        ]),
        since: "6.2.0",
        summary: "Returns the string at a key and sets or removes its expiry.",
        complexity: "O(1)",
        arguments: &[
            Arg::key("key", 0),
            Arg::one_of(
                "expiration",
                &[
                    Arg::integer("seconds").token("EX"),
                    Arg::integer("milliseconds").token("PX"),
                    Arg::unix_time("unix-time-seconds").token("EXAT"),
                    Arg::unix_time("unix-time-milliseconds").token("PXAT"),
                    Arg::word("persist", "PERSIST"),
                ],
            )
            .optional(),
        ],
        ..BASE
    },
    Spec {
        name: "getrange",
        arity: 4,
        flags: flags![READONLY],
        acl: acl![STRING],
        keys: &[KeySpec::one(1, key_flags![RO ACCESS])],
        since: "2.4.0",
        summary: "Returns a part of the string at a key.",
        complexity: "O(N), N the length of the part returned.",
        arguments: &[Arg::key("key", 0), Arg::integer("start"), Arg::integer("end")],
        ..BASE
    },
    Spec {
        name: "getset",
        arity: 3,
        flags: flags![WRITE DENYOOM FAST],
        acl: acl![STRING],
        keys: &[KeySpec::one(1, key_flags![RW ACCESS UPDATE])],
        propagation: Propagation::Rewritten(&[always("SET key value")]),
        since: "1.0.0",
        summary: "Sets the string at a key and returns what was there.",
        complexity: "O(1)",
        deprecated: Some(Deprecation {
            since: "6.2.0",
            replaced_by: "`SET` with the `!GET` argument",
        }),
        arguments: &[Arg::key("key", 0), Arg::string("value")],
        ..BASE
    },
    Spec {
        name: "incr",
        arity: 2,
        flags: flags![WRITE DENYOOM FAST],
        acl: acl![STRING],
        keys: &[KeySpec::one(1, key_flags![RW ACCESS UPDATE])],
        propagation: Propagation::Verbatim,
        since: "1.0.0",
        summary: "Adds one to the number at a key.",
        complexity: "O(1)",
        arguments: &[Arg::key("key", 0)],
        ..BASE
    },
    Spec {
        name: "incrby",
        arity: 3,
        flags: flags![WRITE DENYOOM FAST],
        acl: acl![STRING],
        keys: &[KeySpec::one(1, key_flags![RW ACCESS UPDATE])],
        propagation: Propagation::Verbatim,
        since: "1.0.0",
        summary: "Adds to the number at a key.",
        complexity: "O(1)",
        arguments: &[Arg::key("key", 0), Arg::integer("increment")],
        ..BASE
    },
    Spec {
        name: "incrbyfloat",
        arity: 3,
        flags: flags![WRITE DENYOOM FAST],
        acl: acl![STRING],
        keys: &[KeySpec::one(1, key_flags![RW ACCESS UPDATE])],
        propagation: Propagation::Rewritten(&[always("SET key value KEEPTTL")]),
        since: "2.6.0",
        summary: "Adds a floating point number to the number at a key.",
        complexity: "O(1)",
        arguments: &[Arg::key("key", 0), Arg::double("increment")],
        ..BASE
    },
    Spec {
        name: "increx",
        arity: -2,
        flags: flags![WRITE DENYOOM FAST],
        acl: acl![STRING],
        keys: &[KeySpec::one(1, key_flags![RW ACCESS UPDATE])],
        propagation: Propagation::Rewritten(&[
            when("the expiry stays", "SET key value KEEPTTL"),
            when("with PERSIST", "SET key value"),
            when("with a time to come", "SET key value PXAT unix-time-milliseconds"),
            EXPIRED,
        ]),
        since: "8.8.0",
        origin: Origin::RedisThenValkey("9.2.0"),
        summary: "Adds to the number at a key within bounds, and sets its expiry.",
        complexity: "O(1)",
        arguments: &[
            Arg::key("key", 0),
            Arg::one_of("condition", &[Arg::word("nx", "NX"), Arg::word("xx", "XX")]).optional(),
            Arg::one_of(
                "increment",
                &[Arg::double("float").token("BYFLOAT"), Arg::integer("integer").token("BYINT")],
            )
            .optional(),
            Arg::word("saturate", "SATURATE").optional(),
            Arg::string("lowerbound").token("LBOUND").optional(),
            Arg::string("upperbound").token("UBOUND").optional(),
            Arg::one_of(
                "expiration",
                &[
                    Arg::integer("seconds").token("EX"),
                    Arg::integer("milliseconds").token("PX"),
                    Arg::unix_time("unix-time-seconds").token("EXAT"),
                    Arg::unix_time("unix-time-milliseconds").token("PXAT"),
                    Arg::word("persist", "PERSIST"),
                ],
            )
            .optional(),
            Arg::word("enx", "ENX").optional(),
        ],
        ..BASE
    },
    Spec {
        name: "lcs",
        arity: -3,
        flags: flags![READONLY],
        acl: acl![STRING],
        keys: &[KeySpec::range(1, 1, 1, key_flags![RO ACCESS])],
        since: "7.0.0",
        summary: "Finds the longest common subsequence of two strings.",
        complexity: "O(N*M), N and M the lengths of the strings.",
        arguments: &[
            Arg::key("key1", 0),
            Arg::key("key2", 0),
            Arg::word("len", "LEN").optional(),
            Arg::word("idx", "IDX").optional(),
            Arg::integer("len").token("MINMATCHLEN").optional(),
            Arg::word("withmatchlen", "WITHMATCHLEN").optional(),
        ],
        ..BASE
    },
    Spec {
        name: "mget",
        arity: -2,
        flags: flags![READONLY FAST],
        acl: acl![STRING],
        tips: &["request_policy:multi_shard"],
        keys: &[KeySpec::range(1, -1, 1, key_flags![RO ACCESS])],
        since: "1.0.0",
        summary: "Returns the strings at several keys.",
        complexity: "O(N), N the number of keys.",
        arguments: &[Arg::key("key", 0).multiple()],
        ..BASE
    },
    Spec {
        name: "mset",
        arity: -3,
        flags: flags![WRITE DENYOOM],
        acl: acl![STRING],
        tips: &["request_policy:multi_shard", "response_policy:all_succeeded"],
        keys: &[KeySpec::range(1, -1, 2, key_flags![OW UPDATE])],
        propagation: Propagation::Verbatim,
        since: "1.0.1",
        summary: "Sets the strings at several keys at once.",
        complexity: "O(N), N the number of keys.",
        arguments: &[
            Arg::block("key_value", &[Arg::key("key", 0), Arg::string("value")]).multiple()
        ],
        ..BASE
    },
    Spec {
        name: "msetex",
        arity: -4,
        flags: flags![WRITE DENYOOM MOVABLEKEYS],
        acl: acl![STRING],
        tips: &["request_policy:multi_shard", "response_policy:all_succeeded"],
        keys: &[KeySpec {
            begin: BeginSearch::Index(1),
            find: FindKeys::KeyNum { count_index: 0, first_key: 1, step: 2 },
            flags: key_flags![OW UPDATE],
            notes: "",
        }],
        propagation: Propagation::Rewritten(&[when(
            "with EX or PX",
            "MSETEX numkeys key value ... PXAT unix-time-milliseconds",
        )]),
        since: "8.4.0",
        origin: Origin::RedisThenValkey("9.1.0"),
        summary: "Sets several keys at once, with an expiry that they share.",
        complexity: "O(N), N the number of keys.",
        arguments: &[
            Arg::integer("numkeys"),
            Arg::block("data", &[Arg::key("key", 0), Arg::string("value")]).multiple(),
            Arg::one_of("condition", &[Arg::word("nx", "NX"), Arg::word("xx", "XX")]).optional(),
            Arg::one_of(
                "expiration",
                &[
                    Arg::integer("seconds").token("EX"),
                    Arg::integer("milliseconds").token("PX"),
                    Arg::unix_time("unix-time-seconds").token("EXAT"),
                    Arg::unix_time("unix-time-milliseconds").token("PXAT"),
                    Arg::word("keepttl", "KEEPTTL"),
                ],
            )
            .optional(),
        ],
        ..BASE
    },
    Spec {
        name: "msetnx",
        arity: -3,
        flags: flags![WRITE DENYOOM],
        acl: acl![STRING],
        keys: &[KeySpec::range(1, -1, 2, key_flags![OW INSERT])],
        propagation: Propagation::Verbatim,
        since: "1.0.1",
        summary: "Sets several keys at once, provided that none of them exists.",
        complexity: "O(N), N the number of keys.",
        arguments: &[
            Arg::block("key_value", &[Arg::key("key", 0), Arg::string("value")]).multiple()
        ],
        ..BASE
    },
    Spec {
        name: "psetex",
        arity: 4,
        flags: flags![WRITE DENYOOM],
        acl: acl![STRING],
        keys: &[KeySpec::one(1, key_flags![OW UPDATE])],
        propagation: Propagation::Rewritten(&[
            EXPIRED,
            always("SET key value PXAT unix-time-milliseconds"),
        ]),
        since: "2.6.0",
        summary: "Sets the string at a key and its expiry in milliseconds.",
        complexity: "O(1)",
        deprecated: Some(Deprecation {
            since: "2.6.12",
            replaced_by: "`SET` with the `PX` argument",
        }),
        arguments: &[Arg::key("key", 0), Arg::integer("milliseconds"), Arg::string("value")],
        ..BASE
    },
    Spec {
        name: "set",
        arity: -3,
        flags: flags![WRITE DENYOOM],
        acl: acl![STRING],
        keys: &[KeySpec::one(1, key_flags![RW ACCESS UPDATE VARIABLE_FLAGS])
            .noted("RW and ACCESS due to the optional `GET` argument")],
        propagation: Propagation::Rewritten(&[
            when("with a time to come", "SET key value PXAT unix-time-milliseconds"),
            EXPIRED,
            when("with GET and no time", "SET key value"),
        ]),
        since: "1.0.0",
        history: &[Change::new("7.0.0", "`NX` together with `GET`.")],
        summary: "Sets the string at a key, whatever was there before.",
        complexity: "O(1)",
        arguments: &[
            Arg::key("key", 0),
            Arg::string("value"),
            Arg::one_of(
                "condition",
                &[
                    Arg::word("nx", "NX"),
                    Arg::word("xx", "XX"),
                    Arg::string("ifeq-value").token("IFEQ").since("8.4.0"),
                    Arg::string("ifne-value").token("IFNE").since("8.4.0"),
                    Arg::string("ifdeq-digest").token("IFDEQ").since("8.4.0"),
                    Arg::string("ifdne-digest").token("IFDNE").since("8.4.0"),
                ],
            )
            .since("2.6.12")
            .optional(),
            Arg::word("get", "GET").since("6.2.0").optional(),
            Arg::one_of(
                "expiration",
                &[
                    Arg::integer("seconds").token("EX").since("2.6.12"),
                    Arg::integer("milliseconds").token("PX").since("2.6.12"),
                    Arg::unix_time("unix-time-seconds").token("EXAT").since("6.2.0"),
                    Arg::unix_time("unix-time-milliseconds").token("PXAT").since("6.2.0"),
                    Arg::word("keepttl", "KEEPTTL").since("6.0.0"),
                ],
            )
            .optional(),
        ],
        ..BASE
    },
    Spec {
        name: "setex",
        arity: 4,
        flags: flags![WRITE DENYOOM],
        acl: acl![STRING],
        keys: &[KeySpec::one(1, key_flags![OW UPDATE])],
        propagation: Propagation::Rewritten(&[
            EXPIRED,
            always("SET key value PXAT unix-time-milliseconds"),
        ]),
        since: "2.0.0",
        summary: "Sets the string at a key and its expiry in seconds.",
        complexity: "O(1)",
        deprecated: Some(Deprecation {
            since: "2.6.12",
            replaced_by: "`SET` with the `EX` argument",
        }),
        arguments: &[Arg::key("key", 0), Arg::integer("seconds"), Arg::string("value")],
        ..BASE
    },
    Spec {
        name: "setnx",
        arity: 3,
        flags: flags![WRITE DENYOOM FAST],
        acl: acl![STRING],
        keys: &[KeySpec::one(1, key_flags![OW INSERT])],
        propagation: Propagation::Verbatim,
        since: "1.0.0",
        summary: "Sets the string at a key that does not exist.",
        complexity: "O(1)",
        deprecated: Some(Deprecation {
            since: "2.6.12",
            replaced_by: "`SET` with the `NX` argument",
        }),
        arguments: &[Arg::key("key", 0), Arg::string("value")],
        ..BASE
    },
    Spec {
        name: "setrange",
        arity: 4,
        flags: flags![WRITE DENYOOM],
        acl: acl![STRING],
        keys: &[KeySpec::one(1, key_flags![RW UPDATE])],
        propagation: Propagation::Verbatim,
        since: "2.2.0",
        summary: "Overwrites a part of the string at a key.",
        complexity: "O(N), N the length of the new part, and the length of the gap if the string has to grow.",
        arguments: &[Arg::key("key", 0), Arg::integer("offset"), Arg::string("value")],
        ..BASE
    },
    Spec {
        name: "strlen",
        arity: 2,
        flags: flags![READONLY FAST],
        acl: acl![STRING],
        keys: &[KeySpec::one(1, key_flags![RO])],
        since: "2.2.0",
        summary: "Returns the length of the string at a key.",
        complexity: "O(1)",
        arguments: &[Arg::key("key", 0)],
        ..BASE
    },
    Spec {
        name: "substr",
        arity: 4,
        flags: flags![READONLY],
        acl: acl![STRING],
        keys: &[KeySpec::one(1, key_flags![RO ACCESS])],
        since: "1.0.0",
        summary: "Returns a part of the string at a key.",
        complexity: "O(N), N the length of the part returned.",
        deprecated: Some(Deprecation { since: "2.0.0", replaced_by: "`GETRANGE`" }),
        arguments: &[Arg::key("key", 0), Arg::integer("start"), Arg::integer("end")],
        ..BASE
    },
];
