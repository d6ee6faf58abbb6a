//! The string commands that Redis 7.0 lacks. The replies are those that Redis' and Valkey's own tests and
//! documentation tell of.

use crate::session::{Session, replies};

const WRONG_TYPE: &str = "-WRONGTYPE Operation against a key holding the wrong kind of value";

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

#[test]
fn a_counter_stops_or_stays_at_its_bounds() {
    const CROSSED: &str = "-ERR LBOUND can't be greater than UBOUND";
    let mut session = Session::new();
    replies(
        &mut session,
        &[
            ("INCREX k", "*2 :1 :1"),
            ("INCREX k BYINT 9", "*2 :10 :9"),
            ("OBJECT ENCODING k", "$3 int"),
            ("INCREX k BYINT -10", "*2 :0 :-10"),
            ("INCREX k BYINT 0", "*2 :0 :0"),
            ("SET k 10", "+OK"),
            ("INCREX k BYINT 10 UBOUND 15", "*2 :10 :0"),
            ("GET k", "$2 10"),
            ("INCREX k BYINT 10 UBOUND 15 SATURATE", "*2 :15 :5"),
            ("INCREX k BYINT -10 LBOUND 5", "*2 :5 :-10"),
            ("INCREX k BYINT -1 LBOUND 5", "*2 :5 :0"),
            ("INCREX k LBOUND 0 BYINT 100 UBOUND 10 SATURATE", "*2 :10 :5"),
            ("SET k 50", "+OK"),
            ("INCREX k BYINT 5 UBOUND 30", "*2 :50 :0"),
            ("INCREX k BYINT -25 UBOUND 30", "*2 :25 :-25"),
            ("SET k 50", "+OK"),
            ("INCREX k BYINT 5 UBOUND 30 saturate", "*2 :30 :-20"),
            ("SET k -10", "+OK"),
            ("INCREX k BYINT -5 LBOUND 20 SATURATE", "*2 :20 :30"),
            ("SET k 9223372036854775800", "+OK"),
            ("INCREX k BYINT 9223372036854775800", "*2 :9223372036854775800 :0"),
            ("INCREX k BYINT 9223372036854775800 SATURATE", "*2 :9223372036854775807 :7"),
            (
                "INCREX k BYINT 1 SATURATE UBOUND -9223372036854775808",
                "-ERR applied increment would overflow",
            ),
            ("GET k", "$19 9223372036854775807"),
            ("SET k -9223372036854775801", "+OK"),
            ("INCREX k BYINT -10 SATURATE", "*2 :-9223372036854775808 :-7"),
            ("DEL k", ":1"),
            ("INCREX k BYINT 15 UBOUND 10", "*2 :0 :0"),
            ("INCREX k BYINT 5 LBOUND 10", "*2 :0 :0"),
            ("EXISTS k", ":0"),
            ("INCREX k UBOUND 0 SATURATE", "*2 :0 :0"),
            ("EXISTS k", ":1"),
            ("INCREX k LBOUND 20 UBOUND 0", CROSSED),
            ("INCREX k BYFLOAT 1 LBOUND 1.5 UBOUND 0.5 SATURATE", CROSSED),
            ("INCREX k BYINT 1.5", "-ERR Increment is not an integer or out of range"),
            ("INCREX k UBOUND inf", "-ERR UBOUND is not an integer or out of range"),
            ("INCREX k LBOUND abc", "-ERR LBOUND is not an integer or out of range"),
            ("SET k abc", "+OK"),
            ("INCREX k", "-ERR value is not an integer or out of range"),
            ("INCREX k BYFLOAT 1", "-ERR value is not a valid float"),
            ("RPUSH list x", ":1"),
            ("INCREX list", WRONG_TYPE),
            ("INCREX list BYFLOAT 1 EXAT 1", WRONG_TYPE),
        ],
    );
}

/// NX and XX of INCREX of Valkey 9.2: the calls of its own tests.
#[test]
fn a_counter_may_have_to_be_new_or_to_be_there() {
    const SYNTAX: &str = "-ERR syntax error";
    let mut session = Session::new();
    replies(
        &mut session,
        &[
            ("INCREX k NX", "*2 :1 :1"),
            ("INCREX k nx", "*2 :1 :0"),
            ("GET k", "$1 1"),
            ("INCREX k BYINT 5 XX", "*2 :6 :5"),
            ("INCREX k NX BYINT 9 UBOUND 3 SATURATE EX 100", "*2 :6 :0"),
            ("INCREX k NX EXAT 1", "*2 :6 :0"),
            ("INCREX k NX BYFLOAT 0.5 EX 100", "*2 $1 6 $1 0"),
            ("TTL k", ":-1"),
            ("INCREX k XX UBOUND 6 EX 100", "*2 :6 :0"),
            ("INCREX k XX EX 100 ENX", "*2 :7 :1"),
            ("INCREX k NX PERSIST", "*2 :7 :0"),
            ("TTL k", ":100"),
            ("SET k 0.1", "+OK"),
            ("INCREX k BYFLOAT 0.1 NX", "*2 $3 0.1 $1 0"),
            ("INCREX k XX BYFLOAT 0.1", "*2 $3 0.2 $3 0.1"),
            ("DEL k", ":1"),
            ("INCREX k xx", "*2 :0 :0"),
            ("INCREX k XX LBOUND 5 SATURATE", "*2 :0 :0"),
            ("INCREX k XX BYFLOAT 0.1", "*2 $1 0 $1 0"),
            ("INCREX k XX EXAT 1", "*2 :0 :0"),
            ("EXISTS k", ":0"),
            ("INCREX k NX EX 100 BYINT 3", "*2 :3 :3"),
            ("TTL k", ":100"),
            ("INCREX k NX EX 10 BYINT 3", "*2 :3 :0"),
            ("TTL k", ":100"),
            ("INCREX k NX XX", SYNTAX),
            ("INCREX k XX BYINT 1 NX", SYNTAX),
            ("INCREX k NX NX", "*2 :3 :0"),
            ("INCREX k IFEQ 3", SYNTAX),
            // A value that is no number is refused all the same.
            ("SET k abc", "+OK"),
            ("INCREX k NX", "-ERR value is not an integer or out of range"),
            ("INCREX k NX BYFLOAT 1", "-ERR value is not a valid float"),
            ("RPUSH list x", ":1"),
            ("INCREX list NX", WRONG_TYPE),
        ],
    );
    session.run("DEL k");
    session.events();
    session.run("INCREX k XX");
    session.run("INCREX k NX EX 100");
    session.run("INCREX k NX PERSIST");
    session.run("INCREX k NX EXAT 1");
    assert_eq!(session.events(), ["incrby k", "expire k"]);
    session.protocol = resp::Protocol::Resp3;
    assert_eq!(session.run("INCREX k NX"), "*2 :1 :0");
    assert_eq!(session.run("INCREX missing XX BYFLOAT 1.5"), "*2 ,0 ,0");
}

#[test]
fn a_counter_of_floats_stops_or_stays_at_its_bounds() {
    const INFINITE: &str = "-ERR applied increment would be Infinity";
    const CROSSED: &str = "-ERR LBOUND can't be greater than UBOUND";
    let mut session = Session::new();
    replies(
        &mut session,
        &[
            ("INCREX k BYFLOAT 0.1", "*2 $3 0.1 $3 0.1"),
            ("INCREX k BYFLOAT 0.2", "*2 $3 0.3 $3 0.2"),
            ("GET k", "$3 0.3"),
            ("SET k 10", "+OK"),
            ("INCREX k BYFLOAT 100 UBOUND 42.5", "*2 $2 10 $1 0"),
            ("INCREX k BYFLOAT 100 UBOUND 42.5 SATURATE", "*2 $4 42.5 $4 32.5"),
            ("INCREX k BYFLOAT -100 LBOUND -5.5 SATURATE", "*2 $4 -5.5 $3 -48"),
            ("SET k 50.5", "+OK"),
            ("INCREX k BYFLOAT 5.5 UBOUND 30", "*2 $4 50.5 $1 0"),
            ("INCREX k BYFLOAT 5.5 UBOUND 30 SATURATE", "*2 $2 30 $5 -20.5"),
            ("INCREX k", "*2 :31 :1"),
            ("INCREX k BYFLOAT 1 UBOUND 32", "*2 $2 32 $1 1"),
            ("INCREX k BYFLOAT 1 UBOUND inf", "*2 $2 33 $1 1"),
            ("INCREX k BYFLOAT 1 LBOUND -inf", "*2 $2 34 $1 1"),
            ("INCREX k BYFLOAT 1 LBOUND inf UBOUND inf", "*2 $2 34 $1 0"),
            ("INCREX k BYFLOAT 1 LBOUND inf UBOUND inf SATURATE", INFINITE),
            ("INCREX k BYFLOAT 1 LBOUND -inf UBOUND -inf SATURATE", INFINITE),
            ("INCREX k BYFLOAT 1 LBOUND inf", CROSSED),
            ("INCREX k BYFLOAT 1 UBOUND -inf", CROSSED),
            ("INCREX k BYFLOAT +inf", "-ERR BYFLOAT increment cannot be Infinity"),
            ("INCREX k BYFLOAT nan", "-ERR Increment is not a valid float"),
            ("INCREX k BYFLOAT 1e99999", "-ERR Increment is not a valid float"),
            ("INCREX k BYFLOAT 1 UBOUND x", "-ERR UBOUND is not a valid float"),
            ("SET k 0.5", "+OK"),
            ("INCREX k", "-ERR value is not an integer or out of range"),
            ("SET k -inf", "+OK"),
            ("INCREX k BYFLOAT 0 LBOUND -100", "-ERR value cannot be Infinity"),
            ("GET k", "$4 -inf"),
        ],
    );
    // Beyond all numbers is beyond the bound on its side.
    session.run("SET k 1e4932");
    assert!(session.run("INCREX k BYFLOAT 1e4932 EX 60").ends_with(" $1 0"));
    assert_eq!(session.run("TTL k"), ":-1");
    assert_eq!(session.run("GET k"), "$6 1e4932");
    let saturated = session.run("INCREX k BYFLOAT 1e4932 SATURATE");
    assert!(saturated.starts_with("*2 $4933 118973149535723176502126385303097020"), "{saturated}");
    session.run("SET k 10");
    assert_eq!(session.run("INCREX k BYFLOAT 1e4932 UBOUND 100 SATURATE"), "*2 $3 100 $2 90");
    session.run("SET k -1e4932");
    assert!(session.run("INCREX k BYFLOAT -1e4932 EX 60").ends_with(" $1 0"));
    let saturated = session.run("INCREX k BYFLOAT -1e4932 SATURATE");
    assert!(saturated.starts_with("*2 $4934 -118973149535723176502126385303097020"), "{saturated}");
    session.run("SET k -1e4932");
    assert_eq!(
        session.run("INCREX k BYFLOAT 1e4932 LBOUND 1e4932 SATURATE"),
        "-ERR applied increment would be Infinity"
    );
    session.protocol = resp::Protocol::Resp3;
    session.run("DEL k");
    assert_eq!(session.run("INCREX k BYFLOAT 2.5"), "*2 ,2.5 ,2.5");
    assert_eq!(session.run("INCREX k BYFLOAT 2.5 UBOUND 3"), "*2 ,2.5 ,0");
    session.run("DEL k");
    assert_eq!(session.run("INCREX k BYINT 5"), "*2 :5 :5");
}

#[test]
fn a_counter_expires_as_its_call_says() {
    const SYNTAX: &str = "-ERR syntax error";
    let mut session = Session::new();
    replies(
        &mut session,
        &[
            ("INCREX k EX 100 ENX", "*2 :1 :1"),
            ("TTL k", ":100"),
            ("INCREX k EX 10 ENX BYINT 2", "*2 :3 :2"),
            ("TTL k", ":100"),
            ("INCREX k", "*2 :4 :1"),
            ("TTL k", ":100"),
            ("INCREX k PX 5000", "*2 :5 :1"),
            ("PTTL k", ":5000"),
            ("INCREX k BYFLOAT 0.5 PERSIST", "*2 $3 5.5 $3 0.5"),
            ("TTL k", ":-1"),
            ("INCREX k BYFLOAT 1 PERSIST", "*2 $3 6.5 $1 1"),
            ("SET k 10 EX 500", "+OK"),
            ("INCREX k BYINT 5 UBOUND 5 EX 100", "*2 :10 :0"),
            ("INCREX k BYINT 5 UBOUND 5 PERSIST", "*2 :10 :0"),
            ("TTL k", ":500"),
            ("INCREX k BYINT 5 UBOUND 12 SATURATE EX 100", "*2 :12 :2"),
            ("TTL k", ":100"),
            ("INCREX k EXAT 1 ENX", "*2 :13 :1"),
            ("TTL k", ":100"),
            ("INCREX k EXAT 1700000200", "*2 :14 :1"),
            ("TTL k", ":200"),
            ("INCREX k PXAT 1", "*2 :15 :1"),
            ("EXISTS k", ":0"),
            ("INCREX k EXAT 1", "*2 :1 :1"),
            ("EXISTS k", ":0"),
            ("INCREX k FOO", SYNTAX),
            ("INCREX k BYINT", SYNTAX),
            ("INCREX k LBOUND", SYNTAX),
            ("INCREX k BYINT 1 BYFLOAT 1", SYNTAX),
            ("INCREX k BYINT 1 BYINT 2", SYNTAX),
            ("INCREX k LBOUND 0 LBOUND 1", SYNTAX),
            ("INCREX k SATURATE SATURATE LBOUND 0", SYNTAX),
            ("INCREX k ENX ENX EX 10", SYNTAX),
            ("INCREX k EX 10 EX 20", SYNTAX),
            ("INCREX k EX 10 PERSIST", SYNTAX),
            ("INCREX k PERSIST EX 10", SYNTAX),
            ("INCREX k PERSIST PERSIST", SYNTAX),
            ("INCREX k PERSIST ENX", SYNTAX),
            ("INCREX k ENX PERSIST", SYNTAX),
            ("INCREX k ENX", "-ERR ENX flag requires an expiration"),
            ("INCREX k EX 0", "-ERR invalid expire time in 'increx' command"),
            ("INCREX k EX x", "-ERR value is not an integer or out of range"),
            ("EXISTS k", ":0"),
        ],
    );
    session.events();
    session.run("INCREX k EX 100");
    session.run("INCREX k BYFLOAT 0.5 EX 10 ENX");
    session.run("INCREX k BYFLOAT 0.5 PERSIST");
    session.run("INCREX k PERSIST");
    session.run("INCREX k UBOUND 0 EX 10");
    session.run("INCREX k EXAT 1");
    session.run("INCREX k EXAT 1");
    assert_eq!(
        session.events(),
        [
            "incrby k",
            "expire k",
            "incrbyfloat k",
            "incrbyfloat k",
            "persist k",
            "incrby k",
            "del k"
        ]
    );
}
