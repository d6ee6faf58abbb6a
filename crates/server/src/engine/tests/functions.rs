//! Libraries of functions: what FUNCTION changes is one block, and what others see of it waits for that.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use keyspace::{Keyspace, NoJournal};

use super::super::ClientKey;
use super::server::{SharedLog, TestServer, host_of};

/// A request.
fn request(words: &[&str]) -> String {
    let mut all = format!("*{}\r\n", words.len());
    for word in words {
        all.push_str(&format!("${}\r\n{word}\r\n", word.len()));
    }
    all
}

fn ask(server: &mut TestServer, client: ClientKey, words: &[&str]) -> String {
    server.send(client, &request(words))
}

/// The source of a library with one function of its name.
fn source(name: &str, body: &str) -> String {
    format!("#!lua name={name}\nredis.register_function('{name}', function(keys, args) {body} end)")
}

fn load(server: &mut TestServer, client: ClientKey, name: &str, body: &str) -> String {
    ask(server, client, &["FUNCTION", "LOAD", "REPLACE", &source(name, body)])
}

/// Everything is durable.
fn sync(server: &mut TestServer, log: &SharedLog) {
    let log = log.0.lock().unwrap();
    log.durable.store(log.open - 1, Ordering::Relaxed);
    drop(log);
    server.engine.log_advanced();
}

#[test]
fn a_library_is_loaded_listed_called_and_deleted() {
    let mut server = TestServer::new(&[]);
    let client = server.connect();
    assert_eq!(load(&mut server, client, "a", "return {keys[1], args[1]}"), "$1\r\na\r\n");
    let called = ask(&mut server, client, &["FCALL", "A", "1", "k", "v"]);
    assert_eq!(called, "*2\r\n$1\r\nk\r\n$1\r\nv\r\n");
    let listed = "*1\r\n*6\r\n$12\r\nlibrary_name\r\n$1\r\na\r\n$6\r\nengine\r\n$3\r\nLUA\r\n$9\r\nfunctions\r\n*1\r\n\
                  *6\r\n$4\r\nname\r\n$1\r\na\r\n$11\r\ndescription\r\n$-1\r\n$5\r\nflags\r\n*0\r\n";
    assert_eq!(ask(&mut server, client, &["FUNCTION", "LIST"]), listed);
    assert_eq!(ask(&mut server, client, &["FUNCTION", "LIST", "LIBRARYNAME", "b*"]), "*0\r\n");
    let info = ask(&mut server, client, &["INFO", "memory"]);
    assert!(info.contains("number_of_functions:1") && info.contains("number_of_libraries:1"));
    assert_eq!(ask(&mut server, client, &["FLUSHALL"]), "+OK\r\n");
    assert_eq!(ask(&mut server, client, &["FUNCTION", "LIST"]), listed);
    assert_eq!(ask(&mut server, client, &["FUNCTION", "DELETE", "a"]), "+OK\r\n");
    assert_eq!(ask(&mut server, client, &["FCALL", "a", "0"]), "-ERR Function not found\r\n");
    assert_eq!(server.engine.keyspace().libraries().len(), 0);
}

#[test]
fn what_is_wrong_has_redis_errors() {
    let mut server = TestServer::new(&[]);
    let client = server.connect();
    load(&mut server, client, "a", "return redis.call('set', 'k', 1)");
    let again = source("a", "return 1");
    for (words, error) in [
        (&["FUNCTION", "LOAD", "x", "y"][..], "Unknown option given: x"),
        (&["FUNCTION", "LOAD", &again], "Library 'a' already exists"),
        (&["FUNCTION", "DELETE", "b"], "Library not found"),
        (&["FUNCTION", "LIST", "x"], "Unknown argument x"),
        (&["FUNCTION", "LIST", "LIBRARYNAME"], "library name argument was not given"),
        (&["FUNCTION", "FLUSH", "x"], "FUNCTION FLUSH only supports SYNC|ASYNC option"),
        (
            &["FUNCTION", "FLUSH", "SYNC", "x"],
            "unknown subcommand or wrong number of arguments for 'FLUSH'. Try FUNCTION HELP.",
        ),
        (&["FUNCTION", "RESTORE", "x"], "DUMP payload version or checksum are wrong"),
        (
            &["FUNCTION", "RESTORE", "x", "y"],
            "Wrong restore policy given, value should be either FLUSH, APPEND or REPLACE.",
        ),
        (&["FCALL", "a", "x"], "Bad number of keys provided"),
        (&["FCALL", "a", "1"], "Number of keys can't be greater than number of args"),
        (&["FCALL", "a", "-1"], "Number of keys can't be negative"),
        (&["FCALL_RO", "a", "0"], "Can not execute a script with write flag using *_ro command."),
    ] {
        assert_eq!(ask(&mut server, client, words), format!("-ERR {error}\r\n"), "{words:?}");
    }
    let endless = "#!lua name=b\nwhile true do end";
    let error = ask(&mut server, client, &["FUNCTION", "LOAD", endless]);
    assert!(error.contains("FUNCTION LOAD timeout"), "{error}");
    assert_eq!(server.engine.keyspace().libraries().len(), 1);
    assert_eq!(
        ask(&mut server, client, &["FUNCTION", "KILL"]),
        "-NOTBUSY No scripts in execution right now.\r\n"
    );
}

#[test]
fn what_others_see_of_a_library_waits_for_its_block() {
    let (mut server, log) = TestServer::with_log(&["--appendfsync", "always"]);
    let (client, other) = (server.connect(), server.connect());
    assert_eq!(load(&mut server, client, "a", "return 1"), "", "it is not durable");
    let call = ["FCALL", "a", "0"];
    assert_eq!(ask(&mut server, other, &call), "", "it may be gone after a crash");
    sync(&mut server, &log);
    assert_eq!((server.read(client), server.read(other)), ("$1\r\na\r\n".into(), ":1\r\n".into()));
    assert_eq!(ask(&mut server, other, &call), ":1\r\n", "it is durable");

    assert_eq!(ask(&mut server, client, &["FUNCTION", "DELETE", "a"]), "");
    for words in [&call[..], &["FUNCTION", "LIST"]] {
        assert_eq!(ask(&mut server, other, words), "", "{words:?}");
    }
    sync(&mut server, &log);
    assert_eq!(server.read(other), "-ERR Function not found\r\n*0\r\n");
}

#[test]
fn a_transaction_with_a_library_is_one_block() {
    let (mut server, log) = TestServer::with_log(&["--appendfsync", "always"]);
    let client = server.connect();
    server.engine.receive(client, b"MULTI\r\nSET a 1\r\n");
    server
        .engine
        .receive(client, request(&["FUNCTION", "LOAD", &source("f", "return 1")]).as_bytes());
    server.engine.receive(client, b"FCALL f 0\r\nFUNCTION DELETE f\r\n");
    let open = log.0.lock().unwrap().open;
    server.engine.receive(client, b"EXEC\r\n");
    let seen = {
        let log = log.0.lock().unwrap();
        (log.open, log.records)
    };
    assert_eq!(seen, (open, 3), "a key, a library, and that it is gone");
    server.engine.end_iteration(true);
    sync(&mut server, &log);
    let replies = server.read(client);
    assert!(replies.ends_with("*4\r\n+OK\r\n$1\r\nf\r\n:1\r\n+OK\r\n"), "{replies}");
}

#[test]
fn a_function_that_runs_for_long_is_killed_by_its_own_command() {
    let mut server = TestServer::new(&["--busy-reply-threshold", "10"]);
    let (client, other) = (server.connect(), server.connect());
    load(&mut server, client, "f", "while true do end");
    server.clock.us_per_look.store(100, Ordering::Relaxed);
    let busy = |what: &str| {
        format!(
            "-BUSY Redis is busy running a script. You can only call {what} KILL or SHUTDOWN NOSAVE.\r\n"
        )
    };
    assert_eq!(ask(&mut server, client, &["FCALL", "F", "1", "k"]), "");
    assert_eq!(ask(&mut server, other, &["PING"]), busy("FUNCTION"));
    assert_eq!(ask(&mut server, other, &["FUNCTION", "LIST"]), busy("FUNCTION"));
    let stats = ask(&mut server, other, &["FUNCTION", "STATS"]);
    let running = "*4\r\n$14\r\nrunning_script\r\n*6\r\n$4\r\nname\r\n$1\r\nf\r\n$7\r\ncommand\r\n\
                   *4\r\n$5\r\nFCALL\r\n$1\r\nF\r\n$1\r\n1\r\n$1\r\nk\r\n$11\r\nduration_ms\r\n:";
    assert!(stats.starts_with(running), "{stats}");
    assert!(stats.ends_with(
        "$3\r\nLUA\r\n*4\r\n$15\r\nlibraries_count\r\n:1\r\n$15\r\nfunctions_count\r\n:1\r\n"
    ));
    assert_eq!(ask(&mut server, other, &["SCRIPT", "KILL"]), busy("FUNCTION"));
    assert_eq!(ask(&mut server, other, &["FUNCTION", "KILL"]), "+OK\r\n");
    server.engine.end_iteration(true);
    let reply = server.read(client);
    assert!(
        reply.starts_with("-ERR Script killed by user with FUNCTION KILL. script: f, on"),
        "{reply}"
    );

    assert_eq!(ask(&mut server, client, &["EVAL", "while true do end", "0"]), "");
    for words in [&["FUNCTION", "KILL"][..], &["FUNCTION", "STATS"]] {
        assert_eq!(ask(&mut server, other, words), busy("SCRIPT"));
    }
    assert_eq!(ask(&mut server, other, &["SCRIPT", "KILL"]), "+OK\r\n");
}

#[test]
fn flags_say_what_a_function_may_do() {
    let used = Arc::new(AtomicU64::new(0));
    let (mut server, _log) =
        TestServer::with_log_on(host_of(&used), &["--maxmemory", "1000", "--appendfsync", "no"]);
    let client = server.connect();
    let with_flags = |name: &str, flags: &str| {
        format!(
            "#!lua name={name}\nredis.register_function{{function_name='{name}', flags={{{flags}}}, \
             callback=function() return redis.call('set', 'k', 1) end}}"
        )
    };
    for (name, flags) in [("plain", ""), ("oom", "'allow-oom'"), ("reads", "'no-writes'")] {
        let loaded = ask(&mut server, client, &["FUNCTION", "LOAD", &with_flags(name, flags)]);
        assert!(!loaded.starts_with('-'), "{loaded}");
    }
    let reply = ask(&mut server, client, &["FCALL", "reads", "0"]);
    assert!(
        reply.starts_with("-ERR Write commands are not allowed from read-only scripts."),
        "{reply}"
    );
    used.store(2000, Ordering::Relaxed);
    let full = "-OOM command not allowed when used memory > 'maxmemory'.\r\n";
    assert_eq!(ask(&mut server, client, &["FCALL", "plain", "0"]), full);
    assert_eq!(ask(&mut server, client, &["FCALL", "oom", "0"]), "+OK\r\n");
    assert_eq!(ask(&mut server, client, &["FUNCTION", "LOAD", &with_flags("x", "")]), full);
    assert_eq!(ask(&mut server, client, &["FUNCTION", "DELETE", "oom"]), "+OK\r\n");
}

#[test]
fn libraries_come_with_the_data_and_one_that_cannot_be_loaded_is_kept() {
    let mut server = TestServer::new(&[]);
    let client = server.connect();
    let mut keyspace = Keyspace::new(NoJournal, [7; 16], 16);
    let good = source("good", "return 7");
    keyspace.set_library(b"good", good.as_bytes().into());
    keyspace.set_library(b"later", (*b"#!lua name=later\nredis.of_a_later_version()").into());
    server.engine.loaded(keyspace, None);
    assert_eq!(ask(&mut server, client, &["FCALL", "good", "0"]), ":7\r\n");
    let info = ask(&mut server, client, &["INFO", "memory"]);
    assert!(info.contains("number_of_libraries:1"), "{info}");
    assert_eq!(server.engine.keyspace().libraries().len(), 2);
    assert_eq!(ask(&mut server, client, &["FUNCTION", "DELETE", "later"]), "+OK\r\n");
    assert_eq!(ask(&mut server, client, &["FUNCTION", "FLUSH"]), "+OK\r\n");
    assert_eq!(server.engine.keyspace().libraries().len(), 0);
}

#[test]
fn a_client_waits_no_longer_than_some_seconds_and_what_is_there_is_loaded_without_a_clock() {
    let mut server = TestServer::new(&[]);
    let client = server.connect();
    let slow = format!("{}\nfor n = 1, 100000 do end", source("slow", "return 7"));
    assert_eq!(ask(&mut server, client, &["FUNCTION", "LOAD", &slow]), "$4\r\nslow\r\n");
    server.clock.us_per_look.store(20_000, Ordering::Relaxed);
    let error = ask(&mut server, client, &["FUNCTION", "LOAD", "REPLACE", &slow]);
    assert!(error.contains("FUNCTION LOAD timeout"), "{error}");
    let mut keyspace = Keyspace::new(NoJournal, [7; 16], 16);
    keyspace.set_library(b"slow", slow.as_bytes().into());
    server.engine.loaded(keyspace, None);
    server.clock.us_per_look.store(0, Ordering::Relaxed);
    assert_eq!(ask(&mut server, client, &["FCALL", "slow", "0"]), ":7\r\n");
}

#[test]
fn a_library_that_is_kept_and_broken_is_there_for_load() {
    let mut server = TestServer::new(&[]);
    let client = server.connect();
    let mut keyspace = Keyspace::new(NoJournal, [7; 16], 16);
    keyspace.set_library(b"later", (*b"#!lua name=later\nredis.of_a_later_version()").into());
    server.engine.loaded(keyspace, None);
    let new = source("later", "return 1");
    assert_eq!(
        ask(&mut server, client, &["FUNCTION", "LOAD", &new]),
        "-ERR Library 'later' already exists\r\n"
    );
    assert_eq!(ask(&mut server, client, &["FUNCTION", "LOAD", "REPLACE", &new]), "$5\r\nlater\r\n");
}

#[test]
fn what_an_error_tells_of_a_library_waits_for_its_block() {
    let (mut server, log) = TestServer::with_log(&["--appendfsync", "always"]);
    let (client, other) = (server.connect(), server.connect());
    assert_eq!(load(&mut server, client, "a", "return 1"), "");
    let again = source("a", "return 1");
    assert_eq!(ask(&mut server, other, &["FUNCTION", "LOAD", &again]), "");
    sync(&mut server, &log);
    assert_eq!(server.read(other), "-ERR Library 'a' already exists\r\n");
}

#[test]
fn the_sources_of_all_libraries_have_a_limit() {
    let mut server = TestServer::new(&[]);
    let client = server.connect();
    let mut keyspace = Keyspace::new(NoJournal, [7; 16], 16);
    keyspace.set_library(b"large", vec![b'#'; 256 << 20].into());
    server.engine.loaded(keyspace, None);
    let error = load(&mut server, client, "a", "return 1");
    assert!(error.contains("they may have 268435456"), "{error}");
    assert_eq!(load(&mut server, client, "large", "return 1"), "$5\r\nlarge\r\n", "it is replaced");
    assert_eq!(load(&mut server, client, "a", "return 1"), "$1\r\na\r\n");
}
