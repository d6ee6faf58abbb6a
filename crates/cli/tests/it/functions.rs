//! Libraries of functions of real servers: they outlive kills, and travel in dumps, exports, imports and payloads.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::dumps::WAYS;
use crate::import::{bad, good, import};
use crate::log_index::wait_for_a_cut;
use crate::process::{Program, Server, wait_until};
use crate::wire::Connection;

/// The source of a library with one function of its name, which returns `value`.
fn source(name: &str, value: &str) -> String {
    format!(
        "#!lua name={name}\nredis.register_function('{name}', function(keys, args) return '{value}' end)\n"
    )
}

fn text(connection: &mut Connection, words: &[&str]) -> String {
    connection.call(words).unwrap().text()
}

fn load(connection: &mut Connection, name: &str, value: &str) {
    let loaded = text(connection, &["FUNCTION", "LOAD", "REPLACE", &source(name, value)]);
    assert_eq!(loaded, name);
}

fn call(server: &Server, name: &str) -> String {
    text(&mut server.connect(), &["FCALL", name, "0"])
}

const NOT_FOUND: &str = "ERR Function not found";

#[test]
fn what_was_acknowledged_of_libraries_outlives_kills() {
    let options = ["--appendfsync", "always", "--log-segment-bytes", "1mb", "--log-index", "yes"];
    let mut server = Program::indelible().start(&options);
    for round in 0..3 {
        let acknowledged: Vec<AtomicU64> = (0..3).map(|_| AtomicU64::new(0)).collect();
        std::thread::scope(|scope| {
            for (number, acknowledged) in acknowledged.iter().enumerate() {
                let mut client = server.connect();
                scope.spawn(move || {
                    let name = format!("lib{number}");
                    for value in 1_u64.. {
                        let source = source(&name, &value.to_string());
                        let load = ["FUNCTION", "LOAD", "REPLACE", &source];
                        match client.call(&load) {
                            Ok(reply) if !reply.is_error() => {
                                acknowledged.store(value, Ordering::Relaxed)
                            }
                            _ => return,
                        }
                    }
                });
            }
            wait_until(|| acknowledged.iter().all(|it| it.load(Ordering::Relaxed) > 30));
            if round == 1 {
                assert_eq!(text(&mut server.connect(), &["FUNCTION", "DELETE", "lib9"]), "OK");
                text(&mut server.connect(), &["BGREWRITEAOF"]);
            }
            load(&mut server.connect(), "lib9", &round.to_string());
            server.kill();
        });
        server.restart();
        for (number, acknowledged) in acknowledged.iter().enumerate() {
            let value: u64 = call(&server, &format!("lib{number}")).parse().unwrap();
            assert!(value >= acknowledged.load(Ordering::Relaxed), "library {number}");
        }
        assert_eq!(call(&server, "lib9"), round.to_string());
    }
}

#[test]
fn a_start_by_the_index_has_libraries_at_once() {
    let options =
        ["--log-index", "yes", "--log-index-cut-bytes", "1mb", "--debug-restore-delay-ms", "60000"];
    let mut server = Program::indelible().start(&options[..4]);
    let mut client = server.connect();
    for name in ["kept", "changed", "deleted"] {
        load(&mut client, name, "before");
    }
    crate::reload::fill(&mut client);
    wait_for_a_cut(&server);
    load(&mut client, "changed", "after");
    load(&mut client, "new", "after");
    assert_eq!(text(&mut client, &["FUNCTION", "DELETE", "deleted"]), "OK");
    server.kill();
    server.restart();
    assert!(server.log().contains("DB opened by its index"), "{}", server.log());
    for (name, value) in
        [("kept", "before"), ("changed", "after"), ("new", "after"), ("deleted", NOT_FOUND)]
    {
        assert_eq!(call(&server, name), value, "{name}");
    }
    // What of the log is garbage is found out behind the start, and compacted.
    let mut client = server.connect();
    wait_until(|| {
        text(&mut client, &["INFO", "everything"]).contains("recovery_log_garbage_known:1")
    });
    assert!(!client.words("BGREWRITEAOF").is_error());
    wait_until(|| text(&mut client, &["INFO", "everything"]).contains("aof_rewrite_in_progress:0"));
    server.kill();
    server.restart();
    assert_eq!([call(&server, "kept"), call(&server, "changed")], ["before", "after"]);
    assert_eq!(call(&server, "deleted"), NOT_FOUND);
}

#[test]
fn a_log_that_is_turned_on_has_the_libraries_of_memory() {
    let mut server = Program::indelible().start(&["--enable-debug-command", "yes"]);
    let mut client = server.connect();
    load(&mut client, "old", "1");
    load(&mut client, "both", "1");
    let off = ["CONFIG", "SET", "save", "", "appendonly", "no"];
    assert_eq!(text(&mut client, &off), "OK");
    load(&mut client, "both", "2");
    load(&mut client, "new", "2");
    assert_eq!(text(&mut client, &["FUNCTION", "DELETE", "old"]), "OK");
    assert_eq!(text(&mut client, &["CONFIG", "SET", "appendonly", "yes"]), "OK");
    wait_until(|| text(&mut client, &["INFO", "everything"]).contains("aof_rewrite_in_progress:0"));
    server.kill();
    server.restart_with(&["--enable-debug-command", "yes"]);
    assert_eq!(["old", "both", "new"].map(|name| call(&server, name)), [NOT_FOUND, "2", "2"]);
    let mut client = server.connect();
    load(&mut client, "new", "3");
    assert_eq!(text(&mut client, &["DEBUG", "RELOAD"]), "OK");
    assert_eq!(["both", "new"].map(|name| call(&server, name)), ["2", "3"]);
}

#[test]
fn every_dump_has_the_libraries_of_its_moment() {
    for way in WAYS {
        let server = Program::indelible().start(way);
        let mut client = server.connect();
        load(&mut client, "lib", "saved");
        assert_eq!(client.words("SET a 1").text(), "OK");
        assert_eq!(client.words("SAVE").text(), "OK", "{way:?}");
        load(&mut client, "lib", "later");
        let file = server.directory().join("dump.rdb");
        let bytes = std::fs::read(&file).unwrap();
        assert!(bytes.starts_with(b"REDIS0010"), "{way:?}");
        let data = tempfile::tempdir().unwrap();
        let into = data.path().join("data");
        let report = good(&import(&[], &[&file, &into]));
        assert!(report.contains("libraries of functions: 1"), "{report}");
        assert_eq!(call(&Program::indelible().start_on(&into, &[]), "lib"), "saved");
        if let Some(redis) = Program::redis() {
            assert_eq!(redis_calls(&redis, &file), "saved", "{way:?}");
        }
        assert_eq!(text(&mut client, &["CONFIG", "SET", "rdb-version", "9"]), "OK");
        let refused = client.words("SAVE").text();
        assert!(refused.contains("has no functions: choose REDIS0010"), "{refused}");
    }
}

/// As `redis-cli --functions-rdb` asks for it.
#[test]
fn a_client_is_sent_the_libraries_alone() {
    let server = Program::indelible().start(&[]);
    let mut client = server.connect();
    load(&mut client, "lib", "sent");
    assert_eq!(client.words("SET a 1").text(), "OK");
    for (part, keys) in [("functions", "libraries of functions: 1"), ("\"\"", "no keys")] {
        let mut stream = TcpStream::connect(("127.0.0.1", server.port)).unwrap();
        let wanted = format!("REPLCONF rdb-filter-only {part}\r\nREPLCONF rdb-only 1\r\nSYNC\r\n");
        stream.write_all(wanted.as_bytes()).unwrap();
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).unwrap();
        let rest = bytes.strip_prefix(b"+OK\r\n+OK\r\n$").expect("a dump of a known length");
        let end = rest.windows(2).position(|bytes| bytes == b"\r\n").unwrap();
        let dump = &rest[end + 2..];
        assert_eq!(String::from_utf8_lossy(&rest[..end]), dump.len().to_string());
        let data = tempfile::tempdir().unwrap();
        let (file, into) = (data.path().join("sent.rdb"), data.path().join("data"));
        std::fs::write(&file, dump).unwrap();
        let report = good(&import(&[], &[&file, &into]));
        assert!(report.contains(keys), "{report}");
        let restored = Program::indelible().start_on(&into, &[]);
        assert_eq!(restored.connect().words("DBSIZE").text(), "0");
        if part == "functions" {
            assert_eq!(call(&restored, "lib"), "sent");
        }
    }
}

/// What a Redis server that loads this dump replies.
fn redis_calls(redis: &Program, file: &Path) -> String {
    let server = redis.start(&["--enable-debug-command", "yes", "--save", ""]);
    std::fs::copy(file, server.directory().join("dump.rdb")).unwrap();
    assert_eq!(server.connect().words("DEBUG RELOAD NOSAVE").text(), "OK", "{}", server.log());
    call(&server, "lib")
}

#[test]
fn a_merged_dump_has_the_libraries_of_its_moment_and_none_of_the_last_one() {
    let server = Program::indelible().start(&["--snapshot-algorithm", "hourglass"]);
    let mut client = server.connect();
    let file = server.directory().join("dump.rdb");
    // Returns what a server that has imported the dump answers to calls of both libraries.
    let save = |client: &mut Connection, is_merged: bool| {
        assert_eq!(client.words("SAVE").text(), "OK");
        let info = text(client, &["INFO", "persistence"]);
        let merged_lsn = info.lines().find_map(|line| line.strip_prefix("snapshot_merged_lsn:"));
        assert_eq!(merged_lsn != Some("0"), is_merged, "{info}");
        let data = tempfile::tempdir().unwrap();
        let into = data.path().join("data");
        good(&import(&[], &[&file, &into]));
        let imported = Program::indelible().start_on(&into, &[]);
        assert_eq!(text(&mut imported.connect(), &["GET", "a"]), "1");
        if let Some(redis) = Program::redis() {
            assert_eq!(redis_calls(&redis, &file), call(&imported, "lib"));
        }
        [call(&imported, "lib"), call(&imported, "other")]
    };
    assert_eq!(client.words("SET a 1").text(), "OK");
    assert_eq!(save(&mut client, false), [NOT_FOUND; 2]);
    // A version that has libraries is another one.
    load(&mut client, "lib", "first");
    load(&mut client, "other", "short-lived");
    assert_eq!(save(&mut client, false), ["first", "short-lived"]);
    assert_eq!(save(&mut client, true), ["first", "short-lived"]);
    load(&mut client, "lib", "second");
    assert_eq!(text(&mut client, &["FUNCTION", "DELETE", "other"]), "OK");
    assert_eq!(save(&mut client, true), ["second", NOT_FOUND]);
    load(&mut client, "other", "again");
    assert_eq!(save(&mut client, true), ["second", "again"]);
    assert_eq!(text(&mut client, &["CONFIG", "SET", "rdb-version", "10"]), "OK");
    assert_eq!(text(&mut client, &["FUNCTION", "FLUSH"]), "OK");
    assert_eq!(save(&mut client, true), [NOT_FOUND; 2]);
}

#[test]
fn an_export_has_the_libraries_after_its_block() {
    let mut server = Program::indelible().start(&["--appendfsync", "always"]);
    let mut client = server.connect();
    load(&mut client, "lib", "first");
    assert_eq!(client.words("SET a 1").text(), "OK");
    let info = text(&mut client, &["INFO", "redo"]);
    let lsn = info.lines().find_map(|line| line.strip_prefix("redo_durable_lsn:")).expect(&info);
    let lsn = lsn.trim().to_owned();
    load(&mut client, "lib", "second");
    load(&mut client, "other", "second");
    server.terminate();
    server.wait_for_exit();
    let temporary = tempfile::tempdir().unwrap();
    for (more, value, count) in [(&["--lsn", &lsn][..], "first", 1), (&[], "second", 2)] {
        let file = temporary.path().join(format!("{value}.rdb"));
        let mut export = Command::new(env!("CARGO_BIN_EXE_indelible"));
        let output =
            export.arg("export").arg(server.directory()).arg(&file).args(more).output().unwrap();
        let report = String::from_utf8(output.stdout).unwrap();
        assert!(report.contains(&format!("libraries of functions: {count}")), "{report}");
        let into = temporary.path().join(value);
        good(&import(&[], &[&file, &into]));
        assert_eq!(call(&Program::indelible().start_on(&into, &[]), "lib"), value);
    }
    let into = temporary.path().join("restored");
    let mut restore = Command::new(env!("CARGO_BIN_EXE_indelible"));
    let restore = restore.arg("restore").arg(server.directory()).args(["--at", &lsn, "--into"]);
    let output = restore.arg(&into).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let restored = Program::indelible().start_on(&into, &[]);
    assert_eq!([call(&restored, "lib"), call(&restored, "other")], ["first", NOT_FOUND]);
}

#[test]
fn payloads_are_those_of_redis() {
    let Some(redis) = Program::redis() else { return };
    let (server, other) = (Program::indelible().start(&[]), redis.start(&["--save", ""]));
    let (mut client, mut peer) = (server.connect(), other.connect());
    let mut sources: Vec<String> =
        (0..12).map(|n| source("lib", &"ab".repeat(n * n * n))).collect();
    // All that compression has to do with: short and long repetitions, none, and the ends of both.
    for number in 0..60_usize {
        let words: String = (0..number * 7)
            .map(|at| format!("{} ", (at * at * (number + 3)) % (2 + number * 11)))
            .collect();
        sources.push(format!("{}-- {words}", source("lib", "v")));
        sources.push(format!("{}--{}", source("lib", "v"), "x".repeat(number)));
        sources.push(format!("{}--{}", source("lib", "v"), "xyz".repeat(number * 40)));
    }
    for compression in ["yes", "no"] {
        for connection in [&mut client, &mut peer] {
            let set = ["CONFIG", "SET", "rdbcompression", compression];
            assert_eq!(text(connection, &set), "OK");
        }
        for source in &sources {
            let load = ["FUNCTION", "LOAD", "REPLACE", source];
            assert_eq!(text(&mut client, &load), text(&mut peer, &load));
            let dump = ["FUNCTION", "DUMP"];
            let (ours, theirs) = (client.call(&dump).unwrap(), peer.call(&dump).unwrap());
            assert_eq!(ours.bytes(), theirs.bytes(), "{compression}: {source}");
            let restore = [b"FUNCTION", &b"RESTORE"[..], theirs.bytes(), b"FLUSH"];
            assert_eq!(client.call(&restore).unwrap().text(), "OK");
        }
    }
    load(&mut client, "two", "2");
    let payload = client.call(&["FUNCTION", "DUMP"]).unwrap();
    let restore = [b"FUNCTION", &b"RESTORE"[..], payload.bytes(), b"REPLACE"];
    assert_eq!(peer.call(&restore).unwrap().text(), "OK");
    assert_eq!(call(&other, "two"), "2");
}

#[test]
fn what_redis_appends_of_libraries_is_imported() {
    let Some(redis) = Program::redis() else { return };
    for preamble in ["yes", "no"] {
        let options = ["--appendonly", "yes", "--save", "", "--aof-use-rdb-preamble", preamble];
        let server = redis.start(&options);
        let mut client = server.connect();
        for name in ["base", "gone", "flushed"] {
            load(&mut client, name, "1");
        }
        let rewritten = client.words("BGREWRITEAOF");
        assert!(!rewritten.is_error(), "{rewritten:?}");
        wait_until(|| {
            text(&mut client, &["INFO", "everything"]).contains("aof_rewrite_in_progress:0")
        });
        let payload = client.call(&["FUNCTION", "DUMP"]).unwrap();
        assert_eq!(client.words("FUNCTION FLUSH").text(), "OK");
        load(&mut client, "restored", "0");
        let restore = [b"FUNCTION", &b"RESTORE"[..], payload.bytes()];
        assert_eq!(client.call(&restore).unwrap().text(), "OK");
        for words in ["FUNCTION DELETE gone", "SET a 1"] {
            assert_eq!(client.words(words).text(), "OK");
        }
        let temporary = tempfile::tempdir().unwrap();
        let into = temporary.path().join("data");
        let aof = server.directory().join("appendonlydir");
        wait_until(|| {
            text(&mut client, &["INFO", "everything"]).contains("aof_pending_bio_fsync:0")
        });
        let report = good(&import(&[], &[&aof, &into]));
        assert!(report.contains("libraries of functions: 3"), "{report}");
        let server = Program::indelible().start_on(&into, &[]);
        let replies = ["base", "restored", "flushed", "gone"].map(|name| call(&server, name));
        assert_eq!(replies, ["1", "0", "1", NOT_FOUND], "preamble {preamble}");
    }
}

#[test]
fn a_library_that_cannot_be_loaded_is_refused_or_left_out() {
    let temporary = tempfile::tempdir().unwrap();
    let file = temporary.path().join("dump.rdb");
    let options = rdb::WriteOptions { version: rdb::Version::Redis(10), ..Default::default() };
    let mut writer = rdb::Writer::begin(Vec::new(), options).unwrap();
    writer.function(source("fine", "1").as_bytes()).unwrap();
    writer.function(b"#!js name=other\nserver.register()").unwrap();
    std::fs::write(&file, writer.finish().unwrap()).unwrap();
    let into = temporary.path().join("data");
    let error = bad(&import(&[], &[&file, &into]));
    assert!(
        error.contains("a library of functions that cannot be loaded: ERR Engine 'js' not found"),
        "{error}"
    );
    assert!(!into.exists());
    let report = good(&import(&["--import-skip-unknown"], &[&file, &into]));
    assert!(
        report.contains("left out: 1 libraries of functions that cannot be loaded"),
        "{report}"
    );
    assert!(report.contains("libraries of functions: 1"), "{report}");
    assert_eq!(call(&Program::indelible().start_on(&into, &[]), "fine"), "1");
}
