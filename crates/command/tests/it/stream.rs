//! Streams: calls, and what redis-server 7.0.15 replies to them. What depends on the clock, and what 7.2 tells in addition,
//! is in tests of its own.

use command::table;
use resp::Protocol;

use crate::session::{START_MS, Session};

#[test]
fn replies_are_those_of_redis() {
    let mut session = Session::new();
    let mut lines = include_str!("stream.txt").lines();
    let mut calls = 0;
    while let (Some(call), Some(expected)) = (lines.next(), lines.next()) {
        let call = call.strip_prefix("> ").expect("calls and replies in turn");
        let words: Vec<&[u8]> = call.split(' ').map(str::as_bytes).collect();
        if table::resolve(&words).is_ok_and(|command| !command.accepts(words.len())) {
            // No handler sees it.
            assert!(expected.starts_with("-ERR wrong number of arguments"), "{call}");
            continue;
        }
        assert_eq!(session.run(call), expected, "{call}");
        calls += 1;
    }
    assert!(calls > 1000, "{calls} calls");
}

#[test]
fn an_id_is_the_time_or_follows_the_last_one() {
    let mut session = Session::new();
    let first = format!("${} {START_MS}-0", START_MS.to_string().len() + 2);
    assert_eq!(session.run("XADD s * f v"), first);
    assert_eq!(session.run("XADD s * f v"), first.replace("-0", "-1"));
    session.now_ms -= 5000;
    assert_eq!(session.run("XADD s * f v"), first.replace("-0", "-2"));
    session.now_ms += 5001;
    assert!(session.run("XADD s * f v").ends_with(&format!("{}-0", START_MS + 1)));
    assert_eq!(session.events(), ["xadd s"; 4]);
}

#[test]
fn a_consumer_is_seen_when_it_asks_and_active_when_it_gets() {
    let mut session = Session::new();
    session.run("XADD s 1-1 f v");
    session.run("XGROUP CREATE s g 0");
    assert_eq!(session.run("XREADGROUP GROUP g idle COUNT 1 STREAMS s 9-9"), "*1 *2 $1 s *0");
    session.now_ms += 100;
    let read = "*1 *2 $1 s *1 *2 $3 1-1 *2 $1 f $1 v";
    assert_eq!(session.run("XREADGROUP GROUP g busy STREAMS s >"), read);
    assert_eq!(session.run("XREADGROUP GROUP g busy STREAMS s >"), "*-1");
    session.now_ms += 50;
    assert_eq!(
        session.run("XINFO CONSUMERS s g"),
        "*2 *8 $4 name $4 busy $7 pending :1 $4 idle :50 $8 inactive :50 \
         *8 $4 name $4 idle $7 pending :0 $4 idle :150 $8 inactive :-1"
    );
    let pending = "*1 *4 $3 1-1 $4 busy :50 :1";
    assert_eq!(session.run("XPENDING s g - + 10"), pending);
    assert_eq!(session.run("XPENDING s g IDLE 50 - + 10 busy"), pending);
    assert_eq!(session.run("XPENDING s g IDLE 51 - + 10"), "*0");
    // Its history is given again, which counts.
    session.run("XREADGROUP GROUP g busy STREAMS s 0");
    assert_eq!(session.run("XPENDING s g - + 10"), "*1 *4 $3 1-1 $4 busy :0 :2");
    assert_eq!(session.run("XCLAIM s g idle 1 1-1"), "*0");
    assert_eq!(session.run("XCLAIM s g idle 0 1-1 IDLE 20 JUSTID"), "*1 $3 1-1");
    assert_eq!(session.run("XPENDING s g - + 10"), "*1 *4 $3 1-1 $4 idle :20 :2");
    assert_eq!(
        session.events(),
        ["xadd s", "xgroup-create s", "xgroup-createconsumer s", "xgroup-createconsumer s"]
    );
}

#[test]
fn all_of_a_stream_is_told() {
    let mut session = Session::new();
    session.protocol = Protocol::Resp3;
    session.run("XADD s 1-1 f v");
    session.run("XADD s 1-2 f w");
    session.run("XGROUP CREATE s g 0");
    session.run("XREADGROUP GROUP g c COUNT 1 STREAMS s >");
    let time = START_MS;
    assert_eq!(
        session.run("XINFO STREAM s FULL"),
        format!(
            "%9 $6 length :2 $15 radix-tree-keys :1 $16 radix-tree-nodes :2 $17 last-generated-id \
             $3 1-2 $20 max-deleted-entry-id $3 0-0 $13 entries-added :2 \
             $23 recorded-first-entry-id $3 1-1 $7 entries *2 *2 $3 1-1 *2 $1 f $1 v *2 $3 1-2 *2 \
             $1 f $1 w $6 groups *1 %7 $4 name $1 g $17 last-delivered-id $3 1-1 $12 entries-read \
             :1 $3 lag :1 $9 pel-count :1 $7 pending *1 *4 $3 1-1 $1 c :{time} :1 $9 consumers *1 \
             %5 $4 name $1 c $9 seen-time :{time} $11 active-time :{time} $9 pel-count :1 $7 pending \
             *1 *3 $3 1-1 :{time} :1"
        )
    );
    assert_eq!(session.run("XREAD STREAMS s none 1-1 0"), "%1 $1 s *1 *2 $3 1-2 *2 $1 f $1 w");
    assert_eq!(session.run("XREAD STREAMS none 0"), "_");
}

#[test]
fn groups_are_no_concern_of_a_transaction() {
    let mut session = Session::new();
    session.run("XADD s 1-1 f v");
    session.keyspace.watch(session.db, b"s");
    let touched = |session: &mut Session| !session.keyspace.take_effects().touched.is_empty();
    touched(&mut session);
    for call in ["XGROUP CREATE s g 0", "XREADGROUP GROUP g c STREAMS s >", "XACK s g 1-1"] {
        session.run(call);
        assert!(!touched(&mut session), "{call}");
    }
    for call in ["XADD s 1-2 f v", "XDEL s 1-2", "XTRIM s MAXLEN 0", "DEL s"] {
        session.run(call);
        assert!(touched(&mut session), "{call}");
    }
}
