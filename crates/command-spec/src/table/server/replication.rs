//! The server and its replicas.

use super::BASE;
use crate::spec::{Arg, Spec, flags};

/// The commands of the group, by name.
pub(in crate::table) static COMMANDS: &[Spec] = &[
    Spec {
        name: "failover",
        arity: -1,
        flags: flags![ADMIN NOSCRIPT STALE],
        since: "6.2.0",
        summary: "Makes a replica the master, once it has all that this one has written.",
        complexity: "O(1)",
        arguments: &[
            Arg::block(
                "target",
                &[
                    Arg::string("host"),
                    Arg::integer("port"),
                    Arg::word("force", "FORCE").optional(),
                ],
            )
            .token("TO")
            .optional(),
            Arg::word("abort", "ABORT").optional(),
            Arg::integer("milliseconds").token("TIMEOUT").optional(),
        ],
        served: false,
        limit: "There is no replication.",
        ..BASE
    },
    Spec {
        name: "psync",
        arity: -3,
        flags: flags![ADMIN NOSCRIPT NO_ASYNC_LOADING NO_MULTI],
        reads_all: true,
        since: "2.8.0",
        summary: "Begins to send this server's writes to a replica.",
        complexity: "O(1), and what the replica lacks is sent.",
        arguments: &[Arg::string("replicationid"), Arg::integer("offset")],
        served: false,
        limit: "There is no replication.",
        ..BASE
    },
    Spec {
        name: "replconf",
        arity: -1,
        flags: flags![ADMIN NOSCRIPT LOADING STALE ALLOW_BUSY],
        since: "3.0.0",
        summary: "Tells a master about the replica at the other end.",
        complexity: "O(1)",
        system: true,
        limit: "What `redis-cli --rdb` says; there is no replication.",
        ..BASE
    },
    Spec {
        name: "sync",
        arity: 1,
        flags: flags![ADMIN NOSCRIPT NO_ASYNC_LOADING NO_MULTI],
        reads_all: true,
        since: "1.0.0",
        summary: "Begins to send this server's data to a replica.",
        complexity: "O(1), and all data is sent.",
        limit: "After `REPLCONF rdb-only 1` only: there is no replication.",
        ..BASE
    },
];
