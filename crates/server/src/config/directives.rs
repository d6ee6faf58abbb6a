//! Every directive of redis.conf 7.0, and Indelible's own, as a table.
//!
//! What has no meaning here (replication, cluster, RDB files, TLS, modules) is accepted, stored and
//! replied all the same, so that an existing redis.conf and existing tools work. Two defaults
//! differ from Redis: `appendonly yes` and `appendfsync always`.

use std::ops::RangeInclusive;

use super::directive::{DefaultValue, Directive, Kind, Unit, WordsSet};
use super::words;

const INT_MIN: i128 = i32::MIN as i128;
const INT_MAX: i128 = i32::MAX as i128;
const UINT_MAX: i128 = u32::MAX as i128;
const LONG_MAX: i128 = i64::MAX as i128;
const ULONG_MAX: i128 = u64::MAX as i128;
const MB: i128 = 1 << 20;

const fn yes_no(name: &'static str, default: bool) -> Directive {
    Directive::new(name, Kind::YesNo, DefaultValue::Text(if default { "yes" } else { "no" }))
}

const fn integer(name: &'static str, bounds: RangeInclusive<i128>, default: i128) -> Directive {
    Directive::new(name, Kind::Number(Unit::Integer, bounds), DefaultValue::Number(default))
}

const fn memory(name: &'static str, bounds: RangeInclusive<i128>, default: i128) -> Directive {
    Directive::new(name, Kind::Number(Unit::Memory, bounds), DefaultValue::Number(default))
}

const fn memory_or_percent(
    name: &'static str,
    bounds: RangeInclusive<i128>,
    default: i128,
) -> Directive {
    Directive::new(name, Kind::Number(Unit::MemoryOrPercent, bounds), DefaultValue::Number(default))
}

const fn octal(name: &'static str, bounds: RangeInclusive<i128>, default: i128) -> Directive {
    Directive::new(name, Kind::Number(Unit::Octal, bounds), DefaultValue::Number(default))
}

const fn choice(
    name: &'static str,
    known: &'static [&'static str],
    default: &'static str,
) -> Directive {
    Directive::new(name, Kind::Choice(known), DefaultValue::Text(default))
}

const fn choices(
    name: &'static str,
    known: &'static [&'static str],
    default: &'static str,
) -> Directive {
    Directive::new(name, Kind::Choices(known), DefaultValue::Text(default))
}

const fn text(name: &'static str, default: &'static str) -> Directive {
    Directive::new(name, Kind::Text, DefaultValue::Text(default))
}

const fn file_name(name: &'static str, default: &'static str) -> Directive {
    Directive::new(name, Kind::FileName, DefaultValue::Text(default))
}

const fn several(
    name: &'static str,
    check: fn(&WordsSet<'_>) -> Result<String, String>,
    default: &'static str,
) -> Directive {
    Directive::new(name, Kind::Words(check), DefaultValue::Text(default))
}

/// The table. CONFIG GET replies in this order.
pub(super) static DIRECTIVES: &[Directive] = &[
    // Yes or no.
    yes_no("rdbchecksum", true).immutable(),
    yes_no("daemonize", false).immutable(),
    yes_no("io-threads-do-reads", false).immutable(),
    yes_no("always-show-logo", false).immutable(),
    yes_no("protected-mode", true),
    yes_no("rdbcompression", true),
    yes_no("rdb-del-sync-files", false),
    yes_no("activerehashing", true),
    yes_no("stop-writes-on-bgsave-error", true),
    yes_no("set-proc-title", true).immutable(),
    yes_no("dynamic-hz", true),
    yes_no("lazyfree-lazy-eviction", false),
    yes_no("lazyfree-lazy-expire", false),
    yes_no("lazyfree-lazy-server-del", false),
    yes_no("lazyfree-lazy-user-del", false),
    yes_no("lazyfree-lazy-user-flush", false),
    yes_no("repl-disable-tcp-nodelay", false),
    yes_no("repl-diskless-sync", true),
    yes_no("aof-rewrite-incremental-fsync", true),
    yes_no("no-appendfsync-on-rewrite", false),
    yes_no("cluster-require-full-coverage", true),
    yes_no("rdb-save-incremental-fsync", true),
    yes_no("aof-load-truncated", true),
    yes_no("aof-use-rdb-preamble", true),
    yes_no("aof-timestamp-enabled", false),
    yes_no("cluster-replica-no-failover", false).alias("cluster-slave-no-failover"),
    yes_no("replica-lazy-flush", false).alias("slave-lazy-flush"),
    yes_no("replica-serve-stale-data", true).alias("slave-serve-stale-data"),
    yes_no("replica-read-only", true).alias("slave-read-only"),
    yes_no("replica-ignore-maxmemory", true).alias("slave-ignore-maxmemory"),
    yes_no("jemalloc-bg-thread", true),
    yes_no("activedefrag", false),
    yes_no("syslog-enabled", false).immutable(),
    yes_no("cluster-enabled", false).immutable(),
    yes_no("appendonly", true),
    yes_no("ignore-redis-files", false).immutable(),
    yes_no("cluster-allow-reads-when-down", false),
    yes_no("cluster-allow-pubsubshard-when-down", true),
    yes_no("crash-log-enabled", true),
    yes_no("crash-memcheck-enabled", true),
    yes_no("use-exit-on-panic", false).hidden(),
    yes_no("disable-thp", true).immutable(),
    yes_no("cluster-allow-replica-migration", true),
    yes_no("replica-announced", true),
    yes_no("latency-tracking", true),
    yes_no("aof-disable-auto-gc", false),
    yes_no("replica-ignore-disk-write-errors", false),
    yes_no("tls-cluster", false),
    yes_no("tls-replication", false),
    yes_no("tls-prefer-server-ciphers", false),
    yes_no("tls-session-caching", true),
    // One of a few words.
    choice("supervised", &["upstart", "systemd", "auto", "no"], "no").immutable(),
    choice(
        "syslog-facility",
        &["user", "local0", "local1", "local2", "local3", "local4", "local5", "local6", "local7"],
        "local0",
    )
    .immutable(),
    choice("repl-diskless-load", &["disabled", "on-empty-db", "swapdb"], "disabled"),
    choice("loglevel", &["debug", "verbose", "notice", "warning"], "notice"),
    choice(
        "maxmemory-policy",
        &[
            "volatile-lru",
            "volatile-lfu",
            "volatile-random",
            "volatile-ttl",
            "allkeys-lru",
            "allkeys-lfu",
            "allkeys-random",
            "noeviction",
        ],
        "noeviction",
    ),
    choice("appendfsync", &["everysec", "always", "no"], "always"),
    choice("oom-score-adj", &["no", "yes", "relative", "absolute"], "no"),
    choice("acl-pubsub-default", &["allchannels", "resetchannels"], "resetchannels"),
    choice("sanitize-dump-payload", &["no", "yes", "clients"], "no"),
    choice("enable-protected-configs", &["no", "yes", "local"], "no").immutable(),
    choice("enable-debug-command", &["no", "yes", "local"], "no").immutable(),
    choice("enable-module-command", &["no", "yes", "local"], "no").immutable(),
    choice("cluster-preferred-endpoint-type", &["ip", "hostname", "unknown-endpoint"], "ip"),
    choice("propagation-error-behavior", &["ignore", "panic", "panic-on-replicas"], "ignore"),
    choices("shutdown-on-sigint", &["default", "save", "nosave", "now", "force"], "default"),
    choices("shutdown-on-sigterm", &["default", "save", "nosave", "now", "force"], "default"),
    choice("tls-auth-clients", &["no", "yes", "optional"], "yes"),
    // Numbers.
    integer("databases", 1..=INT_MAX, 16).immutable(),
    integer("port", 0..=65535, 6379),
    integer("io-threads", 1..=128, 1).immutable(),
    integer("auto-aof-rewrite-percentage", 0..=INT_MAX, 100),
    integer("cluster-replica-validity-factor", 0..=INT_MAX, 10)
        .alias("cluster-slave-validity-factor"),
    integer("list-max-listpack-size", INT_MIN..=INT_MAX, -2).alias("list-max-ziplist-size"),
    integer("tcp-keepalive", 0..=INT_MAX, 300),
    integer("cluster-migration-barrier", 0..=INT_MAX, 1),
    integer("active-defrag-cycle-min", 1..=99, 1),
    integer("active-defrag-cycle-max", 1..=99, 25),
    integer("active-defrag-threshold-lower", 0..=1000, 10),
    integer("active-defrag-threshold-upper", 0..=1000, 100),
    integer("lfu-log-factor", 0..=INT_MAX, 10),
    integer("lfu-decay-time", 0..=INT_MAX, 1),
    integer("replica-priority", 0..=INT_MAX, 100).alias("slave-priority"),
    integer("repl-diskless-sync-delay", 0..=INT_MAX, 5),
    integer("maxmemory-samples", 1..=INT_MAX, 5),
    integer("maxmemory-eviction-tenacity", 0..=100, 10),
    integer("timeout", 0..=INT_MAX, 0),
    integer("replica-announce-port", 0..=65535, 0).alias("slave-announce-port"),
    integer("tcp-backlog", 0..=INT_MAX, 511).immutable(),
    integer("cluster-port", 0..=65535, 0).immutable(),
    integer("cluster-announce-bus-port", 0..=65535, 0),
    integer("cluster-announce-port", 0..=65535, 0),
    integer("cluster-announce-tls-port", 0..=65535, 0),
    integer("repl-timeout", 1..=INT_MAX, 60),
    integer("repl-ping-replica-period", 1..=INT_MAX, 10).alias("repl-ping-slave-period"),
    integer("list-compress-depth", 0..=INT_MAX, 0),
    integer("rdb-key-save-delay", INT_MIN..=INT_MAX, 0).hidden(),
    integer("key-load-delay", INT_MIN..=INT_MAX, 0).hidden(),
    integer("active-expire-effort", 1..=10, 1),
    integer("hz", 0..=INT_MAX, 10),
    integer("min-replicas-to-write", 0..=INT_MAX, 0).alias("min-slaves-to-write"),
    integer("min-replicas-max-lag", 0..=INT_MAX, 10).alias("min-slaves-max-lag"),
    integer("watchdog-period", 0..=INT_MAX, 0).hidden(),
    integer("shutdown-timeout", 0..=INT_MAX, 10),
    integer("repl-diskless-sync-max-replicas", 0..=INT_MAX, 0),
    integer("maxclients", 1..=UINT_MAX, 10_000),
    octal("unixsocketperm", 0..=0o777, 0).immutable(),
    integer("socket-mark-id", 0..=UINT_MAX, 0).immutable(),
    integer("active-defrag-max-scan-fields", 1..=LONG_MAX, 1000),
    integer("slowlog-max-len", 0..=LONG_MAX, 128),
    integer("acllog-max-len", 0..=LONG_MAX, 128),
    integer("busy-reply-threshold", 0..=LONG_MAX, 5000).alias("lua-time-limit"),
    integer("cluster-node-timeout", 0..=LONG_MAX, 15_000),
    integer("slowlog-log-slower-than", -1..=LONG_MAX, 10_000),
    integer("latency-monitor-threshold", 0..=LONG_MAX, 0),
    integer("stream-node-max-entries", 0..=LONG_MAX, 100),
    integer("hash-max-listpack-entries", 0..=LONG_MAX, 512).alias("hash-max-ziplist-entries"),
    integer("set-max-intset-entries", 0..=LONG_MAX, 512),
    integer("zset-max-listpack-entries", 0..=LONG_MAX, 128).alias("zset-max-ziplist-entries"),
    integer("tracking-table-max-keys", 0..=LONG_MAX, 1_000_000),
    integer("repl-backlog-ttl", 0..=LONG_MAX, 3600),
    integer("loading-process-events-interval-bytes", 1024..=INT_MAX, 2_097_152).hidden(),
    integer("tls-port", 0..=65535, 0),
    integer("tls-session-cache-size", 0..=INT_MAX, 20_480),
    integer("tls-session-cache-timeout", 0..=INT_MAX, 300),
    // Bytes.
    memory("proto-max-bulk-len", MB..=LONG_MAX, 536_870_912),
    memory("repl-backlog-size", 1..=LONG_MAX, 1_048_576),
    memory("maxmemory", 0..=ULONG_MAX, 0),
    memory("cluster-link-sendbuf-limit", 0..=ULONG_MAX, 0),
    memory("active-defrag-ignore-bytes", 1..=LONG_MAX, 104_857_600),
    memory("hash-max-listpack-value", 0..=LONG_MAX, 64).alias("hash-max-ziplist-value"),
    memory("stream-node-max-bytes", 0..=LONG_MAX, 4096),
    memory("zset-max-listpack-value", 0..=LONG_MAX, 64).alias("zset-max-ziplist-value"),
    memory("hll-sparse-max-bytes", 0..=LONG_MAX, 3000),
    memory("client-query-buffer-limit", MB..=LONG_MAX, 1_073_741_824),
    memory_or_percent("maxmemory-clients", -100..=LONG_MAX, 0),
    memory("auto-aof-rewrite-min-size", 0..=LONG_MAX, 67_108_864),
    // Texts.
    text("aclfile", "").immutable(),
    text("unixsocket", "").immutable(),
    text("pidfile", "").immutable(),
    text("replica-announce-ip", "").alias("slave-announce-ip"),
    text("masteruser", "").sensitive(),
    text("cluster-announce-ip", ""),
    text("cluster-config-file", "nodes.conf").immutable(),
    text("cluster-announce-hostname", ""),
    text("syslog-ident", "redis").immutable(),
    file_name("dbfilename", "dump.rdb").protected(),
    file_name("appendfilename", "appendonly.aof").immutable(),
    file_name("appenddirname", "appendonlydir").immutable(),
    text("server_cpulist", "").immutable(),
    text("bio_cpulist", "").immutable(),
    text("aof_rewrite_cpulist", "").immutable(),
    text("bgsave_cpulist", "").immutable(),
    text("ignore-warnings", ""),
    text("proc-title-template", "{title} {listen-addr} {server-mode}"),
    text("bind-source-addr", ""),
    text("logfile", "").immutable(),
    text("masterauth", "").sensitive(),
    text("requirepass", "").sensitive(),
    text("tls-cert-file", ""),
    text("tls-key-file", ""),
    text("tls-key-file-pass", ""),
    text("tls-client-cert-file", ""),
    text("tls-client-key-file", ""),
    text("tls-client-key-file-pass", ""),
    text("tls-dh-params-file", ""),
    text("tls-ca-cert-file", ""),
    text("tls-ca-cert-dir", ""),
    text("tls-protocols", ""),
    text("tls-ciphers", ""),
    text("tls-ciphersuites", ""),
    // Several words.
    several("dir", words::directory, ".").protected(),
    several("save", words::save_points, "3600 1 300 100 60 10000"),
    several(
        "client-output-buffer-limit",
        words::output_limits,
        "normal 0 0 0 slave 268435456 67108864 60 pubsub 33554432 8388608 60",
    ),
    several("oom-score-adj-values", words::oom_score_values, "0 200 800"),
    several("notify-keyspace-events", words::events, ""),
    several("bind", words::list, "* -::*"),
    several("replicaof", words::replica_of, "").alias("slaveof").immutable(),
    several("latency-tracking-info-percentiles", words::percentiles, "50 99 99.9"),
    // The redo log.
    several("log-devices", words::directories, "").protected(),
    memory("log-segment-bytes", MB..=(1 << 36), 64 * MB).immutable(),
    memory("log-block-bytes", 4096..=(1 << 30), MB),
    memory("log-in-flight-bytes", MB..=(1 << 36), 64 * MB).immutable(),
    yes_no("log-compaction", true),
    integer("log-compaction-invalid-percentage", 1..=100, 40),
    integer("log-compaction-garbage-percentage", 0..=100, 45),
    integer("log-compaction-invalid-min", 1..=UINT_MAX, 1024),
    memory("log-compaction-bytes-per-second", 0..=LONG_MAX, 128 * MB),
    memory("log-scrub-bytes-per-second", 0..=LONG_MAX, 4 * MB),
];

/// Directives that older versions knew and that are accepted and forgotten, with one argument.
pub(super) static FORGOTTEN: &[&str] = &[
    // Newer than 7.0, without meaning here.
    "locale-collate",
    "set-max-listpack-entries",
    "set-max-listpack-value",
    "hide-user-data-from-log",
    "cluster-announce-human-nodename",
    "max-new-connections-per-cycle",
    "max-new-tls-connections-per-cycle",
    "replica-full-sync-buffer-limit",
    "lookahead",
    "prefetch-batch-max-size",
    "commandlog-execution-slower-than",
    "commandlog-request-larger-than",
    "commandlog-reply-larger-than",
    "commandlog-slow-execution-max-len",
    "commandlog-large-request-max-len",
    "commandlog-large-reply-max-len",
    "availability-zone",
    "log-format",
    "log-timestamp-format",
    "extended-redis-compatibility",
    "list-max-ziplist-entries",
    "list-max-ziplist-value",
    "lua-replicate-commands",
];
