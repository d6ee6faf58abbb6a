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
