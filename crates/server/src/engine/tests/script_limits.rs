//! What a script or a library says of itself, and how much it may take.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::super::ClientKey;
use super::scripting::{Scripted, busy_server, request};
use super::server::{TestServer, host_of};

/// A library of one function of its name, which returns 7.
fn library(name: &str, flags: &str) -> String {
    format!(
        "#!lua name={name}\nredis.register_function{{function_name='{name}', flags={{{flags}}}, \
         callback=function() return 7 end}}"
    )
}

/// Commands one after the other, the last reply.
fn ask_all(server: &mut TestServer, client: ClientKey, all: &[&[&str]]) -> String {
    let requests: String = all.iter().map(|words| request(words)).collect();
    server.send(client, &requests)
}

#[test]
fn a_pause_of_writers_lets_through_what_says_that_it_writes_nothing() {
    let (reads, writes) = ("#!lua flags=no-writes\nreturn 7", "#!lua\nreturn 7");
    let mut server = TestServer::new(&[]);
    let other = server.connect();
    let digest = server.ask(other, &["SCRIPT", "LOAD", reads])[5..45].to_owned();
    for (name, flags) in [("reads", "'no-writes'"), ("writes", "")] {
        server.ask(other, &["FUNCTION", "LOAD", &library(name, flags)]);
    }
    assert_eq!(server.ask(other, &["CLIENT", "PAUSE", "100000", "WRITE"]), "+OK\r\n");
    let through: [&[&str]; 5] = [
        &["EVAL", reads, "0"],
        &["EVALSHA", &digest, "0"],
        &["FCALL", "reads", "0"],
        &["FCALL_RO", "reads", "0"],
        &["EVAL_RO", "return 7", "0"],
    ];
    let client = server.connect();
    for words in through {
        assert_eq!(server.ask(client, words), ":7\r\n", "{words:?}");
        let replies = ask_all(&mut server, client, &[&["MULTI"], words, &["EXEC"]]);
        assert_eq!(replies, "+OK\r\n+QUEUED\r\n*1\r\n:7\r\n", "{words:?}");
    }
    let held: [&[&str]; 3] =
        [&["EVAL", writes, "0"], &["EVAL", "return 7", "0"], &["FCALL", "writes", "0"]];
    let mut clients = Vec::new();
    for words in held {
        let (client, queuing) = (server.connect(), server.connect());
        assert_eq!(server.ask(client, words), "", "{words:?}");
        let replies = ask_all(&mut server, queuing, &[&["MULTI"], words, &["EXEC"]]);
        assert_eq!(replies, "+OK\r\n+QUEUED\r\n", "{words:?}");
        clients.push((client, ":7\r\n"));
        clients.push((queuing, "*1\r\n:7\r\n"));
    }
    assert_eq!(server.ask(other, &["CLIENT", "UNPAUSE"]), "+OK\r\n");
    for (client, reply) in clients {
        server.engine.end_iteration(true);
        assert_eq!(server.read(client), reply);
    }
}

#[test]
fn a_transaction_is_what_its_scripts_say() {
    let used = Arc::new(AtomicU64::new(0));
    let options =
        ["--maxmemory", "1000000", "--maxmemory-policy", "noeviction", "--appendfsync", "no"];
    let (mut server, _log) = TestServer::with_log_on(host_of(&used), &options);
    let client = server.connect();
    let mut exec = |flags: &str| {
        used.store(0, Ordering::Relaxed);
        let source = format!("#!lua{flags}\nreturn 7");
        ask_all(&mut server, client, &[&["MULTI"], &["EVAL", &source, "0"]]);
        used.store(2_000_000, Ordering::Relaxed);
        server.ask(client, &["EXEC"])
    };
    let refused = "-EXECABORT Transaction discarded because of: OOM command not allowed when used memory > 'maxmemory'.";
    assert_eq!(exec(""), format!("{refused}\r\n"));
    for flags in [" flags=allow-oom", " flags=no-writes"] {
        assert_eq!(exec(flags), "*1\r\n:7\r\n", "{flags}");
    }
}

#[test]
fn a_script_can_be_killed_while_its_reply_is_written() {
    let mut server = busy_server(100, &[]);
    let (client, other) = (server.connect(), server.connect());
    let endless = "local t = {} for i = 1, 40 do t = {t, t} end return t";
    assert_eq!(server.eval(client, endless), "");
    assert!(server.ask(other, &["PING"]).starts_with("-BUSY"));
    assert_eq!(server.ask(other, &["SCRIPT", "KILL"]), "+OK\r\n");
    server.engine.end_iteration(true);
    assert_eq!(server.read(client), "-ERR Script killed by user with SCRIPT KILL...\r\n");
    assert_eq!(server.ask(client, &["EVAL", "return {1, {2}}", "0"]), "*2\r\n:1\r\n*1\r\n:2\r\n");
}

/// What a loaded library keeps, and what it takes while it is loaded: twice as much.
fn keeps(name: &str, bytes: u32) -> String {
    format!(
        "#!lua name={name}\nlocal s = ('x'):rep({bytes}) redis.register_function('{name}', function() return #s end)"
    )
}

/// At a start they are loaded in another order, and each finds another amount of memory.
#[test]
fn a_library_that_was_acknowledged_is_loaded_by_every_start() {
    let mut server = TestServer::new(&[]);
    server.engine.scripting.functions.limits.memory_bytes = 16 << 20;
    let client = server.connect();
    for (name, bytes) in [("x", 6_000_000), ("a", 4_800_000)] {
        let loaded = server.ask(client, &["FUNCTION", "LOAD", &keeps(name, bytes)]);
        assert_eq!(loaded, format!("$1\r\n{name}\r\n"));
    }
    server.engine.load_functions();
    assert_eq!(server.ask(client, &["FCALL", "a", "0"]), ":4800000\r\n");
    assert_eq!(server.ask(client, &["FCALL", "x", "0"]), ":6000000\r\n");
    let refused = server.ask(client, &["FUNCTION", "LOAD", &keeps("y", 4_800_000)]);
    assert!(refused.contains("not enough memory"), "a client has no more than before: {refused}");
}

/// FUNCTION RESTORE with the policy FLUSH, of what FUNCTION DUMP gives.
fn restore_dump(server: &mut TestServer, client: ClientKey) -> String {
    let sources = server.engine.keyspace().libraries().map(|(_, source)| &**source);
    let payload = rdb::encode_functions(sources, false);
    let head = format!("*4\r\n$8\r\nFUNCTION\r\n$7\r\nRESTORE\r\n${}\r\n", payload.len());
    let whole = [head.as_bytes(), &payload, b"\r\n$5\r\nFLUSH\r\n"].concat();
    server.engine.receive(client, &whole);
    server.send(client, "")
}

#[test]
fn what_function_dump_gives_function_restore_takes() {
    let mut server = TestServer::new(&[]);
    server.engine.scripting.functions.limits.instructions = 1_000_000;
    let client = server.connect();
    for name in ["a", "b", "c"] {
        let slow = format!("{}\nfor n = 1, 400000 do end", library(name, ""));
        let loaded = server.ask(client, &["FUNCTION", "LOAD", &slow]);
        assert_eq!(loaded, format!("$1\r\n{name}\r\n"), "each takes less than it may");
    }
    assert_eq!(restore_dump(&mut server, client), "+OK\r\n");
    assert_eq!(server.ask(client, &["FCALL", "c", "0"]), ":7\r\n");
    let endless = format!("{}\nwhile true do end", library("d", ""));
    let error = server.ask(client, &["FUNCTION", "LOAD", &endless]);
    assert!(error.contains("FUNCTION LOAD timeout"), "{error}");
}

#[test]
fn what_is_restored_needs_no_room_next_to_what_it_replaces() {
    let mut server = TestServer::new(&[]);
    server.engine.scripting.functions.limits.memory_bytes = 40 << 20;
    let client = server.connect();
    for (name, bytes) in [("x", 6_000_000), ("a", 4_800_000), ("b", 6_000_001)] {
        let loaded = server.ask(client, &["FUNCTION", "LOAD", &keeps(name, bytes)]);
        assert_eq!(loaded, format!("$1\r\n{name}\r\n"));
    }
    assert_eq!(restore_dump(&mut server, client), "+OK\r\n");
    assert_eq!(server.ask(client, &["FCALL", "x", "0"]), ":6000000\r\n");
    server.engine.scripting.functions.limits.memory_bytes = 15 << 20;
    let error = restore_dump(&mut server, client);
    assert!(error.contains("they may have 15728640"), "{error}");
    // One that needs more than a client's may have, though it keeps nothing, would not be loaded by every start.
    server.engine.scripting.functions.limits.memory_bytes = 10 << 20;
    let error = restore_dump(&mut server, client);
    assert!(error.contains("not enough memory"), "{error}");
    assert_eq!(server.ask(client, &["FCALL", "a", "0"]), ":4800000\r\n", "all is as before");
}
