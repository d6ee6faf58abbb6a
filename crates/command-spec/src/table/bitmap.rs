//! Bits and small integers inside strings.

use crate::spec::{Arg, Change, Group, KeySpec, Origin, Propagation, Spec, acl, flags, key_flags};

const BASE: Spec = Spec { group: Group::Bitmap, ..Spec::BLANK };

/// The commands of the group, by name.
pub(super) static COMMANDS: &[Spec] = &[
    Spec {
        name: "bitcount",
        arity: -2,
        flags: flags![READONLY],
        acl: acl![BITMAP],
        keys: &[KeySpec::one(1, key_flags![RO ACCESS])],
        since: "2.6.0",
        history: &[Change::absent(Origin::Valkey, "8.0.0", "The end may be left out.")],
        summary: "Counts the bits that are set in a string.",
        complexity: "O(N), N the number of bytes counted.",
        arguments: &[
            Arg::key("key", 0),
            Arg::block(
                "index",
                &[
                    Arg::integer("start"),
                    Arg::integer("end"),
                    Arg::one_of(
                        "index_unit",
                        &[Arg::word("byte", "BYTE"), Arg::word("bit", "BIT")],
                    )
                    .since("7.0.0")
                    .optional(),
                ],
            )
            .optional(),
        ],
        ..BASE
    },
    Spec {
        name: "bitfield",
        arity: -2,
        flags: flags![WRITE DENYOOM],
        acl: acl![BITMAP],
        keys: &[KeySpec::one(1, key_flags![RW ACCESS UPDATE VARIABLE_FLAGS])
            .noted("This command allows both access and modification of the key")],
        propagation: Propagation::Verbatim,
        since: "3.2.0",
        summary: "Reads, sets and increments integers of any width inside a string.",
        complexity: "O(1) for each operation.",
        arguments: &[
            Arg::key("key", 0),
            Arg::one_of(
                "operation",
                &[
                    Arg::block(
                        "encoding_offset",
                        &[Arg::string("encoding"), Arg::integer("offset")],
                    )
                    .token("GET"),
                    Arg::block(
                        "write",
                        &[
                            Arg::one_of(
                                "wrap_sat_fail",
                                &[
                                    Arg::word("wrap", "WRAP"),
                                    Arg::word("sat", "SAT"),
                                    Arg::word("fail", "FAIL"),
                                ],
                            )
                            .token("OVERFLOW")
                            .optional(),
                            Arg::one_of(
                                "write_operation",
                                &[
                                    Arg::block(
                                        "encoding_offset_value",
                                        &[
                                            Arg::string("encoding"),
                                            Arg::integer("offset"),
                                            Arg::integer("value"),
                                        ],
                                    )
                                    .token("SET"),
                                    Arg::block(
                                        "encoding_offset_increment",
                                        &[
                                            Arg::string("encoding"),
                                            Arg::integer("offset"),
                                            Arg::integer("increment"),
                                        ],
                                    )
                                    .token("INCRBY"),
                                ],
                            ),
                        ],
                    ),
                ],
            )
            .optional()
            .multiple(),
        ],
        ..BASE
    },
    Spec {
        name: "bitfield_ro",
        arity: -2,
        flags: flags![READONLY FAST],
        acl: acl![BITMAP],
        keys: &[KeySpec::one(1, key_flags![RO ACCESS])],
        since: "6.0.0",
        summary: "Reads integers of any width inside a string.",
        complexity: "O(1) for each operation.",
        arguments: &[
            Arg::key("key", 0),
            Arg::block("encoding_offset", &[Arg::string("encoding"), Arg::integer("offset")])
                .token("GET")
                .optional()
                .multiple_with_token(),
        ],
        ..BASE
    },
    Spec {
        name: "bitop",
        arity: -4,
        flags: flags![WRITE DENYOOM],
        acl: acl![BITMAP],
        keys: &[
            KeySpec::one(2, key_flags![OW UPDATE]),
            KeySpec::range(3, -1, 1, key_flags![RO ACCESS]),
        ],
        propagation: Propagation::Verbatim,
        since: "2.6.0",
        summary: "Combines strings bit by bit and stores the result.",
        complexity: "O(N), N the length of the longest string.",
        arguments: &[
            Arg::one_of(
                "operation",
                &[
                    Arg::word("and", "AND"),
                    Arg::word("or", "OR"),
                    Arg::word("xor", "XOR"),
                    Arg::word("not", "NOT"),
                    Arg::word("diff", "DIFF").since("8.2.0"),
                    Arg::word("diff1", "DIFF1").since("8.2.0"),
                    Arg::word("andor", "ANDOR").since("8.2.0"),
                    Arg::word("one", "ONE").since("8.2.0"),
                ],
            ),
            Arg::key("destkey", 0),
            Arg::key("key", 1).multiple(),
        ],
        ..BASE
    },
    Spec {
        name: "bitpos",
        arity: -3,
        flags: flags![READONLY],
        acl: acl![BITMAP],
        keys: &[KeySpec::one(1, key_flags![RO ACCESS])],
        since: "2.8.7",
        summary: "Finds the first bit that is set or clear in a string.",
        complexity: "O(N), N the number of bytes examined.",
        arguments: &[
            Arg::key("key", 0),
            Arg::integer("bit"),
            Arg::block(
                "index",
                &[
                    Arg::integer("start"),
                    Arg::block(
                        "end_index",
                        &[
                            Arg::integer("end"),
                            Arg::one_of(
                                "index_unit",
                                &[Arg::word("byte", "BYTE"), Arg::word("bit", "BIT")],
                            )
                            .since("7.0.0")
                            .optional(),
                        ],
                    )
                    .optional(),
                ],
            )
            .optional(),
        ],
        ..BASE
    },
    Spec {
        name: "getbit",
        arity: 3,
        flags: flags![READONLY FAST],
        acl: acl![BITMAP],
        keys: &[KeySpec::one(1, key_flags![RO ACCESS])],
        since: "2.2.0",
        summary: "Returns one bit of a string.",
        complexity: "O(1)",
        arguments: &[Arg::key("key", 0), Arg::integer("offset")],
        ..BASE
    },
    Spec {
        name: "setbit",
        arity: 4,
        flags: flags![WRITE DENYOOM],
        acl: acl![BITMAP],
        keys: &[KeySpec::one(1, key_flags![RW ACCESS UPDATE])],
        propagation: Propagation::Verbatim,
        since: "2.2.0",
        summary: "Sets or clears one bit of a string.",
        complexity: "O(1) unless the string has to grow.",
        arguments: &[Arg::key("key", 0), Arg::integer("offset"), Arg::integer("value")],
        ..BASE
    },
];
