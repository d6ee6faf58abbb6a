//! SORT, and DUMP with RESTORE. The replies are a Redis 7.0 server's.

use base::DbIndex;
use keyspace::list::{End, List};
use keyspace::set::Set;
use keyspace::zset::ZSet;

use crate::session::Session;

fn push(session: &mut Session, key: &str, elements: &[&str]) {
    let key = key.as_bytes();
    let pushed = session.keyspace.update::<List, ()>(DbIndex::FIRST, key, true, |list| {
        elements.iter().for_each(|element| list.push(End::Back, element.as_bytes()));
    });
    assert!(pushed.is_ok());
}

/// The elements of an array reply of bulk strings, nulls as `nil`.
fn elements(reply: &str) -> Vec<String> {
    let reply = reply.replace("$-1", "$3 nil");
    let words = reply.split(' ').filter(|word| !word.starts_with(['*', '$']));
    words.map(str::to_owned).collect()
}

fn sort(session: &mut Session, call: &str) -> Vec<String> {
    let reply = session.run(call);
    assert!(reply.starts_with('*'), "{call}: {reply}");
    elements(&reply)
}

#[test]
fn numbers_are_sorted_as_numbers_and_words_with_alpha() {
    let mut session = Session::new();
    push(&mut session, "numbers", &["10", "9", "-1.5", "3e2", "9.0"]);
    assert_eq!(sort(&mut session, "SORT numbers"), ["-1.5", "9", "9.0", "10", "3e2"]);
    assert_eq!(sort(&mut session, "SORT numbers DESC"), ["3e2", "10", "9.0", "9", "-1.5"]);
    assert_eq!(sort(&mut session, "SORT numbers ALPHA"), ["-1.5", "10", "3e2", "9", "9.0"]);
    assert_eq!(sort(&mut session, "SORT_RO numbers LIMIT 1 2"), ["9", "9.0"]);
    assert_eq!(sort(&mut session, "SORT numbers LIMIT -5 2"), ["-1.5", "9"]);
    assert_eq!(sort(&mut session, "SORT numbers LIMIT 4 -1"), ["3e2"]);
    assert!(sort(&mut session, "SORT numbers LIMIT 9 2").is_empty());
    assert!(sort(&mut session, "SORT nope").is_empty());
    push(&mut session, "words", &["b", "a"]);
    assert_eq!(session.run("SORT words"), "-ERR One or more scores can't be converted into double");
}

#[test]
fn patterns_lead_to_weights_and_output() {
    let mut session = Session::new();
    push(&mut session, "ids", &["1", "2", "3"]);
    for (id, weight) in [("1", "30"), ("2", "20"), ("3", "10")] {
        session.run(&format!("SET weight_{id} {weight}"));
        session.run(&format!("HSET object_{id} name n{id} weight {weight}"));
    }
    assert_eq!(sort(&mut session, "SORT ids BY weight_*"), ["3", "2", "1"]);
    assert_eq!(sort(&mut session, "SORT ids BY object_*->weight DESC"), ["1", "2", "3"]);
    assert_eq!(
        sort(&mut session, "SORT ids BY weight_* GET # GET object_*->name GET nope_* LIMIT 0 1"),
        ["3", "n3", "nil"]
    );
    // No star leads nowhere; an arrow at the end belongs to the key; a hash is no string.
    session.run("SET x->_1 arrow");
    session.run("SET y_1-> end");
    assert_eq!(
        sort(&mut session, "SORT ids LIMIT 0 1 GET weight GET y_*-> GET object_*"),
        ["nil", "end", "nil"]
    );
    // Without a weight, an element weighs nothing.
    session.run("DEL weight_1");
    assert_eq!(sort(&mut session, "SORT ids BY weight_*"), ["1", "3", "2"]);
    assert_eq!(sort(&mut session, "SORT ids BY weight_* ALPHA"), ["1", "3", "2"]);
}

#[test]
fn a_constant_pattern_leaves_the_order_as_it_is() {
    let mut session = Session::new();
    push(&mut session, "list", &["c", "a", "b"]);
    assert_eq!(sort(&mut session, "SORT list BY nosort"), ["c", "a", "b"]);
    assert_eq!(sort(&mut session, "SORT list BY nosort DESC LIMIT 1 5"), ["a", "c"]);
    let zadded = session.keyspace.update::<ZSet, ()>(DbIndex::FIRST, b"zset", true, |zset| {
        for (member, score) in [("a", 5.0), ("b", 2.0), ("c", 10.0), ("d", 3.0)] {
            zset.set(member.as_bytes(), score);
        }
    });
    assert!(zadded.is_ok());
    assert_eq!(sort(&mut session, "SORT zset BY nosort ASC"), ["b", "d", "a", "c"]);
    assert_eq!(sort(&mut session, "SORT zset BY nosort DESC LIMIT 0 1"), ["c"]);
    assert_eq!(sort(&mut session, "SORT zset BY nosort DESC LIMIT 1 2"), ["a", "d"]);
    assert!(sort(&mut session, "SORT zset BY nosort LIMIT 5 2").is_empty());
}

#[test]
fn results_can_be_stored() {
    let mut session = Session::new();
    push(&mut session, "list", &["2", "1"]);
    session.run("SET out string");
    session.events();
    assert_eq!(session.run("SORT list STORE out"), ":2");
    assert_eq!(session.events(), ["sortstore out"]);
    assert_eq!(session.run("TYPE out"), "+list");
    assert_eq!(sort(&mut session, "SORT out BY nosort"), ["1", "2"]);
    assert_eq!(session.run("SORT list GET # GET nope_* STORE list"), ":4");
    assert_eq!(session.run("SORT nope STORE out"), ":0");
    assert_eq!(session.run("EXISTS out"), ":0");
    // A set is stored in an order that does not depend on chance.
    let added = session.keyspace.update::<Set, ()>(DbIndex::FIRST, b"set", true, |set| {
        for member in ["c", "b", "a"] {
            set.add(member.as_bytes());
        }
    });
    assert!(added.is_ok());
    assert_eq!(session.run("SORT set BY nosort STORE out"), ":3");
    assert_eq!(sort(&mut session, "SORT out BY nosort"), ["a", "b", "c"]);
}

#[test]
fn wrong_calls_are_refused() {
    let mut session = Session::new();
    session.run("SET string x");
    let wrong_type = "-WRONGTYPE Operation against a key holding the wrong kind of value";
    assert_eq!(session.run("SORT string"), wrong_type);
    for call in ["SORT l LIMIT 1", "SORT l GET", "SORT l NOPE", "SORT_RO l STORE x", "SORT l STORE"]
    {
        assert_eq!(session.run(call), "-ERR syntax error", "{call}");
    }
    assert_eq!(session.run("SORT l LIMIT x 1"), "-ERR value is not an integer or out of range");
}

/// What DUMP returns for a key that is there.
pub(crate) fn dump(session: &mut Session, key: &str) -> Vec<u8> {
    let reply = session.run_raw(&[b"DUMP", key.as_bytes()]);
    let header = reply.iter().position(|&byte| byte == b'\n').expect("a bulk string");
    reply[header + 1..reply.len() - 2].to_vec()
}

#[test]
fn dumped_values_come_back() {
    let mut session = Session::new();
    session.run("SET string value");
    push(&mut session, "list", &["a", "1", "a"]);
    session.run("HSET hash f v g w");
    for key in ["string", "list", "hash"] {
        let payload = dump(&mut session, key);
        assert_eq!(session.run_arguments(&[b"RESTORE", b"new", b"0", &payload]), "+OK");
        assert_eq!(dump(&mut session, "new").len(), payload.len());
        assert_eq!(
            session.run_arguments(&[b"RESTORE", b"new", b"0", &payload]),
            "-BUSYKEY Target key name already exists."
        );
        let again: [&[u8]; 5] = [b"RESTORE", b"new", b"500", &payload, b"REPLACE"];
        session.events();
        assert_eq!(session.run_arguments(&again), "+OK");
        assert_eq!(session.events(), ["restore new"]);
        assert_eq!(session.run("PTTL new"), ":500");
        assert_eq!(session.run(&format!("TYPE {key}")), session.run("TYPE new"));
        session.run("DEL new");
    }
    assert_eq!(session.run("DUMP nope"), "$-1");
}

#[test]
fn restore_checks_what_it_is_given() {
    let mut session = Session::new();
    session.run("SET string value");
    let payload = dump(&mut session, "string");
    let mut restore = |ttl: &[u8], payload: &[u8], options: &[&[u8]]| {
        let mut call: Vec<&[u8]> = vec![b"RESTORE", b"new", ttl, payload];
        call.extend_from_slice(options);
        session.run_arguments(&call)
    };
    assert_eq!(restore(b"-1", &payload, &[]), "-ERR Invalid TTL value, must be >= 0");
    assert_eq!(restore(b"0", b"nonsense", &[]), "-ERR DUMP payload version or checksum are wrong");
    assert_eq!(restore(b"0", &payload, &[b"nope"]), "-ERR syntax error");
    assert_eq!(
        restore(b"0", &payload, &[b"FREQ", b"256"]),
        "-ERR Invalid FREQ value, must be >= 0 and <= 255"
    );
    assert_eq!(restore(b"0", &payload, &[b"IDLETIME", b"5", b"FREQ", b"6"]), "-ERR syntax error");
    assert_eq!(restore(b"1000", &payload, &[b"ABSTTL"]), "+OK");
    assert_eq!(session.run("EXISTS new"), ":0");
}
