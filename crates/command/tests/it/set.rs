//! The set commands of Redis 8.10. The replies are those that its documentation and its clients' tests tell of.

use std::collections::BTreeSet;

use proptest::prelude::*;

use crate::session::Session;

const WRONG_TYPE: &str = "-WRONGTYPE Operation against a key holding the wrong kind of value";

#[test]
fn unions_and_differences_are_counted() {
    let mut session = Session::new();
    for (line, reply) in [
        ("SADD a a b c", ":3"),
        ("SADD b c d e", ":3"),
        ("SET string 1", "+OK"),
        ("SUNIONCARD 2 a b", ":5"),
        ("SUNIONCARD 2 a b LIMIT 3", ":3"),
        ("SUNIONCARD 2 a b LIMIT 4", ":4"),
        ("SUNIONCARD 2 a b limit 0", ":5"),
        ("SUNIONCARD 2 a b APPROX", ":5"),
        ("SUNIONCARD 2 a b APPROX LIMIT 2", ":2"),
        ("SUNIONCARD 2 a b LIMIT 2 APPROX", ":2"),
        ("SUNIONCARD 2 a missing", ":3"),
        ("SUNIONCARD 1 missing", ":0"),
        ("SUNIONCARD 3 a a a", ":3"),
        ("SDIFFCARD 2 a b", ":2"),
        ("SDIFFCARD 2 a b LIMIT 1", ":1"),
        ("SDIFFCARD 2 a b LIMIT 0", ":2"),
        ("SDIFFCARD 2 a missing", ":3"),
        ("SDIFFCARD 2 missing a", ":0"),
        ("SDIFFCARD 1 a", ":3"),
        ("SDIFFCARD 2 a a", ":0"),
        ("SDIFFCARD 2 a b APPROX", "-ERR syntax error"),
        ("SUNIONCARD 0 a", "-ERR numkeys should be greater than 0"),
        ("SDIFFCARD x a", "-ERR numkeys should be greater than 0"),
        ("SUNIONCARD 3 a b", "-ERR Number of keys can't be greater than number of args"),
        ("SUNIONCARD 2 a b LIMIT", "-ERR syntax error"),
        ("SUNIONCARD 2 a b c", "-ERR syntax error"),
        ("SDIFFCARD 2 a b LIMIT -1", "-ERR LIMIT can't be negative"),
        ("SUNIONCARD 2 a string", WRONG_TYPE),
        ("SDIFFCARD 2 a string", WRONG_TYPE),
    ] {
        assert_eq!(session.run(line), reply, "{line}");
    }
}

#[test]
fn about_how_many_is_what_pfcount_says() {
    let mut session = Session::new();
    for number in 0..3000 {
        session.run(&format!("SADD {} m{number}", if number % 3 == 0 { "a" } else { "b" }));
        session.run(&format!("PFADD h m{number}"));
    }
    assert_eq!(session.run("SUNIONCARD 2 a b"), ":3000");
    let about = session.run("PFCOUNT h");
    assert_eq!(session.run("SUNIONCARD 2 b a APPROX"), about);
    // Of many, too, the reply is at most the limit.
    for number in 3000..9000 {
        session.run(&format!("SADD {} m{number}", if number % 2 == 0 { "a" } else { "b" }));
    }
    assert_eq!(session.run("SUNIONCARD 2 b a APPROX LIMIT 6000"), ":6000");
}

#[test]
fn nothing_is_estimated_that_is_soon_counted() {
    let mut session = Session::new();
    let mut has_been_low = [false; 2];
    for size in 1..=6000 {
        session.run(&format!("SADD a m{size}"));
        let about: usize = session.run("SUNIONCARD 1 a APPROX")[1..].parse().unwrap();
        if about < size {
            has_been_low[usize::from(size > 5000)] = true;
            // The set is as large as the limit, or all are small.
            let limited = format!("SUNIONCARD 2 a missing APPROX LIMIT {size}");
            assert_eq!(session.run(&limited), format!(":{size}"));
        }
        if about < size && size < 4096 {
            assert_eq!(session.run("SUNIONCARD 1 a APPROX LIMIT 4096"), format!(":{size}"));
        }
        if size > 5000 {
            let limited = session.run("SUNIONCARD 1 a APPROX LIMIT 7000");
            assert_eq!(limited, format!(":{about}"), "it is not reached by one set, and high");
        }
    }
    assert_eq!(has_been_low, [true; 2], "sizes whose estimate is too low");
}

proptest! {
    #[test]
    fn counts_are_those_of_the_sets(
        sets in prop::collection::vec(prop::collection::btree_set(0u16..700, 0..400), 1..5),
        limit in 0usize..500,
    ) {
        let mut session = Session::new();
        let mut keys = String::new();
        for (number, set) in sets.iter().enumerate() {
            keys += &format!(" k{number}");
            for member in set {
                session.run(&format!("SADD k{number} {member}"));
            }
        }
        let count = sets.len();
        let union: BTreeSet<u16> = sets.iter().flatten().copied().collect();
        let others: BTreeSet<u16> = sets[1..].iter().flatten().copied().collect();
        let capped = |size: usize| if limit == 0 { size } else { size.min(limit) };
        let union = capped(union.len());
        let difference = capped(sets[0].difference(&others).count());
        prop_assert_eq!(session.run(&format!("SUNIONCARD {count}{keys} LIMIT {limit}")), format!(":{union}"));
        prop_assert_eq!(session.run(&format!("SDIFFCARD {count}{keys} LIMIT {limit}")), format!(":{difference}"));
    }
}
