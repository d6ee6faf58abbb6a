//! Scripts: what they may do, what of it is one block, and what others see while one runs for long.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::super::ClientKey;
use super::restoring::cold_server;
use super::server::{TestServer, host_of};

/// A request.
pub(super) fn request(words: &[&str]) -> String {
    let mut all = format!("*{}\r\n", words.len());
    for word in words {
        all.push_str(&format!("${}\r\n{word}\r\n", word.len()));
    }
    all
}

pub(super) trait Scripted {
    fn ask(&mut self, client: ClientKey, words: &[&str]) -> String;
    fn eval(&mut self, client: ClientKey, source: &str) -> String {
        self.ask(client, &["EVAL", source, "0"])
    }
}

impl Scripted for TestServer {
    fn ask(&mut self, client: ClientKey, words: &[&str]) -> String {
        self.send(client, &request(words))
    }
}

/// The error of a command in a script, as the script's client reads it.
fn is_error(reply: &str, error: &str) -> bool {
    reply.starts_with(&format!("-{error} script: "))
}

/// A server on which scripts run for too long at once, as each look at the clock takes so long.
pub(super) fn busy_server(us_per_look: u64, options: &[&str]) -> TestServer {
    let options = [options, &["--busy-reply-threshold", "10"]].concat();
    let server = TestServer::new(&options);
    server.clock.us_per_look.store(us_per_look, Ordering::Relaxed);
    server
}

const BUSY: &str =
    "-BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.\r\n";

#[test]
fn a_script_is_known_by_its_digest() {
    let mut server = TestServer::new(&[]);
    let client = server.connect();
    let source = "return {KEYS[1], ARGV[1], 7}";
    let missing = "-NOSCRIPT No matching script. Please use EVAL.\r\n";
    let digest = server.ask(client, &["SCRIPT", "LOAD", source])[5..45].to_owned();
    let reply = "*3\r\n$1\r\nk\r\n$1\r\na\r\n:7\r\n";
    assert_eq!(server.ask(client, &["EVAL", source, "1", "k", "a"]), reply);
    let upper = digest.to_ascii_uppercase();
    assert_eq!(server.ask(client, &["EVALSHA", &upper, "1", "k", "a"]), reply);
    assert_eq!(server.ask(client, &["SCRIPT", "SHOW", &digest]), format!("$28\r\n{source}\r\n"));
    let known = server.ask(client, &["SCRIPT", "EXISTS", &digest, "0"]);
    assert_eq!(known, "*2\r\n:1\r\n:0\r\n");
    assert_eq!(server.ask(client, &["EVALSHA", "abc", "x"]), missing);
    for mode in ["SYNC", "ASYNC"] {
        assert_eq!(server.ask(client, &["SCRIPT", "FLUSH", mode]), "+OK\r\n");
        assert_eq!(server.ask(client, &["EVALSHA", &digest, "0"]), missing);
        server.ask(client, &["SCRIPT", "LOAD", source]);
    }
    let keys = server.ask(client, &["COMMAND", "GETKEYS", "EVAL", source, "2", "a", "b", "c"]);
    assert_eq!(keys, "*2\r\n$1\r\na\r\n$1\r\nb\r\n");
}

#[test]
fn wrong_calls_have_redis_errors() {
    let mut server = TestServer::new(&[]);
    let client = server.connect();
    for (count, error) in [
        ("x", "ERR value is not an integer or out of range"),
        ("1", "ERR Number of keys can't be greater than number of args"),
        ("-1", "ERR Number of keys can't be negative"),
    ] {
        let reply = server.ask(client, &["EVAL", "return 1", count]);
        assert_eq!(reply, format!("-{error}\r\n"));
    }
    let reply = server.eval(client, "return (");
    assert!(reply.starts_with("-ERR Error compiling script (new function): user_script:1:"));
    assert_eq!(
        server.ask(client, &["SCRIPT", "FLUSH", "NOW"]),
        "-ERR SCRIPT FLUSH only support SYNC|ASYNC option\r\n"
    );
    let reply = server.ask(client, &["SCRIPT", "KILL"]);
    assert_eq!(reply, "-NOTBUSY No scripts in execution right now.\r\n");
}

#[test]
fn commands_that_scripts_may_not_call_are_refused() {
    let mut server = TestServer::new(&[]);
    let client = server.connect();
    for (call, error) in [
        ("'nope'", "ERR Unknown Redis command called from script"),
        ("'get'", "ERR Wrong number of args calling Redis command from script"),
        ("'multi'", "ERR This Redis command is not allowed from script"),
        ("'watch', 'a'", "ERR This Redis command is not allowed from script"),
        ("'subscribe', 'a'", "ERR This Redis command is not allowed from script"),
        ("'eval', 'return 1', 0", "ERR This Redis command is not allowed from script"),
        ("'debug', 'sleep', 0", "ERR This Redis command is not allowed from script"),
    ] {
        let reply = server.eval(client, &format!("return redis.call({call})"));
        assert!(is_error(&reply, error), "{call}: {reply}");
    }
    let reply = server.ask(client, &["EVAL_RO", "return redis.call('set', 'a', 1)", "0"]);
    assert!(is_error(&reply, "ERR Write commands are not allowed from read-only scripts."));
    let reply = server.eval(client, "#!lua flags=no-writes\nreturn redis.call('set', 'a', 1)");
    assert!(is_error(&reply, "ERR Write commands are not allowed from read-only scripts."));
    let reply = server.ask(client, &["EVAL_RO", "#!lua\nreturn 1", "0"]);
    assert_eq!(reply, "-ERR Can not execute a script with write flag using *_ro command.\r\n");
    let stats = server.ask(client, &["INFO", "commandstats", "errorstats"]);
    assert!(stats.contains("cmdstat_get:calls=0") && stats.contains("rejected_calls=1"), "{stats}");
    assert!(stats.contains("errorstat_ERR:count=10"), "{stats}");
    let eval = stats.lines().find(|line| line.starts_with("cmdstat_eval:")).unwrap();
    assert!(eval.ends_with("rejected_calls=1,failed_calls=8"), "{eval}");
}

#[test]
fn what_a_script_chooses_is_its_own() {
    let mut server = TestServer::new(&[]);
    let client = server.connect();
    let source = "redis.call('select', 5) redis.call('set', 'a', 'five') redis.setresp(3)
        return redis.call('hgetall', 'none')";
    assert_eq!(server.eval(client, source), "*0\r\n");
    assert_eq!(server.ask(client, &["GET", "a"]), "$-1\r\n");
    assert_eq!(server.ask(client, &["PING"]), "+PONG\r\n");
    server.ask(client, &["SELECT", "5"]);
    assert_eq!(server.ask(client, &["GET", "a"]), "$4\r\nfive\r\n");
    // A command that would wait replies what it replies on a timeout.
    assert_eq!(server.eval(client, "return redis.call('blpop', 'list', 0)"), "$-1\r\n");
}

#[test]
fn a_script_is_one_block_and_its_reply_waits_for_it() {
    let (mut server, log) = TestServer::with_log(&["--appendfsync", "always"]);
    let client = server.connect();
    server.engine.receive(client, request(&["EVAL", "return 1", "0"]).as_bytes());
    assert_eq!(server.read(client), ":1\r\n", "what has written nothing waits for nothing");
    let open = log.0.lock().unwrap().open;
    let source = "redis.call('set', KEYS[1], 1) redis.call('set', KEYS[2], 2) return 'done'";
    let eval = request(&["EVAL", source, "2", "a", "b"]);
    server.engine.receive(client, eval.as_bytes());
    let seen = {
        let log = log.0.lock().unwrap();
        (log.open, log.records)
    };
    assert_eq!(seen, (open, 2), "one block");
    server.engine.end_iteration(true);
    assert_eq!(server.read(client), "", "it is not durable");
    log.0.lock().unwrap().durable.store(open, Ordering::Relaxed);
    server.engine.log_advanced();
    assert_eq!(server.read(client), "$4\r\ndone\r\n");
}

#[test]
fn a_script_that_reads_what_is_not_durable_waits_for_it() {
    let (mut server, log) = TestServer::with_log(&["--appendfsync", "always"]);
    let (writer, reader) = (server.connect(), server.connect());
    let open = log.0.lock().unwrap().open;
    server.send(writer, "SET a 1\r\n");
    assert_eq!(server.ask(reader, &["EVAL", "return redis.call('get', 'a')", "0"]), "");
    log.0.lock().unwrap().durable.store(open, Ordering::Relaxed);
    server.engine.log_advanced();
    assert_eq!(server.read(reader), "$1\r\n1\r\n");
}

#[test]
fn a_script_that_empties_a_database_has_a_block_of_its_own() {
    let (mut server, log) = TestServer::with_log(&["--appendfsync", "no"]);
    let client = server.connect();
    server.engine.receive(client, b"SET a 1\r\n");
    let open = log.0.lock().unwrap().open;
    let source = "redis.call('set', 'b', 1) redis.call('flushALL') redis.call('set', 'c', 1)";
    server.engine.receive(client, request(&["EVAL", source, "0"]).as_bytes());
    let log = log.0.lock().unwrap();
    assert_eq!(log.open, open + 1, "what was written before is in another block");
    assert_eq!(log.points, [open], "and can be had back");
}

#[test]
fn a_log_that_takes_no_writes_refuses_those_of_scripts() {
    let (mut server, log) = TestServer::with_log(&["--appendfsync", "no"]);
    let client = server.connect();
    server.send(client, "SET a 1\r\n");
    log.0.lock().unwrap().read_only = true;
    let reply = server.eval(client, "return redis.pcall('set', 'a', 2)['err']");
    assert!(reply.contains("MISCONF Errors writing to the redo log"), "{reply}");
    assert_eq!(server.eval(client, "return redis.call('get', 'a')"), "$1\r\n1\r\n");
}

#[test]
fn memory_that_is_full_stops_scripts_that_have_not_begun_to_write() {
    let used = Arc::new(AtomicU64::new(0));
    let options =
        ["--maxmemory", "1000000", "--maxmemory-policy", "noeviction", "--appendfsync", "no"];
    let (mut server, _log) = TestServer::with_log_on(host_of(&used), &options);
    let client = server.connect();
    server.eval(client, "return 1");
    used.store(2_000_000, Ordering::Relaxed);
    let oom = "OOM command not allowed when used memory > 'maxmemory'.";
    let reply = server.eval(client, "return redis.call('set', 'a', 1)");
    assert!(is_error(&reply, oom), "{reply}");
    let begun = "redis.call('del', 'a') return redis.call('set', 'a', 1)";
    assert_eq!(server.eval(client, begun), "+OK\r\n");
    let says = |flags: &str| format!("#!lua flags={flags}\nreturn redis.call('get', 'a')");
    assert_eq!(server.eval(client, &says("allow-oom")), "$1\r\n1\r\n");
    assert_eq!(server.eval(client, &says("no-writes")), "$1\r\n1\r\n");
    assert_eq!(server.eval(client, &says("")), format!("-{oom}\r\n"));
}

#[test]
fn a_key_that_cannot_be_read_stops_the_script_that_declares_it_before_it_begins() {
    let log = TestServer::with_log(&["--appendfsync", "no"]);
    let (mut server, _said) = cold_server(log, 1);
    let client = server.connect();
    let source = "redis.call('set', 'a', 1) return redis.call('get', 'k')";
    // Nothing reads ahead here, so the command itself meets the device that fails.
    let undeclared = server.eval(client, source);
    assert!(undeclared.starts_with("-IOERR a key cannot be brought back"), "{undeclared}");
    let caught = server.eval(client, "return redis.pcall('get', 'k')['err']");
    assert!(caught.contains("IOERR a key cannot be brought back"), "{caught}");
}

#[test]
fn scripts_touch_watched_keys_and_serve_clients_that_wait() {
    let mut server = TestServer::new(&[]);
    let (client, other) = (server.connect(), server.connect());
    server.send(client, "WATCH a\r\nMULTI\r\nPING\r\n");
    server.send(other, "SUBSCRIBE news\r\n");
    let waiter = server.connect();
    server.ask(waiter, &["BLPOP", "list", "0"]);
    let source = "redis.call('rpush', 'list', 1, 2) redis.call('publish', 'news', 'x')
        return redis.call('set', 'a', redis.call('llen', 'list'))";
    let writer = server.connect();
    assert_eq!(server.eval(writer, source), "+OK\r\n");
    assert_eq!(server.send(client, "EXEC\r\n"), "*-1\r\n");
    assert_eq!(server.read(waiter), "*2\r\n$4\r\nlist\r\n$1\r\n1\r\n", "after the script");
    assert_eq!(server.ask(client, &["GET", "a"]), "$1\r\n2\r\n", "not within it");
    assert!(server.read(other).contains("news"));
}

#[test]
fn scripts_between_multi_and_exec() {
    let (mut server, log) = TestServer::with_log(&["--appendfsync", "no"]);
    let client = server.connect();
    let open = log.0.lock().unwrap().open;
    let queued = [
        request(&["MULTI"]),
        request(&["SET", "a", "1"]),
        request(&["EVAL", "return redis.call('incr', KEYS[1])", "1", "a"]),
        request(&["GET", "a"]),
        request(&["EXEC"]),
    ];
    server.engine.receive(client, queued.concat().as_bytes());
    assert_eq!(log.0.lock().unwrap().open, open, "one block");
    server.engine.end_iteration(true);
    server.engine.log_advanced();
    let reply = server.read(client);
    assert!(reply.ends_with("*3\r\n+OK\r\n:2\r\n$1\r\n2\r\n"), "{reply}");
}

#[test]
fn monitors_see_what_a_script_calls() {
    let mut server = TestServer::new(&[]);
    let (client, monitor) = (server.connect(), server.connect());
    server.send(monitor, "MONITOR\r\n");
    server.eval(client, "return redis.call('set', 'a', 1)");
    let seen = server.read(monitor);
    let lines: Vec<&str> = seen.lines().collect();
    assert!(lines[0].contains("] \"EVAL\" \"return"), "{seen}");
    assert!(lines[1].ends_with("[0 lua] \"set\" \"a\" \"1\""), "{seen}");
}

#[test]
fn a_script_that_runs_for_long_can_be_killed_until_it_has_written() {
    let mut server = busy_server(100, &[]);
    let (client, other) = (server.connect(), server.connect());
    assert_eq!(server.eval(client, "while true do end"), "");
    assert_eq!(server.ask(other, &["PING"]), BUSY);
    assert_eq!(server.ask(other, &["GET", "a"]), BUSY);
    assert_eq!(server.ask(other, &["SHUTDOWN"]), BUSY);
    assert_eq!(server.send(client, "PING\r\n"), "", "it waits for its script");
    assert_eq!(server.ask(other, &["SCRIPT", "KILL"]), "+OK\r\n");
    server.engine.end_iteration(true);
    let reply = server.read(client);
    assert!(is_error(&reply, "ERR Script killed by user with SCRIPT KILL..."), "{reply}");
    assert!(reply.ends_with("+PONG\r\n"), "{reply}");
    assert_eq!(server.ask(other, &["PING"]), "+PONG\r\n");

    // In the middle of a command, and whatever it catches.
    server.eval(client, "while true do pcall(redis.call, 'ping') end");
    assert_eq!(server.ask(other, &["SCRIPT", "KILL"]), "+OK\r\n");
    assert!(is_error(&server.read(client), "ERR Script killed by user with SCRIPT KILL..."));

    // The count that PFCOUNT stores changes no reply.
    assert_eq!(server.ask(other, &["PFADD", "h", "x", "y"]), ":1\r\n");
    server.eval(client, "redis.call('pfcount', 'h') while true do end");
    assert_eq!(server.ask(other, &["SCRIPT", "KILL"]), "+OK\r\n");
    assert!(is_error(&server.read(client), "ERR Script killed by user with SCRIPT KILL..."));
    assert_eq!(server.ask(other, &["PFCOUNT", "h"]), ":2\r\n");

    server.eval(client, "redis.call('set', 'a', 1) while true do end");
    let reply = server.ask(other, &["SCRIPT", "KILL"]);
    assert!(reply.starts_with("-UNKILLABLE Sorry the script already executed write"), "{reply}");
    assert_eq!(server.ask(other, &["SHUTDOWN", "NOSAVE"]), "");
    assert!(server.engine.shutdown_requested().is_some());
}

/// A script that writes, takes a while, and writes again.
const LONG: &str = "redis.call('incr', 'a') for n = 1, 1000 * 1000 do end
    redis.call('rpush', 'list', 1) for n = 1, 4000 * 1000 do end return redis.call('incr', 'a')";

#[test]
fn while_a_script_is_paused_nothing_seals_its_block_and_others_are_told() {
    let (mut server, log) =
        TestServer::with_log(&["--appendfsync", "always", "--busy-reply-threshold", "10"]);
    let (client, other, waiter) = (server.connect(), server.connect(), server.connect());
    server.ask(waiter, &["BLPOP", "list", "0"]);
    server.send(client, "SET short 1 PX 100\r\n");
    let open = log.0.lock().unwrap().open;
    server.clock.us_per_look.store(1000, Ordering::Relaxed);
    assert_eq!(server.eval(client, LONG), "");
    let mut turns = 0;
    while server.engine.scripting.is_paused() {
        turns += 1;
        assert_eq!(log.0.lock().unwrap().open, open, "turn {turns}");
        assert_eq!(server.engine.until_next_event_us(), 0);
        server.engine.receive(other, b"GET a\r\n");
        server.engine.seal_if_large();
        server.pass_ms(20);
    }
    assert!(turns > 2, "{turns}");
    assert!(server.read(other).contains(&BUSY.repeat(turns)));
    log.0.lock().unwrap().durable.store(open, Ordering::Relaxed);
    server.engine.end_iteration(true);
    server.engine.log_advanced();
    assert_eq!(server.read(client), "+OK\r\n:2\r\n");
    log.0.lock().unwrap().durable.store(open + 9, Ordering::Relaxed);
    server.engine.log_advanced();
    assert_eq!(server.read(waiter), "*2\r\n$4\r\nlist\r\n$1\r\n1\r\n");
}

#[test]
fn the_reply_of_a_script_that_was_paused_is_a_large_one() {
    let words = ["--commandlog-reply-larger-than", "4096", "--busy-reply-threshold", "10"];
    let mut server = TestServer::new(&words);
    let client = server.connect();
    server.clock.us_per_look.store(1000, Ordering::Relaxed);
    let script = "for n = 1, 4000 * 1000 do end return string.rep('x', 5000)";
    assert_eq!(server.eval(client, script), "");
    while server.engine.scripting.is_paused() {
        server.pass_ms(20);
    }
    assert_eq!(server.read(client).len(), 5009);
    server.clock.us_per_look.store(0, Ordering::Relaxed);
    let log = server.send(client, "COMMANDLOG GET -1 large-reply\r\n");
    assert!(log.starts_with("*1\r\n*6\r\n:0\r\n") && log.contains(":5009\r\n"), "{log}");
}

#[test]
fn a_transaction_goes_on_behind_a_paused_script() {
    let mut server = busy_server(500, &[]);
    let (client, other) = (server.connect(), server.connect());
    let script = request(&["EVAL", LONG, "0"]);
    let queued = [
        request(&["MULTI"]),
        script.clone(),
        request(&["INCR", "a"]),
        script,
        request(&["EXEC"]),
        request(&["GET", "a"]),
    ];
    let first = server.send(client, &queued.concat());
    assert!(first.starts_with("+OK\r\n+QUEUED\r\n"), "{first}");
    assert_eq!(server.ask(other, &["GET", "a"]), BUSY);
    let mut reply = first;
    while server.engine.is_waiting(client) {
        server.engine.end_iteration(true);
        reply.push_str(&server.read(client));
    }
    server.engine.end_iteration(true);
    reply.push_str(&server.read(client));
    assert!(reply.ends_with("*3\r\n:2\r\n:3\r\n:5\r\n$1\r\n5\r\n"), "{reply}");
    let stats = server.ask(client, &["INFO", "commandstats"]);
    assert!(stats.contains("cmdstat_exec:calls=1") && stats.contains("cmdstat_eval:calls=2"));
}

#[test]
fn the_script_of_a_client_that_has_gone_goes_on() {
    let mut server = busy_server(500, &[]);
    let (client, other) = (server.connect(), server.connect());
    server.eval(client, LONG);
    assert!(server.engine.end_of_input(client));
    server.engine.remove(client);
    assert_ne!(server.connect(), client, "it keeps its place");
    while server.engine.scripting.is_paused() {
        server.engine.end_iteration(true);
    }
    assert_eq!(server.ask(other, &["GET", "a"]), "$1\r\n2\r\n");
    assert_eq!(server.connect(), client, "its place is free");
}

#[test]
fn a_signal_kills_what_has_not_written_and_waits_for_what_has() {
    let mut server = busy_server(500, &[]);
    let client = server.connect();
    server.eval(client, "while true do end");
    server.engine.request_shutdown("shutdown-on-sigterm");
    assert!(server.engine.shutdown_requested().is_none() && server.engine.is_ending());
    server.engine.end_iteration(true);
    assert!(server.engine.shutdown_requested().is_some());

    let mut server = busy_server(500, &[]);
    let client = server.connect();
    server.eval(client, LONG);
    server.engine.request_shutdown("shutdown-on-sigterm");
    server.engine.end_iteration(true);
    assert!(server.engine.shutdown_requested().is_none(), "it has written");
    while server.engine.scripting.is_paused() {
        server.engine.end_iteration(true);
    }
    assert!(server.engine.shutdown_requested().is_some());
}

#[test]
fn half_of_a_script_does_not_become_durable_at_the_end() {
    let (mut server, log) = TestServer::with_log(&["--busy-reply-threshold", "10"]);
    let (client, other) = (server.connect(), server.connect());
    server.clock.us_per_look.store(1000, Ordering::Relaxed);
    let open = log.0.lock().unwrap().open;
    log.0.lock().unwrap().durable.store(open - 1, Ordering::Relaxed);
    server.eval(client, "redis.call('set', 'a', 1) while true do end");
    server.ask(other, &["SHUTDOWN", "NOSAVE"]);
    server.engine.close().unwrap();
    let log = log.0.lock().unwrap();
    assert_eq!((log.open, log.is_closed), (open, false), "its block was not sealed");
}

#[test]
fn a_transaction_whose_script_empties_a_database_has_a_block_of_its_own() {
    let source = "redis.call('flushall')";
    let load = request(&["SCRIPT", "LOAD", source]);
    for queued in [request(&["EVAL", source, "0"]), load] {
        let (mut server, log) = TestServer::with_log(&["--appendfsync", "no"]);
        let client = server.connect();
        server.engine.receive(client, b"SET a 1\r\n");
        let open = log.0.lock().unwrap().open;
        let all = [request(&["MULTI"]), queued, request(&["INCR", "b"]), request(&["EXEC"])];
        server.engine.receive(client, all.concat().as_bytes());
        assert_eq!(log.0.lock().unwrap().open, open + 1, "it was never seen before");
    }
}

#[test]
fn what_a_script_publishes_waits_for_what_it_knows() {
    for source in [
        "redis.call('set', 'x', 1) return redis.call('publish', 'c', 'm')",
        "return redis.call('publish', 'c', redis.call('get', 'y'))",
    ] {
        let (mut server, log) = TestServer::with_log(&["--appendfsync", "always"]);
        let (client, other, listener) = (server.connect(), server.connect(), server.connect());
        server.send(listener, "SUBSCRIBE c\r\n");
        server.send(other, "SET y m\r\n");
        server.eval(client, source);
        assert_eq!(server.read(listener), "", "{source}");
        log.0.lock().unwrap().durable.store(9, Ordering::Relaxed);
        server.engine.end_iteration(true);
        server.engine.log_advanced();
        server.engine.end_iteration(true);
        assert!(server.read(listener).ends_with("$1\r\nm\r\n"), "{source}");
    }
}

#[test]
fn a_client_that_has_gone_leaves_its_place_when_all_of_its_scripts_have_ended() {
    let mut server = busy_server(500, &[]);
    let (client, other) = (server.connect(), server.connect());
    let script = request(&["EVAL", LONG, "0"]);
    let queued = [request(&["MULTI"]), script.clone(), script, request(&["EXEC"])];
    server.send(client, &queued.concat());
    assert!(server.engine.end_of_input(client));
    server.engine.remove(client);
    for _ in 0..1000 {
        server.engine.end_iteration(true);
    }
    assert!(!server.engine.scripting.is_running());
    assert_eq!(server.ask(other, &["GET", "a"]), "$1\r\n4\r\n");
    assert_eq!(server.connect(), client, "its place is free");
}

#[test]
fn nothing_expires_while_a_script_is_paused() {
    let mut server = busy_server(500, &[]);
    let (client, other) = (server.connect(), server.connect());
    server.ask(client, &["SET", "k", "v", "PX", "60"]);
    server.eval(client, "for i = 1, 3000000 do end return redis.call('exists', 'k')");
    assert!(server.engine.scripting.is_paused());
    server.pass_ms(200);
    assert_eq!(server.ask(other, &["WATCH", "k"]), "+OK\r\n");
    let mut reply = String::new();
    for _ in 0..1000 {
        server.engine.end_iteration(true);
        reply.push_str(&server.read(client));
    }
    assert_eq!(reply, ":1\r\n", "its time stands still");
}

#[test]
fn half_of_a_transaction_does_not_become_durable_at_the_end() {
    let (mut server, log) = TestServer::with_log(&["--busy-reply-threshold", "10"]);
    let (client, other) = (server.connect(), server.connect());
    server.clock.us_per_look.store(1000, Ordering::Relaxed);
    let open = log.0.lock().unwrap().open;
    let queued = [
        request(&["MULTI"]),
        request(&["SET", "a", "1"]),
        request(&["EVAL", "while true do end", "0"]),
        request(&["EXEC"]),
    ];
    server.send(client, &queued.concat());
    assert!(server.engine.scripting.is_paused());
    log.0.lock().unwrap().durable.store(open - 1, Ordering::Relaxed);
    server.ask(other, &["SHUTDOWN", "NOSAVE"]);
    assert!(server.engine.close().is_ok());
    let log = log.0.lock().unwrap();
    assert!(log.open == open && !log.is_closed, "its block is not ended");
}

/// A table may hold the same one twice, so what a script returns may be as good as endless.
#[test]
fn a_reply_that_is_too_long_is_an_error_and_takes_no_memory() {
    for source in [
        "local t = {} for i = 1, 60 do t = {t, t} end return t",
        "local s = string.rep('x', 2^20) local t = {} for i = 1, 100000 do t[i] = s end return t",
    ] {
        let options = ["--client-output-buffer-limit", "normal 1mb 0 0"];
        let mut server = TestServer::new(&options);
        let client = server.connect();
        let reply = server.eval(client, source);
        assert!(reply.starts_with("-ERR the reply of the script is longer"), "{reply:.100}");
    }
}
