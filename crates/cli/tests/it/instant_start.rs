//! A start by the index of the log: the first commands meet keys that are in no memory yet.

use crate::fault_injection::Fault;
use crate::log_index::{make_a_cut_due, wait_for_a_cut};
use crate::process::{Program, Server, wait_until};
use crate::reload::fill;
use crate::wire::Connection;

const OPTIONS: [&str; 6] =
    ["--log-index", "yes", "--log-index-cut-bytes", "1mb", "--enable-debug-command", "yes"];

pub(crate) fn info(server: &Server, name: &str) -> String {
    let info = server.connect().words("INFO everything").text();
    let line = info.lines().find_map(|line| line.strip_prefix(&format!("{name}:")));
    line.unwrap_or_else(|| panic!("{name} in {info}")).trim().to_owned()
}

/// A server with data and an index that a start can believe, killed.
fn filled() -> Server {
    let mut server = Program::indelible().start(&OPTIONS);
    fill(&mut server.connect());
    wait_for_a_cut(&server);
    server.kill();
    server
}

fn is_by_index(server: &Server) -> bool {
    server.log().contains("DB opened by its index")
}

fn wait_until_warm(server: &Server) {
    wait_until(|| info(server, "recovery_state") == "done");
    assert_eq!(info(server, "recovery_keys_cold"), "0");
    wait_until(|| info(server, "recovery_log_garbage_known") == "1");
}

/// What a client is told by the first commands after a start.
fn first_replies(connection: &mut Connection) -> Vec<String> {
    let commands = [
        "DBSIZE",
        "GET string:7",
        "GET none",
        "EXISTS string:1 string:2 none",
        "HGET hash f8",
        "HLEN hash",
        "SISMEMBER set m9",
        "ZSCORE zset m10",
        "ZRANK zset m10",
        "LINDEX list -1",
        "GETRANGE large 19999 20010",
        "HGETALL small",
        "TYPE zset",
        "TTL string:5",
        "INCR string:none",
        "APPEND string:3 x",
        "SETNX string:4 y",
        "DEL hash none",
        "HSET hash again 1",
        "HLEN hash",
        "RENAME set other",
        "SCARD other",
        "EXISTS set",
        "COPY zset copied",
        "ZCARD copied",
        "MOVE list 9",
        "LLEN list",
        "PERSIST expiring",
        "TTL expiring",
        "SORT other BY none LIMIT 0 1",
        "DBSIZE",
        "SWAPDB 0 5",
        "DBSIZE",
        "HLEN hash",
        "SELECT 5",
        "HLEN hash",
        "GET string:8",
        "DBSIZE",
        "SELECT 9",
        "LLEN list",
        "FLUSHDB",
        "DBSIZE",
        "SELECT 0",
        "RANDOMKEY",
        "DEBUG DIGEST",
    ];
    let mut replies = Vec::new();
    for command in commands {
        let reply = connection.words(command);
        let is_random = matches!(command, "RANDOMKEY") || command.starts_with("SORT");
        let text = if is_random { format!("{}", reply.is_error()) } else { format!("{reply:?}") };
        replies.push(format!("{command}: {text}"));
    }
    replies
}

#[test]
fn it_cannot_be_told_how_the_server_has_started() {
    let mut server = filled();
    // The same data, read as a whole.
    let directory = server.directory();
    let copy = tempfile::tempdir().unwrap();
    let status = std::process::Command::new("cp")
        .args(["-r", &format!("{}/.", directory.display())])
        .arg(copy.path())
        .status();
    assert!(status.unwrap().success());
    let full = Program::indelible().start_on(
        copy.path(),
        &["--log-index", "yes", "--recovery", "full", "--enable-debug-command", "yes"],
    );
    assert!(full.log().contains("DB loaded from the redo log"), "{}", full.log());
    server.restart();
    assert!(is_by_index(&server), "{}", server.log());
    let (replies, expected) =
        (first_replies(&mut server.connect()), first_replies(&mut full.connect()));
    assert_eq!(replies, expected);
    wait_until_warm(&server);
    // And how it goes on.
    let digest = server.connect().words("DEBUG DIGEST").text();
    for _ in 0..3 {
        server.kill();
        server.restart();
        assert!(is_by_index(&server), "{}", server.log());
        assert_eq!(server.connect().words("DEBUG DIGEST").text(), digest);
        wait_until_warm(&server);
        assert!(server.connect().words("BGREWRITEAOF").text().contains("started"));
    }
    server.kill();
    server.restart_with(&[&OPTIONS[..], &["--recovery", "full"]].concat());
    assert!(server.log().contains("DB loaded from the redo log"), "{}", server.log());
    assert_eq!(server.connect().words("DEBUG DIGEST").text(), digest);
}

#[test]
fn all_is_gone_after_a_flush_as_the_first_command() {
    let mut server = filled();
    server.restart();
    assert_eq!(server.connect().words("FLUSHALL").text(), "OK");
    assert_eq!(server.connect().words("DBSIZE").text(), "0");
    server.kill();
    server.restart();
    assert_eq!(server.connect().words("DBSIZE").text(), "0");
    assert_eq!(server.connect().words("EXISTS string:7").text(), "0");
    wait_until_warm(&server);
    assert!(server.connect().words("BGREWRITEAOF").text().contains("started"));
    wait_until(|| info(&server, "aof_rewrite_in_progress") == "0");
    server.kill();
    server.restart_with(&["--recovery", "full"]);
    assert_eq!(server.connect().words("DBSIZE").text(), "0");
}

#[test]
fn transactions_watchers_and_waiters_do_not_notice() {
    let mut server = filled();
    server.restart();
    let (mut watcher, mut waiter, mut other) =
        (server.connect(), server.connect(), server.connect());
    assert_eq!(watcher.words("WATCH string:9").text(), "OK");
    assert_eq!(other.words("APPEND string:9 x").text(), "4");
    assert_eq!(watcher.words("MULTI").text(), "OK");
    assert_eq!(watcher.words("GET string:9").text(), "QUEUED");
    assert!(watcher.words("EXEC").elements().is_empty(), "it was changed");
    assert_eq!(watcher.words("MULTI").text(), "OK");
    for command in ["SELECT 5", "GET string:10", "MOVE string:11 3", "KEYS expiring", "SELECT 3"] {
        assert_eq!(watcher.words(command).text(), "QUEUED");
    }
    assert_eq!(watcher.words("GET string:11").text(), "QUEUED");
    let replies = watcher.words("EXEC");
    let replies = replies.elements();
    assert_eq!((replies[1].text(), replies[5].text()), ("5:10".to_owned(), "5:11".to_owned()));
    waiter.send(&["BLPOP", "list", "0"]).unwrap();
    assert_eq!(waiter.receive().unwrap().elements()[1].text(), "e0");
}

#[test]
fn a_reload_is_a_start_by_the_index_too() {
    let server = Program::indelible().start(&OPTIONS);
    fill(&mut server.connect());
    wait_for_a_cut(&server);
    let digest = server.connect().words("DEBUG DIGEST").text();
    for _ in 0..3 {
        assert_eq!(server.connect().words("DEBUG RELOAD").text(), "OK");
        assert_eq!(server.connect().words("GET string:7").text(), "0:7");
        assert_eq!(server.connect().words("DEBUG DIGEST").text(), digest);
    }
    assert!(is_by_index(&server), "{}", server.log());
}

#[test]
fn a_damaged_index_is_told_and_does_no_harm() {
    let mut server = filled();
    let directory = server.directory().join("index");
    let runs = std::fs::read_dir(&directory).unwrap().map(|entry| entry.unwrap().path());
    let runs: Vec<_> = runs.filter(|path| path.extension().is_some_and(|it| it == "run")).collect();
    assert!(!runs.is_empty());
    for run in runs {
        let bytes = std::fs::read(&run).unwrap();
        std::fs::write(&run, &bytes[..bytes.len() / 2]).unwrap();
    }
    server.restart();
    assert!(server.log().contains("The log index is of no use"), "{}", server.log());
    assert_eq!(server.connect().words("DBSIZE").text(), "208");
    assert_eq!(server.connect().words("GET string:7").text(), "0:7");
}

/// What keeps keys from coming back unasked for as long as a test takes.
const NEVER: [&str; 2] = ["--debug-restore-delay-ms", "3600000"];

#[test]
fn a_server_that_never_comes_to_compact_anything_makes_writers_wait() {
    let mut server = filled();
    let options = [&OPTIONS[..], &NEVER].concat();
    for unfinished in 0..3 {
        server.restart_with(&options);
        assert!(is_by_index(&server), "{}", server.log());
        assert_eq!(info(&server, "redo_index_unfinished_starts"), unfinished.to_string());
        assert_eq!(info(&server, "recovery_log_garbage_known"), "0");
        assert_eq!(server.connect().words("SET some thing").text(), "OK");
        server.kill();
    }
    server.restart_with(&[&OPTIONS[..], &["--debug-restore-delay-ms", "2000"]].concat());
    assert_eq!(info(&server, "redo_index_unfinished_starts"), "3");
    let mut writer = server.connect();
    writer.send(&["SET", "some", "more"]).unwrap();
    wait_until(|| info(&server, "redo_clients_held_back") == "1");
    assert_eq!(info(&server, "recovery_log_garbage_known"), "0");
    assert_eq!(server.connect().words("GET some").text(), "thing", "readers do not wait");
    assert_eq!(writer.receive().unwrap().text(), "OK");
    assert_eq!(info(&server, "recovery_log_garbage_known"), "1");
    wait_until_warm(&server);
    // It is known at the next start that this one came so far: something was compacted, and a cut made since.
    let figure = |name| info(&server, name).parse::<u64>().unwrap();
    assert_eq!(server.connect().words("SET some garbage").text(), "OK");
    assert!(server.connect().words("BGREWRITEAOF").text().contains("started"));
    wait_until(|| figure("redo_compactions") > 0);
    let logged = figure("redo_open_lsn") - 1;
    make_a_cut_due(&mut server.connect());
    wait_until(|| figure("redo_index_cut_lsn") > logged);
    server.kill();
    server.restart_with(&options);
    assert_eq!(info(&server, "redo_index_unfinished_starts"), "0");
    assert_eq!(server.connect().words("SET some more").text(), "OK");
}

#[test]
fn a_log_that_cannot_be_read_in_the_background_is_tried_again() {
    if !Fault::is_possible() {
        return;
    }
    let mut server = filled();
    server.restart_with(&[&OPTIONS[..], &["--debug-restore-delay-ms", "4000"]].concat());
    let broken = Fault::inject(&server, "warmup", "pread64,preadv,preadv2:error=EIO");
    wait_until(|| info(&server, "recovery_state") == "failing");
    assert!(info(&server, "recovery_last_error").contains("nput/output error"));
    assert_eq!(server.connect().words("GET string:7").text(), "0:7");
    drop(broken);
    wait_until_warm(&server);
    assert_eq!(info(&server, "recovery_last_error"), "none");
    assert!(server.log().contains("The log can be read in the background again"));
}

#[test]
fn a_pause_after_errors_does_not_hold_up_the_end() {
    if !Fault::is_possible() {
        return;
    }
    let mut server = filled();
    server.restart_with(&[&OPTIONS[..], &["--debug-restore-delay-ms", "4000"]].concat());
    let _broken = Fault::inject(&server, "warmup", "pread64,preadv,preadv2:error=EIO");
    wait_until(|| info(&server, "recovery_state") == "failing");
    // The next try is four seconds away.
    let started = std::time::Instant::now();
    server.terminate();
    assert_eq!(server.wait_for_exit(), Some(0));
    assert!(started.elapsed() < std::time::Duration::from_secs(3));
}

/// A database that is emptied gets an id of its own, and not that of one which has more than `databases` says.
#[test]
fn an_emptied_database_is_none_of_those_beyond_the_setting() {
    let with = |count| [&OPTIONS[..], &["--databases", count]].concat();
    let mut server = Program::indelible().start(&with("32"));
    let mut connection = server.connect();
    assert_eq!(connection.words("SET a 0").text(), "OK");
    assert_eq!(connection.words("SELECT 20").text(), "OK");
    assert_eq!(connection.words("SET k twenty").text(), "OK");
    wait_for_a_cut(&server);
    server.kill();
    server.restart_with(&with("16"));
    assert!(is_by_index(&server), "{}", server.log());
    let mut connection = server.connect();
    assert_eq!(connection.words("FLUSHDB").text(), "OK");
    assert_eq!(connection.words("SET x new").text(), "OK");
    server.kill();
    server.restart_with(&with("32"));
    for index in 0..32 {
        let mut connection = server.connect();
        connection.words(&format!("SELECT {index}"));
        let told = ["a", "x", "k"].map(|key| connection.words(&format!("GET {key}")).text());
        let is = match index {
            0 => ["", "new", ""],
            20 => ["", "", "twenty"],
            _ => ["", "", ""],
        };
        assert_eq!(told, is, "database {index}");
    }
}
