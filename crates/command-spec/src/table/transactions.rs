//! Transactions.

use crate::spec::{Arg, Group, KeySpec, Propagation, Spec, acl, flags, key_flags};

const BASE: Spec = Spec { group: Group::Transactions, ..Spec::BLANK };

/// The commands of the group, by name.
pub(super) static COMMANDS: &[Spec] = &[
    Spec {
        name: "discard",
        arity: 1,
        flags: flags![NOSCRIPT LOADING STALE FAST ALLOW_BUSY],
        acl: acl![TRANSACTION],
        since: "2.0.0",
        summary: "Forgets a transaction.",
        complexity: "O(N), N the number of queued commands.",
        ..BASE
    },
    Spec {
        name: "exec",
        arity: 1,
        flags: flags![NOSCRIPT LOADING STALE SKIP_SLOWLOG],
        acl: acl![TRANSACTION],
        propagation: Propagation::Effects,
        since: "1.2.0",
        summary: "Executes a transaction.",
        complexity: "Depends on the queued commands.",
        ..BASE
    },
    Spec {
        name: "multi",
        arity: 1,
        flags: flags![NOSCRIPT LOADING STALE FAST ALLOW_BUSY],
        acl: acl![TRANSACTION],
        since: "1.2.0",
        summary: "Starts a transaction: commands are queued until EXEC.",
        complexity: "O(1)",
        ..BASE
    },
    Spec {
        name: "unwatch",
        arity: 1,
        flags: flags![NOSCRIPT LOADING STALE FAST ALLOW_BUSY],
        acl: acl![TRANSACTION],
        since: "2.2.0",
        summary: "Forgets the watched keys.",
        complexity: "O(1)",
        ..BASE
    },
    Spec {
        name: "watch",
        arity: -2,
        flags: flags![NOSCRIPT LOADING STALE FAST ALLOW_BUSY],
        acl: acl![TRANSACTION],
        keys: &[KeySpec::range(1, -1, 1, key_flags![RO])],
        since: "2.2.0",
        summary: "Watches keys: EXEC does nothing if one of them changes before it.",
        complexity: "O(1) for each key.",
        arguments: &[Arg::key("key", 0).multiple()],
        ..BASE
    },
];
