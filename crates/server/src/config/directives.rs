//! Every directive of redis.conf 7.2, and Indelible's own, as a table; and those that Redis 6.2 and
//! 7.4 to 8.8, or Valkey 8 and 9, have besides.
//!
//! [`Support`](super::directive::Support) says what the server makes of each. A directive that has
//! no meaning here is accepted, stored and replied all the same, so that an existing redis.conf and
//! existing tools work; one without which it would be unsafe or untrue to serve is refused. Three
//! defaults differ from Redis: `appendonly yes`, `appendfsync always`, and `save ""`, as the log keeps the data.

use std::ops::RangeInclusive;

use super::directive::{DefaultValue, Directive, Kind, Unit, WordsSet};
use super::refusal::ValueError;
use super::words;

const INT_MIN: i128 = i32::MIN as i128;
const INT_MAX: i128 = i32::MAX as i128;
const UINT_MAX: i128 = u32::MAX as i128;
const LONG_MAX: i128 = i64::MAX as i128;
const ULONG_MAX: i128 = u64::MAX as i128;
const MB: i128 = 1 << 20;

/// Why a directive is refused, and how to go on.
const NO_TLS_PEERS: &str = "connections of this kind are not supported yet, and would not be encrypted: remove \
                            this directive";
const NO_OUTGOING_TLS: &str =
    "the server opens no TLS connections (MIGRATE is not encrypted): remove this directive";
const NO_DH: &str = "Diffie-Hellman over finite fields is not supported: remove this directive, clients agree to \
                     ECDHE";
const NO_TLS_RELOAD: &str = "certificates are not reloaded by themselves: remove this directive, and use CONFIG SET \
                             tls-cert-file when there is a new one";
const NO_CLUSTER: &str = "cluster mode is not supported yet: remove cluster-enabled";
const NO_REPLICATION: &str = "replication is not supported yet: remove this directive";
const NO_REPLICAS: &str = "replication is not supported yet, so no replica could ever confirm a \
                           write: remove min-replicas-to-write";
const NO_RDMA: &str = "RDMA is not supported: remove this directive, and use TCP";
const NO_GROUP: &str = "the group of the unix socket cannot be chosen yet: remove unixsocketgroup, \
                        and start the server with that group";
pub(super) const NO_MODULES: &str =
    "modules and their directives are not supported: remove this line";
const NO_SENTINEL: &str = "this is a configuration of Sentinel, which Indelible is not";

/// What the directives of the modules that come with Redis 8 begin with.
pub(super) const MODULE_PREFIXES: &[&str] = &["search-", "ts-", "bf-", "cf-"];

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
    check: fn(&WordsSet<'_>) -> Result<String, ValueError>,
    default: &'static str,
) -> Directive {
    Directive::new(name, Kind::Words(check), DefaultValue::Text(default))
}

const fn line(name: &'static str) -> Directive {
    Directive::new(name, Kind::Line, DefaultValue::Text(""))
}

/// The table. CONFIG GET replies in this order.
pub(super) static DIRECTIVES: &[Directive] = &[
    // Yes or no.
    yes_no("rdbchecksum", true).immutable(),
    yes_no("daemonize", false).immutable(),
    yes_no("io-threads-do-reads", false).immutable().without_effect(),
    yes_no("always-show-logo", false).immutable().without_effect(),
    yes_no("protected-mode", true),
    yes_no("rdbcompression", true),
    yes_no("rdb-del-sync-files", false).without_effect(),
    yes_no("activerehashing", true).without_effect(),
    yes_no("stop-writes-on-bgsave-error", true),
    yes_no("set-proc-title", true).immutable().without_effect(),
    yes_no("dynamic-hz", true).without_effect(),
    yes_no("lazyfree-lazy-eviction", false).without_effect(),
    yes_no("lazyfree-lazy-expire", false).without_effect(),
    yes_no("lazyfree-lazy-server-del", false).without_effect(),
    yes_no("lazyfree-lazy-user-del", false).without_effect(),
    yes_no("lazyfree-lazy-user-flush", false),
    yes_no("repl-disable-tcp-nodelay", false).without_effect(),
    yes_no("repl-diskless-sync", true).without_effect(),
    yes_no("aof-rewrite-incremental-fsync", true).without_effect(),
    yes_no("no-appendfsync-on-rewrite", false).without_effect(),
    yes_no("cluster-require-full-coverage", true).without_effect(),
    yes_no("rdb-save-incremental-fsync", true),
    yes_no("aof-load-truncated", true),
    yes_no("aof-use-rdb-preamble", true).without_effect(),
    yes_no("aof-timestamp-enabled", false).without_effect(),
    yes_no("cluster-replica-no-failover", false)
        .alias("cluster-slave-no-failover")
        .without_effect(),
    yes_no("replica-lazy-flush", false).alias("slave-lazy-flush").without_effect(),
    yes_no("replica-serve-stale-data", true).alias("slave-serve-stale-data").without_effect(),
    yes_no("replica-read-only", true).alias("slave-read-only").without_effect(),
    yes_no("replica-ignore-maxmemory", true).alias("slave-ignore-maxmemory").without_effect(),
    yes_no("jemalloc-bg-thread", true).without_effect(),
    yes_no("activedefrag", false).without_effect(),
    yes_no("syslog-enabled", false).immutable().without_effect(),
    yes_no("cluster-enabled", false).immutable().refused(NO_CLUSTER),
    yes_no("appendonly", true),
    yes_no("ignore-redis-files", false).immutable(),
    yes_no("import-skip-unknown", false).immutable(),
    yes_no("cluster-allow-reads-when-down", false).without_effect(),
    yes_no("cluster-allow-pubsubshard-when-down", true).without_effect(),
    yes_no("crash-log-enabled", true),
    yes_no("crash-memcheck-enabled", true).without_effect(),
    yes_no("use-exit-on-panic", false).hidden().without_effect(),
    yes_no("disable-thp", true).immutable().without_effect(),
    yes_no("cluster-allow-replica-migration", true).without_effect(),
    yes_no("replica-announced", true).without_effect(),
    yes_no("latency-tracking", true),
    yes_no("aof-disable-auto-gc", false).without_effect(),
    yes_no("replica-ignore-disk-write-errors", false).without_effect(),
    yes_no("tls-cluster", false).refused(NO_TLS_PEERS),
    yes_no("tls-replication", false).refused(NO_TLS_PEERS),
    yes_no("tls-prefer-server-ciphers", false),
    yes_no("tls-session-caching", true),
    // One of a few words.
    choice("supervised", &["upstart", "systemd", "auto", "no"], "no").immutable(),
    choice("log-format", &["legacy", "logfmt", "json"], "legacy").hidden(),
    choice("log-timestamp-format", &["legacy", "iso8601", "milliseconds"], "legacy").hidden(),
    choice(
        "syslog-facility",
        &["user", "local0", "local1", "local2", "local3", "local4", "local5", "local6", "local7"],
        "local0",
    )
    .immutable()
    .without_effect(),
    choice("repl-diskless-load", &["disabled", "on-empty-db", "swapdb"], "disabled")
        .without_effect(),
    choice("loglevel", &["debug", "verbose", "notice", "warning", "nothing"], "notice"),
    choice(
        "maxmemory-policy",
        &[
            "volatile-lru",
            "volatile-lfu",
            "volatile-lrm",
            "volatile-random",
            "volatile-ttl",
            "allkeys-lru",
            "allkeys-lfu",
            "allkeys-lrm",
            "allkeys-random",
            "cold-lru",
            "cold-lfu",
            "noeviction",
        ],
        "noeviction",
    ),
    choice("appendfsync", &["everysec", "always", "no"], "always"),
    choice("oom-score-adj", &["no", "yes", "relative", "absolute"], "no").without_effect(),
    choice("acl-pubsub-default", &["allchannels", "resetchannels"], "resetchannels")
        .without_effect(),
    choice("sanitize-dump-payload", &["no", "yes", "clients"], "no").without_effect(),
    choice("enable-protected-configs", &["no", "yes", "local"], "no").immutable(),
    choice("enable-debug-command", &["no", "yes", "local"], "no").immutable(),
    choice("enable-module-command", &["no", "yes", "local"], "no").immutable().without_effect(),
    choice("cluster-preferred-endpoint-type", &["ip", "hostname", "unknown-endpoint"], "ip")
        .without_effect(),
    choice("propagation-error-behavior", &["ignore", "panic", "panic-on-replicas"], "ignore")
        .without_effect(),
    choices("shutdown-on-sigint", &["default", "save", "nosave", "now", "force"], "default"),
    choices("shutdown-on-sigterm", &["default", "save", "nosave", "now", "force"], "default"),
    choice("tls-auth-clients", &["no", "yes", "optional"], "yes"),
    // Numbers.
    integer("databases", 1..=INT_MAX, 16).immutable(),
    integer("port", 0..=65535, 6379),
    integer("io-threads", 1..=128, 1).immutable(),
    integer("auto-aof-rewrite-percentage", 0..=INT_MAX, 100).without_effect(),
    integer("cluster-replica-validity-factor", 0..=INT_MAX, 10)
        .alias("cluster-slave-validity-factor")
        .without_effect(),
    integer("list-max-listpack-size", INT_MIN..=INT_MAX, -2).alias("list-max-ziplist-size"),
    integer("tcp-keepalive", 0..=INT_MAX, 300),
    integer("cluster-migration-barrier", 0..=INT_MAX, 1).without_effect(),
    integer("active-defrag-cycle-min", 1..=99, 1).without_effect(),
    integer("active-defrag-cycle-max", 1..=99, 25).without_effect(),
    integer("active-defrag-threshold-lower", 0..=1000, 10).without_effect(),
    integer("active-defrag-threshold-upper", 0..=1000, 100).without_effect(),
    integer("lfu-log-factor", 0..=INT_MAX, 10),
    integer("lfu-decay-time", 0..=INT_MAX, 1),
    integer("replica-priority", 0..=INT_MAX, 100).alias("slave-priority").without_effect(),
    integer("repl-diskless-sync-delay", 0..=INT_MAX, 5).without_effect(),
    integer("maxmemory-samples", 1..=INT_MAX, 5),
    integer("maxmemory-eviction-tenacity", 0..=100, 10).without_effect(),
    integer("timeout", 0..=INT_MAX, 0),
    integer("replica-announce-port", 0..=65535, 0).alias("slave-announce-port").without_effect(),
    integer("tcp-backlog", 0..=INT_MAX, 511).immutable(),
    integer("cluster-port", 0..=65535, 0).immutable().without_effect(),
    integer("cluster-announce-bus-port", 0..=65535, 0).without_effect(),
    integer("cluster-announce-port", 0..=65535, 0).without_effect(),
    integer("cluster-announce-tls-port", 0..=65535, 0).without_effect(),
    integer("repl-timeout", 1..=INT_MAX, 60),
    integer("repl-ping-replica-period", 1..=INT_MAX, 10)
        .alias("repl-ping-slave-period")
        .without_effect(),
    integer("list-compress-depth", 0..=INT_MAX, 0).without_effect(),
    integer("rdb-key-save-delay", INT_MIN..=INT_MAX, 0).hidden().without_effect(),
    integer("key-load-delay", INT_MIN..=INT_MAX, 0).hidden().without_effect(),
    integer("active-expire-effort", 1..=10, 1),
    integer("hz", 0..=INT_MAX, 10),
    integer("min-replicas-to-write", 0..=INT_MAX, 0)
        .alias("min-slaves-to-write")
        .refused(NO_REPLICAS),
    integer("min-replicas-max-lag", 0..=INT_MAX, 10).alias("min-slaves-max-lag").without_effect(),
    integer("watchdog-period", 0..=INT_MAX, 0).hidden().without_effect(),
    integer("shutdown-timeout", 0..=INT_MAX, 10).without_effect(),
    integer("repl-diskless-sync-max-replicas", 0..=INT_MAX, 0).without_effect(),
    integer("maxclients", 1..=UINT_MAX, 10_000),
    octal("unixsocketperm", 0..=0o777, 0).immutable(),
    integer("socket-mark-id", 0..=UINT_MAX, 0).immutable().without_effect(),
    integer("active-defrag-max-scan-fields", 1..=LONG_MAX, 1000).without_effect(),
    integer("slowlog-max-len", 0..=LONG_MAX, 128)
        .later_names(&["commandlog-slow-execution-max-len"]),
    integer("acllog-max-len", 0..=LONG_MAX, 128),
    integer("busy-reply-threshold", 0..=LONG_MAX, 5000).alias("lua-time-limit"),
    integer("cluster-node-timeout", 0..=LONG_MAX, 15_000).without_effect(),
    integer("slowlog-log-slower-than", -1..=LONG_MAX, 10_000)
        .later_names(&["commandlog-execution-slower-than"]),
    integer("latency-monitor-threshold", 0..=LONG_MAX, 0),
    integer("stream-node-max-entries", 0..=LONG_MAX, 100),
    integer("hash-max-listpack-entries", 0..=LONG_MAX, 512).alias("hash-max-ziplist-entries"),
    integer("set-max-intset-entries", 0..=LONG_MAX, 512),
    integer("zset-max-listpack-entries", 0..=LONG_MAX, 128).alias("zset-max-ziplist-entries"),
    integer("tracking-table-max-keys", 0..=LONG_MAX, 1_000_000),
    integer("repl-backlog-ttl", 0..=LONG_MAX, 3600).without_effect(),
    integer("loading-process-events-interval-bytes", 1024..=INT_MAX, 2_097_152)
        .hidden()
        .without_effect(),
    integer("tls-port", 0..=65535, 0),
    integer("tls-session-cache-size", 0..=INT_MAX, 20_480),
    integer("tls-session-cache-timeout", 0..=INT_MAX, 300),
    // Bytes.
    memory("proto-max-bulk-len", MB..=LONG_MAX, 536_870_912),
    memory("repl-backlog-size", 1..=LONG_MAX, 1_048_576).without_effect(),
    memory("maxmemory", 0..=ULONG_MAX, 0),
    memory("cluster-link-sendbuf-limit", 0..=ULONG_MAX, 0).without_effect(),
    memory("active-defrag-ignore-bytes", 1..=LONG_MAX, 104_857_600).without_effect(),
    memory("hash-max-listpack-value", 0..=LONG_MAX, 64).alias("hash-max-ziplist-value"),
    memory("stream-node-max-bytes", 0..=LONG_MAX, 4096),
    memory("zset-max-listpack-value", 0..=LONG_MAX, 64).alias("zset-max-ziplist-value"),
    memory("hll-sparse-max-bytes", 0..=LONG_MAX, 3000),
    memory("client-query-buffer-limit", MB..=LONG_MAX, 1_073_741_824),
    memory_or_percent("maxmemory-clients", -100..=LONG_MAX, 0),
    memory_or_percent("cold-keys-maxmemory", -100..=LONG_MAX, -25),
    memory("auto-aof-rewrite-min-size", 0..=LONG_MAX, 67_108_864).without_effect(),
    // Texts.
    text("aclfile", "").immutable(),
    text("unixsocket", "").immutable(),
    text("pidfile", "").immutable(),
    text("replica-announce-ip", "").alias("slave-announce-ip").without_effect(),
    text("masteruser", "").sensitive().later_names(&["primaryuser"]).refused(NO_REPLICATION),
    text("cluster-announce-ip", "").without_effect(),
    text("cluster-config-file", "nodes.conf").immutable().without_effect(),
    text("cluster-announce-hostname", "").without_effect(),
    text("syslog-ident", "redis").immutable().without_effect(),
    file_name("dbfilename", "dump.rdb").protected(),
    file_name("appendfilename", "appendonly.aof").immutable(),
    file_name("appenddirname", "appendonlydir").immutable(),
    text("server_cpulist", "").immutable().later_names(&["server-cpulist"]).without_effect(),
    text("bio_cpulist", "").immutable().later_names(&["bio-cpulist"]).without_effect(),
    text("aof_rewrite_cpulist", "")
        .immutable()
        .later_names(&["aof-rewrite-cpulist"])
        .without_effect(),
    text("bgsave_cpulist", "").immutable().later_names(&["bgsave-cpulist"]).without_effect(),
    text("ignore-warnings", "").without_effect(),
    text("proc-title-template", "{title} {listen-addr} {server-mode}").without_effect(),
    text("bind-source-addr", "").without_effect(),
    text("logfile", "").immutable(),
    text("masterauth", "").sensitive().later_names(&["primaryauth"]).refused(NO_REPLICATION),
    text("requirepass", "").sensitive(),
    text("tls-cert-file", ""),
    text("tls-key-file", ""),
    text("tls-key-file-pass", "").sensitive(),
    text("tls-client-cert-file", "").refused(NO_OUTGOING_TLS),
    text("tls-client-key-file", "").refused(NO_OUTGOING_TLS),
    text("tls-client-key-file-pass", "").sensitive().refused(NO_OUTGOING_TLS),
    text("tls-dh-params-file", "").refused(NO_DH),
    text("tls-ca-cert-file", ""),
    text("tls-ca-cert-dir", ""),
    text("tls-protocols", ""),
    text("tls-ciphers", ""),
    text("tls-ciphersuites", ""),
    // Several words.
    several("dir", words::directory, ".").protected(),
    several("save", words::save_points, ""),
    several(
        "client-output-buffer-limit",
        words::output_limits,
        "normal 0 0 0 slave 268435456 67108864 60 pubsub 33554432 8388608 60",
    ),
    several("oom-score-adj-values", words::oom_score_values, "0 200 800").without_effect(),
    several("notify-keyspace-events", words::events, ""),
    several("bind", words::list, "* -::*"),
    several("replicaof", words::replica_of, "")
        .alias("slaveof")
        .immutable()
        .refused(NO_REPLICATION),
    several("latency-tracking-info-percentiles", words::percentiles, "50 99 99.9"),
    // The redo log.
    several("log-devices", words::directories, "").protected(),
    memory("log-segment-bytes", MB..=(1 << 36), 64 * MB).immutable(),
    memory("log-block-bytes", 4096..=(1 << 30), MB),
    yes_no("log-preallocate", true),
    memory("log-in-flight-bytes", MB..=(1 << 36), 64 * MB).immutable(),
    choice("log-index", &["no", "auto", "yes"], "auto").immutable(),
    memory("log-index-cut-bytes", MB..=(1 << 36), 64 * MB).immutable(),
    integer("log-index-hot-seconds", 0..=INT_MAX, 600),
    choice("recovery", &["instant", "full"], "instant").immutable(),
    yes_no("log-compaction", true),
    integer("log-compaction-invalid-percentage", 1..=100, 40),
    integer("log-compaction-garbage-percentage", 0..=100, 45),
    integer("log-compaction-invalid-min", 1..=UINT_MAX, 1024),
    memory("log-compaction-bytes-per-second", 0..=LONG_MAX, 128 * MB),
    memory("log-scrub-bytes-per-second", 0..=LONG_MAX, 4 * MB),
    integer("log-history-seconds", 0..=INT_MAX, 600),
    memory("log-history-bytes", 0..=LONG_MAX, 1024 * MB),
    integer("log-history-percentage", 0..=INT_MAX, 100),
    yes_no("log-history-drop-backups", false),
    yes_no("read-only", false),
    // The admin page.
    integer("admin-port", 0..=65535, 0).immutable(),
    text("admin-bind", "127.0.0.1").immutable(),
    text("admin-token-file", "admin-token").immutable(),
    several("admin-hosts", words::list, "").immutable(),
    // Archiving.
    several("archive", words::archive, "").protected(),
    several("archive-compression", words::compression, "zstd:1"),
    several("archive-key-file", words::directories, "").protected(),
    integer("archive-interval-ms", 0..=86_400_000, 0),
    memory("archive-object-bytes", 64 * 1024..=(1 << 30), 16 * MB),
    integer("archive-base-percentage", 0..=INT_MAX, 100),
    several("archive-keep", words::archive_keep, ""),
    integer("archive-required", 0..=INT_MAX, 0),
    // Dumps.
    choice(
        "snapshot-algorithm",
        &["auto", "bitmap", "piggyback", "cou", "fork", "hourglass"],
        "auto",
    ),
    integer("snapshot-cpu-percent", 1..=100, 10),
    memory("snapshot-bytes-per-second", 0..=LONG_MAX, 0),
    memory("snapshot-memory", 4096..=(1 << 36), 64 * MB),
    choice("rdb-version", &["auto", "9", "10", "11", "12", "13", "14", "15", "80"], "auto"),
    // Of older versions, and of those after 7.0.
    yes_no("gopher-enabled", false).hidden().without_effect(),
    yes_no("lua-replicate-commands", true).hidden().without_effect(),
    yes_no("key-memory-histograms", false).hidden().without_effect(),
    yes_no("lazyexpire-nested-arbitrary-keys", true).hidden().without_effect(),
    yes_no("repl-rdb-channel", false).hidden().without_effect(),
    yes_no("hide-user-data-from-log", false).hidden().without_effect(),
    yes_no("dual-channel-replication-enabled", false).hidden().without_effect(),
    yes_no("extended-redis-compatibility", false).hidden().without_effect(),
    yes_no("enable-debug-assert", false).hidden().immutable().without_effect(),
    yes_no("import-mode", false).hidden().without_effect(),
    yes_no("io-threads-always-active", false).hidden().without_effect(),
    yes_no("lua-enable-insecure-api", false)
        .later_names(&["lua-enable-deprecated-api"])
        .hidden()
        .without_effect(),
    yes_no("mptcp", false).hidden().immutable().without_effect(),
    yes_no("repl-mptcp", false).hidden().immutable().without_effect(),
    several("cluster-slot-stats-enabled", words::any, "no").hidden().without_effect(),
    text("rdb-version-check", "strict").hidden().without_effect(),
    text("cluster-config-save-behavior", "sync").hidden().without_effect(),
    text("locale-collate", "").without_effect(),
    text("availability-zone", "").hidden().without_effect(),
    text("debug-context", "").hidden().without_effect(),
    integer("debug-drop-values", 0..=100, 0).hidden(),
    integer("debug-restore-delay-ms", 0..=3_600_000, 0).hidden().immutable(),
    text("hash-seed", "").hidden().immutable().without_effect(),
    text("req-res-logfile", "").hidden().immutable().without_effect(),
    text("cluster-announce-human-nodename", "").without_effect(),
    text("cluster-announce-client-ipv4", "").hidden().without_effect(),
    text("cluster-announce-client-ipv6", "").hidden().without_effect(),
    integer("client-default-resp", 2..=3, 2).hidden().immutable().without_effect(),
    integer("set-max-listpack-entries", 0..=LONG_MAX, 128).without_effect(),
    integer("set-max-listpack-value", 0..=LONG_MAX, 64).without_effect(),
    integer("array-slice-size", 0..=UINT_MAX, 4096).hidden().without_effect(),
    integer("array-sparse-kmax", 0..=256, 10).hidden().without_effect(),
    integer("array-sparse-kmin", 0..=256, 5).hidden().without_effect(),
    integer("stream-idmp-duration", 1..=86_400, 100).hidden(),
    integer("stream-idmp-maxsize", 1..=10_000, 100).hidden(),
    integer("slowlog-entry-max-argc", 2..=INT_MAX, 32).hidden().without_effect(),
    integer("slowlog-entry-max-string-len", 1..=LONG_MAX, 128).hidden().without_effect(),
    integer("commandlog-request-larger-than", -1..=LONG_MAX, MB).hidden(),
    integer("commandlog-reply-larger-than", -1..=LONG_MAX, MB).hidden(),
    integer("commandlog-large-request-max-len", 0..=LONG_MAX, 128).hidden(),
    integer("commandlog-large-reply-max-len", 0..=LONG_MAX, 128).hidden(),
    integer("max-new-connections-per-cycle", 1..=1000, 10).hidden().without_effect(),
    integer("max-new-tls-connections-per-cycle", 1..=1000, 1).hidden().without_effect(),
    integer("lookahead", 1..=INT_MAX, 16).hidden().without_effect(),
    integer("prefetch-batch-max-size", 0..=INT_MAX, 16).hidden().without_effect(),
    integer("events-per-io-thread", 0..=INT_MAX, 2).hidden().without_effect(),
    integer("min-io-threads-avoid-copy-reply", 0..=INT_MAX, 7).hidden().without_effect(),
    integer("min-string-size-avoid-copy-reply", 0..=INT_MAX, 16_384).hidden().without_effect(),
    integer("min-string-size-avoid-copy-reply-threaded", 0..=INT_MAX, 65_536)
        .hidden()
        .without_effect(),
    integer("active-defrag-cycle-us", 0..=100_000, 500).hidden().without_effect(),
    memory("aof-load-corrupt-tail-max-size", 0..=LONG_MAX, 0).hidden().without_effect(),
    memory("replica-full-sync-buffer-limit", 0..=LONG_MAX, 0).hidden().without_effect(),
    text("slot-migration-max-failover-repl-bytes", "0").hidden().without_effect(),
    integer("cluster-databases", 1..=INT_MAX, 1).hidden().immutable().without_effect(),
    integer("cluster-blacklist-ttl", 0..=ULONG_MAX, 60).hidden().without_effect(),
    integer("cluster-compatibility-sample-ratio", 0..=100, 0).hidden().without_effect(),
    integer("cluster-manual-failover-timeout", 1..=INT_MAX, 5000).hidden().without_effect(),
    integer("cluster-message-gossip-perc", 1..=100, 10).hidden().without_effect(),
    integer("cluster-ping-interval", 0..=LONG_MAX, 0).hidden().without_effect(),
    integer("cluster-replica-priority", 0..=INT_MAX, 0).hidden().without_effect(),
    integer("cluster-announce-client-port", 0..=65535, 0).hidden().without_effect(),
    integer("cluster-announce-client-tls-port", 0..=65535, 0).hidden().without_effect(),
    integer("cluster-slot-migration-log-max-len", 0..=LONG_MAX, 1000).hidden().without_effect(),
    memory("cluster-slot-migration-handoff-max-lag-bytes", 0..=LONG_MAX, MB)
        .hidden()
        .without_effect(),
    integer("cluster-slot-migration-max-archived-tasks", 1..=INT_MAX, 32).hidden().without_effect(),
    integer("cluster-slot-migration-sync-buffer-drain-timeout", 0..=LONG_MAX, 60_000)
        .hidden()
        .without_effect(),
    integer("cluster-slot-migration-write-pause-timeout", 0..=LONG_MAX, 10_000)
        .hidden()
        .without_effect(),
    choice("tls-auth-clients-user", &["off", "CN"], "off").hidden(),
    integer("tls-auto-reload-interval", 0..=INT_MAX, 0).hidden().refused(NO_TLS_RELOAD),
    integer("rdma-port", 0..=65535, 0).hidden().refused(NO_RDMA),
    several("rdma-bind", words::list, "").hidden().refused(NO_RDMA),
    integer("rdma-rx-size", 65_536..=(1 << 24), MB).hidden().immutable().without_effect(),
    integer("rdma-completion-vector", -1..=1024, -1).hidden().immutable().without_effect(),
    text("unixsocketgroup", "").hidden().immutable().refused(NO_GROUP),
    // Lines with a meaning of their own.
    line("include"),
    line("rename-command"),
    line("user"),
    line("loadmodule").refused(NO_MODULES),
    line("sentinel").refused(NO_SENTINEL),
    line("list-max-ziplist-entries").without_effect(),
    line("list-max-ziplist-value").without_effect(),
];
