//! The sorted-set commands. The replies are a Redis 7.0 server's.

use resp::Protocol;

use crate::session::{Session, replies};

/// A session with some sorted sets: `z` with a to e at 1 to 5, `lex` with a to e at 0, and `long`,
/// which is `z` with 200 more members behind.
fn session() -> Session {
    let mut session = Session::new();
    session.run("ZADD z 1 a 2 b 3 c 4 d 5 e");
    session.run("ZADD lex 0 a 0 b 0 c 0 d 0 e");
    session.run("ZADD long 1 a 2 b 3 c 4 d 5 e");
    for number in 0..200 {
        session.run(&format!("ZADD long {} m{number}", 100 + number));
    }
    session.run("SET string 1");
    session.events();
    session
}

#[test]
fn adding_counts_what_is_new_and_obeys_its_options() {
    let mut session = Session::new();
    replies(
        &mut session,
        &[
            ("ZADD z 1 a 2 b", ":2"),
            ("ZADD z 1 a 3 b 4 c", ":1"),
            ("ZADD z CH 1 a 5 b 4 d", ":2"),
            ("ZADD z NX 9 a 9 f", ":1"),
            ("ZSCORE z a", "$1 1"),
            ("ZADD z XX 7 a 7 nobody", ":0"),
            ("ZADD z XX CH 8 a", ":1"),
            ("ZADD z GT CH 7 a 6 b", ":1"),
            ("ZADD z LT CH 7 a 9 b", ":1"),
            ("ZADD z GT 1 new", ":1"),
            ("ZADD nokey XX 1 a", ":0"),
            ("EXISTS nokey", ":0"),
            ("ZADD z INCR 1.5 a", "$3 8.5"),
            ("ZADD z NX INCR 1 a", "$-1"),
            ("ZADD z GT INCR -1 a", "$-1"),
            ("ZADD nokey XX INCR 1 a", "$-1"),
            ("ZADD z 3.14 pi 1e300 huge inf top 0x10 hex", ":4"),
            (
                "ZMSCORE z pi huge top hex nobody",
                "*5 $18 3.1400000000000001 $23 1.0000000000000001e+300 $3 inf $2 16 $-1",
            ),
            ("ZADD z 1 a 2", "-ERR syntax error"),
            ("ZADD z NX XX", "-ERR syntax error"),
            ("ZADD z XX NX 1 a", "-ERR XX and NX options at the same time are not compatible"),
            (
                "ZADD z NX GT 1 a",
                "-ERR GT, LT, and/or NX options at the same time are not compatible",
            ),
            (
                "ZADD z LT GT 1 a",
                "-ERR GT, LT, and/or NX options at the same time are not compatible",
            ),
            ("ZADD z INCR 1 a 2 b", "-ERR INCR option supports a single increment-element pair"),
            ("ZADD z 1 x nan y", "-ERR value is not a valid float"),
            ("ZADD z 1e400 y", "-ERR value is not a valid float"),
            ("ZSCORE z x", "$-1"),
            ("SET string 1", "+OK"),
            ("ZADD string abc a", "-ERR value is not a valid float"),
            (
                "ZADD string 1 a",
                "-WRONGTYPE Operation against a key holding the wrong kind of value",
            ),
        ],
    );
}

#[test]
fn increments_make_members_and_never_nan() {
    let mut session = Session::new();
    replies(
        &mut session,
        &[
            ("ZINCRBY z 2.5 a", "$3 2.5"),
            ("ZINCRBY z -1 a", "$3 1.5"),
            ("ZINCRBY z inf a", "$3 inf"),
            ("ZINCRBY z -inf a", "-ERR resulting score is not a number (NaN)"),
            ("ZSCORE z a", "$3 inf"),
            ("ZINCRBY z abc a", "-ERR value is not a valid float"),
            ("ZINCRBY z nx a", "-ERR syntax error"),
        ],
    );
    assert_eq!(session.events(), ["zincr z", "zincr z", "zincr z"]);
}

#[test]
fn members_are_removed_and_the_key_with_the_last() {
    let mut session = session();
    assert_eq!(session.run("ZREM z a x c"), ":2");
    assert_eq!(session.run("ZCARD z"), ":3");
    assert_eq!(session.run("ZREM z b d e b"), ":3");
    assert_eq!(session.run("EXISTS z"), ":0");
    assert_eq!(session.run("ZREM z b"), ":0");
    assert_eq!(session.run("ZREM long m7 m7 x"), ":1");
    assert_eq!(session.events(), ["zrem z", "zrem z", "del z", "zrem long"]);
}

#[test]
fn scores_and_ranks() {
    replies(
        &mut session(),
        &[
            ("ZSCORE z b", "$1 2"),
            ("ZSCORE z x", "$-1"),
            ("ZSCORE nokey x", "$-1"),
            ("ZMSCORE nokey x y", "*2 $-1 $-1"),
            ("ZRANK z a", ":0"),
            ("ZREVRANK z a", ":4"),
            ("ZRANK z x", "$-1"),
            ("ZRANK z b WITHSCORE", "*2 :1 $1 2"),
            ("ZREVRANK z b withscore", "*2 :3 $1 2"),
            ("ZRANK long m100 WITHSCORE", "*2 :105 $3 200"),
            ("ZRANK z x WITHSCORE", "*-1"),
            ("ZREVRANK nokey x WITHSCORE", "*-1"),
            ("ZRANK z a WITHSCORES", "-ERR syntax error"),
            ("ZRANK z a WITHSCORE x", "-ERR wrong number of arguments for 'zrank' command"),
            ("ZREVRANK z a b c", "-ERR wrong number of arguments for 'zrevrank' command"),
            (
                "ZRANK string a WITHSCORE",
                "-WRONGTYPE Operation against a key holding the wrong kind of value",
            ),
            ("ZRANK long m100", ":105"),
            ("ZREVRANK long m100", ":99"),
            ("ZCARD long", ":205"),
            ("ZCARD nokey", ":0"),
            ("ZCOUNT z 2 4", ":3"),
            ("ZCOUNT z (2 (4", ":1"),
            ("ZCOUNT z 4 2", ":0"),
            ("ZCOUNT z -inf +inf", ":5"),
            ("ZCOUNT long 100 (150", ":50"),
            ("ZCOUNT z ((1 2", "-ERR min or max is not a float"),
            ("ZCOUNT z 1 nan", "-ERR min or max is not a float"),
            ("ZLEXCOUNT lex [b (d", ":2"),
            ("ZLEXCOUNT lex - +", ":5"),
            ("ZLEXCOUNT lex + -", ":0"),
            ("ZLEXCOUNT lex b d", "-ERR min or max not valid string range item"),
            ("ZCARD string", "-WRONGTYPE Operation against a key holding the wrong kind of value"),
        ],
    );
}

#[test]
fn ranges_by_rank_score_and_member() {
    replies(
        &mut session(),
        &[
            ("ZRANGE z 0 1", "*2 $1 a $1 b"),
            ("ZRANGE z -2 -1 WITHSCORES", "*4 $1 d $1 4 $1 e $1 5"),
            ("ZRANGE z 0 1 REV", "*2 $1 e $1 d"),
            ("ZREVRANGE z 3 9 WITHSCORES", "*4 $1 b $1 2 $1 a $1 1"),
            ("ZRANGE z 7 9", "*0"),
            ("ZRANGE z 3 1", "*0"),
            ("ZRANGE nokey 0 -1", "*0"),
            ("ZRANGE long 104 105", "*2 $3 m99 $4 m100"),
            ("ZRANGE long 0 1 REV", "*2 $4 m199 $4 m198"),
            ("ZRANGE z (1 3 BYSCORE", "*2 $1 b $1 c"),
            ("ZRANGE z 3 (1 BYSCORE REV", "*2 $1 c $1 b"),
            ("ZRANGE z 1 5 BYSCORE LIMIT 1 2", "*2 $1 b $1 c"),
            ("ZRANGE z 5 1 BYSCORE REV LIMIT 1 2", "*2 $1 d $1 c"),
            ("ZRANGEBYSCORE z -inf +inf LIMIT 3 -1 WITHSCORES", "*4 $1 d $1 4 $1 e $1 5"),
            ("ZRANGEBYSCORE z -inf +inf LIMIT -1 5", "*0"),
            ("ZRANGEBYSCORE z -inf +inf LIMIT 9 5", "*0"),
            ("ZRANGEBYSCORE z -inf +inf LIMIT 0 0", "*0"),
            ("ZREVRANGEBYSCORE z 4 (2", "*2 $1 d $1 c"),
            ("ZRANGEBYLEX lex [b (d", "*2 $1 b $1 c"),
            ("ZRANGEBYLEX lex - + LIMIT 1 2", "*2 $1 b $1 c"),
            ("ZREVRANGEBYLEX lex + (c", "*2 $1 e $1 d"),
            ("ZRANGE lex - [b BYLEX", "*2 $1 a $1 b"),
            ("ZRANGE lex + - BYLEX REV LIMIT 0 1", "*1 $1 e"),
            (
                "ZRANGE z 0 1 LIMIT 0 1",
                "-ERR syntax error, LIMIT is only supported in combination with either BYSCORE or BYLEX",
            ),
            (
                "ZRANGE z - + BYLEX WITHSCORES",
                "-ERR syntax error, WITHSCORES not supported in combination with BYLEX",
            ),
            ("ZRANGE z 0 1 BYSCORE BYLEX", "-ERR syntax error"),
            ("ZRANGE z 0 1 BYSCORE LIMIT 1", "-ERR syntax error"),
            ("ZRANGEBYSCORE z 0 1 BYSCORE", "-ERR syntax error"),
            ("ZREVRANGE z 0 1 REV", "-ERR syntax error"),
            ("ZRANGE z a 1", "-ERR value is not an integer or out of range"),
            ("ZRANGEBYSCORE z 0 1 LIMIT a 1", "-ERR value is not an integer or out of range"),
            (
                "ZRANGEBYSCORE string 0 1",
                "-WRONGTYPE Operation against a key holding the wrong kind of value",
            ),
        ],
    );
}

#[test]
fn resp3_replies_pairs_and_doubles() {
    let mut session = session();
    session.protocol = Protocol::Resp3;
    replies(
        &mut session,
        &[
            ("ZRANGE z 0 1 WITHSCORES", "*2 *2 $1 a ,1 *2 $1 b ,2"),
            ("ZRANGE z 0 1", "*2 $1 a $1 b"),
            ("ZSCORE z a", ",1"),
            ("ZSCORE z x", "_"),
            ("ZRANK z x", "_"),
            ("ZMSCORE z a x", "*2 ,1 _"),
            ("ZINCRBY z 0.5 a", ",1.5"),
            (
                "ZUNION 1 lex WITHSCORES",
                "*5 *2 $1 a ,0 *2 $1 b ,0 *2 $1 c ,0 *2 $1 d ,0 *2 $1 e ,0",
            ),
            (
                "ZRANDMEMBER z 9 WITHSCORES",
                "*5 *2 $1 e ,5 *2 $1 d ,4 *2 $1 c ,3 *2 $1 b ,2 *2 $1 a ,1.5",
            ),
            ("ZPOPMIN z", "*2 $1 a ,1.5"),
            ("ZPOPMIN z 1", "*1 *2 $1 b ,2"),
            ("ZMPOP 1 z MAX", "*2 $1 z *1 *2 $1 e ,5"),
            ("BZPOPMAX z 0", "*3 $1 z $1 d ,4"),
            ("ZMPOP 1 nokey MIN", "_"),
            (
                "ZADD string XX INCR 1 a",
                "-WRONGTYPE Operation against a key holding the wrong kind of value",
            ),
        ],
    );
}

#[test]
fn ranges_are_removed() {
    let mut session = session();
    replies(
        &mut session,
        &[
            ("ZREMRANGEBYRANK z 0 1", ":2"),
            ("ZREMRANGEBYRANK z 5 9", ":0"),
            ("ZREMRANGEBYSCORE z (3 4", ":1"),
            ("ZREMRANGEBYLEX lex [b [c", ":2"),
            ("ZRANGE lex 0 -1", "*3 $1 a $1 d $1 e"),
            ("ZREMRANGEBYSCORE z -inf inf", ":2"),
            ("EXISTS z", ":0"),
            ("ZREMRANGEBYSCORE long 100 298", ":199"),
            ("ZRANGE long -2 -1", "*2 $1 e $4 m199"),
            ("ZREMRANGEBYRANK long 0 -1", ":6"),
            ("EXISTS long", ":0"),
            ("ZREMRANGEBYRANK nokey 0 -1", ":0"),
            ("ZREMRANGEBYRANK z 0 x", "-ERR value is not an integer or out of range"),
            ("ZREMRANGEBYSCORE z 0 x", "-ERR min or max is not a float"),
            ("ZREMRANGEBYLEX z 0 x", "-ERR min or max not valid string range item"),
        ],
    );
    assert_eq!(
        session.events(),
        [
            "zremrangebyrank z",
            "zremrangebyscore z",
            "zremrangebylex lex",
            "zremrangebyscore z",
            "del z",
            "zremrangebyscore long",
            "zremrangebyrank long",
            "del long",
        ]
    );
}

#[test]
fn ranges_are_stored() {
    let mut session = session();
    replies(
        &mut session,
        &[
            ("ZRANGESTORE d z 1 2", ":2"),
            ("ZRANGE d 0 -1 WITHSCORES", "*4 $1 b $1 2 $1 c $1 3"),
            ("ZRANGESTORE d z 5 3 BYSCORE REV LIMIT 0 1", ":1"),
            ("ZRANGE d 0 -1", "*1 $1 e"),
            ("ZRANGESTORE z z 0 1", ":2"),
            ("ZRANGE z 0 -1", "*2 $1 a $1 b"),
            ("ZRANGESTORE d z 5 9", ":0"),
            ("EXISTS d", ":0"),
            ("ZRANGESTORE string nokey 0 -1", ":0"),
            ("EXISTS string", ":0"),
            ("ZRANGESTORE d long 0 -1", ":205"),
            ("OBJECT ENCODING d", "$8 skiplist"),
            ("ZRANGESTORE d z 0 -1 WITHSCORES", "-ERR syntax error"),
        ],
    );
    assert_eq!(
        session.events(),
        ["zrangestore d", "zrangestore d", "zrangestore z", "del d", "del string", "zrangestore d"]
    );
}

#[test]
fn popping_takes_the_ends() {
    let mut session = session();
    replies(
        &mut session,
        &[
            ("ZPOPMIN z", "*2 $1 a $1 1"),
            ("ZPOPMAX z 2", "*4 $1 e $1 5 $1 d $1 4"),
            ("ZPOPMIN z 0", "*0"),
            ("ZPOPMIN nokey", "*0"),
            ("ZPOPMIN nokey 2", "*0"),
            ("ZPOPMIN z -1", "-ERR value is out of range, must be positive"),
            ("ZPOPMIN z 1 2", "-ERR syntax error"),
            (
                "ZPOPMIN string 0",
                "-WRONGTYPE Operation against a key holding the wrong kind of value",
            ),
            ("ZMPOP 2 nokey z MIN COUNT 9", "*2 $1 z *2 *2 $1 b $1 2 *2 $1 c $1 3"),
            ("EXISTS z", ":0"),
            ("ZMPOP 1 z MAX", "*-1"),
            ("ZPOPMAX long", "*2 $4 m199 $3 299"),
            ("ZMPOP 0 z MIN", "-ERR numkeys should be greater than 0"),
            ("ZMPOP 2 z nokey", "-ERR syntax error"),
            ("ZMPOP 1 z UP", "-ERR syntax error"),
            ("ZMPOP 1 z MIN COUNT 0", "-ERR count should be greater than 0"),
            ("ZMPOP 1 z MIN COUNT 1 COUNT 2", "-ERR syntax error"),
            (
                "ZMPOP 1 string MIN",
                "-WRONGTYPE Operation against a key holding the wrong kind of value",
            ),
        ],
    );
    assert_eq!(session.events(), ["zpopmin z", "zpopmax z", "zpopmin z", "del z", "zpopmax long"]);
}

#[test]
fn blocking_pops_wait_for_their_keys() {
    let mut session = session();
    assert_eq!(session.run_blocked("BZPOPMIN nokey z 0", None), "*3 $1 z $1 a $1 1");
    assert_eq!(
        session.run_blocked("BZMPOP 0 1 z MAX COUNT 2", None),
        "*2 $1 z *2 *2 $1 e $1 5 *2 $1 d $1 4"
    );
    assert_eq!(session.run_blocked("BZPOPMIN x y 1.5", None), "");
    let blocking = session.blocking.take().expect("it waits");
    assert_eq!(blocking.keys, [Box::from(*b"x"), Box::from(*b"y")]);
    assert_eq!(blocking.deadline_ms, Some(session.now_ms + 1500));
    assert_eq!(session.run("BZPOPMIN x y 1.5"), "*-1");
    assert_eq!(session.run("BZMPOP 0 1 x MIN"), "*-1");
    assert_eq!(session.run("BZPOPMIN x -1"), "-ERR timeout is negative");
    assert_eq!(session.run("BZPOPMIN x soon"), "-ERR timeout is not a float or out of range");

    // It was woken by a key of another type, and then by one of its own; x is not its business.
    session.run("SADD x member");
    session.run("SET y 1");
    assert_eq!(session.run_blocked("BZPOPMAX x y 0", Some("y")), "");
    assert!(session.blocking.is_some());
    session.run("DEL y");
    session.run("ZADD y 1 a 2 b");
    assert_eq!(session.run_blocked("BZPOPMAX x y 0", Some("y")), "*3 $1 y $1 b $1 2");
}

#[test]
fn algebra_of_sorted_sets_and_sets() {
    let mut session = session();
    session.run("ZADD y 10 b 20 c 30 x");
    session.run("SADD s b e q");
    replies(
        &mut session,
        &[
            (
                "ZUNION 2 z y WITHSCORES",
                "*12 $1 a $1 1 $1 d $1 4 $1 e $1 5 $1 b $2 12 $1 c $2 23 $1 x $2 30",
            ),
            (
                "ZUNION 2 z y WEIGHTS 2 1 AGGREGATE MAX WITHSCORES",
                "*12 $1 a $1 2 $1 d $1 8 $1 b $2 10 $1 e $2 10 $1 c $2 20 $1 x $2 30",
            ),
            ("ZINTER 2 z y WITHSCORES", "*4 $1 b $2 12 $1 c $2 23"),
            ("ZINTER 2 z y AGGREGATE MIN WITHSCORES", "*4 $1 b $1 2 $1 c $1 3"),
            ("ZINTER 2 z s WEIGHTS 1 100 WITHSCORES", "*4 $1 b $3 102 $1 e $3 105"),
            ("ZINTER 2 z nokey", "*0"),
            ("ZINTER 2 z z WITHSCORES", "*10 $1 a $1 2 $1 b $1 4 $1 c $1 6 $1 d $1 8 $1 e $2 10"),
            ("ZDIFF 2 z y WITHSCORES", "*6 $1 a $1 1 $1 d $1 4 $1 e $1 5"),
            ("ZDIFF 3 z y s", "*2 $1 a $1 d"),
            ("ZDIFF 2 nokey z", "*0"),
            ("ZINTERCARD 2 z y", ":2"),
            ("ZINTERCARD 2 z y LIMIT 1", ":1"),
            ("ZINTERCARD 2 z y LIMIT 0", ":2"),
            ("ZUNIONSTORE d 2 z s", ":6"),
            (
                "ZRANGE d 0 -1 WITHSCORES",
                "*12 $1 a $1 1 $1 q $1 1 $1 b $1 3 $1 c $1 3 $1 d $1 4 $1 e $1 6",
            ),
            ("ZINTERSTORE z 2 z y WEIGHTS 1 -1", ":2"),
            ("ZRANGE z 0 -1 WITHSCORES", "*4 $1 c $3 -17 $1 b $2 -8"),
            ("ZDIFFSTORE d 2 y y", ":0"),
            ("EXISTS d", ":0"),
        ],
    );
    assert_eq!(session.events(), ["zadd y", "sadd s", "zunionstore d", "zinterstore z", "del d"]);
}

#[test]
fn algebra_of_infinities_has_no_nan() {
    let mut session = Session::new();
    session.run("ZADD up inf a");
    session.run("ZADD down -inf a");
    replies(
        &mut session,
        &[
            ("ZUNION 2 up down WITHSCORES", "*2 $1 a $1 0"),
            ("ZINTER 2 up down WITHSCORES", "*2 $1 a $1 0"),
            ("ZUNION 1 up WEIGHTS 0 WITHSCORES", "*2 $1 a $1 0"),
            ("ZINTER 2 up up WEIGHTS 0 0 WITHSCORES", "*2 $1 a $1 0"),
        ],
    );
}

#[test]
fn algebra_complains_as_redis_does() {
    replies(
        &mut session(),
        &[
            ("ZUNION 0 z", "-ERR at least 1 input key is needed for 'zunion' command"),
            ("ZUNIONSTORE d 0 z", "-ERR at least 1 input key is needed for 'zunionstore' command"),
            ("ZUNION x z", "-ERR value is not an integer or out of range"),
            ("ZUNION 3 z y", "-ERR syntax error"),
            ("ZUNION 1 z WEIGHTS", "-ERR syntax error"),
            ("ZUNION 1 z WEIGHTS x", "-ERR weight value is not a float"),
            ("ZUNION 1 z AGGREGATE AVG", "-ERR syntax error"),
            ("ZUNION 1 z AGGREGATE", "-ERR syntax error"),
            ("ZDIFF 1 z WEIGHTS 1", "-ERR syntax error"),
            ("ZUNIONSTORE d 1 z WITHSCORES", "-ERR syntax error"),
            ("ZINTERCARD 1 z LIMIT -1", "-ERR LIMIT can't be negative"),
            ("ZINTERCARD 1 z LIMIT x", "-ERR LIMIT can't be negative"),
            ("ZINTERCARD 1 z WITHSCORES", "-ERR syntax error"),
            (
                "ZUNION 2 z string BAD",
                "-WRONGTYPE Operation against a key holding the wrong kind of value",
            ),
        ],
    );
}

/// The bulk strings of a flat array reply.
fn bulks(reply: &str) -> Vec<&str> {
    reply.split(' ').skip(1).filter(|word| !word.starts_with('$')).collect()
}

#[test]
fn random_members_are_members_and_differ_if_wanted() {
    let mut session = session();
    for (key, len) in [("z", 5), ("long", 205)] {
        let all: Vec<String> =
            bulks(&session.run(&format!("ZRANGE {key} 0 -1"))).iter().map(|&m| m.into()).collect();
        let mut seen = std::collections::BTreeSet::new();
        for count in [1, 2, len / 2, len - 1, len, len + 9] {
            let reply = session.run(&format!("ZRANDMEMBER {key} {count}"));
            let mut picked = bulks(&reply);
            picked.sort_unstable();
            picked.dedup();
            assert_eq!(picked.len(), count.min(len), "different ones of {key}");
            assert!(picked.iter().all(|member| all.iter().any(|other| other == member)));
            seen.extend(picked.into_iter().map(String::from));
        }
        assert_eq!(seen.len(), len);
        let reply = session.run(&format!("ZRANDMEMBER {key} -700 WITHSCORES"));
        let picked = bulks(&reply);
        assert_eq!(picked.len(), 1400);
        for pair in picked.chunks(2) {
            assert!(session.run(&format!("ZSCORE {key} {}", pair[0])).ends_with(pair[1]));
        }
        assert!(all.contains(
            &session.run(&format!("ZRANDMEMBER {key}")).split(' ').nth(1).unwrap().into()
        ));
    }
    replies(
        &mut session,
        &[
            ("ZRANDMEMBER nokey", "$-1"),
            ("ZRANDMEMBER nokey 3", "*0"),
            ("ZRANDMEMBER z 0", "*0"),
            ("ZRANDMEMBER z x", "-ERR value is not an integer or out of range"),
            ("ZRANDMEMBER z 1 WITHSCORE", "-ERR syntax error"),
            (
                "ZRANDMEMBER z -9223372036854775808",
                "-ERR value is out of range, value must between -9223372036854775807 and 9223372036854775807",
            ),
            ("ZRANDMEMBER z -9223372036854775807 WITHSCORES", "-ERR value is out of range"),
        ],
    );
}

#[test]
fn scanning_visits_every_member_once() {
    let mut session = session();
    assert_eq!(
        session.run("ZSCAN z 0"),
        "*2 $1 0 *10 $1 a $1 1 $1 b $1 2 $1 c $1 3 $1 d $1 4 $1 e $1 5"
    );
    assert_eq!(session.run("ZSCAN z 0 MATCH [bc] COUNT 1"), "*2 $1 0 *4 $1 b $1 2 $1 c $1 3");
    assert_eq!(session.run("ZSCAN nokey 0 BAD"), "*2 $1 0 *0");
    assert_eq!(session.run("ZSCAN z x"), "-ERR invalid cursor");
    assert_eq!(session.run("ZSCAN z 0 COUNT 0"), "-ERR syntax error");
    assert_eq!(session.run("ZSCAN z 0 TYPE zset"), "-ERR syntax error");
    let (mut cursor, mut members) = (String::from("0"), Vec::new());
    loop {
        let reply = session.run(&format!("ZSCAN long {cursor} COUNT 20"));
        let words: Vec<&str> = reply.split(' ').collect();
        cursor = words[2].into();
        members.extend(words[4..].chunks(4).map(|pair| pair[1].to_owned()));
        if cursor == "0" {
            break;
        }
    }
    members.sort();
    members.dedup();
    assert_eq!(members.len(), 205);
}

#[test]
fn encodings_are_the_ones_that_redis_names() {
    let mut session = session();
    session.run(&format!("ZADD wide 1 {}", "w".repeat(65)));
    for number in 0..128 {
        session.run(&format!("ZADD full 1 m{number}"));
    }
    replies(
        &mut session,
        &[
            ("OBJECT ENCODING z", "$8 listpack"),
            ("OBJECT ENCODING long", "$8 skiplist"),
            ("OBJECT ENCODING wide", "$8 skiplist"),
            ("OBJECT ENCODING full", "$8 listpack"),
            ("ZADD full 1 more", ":1"),
            ("OBJECT ENCODING full", "$8 skiplist"),
            ("ZREMRANGEBYRANK full 1 -1", ":128"),
            ("OBJECT ENCODING full", "$8 skiplist"),
            ("ZADD z -0 zero", ":1"),
            ("ZSCORE z zero", "$1 0"),
            ("ZADD full -0 zero", ":1"),
            ("ZSCORE full zero", "$2 -0"),
        ],
    );
}

#[test]
fn a_rank_with_its_score_is_a_pair_in_both_protocols() {
    let mut session = session();
    session.protocol = Protocol::Resp3;
    assert_eq!(session.run("ZRANK z b WITHSCORE"), "*2 :1 ,2");
    assert_eq!(session.run("ZREVRANK z x WITHSCORE"), "_");
}

#[test]
fn iterations_return_names_alone_when_they_are_asked_to() {
    const FOR_HASHES: &str = "-ERR NOVALUES option can only be used in HSCAN";
    const FOR_SORTED_SETS: &str = "-ERR NOSCORES option can only be used in ZSCAN";
    let mut session = Session::new();
    session.run("ZADD z 1 a 2 b");
    session.run("HSET h f 1 g 2");
    session.run("SADD s m");
    replies(
        &mut session,
        &[
            ("ZSCAN z 0", "*2 $1 0 *4 $1 a $1 1 $1 b $1 2"),
            ("ZSCAN z 0 NOSCORES", "*2 $1 0 *2 $1 a $1 b"),
            ("ZSCAN z 0 noscores MATCH b COUNT 5", "*2 $1 0 *1 $1 b"),
            ("ZSCAN z 0 COUNT 5 NOSCORES", "*2 $1 0 *2 $1 a $1 b"),
            ("HSCAN h 0", "*2 $1 0 *4 $1 f $1 1 $1 g $1 2"),
            ("HSCAN h 0 NOVALUES", "*2 $1 0 *2 $1 f $1 g"),
            ("HSCAN h 0 MATCH g novalues", "*2 $1 0 *1 $1 g"),
            ("HSCAN h 0 NOVALUES MATCH", "-ERR syntax error"),
            ("HSCAN h 0 NOSCORES", FOR_SORTED_SETS),
            ("ZSCAN z 0 NOVALUES", FOR_HASHES),
            ("SSCAN s 0 NOVALUES", FOR_HASHES),
            ("SSCAN s 0 NOSCORES", FOR_SORTED_SETS),
            ("SCAN 0 NOVALUES", FOR_HASHES),
            ("SCAN 0 COUNT 5 NOSCORES", FOR_SORTED_SETS),
            ("HSCAN nokey 0 NOSCORES", "*2 $1 0 *0"),
        ],
    );
}

/// AGGREGATE COUNT of Redis 8.8.
#[test]
fn sources_can_be_counted_whatever_their_scores() {
    let mut session = Session::new();
    session.run("ZADD z1 1 foo -inf bar");
    session.run("ZADD z2 2 foo 2 bar");
    session.run("ZADD z3 3 foo 99 other");
    session.run("SADD s foo member");
    replies(
        &mut session,
        &[
            ("ZUNIONSTORE out 3 z1 z2 z3 AGGREGATE COUNT", ":3"),
            ("ZRANGE out 0 -1 WITHSCORES", "*6 $5 other $1 1 $3 bar $1 2 $3 foo $1 3"),
            ("ZINTERSTORE out 2 z1 z2 AGGREGATE count", ":2"),
            ("ZRANGE out 0 -1 WITHSCORES", "*4 $3 bar $1 2 $3 foo $1 2"),
            (
                "ZUNION 3 z1 z2 z3 WEIGHTS 1 10 0.5 AGGREGATE COUNT WITHSCORES",
                "*6 $5 other $3 0.5 $3 bar $2 11 $3 foo $4 11.5",
            ),
            ("ZINTER 3 z1 z2 z3 AGGREGATE COUNT WEIGHTS 1 10 100 WITHSCORES", "*2 $3 foo $3 111"),
            ("ZINTER 2 z1 s AGGREGATE COUNT WITHSCORES", "*2 $3 foo $1 2"),
            (
                "ZUNION 2 z1 z1 WEIGHTS inf -inf AGGREGATE COUNT WITHSCORES",
                "*4 $3 bar $1 0 $3 foo $1 0",
            ),
            ("ZUNION 1 z1 AGGREGATE COUNTS", "-ERR syntax error"),
            ("ZDIFF 1 z1 AGGREGATE COUNT", "-ERR syntax error"),
            ("ZINTERCARD 1 z1 AGGREGATE COUNT", "-ERR syntax error"),
        ],
    );
}
