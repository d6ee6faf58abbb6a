//! Starts that must read the whole log, with more keys than memory holds: the index is built first.

use std::fs::File;
use std::path::Path;
use std::process::Command;

use crate::command_line::refused;
use crate::instant_start::info;
use crate::log_index::make_a_cut_due;
use crate::process::{Program, Server, free_port, wait_until};
use crate::wire::{Connection, encode};

/// Keys without values take 72 bytes each, all of them 58 MB, and what else is there 8.
const KEYS: usize = 800_000;

/// `maxmemory`, and what the readers of the log hold that bring keys back.
const USED_BYTES_MAX: u64 = (30 + 20) << 20;

const OPTIONS: [&str; 8] = [
    "--maxmemory",
    "30mb",
    "--maxmemory-policy",
    "cold-lfu",
    "--log-index",
    "yes",
    "--log-index-cut-bytes",
    "1mb",
];

const GIVEN_UP: &str = "do not fit into maxmemory: the log is read on without keeping them";
const OPENED: &str = "DB opened by its index";

fn value(number: usize) -> String {
    format!("value of {number}")
}

fn fill(connection: &mut Connection) {
    let numbers: Vec<usize> = (0..KEYS).collect();
    for numbers in numbers.chunks(2000) {
        let set = |number: &usize| encode(&["SET", &format!("key:{number}"), &value(*number)]);
        connection.send_bytes(&numbers.iter().flat_map(set).collect::<Vec<u8>>()).unwrap();
        numbers.iter().for_each(|_| assert_eq!(connection.receive().unwrap().text(), "OK"));
    }
}

/// Every key is there, and memory is what it may be.
fn check(server: &Server) {
    let mut connection = server.connect();
    assert_eq!(connection.words("DBSIZE").text(), KEYS.to_string());
    for number in (0..KEYS).step_by(997) {
        assert_eq!(connection.words(&format!("GET key:{number}")).text(), value(number));
    }
    assert_eq!(connection.words("GET key:none").text(), "");
    assert_eq!(info(server, "cold_failures"), "0");
    wait_until(|| info(server, "recovery_state") == "done");
}

/// The start has kept to the memory that there is.
fn check_start(server: &Server) {
    wait_until(|| info(server, "recovery_state") == "done");
    let used: u64 = info(server, "used_memory_peak").parse().unwrap();
    assert!(used < USED_BYTES_MAX, "{used} bytes were used");
    check(server);
}

/// How often it said so.
fn count(server: &Server, what: &str) -> usize {
    server.log().matches(what).count()
}

fn flip_a_byte_of_the_manifest(server: &Server) {
    let path = server.directory().join("index/manifest");
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[30] ^= 1;
    std::fs::write(&path, bytes).unwrap();
}

/// Starts it, and kills it when it builds its index.
fn kill_while_it_builds(server: &Server, rounds: usize) {
    for round in 0..rounds {
        let path = server.directory().join(format!("../killed-{round}.txt"));
        let log = File::create(&path).unwrap();
        let port = free_port().to_string();
        let mut command = Program::indelible().command(&["--port", &port, "--dir"]);
        let command = command.arg(server.directory()).args(OPTIONS);
        let mut child = command.stdout(log).spawn().unwrap();
        wait_until(|| std::fs::read_to_string(&path).unwrap().contains("Building the log index"));
        child.kill().unwrap();
        child.wait().unwrap();
    }
}

#[test]
fn more_keys_than_memory_holds_are_served_after_any_start() {
    let mut server = Program::indelible().start(&OPTIONS);
    fill(&mut server.connect());
    check(&server);
    server.kill();
    flip_a_byte_of_the_manifest(&server);
    server.restart();
    assert_eq!([GIVEN_UP, OPENED].map(|what| count(&server, what)), [1, 1], "{}", server.log());
    assert!(server.log().contains("Building the log index"), "{}", server.log());
    check_start(&server);

    // Everything was read, and the index that is there is good.
    server.kill();
    server.restart_with(&[&OPTIONS[..], &["--recovery", "full"]].concat());
    assert_eq!([GIVEN_UP, OPENED].map(|what| count(&server, what)), [2, 2], "{}", server.log());
    check_start(&server);

    server.kill();
    std::fs::remove_dir_all(server.directory().join("index")).unwrap();
    kill_while_it_builds(&server, 3);
    server.restart_with(&OPTIONS);
    check_start(&server);

    // What was changed since is there after another start, by the index that was built.
    assert_eq!(server.connect().words("SET key:17 new").text(), "OK");
    assert_eq!(server.connect().words("DEL key:18").text(), "1");
    server.kill();
    server.restart();
    assert_eq!(server.connect().words("GET key:17").text(), "new");
    assert_eq!(server.connect().words("DBSIZE").text(), (KEYS - 1).to_string());

    // Without an index all of them are loaded, and that is said.
    server.kill();
    server.restart_with(&[&OPTIONS[..], &["--log-index", "no"]].concat());
    assert_eq!(count(&server, "log-index is no: all of them are loaded"), 1, "{}", server.log());
    assert_eq!(server.connect().words("DBSIZE").text(), (KEYS - 1).to_string());
}

/// What `indelible index` says of it.
fn index(words: &str, server: &Server) -> (Option<i32>, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_indelible"));
    let command = command.arg("index").args(words.split(' ')).arg(server.directory());
    let output = command.output().unwrap();
    let text = [output.stdout, output.stderr].concat();
    (output.status.code(), String::from_utf8_lossy(&text).into_owned())
}

#[test]
fn an_index_can_be_built_while_no_server_runs() {
    let mut server = Program::indelible().start(&OPTIONS);
    fill(&mut server.connect());
    let rebuild = |server: &Server| index("rebuild", server);
    let (code, text) = rebuild(&server);
    assert!(code == Some(1) && text.contains("in use"), "{text}");
    server.kill();
    // What the index does not know is in the log.
    let (code, text) = index("verify --log", &server);
    assert!(code == Some(0) && text.contains("says what the log says"), "{text}");
    assert!(!server.directory().join("index.compared").exists());
    flip_a_byte_of_the_manifest(&server);
    let (code, text) = rebuild(&server);
    assert!(code == Some(0) && text.contains("building its index: 100 %"), "{text}");
    let (code, text) = index("verify --log", &server);
    assert!(code == Some(0) && text.contains(&format!("of {KEYS} entries")), "{text}");
    server.restart();
    assert_eq!([GIVEN_UP, OPENED].map(|what| count(&server, what)), [0, 1], "{}", server.log());
    check(&server);
}

#[test]
fn an_index_that_knows_more_than_the_log_is_not_replaced() {
    let mut server = Program::indelible().start(&OPTIONS);
    assert_eq!(server.connect().words("SET key:1 old").text(), "OK");
    server.kill();
    let (log, before) = (server.directory().join("redo"), server.directory().join("../before"));
    let copy = |from: &Path, to: &Path| {
        let status = Command::new("cp").arg("-a").args([from, to]).status().unwrap();
        assert!(status.success());
    };
    copy(&server.directory(), &before);
    server.restart();
    let manifest = server.directory().join("index/manifest");
    make_a_cut_due(&mut server.connect());
    wait_until(|| info(&server, "redo_index_cut_lsn").parse::<u64>().unwrap() > 1);
    server.kill();
    // The log is what it was, and the index knows what it was later.
    std::fs::remove_dir_all(&log).unwrap();
    copy(&before.join("redo"), &log);
    copy(&before.join("redo.manifest"), &server.directory().join("redo.manifest"));
    let known = std::fs::read(&manifest).unwrap();
    let (code, text) = index("rebuild", &server);
    assert!(code == Some(1) && text.contains("durable"), "{text}");
    assert_eq!(std::fs::read(&manifest).unwrap(), known, "it is the only witness");
    // Nor does any start do without what was durable.
    for more in [&[][..], &["--recovery", "full"], &["--log-index", "no"]] {
        let port = free_port().to_string();
        let directory = server.directory();
        let place = ["--port", &port, "--dir", directory.to_str().unwrap()];
        let (code, text) = refused(&[&place[..], &OPTIONS[..], more].concat());
        assert!(code == Some(1) && text.contains("durable"), "{more:?}: {text}");
        assert_eq!(std::fs::read(&manifest).unwrap(), known, "{more:?}");
    }
}
