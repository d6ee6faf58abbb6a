//! Sets.

use crate::spec::{Arg, Group, KeySpec, Spec, acl, flags, key_flags};

const BASE: Spec = Spec { group: Group::Set, ..Spec::BLANK };

/// The commands of the group, by name.
pub(super) static COMMANDS: &[Spec] = &[
    Spec {
        name: "sadd",
        arity: -3,
        flags: flags![WRITE DENYOOM FAST],
        acl: acl![SET],
        keys: &[KeySpec::one(1, key_flags![RW INSERT])],
        since: "1.0.0",
        summary: "Adds members to a set, creating it when the key is new.",
        complexity: "O(N), N the number of members given.",
        arguments: &[Arg::key("key", 0), Arg::string("member").multiple()],
        ..BASE
    },
    Spec {
        name: "scard",
        arity: 2,
        flags: flags![READONLY FAST],
        acl: acl![SET],
        keys: &[KeySpec::one(1, key_flags![RO])],
        since: "1.0.0",
        summary: "Returns the number of members of a set.",
        complexity: "O(1)",
        arguments: &[Arg::key("key", 0)],
        ..BASE
    },
    Spec {
        name: "sdiff",
        arity: -2,
        flags: flags![READONLY],
        acl: acl![SET],
        tips: &["nondeterministic_output_order"],
        keys: &[KeySpec::range(1, -1, 1, key_flags![RO ACCESS])],
        since: "1.0.0",
        summary: "Returns the members of the first set that are in none of the others.",
        complexity: "O(N), N the number of members of all the sets together.",
        arguments: &[Arg::key("key", 0).multiple()],
        ..BASE
    },
    Spec {
        name: "sdiffstore",
        arity: -3,
        flags: flags![WRITE DENYOOM],
        acl: acl![SET],
        keys: &[
            KeySpec::one(1, key_flags![OW UPDATE]),
            KeySpec::range(2, -1, 1, key_flags![RO ACCESS]),
        ],
        since: "1.0.0",
        summary: "Stores the members of the first set that are in none of the others.",
        complexity: "O(N), N the number of members of all the sets together.",
        arguments: &[Arg::key("destination", 0), Arg::key("key", 1).multiple()],
        ..BASE
    },
    Spec {
        name: "sinter",
        arity: -2,
        flags: flags![READONLY],
        acl: acl![SET],
        tips: &["nondeterministic_output_order"],
        keys: &[KeySpec::range(1, -1, 1, key_flags![RO ACCESS])],
        since: "1.0.0",
        summary: "Returns the members that all the sets have.",
        complexity: "O(N*M) at worst, N the size of the smallest set and M the number of sets.",
        arguments: &[Arg::key("key", 0).multiple()],
        ..BASE
    },
    Spec {
        name: "sintercard",
        arity: -3,
        flags: flags![READONLY MOVABLEKEYS],
        acl: acl![SET],
        keys: &[KeySpec::counted(1, key_flags![RO ACCESS])],
        since: "7.0.0",
        summary: "Counts the members that all the sets have.",
        complexity: "O(N*M) at worst, N the size of the smallest set and M the number of sets.",
        arguments: &[
            Arg::integer("numkeys"),
            Arg::key("key", 0).multiple(),
            Arg::integer("limit").token("LIMIT").optional(),
        ],
        ..BASE
    },
    Spec {
        name: "sinterstore",
        arity: -3,
        flags: flags![WRITE DENYOOM],
        acl: acl![SET],
        keys: &[
            KeySpec::one(1, key_flags![RW UPDATE]),
            KeySpec::range(2, -1, 1, key_flags![RO ACCESS]),
        ],
        since: "1.0.0",
        summary: "Stores the members that all the sets have.",
        complexity: "O(N*M) at worst, N the size of the smallest set and M the number of sets.",
        arguments: &[Arg::key("destination", 0), Arg::key("key", 1).multiple()],
        ..BASE
    },
    Spec {
        name: "sismember",
        arity: 3,
        flags: flags![READONLY FAST],
        acl: acl![SET],
        keys: &[KeySpec::one(1, key_flags![RO])],
        since: "1.0.0",
        summary: "Tells whether a set has a member.",
        complexity: "O(1)",
        arguments: &[Arg::key("key", 0), Arg::string("member")],
        ..BASE
    },
    Spec {
        name: "smembers",
        arity: 2,
        flags: flags![READONLY],
        acl: acl![SET],
        tips: &["nondeterministic_output_order"],
        keys: &[KeySpec::one(1, key_flags![RO ACCESS])],
        since: "1.0.0",
        summary: "Returns all members of a set.",
        complexity: "O(N), N the number of members.",
        arguments: &[Arg::key("key", 0)],
        ..BASE
    },
    Spec {
        name: "smismember",
        arity: -3,
        flags: flags![READONLY FAST],
        acl: acl![SET],
        keys: &[KeySpec::one(1, key_flags![RO ACCESS])],
        since: "6.2.0",
        summary: "Tells which of several members a set has.",
        complexity: "O(N), N the number of members asked for.",
        arguments: &[Arg::key("key", 0), Arg::string("member").multiple()],
        ..BASE
    },
    Spec {
        name: "smove",
        arity: 4,
        flags: flags![WRITE FAST],
        acl: acl![SET],
        keys: &[
            KeySpec::one(1, key_flags![RW ACCESS DELETE]),
            KeySpec::one(2, key_flags![RW INSERT]),
        ],
        since: "1.0.0",
        summary: "Moves a member from one set to another.",
        complexity: "O(1)",
        arguments: &[Arg::key("source", 0), Arg::key("destination", 1), Arg::string("member")],
        ..BASE
    },
    Spec {
        name: "spop",
        arity: -2,
        flags: flags![WRITE FAST],
        acl: acl![SET],
        tips: &["nondeterministic_output"],
        keys: &[KeySpec::one(1, key_flags![RW ACCESS DELETE])],
        since: "1.0.0",
        summary: "Removes random members from a set and returns them.",
        complexity: "O(N), N the number of members returned.",
        arguments: &[Arg::key("key", 0), Arg::integer("count").since("3.2.0").optional()],
        ..BASE
    },
    Spec {
        name: "srandmember",
        arity: -2,
        flags: flags![READONLY],
        acl: acl![SET],
        tips: &["nondeterministic_output"],
        keys: &[KeySpec::one(1, key_flags![RO ACCESS])],
        since: "1.0.0",
        summary: "Returns random members of a set.",
        complexity: "O(N), N the number of members returned.",
        arguments: &[Arg::key("key", 0), Arg::integer("count").since("2.6.0").optional()],
        ..BASE
    },
    Spec {
        name: "srem",
        arity: -3,
        flags: flags![WRITE FAST],
        acl: acl![SET],
        keys: &[KeySpec::one(1, key_flags![RW DELETE])],
        since: "1.0.0",
        summary: "Removes members from a set.",
        complexity: "O(N), N the number of members given.",
        arguments: &[Arg::key("key", 0), Arg::string("member").multiple()],
        ..BASE
    },
    Spec {
        name: "sscan",
        arity: -3,
        flags: flags![READONLY],
        acl: acl![SET],
        tips: &["nondeterministic_output"],
        keys: &[KeySpec::one(1, key_flags![RO ACCESS])],
        since: "2.8.0",
        summary: "Iterates over the members of a set.",
        complexity: "O(1) a call, O(N) for the whole iteration.",
        arguments: &[
            Arg::key("key", 0),
            Arg::integer("cursor"),
            Arg::pattern("pattern").token("MATCH").optional(),
            Arg::integer("count").token("COUNT").optional(),
        ],
        ..BASE
    },
    Spec {
        name: "sunion",
        arity: -2,
        flags: flags![READONLY],
        acl: acl![SET],
        tips: &["nondeterministic_output_order"],
        keys: &[KeySpec::range(1, -1, 1, key_flags![RO ACCESS])],
        since: "1.0.0",
        summary: "Returns the members that any of the sets has.",
        complexity: "O(N), N the number of members of all the sets together.",
        arguments: &[Arg::key("key", 0).multiple()],
        ..BASE
    },
    Spec {
        name: "sunionstore",
        arity: -3,
        flags: flags![WRITE DENYOOM],
        acl: acl![SET],
        keys: &[
            KeySpec::one(1, key_flags![OW UPDATE]),
            KeySpec::range(2, -1, 1, key_flags![RO ACCESS]),
        ],
        since: "1.0.0",
        summary: "Stores the members that any of the sets has.",
        complexity: "O(N), N the number of members of all the sets together.",
        arguments: &[Arg::key("destination", 0), Arg::key("key", 1).multiple()],
        ..BASE
    },
];
