//! Compaction keeps the log small, and what it leaves verifies and holds what it should.

use crate::kill::Random;
use crate::process::{Program, Server, wait_until};
use crate::wire::{Connection, encode};
use std::path::Path;

/// So many that writers are held back at twice the live data: with fewer they are not before the log is
/// sixteen segments larger than the data.
const KEYS: u64 = 60_000;
const VALUE_BYTES: usize = 300;
const UPDATES: u64 = 200_000;

/// A key, a value and what a record adds to them.
const LIVE_BYTES: u64 = KEYS * (10 + 300 + 40);

/// Small segments that are compacted soon, so that little data shows what much would.
const OPTIONS: [&str; 8] = [
    "--appendonly",
    "yes",
    "--appendfsync",
    "always",
    "--log-segment-bytes",
    "1mb",
    "--log-compaction-invalid-min",
    "200",
];

#[test]
fn disk_stays_below_twice_the_live_data_under_updates() {
    let mut random = Random::from_environment();
    let mut server = Program::indelible().start(&OPTIONS);
    let mut connection = server.connect();
    write_keys(&mut connection, 0..KEYS, 0);
    let mut most = 0;
    for _ in 0..UPDATES / 2000 {
        let first = random.below(KEYS - 2000);
        let version = usize::try_from(random.below(1000)).unwrap();
        write_keys(&mut connection, (0..2000).map(|_| first + random.below(2000)), version);
        most = most.max(log_bytes(&server.directory()));
    }
    let allowed = 2 * LIVE_BYTES;
    println!("at most {most} bytes of log for {LIVE_BYTES} of data ({allowed} allowed)");
    assert!(most <= allowed, "{most} bytes of log for {LIVE_BYTES} of data ({allowed} allowed)");
    assert_eq!(connection.words("DBSIZE").text(), KEYS.to_string());
    stop_and_verify(&mut server);
}

#[test]
fn the_log_verifies_after_deletes_expiries_flushes_and_keys_made_anew() {
    let mut server = Program::indelible().start(&OPTIONS);
    let mut connection = server.connect();
    for round in 0..4 {
        write_keys(&mut connection, 0..4000, round);
        pipelined(&mut connection, (0..2000).map(|i| format!("DEL key:{i:06}")));
        pipelined(&mut connection, (0..3000).map(|i| format!("HSET hash f{i} {round}:{i}")));
        pipelined(&mut connection, (0..3000).map(|i| format!("RPUSH list {round}:{i}")));
        pipelined(&mut connection, (0..500).map(|i| format!("SET temporary:{i} v PX 1")));
        assert!(!connection.words("BGREWRITEAOF").is_error());
        assert_eq!(connection.words("DEL hash list").text(), "2");
        pipelined(&mut connection, (0..1000).map(|i| format!("SADD hash {i}")));
        pipelined(&mut connection, (0..1000).map(|i| format!("ZADD list {i} m{i}")));
        wait_until(|| connection.words("EXISTS temporary:499").text() == "0");
        if round == 1 {
            server.kill();
        } else {
            stop_and_verify(&mut server);
        }
        server.restart();
        connection = server.connect();
        // What has expired counts until a client or the server itself finds it.
        wait_until(|| connection.words("DBSIZE").text() == "2002");
        assert_eq!(connection.words("SCARD hash").text(), "1000");
        assert_eq!(connection.words("ZCARD list").text(), "1000");
        if round == 2 {
            assert_eq!(connection.words("FLUSHALL").text(), "OK");
            write_keys(&mut connection, 0..10, 9);
            stop_and_verify(&mut server);
            server.restart();
            connection = server.connect();
            assert_eq!(connection.words("DBSIZE").text(), "10");
            assert_eq!(connection.words("EXISTS hash list").text(), "0");
        }
        assert!(connection.words("DEL hash list").text().parse::<u64>().unwrap() <= 2);
    }
    stop_and_verify(&mut server);
}

#[test]
fn the_log_verifies_after_crashes_in_the_middle_of_compactions() {
    let mut random = Random::from_environment();
    let mut server = Program::indelible().start(&OPTIONS);
    for round in 0..6 {
        let mut connection = server.connect();
        write_keys(&mut connection, 0..8000, round);
        write_keys(&mut connection, (0..8000).filter(|i| i % 3 == 0), round + 100);
        assert!(!connection.words("BGREWRITEAOF").is_error());
        pipelined(&mut connection, (0..random.below(300)).map(|i| format!("SET key:{i:06} new")));
        server.kill();
        verify(&server.directory());
        server.restart();
        assert_eq!(server.connect().words("DBSIZE").text(), "8000");
    }
}

fn write_keys(connection: &mut Connection, keys: impl Iterator<Item = u64>, version: usize) {
    let value = format!("{version:<VALUE_BYTES$}").replace(' ', ".");
    pipelined(connection, keys.map(|key| format!("SET key:{key:06} {value}")));
}

/// Sends commands some hundred at a time; none may fail.
fn pipelined(connection: &mut Connection, lines: impl Iterator<Item = String>) {
    let lines: Vec<String> = lines.collect();
    for chunk in lines.chunks(100) {
        let bytes: Vec<u8> =
            chunk.iter().flat_map(|line| encode(&line.split(' ').collect::<Vec<_>>())).collect();
        connection.send_bytes(&bytes).unwrap();
        for line in chunk {
            let reply = connection.receive().unwrap();
            assert!(!reply.is_error(), "{line}: {reply:?}");
        }
    }
}

/// The bytes of all files below a directory but the space set aside for a full disk.
fn log_bytes(directory: &Path) -> u64 {
    let entries = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    entries
        .filter(|path| {
            path.file_name().is_some_and(|name| name != "reserve" && name != "reserve.start")
        })
        .map(|path| match path.metadata() {
            // What is kept of what was replaced is no part of the log.
            Ok(metadata) if metadata.is_dir() && path.ends_with("history") => 0,
            Ok(metadata) if metadata.is_dir() => log_bytes(&path),
            Ok(metadata) => metadata.len(),
            // A compacted segment may be replaced while we look.
            Err(_) => 0,
        })
        .sum()
}

fn stop_and_verify(server: &mut Server) {
    let _closes_without_a_reply = server.connect().call(&["SHUTDOWN"]);
    assert_eq!(server.wait_for_exit(), Some(0), "{}", server.log());
    verify(&server.directory());
}

fn verify(directory: &Path) {
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_indelible"))
        .args(["log", "verify"])
        .arg(directory)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "log verify: {said}");
}
