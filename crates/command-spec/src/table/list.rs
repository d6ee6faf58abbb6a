//! Lists.

use crate::spec::{
    Arg, Change, Deprecation, Group, KeySpec, Origin, Propagation, Spec, acl, always, flags,
    key_flags, when,
};

const BASE: Spec = Spec { group: Group::List, ..Spec::BLANK };

/// The commands of the group, by name.
pub(super) static COMMANDS: &[Spec] = &[
    Spec {
        name: "blmove",
        arity: 6,
        flags: flags![WRITE DENYOOM BLOCKING],
        acl: acl![LIST],
        keys: &[
            KeySpec::one(1, key_flags![RW ACCESS DELETE]),
            KeySpec::one(2, key_flags![RW INSERT]),
        ],
        propagation: Propagation::Rewritten(&[always(
            "LMOVE source destination wherefrom whereto",
        )]),
        since: "6.2.0",
        summary: "Moves an element from one end of a list to an end of another, waiting until there is one.",
        complexity: "O(1)",
        arguments: &[
            Arg::key("source", 0),
            Arg::key("destination", 1),
            Arg::one_of("wherefrom", &[Arg::word("left", "LEFT"), Arg::word("right", "RIGHT")]),
            Arg::one_of("whereto", &[Arg::word("left", "LEFT"), Arg::word("right", "RIGHT")]),
            Arg::double("timeout"),
        ],
        ..BASE
    },
    Spec {
        name: "blmovem",
        arity: -6,
        flags: flags![WRITE DENYOOM BLOCKING],
        acl: acl![LIST],
        keys: &[
            KeySpec::one(1, key_flags![RW ACCESS DELETE]),
            KeySpec::one(2, key_flags![RW INSERT]),
        ],
        propagation: Propagation::Rewritten(&[always(
            "LMOVEM source destination wherefrom whereto EXACTLY count ordering",
        )]),
        since: "8.10.0",
        origin: Origin::Redis,
        summary: "Moves several elements from one end of a list to an end of another, waiting until there are any.",
        complexity: "O(N), N the number of elements moved.",
        arguments: &[
            Arg::key("source", 0),
            Arg::key("destination", 1),
            Arg::one_of("wherefrom", &[Arg::word("left", "LEFT"), Arg::word("right", "RIGHT")]),
            Arg::one_of("whereto", &[Arg::word("left", "LEFT"), Arg::word("right", "RIGHT")]),
            Arg::double("timeout"),
            Arg::block(
                "how-many",
                &[
                    Arg::one_of(
                        "selector",
                        &[
                            Arg::integer("count").token("COUNT"),
                            Arg::integer("exactly").token("EXACTLY"),
                        ],
                    ),
                    Arg::one_of("ordering", &[Arg::word("obo", "OBO"), Arg::word("bulk", "BULK")]),
                ],
            )
            .optional(),
        ],
        ..BASE
    },
    Spec {
        name: "blmpop",
        arity: -5,
        flags: flags![WRITE BLOCKING MOVABLEKEYS],
        acl: acl![LIST],
        keys: &[KeySpec::counted(2, key_flags![RW ACCESS DELETE])],
        propagation: Propagation::Rewritten(&[
            when("with LEFT", "LPOP key count"),
            when("with RIGHT", "RPOP key count"),
        ]),
        since: "7.0.0",
        summary: "Pops elements from the first list that has any, waiting until one has.",
        complexity: "O(N+M), N the number of keys and M the number of elements returned.",
        arguments: &[
            Arg::double("timeout"),
            Arg::integer("numkeys"),
            Arg::key("key", 0).multiple(),
            Arg::one_of("where", &[Arg::word("left", "LEFT"), Arg::word("right", "RIGHT")]),
            Arg::integer("count").token("COUNT").optional(),
        ],
        ..BASE
    },
    Spec {
        name: "blpop",
        arity: -3,
        flags: flags![WRITE BLOCKING],
        acl: acl![LIST],
        keys: &[KeySpec::range(1, -2, 1, key_flags![RW ACCESS DELETE])],
        propagation: Propagation::Rewritten(&[always("LPOP key")]),
        since: "2.0.0",
        history: &[Change::new("6.0.0", "The timeout may have a fraction.")],
        summary: "Pops the head of the first list that has one, waiting until one has.",
        complexity: "O(N), N the number of keys.",
        arguments: &[Arg::key("key", 0).multiple(), Arg::double("timeout")],
        ..BASE
    },
    Spec {
        name: "brpop",
        arity: -3,
        flags: flags![WRITE BLOCKING],
        acl: acl![LIST],
        keys: &[KeySpec::range(1, -2, 1, key_flags![RW ACCESS DELETE])],
        propagation: Propagation::Rewritten(&[always("RPOP key")]),
        since: "2.0.0",
        history: &[Change::new("6.0.0", "The timeout may have a fraction.")],
        summary: "Pops the tail of the first list that has one, waiting until one has.",
        complexity: "O(N), N the number of keys.",
        arguments: &[Arg::key("key", 0).multiple(), Arg::double("timeout")],
        ..BASE
    },
    Spec {
        name: "brpoplpush",
        arity: 4,
        flags: flags![WRITE DENYOOM BLOCKING],
        acl: acl![LIST],
        keys: &[
            KeySpec::one(1, key_flags![RW ACCESS DELETE]),
            KeySpec::one(2, key_flags![RW INSERT]),
        ],
        propagation: Propagation::Rewritten(&[always("RPOPLPUSH source destination")]),
        since: "2.2.0",
        history: &[Change::new("6.0.0", "The timeout may have a fraction.")],
        summary: "Moves the tail of a list to the head of another, waiting until there is one.",
        complexity: "O(1)",
        deprecated: Some(Deprecation {
            since: "6.2.0",
            replaced_by: "`BLMOVE` with the `RIGHT` and `LEFT` arguments",
        }),
        arguments: &[Arg::key("source", 0), Arg::key("destination", 1), Arg::double("timeout")],
        ..BASE
    },
    Spec {
        name: "lindex",
        arity: 3,
        flags: flags![READONLY],
        acl: acl![LIST],
        keys: &[KeySpec::one(1, key_flags![RO ACCESS])],
        since: "1.0.0",
        summary: "Returns the element at an index of a list.",
        complexity: "O(N), N the number of elements passed on the way; O(1) for the ends.",
        arguments: &[Arg::key("key", 0), Arg::integer("index")],
        ..BASE
    },
    Spec {
        name: "linsert",
        arity: 5,
        flags: flags![WRITE DENYOOM],
        acl: acl![LIST],
        keys: &[KeySpec::one(1, key_flags![RW INSERT])],
        propagation: Propagation::Verbatim,
        since: "2.2.0",
        summary: "Inserts an element before or after another one of a list.",
        complexity: "O(N), N the number of elements passed before the pivot.",
        arguments: &[
            Arg::key("key", 0),
            Arg::one_of("where", &[Arg::word("before", "BEFORE"), Arg::word("after", "AFTER")]),
            Arg::string("pivot"),
            Arg::string("element"),
        ],
        ..BASE
    },
    Spec {
        name: "llen",
        arity: 2,
        flags: flags![READONLY FAST],
        acl: acl![LIST],
        keys: &[KeySpec::one(1, key_flags![RO])],
        since: "1.0.0",
        summary: "Returns the length of a list.",
        complexity: "O(1)",
        arguments: &[Arg::key("key", 0)],
        ..BASE
    },
    Spec {
        name: "lmove",
        arity: 5,
        flags: flags![WRITE DENYOOM],
        acl: acl![LIST],
        keys: &[
            KeySpec::one(1, key_flags![RW ACCESS DELETE]),
            KeySpec::one(2, key_flags![RW INSERT]),
        ],
        propagation: Propagation::Verbatim,
        since: "6.2.0",
        summary: "Moves an element from one end of a list to an end of another.",
        complexity: "O(1)",
        arguments: &[
            Arg::key("source", 0),
            Arg::key("destination", 1),
            Arg::one_of("wherefrom", &[Arg::word("left", "LEFT"), Arg::word("right", "RIGHT")]),
            Arg::one_of("whereto", &[Arg::word("left", "LEFT"), Arg::word("right", "RIGHT")]),
        ],
        ..BASE
    },
    Spec {
        name: "lmovem",
        arity: -5,
        flags: flags![WRITE DENYOOM],
        acl: acl![LIST],
        keys: &[
            KeySpec::one(1, key_flags![RW ACCESS DELETE]),
            KeySpec::one(2, key_flags![RW INSERT]),
        ],
        propagation: Propagation::Verbatim,
        since: "8.10.0",
        origin: Origin::Redis,
        summary: "Moves several elements from one end of a list to an end of another.",
        complexity: "O(N), N the number of elements moved.",
        arguments: &[
            Arg::key("source", 0),
            Arg::key("destination", 1),
            Arg::one_of("wherefrom", &[Arg::word("left", "LEFT"), Arg::word("right", "RIGHT")]),
            Arg::one_of("whereto", &[Arg::word("left", "LEFT"), Arg::word("right", "RIGHT")]),
            Arg::block(
                "how-many",
                &[
                    Arg::one_of(
                        "selector",
                        &[
                            Arg::integer("count").token("COUNT"),
                            Arg::integer("exactly").token("EXACTLY"),
                        ],
                    ),
                    Arg::one_of("ordering", &[Arg::word("obo", "OBO"), Arg::word("bulk", "BULK")]),
                ],
            )
            .optional(),
        ],
        ..BASE
    },
    Spec {
        name: "lmpop",
        arity: -4,
        flags: flags![WRITE MOVABLEKEYS],
        acl: acl![LIST],
        keys: &[KeySpec::counted(1, key_flags![RW ACCESS DELETE])],
        propagation: Propagation::Rewritten(&[
            when("with LEFT", "LPOP key count"),
            when("with RIGHT", "RPOP key count"),
        ]),
        since: "7.0.0",
        summary: "Pops elements from the first list that has any.",
        complexity: "O(N+M), N the number of keys and M the number of elements returned.",
        arguments: &[
            Arg::integer("numkeys"),
            Arg::key("key", 0).multiple(),
            Arg::one_of("where", &[Arg::word("left", "LEFT"), Arg::word("right", "RIGHT")]),
            Arg::integer("count").token("COUNT").optional(),
        ],
        ..BASE
    },
    Spec {
        name: "lpop",
        arity: -2,
        flags: flags![WRITE FAST],
        acl: acl![LIST],
        keys: &[KeySpec::one(1, key_flags![RW ACCESS DELETE])],
        propagation: Propagation::Verbatim,
        since: "1.0.0",
        summary: "Pops elements from the head of a list.",
        complexity: "O(N), N the number of elements returned.",
        arguments: &[Arg::key("key", 0), Arg::integer("count").since("6.2.0").optional()],
        ..BASE
    },
    Spec {
        name: "lpos",
        arity: -3,
        flags: flags![READONLY],
        acl: acl![LIST],
        keys: &[KeySpec::one(1, key_flags![RO ACCESS])],
        since: "6.0.6",
        summary: "Finds the indices of an element in a list.",
        complexity: "O(N), N the number of elements of the list.",
        arguments: &[
            Arg::key("key", 0),
            Arg::string("element"),
            Arg::integer("rank").token("RANK").optional(),
            Arg::integer("num-matches").token("COUNT").optional(),
            Arg::integer("len").token("MAXLEN").optional(),
        ],
        ..BASE
    },
    Spec {
        name: "lpush",
        arity: -3,
        flags: flags![WRITE DENYOOM FAST],
        acl: acl![LIST],
        keys: &[KeySpec::one(1, key_flags![RW INSERT])],
        propagation: Propagation::Verbatim,
        since: "1.0.0",
        history: &[Change::new("2.4.0", "Several elements.")],
        summary: "Adds elements at the head of a list, creating it when the key is new.",
        complexity: "O(N), N the number of elements added.",
        arguments: &[Arg::key("key", 0), Arg::string("element").multiple()],
        ..BASE
    },
    Spec {
        name: "lpushx",
        arity: -3,
        flags: flags![WRITE DENYOOM FAST],
        acl: acl![LIST],
        keys: &[KeySpec::one(1, key_flags![RW INSERT])],
        propagation: Propagation::Verbatim,
        since: "2.2.0",
        history: &[Change::new("4.0.0", "Several elements.")],
        summary: "Adds elements at the head of a list that exists.",
        complexity: "O(N), N the number of elements added.",
        arguments: &[Arg::key("key", 0), Arg::string("element").multiple()],
        ..BASE
    },
    Spec {
        name: "lrange",
        arity: 4,
        flags: flags![READONLY],
        acl: acl![LIST],
        keys: &[KeySpec::one(1, key_flags![RO ACCESS])],
        since: "1.0.0",
        summary: "Returns a range of elements of a list.",
        complexity: "O(S+N), S the distance of the range from the nearer end and N its length.",
        arguments: &[Arg::key("key", 0), Arg::integer("start"), Arg::integer("stop")],
        ..BASE
    },
    Spec {
        name: "lrem",
        arity: 4,
        flags: flags![WRITE],
        acl: acl![LIST],
        keys: &[KeySpec::one(1, key_flags![RW DELETE])],
        propagation: Propagation::Verbatim,
        since: "1.0.0",
        summary: "Removes elements that equal a value from a list.",
        complexity: "O(N), N the number of elements of the list.",
        arguments: &[Arg::key("key", 0), Arg::integer("count"), Arg::string("element")],
        ..BASE
    },
    Spec {
        name: "lset",
        arity: 4,
        flags: flags![WRITE DENYOOM],
        acl: acl![LIST],
        keys: &[KeySpec::one(1, key_flags![RW UPDATE])],
        propagation: Propagation::Verbatim,
        since: "1.0.0",
        summary: "Replaces the element at an index of a list.",
        complexity: "O(N), N the number of elements passed on the way; O(1) for the ends.",
        arguments: &[Arg::key("key", 0), Arg::integer("index"), Arg::string("element")],
        ..BASE
    },
    Spec {
        name: "ltrim",
        arity: 4,
        flags: flags![WRITE],
        acl: acl![LIST],
        keys: &[KeySpec::one(1, key_flags![RW DELETE])],
        propagation: Propagation::Verbatim,
        since: "1.0.0",
        summary: "Cuts a list down to a range.",
        complexity: "O(N), N the number of elements removed.",
        arguments: &[Arg::key("key", 0), Arg::integer("start"), Arg::integer("stop")],
        ..BASE
    },
    Spec {
        name: "rpop",
        arity: -2,
        flags: flags![WRITE FAST],
        acl: acl![LIST],
        keys: &[KeySpec::one(1, key_flags![RW ACCESS DELETE])],
        propagation: Propagation::Verbatim,
        since: "1.0.0",
        summary: "Pops elements from the tail of a list.",
        complexity: "O(N), N the number of elements returned.",
        arguments: &[Arg::key("key", 0), Arg::integer("count").since("6.2.0").optional()],
        ..BASE
    },
    Spec {
        name: "rpoplpush",
        arity: 3,
        flags: flags![WRITE DENYOOM],
        acl: acl![LIST],
        keys: &[
            KeySpec::one(1, key_flags![RW ACCESS DELETE]),
            KeySpec::one(2, key_flags![RW INSERT]),
        ],
        propagation: Propagation::Verbatim,
        since: "1.2.0",
        summary: "Moves the tail of a list to the head of another.",
        complexity: "O(1)",
        deprecated: Some(Deprecation {
            since: "6.2.0",
            replaced_by: "`LMOVE` with the `RIGHT` and `LEFT` arguments",
        }),
        arguments: &[Arg::key("source", 0), Arg::key("destination", 1)],
        ..BASE
    },
    Spec {
        name: "rpush",
        arity: -3,
        flags: flags![WRITE DENYOOM FAST],
        acl: acl![LIST],
        keys: &[KeySpec::one(1, key_flags![RW INSERT])],
        propagation: Propagation::Verbatim,
        since: "1.0.0",
        history: &[Change::new("2.4.0", "Several elements.")],
        summary: "Adds elements at the tail of a list, creating it when the key is new.",
        complexity: "O(N), N the number of elements added.",
        arguments: &[Arg::key("key", 0), Arg::string("element").multiple()],
        ..BASE
    },
    Spec {
        name: "rpushx",
        arity: -3,
        flags: flags![WRITE DENYOOM FAST],
        acl: acl![LIST],
        keys: &[KeySpec::one(1, key_flags![RW INSERT])],
        propagation: Propagation::Verbatim,
        since: "2.2.0",
        history: &[Change::new("4.0.0", "Several elements.")],
        summary: "Adds elements at the tail of a list that exists.",
        complexity: "O(N), N the number of elements added.",
        arguments: &[Arg::key("key", 0), Arg::string("element").multiple()],
        ..BASE
    },
];
