//! What XGROUP and XINFO do: consumer groups, and what is known of a stream.

use super::BASE;
use crate::spec::{Arg, Change, KeySpec, Origin, Propagation, Spec, acl, flags, key_flags};

pub(super) const XGROUP: &[Spec] = &[
    Spec {
        name: "xgroup|create",
        arity: -5,
        flags: flags![WRITE DENYOOM],
        acl: acl![STREAM],
        keys: &[KeySpec::one(2, key_flags![RW INSERT])],
        propagation: Propagation::Verbatim,
        since: "5.0.0",
        history: &[Change::new("7.0.0", "`ENTRIESREAD`.")],
        summary: "Creates a consumer group.",
        complexity: "O(1)",
        arguments: &[
            Arg::key("key", 0),
            Arg::string("group"),
            Arg::one_of("id-selector", &[Arg::string("id"), Arg::word("new-id", "$")]),
            Arg::word("mkstream", "MKSTREAM").optional(),
            Arg::integer("entriesread").token("ENTRIESREAD").optional(),
        ],
        ..BASE
    },
    Spec {
        name: "xgroup|createconsumer",
        arity: 5,
        flags: flags![WRITE DENYOOM],
        acl: acl![STREAM],
        keys: &[KeySpec::one(2, key_flags![RW INSERT])],
        propagation: Propagation::Verbatim,
        since: "6.2.0",
        summary: "Creates a consumer in a group.",
        complexity: "O(1)",
        arguments: &[Arg::key("key", 0), Arg::string("group"), Arg::string("consumer")],
        ..BASE
    },
    Spec {
        name: "xgroup|delconsumer",
        arity: 5,
        flags: flags![WRITE],
        acl: acl![STREAM],
        keys: &[KeySpec::one(2, key_flags![RW DELETE])],
        propagation: Propagation::Verbatim,
        since: "5.0.0",
        summary: "Deletes a consumer of a group.",
        complexity: "O(1)",
        arguments: &[Arg::key("key", 0), Arg::string("group"), Arg::string("consumer")],
        ..BASE
    },
    Spec {
        name: "xgroup|destroy",
        arity: 4,
        flags: flags![WRITE],
        acl: acl![STREAM],
        keys: &[KeySpec::one(2, key_flags![RW DELETE])],
        propagation: Propagation::Verbatim,
        since: "5.0.0",
        summary: "Deletes a consumer group.",
        complexity: "O(N), N the number of entries that the group holds.",
        arguments: &[Arg::key("key", 0), Arg::string("group")],
        ..BASE
    },
    Spec {
        name: "xgroup|help",
        arity: 2,
        flags: flags![LOADING STALE],
        acl: acl![STREAM],
        since: "5.0.0",
        summary: "Explains the subcommands.",
        complexity: "O(1)",
        ..BASE
    },
    Spec {
        name: "xgroup|setid",
        arity: -5,
        flags: flags![WRITE],
        acl: acl![STREAM],
        keys: &[KeySpec::one(2, key_flags![RW UPDATE])],
        propagation: Propagation::Verbatim,
        since: "5.0.0",
        history: &[Change::new("7.0.0", "`ENTRIESREAD`.")],
        summary: "Sets which entry a group received last.",
        complexity: "O(1)",
        arguments: &[
            Arg::key("key", 0),
            Arg::string("group"),
            Arg::one_of("id-selector", &[Arg::string("id"), Arg::word("new-id", "$")]),
            Arg::integer("entriesread").token("ENTRIESREAD").optional(),
        ],
        ..BASE
    },
];

pub(super) const XINFO: &[Spec] = &[
    Spec {
        name: "xinfo|consumers",
        arity: 4,
        flags: flags![READONLY],
        acl: acl![STREAM],
        tips: &["nondeterministic_output"],
        keys: &[KeySpec::one(2, key_flags![RO ACCESS])],
        since: "5.0.0",
        history: &[Change::new("7.2.0", "The field `inactive`; `idle` counts attempts too.")],
        summary: "Describes the consumers of a group.",
        complexity: "O(1)",
        arguments: &[Arg::key("key", 0), Arg::string("group")],
        ..BASE
    },
    Spec {
        name: "xinfo|groups",
        arity: 3,
        flags: flags![READONLY],
        acl: acl![STREAM],
        keys: &[KeySpec::one(2, key_flags![RO ACCESS])],
        since: "5.0.0",
        history: &[Change::new("7.0.0", "The fields `entries-read` and `lag`.")],
        summary: "Describes the consumer groups of a stream.",
        complexity: "O(1)",
        arguments: &[Arg::key("key", 0)],
        ..BASE
    },
    Spec {
        name: "xinfo|help",
        arity: 2,
        flags: flags![LOADING STALE],
        acl: acl![STREAM],
        since: "5.0.0",
        summary: "Explains the subcommands.",
        complexity: "O(1)",
        ..BASE
    },
    Spec {
        name: "xinfo|stream",
        arity: -3,
        flags: flags![READONLY],
        acl: acl![STREAM],
        keys: &[KeySpec::one(2, key_flags![RO ACCESS])],
        since: "5.0.0",
        history: &[
            Change::new("6.0.0", "`FULL`."),
            Change::new(
                "7.0.0",
                "The fields `max-deleted-entry-id`, `entries-added`, `recorded-first-entry-id`, `entries-read` and `lag`.",
            ),
            Change::new("7.2.0", "The field `active-time`; `seen-time` counts attempts too."),
            Change::absent(
                Origin::Redis,
                "8.6.0",
                "The fields `iids-added` and `iids-duplicates`.",
            ),
            Change::absent(Origin::Redis, "8.8.0", "The field `nacked-count` of a group."),
        ],
        summary: "Describes a stream.",
        complexity: "O(1)",
        arguments: &[
            Arg::key("key", 0),
            Arg::block(
                "full-block",
                &[Arg::word("full", "FULL"), Arg::integer("count").token("COUNT").optional()],
            )
            .optional(),
        ],
        ..BASE
    },
];
