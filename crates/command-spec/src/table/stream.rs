//! Streams.

mod groups;

use crate::spec::{
    Arg, BeginSearch, Change, FindKeys, Group, KeySpec, Origin, Propagation, Spec, acl, flags,
    key_flags, when,
};
use groups::{XGROUP, XINFO};

const BASE: Spec = Spec { group: Group::Stream, ..Spec::BLANK };

/// The commands of the group, by name.
pub(super) static COMMANDS: &[Spec] = &[
    Spec {
        name: "xack",
        arity: -4,
        flags: flags![WRITE FAST],
        acl: acl![STREAM],
        keys: &[KeySpec::one(1, key_flags![RW UPDATE])],
        propagation: Propagation::Verbatim,
        since: "5.0.0",
        summary: "Acknowledges entries that a consumer of a group has received.",
        complexity: "O(1) for each entry.",
        arguments: &[Arg::key("key", 0), Arg::string("group"), Arg::string("ID").multiple()],
        ..BASE
    },
    Spec {
        name: "xackdel",
        arity: -6,
        flags: flags![WRITE FAST],
        acl: acl![STREAM],
        keys: &[KeySpec::one(1, key_flags![RW UPDATE DELETE])],
        propagation: Propagation::Verbatim,
        since: "8.2.0",
        origin: Origin::Redis,
        summary: "Acknowledges entries and deletes them.",
        complexity: "O(G) for each entry, G the number of groups.",
        arguments: &[
            Arg::key("key", 0),
            Arg::string("group"),
            Arg::one_of(
                "condition",
                &[
                    Arg::word("keepref", "KEEPREF"),
                    Arg::word("delref", "DELREF"),
                    Arg::word("acked", "ACKED"),
                ],
            )
            .optional(),
            Arg::block("ids", &[Arg::integer("numids"), Arg::string("id").multiple()]).token("IDS"),
        ],
        ..BASE
    },
    Spec {
        name: "xadd",
        arity: -5,
        flags: flags![WRITE DENYOOM FAST],
        acl: acl![STREAM],
        tips: &["nondeterministic_output"],
        keys: &[KeySpec::one(1, key_flags![RW UPDATE])
            .noted("UPDATE instead of INSERT because of the optional trimming feature")],
        propagation: Propagation::Rewritten(&[when(
            "without a whole id, or trims about",
            "XADD key MAXLEN = threshold id field value ...",
        )]),
        since: "5.0.0",
        history: &[
            Change::new("7.0.0", "An id whose second part is `*`."),
            Change::absent(
                Origin::Redis,
                "8.6.0",
                "The names of `IDMP` in dumps, payloads and exports.",
            ),
        ],
        summary: "Adds an entry to a stream, creating it when the key is new.",
        complexity: "O(1), and O(N) to trim, N the number of entries that go; O(N * G) with DELREF or ACKED, G the number of \
                     groups, and N with ACKED also that of the entries before them that stay.",
        arguments: &[
            Arg::key("key", 0),
            Arg::word("nomkstream", "NOMKSTREAM").since("6.2.0").optional(),
            Arg::one_of(
                "condition",
                &[
                    Arg::word("keepref", "KEEPREF"),
                    Arg::word("delref", "DELREF"),
                    Arg::word("acked", "ACKED"),
                ],
            )
            .since("8.2.0")
            .optional(),
            Arg::one_of(
                "idmp",
                &[
                    Arg::block(
                        "idmpauto-with-pid",
                        &[Arg::word("idmpauto-token", "IDMPAUTO"), Arg::string("pid")],
                    ),
                    Arg::block(
                        "idmp-with-pid-iid",
                        &[Arg::word("idmp-token", "IDMP"), Arg::string("pid"), Arg::string("iid")],
                    ),
                ],
            )
            .since("8.6.0")
            .optional(),
            Arg::block(
                "trim",
                &[
                    Arg::one_of(
                        "strategy",
                        &[
                            Arg::word("maxlen", "MAXLEN"),
                            Arg::word("minid", "MINID").since("6.2.0"),
                        ],
                    ),
                    Arg::one_of(
                        "operator",
                        &[Arg::word("equal", "="), Arg::word("approximately", "~")],
                    )
                    .optional(),
                    Arg::string("threshold"),
                    Arg::integer("count").token("LIMIT").since("6.2.0").optional(),
                ],
            )
            .optional(),
            Arg::one_of("id-selector", &[Arg::word("auto-id", "*"), Arg::string("id")]),
            Arg::block("data", &[Arg::string("field"), Arg::string("value")]).multiple(),
        ],
        ..BASE
    },
    Spec {
        name: "xautoclaim",
        arity: -6,
        flags: flags![WRITE FAST],
        acl: acl![STREAM],
        tips: &["nondeterministic_output"],
        keys: &[KeySpec::one(1, key_flags![RW DELETE])],
        propagation: Propagation::Rewritten(&[
            when(
                "an entry is claimed",
                "XCLAIM key group consumer 0 id TIME unix-time-milliseconds RETRYCOUNT count FORCE JUSTID LASTID lastid",
            ),
            when("the consumer is new", "XGROUP CREATECONSUMER key group consumer"),
        ]),
        since: "6.2.0",
        history: &[Change::new("7.0.0", "The ids of entries that were deleted.")],
        summary: "Gives a consumer the entries that others have held for too long.",
        complexity: "O(1)",
        arguments: &[
            Arg::key("key", 0),
            Arg::string("group"),
            Arg::string("consumer"),
            Arg::string("min-idle-time"),
            Arg::string("start"),
            Arg::integer("count").token("COUNT").optional(),
            Arg::word("justid", "JUSTID").optional(),
        ],
        ..BASE
    },
    Spec {
        name: "xcfgset",
        arity: -2,
        flags: flags![WRITE FAST],
        acl: acl![STREAM],
        keys: &[KeySpec::one(1, key_flags![RW UPDATE])],
        propagation: Propagation::Verbatim,
        since: "8.6.0",
        history: &[Change::absent(
            Origin::Redis,
            "8.6.0",
            "What it sets, in dumps, payloads and exports.",
        )],
        origin: Origin::Redis,
        summary: "Sets how a stream recognizes entries that are added again.",
        complexity: "O(1) when nothing changes, otherwise O(N), N the number of names that are forgotten.",
        arguments: &[
            Arg::key("key", 0),
            Arg::block(
                "idmp-duration-block",
                &[Arg::word("idmp-duration-token", "IDMP-DURATION"), Arg::integer("duration")],
            )
            .optional(),
            Arg::block(
                "idmp-maxsize-block",
                &[Arg::word("idmp-maxsize-token", "IDMP-MAXSIZE"), Arg::integer("maxsize")],
            )
            .optional(),
        ],
        ..BASE
    },
    Spec {
        name: "xclaim",
        arity: -6,
        flags: flags![WRITE FAST],
        acl: acl![STREAM],
        tips: &["nondeterministic_output"],
        keys: &[KeySpec::one(1, key_flags![RW UPDATE])],
        propagation: Propagation::Rewritten(&[
            when(
                "an entry is claimed",
                "XCLAIM key group consumer 0 id TIME unix-time-milliseconds RETRYCOUNT count FORCE JUSTID LASTID lastid",
            ),
            when("only LASTID moves", "XGROUP SETID key group id ENTRIESREAD entries-read"),
        ]),
        since: "5.0.0",
        summary: "Gives a consumer entries that others hold.",
        complexity: "O(log(N)), N the number of entries that the group holds.",
        arguments: &[
            Arg::key("key", 0),
            Arg::string("group"),
            Arg::string("consumer"),
            Arg::string("min-idle-time"),
            Arg::string("ID").multiple(),
            Arg::integer("ms").token("IDLE").optional(),
            Arg::unix_time("unix-time-milliseconds").token("TIME").optional(),
            Arg::integer("count").token("RETRYCOUNT").optional(),
            Arg::word("force", "FORCE").optional(),
            Arg::word("justid", "JUSTID").optional(),
            Arg::string("lastid").token("LASTID").optional(),
        ],
        ..BASE
    },
    Spec {
        name: "xdel",
        arity: -3,
        flags: flags![WRITE FAST],
        acl: acl![STREAM],
        keys: &[KeySpec::one(1, key_flags![RW DELETE])],
        propagation: Propagation::Verbatim,
        since: "5.0.0",
        summary: "Deletes entries of a stream.",
        complexity: "O(1) for each entry.",
        arguments: &[Arg::key("key", 0), Arg::string("ID").multiple()],
        ..BASE
    },
    Spec {
        name: "xdelex",
        arity: -5,
        flags: flags![WRITE FAST],
        acl: acl![STREAM],
        keys: &[KeySpec::one(1, key_flags![RW DELETE])],
        propagation: Propagation::Verbatim,
        since: "8.2.0",
        origin: Origin::Redis,
        summary: "Deletes entries of a stream, and what groups know of them if wanted.",
        complexity: "O(G) for each entry, G the number of groups.",
        arguments: &[
            Arg::key("key", 0),
            Arg::one_of(
                "condition",
                &[
                    Arg::word("keepref", "KEEPREF"),
                    Arg::word("delref", "DELREF"),
                    Arg::word("acked", "ACKED"),
                ],
            )
            .optional(),
            Arg::block("ids", &[Arg::integer("numids"), Arg::string("id").multiple()]).token("IDS"),
        ],
        ..BASE
    },
    Spec {
        name: "xgroup",
        arity: -2,
        since: "5.0.0",
        summary: "Consumer groups of streams.",
        complexity: "Depends on the subcommand.",
        subcommands: XGROUP,
        ..BASE
    },
    Spec {
        name: "xidmprecord",
        arity: 5,
        flags: flags![WRITE DENYOOM FAST],
        acl: acl![STREAM],
        keys: &[KeySpec::one(1, key_flags![RW UPDATE])],
        propagation: Propagation::Verbatim,
        since: "8.6.2",
        origin: Origin::Redis,
        summary: "Notes for a replica that an entry was added under a producer's number.",
        complexity: "O(1)",
        arguments: &[
            Arg::key("key", 0),
            Arg::string("pid"),
            Arg::string("iid"),
            Arg::string("stream-id"),
        ],
        served: false,
        limit: "Redis writes it to its AOF, and the log here has the names in records.",
        ..BASE
    },
    Spec {
        name: "xinfo",
        arity: -2,
        since: "5.0.0",
        summary: "What the server knows about a stream besides its entries.",
        complexity: "Depends on the subcommand.",
        subcommands: XINFO,
        ..BASE
    },
    Spec {
        name: "xlen",
        arity: 2,
        flags: flags![READONLY FAST],
        acl: acl![STREAM],
        keys: &[KeySpec::one(1, key_flags![RO])],
        since: "5.0.0",
        summary: "Counts the entries of a stream.",
        complexity: "O(1)",
        arguments: &[Arg::key("key", 0)],
        ..BASE
    },
    Spec {
        name: "xnack",
        arity: -7,
        flags: flags![WRITE FAST],
        acl: acl![STREAM],
        keys: &[KeySpec::one(1, key_flags![RW UPDATE])],
        propagation: Propagation::Verbatim,
        since: "8.8.0",
        origin: Origin::Redis,
        summary: "Gives entries back that a consumer of a group has not processed.",
        complexity: "O(1) for each entry.",
        arguments: &[
            Arg::key("key", 0),
            Arg::string("group"),
            Arg::one_of(
                "mode",
                &[
                    Arg::word("silent", "SILENT"),
                    Arg::word("fail", "FAIL"),
                    Arg::word("fatal", "FATAL"),
                ],
            ),
            Arg::block("ids", &[Arg::integer("numids"), Arg::string("id").multiple()]).token("IDS"),
            Arg::integer("count").token("RETRYCOUNT").optional(),
            Arg::word("force", "FORCE").optional(),
        ],
        ..BASE
    },
    Spec {
        name: "xpending",
        arity: -3,
        flags: flags![READONLY],
        acl: acl![STREAM],
        tips: &["nondeterministic_output"],
        keys: &[KeySpec::one(1, key_flags![RO ACCESS])],
        since: "5.0.0",
        summary: "Returns what a group's consumers have received and not acknowledged.",
        complexity: "O(N), N the number of entries returned; O(M) without a range, M the number of consumers.",
        arguments: &[
            Arg::key("key", 0),
            Arg::string("group"),
            Arg::block(
                "filters",
                &[
                    Arg::integer("min-idle-time").token("IDLE").since("6.2.0").optional(),
                    Arg::string("start"),
                    Arg::string("end"),
                    Arg::integer("count"),
                    Arg::string("consumer").optional(),
                ],
            )
            .optional(),
        ],
        ..BASE
    },
    Spec {
        name: "xrange",
        arity: -4,
        flags: flags![READONLY],
        acl: acl![STREAM],
        keys: &[KeySpec::one(1, key_flags![RO ACCESS])],
        since: "5.0.0",
        history: &[Change::new("6.2.0", "Ends that are not part of the range.")],
        summary: "Returns the entries of a stream between two ids.",
        complexity: "O(N), N the number of entries returned.",
        arguments: &[
            Arg::key("key", 0),
            Arg::string("start"),
            Arg::string("end"),
            Arg::integer("count").token("COUNT").optional(),
        ],
        ..BASE
    },
    Spec {
        name: "xread",
        arity: -4,
        flags: flags![READONLY BLOCKING MOVABLEKEYS],
        acl: acl![STREAM],
        keys: &[KeySpec {
            begin: BeginSearch::Keyword { keyword: "STREAMS", start_from: 1 },
            find: FindKeys::Range { last: -1, step: 1, limit: 2 },
            flags: key_flags![RO ACCESS],
            notes: "",
        }],
        since: "5.0.0",
        summary: "Returns entries of streams after those that are known, waiting for them if wanted.",
        complexity: "O(N), N the number of entries returned.",
        arguments: &[
            Arg::integer("count").token("COUNT").optional(),
            Arg::integer("maxcount").token("MAXCOUNT").since("8.10.0").optional(),
            Arg::integer("maxsize").token("MAXSIZE").since("8.10.0").optional(),
            Arg::integer("milliseconds").token("BLOCK").optional(),
            Arg::block("streams", &[Arg::key("key", 0).multiple(), Arg::string("ID").multiple()])
                .token("STREAMS"),
        ],
        ..BASE
    },
    Spec {
        name: "xreadgroup",
        arity: -7,
        flags: flags![WRITE BLOCKING MOVABLEKEYS],
        acl: acl![STREAM],
        keys: &[KeySpec {
            begin: BeginSearch::Keyword { keyword: "STREAMS", start_from: 4 },
            find: FindKeys::Range { last: -1, step: 1, limit: 2 },
            flags: key_flags![RO ACCESS],
            notes: "",
        }],
        propagation: Propagation::Rewritten(&[
            when(
                "an entry is delivered, without NOACK",
                "XCLAIM key group consumer 0 id TIME unix-time-milliseconds RETRYCOUNT count FORCE JUSTID LASTID lastid",
            ),
            when("with NOACK", "XGROUP SETID key group id ENTRIESREAD entries-read"),
            when("the consumer is new", "XGROUP CREATECONSUMER key group consumer"),
        ]),
        since: "5.0.0",
        summary: "Returns entries of streams to a consumer of a group, waiting for them if wanted.",
        complexity: "O(N), N the number of entries returned; with CLAIM O(M * log(M)) the first time that a group is claimed from \
                     since its stream came into memory, M the number of entries that it holds.",
        arguments: &[
            Arg::block("group-block", &[Arg::string("group"), Arg::string("consumer")])
                .token("GROUP"),
            Arg::integer("count").token("COUNT").optional(),
            Arg::integer("maxcount").token("MAXCOUNT").since("8.10.0").optional(),
            Arg::integer("maxsize").token("MAXSIZE").since("8.10.0").optional(),
            Arg::integer("milliseconds").token("BLOCK").optional(),
            Arg::integer("min-idle-time").token("CLAIM").since("8.4.0").optional(),
            Arg::word("noack", "NOACK").optional(),
            Arg::block("streams", &[Arg::key("key", 0).multiple(), Arg::string("ID").multiple()])
                .token("STREAMS"),
        ],
        ..BASE
    },
    Spec {
        name: "xrevrange",
        arity: -4,
        flags: flags![READONLY],
        acl: acl![STREAM],
        keys: &[KeySpec::one(1, key_flags![RO ACCESS])],
        since: "5.0.0",
        history: &[Change::new("6.2.0", "Ends that are not part of the range.")],
        summary: "Returns the entries of a stream between two ids, the latest first.",
        complexity: "O(N), N the number of entries returned.",
        arguments: &[
            Arg::key("key", 0),
            Arg::string("end"),
            Arg::string("start"),
            Arg::integer("count").token("COUNT").optional(),
        ],
        ..BASE
    },
    Spec {
        name: "xsetid",
        arity: -3,
        flags: flags![WRITE DENYOOM FAST],
        acl: acl![STREAM],
        keys: &[KeySpec::one(1, key_flags![RW UPDATE])],
        propagation: Propagation::Verbatim,
        since: "5.0.0",
        summary: "Sets which id a stream gave last.",
        complexity: "O(1)",
        arguments: &[
            Arg::key("key", 0),
            Arg::string("last-id"),
            Arg::integer("entries-added").token("ENTRIESADDED").since("7.0.0").optional(),
            Arg::string("max-deleted-id").token("MAXDELETEDID").since("7.0.0").optional(),
        ],
        ..BASE
    },
    Spec {
        name: "xtrim",
        arity: -4,
        flags: flags![WRITE],
        acl: acl![STREAM],
        tips: &["nondeterministic_output"],
        keys: &[KeySpec::one(1, key_flags![RW DELETE])],
        propagation: Propagation::Rewritten(&[when("trims about", "XTRIM key MAXLEN = threshold")]),
        since: "5.0.0",
        summary: "Removes the oldest entries of a stream.",
        complexity: "O(N), N the number of entries removed; O(N * G) with DELREF or ACKED, G the number of groups, and N \
                     with ACKED also that of the entries before them that stay.",
        arguments: &[
            Arg::key("key", 0),
            Arg::block(
                "trim",
                &[
                    Arg::one_of(
                        "strategy",
                        &[
                            Arg::word("maxlen", "MAXLEN"),
                            Arg::word("minid", "MINID").since("6.2.0"),
                        ],
                    ),
                    Arg::one_of(
                        "operator",
                        &[Arg::word("equal", "="), Arg::word("approximately", "~")],
                    )
                    .optional(),
                    Arg::string("threshold"),
                    Arg::integer("count").token("LIMIT").since("6.2.0").optional(),
                    Arg::one_of(
                        "condition",
                        &[
                            Arg::word("keepref", "KEEPREF"),
                            Arg::word("delref", "DELREF"),
                            Arg::word("acked", "ACKED"),
                        ],
                    )
                    .since("8.2.0")
                    .optional(),
                ],
            ),
        ],
        ..BASE
    },
];
