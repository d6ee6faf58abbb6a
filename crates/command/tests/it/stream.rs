//! Streams: calls, and what redis-server 7.0.15 or, to newer ones, 8.2.3 replies to them. What depends on the clock, and what 7.2 tells in addition,
//! is in tests of its own.

use command::table;
use keyspace::stream::{MessageLimits, PRODUCERS_MAX};
use resp::Protocol;

use crate::session::{START_MS, Session};
use crate::sort::dump;

/// Replays calls with the replies that they had, of which there are at least so many.
fn assert_replies(recorded: &str, calls_min: usize) {
    let mut session = Session::new();
    let mut lines = recorded.lines();
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
    assert!(calls > calls_min, "{calls} calls");
}

#[test]
fn replies_are_those_of_redis() {
    assert_replies(include_str!("stream.txt"), 1000);
}

/// XDELEX, XACKDEL, and what trims do with what groups know.
#[test]
fn replies_to_newer_commands_are_those_of_redis_8_2() {
    assert_replies(include_str!("stream_8_2.txt"), 190);
}

/// Redis 8.2.3 removes nothing here, whatever the groups have: `~` and DELREF or ACKED together are a mistake of it.
#[test]
fn an_approximate_trim_heeds_what_groups_know() {
    let mut session = Session::new();
    let fill = |session: &mut Session| {
        session.run("DEL s");
        for seq in 1..=250 {
            session.run(&format!("XADD s 1-{seq} f v"));
        }
        session.run("XGROUP CREATE s g 0");
        session.run("XREADGROUP GROUP g c COUNT 150 STREAMS s >");
    };
    fill(&mut session);
    assert_eq!(session.run("XTRIM s MAXLEN ~ 10 DELREF"), ":200");
    assert!(session.run("XPENDING s g").starts_with("*4 :0 "));
    fill(&mut session);
    for seq in (1..=150).filter(|seq| *seq != 7) {
        session.run(&format!("XACK s g 1-{seq}"));
    }
    assert_eq!(session.run("XTRIM s MAXLEN ~ 10 ACKED LIMIT 100"), ":100");
    assert!(session.run("XRANGE s - + COUNT 2").starts_with("*2 *2 $3 1-7 "));
    assert_eq!(session.run("XTRIM s MAXLEN ~ 10 ACKED"), ":49");
    assert!(session.run("XRANGE s - + COUNT 2").contains(" $5 1-151 "));
    assert_eq!(session.run("XLEN s"), ":101");
}

/// What is found to be claimed is what there is room for.
#[test]
fn a_claim_ends_where_its_room_does() {
    let mut session = Session::new();
    for seq in 1..=20 {
        session.run(&format!("XADD s 1-{seq} f v"));
    }
    session.run("XGROUP CREATE s g 0");
    session.run("XREADGROUP GROUP g a STREAMS s >");
    session.now_ms += 100;
    let claimed = |session: &mut Session, options: &str| {
        let words = format!("XREADGROUP GROUP g b CLAIM 50 {options} STREAMS s >");
        session.run(&words).matches("$1 v").count()
    };
    assert_eq!(claimed(&mut session, "MAXCOUNT 3"), 3);
    assert_eq!(claimed(&mut session, "MAXSIZE 1"), 1);
    // Of about 40 bytes each.
    let some = claimed(&mut session, "MAXSIZE 200 COUNT 9");
    assert!((4..=6).contains(&some), "{some}");
    assert_eq!(claimed(&mut session, "COUNT 2"), 2);
    assert_eq!(claimed(&mut session, "COUNT 99"), 14 - some);
    // What waits for entries that are gone is forgotten as far as it was looked at.
    for seq in 11..=20 {
        session.run(&format!("XDEL s 1-{seq}"));
    }
    for (room, left) in [("MAXCOUNT 1", 20), ("MAXSIZE 1", 20), ("MAXCOUNT 99", 10)] {
        session.now_ms += 100;
        claimed(&mut session, room);
        assert!(session.run("XPENDING s g").starts_with(&format!("*4 :{left} ")), "{room}");
    }
}

/// As the tests of Redis 8.4 have it.
#[test]
fn what_was_held_for_too_long_is_claimed_before_what_is_new() {
    let mut session = Session::new();
    for id in ["1-0", "2-0", "3-0"] {
        session.run(&format!("XADD s {id} f v"));
    }
    session.run("XGROUP CREATE s g 0");
    session.run("XREADGROUP GROUP g a COUNT 1 STREAMS s >");
    session.now_ms += 100;
    session.run("XREADGROUP GROUP g a COUNT 1 STREAMS s >");
    let claim = "XREADGROUP GROUP g b CLAIM 50 STREAMS s >";
    assert_eq!(
        session.run(claim),
        "*1 *2 $1 s *2 *4 $3 1-0 *2 $1 f $1 v :100 :1 *4 $3 3-0 *2 $1 f $1 v :0 :0"
    );
    assert_eq!(session.run(claim), "*-1");
    session.now_ms += 50;
    session.run("XCLAIM s g a 0 1-0 IDLE 90 JUSTID");
    // The longest first; all that is pending is shared by COUNT with what is new.
    session.run("XADD s 4-0 f v");
    let claim = "XREADGROUP CLAIM 50 GROUP g b COUNT 3 STREAMS s >";
    assert_eq!(
        session.run(claim),
        "*1 *2 $1 s *3 *4 $3 1-0 *2 $1 f $1 v :90 :2 *4 $3 2-0 *2 $1 f $1 v :50 :1 \
         *4 $3 3-0 *2 $1 f $1 v :50 :1"
    );
    assert_eq!(session.run(claim), "*1 *2 $1 s *1 *4 $3 4-0 *2 $1 f $1 v :0 :0");
    // What is gone is forgotten; what is claimed must be acknowledged also with NOACK.
    session.now_ms += 50;
    session.run("XTRIM s MAXLEN 1");
    session.run("XADD s 5-0 f v");
    assert_eq!(
        session.run("XREADGROUP GROUP g b NOACK CLAIM 50 STREAMS s >"),
        "*1 *2 $1 s *2 *4 $3 4-0 *2 $1 f $1 v :50 :1 *4 $3 5-0 *2 $1 f $1 v :0 :0"
    );
    assert_eq!(session.run("XPENDING s g - + 10"), "*1 *4 $3 4-0 $1 b :0 :2");
    // Its own history is told as ever.
    assert_eq!(
        session.run("XREADGROUP GROUP g b CLAIM 0 STREAMS s 0"),
        "*1 *2 $1 s *1 *2 $3 4-0 *2 $1 f $1 v"
    );
    session.run("XGROUP DELCONSUMER s g b");
    assert_eq!(session.run("XREADGROUP GROUP g c CLAIM 0 STREAMS s >"), "*-1");
    for (number, error) in [
        ("x", "-ERR min-idle-time is not an integer"),
        ("+10", "-ERR min-idle-time is not an integer"),
        ("-0", "-ERR min-idle-time is not an integer"),
        ("-10", "-ERR min-idle-time must be a positive integer"),
    ] {
        let call = format!("XREADGROUP GROUP g b CLAIM {number} STREAMS s >");
        assert_eq!(session.run(&call), error);
    }
    assert_eq!(session.run("XREADGROUP GROUP g b CLAIM 9223372036854775807 STREAMS s >"), "*-1");
    assert!(session.run("XREAD CLAIM 1 STREAMS s 0").starts_with("-ERR The CLAIM option"));
}

/// As the tests of Redis 8.10 have it.
#[test]
fn a_reply_of_several_streams_is_bounded() {
    let mut session = Session::new();
    for key in ["a", "b", "c"] {
        for seq in 1..=3 {
            session.run(&format!("XADD {key} 1-{seq} f v"));
        }
        session.run(&format!("XGROUP CREATE {key} g 0"));
    }
    let entries = |reply: &str| reply.matches("$3 1-").count();
    let ids = "STREAMS a b c 0 0 0";
    for (options, expected, streams) in [
        ("", 9, 3),
        ("MAXCOUNT 4", 4, 2),
        ("COUNT 2 MAXCOUNT 3", 3, 2),
        ("MAXCOUNT 100 COUNT 1", 3, 3),
        ("MAXSIZE 1", 1, 1),
        ("MAXSIZE 100", 3, 1),
        ("MAXSIZE 100000 MAXCOUNT 9", 9, 3),
    ] {
        let reply = session.run(&format!("XREAD {options} {ids}").replace("  ", " "));
        assert_eq!(
            (entries(&reply), reply.matches("*2 $1").count() - expected),
            (expected, streams),
            "{options}: {reply}"
        );
    }
    // What is not written is not delivered.
    assert_eq!(entries(&session.run("XREADGROUP GROUP g x MAXSIZE 1 STREAMS a b > >")), 1);
    assert_eq!(entries(&session.run("XREADGROUP GROUP g x MAXCOUNT 3 STREAMS a b > >")), 3);
    assert!(session.run("XPENDING a g").starts_with("*4 :3 "));
    assert!(session.run("XPENDING b g").starts_with("*4 :1 "));
    assert_eq!(entries(&session.run("XREADGROUP GROUP g x MAXCOUNT 2 STREAMS a 0")), 2);
    for (options, error) in [
        ("MAXCOUNT 0", "-ERR MAXCOUNT must be a positive integer"),
        ("MAXCOUNT -1", "-ERR MAXCOUNT must be a positive integer"),
        ("MAXSIZE 0", "-ERR MAXSIZE must be a positive integer"),
        ("COUNT 3 MAXCOUNT 2", "-ERR MAXCOUNT must be greater than or equal to COUNT"),
    ] {
        assert_eq!(session.run(&format!("XREAD {options} {ids}")), error);
    }
}

/// Redis takes names of any length.
#[test]
fn a_long_name_is_a_name() {
    let mut session = Session::new();
    let long = "x".repeat(70_000);
    let first = session.run(&format!("XADD s IDMP {long} {long} * f v"));
    assert!(!first.starts_with('-'), "{first}");
    assert_eq!(session.run(&format!("XADD s IDMP {long} {long} * f v")), first);
    assert_ne!(session.run(&format!("XADD s IDMP {long} {long}y * f v")), first);
    assert_ne!(session.run(&format!("XADD s IDMP {long}y {long} * f v")), first);
    assert!(!session.run(&format!("XADD s IDMPAUTO {long} * f v")).starts_with('-'));
}

#[test]
fn one_producer_too_many_is_told_so() {
    let mut session = Session::new();
    for number in 0..PRODUCERS_MAX {
        session.run(&format!("XADD s IDMP {number} m * f v"));
    }
    let full = format!(":{PRODUCERS_MAX}");
    let refusal = session.run("XADD s IDMP other m * f v");
    assert!(refusal.starts_with("-ERR the stream knows too many producers"), "{refusal}");
    assert_eq!(session.run("XLEN s"), full);
    assert!(!session.run("XADD s IDMP 7 other * f v").starts_with('-'), "it is known");
    assert!(!session.run("XADD s IDMPAUTO 7 * f v").starts_with('-'), "it is known");
    assert!(!session.run("XADD s * f v").starts_with('-'), "it has no producer");
    session.now_ms += 100_000;
    assert!(!session.run("XADD s IDMP other m * f v").starts_with('-'), "others have expired");
}

/// How long a message is known, and which goes first, has nothing to do with ids.
#[test]
fn a_message_has_its_time_whatever_its_entry_is_called() {
    let mut session = Session::new();
    session.run("XADD s 99999999999999-0 f v");
    let first = session.run("XADD s IDMP p m * f v");
    session.now_ms += 99_999;
    assert_eq!(session.run("XADD s IDMP p m * f v"), first);
    session.now_ms += 1;
    let second = session.run("XADD s IDMP p m * f v");
    assert_ne!(second, first, "its producer may use the name again");
    assert_eq!(session.run("XADD s IDMP p m * f v"), second);
    // Ids begin anew.
    session.run("XCFGSET s IDMP-MAXSIZE 2");
    session.run("XADD s IDMP p 1 * f v");
    session.run("XADD s IDMP p 2 * f v");
    session.run("XTRIM s MAXLEN 0");
    assert_eq!(session.run("XSETID s 1-0"), "+OK");
    let mut before = session.run("XADD s IDMP p 3 * f v");
    for name in 4..7 {
        let added = session.run(&format!("XADD s IDMP p {name} * f v"));
        assert_eq!(session.run(&format!("XADD s IDMP p {name} * f v")), added);
        // The one that goes is the oldest, not the one with the least id.
        assert_eq!(session.run(&format!("XADD s IDMP p {} * f v", name - 1)), before);
        before = added;
    }
    assert_eq!(session.run("XLEN s"), ":4");
    // The clock is put back.
    session.now_ms -= 100_000;
    let third = session.run("XADD s IDMP p 6 * f v");
    assert_eq!((session.run("XADD s IDMP p 6 * f v"), session.run("XLEN s")), (third, ":5".into()));
}

/// As the tests of Redis 8.6 have it.
#[test]
fn what_a_producer_adds_again_is_recognized() {
    let mut session = Session::new();
    let first = session.run("XADD s IDMP p m * f v");
    session.now_ms += 5;
    assert_eq!(session.run("XADD s IDMP p m * f other"), first);
    assert_eq!(session.run("XADD s MAXLEN 5 IDMP p m KEEPREF * f other g h"), first);
    assert_eq!(session.run("XLEN s"), ":1");
    assert_ne!(session.run("XADD s IDMP q m * f v"), first);
    let automatic = session.run("XADD s IDMPAUTO p * f v g w");
    assert_eq!(session.run("XADD s IDMPAUTO p * g w f v"), automatic);
    assert_ne!(session.run("XADD s IDMPAUTO p * f w g v"), automatic);
    assert_ne!(session.run("XADD s IDMPAUTO p * fv gw"), automatic);
    assert_eq!(session.run("XLEN s"), ":5");
    assert!(session.run("XINFO STREAM s").contains(
        "$13 idmp-duration :100 $12 idmp-maxsize :100 $12 pids-tracked :2 $12 iids-tracked :5"
    ));
    session.run("XTRIM s MAXLEN 0");
    assert_eq!(session.run("XADD s IDMP p m * f v"), first, "whatever became of the entry");
    session.now_ms += 100_000;
    let second = session.run("XADD s IDMP p m * f v");
    assert_ne!(second, first, "it is too old");
    for same in ["IDMP-DURATION 100", "IDMP-MAXSIZE 100", "IDMP-DURATION 100 IDMP-MAXSIZE 100"] {
        assert_eq!(session.run(&format!("XCFGSET s {same}")), "+OK");
        assert_eq!(session.run("XADD s IDMP p m * f v"), second, "nothing has changed");
    }
    // What a producer has is bounded.
    assert_eq!(session.run("XCFGSET s IDMP-MAXSIZE 2"), "+OK");
    assert_ne!(session.run("XADD s IDMP p m * f v"), second, "XCFGSET forgets");
    let last: Vec<String> =
        (0..3).map(|name| session.run(&format!("XADD s IDMP p {name} * f v"))).collect();
    assert_eq!(session.run("XADD s IDMP p 2 * f v"), last[2]);
    assert_eq!(session.run("XADD s IDMP p 1 * f v"), last[1]);
    assert_ne!(session.run("XADD s IDMP p 0 * f v"), last[0]);
    assert!(session.run("XINFO STREAM s").contains("$12 pids-tracked :1 $12 iids-tracked :2"));
    assert_eq!(session.run("XADD none NOMKSTREAM IDMP p m * f v"), "$-1");
    for (call, error) in [
        ("XADD s IDMP p * f v", "-ERR Invalid stream ID specified as stream command argument"),
        ("XADD s IDMP p m 1-1 f v", "-ERR IDMP/IDMPAUTO can be used only with auto-generated IDs"),
        ("XADD s IDMP p m IDMPAUTO p * f v", "-ERR IDMP/IDMPAUTO specified multiple times"),
        ("XADD s IDMP  m * f v", "-ERR IDMP requires a non-empty producer ID"),
        ("XADD s IDMP p  * f v", "-ERR IDMP requires a non-empty idempotent ID"),
        ("XADD s IDMPAUTO  * f v", "-ERR IDMPAUTO requires a non-empty producer ID"),
        ("XCFGSET none IDMP-DURATION 5", "-ERR no such key"),
        ("XCFGSET s IDMP-DURATION", "-ERR syntax error"),
        ("XCFGSET s IDMP-DURATION x", "-ERR value is not an integer or out of range"),
        ("XCFGSET s OTHER 1", "-ERR syntax error"),
    ] {
        assert_eq!(session.run(call), error, "{call}");
    }
    for (call, error) in [
        ("XCFGSET s", "-ERR At least one parameter"),
        ("XCFGSET s IDMP-DURATION 86401", "-ERR IDMP-DURATION must be between"),
        ("XCFGSET s IDMP-DURATION 0", "-ERR IDMP-DURATION must be between"),
        ("XCFGSET s IDMP-MAXSIZE 10001", "-ERR IDMP-MAXSIZE must be between"),
        ("XCFGSET s IDMP-MAXSIZE -50", "-ERR IDMP-MAXSIZE must be between"),
    ] {
        assert!(session.run(call).starts_with(error), "{call}");
    }
}

/// Those that a stream has been given, or has begun with, stay.
#[test]
fn a_stream_gets_the_limits_of_the_settings_with_its_first_message() {
    let mut session = Session::new();
    let set = |session: &mut Session, duration_s, messages_max| {
        session.keyspace.settings_mut().message_limits = MessageLimits { duration_s, messages_max };
    };
    let are = |session: &mut Session, key: &str, duration_s: u32, messages_max: u32| {
        let said = format!("$13 idmp-duration :{duration_s} $12 idmp-maxsize :{messages_max} ");
        let told = session.run(&format!("XINFO STREAM {key}"));
        assert!(told.contains(&said), "{told}");
    };
    session.run("XADD before IDMP p 0 * f v");
    session.run("XADD empty * f v");
    set(&mut session, 5, 2);
    let added: Vec<String> =
        (0..3).map(|name| session.run(&format!("XADD s IDMP p {name} * f v"))).collect();
    are(&mut session, "s", 5, 2);
    assert_eq!(session.run("XADD s IDMP p 2 * f v"), added[2]);
    assert_ne!(session.run("XADD s IDMP p 0 * f v"), added[0]);
    session.run("COPY s copy");
    set(&mut session, 9, 8);
    for key in ["s", "copy"] {
        session.run(&format!("XADD {key} IDMP p 3 * f v"));
        are(&mut session, key, 5, 2);
    }
    session.run("XADD before IDMP p 1 * f v");
    are(&mut session, "before", 100, 100);
    session.run("XCFGSET before IDMP-MAXSIZE 3");
    are(&mut session, "before", 100, 3);
    assert!(!session.run("XINFO STREAM empty").contains("idmp"));
    session.run("XCFGSET empty IDMP-MAXSIZE 3");
    are(&mut session, "empty", 9, 3);
    session.run("XADD empty IDMP p 1 * f v");
    are(&mut session, "empty", 9, 3);
    session.run("XADD other IDMPAUTO p * f v");
    are(&mut session, "other", 9, 8);
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

/// Replies as in Redis 8.8's tests of XNACK.
#[test]
fn what_is_given_back_is_pending_and_no_consumer_has_it() {
    let mut session = Session::new();
    let fill = |session: &mut Session| {
        session.run("DEL s");
        for ms in 1..=3 {
            session.run(&format!("XADD s {ms}-0 f v"));
        }
        session.run("XGROUP CREATE s g 0");
        session.run("XREADGROUP GROUP g c STREAMS s >");
    };
    let pending = |id: &str, count: &str| format!("*4 $3 {id} $0  :-1 :{count}");
    fill(&mut session);
    assert_eq!(session.run("XNACK s g FAIL IDS 3 1-0 9-9 1-0"), ":2");
    assert_eq!(session.run("XPENDING s g - + 1"), format!("*1 {}", pending("1-0", "1")));
    // Idle for any time, in the group's list alone.
    assert_eq!(
        session.run("XPENDING s g IDLE 9000000000000000000 - + 9"),
        format!("*1 {}", pending("1-0", "1"))
    );
    assert!(session.run("XPENDING s g - + 9 c").starts_with("*2 *4 $3 2-0 $1 c "));
    assert!(session.run("XPENDING s g").starts_with("*4 :3 $3 1-0 $3 3-0 *1 *2 $1 c $1 2"));
    assert!(session.run("XREADGROUP GROUP g c STREAMS s 0").starts_with("*1 *2 $1 s *2 *2 $3 2-0"));
    // The modes, and what is set in their place.
    for (call, count) in [
        ("XNACK s g SILENT IDS 1 1-0", "0"),
        ("XNACK s g SILENT IDS 1 1-0", "0"),
        ("XNACK s g FATAL IDS 1 1-0", "9223372036854775807"),
        ("XNACK s g FAIL IDS 1 1-0", "9223372036854775807"),
        ("XNACK s g FATAL RETRYCOUNT 42 IDS 1 1-0", "42"),
        ("XNACK s g silent ids 1 1-0 retrycount 0", "0"),
    ] {
        assert_eq!(session.run(call), ":1", "{call}");
        let expected = format!("*1 {}", pending("1-0", count));
        assert_eq!(session.run("XPENDING s g - + 1"), expected, "{call}");
    }
    // Each way to claim takes it, however long an entry must have been idle.
    for call in [
        "XCLAIM s g d 9000000000000000000 1-0 JUSTID",
        "XAUTOCLAIM s g d 9000000000000000000 0 JUSTID",
        "XREADGROUP GROUP g d COUNT 1 CLAIM 9223372036854775807 STREAMS s >",
    ] {
        session.run("XNACK s g FAIL IDS 1 1-0");
        assert!(session.run(call).contains("$3 1-0"), "{call}");
        assert!(session.run("XPENDING s g - + 9 d").starts_with("*1 *4 $3 1-0 $1 d "), "{call}");
    }
    // The consumer goes, and what it gave back stays.
    session.run("XNACK s g FAIL IDS 1 3-0");
    assert_eq!(session.run("XGROUP DELCONSUMER s g c"), ":1");
    assert!(session.run("XPENDING s g").starts_with("*4 :2 $3 1-0 $3 3-0 "));
    assert_eq!(session.run("XACK s g 3-0"), ":1");
}

/// Redis counts no further than a number of 64 bits with a sign goes: what is poison stays it.
#[test]
fn what_is_given_back_as_fatal_has_the_largest_count_whatever_follows() {
    let mut session = Session::new();
    session.run("XADD s 1-0 f v");
    session.run("XGROUP CREATE s g 0");
    session.run("XREADGROUP GROUP g c STREAMS s >");
    session.run("XNACK s g FATAL IDS 1 1-0");
    for call in [
        "XCLAIM s g c 0 1-0",
        "XAUTOCLAIM s g c 0 0",
        "XREADGROUP GROUP g c CLAIM 0 STREAMS s >",
        "XREADGROUP GROUP g c STREAMS s 0",
    ] {
        assert!(session.run(call).contains("$3 1-0"), "{call}");
    }
    session.run("XNACK s g SILENT IDS 1 1-0");
    let pending = session.run("XPENDING s g - + 9");
    assert!(pending.ends_with(":9223372036854775806"), "{pending}");
}

/// Redis keeps what was given back in the order in which it was; what is given back again is the last.
#[test]
fn what_was_given_back_first_is_claimed_first() {
    let mut session = Session::new();
    for ms in 1..=4 {
        session.run(&format!("XADD s {ms}-0 f v"));
    }
    session.run("XGROUP CREATE s g 0");
    session.run("XREADGROUP GROUP g c STREAMS s >");
    // From here on the group keeps what is pending by time.
    assert_eq!(session.run("XREADGROUP GROUP g d CLAIM 9000000 STREAMS s >"), "*-1");
    session.run("XNACK s g FAIL IDS 3 3-0 1-0 2-0");
    session.run("XNACK s g FAIL IDS 1 1-0");
    // A copy goes on behind what was given back before.
    session.run("COPY s t");
    session.run("XNACK t g FAIL IDS 1 4-0");
    for key in ["s", "t"] {
        for id in ["3-0", "2-0", "1-0", "4-0"] {
            let call = format!("XREADGROUP GROUP g d COUNT 1 CLAIM 0 STREAMS {key} >");
            let reply = session.run(&call);
            assert!(reply.starts_with(&format!("*1 *2 $1 {key} *1 *4 $3 {id} ")), "{reply}");
            session.run(&format!("XACK {key} g {id}"));
        }
    }
}

/// Both make claimable at once what was not.
#[test]
fn those_that_wait_are_told_of_what_is_given_back_or_made_older() {
    let mut session = Session::new();
    session.run("XADD s 1-0 f v");
    session.run("XGROUP CREATE s g 0");
    session.run("XREADGROUP GROUP g c STREAMS s >");
    session.keyspace.await_changes(session.db, b"s");
    for (call, is_told) in [
        ("XCLAIM s g d 0 1-0", false),
        ("XCLAIM s g d 0 1-0 IDLE 0", false),
        ("XCLAIM s g d 0 1-0 TIME 9000000000000", false),
        ("XCLAIM s g d 0 1-0 IDLE 9", true),
        ("XCLAIM s g d 0 1-0 TIME 9", true),
        ("XCLAIM s g d 0 9-9 TIME 9", false),
        ("XNACK s g FAIL IDS 1 9-9", false),
        ("XNACK s g FAIL IDS 1 1-0", true),
    ] {
        session.keyspace.take_effects();
        session.run(call);
        assert_eq!(!session.keyspace.take_effects().ready.is_empty(), is_told, "{call}");
    }
}

/// Older servers read no payload with an entry that waits and that no consumer has.
#[test]
fn a_consumer_without_a_name_has_in_a_payload_what_was_given_back() {
    for has_unnamed in [false, true] {
        let mut session = Session::new();
        for ms in 1..=5 {
            session.run(&format!("XADD s {ms}-0 f v"));
        }
        session.run("XGROUP CREATE s g 0");
        session.run("XREADGROUP GROUP g c COUNT 3 STREAMS s >");
        if has_unnamed {
            let read = ["XREADGROUP", "GROUP", "g", "", "COUNT", "1", "STREAMS", "s", ">"];
            session.run_arguments(&read.map(str::as_bytes));
        }
        session.run("XNACK s g FAIL FORCE RETRYCOUNT 6 IDS 3 5-0 3-0 1-0");
        let payload = dump(&mut session, "s");
        assert_eq!(session.run_arguments(&[b"RESTORE", b"t", b"0", &payload]), "+OK");
        // Given at 0, it is idle since then.
        let idle = format!(":{} ", session.now_ms);
        let pending = session.run("XPENDING s g - + 9").replace(":-1 ", &idle);
        assert_eq!(session.run("XPENDING t g - + 9"), pending);
        let held = if has_unnamed { "1-0 3-0 4-0 5-0" } else { "1-0 3-0 5-0" };
        let call = [&b"XREADGROUP"[..], b"GROUP", b"g", b"", b"STREAMS", b"t", b"0"];
        let reply = session.run_arguments(&call);
        let found: Vec<&str> = reply.split(' ').filter(|word| word.ends_with("-0")).collect();
        assert_eq!(found.join(" "), held);
    }
}

#[test]
fn xnack_force_gives_back_what_is_not_pending() {
    let mut session = Session::new();
    session.run("XADD s 1-0 f v");
    session.run("XGROUP CREATE s g 0");
    for (call, count) in [
        ("XNACK s g FAIL FORCE IDS 1 1-0", "0"),
        ("XNACK s g SILENT IDS 1 1-0 FORCE", "0"),
        ("XNACK s g FATAL IDS 1 1-0 FORCE", "9223372036854775807"),
        ("XNACK s g FAIL FORCE RETRYCOUNT 7 IDS 1 1-0", "7"),
    ] {
        assert_eq!(session.run(call), ":1", "{call}");
        let expected = format!("*1 *4 $3 1-0 $0  :-1 :{count}");
        assert_eq!(session.run("XPENDING s g - + 9"), expected, "{call}");
        session.run("XACK s g 1-0");
    }
    assert_eq!(session.run("XNACK s g FAIL IDS 1 1-0"), ":0");
    assert_eq!(session.run("XNACK s g FAIL IDS 1 9-9 FORCE"), ":0");
    for (call, error) in [
        ("XNACK none g FAIL IDS 1 1-0", "-NOGROUP No such key 'none' or consumer group 'g'"),
        ("XNACK s none FAIL IDS 1 1-0", "-NOGROUP No such key 's' or consumer group 'none'"),
        ("XNACK s g BAD IDS 1 1-0", "-ERR mode must be SILENT, FAIL, or FATAL"),
        ("XNACK s g FAIL IDS 0 1-0", "-ERR numids must be a positive integer"),
        ("XNACK s g FAIL IDS x 1-0", "-ERR numids must be a positive integer"),
        ("XNACK s g FAIL IDS 2 1-0", "-ERR number of IDs doesn't match numids"),
        ("XNACK s g FAIL IDS 1 1-0 1-0", "-ERR Unrecognized XNACK option '1-0'"),
        ("XNACK s g FAIL FORCE RETRYCOUNT 1", "-ERR syntax error, expected IDS keyword"),
        ("XNACK s g FAIL IDS 1 1-0 RETRYCOUNT -1", "-ERR Invalid RETRYCOUNT value, must be >= 0"),
        ("XNACK s g FAIL IDS 1 1-0 RETRYCOUNT x", "-ERR value is not an integer or out of range"),
        ("XNACK s g FAIL IDS 1 x", "-ERR Invalid stream ID specified as stream command argument"),
    ] {
        assert_eq!(session.run(call), error, "{call}");
    }
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
