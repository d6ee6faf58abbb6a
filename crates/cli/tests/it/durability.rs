//! What comes back after a restart, and what clients may ask about it.

use crate::process::{Program, Server};
use crate::wire::Connection;
use std::path::Path;

const DURABLE: [&str; 6] =
    ["--appendonly", "yes", "--appendfsync", "always", "--enable-debug-command", "yes"];

fn ok(connection: &mut Connection, words: &str) {
    let reply = connection.words(words);
    assert!(!reply.is_error(), "{words}: {reply:?}");
}

/// Keys of every type, small and large, in three databases, with and without expiry.
fn fill(connection: &mut Connection) {
    for database in 0..3 {
        ok(connection, &format!("SELECT {database}"));
        ok(connection, &format!("SET string in-{database}"));
        ok(connection, "SET number 12345");
        ok(connection, "SET expiring v PXAT 4000000000123");
        ok(connection, "HSET hash-small a 1 b 2");
        ok(connection, "EXPIREAT hash-small 4000000000");
        for i in 0..300 {
            ok(connection, &format!("HSET hash f{i} {i}"));
            ok(connection, &format!("RPUSH list e{i}"));
            ok(connection, &format!("SADD set m{i}"));
            ok(connection, &format!("ZADD sorted {i}.5 m{i}"));
            ok(connection, &format!("SADD numbers {}", i * 7));
        }
        ok(connection, "HDEL hash f7 f8");
        ok(connection, "LPOP list 10");
        ok(connection, "LINSERT list BEFORE e100 between");
        ok(connection, "SREM set m9");
        ok(connection, "ZINCRBY sorted 1000 m3");
        ok(connection, "SETRANGE large 3000000 end");
        ok(connection, "SETBIT large 8000000 1");
        ok(connection, "SET deleted v");
        ok(connection, "DEL deleted");
        ok(connection, "RENAME string renamed");
        ok(connection, "COPY hash copied");
        ok(connection, "EXPIRE copied 100000");
        ok(connection, "PERSIST copied");
    }
    ok(connection, "SELECT 5");
    ok(connection, "SET flushed v");
    ok(connection, "FLUSHDB");
    ok(connection, "SET after flush");
    ok(connection, "SELECT 0");
    ok(connection, "SWAPDB 1 2");
    ok(connection, "MOVE number 7");
}

fn digest(connection: &mut Connection) -> String {
    let reply = connection.words("DEBUG DIGEST");
    assert!(!reply.is_error(), "{reply:?}");
    reply.text()
}

/// Compares what is there before and after, as Redis' own digest sees it.
fn survives(mut end: impl FnMut(&mut Server)) {
    let mut server = Program::indelible().start(&DURABLE);
    let mut connection = server.connect();
    fill(&mut connection);
    let before = digest(&mut connection);
    for _ in 0..2 {
        end(&mut server);
        server.restart();
        let mut connection = server.connect();
        assert_eq!(digest(&mut connection), before);
        assert_eq!(connection.words("PEXPIRETIME expiring").text(), "4000000000123");
        assert_eq!(connection.words("EXPIRETIME hash-small").text(), "4000000000");
        assert_eq!(connection.words("EXISTS deleted string").text(), "0");
    }
}

#[test]
fn everything_comes_back_after_kill_9() {
    survives(Server::kill);
}

#[test]
fn everything_comes_back_after_a_shutdown() {
    survives(|server| {
        let _closes_without_a_reply = server.connect().call(&["SHUTDOWN"]);
        assert_eq!(server.wait_for_exit(), Some(0), "{}", server.log());
    });
}

#[test]
fn everything_comes_back_after_a_compaction_and_sigterm() {
    survives(|server| {
        ok(&mut server.connect(), "BGREWRITEAOF");
        server.terminate();
        assert_eq!(server.wait_for_exit(), Some(0), "{}", server.log());
    });
}

#[test]
fn what_expired_or_was_flushed_does_not_come_back() {
    let mut server = Program::indelible().start(&DURABLE);
    let mut connection = server.connect();
    ok(&mut connection, "SET short v PX 1");
    ok(&mut connection, "SET long v PX 100000000");
    ok(&mut connection, "SELECT 1");
    ok(&mut connection, "MSET a 1 b 2");
    ok(&mut connection, "FLUSHDB");
    server.kill();
    server.restart();
    let mut connection = server.connect();
    assert_eq!(connection.words("EXISTS short").text(), "0");
    assert_eq!(connection.words("EXISTS long").text(), "1");
    assert_eq!(connection.words("DBSIZE").text(), "1");
    ok(&mut connection, "SELECT 1");
    assert_eq!(connection.words("DBSIZE").text(), "0");
    ok(&mut connection, "FLUSHALL");
    server.kill();
    server.restart();
    assert_eq!(server.connect().words("DBSIZE").text(), "0");
}

#[test]
fn a_cache_forgets() {
    let mut server = Program::indelible().start(&["--appendonly", "no", "--save", ""]);
    ok(&mut server.connect(), "SET k v");
    server.kill();
    server.restart();
    assert_eq!(server.connect().words("EXISTS k").text(), "0");
}

#[test]
fn a_connection_chooses_its_durability_and_waits_for_it() {
    let mut server = Program::indelible().start(&["--appendonly", "yes", "--appendfsync", "no"]);
    let mut connection = server.connect();
    for (words, reply) in [
        ("CLIENT DURABILITY always", "OK"),
        ("CLIENT DURABILITY everysec", "OK"),
        ("CLIENT DURABILITY no", "OK"),
    ] {
        assert_eq!(connection.words(words).text(), reply, "{words}");
    }
    assert!(connection.words("CLIENT DURABILITY sometimes").is_error());
    ok(&mut connection, "SET k v");
    let waited = connection.words("WAITAOF 1 0 10000");
    let numbers: Vec<String> = waited.elements().iter().map(|reply| reply.text()).collect();
    assert_eq!(numbers, ["1", "0"]);
    assert!(connection.words("WAITAOF 2 0 10").is_error());
    assert!(connection.words("WAITAOF x 0 10").is_error());
    assert_eq!(connection.words("CLIENT DURABILITY always").text(), "OK");
    ok(&mut connection, "SET k w");
    server.kill();
    server.restart();
    assert_eq!(server.connect().words("GET k").text(), "w");
}

#[test]
fn a_small_change_of_a_large_string_logs_little() {
    let server = Program::indelible().start(&DURABLE);
    let mut connection = server.connect();
    let value = "x".repeat(8 << 20);
    assert_eq!(connection.call(&["SET", "large", &value]).unwrap().text(), "OK");
    let written = |connection: &mut Connection| -> u64 {
        ok(connection, "WAITAOF 1 0 10000");
        written_bytes(&server.directory())
    };
    let before = written(&mut connection);
    for i in 0..16 {
        ok(&mut connection, &format!("SETBIT large {} 1", i * 4_000_000));
    }
    ok(&mut connection, "APPEND large end");
    let grown = written(&mut connection) - before;
    assert!(grown < 4 << 20, "{grown} bytes for 17 small changes");
}

#[test]
fn an_element_of_a_dense_hyperloglog_logs_a_part_of_it() {
    let server = Program::indelible().start(&DURABLE);
    let mut connection = server.connect();
    ok(&mut connection, "PFADD visitors a");
    ok(&mut connection, "PFDEBUG TODENSE visitors");
    let logged = |connection: &mut Connection| -> u64 {
        let text = connection.words("INFO redo").text();
        let of = |name: &str| -> u64 {
            let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
            line.unwrap_or_else(|| panic!("{name}: {text}")).parse().unwrap()
        };
        of("redo_disk_bytes") + of("redo_reclaimed_bytes")
    };
    let before = logged(&mut connection);
    let added =
        (0..1000).filter(|i| connection.words(&format!("PFADD visitors {i}")).text() == "1");
    let added = added.count() as u64;
    let grown = logged(&mut connection) - before;
    assert!(added > 900 && grown < added * 9000, "{grown} bytes for {added} elements");
    assert_eq!(connection.words("PFCOUNT visitors").text(), "1002");
}

/// The disk space that the files below a directory really take.
fn written_bytes(directory: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt;
    let entries = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    entries
        .map(|path| match path.metadata().unwrap() {
            metadata if metadata.is_dir() => written_bytes(&path),
            metadata => metadata.len().min(metadata.blocks() * 512),
        })
        .sum()
}
