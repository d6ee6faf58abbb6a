//! Hashes whose fields expire, and their import.

use super::BASE;
use crate::spec::{Arg, KeySpec, Origin, Propagation, Spec, acl, always, flags, key_flags, when};

/// The commands of the group, by name.
pub(in crate::table) static COMMANDS: &[Spec] = &[
    Spec {
        name: "hexpire",
        arity: -6,
        flags: flags![WRITE FAST],
        acl: acl![HASH],
        keys: &[KeySpec::one(1, key_flags![RW UPDATE])],
        propagation: Propagation::Rewritten(&[
            when("the time is past", "HDEL key field ..."),
            always("HPEXPIREAT key unix-time-milliseconds FIELDS numfields field ..."),
        ]),
        since: "7.4.0",
        origin: Origin::RedisThenValkey("9.0.0"),
        summary: "Sets the expiry of fields, in seconds from now.",
        complexity: "O(N), N the number of fields given.",
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
            .optional(),
            Arg::block("fields", &[Arg::integer("numfields"), Arg::string("field").multiple()])
                .token("FIELDS"),
        ],
        ..BASE
    },
    Spec {
        name: "hexpireat",
        arity: -6,
        flags: flags![WRITE FAST],
        acl: acl![HASH],
        keys: &[KeySpec::one(1, key_flags![RW UPDATE])],
        propagation: Propagation::Rewritten(&[
            when("the time is past", "HDEL key field ..."),
            always("HPEXPIREAT key unix-time-milliseconds FIELDS numfields field ..."),
        ]),
        since: "7.4.0",
        origin: Origin::RedisThenValkey("9.0.0"),
        summary: "Sets the expiry of fields, as a point in time in seconds.",
        complexity: "O(N), N the number of fields given.",
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
            .optional(),
            Arg::block("fields", &[Arg::integer("numfields"), Arg::string("field").multiple()])
                .token("FIELDS"),
        ],
        ..BASE
    },
    Spec {
        name: "hexpiretime",
        arity: -5,
        flags: flags![READONLY FAST],
        acl: acl![HASH],
        keys: &[KeySpec::one(1, key_flags![RO ACCESS])],
        since: "7.4.0",
        origin: Origin::RedisThenValkey("9.0.0"),
        summary: "Returns when fields expire, in seconds since the epoch.",
        complexity: "O(N), N the number of fields given.",
        arguments: &[
            Arg::key("key", 0),
            Arg::block("fields", &[Arg::integer("numfields"), Arg::string("field").multiple()])
                .token("FIELDS"),
        ],
        ..BASE
    },
    Spec {
        name: "hgetdel",
        arity: -5,
        flags: flags![WRITE FAST],
        acl: acl![HASH],
        keys: &[KeySpec::one(1, key_flags![RW ACCESS DELETE])],
        propagation: Propagation::Rewritten(&[always("HDEL key field ...")]),
        since: "8.0.0",
        origin: Origin::RedisThenValkey("9.1.0"),
        summary: "Returns the values of fields and removes the fields.",
        complexity: "O(N), N the number of fields given.",
        arguments: &[
            Arg::key("key", 0),
            Arg::block("fields", &[Arg::integer("numfields"), Arg::string("field").multiple()])
                .token("FIELDS"),
        ],
        ..BASE
    },
    Spec {
        name: "hgetex",
        arity: -5,
        flags: flags![WRITE FAST],
        acl: acl![HASH],
        keys: &[KeySpec::one(1, key_flags![RW ACCESS UPDATE])],
        propagation: Propagation::Rewritten(&[
            when("the time is past", "HDEL key field ..."),
            when(
                "with a time to come",
                "HPEXPIREAT key unix-time-milliseconds FIELDS numfields field ...",
            ),
            when("with PERSIST", "HPERSIST key FIELDS numfields field ..."),
        ]),
        since: "8.0.0",
        origin: Origin::RedisThenValkey("9.0.0"),
        summary: "Returns the values of fields and sets or removes their expiry.",
        complexity: "O(N), N the number of fields given.",
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
            Arg::block("fields", &[Arg::integer("numfields"), Arg::string("field").multiple()])
                .token("FIELDS"),
        ],
        ..BASE
    },
    Spec {
        name: "himport",
        arity: -2,
        acl: acl![HASH],
        since: "8.10.0",
        origin: Origin::Redis,
        summary: "Imports hashes that have the same fields.",
        complexity: "Depends on the subcommand.",
        subcommands: HIMPORT,
        served: false,
        limit: "It loads hashes into an encoding of Redis. `HSET` stores the same.",
        ..BASE
    },
    Spec {
        name: "hpersist",
        arity: -5,
        flags: flags![WRITE FAST],
        acl: acl![HASH],
        keys: &[KeySpec::one(1, key_flags![RW UPDATE])],
        propagation: Propagation::Verbatim,
        since: "7.4.0",
        origin: Origin::RedisThenValkey("9.0.0"),
        summary: "Removes the expiry of fields.",
        complexity: "O(N), N the number of fields given.",
        arguments: &[
            Arg::key("key", 0),
            Arg::block("fields", &[Arg::integer("numfields"), Arg::string("field").multiple()])
                .token("FIELDS"),
        ],
        ..BASE
    },
    Spec {
        name: "hpexpire",
        arity: -6,
        flags: flags![WRITE FAST],
        acl: acl![HASH],
        keys: &[KeySpec::one(1, key_flags![RW UPDATE])],
        propagation: Propagation::Rewritten(&[
            when("the time is past", "HDEL key field ..."),
            always("HPEXPIREAT key unix-time-milliseconds FIELDS numfields field ..."),
        ]),
        since: "7.4.0",
        origin: Origin::RedisThenValkey("9.0.0"),
        summary: "Sets the expiry of fields, in milliseconds from now.",
        complexity: "O(N), N the number of fields given.",
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
            .optional(),
            Arg::block("fields", &[Arg::integer("numfields"), Arg::string("field").multiple()])
                .token("FIELDS"),
        ],
        ..BASE
    },
    Spec {
        name: "hpexpireat",
        arity: -6,
        flags: flags![WRITE FAST],
        acl: acl![HASH],
        keys: &[KeySpec::one(1, key_flags![RW UPDATE])],
        propagation: Propagation::Rewritten(&[when("the time is past", "HDEL key field ...")]),
        since: "7.4.0",
        origin: Origin::RedisThenValkey("9.0.0"),
        summary: "Sets the expiry of fields, as a point in time in milliseconds.",
        complexity: "O(N), N the number of fields given.",
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
            .optional(),
            Arg::block("fields", &[Arg::integer("numfields"), Arg::string("field").multiple()])
                .token("FIELDS"),
        ],
        ..BASE
    },
    Spec {
        name: "hpexpiretime",
        arity: -5,
        flags: flags![READONLY FAST],
        acl: acl![HASH],
        keys: &[KeySpec::one(1, key_flags![RO ACCESS])],
        since: "7.4.0",
        origin: Origin::RedisThenValkey("9.0.0"),
        summary: "Returns when fields expire, in milliseconds since the epoch.",
        complexity: "O(N), N the number of fields given.",
        arguments: &[
            Arg::key("key", 0),
            Arg::block("fields", &[Arg::integer("numfields"), Arg::string("field").multiple()])
                .token("FIELDS"),
        ],
        ..BASE
    },
    Spec {
        name: "hpttl",
        arity: -5,
        flags: flags![READONLY FAST],
        acl: acl![HASH],
        tips: &["nondeterministic_output"],
        keys: &[KeySpec::one(1, key_flags![RO ACCESS])],
        since: "7.4.0",
        origin: Origin::RedisThenValkey("9.0.0"),
        summary: "Returns the milliseconds until fields expire.",
        complexity: "O(N), N the number of fields given.",
        arguments: &[
            Arg::key("key", 0),
            Arg::block("fields", &[Arg::integer("numfields"), Arg::string("field").multiple()])
                .token("FIELDS"),
        ],
        ..BASE
    },
    Spec {
        name: "hsetex",
        arity: -6,
        flags: flags![WRITE DENYOOM FAST],
        acl: acl![HASH],
        keys: &[KeySpec::one(1, key_flags![RW UPDATE])],
        propagation: Propagation::Rewritten(&[
            when("the time is past", "HDEL key field ..."),
            when(
                "with a time",
                "HSETEX key PXAT unix-time-milliseconds FIELDS numfields field value ...",
            ),
        ]),
        since: "8.0.0",
        origin: Origin::RedisThenValkey("9.0.0"),
        summary: "Sets fields and their expiry.",
        complexity: "O(N), N the number of fields given.",
        arguments: &[
            Arg::key("key", 0),
            Arg::one_of("key-condition", &[Arg::word("nx", "NX"), Arg::word("xx", "XX")])
                .optional(),
            Arg::one_of("condition", &[Arg::word("fnx", "FNX"), Arg::word("fxx", "FXX")])
                .optional(),
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
            Arg::block(
                "fields",
                &[
                    Arg::integer("numfields"),
                    Arg::block("data", &[Arg::string("field"), Arg::string("value")]).multiple(),
                ],
            )
            .token("FIELDS"),
        ],
        ..BASE
    },
    Spec {
        name: "httl",
        arity: -5,
        flags: flags![READONLY FAST],
        acl: acl![HASH],
        tips: &["nondeterministic_output"],
        keys: &[KeySpec::one(1, key_flags![RO ACCESS])],
        since: "7.4.0",
        origin: Origin::RedisThenValkey("9.0.0"),
        summary: "Returns the seconds until fields expire.",
        complexity: "O(N), N the number of fields given.",
        arguments: &[
            Arg::key("key", 0),
            Arg::block("fields", &[Arg::integer("numfields"), Arg::string("field").multiple()])
                .token("FIELDS"),
        ],
        ..BASE
    },
];

const HIMPORT: &[Spec] = &[
    Spec {
        name: "himport|discard",
        arity: 3,
        acl: acl![HASH],
        tips: &["request_policy:all_shards"],
        since: "8.10.0",
        origin: Origin::Redis,
        summary: "Forgets a set of fields of this connection.",
        complexity: "O(N), N the number of sets of fields.",
        arguments: &[Arg::string("fieldset-name")],
        served: false,
        limit: "It loads hashes into an encoding of Redis. `HSET` stores the same.",
        ..BASE
    },
    Spec {
        name: "himport|discardall",
        arity: 2,
        acl: acl![HASH],
        tips: &["request_policy:all_shards"],
        since: "8.10.0",
        origin: Origin::Redis,
        summary: "Forgets all sets of fields of this connection.",
        complexity: "O(N), N the number of sets of fields.",
        served: false,
        limit: "It loads hashes into an encoding of Redis. `HSET` stores the same.",
        ..BASE
    },
    Spec {
        name: "himport|help",
        arity: 2,
        flags: flags![LOADING STALE],
        acl: acl![HASH],
        since: "8.10.0",
        origin: Origin::Redis,
        summary: "Explains the subcommands.",
        complexity: "O(1)",
        served: false,
        limit: "It loads hashes into an encoding of Redis. `HSET` stores the same.",
        ..BASE
    },
    Spec {
        name: "himport|prepare",
        arity: -4,
        flags: flags![DENYOOM],
        acl: acl![HASH],
        tips: &["request_policy:all_shards"],
        since: "8.10.0",
        origin: Origin::Redis,
        summary: "Names a set of fields for this connection.",
        complexity: "O(N*log(N)), N the number of fields.",
        arguments: &[Arg::string("fieldset-name"), Arg::string("field").multiple()],
        served: false,
        limit: "It loads hashes into an encoding of Redis. `HSET` stores the same.",
        ..BASE
    },
    Spec {
        name: "himport|set",
        arity: -5,
        flags: flags![WRITE DENYOOM],
        acl: acl![HASH],
        keys: &[KeySpec::one(2, key_flags![OW UPDATE])],
        propagation: Propagation::Rewritten(&[always("RESTORE key 0 serialized-value REPLACE")]),
        since: "8.10.0",
        origin: Origin::Redis,
        summary: "Sets a hash to values for a prepared set of fields.",
        complexity: "O(N), N the number of fields.",
        arguments: &[
            Arg::key("key", 0),
            Arg::string("fieldset-name"),
            Arg::string("value").multiple(),
        ],
        served: false,
        limit: "It loads hashes into an encoding of Redis. `HSET` stores the same.",
        ..BASE
    },
];
