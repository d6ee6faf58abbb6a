//! The files that Redis and Valkey come with: each starts a server that keeps what is written.
//!
//! The table holds what the files set, not the files: the lines that are no comments, and what each version
//! has more and less than Redis 7.0.

use crate::process::{PATIENCE, Program, Server};
use std::time::Instant;

/// What the file of Redis 7.0 sets.
const REDIS_7_0: &[&str] = &[
    "bind 127.0.0.1 -::1",
    "protected-mode yes",
    "port 6379",
    "tcp-backlog 511",
    "timeout 0",
    "tcp-keepalive 300",
    "daemonize no",
    "pidfile /var/run/redis_6379.pid",
    "loglevel notice",
    "logfile \"\"",
    "databases 16",
    "always-show-logo no",
    "set-proc-title yes",
    "proc-title-template \"{title} {listen-addr} {server-mode}\"",
    "stop-writes-on-bgsave-error yes",
    "rdbcompression yes",
    "rdbchecksum yes",
    "dbfilename dump.rdb",
    "rdb-del-sync-files no",
    "dir ./",
    "replica-serve-stale-data yes",
    "replica-read-only yes",
    "repl-diskless-sync yes",
    "repl-diskless-sync-delay 5",
    "repl-diskless-sync-max-replicas 0",
    "repl-diskless-load disabled",
    "repl-disable-tcp-nodelay no",
    "replica-priority 100",
    "acllog-max-len 128",
    "lazyfree-lazy-eviction no",
    "lazyfree-lazy-expire no",
    "lazyfree-lazy-server-del no",
    "replica-lazy-flush no",
    "lazyfree-lazy-user-del no",
    "lazyfree-lazy-user-flush no",
    "oom-score-adj no",
    "oom-score-adj-values 0 200 800",
    "disable-thp yes",
    "appendonly no",
    "appendfilename \"appendonly.aof\"",
    "appenddirname \"appendonlydir\"",
    "appendfsync everysec",
    "no-appendfsync-on-rewrite no",
    "auto-aof-rewrite-percentage 100",
    "auto-aof-rewrite-min-size 64mb",
    "aof-load-truncated yes",
    "aof-use-rdb-preamble yes",
    "aof-timestamp-enabled no",
    "slowlog-log-slower-than 10000",
    "slowlog-max-len 128",
    "latency-monitor-threshold 0",
    "notify-keyspace-events \"\"",
    "hash-max-listpack-entries 512",
    "hash-max-listpack-value 64",
    "list-max-listpack-size -2",
    "list-compress-depth 0",
    "set-max-intset-entries 512",
    "zset-max-listpack-entries 128",
    "zset-max-listpack-value 64",
    "hll-sparse-max-bytes 3000",
    "stream-node-max-bytes 4096",
    "stream-node-max-entries 100",
    "activerehashing yes",
    "client-output-buffer-limit normal 0 0 0",
    "client-output-buffer-limit replica 256mb 64mb 60",
    "client-output-buffer-limit pubsub 32mb 8mb 60",
    "hz 10",
    "dynamic-hz yes",
    "aof-rewrite-incremental-fsync yes",
    "rdb-save-incremental-fsync yes",
    "jemalloc-bg-thread yes",
];

/// A version's file: the directives of Redis 7.0 that it does not set, or sets otherwise, and its own lines.
struct Stock {
    name: &'static str,
    without: &'static [&'static str],
    own: &'static [&'static str],
}

const SETS: &[&str] =
    &["locale-collate \"\"", "set-max-listpack-entries 128", "set-max-listpack-value 64"];

const VALKEY: &[&str] = &[
    "pidfile /var/run/valkey_6379.pid",
    "hide-user-data-from-log yes",
    "locale-collate \"\"",
    "dual-channel-replication-enabled no",
    "lazyfree-lazy-eviction yes",
    "lazyfree-lazy-expire yes",
    "lazyfree-lazy-server-del yes",
    "replica-lazy-flush yes",
    "lazyfree-lazy-user-del yes",
    "lazyfree-lazy-user-flush yes",
    "set-max-listpack-entries 128",
    "set-max-listpack-value 64",
];

const VALKEY_NOT: &[&str] = &["pidfile", "lazyfree-lazy-", "replica-lazy-flush"];

const STOCK: &[Stock] = &[
    Stock {
        name: "Redis 6.2",
        without: &[
            "repl-diskless-sync",
            "appenddirname",
            "aof-timestamp-enabled",
            "hash-max-listpack-",
            "list-max-listpack-",
            "zset-max-listpack-",
        ],
        own: &[
            "repl-diskless-sync no",
            "repl-diskless-sync-delay 5",
            "lua-time-limit 5000",
            "hash-max-ziplist-entries 512",
            "hash-max-ziplist-value 64",
            "list-max-ziplist-size -2",
            "zset-max-ziplist-entries 128",
            "zset-max-ziplist-value 64",
        ],
    },
    Stock { name: "Redis 7.0", without: &[], own: &[] },
    Stock {
        name: "Debian's Redis 7.0",
        without: &["daemonize", "pidfile", "logfile", "dir "],
        own: &[
            "daemonize yes",
            "pidfile /run/redis/redis-server.pid",
            "logfile /var/log/redis/redis-server.log",
            "dir /var/lib/redis",
        ],
    },
    Stock { name: "Redis 7.2 and 7.4", without: &[], own: SETS },
    Stock {
        name: "Redis 8.8",
        without: &[],
        own: &[
            SETS[0],
            SETS[1],
            SETS[2],
            "array-slice-size 4096",
            "array-sparse-kmax 10",
            "array-sparse-kmin 5",
        ],
    },
    Stock { name: "Valkey 8.0", without: VALKEY_NOT, own: VALKEY },
    Stock {
        name: "Valkey 8.1 and 9",
        without: &["pidfile", "lazyfree-lazy-", "replica-lazy-flush", "slowlog-"],
        own: &[
            VALKEY[0],
            VALKEY[1],
            VALKEY[2],
            VALKEY[3],
            VALKEY[4],
            VALKEY[5],
            VALKEY[6],
            VALKEY[7],
            VALKEY[8],
            VALKEY[9],
            VALKEY[10],
            VALKEY[11],
            "commandlog-execution-slower-than 10000",
            "commandlog-slow-execution-max-len 128",
            "commandlog-request-larger-than 1048576",
            "commandlog-large-request-max-len 128",
            "commandlog-reply-larger-than 1048576",
            "commandlog-large-reply-max-len 128",
        ],
    },
];

impl Stock {
    fn lines(&self) -> Vec<&'static str> {
        let is_kept = |line: &&&str| !self.without.iter().any(|name| line.starts_with(name));
        REDIS_7_0.iter().filter(is_kept).chain(self.own).copied().collect()
    }
}

/// What a test must choose for itself: two servers cannot share these.
const OF_THE_TEST: &[&str] = &["--daemonize", "no", "--logfile", "", "--pidfile", ""];

/// Writes a value, ends the server without a word, writes another, ends it as asked, and says which of the
/// two values are there afterwards.
fn kept(program: &Program, lines: &[&str]) -> (bool, bool) {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("stock.conf");
    std::fs::write(&file, lines.join("\n") + "\n").unwrap();
    let mut server = program.clone().with_file(file.to_str().unwrap()).start(OF_THE_TEST);
    assert_eq!(server.connect().words("SET killed 1").text(), "OK");
    server.kill();
    server.restart();
    let killed = get(&server, "killed");
    assert_eq!(server.connect().words("SET ended 1").text(), "OK");
    // The reply is the end of the connection.
    let _ended = server.connect().call(&["SHUTDOWN"]);
    assert_eq!(server.wait_for_exit(), Some(0), "{}", server.log());
    server.restart();
    (killed, get(&server, "ended"))
}

fn get(server: &Server, key: &str) -> bool {
    server.connect().words(&format!("GET {key}")).text() == "1"
}

#[test]
fn each_stock_file_starts_a_server_that_keeps_what_is_written() {
    std::thread::scope(|scope| {
        for stock in STOCK {
            scope.spawn(|| {
                let kept = kept(&Program::indelible(), &stock.lines());
                assert_eq!(kept, (true, true), "{}: after kill -9, after SHUTDOWN", stock.name);
            });
        }
    });
}

#[test]
fn nothing_that_redis_keeps_is_lost() {
    let Some(redis) = Program::redis() else { return };
    let changes: &[&[&str]] = &[
        &[],
        &["appendonly yes"],
        &["appendonly yes", "appendfsync always"],
        &["appendonly yes", "appendfsync no", "save \"\""],
        &["save 3600 1"],
        &["save \"\""],
    ];
    let compare = |change: &[&str]| {
        let lines = [REDIS_7_0, change].concat();
        let (by_redis, here) = (kept(&redis, &lines), kept(&Program::indelible(), &lines));
        assert!(here.0 >= by_redis.0 && here.1 >= by_redis.1, "{change:?}: {by_redis:?} {here:?}");
        if change == ["save \"\""] {
            assert_eq!(here, (false, false), "a cache keeps nothing");
        }
    };
    std::thread::scope(|scope| {
        for change in changes {
            scope.spawn(|| compare(change));
        }
    });
}

/// Why a file with this line alone cannot be used, or nothing.
pub(crate) fn refusal(line: &str) -> Option<String> {
    match server::config::parse(line.as_bytes()) {
        Ok(config) => config.check_start().err().map(|why| why.to_string()),
        Err(error) => Some(error.to_string()),
    }
}

#[test]
fn each_line_of_each_stock_file_alone_is_accepted() {
    for stock in STOCK {
        for line in stock.lines() {
            assert_eq!(refusal(line), None, "{}: {line}", stock.name);
        }
    }
}

/// Directives of Redis 6.2, 7.2 to 8.8 and Valkey 8 and 9 that Redis 7.0 does not have.
const NOT_IN_7_0: &str = "active-defrag-cycle-us aof-load-corrupt-tail-max-size aof-rewrite-cpulist
    array-slice-size array-sparse-kmax array-sparse-kmin availability-zone bgsave-cpulist bio-cpulist
    client-default-resp cluster-announce-client-ipv4 cluster-announce-client-ipv6
    cluster-announce-client-port cluster-announce-client-tls-port cluster-announce-human-nodename
    cluster-blacklist-ttl cluster-compatibility-sample-ratio cluster-config-save-behavior
    cluster-databases cluster-manual-failover-timeout cluster-message-gossip-perc
    cluster-ping-interval cluster-replica-priority cluster-slot-migration-handoff-max-lag-bytes
    cluster-slot-migration-log-max-len cluster-slot-migration-max-archived-tasks
    cluster-slot-migration-sync-buffer-drain-timeout cluster-slot-migration-write-pause-timeout
    cluster-slot-stats-enabled commandlog-execution-slower-than commandlog-large-reply-max-len
    commandlog-large-request-max-len commandlog-reply-larger-than commandlog-request-larger-than
    commandlog-slow-execution-max-len debug-context dual-channel-replication-enabled
    enable-debug-assert events-per-io-thread extended-redis-compatibility gopher-enabled hash-seed
    hide-user-data-from-log import-mode io-threads-always-active key-memory-histograms
    lazyexpire-nested-arbitrary-keys list-max-ziplist-entries list-max-ziplist-value loadmodule
    locale-collate log-format log-timestamp-format lookahead lua-enable-deprecated-api
    lua-enable-insecure-api lua-replicate-commands max-new-connections-per-cycle
    max-new-tls-connections-per-cycle min-io-threads-avoid-copy-reply
    min-string-size-avoid-copy-reply min-string-size-avoid-copy-reply-threaded mptcp
    prefetch-batch-max-size primaryauth primaryuser rdb-version-check rdma-bind
    rdma-completion-vector rdma-port rdma-rx-size rename-command repl-mptcp repl-rdb-channel
    replica-full-sync-buffer-limit req-res-logfile sentinel server-cpulist set-max-listpack-entries
    set-max-listpack-value slot-migration-max-failover-repl-bytes slowlog-entry-max-argc
    slowlog-entry-max-string-len stream-idmp-duration stream-idmp-maxsize tls-auth-clients-user
    tls-auto-reload-interval unixsocketgroup user
    bf-error-rate cf-bucket-size search-timeout ts-num-threads";

#[test]
fn no_directive_of_any_version_is_called_bad() {
    let mut names: Vec<String> = NOT_IN_7_0.split_whitespace().map(str::to_owned).collect();
    if let Some(redis) = Program::redis() {
        let all = redis.start(&[]).connect().words("CONFIG GET *");
        names.extend(all.elements().iter().step_by(2).map(|name| name.text()));
        assert!(names.len() > 250, "{}", names.len());
    }
    for name in names {
        for value in ["1", "no", "\"\"", "/a b", ""] {
            let line = format!("{name} {value}");
            let why = refusal(&line).unwrap_or_default();
            assert!(!why.contains("Bad directive"), "{line}: {why}");
        }
    }
}

#[test]
fn what_has_no_effect_is_said_once() {
    let options = ["--io-threads-do-reads", "yes", "--activedefrag", "yes", "--lookahead", "2"];
    let server = Program::indelible().start(&options);
    let log = server.log();
    let lines: Vec<&str> = log.lines().filter(|line| line.contains("no effect")).collect();
    assert_eq!(lines.len(), 1, "{log}");
    assert!(lines[0].ends_with(": io-threads-do-reads, activedefrag, lookahead"), "{log}");
    // What is set later is said then.
    assert_eq!(server.connect().words("CONFIG SET activerehashing no").text(), "OK");
    let started = Instant::now();
    while !server.log().contains("activerehashing") {
        assert!(started.elapsed() < PATIENCE, "{}", server.log());
    }
}
