//! Fields of hashes that expire: calls, and what redis-server 8.2.3 replies to them and tells of keys.

use command::table;

use crate::session::Session;

/// Redis changes a small hash into the form that has times also when it sets none.
fn encoding(reply: &str) -> String {
    reply.replace("$10 listpackex", "$8 listpack")
}

#[test]
fn replies_and_events_are_those_of_redis() {
    let mut session = Session::new();
    let mut lines = include_str!("hash_expiry.txt").lines();
    let mut calls = 0;
    while let (Some(call), Some(expected), Some(events)) =
        (lines.next(), lines.next(), lines.next())
    {
        let call = call.strip_prefix("> ").expect("a call, its reply, its events");
        let words: Vec<&[u8]> = call.split(' ').map(str::as_bytes).collect();
        if call == "FLUSHALL" {
            session = Session::new();
            continue;
        }
        if table::resolve(&words).is_ok_and(|command| !command.accepts(words.len())) {
            // No handler sees it.
            assert!(expected.starts_with("-ERR wrong number of arguments"), "{call}");
            continue;
        }
        assert_eq!(encoding(&session.run(call)), encoding(expected), "{call}");
        assert_eq!(format!("= {}", session.events().join(", ")), events, "{call}");
        calls += 1;
    }
    assert!(calls > 3000, "{calls} calls");
}

/// A hash of which more fields have expired than are removed before a command sees it; `last` is due last.
fn much_has_expired() -> Session {
    let mut session = Session::new();
    session.run("RPUSH list h");
    session.run("HSET h stays 1 last 1");
    let names: Vec<String> = (0..20_000).map(|field| format!("f{field}")).collect();
    session.run(&format!("HSET h {} 1", names.join(" 1 ")));
    session.run(&format!("HPEXPIRE h 10 FIELDS 20000 {}", names.join(" ")));
    session.run("HPEXPIRE h 11 FIELDS 1 last");
    session.now_ms += 11;
    session
}

#[test]
fn what_a_command_says_is_gone_is_so_when_the_clock_goes_back() {
    for (call, reply) in [
        ("HGET h last", "$-1"),
        ("HMGET h last stays", "*2 $-1 $1 1"),
        ("HSTRLEN h last", ":0"),
        ("HEXISTS h last", ":0"),
        ("HDEL h last", ":0"),
        ("HTTL h FIELDS 1 last", "*1 :-2"),
        ("HEXPIRE h 100 FIELDS 1 last", "*1 :-2"),
        ("HPEXPIREAT h 1 XX FIELDS 1 last", "*1 :-2"),
        ("HPERSIST h FIELDS 1 last", "*1 :-2"),
        ("HGETDEL h FIELDS 1 last", "*1 $-1"),
        ("HGETEX h FIELDS 1 last", "*1 $-1"),
        ("HGETEX h PERSIST FIELDS 1 last", "*1 $-1"),
        ("HGETEX h EX 100 FIELDS 1 last", "*1 $-1"),
        ("HSETEX h FXX FIELDS 1 last 2", ":0"),
        ("HSETEX h FNX FIELDS 2 last 2 stays 2", ":0"),
        ("SORT list BY nosort GET *->last", "*1 $-1"),
        ("SORT list BY *->last GET #", "*1 $1 h"),
    ] {
        let mut session = much_has_expired();
        assert_eq!(session.run(call), reply, "{call}");
        session.now_ms -= 11;
        assert_eq!(session.run("HEXISTS h last"), ":0", "{call}");
        assert_ne!(session.run("HLEN h"), ":1", "{call}: no other one was looked for");
    }
}

#[test]
fn of_a_hash_of_which_nothing_is_left_there_is_no_payload() {
    let mut session = much_has_expired();
    assert!(session.run("DUMP h").starts_with('$'));
    session.run("HDEL h stays");
    assert_ne!(session.run("HLEN h"), ":0", "some are there, and not seen");
    assert_eq!(session.run("DUMP h"), "$-1");
}
