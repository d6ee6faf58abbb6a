//! The list commands. The replies are a Redis 7.0 server's.

use resp::Protocol;

use crate::session::{START_MS, Session, replies};

const WRONG_TYPE: &str = "-WRONGTYPE Operation against a key holding the wrong kind of value";

#[test]
fn elements_go_in_and_out_at_both_ends() {
    replies(
        &mut Session::new(),
        &[
            ("RPUSH l a b c", ":3"),
            ("LPUSH l z y", ":5"),
            ("RPUSHX missing a", ":0"),
            ("LPUSHX l x", ":6"),
            ("LRANGE l 0 -1", "*6 $1 x $1 y $1 z $1 a $1 b $1 c"),
            ("LPOP l", "$1 x"),
            ("RPOP l 2", "*2 $1 c $1 b"),
            ("LPOP l 0", "*0"),
            ("LPOP l 100", "*3 $1 y $1 z $1 a"),
            ("EXISTS l", ":0"),
            ("LPOP l", "$-1"),
            ("LPOP l 2", "*-1"),
            ("LPOP l -1", "-ERR value is out of range, must be positive"),
            ("RPOP l 1 2", "-ERR wrong number of arguments for 'rpop' command"),
        ],
    );
}

#[test]
fn elements_are_read_set_and_inserted_by_place() {
    replies(
        &mut Session::new(),
        &[
            ("RPUSH l a b c b a", ":5"),
            ("LINDEX l -1", "$1 a"),
            ("LINDEX l 5", "$-1"),
            ("LINDEX missing x", "$-1"),
            ("LSET l 1 B", "+OK"),
            ("LSET l 5 x", "-ERR index out of range"),
            ("LSET l x x", "-ERR value is not an integer or out of range"),
            ("LSET missing 0 x", "-ERR no such key"),
            ("LINSERT l BEFORE c v", ":6"),
            ("LINSERT l AFTER a w", ":7"),
            ("LINSERT l AFTER nothing w", ":-1"),
            ("LINSERT missing AFTER a w", ":0"),
            ("LINSERT l MIDDLE a w", "-ERR syntax error"),
            ("LRANGE l 0 -1", "*7 $1 a $1 w $1 B $1 v $1 c $1 b $1 a"),
            ("LREM l -1 a", ":1"),
            ("LREM l 0 nothing", ":0"),
            ("LTRIM l 1 -2", "+OK"),
            ("LRANGE l -100 100", "*4 $1 w $1 B $1 v $1 c"),
            ("LLEN l", ":4"),
            ("LTRIM l 5 10", "+OK"),
            ("EXISTS l", ":0"),
            ("SET s v", "+OK"),
            ("LLEN s", WRONG_TYPE),
            ("LSET s 0 v", WRONG_TYPE),
        ],
    );
}

#[test]
fn positions_are_found_from_both_ends() {
    replies(
        &mut Session::new(),
        &[
            ("RPUSH l a b c 1 2 3 c c", ":8"),
            ("LPOS l c", ":2"),
            ("LPOS l c RANK -1", ":7"),
            ("LPOS l c RANK 2 COUNT 0", "*2 :6 :7"),
            ("LPOS l c COUNT 0 MAXLEN 3 RANK -1", "*2 :7 :6"),
            ("LPOS l nothing", "$-1"),
            ("LPOS l nothing COUNT 1", "*0"),
            (
                "LPOS l c RANK 0",
                "-ERR RANK can't be zero: use 1 to start from the first match, 2 from the second \
                 ... or use negative to start from the end of the list",
            ),
            ("LPOS l c COUNT -1", "-ERR COUNT can't be negative"),
            ("LPOS l c MAXLEN x", "-ERR MAXLEN can't be negative"),
            ("LPOS l c COUNT", "-ERR syntax error"),
        ],
    );
}

#[test]
fn elements_move_between_lists() {
    replies(
        &mut Session::new(),
        &[
            ("RPUSH l a b c 1 2 3", ":6"),
            ("LMOVE l m LEFT RIGHT", "$1 a"),
            ("LMOVE l l RIGHT LEFT", "$1 3"),
            ("LMOVE l m LEFT UP", "-ERR syntax error"),
            ("LMOVE missing m LEFT LEFT", "$-1"),
            ("SET s v", "+OK"),
            ("RPOPLPUSH l s", WRONG_TYPE),
            ("RPOPLPUSH missing s", "$-1"),
            ("RPOPLPUSH l m", "$1 2"),
            ("LRANGE m 0 -1", "*2 $1 2 $1 a"),
            ("LRANGE l 0 -1", "*4 $1 3 $1 b $1 c $1 1"),
            ("LMPOP 0 l LEFT", "-ERR numkeys should be greater than 0"),
            ("LMPOP 2 missing l RIGHT COUNT 2", "*2 $1 l *2 $1 1 $1 c"),
            ("LMPOP 1 l LEFT COUNT 0", "-ERR count should be greater than 0"),
            ("LMPOP 2 l LEFT", "-ERR syntax error"),
            ("LMPOP 1 missing LEFT", "*-1"),
            ("LMPOP 2 missing s LEFT", WRONG_TYPE),
        ],
    );
}

#[test]
fn nulls_are_those_of_the_protocol() {
    let mut session = Session::new();
    session.protocol = Protocol::Resp3;
    for line in ["LPOP l", "LPOP l 1", "LMPOP 1 l LEFT", "LPOS l a", "RPOPLPUSH l m"] {
        assert_eq!(session.run(line), "_", "{line}");
    }
}

#[test]
fn changes_are_told_in_redis_order() {
    let mut session = Session::new();
    let told: [(&str, &[&str]); 10] = [
        ("RPUSH l a b c", &["rpush l"]),
        ("LPUSHX missing a", &[]),
        ("LINSERT l AFTER a x", &["linsert l"]),
        ("LSET l 0 y", &["lset l"]),
        ("LREM l 0 x", &["lrem l"]),
        ("LREM l 0 x", &[]),
        ("LTRIM l 0 -1", &["ltrim l"]),
        ("LPOP l 2", &["lpop l"]),
        ("LMOVE l m LEFT RIGHT", &["rpush m", "lpop l", "del l"]),
        ("LMOVE m m LEFT RIGHT", &["rpush m", "lpop m"]),
    ];
    for (line, events) in told {
        session.run(line);
        assert_eq!(session.events(), events, "{line}");
    }
}

#[test]
fn a_list_of_one_element_keeps_its_expiry_when_it_rotates() {
    let mut session = Session::new();
    session.run("RPUSH l a");
    session.run("PEXPIRE l 500");
    assert_eq!(session.run("RPOPLPUSH l l"), "$1 a");
    assert_eq!(session.run("PTTL l"), ":500");
}

#[test]
fn blocking_commands_wait_only_when_there_is_nothing() {
    let mut session = Session::new();
    session.run("RPUSH l a b c d");
    assert_eq!(session.run_blocked("BLPOP x l 0", None), "*2 $1 l $1 a");
    assert_eq!(session.run_blocked("BLMPOP 0 2 x l RIGHT COUNT 2", None), "*2 $1 l *2 $1 d $1 c");
    assert_eq!(session.run_blocked("BLMOVE l m LEFT LEFT 0", None), "$1 b");
    assert_eq!(session.blocking, None);

    assert_eq!(session.run_blocked("BRPOP x y 1.5", None), "");
    let blocking = session.blocking.take().expect("it waits");
    assert_eq!(blocking.keys, [Box::from(*b"x"), Box::from(*b"y")]);
    assert_eq!(blocking.deadline_ms, Some(START_MS + 1500));
    for (line, reply) in [
        ("BLPOP l -1", "-ERR timeout is negative"),
        ("BLPOP l x", "-ERR timeout is not a float or out of range"),
        ("BLMOVE l m LEFT x 0", "-ERR syntax error"),
        ("BLMPOP 0 0 l LEFT", "-ERR numkeys should be greater than 0"),
    ] {
        assert_eq!(session.run_blocked(line, None), reply);
    }
    // Where no client may wait the time is up at once.
    assert_eq!(session.run("BLPOP x 0"), "*-1");
    assert_eq!(session.run("BLMOVE x m LEFT RIGHT 0"), "$-1");
}

#[test]
fn a_blocked_command_looks_at_the_key_that_is_ready_alone() {
    let mut session = Session::new();
    session.run("RPUSH x a");
    session.run("RPUSH y b");
    assert_eq!(session.run_blocked("BLPOP x y 0", Some("y")), "*2 $1 y $1 b");
    session.run("SET y text");
    assert_eq!(session.run_blocked("BLPOP x y 0", Some("y")), "");
    assert!(session.blocking.is_some(), "a string is not what it waits for");
    assert_eq!(session.run_blocked("BLPOP y x 0", None), WRONG_TYPE);
    assert_eq!(session.run_blocked("BLMOVE x y LEFT LEFT 0", Some("x")), WRONG_TYPE);
}

#[test]
fn an_index_can_be_any_number() {
    let mut session = Session::new();
    let large = format!("RPUSH large {}", vec!["x".repeat(64); 1000].join(" "));
    replies(&mut session, &[("RPUSH l a b", ":2"), (&large, ":1000")]);
    for key in ["l", "large"] {
        for index in [i64::MAX, i64::MAX - 1, 1 << 40, i64::MIN, i64::MIN + 1] {
            assert_eq!(session.run(&format!("LINDEX {key} {index}")), "$-1", "{key} {index}");
        }
        for index in [i64::MAX, i64::MAX - 1, 1 << 40] {
            assert_eq!(session.run(&format!("LRANGE {key} {index} {}", i64::MAX)), "*0");
        }
    }
}

/// LMOVEM of Redis 8.10: the calls of its own tests and documentation.
#[test]
fn several_elements_move_one_by_one_or_in_one_piece() {
    const SYNTAX: &str = "-ERR syntax error";
    const NOT_POSITIVE: &str = "-ERR count should be greater than 0";
    let mut session = Session::new();
    for (call, reply, source, destination) in [
        ("LEFT RIGHT", "*1 $1 1", "*4 $1 2 $1 3 $1 4 $1 5", "*2 $1 x $1 1"),
        ("LEFT LEFT COUNT 3 OBO", "*3 $1 3 $1 2 $1 1", "*2 $1 4 $1 5", "*4 $1 3 $1 2 $1 1 $1 x"),
        ("LEFT LEFT COUNT 3 BULK", "*3 $1 1 $1 2 $1 3", "*2 $1 4 $1 5", "*4 $1 1 $1 2 $1 3 $1 x"),
        ("RIGHT RIGHT COUNT 3 OBO", "*3 $1 5 $1 4 $1 3", "*2 $1 1 $1 2", "*4 $1 x $1 5 $1 4 $1 3"),
        ("RIGHT RIGHT count 3 bulk", "*3 $1 3 $1 4 $1 5", "*2 $1 1 $1 2", "*4 $1 x $1 3 $1 4 $1 5"),
        ("LEFT RIGHT EXACTLY 2 OBO", "*2 $1 1 $1 2", "*3 $1 3 $1 4 $1 5", "*3 $1 x $1 1 $1 2"),
        ("RIGHT LEFT EXACTLY 2 OBO", "*2 $1 4 $1 5", "*3 $1 1 $1 2 $1 3", "*3 $1 4 $1 5 $1 x"),
        ("RIGHT LEFT COUNT 2 BULK", "*2 $1 4 $1 5", "*3 $1 1 $1 2 $1 3", "*3 $1 4 $1 5 $1 x"),
        ("LEFT RIGHT EXACTLY 6 BULK", "*-1", "*5 $1 1 $1 2 $1 3 $1 4 $1 5", "*1 $1 x"),
        (
            "LEFT RIGHT COUNT 100 BULK",
            "*5 $1 1 $1 2 $1 3 $1 4 $1 5",
            "*0",
            "*6 $1 x $1 1 $1 2 $1 3 $1 4 $1 5",
        ),
    ] {
        session.run("DEL s d");
        session.run("RPUSH s 1 2 3 4 5");
        session.run("RPUSH d x");
        assert_eq!(session.run(&format!("LMOVEM s d {call}")), reply, "{call}");
        assert_eq!(session.run("LRANGE s 0 -1"), source, "{call}");
        assert_eq!(session.run("LRANGE d 0 -1"), destination, "{call}");
    }
    session.run("DEL s d");
    replies(
        &mut session,
        &[
            ("EXISTS s", ":0"),
            ("LMOVEM s d LEFT RIGHT", "*-1"),
            ("LMOVEM s d LEFT RIGHT COUNT 5 BULK", "*-1"),
            ("LMOVEM s d LEFT RIGHT EXACTLY 1 BULK", "*-1"),
            ("EXISTS d", ":0"),
            ("RPUSH k 1 2 3 4", ":4"),
            ("LMOVEM k k LEFT RIGHT COUNT 2 BULK", "*2 $1 1 $1 2"),
            ("LRANGE k 0 -1", "*4 $1 3 $1 4 $1 1 $1 2"),
            ("LMOVEM k k LEFT LEFT EXACTLY 2 OBO", "*2 $1 4 $1 3"),
            ("LMOVEM k k RIGHT RIGHT COUNT 9 BULK", "*4 $1 4 $1 3 $1 1 $1 2"),
            ("LRANGE k 0 -1", "*4 $1 4 $1 3 $1 1 $1 2"),
            ("LMOVEM k k RIGHT RIGHT COUNT 3 BULK", "*3 $1 3 $1 1 $1 2"),
            ("LMOVEM k k LEFT LEFT EXACTLY 3 BULK", "*3 $1 4 $1 3 $1 1"),
            ("LMOVEM k k LEFT LEFT EXACTLY 5 BULK", "*-1"),
            ("LMOVEM k k LEFT LEFT COUNT 1 OBO", "*1 $1 4"),
            ("LRANGE k 0 -1", "*4 $1 4 $1 3 $1 1 $1 2"),
            ("LMOVEM k d LEFT RIGHT COUNT 0 BULK", NOT_POSITIVE),
            ("LMOVEM k d LEFT RIGHT EXACTLY -1 BULK", NOT_POSITIVE),
            ("LMOVEM k d LEFT RIGHT COUNT a BULK", NOT_POSITIVE),
            ("LMOVEM k d LEFT RIGHT COUNT 0 BAD", NOT_POSITIVE),
            ("LMOVEM k d LEFT RIGHT BAD 0 BULK", SYNTAX),
            ("LMOVEM k d LEFT RIGHT COUNT 2", SYNTAX),
            ("LMOVEM k d LEFT RIGHT COUNT 2 OBO more", SYNTAX),
            ("LMOVEM k d LEFT RIGHT BAD 2 OBO", SYNTAX),
            ("LMOVEM k d LEFT RIGHT COUNT 2 BAD", SYNTAX),
            ("LMOVEM k d BAD RIGHT COUNT 2 OBO", SYNTAX),
            ("LMOVEM k d LEFT BAD", SYNTAX),
            ("SET string x", "+OK"),
            ("LMOVEM string d LEFT RIGHT", WRONG_TYPE),
            ("LMOVEM k string LEFT RIGHT COUNT 2 BULK", WRONG_TYPE),
            ("LLEN k", ":4"),
        ],
    );
    session.events();
    session.run("LMOVEM k d LEFT RIGHT COUNT 2 BULK");
    session.run("LMOVEM k d RIGHT LEFT COUNT 9 OBO");
    session.run("LMOVEM d d LEFT RIGHT COUNT 2 BULK");
    assert_eq!(
        session.events(),
        ["rpush d", "lpop k", "lpush d", "rpop k", "del k", "rpush d", "lpop d"]
    );
    session.run("LMOVEM d d RIGHT RIGHT COUNT 2 BULK");
    assert_eq!(session.events(), ["rpush d", "rpop d"]);
}

#[test]
fn several_elements_are_waited_for() {
    let mut session = Session::new();
    session.run("RPUSH s 1 2 3");
    assert_eq!(session.run_blocked("BLMOVEM s d LEFT RIGHT 0 COUNT 2 BULK", None), "*2 $1 1 $1 2");
    // One that wants so many waits for changes of what there is.
    let exactly = "BLMOVEM s d LEFT RIGHT 1.5 EXACTLY 3 BULK";
    assert_eq!(session.run_blocked(exactly, None), "");
    let blocking = session.blocking.take().expect("it waits");
    assert_eq!(blocking.keys, [Box::from(*b"s")]);
    assert_eq!(blocking.deadline_ms, Some(START_MS + 1500));
    assert!(blocking.at_any_change);
    session.run("RPUSH s 4");
    assert_eq!(session.run_blocked(exactly, Some("s")), "");
    assert!(session.blocking.take().is_some());
    assert_eq!(session.run("LRANGE s 0 -1"), "*2 $1 3 $1 4");
    session.run("LINSERT s BEFORE 4 x");
    assert_eq!(session.run_blocked(exactly, Some("s")), "*3 $1 3 $1 x $1 4");
    assert_eq!(session.run("LRANGE d 0 -1"), "*5 $1 1 $1 2 $1 3 $1 x $1 4");
    assert_eq!(session.run("EXISTS s"), ":0");
    // One that takes what there is waits for the list.
    let count = "BLMOVEM s d RIGHT LEFT 0 COUNT 3 OBO";
    assert_eq!(session.run_blocked(count, None), "");
    assert!(!session.blocking.take().expect("it waits").at_any_change);
    session.run("SET s text");
    assert_eq!(session.run_blocked(count, Some("s")), "");
    assert_eq!(session.run_blocked(exactly, Some("s")), "");
    assert_eq!(session.run_blocked(count, None), WRONG_TYPE);
    // In a transaction nothing waits.
    session.run("DEL s");
    assert_eq!(session.run(exactly), "*-1");
    assert_eq!(session.run(count), "*-1");
    assert_eq!(session.run("BLMOVEM s d LEFT RIGHT -1"), "-ERR timeout is negative");
    // The ends are read first, then the timeout, then the rest.
    const NOT_A_FLOAT: &str = "-ERR timeout is not a float or out of range";
    replies(
        &mut session,
        &[
            ("BLMOVEM s d LEFT BAD abc", "-ERR syntax error"),
            ("BLMOVEM s d LEFT RIGHT abc COUNT abc BULK", NOT_A_FLOAT),
            ("BLMOVEM s d LEFT RIGHT abc COUNT", NOT_A_FLOAT),
            ("BLMOVEM s d LEFT RIGHT 0 COUNT abc BAD", "-ERR count should be greater than 0"),
        ],
    );
}
