//! CLIENT TRACKING: what a client is told that keeps copies, and when.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::restoring::{cold_server, cold_string};
use super::scripting::{Scripted, busy_server, request};
use super::server::{SharedLog, TestServer, host_of};
use crate::engine::{ClientKey, Comeback};

const INVALIDATE: &str = ">2\r\n$10\r\ninvalidate\r\n";

/// The message that these keys have changed.
fn told(keys: &[&str]) -> String {
    let keys: String = keys.iter().map(|key| format!("${}\r\n{key}\r\n", key.len())).collect();
    format!("{INVALIDATE}*{}\r\n{keys}", keys.matches('$').count())
}

fn told_of_all() -> String {
    format!("{INVALIDATE}_\r\n")
}

/// A client that speaks RESP3 and tracks.
fn tracker(server: &mut TestServer, options: &str) -> ClientKey {
    let client = server.connect();
    let replies = server.send(client, &format!("HELLO 3\r\nCLIENT TRACKING ON {options}\r\n"));
    assert!(replies.ends_with("+OK\r\n"), "{replies}");
    client
}

fn become_durable(server: &mut TestServer, log: &SharedLog, block: u64) {
    log.0.lock().unwrap().durable.store(block, Ordering::Relaxed);
    server.engine.log_advanced();
}

/// All blocks that have ended are durable.
fn catch_up(server: &mut TestServer, log: &SharedLog) {
    let open = log.0.lock().unwrap().open;
    become_durable(server, log, open - 1);
}

#[test]
fn a_change_is_told_when_it_is_durable_and_not_before() {
    for options in ["", "BCAST"] {
        let (mut server, log) = TestServer::with_log(&[]);
        let (client, writer, reader) =
            (tracker(&mut server, options), server.connect(), server.connect());
        assert_eq!(server.send(client, "GET a\r\n"), "_\r\n");
        assert_eq!(server.send(writer, "SET a 1\r\n"), "");
        assert_eq!(server.read(client), "", "{options}: no other client may see it");
        assert_eq!(server.send(reader, "GET a\r\n"), "");
        become_durable(&mut server, &log, 1);
        assert_eq!(server.read(client), told(&["a"]), "{options}");
        assert_eq!(server.read(reader), "$1\r\n1\r\n");
    }
}

#[test]
fn a_change_is_told_behind_the_old_value_and_before_the_new_one() {
    let (mut server, log) = TestServer::with_log(&[]);
    let (client, writer) = (tracker(&mut server, ""), server.connect());
    server.send(writer, "SET a 1\r\n");
    assert_eq!(server.send(client, "GET a\r\n"), "", "it may be lost");
    server.send(writer, "SET a 2\r\n");
    assert_eq!(server.send(client, "GET a\r\n"), "");
    become_durable(&mut server, &log, 1);
    assert_eq!(server.read(client), "$1\r\n1\r\n");
    become_durable(&mut server, &log, 2);
    assert_eq!(server.read(client), told(&["a"]) + "$1\r\n2\r\n");
    // The new value is tracked, too.
    server.send(writer, "SET a 3\r\n");
    become_durable(&mut server, &log, 3);
    assert_eq!(server.read(client), told(&["a"]));
}

#[test]
fn changes_of_two_blocks_are_told_each_with_its_own() {
    let (mut server, log) = TestServer::with_log(&[]);
    let (client, writer) = (tracker(&mut server, "BCAST"), server.connect());
    server.send(writer, "SET z 0\r\n");
    become_durable(&mut server, &log, 1);
    server.read(client);
    // FLUSHALL begins a block of its own, in the same iteration.
    server.send(writer, "SET a 1\r\nFLUSHALL\r\nSET b 1\r\n");
    become_durable(&mut server, &log, 2);
    let first = server.read(client);
    assert_eq!(first, told(&["a"]));
    become_durable(&mut server, &log, 3);
    assert_eq!(server.read(client), told_of_all() + &told(&["b"]));
}

#[test]
fn with_less_than_always_a_change_is_told_when_it_is_written() {
    let (mut server, log) = TestServer::with_log(&["--appendfsync", "everysec"]);
    log.0.lock().unwrap().holds_writes = true;
    let (client, writer) = (tracker(&mut server, ""), server.connect());
    server.send(client, "GET a\r\n");
    server.send(writer, "SET a 1\r\n");
    assert_eq!(server.read(client), "");
    log.0.lock().unwrap().holds_writes = false;
    server.engine.log_advanced();
    assert_eq!(server.read(client), told(&["a"]));
}

/// It reads what may be lost, so it is told of it as early.
#[test]
fn a_client_that_asks_for_less_is_told_when_it_may_see_a_change() {
    let (mut server, _log) = TestServer::with_log(&[]);
    let (client, writer) = (tracker(&mut server, ""), server.connect());
    assert_eq!(server.send(client, "CLIENT DURABILITY no\r\nGET a\r\n"), "+OK\r\n_\r\n");
    assert_eq!(server.send(writer, "SET a 1\r\n"), "");
    assert_eq!(server.send(client, "GET a\r\n"), told(&["a"]) + "$1\r\n1\r\n");
}

#[test]
fn a_script_and_a_transaction_are_told_when_all_of_them_is_durable() {
    let script = request(&["EVAL", "return redis.call('set', 'a', 1)", "0"]);
    for write in [script.as_str(), "MULTI\r\nSET a 1\r\nEXEC\r\n"] {
        for options in ["", "BCAST"] {
            let (mut server, log) = TestServer::with_log(&[]);
            let (client, writer) = (tracker(&mut server, options), server.connect());
            server.send(client, "GET a\r\n");
            server.send(writer, write);
            assert_eq!(server.read(client), "", "{write}");
            become_durable(&mut server, &log, 9);
            server.engine.end_iteration(true);
            assert_eq!(server.read(client), told(&["a"]), "{write}");
        }
    }
}

#[test]
fn what_expires_and_what_is_flushed_is_told() {
    let (mut server, log) = TestServer::with_log(&[]);
    let (client, writer) = (tracker(&mut server, "NOLOOP"), server.connect());
    server.send(client, "SET a 1 PX 100\r\nGET a\r\n");
    catch_up(&mut server, &log);
    assert_eq!(server.read(client), "+OK\r\n$1\r\n1\r\n");
    // Its own read finds out, and it has not wished that.
    server.clock_ms(200);
    assert_eq!(server.send(client, "GET a\r\n"), "");
    catch_up(&mut server, &log);
    assert_eq!(server.read(client), "_\r\n".to_owned() + &told(&["a"]));
    server.send(client, "SET b 1 PX 100\r\nGET b\r\n");
    catch_up(&mut server, &log);
    server.read(client);
    server.pass_ms(200);
    assert_eq!(server.read(client), "", "the deletion is not durable");
    catch_up(&mut server, &log);
    assert_eq!(server.read(client), told(&["b"]));
    for command in ["FLUSHALL", "SWAPDB 0 1"] {
        assert_eq!(server.send(writer, &format!("SET c 1\r\n{command}\r\n")), "");
        assert_eq!(server.read(client), "", "{command}");
        catch_up(&mut server, &log);
        assert_eq!(server.read(writer), "+OK\r\n+OK\r\n");
        assert_eq!(server.read(client), told_of_all(), "{command}");
    }
}

#[test]
fn a_client_is_told_of_its_own_changes_behind_the_reply() {
    let mut server = TestServer::new(&[]);
    let client = tracker(&mut server, "");
    assert_eq!(
        server.send(client, "GET a\r\nSET a 1\r\n"),
        "_\r\n+OK\r\n".to_owned() + &told(&["a"])
    );
    let transaction = server.send(client, "GET a\r\nMULTI\r\nSET a 2\r\nGET b\r\nEXEC\r\n");
    assert!(transaction.ends_with(&("*2\r\n+OK\r\n_\r\n".to_owned() + &told(&["a"]))));
    // A command that waits replies first, too; even if the client wants no reply.
    server.send(client, "LRANGE l 0 -1\r\nBLMOVE s l LEFT LEFT 0\r\n");
    let other = server.connect();
    server.send(other, "RPUSH s x\r\n");
    assert_eq!(server.read(client), "$1\r\nx\r\n".to_owned() + &told(&["l"]));
    server.send(client, "LRANGE l 0 -1\r\nCLIENT REPLY OFF\r\nBLMOVE s l LEFT LEFT 0\r\n");
    server.read(client);
    server.send(other, "RPUSH s y\r\n");
    assert_eq!(server.read(client), told(&["l"]));
    assert_eq!(server.send(client, "CLIENT REPLY ON\r\nPING\r\n"), "+OK\r\n+PONG\r\n");
}

#[test]
fn a_client_with_noloop_is_told_of_the_changes_of_others() {
    let mut server = TestServer::new(&[]);
    for options in ["NOLOOP", "NOLOOP BCAST"] {
        let (client, other) = (tracker(&mut server, options), server.connect());
        server.send(client, "MGET a b\r\n");
        assert_eq!(server.send(client, "SET a 1\r\n"), "+OK\r\n");
        server.send(other, "SET b 1\r\n");
        assert_eq!(server.read(client), told(&["b"]));
        server.engine.remove(client);
    }
}

#[test]
fn of_a_script_that_reads_the_declared_keys_are_remembered() {
    let mut server = TestServer::new(&[]);
    let (client, other) = (tracker(&mut server, ""), server.connect());
    server.ask(client, &["EVAL", "return redis.call('set', 'x', 1)", "2", "a", "b"]);
    server.send(other, "SET a 1\r\n");
    assert_eq!(server.read(client), "");
    server.ask(client, &["EVAL", "return redis.call('get', 'x')", "2", "a", "b"]);
    server.send(other, "MSET b 1 a 1 x 1\r\n");
    assert_eq!(server.read(client), told(&["b"]) + &told(&["a"]));
    // What it writes itself is old again, and is remembered with the next read.
    let script = "redis.call('get', 'a') redis.call('set', 'a', 1) redis.call('set', 'a', 2)";
    let own = "_\r\n".to_owned() + &told(&["a"]);
    assert_eq!(server.ask(client, &["EVAL", script, "1", "a"]), own);
    server.send(other, "SET a 3\r\n");
    assert_eq!(server.read(client), "");
    let script = format!("{script} redis.call('get', 'b')");
    assert_eq!(server.ask(client, &["EVAL", &script, "1", "a"]), own);
    server.send(other, "SET a 3\r\n");
    assert_eq!(server.read(client), told(&["a"]));
}

/// For the connection the command of its client has ended when it is left for the first time.
#[test]
fn a_script_that_runs_for_long_remembers_what_it_reads_by_the_word_before_it() {
    let mut server = busy_server(500, &[]);
    let (client, other) = (tracker(&mut server, "OPTIN"), server.connect());
    server.send(client, "CLIENT CACHING YES\r\n");
    let source = "for i = 1, 3000000 do end return redis.call('get', 'a')";
    let mut reply = server.ask(client, &["EVAL", source, "1", "a"]);
    assert!(server.engine.scripting.is_paused());
    for _ in 0..1000 {
        server.engine.end_iteration(true);
        reply.push_str(&server.read(client));
    }
    assert_eq!(reply, "_\r\n");
    server.send(other, "SET a 1\r\n");
    assert_eq!(server.read(client), told(&["a"]));
    assert_eq!(server.send(client, "GET a\r\n"), "$1\r\n1\r\n");
    server.send(other, "SET a 2\r\n");
    assert_eq!(server.read(client), "", "the word was for the script");
}

#[test]
fn the_table_has_as_many_keys_as_it_may_and_what_goes_is_told() {
    let mut server = TestServer::new(&["--tracking-table-max-keys", "10"]);
    let (client, other) = (tracker(&mut server, "NOLOOP"), server.connect());
    let figures = |server: &mut TestServer| {
        let info = server.send(other, "INFO\r\n");
        let of = |name: &str| {
            let line = info.lines().find(|line| line.starts_with(&format!("tracking_{name}:")));
            line.unwrap().split(':').nth(1).unwrap().parse::<usize>().unwrap()
        };
        (of("clients"), of("total_keys"), of("total_items"), of("total_prefixes"))
    };
    let names: Vec<String> = (0..500).map(|number| format!("key:{number}")).collect();
    server.send(client, &format!("MGET {}\r\n", names.join(" ")));
    assert_eq!(figures(&mut server).1, 400, "a hundred at first");
    server.pass_ms(1000);
    server.pass_ms(1000);
    assert_eq!(figures(&mut server), (1, 10, 10, 0));
    let news = server.read(client);
    assert_eq!(news.matches(INVALIDATE).count(), 490);
    // Whatever has not been told of is still there.
    let kept: Vec<&String> =
        names.iter().filter(|name| !news.contains(&format!("\r\n{name}\r\n"))).collect();
    for name in kept {
        server.send(other, &format!("SET {name} 1\r\n"));
        assert_eq!(server.read(client), told(&[name]));
    }
    tracker(&mut server, "BCAST PREFIX x PREFIX y");
    server.send(client, "GET a\r\n");
    assert_eq!(figures(&mut server), (2, 1, 1, 2));
    assert_eq!(server.send(client, "RESET\r\n"), "+RESET\r\n");
    assert_eq!(figures(&mut server).0, 1);
    assert_eq!(server.send(other, "CONFIG SET tracking-table-max-keys 0\r\n"), "+OK\r\n");
}

#[test]
fn nothing_is_kept_when_the_last_client_has_gone() {
    let mut server = TestServer::new(&[]);
    server.pass_ms(1);
    let (client, other) = (tracker(&mut server, ""), server.connect());
    let names: Vec<String> = (0..5000).map(|number| format!("key:{number}")).collect();
    server.send(client, &format!("MGET {}\r\n", names.join(" ")));
    server.engine.remove(client);
    let info = server.send(other, "INFO stats\r\n");
    assert!(info.contains("tracking_total_keys:0\r\ntracking_total_items:0\r\n"), "{info}");
    // Its memory goes in slices; until then nothing sleeps.
    assert_eq!(server.engine.until_next_event_us(), 0);
    for _ in 0..3 {
        server.engine.end_iteration(true);
    }
    assert!(server.engine.until_next_event_us() > 0);
    // Its place is another one's, that has not asked.
    let next = server.connect();
    server.send(next, "HELLO 3\r\n");
    server.send(other, "SET key:1 1\r\n");
    assert_eq!(server.read(next), "");
}

#[test]
fn a_client_is_told_in_the_place_of_another() {
    let mut server = TestServer::new(&[]);
    let (client, listener, other) = (server.connect(), server.connect(), server.connect());
    let id = server.send(listener, "CLIENT ID\r\n");
    let id = id.trim_start_matches(':').trim_end();
    server.send(client, &format!("CLIENT TRACKING ON REDIRECT {id}\r\nGET a\r\n"));
    server.send(other, "SET a 1\r\n");
    assert_eq!(server.read(listener), "", "it does not listen");
    server.send(listener, "SUBSCRIBE __redis__:invalidate\r\n");
    server.send(client, "GET a\r\n");
    server.send(other, "SET a 1\r\n");
    let message = "*3\r\n$7\r\nmessage\r\n$20\r\n__redis__:invalidate\r\n";
    assert_eq!(server.read(listener), format!("{message}*1\r\n$1\r\na\r\n"));
    server.send(other, "FLUSHDB\r\n");
    assert_eq!(server.read(listener), format!("{message}$-1\r\n"));
    let line = server.send(client, "CLIENT INFO\r\n");
    assert!(line.contains(" flags=t ") && line.contains(&format!(" redir={id} ")), "{line}");
    // One that is about to end will tell nothing.
    server.send(client, "HELLO 3\r\nGET a\r\n");
    server.send(listener, "QUIT\r\n");
    server.send(other, "SET a 1\r\n");
    assert_eq!(server.read(client), format!(">2\r\n$21\r\ntracking-redir-broken\r\n:{id}\r\n"));
    let line = server.send(client, "CLIENT INFO\r\n");
    assert!(line.contains(" flags=tR "), "{line}");
    let refusal = server.send(client, &format!("CLIENT TRACKING ON REDIRECT {id}\r\n"));
    assert_eq!(refusal, "-ERR The client ID you want redirect to does not exist\r\n");
    server.send(other, "CLIENT TRACKING ON BCAST\r\n");
    assert!(server.send(other, "CLIENT INFO\r\n").contains(" flags=tB "));
}

/// What is behind it in the same connection would be taken for a part of the reply.
#[test]
fn no_message_lies_in_the_reply_of_a_transaction() {
    let mut server = TestServer::new(&[]);
    let (client, reader) = (server.connect(), server.connect());
    server.send(client, "HELLO 3\r\n");
    let id = server.send(client, "CLIENT ID\r\n");
    let redirect = format!("CLIENT TRACKING ON REDIRECT {}\r\n", id[1..].trim_end());
    server.send(reader, &format!("{redirect}GET a\r\n"));
    let replies = server.send(client, "MULTI\r\nSET a 1\r\nFLUSHALL\r\nPING\r\nEXEC\r\n");
    let wanted = "*3\r\n+OK\r\n+OK\r\n+PONG\r\n".to_owned() + &told(&["a"]) + &told_of_all();
    assert!(replies.ends_with(&wanted), "{replies}");
}

#[test]
fn a_client_that_does_not_read_is_disconnected() {
    let options = ["--client-output-buffer-limit", "normal", "64kb", "0", "0"];
    let mut server = TestServer::new(&options);
    let (client, other) = (tracker(&mut server, "BCAST"), server.connect());
    let name = "x".repeat(1000);
    for number in 0..100 {
        server.send(other, &format!("SET {name}{number} 1\r\n"));
    }
    assert!(server.ends(client));
}

#[test]
fn what_changes_nothing_is_not_told() {
    let mut server = TestServer::new(&[]);
    let (client, other) = (tracker(&mut server, "BCAST"), server.connect());
    for command in ["EXISTS a", "GET a", "DEL a", "EXPIRE a 1", "SETRANGE a 0 \"\"", "OBJECT HELP"]
    {
        server.send(other, &format!("{command}\r\n"));
        assert_eq!(server.read(client), "", "{command}");
    }
}

#[test]
fn what_comes_back_into_memory_has_not_changed() {
    let (mut server, said) = cold_server(TestServer::with_log(&[]), 2);
    let client = tracker(&mut server, "BCAST");
    said.say(cold_string(b"k", b"value", 0));
    said.say(Comeback::Done);
    server.pass_ms(1);
    assert_eq!(server.send(client, "GET k\r\n"), "$5\r\nvalue\r\n");
}

#[test]
fn what_is_evicted_is_told_before_the_reply() {
    let used = Arc::new(AtomicU64::new(0));
    let words = ["--maxmemory", "1mb", "--maxmemory-policy", "allkeys-random"];
    let (mut server, log) = TestServer::with_log_on(host_of(&used), &words);
    let client = tracker(&mut server, "NOLOOP");
    server.send(client, "SET a 1\r\nGET a\r\n");
    become_durable(&mut server, &log, 1);
    server.read(client);
    used.store(2 << 20, Ordering::Relaxed);
    assert_eq!(server.send(client, "PING\r\n"), "", "the deletion is not durable");
    become_durable(&mut server, &log, 2);
    assert_eq!(server.read(client), told(&["a"]) + "+PONG\r\n");
}
