//! Publish/subscribe.

use crate::spec::{Arg, Group, KeySpec, Propagation, Spec, flags, key_flags};

const BASE: Spec = Spec { group: Group::PubSub, ..Spec::BLANK };

/// The commands of the group, by name.
pub(super) static COMMANDS: &[Spec] = &[
    Spec {
        name: "psubscribe",
        arity: -2,
        flags: flags![PUBSUB NOSCRIPT LOADING STALE],
        since: "2.0.0",
        summary: "Listens to the channels that match patterns.",
        complexity: "O(N), N the number of patterns the connection has subscribed to.",
        arguments: &[Arg::block("pattern", &[Arg::pattern("pattern")]).multiple()],
        ..BASE
    },
    Spec {
        name: "publish",
        arity: 3,
        flags: flags![PUBSUB LOADING STALE FAST MAY_REPLICATE],
        propagation: Propagation::Always,
        since: "2.0.0",
        summary: "Sends a message to a channel.",
        complexity: "O(N+M), N the number of subscribers of the channel and M the number of patterns of all connections.",
        arguments: &[Arg::string("channel"), Arg::string("message")],
        ..BASE
    },
    Spec {
        name: "pubsub",
        arity: -2,
        since: "2.8.0",
        summary: "What is subscribed to.",
        complexity: "Depends on the subcommand.",
        subcommands: PUBSUB,
        ..BASE
    },
    Spec {
        name: "punsubscribe",
        arity: -1,
        flags: flags![PUBSUB NOSCRIPT LOADING STALE],
        since: "2.0.0",
        summary: "Stops listening to the channels that match patterns.",
        complexity: "O(N+M), N the number of patterns of the connection and M the number of patterns of all connections.",
        arguments: &[Arg::pattern("pattern").optional().multiple()],
        ..BASE
    },
    Spec {
        name: "spublish",
        arity: 3,
        flags: flags![PUBSUB LOADING STALE FAST MAY_REPLICATE],
        keys: &[KeySpec::one(1, key_flags![NOT_KEY])],
        propagation: Propagation::Always,
        since: "7.0.0",
        summary: "Sends a message to a shard channel.",
        complexity: "O(N), N the number of subscribers of the channel.",
        arguments: &[Arg::string("shardchannel"), Arg::string("message")],
        ..BASE
    },
    Spec {
        name: "ssubscribe",
        arity: -2,
        flags: flags![PUBSUB NOSCRIPT LOADING STALE],
        keys: &[KeySpec::range(1, -1, 1, key_flags![NOT_KEY])],
        since: "7.0.0",
        summary: "Listens to shard channels.",
        complexity: "O(N), N the number of channels given.",
        arguments: &[Arg::string("shardchannel").multiple()],
        ..BASE
    },
    Spec {
        name: "subscribe",
        arity: -2,
        flags: flags![PUBSUB NOSCRIPT LOADING STALE],
        since: "2.0.0",
        summary: "Listens to channels.",
        complexity: "O(N), N the number of channels given.",
        arguments: &[Arg::string("channel").multiple()],
        ..BASE
    },
    Spec {
        name: "sunsubscribe",
        arity: -1,
        flags: flags![PUBSUB NOSCRIPT LOADING STALE],
        keys: &[KeySpec::range(1, -1, 1, key_flags![NOT_KEY])],
        since: "7.0.0",
        summary: "Stops listening to shard channels.",
        complexity: "O(N), N the number of channels given.",
        arguments: &[Arg::string("shardchannel").optional().multiple()],
        ..BASE
    },
    Spec {
        name: "unsubscribe",
        arity: -1,
        flags: flags![PUBSUB NOSCRIPT LOADING STALE],
        since: "2.0.0",
        summary: "Stops listening to channels.",
        complexity: "O(N), N the number of subscribers of the channels.",
        arguments: &[Arg::string("channel").optional().multiple()],
        ..BASE
    },
];

const PUBSUB: &[Spec] = &[
    Spec {
        name: "pubsub|channels",
        arity: -2,
        flags: flags![PUBSUB LOADING STALE],
        since: "2.8.0",
        summary: "Returns the channels that have subscribers.",
        complexity: "O(N), N the number of channels.",
        arguments: &[Arg::pattern("pattern").optional()],
        ..BASE
    },
    Spec {
        name: "pubsub|help",
        arity: 2,
        flags: flags![LOADING STALE],
        since: "6.2.0",
        summary: "Explains the subcommands.",
        complexity: "O(1)",
        ..BASE
    },
    Spec {
        name: "pubsub|numpat",
        arity: 2,
        flags: flags![PUBSUB LOADING STALE],
        since: "2.8.0",
        summary: "Counts the patterns that are subscribed to.",
        complexity: "O(1)",
        ..BASE
    },
    Spec {
        name: "pubsub|numsub",
        arity: -2,
        flags: flags![PUBSUB LOADING STALE],
        since: "2.8.0",
        summary: "Counts the subscribers of channels.",
        complexity: "O(N), N the number of channels given.",
        arguments: &[Arg::string("channel").optional().multiple()],
        ..BASE
    },
    Spec {
        name: "pubsub|shardchannels",
        arity: -2,
        flags: flags![PUBSUB LOADING STALE],
        since: "7.0.0",
        summary: "Returns the shard channels that have subscribers.",
        complexity: "O(N), N the number of shard channels.",
        arguments: &[Arg::pattern("pattern").optional()],
        ..BASE
    },
    Spec {
        name: "pubsub|shardnumsub",
        arity: -2,
        flags: flags![PUBSUB LOADING STALE],
        since: "7.0.0",
        summary: "Counts the subscribers of shard channels.",
        complexity: "O(N), N the number of channels given.",
        arguments: &[Arg::string("shardchannel").optional().multiple()],
        ..BASE
    },
];
