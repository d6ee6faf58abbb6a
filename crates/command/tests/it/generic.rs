//! Commands on keys of any type. The replies are a Redis 7.0 server's.

use keyspace::EvictionPolicy;

use crate::session::{START_MS, Session};

#[test]
fn keys_are_counted_deleted_and_touched() {
    let mut session = Session::new();
    session.run("SET a 1");
    session.run("SET b 2");
    assert_eq!(session.run("EXISTS a a b c"), ":3");
    assert_eq!(session.run("TOUCH a c"), ":1");
    assert_eq!(session.run("DBSIZE"), ":2");
    assert_eq!(session.run("TYPE a"), "+string");
    assert_eq!(session.run("TYPE c"), "+none");
    session.events();
    assert_eq!(session.run("DEL a c"), ":1");
    assert_eq!(session.run("UNLINK b"), ":1");
    assert_eq!(session.events(), ["del a", "del b"]);
    assert_eq!(session.run("RANDOMKEY"), "$-1");
}

#[test]
fn renaming_takes_value_and_expiry_along() {
    let mut session = Session::new();
    session.run("SET a 1");
    session.run("PEXPIRE a 500");
    session.run("SET b 2");
    session.events();
    assert_eq!(session.run("RENAME a b"), "+OK");
    assert_eq!(session.events(), ["rename_from a", "rename_to b"]);
    assert_eq!(session.run("GET b"), "$1 1");
    assert_eq!(session.run("PTTL b"), ":500");
    assert_eq!(session.run("RENAME a b"), "-ERR no such key");
    assert_eq!(session.run("RENAMENX a b"), "-ERR no such key");
    session.run("SET c 3");
    assert_eq!(session.run("RENAMENX b c"), ":0");
    assert_eq!(session.run("RENAMENX b b"), ":0");
    assert_eq!(session.run("RENAME b b"), "+OK");
    assert_eq!(session.run("RENAMENX b d"), ":1");
}

#[test]
fn copies_stand_alone() {
    let mut session = Session::new();
    session.run("SET a 1");
    session.run("PEXPIRE a 500");
    assert_eq!(session.run("COPY a b"), ":1");
    assert_eq!(session.run("COPY a b"), ":0");
    assert_eq!(session.run("COPY a b REPLACE"), ":1");
    assert_eq!(session.run("COPY nope b REPLACE"), ":0");
    assert_eq!(session.run("COPY a a DB 3"), ":1");
    assert_eq!(session.run("COPY a a"), "-ERR source and destination objects are the same");
    assert_eq!(session.run("COPY a b DB 16"), "-ERR DB index is out of range");
    assert_eq!(session.run("COPY a b DB x"), "-ERR value is not an integer or out of range");
    assert_eq!(session.run("COPY a b DB"), "-ERR syntax error");
    session.run("SET a changed");
    session.db = session.keyspace.database(3).expect("there are sixteen");
    assert_eq!(session.run("GET a"), "$1 1");
    assert_eq!(session.run("PTTL a"), ":500");
}

#[test]
fn moving_needs_a_free_name_in_another_database() {
    let mut session = Session::new();
    session.run("SET a 1");
    assert_eq!(session.run("MOVE a 0"), "-ERR source and destination objects are the same");
    assert_eq!(session.run("MOVE a 16"), "-ERR DB index is out of range");
    assert_eq!(session.run("MOVE a -1"), "-ERR DB index is out of range");
    assert_eq!(
        session.run("MOVE a 3000000000"),
        "-ERR value is out of range, value must between -2147483648 and 2147483647"
    );
    session.events();
    assert_eq!(session.run("MOVE a 5"), ":1");
    assert_eq!(session.events(), ["move_from a", "move_to a"]);
    assert_eq!(session.run("MOVE a 5"), ":0");
    session.run("SET a 2");
    assert_eq!(session.run("MOVE a 5"), ":0");
    assert_eq!(session.run("GET a"), "$1 2");
}

#[test]
fn keys_lists_what_matches_and_has_not_expired() {
    let mut session = Session::new();
    for key in ["hello", "hallo", "hxllo", "other"] {
        session.run(&format!("SET {key} v"));
    }
    session.run("PEXPIRE hallo 10");
    session.now_ms += 10;
    assert_eq!(session.run("KEYS h[ae]llo"), "*1 $5 hello");
    assert!(session.run("KEYS *").starts_with("*3 "));
    session.run_arguments(&[b"SET", b"", b"v"]);
    assert!(session.run("KEYS *").starts_with("*4 "));
    assert!(session.run("KEYS **").starts_with("*3 "));
}

#[test]
fn objects_tell_encoding_and_use() {
    let mut session = Session::new();
    session.run("SET a 12");
    session.now_ms += 5_000;
    assert_eq!(session.run("OBJECT ENCODING a"), "$3 int");
    assert_eq!(session.run("OBJECT IDLETIME a"), ":5");
    assert_eq!(session.run("OBJECT REFCOUNT a"), ":2147483647");
    session.run("SET a 10000");
    assert_eq!(session.run("OBJECT REFCOUNT a"), ":1");
    session.run("SET a text");
    assert_eq!(session.run("OBJECT REFCOUNT a"), ":1");
    assert!(
        session.run("OBJECT FREQ a").starts_with("-ERR An LFU maxmemory policy is not selected")
    );
    for sub in ["ENCODING", "REFCOUNT", "IDLETIME", "FREQ"] {
        assert_eq!(session.run(&format!("OBJECT {sub} nope")), "$-1");
    }
    assert!(session.run("OBJECT HELP").starts_with("*15 +OBJECT <subcommand>"));
    assert_eq!(session.run("OBJECT nope a"), "-ERR unknown subcommand 'nope'. Try OBJECT HELP.");
}

#[test]
fn expiry_is_set_read_and_removed() {
    let mut session = Session::new();
    session.run("SET a 1");
    assert_eq!(session.run("TTL a"), ":-1");
    assert_eq!(session.run("TTL nope"), ":-2");
    assert_eq!(session.run("PEXPIRE a 1499"), ":1");
    assert_eq!(session.run("TTL a"), ":1");
    assert_eq!(session.run("PTTL a"), ":1499");
    assert_eq!(session.run("PEXPIRETIME a"), format!(":{}", START_MS + 1499));
    assert_eq!(session.run("EXPIRETIME a"), format!(":{}", (START_MS + 1499 + 500) / 1000));
    assert_eq!(session.run("PERSIST a"), ":1");
    assert_eq!(session.run("PERSIST a"), ":0");
    assert_eq!(session.run("EXPIRETIME a"), ":-1");
    assert_eq!(session.run(&format!("EXPIREAT a {}", START_MS / 1000 + 2)), ":1");
    session.now_ms += 2_000;
    session.events();
    assert_eq!(session.run("GET a"), "$-1");
    assert_eq!(session.events(), ["expired a"]);
    assert_eq!(session.run("EXPIRE a 1"), ":0");
}

#[test]
fn a_time_that_has_come_deletes() {
    let mut session = Session::new();
    session.run("SET a 1");
    session.events();
    assert_eq!(session.run("EXPIRE a -1"), ":1");
    assert_eq!(session.events(), ["del a"]);
    assert_eq!(session.run("EXISTS a"), ":0");
}

#[test]
fn expiry_has_conditions() {
    let mut session = Session::new();
    session.run("SET a 1");
    assert_eq!(session.run("EXPIRE a 100 XX"), ":0");
    assert_eq!(session.run("EXPIRE a 100 GT"), ":0");
    assert_eq!(session.run("EXPIRE a 100 LT"), ":1");
    assert_eq!(session.run("EXPIRE a 200 NX"), ":0");
    assert_eq!(session.run("EXPIRE a 200 LT"), ":0");
    assert_eq!(session.run("EXPIRE a 100 GT"), ":0");
    assert_eq!(session.run("EXPIRE a 200 XX gt"), ":1");
    assert_eq!(session.run("TTL a"), ":200");
    assert_eq!(
        session.run("EXPIRE a 1 NX XX"),
        "-ERR NX and XX, GT or LT options at the same time are not compatible"
    );
    assert_eq!(
        session.run("EXPIRE a 1 GT LT"),
        "-ERR GT and LT options at the same time are not compatible"
    );
    assert_eq!(session.run("EXPIRE a 1 AB"), "-ERR Unsupported option AB");
    assert_eq!(session.run("EXPIRE a x"), "-ERR value is not an integer or out of range");
    assert_eq!(
        session.run("EXPIRE a 9223372036854775807"),
        "-ERR invalid expire time in 'expire' command"
    );
    assert_eq!(
        session.run("PEXPIRE a 9223372036854775807"),
        "-ERR invalid expire time in 'pexpire' command"
    );
}

/// The keys that a whole iteration returns, sorted.
fn scan_all(session: &mut Session, options: &str) -> Vec<String> {
    let mut keys = Vec::new();
    let mut cursor = "0".to_owned();
    loop {
        let reply = session.run(&format!("SCAN {cursor}{options}"));
        let mut words = reply.split(' ').filter(|word| !word.starts_with(['*', '$']));
        cursor = words.next().expect("a cursor").to_owned();
        keys.extend(words.map(str::to_owned));
        if cursor == "0" {
            keys.sort();
            return keys;
        }
    }
}

#[test]
fn scan_returns_every_key_once_while_nothing_changes() {
    let mut session = Session::new();
    let mut expected: Vec<String> = (0..1000).map(|n| format!("key:{n}")).collect();
    expected.sort();
    for key in &expected {
        session.run(&format!("SET {key} v"));
    }
    assert_eq!(scan_all(&mut session, ""), expected);
    assert_eq!(scan_all(&mut session, " COUNT 500"), expected);
    assert_eq!(scan_all(&mut session, " TYPE string"), expected);
    assert!(scan_all(&mut session, " TYPE list").is_empty());
    assert_eq!(scan_all(&mut session, " MATCH key:99?").len(), 10);
}

#[test]
fn scan_refuses_what_redis_refuses() {
    let mut session = Session::new();
    for cursor in ["x", "--1", "1x", "99999999999999999999"] {
        assert_eq!(session.run(&format!("SCAN {cursor}")), "-ERR invalid cursor");
    }
    assert_eq!(session.run("SCAN 0 COUNT 0"), "-ERR syntax error");
    assert_eq!(session.run("SCAN 0 COUNT x"), "-ERR value is not an integer or out of range");
    assert_eq!(session.run("SCAN 0 COUNT"), "-ERR syntax error");
    assert_eq!(session.run("SCAN 0 NOPE 1"), "-ERR syntax error");
    assert_eq!(session.run("SCAN 0"), "*2 $1 0 *0");
}

#[test]
fn looking_without_using_counts_as_a_read() {
    let mut session = Session::new();
    session.run("SET a 1");
    session.events();
    session.keyspace.settings_mut().notify = keyspace::Notify::parse("Km").expect("known letters");
    let before = *session.keyspace.stats();
    for call in ["EXISTS a b", "TTL a", "TTL b", "TYPE a", "TYPE b"] {
        session.run(call);
    }
    let after = session.keyspace.stats();
    assert_eq!((after.hits - before.hits, after.misses - before.misses), (3, 3));
    assert_eq!(session.events(), ["keymiss b"; 3]);
}

/// To read a key is no use of it.
#[test]
fn keys_go_that_were_not_modified_for_the_longest_time() {
    let mut session = Session::new();
    session.keyspace.settings_mut().eviction = EvictionPolicy::AllKeysLrm;
    session.keyspace.settings_mut().eviction_samples = 200;
    for call in [
        "SET s v",
        "SET n 1",
        "RPUSH l a b",
        "HSET h f v",
        "SADD m a",
        "XADD x 1-0 f v",
        "XGROUP CREATE x g 0",
    ] {
        assert!(!session.run(call).starts_with('-'), "{call}");
    }
    for (call, key, is_changed) in [
        ("GET s", "s", false),
        ("TOUCH s n l h m x", "s", false),
        ("SETRANGE s 0 w", "s", true),
        ("SET s w KEEPTTL", "s", true),
        ("SETEX s 9000 w", "s", true),
        ("PERSIST s", "s", true),
        ("PERSIST s", "s", false),
        ("EXPIRE s 9000", "s", true),
        ("INCR n", "n", true),
        ("LRANGE l 0 -1", "l", false),
        ("LSET l 0 z", "l", true),
        ("LREM l 0 none", "l", false),
        ("HGETALL h", "h", false),
        ("HSET h g w", "h", true),
        ("HDEL h none", "h", false),
        ("SADD m a", "m", false),
        ("SREM m b", "m", false),
        ("SADD m b", "m", true),
        ("XRANGE x - +", "x", false),
        ("XREADGROUP GROUP g c STREAMS x >", "x", true),
        ("XADD x 2-0 f v", "x", true),
        ("COPY s t", "s", false),
        ("COPY l l2", "l2", true),
        ("RENAME t u", "u", true),
    ] {
        session.now_ms += 100_000;
        assert!(!session.run(call).starts_with('-'), "{call}");
        let idle = session.run(&format!("OBJECT IDLETIME {key}"));
        assert_eq!(idle == ":0", is_changed, "{call}: {idle}");
    }
    // What is read is the first to go, as it was modified before all others.
    session.run("GET s");
    assert!(session.keyspace.evict_one());
    assert_eq!(session.run("EXISTS s n l h m x l2 u"), ":7");
    assert_eq!(session.run("EXISTS s"), ":0");
    // Of those that expire h is, although n and l were modified before it.
    session.keyspace.settings_mut().eviction = EvictionPolicy::VolatileLrm;
    session.run("EXPIRE h 900");
    session.now_ms += 100_000;
    session.run("EXPIRE u 900");
    for key in ["h", "u"] {
        session.run(&format!("TTL {key}"));
        assert!(session.keyspace.evict_one());
        assert_eq!(session.run(&format!("EXISTS {key}")), ":0");
    }
    assert!(!session.keyspace.evict_one());
}
