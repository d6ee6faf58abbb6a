//! Hashes.

pub(super) mod expiry;

use crate::spec::{
    Arg, Change, Deprecation, Group, KeySpec, Propagation, Spec, acl, always, flags, key_flags,
    when,
};

const BASE: Spec = Spec { group: Group::Hash, ..Spec::BLANK };

/// The commands of the group, by name.
pub(super) static COMMANDS: &[Spec] = &[
    Spec {
        name: "hdel",
        arity: -3,
        flags: flags![WRITE FAST],
        acl: acl![HASH],
        keys: &[KeySpec::one(1, key_flags![RW DELETE])],
        propagation: Propagation::Verbatim,
        since: "2.0.0",
        history: &[Change::new("2.4.0", "Several fields.")],
        summary: "Deletes fields of a hash.",
        complexity: "O(N), N the number of fields given.",
        arguments: &[Arg::key("key", 0), Arg::string("field").multiple()],
        ..BASE
    },
    Spec {
        name: "hexists",
        arity: 3,
        flags: flags![READONLY FAST],
        acl: acl![HASH],
        keys: &[KeySpec::one(1, key_flags![RO])],
        since: "2.0.0",
        summary: "Tells whether a hash has a field.",
        complexity: "O(1)",
        arguments: &[Arg::key("key", 0), Arg::string("field")],
        ..BASE
    },
    Spec {
        name: "hget",
        arity: 3,
        flags: flags![READONLY FAST],
        acl: acl![HASH],
        keys: &[KeySpec::one(1, key_flags![RO ACCESS])],
        since: "2.0.0",
        summary: "Returns the value of a field.",
        complexity: "O(1)",
        arguments: &[Arg::key("key", 0), Arg::string("field")],
        ..BASE
    },
    Spec {
        name: "hgetall",
        arity: 2,
        flags: flags![READONLY],
        acl: acl![HASH],
        tips: &["nondeterministic_output_order"],
        keys: &[KeySpec::one(1, key_flags![RO ACCESS])],
        since: "2.0.0",
        summary: "Returns all fields and values of a hash.",
        complexity: "O(N), N the number of fields.",
        arguments: &[Arg::key("key", 0)],
        ..BASE
    },
    Spec {
        name: "hincrby",
        arity: 4,
        flags: flags![WRITE DENYOOM FAST],
        acl: acl![HASH],
        keys: &[KeySpec::one(1, key_flags![RW ACCESS UPDATE])],
        propagation: Propagation::Rewritten(&[when(
            "fields of the hash expire",
            "HSETEX key KEEPTTL FIELDS 1 field value",
        )]),
        since: "2.0.0",
        summary: "Adds to the number in a field.",
        complexity: "O(1)",
        arguments: &[Arg::key("key", 0), Arg::string("field"), Arg::integer("increment")],
        ..BASE
    },
    Spec {
        name: "hincrbyfloat",
        arity: 4,
        flags: flags![WRITE DENYOOM FAST],
        acl: acl![HASH],
        keys: &[KeySpec::one(1, key_flags![RW ACCESS UPDATE])],
        propagation: Propagation::Rewritten(&[
            when("fields of the hash expire", "HSETEX key KEEPTTL FIELDS 1 field value"),
            always("HSET key field value"),
        ]),
        since: "2.6.0",
        summary: "Adds a floating point number to the number in a field.",
        complexity: "O(1)",
        arguments: &[Arg::key("key", 0), Arg::string("field"), Arg::double("increment")],
        ..BASE
    },
    Spec {
        name: "hkeys",
        arity: 2,
        flags: flags![READONLY],
        acl: acl![HASH],
        tips: &["nondeterministic_output_order"],
        keys: &[KeySpec::one(1, key_flags![RO ACCESS])],
        since: "2.0.0",
        summary: "Returns all fields of a hash.",
        complexity: "O(N), N the number of fields.",
        arguments: &[Arg::key("key", 0)],
        ..BASE
    },
    Spec {
        name: "hlen",
        arity: 2,
        flags: flags![READONLY FAST],
        acl: acl![HASH],
        keys: &[KeySpec::one(1, key_flags![RO])],
        since: "2.0.0",
        summary: "Returns the number of fields of a hash.",
        complexity: "O(1)",
        arguments: &[Arg::key("key", 0)],
        ..BASE
    },
    Spec {
        name: "hmget",
        arity: -3,
        flags: flags![READONLY FAST],
        acl: acl![HASH],
        keys: &[KeySpec::one(1, key_flags![RO ACCESS])],
        since: "2.0.0",
        summary: "Returns the values of several fields.",
        complexity: "O(N), N the number of fields asked for.",
        arguments: &[Arg::key("key", 0), Arg::string("field").multiple()],
        ..BASE
    },
    Spec {
        name: "hmset",
        arity: -4,
        flags: flags![WRITE DENYOOM FAST],
        acl: acl![HASH],
        keys: &[KeySpec::one(1, key_flags![RW UPDATE])],
        propagation: Propagation::Verbatim,
        since: "2.0.0",
        summary: "Sets the values of several fields.",
        complexity: "O(N), N the number of fields given.",
        deprecated: Some(Deprecation {
            since: "4.0.0",
            replaced_by: "`HSET` with multiple field-value pairs",
        }),
        arguments: &[
            Arg::key("key", 0),
            Arg::block("field_value", &[Arg::string("field"), Arg::string("value")]).multiple(),
        ],
        ..BASE
    },
    Spec {
        name: "hrandfield",
        arity: -2,
        flags: flags![READONLY],
        acl: acl![HASH],
        tips: &["nondeterministic_output"],
        keys: &[KeySpec::one(1, key_flags![RO ACCESS])],
        since: "6.2.0",
        summary: "Returns random fields of a hash.",
        complexity: "O(N), N the number of fields returned.",
        arguments: &[
            Arg::key("key", 0),
            Arg::block(
                "options",
                &[Arg::integer("count"), Arg::word("withvalues", "WITHVALUES").optional()],
            )
            .optional(),
        ],
        ..BASE
    },
    Spec {
        name: "hscan",
        arity: -3,
        flags: flags![READONLY],
        acl: acl![HASH],
        tips: &["nondeterministic_output"],
        keys: &[KeySpec::one(1, key_flags![RO ACCESS])],
        since: "2.8.0",
        summary: "Iterates over the fields and values of a hash.",
        complexity: "O(1) a call, O(N) for the whole iteration.",
        arguments: &[
            Arg::key("key", 0),
            Arg::integer("cursor"),
            Arg::pattern("pattern").token("MATCH").optional(),
            Arg::integer("count").token("COUNT").optional(),
            Arg::word("novalues", "NOVALUES").since("7.4.0").optional(),
        ],
        ..BASE
    },
    Spec {
        name: "hset",
        arity: -4,
        flags: flags![WRITE DENYOOM FAST],
        acl: acl![HASH],
        keys: &[KeySpec::one(1, key_flags![RW UPDATE])],
        propagation: Propagation::Verbatim,
        since: "2.0.0",
        history: &[Change::new("4.0.0", "Several fields.")],
        summary: "Sets the values of fields, creating the hash when the key is new.",
        complexity: "O(N), N the number of fields given.",
        arguments: &[
            Arg::key("key", 0),
            Arg::block("field_value", &[Arg::string("field"), Arg::string("value")]).multiple(),
        ],
        ..BASE
    },
    Spec {
        name: "hsetnx",
        arity: 4,
        flags: flags![WRITE DENYOOM FAST],
        acl: acl![HASH],
        keys: &[KeySpec::one(1, key_flags![RW INSERT])],
        propagation: Propagation::Verbatim,
        since: "2.0.0",
        summary: "Sets the value of a field that does not exist.",
        complexity: "O(1)",
        arguments: &[Arg::key("key", 0), Arg::string("field"), Arg::string("value")],
        ..BASE
    },
    Spec {
        name: "hstrlen",
        arity: 3,
        flags: flags![READONLY FAST],
        acl: acl![HASH],
        keys: &[KeySpec::one(1, key_flags![RO])],
        since: "3.2.0",
        summary: "Returns the length of a field's value.",
        complexity: "O(1)",
        arguments: &[Arg::key("key", 0), Arg::string("field")],
        ..BASE
    },
    Spec {
        name: "hvals",
        arity: 2,
        flags: flags![READONLY],
        acl: acl![HASH],
        tips: &["nondeterministic_output_order"],
        keys: &[KeySpec::one(1, key_flags![RO ACCESS])],
        since: "2.0.0",
        summary: "Returns all values of a hash.",
        complexity: "O(N), N the number of fields.",
        arguments: &[Arg::key("key", 0)],
        ..BASE
    },
];
