//! Strings: values of bytes, numbers among them.

use crate::spec::{Arg, Deprecation, Group, KeySpec, Spec, acl, flags, key_flags};

const BASE: Spec = Spec { group: Group::String, ..Spec::BLANK };

/// The commands of the group, by name.
pub(super) static COMMANDS: &[Spec] = &[
    Spec {
        name: "append",
        arity: 3,
        flags: flags![WRITE DENYOOM FAST],
        acl: acl![STRING],
        keys: &[KeySpec::one(1, key_flags![RW INSERT])],
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
        since: "1.0.0",
        summary: "Subtracts from the number at a key.",
        complexity: "O(1)",
        arguments: &[Arg::key("key", 0), Arg::integer("decrement")],
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
        keys: &[KeySpec::one(1, key_flags![RW ACCESS UPDATE])],
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
        since: "2.6.0",
        summary: "Adds a floating point number to the number at a key.",
        complexity: "O(1)",
        arguments: &[Arg::key("key", 0), Arg::double("increment")],
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
        since: "1.0.1",
        summary: "Sets the strings at several keys at once.",
        complexity: "O(N), N the number of keys.",
        arguments: &[
            Arg::block("key_value", &[Arg::key("key", 0), Arg::string("value")]).multiple()
        ],
        ..BASE
    },
    Spec {
        name: "msetnx",
        arity: -3,
        flags: flags![WRITE DENYOOM],
        acl: acl![STRING],
        tips: &["request_policy:multi_shard", "response_policy:agg_min"],
        keys: &[KeySpec::range(1, -1, 2, key_flags![OW INSERT])],
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
        since: "2.6.0",
        summary: "Sets the string at a key and its expiry in milliseconds.",
        complexity: "O(1)",
        arguments: &[Arg::key("key", 0), Arg::integer("milliseconds"), Arg::string("value")],
        ..BASE
    },
    Spec {
        name: "set",
        arity: -3,
        flags: flags![WRITE DENYOOM],
        acl: acl![STRING],
        keys: &[KeySpec::one(1, key_flags![RW ACCESS UPDATE VARIABLE_FLAGS])],
        since: "1.0.0",
        summary: "Sets the string at a key, whatever was there before.",
        complexity: "O(1)",
        arguments: &[
            Arg::key("key", 0),
            Arg::string("value"),
            Arg::one_of("condition", &[Arg::word("nx", "NX"), Arg::word("xx", "XX")])
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
        since: "2.0.0",
        summary: "Sets the string at a key and its expiry in seconds.",
        complexity: "O(1)",
        arguments: &[Arg::key("key", 0), Arg::integer("seconds"), Arg::string("value")],
        ..BASE
    },
    Spec {
        name: "setnx",
        arity: 3,
        flags: flags![WRITE DENYOOM FAST],
        acl: acl![STRING],
        keys: &[KeySpec::one(1, key_flags![OW INSERT])],
        since: "1.0.0",
        summary: "Sets the string at a key that does not exist.",
        complexity: "O(1)",
        arguments: &[Arg::key("key", 0), Arg::string("value")],
        ..BASE
    },
    Spec {
        name: "setrange",
        arity: 4,
        flags: flags![WRITE DENYOOM],
        acl: acl![STRING],
        keys: &[KeySpec::one(1, key_flags![RW UPDATE])],
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
