//! Keys on their way to another server.

use super::BASE;
use crate::spec::{
    Arg, BeginSearch, FindKeys, Group, KeySpec, Propagation, Spec, acl, flags, key_flags, when,
};

/// The commands of the group, by name.
pub(in crate::table) static COMMANDS: &[Spec] = &[
    Spec {
        name: "migrate",
        arity: -6,
        flags: flags![WRITE MOVABLEKEYS],
        acl: acl![KEYSPACE DANGEROUS],
        tips: &["nondeterministic_output"],
        keys: &[
            KeySpec::one(3, key_flags![RW ACCESS DELETE]),
            KeySpec {
                begin: BeginSearch::Keyword { keyword: "KEYS", start_from: -2 },
                find: FindKeys::Range { last: -1, step: 1, limit: 0 },
                flags: key_flags![RW ACCESS DELETE INCOMPLETE],
                notes: "",
            },
        ],
        propagation: Propagation::Rewritten(&[when("without COPY", "DEL key ...")]),
        since: "2.6.0",
        summary: "Moves keys to another server.",
        complexity: "O(N), N the size of the values: DUMP and DEL here, RESTORE there.",
        arguments: &[
            Arg::string("host"),
            Arg::integer("port"),
            Arg::one_of("key-selector", &[Arg::key("key", 0), Arg::word("empty-string", "\"\"")]),
            Arg::integer("destination-db"),
            Arg::integer("timeout"),
            Arg::word("copy", "COPY").since("3.0.0").optional(),
            Arg::word("replace", "REPLACE").since("3.0.0").optional(),
            Arg::one_of(
                "authentication",
                &[
                    Arg::string("auth").token("AUTH").since("4.0.7"),
                    Arg::block("auth2", &[Arg::string("username"), Arg::string("password")])
                        .token("AUTH2")
                        .since("6.0.0"),
                ],
            )
            .optional(),
            Arg::key("keys", 1).token("KEYS").since("3.0.6").optional().multiple(),
        ],
        limit: "Not in a transaction: it is refused when it would be queued. Others are served meanwhile; writers wait while values are on their way.",
        ..BASE
    },
    Spec {
        name: "restore-asking",
        arity: -4,
        flags: flags![WRITE DENYOOM ASKING],
        acl: acl![KEYSPACE DANGEROUS],
        keys: &[KeySpec::one(1, key_flags![OW UPDATE])],
        propagation: Propagation::Rewritten(&[
            when("the time is past, with REPLACE", "DEL key"),
            when(
                "with a time to live",
                "RESTORE key unix-time-milliseconds serialized-value ABSTTL",
            ),
        ]),
        group: Group::Server,
        since: "3.0.0",
        summary: "RESTORE into a slot that is being imported.",
        complexity: "O(N*M), N the number of elements of the value and M their average size.",
        system: true,
        arguments: &[
            Arg::key("key", 0),
            Arg::integer("ttl"),
            Arg::string("serialized-value"),
            Arg::word("replace", "REPLACE").optional(),
            Arg::word("absttl", "ABSTTL").since("5.0.0").optional(),
            Arg::integer("seconds").token("IDLETIME").since("5.0.0").optional(),
            Arg::integer("frequency").token("FREQ").since("5.0.0").optional(),
        ],
        served: false,
        limit: "There is no cluster.",
        ..BASE
    },
];
