//! The string commands that Redis 7.0 lacks. The replies are those that Redis' and Valkey's own tests and
//! documentation tell of.

use crate::session::Session;

const WRONG_TYPE: &str = "-WRONGTYPE Operation against a key holding the wrong kind of value";

#[track_caller]
fn replies(session: &mut Session, calls: &[(&str, &str)]) {
    for (line, reply) in calls {
        assert_eq!(session.run(line), *reply, "{line}");
    }
}

#[test]
fn a_value_is_replaced_if_it_is_or_is_not_a_given_one() {
    replies(
        &mut Session::new(),
        &[
            ("SET k v IFEQ x", "$-1"),
            ("EXISTS k", ":0"),
            ("SET k v IFNE x", "+OK"),
            ("SET k w IFNE v", "$-1"),
            ("SET k w IFEQ x", "$-1"),
            ("GET k", "$1 v"),
            ("SET k w IfEq v EX 10", "+OK"),
            ("TTL k", ":10"),
            ("SET k 12 IFEQ w KEEPTTL", "+OK"),
            ("TTL k", ":10"),
            ("SET k 13 IFEQ 012", "$-1"),
            ("SET k 13 IFEQ 12", "+OK"),
            ("TTL k", ":-1"),
            ("SET k v IFEQ x IFEQ 13", "+OK"),
            ("SET k x IFEQ v GET", "$1 v"),
            ("SET k y IFEQ v GET", "$1 x"),
            ("GET k", "$1 x"),
            ("SET new v IFEQ v GET", "$-1"),
            ("EXISTS new", ":0"),
            ("SET new v IFNE v GET", "$-1"),
            ("GET new", "$1 v"),
            ("SET k v IFEQ", "-ERR syntax error"),
            ("SET k v IFEQ x NX", "-ERR syntax error"),
            ("SET k v XX IFEQ x", "-ERR syntax error"),
            ("SET k v IFEQ x IFNE x", "-ERR syntax error"),
            ("SET k v NX XX", "-ERR syntax error"),
            ("SET k v NX NX", "$-1"),
            ("SET k v IFEQ x EX 0", "-ERR invalid expire time in 'set' command"),
            ("RPUSH list x", ":1"),
            ("SET list v IFEQ x", WRONG_TYPE),
            ("SET list v IFNE x", WRONG_TYPE),
            ("SET list v IFNE x GET", WRONG_TYPE),
            ("LLEN list", ":1"),
        ],
    );
}

#[test]
fn a_value_of_many_bytes_is_compared_with_all_of_them() {
    let mut session = Session::new();
    let (long, longer) = ("x".repeat(10_000), "x".repeat(10_001));
    session.run(&format!("SET k {long}"));
    assert_eq!(session.run(&format!("DELEX k IFEQ {longer}")), ":0");
    assert_eq!(session.run(&format!("SET k {longer} IFEQ {long}")), "+OK");
    assert_eq!(session.run(&format!("DELEX k IFNE {longer}")), ":0");
    assert_eq!(session.run(&format!("DELEX k IFEQ {longer}")), ":1");
}

#[test]
fn a_key_is_deleted_if_its_value_is_or_is_not_a_given_one() {
    const NOT_A_STRING: &str = "-ERR Key should be of string type if conditions are specified";
    const NO_CONDITION: &str = "-ERR Invalid condition. Use IFEQ or IFNE";
    const ARITY: &str = "-ERR wrong number of arguments for 'delex' command";
    let mut session = Session::new();
    replies(
        &mut session,
        &[
            ("DELEX k", ":0"),
            ("DELEX k IFEQ v", ":0"),
            ("DELEX k IFNE v", ":0"),
            ("DELEX k FOO v", ":0"),
            ("SET k 0123", "+OK"),
            ("DELEX k IFEQ 123", ":0"),
            ("DELEX k IFNE 0123", ":0"),
            ("DELEX k FOO v", NO_CONDITION),
            ("DELEX k NX v", NO_CONDITION),
            ("DELEX k IFEQ", ARITY),
            ("DELEX k IFEQ v more", ARITY),
            ("DELEX missing IFEQ", ARITY),
            ("DELEX k ifne 123", ":1"),
            ("SET k -999", "+OK"),
            ("DELEX k IFEQ -999", ":1"),
            ("EXISTS k", ":0"),
            ("HSET h f v", ":1"),
            ("DELEX h IFEQ v", NOT_A_STRING),
            ("DELEX h FOO v", NOT_A_STRING),
            ("DELEX h", ":1"),
            ("EXISTS h", ":0"),
            ("DELIFEQ k v", ":0"),
            ("SET k v", "+OK"),
            ("DELIFEQ k w", ":0"),
            ("DELIFEQ k v", ":1"),
            ("DELIFEQ k v", ":0"),
            ("SADD s v", ":1"),
            ("DELIFEQ s v", WRONG_TYPE),
        ],
    );
}

#[test]
fn conditions_tell_of_what_they_let_happen() {
    let mut session = Session::new();
    session.run("SET k v");
    session.events();
    session.run("SET k w IFEQ x");
    session.run("DELEX k IFEQ x");
    session.run("DELIFEQ k x");
    assert_eq!(session.events(), [""; 0]);
    session.run("SET k w IFEQ v PX 500");
    session.run("DELEX k IFEQ w");
    assert_eq!(session.events(), ["set k", "expire k", "del k"]);
    session.run("SET k v PX 500");
    session.now_ms += 500;
    session.events();
    assert_eq!(session.run("SET k w IFEQ v"), "$-1");
    assert_eq!(session.events(), ["expired k"]);
}

#[test]
fn several_keys_are_set_at_once_with_an_expiry() {
    const NO_COUNT: &str = "-ERR invalid numkeys value";
    const TOO_FEW: &str = "-ERR wrong number of key-value pairs";
    const SYNTAX: &str = "-ERR syntax error";
    let mut session = Session::new();
    replies(
        &mut session,
        &[
            ("MSETEX 2 a 1 b 2", ":1"),
            ("MGET a b", "*2 $1 1 $1 2"),
            ("MSETEX 2 a 3 c 4 NX EX 10", ":0"),
            ("MSETEX 2 a 3 c 4 xx", ":0"),
            ("MGET a c", "*2 $1 1 $-1"),
            ("MSETEX 2 c 3 d 4 ex 10 nx", ":1"),
            ("TTL c", ":10"),
            ("TTL d", ":10"),
            ("MSETEX 2 c 5 d 6 XX KEEPTTL", ":1"),
            ("MGET c d", "*2 $1 5 $1 6"),
            ("TTL d", ":10"),
            ("MSETEX 1 d 7", ":1"),
            ("TTL d", ":-1"),
            ("MSETEX 2 e 1 e 2 NX PX 1500", ":1"),
            ("GET e", "$1 2"),
            ("PTTL e", ":1500"),
            ("MSETEX 1 f 1 EXAT 1700000100", ":1"),
            ("TTL f", ":100"),
            ("MSETEX 1 f 1 PXAT 1700000050000", ":1"),
            ("PTTL f", ":50000"),
            ("MSETEX 1 f 1 PX 5 PX 6", ":1"),
            ("PTTL f", ":6"),
            ("RPUSH list x", ":1"),
            ("MSETEX 2 list 1 list2 2 NX", ":0"),
            ("MSETEX 1 list 1 XX", ":1"),
            ("GET list", "$1 1"),
            ("MSETEX a 1 b 2", NO_COUNT),
            ("MSETEX 0 a 1", NO_COUNT),
            ("MSETEX -1 a 1", NO_COUNT),
            ("MSETEX 2147483648 a 1", NO_COUNT),
            ("MSETEX 2147483647 a 1", TOO_FEW),
            ("MSETEX 2 a 1 b", TOO_FEW),
            ("MSETEX 1 a 1 b 2", SYNTAX),
            ("MSETEX 1 a 1 GET", SYNTAX),
            ("MSETEX 1 a 1 IFEQ 1", SYNTAX),
            ("MSETEX 1 a 1 NX XX", SYNTAX),
            ("MSETEX 1 a 1 EX 1 PX 1", SYNTAX),
            ("MSETEX 1 a 1 KEEPTTL EX 1", SYNTAX),
            ("MSETEX 1 a 1 EX", SYNTAX),
            ("MSETEX 1 a 1 EX x", "-ERR value is not an integer or out of range"),
            ("MSETEX 1 a 1 EX 0", "-ERR invalid expire time in 'msetex' command"),
        ],
    );
    session.events();
    session.run("MSETEX 2 a 1 b 2 PX 5");
    assert_eq!(session.events(), ["set a", "expire a", "set b", "expire b"]);
    session.now_ms += 5;
    assert_eq!(session.run("EXISTS a b"), ":0");
}
